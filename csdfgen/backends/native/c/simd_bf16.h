/* What is a product of pairs of bfloat16 here? What blocks (passes.h) multiply, instead of floats. The fourth file that knows
 * instruction sets.
 *
 * A pair is a word: two channels side by side as they are stored, the first one in its lower half; of weights, the first one
 * is in the upper half. The two products are added to a float one after the other, first channel first, each with one
 * rounding to the nearest, which are the sums that multiply-adds of widened values have, to the bit: products of two bfloat16
 * are exact. So does AVX512_BF16's VDPBF16PS, "FP32 FMA with daz in, ftz out and RNE rounding" of the upper halves, then
 * of the lower ones (Intel's manual of instructions, volume 2), with the mode that programs run in (csdf_flushing); and so do
 * Armv8.6's BFMLALT and BFMLALB, which honour FPCR (BFDOT rounds otherwise). All others widen both halves, as CSDF_NO_BF16
 * asks everywhere.
 */
#ifndef CSDF_SIMD_BF16_H
#define CSDF_SIMD_BF16_H

#include "simd.h"

#if CSDF_LANES == 16 && defined(__AVX512BF16__) && !defined(CSDF_NO_BF16)
#define CSDF_BF16_SUITS 1
#elif CSDF_LANES == 4 && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC) && !defined(CSDF_NO_BF16)
#define CSDF_BF16_SUITS 1
#else
#define CSDF_BF16_SUITS 0
#endif

/* Which channels of a pair are multiplied at a time. */
enum { CSDF_BOTH, CSDF_FIRST, CSDF_SECOND };

/* A pair; alone: of one channel, behind which there is nothing. */
CSDF_INLINE uint32_t csdf_half_at(const void *at, int alone)
{
    uint32_t both;
    uint16_t first;
    if (alone) {
        memcpy(&first, at, sizeof first);
        return first;
    }
    memcpy(&both, at, sizeof both);
    return both;
}

#if CSDF_BF16_SUITS
#define CSDF_HALF_PARTS(DO, k, alone) DO(CSDF_BOTH, k, alone)
#else
#define CSDF_HALF_PARTS(DO, k, alone) \
    DO(CSDF_FIRST, k, alone) \
    if (!(alone)) \
        DO(CSDF_SECOND, k, alone)
#endif

#if CSDF_BF16_SUITS && CSDF_LANES == 16
typedef __m512bh csdf_half_input, csdf_half_weights;
CSDF_INLINE csdf_half_input csdf_half_spread(int part, const void *at, int alone)
{
    (void)part;
    return (csdf_half_input)_mm512_rol_epi32(_mm512_set1_epi32((int)csdf_half_at(at, alone)), 16);
}
CSDF_INLINE csdf_half_weights csdf_half_load(int part, const float *at)
{
    (void)part;
    return (csdf_half_weights)_mm512_loadu_si512(at);
}
#define CSDF_HALF_ADD(sum, x, w) sum = _mm512_dpbf16_ps(sum, x, w)

#elif CSDF_BF16_SUITS
typedef bfloat16x4_t csdf_half_input;
typedef bfloat16x8_t csdf_half_weights;
CSDF_INLINE csdf_half_input csdf_half_spread(int part, const void *at, int alone)
{
    (void)part;
    return vreinterpret_bf16_u32(vdup_n_u32(csdf_half_at(at, alone)));
}
CSDF_INLINE csdf_half_weights csdf_half_load(int part, const float *at)
{
    (void)part;
    return vreinterpretq_bf16_f32(vld1q_f32(at));
}
#define CSDF_HALF_ADD(sum, x, w) sum = vbfmlalbq_lane_f32(vbfmlaltq_lane_f32(sum, w, x, 0), w, x, 1)

#else
typedef csdf_v csdf_half_input, csdf_half_weights;
#if CSDF_LANES == 1
CSDF_INLINE csdf_v csdf_upper(csdf_v x) { return csdf_float_of(csdf_bits_of(x) & 0xffff0000u); }
CSDF_INLINE csdf_v csdf_lower(csdf_v x) { return csdf_float_of(csdf_bits_of(x) << 16); }
#else
CSDF_INLINE csdf_v csdf_upper(csdf_v x) { return (csdf_v)((csdf_bits)x & 0xffff0000u); }
CSDF_INLINE csdf_v csdf_lower(csdf_v x) { return (csdf_v)((csdf_bits)x << 16); }
#endif
CSDF_INLINE csdf_half_input csdf_half_spread(int part, const void *at, int alone)
{
    const csdf_v both = csdf_splat(csdf_float_of(csdf_half_at(at, alone)));
    return part == CSDF_FIRST ? csdf_lower(both) : csdf_upper(both);
}
CSDF_INLINE csdf_half_weights csdf_half_load(int part, const float *at)
{
    const csdf_v both = csdf_load(at);
    return part == CSDF_FIRST ? csdf_upper(both) : csdf_lower(both);
}
#define CSDF_HALF_ADD(sum, x, w) CSDF_FMA(sum, x, w)
#endif

#endif
