/* What do kernels of bytes have in common? What becomes of sums. */
#ifndef CSDF_BYTES_H
#define CSDF_BYTES_H

#include "csdf.h"
#include "simd_bytes.h"
#include "used.h"

/* All vectors of sixteen integers. */
#ifdef CSDF_HELIUM
#define CSDF_EACH(v) CSDF_UNROLLED for (int v = 0; v < CSDF_BLOCK_VECTORS; v++)
#else
#define CSDF_EACH(v) for (int v = 0; v < CSDF_BLOCK_VECTORS; v++)
#endif

/* Bounds and zero point of bytes that are written, as csdf_round wants them. */
typedef struct csdf_bounds {
    csdf_v low, high;
    csdf_i zero;
} csdf_bounds;

CSDF_INLINE csdf_bounds csdf_bounds_of(int32_t zero, int32_t low, int32_t high)
{
    const csdf_bounds found = {
        csdf_splat((float)(low - zero)), csdf_splat((float)(high - zero)), csdf_splat_i(zero - CSDF_ROUND_BITS)};
    return found;
}

/* Values rounded half to even, within the bounds, and moved by the zero point: integers whose bytes are those. */
CSDF_INLINE csdf_i csdf_round(csdf_v x, const csdf_bounds *by)
{
    return csdf_rounded(csdf_min(by->high, csdf_max(by->low, x))) + by->zero;
}

/* The byte of a sum by a multiplier and a shift. A multiplier has 31 bits, so that it is a factor of 24 bits exactly, and
 * the result the true product, rounded to the nearest integer, ties upwards. */
CSDF_INLINE uint8_t csdf_shifted(int32_t sum, const int32_t *by, int32_t zero, int32_t low, int32_t high)
{
    const int64_t value = ((int64_t)sum * by[0] + ((int64_t)1 << (by[1] - 1))) >> by[1]; /* rounds down, negative ones too */
    const int64_t least = low - zero, most = high - zero;
    return (uint8_t)(zero + (int32_t)(value < least ? least : value > most ? most : value));
}

/* The sum times multiplier / 2^31 * 2^(exponent - 32), rounded after the first factor, ties upwards, and after the second,
 * ties away from zero, as TensorFlow Lite Micro does. exponent: below 0, which tells such pairs from others. */
CSDF_INLINE int32_t csdf_twice(int32_t sum, int32_t multiplier, int32_t exponent)
{
    const int32_t left = exponent > -32 ? exponent + 32 : 0, right = left - exponent - 32;
    const int32_t mask = (int32_t)(((uint32_t)1 << right) - 1);
    const int32_t x = (int32_t)((uint32_t)sum << left);
    const int32_t high = (int32_t)(((int64_t)x * multiplier + ((int64_t)1 << 30)) >> 31);
    return (high >> right) + ((high & mask) > (mask >> 1) + (high < 0));
}

CSDF_INLINE uint8_t csdf_shifted_twice(int32_t sum, const int32_t *by, int32_t zero, int32_t low, int32_t high)
{
    return (uint8_t)(zero + least(high - zero, most(low - zero, csdf_twice(sum, by[0], by[1]))));
}

/* Blocks of nearly equal size: of `each`, or of one more, the first `more` of them. Two divisions for all blocks: one for
 * each block would take as long as the products of a few pixels. */
typedef struct csdf_even {
    int32_t each, more;
} csdf_even;

/* Blocks of at most `most`; count: at least one. */
CSDF_INLINE csdf_even csdf_evenly(int32_t count, int32_t most)
{
    const int32_t blocks = (count + most - 1) / most;
    const csdf_even even = {count / blocks, count % blocks};
    return even;
}

CSDF_INLINE int32_t csdf_next(csdf_even *even) { return even->each + (even->more-- > 0); }

/* Channels whose sums are formed at a time. */
enum { CSDF_SUMMED = 64 };

CSDF_INLINE void csdf_add_some_bytes(int32_t *sums, const uint8_t *at, int32_t n, uint8_t flip)
{
    for (int32_t c = 0; c < n; c++)
        sums[c] += (int8_t)(at[c] ^ flip);
}

/* Adds n bytes of a pixel to sums; the usual number, a constant, by vectors. */
CSDF_INLINE void csdf_add_bytes(int32_t *sums, const uint8_t *at, int32_t n, uint8_t flip)
{
    if (n == CSDF_SUMMED)
        csdf_add_some_bytes(sums, at, CSDF_SUMMED, flip);
    else
        csdf_add_some_bytes(sums, at, n, flip);
}

/* The sums of n channels from `first` on over all pixels that a step reads. */
CSDF_INLINE void csdf_sum_pixels(const csdf_byte_sum_step *step, int32_t first, int32_t n, int32_t *sums)
{
    for (int32_t c = 0; c < n; c++)
        sums[c] = step->flip * step->width * step->count;
    for (int32_t row = 0; row < step->count; row++)
        for (int32_t x = 0; x < step->width; x++)
            csdf_add_bytes(
                sums, step->source.rows[row] + (ptrdiff_t)x * step->source.stride + first, n, (uint8_t)step->flip);
}

/* The first n of sixteen bytes. */
CSDF_INLINE void csdf_store_bytes(uint8_t *to, const csdf_i *x, int32_t n)
{
    if (n == 16) {
        csdf_narrow(to, x);
    } else {
        uint8_t some[16];
        csdf_narrow(some, x);
        if (n == 8)
            memcpy(to, some, 8);
        else
            memcpy(to, some, (size_t)n);
    }
}

/* Sums of n outputs, the first of which has this place among all, of some pixels, [16] each: what they are stored as,
 * `apart` bytes from one pixel to the next. Functions of files of their own: a layer without floats needs none. */
void csdf_rescale_by_factors(const csdf_rescaling *into, ptrdiff_t panel, int32_t n, const int32_t *sums, int32_t pixels,
    uint8_t *out, ptrdiff_t apart);
void csdf_rescale_by_shifts(const csdf_rescaling *into, ptrdiff_t panel, int32_t n, const int32_t *sums, int32_t pixels,
    uint8_t *out, ptrdiff_t apart);

/* may: whether any layer of a kernel is CSDF_SHIFTED. */
#define CSDF_RESCALED(may, into) ((may) && (into)->kind == CSDF_SHIFTED ? csdf_rescale_by_shifts : csdf_rescale_by_factors)

/* Bytes of an output. */
CSDF_INLINE ptrdiff_t csdf_bytes_of(const csdf_rescaling *into) { return into->kind == CSDF_BYTES || into->kind == CSDF_SHIFTED ? 1 : 4; }

#endif
