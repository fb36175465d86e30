/* Everything that is not worth a kernel of its own: one operation on every element of some arrays.
 *
 * Arrays have up to CSDF_RANK dimensions and any strides, zero (the same element again) and negative
 * ones included. Elements are visited in the order of the dimensions, the last one fastest, one after
 * the other: where the output is an operand too, or an element of it is met again (stride zero), the
 * later visit sees what the earlier one wrote.
 */
#ifndef CSDF_STRIDED_H
#define CSDF_STRIDED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { CSDF_RANK = 10 };

/* How many, and bytes from one to the next of each operand and of the output. */
typedef struct csdf_dim {
    ptrdiff_t size, a, b, c, out;
} csdf_dim;

/* Operands that an operation does not have are the output, with strides of zero.
 * index, count, along, out_along: of csdf_take, csdf_arg and the kernels of index.c alone, see there. */
typedef struct csdf_strided {
    const csdf_dim *dims;
    int32_t rank;
    int32_t count;
    const void *a, *b, *c;
    void *out;
    const int32_t *index;
    ptrdiff_t along, out_along;
} csdf_strided;

/* The elements along the last dimension. */
typedef struct csdf_line {
    const char *a, *b, *c;
    char *out;
    ptrdiff_t n, sa, sb, sc, so;
} csdf_line;

/* Calls `line` for the elements along the last dimension, of all others in turn. */
void csdf_each(const csdf_strided *step, void (*line)(const csdf_line *));

/* A kernel csdf_NAME_TYPE of the elements of a line. */
#define CSDF_KERNEL(name) \
    void csdf_##name(const void *step); \
    static void name##_line(const csdf_line *l); \
    void csdf_##name(const void *step) { csdf_each(step, name##_line); } \
    static void name##_line(const csdf_line *l)

static inline float csdf_float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t csdf_bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* float16 as the 16 bits that it is stored in. Processors that convert it and those that do not give the same bits:
 * rounded to the nearest, half to even; what is no number becomes quiet. */
typedef struct csdf_f16 {
    uint16_t bits;
} csdf_f16;

#if !defined(CSDF_SCALAR) && defined(__GNUC__) && defined(__F16C__)
#include <immintrin.h>
static inline float csdf_from_f16(csdf_f16 half) { return _cvtsh_ss(half.bits); }
static inline csdf_f16 csdf_to_f16(float value) { return (csdf_f16){_cvtss_sh(value, 0)}; }
#else
static inline float csdf_from_f16(csdf_f16 half)
{
    const uint32_t sign = (uint32_t)(half.bits & 0x8000u) << 16, rest = half.bits & 0x7fffu;
    if (rest >= 0x7c00u)
        return csdf_float_of(sign | 0x7f800000u | (rest > 0x7c00u ? 0x400000u : 0u) | (rest & 0x3ffu) << 13);
    const float size = rest < 0x400u ? (float)rest * 0x1p-24f : csdf_float_of(rest << 13) * 0x1p112f;
    return csdf_float_of(sign | csdf_bits_of(size));
}

static inline csdf_f16 csdf_to_f16(float value)
{
    const uint32_t bits = csdf_bits_of(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    csdf_f16 half;
    if (rest > 0x7f800000u) {
        half.bits = (uint16_t)(sign | 0x7e00u | (rest >> 13 & 0x3ffu));
    } else if (rest >= 0x47800000u) { /* 65536 and more */
        half.bits = (uint16_t)(sign | 0x7c00u);
    } else if (rest < 0x38800000u) { /* subnormal: the sum rounds at its last bit, which is the half's */
        half.bits = (uint16_t)(sign | (csdf_bits_of(csdf_float_of(rest) + 0.5f) - 0x3f000000u));
    } else {
        const uint32_t odd = rest >> 13 & 1u;
        half.bits = (uint16_t)(sign | ((rest - 0x38000000u + 0xfffu + odd) >> 13));
    }
    return half;
}
#endif

/* bfloat16 as its 16 bits, the upper half of a float: rounded to the nearest, half to even. */
typedef struct csdf_bf16 {
    uint16_t bits;
} csdf_bf16;

static inline float csdf_from_bf16(csdf_bf16 upper)
{
    return csdf_float_of((uint32_t)upper.bits << 16);
}

static inline csdf_bf16 csdf_to_bf16(float value)
{
    const uint32_t bits = csdf_bits_of(value), quiet = (bits >> 16 & 0x8000u) | 0x7fc0u;
    const uint32_t nearest = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    csdf_bf16 upper;
    upper.bits = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : nearest);
    return upper;
}

#endif
