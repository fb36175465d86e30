/* How do sums of several pixels become bytes in registers? Part of simd_bytes.h, for AVX-512 and Armv8's dot products.
 *
 * Blocks of up to CSDF_WIDE panels: see csdf_wide_bytes.
 * weights: of the first panel, those of the next `panel` bytes further. bias, factors: of the panels, [16] each. counts:
 * bytes of each piece that a tap sees. at: [tap][piece], `apart` from one to the next, the addresses of what pixels see.
 * shift: from the first output of a pixel to that of the panels. sums: NULL, or [panel][pixel][16] where the sums are stored and
 * nothing else is done. outs: of the panels. zero, flip: of the outputs: the bytes are round(sum * factor) + zero, from 0 to
 * 255, with `flip` exchanged. plain: whether both are 0, where that makes a difference.
 */
#ifndef CSDF_SIMD_WIDE_H
#define CSDF_SIMD_WIDE_H

#ifdef CSDF_DOT_NEON
#define CSDF_WIDE 1
typedef int16x8_t csdf_wide_zero;
typedef uint8x16_t csdf_wide_made, csdf_wide_flip;
#else
#define CSDF_WIDE 4
#define CSDF_LINES __attribute__((aligned(64)))
typedef __m512i csdf_wide_zero, csdf_wide_made, csdf_wide_flip;
#endif

typedef struct csdf_wide {
    const int8_t *weights;
    const int32_t *bias;
    const float *factors;
    ptrdiff_t panel, apart, shift;
    const int32_t *counts;
    int32_t taps, pieces;
    int32_t *sums;
    int32_t outs, plain;
    csdf_wide_zero zero;
    csdf_wide_flip flip;
} csdf_wide;

/* Computes some pixels of some panels, so many times: of the pixels behind them next. */
typedef void csdf_wide_block(const csdf_wide *b, const uint8_t *const *at, uint8_t *const *out, int32_t times);

/* From the weights of the first sums of a pixel to those of the n-th; these sums in memory, and where they are stored; and what
 * makes a compiler load the first ones again for the next pixel, two at a time, not move registers. */
#ifdef CSDF_DOT_NEON
#define CSDF_WIDE_PANEL(b, n) (16 * (n))
#define CSDF_WIDE_AGAIN(from) CSDF_KEEP_ADDRESS(from)
#define CSDF_WIDE_SUMS(n) (4 * (n))
#define CSDF_WIDE_PLACE(n, pixel, pixels) (16 * (pixel) + 4 * (n))
CSDF_INLINE csdf_sum csdf_wide_sums(const int32_t *at) { return vld1q_s32(at); }
CSDF_INLINE void csdf_wide_keep(int32_t *at, csdf_sum sums) { vst1q_s32(at, sums); }
CSDF_INLINE csdf_wide_made csdf_wide_bytes(const csdf_wide *b, int panels, int plain, csdf_sum p, csdf_sum q, csdf_sum r, csdf_sum s)
{
    const csdf_ends ends = {b->factors, b->zero, b->flip};
    const csdf_sixteen_sums sums = {{p, q, r, s}};
    (void)panels;
    return csdf_rescaled_sixteen(&ends, sums, plain);
}
CSDF_INLINE void csdf_wide_store(uint8_t *to, csdf_wide_made x, int32_t n) { csdf_store_sixteen(to, x, n); }

/* Thirty-two bytes, flipped by the bits of `flip`. */
CSDF_INLINE void csdf_flip_run(uint8_t *to, const uint8_t *from, uint8_t flip)
{
    const uint8x16_t a = vld1q_u8(from), b = vld1q_u8(from + 16), bits = vdupq_n_u8(flip);
    vst1q_u8(to, veorq_u8(a, bits));
    vst1q_u8(to + 16, veorq_u8(b, bits));
}

/* The zero point and the type of bytes that are made. */
#define csdf_wide_into(b, into) \
    ((b)->plain = !(into)->zero && !(into)->low, (b)->flip = csdf_ends_of(NULL, 0, (into)->low).flip, \
        (b)->zero = csdf_ends_of(NULL, (into)->zero, (into)->low).zero)
#else
#define CSDF_DEEP 1

/* 32 bits from sums, rounded half to even; beyond 2^30 it is all the same to bytes. */
CSDF_INLINE __m512i csdf_wide_rounded(csdf_sum sum, const float *factors)
{
    const __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_loadu_ps(factors));
    return _mm512_cvtps_epi32(_mm512_min_ps(value, _mm512_set1_ps(1073741824.0f)));
}

