/* One input channel a group: nothing to add up over channels, so that loads are what is scarce.
 *
 * A strip is up to eight pixels side by side; each value that it reads serves all windows it is in.
 * Windows of other widths and strides are strips of single taps, which load more.
 *
 * Inputs and outputs are floats, or bfloat16 where CSDF_OF_BF16 is 1: with one output channel for each of the input, and few
 * enough taps that no sums are stored between them.
 */
#ifndef CSDF_DEPTHWISE_H
#define CSDF_DEPTHWISE_H

#include "images.h"
#include "narrow.h"
#include "products.h"

enum {
    STRIP = 8,
    POINTERS = 512, /* of a table: 4 KiB where pointers have 8 bytes */
    TAPS = 64,      /* of a table: taps, or rows of taps */
    BAND = 4,       /* rows of an output that take turns, where a table has the taps of all of them */
    CHANNELS = 256, /* that a table is used for: runs as long as prefetching takes, and what they see stays in a near cache */
    NEAR = 1 << 16  /* floats that stay in a second-level cache */
};

/* Pixels side by side, of which some see padding: table, [row][column], addresses of the first
 * channel of the pixels that they see. Or an even strip: table, [row], of the first of them, the
 * others `step` floats apart.
 * far: whether what the strip at its right sees is fetched on the way.
 * weights: of the first tap of each row, those of the next tap `channels` floats further on.
 * kernel, stride, columns, pixels: its shape. out: of the first pixel, the others `pace` floats
 * apart. init: what is added, or NULL. */
typedef struct csdf_strip {
    const element *const *table;
    const float *const *weights;
    ptrdiff_t step;
    int32_t rows, even, far;
    int32_t kernel, stride, columns, pixels;
    ptrdiff_t channels;
    const float *bias;
    const float *init;
    ptrdiff_t init_pace;
    element *out;
    ptrdiff_t pace;
    csdf_activation activation;
} csdf_strip;

/* Computes channels [c, end): whole vectors, or less than one. */
typedef void csdf_strip_kernel(const csdf_strip *s, ptrdiff_t c, ptrdiff_t end);

/* By pixels - 1, by whether channels are less than a vector, and by whether the strip is even. */
typedef struct csdf_strip_shape {
    int32_t kernel, stride;
    csdf_strip_kernel *kernels[STRIP][2][2];
} csdf_strip_shape;

#include "strips.h"

static void compute(const csdf_strip *s, csdf_strip_kernel *const (*kernels)[2], int32_t channels)
{
    const int32_t whole = channels / CSDF_LANES * CSDF_LANES;
    if (whole)
        kernels[0][s->even](s, 0, whole);
    if (whole < channels)
        kernels[1][s->even](s, whole, channels);
}

/* Where a layer's channels lie in a piece: `source` floats behind its pixels' first, and `target` behind the
 * output's; so many of them. each: output channels of an input channel; skipped: those of the first one that
 * are not the part's. */
typedef struct part {
    const csdf_source *piece;
    ptrdiff_t source, target;
    int32_t channels;
    int32_t each, skipped;
} part;

/* What the pixels of a strip see: their addresses, or values that are repeated for all channels of a part. */
typedef union seen {
    const element *table[POINTERS];
    struct {
        const element *rows[TAPS];
        element values[(POINTERS - TAPS) * sizeof(element *) / sizeof(element)];
    } repeated;
} seen;

/* How many rows of so many columns there is room for. */
static int32_t room_for(const part *p, int32_t columns)
{
    const int32_t values = (int32_t)(sizeof((seen *)NULL)->repeated.values / sizeof(element));
    return p->each > 1 ? values / (columns * CSDF_PANEL) : POINTERS / columns;
}

/* The values of a pixel's channels, each as often as a part has outputs of it. */
static void repeat(const part *p, const element *from, element *to)
{
    const int32_t whole = p->skipped || p->channels < CSDF_PANEL ? 0 : p->each;
    if (whole == 2) {
        for (int32_t i = 0; i < CSDF_PANEL; i++)
            to[i] = from[i / 2];
    } else if (whole == 4) {
        for (int32_t i = 0; i < CSDF_PANEL; i++)
            to[i] = from[i / 4];
    } else {
        for (int32_t i = 0, at = p->skipped; i < p->channels; i++) {
            to[i] = *from;
            if (++at == p->each) {
                at = 0;
                from++;
            }
        }
    }
}

