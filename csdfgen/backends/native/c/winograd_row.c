/* Convolution with fewer products along the rows: F(m, r) of Winograd, m + r = 7, so six points.
 *
 * Each row of a window on its own: of the r taps in a row and m pixels side by side, six products
 * remain instead of r * m (r = 3: half of them; 2 and 5: six of ten). Rows of the kernel are added up
 * at the points, so that any height of a kernel, any stride down and a slab of one row will do.
 * The workspace holds [image][row][point][tile][channel] of some input channels, then
 * [point][tile][channel] of sums. Of few bytes it makes many tiles of few input channels, so that weights are read once: what
 * some of them add up to is added to the output.
 */
#define CSDF_BY_VALUE /* see simd.h */
#include "points.h"

enum { POINTERS = 512 }; /* of a table: 4 KiB where pointers have 8 bytes */

typedef struct shape {
    const csdf_conv_step *step;
    const csdf_conv_share *share;
    int32_t stage;       /* the next one */
    int32_t pixels;      /* of a tile */
    int32_t ins, outs;   /* channels of a group */
    csdf_reach reach;
    int32_t first, some; /* input channels of the group, now; `pace` floats for each tile */
    int32_t pace, sums;
    int32_t each;        /* output rows of an image */
    int32_t image, images, row, rows; /* images, and of each of them output rows, now */
    int32_t tile, tiles; /* of each of them, now */
    float *inputs, *products, *kept;
} shape;

static int32_t height(const csdf_layer *layer, int32_t rows)
{
    return (rows - 1) * layer->stride_h + (layer->kernel_h - 1) * layer->dilation_h + 1;
}

size_t csdf_winograd_row_bytes(const csdf_layer *layer, int32_t rows, int32_t tiles, int32_t channels)
{
    const int32_t sums = least(SUMS, padded(layer->out_channels / layer->groups));
    const size_t values =
        (size_t)height(layer, rows) * (size_t)padded(channels) + (size_t)rows * (size_t)sums;
    return POINTS * (size_t)tiles * values * sizeof(float);
}

#define STORE(k, x) csdf_store(to + (k) * plane, (x));
#define STORE_SOME(k, x) csdf_store_some(to + (k) * plane, (x), n);

/* Channels [first, first + count) of a piece in one tile of a row, which is `seen`, to its points. */
static void take(const shape *f, const csdf_source *piece, const float *row, int32_t in, int32_t first,
    int32_t count, float *to)
{
    const csdf_v two = csdf_splat(2.0f), four = csdf_splat(4.0f), five = csdf_splat(5.0f);
    const ptrdiff_t plane = (ptrdiff_t)f->tiles * f->pace, stride = piece->stride;
    const int32_t whole = count / CSDF_LANES * CSDF_LANES;
    const float *seen[POINTS];
    int32_t inside = 1, c = 0;
    for (int32_t q = 0; q < POINTS; q++) {
        const int32_t here = in + q >= 0 && in + q < f->step->width;
        seen[q] = here ? row + (ptrdiff_t)(in + q) * stride + first : NULL;
        inside = inside && here;
    }
    if (inside) {
        const float *at = seen[0];
        for (; c < whole; c += CSDF_LANES, at += CSDF_LANES, to += CSDF_LANES) {
            const csdf_v d0 = csdf_load(at), d1 = csdf_load(at + stride);
            const csdf_v d2 = csdf_load(at + 2 * stride), d3 = csdf_load(at + 3 * stride);
            const csdf_v d4 = csdf_load(at + 4 * stride), d5 = csdf_load(at + 5 * stride);
            TO_SIX(STORE, d0, d1, d2, d3, d4, d5)
        }
    }
    for (; c < count; c += CSDF_LANES, to += CSDF_LANES) {
        const int32_t n = least(CSDF_LANES, count - c);
        const csdf_v d0 = some(seen[0], c, n), d1 = some(seen[1], c, n), d2 = some(seen[2], c, n);
        const csdf_v d3 = some(seen[3], c, n), d4 = some(seen[4], c, n), d5 = some(seen[5], c, n);
        if (n == CSDF_LANES)
            TO_SIX(STORE, d0, d1, d2, d3, d4, d5)
        else
            TO_SIX(STORE_SOME, d0, d1, d2, d3, d4, d5)
    }
}

