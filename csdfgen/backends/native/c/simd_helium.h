/* What do the vectors of Armv8.1-M (Helium) do for bytes? Part of simd_bytes.h.
 *
 * A product adds up sixteen terms of one output: its weights, four at a time, lie a step of the panel apart, and are gathered
 * as words. Layout and sums are those of all processors.
 */
#ifndef CSDF_SIMD_HELIUM_H
#define CSDF_SIMD_HELIUM_H

/* Loops over few pixels or vectors, which are registers. */
#define CSDF_UNROLLED _Pragma("GCC unroll 4")

/* Sixteen products of each of some pixels with weights of two outputs, the words of the first of which lie `at` these places.
 * whole: else four products of each word in `some`. */
CSDF_INLINE void csdf_helium_products(int pixels, int whole, mve_pred16_t some, uint32x4_t at, const int8_t *const *x, int32_t *a,
    int32_t *b)
{
    const int8x16_t u = (int8x16_t)(whole ? vldrwq_gather_base_s32(at, 0) : vldrwq_gather_base_z_s32(at, 0, some));
    const int8x16_t v = (int8x16_t)(whole ? vldrwq_gather_base_s32(at, 4) : vldrwq_gather_base_z_s32(at, 4, some));
    CSDF_UNROLLED
    for (int i = 0; i < pixels; i++) {
        const int8x16_t values = whole ? vldrbq_s8(x[i]) : vldrbq_z_s8(x[i], some);
        a[i] = vmladavaq_s8(a[i], values, u);
        b[i] = vmladavaq_s8(b[i], values, v);
    }
}

/* Sums of outputs of some pixels, which begin as those in `from`. pixels: a constant, at most three: there are seven registers
 * for sums. */
CSDF_INLINE void csdf_helium_sums(int pixels, const int8_t *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, int32_t *to, int32_t outs)
{
    const uint32x4_t words = vmulq_n_u32(vidupq_n_u32(0, 1), 4 * CSDF_PANEL);
    const int32_t rest = (int32_t)steps % 4;
    const mve_pred16_t some = vctp32q((uint32_t)rest);
    for (int32_t o = 0; o < outs; o += 2) {
        uint32x4_t at = vaddq_n_u32(words, (uint32_t)(uintptr_t)weights + 4 * (uint32_t)o);
        const int8_t *p[3] = {x, x + pitch, x + 2 * pitch};
        int32_t a[3], b[3];
        CSDF_UNROLLED
        for (int i = 0; i < pixels; i++) {
            a[i] = from[o];
            b[i] = from[o + 1];
        }
        for (int32_t k = (int32_t)steps / 4; k > 0; k--) {
            csdf_helium_products(pixels, 1, some, at, p, a, b);
            at = vaddq_n_u32(at, 16 * CSDF_PANEL);
            CSDF_UNROLLED
            for (int i = 0; i < pixels; i++)
                p[i] += 16;
        }
        if (rest)
            csdf_helium_products(pixels, 0, some, at, p, a, b);
        CSDF_UNROLLED
        for (int i = 0; i < pixels; i++) {
            to[CSDF_PANEL * i + o] = a[i];
            to[CSDF_PANEL * i + o + 1] = b[i];
        }
    }
}

/* As csdf_dots of conv_bytes.c. */
#define CSDF_HELIUM_DOTS(pixels) \
    static void dots_##pixels(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps, const int32_t *from, \
        ptrdiff_t apart, int32_t *to, int32_t outs) \
    { \
        int32_t made[pixels * CSDF_PANEL]; \
        if (apart) \
            memset(made, 0, sizeof made); \
        csdf_helium_sums(pixels, x, pitch, weights, steps, apart ? made : from, apart ? made : to, outs); \
        for (int i = 0; i < pixels * CSDF_PANEL && apart; i++) \
            to[i] = from[i] + made[i]; \
    }

/* Bounds and zero point of bytes that are written. */
typedef struct csdf_helium_bounds {
    int16x8_t low, high, zero;
} csdf_helium_bounds;

CSDF_INLINE csdf_helium_bounds csdf_helium_bounds_of(int32_t zero, int32_t low, int32_t high)
{
    const csdf_helium_bounds found = {
        vdupq_n_s16((int16_t)(low - zero)), vdupq_n_s16((int16_t)(high - zero)), vdupq_n_s16((int16_t)zero)};
    return found;
}

/* Eight sums times factors, rounded half to even: those of even and of odd places. */
CSDF_INLINE int16x8_t csdf_helium_rescaled(int32x4_t even, int32x4_t odd, float32x4x2_t factors, const csdf_helium_bounds *by)
{
    const int32x4_t low = vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(even), factors.val[0]));
    const int32x4_t high = vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(odd), factors.val[1]));
    const int16x8_t both = vqmovntq_s32(vqmovnbq_s32((int16x8_t)low, low), high);
    return vaddq_s16(vminq_s16(vmaxq_s16(both, by->low), by->high), by->zero);
}

#endif