/* The bytes of up to four panels of a pixel, four of each panel in turn; of fewer, the last one several times. */
CSDF_INLINE __m512i csdf_wide_mixed(const csdf_wide *b, int panels, csdf_sum p, csdf_sum q, csdf_sum r, csdf_sum s)
{
    const float *f = b->factors;
    const __m512i x = csdf_wide_rounded(p, f), y = panels > 1 ? csdf_wide_rounded(q, f + 16) : x;
    const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(x, y), b->zero);
    __m512i high = low;
    if (panels > 2) {
        const __m512i z = csdf_wide_rounded(r, f + 32);
        high = _mm512_adds_epi16(_mm512_packs_epi32(z, panels > 3 ? csdf_wide_rounded(s, f + 48) : z), b->zero);
    }
    return _mm512_xor_si512(_mm512_packus_epi16(low, high), b->flip);
}

/* The first n bytes; without a mask where that is possible: a load that seems to lie where a store with a mask is
 * under way, by the last twelve bits of their addresses, waits for it. */
CSDF_INLINE void csdf_wide_store(uint8_t *to, __m512i x, int32_t n)
{
    if (n == 64) {
        _mm512_storeu_si512(to, x);
        return;
    }
    if (n & 32) {
        _mm256_storeu_si256((void *)to, _mm512_castsi512_si256(x));
        x = _mm512_shuffle_i64x2(x, x, 0xee);
        to += 32;
    }
    if (n & 16) {
        _mm_storeu_si128((void *)to, _mm512_castsi512_si128(x));
        x = _mm512_shuffle_i64x2(x, x, 0x39);
        to += 16;
    }
    if (n & 8) {
        _mm_storel_epi64((void *)to, _mm512_castsi512_si128(x));
        x = _mm512_bsrli_epi128(x, 8);
        to += 8;
    }
    if (n & 7)
        _mm_mask_storeu_epi8(to, (__mmask16)((1 << (n & 7)) - 1), _mm512_castsi512_si128(x));
}

/* The bytes of up to four panels of a pixel. */
CSDF_INLINE csdf_wide_made csdf_wide_bytes(const csdf_wide *b, int panels, int plain, csdf_sum p, csdf_sum q, csdf_sum r, csdf_sum s)
{
    (void)plain;
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, csdf_wide_mixed(b, panels, p, q, r, s));
}

/* Those of two panels as csdf_wide_half_columns has them. */
CSDF_INLINE void csdf_wide_half_bytes(const csdf_wide *b, uint8_t *out, csdf_sum p, csdf_sum q)
{
    const __m512i order = _mm512_setr_epi32(0, 8, 1, 9, 4, 12, 5, 13, 0, 0, 0, 0, 0, 0, 0, 0);
    csdf_wide_store(out, _mm512_permutexvar_epi32(order, csdf_wide_mixed(b, 2, p, q, q, q)), b->outs);
}

#define CSDF_WIDE_PANEL(b, n) ((n) * (b)->panel)
#define CSDF_WIDE_AGAIN(from) ((void)(from))
#define CSDF_WIDE_SUMS(n) (16 * (n))
#define CSDF_WIDE_PLACE(n, pixel, pixels) (((n) * (pixels) + (pixel)) * 16)
CSDF_INLINE csdf_sum csdf_wide_sums(const int32_t *at) { return _mm512_loadu_si512(at); }
CSDF_INLINE void csdf_wide_keep(int32_t *at, csdf_sum sums) { _mm512_storeu_si512(at, sums); }

/* Sixteen channels: a column of up to four lines, whose bytes go to every fourth place. mask: a bit for each channel. */
CSDF_INLINE void csdf_wide_column(uint8_t *to, const uint8_t *const at[4], uint64_t mask, uint8_t flip)
{
    const __m512i places = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i all = _mm512_setzero_si512();
    for (int k = 0; k < 4; k++) {
        /* from each lane the four bytes of its channels, one a word */
        const __m512i x = _mm512_broadcast_i32x4(_mm_maskz_loadu_epi8((__mmask16)mask, at[k]));
        const __m512i of = _mm512_mask_blend_epi8(0x1111111111111111u << k, _mm512_set1_epi8((char)128), _mm512_sllv_epi32(places, _mm512_set1_epi32(8 * k)));
        all = _mm512_or_si512(all, _mm512_shuffle_epi8(x, of));
    }
    _mm512_storeu_si512(to, _mm512_xor_si512(all, _mm512_set1_epi8((char)flip)));
}

/* The same of 64 channels, in four panels as csdf_wide_mixed has them. */
CSDF_INLINE void csdf_wide_columns(uint8_t *to, const uint8_t *const at[4], uint64_t mask, uint8_t flip)
{
    const __m512i a = _mm512_maskz_loadu_epi8(mask, at[0]), b = _mm512_maskz_loadu_epi8(mask, at[1]);
    const __m512i c = _mm512_maskz_loadu_epi8(mask, at[2]), d = _mm512_maskz_loadu_epi8(mask, at[3]);
    const __m512i ab[2] = {_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b)};
    const __m512i cd[2] = {_mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d)};
    const __m512i bits = _mm512_set1_epi8((char)flip);
    for (int k = 0; k < 2; k++) {
        _mm512_storeu_si512(to + 128 * k, _mm512_xor_si512(_mm512_unpacklo_epi16(ab[k], cd[k]), bits));
        _mm512_storeu_si512(to + 128 * k + 64, _mm512_xor_si512(_mm512_unpackhi_epi16(ab[k], cd[k]), bits));
    }
}