/* Rows of tables: for each of them a line of the input, the column of its first tap (from that of the
 * output pixel on), and the weights. Output row i of a band has `counts[i]` of them, from i * `room` on. */
typedef struct lines {
    int32_t room, counts[BAND];
    const element *at[TAPS];
    int32_t column[TAPS];
    const float *weights[TAPS];
} lines;

/* Taps [tap, ...) of an output row, the `turn`th of its band, that see no padding above or below, as many
 * as there is room for; where the next ones begin. single: one tap a line, else one row of the kernel. */
static int32_t gather(const csdf_conv_step *step, const part *p, int32_t row, int32_t turn, int32_t single,
    int32_t tap, lines *found)
{
    const csdf_layer *layer = step->layer;
    const int32_t across = single ? layer->kernel_w : 1, apart = single ? 1 : layer->kernel_w;
    const int32_t columns = single ? STRIP : (STRIP - 1) * layer->stride_w + layer->kernel_w;
    const int32_t room = least(found->room, room_for(p, columns));
    const int32_t from = csdf_first_row(row + turn, layer->stride_h, step->each, step->apart);
    int32_t y = tap / across, x = tap % across, count = 0;
    for (; y < layer->kernel_h && count < room; tap++) {
        const element *at = (const void *)p->piece->rows[from + y * layer->dilation_h];
        if (at) {
            const int32_t k = turn * found->room + count++;
            found->at[k] = at + p->source;
            found->column[k] = x * layer->dilation_w;
            found->weights[k] = layer->weights + (ptrdiff_t)tap * apart * layer->out_channels + p->target;
        }
        if (++x == across) {
            x = 0;
            y++;
        }
    }
    found->counts[turn] = count;
    return tap;
}

/* `pixels` pixels of an output row, the `turn`th of its band from `row` on, from column x on; begins, ends:
 * with the first, the last taps. */
static void strip(const csdf_conv_step *step, const part *p, const csdf_strip_shape *shape,
    const lines *taps, int32_t row, int32_t turn, int32_t x, int32_t pixels, int32_t begins, int32_t ends)
{
    const csdf_layer *layer = step->layer;
    const csdf_source *residual = step->residual;
    const ptrdiff_t stride = p->piece->stride;
    const int32_t single = shape->kernel == 1;
    const int32_t spread = single ? layer->stride_w : 1;
    const int32_t first = x * layer->stride_w - layer->pad_left;
    const int32_t from = turn * taps->room, count = taps->counts[turn];
    const element *const *at = taps->at + from, *const zeros = (const void *)csdf_zeros;
    const int32_t *column = taps->column + from;
    seen own;
    csdf_strip s;

    s.columns = single ? pixels : (pixels - 1) * shape->stride + shape->kernel;
    s.even = 1;
    for (int32_t k = 0; k < count; k++) {
        const int32_t in = first + column[k];
        s.even = s.even && in >= 0 && in + (s.columns - 1) * spread < step->width;
    }
    s.step = spread * stride;
    if (p->each > 1) {
        element *to = own.repeated.values;
        for (int32_t k = 0; k < count; k++) {
            int32_t in = first + column[k];
            own.repeated.rows[k] = to;
            for (int32_t i = 0; i < s.columns; i++, in += spread, to += CSDF_PANEL)
                repeat(p, in >= 0 && in < step->width ? at[k] + in * stride : zeros, to);
        }
        s.even = 1;
        s.step = CSDF_PANEL;
    } else if (s.even) {
        for (int32_t k = 0; k < count; k++)
            own.table[k] = at[k] + (first + column[k]) * stride;
    } else {
        const element **entry = own.table;
        for (int32_t k = 0; k < count; k++) {
            int32_t in = first + column[k];
            ptrdiff_t shift = in * stride;
            for (int32_t i = 0; i < s.columns; i++, in += spread, shift += spread * stride)
                *entry++ = in >= 0 && in < step->width ? at[k] + shift : zeros;
        }
    }
    s.far = p->each == 1 && (ptrdiff_t)layer->kernel_h * step->width * stride > NEAR;
    s.table = own.table;
    s.weights = taps->weights + from;
    s.rows = count;
    s.kernel = shape->kernel;
    s.stride = shape->stride;
    s.pixels = pixels;
    s.channels = layer->out_channels;
    s.bias = layer->bias + p->target;
    s.pace = step->out.stride;
    s.out = (element *)(void *)step->out.rows[row + turn] + x * s.pace + p->target;
    s.init = NULL;
    s.init_pace = 0;
    if (!begins) {
        s.bias = csdf_zeros;
        s.init = (const void *)s.out;
        s.init_pace = s.pace;
    } else if (residual) {
        s.init_pace = residual->stride;
        s.init = residual->rows[row + turn] + x * s.init_pace + p->target;
    }
    s.activation = layer->activation;
    if (!ends)
        s.activation.kind = CSDF_NONE;
    compute(&s, shape->kernels[pixels - 1], p->channels);
}

