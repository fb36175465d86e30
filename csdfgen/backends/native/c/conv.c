/* Direct convolution: no copies, a pointer for each pixel and tap.
 *
 * Pixels of a slab are taken some at a time, across rows, as many as a table of pointers holds;
 * input channels in passes whose weights of a panel stay in a near cache, with partial sums in the
 * output. Where the channels of neighbouring pixels follow each other, the taps of a row are one
 * run: that is what few channels (a first layer) need. Runs that padding interrupts are copied; where runs
 * are very short, so are whole windows, each to one run.
 */
#include "images.h"
#include "products.h"

enum {
    POINTERS = 512,  /* of a table: 4 KiB where pointers have 8 bytes */
    SEGMENTS = 64,   /* of a pass: taps times pieces */
    PIECES = 32,     /* of a pass */
    COPIED = 768,    /* floats of a pass that are copied: 3 KiB */
    WINDOWS = 12,    /* that a pass has at least, where whole ones are copied */
    BRIEF = 8,       /* floats of a run that are too few for a loop of their own */
    SUITS = 24       /* pixels of a pass, so that blocks have many */
};

/* Weights of an output channel in a pass: their panel stays in a near cache for all pixels. */
#ifndef CSDF_PASS_STEPS
#define CSDF_PASS_STEPS 1280
#endif

/* Columns [column, column + columns) of a step's slab, of which [from, to) see no padding; runs: whether a pointer
 * stands for a tap, for the taps of a kernel row, which are one run of floats, or for a window that is copied. */
typedef struct area {
    const csdf_conv_step *step;
    int32_t column, columns;
    enum { BY_TAP, BY_ROW, BY_WINDOW } runs;
    int32_t from, to;
} area;

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

/* The table's pointers of one tap and piece: `count` pixels of the area from this row and column of it on. */
static void point(const area *a, const csdf_source *piece, int32_t offset, int32_t y, int32_t x,
    int32_t row, int32_t column, int32_t count, const float **table)
{
    const csdf_layer *layer = a->step->layer;
    const int32_t shift = x * layer->dilation_w - layer->pad_left;
    const ptrdiff_t step = (ptrdiff_t)piece->stride * layer->stride_w;
    for (int32_t k = 0; k < count; row++, column = 0) {
        const int32_t from = csdf_first_row(row, layer->stride_h, a->step->each, a->step->apart);
        const float *at = piece->rows[from + y * layer->dilation_h];
        const int32_t end = least(count, k + a->columns - column);
        if (!at) {
            while (k < end)
                table[k++] = csdf_zeros;
            continue;
        }
        int32_t in = (a->column + column) * layer->stride_w + shift;
        for (; k < end && in < 0; in += layer->stride_w)
            table[k++] = csdf_zeros;
        at += offset + (ptrdiff_t)in * piece->stride;
        int32_t until = end;
        if (in + (end - k - 1) * layer->stride_w >= a->step->width)
            until = k + (a->step->width - in + layer->stride_w - 1) / layer->stride_w;
        for (; k < until; at += step)
            table[k++] = at;
        while (k < end)
            table[k++] = csdf_zeros;
    }
}

/* `count` floats; zeros, up to a vector of them, may be written behind. */
CSDF_INLINE void copy(const float *from, int32_t count, float *to)
{
    int32_t c = 0;
    for (; c + CSDF_LANES <= count; c += CSDF_LANES)
        csdf_store(to + c, csdf_load(from + c));
    if (c < count)
        csdf_store(to + c, csdf_load_some(from + c, count - c));
}

/* A run that begins `in` floats from the start of a row of so many; what lies outside is padding. */
CSDF_INLINE void clip(const float *row, int32_t width, int32_t in, int32_t run, float *to)
{
    const int32_t low = least(run, most(0, -in)), high = row ? most(low, least(run, width - in)) : low;
    if (high - low < run)
        copy(csdf_zeros, run, to);
    if (low < high)
        copy(row + in + low, high - low, to + low);
}

