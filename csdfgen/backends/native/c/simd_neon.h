/* What is a product of bytes on Armv8? A part of simd_bytes.h. */
#ifndef CSDF_SIMD_NEON_H
#define CSDF_SIMD_NEON_H

#if CSDF_DOT_NEON == 4
#define CSDF_OUTS 4
#define CSDF_VECTORS 4
#define CSDF_PIXELS 6
typedef int32x4_t csdf_sum;
typedef int8x16_t csdf_four, csdf_taps;
CSDF_INLINE csdf_sum csdf_none(void) { return vdupq_n_s32(0); }
CSDF_INLINE csdf_four csdf_spread(const csdf_e *at) { return vreinterpretq_s8_s32(vdupq_n_s32(csdf_word(at))); }
CSDF_INLINE csdf_taps csdf_weights(const int8_t *at) { return vld1q_s8(at); }
CSDF_INLINE csdf_sum csdf_dot(csdf_sum sum, csdf_four x, csdf_taps w) { return vdotq_s32(sum, w, x); }
/* Four times four values of a pixel, of which the n-th four are multiplied: see simd.h. */
CSDF_INLINE csdf_four csdf_sixteen(const csdf_e *at) { return vld1q_s8(at); }
#define CSDF_DOT_BY(sum, x, w, n) __asm__ volatile("sdot %0.4s, %1.16b, %2.4b[" #n "]" : "+w"(sum) : "w"(w), "w"(x))
CSDF_INLINE void csdf_put(int32_t *at, const int32_t *from, csdf_sum a, csdf_sum b)
{
    vst1q_s32(at, vaddq_s32(a, vld1q_s32(from)));
    vst1q_s32(at + 4, vaddq_s32(b, vld1q_s32(from + 4)));
}

#else
/* Lanes are sums of two products: two of an output. */
#define CSDF_OUTS 2
#define CSDF_VECTORS 4
#define CSDF_PIXELS 5
typedef int32x4_t csdf_sum;
typedef int8x8_t csdf_four, csdf_taps;
CSDF_INLINE csdf_sum csdf_none(void) { return vdupq_n_s32(0); }
CSDF_INLINE csdf_four csdf_spread(const csdf_e *at) { return vreinterpret_s8_s32(vdup_n_s32(csdf_word(at))); }
CSDF_INLINE csdf_taps csdf_weights(const int8_t *at) { return vld1_s8(at); }
CSDF_INLINE csdf_sum csdf_dot(csdf_sum sum, csdf_four x, csdf_taps w) { return vpadalq_s16(sum, vmull_s8(w, x)); }
CSDF_INLINE void csdf_put(int32_t *at, const int32_t *from, csdf_sum a, csdf_sum b)
{
    vst1q_s32(at, vaddq_s32(vpaddq_s32(a, b), vld1q_s32(from)));
}
#endif

/* Sums of sixteen channels, to which a tap of a depthwise layer is added; two taps have their weights in turn, as
 * csdf_two_taps takes them apart. flip: by which bits values differ from signed bytes. */
#define CSDF_SIXTEEN 1
typedef int32x4x4_t csdf_sixteen_sums;
typedef int8x16x2_t csdf_two_taps;
CSDF_INLINE csdf_sixteen_sums csdf_sixteen_begun(const int32_t *at) { return vld1q_s32_x4(at); }
CSDF_INLINE void csdf_sixteen_put(int32_t *at, csdf_sixteen_sums sums) { vst1q_s32_x4(at, sums); }
CSDF_INLINE csdf_two_taps csdf_two_taps_of(const int8_t *at) { return vld2q_s8(at); }
CSDF_INLINE csdf_sixteen_sums csdf_sixteen_tap(csdf_sixteen_sums sums, const uint8_t *at, uint8_t flip, int8x16_t w)
{
    const int8x16_t x = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(at), vdupq_n_u8(flip)));
    const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(w)), high = vmull_high_s8(x, w);
    sums.val[0] = vaddw_s16(sums.val[0], vget_low_s16(low));
    sums.val[1] = vaddw_high_s16(sums.val[1], low);
    sums.val[2] = vaddw_s16(sums.val[2], vget_low_s16(high));
    sums.val[3] = vaddw_high_s16(sums.val[3], high);
    return sums;
}

#endif
