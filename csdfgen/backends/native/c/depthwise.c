/* One input channel a group: nothing to add up over channels, so that loads are what is scarce.
 *
 * A strip is up to eight pixels side by side; each value that it reads serves all windows it is in.
 * Windows of other widths and strides are strips of single taps, which load more.
 */
#include "images.h"
#include "products.h"

enum {
    STRIP = 8,
    POINTERS = 512, /* of a table: 4 KiB where pointers have 8 bytes */
    TAPS = 64,      /* of a table: taps, or rows of taps */
    BAND = 4,       /* rows of an output that take turns, where a table has the taps of all of them */
    CHANNELS = 96,  /* that a table is used for: with what they see they stay in a first-level cache */
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
    const float *const *table;
    const float *const *weights;
    ptrdiff_t step;
    int32_t rows, even, far;
    int32_t kernel, stride, columns, pixels;
    ptrdiff_t channels;
    const float *bias;
    const float *init;
    ptrdiff_t init_pace;
    float *out;
    ptrdiff_t pace;
    csdf_activation activation;
} csdf_strip;

/* Computes channels [c, end), whole vectors. */
typedef void csdf_strip_kernel(const csdf_strip *s, ptrdiff_t c, ptrdiff_t end);

/* By pixels - 1, and by whether the strip is even. */
typedef struct csdf_strip_shape {
    int32_t kernel, stride;
    csdf_strip_kernel *kernels[STRIP][2];
} csdf_strip_shape;

#include "strips.h"

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

/* As a lane of csdf_fma has it: a channel's sums are the same in a vector and by themselves. */
static float fused(float x, float w, float sum)
{
#if CSDF_LANES > 1
    return __builtin_fmaf(x, w, sum);
#else
    return sum + x * w;
#endif
}

/* The same channel by channel, for those that are no whole vector. */
static void one_by_one(const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    for (; c < end; c++)
        for (int32_t i = 0; i < s->pixels; i++) {
            float sum = s->bias[c] + (s->init ? s->init[i * s->init_pace + c] : 0.0f);
            for (int32_t row = 0; row < s->rows; row++)
                for (int32_t k = 0; k < s->kernel; k++) {
                    const int32_t column = i * s->stride + k;
                    const float *at = s->even ? s->table[row] + column * s->step
                                              : s->table[row * s->columns + column];
                    sum = fused(at[c], s->weights[row][k * s->channels + c], sum);
                }
            if (s->activation.kind == CSDF_CLIP) {
                sum = sum < s->activation.a ? s->activation.a : sum;
                sum = sum > s->activation.b ? s->activation.b : sum;
            } else if (s->activation.kind == CSDF_LEAKY && sum < 0.0f) {
                sum *= s->activation.a;
            }
            s->out[i * s->pace + c] = sum;
        }
}

static void compute(const csdf_strip *s, csdf_strip_kernel *kernel, int32_t channels)
{
    const int32_t whole = channels / CSDF_LANES * CSDF_LANES;
    kernel(s, 0, whole);
    if (whole == channels)
        return;
    if (whole && !s->init)
        kernel(s, channels - CSDF_LANES, channels); /* some once more: to the same values */
    else
        one_by_one(s, whole, channels);
}

/* Where a layer's channels lie in a piece: `source` floats behind its pixels' first, and behind the
 * output's; so many of them. */
typedef struct part {
    const csdf_source *piece;
    ptrdiff_t source, target;
    int32_t channels;
} part;

/* Rows of tables: for each of them a line of the input, the column of its first tap (from that of the
 * output pixel on), and the weights. Output row i of a band has `counts[i]` of them, from i * `room` on. */