/* The table's pointers of the runs of kernel rows [y, end), one behind the other if there are several: as `point`.
 * copied: for those that are not in the input as they are; what is left of it. */
static float *runs(const area *a, int32_t y, int32_t end, int32_t row, int32_t column, int32_t count,
    const float **table, float *copied)
{
    const csdf_layer *layer = a->step->layer;
    const int32_t ins = layer->in_channels, run = layer->kernel_w * ins, width = a->step->width * ins;
    const int32_t step = layer->stride_w * ins;
    for (int32_t k = 0; k < count; row++, column = 0) {
        const int32_t from = csdf_first_row(row, layer->stride_h, a->step->each, a->step->apart);
        const float *const *rows = a->step->pieces->rows + from, *at = rows[y * layer->dilation_h];
        int32_t x = a->column + column;
        for (const int32_t stop = x + least(count - k, a->columns - column); x < stop;) {
            const int32_t in = (x * layer->stride_w - layer->pad_left) * ins;
            const int32_t seen = at ? (x < a->from ? 0 : least(stop, a->to) - x) : stop - x;
            if (a->runs == BY_ROW && seen > 0) {
                const float *next = at ? at + in : csdf_zeros;
                const ptrdiff_t pace = at ? step : 0;
                for (int32_t i = 0; i < seen; i++, next += pace)
                    table[k + i] = next;
                k += seen;
                x += seen;
            } else {
                table[k++] = copied;
                x++;
                for (int32_t i = y; i < end; i++, copied += run)
                    clip(rows[i * layer->dilation_h], width, in, run, copied);
            }
        }
    }
    return copied;
}

