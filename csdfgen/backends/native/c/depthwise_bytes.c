/* Depthwise convolution of bytes: nothing to add up over channels.
 *
 * Sixteen channels at a time. Taps of a column come in pairs, one above the other: with vectors of 256 bits a pair is
 * one product and sum of neighbours, of values that are laid out for it once and serve all windows they are in.
 * Elsewhere, and where windows reach too far, it is tap by tap.
 */
#include "bytes.h"
#include "images.h"

/* Whether sums become bytes by integers. */
#define SHIFTS CSDF_MAY(depthwise_bytes__layer__into__kind, CSDF_SHIFTED)

enum {
    STRIP = 4,    /* pixels at a time */
    SUMS = 16,    /* of pixels, that become bytes together */
    COLUMNS = 60, /* pairs that are laid out at a time */
    PAIRS = 30,   /* of a kernel, or of two that are one */
    TWICE = PAIRS / 2
};

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
    CSDF_RESCALED(SHIFTS, &p->step->layer->into)(&p->step->layer->into, p->channel, p->n, sums, pixels, at, out->stride);
}

#ifdef CSDF_DEEP

#define UNROLLED _Pragma("GCC unroll 8")

enum { CHANNELS = 64, WIDE_COLUMNS = 50, WIDE_TAPS = 30 };

/* Weights in fours of a column, [column][four][panel][16][4], and the same a line late, for the row below; what they meet,
 * [column][four][panel][16][4] too; sums that start at `bias`. panels: four, channels 4 * p + 16 * q + (0 ... 3) in
 * panel p; two, as csdf_wide_half_columns has them; or one of sixteen channels. */
typedef struct deep {
    csdf_wide into;
    int8_t weights[2][WIDE_TAPS * 4 * CHANNELS];
    uint8_t values[WIDE_COLUMNS * 4 * CHANNELS];
    int32_t bias[CHANNELS];
    float factors[CHANNELS];
} deep;

/* Columns [first, first + count) of lines [top, top + 4) of the `high` that a row sees, `apart` bytes from one to the next. */
CSDF_INLINE void lay(const part *p, int32_t row, int32_t top, int32_t high, int32_t first, int32_t count, int32_t panels, uint8_t *to,
    ptrdiff_t apart)
{
    const csdf_byte_layer *layer = p->step->layer;
    const uint64_t mask = ~(uint64_t)0 >> (64 - p->n);
    const uint8_t flip = CSDF_FLIP(layer->flip);
    const int32_t from = most(0, least(count, -first)), end = most(from, least(count, p->step->width - first));
    const uint8_t *at[4];
    uint8_t padding[CHANNELS];
    ptrdiff_t stride[4];
    memset(padding, layer->padding ^ layer->flip, sizeof padding);
    UNROLLED
    for (int32_t k = 0; k < 4; k++) {
        const uint8_t *line = top + k < high ? line_of(p, row, top + k) : NULL;
        stride[k] = line ? p->piece->stride : 0;
        at[k] = line ? line + (first + from) * stride[k] : padding;
    }
    for (int32_t k = 0; k < count; k++, to += apart) {
        if (k < from || k >= end) {
            memset(to, padding[0] ^ flip, (size_t)panels * 64);
            continue;
        }
        if (panels == 4)
            csdf_wide_columns(to, at, mask, flip);
        else if (panels == 2)
            csdf_wide_half_columns(to, at, mask, flip);
        else
            csdf_wide_column(to, at, mask, flip);
        UNROLLED
        for (int32_t i = 0; i < 4; i++)
            at[i] += stride[i];
    }
}

