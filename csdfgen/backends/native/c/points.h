/* What do Winograd's two forms share? The points 0, 1, -1, 2, -2 and infinity of Lavin and Gray, 2015, and weights there.
 *
 * Weights that were packed as those of csdf_conv are taken to points where they are needed, some inputs of a block of outputs at
 * a time: they take no more memory, and less time than reading two to four times their bytes from far away.
 */
#ifndef CSDF_POINTS_H
#define CSDF_POINTS_H

#include "products.h"

enum {
    POINTS = 6,     /* of a tile along the row */
    SUMS = 64,      /* output channels at a time */
    LEAST_INS = 64, /* input channels at a time, where there are so many, */
    KEPT = 32       /* and those whose weights are kept at points */
};

CSDF_INLINE int32_t padded(int32_t channels) { return (channels + CSDF_PANEL - 1) / CSDF_PANEL * CSDF_PANEL; }

/* Floats from one point to the next of weights that are kept, in `high` rows of each input and output: points that lie a power
 * of two apart would drive each other out of a near cache. */
CSDF_INLINE ptrdiff_t kept(const csdf_layer *layer, int32_t high)
{
    const int32_t outs = layer->out_channels / layer->groups;
    return layer->at_points ? 0 : (ptrdiff_t)high * KEPT * least(SUMS, padded(outs)) + CSDF_PANEL;
}

/* Six values to six points; STORE(number of the point, value). */
#define TO_SIX(STORE, d0, d1, d2, d3, d4, d5) \
    { \
        const csdf_v even = d4 - four * d2, odd = d3 - four * d1; \
        const csdf_v near = d4 - d2, far = two * (d3 - d1); \
        STORE(0, four * d0 - five * d2 + d4) \
        STORE(1, even + odd) \
        STORE(2, even - odd) \
        STORE(3, near + far) \
        STORE(4, near - far) \
        STORE(5, four * d1 - five * d3 + d5) \
    }

CSDF_INLINE csdf_v some(const float *at, int32_t c, int32_t n)
{
    return !at ? csdf_splat(0.0f) : n == CSDF_LANES ? csdf_load(at + c) : csdf_load_some(at + c, n);
}

/* 2 to 5 weights of a row to points. */
CSDF_INLINE void row_of_weights(const csdf_v *g, int32_t wide, csdf_v *to)
{
    const csdf_v none = csdf_splat(0.0f), g2 = wide > 2 ? g[2] : none, g3 = wide > 3 ? g[3] : none;
    const csdf_v g4 = wide > 4 ? g[4] : none, four = csdf_splat(4.0f);
    const csdf_v sixth = csdf_splat(-1.0f / 6), part = csdf_splat(1.0f / 24);
    const csdf_v even = g[0] + g2 + g4, odd = g[1] + g3;
    const csdf_v near = g[0] + four * (g2 + four * g4), far = csdf_splat(2.0f) * (g[1] + four * g3);
    to[0] = csdf_splat(0.25f) * g[0];
    to[1] = sixth * (even + odd);
    to[2] = sixth * (even - odd);
    to[3] = part * (near + far);
    to[4] = part * (near - far);
    to[5] = g[wide - 1];
}

/* One vector of weights, of `high` rows of `wide` taps, which are `step` floats apart. down: points of a column, 1: rows stay.
 * own: the points that are stored. */
CSDF_INLINE void vector_of_weights(const float *at, ptrdiff_t step, int32_t high, int32_t wide, int32_t down, csdf_some own,
    float *to, ptrdiff_t row, ptrdiff_t plane)
{
    csdf_v t[POINTS][POINTS], g[5], c[POINTS];
    for (int32_t y = 0; y < high; y++, to += down == 1 ? row : 0) {
        for (int32_t x = 0; x < wide; x++, at += step) {
            g[x] = csdf_load(at);
            CSDF_PREFETCH(at + row);
        }
        row_of_weights(g, wide, down == 1 ? c : t[y]);
        for (int32_t q = 0; down == 1 && q < POINTS; q++)
            if (own.begin <= q && q < own.end)
                csdf_store(to + q * plane, c[q]);
    }
    for (int32_t q = 0; down > 1 && q < POINTS; q++) {
        const csdf_v half = csdf_splat(0.5f), both = t[0][q] + t[2][q];
        g[0] = c[0] = t[0][q];
        g[1] = t[1][q];
        g[2] = c[3] = t[2][q];
        c[1] = half * (both + g[1]);
        c[2] = half * (both - g[1]);
        if (down == POINTS)
            row_of_weights(g, 3, c);
        for (int32_t p = 0; p < down; p++)
            if (own.begin <= p * POINTS + q && p * POINTS + q < own.end)
                csdf_store(to + (p * POINTS + q) * plane, c[p]);
    }
}

/* Weights of a panel, [kernel_h][kernel_w][in][16, or as many channels as are stored], of `inputs` inputs from `first` on to
 * points: [point][kernel_h or 1][input][16], of which only the own ones are stored. */
CSDF_INLINE void take_weights(const csdf_layer *layer, const float *panel, int32_t stored, int32_t first, int32_t down,
    int32_t inputs, csdf_some own, float *to, ptrdiff_t plane)
{
    const ptrdiff_t pitch = csdf_pitch_of(stored), step = layer->in_channels / layer->groups * pitch;
    const ptrdiff_t row = (ptrdiff_t)inputs * CSDF_PANEL;
    for (ptrdiff_t i = 0; i < row; i += CSDF_LANES) {
        const float *at = panel + (first + i / CSDF_PANEL) * pitch + i % CSDF_PANEL;
        if (down == 6)
            vector_of_weights(at, step, 3, 3, 6, own, to + i, row, plane);
        else if (down == 4)
            vector_of_weights(at, step, 3, 3, 4, own, to + i, row, plane);
        else if (layer->kernel_h == 3 && layer->kernel_w == 3)
            vector_of_weights(at, step, 3, 3, 1, own, to + i, row, plane);
        else
            vector_of_weights(at, step, layer->kernel_h, layer->kernel_w, 1, own, to + i, row, plane);
    }
}

#endif
