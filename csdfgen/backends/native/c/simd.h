/* What is a vector here? The only file that knows instruction sets, but for simd_bytes.h.
 *
 * csdf_v holds CSDF_LANES floats. Multiply-adds are written as a product and a sum, which the
 * compiler contracts (-ffp-contract=fast; -std=c99 switches that off otherwise). CSDF_SCALAR asks
 * for the form without vectors, which takes any C99 compiler.
 */
#ifndef CSDF_SIMD_H
#define CSDF_SIMD_H

#include <stdint.h>
#include <string.h>

#if defined(CSDF_SCALAR) || !defined(__GNUC__)
#define CSDF_LANES 1
#define CSDF_ISA "scalar"
#elif defined(__AVX512F__)
#include <immintrin.h>
#define CSDF_LANES 16
#define CSDF_ISA "avx512"
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define CSDF_LANES 8
#define CSDF_ISA "avx2"
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#define CSDF_LANES 4
#define CSDF_ISA "neon"
#else
#define CSDF_LANES 1
#define CSDF_ISA "scalar"
#endif

#if CSDF_LANES == 1

#ifdef __GNUC__
#define CSDF_INLINE static inline __attribute__((always_inline, unused))
#else
#define CSDF_INLINE static inline
#endif
#define CSDF_PREFETCH(address) ((void)(address))
#define CSDF_PREFETCH_NEAR(address) ((void)(address))
#define CSDF_PREFETCH_OUT(address) ((void)(address))
#define CSDF_KEEP(x) ((void)(x))

typedef float csdf_v;

CSDF_INLINE csdf_v csdf_load(const float *at) { return *at; }
CSDF_INLINE void csdf_store(float *at, csdf_v x) { *at = x; }
CSDF_INLINE csdf_v csdf_splat(float x) { return x; }
CSDF_INLINE csdf_v csdf_fma(csdf_v x, csdf_v w, csdf_v sum) { return sum + x * w; }
CSDF_INLINE csdf_v csdf_max(csdf_v low, csdf_v x) { return x < low ? low : x; }
CSDF_INLINE csdf_v csdf_min(csdf_v high, csdf_v x) { return x > high ? high : x; }

/* 2^k of k + 1.5 * 2^23, which has k in its lowest bits; |k| < 127. */
CSDF_INLINE csdf_v csdf_power_of_two(csdf_v moved)
{
    uint32_t bits;
    memcpy(&bits, &moved, sizeof bits);
    bits = (bits + 127u) << 23;
    memcpy(&moved, &bits, sizeof bits);
    return moved;
}

/* All bits of values that are no numbers; and values that are none where any of these bits are. */
typedef uint32_t csdf_bits;
CSDF_INLINE csdf_bits csdf_unordered(csdf_v x) { return x != x ? ~(csdf_bits)0 : 0; }
CSDF_INLINE csdf_v csdf_not_where(csdf_bits none, csdf_v x)
{
    csdf_bits bits;
    memcpy(&bits, &x, sizeof bits);
    bits |= none;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

#else

#define CSDF_INLINE static inline __attribute__((always_inline, unused))
#define CSDF_PREFETCH(address) __builtin_prefetch((address), 0, 2)
#define CSDF_PREFETCH_NEAR(address) __builtin_prefetch((address), 0, 3)
#define CSDF_PREFETCH_OUT(address) __builtin_prefetch((address), 1, 3)

typedef float csdf_v __attribute__((vector_size(4 * CSDF_LANES)));
typedef float csdf_unaligned __attribute__((vector_size(4 * CSDF_LANES), aligned(4), may_alias));

CSDF_INLINE csdf_v csdf_load(const float *at) { return *(const csdf_unaligned *)at; }
CSDF_INLINE void csdf_store(float *at, csdf_v x) { *(csdf_unaligned *)at = x; }

typedef uint32_t csdf_bits __attribute__((vector_size(4 * CSDF_LANES)));

/* 2^k of k + 1.5 * 2^23, which has k in its lowest bits; |k| < 127. */
CSDF_INLINE csdf_v csdf_power_of_two(csdf_v moved)
{
    return (csdf_v)(((csdf_bits)moved + 127u) << 23);
}

/* All bits of values that are no numbers; and values that are none where any of these bits are. */
CSDF_INLINE csdf_bits csdf_unordered(csdf_v x) { return (csdf_bits)(x != x); }
CSDF_INLINE csdf_v csdf_not_where(csdf_bits none, csdf_v x) { return (csdf_v)((csdf_bits)x | none); }

/* Holds a value in a register that the compiler would rather read from memory at every use. */
#if defined(__x86_64__) && CSDF_LANES == 16
#define CSDF_KEEP(x) __asm__("" : "+v"(x))
#elif defined(__x86_64__)
#define CSDF_KEEP(x) __asm__("" : "+x"(x))
#else
#define CSDF_KEEP(x) __asm__("" : "+w"(x))
#endif

/* max and min hand on an x that is not a number. */
#if CSDF_LANES == 16
CSDF_INLINE csdf_v csdf_splat(float x) { return _mm512_set1_ps(x); }
CSDF_INLINE csdf_v csdf_fma(csdf_v x, csdf_v w, csdf_v sum) { return _mm512_fmadd_ps(x, w, sum); }
CSDF_INLINE csdf_v csdf_max(csdf_v low, csdf_v x) { return _mm512_max_ps(low, x); }
CSDF_INLINE csdf_v csdf_min(csdf_v high, csdf_v x) { return _mm512_min_ps(high, x); }
#elif CSDF_LANES == 8
CSDF_INLINE csdf_v csdf_splat(float x) { return _mm256_set1_ps(x); }
CSDF_INLINE csdf_v csdf_fma(csdf_v x, csdf_v w, csdf_v sum) { return _mm256_fmadd_ps(x, w, sum); }
CSDF_INLINE csdf_v csdf_max(csdf_v low, csdf_v x) { return _mm256_max_ps(low, x); }
CSDF_INLINE csdf_v csdf_min(csdf_v high, csdf_v x) { return _mm256_min_ps(high, x); }
#else
CSDF_INLINE csdf_v csdf_splat(float x) { return vdupq_n_f32(x); }
CSDF_INLINE csdf_v csdf_fma(csdf_v x, csdf_v w, csdf_v sum) { return vfmaq_f32(sum, x, w); }
CSDF_INLINE csdf_v csdf_max(csdf_v low, csdf_v x) { return vmaxq_f32(low, x); }
CSDF_INLINE csdf_v csdf_min(csdf_v high, csdf_v x) { return vminq_f32(high, x); }
#endif

#endif

/* The first n < CSDF_LANES values of a vector; the others are zeros, or are not written. With CSDF_BY_VALUE without
 * masks: which sums behind a load become FMAs depends on it, and outputs are to stay the same bits. */
#if CSDF_LANES == 16 && !defined CSDF_BY_VALUE
CSDF_INLINE csdf_v csdf_load_some(const float *at, int n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), at);
}

CSDF_INLINE void csdf_store_some(float *at, csdf_v x, int n)
{
    _mm512_mask_storeu_ps(at, (__mmask16)((1u << n) - 1), x);
}
#else
CSDF_INLINE csdf_v csdf_load_some(const float *at, int n)
{
    float part[CSDF_LANES] = {0};
    for (int i = 0; i < n; i++)
        part[i] = at[i];
    return csdf_load(part);
}

CSDF_INLINE void csdf_store_some(float *at, csdf_v x, int n)
{
    float part[CSDF_LANES];
    csdf_store(part, x);
    for (int i = 0; i < n; i++)
        at[i] = part[i];
}
#endif

#endif
