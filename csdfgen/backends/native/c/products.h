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
 * weights: those of the first tap of the first output channel's panel; panel: floats to the next
 *     panel; skip: floats between the last weight of a tap and the first of the next.
 * channels: that are written, from `channel` of each pixel's address on; spare: behind them, that may be
 *     written too, with anything.
 * bias: of the first channel, in whole panels, or NULL; init: addresses of what is added, or NULL,
 *     by pixel; out: where the sums go, by pixel. */
typedef struct csdf_pass {
    const float *const *table;
    int32_t pixels;
    int32_t taps, pieces;
    const int32_t *counts;
    const float *weights;
    ptrdiff_t panel, skip;
    int32_t channel, channels, spare;
    const float *bias;
    const float *const *init;
    float *const *out;
    csdf_activation activation;
} csdf_pass;

void csdf_products(const csdf_pass *pass);

/* Input channels [low, high) of a group are those of pieces that are not padding. */
typedef struct csdf_reach {
    int32_t low, high;
} csdf_reach;

csdf_reach csdf_reach_of(const csdf_conv_step *step);

/* What padding reads: runs of zeros are at most so long. */
#define CSDF_ZEROS 512
extern const float csdf_zeros[CSDF_ZEROS];

CSDF_INLINE csdf_v csdf_activated(csdf_v x, const csdf_activation *by)
{
    if (by->kind == CSDF_CLIP)
        return csdf_min(csdf_splat(by->b), csdf_max(csdf_splat(by->a), x));
    if (by->kind == CSDF_LEAKY) {
        const csdf_v zero = csdf_splat(0.0f);
        return csdf_max(zero, x) + csdf_splat(by->a) * csdf_min(zero, x);
    }
    return x;
}

#endif
