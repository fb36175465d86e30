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
#if CSDF_UNSIGNED
#define CSDF_DOT_X_W "usdot"
#define CSDF_DOT_W_X "sudot"
#else
#define CSDF_DOT_X_W "sdot"
#define CSDF_DOT_W_X "sdot"
#endif
CSDF_INLINE csdf_sum csdf_dot(csdf_sum sum, csdf_four x, csdf_taps w)
{
    __asm__(CSDF_DOT_X_W " %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(x), "w"(w));
    return sum;
}
/* Four times four values of a pixel, of which the n-th four are multiplied: see simd.h. */
CSDF_INLINE csdf_four csdf_sixteen(const csdf_e *at) { return vld1q_s8((const int8_t *)at); }
CSDF_INLINE csdf_four csdf_first_four(const csdf_e *at)
{
    csdf_four x;
    __asm__("ldr %s0, %1" : "=w"(x) : "m"(*(const csdf_e(*)[4])at));
    return x;
}
#define CSDF_DOT_BY(sum, x, w, n) __asm__ volatile(CSDF_DOT_W_X " %0.4s, %1.16b, %2.4b[" #n "]" : "+w"(sum) : "w"(w), "w"(x))
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

/* Factors of sixteen outputs, their zero point, and the bits that are exchanged after bytes from 0 to 255 are made. Where both are
 * 0, a constant `plain` leaves them out. */
typedef struct csdf_ends {
    const float *factors;
    int16x8_t zero;
    uint8x16_t flip;
} csdf_ends;

CSDF_INLINE csdf_ends csdf_ends_of(const float *factors, int32_t zero, int32_t low)
{
    const csdf_ends found = {factors, vdupq_n_s16((int16_t)(zero - low)), vdupq_n_u8((uint8_t)(low < 0 ? 128 : 0))};
    return found;
}

/* Sixteen sums. */
typedef struct csdf_sixteen_sums {
    int32x4_t v[4];
} csdf_sixteen_sums;

/* Eight sums as 16 bits: products rounded half to even. Halves are narrowed together, as compilers would move the register of the
 * first one, and in the order that is written, as they would load factors early and store columns for them. */
CSDF_INLINE int16x8_t csdf_rescaled_eight(const csdf_ends *e, int32x4_t p, int32x4_t q, csdf_v f, csdf_v g, int plain)
{
    const int32x4_t a = vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(p), (float32x4_t)f));
    const int32x4_t b = vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(q), (float32x4_t)g));
    int16x8_t both;
    __asm__ volatile("sqxtn %0.4h, %1.4s\n\tsqxtn2 %0.8h, %2.4s" : "=&w"(both) : "w"(a), "w"(b));
    return plain ? both : vqaddq_s16(both, e->zero);
}

CSDF_INLINE uint8x16_t csdf_bytes_made(const csdf_ends *e, int16x8_t low, int16x8_t high, int plain)
{
    uint8x16_t both;
    __asm__("sqxtun %0.8b, %1.8h\n\tsqxtun2 %0.16b, %2.8h" : "=&w"(both) : "w"(low), "w"(high));
    return plain ? both : veorq_u8(both, e->flip);
}

/* Bytes of sums. */
CSDF_INLINE uint8x16_t csdf_rescaled_sixteen(const csdf_ends *e, csdf_sixteen_sums sums, int plain)
{
    const float *f = e->factors;
    const int16x8_t low = csdf_rescaled_eight(e, sums.v[0], sums.v[1], csdf_load(f), csdf_load(f + 4), plain);
    return csdf_bytes_made(e, low, csdf_rescaled_eight(e, sums.v[2], sums.v[3], csdf_load(f + 8), csdf_load(f + 12), plain), plain);
}

/* The first n of sixteen bytes. */
CSDF_INLINE void csdf_store_sixteen(uint8_t *to, uint8x16_t x, int32_t n)
{
    if (n == 16) {
        vst1q_u8(to, x);
    } else {
        uint8_t some[16];
        vst1q_u8(some, x);
        memcpy(to, some, (size_t)n);
    }
}

#if CSDF_DOT_NEON == 4
#include "simd_wide.h"
#endif

/* A tap of sixteen channels of a depthwise layer; two taps have their weights in turn, as csdf_two_taps takes them apart. */
#define CSDF_SIXTEEN 1
typedef int8x16x2_t csdf_two_taps;
CSDF_INLINE csdf_two_taps csdf_two_taps_of(const int8_t *at) { return vld2q_s8(at); }
CSDF_INLINE csdf_sixteen_sums csdf_sixteen_begun(const int32_t *at)
{
    CSDF_LOAD_TWO(a, b, at, 0);
    CSDF_LOAD_TWO(c, d, at, 8);
    const csdf_sixteen_sums sums = {{(int32x4_t)a, (int32x4_t)b, (int32x4_t)c, (int32x4_t)d}};
    return sums;
}
CSDF_INLINE void csdf_sixteen_put(int32_t *at, csdf_sixteen_sums sums)
{
    for (int k = 0; k < 4; k++)
        vst1q_s32(at + 4 * k, sums.v[k]);
}
/* flip: by which bits values differ from signed bytes. */
CSDF_INLINE int8x16_t csdf_sixteen_of(uint8x16_t x, uint8_t flip) { return vreinterpretq_s8_u8(veorq_u8(x, vdupq_n_u8(flip))); }
CSDF_INLINE csdf_sixteen_sums csdf_sixteen_tap(csdf_sixteen_sums sums, int8x16_t x, int8x16_t w)
{
    const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(w)), high = vmull_high_s8(x, w);
    sums.v[0] = vaddw_s16(sums.v[0], vget_low_s16(low));
    sums.v[1] = vaddw_high_s16(sums.v[1], low);
    sums.v[2] = vaddw_s16(sums.v[2], vget_low_s16(high));
    sums.v[3] = vaddw_high_s16(sums.v[3], high);
    return sums;
}

