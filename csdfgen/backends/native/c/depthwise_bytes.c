/* Depthwise convolution of bytes: nothing to add up over channels.
 *
 * Sixteen channels at a time. Taps of a column come in pairs, one above the other: with vectors of 256 bits a pair is
 * one product and sum of neighbours, of values that are laid out for it once and serve all windows they are in.
 * Elsewhere, and where windows reach too far, it is tap by tap.
 */
#include "bytes.h"
#include "images.h"

enum {
    STRIP = 4,    /* pixels at a time */
    SUMS = 16,    /* of pixels, that become bytes together */
    COLUMNS = 60, /* pairs that are laid out at a time */
    PAIRS = 30,   /* of a kernel, or of two that are one */
    TWICE = PAIRS / 2
};

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }

/* Channels [0, n) from `channel` of the layer on, which are those from `source` of a piece; at most sixteen. */
typedef struct part {
    const csdf_byte_conv_step *step;
    const csdf_byte_source *piece;
    int32_t source, channel, n;
    ptrdiff_t all; /* channels of the weights */
} part;

/* What pixels of a row see with their taps number y of columns: NULL for padding. */
static const uint8_t *line_of(const part *p, int32_t row, int32_t y)
{
    const csdf_byte_layer *layer = p->step->layer;
    const int32_t first = csdf_first_row(row, layer->stride_h, p->step->each, p->step->apart);
    const uint8_t *at = p->piece->rows[first + y * layer->dilation_h];
    return at ? at + p->source : NULL;
}

static void written(const part *p, int32_t row, int32_t x, int32_t pixels, const int32_t *sums)
{
    const csdf_byte_target *out = &p->step->out;
    uint8_t *at = out->rows[row] + (ptrdiff_t)x * out->stride + p->channel;
    csdf_rescaled(&p->step->layer->into, p->channel, p->n, sums, pixels, at, out->stride);
}

/* A pixel, tap by tap. */
static void tapped(const part *p, int32_t row, int32_t x)
{
    const csdf_byte_layer *layer = p->step->layer;
    const int32_t pairs = (layer->kernel_h + 1) / 2, first = x * layer->stride_w - layer->pad_left;
    int32_t sums[16] = {0};
    memcpy(sums, layer->bias + p->channel, (size_t)p->n * sizeof *sums);
    for (int32_t k = 0; k < layer->kernel_w; k++)
        for (int32_t y = 0; y < layer->kernel_h; y++) {
            const int32_t in = first + k * layer->dilation_w;
            const uint8_t *line = line_of(p, row, y);
            const int8_t *w = layer->weights + ((k * pairs + y / 2) * p->all + p->channel) * 2 + y % 2;
            if (line && in >= 0 && in < p->step->width) {
                const uint8_t *at = line + (ptrdiff_t)in * p->piece->stride;
                for (int32_t c = 0; c < p->n; c++)
                    sums[c] += (int8_t)(at[c] ^ layer->flip) * w[2 * c];
            } else {
                for (int32_t c = 0; c < p->n; c++)
                    sums[c] += layer->padding * w[2 * c];
            }
        }
    written(p, row, x, 1, sums);
}

#ifdef CSDF_PAIRED

/* Columns of two lines side by side: 16 bits each, [column][16][2], `apart` from column to column. The channels of a
 * pixel lie `stride` bytes behind those of the one before, of either line; n: of them, at most sixteen. */
CSDF_INLINE void side_by_side(const uint8_t *const lines[2], const ptrdiff_t stride[2], int32_t n, int32_t count,
    uint8_t flip, int16_t *to, ptrdiff_t apart)
{
    const uint8_t *above = lines[0], *below = lines[1];
    for (int32_t k = 0; k < count; k++, to += apart, above += stride[0], below += stride[1]) {
        if (n == 16) {
            csdf_paired(to, above, below, flip);
        } else {
            uint8_t some[2][16] = {{0}};
            memcpy(some[0], above, (size_t)n);
            memcpy(some[1], below, (size_t)n);
            csdf_paired(to, some[0], some[1], flip);
        }
    }
}