/* All rows that the tiles read to points, some channels of a group: a part of the tiles. */
static void take_all(const shape *f, int32_t group)
{
    const csdf_conv_step *step = f->step;
    const csdf_layer *layer = step->layer;
    const int32_t low = group * f->ins + f->first, high = low + f->some, rows = height(layer, f->rows);
    const ptrdiff_t plane = (ptrdiff_t)f->tiles * f->pace;
    const csdf_some own = csdf_some_of(f->share, f->images * rows * f->tiles);
    for (int32_t r = own.begin / f->tiles; r * f->tiles < own.end; r++) {
        const int32_t left = most(0, own.begin - r * f->tiles), right = least(f->tiles, own.end - r * f->tiles);
        const ptrdiff_t seen = (ptrdiff_t)(f->image + r / rows) * step->apart + f->row * layer->stride_h + r % rows;
        float *to = f->inputs + r * POINTS * plane;
        int32_t start = 0;
        for (int32_t i = 0; i < step->piece_count; start += step->pieces[i++].channels) {
            const csdf_source *piece = step->pieces + i;
            const int32_t from = most(low, start), end = least(high, start + piece->channels);
            if (from >= end)
                continue;
            const float *row = piece->rows[seen];
            for (int32_t t = left; t < right; t++) {
                const int32_t in = step->out.column + (f->tile + t) * f->pixels - layer->pad_left;
                float *at = to + t * f->pace + (from - low);
                if (row) {
                    take(f, piece, row, in, from - start, end - from, at);
                    continue;
                }
                for (int32_t p = 0; p < POINTS; p++)
                    for (int32_t c = 0; c < end - from; c++)
                        at[p * plane + c] = 0.0f;
            }
        }
    }
}

/* At a point sums over rows of the kernel and `inputs` input channels, the first of those that are there now or, from `at` on,
 * added to the sums before; panels of weights from `left` on of a block. skip: input channels behind those of a row of the kernel. */
static void multiply_at(const shape *f, int32_t p, int32_t at, int32_t inputs, const float *weights, ptrdiff_t panel, ptrdiff_t skip,
    int32_t left, int32_t channels)
{
    const csdf_layer *layer = f->step->layer;
    const ptrdiff_t plane = (ptrdiff_t)f->tiles * f->pace;
    const float *table[POINTERS], **entry = table;
    const int32_t pixels = f->images * f->rows * f->tiles;
    const float *sums = f->products + (ptrdiff_t)p * pixels * f->sums;
    for (int32_t k = 0; k < pixels; k++)
        *entry++ = sums + (ptrdiff_t)k * f->sums;
    for (int32_t y = 0; y < layer->kernel_h; y++)
        for (int32_t r = 0; r < f->images * f->rows; r++) {
            const int32_t above = r / f->rows * height(layer, f->rows) + r % f->rows * layer->stride_h;
            const int32_t row = above + y * layer->dilation_h;
            const float *from = f->inputs + ((ptrdiff_t)row * POINTS + p) * plane + at;
            for (int32_t t = 0; t < f->tiles; t++, from += f->pace)
                *entry++ = from;
        }
    const csdf_pass pass = {
        table + pixels, pixels, layer->kernel_h, 1, &inputs, weights, panel, 0, skip, CSDF_WHOLE, left * CSDF_PANEL,
        (channels + CSDF_LANES - 1) / CSDF_LANES * CSDF_LANES - left * CSDF_PANEL, 0, NULL, at ? table : NULL,
        (float *const *)table, {CSDF_NONE, 0.0f, 0.0f}, 0, NULL, 0,
    };
    csdf_products(&pass);
}

/* The same at every point: output channels [channel, channel + channels) of a group, all in one block of SUMS; a part of the panels
 * at the points or, where weights are not there yet, of the points. */
static void multiply(const shape *f, int32_t group, int32_t channel, int32_t channels)
{
    const csdf_layer *layer = f->step->layer;
    const int32_t panels = padded(f->outs) / CSDF_PANEL, block = channel / SUMS;
    const int32_t many = least(SUMS / CSDF_PANEL, panels - block * (SUMS / CSDF_PANEL));
    const ptrdiff_t row = (ptrdiff_t)f->ins * CSDF_PANEL, panel = layer->kernel_h * row;
    const int32_t first = channel / CSDF_PANEL, in_block = first - block * (SUMS / CSDF_PANEL);
    const int32_t wide = padded(channels) / CSDF_PANEL;
    if (layer->at_points) {
        const float *weights = layer->weights
            + ((ptrdiff_t)group * panels + first - in_block) * POINTS * panel + in_block * panel
            + (ptrdiff_t)f->first * CSDF_PANEL;
        const csdf_some own = csdf_some_of(f->share, POINTS * wide);
        for (int32_t p = own.begin / wide; p * wide < own.end; p++) {
            const int32_t left = most(0, own.begin - p * wide), right = least(wide, own.end - p * wide);
            multiply_at(f, p, 0, f->some, weights + (ptrdiff_t)(p * many + left) * panel, panel,
                f->ins - f->some, left, least(channels, right * CSDF_PANEL));
        }
        return;
    }
    const ptrdiff_t taps = (ptrdiff_t)layer->kernel_h * layer->kernel_w * f->ins;
    const csdf_some own = csdf_some_of(f->share, POINTS);
    for (int32_t at = 0; own.begin < own.end && at < f->some; at += KEPT) {
        const int32_t inputs = least(KEPT, f->some - at);
        const ptrdiff_t each = (ptrdiff_t)layer->kernel_h * KEPT * CSDF_PANEL, plane = kept(layer, layer->kernel_h);
        for (int32_t k = 0; k < wide; k++) {
            const int32_t low = channel + k * CSDF_PANEL;
            take_weights(layer, layer->weights + (group * f->outs + low) * taps, f->outs - low, f->first + at, 1, inputs,
                own, f->kept + k * each, plane);
        }
        for (int32_t p = own.begin; p < own.end; p++)
            multiply_at(f, p, at, inputs, f->kept + p * plane, each, 0, 0, channels);
    }
}