/* Rows [row, row + count) of the output. All of them take their turn with the pixels of a strip: what one
 * has read is still near when the next one reads it again. */
static void band(const csdf_conv_step *step, const part *p, const csdf_strip_shape *shape, int32_t row,
    int32_t count)
{
    const csdf_layer *layer = step->layer;
    const csdf_target *out = &step->out;
    const int32_t single = shape->kernel == 1;
    const int32_t window = layer->kernel_h * (single ? layer->kernel_w : 1);
    lines taps;
    taps.room = TAPS / count;
    for (int32_t tap = 0, next = window; tap < window; tap = next) {
        int32_t parts = (out->columns + STRIP - 1) / STRIP;
        for (int32_t turn = 0; turn < count; turn++)
            next = gather(step, p, row, turn, single, tap, &taps);
        for (int32_t x = 0; x < out->columns; parts--) {
            const int32_t pixels = (out->columns - x + parts - 1) / parts;
            for (int32_t turn = 0; turn < count; turn++)
                strip(step, p, shape, &taps, row, turn, out->column + x, pixels, !tap, next >= window);
            x += pixels;
        }
    }
}

static void slab(const csdf_conv_step *step, const part *p)
{
    const csdf_layer *layer = step->layer;
    const csdf_target *out = &step->out;
    const csdf_strip_shape *shape = strips;
    while (shape->kernel > 1
        && (shape->kernel != layer->kernel_w || shape->stride != layer->stride_w || layer->dilation_w > 1))
        shape++;
    const int32_t single = shape->kernel == 1;
    const int32_t columns = single ? STRIP : (STRIP - 1) * layer->stride_w + layer->kernel_w;
    const int32_t window = layer->kernel_h * (single ? layer->kernel_w : 1);
    const int32_t rows = window <= least(TAPS / BAND, room_for(p, columns)) ? BAND : 1;
    for (int32_t row = 0; row < out->count; row += rows)
        band(step, p, shape, row, least(rows, out->count - row));
}

static void depthwise(const csdf_conv_step *step)
{
    const csdf_layer *layer = step->layer;
    const int32_t each = layer->out_channels / layer->in_channels;
    const int32_t low = step->out.channel, high = low + step->out.channels;
    int32_t start = 0;
    for (int32_t i = 0; i < step->piece_count; i++) {
        const csdf_source *piece = step->pieces + i;
        const int32_t from = most(low, start * each), to = least(high, (start + piece->channels) * each);
        const int32_t limit = each > 1 ? CSDF_PANEL : CHANNELS, count = (to - from + limit - 1) / limit;
        for (int32_t c = from, some; c < to; c += some) {
            const int32_t left = count - (c - from) / limit;
            some = least(to - c, ((to - c + left - 1) / left + CSDF_PANEL - 1) / CSDF_PANEL * CSDF_PANEL);
            const part p = {piece, c / each - start, c, some, each, c % each};
            slab(step, &p);
        }
        start += piece->channels;
    }
}

#endif
