/* Sums and products of bytes become bytes by integers alone: csdf_map_integers.
 *
 * A multiplier has two halves of 15 bits, so that all numbers have 32 bits: the product with the lower half, shifted
 * down, is added to that with the upper one, which gives all bits of the product above the lowest 15.
 */
#include "map_bytes.h"

enum { HALF = 15 };

/* Bytes of integers, moved by the zero point, within the bounds. */
CSDF_INLINE csdf_i bounded(csdf_i x, const csdf_byte_map_step *s)
{
    return csdf_min_i(csdf_splat_i(s->high), csdf_max_i(csdf_splat_i(s->low), x + csdf_splat_i(s->zero)));
}

CSDF_INLINE void add(const line *l, uint8_t *out, const uint8_t *a, const uint8_t *b)
{
    const csdf_byte_map_step *s = l->step;
    csdf_i x[CSDF_BLOCK_VECTORS], y[CSDF_BLOCK_VECTORS];
    integers(x, l, 0, a, 0);
    integers(y, l, 1, b, 0);
    CSDF_EACH(v) {
        const csdf_i lower = x[v] * s->lower[0] + y[v] * s->lower[1] + s->lower[2];
        const csdf_i upper = x[v] * s->upper[0] + y[v] * s->upper[1] + s->upper[2];
        x[v] = bounded((upper + (lower >> HALF)) >> (s->shift - HALF), s);
    }
    csdf_narrow(out, x);
}

CSDF_INLINE void multiply(const line *l, uint8_t *out, const uint8_t *a, const uint8_t *b)
{
    const csdf_byte_map_step *s = l->step;
    csdf_i x[CSDF_BLOCK_VECTORS], y[CSDF_BLOCK_VECTORS];
    integers(x, l, 0, a, s->zeros[0]);
    integers(y, l, 1, b, s->zeros[1]);
    CSDF_EACH(v) {
        const csdf_i product = x[v] * y[v];
        const csdf_i lower = product * s->lower[0] + s->lower[2];
        x[v] = bounded((product * s->upper[0] + s->upper[2] + (lower >> HALF)) >> (s->shift - HALF), s);
    }
    csdf_narrow(out, x);
}

#define EVEN CSDF_MULTIPLE(map_integers__channels, 16)

static void adding(const line *l) { each(l, add, EVEN, 1, 1); }
static void multiplying(const line *l) { each(l, multiply, EVEN, 1, 1); }

void csdf_map_integers(const csdf_byte_map_step *step)
{
    every_line(step, step->operation == CSDF_ADD_BYTES ? adding : multiplying);
}

void csdf_map_integers_of(const void *step) { csdf_map_integers(step); }
