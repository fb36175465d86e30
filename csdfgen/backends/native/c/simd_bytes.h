/* What is a product of bytes here? The only other file that knows instruction sets.
 *
 * Sums are of four products at a time: csdf_four has four values of a pixel in all its lanes, csdf_taps
 * four weights of each of CSDF_OUTS outputs, csdf_dot adds up their products. All sums are exact.
 *
 * Values are gathered before, as csdf_e: bytes where the processor multiplies such, else 16 bits. They
 * are signed; CSDF_UNSIGNED: 128 larger, which the bias makes up for. A block has CSDF_PIXELS pixels
 * and CSDF_VECTORS vectors of outputs.
 */
#ifndef CSDF_SIMD_BYTES_H
#define CSDF_SIMD_BYTES_H

#define CSDF_OF_BYTES 1
#include "simd.h"

#if CSDF_LANES == 16 && defined(__AVX512VNNI__) && defined(__AVX512BW__)
#define CSDF_DOT_VNNI 512
#elif CSDF_LANES == 16 && defined(__AVX512BW__)
#define CSDF_DOT_MADD 512
#elif CSDF_LANES == 8 && (defined(__AVXVNNI__) || (defined(__AVX512VNNI__) && defined(__AVX512VL__)))
#define CSDF_DOT_VNNI 256
#elif CSDF_LANES >= 8
#define CSDF_DOT_MADD 256
#elif defined(CSDF_HELIUM)
#elif CSDF_LANES == 4 && defined(__ARM_FEATURE_DOTPROD)
#define CSDF_DOT_NEON 4
#elif CSDF_LANES == 4
#define CSDF_DOT_NEON 2
#elif defined(__GNUC__) && defined(__ARM_FEATURE_SIMD32)
#include <arm_acle.h>
#define CSDF_DOT_DSP 1
#endif

