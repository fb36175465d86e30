/* What do convolution, Winograd and Gemm have in common? Sums of products of pixels and panels.
 *
 * A pass has up to some hundred pixels. Each of them is the sum over taps, and within a tap over
 * pieces, of runs of floats somewhere in memory times weights that lie one after the other.
 */
#ifndef CSDF_PRODUCTS_H
#define CSDF_PRODUCTS_H

#include "csdf.h"
#include "simd.h"

/* table: [tap][piece][pixel], address of the run; counts: floats of a piece's runs.
 * weights: the first output channel's panel; panel: floats to the next panel; stored: channels that have weights from
 *     there on. A panel has rows of sixteen weights, or of as many as there are channels left for the last one.
 * before: rows of a panel in front of the pass's first one; skip: rows between those of a tap and those of the next.
 * channels: that are written, from `channel` of each pixel's address on; spare: behind them, that may be
 *     written too, with anything.
 * Of weights and bias whole vectors are read: behind the last channel there is something up to sixteen.
 * bias: of the first channel, or NULL; init: addresses of what is added, or NULL, by pixel; out: where the sums go, by pixel.
 * rounds: of elements of two bytes, whether these are stored in `out`, and not the sums.
 * last, pitch: first row and floats of a row of the last panel of a block, which csdf_all_blocks sets. */
typedef struct csdf_pass {
    const float *const *table;
    int32_t pixels;
    int32_t taps, pieces;
    const int32_t *counts;
    const float *weights;
    ptrdiff_t panel, before, skip;
    int32_t stored, channel, channels, spare;
    const float *bias;
    const float *const *init;
    float *const *out;
    csdf_activation activation;
    int32_t rounds;
    const float *last;
    ptrdiff_t pitch;
} csdf_pass;

/* `stored` of panels that are filled up. */
#define CSDF_WHOLE INT32_MAX

/* Floats of a row of a panel, the first of so many channels that are stored. */
CSDF_INLINE int32_t csdf_pitch_of(int32_t stored) { return least(stored, CSDF_PANEL); }

void csdf_products(const csdf_pass *pass);

/* What csdf_conv computes, where pixels side by side see runs of floats that are as far apart; 0 where they do not, and
 * nothing is computed. */
int32_t csdf_conv_lines(const csdf_conv_step *step);

/* `depth` rows and `columns` columns of a matrix as csdf_products has weights: packed, [ceil(columns / 16)][depth][16],
 * zeros behind the last column. down, across: floats from one row to the next, and from one column to the next. */
void csdf_pack_panels(const float *from, ptrdiff_t down, ptrdiff_t across, int32_t depth, int32_t columns,
    float *packed);

/* The same of a part of a matrix whose rows, or columns, are at any addresses: from column `at` of these rows on, or from
 * row `at` of these columns. step: floats from one of these elements to the next. */
void csdf_pack_rows(const float *const *rows, ptrdiff_t at, ptrdiff_t step, int32_t depth, int32_t columns, float *packed);
void csdf_pack_columns(const float *const *columns, ptrdiff_t at, ptrdiff_t step, int32_t depth, int32_t count,
    float *packed);

/* out[r][c] = sum of rows[r][k] * packed[k][c] for k below `depth`; with `more`, added to what `out` has. Each product is
 * added to the sum of those before it, so that neither the number of rows and columns nor a depth in several parts
 * changes a bit.
 * rows: of `depth` floats side by side, `apart` floats from one of `count` to the next; packed: see csdf_pack_panels,
 *     `panel` floats from one panel to the next; out: `pace` floats from one row to the next, columns side by side. */
void csdf_multiply_panels(const float *rows, ptrdiff_t apart, int32_t count, int32_t depth,
    const float *packed, ptrdiff_t panel, float *out, ptrdiff_t pace, int32_t columns, int32_t more);

/* Input channels [low, high) of a group are those of pieces that are not padding. */
typedef struct csdf_reach {
    int32_t low, high;
} csdf_reach;

csdf_reach csdf_reach_of(const csdf_conv_step *step);

/* The stage of a share that is the whole step. */
#define CSDF_ALL_STAGES (-1)

/* Of a share: units of the stage from the first one of its part on, up to the one that ends it. */
typedef struct csdf_some {
    int32_t begin, end;
} csdf_some;

CSDF_INLINE csdf_some csdf_some_of(const csdf_conv_share *share, int32_t units)
{
    const csdf_some found = {units * share->part / share->parts, units * (share->part + 1) / share->parts};
    return found;
}

/* Whether the next stage, whose number is counted up, is to be done. */
CSDF_INLINE int32_t csdf_is_due(const csdf_conv_share *share, int32_t *next)
{
    return share->stage == CSDF_ALL_STAGES || share->stage == (*next)++;
}

/* What padding reads: runs of zeros are at most so long. */
#define CSDF_ZEROS 512
extern const float csdf_zeros[CSDF_ZEROS];

/* e^r - 1 with x = k * log(2) + r and |r| <= log(2) / 2, by the polynomial of Cephes' expf; moved: k, as csdf_power_of_two
 * takes it. */
CSDF_INLINE csdf_v csdf_reduced(csdf_v x, csdf_v *moved)
{
    const csdf_v shift = csdf_splat(0x1.8p23f);
    *moved = x * csdf_splat(1.44269504088896341f) + shift;
    const csdf_v k = *moved - shift;
    const csdf_v r = (x - k * csdf_splat(0.693359375f)) + k * csdf_splat(2.12194440e-4f);
    csdf_v p = csdf_splat(1.9875691500e-4f) * r + csdf_splat(1.3981999507e-3f);
    p = p * r + csdf_splat(8.3334519073e-3f);
    p = p * r + csdf_splat(4.1665795894e-2f);
    p = p * r + csdf_splat(1.6666665459e-1f);
    p = p * r + csdf_splat(5.0000001201e-1f);
    return r + r * r * p;
}

/* e^x of a clipped x. */
CSDF_INLINE csdf_v csdf_exponential(csdf_v x)
{
    csdf_v moved;
    const csdf_v rest = csdf_reduced(csdf_min(csdf_splat(87.0f), csdf_max(csdf_splat(-87.0f), x)), &moved);
    return (csdf_splat(1.0f) + rest) * csdf_power_of_two(moved);
}

/* x < 0 ? slope * x : x; a negative zero, so that what a slope of 0 makes of negative numbers keeps its sign. */
CSDF_INLINE csdf_v csdf_leaking(csdf_v x, csdf_v slope)
{
    return csdf_max(csdf_splat(-0.0f), x) + slope * csdf_min(csdf_splat(0.0f), x);
}

CSDF_INLINE csdf_v csdf_activated(csdf_v x, const csdf_activation *by)
{
    if (by->kind == CSDF_CLIP)
        return csdf_min(csdf_splat(by->b), csdf_max(csdf_splat(by->a), x));
    if (by->kind == CSDF_LEAKY)
        return csdf_leaking(x, csdf_splat(by->a));
    return x;
}

#endif
