/* Direct convolution: no copies, a pointer for each pixel and tap.
 *
 * Pixels of a slab are taken some at a time, across rows, as many as a table of pointers holds;
 * input channels in passes whose weights of a panel stay in a near cache, with partial sums in the
 * output. Where the channels of neighbouring pixels follow each other, the taps of a row are one
 * run: that is what few channels (a first layer) need. Small windows that see padding are copied, each to
 * one run.
 */
#include "images.h"
#include "products.h"

enum {
    POINTERS = 512,  /* of a table: 4 KiB where pointers have 8 bytes */
    SEGMENTS = 64,   /* of a pass: taps times pieces */
    PIECES = 32,     /* of a pass */
    WINDOW = 64,     /* floats of a window that is copied, */
    WINDOWS = 32     /* of which a pass has so many, or as many as 12 of the largest take */
};

/* Weights of an output channel in a pass: their panel stays in a near cache for all pixels. */
#ifndef CSDF_PASS_STEPS
#define CSDF_PASS_STEPS 1280
#endif

/* Columns [column, column + columns) of a step's slab; runs: whether the taps of a kernel row are
 * one run of floats, which they may be if none of these columns sees padding. */
typedef struct area {
    const csdf_conv_step *step;
    int32_t column, columns;
    int32_t runs;
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
    const int32_t wide = a->runs ? 1 : layer->kernel_w, window = layer->kernel_h * wide;
    const int32_t run = a->runs ? layer->kernel_w * ins : ins;
    const ptrdiff_t panel = (ptrdiff_t)layer->kernel_h * layer->kernel_w * ins * CSDF_PANEL;
    const int32_t end = step->out.channel + step->out.channels;
    const float *table[POINTERS];
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
        const int32_t high = least(end, (group + 1) * outs);
        const ptrdiff_t at = ((ptrdiff_t)group * panels) * CSDF_PANEL + (low - group * outs);
        const float *weights = layer->weights + at / CSDF_PANEL * panel;
        if (low >= high)
            continue;
        pass.channel = low;
        pass.channels = high - low;
        /* the next group writes what this one leaves behind its last channel */
        pass.spare = step->residual ? 0 : end - high;
        for (int32_t done = reach.low; done < reach.high; done += own.count) {
            cut(step, group * ins + done, least(channels, reach.high - done), pieces, &own);
            if (a->runs)
                own.counts[0] = run;
            pass.pieces = own.pieces;
            pass.skip = (ptrdiff_t)(ins - own.count) * CSDF_PANEL;
            for (int32_t tap = 0; tap < window; tap += pass.taps) {
                const int32_t begins = done == reach.low && !tap;
                const float **entry = pointers;
                pass.taps = least(taps, window - tap);
                for (int32_t t = tap; t < tap + pass.taps; t++)
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

static void columns(const csdf_conv_step *step, int32_t column, int32_t count, int32_t runs)
{
    const csdf_layer *layer = step->layer;
    const area a = {step, column, count, runs};
    const int32_t all = count * step->out.count;
    const int32_t ins = layer->in_channels / layer->groups;
    const int32_t window = layer->kernel_h * (runs ? 1 : layer->kernel_w);
    const int32_t fixed = step->residual ? 2 : 1;
    const int32_t run = runs ? layer->kernel_w * ins : ins;
    /* taps of a pass, as many as suit; where not even one does, some of its channels */
    const int32_t steps = step->some > 0 ? step->some : CSDF_PASS_STEPS;
    const int32_t taps = equal(window, least(SEGMENTS, most(1, steps / run)));
    const int32_t channels = runs ? ins : (equal(ins, steps) + 3) / 4 * 4;
    const int32_t pieces = least(step->piece_count, least(PIECES, most(1, SEGMENTS / taps)));
    const int32_t room_for = POINTERS / (taps * pieces + fixed);
    if (all <= 0)
        return;
    const int32_t rounds = (all + room_for - 1) / room_for;
    for (int32_t k = 0, first = 0; k < rounds; k++) {
        const int32_t some = (all - first) / (rounds - k);
        pixels(&a, first, some, channels, taps, pieces);
        first += some;
    }
}

static void padded(const csdf_conv_step *step, int32_t column, int32_t count) { columns(step, column, count, 0); }

/* `count` floats; up to a vector of zeros may be written behind them. */
CSDF_INLINE void copy(const float *from, int32_t count, float *to)
{
    int32_t c = 0;
    for (; c + CSDF_LANES <= count; c += CSDF_LANES)
        csdf_store(to + c, csdf_load(from + c));
    if (c < count)
        csdf_store(to + c, csdf_load_some(from + c, count - c));
}

/* The windows of pixels [first, first + count) of the area, one behind the other. */
static void gather(const area *a, int32_t first, int32_t count, float *to)
{
    const csdf_layer *layer = a->step->layer;
    const csdf_source *piece = a->step->pieces;
    const int32_t ins = layer->in_channels, run = layer->kernel_w * ins, width = a->step->width * ins;
    int32_t row = first / a->columns, column = first % a->columns;
    for (int32_t k = 0; k < count; row++, column = 0) {
        const float *const *rows = piece->rows + csdf_first_row(row, layer->stride_h, a->step->each, a->step->apart);
        int32_t in = ((a->column + column) * layer->stride_w - layer->pad_left) * ins;
        for (const int32_t end = least(count, k + a->columns - column); k < end; k++, in += layer->stride_w * ins) {
            /* floats [low, high) of a run are no padding */
            const int32_t low = least(run, most(0, -in)), high = most(low, least(run, width - in));
            for (int32_t y = 0; y < layer->kernel_h; y++, to += run) {
                const float *at = rows[y * layer->dilation_h];
                if (!at || low == high) {
                    copy(csdf_zeros, run, to);
                } else if (high - low == run) {
                    copy(at + in, run, to);
                } else {
                    copy(csdf_zeros, run, to);
                    for (int32_t c = low; c < high; c++)
                        to[c] = at[in + c];
                }
            }
        }
    }
}

/* Columns [column, column + count) of a step by copied windows. */
static void windows(const csdf_conv_step *step, int32_t column, int32_t count)
{
    const csdf_layer *layer = step->layer;
    const csdf_target *t = &step->out;
    const area a = {step, column, count, 1};
    const int32_t all = count * t->count;
    const int32_t size = layer->kernel_h * layer->kernel_w * layer->in_channels;
    const int32_t room_for = least(WINDOWS, 12 * WINDOW / size);
    const int32_t rounds = (all + room_for - 1) / room_for;
    float copied[12 * WINDOW + CSDF_PANEL];
    const float *table[WINDOWS], *residual[WINDOWS];
    float *out[WINDOWS];
    csdf_pass pass;

    for (int32_t k = 0; k < room_for; k++)
        table[k] = copied + k * size;
    pass.table = table;
    pass.taps = pass.pieces = 1;
    pass.counts = &size;
    pass.panel = (ptrdiff_t)size * CSDF_PANEL;
    pass.weights = layer->weights + t->channel / CSDF_PANEL * pass.panel;
    pass.skip = 0;
    pass.channel = t->channel;
    pass.channels = t->channels;
    pass.spare = 0;
    pass.bias = layer->bias + t->channel;
    pass.init = step->residual ? residual : NULL;
    pass.out = out;
    pass.activation = layer->activation;
    for (int32_t k = 0, first = 0; k < rounds; k++, first += pass.pixels) {
        pass.pixels = (all - first) / (rounds - k);
        aim(&a, first, pass.pixels, out, residual);
        gather(&a, first, pass.pixels, copied);
        csdf_products(&pass);
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
        const int32_t copied = run < CSDF_PANEL && run * layer->kernel_h <= WINDOW;
        if (copied && 3 * (to - from) < 2 * (high - low)) {
            windows(step, low, high - low);
            return;
        }
        (copied ? windows : padded)(step, low, from - low);
        columns(step, from, to - from, 1);
        (copied ? windows : padded)(step, to, high - to);
    } else {
        padded(step, low, high - low);
    }
}

void csdf_conv_of(const void *step) { csdf_conv(step); }
