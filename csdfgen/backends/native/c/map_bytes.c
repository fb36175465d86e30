/* Maps of bytes, element by element: csdf_map_bytes.
 *
 * Sixteen at a time; what is left of a line goes through a copy. Results are those of one processor and of the other:
 * products and sums are fused where the operation says so, and kept apart where it does not.
 */
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

/* All of a line. from, to: bytes of an element of the operands, and of the output. */
CSDF_INLINE void each(const line *given, sixteen *compute, ptrdiff_t from, ptrdiff_t to)
{
    /* no byte that is written is one of these: they stay in registers */
    const csdf_byte_map_step step = *given->step;
    line own = *given;
    const line *const l = &own;
    own.step = &step;
    const ptrdiff_t a = l->unit[0] ? from : 0, b = l->unit[1] ? from : 0;
    ptrdiff_t i = 0;
    for (; i + 16 <= l->n; i += 16)
        compute(l, l->out + i * to, l->in[0] + i * a, l->in[1] + i * b);
    if (i < l->n) {
        const size_t rest = (size_t)(l->n - i);
        uint8_t some[2][64] = {{0}}, made[64];
        memcpy(some[0], l->in[0] + i * a, a ? rest * (size_t)a : 1);
        memcpy(some[1], l->in[1] + i * b, b ? rest * (size_t)b : 1);
        compute(l, made, some[0], some[1]);
        memcpy(l->out + i * to, made, rest * (size_t)to);
    }
}

static void adding(const line *l) { each(l, add, 1, 1); }
static void multiplying(const line *l) { each(l, multiply, 1, 1); }
static void quantizing(const line *l) { each(l, quantize, 4, 1); }
static void dequantizing(const line *l) { each(l, dequantize, 1, 4); }

static void looking(const line *l)
{
    const uint8_t *table = l->step->table, *in = l->in[0];
    uint8_t *out = l->out;
    for (ptrdiff_t i = 0; i < l->n; i++)
        out[i] = table[in[i]];
}

void csdf_map_bytes(const csdf_byte_map_step *step)
{
    static void (*const kernels[])(const line *) = {looking, adding, multiplying, quantizing, dequantizing};
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
            kernels[step->operation](&l);
            l.out += step->stride;
            l.in[0] += step->operands[0].stride;
            l.in[1] += step->operands[two].stride;
        }
    }
}

void csdf_map_bytes_of(const void *step) { csdf_map_bytes(step); }
