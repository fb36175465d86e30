/* Maps of bytes, element by element: csdf_map_bytes.
 *
 * Sixteen at a time; what is left of a line goes through a copy. Results are those of one processor and of the other:
 * products and sums are fused where the operation says so, and kept apart where it does not.
 */
#include "map_bytes.h"

CSDF_INLINE void add(const line *l, uint8_t *out, const uint8_t *a, const uint8_t *b)
{
    const csdf_byte_map_step *s = l->step;
    const csdf_bounds bounds = csdf_bounds_of(0, s->low, s->high);
    const csdf_v first = csdf_splat(s->set[0]), second = csdf_splat(s->set[1]), rest = csdf_splat(s->set[2]);
    csdf_i x[CSDF_BLOCK_VECTORS], y[CSDF_BLOCK_VECTORS];
    integers(x, l, 0, a, 0);
    integers(y, l, 1, b, 0);
    CSDF_EACH(v)
        x[v] = csdf_round(csdf_fused(csdf_float(x[v]), first, csdf_fused(csdf_float(y[v]), second, rest)), &bounds);
    csdf_narrow(out, x);
}

CSDF_INLINE void multiply(const line *l, uint8_t *out, const uint8_t *a, const uint8_t *b)
{
    const csdf_byte_map_step *s = l->step;
    const csdf_bounds bounds = csdf_bounds_of(0, s->low, s->high);
    const csdf_v factor = csdf_splat(s->set[0]), zero = csdf_splat(s->set[1]);
    csdf_i x[CSDF_BLOCK_VECTORS], y[CSDF_BLOCK_VECTORS];
    integers(x, l, 0, a, s->zeros[0]);
    integers(y, l, 1, b, s->zeros[1]);
    CSDF_EACH(v)
        x[v] = csdf_round(csdf_apart(csdf_float(x[v] * y[v]), factor) + zero, &bounds);
    csdf_narrow(out, x);
}

CSDF_INLINE void quantize(const line *l, uint8_t *out, const uint8_t *a, const uint8_t *b)
{
    const csdf_byte_map_step *s = l->step;
    const int32_t zero = (int32_t)s->set[1];
    const csdf_bounds bounds = csdf_bounds_of(zero, s->low, s->high);
    const csdf_v scale = csdf_splat(s->set[0]), inverse = csdf_splat(1.0f / s->set[0]);
    csdf_i x[CSDF_BLOCK_VECTORS];
    float values[16];
    (void)b;
    memcpy(values, a, sizeof values);
    CSDF_EACH(v)
        x[v] = csdf_round(csdf_quotient(csdf_load(values + v * CSDF_LANES), scale, inverse), &bounds);
    csdf_narrow(out, x);
}

CSDF_INLINE void dequantize(const line *l, uint8_t *out, const uint8_t *a, const uint8_t *b)
{
    const csdf_v scale = csdf_splat(l->step->set[0]);
    csdf_i x[CSDF_BLOCK_VECTORS];
    float values[16];
    (void)b;
    integers(x, l, 0, a, l->step->zeros[0]);
    CSDF_EACH(v)
        csdf_store(values + v * CSDF_LANES, csdf_float(x[v]) * scale);
    memcpy(out, values, sizeof values);
}

#define EVEN CSDF_MULTIPLE(map_bytes__channels, 16)

static void adding(const line *l) { each(l, add, EVEN, 1, 1); }
static void multiplying(const line *l) { each(l, multiply, EVEN, 1, 1); }
static void quantizing(const line *l) { each(l, quantize, EVEN, 4, 1); }
static void dequantizing(const line *l) { each(l, dequantize, EVEN, 1, 4); }

static void looking(const line *l)
{
    const uint8_t *table = l->step->table, *in = l->in[0];
    uint8_t *out = l->out;
    for (ptrdiff_t i = 0; i < l->n; i++)
        out[i] = table[in[i]];
}

#define USED(operation, kernel) (CSDF_MAY(map_bytes__operation, operation) ? (kernel) : NULL)

void csdf_map_bytes(const csdf_byte_map_step *step)
{
    static void (*const kernels[])(const line *) = {USED(CSDF_TABLE, looking), USED(CSDF_ADD_BYTES, adding),
        USED(CSDF_MULTIPLY_BYTES, multiplying), USED(CSDF_QUANTIZE, quantizing), USED(CSDF_DEQUANTIZE, dequantizing)};
    every_line(step, kernels[step->operation]);
}

void csdf_map_bytes_of(const void *step) { csdf_map_bytes(step); }