/* Four bytes as they lie in memory. */
CSDF_INLINE int32_t csdf_word(const void *at)
{
    int32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

#if defined(CSDF_DOT_MADD)
typedef int16_t csdf_e;
#define CSDF_UNSIGNED 0
#define CSDF_VECTORS 2
#else
#define CSDF_BYTES_GATHERED 1
#if defined(CSDF_DOT_VNNI) || (defined(__ARM_FEATURE_MATMUL_INT8) && defined(CSDF_DOT_NEON) && CSDF_DOT_NEON == 4)
typedef uint8_t csdf_e;
#define CSDF_UNSIGNED 1
#else
typedef int8_t csdf_e;
#define CSDF_UNSIGNED 0
#endif
#endif

#if defined(CSDF_DOT_VNNI) && CSDF_DOT_VNNI == 512
#define CSDF_OUTS 16
#define CSDF_VECTORS 1
#define CSDF_PIXELS 12
typedef __m512i csdf_sum, csdf_four, csdf_taps;
CSDF_INLINE csdf_sum csdf_none(void) { return _mm512_setzero_si512(); }
CSDF_INLINE csdf_four csdf_spread(const csdf_e *at) { return _mm512_set1_epi32(csdf_word(at)); }
CSDF_INLINE csdf_taps csdf_weights(const int8_t *at) { return _mm512_loadu_si512(at); }
CSDF_INLINE csdf_sum csdf_dot(csdf_sum sum, csdf_four x, csdf_taps w) { return _mm512_dpbusd_epi32(sum, x, w); }
CSDF_INLINE void csdf_put(int32_t *at, const int32_t *from, csdf_sum a)
{
    _mm512_storeu_si512(at, _mm512_add_epi32(a, _mm512_loadu_si512(from)));
}

#include "simd_wide.h"

#elif defined(CSDF_DOT_VNNI)
#define CSDF_OUTS 8
#define CSDF_VECTORS 2
#define CSDF_PIXELS 6
typedef __m256i csdf_sum, csdf_four, csdf_taps;
CSDF_INLINE csdf_sum csdf_none(void) { return _mm256_setzero_si256(); }
CSDF_INLINE csdf_four csdf_spread(const csdf_e *at) { return _mm256_set1_epi32(csdf_word(at)); }
CSDF_INLINE csdf_taps csdf_weights(const int8_t *at) { return _mm256_loadu_si256((const void *)at); }
#ifdef __AVXVNNI__
CSDF_INLINE csdf_sum csdf_dot(csdf_sum sum, csdf_four x, csdf_taps w) { return _mm256_dpbusd_avx_epi32(sum, x, w); }
#else
CSDF_INLINE csdf_sum csdf_dot(csdf_sum sum, csdf_four x, csdf_taps w) { return _mm256_dpbusd_epi32(sum, x, w); }
#endif
CSDF_INLINE void csdf_put(int32_t *at, const int32_t *from, csdf_sum a, csdf_sum b)
{
    _mm256_storeu_si256((void *)at, _mm256_add_epi32(a, _mm256_loadu_si256((const void *)from)));
    _mm256_storeu_si256((void *)(at + 8), _mm256_add_epi32(b, _mm256_loadu_si256((const void *)(from + 8))));
}

#elif defined(CSDF_DOT_MADD) && CSDF_DOT_MADD == 512
/* Lanes are sums of two products: two of an output. */
#define CSDF_OUTS 8
#define CSDF_PIXELS 12
typedef __m512i csdf_sum, csdf_four, csdf_taps;
CSDF_INLINE csdf_sum csdf_none(void) { return _mm512_setzero_si512(); }
CSDF_INLINE csdf_four csdf_spread(const csdf_e *at)
{
    return _mm512_broadcastq_epi64(_mm_loadl_epi64((const void *)at));
}
CSDF_INLINE csdf_taps csdf_weights(const int8_t *at)
{
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)at));
}
CSDF_INLINE csdf_sum csdf_dot(csdf_sum sum, csdf_four x, csdf_taps w)
{
    return _mm512_add_epi32(sum, _mm512_madd_epi16(x, w));
}
CSDF_INLINE void csdf_put(int32_t *at, const int32_t *from, csdf_sum a, csdf_sum b)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    const __m512i sums = _mm512_add_epi32(_mm512_permutex2var_epi32(a, even, b), _mm512_permutex2var_epi32(a, odd, b));
    _mm512_storeu_si512(at, _mm512_add_epi32(sums, _mm512_loadu_si512(from)));
}

#elif defined(CSDF_DOT_MADD)
#define CSDF_OUTS 4
#define CSDF_PIXELS 6
typedef __m256i csdf_sum, csdf_four, csdf_taps;
CSDF_INLINE csdf_sum csdf_none(void) { return _mm256_setzero_si256(); }
CSDF_INLINE csdf_four csdf_spread(const csdf_e *at)
{
    return _mm256_broadcastq_epi64(_mm_loadl_epi64((const void *)at));
}
CSDF_INLINE csdf_taps csdf_weights(const int8_t *at)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)at));
}
/* Not the products of bytes that saturate. */
CSDF_INLINE csdf_sum csdf_dot(csdf_sum sum, csdf_four x, csdf_taps w)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(x, w));
}
CSDF_INLINE void csdf_put(int32_t *at, const int32_t *from, csdf_sum a, csdf_sum b)
{
    const __m256i sums = _mm256_permute4x64_epi64(_mm256_hadd_epi32(a, b), 0xd8);
    _mm256_storeu_si256((void *)at, _mm256_add_epi32(sums, _mm256_loadu_si256((const void *)from)));
}

#elif defined(CSDF_DOT_NEON)
#include "simd_neon.h"

#elif defined(CSDF_HELIUM)
#define CSDF_PIXELS 3
#include "simd_helium.h"

