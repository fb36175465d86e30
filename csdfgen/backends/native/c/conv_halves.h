/* Direct convolution of elements of two bytes by products of pairs: no copies, and nothing is widened in memory.
 *
 * As csdf_conv, but that sums of some output channels of a few pixels are kept on the stack until they are rounded.
 */
#ifndef CSDF_CONV_HALVES_H
#define CSDF_CONV_HALVES_H

#include "simd_halves.h"
#include "taps.h"

#define INPUT csdf_half_input
#define WEIGHTS csdf_half_weights
#define SPREAD(part, at, alone) csdf_half_spread(part, at, alone)
#if defined(CSDF_OF_F16) && CSDF_LANES == 1
/* z is that of the first of four outputs: those of a channel are side by side */
#define LOAD(part, at) csdf_half_load(part, (const csdf_half *)(const void *)(at) - ((at) - z) % 4)
#else
#define LOAD(part, at) csdf_half_load(part, at)
#endif
#define ADD(sum, x, w) CSDF_HALF_ADD(sum, x, w)
#ifdef CSDF_HALF_TURNS
#define ROUNDS 1
#define STORE(to, at, x) \
    (pass->rounds ? csdf_store_half((csdf_half *)(void *)(to) + (at), x) : csdf_store((to) + (at), x))
#else
#define STORE(to, at, x) csdf_store((to) + (at), x)
#define ROUNDS 0 /* registers of others are all taken by sums */
#endif
#define PARTS(DO, k, alone) CSDF_HALF_PARTS(DO, k, alone)
#define STEPS(count) ((count) / 2)
#define LEFT(count) ((count) % 2)
#if CSDF_HALVES_SUIT
#define CSDF_TURN 4
#define TURN(DO) DO(0) DO(1) DO(2) DO(3)
#else
#define CSDF_TURN 2
#define TURN(DO) DO(0) DO(1)
#endif

#include "passes.h"

enum {
#ifdef CSDF_HALF_TURNS
    PIXELS = 96, /* whose sums there are at a time: weights that come from afar are read once for all of them */
    OUTS = 128,  /* and their channels */
#else
    PIXELS = 24,
    OUTS = 4 * CSDF_LANES < CSDF_PANEL ? CSDF_PANEL : 4 * CSDF_LANES
#endif
};

/* Sums of `count` channels, rounded; there is a whole vector of the last ones. */
CSDF_INLINE void rounded(const float *sums, int32_t count, csdf_half *to)
{
    csdf_half some[CSDF_LANES];
    int32_t c = 0;
    for (; c + CSDF_LANES <= count; c += CSDF_LANES)
        csdf_store_half(to + c, csdf_load(sums + c));
    if (c < count) {
        csdf_store_half(some, csdf_load(sums + c));
        memcpy(to + c, some, (size_t)(count - c) * sizeof *some);
    }
}

/* Where pixels [first, first + count) of the slab are written. */
static void aim(const csdf_target *t, int32_t first, int32_t count, csdf_half **out)
{
    int32_t row = first / t->columns, column = first % t->columns;
    for (int32_t k = 0; k < count; row++, column = 0) {
        csdf_half *at = (csdf_half *)(void *)t->rows[row] + (ptrdiff_t)(t->column + column) * t->stride;
        for (const int32_t end = least(count, k + t->columns - column); k < end; at += t->stride)
            out[k++] = at;
    }
}

#ifdef CSDF_HALF_TURNS
enum { CHUNK = 128 }; /* pairs of a pixel that are turned at a time: those of some pixels and weights stay in near caches */

/* `some` pairs of every pixel from the start-th of a pass on. */
static void turn(const csdf_pass *pass, int32_t start, int32_t some, uint32_t (*to)[CHUNK + 16])
{
    const float *const *from = pass->table;
    for (int32_t i = 0, done = 0; done < some; i++, from += pass->pixels) {
        const int32_t count = pass->counts[i % pass->pieces] - 2 * start, pairs = least((count + 1) / 2, some - done);
        for (int32_t k = 0; k < pass->pixels && pairs > 0; k++)
            csdf_half_turn((const csdf_half *)(const void *)from[k] + 2 * start, least(count, 2 * pairs), to[k] + done);
        start = most(0, -count / 2);
        done += most(0, pairs);
    }
}

/* A pass whose pairs are turned once for all its channels, and not for each of its blocks. */
static void blocks(const csdf_pass *all, float *const *to)
{
    uint32_t turned[PIXELS][CHUNK + 16];
    const float *table[PIXELS];
    float minus[OUTS]; /* zeros that change no sum, not even its sign */
    csdf_pass pass = *all;
    int32_t pairs = 0, count;
    for (int32_t i = 0; i < all->pieces; i++)
        pairs += (all->counts[i] + 1) / 2;
    const int32_t joined = all->skip ? 1 : all->taps, run = joined * pairs, size = equal(run, CHUNK);
    for (int32_t c = 0; c < OUTS; c++)
        minus[c] = -0.0f;
    for (int32_t k = 0; k < all->pixels; k++)
        table[k] = (const float *)(const void *)turned[k];
    pass.table = table;
    pass.counts = &count;
    pass.taps = pass.pieces = 1;
    for (int32_t tap = 0; tap < all->taps; tap += joined)
        for (int32_t done = 0; done < run; done += size) {
            const int32_t some = least(size, run - done);
            turn(all, tap * pairs + done, some, turned);
            count = 2 * some;
            pass.before = all->before + tap * (pairs + all->skip) + done;
            const int32_t ends = tap + joined >= all->taps && done + some >= run;
            pass.activation = all->activation;
            if (!ends)
                pass.activation.kind = CSDF_NONE;
            pass.rounds = ends && all->rounds;
            pass.out = pass.rounds ? all->out : to;
            csdf_all_blocks(&pass);
            pass.bias = minus;
            pass.init = (const float *const *)to;
        }
}
#else
static void blocks(const csdf_pass *all, float *const *to)
{
    (void)to;
    csdf_all_blocks(all);
}
#endif

