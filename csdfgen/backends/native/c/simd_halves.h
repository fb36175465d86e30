/* What is a product of pairs of elements of two bytes here? What blocks (passes.h) multiply, instead of floats: bfloat16, or
 * float16 where CSDF_OF_F16 is 1. The fourth file that knows instruction sets.
 *
 * A pair is a word: two channels side by side as they are stored, the first one in its lower half. The two products are added
 * to a float one after the other, first channel first, each with one rounding to the nearest, which are the sums that
 * multiply-adds of widened values have, to the bit: products of two such elements are exact.
 *
 * Weights of bfloat16 are pairs, too, with the first channel in the upper half: AVX512_BF16's VDPBF16PS is "FP32 FMA with daz
 * in, ftz out and RNE rounding" of the upper halves, then of the lower ones (Intel's manual of instructions, volume 2), with
 * the mode that programs run in (csdf_flushing); and so are Armv8.6's BFMLALT and BFMLALB, which honour FPCR (BFDOT rounds
 * otherwise). Weights of float16 are those of four outputs for the first channel, then for the second, as Armv8.2's FMLAL and
 * FMLAL2 (FEAT_FHM) multiply the lower and the upper half of a vector. All others widen both channels, as CSDF_NO_HALVES asks
 * everywhere.
 */
#ifndef CSDF_SIMD_HALVES_H
#define CSDF_SIMD_HALVES_H

#include "simd.h"

#ifdef CSDF_NO_HALVES
#define CSDF_BF16_SUITS 0
#define CSDF_F16_SUITS 0
#else
#if CSDF_LANES == 16 && defined(__AVX512BF16__)
#define CSDF_BF16_SUITS 1
#elif CSDF_LANES == 4 && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define CSDF_BF16_SUITS 1
#else
#define CSDF_BF16_SUITS 0
#endif
#if CSDF_LANES == 4 && defined(__ARM_FEATURE_FP16_FML)
#define CSDF_F16_SUITS 1
#else
#define CSDF_F16_SUITS 0
#endif
#endif

#ifdef CSDF_OF_F16
#define CSDF_HALVES_SUIT CSDF_F16_SUITS
typedef csdf_f16 csdf_half;
CSDF_INLINE void csdf_store_half(csdf_half *at, csdf_v x) { csdf_store_f16(at, x); }
#else
#define CSDF_HALVES_SUIT CSDF_BF16_SUITS
typedef csdf_bf16 csdf_half;
CSDF_INLINE void csdf_store_half(csdf_half *at, csdf_v x) { csdf_round_bf16(at, x); }
#endif

/* Outputs whose weights of a channel are side by side. */
#ifdef CSDF_OF_F16
enum { CSDF_HALF_OUTS = 4 };
#else
enum { CSDF_HALF_OUTS = 1 };
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

#if CSDF_HALVES_SUIT
#define CSDF_HALF_PARTS(DO, k, alone) DO(CSDF_BOTH, k, alone)
#else
#define CSDF_HALF_PARTS(DO, k, alone) \
    DO(CSDF_FIRST, k, alone) \
    if (!(alone)) \
        DO(CSDF_SECOND, k, alone)
#endif

/* Inputs of a pixel, and weights of a vector of outputs. */
#if CSDF_HALVES_SUIT && CSDF_LANES == 16
typedef __m512bh csdf_half_input, csdf_half_weights;
CSDF_INLINE csdf_half_input csdf_half_spread(int part, const void *at, int alone)
{
    (void)part;
    return (csdf_half_input)_mm512_set1_epi32((int)csdf_half_at(at, alone));
}
CSDF_INLINE csdf_half_weights csdf_half_load(int part, const void *at)
{
    (void)part;
    return (csdf_half_weights)_mm512_loadu_si512(at);
}
#define CSDF_HALF_ADD(sum, x, w) sum = _mm512_dpbf16_ps(sum, x, w)
#define CSDF_HALF_TURNS 1

/* Pairs of `count` elements, turned: the first one in the upper half, and behind an odd number a zero. Sixteen pairs at a time
 * are written. */
CSDF_INLINE void csdf_half_turn(const csdf_half *from, int32_t count, uint32_t *to)
{
    for (; count >= 32; count -= 32, from += 32, to += 16)
        _mm512_storeu_si512(to, _mm512_rol_epi32(_mm512_loadu_si512(from), 16));
    if (count > 0)
        _mm512_storeu_si512(to, _mm512_rol_epi32(_mm512_maskz_loadu_epi16(((__mmask32)1 << count) - 1, from), 16));
}

#elif CSDF_HALVES_SUIT
typedef uint32x4_t csdf_half_input, csdf_half_weights; /* clang has no place for half a vector among the lower registers */
CSDF_INLINE csdf_half_input csdf_half_spread(int part, const void *at, int alone)
{
    (void)part;
    return vdupq_n_u32(csdf_half_at(at, alone));
}
CSDF_INLINE csdf_half_weights csdf_half_load(int part, const void *at)
{
    (void)part;
    return vld1q_u32(at);
}
#ifdef CSDF_OF_F16
#define CSDF_HALF_PRODUCTS "fmlal %0.4s, %1.4h, %2.h[0]\n\tfmlal2 %0.4s, %1.4h, %2.h[1]"
#else
#define CSDF_HALF_PRODUCTS "bfmlalt %0.4s, %1.8h, %2.h[0]\n\tbfmlalb %0.4s, %1.8h, %2.h[1]"
#endif
/* volatile, so that no loads are moved in front: inputs have half of the registers, and sums would be stored in memory */
#define CSDF_HALF_ADD(sum, x, w) __asm__ volatile(CSDF_HALF_PRODUCTS : "+&w"(sum) : "w"(w), "x"(x))

#else
typedef csdf_v csdf_half_input, csdf_half_weights;
#define CSDF_HALF_ADD(sum, x, w) CSDF_FMA(sum, x, w)

#ifdef CSDF_OF_F16
CSDF_INLINE csdf_half_input csdf_half_spread(int part, const void *at, int alone)
{
    csdf_f16 x[2];
    memcpy(x, at, alone ? sizeof *x : sizeof x);
    return csdf_splat(csdf_from_f16(x[part == CSDF_SECOND]));
}
CSDF_INLINE csdf_half_weights csdf_half_load(int part, const void *at)
{
    csdf_f16 w[CSDF_LANES];
    const csdf_f16 *from = (const csdf_f16 *)at + (part == CSDF_SECOND) * CSDF_HALF_OUTS;
    for (int i = 0; i < CSDF_LANES; i += CSDF_HALF_OUTS)
        memcpy(w + i, from + 2 * i, sizeof *w * (CSDF_LANES < CSDF_HALF_OUTS ? CSDF_LANES : CSDF_HALF_OUTS));
    return csdf_load_f16(w);
}
#else
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
CSDF_INLINE csdf_half_weights csdf_half_load(int part, const void *at)
{
    const csdf_v both = csdf_load(at);
    return part == CSDF_FIRST ? csdf_upper(both) : csdf_lower(both);
}
#endif
#endif

#endif