/* Values of `count` columns from `first` on, of two lines; NULL is padding. */
static void lay(const part *p, const uint8_t *above, const uint8_t *below, int32_t first, int32_t count, int16_t *to,
    ptrdiff_t apart)
{
    const csdf_byte_layer *layer = p->step->layer;
    const uint8_t flip = (uint8_t)layer->flip;
    const uint8_t *const given[2] = {above, below};
    const uint8_t *lines[2];
    ptrdiff_t stride[2];
    const int32_t from = most(0, least(count, -first)), end = most(from, least(count, p->step->width - first));
    const ptrdiff_t none[2] = {0, 0};
    uint8_t padding[16];
    const uint8_t *const padded[2] = {padding, padding};
    memset(padding, layer->padding ^ layer->flip, sizeof padding);
    for (int k = 0; k < 2; k++) {
        stride[k] = given[k] ? p->piece->stride : 0;
        lines[k] = given[k] ? given[k] + (first + from) * stride[k] : padding;
    }
    side_by_side(padded, none, 16, from, flip, to, apart);
    if (p->n == 16)
        side_by_side(lines, stride, 16, end - from, flip, to + from * apart, apart);
    else
        side_by_side(lines, stride, p->n, end - from, flip, to + from * apart, apart);
    side_by_side(padded, none, 16, count - end, flip, to + end * apart, apart);
}

/* x: the first column that the first of these pixels sees; step: 16 bits from a pixel to the next. */
#define STRIPS(pixels) \
    static void strip_##pixels(const int16_t *x, ptrdiff_t step, ptrdiff_t tap, const int16_t *weights, int32_t wide, \
        int32_t pairs, const int32_t *bias, int32_t *sums) \
    { \
        csdf_eight low[pixels], high[pixels]; \
        for (int i = 0; i < pixels; i++) { \
            low[i] = csdf_load_eight(bias); \
            high[i] = csdf_load_eight(bias + 8); \
        } \
        for (int32_t k = 0; k < wide; k++, x += tap) \
            for (int32_t y = 0; y < pairs; y++, weights += 32) \
                for (int i = 0; i < pixels; i++) { \
                    const int16_t *at = x + i * step + y * 32; \
                    low[i] = csdf_add_pairs(low[i], at, weights); \
                    high[i] = csdf_add_pairs(high[i], at + 16, weights + 16); \
                } \
        for (int i = 0; i < pixels; i++) { \
            csdf_store_eight(sums + 16 * i, low[i]); \
            csdf_store_eight(sums + 16 * i + 8, high[i]); \
        } \
    }
STRIPS(1)
STRIPS(2)
STRIPS(3)
STRIPS(4)

/* Weights of the pairs as 16 bits each: of taps 2 * y and 2 * y + 1, or (late) of those before. */
static void widened(const part *p, int32_t late, int16_t *to)
{
    const csdf_byte_layer *layer = p->step->layer;
    const int32_t pairs = (layer->kernel_h + 1) / 2;
    for (int32_t k = 0; k < layer->kernel_w * pairs; k++, to += 32) {
        const int8_t *at = layer->weights + (k * p->all + p->channel) * 2;
        int8_t taps[32];
        if (!late) {
            csdf_sixteen_bits(to, at);
            csdf_sixteen_bits(to + 16, at + 16);
            continue;
        }
        for (int32_t c = 0; c < 16; c++) {
            taps[2 * c] = k % pairs ? at[2 * c + 1 - 2 * p->all] : 0;
            taps[2 * c + 1] = at[2 * c];
        }
        csdf_sixteen_bits(to, taps);
        csdf_sixteen_bits(to + 16, taps + 16);
    }
}