#else
#define CSDF_OUTS 1
#define CSDF_VECTORS 2
#define CSDF_PIXELS 2
#ifdef CSDF_DOT_DSP
#include "simd_dsp.h"
#else
typedef int32_t csdf_sum;
typedef const int8_t *csdf_four, *csdf_taps;
CSDF_INLINE csdf_four csdf_spread(const csdf_e *at) { return at; }
CSDF_INLINE csdf_taps csdf_weights(const int8_t *at) { return at; }
CSDF_INLINE csdf_sum csdf_dot(csdf_sum sum, csdf_four x, csdf_taps w)
{
    return sum + (x[0] * w[0] + x[1] * w[1] + x[2] * w[2] + x[3] * w[3]);
}
CSDF_INLINE csdf_sum csdf_none(void) { return 0; }
CSDF_INLINE void csdf_put(int32_t *at, const int32_t *from, csdf_sum a, csdf_sum b)
{
    at[0] = from[0] + a;
    at[1] = from[1] + b;
}
#endif
#endif

#if CSDF_OUTS == 1
#define CSDF_KEEP_TAPS(w) ((void)(w))
#else
#define CSDF_KEEP_TAPS(w) CSDF_KEEP(w)
#endif

/* What products take: values as they are gathered, or these as pairs, which lie before them. CSDF_ROOMY: as many values as there is
 * room for, for each that is gathered. */
#ifdef CSDF_DOT_DSP
typedef int16_t csdf_x;
#define CSDF_ROOMY 3
#define CSDF_LINES __attribute__((aligned(8)))
#else
typedef csdf_e csdf_x;
#define CSDF_ROOMY 1
#endif

#ifndef CSDF_LINES
#define CSDF_LINES
#endif

/* Values from bytes ---------------------------------------------------------------------------- */

/* The signed value of a byte as kernels gather it; flip: 0x80 for bytes that are unsigned, else 0. */
#define CSDF_FLIP(flip) ((uint8_t)((flip) ^ (CSDF_UNSIGNED ? 0x80 : 0)))

/* n values from bytes; no byte outside is read or written. flip: by which bits bytes differ. */
CSDF_INLINE void csdf_values(csdf_e *to, const uint8_t *from, ptrdiff_t n, uint8_t flip)
{
    ptrdiff_t i = 0;
#if defined(CSDF_DOT_MADD) || defined(CSDF_DEEP)
    const __m128i bits = _mm_set1_epi8((char)flip);
#ifdef CSDF_DOT_MADD
#define CSDF_SIXTEEN(k) \
    _mm256_storeu_si256((void *)(to + (k)), \
        _mm256_cvtepi8_epi16(_mm_xor_si128(bits, _mm_loadu_si128((const void *)(from + (k))))));
#define CSDF_EIGHT(k) \
    _mm_storeu_si128((void *)(to + (k)), \
        _mm_cvtepi8_epi16(_mm_xor_si128(bits, _mm_loadl_epi64((const void *)(from + (k))))));
#else
#define CSDF_SIXTEEN(k) \
    _mm_storeu_si128((void *)(to + (k)), _mm_xor_si128(bits, _mm_loadu_si128((const void *)(from + (k)))));
#define CSDF_EIGHT(k) \
    _mm_storel_epi64((void *)(to + (k)), _mm_xor_si128(bits, _mm_loadl_epi64((const void *)(from + (k)))));
    const __m512i wide = _mm512_broadcast_i32x4(bits);
    for (; i + 64 <= n; i += 64)
        _mm512_storeu_si512(to + i, _mm512_xor_si512(wide, _mm512_loadu_si512(from + i)));
    if (i < n && n >= 64) {
        _mm512_storeu_si512(to + n - 64, _mm512_xor_si512(wide, _mm512_loadu_si512(from + n - 64)));
        return;
    }
#endif
    for (; i + 16 <= n; i += 16) {
        CSDF_SIXTEEN(i)
    }
    if (i < n && n >= 16) {
        CSDF_SIXTEEN(n - 16)
        return;
    }
    if (i < n && n >= 8) {
        CSDF_EIGHT(0)
        CSDF_EIGHT(n - 8)
        return;
    }
#undef CSDF_SIXTEEN
#undef CSDF_EIGHT
    for (; i < n; i++)
        to[i] = (csdf_e)(int8_t)(from[i] ^ flip);
#elif defined(CSDF_HELIUM)
    const uint8x16_t bits = vdupq_n_u8(flip);
    for (; i + 16 <= n; i += 16)
        vst1q_u8((uint8_t *)to + i, veorq_u8(bits, vld1q_u8(from + i)));
    if (i < n) {
        const mve_pred16_t rest = vctp8q((uint32_t)(n - i));
        vst1q_p_u8((uint8_t *)to + i, veorq_u8(bits, vld1q_z_u8(from + i, rest)), rest);
    }
#else
    if (!flip) {
        memcpy(to, from, (size_t)n);
        return;
    }
#ifdef CSDF_WIDE
    for (; i + 64 <= n; i += 64) {
        csdf_flip_run((uint8_t *)to + i, from + i, flip);
        csdf_flip_run((uint8_t *)to + i + 32, from + i + 32, flip);
    }
    for (; i + 32 <= n; i += 32)
        csdf_flip_run((uint8_t *)to + i, from + i, flip);
#endif
    for (; i + 4 <= n; i += 4) {
        uint32_t word;
        memcpy(&word, from + i, 4);
        word ^= 0x01010101u * flip;
        memcpy(to + i, &word, 4);
    }
    for (; i < n; i++)
        to[i] = (csdf_e)(from[i] ^ flip);
#endif
}

