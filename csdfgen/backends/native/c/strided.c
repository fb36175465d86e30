/* How are elements visited, and what is a float16? */
#include "strided.h"

void csdf_each(const csdf_strided *step, void (*line)(const csdf_line *))
{
    csdf_line l = {step->a, step->b, step->c, step->out, 1, 0, 0, 0, 0};
    const int32_t outer = step->rank - 1;
    if (outer >= 0) {
        const csdf_dim *last = step->dims + outer;
        l.n = last->size;
        l.sa = last->a;
        l.sb = last->b;
        l.sc = last->c;
        l.so = last->out;
    }
    if (outer <= 0) { /* most of them: without numbers of other dimensions */
        line(&l);
        return;
    }
    ptrdiff_t at[CSDF_RANK] = {0};
    for (;;) {
        line(&l);
        int32_t k = outer - 1;
        for (; k >= 0; k--) {
            const csdf_dim *dim = step->dims + k;
            if (++at[k] < dim->size) {
                l.a += dim->a;
                l.b += dim->b;
                l.c += dim->c;
                l.out += dim->out;
                break;
            }
            at[k] = 0;
            l.a -= (dim->size - 1) * dim->a;
            l.b -= (dim->size - 1) * dim->b;
            l.c -= (dim->size - 1) * dim->c;
            l.out -= (dim->size - 1) * dim->out;
        }
        if (k < 0)
            return;
    }
}
