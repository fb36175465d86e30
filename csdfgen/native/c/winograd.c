/* Convolution 3x3 with fewer products: F(2x2, 3x3) and F(4x4, 3x3) of Lavin and Gray, 2015.
 *
 * Some tiles at a time: their windows are taken to (tile + 2)^2 points, at each of which the layer is
 * a product of matrices; sums are taken back to pixels for some output channels at a time.
 * The workspace holds [point][tile][channel] of the inputs, then of the sums.
 */
#include "products.h"

enum {
    TILES = 128,  /* at a time */
    SUMS = 64     /* output channels at a time */
};

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }

/* One row or column of a window to its points, `s` vectors apart. */
static void points_2(const csdf_v *d, csdf_v *t, int s)
{
    t[0] = d[0] - d[2 * s];
    t[s] = d[s] + d[2 * s];
    t[2 * s] = d[2 * s] - d[s];
    t[3 * s] = d[s] - d[3 * s];
}

static void points_4(const csdf_v *d, csdf_v *t, int s)
{
    const csdf_v two = csdf_splat(2.0f), four = csdf_splat(4.0f), five = csdf_splat(5.0f);
    const csdf_v d0 = d[0], d1 = d[s], d2 = d[2 * s], d3 = d[3 * s], d4 = d[4 * s], d5 = d[5 * s];
    const csdf_v even = d4 - four * d2, odd = d3 - four * d1;
    const csdf_v near = d4 - d2, far = two * (d3 - d1);
    t[0] = four * d0 - five * d2 + d4;
    t[s] = even + odd;
    t[2 * s] = even - odd;
    t[3 * s] = near + far;
    t[4 * s] = near - far;
    t[5 * s] = four * d1 - five * d3 + d5;
}

/* One row or column of points to its pixels. */
static void pixels_2(const csdf_v *m, csdf_v *y, int s)
{
    const csdf_v m1 = m[s], m2 = m[2 * s];
    y[0] = m[0] + m1 + m2;
    y[s] = m1 - m2 - m[3 * s];
}

static void pixels_4(const csdf_v *m, csdf_v *y, int s)
{
    const csdf_v two = csdf_splat(2.0f), four = csdf_splat(4.0f), eight = csdf_splat(8.0f);
    const csdf_v m0 = m[0], m5 = m[5 * s];
    const csdf_v even = m[s] + m[2 * s], odd = m[s] - m[2 * s];
    const csdf_v wide = m[3 * s] + m[4 * s], skew = m[3 * s] - m[4 * s];
    y[0] = m0 + even + wide;
    y[s] = odd + two * skew;
    y[2 * s] = even + four * wide;
    y[3 * s] = odd + eight * skew + m5;
}

typedef struct shape {
    const csdf_conv_step *step;
    int32_t tile, side; /* pixels and points of a side */
    int32_t across;     /* tiles of a row of them */
    int32_t ins, sums;  /* channels, of whole panels */
    int32_t some;       /* tiles at a time */
    float *inputs, *products;
} shape;

/* Windows of tiles [first, first + count) to points. */
static void take(const shape *f, int32_t first, int32_t count)
{
    const csdf_conv_step *step = f->step;
    const int32_t side = f->side;
    const ptrdiff_t plane = (ptrdiff_t)f->some * f->ins;
    for (int32_t k = 0; k < count; k++) {
        const int32_t y = (first + k) / f->across * f->tile, x = (first + k) % f->across * f->tile;
        const int32_t left = step->out.column + x - step->layer->pad_left;
        float *to = f->inputs + (ptrdiff_t)k * f->ins;
        for (int32_t i = 0; i < step->piece_count; i++) {
            const csdf_source *piece = step->pieces + i;
            const float *seen[6][6];
            for (int32_t r = 0; r < side; r++) {
                const float *row = y + r < step->out.count + 2 ? piece->rows[y + r] : NULL;
                for (int32_t q = 0; q < side; q++) {
                    const int32_t in = left + q;
                    const int32_t inside = row && in >= 0 && in < step->width;
                    seen[r][q] = inside ? row + (ptrdiff_t)in * piece->stride : NULL;
                }
            }
            for (int32_t c = 0; c < piece->channels; c += CSDF_LANES) {
                const int32_t n = least(CSDF_LANES, piece->channels - c);
                csdf_v d[36], t[36];
                for (int32_t r = 0; r < side; r++)
                    for (int32_t q = 0; q < side; q++) {
                        const float *at = seen[r][q];
                        d[r * side + q] = !at ? csdf_splat(0.0f)
                            : n == CSDF_LANES ? csdf_load(at + c) : csdf_load_some(at + c, n);
                    }
                if (f->tile == 2) {
                    for (int q = 0; q < 4; q++)
                        points_2(d + q, t + q, 4);
                    for (int r = 0; r < 4; r++)
                        points_2(t + 4 * r, d + 4 * r, 1);
                } else {
                    for (int q = 0; q < 6; q++)
                        points_4(d + q, t + q, 6);
                    for (int r = 0; r < 6; r++)
                        points_4(t + 6 * r, d + 6 * r, 1);
                }
                if (n == CSDF_LANES)
                    for (int32_t p = 0; p < side * side; p++)
                        csdf_store(to + p * plane + c, d[p]);
                else
                    for (int32_t p = 0; p < side * side; p++)
                        csdf_store_some(to + p * plane + c, d[p], n);
            }
            to += piece->channels;
        }
    }
}

