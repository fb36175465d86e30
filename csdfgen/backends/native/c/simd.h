/* What is a vector here? The only file that knows instruction sets, but for simd_bytes.h
 * and a single float16 (strided.h).
 *
 * csdf_v holds CSDF_LANES floats. Multiply-adds are written as a product and a sum, which the
 * compiler contracts (-ffp-contract=fast; -std=c99 switches that off otherwise). CSDF_SCALAR asks
 * for the form without vectors, which takes any C99 compiler. Files of bytes (CSDF_OF_BYTES) use the
 * vectors of Armv8.1-M even then; those of floats do not, whose blocks want more than its eight registers.
 */
#ifndef CSDF_SIMD_H
#define CSDF_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "strided.h"

#if defined(CSDF_OF_BYTES) && defined(__GNUC__) && defined(__ARM_FEATURE_MVE) && __ARM_FEATURE_MVE == 3
#include <arm_mve.h>
#define CSDF_HELIUM 1
#define CSDF_LANES 4
#define CSDF_ISA "helium"
#elif defined(CSDF_SCALAR) || !defined(__GNUC__)
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
#define CSDF_KEEP_ADDRESS(p) ((void)(p))
#define CSDF_PAUSE() ((void)0)

typedef float csdf_v;

CSDF_INLINE csdf_v csdf_load(const float *at) { return *at; }
CSDF_INLINE void csdf_store(float *at, csdf_v x) { *at = x; }
CSDF_INLINE csdf_v csdf_splat(float x) { return x; }
CSDF_INLINE csdf_v csdf_fma(csdf_v x, csdf_v w, csdf_v sum) { return sum + x * w; }
#define CSDF_FMA(sum, x, w) sum = csdf_fma(x, w, sum)
CSDF_INLINE csdf_v csdf_max(csdf_v low, csdf_v x) { return x < low ? low : x; }
CSDF_INLINE csdf_v csdf_min(csdf_v high, csdf_v x) { return x > high ? high : x; }
CSDF_INLINE float csdf_total(csdf_v x) { return x; }

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

/* An address in a register of its own, from which the compiler does not tell others apart. */
#define CSDF_KEEP_ADDRESS(p) __asm__("" : "+r"(p))

/* A moment in a loop that waits, which leaves what a core computes with to its other thread. */
#ifdef __x86_64__
#define CSDF_PAUSE() __asm__ volatile("pause")
#else
#define CSDF_PAUSE() __asm__ volatile("yield")
#endif

/* sum += x * w, in one rounding and in the register of the sum: compilers take the form that writes another operand, and
 * then move registers, which costs a processor that issues four instructions at a time a tenth of a convolution. */
#if defined(__x86_64__) && CSDF_LANES == 16
#define CSDF_FMA(sum, x, w) __asm__("vfmadd231ps {%2, %1, %0|%0, %1, %2}" : "+v"(sum) : "v"(x), "v"(w))
#elif defined(__x86_64__)
#define CSDF_FMA(sum, x, w) __asm__("vfmadd231ps {%2, %1, %0|%0, %1, %2}" : "+x"(sum) : "x"(x), "x"(w))
#else
#define CSDF_FMA(sum, x, w) sum = csdf_fma(x, w, sum)
#endif

/* sum += x[n] * w; and vectors of weights: two that are n floats behind an address, and the next ones, one or two, behind which
 * the address is moved by so many bytes. Volatile, so that they stay in the order that they are written in: blocks use all
 * registers, and a load that is moved in front would have a sum stored in memory. CSDF_LOAD_FIRST: the value of lane 0. */
#ifdef __aarch64__
#define CSDF_FMA_BY(sum, x, w, n) __asm__ volatile("fmla %0.4s, %1.4s, %2.s[" #n "]" : "+w"(sum) : "w"(w), "w"(x))
#define CSDF_LOAD_TWO(w, v, at, n) \
    csdf_v w, v; \
    __asm__ volatile("ldp %q0, %q1, [%2, %3]" : "=&w"(w), "=w"(v) : "r"(at), "i"(4 * (n)), "m"(*(at)))
