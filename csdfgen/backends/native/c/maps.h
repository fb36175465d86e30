/* Maps element by element: csdf_map, out = activation(operation(a, b, c)), and activations alone.
 *
 * Operands are maps, or the same pixel for all of a row, or one number for all channels.
 */
#ifndef CSDF_MAPS_H
#define CSDF_MAPS_H

#include "narrow.h"
#include "products.h"

static inline csdf_v sigmoid(csdf_v x)
{
    const csdf_v one = csdf_splat(1.0f);
    return one / (one + csdf_exponential(csdf_splat(0.0f) - x));
}

static inline csdf_v gate(csdf_v x, csdf_v slope, csdf_v shift)
{
    return csdf_min(csdf_splat(1.0f), csdf_max(csdf_splat(0.0f), slope * x + shift));
}

/* m / (m + 2) with m = e^2x - 1, which is as exact around 0 as elsewhere. */
static inline csdf_v tangent(csdf_v x)
{
    const csdf_v one = csdf_splat(1.0f), two = csdf_splat(2.0f);
    csdf_v moved;
    const csdf_v rest = csdf_reduced(two * csdf_min(csdf_splat(10.0f), csdf_max(csdf_splat(-10.0f), x)), &moved);
    const csdf_v power = csdf_power_of_two(moved), m = rest * power + (power - one);
    return m / (m + two);
}

/* v with erf(x) = tanh(v) within 1e-7, relatively; from |x| = 3.9 on, the error function is 1 (csdfgen/ops/activation.py). */
static inline csdf_v in_tangent(csdf_v x)
{
    const csdf_v in = csdf_min(csdf_splat(3.9f), csdf_max(csdf_splat(-3.9f), x)), t = in * in;
    csdf_v p = csdf_splat(1.41851859745e-7f) * t + csdf_splat(-5.66846925415e-6f);
    p = p * t + csdf_splat(8.76372884850e-5f);
    p = p * t + csdf_splat(-6.19784555572e-4f);
    p = p * t + csdf_splat(-1.91830922277e-4f);
    p = p * t + csdf_splat(0.102769055846f);
    return x * (p * t + csdf_splat(1.12837927430f));
}

/* (1 + tanh(v)) / 2 is the sigmoid of 2v. */
static inline csdf_v gelu(csdf_v x)
{
    return x * sigmoid(csdf_splat(2.0f) * in_tangent(csdf_splat(0.70710678118654752f) * x));
}

static inline csdf_v gelu_by_cubic(csdf_v x)
{
    const csdf_v in = csdf_min(csdf_splat(10.0f), csdf_max(csdf_splat(-10.0f), x));
    return x * sigmoid(x * (csdf_splat(0.0713548162726f) * (in * in) + csdf_splat(1.59576912160573f)));
}

/* n / (n + 2) with n = e^x (e^x + 2) is 1 from x = 20 on. */
static inline csdf_v mish(csdf_v x)
{
    const csdf_v two = csdf_splat(2.0f), e = csdf_exponential(csdf_min(csdf_splat(20.0f), x)), n = e * (e + two);
    return x * (n / (n + two));
}

/* All values of a line; the output may be the input. */
#define EACH(expression) \
    { \
        ptrdiff_t c = 0; \
        for (; c + CSDF_LANES <= n; c += CSDF_LANES) { \
            const csdf_v x = TAKE(in + c); \
            GIVE(out + c, (expression)); \
        } \
        if (c < n) { \
            const csdf_v x = TAKE_SOME(in + c, (int)(n - c)); \
            GIVE_SOME(out + c, (expression), (int)(n - c)); \
        } \
    }

static void activate(element *out, const element *in, ptrdiff_t n, const csdf_activation *by)
{
    const csdf_v a = csdf_splat(by->a), b = csdf_splat(by->b);
    if (by->kind == CSDF_SIGMOID)
        EACH(sigmoid(x))
    else if (by->kind == CSDF_SWISH)
        EACH(x *sigmoid(a *x))
    else if (by->kind == CSDF_HARD_SIGMOID)
        EACH(gate(x, a, b))
    else if (by->kind == CSDF_HARD_SWISH)
        EACH(x *gate(x, a, b))
    else if (by->kind == CSDF_TANH)
        EACH(tangent(x))
    else if (by->kind == CSDF_ERF)
        EACH(tangent(in_tangent(x)))
    else if (by->kind == CSDF_GELU)
        EACH(gelu(x))
    else if (by->kind == CSDF_GELU_TANH)
        EACH(gelu_by_cubic(x))
    else if (by->kind == CSDF_MISH)
        EACH(mish(x))
}