#define DEEP(panels, pixels) \
    static void deep_##panels##x##pixels(const deep *d, const int8_t *w, const uint8_t *x, ptrdiff_t step, ptrdiff_t tap, int32_t wide, \
        int32_t fours, uint8_t *out, ptrdiff_t apart) \
    { \
        csdf_sum sums[pixels][panels]; \
        UNROLLED \
        for (int i = 0; i < pixels; i++) \
            for (int v = 0; v < panels; v++) \
                sums[i][v] = csdf_wide_sums(d->bias + 16 * v); \
        for (int32_t k = 0; k < wide; k++, x += tap) \
            for (int32_t y = 0; y < fours; y++, w += 64 * panels) \
                for (int v = 0; v < panels; v++) { \
                    const csdf_taps taps = csdf_weights(w + 64 * v); \
                    for (int i = 0; i < pixels; i++) { \
                        const csdf_four four = csdf_weights((const int8_t *)x + i * step + (y * panels + v) * 64); \
                        sums[i][v] = csdf_dot(sums[i][v], four, taps); \
                    } \
                } \
        UNROLLED \
        for (int i = 0; i < pixels; i++, out += apart) { \
            if (panels == 1 && d->into.sums) \
                csdf_wide_keep(d->into.sums + 16 * i, sums[i][0]); \
            else if (panels == 1) \
                csdf_wide_store(out, csdf_wide_bytes(&d->into, 1, 0, sums[i][0], sums[i][0], sums[i][0], sums[i][0]), d->into.outs); \
            else if (panels == 2) \
                csdf_wide_half_bytes(&d->into, out, sums[i][0], sums[i][panels - 1]); \
            else \
                csdf_wide_store(out, csdf_wide_mixed(&d->into, 4, sums[i][0], sums[i][panels / 4], \
                    sums[i][panels / 2], sums[i][panels - 1]), d->into.outs); \
        } \
    }
DEEP(4, 1)
DEEP(4, 2)
DEEP(4, 3)
DEEP(4, 4)
DEEP(2, 1)
DEEP(2, 2)
DEEP(2, 3)
DEEP(2, 4)
DEEP(2, 5)
DEEP(2, 6)
DEEP(1, 1)
DEEP(1, 2)
DEEP(1, 3)
DEEP(1, 4)
DEEP(1, 5)
DEEP(1, 6)
DEEP(1, 7)
DEEP(1, 8)

/* Weights, bias and factors of the channels of a part. twice: late weights too. */
static void placed(const part *p, int32_t panels, int32_t twice, deep *d)
{
    const csdf_byte_layer *layer = p->step->layer;
    const int32_t pairs = (layer->kernel_h + 1) / 2;
    const int32_t *bias = layer->bias + p->all + p->channel;
    const float *factors = layer->into.factors;
    int8_t *to = d->weights[0];
    csdf_wide_into(&d->into, &layer->into);
    d->into.factors = d->factors;
    d->into.outs = p->n;
    d->into.sums = NULL;
    d->into.shift = 0;
    /* products with what may be in memory are a hundred times as slow where they are denormal */
    memset(d->bias, 0, sizeof d->bias);
    memset(d->factors, 0, sizeof d->factors);
    for (int32_t c = 0; c < p->n; c += 4) {
        const int32_t two = c % 16 / 8 * 16 + c % 8 / 4 * 8 + c / 16 * 4;
        const int32_t at = panels == 4 ? c % 16 / 4 * 16 + c / 16 * 4 : panels == 2 ? two : c;
        const size_t some = (size_t)least(4, p->n - c);
        memcpy(d->bias + at, bias + c, some * sizeof *bias);
        if (factors)
            memcpy(d->factors + at, factors + p->channel + c, some * sizeof *factors);
    }
    for (int32_t k = 0; k < layer->kernel_w; k++)
        for (int32_t y = 0; y < pairs; y += 2, to += 64 * panels) {
            const int8_t *at = layer->weights + ((k * pairs + y) * p->all + p->channel) * 2;
            csdf_wide_taps(to, at, y + 1 < pairs ? at + 2 * p->all : NULL, p->n, panels);
            if (twice)
                csdf_wide_late(to + sizeof d->weights[0], to, y ? to - 64 * panels : NULL, panels);
        }
}

/* Whether a layer's windows are small enough for slab_of. */
static int fits(const csdf_byte_layer *layer)
{
    const int32_t fours = (layer->kernel_h + 3) / 4, extent = (layer->kernel_w - 1) * layer->dilation_w + 1;
    return extent * fours <= WIDE_COLUMNS && layer->kernel_w * fours <= WIDE_TAPS;
}