#define CSDF_NEXT_TWO(w, v, at, bytes) \
    register csdf_v w __asm__("v30"), v __asm__("v31"); \
    __asm__ volatile("ld1 {%0.4s, %1.4s}, [%2], %3" : "=w"(w), "=w"(v), "+r"(at) : "r"((ptrdiff_t)(bytes)), "m"(*(at)))
#define CSDF_LOAD_FIRST(x, at) \
    csdf_v x; \
    __asm__ volatile("ldr %s0, %1" : "=w"(x) : "m"(*(at)))
#define CSDF_NEXT_ONE(w, at, bytes) \
    csdf_v w; \
    __asm__ volatile("ld1 {%0.4s}, [%1], %2" : "=w"(w), "+r"(at) : "r"((ptrdiff_t)(bytes)), "m"(*(at)))
#endif

/* max and min hand on an x that is not a number; the total is that of all lanes. CSDF_MAX_KEEPS_NONE: whether max hands on a
 * bound, too, that is none. */
#if CSDF_LANES == 4 && defined(__aarch64__)
#define CSDF_MAX_KEEPS_NONE 1
#endif
#if CSDF_LANES == 16
CSDF_INLINE csdf_v csdf_splat(float x) { return _mm512_set1_ps(x); }
CSDF_INLINE csdf_v csdf_fma(csdf_v x, csdf_v w, csdf_v sum) { return _mm512_fmadd_ps(x, w, sum); }
CSDF_INLINE csdf_v csdf_max(csdf_v low, csdf_v x) { return _mm512_max_ps(low, x); }
CSDF_INLINE csdf_v csdf_min(csdf_v high, csdf_v x) { return _mm512_min_ps(high, x); }
CSDF_INLINE float csdf_total(csdf_v x) { return _mm512_reduce_add_ps(x); }
#elif CSDF_LANES == 8
CSDF_INLINE csdf_v csdf_splat(float x) { return _mm256_set1_ps(x); }
CSDF_INLINE csdf_v csdf_fma(csdf_v x, csdf_v w, csdf_v sum) { return _mm256_fmadd_ps(x, w, sum); }
CSDF_INLINE csdf_v csdf_max(csdf_v low, csdf_v x) { return _mm256_max_ps(low, x); }
CSDF_INLINE csdf_v csdf_min(csdf_v high, csdf_v x) { return _mm256_min_ps(high, x); }
CSDF_INLINE float csdf_total(csdf_v x)
{
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
#elif defined(CSDF_HELIUM)
CSDF_INLINE csdf_v csdf_splat(float x) { return vdupq_n_f32(x); }
CSDF_INLINE csdf_v csdf_fma(csdf_v x, csdf_v w, csdf_v sum) { return vfmaq_f32(sum, x, w); }
CSDF_INLINE csdf_v csdf_max(csdf_v low, csdf_v x) { return vmaxnmq_f32(low, x); }
CSDF_INLINE csdf_v csdf_min(csdf_v high, csdf_v x) { return vminnmq_f32(high, x); }
CSDF_INLINE float csdf_total(csdf_v x) { return (x[0] + x[1]) + (x[2] + x[3]); }
#else
CSDF_INLINE csdf_v csdf_splat(float x) { return vdupq_n_f32(x); }
CSDF_INLINE csdf_v csdf_fma(csdf_v x, csdf_v w, csdf_v sum) { return vfmaq_f32(sum, x, w); }
CSDF_INLINE csdf_v csdf_max(csdf_v low, csdf_v x) { return vmaxq_f32(low, x); }
CSDF_INLINE csdf_v csdf_min(csdf_v high, csdf_v x) { return vminq_f32(high, x); }
CSDF_INLINE float csdf_total(csdf_v x) { return vaddvq_f32(x); }
#endif

#endif

#ifndef CSDF_MAX_KEEPS_NONE
#define CSDF_MAX_KEEPS_NONE 0
#endif

CSDF_INLINE int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
CSDF_INLINE int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

/* Four by four floats with rows and columns exchanged: `apart` floats from one row to the next that is read, `pace`
 * from one to the next that is written. */
#if CSDF_LANES > 1 && defined(__x86_64__)
CSDF_INLINE void csdf_transpose(const float *at, ptrdiff_t apart, float *out, ptrdiff_t pace)
{
    __m128 a = _mm_loadu_ps(at), b = _mm_loadu_ps(at + apart);
    __m128 c = _mm_loadu_ps(at + 2 * apart), d = _mm_loadu_ps(at + 3 * apart);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(out, a);
    _mm_storeu_ps(out + pace, b);
    _mm_storeu_ps(out + 2 * pace, c);
    _mm_storeu_ps(out + 3 * pace, d);
}
#elif CSDF_LANES > 1 && !defined(CSDF_HELIUM)
CSDF_INLINE void csdf_transpose(const float *at, ptrdiff_t apart, float *out, ptrdiff_t pace)
{
    const float32x4x2_t ac = vzipq_f32(vld1q_f32(at), vld1q_f32(at + 2 * apart));
    const float32x4x2_t bd = vzipq_f32(vld1q_f32(at + apart), vld1q_f32(at + 3 * apart));
    const float32x4x2_t low = vzipq_f32(ac.val[0], bd.val[0]), high = vzipq_f32(ac.val[1], bd.val[1]);
    vst1q_f32(out, low.val[0]);
    vst1q_f32(out + pace, low.val[1]);
    vst1q_f32(out + 2 * pace, high.val[0]);
    vst1q_f32(out + 3 * pace, high.val[1]);
}
#else
CSDF_INLINE void csdf_transpose(const float *at, ptrdiff_t apart, float *out, ptrdiff_t pace)
{
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++)
            out[k * pace + i] = at[i * apart + k];
}
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
#elif CSDF_LANES == 8 && !defined CSDF_BY_VALUE
CSDF_INLINE __m256i csdf_first(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

CSDF_INLINE csdf_v csdf_load_some(const float *at, int n) { return _mm256_maskload_ps(at, csdf_first(n)); }
CSDF_INLINE void csdf_store_some(float *at, csdf_v x, int n) { _mm256_maskstore_ps(at, csdf_first(n), x); }
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

/* A vector of elements of two bytes as floats; stored, floats are rounded as strided.h has it. */
#if CSDF_LANES == 1
CSDF_INLINE csdf_v csdf_load_bf16(const csdf_bf16 *at) { return csdf_from_bf16(*at); }
CSDF_INLINE void csdf_store_bf16(csdf_bf16 *at, csdf_v x) { *at = csdf_to_bf16(x); }
CSDF_INLINE void csdf_round_bf16(csdf_bf16 *at, csdf_v x) { csdf_store_bf16(at, x); }
CSDF_INLINE csdf_v csdf_load_f16(const csdf_f16 *at) { return csdf_from_f16(*at); }
CSDF_INLINE void csdf_store_f16(csdf_f16 *at, csdf_v x) { *at = csdf_to_f16(x); }
#else
typedef uint16_t csdf_halves __attribute__((vector_size(2 * CSDF_LANES)));
typedef uint16_t csdf_halves_at __attribute__((vector_size(2 * CSDF_LANES), aligned(2), may_alias));

CSDF_INLINE csdf_v csdf_load_bf16(const csdf_bf16 *at)
{
#if CSDF_LANES == 16 /* some compilers make five instructions of it */
    return (csdf_v)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)at)), 16);