typedef struct line {
    element *out;
    const element *in[3];
    ptrdiff_t n;
    int32_t unit[3];
    csdf_activation activation;
} line;

/* Operands that are numbers are in `number`; those behind the first are floats where they are `wide`. */
#define AS_FLOATS(k, c) ((const float *)(const void *)l->in[k] + (c))
#define GET(k, c, wide) (!l->unit[k] ? number[k] : k && wide ? csdf_load(AS_FLOATS(k, c)) : TAKE(l->in[k] + (c)))
#define GET_SOME(k, c, n, wide) \
    (!l->unit[k] ? number[k] : k && wide ? csdf_load_some(AS_FLOATS(k, c), n) : TAKE_SOME(l->in[k] + (c), n))

#define LINE(name, many, wide, expression) \
    static void name(const line *l) \
    { \
        csdf_v number[3] = {csdf_splat(0.0f), csdf_splat(0.0f), csdf_splat(0.0f)}; \
        const csdf_activation by = l->activation; \
        const ptrdiff_t n = l->n; \
        ptrdiff_t i = 0; \
        for (int k = 0; k < many; k++) \
            if (!l->unit[k]) \
                number[k] = csdf_splat(k && wide ? *AS_FLOATS(k, 0) : FLOAT_OF(*l->in[k])); \
        for (; i + CSDF_LANES <= n; i += CSDF_LANES) { \
            const csdf_v a = GET(0, i, wide), b = many > 1 ? GET(1, i, wide) : a, c = many > 2 ? GET(2, i, wide) : a; \
            (void)b, (void)c; \
            GIVE(l->out + i, csdf_activated((expression), &by)); \
        } \
        if (i < n) { \
            const int rest = (int)(n - i); \
            const csdf_v a = GET_SOME(0, i, rest, wide), b = many > 1 ? GET_SOME(1, i, rest, wide) : a, \
                         c = many > 2 ? GET_SOME(2, i, rest, wide) : a; \
            (void)b, (void)c; \
            GIVE_SOME(l->out + i, csdf_activated((expression), &by), rest); \
        } \
    }

LINE(copy, 1, 0, a)
LINE(add, 2, 0, a + b)
LINE(subtract, 2, 0, a - b)
LINE(multiply, 2, 0, a *b)
LINE(divide, 2, 0, a / b)
LINE(scale, 3, 1, a *b + c)
LINE(leak, 2, 0, csdf_leaking(a, b))

static void map(const csdf_map_step *step)
{
    static void (*const kernels[])(const line *) = {copy, add, subtract, multiply, divide, scale, leak};
    void (*const kernel)(const line *) = kernels[step->operation];
    const int32_t inside = step->activation.kind <= CSDF_LEAKY;
    const int32_t alone = !inside && step->operation == CSDF_COPY && step->operands[0].channels;
    line l;
    l.n = step->channels;
    l.activation = step->activation;
    if (!inside)
        l.activation.kind = CSDF_NONE;
    for (int32_t row = 0; row < step->count; row++) {
        l.out = (element *)(void *)step->out[row];
        for (int32_t k = 0; k < 3; k++) {
            l.in[k] = step->operands[k].rows ? (const element *)(const void *)step->operands[k].rows[row] : NULL;
            l.unit[k] = step->operands[k].channels;
        }
        for (int32_t x = 0; x < step->columns; x++) {
            if (alone) {
                activate(l.out, l.in[0], l.n, &step->activation);
            } else {
                kernel(&l);
                if (!inside)
                    activate(l.out, l.out, l.n, &step->activation);
            }
            l.out += step->stride;
            for (int32_t k = 0; k < 3; k++)
                if (l.in[k])
                    l.in[k] += step->operands[k].stride;
        }
    }
}

#endif
