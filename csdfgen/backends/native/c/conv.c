/* Direct convolution: no copies, a pointer for each pixel and tap.
 *
 * Pixels of a slab are taken some at a time, across rows, as many as a table of pointers holds;
 * input channels in passes whose weights of a panel stay in a near cache, with partial sums in the
 * output. Few channels (a first layer) need no such table: see conv_lines.c.
 */
#include "taps.h"

/* Where pixels [first, first + count) of the slab are written. */
static void aim(const csdf_conv_step *step, int32_t first, int32_t count, float **out, const float **residual)
{
    const csdf_target *t = &step->out;
    const csdf_source *added = step->residual;
    int32_t row = first / t->columns, column = first % t->columns;
    for (int32_t k = 0; k < count; row++, column = 0) {
        const int32_t end = least(count, k + t->columns - column), from = k;
        const ptrdiff_t x = t->column + column;
        float *at = t->rows[row] + x * t->stride;
        for (; k < end; at += t->stride)
            out[k++] = at;
        if (added) {
            const float *add = added->rows[row] + x * added->stride;
            for (k = from; k < end; add += added->stride)
                residual[k++] = add;
        }
    }
}

/* Some pixels of a slab, all passes. limits: of channels, taps and pieces of a pass. */
static void pixels(const csdf_conv_step *step, int32_t first, int32_t count, int32_t channels, int32_t taps,
    int32_t pieces)
{
    const csdf_layer *layer = step->layer;
    const int32_t ins = layer->in_channels / layer->groups;
    const int32_t outs = layer->out_channels / layer->groups;
    const int32_t wide = layer->kernel_w, window = layer->kernel_h * wide;
    const ptrdiff_t panel = (ptrdiff_t)window * ins * CSDF_PANEL;
    const int32_t end = step->out.channel + step->out.channels;
    const float *table[POINTERS];
    const float **residual = table + count;
    float **const out = (float **)table;
    const float **const pointers = step->residual ? residual + count : residual;
    const csdf_reach reach = csdf_reach_of(step);
    const int32_t row = first / step->out.columns, column = first % step->out.columns;
    slice own;
    csdf_pass pass;

    aim(step, first, count, out, residual);
    pass.table = pointers;
    pass.pixels = count;
    pass.counts = own.counts;
    pass.panel = panel;
    pass.out = out;
    for (int32_t group = 0; group < layer->groups; group++) {
        const int32_t low = most(step->out.channel, group * outs);
        const int32_t stop = least(end, (group + 1) * outs);
        if (low >= stop)
            continue;
        pass.stored = (group + 1) * outs - low;
        pass.weights = layer->weights + (ptrdiff_t)low * window * ins; /* the first one of a panel */
        pass.channel = low;
        pass.channels = stop - low;
        /* the next group writes what this one leaves behind its last channel */
        pass.spare = step->residual ? 0 : end - stop;
        for (int32_t done = reach.low; done < reach.high; done += own.count) {
            cut(step, group * ins + done, least(channels, reach.high - done), pieces, &own);
            pass.pieces = own.pieces;
            pass.skip = ins - own.count;
            for (int32_t tap = 0; tap < window; tap += pass.taps) {
                const int32_t begins = done == reach.low && !tap;
                const float **entry = pointers;
                pass.taps = least(taps, window - tap);
                for (int32_t t = tap; t < tap + pass.taps; t++)
                    for (int32_t i = 0; i < own.pieces; i++, entry += count)
                        point(step, own.piece[i], own.offset[i], t / wide, t % wide, row, column, count, sizeof **entry, entry);
                pass.before = (ptrdiff_t)tap * ins + done;
                pass.bias = begins ? layer->bias + low : NULL;
                pass.init = begins ? (step->residual ? residual : NULL) : (const float *const *)out;
                pass.activation = layer->activation;
                if (done + own.count < reach.high || tap + pass.taps < window)
                    pass.activation.kind = CSDF_NONE;
                csdf_products(&pass);
            }
        }
    }
}

void csdf_conv(const csdf_conv_step *step)
{
    if (csdf_conv_lines(step))
        return;
    const csdf_layer *layer = step->layer;
    const int32_t all = step->out.columns * step->out.count;
    const int32_t ins = layer->in_channels / layer->groups, window = layer->kernel_h * layer->kernel_w;
    const int32_t fixed = step->residual ? 2 : 1;
    /* taps of a pass, as many as suit; where not even one does, some of its channels */
    const int32_t steps = step->some > 0 ? step->some : CSDF_PASS_STEPS;
    const int32_t taps = equal(window, least(SEGMENTS, most(1, steps / ins)));
    const int32_t channels = (equal(ins, steps) + 3) / 4 * 4;
    const int32_t pieces = least(step->piece_count, least(PIECES, most(1, SEGMENTS / taps)));
    const int32_t room_for = POINTERS / (taps * pieces + fixed), rounds = (all + room_for - 1) / room_for;
    for (int32_t k = 0, first = 0; k < rounds; k++) {
        const int32_t some = (all - first) / (rounds - k);
        pixels(step, first, some, channels, taps, pieces);
        first += some;
    }
}

void csdf_conv_of(const void *step) { csdf_conv(step); }