#else
    return (csdf_v)(__builtin_convertvector(*(const csdf_halves_at *)(const void *)at, csdf_bits) << 16);
#endif
}

CSDF_INLINE void csdf_store_bf16(csdf_bf16 *at, csdf_v x)
{
    const csdf_bits bits = (csdf_bits)x, none = csdf_unordered(x);
    const csdf_bits nearest = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, quiet = (bits >> 16 & 0x8000u) | 0x7fc0u;
    *(csdf_halves_at *)(void *)at = __builtin_convertvector((nearest & ~none) | (quiet & none), csdf_halves);
}

/* The same of what was computed, so that no number is subnormal; of NaN, some bits may be others. */
CSDF_INLINE void csdf_round_bf16(csdf_bf16 *at, csdf_v x)
{
#if CSDF_LANES == 16 && defined(__AVX512BF16__)
    _mm256_storeu_si256((void *)at, (__m256i)_mm512_cvtneps_pbh(x));
#else
    csdf_store_bf16(at, x);
#endif
}

#if CSDF_LANES == 16
CSDF_INLINE csdf_v csdf_load_f16(const csdf_f16 *at) { return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)at)); }
CSDF_INLINE void csdf_store_f16(csdf_f16 *at, csdf_v x) { _mm256_storeu_si256((void *)at, _mm512_cvtps_ph(x, 0)); }
#elif CSDF_LANES == 8 && defined(__F16C__)
CSDF_INLINE csdf_v csdf_load_f16(const csdf_f16 *at) { return _mm256_cvtph_ps(_mm_loadu_si128((const void *)at)); }
CSDF_INLINE void csdf_store_f16(csdf_f16 *at, csdf_v x) { _mm_storeu_si128((void *)at, _mm256_cvtps_ph(x, 0)); }
#elif CSDF_LANES == 4 && !defined(CSDF_HELIUM)
CSDF_INLINE csdf_v csdf_load_f16(const csdf_f16 *at)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const void *)at)));
}
CSDF_INLINE void csdf_store_f16(csdf_f16 *at, csdf_v x) { vst1_u16((void *)at, vreinterpret_u16_f16(vcvt_f16_f32(x))); }
#else
CSDF_INLINE csdf_v csdf_load_f16(const csdf_f16 *at)
{
    float part[CSDF_LANES];
    for (int i = 0; i < CSDF_LANES; i++)
        part[i] = csdf_from_f16(at[i]);
    return csdf_load(part);
}

