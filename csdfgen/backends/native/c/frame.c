/* A program is a table of kernels and what they are to work on. */
#include "csdf.h"
#include "simd.h"

void csdf_run(const csdf_record *records, int32_t count)
{
    const csdf_float_mode before = csdf_flushing();
    for (const csdf_record *end = records + count; records < end; records++)
        records->kernel(records->step);
    csdf_set_mode(before);
}

csdf_mode csdf_enter(void) { return (csdf_mode)csdf_flushing(); }

void csdf_leave(csdf_mode before) { csdf_set_mode((csdf_float_mode)before); }

void csdf_move(const void *step)
{
    const csdf_transfer *t = step;
    const csdf_port *port = t->port;
    csdf_dim dims[CSDF_RANK];
    char *at = port->base;
    if (!at)
        return;
    for (int32_t k = 0; k < t->port_rank; k++)
        at += t->starts[k] * port->strides[k];
    for (int32_t k = 0; k < t->rank; k++) {
        const ptrdiff_t ours = t->dims[k].a, theirs = port->strides[t->axes[k]];
        dims[k].size = t->dims[k].size;
        dims[k].a = t->into_port ? ours : theirs;
        dims[k].b = dims[k].c = 0;
        dims[k].out = t->into_port ? theirs : ours;
    }
    csdf_strided copy = {dims, t->rank, 0, NULL, NULL, NULL, NULL, NULL, 0, 0};
    copy.a = t->into_port ? t->memory : at;
    copy.out = t->into_port ? at : t->memory;
    copy.b = copy.c = copy.out;
    port->copy(&copy);
}