#if CSDF_LANES >= 8
/* Pairs: of each channel two neighbours of 16 bits, whose products with two others are added up. */
#define CSDF_PAIRED 1

typedef __m256i csdf_eight;
CSDF_INLINE csdf_eight csdf_load_eight(const int32_t *at) { return _mm256_loadu_si256((const void *)at); }
CSDF_INLINE void csdf_store_eight(int32_t *at, csdf_eight x) { _mm256_storeu_si256((void *)at, x); }

/* The sums of eight channels, and the pairs of each of them. */
CSDF_INLINE csdf_eight csdf_add_pairs(csdf_eight sums, const int16_t *x, const int16_t *w)
{
    const __m256i products =
        _mm256_madd_epi16(_mm256_loadu_si256((const void *)w), _mm256_loadu_si256((const void *)x));
    return _mm256_add_epi32(sums, products);
}

/* Sixteen pairs of bytes. */
CSDF_INLINE void csdf_paired(int16_t *to, const uint8_t *first, const uint8_t *second, uint8_t flip)
{
    const __m128i bits = _mm_set1_epi8((char)flip);
    const __m128i a = _mm_xor_si128(bits, _mm_loadu_si128((const void *)first));
    const __m128i b = _mm_xor_si128(bits, _mm_loadu_si128((const void *)second));
    _mm256_storeu_si256((void *)to, _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(a, b)));
    _mm256_storeu_si256((void *)(to + 16), _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(a, b)));
}

/* Sixteen bytes as 16 bits each. */
CSDF_INLINE void csdf_sixteen_bits(int16_t *to, const int8_t *from)
{
    _mm256_storeu_si256((void *)to, _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)from)));
}
#endif

/* Integers of 32 bits, as many as a vector has floats ------------------------------------------- */

/* What takes floats of at most 2^22 to integers: added to them, and its bits taken away. */
#define CSDF_ROUND 12582912.0f
#define CSDF_ROUND_BITS 0x4b400000