/* Sums of output channels [channel, channel + channels) of these tiles to pixels. */
static void give(const shape *f, int32_t first, int32_t count, int32_t channel, int32_t channels)
{
    const csdf_conv_step *step = f->step;
    const csdf_target *out = &step->out;
    const csdf_source *residual = step->residual;
    const int32_t side = f->side, tile = f->tile;
    const ptrdiff_t plane = (ptrdiff_t)f->some * f->sums;
    const csdf_activation by = step->layer->activation;
    for (int32_t k = 0; k < count; k++) {
        const int32_t y = (first + k) / f->across * tile, x = (first + k) % f->across * tile;
        const int32_t high = least(tile, out->count - y), wide = least(tile, out->columns - x);
        const float *from = f->products + (ptrdiff_t)k * f->sums;
        for (int32_t c = 0; c < channels; c += CSDF_LANES) {
            const int32_t n = least(CSDF_LANES, channels - c);
            const csdf_v bias = csdf_load(step->layer->bias + channel + c);
            csdf_v m[36], t[36];
            for (int32_t p = 0; p < side * side; p++)
                m[p] = csdf_load(from + p * plane + c);
            if (tile == 2) {
                for (int q = 0; q < 4; q++)
                    pixels_2(m + q, t + q, 4);
                for (int r = 0; r < 2; r++)
                    pixels_2(t + 4 * r, m + 4 * r, 1);
            } else {
                for (int q = 0; q < 6; q++)
                    pixels_4(m + q, t + q, 6);
                for (int r = 0; r < 4; r++)
                    pixels_4(t + 6 * r, m + 6 * r, 1);
            }
            for (int32_t r = 0; r < high; r++)
                for (int32_t q = 0; q < wide; q++) {
                    const ptrdiff_t column = out->column + x + q;
                    float *to = out->rows[y + r] + column * out->stride + channel + c;
                    csdf_v sum = m[r * side + q] + bias;
                    if (residual) {
                        const float *add = residual->rows[y + r] + column * residual->stride + channel + c;
                        sum += n == CSDF_LANES ? csdf_load(add) : csdf_load_some(add, n);
                    }
                    sum = csdf_activated(sum, &by);
                    if (n == CSDF_LANES)
                        csdf_store(to, sum);
                    else
                        csdf_store_some(to, sum, n);
                }
        }
    }
}

/* At every point the product of inputs and weights. */
static void multiply(const shape *f, int32_t count, int32_t channel, int32_t channels)
{
    const csdf_layer *layer = f->step->layer;
    const int32_t points = f->side * f->side;
    const ptrdiff_t point = (ptrdiff_t)layer->in_channels * CSDF_PANEL;
    const float *table[TILES];
    float *out[TILES];
    csdf_pass pass;
    pass.table = table;
    pass.pixels = count;
    pass.taps = pass.pieces = 1;
    pass.counts = &layer->in_channels;
    pass.panel = points * point;
    pass.skip = 0;
    pass.channel = 0;
    pass.channels = (channels + CSDF_PANEL - 1) / CSDF_PANEL * CSDF_PANEL;
    pass.spare = 0;
    pass.bias = NULL;
    pass.init = NULL;
    pass.out = out;
    pass.activation.kind = CSDF_NONE;
    pass.activation.a = pass.activation.b = 0.0f;
    for (int32_t p = 0; p < points; p++) {
        for (int32_t k = 0; k < count; k++) {
            table[k] = f->inputs + ((ptrdiff_t)p * f->some + k) * f->ins;
            out[k] = f->products + ((ptrdiff_t)p * f->some + k) * f->sums;
        }
        pass.weights = layer->weights + channel / CSDF_PANEL * pass.panel + p * point;
        csdf_products(&pass);
    }
}

static int32_t padded(int32_t channels)
{
    return (channels + CSDF_PANEL - 1) / CSDF_PANEL * CSDF_PANEL;
}

size_t csdf_winograd_bytes(const csdf_layer *layer, int32_t tile, int32_t tiles)
{
    const int32_t channels = padded(layer->in_channels) + least(SUMS, padded(layer->out_channels));
    return (size_t)((tile + 2) * (tile + 2)) * (size_t)tiles * (size_t)channels * sizeof(float);
}

void csdf_winograd(const csdf_conv_step *step)
{
    const csdf_layer *layer = step->layer;
    const csdf_target *out = &step->out;
    const int32_t down = (out->count + step->tile - 1) / step->tile;
    const size_t room = step->workspace_bytes / csdf_winograd_bytes(layer, step->tile, 1);
    const int32_t end = out->channel + out->channels;
    shape f;
    f.step = step;
    f.tile = step->tile;
    f.side = step->tile + 2;
    f.across = (out->columns + step->tile - 1) / step->tile;
    f.ins = padded(layer->in_channels);
    f.sums = least(SUMS, padded(layer->out_channels));
    const int32_t all = down * f.across, limit = room < TILES ? (int32_t)room : TILES;
    const int32_t rounds = (all + limit - 1) / limit;
    f.some = (all + rounds - 1) / rounds;
    f.inputs = step->workspace;
    f.products = f.inputs + (ptrdiff_t)(f.side * f.side) * f.some * f.ins;
    for (int32_t first = 0; first < all; first += f.some) {
        const int32_t count = least(f.some, all - first);
        take(&f, first, count);
        for (int32_t channel = out->channel; channel < end; channel += f.sums) {
            const int32_t channels = least(f.sums, end - channel);
            multiply(&f, count, channel, channels);
            give(&f, first, count, channel, channels);
        }
    }
}

void csdf_winograd_of(const void *step) { csdf_winograd(step); }