/* All pixels of a part of up to 64 channels, of 32, or of sixteen. */
CSDF_INLINE void slab_of(const part *p, int32_t panels)
{
    typedef void strip(const deep *, const int8_t *, const uint8_t *, ptrdiff_t, ptrdiff_t, int32_t, int32_t, uint8_t *, ptrdiff_t);
    static strip *const four[] = {deep_4x1, deep_4x2, deep_4x3, deep_4x4};
    static strip *const two[] = {deep_2x1, deep_2x2, deep_2x3, deep_2x4, deep_2x5, deep_2x6};
    static strip *const one[] = {deep_1x1, deep_1x2, deep_1x3, deep_1x4, deep_1x5, deep_1x6, deep_1x7, deep_1x8};
    strip *const *strips = panels == 4 ? four : panels == 2 ? two : one;
    const csdf_byte_layer *layer = p->step->layer;
    const csdf_byte_target *out = &p->step->out;
    const int32_t wide = layer->kernel_w, fours = (layer->kernel_h + 3) / 4, end = out->column + out->columns;
    const int32_t extent = (wide - 1) * layer->dilation_w + 1, strip_pixels = panels == 4 ? 4 : panels == 2 ? 6 : 8;
    const int32_t some = (WIDE_COLUMNS / fours - extent) / layer->stride_w + 1;
    const ptrdiff_t apart = (ptrdiff_t)fours * panels * 64, step = layer->stride_w * apart;
    /* two rows see the same fours where a line is left, one of them with weights that are a line late */
    const int32_t twice = layer->stride_h * layer->dilation_h == 1 && layer->kernel_h < 4 * fours && out->count > 1;
    const int32_t each = p->step->each ? p->step->each : out->count;
    int32_t sums[8 * 16];
    deep d;
    placed(p, panels, twice, &d);
    if (layer->into.kind != CSDF_BYTES)
        d.into.sums = sums;
    for (int32_t row = 0, rows; row < out->count; row += rows) {
        rows = twice && row % each + 1 < least(each, out->count - row / each * each) ? 2 : 1;
        for (int32_t x = out->column, count; x < end; x += count) {
            const int32_t first = x * layer->stride_w - layer->pad_left;
            count = least(some, end - x);
            for (int32_t y = 0; y < fours; y++)
                lay(p, row, 4 * y, layer->kernel_h + rows - 1, first, (count - 1) * layer->stride_w + extent, panels,
                    d.values + y * panels * 64, apart);
            for (int32_t r = 0; r < rows; r++) {
                uint8_t *to = out->rows[row + r] + (ptrdiff_t)x * out->stride + p->channel;
                csdf_even even = csdf_evenly(count, strip_pixels);
                for (int32_t k = 0, pixels; k < count; k += pixels, to += pixels * out->stride) {
                    pixels = csdf_next(&even);
                    strips[pixels - 1](&d, d.weights[r], d.values + k * step, step, layer->dilation_w * apart, wide, fours,
                        to, out->stride);
                    if (d.into.sums)
                        written(p, row + r, x + k, pixels, sums);
                }
            }
        }
    }
}

#endif

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

