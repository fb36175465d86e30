/* Direct convolution: no copies, a pointer for each pixel and tap.
 *
 * Pixels of a slab are taken some at a time, across rows, as many as a table of pointers holds;
 * input channels in passes whose weights of a panel stay in a near cache, with partial sums in the
 * output. Few channels (a first layer) need no such table: see conv_lines.c.
 */
#include "images.h"
#include "products.h"

enum {
    POINTERS = 512,  /* of a table: 4 KiB where pointers have 8 bytes */
    SEGMENTS = 64,   /* of a pass: taps times pieces */
    PIECES = 32      /* of a pass */
};

/* Weights of an output channel in a pass: their panel stays in a near cache for all pixels. */
#ifndef CSDF_PASS_STEPS
#define CSDF_PASS_STEPS 1280
#endif

/* Channels [first, first + count) of a group are the pass's, in these pieces of the input. */
typedef struct slice {
    int32_t first, count;
    int32_t pieces;
    const csdf_source *piece[PIECES];
    int32_t offset[PIECES], counts[PIECES];
} slice;

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

/* The pieces that hold channels [first, first + count) of the input, of which at most so many that
 * the pass has `limit` of them; runs of padding are no longer than the zeros are. */
static void cut(const csdf_conv_step *step, int32_t first, int32_t count, int32_t limit, slice *cut)
{
    int32_t start = 0;
    cut->first = first;
    cut->count = 0;
    cut->pieces = 0;
    for (int32_t i = 0; i < step->piece_count && cut->pieces < limit; i++) {
        const csdf_source *piece = step->pieces + i;
        const int32_t low = most(first, start), high = least(first + count, start + piece->channels);
        if (low < high) {
            const int32_t n = least(high - low, CSDF_ZEROS);
            cut->piece[cut->pieces] = piece;
            cut->offset[cut->pieces] = low - start;
            cut->counts[cut->pieces++] = n;
            cut->count += n;
            if (n < high - low)
                return;
        }
        start += piece->channels;
    }
}

/* The table's pointers of one tap and piece: `count` pixels of the slab from this row and column of it on. */
static void point(const csdf_conv_step *step, const csdf_source *piece, int32_t offset, int32_t y, int32_t x,
    int32_t row, int32_t column, int32_t count, const float **table)
{
    const csdf_layer *layer = step->layer;
    const int32_t shift = x * layer->dilation_w - layer->pad_left;
    const ptrdiff_t pace = (ptrdiff_t)piece->stride * layer->stride_w;
    for (int32_t k = 0; k < count; row++, column = 0) {
        const int32_t from = csdf_first_row(row, layer->stride_h, step->each, step->apart);
        const float *at = piece->rows[from + y * layer->dilation_h];
        const int32_t end = least(count, k + step->out.columns - column);
        if (!at) {
            while (k < end)
                table[k++] = csdf_zeros;
            continue;
        }
        int32_t in = (step->out.column + column) * layer->stride_w + shift;
        for (; k < end && in < 0; in += layer->stride_w)
            table[k++] = csdf_zeros;
        at += offset + (ptrdiff_t)in * piece->stride;
        int32_t until = end;
        if (in + (end - k - 1) * layer->stride_w >= step->width)
            until = k + (step->width - in + layer->stride_w - 1) / layer->stride_w;
        for (; k < until; at += pace)
            table[k++] = at;
        while (k < end)
            table[k++] = csdf_zeros;
    }
}

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
    const int32_t panels = (outs + CSDF_PANEL - 1) / CSDF_PANEL;
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
        const ptrdiff_t at = ((ptrdiff_t)group * panels) * CSDF_PANEL + (low - group * outs);
        const float *weights = layer->weights + at / CSDF_PANEL * panel;
        if (low >= stop)
            continue;
        pass.channel = low;
        pass.channels = stop - low;
        /* the next group writes what this one leaves behind its last channel */
        pass.spare = step->residual ? 0 : end - stop;
        for (int32_t done = reach.low; done < reach.high; done += own.count) {
            cut(step, group * ins + done, least(channels, reach.high - done), pieces, &own);
            pass.pieces = own.pieces;
            pass.skip = (ptrdiff_t)(ins - own.count) * CSDF_PANEL;
            for (int32_t tap = 0; tap < window; tap += pass.taps) {
                const int32_t begins = done == reach.low && !tap;
                const float **entry = pointers;
                pass.taps = least(taps, window - tap);
                for (int32_t t = tap; t < tap + pass.taps; t++)
                    for (int32_t i = 0; i < own.pieces; i++, entry += count)
                        point(step, own.piece[i], own.offset[i], t / wide, t % wide, row, column, count, entry);
                pass.weights = weights + ((ptrdiff_t)tap * ins + done) * CSDF_PANEL;
                pass.bias = begins ? layer->bias + at : NULL;
                pass.init = begins ? (step->residual ? residual : NULL) : (const float *const *)out;
                pass.activation = layer->activation;
                if (done + own.count < reach.high || tap + pass.taps < window)
                    pass.activation.kind = CSDF_NONE;
                csdf_products(&pass);
            }
        }
    }
}

/* The size of equal parts of a whole that are at most so large. */
static int32_t equal(int32_t whole, int32_t limit)
{
    const int32_t parts = (whole + limit - 1) / limit;
    return (whole + parts - 1) / parts;
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
