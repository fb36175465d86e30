/* Sums and products of bytes become bytes by integers alone, rounded as TensorFlow Lite Micro does: csdf_map_twice. */
#include "map_bytes.h"

enum { FINER = 20 };

/* What factor k makes of an integer. */
CSDF_INLINE int32_t times(int32_t x, const csdf_byte_map_step *s, int k)
{
    return csdf_twice(x, (s->upper[k] & 0xffff) << 15 | s->lower[k], -(s->upper[k] >> 16));
}

CSDF_INLINE void compute(const line *l, uint8_t *out, const uint8_t *a, const uint8_t *b, int adds)
{
    const csdf_byte_map_step *s = l->step;
    csdf_i x[CSDF_BLOCK_VECTORS], y[CSDF_BLOCK_VECTORS];
    int32_t p[16], q[16];
    integers(x, l, 0, a, s->zeros[0]);
    integers(y, l, 1, b, s->zeros[1]);
    memcpy(p, x, sizeof p);
    memcpy(q, y, sizeof q);
    for (int k = 0; k < 16; k++) {
        const int32_t value = adds ? times(times(p[k] * (1 << FINER), s, 0) + times(q[k] * (1 << FINER), s, 1), s, 2)
                                   : times(p[k] * q[k], s, 0);
        out[k] = (uint8_t)(s->zero + least(s->high - s->zero, most(s->low - s->zero, value)));
    }
}

CSDF_INLINE void add(const line *l, uint8_t *out, const uint8_t *a, const uint8_t *b) { compute(l, out, a, b, 1); }
CSDF_INLINE void multiply(const line *l, uint8_t *out, const uint8_t *a, const uint8_t *b) { compute(l, out, a, b, 0); }

#define EVEN CSDF_MULTIPLE(map_twice__channels, 16)

static void adding(const line *l) { each(l, add, EVEN, 1, 1); }
static void multiplying(const line *l) { each(l, multiply, EVEN, 1, 1); }

void csdf_map_twice(const csdf_byte_map_step *step)
{
    every_line(step, step->operation == CSDF_ADD_BYTES ? adding : multiplying);
}

void csdf_map_twice_of(const void *step) { csdf_map_twice(step); }