/* Pixels of an output row from x on, of columns that are laid out. */
static void along(const part *p, const int16_t *values, const int16_t *weights, int32_t row, int32_t x, int32_t count)
{
    static void (*const strips[])(const int16_t *, ptrdiff_t, ptrdiff_t, const int16_t *, int32_t, int32_t,
        const int32_t *, int32_t *) = {strip_1, strip_2, strip_3, strip_4};
    const csdf_byte_layer *layer = p->step->layer;
    const int32_t pairs = (layer->kernel_h + 1) / 2;
    const ptrdiff_t apart = pairs * 32;
    int32_t sums[SUMS * 16];
    for (int32_t done = 0, some; done < count; done += some) {
        some = least(SUMS, count - done);
        for (int32_t k = 0, pixels; k < some; k += pixels) {
            const int32_t left = some - k, parts = (left + STRIP - 1) / STRIP;
            pixels = (left + parts - 1) / parts;
            strips[pixels - 1](values + (done + k) * layer->stride_w * apart, layer->stride_w * apart,
                layer->dilation_w * apart, weights, layer->kernel_w, pairs, layer->bias + p->channel, sums + 16 * k);
        }
        written(p, row, x + done, some, sums);
    }
}

static void slab(const part *p)
{
    const csdf_byte_layer *layer = p->step->layer;
    const csdf_byte_target *out = &p->step->out;
    const int32_t wide = layer->kernel_w, high = layer->kernel_h, pairs = (high + 1) / 2;
    const int32_t extent = (wide - 1) * layer->dilation_w + 1, end = out->column + out->columns;
    if (extent * pairs > COLUMNS || wide * pairs > PAIRS) {
        for (int32_t row = 0; row < out->count; row++)
            for (int32_t x = out->column; x < end; x++)
                tapped(p, row, x);
        return;
    }
    /* two rows see the same pairs, one of them with weights that are a tap late */
    const int32_t twice = high % 2 && layer->stride_h == 1 && layer->dilation_h == 1 && wide * pairs <= TWICE;
    const int32_t each = p->step->each ? p->step->each : out->count;
    const int32_t some = (COLUMNS / pairs - extent) / layer->stride_w + 1;
    int16_t values[COLUMNS * 32], weights[PAIRS * 32];
    widened(p, 0, weights);
    if (twice && out->count > 1)
        widened(p, 1, weights + TWICE * 32);
    for (int32_t row = 0, rows; row < out->count; row += rows) {
        rows = twice && row % each + 1 < each ? 2 : 1;
        for (int32_t x = out->column, count; x < end; x += count) {
            const int32_t first = x * layer->stride_w - layer->pad_left;
            count = least(some, end - x);
            for (int32_t y = 0; y < high; y += 2) {
                const uint8_t *below = y + 1 < high + rows - 1 ? line_of(p, row, y + 1) : NULL;
                lay(p, line_of(p, row, y), below, first, (count - 1) * layer->stride_w + extent, values + 16 * y,
                    pairs * 32);
            }
            for (int32_t k = 0; k < rows; k++)
                along(p, values, weights + k * TWICE * 32, row + k, x, count);
        }
    }
}

#else

static void slab(const part *p)
{
    const csdf_byte_target *out = &p->step->out;
    for (int32_t row = 0; row < out->count; row++)
        for (int32_t x = out->column; x < out->column + out->columns; x++)
            tapped(p, row, x);
}

#endif

void csdf_depthwise_bytes(const csdf_byte_conv_step *step)
{
    const int32_t low = step->out.channel, high = low + step->out.channels;
    int32_t start = 0;
    for (int32_t i = 0; i < step->piece_count; i++) {
        const csdf_byte_source *piece = step->pieces + i;
        const int32_t from = most(low, start), to = least(high, start + piece->channels);
        for (int32_t c = from; c < to; c += 16) {
            /* some once more: to the same values */
            const int32_t at = to - c < 16 && to - from >= 16 ? to - 16 : c;
            const ptrdiff_t all = (step->layer->out_channels + 15) / 16 * 16;
            const part p = {step, piece, at - start, at, least(16, to - at), all};
            slab(&p);
        }
        start += piece->channels;
    }
}

void csdf_depthwise_bytes_of(const void *step) { csdf_depthwise_bytes(step); }