/* Some pixels of a slab. limits: of channels, taps and pieces of a pass. */
static void pixels(const csdf_conv_step *step, csdf_reach reach, int32_t first, int32_t count, int32_t channels,
    int32_t taps, int32_t pieces)
{
    const csdf_layer *layer = step->layer;
    const int32_t ins = layer->in_channels / layer->groups, pairs = (ins + 1) / 2;
    const int32_t outs = layer->out_channels / layer->groups;
    const int32_t stored = (outs + CSDF_HALF_OUTS - 1) / CSDF_HALF_OUTS * CSDF_HALF_OUTS;
    const int32_t wide = layer->kernel_w, window = layer->kernel_h * wide;
    const ptrdiff_t panel = (ptrdiff_t)window * pairs * CSDF_PANEL;
    const int32_t end = step->out.channel + step->out.channels;
    const int32_t row = first / step->out.columns, column = first % step->out.columns;
    const float *table[POINTERS];
    float sums[PIXELS * OUTS], *to[PIXELS], *into[PIXELS];
    csdf_half *out[PIXELS];
    slice own;
    csdf_pass pass;

    aim(&step->out, first, count, out);
    for (int32_t k = 0; k < count; k++)
        to[k] = sums + k * OUTS;
    pass.table = table;
    pass.pixels = count;
    pass.counts = own.counts;
    pass.panel = panel;
    pass.channel = pass.rounds = 0;
    for (int32_t group = 0; group < layer->groups; group++) {
        const int32_t stop = least(end, (group + 1) * outs);
        int32_t known = 0; /* whether the table is that of all taps and channels of this group */
        for (int32_t low = most(step->out.channel, group * outs); low < stop; low += pass.channels) {
            const int32_t skipped = low - group * outs;
            pass.stored = stored - skipped;
            pass.weights = layer->weights + ((ptrdiff_t)group * stored + skipped) * window * pairs;
            pass.channels = least(OUTS, stop - low);
            pass.spare = OUTS - pass.channels;
            for (int32_t k = 0; k < count; k++)
                into[k] = (float *)(void *)(out[k] + low);
            for (int32_t done = reach.low; done < reach.high; done += own.count) {
                if (!known)
                    cut(step, group * ins + done, least(channels, reach.high - done), pieces, &own);
                pass.pieces = own.pieces;
                pass.skip = pairs - (own.count + 1) / 2;
                for (int32_t tap = 0; tap < window; tap += pass.taps) {
                    const int32_t begins = done == reach.low && !tap;
                    const int32_t ends = done + own.count >= reach.high && tap + taps >= window;
                    const float **entry = table;
                    pass.taps = least(taps, window - tap);
                    for (int32_t t = tap; !known && t < tap + pass.taps; t++)
                        for (int32_t i = 0; i < own.pieces; i++, entry += count)
                            point(step, own.piece[i], own.offset[i], t / wide, t % wide, row, column, count,
                                sizeof(csdf_half), entry);
                    known = begins && ends;
                    pass.before = (ptrdiff_t)tap * pairs + done / 2;
                    pass.bias = begins ? layer->bias + low : NULL;
                    pass.init = begins ? NULL : (const float *const *)to;
                    pass.activation = layer->activation;
                    if (!ends)
                        pass.activation.kind = CSDF_NONE;
                    /* whole vectors are rounded in registers */
                    pass.rounds = ROUNDS && ends && pass.channels % CSDF_PANEL == 0;
                    pass.out = pass.rounds ? into : to;
                    blocks(&pass, to);
                }
            }
            for (int32_t k = 0; k < count && !pass.rounds; k++)
                rounded(to[k], pass.channels, out[k] + low);
        }
    }
}

/* reach: csdf_reach_of the step, which a kernel's own file calls: emission follows no calls in headers. */
static void conv_halves(const csdf_conv_step *step, csdf_reach reach)
{
    const csdf_layer *layer = step->layer;
    const int32_t all = step->out.columns * step->out.count;
    const int32_t ins = layer->in_channels / layer->groups, window = layer->kernel_h * layer->kernel_w;
    /* those of csdf_conv, so that sums are the same */
    const int32_t taps = equal(window, least(SEGMENTS, most(1, CSDF_PASS_STEPS / ins)));
    const int32_t channels = (equal(ins, CSDF_PASS_STEPS) + 3) / 4 * 4;
    const int32_t pieces = least(step->piece_count, least(PIECES, most(1, SEGMENTS / taps)));
    const int32_t room_for = least(PIXELS, POINTERS / (taps * pieces)), rounds = (all + room_for - 1) / room_for;
    for (int32_t k = 0, first = 0; k < rounds; k++) {
        const int32_t some = (all - first) / (rounds - k);
        pixels(step, reach, first, some, channels, taps, pieces);
        first += some;
    }
}

#endif