typedef struct lines {
    int32_t room, counts[BAND];
    const float *at[TAPS];
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
    const int32_t room = least(found->room, POINTERS / columns);
    const int32_t from = csdf_first_row(row + turn, layer->stride_h, step->each, step->apart);
    int32_t y = tap / across, x = tap % across, count = 0;
    for (; y < layer->kernel_h && count < room; tap++) {
        const float *at = p->piece->rows[from + y * layer->dilation_h];
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
    const lines *seen, int32_t row, int32_t turn, int32_t x, int32_t pixels, int32_t begins, int32_t ends)
{
    const csdf_layer *layer = step->layer;
    const csdf_source *residual = step->residual;
    const ptrdiff_t stride = p->piece->stride;
    const int32_t single = shape->kernel == 1;
    const int32_t spread = single ? layer->stride_w : 1;
    const int32_t first = x * layer->stride_w - layer->pad_left;
    const int32_t from = turn * seen->room, count = seen->counts[turn];
    const float *const *at = seen->at + from;
    const int32_t *column = seen->column + from;
    const float *table[POINTERS];
    csdf_strip s;

    s.columns = single ? pixels : (pixels - 1) * shape->stride + shape->kernel;
    s.even = 1;
    for (int32_t k = 0; k < count; k++) {
        const int32_t in = first + column[k];
        s.even = s.even && in >= 0 && in + (s.columns - 1) * spread < step->width;
    }
    if (s.even) {
        for (int32_t k = 0; k < count; k++)
            table[k] = at[k] + (first + column[k]) * stride;
    } else {
        const float **entry = table;
        for (int32_t k = 0; k < count; k++) {
            int32_t in = first + column[k];
            ptrdiff_t shift = in * stride;
            for (int32_t i = 0; i < s.columns; i++, in += spread, shift += spread * stride)
                *entry++ = in >= 0 && in < step->width ? at[k] + shift : csdf_zeros;
        }
    }
    s.far = (ptrdiff_t)layer->kernel_h * step->width * stride > NEAR;
    s.table = table;
    s.weights = seen->weights + from;
    s.step = spread * stride;
    s.rows = count;
    s.kernel = shape->kernel;
    s.stride = shape->stride;
    s.pixels = pixels;
    s.channels = layer->out_channels;
    s.bias = layer->bias + p->target;
    s.pace = step->out.stride;
    s.out = step->out.rows[row + turn] + x * s.pace + p->target;
    s.init = NULL;
    s.init_pace = 0;
    if (!begins) {
        s.bias = csdf_zeros;
        s.init = s.out;
        s.init_pace = s.pace;
    } else if (residual) {
        s.init_pace = residual->stride;
        s.init = residual->rows[row + turn] + x * s.init_pace + p->target;
    }
    s.activation = layer->activation;
    if (!ends)
        s.activation.kind = CSDF_NONE;
    compute(&s, shape->kernels[pixels - 1][s.even], p->channels);
}

/* Several output channels of each input channel. */
static void multiplied(const csdf_conv_step *step, const part *p, int32_t each, int32_t row, int32_t x)
{
    const csdf_layer *layer = step->layer;
    const csdf_source *residual = step->residual;
    const ptrdiff_t at = (ptrdiff_t)x * step->out.stride + p->target;
    const int32_t above = csdf_first_row(row, layer->stride_h, step->each, step->apart);
    for (int32_t c = 0; c < p->channels; c += CSDF_LANES) {
        const int32_t n = least(CSDF_LANES, p->channels - c);
        int32_t from[CSDF_LANES] = {0};
        csdf_v sum = csdf_load_some(layer->bias + p->target + c, n);
        for (int32_t i = 0; i < n; i++)
            from[i] = (int32_t)((p->target + c + i) / each - p->target / each);
        if (residual)
            sum += csdf_load_some(residual->rows[row] + (ptrdiff_t)x * residual->stride + p->target + c, n);
        for (int32_t y = 0; y < layer->kernel_h; y++) {
            const float *line = p->piece->rows[above + y * layer->dilation_h];
            for (int32_t k = 0; line && k < layer->kernel_w; k++) {
                const int32_t in = x * layer->stride_w - layer->pad_left + k * layer->dilation_w;
                if (in >= 0 && in < step->width) {
                    const float *seen = line + (ptrdiff_t)in * p->piece->stride + p->source;
                    const ptrdiff_t tap = (ptrdiff_t)(y * layer->kernel_w + k) * layer->out_channels;
                    float values[CSDF_LANES] = {0};
                    for (int32_t i = 0; i < n; i++)
                        values[i] = seen[from[i]];
                    sum += csdf_load(values) * csdf_load_some(layer->weights + tap + p->target + c, n);
                }
            }
        }
        csdf_store_some(step->out.rows[row] + at + c, csdf_activated(sum, &layer->activation), n);
    }
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
    lines seen;
    seen.room = TAPS / count;
    for (int32_t tap = 0, next = window; tap < window; tap = next) {
        int32_t parts = (out->columns + STRIP - 1) / STRIP;
        for (int32_t turn = 0; turn < count; turn++)
            next = gather(step, p, row, turn, single, tap, &seen);
        for (int32_t x = 0; x < out->columns; parts--) {
            const int32_t pixels = (out->columns - x + parts - 1) / parts;
            for (int32_t turn = 0; turn < count; turn++)
                strip(step, p, shape, &seen, row, turn, out->column + x, pixels, !tap, next >= window);
            x += pixels;
        }
    }
}

static void slab(const csdf_conv_step *step, const part *p, int32_t each)
{
    const csdf_layer *layer = step->layer;
    const csdf_target *out = &step->out;
    const csdf_strip_shape *shape = strips;
    if (each > 1) {
        for (int32_t row = 0; row < out->count; row++)
            for (int32_t x = out->column; x < out->column + out->columns; x++)
                multiplied(step, p, each, row, x);
        return;
    }
    while (shape->kernel > 1
        && (shape->kernel != layer->kernel_w || shape->stride != layer->stride_w || layer->dilation_w > 1))
        shape++;
    const int32_t single = shape->kernel == 1;
    const int32_t columns = single ? STRIP : (STRIP - 1) * layer->stride_w + layer->kernel_w;
    const int32_t window = layer->kernel_h * (single ? layer->kernel_w : 1);
    const int32_t rows = window <= least(TAPS / BAND, POINTERS / columns) ? BAND : 1;
    for (int32_t row = 0; row < out->count; row += rows)
        band(step, p, shape, row, least(rows, out->count - row));
}

void csdf_depthwise(const csdf_conv_step *step)
{
    const csdf_layer *layer = step->layer;
    const int32_t each = layer->out_channels / layer->in_channels;
    const int32_t low = step->out.channel, high = low + step->out.channels;
    int32_t start = 0;
    for (int32_t i = 0; i < step->piece_count; i++) {
        const csdf_source *piece = step->pieces + i;
        const int32_t from = most(low, start * each), to = least(high, (start + piece->channels) * each);
        const int32_t count = (to - from + CHANNELS - 1) / CHANNELS;
        for (int32_t c = from, some; c < to; c += some) {
            const int32_t left = count - (c - from) / CHANNELS;
            some = least(to - c, ((to - c + left - 1) / left + CSDF_PANEL - 1) / CSDF_PANEL * CSDF_PANEL);
            const part p = {piece, c / each - start, c, some};
            slab(step, &p, each);
        }
        start += piece->channels;
    }
}

void csdf_depthwise_of(const void *step) { csdf_depthwise(step); }