#if CSDF_LANES == 1
typedef int32_t csdf_i;
CSDF_INLINE csdf_i csdf_load_i(const int32_t *at) { return *at; }
CSDF_INLINE void csdf_store_i(int32_t *at, csdf_i x) { *at = x; }
CSDF_INLINE csdf_i csdf_splat_i(int32_t x) { return x; }
CSDF_INLINE csdf_i csdf_min_i(csdf_i a, csdf_i b) { return a < b ? a : b; }
CSDF_INLINE csdf_i csdf_max_i(csdf_i a, csdf_i b) { return a > b ? a : b; }
CSDF_INLINE csdf_v csdf_float(csdf_i x) { return (float)x; }
/* CSDF_ROUND_BITS more than the integer that is nearest, half to even; |x| at most 2^22 */
CSDF_INLINE csdf_i csdf_rounded(csdf_v x)
{
    const float moved = x + CSDF_ROUND;
    int32_t bits;
    memcpy(&bits, &moved, sizeof bits);
    return bits;
}
#else
typedef int32_t csdf_i __attribute__((vector_size(4 * CSDF_LANES)));
typedef int32_t csdf_i_unaligned __attribute__((vector_size(4 * CSDF_LANES), aligned(4), may_alias));
CSDF_INLINE csdf_i csdf_load_i(const int32_t *at) { return *(const csdf_i_unaligned *)at; }
CSDF_INLINE void csdf_store_i(int32_t *at, csdf_i x) { *(csdf_i_unaligned *)at = x; }
CSDF_INLINE csdf_i csdf_splat_i(int32_t x) { return x - (csdf_i){0}; }
CSDF_INLINE csdf_i csdf_min_i(csdf_i a, csdf_i b) { return ((a < b) & a) | (~(a < b) & b); }
CSDF_INLINE csdf_i csdf_max_i(csdf_i a, csdf_i b) { return ((a > b) & a) | (~(a > b) & b); }
#if CSDF_LANES == 16
CSDF_INLINE csdf_v csdf_float(csdf_i x) { return _mm512_cvtepi32_ps((__m512i)x); }
#elif CSDF_LANES == 8
CSDF_INLINE csdf_v csdf_float(csdf_i x) { return _mm256_cvtepi32_ps((__m256i)x); }
#else
CSDF_INLINE csdf_v csdf_float(csdf_i x) { return vcvtq_f32_s32((int32x4_t)x); }
#endif
CSDF_INLINE csdf_i csdf_rounded(csdf_v x) { return (csdf_i)(x + csdf_splat(CSDF_ROUND)); }
#endif

/* A product that no sum behind it is fused with. */
CSDF_INLINE csdf_v csdf_apart(csdf_v x, csdf_v y)
{
#if CSDF_LANES > 1
    csdf_v product = x * y;
    CSDF_KEEP(product);
#elif defined(CSDF_DSP_NEAREST)
    float product = x * y;
    __asm__("" : "+t"(product));
#else
    volatile float product = x * y;
#endif
    return product;
}

/* x * y + z, rounded once. */
CSDF_INLINE csdf_v csdf_fused(csdf_v x, csdf_v y, csdf_v z)
{
#if CSDF_LANES > 1
    return csdf_fma(x, y, z);
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return __builtin_fmaf(x, y, z);
#else
    return (float)((double)x * y + z);
#endif
}

/* A block of sixteen integers, of which a byte each is kept: the lowest. */
#define CSDF_BLOCK_VECTORS (16 / CSDF_LANES)