CSDF_INLINE void csdf_store_f16(csdf_f16 *at, csdf_v x)
{
    float part[CSDF_LANES];
    csdf_store(part, x);
    for (int i = 0; i < CSDF_LANES; i++)
        at[i] = csdf_to_f16(part[i]);
}
#endif
#endif

/* Subnormal numbers take a hundred times as long as others on many processors, and saturated activations are full of
 * them: while a program runs they count as 0, where the processor can. Those of float16 are numbers, as they are when they
 * are widened. csdf_flushing gives the mode before. */
#if defined(__GNUC__) && defined(__SSE__)
#include <immintrin.h>
typedef unsigned int csdf_float_mode;
CSDF_INLINE void csdf_set_mode(csdf_float_mode mode) { _mm_setcsr(mode); }
CSDF_INLINE csdf_float_mode csdf_flushing(void)
{
    const csdf_float_mode before = _mm_getcsr();
    csdf_set_mode(before | 0x8040u); /* results, and operands */
    return before;
}
#elif defined(__GNUC__) && defined(__aarch64__)
typedef uint64_t csdf_float_mode;
CSDF_INLINE void csdf_set_mode(csdf_float_mode mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory"); }
CSDF_INLINE csdf_float_mode csdf_flushing(void)
{
    csdf_float_mode before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    csdf_set_mode((before | 1u << 24) & ~((uint64_t)1 << 19)); /* FZ, not FZ16 */
    return before;
}
#else
typedef int csdf_float_mode;
CSDF_INLINE void csdf_set_mode(csdf_float_mode mode) { (void)mode; }
CSDF_INLINE csdf_float_mode csdf_flushing(void) { return 0; }
#endif

#endif