/* Sums of these output channels to pixels, of a part of the tiles; bias: of the first of them, target: its place in a pixel.
 * Behind the first input channels they are added to what the output has. */
static void give(const shape *f, const float *bias, int32_t target, int32_t channels)
{
    const csdf_conv_step *step = f->step;
    const int32_t begins = f->first == f->reach.low;
    const csdf_source before = {(const float *const *)step->out.rows, step->out.stride, 0};
    const csdf_source *added = begins ? step->residual : &before;
    const csdf_v two = csdf_splat(2.0f), four = csdf_splat(4.0f), eight = csdf_splat(8.0f),
                 sixteen = csdf_splat(16.0f);
    const ptrdiff_t plane = (ptrdiff_t)f->images * f->rows * f->tiles * f->sums, pace = step->out.stride;
    const csdf_some own = csdf_some_of(f->share, f->images * f->rows * f->tiles);
    const float *from = f->products + (ptrdiff_t)own.begin * f->sums;
    csdf_activation by = step->layer->activation;
    if (f->first + f->some < f->reach.high)
        by.kind = CSDF_NONE;
    for (int32_t r = own.begin / f->tiles; r * f->tiles < own.end; r++) {
        const int32_t left = most(0, own.begin - r * f->tiles), right = least(f->tiles, own.end - r * f->tiles);
        for (int32_t t = left; t < right; t++, from += f->sums) {
            const int32_t row = (f->image + r / f->rows) * f->each + f->row + r % f->rows;
            const int32_t x = (f->tile + t) * f->pixels, wide = least(f->pixels, step->out.columns - x);
            const ptrdiff_t column = step->out.column + x, step_added = added ? added->stride : 0;
            float *to = step->out.rows[row] + column * pace + target;
            const float *add = added ? added->rows[row] + column * step_added + target : NULL;
            for (int32_t c = 0; c < channels; c += CSDF_LANES) {
                const int32_t n = least(CSDF_LANES, channels - c);
                const csdf_v m0 = csdf_load(from + c), m1 = csdf_load(from + plane + c);
                const csdf_v m2 = csdf_load(from + 2 * plane + c), m3 = csdf_load(from + 3 * plane + c);
                const csdf_v m4 = csdf_load(from + 4 * plane + c), m5 = csdf_load(from + 5 * plane + c);
                const csdf_v even = m1 + m2, odd = m1 - m2, far = m3 + m4, skew = m3 - m4;
                const csdf_v shift = begins ? csdf_load(bias + c) : csdf_splat(0.0f);
                csdf_v sums[5];
                sums[0] = shift + m0 + even + far;
                sums[1] = shift + odd + two * skew;
                sums[2] = shift + even + four * far;
                sums[3] = shift + odd + eight * skew;
                sums[4] = shift + even + sixteen * far;
                sums[f->pixels - 1] += m5;
                for (int32_t q = 0; q < wide; q++) {
                    csdf_v sum = sums[q];
                    if (add)
                        sum += some(add + q * step_added, c, n);
                    sum = csdf_activated(sum, &by);
                    if (n == CSDF_LANES)
                        csdf_store(to + q * pace + c, sum);
                    else
                        csdf_store_some(to + q * pace + c, sum, n);
                }
            }
        }
    }
}

size_t csdf_winograd_row_kept(const csdf_layer *layer)
{
    return sizeof(float) * (size_t)(POINTS * kept(layer, layer->kernel_h));
}

