/* What is a product of pairs of 16 bits here, and what are vectors of such? The third file that knows instruction sets.
 *
 * Sums are of two products at a time: csdf_pair_four has two values in all its lanes, csdf_pair_taps two weights of each
 * of CSDF_PAIR_OUTS outputs, csdf_pair_dot adds up their products. A block has CSDF_PAIR_PIXELS pixels and
 * CSDF_PAIR_VECTORS vectors of outputs. csdf_h has
 * CSDF_SHORTS integers of 16 bits; channels are often sixteen, so that there are no more.
 */
#ifndef CSDF_SIMD_PAIRS_H
#define CSDF_SIMD_PAIRS_H

#include "simd_bytes.h"

typedef int16_t csdf_pair_e;

#if CSDF_LANES == 16 && defined(__AVX512BW__)
#define CSDF_SHORTS 16
#define CSDF_PAIR_OUTS 16
#define CSDF_PAIR_VECTORS 1
#define CSDF_PAIR_PIXELS 12
typedef __m512i csdf_pair_sum, csdf_pair_four, csdf_pair_taps;
CSDF_INLINE csdf_pair_sum csdf_pair_none(void) { return _mm512_setzero_si512(); }
CSDF_INLINE csdf_pair_four csdf_pair_spread(const int16_t *at) { return _mm512_set1_epi32(csdf_word(at)); }
CSDF_INLINE csdf_pair_taps csdf_pair_weights(const int16_t *at) { return _mm512_loadu_si512(at); }
CSDF_INLINE csdf_pair_sum csdf_pair_dot(csdf_pair_sum sum, csdf_pair_four x, csdf_pair_taps w)
{
#ifdef __AVX512VNNI__
    return _mm512_dpwssd_epi32(sum, x, w);
#else
    return _mm512_add_epi32(sum, _mm512_madd_epi16(x, w));
#endif
}
CSDF_INLINE void csdf_pair_put(int32_t *at, const int32_t *from, csdf_pair_sum a)
{
    _mm512_storeu_si512(at, _mm512_add_epi32(a, _mm512_loadu_si512(from)));
}

#elif CSDF_LANES >= 8
#define CSDF_SHORTS 16
#define CSDF_PAIR_OUTS 8
#define CSDF_PAIR_VECTORS 2
#define CSDF_PAIR_PIXELS 6
typedef __m256i csdf_pair_sum, csdf_pair_four, csdf_pair_taps;
CSDF_INLINE csdf_pair_sum csdf_pair_none(void) { return _mm256_setzero_si256(); }
CSDF_INLINE csdf_pair_four csdf_pair_spread(const int16_t *at) { return _mm256_set1_epi32(csdf_word(at)); }
CSDF_INLINE csdf_pair_taps csdf_pair_weights(const int16_t *at) { return _mm256_loadu_si256((const void *)at); }
CSDF_INLINE csdf_pair_sum csdf_pair_dot(csdf_pair_sum sum, csdf_pair_four x, csdf_pair_taps w)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(x, w));
}
CSDF_INLINE void csdf_pair_put(int32_t *at, const int32_t *from, csdf_pair_sum a, csdf_pair_sum b)
{
    _mm256_storeu_si256((void *)at, _mm256_add_epi32(a, _mm256_loadu_si256((const void *)from)));
    _mm256_storeu_si256((void *)(at + 8), _mm256_add_epi32(b, _mm256_loadu_si256((const void *)(from + 8))));
}

#elif CSDF_LANES == 4 && !defined(CSDF_HELIUM)
/* Lanes are sums of one product: two of an output. */
#define CSDF_SHORTS 8
#define CSDF_PAIR_OUTS 2
#define CSDF_PAIR_VECTORS 4
#define CSDF_PAIR_PIXELS 5
typedef int32x4_t csdf_pair_sum;
typedef int16x4_t csdf_pair_four, csdf_pair_taps;
CSDF_INLINE csdf_pair_sum csdf_pair_none(void) { return vdupq_n_s32(0); }
CSDF_INLINE csdf_pair_four csdf_pair_spread(const int16_t *at) { return vreinterpret_s16_s32(vdup_n_s32(csdf_word(at))); }
CSDF_INLINE csdf_pair_taps csdf_pair_weights(const int16_t *at) { return vld1_s16(at); }
CSDF_INLINE csdf_pair_sum csdf_pair_dot(csdf_pair_sum sum, csdf_pair_four x, csdf_pair_taps w) { return vmlal_s16(sum, w, x); }
CSDF_INLINE void csdf_pair_put(int32_t *at, const int32_t *from, csdf_pair_sum a, csdf_pair_sum b)
{
    vst1q_s32(at, vaddq_s32(vpaddq_s32(a, b), vld1q_s32(from)));
}