CSDF_INLINE void csdf_narrow(uint8_t *to, const csdf_i *x)
{
#if CSDF_LANES == 16
    _mm_storeu_si128((void *)to, _mm512_cvtepi32_epi8((__m512i)x[0]));
#elif CSDF_LANES == 8
    const __m256i low = _mm256_set1_epi32(255);
    const __m256i words = _mm256_permute4x64_epi64(
        _mm256_packus_epi32(_mm256_and_si256(low, (__m256i)x[0]), _mm256_and_si256(low, (__m256i)x[1])), 0xd8);
    _mm_storeu_si128((void *)to, _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
#elif defined(CSDF_HELIUM)
    CSDF_UNROLLED
    for (int i = 0; i < 4; i++)
        vstrbq_s32((int8_t *)to + 4 * i, (int32x4_t)x[i]);
#elif CSDF_LANES == 4
    const int16x8_t a = vcombine_s16(vmovn_s32((int32x4_t)x[0]), vmovn_s32((int32x4_t)x[1]));
    const int16x8_t b = vcombine_s16(vmovn_s32((int32x4_t)x[2]), vmovn_s32((int32x4_t)x[3]));
    vst1q_u8(to, vreinterpretq_u8_s8(vcombine_s8(vmovn_s16(a), vmovn_s16(b))));
#else
    for (int i = 0; i < 16; i++)
        to[i] = (uint8_t)x[i];
#endif
}

/* Sixteen bytes as integers; flip: 0x80 for bytes that are unsigned, which become 128 smaller. */
CSDF_INLINE void csdf_widen(csdf_i *x, const uint8_t *from, uint8_t flip)
{
#if CSDF_LANES == 16
    const __m128i bytes = _mm_xor_si128(_mm_loadu_si128((const void *)from), _mm_set1_epi8((char)flip));
    x[0] = (csdf_i)_mm512_cvtepi8_epi32(bytes);
#elif CSDF_LANES == 8
    const __m128i bytes = _mm_xor_si128(_mm_loadu_si128((const void *)from), _mm_set1_epi8((char)flip));
    x[0] = (csdf_i)_mm256_cvtepi8_epi32(bytes);
    x[1] = (csdf_i)_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes));
#elif defined(CSDF_HELIUM)
    const csdf_i bits = csdf_splat_i((int8_t)flip);
    CSDF_UNROLLED
    for (int i = 0; i < 4; i++)
        x[i] = (csdf_i)vldrbq_s32((const int8_t *)from + 4 * i) ^ bits;
#elif CSDF_LANES == 4
    const int8x16_t bytes = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(from), vdupq_n_u8(flip)));
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
    x[0] = (csdf_i)vmovl_s16(vget_low_s16(low));
    x[1] = (csdf_i)vmovl_s16(vget_high_s16(low));
    x[2] = (csdf_i)vmovl_s16(vget_low_s16(high));
    x[3] = (csdf_i)vmovl_s16(vget_high_s16(high));
#else
    for (int i = 0; i < 16; i++)
        x[i] = (int8_t)(from[i] ^ flip);
#endif
}

/* x / y. Helium has no quotients of vectors: a loop of its own, not written out wherever there is one. */
#ifdef CSDF_HELIUM
static __attribute__((noinline, unused)) csdf_v csdf_divided(csdf_v x, csdf_v y)
{
    float values[CSDF_LANES], by[CSDF_LANES];
    csdf_store(values, x);
    csdf_store(by, y);
    for (int k = 0; k < CSDF_LANES; k++)
        values[k] /= by[k];
    return csdf_load(values);
}
#else
CSDF_INLINE csdf_v csdf_divided(csdf_v x, csdf_v y) { return x / y; }
#endif

/* x / scale, or what is rounded to the same integer, or clipped to the same byte. */
CSDF_INLINE csdf_v csdf_quotient(csdf_v x, csdf_v scale, csdf_v inverse)
{
#if CSDF_LANES == 16
    /* a product with the inverse is within 2^-13 of the quotient where that is below 512: another integer is nearest to
     * it only close to the middle of two, which is rare, as are infinities */
    const __m512 near = (__m512)(x * inverse);
    const __m512 off = _mm512_abs_ps(_mm512_sub_ps(near, _mm512_roundscale_ps(near, 8)));
    if (!_mm512_cmp_ps_mask(off, _mm512_set1_ps(0.5f - 1.0f / 8192), _CMP_NLE_UQ))
        return (csdf_v)near;
#else
    (void)inverse;
#endif
    return x / scale;
}

#endif