/* Tiles at a time of so many rows of images and input channels: what the workspace has room for. */
static int32_t room_for(const csdf_conv_step *step, int32_t images, int32_t rows, int32_t channels, int32_t limit)
{
    const size_t bytes = (size_t)images * csdf_winograd_row_bytes(step->layer, rows, 1, channels);
    const size_t taken = csdf_winograd_row_kept(step->layer);
    const size_t room = step->workspace_bytes < taken ? 0 : (step->workspace_bytes - taken) / bytes;
    return room < (size_t)limit ? (int32_t)room : limit;
}

/* How many images, rows of them, tiles of a row and input channels at a time: tiles are 0 where nothing
 * fits. */
static void divide(const shape *f, int32_t across, int32_t *images, int32_t *rows, int32_t *tiles, int32_t *channels)
{
    const csdf_conv_step *step = f->step;
    *images = step->out.count / f->each;
    *rows = f->each;
    for (;;) {
        /* rows that are read by several others are taken once where they fit in */
        const int32_t limit = least(across, POINTERS / (step->layer->kernel_h + 1) / (*images * *rows));
        for (int32_t parts = 1;; parts++) {
            *channels = least(f->ins, step->some ? step->some : padded((f->ins + parts - 1) / parts));
            *tiles = room_for(step, *images, *rows, *channels, limit);
            if (*tiles == limit || *channels <= LEAST_INS || step->some)
                break;
        }
        if ((*images == 1 && *rows == 1) || *tiles >= least(across, 2))
            return;
        if (*images > 1)
            *images = (*images + 1) / 2;
        else
            *rows = (*rows + 1) / 2;
    }
}

/* These tiles of a group, some input channels after the others. */
static void compute(shape *f, int32_t group, int32_t some_ins)
{
    const csdf_layer *layer = f->step->layer;
    const csdf_target *out = &f->step->out;
    const int32_t base = group * f->outs, end = out->channel + out->channels;
    const int32_t low = most(out->channel, base) - base, high = least(end, base + f->outs) - base;
    const float *bias = layer->bias + base;
    const int32_t seen = f->images * height(layer, f->rows);
    f->products = f->inputs + (ptrdiff_t)seen * POINTS * f->tiles * f->pace;
    for (f->first = f->reach.low; low < high && f->first < f->reach.high; f->first += f->some) {
        f->some = least(some_ins, f->reach.high - f->first);
        if (csdf_is_due(f->share, &f->stage))
            take_all(f, group);
        for (int32_t channel = low, next; channel < high; channel = next) {
            next = least(high, (channel / SUMS + 1) * SUMS);
            if (csdf_is_due(f->share, &f->stage))
                multiply(f, group, channel, next - channel);
            if (csdf_is_due(f->share, &f->stage))
                give(f, bias + channel, base + channel, next - channel);
        }
    }
}

void csdf_winograd_row_share(const csdf_conv_share *share)
{
    const csdf_conv_step *step = share->step;
    const csdf_layer *layer = step->layer;
    const csdf_target *out = &step->out;
    int32_t images, rows, tiles, some_ins;
    shape f;
    if (out->count < 1)
        return;
    f.step = step;
    f.share = share;
    f.stage = 0;
    f.pixels = POINTS + 1 - layer->kernel_w;
    f.ins = layer->in_channels / layer->groups;
    f.outs = layer->out_channels / layer->groups;
    f.sums = least(SUMS, padded(f.outs));
    f.kept = step->workspace;
    f.inputs = f.kept + csdf_winograd_row_kept(layer) / sizeof(float);
    f.reach = csdf_reach_of(step);
    const int32_t across = (out->columns + f.pixels - 1) / f.pixels;
    f.each = step->each ? step->each : out->count;
    divide(&f, across, &images, &rows, &tiles, &some_ins);
    if (tiles < 1)
        return;
    const int32_t rounds = (across + tiles - 1) / tiles, each = (across + rounds - 1) / rounds;
    f.pace = padded(some_ins);
    for (f.image = 0; f.image * f.each < out->count; f.image += f.images) {
        f.images = least(images, out->count / f.each - f.image);
        for (f.row = 0; f.row < f.each; f.row += f.rows) {
            f.rows = least(rows, f.each - f.row);
            for (f.tile = 0; f.tile < across; f.tile += f.tiles) {
                f.tiles = least(each, across - f.tile);
                for (int32_t group = 0; group < layer->groups; group++)
                    compute(&f, group, some_ins);
            }
        }
    }
}

void csdf_winograd_row(const csdf_conv_step *step)
{
    const csdf_conv_share all = {step, CSDF_ALL_STAGES, 0, 1};
    csdf_winograd_row_share(&all);
}

void csdf_winograd_row_of(const void *step) { csdf_winograd_row(step); }
void csdf_winograd_row_share_of(const void *step) { csdf_winograd_row_share(step); }