#else
#define CSDF_SHORTS 1
#define CSDF_PAIR_OUTS 1
#define CSDF_PAIR_VECTORS 2
#define CSDF_PAIR_PIXELS 2
typedef int32_t csdf_pair_sum;
#ifdef CSDF_DOT_DSP
typedef int16x2_t csdf_pair_four, csdf_pair_taps;
CSDF_INLINE csdf_pair_four csdf_pair_spread(const int16_t *at) { return csdf_word(at); }
CSDF_INLINE csdf_pair_taps csdf_pair_weights(const int16_t *at) { return csdf_word(at); }
CSDF_INLINE csdf_pair_sum csdf_pair_dot(csdf_pair_sum sum, csdf_pair_four x, csdf_pair_taps w) { return __smlad(x, w, sum); }
#else
typedef const int16_t *csdf_pair_four, *csdf_pair_taps;
CSDF_INLINE csdf_pair_four csdf_pair_spread(const int16_t *at) { return at; }
CSDF_INLINE csdf_pair_taps csdf_pair_weights(const int16_t *at) { return at; }
CSDF_INLINE csdf_pair_sum csdf_pair_dot(csdf_pair_sum sum, csdf_pair_four x, csdf_pair_taps w)
{
    return sum + (x[0] * w[0] + x[1] * w[1]);
}
#endif
CSDF_INLINE csdf_pair_sum csdf_pair_none(void) { return 0; }
CSDF_INLINE void csdf_pair_put(int32_t *at, const int32_t *from, csdf_pair_sum a, csdf_pair_sum b)
{
    at[0] = from[0] + a;
    at[1] = from[1] + b;
}
#endif

#if CSDF_PAIR_OUTS == 1
#define CSDF_PAIR_KEEP_TAPS(w) ((void)(w))
#else
#define CSDF_PAIR_KEEP_TAPS(w) CSDF_KEEP(w)
#endif

/* Whether products of bytes take as long as those of pairs, so that half as many are faster (measured). */
#if defined(CSDF_DOT_MADD) || (CSDF_OUTS == 1 && !defined(CSDF_DOT_DSP))
#define CSDF_PAIRS_SUIT 1
#else
#define CSDF_PAIRS_SUIT 0
#endif

/* Vectors of 16 bits. */
#if CSDF_SHORTS == 1
typedef int16_t csdf_h;
#define CSDF_SHORT(x) ((int16_t)(x)) /* sums are of ints */
CSDF_INLINE csdf_h csdf_load_h(const uint8_t *from, uint8_t flip) { return (int8_t)(from[0] ^ flip); }
CSDF_INLINE csdf_h csdf_splat_h(int16_t x) { return x; }
CSDF_INLINE void csdf_store_h(int16_t *at, csdf_h x) { *at = x; }
#else
typedef int16_t csdf_h __attribute__((vector_size(2 * CSDF_SHORTS)));
typedef int16_t csdf_h_unaligned __attribute__((vector_size(2 * CSDF_SHORTS), aligned(2), may_alias));
#define CSDF_SHORT(x) (x)
CSDF_INLINE csdf_h csdf_splat_h(int16_t x) { return x - (csdf_h){0}; }
CSDF_INLINE void csdf_store_h(int16_t *at, csdf_h x) { *(csdf_h_unaligned *)at = x; }
/* Bytes as integers; flip: 0x80 for bytes that are unsigned, which become 128 smaller. */
CSDF_INLINE csdf_h csdf_load_h(const uint8_t *from, uint8_t flip)
{
#if CSDF_SHORTS == 16
    const __m128i bytes = _mm_xor_si128(_mm_loadu_si128((const void *)from), _mm_set1_epi8((char)flip));
    return (csdf_h)_mm256_cvtepi8_epi16(bytes);
#else
    return (csdf_h)vmovl_s8(vreinterpret_s8_u8(veor_u8(vld1_u8(from), vdup_n_u8(flip))));
#endif
}
#endif

#endif
