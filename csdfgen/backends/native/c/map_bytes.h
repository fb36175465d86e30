/* What do maps of bytes have in common? How lines of elements are read and written. */
#ifndef CSDF_MAP_BYTES_H
#define CSDF_MAP_BYTES_H

#include "bytes.h"

/* A line of elements. unit: 0 for an operand that is one number for all. */
typedef struct line {
    const csdf_byte_map_step *step;
    uint8_t *out;
    const uint8_t *in[2];
    int32_t unit[2];
    ptrdiff_t n;
} line;

/* Sixteen integers of an operand less `zero`. */
CSDF_INLINE void integers(csdf_i *x, const line *l, int k, const uint8_t *at, int32_t zero)
{
    const int32_t flip = l->step->flip[k];
    const csdf_i more = csdf_splat_i(flip - zero);
    if (l->unit[k]) {
        csdf_widen(x, at, (uint8_t)flip);
        CSDF_EACH(v)
            x[v] += more;
    } else {
        CSDF_EACH(v)
            x[v] = csdf_splat_i((int8_t)(*at ^ flip)) + more;
    }
}

/* Sixteen elements at `out` from those at a and b. */
typedef void sixteen(const line *l, uint8_t *out, const uint8_t *a, const uint8_t *b);

/* All of a line. even: whether lines have multiples of sixteen elements, a constant. from, to: bytes of an element of the operands, and of the output. */
CSDF_INLINE void each(const line *given, sixteen *compute, int even, ptrdiff_t from, ptrdiff_t to)
{
    /* no byte that is written is one of these: they stay in registers */
    const csdf_byte_map_step step = *given->step;
    line own = *given;
    const line *const l = &own;
    own.step = &step;
    const ptrdiff_t a = l->unit[0] ? from : 0, b = l->unit[1] ? from : 0;
    for (ptrdiff_t i = 0; i < l->n; i += 16) {
        const uint8_t *x = l->in[0] + i * a, *y = l->in[1] + i * b;
        uint8_t *out = l->out + i * to, some[2][64], made[64];
        const ptrdiff_t rest = even ? 16 : l->n - i;
        if (rest < 16) {
            memset(some, 0, sizeof some);
            memcpy(some[0], x, a ? (size_t)(rest * a) : 1);
            memcpy(some[1], y, b ? (size_t)(rest * b) : 1);
            x = some[0];
            y = some[1];
            out = made;
        }
        compute(l, out, x, y);
        if (rest < 16)
            memcpy(l->out + i * to, made, (size_t)(rest * to));
    }
}

/* All lines. */
CSDF_INLINE void every_line(const csdf_byte_map_step *step, void (*compute)(const line *))
{
    const int32_t two = step->operands[1].rows != NULL;
    line l;
    l.step = step;
    l.n = step->channels;
    for (int k = 0; k < 2; k++)
        l.unit[k] = step->operands[k ? two : 0].channels;
    for (int32_t row = 0; row < step->count; row++) {
        l.out = step->out[row];
        l.in[0] = step->operands[0].rows[row];
        l.in[1] = two ? step->operands[1].rows[row] : l.in[0];
        for (int32_t x = 0; x < step->columns; x++) {
            compute(&l);
            l.out += step->stride;
            l.in[0] += step->operands[0].stride;
            l.in[1] += step->operands[two].stride;
        }
    }
}

#endif
