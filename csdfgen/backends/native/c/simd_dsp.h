/* What do pairs of 16 bits in a word do for bytes (the DSP instructions of Armv7E-M and Armv8-M)? Part of simd_bytes.h.
 *
 * Four bytes of a word become two pairs: the first and the third, the second and the fourth. Values become pairs once, before
 * all outputs meet them; weights do for two pixels at a time.
 */
#ifndef CSDF_SIMD_DSP_H
#define CSDF_SIMD_DSP_H

#define CSDF_TWICE _Pragma("GCC unroll 2")

typedef int32_t csdf_pair __attribute__((may_alias)); /* two of 16 bits */

CSDF_INLINE int16x2_t csdf_even_bytes(csdf_pair word) { return __sxtb16((int8x4_t)word); }
CSDF_INLINE int16x2_t csdf_odd_bytes(csdf_pair word)
{
    int16x2_t pair;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
    return pair;
}

CSDF_INLINE int16x2_t csdf_even_unsigned(csdf_pair word) { return (int16x2_t)__uxtb16((uint8x4_t)word); }
CSDF_INLINE int16x2_t csdf_odd_unsigned(csdf_pair word)
{
    int16x2_t pair;
    __asm__("uxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
    return pair;
}

#if defined(__ARM_FP) && __ARM_FP & 4
#define CSDF_DSP_NEAREST 1

/* The nearest integer, half to even; the largest or the least one beyond these. */
CSDF_INLINE int32_t csdf_nearest(float x)
{
    float integer;
    int32_t bits;
    __asm__("vcvtr.s32.f32 %0, %1" : "=t"(integer) : "t"(x));
    memcpy(&bits, &integer, sizeof bits);
    return bits;
}

/* Adds four integers of 16 bits times a factor to sums, each operation rounded by itself. even: the first and the third. */
CSDF_INLINE void csdf_add_products(float *sums, int32_t even, int32_t odd, float factor)
{
    __asm__("vmov s28, s29, %4, %5\n\tvmov s30, s31, %6, %7\n\t"
            "vcvt.f32.s16 s28, s28, #0\n\tvcvt.f32.s32 s29, s29\n\tvcvt.f32.s16 s30, s30, #0\n\tvcvt.f32.s32 s31, s31\n\t"
            "vmul.f32 s28, s28, %8\n\tvmul.f32 s29, s29, %8\n\tvmul.f32 s30, s30, %8\n\tvmul.f32 s31, s31, %8\n\t"
            "vadd.f32 %0, %0, s28\n\tvadd.f32 %1, %1, s30\n\tvadd.f32 %2, %2, s29\n\tvadd.f32 %3, %3, s31"
            : "+t"(sums[0]), "+t"(sums[1]), "+t"(sums[2]), "+t"(sums[3])
            : "r"(even), "r"(even >> 16), "r"(odd), "r"(odd >> 16), "t"(factor)
            : "s28", "s29", "s30", "s31");
}

/* Of the bytes of a word: the first and the third added to a pair, and the others. */
CSDF_INLINE int32_t csdf_add_even(int32_t pair, uint32_t word) { return (int32_t)__sxtab16((int16x2_t)pair, (int8x4_t)word); }
CSDF_INLINE int32_t csdf_add_odd(int32_t pair, uint32_t word)
{
    int32_t sums;
    __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(sums) : "r"(pair), "r"(word));
    return sums;
}
#endif

/* n bytes, a multiple of four, as pairs: of one pixel, or of two (a constant), four of the first, four of the second, ... */
CSDF_INLINE void csdf_to_pairs(int two, int16_t *to, const int8_t *from, ptrdiff_t n)
{
    csdf_pair *pairs = (csdf_pair *)(void *)to;
    const csdf_pair *a = (const csdf_pair *)(const void *)from, *b = a + n / 4;
    for (const csdf_pair *end = b; a != end; pairs += two ? 4 : 2) {
        const csdf_pair x = *a++;
        pairs[0] = csdf_even_bytes(x);
        pairs[1] = csdf_odd_bytes(x);
        if (two) {
            const csdf_pair y = *b++;
            pairs[2] = csdf_even_bytes(y);
            pairs[3] = csdf_odd_bytes(y);
        }
    }
}

/* Sums of outputs of one or two pixels, two outputs at a time. two: a constant. */
CSDF_INLINE void csdf_dsp_dots(int two, const int16_t *x, const int8_t *weights, ptrdiff_t steps, const int32_t *from,
    ptrdiff_t apart, int32_t *to, int32_t outs)
{
    const csdf_pair *const begin = (const csdf_pair *)(const void *)x, *const end = begin + (two ? 4 : 2) * steps;
    for (; outs > 0; outs -= 2, weights += 8, from += 2, to += 2) {
        const csdf_pair *w = (const csdf_pair *)(const void *)weights;
        int32_t a = from[0], b = from[1], c = two ? from[apart] : 0, d = two ? from[apart + 1] : 0;
        CSDF_TWICE
        for (const csdf_pair *p = begin; p != end; p += two ? 4 : 2, w += CSDF_PANEL) {
            const csdf_pair u = w[0], v = w[1];
            const int16x2_t u_even = csdf_even_bytes(u), u_odd = csdf_odd_bytes(u);
            const int16x2_t v_even = csdf_even_bytes(v), v_odd = csdf_odd_bytes(v);
            a = __smlad(p[1], u_odd, __smlad(p[0], u_even, a));
            b = __smlad(p[1], v_odd, __smlad(p[0], v_even, b));
            if (two) {
                c = __smlad(p[3], u_odd, __smlad(p[2], u_even, c));
                d = __smlad(p[3], v_odd, __smlad(p[2], v_even, d));
            }
        }
        to[0] = a;
        to[1] = b;
        if (two) {
            to[CSDF_PANEL] = c;
            to[CSDF_PANEL + 1] = d;
        }
    }
}

#define CSDF_DSP_DOTS(pixels) \
    static void dots_##pixels(const csdf_x *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps, const int32_t *from, \
        ptrdiff_t apart, int32_t *to, int32_t outs) \
    { \
        (void)pitch; \
        csdf_dsp_dots(pixels == 2, x, weights, steps, from, apart, to, outs); \
    }

#endif