/* The same of 32 channels, in two panels: of sixteen channels the first eight in one, the others in the other. */
CSDF_INLINE void csdf_wide_half_columns(uint8_t *to, const uint8_t *const at[4], uint64_t mask, uint8_t flip)
{
    const __mmask32 m = (__mmask32)mask;
    const __m256i a = _mm256_maskz_loadu_epi8(m, at[0]), b = _mm256_maskz_loadu_epi8(m, at[1]);
    const __m256i c = _mm256_maskz_loadu_epi8(m, at[2]), d = _mm256_maskz_loadu_epi8(m, at[3]);
    const __m256i ab[2] = {_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)};
    const __m256i cd[2] = {_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d)};
    const __m256i bits = _mm256_set1_epi8((char)flip);
    for (int k = 0; k < 2; k++) {
        _mm256_storeu_si256((void *)(to + 64 * k), _mm256_xor_si256(_mm256_unpacklo_epi16(ab[k], cd[k]), bits));
        _mm256_storeu_si256((void *)(to + 64 * k + 32), _mm256_xor_si256(_mm256_unpackhi_epi16(ab[k], cd[k]), bits));
    }
}

/* The weights of such columns, from pairs of n channels and the pairs below them, if there are any. */
CSDF_INLINE void csdf_wide_taps(int8_t *to, const int8_t *at, const int8_t *below, int32_t n, int panels)
{
    const __mmask64 low = n < 32 ? ((__mmask64)1 << 2 * n) - 1 : ~(__mmask64)0;
    const __mmask64 high = n > 32 ? ~(__mmask64)0 >> (128 - 2 * n) : 0;
    const __m512i a = _mm512_maskz_loadu_epi8(low, at);
    const __m512i b = below ? _mm512_maskz_loadu_epi8(low, below) : _mm512_setzero_si512();
    const __m512i first = _mm512_unpacklo_epi16(a, b), second = _mm512_unpackhi_epi16(a, b);
    if (panels == 4) {
        const __m512i c = _mm512_maskz_loadu_epi8(high, at + 64);
        const __m512i d = below ? _mm512_maskz_loadu_epi8(high, below + 64) : _mm512_setzero_si512();
        const __m512i third = _mm512_unpacklo_epi16(c, d), fourth = _mm512_unpackhi_epi16(c, d);
        _mm512_storeu_si512(to, _mm512_shuffle_i64x2(first, third, 0x88));
        _mm512_storeu_si512(to + 64, _mm512_shuffle_i64x2(second, fourth, 0x88));
        _mm512_storeu_si512(to + 128, _mm512_shuffle_i64x2(first, third, 0xdd));
        _mm512_storeu_si512(to + 192, _mm512_shuffle_i64x2(second, fourth, 0xdd));
    } else if (panels == 2) {
        _mm512_storeu_si512(to, _mm512_shuffle_i64x2(first, second, 0x88));
        _mm512_storeu_si512(to + 64, _mm512_shuffle_i64x2(first, second, 0xdd));
    } else {
        /* lanes 0 and 1 of both in turn */
        _mm512_storeu_si512(to, _mm512_permutex2var_epi64(first, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), second));
    }
}

/* Weights as of such columns that begin a line later. above: those of the four lines before, if there are any. */
CSDF_INLINE void csdf_wide_late(int8_t *to, const int8_t *from, const int8_t *above, int panels)
{
    for (int i = 0; i < 64 * panels; i += 64) {
        const __m512i late = _mm512_slli_epi32(_mm512_loadu_si512(from + i), 8);
        const __m512i more = above ? _mm512_srli_epi32(_mm512_loadu_si512(above + i), 24) : _mm512_setzero_si512();
        _mm512_storeu_si512(to + i, _mm512_or_si512(late, more));
    }
}

/* Thirty-two bytes, flipped by the bits of `flip`. */
CSDF_INLINE void csdf_flip_run(uint8_t *to, const uint8_t *from, uint8_t flip)
{
    const __m256i bytes = _mm256_loadu_si256((const void *)from);
    _mm256_storeu_si256((void *)to, _mm256_xor_si256(bytes, _mm256_set1_epi8((char)flip)));
}

/* The zero point and the type of bytes that are made. */
#define csdf_wide_into(b, into) \
    ((b)->plain = 0, (b)->flip = _mm512_set1_epi8((char)((into)->low < 0 ? 128 : 0)), \
        (b)->zero = _mm512_set1_epi16((short)((into)->zero - (into)->low)))
#endif

#endif