#if defined(CSDF_PAIRED) && !defined(CSDF_DEEP)

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
        csdf_even even = csdf_evenly(some = least(SUMS, count - done), STRIP);
        for (int32_t k = 0, pixels; k < some; k += pixels) {
            pixels = csdf_next(&even);
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

#elif defined(CSDF_HELIUM) || defined(CSDF_DOT_DSP)

#include "depthwise_boards.h"

#else

#ifdef CSDF_SIXTEEN
enum { LINES = 16 }; /* of a kernel */

/* The sums of a pixel's sixteen channels. lines: by row of the kernel, NULL for padding, of which `none` are sixteen values. */
static void sixteen(const part *p, const uint8_t *const *lines, const uint8_t *none, int32_t x, int32_t *to)
{
    const csdf_byte_layer *layer = p->step->layer;
    const int32_t high = layer->kernel_h, width = p->step->width;
    const uint8_t flip = (uint8_t)layer->flip;
    const int8_t *w = layer->weights + p->channel * 2;
    csdf_sixteen_sums sums = csdf_sixteen_begun(layer->bias + p->channel);
    int32_t in = x * layer->stride_w - layer->pad_left;
    for (int32_t k = 0; k < layer->kernel_w; k++, in += layer->dilation_w) {
        const int seen = in >= 0 && in < width;
        const ptrdiff_t shift = (ptrdiff_t)in * p->piece->stride;
        for (int32_t y = 0; y < high; y += 2, w += p->all * 2) {
            const csdf_two_taps taps = csdf_two_taps_of(w);
            for (int32_t t = 0; t < 2 && y + t < high; t++) {
                const uint8_t *at = seen && lines[y + t] ? lines[y + t] + shift : none;
                sums = csdf_sixteen_tap(sums, csdf_sixteen_of(vld1q_u8(at), flip), taps.val[t]);
            }
        }
    }
    csdf_sixteen_put(to, sums);
}

/* Where windows of 3 by 3 read, line by line. pace: bytes to the next pixel of a line. in: column of the next pixel. */
typedef struct nine {
    const uint8_t *at[3], *none;
    ptrdiff_t pace[3];
    int32_t in, width;
    uint8_t flip;
} nine;

CSDF_INLINE csdf_column next_column(nine *n)
{
    int8x16_t x[3];
    const int is_padding = (uint32_t)n->in++ >= (uint32_t)n->width;
    for (int k = 0; k < 3; k++)
        x[k] = csdf_sixteen_of(is_padding ? vld1q_u8(n->none) : csdf_next_sixteen(n->at + k, n->pace[k]), n->flip);
    return csdf_column_of(x[0], x[1], x[2]);
}

/* All pixels of windows of 3 by 3, of sixteen channels: each column of a row is read once. is_bytes: else the sums are written.
 * plain: as csdf_ends has it. Both are constants. */
CSDF_INLINE void nines(const part *p, const uint8_t *none, int is_bytes, int plain)
{
    const csdf_byte_layer *layer = p->step->layer;
    const csdf_byte_target *out = &p->step->out;
    const int8_t *w = layer->weights + p->channel * 2;
    const int32_t *bias = layer->bias + (CSDF_UNSIGNED ? p->all : 0) + p->channel;
    const ptrdiff_t apart = 2 * p->all, stride = out->stride;
    const csdf_column first = csdf_column_taps(w, apart), second = csdf_column_taps(w + 2 * apart, apart);
    const csdf_column third = csdf_column_taps(w + 4 * apart, apart), *const taps[3] = {&first, &second, &third};
    const csdf_ends ends = csdf_ends_of(layer->into.factors + p->channel, layer->into.zero, layer->into.low);
    nine n = {{NULL, NULL, NULL}, none, {0, 0, 0}, 0, p->step->width, CSDF_FLIP(layer->flip)};
    int32_t sums[SUMS * 16];
    for (int32_t row = 0; row < out->count; row++)
        for (int32_t x = out->column, end = x + out->columns, count; x < end; x += count) {
            uint8_t *made = out->rows[row] + x * stride + p->channel;
            int32_t *to = sums, left = is_bytes ? end - x : least(SUMS, end - x);
            csdf_column a, b, c;
            count = left;
            n.in = x * layer->stride_w - layer->pad_left;
            for (int32_t k = 0; k < 3; k++) {
                const uint8_t *line = line_of(p, row, k);
                n.pace[k] = line ? p->piece->stride : 0;
                n.at[k] = line ? line + most(0, n.in) * n.pace[k] : none;
            }
#define PIXEL(a, b, c) \
    { \
        const csdf_column *const x[3] = {&(a), &(b), &(c)}; \
        if (is_bytes) { \
            vst1q_u8(made, csdf_sixteen_bytes(&ends, bias, x, taps, plain)); \
            made += stride; \
        } else { \
            csdf_sixteen_sums all = csdf_sixteen_begun(bias); \
            for (int k = 0; k < 3; k++) \
                all = csdf_sixteen_column(all, *x[k], *taps[k]); \
            csdf_sixteen_put(to, all); \
            to += 16; \
        } \
        if (!--left) \
            break; \
    }
            a = next_column(&n);
            if (layer->stride_w == 1) {
                b = next_column(&n);
                for (;;) {
                    c = next_column(&n);
                    PIXEL(a, b, c)
                    a = next_column(&n);
                    PIXEL(b, c, a)
                    b = next_column(&n);
                    PIXEL(c, a, b)
                }
            } else {
                for (;;) {
                    b = next_column(&n);
                    c = next_column(&n);
                    PIXEL(a, b, c)
                    b = next_column(&n);
                    a = next_column(&n);
                    PIXEL(c, b, a)
                }
            }
#undef PIXEL
            if (!is_bytes)
                written(p, row, x, count, sums);
        }
}

/* All pixels of sixteen channels. */
static void sixteens(const part *p)
{
    const csdf_byte_layer *layer = p->step->layer;
    const csdf_byte_target *out = &p->step->out;
    const int32_t end = out->column + out->columns;
    const uint8_t *lines[LINES];
    uint8_t none[16];
    int32_t sums[SUMS * 16];
    memset(none, layer->padding ^ layer->flip, sizeof none);
    if (layer->kernel_h == 3 && layer->kernel_w == 3 && layer->dilation_w == 1 && layer->stride_w < 3) {
        if (layer->into.kind != CSDF_BYTES)
            nines(p, none, 0, 0);
        else if (layer->into.zero || layer->into.low)
            nines(p, none, 1, 0);
        else
            nines(p, none, 1, 1);
        return;
    }
    for (int32_t row = 0; row < out->count; row++) {
        for (int32_t y = 0; y < layer->kernel_h; y++)
            lines[y] = line_of(p, row, y);
        for (int32_t x = out->column, count; x < end; x += count) {
            count = least(SUMS, end - x);
            for (int32_t k = 0; k < count; k++)
                sixteen(p, lines, none, x + k, sums + 16 * k);
            written(p, row, x, count, sums);
        }
    }
}
#endif

static void slab(const part *p)
{
#ifdef CSDF_SIXTEEN
    if (p->n == 16 && p->step->layer->kernel_h <= LINES) {
        sixteens(p);
        return;
    }
#endif
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
#ifdef CSDF_DEEP
        const int32_t each = fits(step->layer) ? CHANNELS : 16;
        for (int32_t c = from, n; c < to; c += n) {
            const int32_t several = each == CHANNELS && step->layer->into.kind == CSDF_BYTES && to - c > 16;
            const int32_t panels = !several ? 1 : to - c > 32 ? 4 : 2;
            n = least(to - c, 16 * panels);
            const part p = {step, piece, c - start, c, n, (step->layer->out_channels + 15) / 16 * 16};
            if (each != CHANNELS)
                slab(&p);
            else if (panels == 4)
                slab_of(&p, 4);
            else if (panels == 2)
                slab_of(&p, 2);
            else
                slab_of(&p, 1);
        }
#else
#if defined(CSDF_HELIUM) || defined(CSDF_DOT_DSP)
        const int32_t each = pairs_of(step->layer) <= MOST_PAIRS ? AT_ONCE : 16;
#else
        const int32_t each = 16;
#endif
        for (int32_t c = from; c < to; c += each) {
            /* some once more: to the same values */
            const int32_t at = to - c < 16 && to - from >= 16 ? to - 16 : c;
            const ptrdiff_t all = (step->layer->out_channels + 15) / 16 * 16;
            const part p = {step, piece, at - start, at, least(each, to - at), all};
            slab(&p);
        }
#endif
        start += piece->channels;
    }
}

void csdf_depthwise_bytes_of(const void *step) { csdf_depthwise_bytes(step); }