/* Three lines of a column, and the weights that they meet. */
typedef struct csdf_column {
    int8x16_t v[CSDF_DOT_NEON == 4 ? 4 : 3];
} csdf_column;

#if CSDF_DOT_NEON == 4
/* [4][4][4] values of channels, of which the last ones meet zeros. */
CSDF_INLINE csdf_column csdf_woven(int8x16_t low, int8x16_t high, int8x16_t more, int8x16_t most)
{
    const int16x8_t a = vreinterpretq_s16_s8(low), b = vreinterpretq_s16_s8(high);
    const int16x8_t c = vreinterpretq_s16_s8(more), d = vreinterpretq_s16_s8(most);
    const csdf_column found = {{vreinterpretq_s8_s16(vzip1q_s16(a, c)), vreinterpretq_s8_s16(vzip2q_s16(a, c)),
        vreinterpretq_s8_s16(vzip1q_s16(b, d)), vreinterpretq_s8_s16(vzip2q_s16(b, d))}};
    return found;
}
CSDF_INLINE csdf_column csdf_column_of(int8x16_t a, int8x16_t b, int8x16_t c)
{
    return csdf_woven(vzip1q_s8(a, b), vzip2q_s8(a, b), vzip1q_s8(c, c), vzip2q_s8(c, c));
}
CSDF_INLINE csdf_column csdf_column_taps(const int8_t *w, ptrdiff_t apart)
{
    return csdf_woven(vld1q_s8(w), vld1q_s8(w + 16), vld1q_s8(w + apart), vld1q_s8(w + apart + 16));
}
CSDF_INLINE csdf_sixteen_sums csdf_sixteen_column(csdf_sixteen_sums sums, csdf_column x, csdf_column w)
{
    for (int k = 0; k < 4; k++)
        sums.v[k] = csdf_dot(sums.v[k], x.v[k], w.v[k]);
    return sums;
}
#else
CSDF_INLINE csdf_column csdf_column_of(int8x16_t a, int8x16_t b, int8x16_t c)
{
    const csdf_column found = {{a, b, c}};
    return found;
}
CSDF_INLINE csdf_column csdf_column_taps(const int8_t *w, ptrdiff_t apart)
{
    const csdf_two_taps two = csdf_two_taps_of(w);
    return csdf_column_of(two.val[0], two.val[1], csdf_two_taps_of(w + apart).val[0]);
}
CSDF_INLINE csdf_sixteen_sums csdf_sixteen_column(csdf_sixteen_sums sums, csdf_column x, csdf_column w)
{
    for (int k = 0; k < 3; k++)
        sums = csdf_sixteen_tap(sums, x.v[k], w.v[k]);
    return sums;
}
#endif

/* The bytes of three columns; sums begin as those at `bias`. With dot products eight channels at a time, so that columns and weights
 * stay in registers. */
CSDF_INLINE uint8x16_t csdf_sixteen_bytes(const csdf_ends *e, const int32_t *bias, const csdf_column *const x[3],
    const csdf_column *const w[3], int plain)
{
#if CSDF_DOT_NEON == 4
    int16x8_t made[2];
    for (int h = 0; h < 2; h++) {
        CSDF_LOAD_TWO(first, second, bias + 8 * h, 0);
        int32x4_t p = (int32x4_t)first, q = (int32x4_t)second;
        for (int k = 0; k < 3; k++) {
            p = csdf_dot(p, x[k]->v[2 * h], w[k]->v[2 * h]);
            q = csdf_dot(q, x[k]->v[2 * h + 1], w[k]->v[2 * h + 1]);
        }
        CSDF_LOAD_TWO(f, g, e->factors + 8 * h, 0);
        made[h] = csdf_rescaled_eight(e, p, q, f, g, plain);
    }
    return csdf_bytes_made(e, made[0], made[1], plain);
#else
    csdf_sixteen_sums sums = csdf_sixteen_begun(bias);
    for (int k = 0; k < 3; k++)
        sums = csdf_sixteen_column(sums, *x[k], *w[k]);
    return csdf_rescaled_sixteen(e, sums, plain);
#endif
}

/* Sixteen bytes; the address is moved by `apart` bytes. */
CSDF_INLINE uint8x16_t csdf_next_sixteen(const uint8_t **at, ptrdiff_t apart)
{
    uint8x16_t x;
    __asm__("ld1 {%0.16b}, [%1], %2" : "=w"(x), "+r"(*at) : "r"(apart), "m"(*(const uint8_t(*)[16])*at));
    return x;
}

#endif