/* Where pixels [first, first + count) of the area are written. */
static void aim(const area *a, int32_t first, int32_t count, float **out, const float **residual)
{
    const csdf_target *t = &a->step->out;
    const csdf_source *added = a->step->residual;
    int32_t row = first / a->columns, column = first % a->columns;
    for (int32_t k = 0; k < count; row++, column = 0) {
        const int32_t end = least(count, k + a->columns - column), from = k;
        const ptrdiff_t x = a->column + column;
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

/* Some pixels of an area, all passes. limits: of channels, taps and pieces of a pass. */
static void pixels(const area *a, int32_t first, int32_t count, int32_t channels, int32_t taps,
    int32_t pieces)
{
    const csdf_conv_step *step = a->step;
    const csdf_layer *layer = step->layer;
    const int32_t ins = layer->in_channels / layer->groups;
    const int32_t outs = layer->out_channels / layer->groups;
    const int32_t panels = (outs + CSDF_PANEL - 1) / CSDF_PANEL;
    const int32_t wide = a->runs ? 1 : layer->kernel_w;
    const int32_t high = a->runs == BY_WINDOW ? layer->kernel_h : 1, window = layer->kernel_h / high * wide;
    const int32_t run = a->runs ? high * layer->kernel_w * ins : ins;
    const ptrdiff_t panel = (ptrdiff_t)layer->kernel_h * layer->kernel_w * ins * CSDF_PANEL;
    const int32_t end = step->out.channel + step->out.channels;
    const float *table[POINTERS];
    float copied[COPIED + CSDF_PANEL];
    const float **residual = table + count;
    float **const out = (float **)table;
    const float **const pointers = step->residual ? residual + count : residual;
    const csdf_reach reach = csdf_reach_of(step);
    const int32_t row = first / a->columns, column = first % a->columns;
    slice own;
    csdf_pass pass;

    aim(a, first, count, out, residual);
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
            if (a->runs)
                own.counts[0] = run;
            pass.pieces = own.pieces;
            pass.skip = (ptrdiff_t)(ins - own.count) * CSDF_PANEL;
            for (int32_t tap = 0; tap < window; tap += pass.taps) {
                const int32_t begins = done == reach.low && !tap;
                const float **entry = pointers;
                float *left = copied;
                pass.taps = least(taps, window - tap);
                for (int32_t t = tap; a->runs && t < tap + pass.taps; t++, entry += count)
                    left = runs(a, t, t + high, row, column, count, entry, left);
                for (int32_t t = tap; !a->runs && t < tap + pass.taps; t++)
                    for (int32_t i = 0; i < own.pieces; i++, entry += count)
                        point(a, own.piece[i], own.offset[i], t / wide, t % wide, row, column, count, entry);
                pass.weights = weights + ((ptrdiff_t)tap * run + done) * CSDF_PANEL;
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

/* All pixels of an area, at most `limit` in a pass. */
static void columns(area a, int32_t limit)
{
    const csdf_conv_step *step = a.step;
    const csdf_layer *layer = step->layer;
    const int32_t runs = a.runs, all = a.columns * step->out.count;
    const int32_t ins = layer->in_channels / layer->groups;
    const int32_t high = runs == BY_WINDOW ? layer->kernel_h : 1;
    const int32_t window = layer->kernel_h / high * (runs ? 1 : layer->kernel_w);
    const int32_t fixed = step->residual ? 2 : 1;
    const int32_t run = runs ? high * layer->kernel_w * ins : ins;
    /* taps of a pass, as many as suit; where not even one does, some of its channels */
    const int32_t steps = step->some > 0 ? step->some : CSDF_PASS_STEPS;
    const int32_t taps = equal(window, least(SEGMENTS, most(1, steps / run)));
    const int32_t channels = runs ? ins : (equal(ins, steps) + 3) / 4 * 4;
    const int32_t pieces = least(step->piece_count, least(PIECES, most(1, SEGMENTS / taps)));
    const int32_t room_for = least(limit, POINTERS / (taps * pieces + fixed));
    if (all <= 0)
        return;
    const int32_t rounds = (all + room_for - 1) / room_for;
    for (int32_t k = 0, first = 0; k < rounds; k++) {
        const int32_t some = (all - first) / (rounds - k);
        pixels(&a, first, some, channels, taps, pieces);
        first += some;
    }
}

void csdf_conv(const csdf_conv_step *step)
{
    const csdf_layer *layer = step->layer;
    const csdf_target *out = &step->out;
    const int32_t run = layer->kernel_w * layer->in_channels;
    const int32_t low = out->column, high = out->column + out->columns;
    int32_t runs = layer->kernel_w > 1 && layer->groups == 1 && layer->dilation_w == 1;
    runs = runs && step->piece_count == 1 && step->pieces->stride == layer->in_channels;
    runs = runs && layer->in_channels <= CSDF_PANEL && run <= CSDF_ZEROS;
    if (runs) {
        /* columns [from, to) see no padding */
        const int32_t left = most(0, layer->pad_left), right = step->width - layer->kernel_w + layer->pad_left;
        int32_t from = (left + layer->stride_w - 1) / layer->stride_w;
        int32_t to = right < 0 ? 0 : right / layer->stride_w + 1;
        from = most(low, least(from, high));
        to = most(from, least(to, high));
        /* any so many pixels have at most `lines` times the edges of a line */
        const int32_t size = run * layer->kernel_h, edges = high - low - (to - from);
        const int32_t lines = edges ? COPIED / (edges * size) : out->count;
        if (run < BRIEF && size * WINDOWS <= COPIED && out->channels > CSDF_PANEL) {
            columns((area){step, low, high - low, BY_WINDOW, from, to}, COPIED / size);
        } else if (lines >= out->count || lines * (high - low) >= SUITS) {
            columns((area){step, low, high - low, BY_ROW, from, to}, lines * (high - low));
        } else {
            columns((area){step, low, from - low, BY_TAP, from, to}, POINTERS);
            columns((area){step, from, to - from, BY_ROW, from, to}, POINTERS);
            columns((area){step, to, high - to, BY_TAP, from, to}, POINTERS);
        }
    } else {
        columns((area){step, low, high - low, BY_TAP, low, high}, POINTERS);
    }
}

void csdf_conv_of(const void *step) { csdf_conv(step); }
