/* How are blocks of pixels by vectors of output channels put together to a pass? For what the file that includes this
 * multiplies: floats, unless it defines INPUT and the other macros of the blocks.
 */
#ifndef CSDF_PASSES_H
#define CSDF_PASSES_H

#include "products.h"

/* Blocks of the pass's first vectors, `times` of them, one behind the other, from the first on of `all`
 * that have the same weights. next: floats to the weights that all of them fetch together, for later. */
typedef void csdf_block(const csdf_pass *pass, const float *const *table, const float *const *init,
    float *const *out, ptrdiff_t next, int32_t first, int32_t times, int32_t all);

/* Blocks of `vectors` vectors and 1 to `pixels` pixels, for passes of at most `most` pixels
 * (0: any number); of all passes, and of those with one tap and one piece. */
typedef struct csdf_shape {
    int32_t vectors, pixels, most;
    csdf_block *const *blocks[2];
} csdf_shape;

#if CSDF_LANES == 16
#include "blocks_16.h"
#elif CSDF_LANES == 8
#include "blocks_8.h"
#elif CSDF_LANES == 4
#include "blocks_4.h"
#else
#include "blocks_1.h"
#endif

/* The first shape that is meant for so many pixels and has no vector too many for so many channels;
 * the last one, of few channels, where there is none. */
static const csdf_shape *shape_for(int32_t pixels, int32_t channels)
{
    const int32_t count = (int32_t)(sizeof shapes / sizeof *shapes);
    const int32_t vectors = (channels + CSDF_LANES - 1) / CSDF_LANES;
    for (int32_t i = 0; i < count; i++)
        if ((!shapes[i].most || pixels <= shapes[i].most) && shapes[i].vectors <= vectors)
            return &shapes[i];
    return &shapes[count - 1];
}

/* A block of which only `channels` channels exist: through a piece of stack. */
static void tail(csdf_pass pass, csdf_block *block, int32_t pixel, int32_t pixels, int32_t channels,
    int32_t lanes)
{
    float sums[CSDF_BLOCK_FLOATS];
    float *out[CSDF_BLOCK_PIXELS] = {NULL};
    const ptrdiff_t shift = pass.channel;
    for (int32_t i = 0; i < pixels; i++) {
        out[i] = sums + i * lanes;
        for (int32_t c = 0; pass.init && c < lanes; c++)
            out[i][c] = c < channels ? pass.init[pixel + i][shift + c] : 0.0f;
    }
    pass.channel = 0;
    block(&pass, pass.table + pixel, pass.init ? (const float *const *)out : NULL, out, 0, 0, 1, CSDF_TURN);
    for (int32_t i = 0; i < pixels; i++)
        for (int32_t c = 0; c < channels; c++)
            pass.out[pixel + i][shift + c] = out[i][c];
}

/* Pixels from `pixel` on that may be written as blocks of `lanes` lanes although fewer channels exist:
 * what is written behind the channels of each of them are pixels of the pass, which come later. */
static uint32_t overlaid(const csdf_pass *pass, uint32_t pixel, int32_t lanes)
{
    const uint32_t pixels = (uint32_t)pass->pixels, behind = (uint32_t)(lanes - 1) / (uint32_t)pass->channels;
    uint32_t next = pixel + 1;
    if (pass->init)
        return 0;
    while (next < pixels && pass->out[next] == pass->out[next - 1] + pass->channels)
        next++;
    return next - pixel > behind ? next - pixel - behind : 0;
}

/* `times` blocks of `size` pixels with fewer channels than lanes. */
static void few(const csdf_pass *pass, csdf_block *block, uint32_t pixel, uint32_t size, uint32_t times,
    int32_t lanes)
{
    while (times > 0) {
        /* each pixel covers up what the one before has left behind its channels */
        const uint32_t some = overlaid(pass, pixel, lanes) / size, whole = some < times ? some : times;
        if (whole)
            block(pass, pass->table + pixel, NULL, pass->out + pixel, 0, 0, (int32_t)whole, CSDF_TURN);
        else
            tail(*pass, block, (int32_t)pixel, (int32_t)size, pass->channels, lanes);
        pixel += (whole ? whole : 1) * size;
        times -= whole ? whole : 1;
    }
}

CSDF_INLINE void csdf_all_blocks(const csdf_pass *whole)
{
    csdf_pass pass = *whole;
    const uint32_t pixels = (uint32_t)pass.pixels;
    const int32_t single = pass.taps == 1 && pass.pieces == 1;
    int32_t lane = 0;
    if (!pass.bias)
        pass.bias = csdf_zeros;
    while (pass.channels > 0) {
        const csdf_shape *shape = shape_for(pass.pixels, pass.channels);
        const int32_t lanes = shape->vectors * CSDF_LANES;
        const uint32_t limit = (uint32_t)shape->pixels, count = (pixels + limit - 1) / limit;
        /* blocks of equal size, or one pixel more: none is left with few */
        const uint32_t size = pixels / count, more = pixels % count;
        const int32_t behind = (lanes - 1) / CSDF_PANEL;
        const ptrdiff_t ahead = pass.panel * (behind + 1);
        const float *from = whole->weights + lane / CSDF_PANEL * pass.panel + lane % CSDF_PANEL;
        uint32_t pixel = 0;
        pass.weights = from + pass.before * CSDF_PANEL;
        pass.pitch = csdf_pitch_of(pass.stored - (lane / CSDF_PANEL + behind) * CSDF_PANEL);
        pass.last = from + behind * pass.panel + pass.before * pass.pitch;
        for (int32_t larger = 1; larger >= 0; larger--) {
            const uint32_t n = size + (uint32_t)larger, times = larger ? more : count - more;
            if (!times)
                continue;
            csdf_block *block = shape->blocks[single][n - 1];
            if (pass.channels + pass.spare < lanes)
                few(&pass, block, pixel, n, times, lanes);
            else
                block(&pass, pass.table + pixel, pass.init ? pass.init + pixel : NULL,
                    pass.out + pixel, ahead, larger ? 0 : (int32_t)more, (int32_t)times, (int32_t)count);
            pixel += times * n;
        }
        /* so many lanes are part of a panel, or whole ones */
        lane += lanes;
        pass.channel += lanes;
        pass.channels -= lanes;
        if (whole->bias)
            pass.bias += lanes;
    }
}

#endif
