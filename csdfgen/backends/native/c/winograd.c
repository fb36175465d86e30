/* Convolution 3x3 with fewer products: F(2x4, 3x3) and F(4x4, 3x3) of Lavin and Gray, 2015.
 *
 * A window of (tile + 2) x 6 pixels is taken to as many points, at each of which the layer is a product
 * of matrices; sums are taken back to tile x 4 pixels. Of nine products a pixel and channel 3 or 2.25
 * remain, but weights grow to 24 or 36: worth it where a slab has many tiles.
 * The workspace holds [point][tile][channel] of some input channels, then [point][tile][channel] of
 * sums. Of few bytes it makes many tiles of few input channels, so that weights are read few times: what
 * some of them add up to is added to the output.
 */
#define CSDF_BY_VALUE /* see simd.h */
#include "points.h"

enum {
    WIDE = 4,        /* pixels of a tile along the row, */
    ACROSS = POINTS, /* and its points */
    TILES = 128      /* at a time */
};

typedef struct shape {
    const csdf_conv_step *step;
    const csdf_conv_share *share;
    int32_t tile, down;      /* rows of a tile, and its points */
    int32_t across, image;   /* tiles of a row of them, and of an image */
    int32_t each;            /* output rows of an image */
    csdf_reach reach;
    int32_t first, some;     /* input channels, now; `pace` floats for each tile */
    int32_t pace, sums;
    int32_t begin, tiles;    /* tiles, now */
    float *inputs, *products, *kept;
} shape;

size_t csdf_winograd_bytes(const csdf_layer *layer, int32_t tile, int32_t tiles, int32_t channels)
{
    const int32_t values = padded(channels) + least(SUMS, padded(layer->out_channels));
    return (size_t)((tile + 2) * ACROSS) * (size_t)tiles * (size_t)values * sizeof(float);
}

#define TO_FOUR(STORE, d0, d1, d2, d3) \
    { \
        STORE(0, d0 - d2) \
        STORE(1, d1 + d2) \
        STORE(2, d2 - d1) \
        STORE(3, d1 - d3) \
    }

/* Six points to four pixels, four to two. */
#define FROM_SIX(STORE, m0, m1, m2, m3, m4, m5) \
    { \
        const csdf_v even = m1 + m2, odd = m1 - m2, far = m3 + m4, skew = m3 - m4; \
        STORE(0, m0 + even + far) \
        STORE(1, odd + two * skew) \
        STORE(2, even + four * far) \
        STORE(3, odd + eight * skew + m5) \
    }

#define FROM_FOUR(STORE, m0, m1, m2, m3) \
    { \
        STORE(0, m0 + m1 + m2) \
        STORE(1, m1 - m2 - m3) \
    }

/* n channels from c on of a window, of which seen are the pixels, [row][column], NULL those of padding,
 * to points. */
CSDF_INLINE void window(const float *const *seen, int32_t down, int32_t inside, int32_t c, int32_t n,
    float *to, ptrdiff_t plane)
{
    const csdf_v two = csdf_splat(2.0f), four = csdf_splat(4.0f), five = csdf_splat(5.0f);
    csdf_v t[6][ACROSS];
    for (int32_t r = 0; r < down; r++) {
        const float *const *p = seen + r * ACROSS;
#define KEEP(k, x) t[r][k] = (x);
        if (inside) {
            const csdf_v d0 = csdf_load(p[0] + c), d1 = csdf_load(p[1] + c), d2 = csdf_load(p[2] + c);
            const csdf_v d3 = csdf_load(p[3] + c), d4 = csdf_load(p[4] + c), d5 = csdf_load(p[5] + c);
            TO_SIX(KEEP, d0, d1, d2, d3, d4, d5)
        } else {
            const csdf_v d0 = some(p[0], c, n), d1 = some(p[1], c, n), d2 = some(p[2], c, n);
            const csdf_v d3 = some(p[3], c, n), d4 = some(p[4], c, n), d5 = some(p[5], c, n);
            TO_SIX(KEEP, d0, d1, d2, d3, d4, d5)
        }
#undef KEEP
    }
    for (int32_t q = 0; q < ACROSS; q++, to += plane) {
#define GIVE(k, x) \
    if (n == CSDF_LANES) \
        csdf_store(to + (k) * ACROSS * plane, (x)); \
    else \
        csdf_store_some(to + (k) * ACROSS * plane, (x), n);
        if (down == 6)
            TO_SIX(GIVE, t[0][q], t[1][q], t[2][q], t[3][q], t[4][q], t[5][q])
        else
            TO_FOUR(GIVE, t[0][q], t[1][q], t[2][q], t[3][q])
#undef GIVE
    }
}

/* Rows of a tile: the first one in its image, and how many there are from the first of all images on. */
static int32_t top_of(const shape *f, int32_t tile) { return tile % f->image / f->across * f->tile; }
static int32_t before(const shape *f, int32_t tile) { return tile / f->image * f->each; }

/* Channels [first, first + count) of a piece in one tile, to its points. */
static void take(const shape *f, const csdf_source *piece, int32_t tile, int32_t first, int32_t count, float *to)
{
    const ptrdiff_t plane = (ptrdiff_t)f->tiles * f->pace;
    const int32_t whole = count / CSDF_LANES * CSDF_LANES, y = top_of(f, tile);
    const int32_t in = f->step->out.column + tile % f->across * WIDE - f->step->layer->pad_left;
    const float *const *rows = piece->rows + (ptrdiff_t)(tile / f->image) * f->step->apart;
    const float *seen[6 * ACROSS] = {NULL};
    int32_t inside = 1, c = 0;
    for (int32_t r = 0; r < f->down; r++) {
        const float *row = y + r < f->each + 2 ? rows[y + r] : NULL;
        for (int32_t q = 0; q < ACROSS; q++) {
            const int32_t here = row && in + q >= 0 && in + q < f->step->width;
            seen[r * ACROSS + q] = here ? row + (ptrdiff_t)(in + q) * piece->stride + first : NULL;
            inside = inside && here;
        }
    }
    if (inside && f->down == 6)
        for (; c < whole; c += CSDF_LANES)
            window(seen, 6, 1, c, CSDF_LANES, to + c, plane);
    else if (inside)
        for (; c < whole; c += CSDF_LANES)
            window(seen, 4, 1, c, CSDF_LANES, to + c, plane);
    for (; c < count; c += CSDF_LANES)
        window(seen, f->down, 0, c, least(CSDF_LANES, count - c), to + c, plane);
}

/* A part of the tiles to points, some input channels. */
static void take_all(const shape *f)
{
    const csdf_conv_step *step = f->step;
    const int32_t low = f->first, high = low + f->some;
    const csdf_some own = csdf_some_of(f->share, f->tiles);
    int32_t start = 0;
    for (int32_t i = 0; i < step->piece_count; start += step->pieces[i++].channels) {
        const csdf_source *piece = step->pieces + i;
        const int32_t from = most(low, start), end = least(high, start + piece->channels);
        float *to = f->inputs + (ptrdiff_t)own.begin * f->pace + (from - low);
        for (int32_t k = own.begin; from < end && k < own.end; k++, to += f->pace)
            take(f, piece, f->begin + k, from - start, end - from, to);
    }
}

/* At a point sums over `inputs` input channels, the first of those that are there now or, from `at` on, added to the sums before;
 * `panels` panels of weights from `left` on of a block. */
static void multiply_at(const shape *f, int32_t p, int32_t at, int32_t inputs, const float *weights, ptrdiff_t panel, int32_t left,
    int32_t channels)
{
    const float *table[TILES];
    float *out[TILES];
    for (int32_t k = 0; k < f->tiles; k++) {
        table[k] = f->inputs + ((ptrdiff_t)p * f->tiles + k) * f->pace + at;
        out[k] = f->products + ((ptrdiff_t)p * f->tiles + k) * f->sums;
    }
    const csdf_pass pass = {
        table, f->tiles, 1, 1, &inputs, weights, panel, 0, 0, CSDF_WHOLE, left * CSDF_PANEL,
        (channels + CSDF_LANES - 1) / CSDF_LANES * CSDF_LANES - left * CSDF_PANEL, 0, NULL,
        at ? (const float *const *)out : NULL, out, {CSDF_NONE, 0.0f, 0.0f}, 0, NULL, 0,
    };
    csdf_products(&pass);
}

/* The same at every point: output channels [channel, channel + channels), all in one block of SUMS; a part of the panels at the
 * points or, where weights are not there yet, of the points. */
static void multiply(const shape *f, int32_t channel, int32_t channels)
{
    const csdf_layer *layer = f->step->layer;
    const int32_t panels = padded(layer->out_channels) / CSDF_PANEL, block = channel / SUMS;
    const int32_t many = least(SUMS / CSDF_PANEL, panels - block * (SUMS / CSDF_PANEL));
    const int32_t points = f->down * ACROSS, in_block = channel / CSDF_PANEL - block * (SUMS / CSDF_PANEL);
    const ptrdiff_t panel = (ptrdiff_t)layer->in_channels * CSDF_PANEL;
    const int32_t wide = padded(channels) / CSDF_PANEL;
    if (layer->at_points) {
        const float *weights = layer->weights + (ptrdiff_t)block * (SUMS / CSDF_PANEL) * points * panel
            + in_block * panel + (ptrdiff_t)f->first * CSDF_PANEL;
        const csdf_some own = csdf_some_of(f->share, points * wide);
        for (int32_t p = own.begin / wide; p * wide < own.end; p++) {
            const int32_t left = most(0, own.begin - p * wide), right = least(wide, own.end - p * wide);
            multiply_at(f, p, 0, f->some, weights + (ptrdiff_t)(p * many + left) * panel, panel, left,
                least(channels, right * CSDF_PANEL));
        }
        return;
    }
    const csdf_some own = csdf_some_of(f->share, points);
    for (int32_t at = 0; own.begin < own.end && at < f->some; at += KEPT) {
        const int32_t inputs = least(KEPT, f->some - at);
        const ptrdiff_t each = KEPT * CSDF_PANEL, plane = kept(layer, 1); /* places of parts never change: they run apart */
        for (int32_t k = 0; k < wide; k++) {
            const int32_t low = channel + k * CSDF_PANEL;
            take_weights(layer, layer->weights + (ptrdiff_t)low * 9 * layer->in_channels, layer->out_channels - low, f->first + at,
                f->down, inputs, own, f->kept + k * each, plane);
        }
        for (int32_t p = own.begin; p < own.end; p++)
            multiply_at(f, p, at, inputs, f->kept + p * plane, each, 0, channels);
    }
}

/* n channels of a tile's sums to pixels: y, [row][WIDE]. */
CSDF_INLINE void back(const float *from, ptrdiff_t plane, int32_t down, csdf_v y[4][WIDE])
{
    const csdf_v two = csdf_splat(2.0f), four = csdf_splat(4.0f), eight = csdf_splat(8.0f);
    csdf_v t[4][ACROSS];
    for (int32_t q = 0; q < ACROSS; q++) {
        const float *at = from + q * plane;
        const ptrdiff_t row = ACROSS * plane;
        const csdf_v m0 = csdf_load(at), m1 = csdf_load(at + row), m2 = csdf_load(at + 2 * row);
        const csdf_v m3 = csdf_load(at + 3 * row);
#define KEEP(k, x) t[k][q] = (x);
        if (down == 6) {
            const csdf_v m4 = csdf_load(at + 4 * row), m5 = csdf_load(at + 5 * row);
            FROM_SIX(KEEP, m0, m1, m2, m3, m4, m5)
        } else {
            FROM_FOUR(KEEP, m0, m1, m2, m3)
        }
#undef KEEP
    }
    for (int32_t r = 0; r < down - 2; r++) {
#define KEEP(k, x) y[r][k] = (x);
        FROM_SIX(KEEP, t[r][0], t[r][1], t[r][2], t[r][3], t[r][4], t[r][5])
#undef KEEP
    }
}

/* Sums of these output channels to pixels, of a part of the tiles. Behind the first input channels they are added to what the
 * output has. */
static void give(const shape *f, int32_t channel, int32_t channels)
{
    const csdf_conv_step *step = f->step;
    const csdf_target *out = &step->out;
    const int32_t begins = f->first == f->reach.low;
    const csdf_source sums = {(const float *const *)out->rows, out->stride, 0};
    const csdf_source *added = begins ? step->residual : &sums;
    const ptrdiff_t plane = (ptrdiff_t)f->tiles * f->sums;
    csdf_activation by = step->layer->activation;
    if (f->first + f->some < f->reach.high)
        by.kind = CSDF_NONE;
    const csdf_some own = csdf_some_of(f->share, f->tiles);
    for (int32_t k = own.begin; k < own.end; k++) {
        const int32_t tile = f->begin + k, x = tile % f->across * WIDE, in = top_of(f, tile);
        const int32_t high = least(f->tile, f->each - in), top = before(f, tile) + in, wide = least(WIDE, out->columns - x);
        const float *from = f->products + (ptrdiff_t)k * f->sums;
        for (int32_t c = 0; c < channels; c += CSDF_LANES) {
            const int32_t n = least(CSDF_LANES, channels - c);
            const csdf_v bias = begins ? csdf_load(step->layer->bias + channel + c) : csdf_splat(0.0f);
            csdf_v y[4][WIDE];
            if (f->down == 6)
                back(from + c, plane, 6, y);
            else
                back(from + c, plane, 4, y);
            for (int32_t r = 0; r < high; r++) {
                float *to = out->rows[top + r] + (ptrdiff_t)(out->column + x) * out->stride + channel + c;
                const ptrdiff_t pace = added ? added->stride : 0;
                const float *add =
                    added ? added->rows[top + r] + (out->column + x) * pace + channel + c : NULL;
                for (int32_t q = 0; q < wide; q++, to += out->stride) {
                    csdf_v sum = y[r][q] + bias;
                    if (add)
                        sum += some(add + q * pace, 0, n);
                    sum = csdf_activated(sum, &by);
                    if (n == CSDF_LANES)
                        csdf_store(to, sum);
                    else
                        csdf_store_some(to, sum, n);
                }
            }
        }
    }
}

size_t csdf_winograd_kept(const csdf_layer *layer, int32_t tile)
{
    return sizeof(float) * (size_t)((tile + 2) * ACROSS * kept(layer, 1));
}

/* Tiles and input channels at a time: as many tiles as there are, or fit in with few channels. */
static int32_t divide(const csdf_conv_step *step, int32_t all, int32_t *channels)
{
    const csdf_layer *layer = step->layer;
    const int32_t ins = layer->in_channels, limit = least(all, TILES);
    const size_t taken = csdf_winograd_kept(layer, step->tile), bytes = step->workspace_bytes;
    for (int32_t parts = 1;; parts++) {
        *channels = least(ins, step->some ? step->some : padded((ins + parts - 1) / parts));
        const size_t room = bytes < taken ? 0 : (bytes - taken) / csdf_winograd_bytes(layer, step->tile, 1, *channels);
        if (room >= (size_t)limit || *channels <= LEAST_INS || step->some)
            return room < (size_t)limit ? (int32_t)room : limit;
    }
}

void csdf_winograd_share(const csdf_conv_share *share)
{
    const csdf_conv_step *step = share->step;
    const csdf_layer *layer = step->layer;
    const csdf_target *out = &step->out;
    const int32_t end = out->channel + out->channels;
    int32_t some_ins, stage = 0;
    shape f;
    f.step = step;
    f.share = share;
    f.tile = step->tile;
    f.down = step->tile + 2;
    f.across = (out->columns + WIDE - 1) / WIDE;
    f.sums = least(SUMS, padded(layer->out_channels));
    f.kept = step->workspace;
    f.inputs = f.kept + csdf_winograd_kept(layer, f.tile) / sizeof(float);
    f.reach = csdf_reach_of(step);
    f.each = step->each ? step->each : out->count;
    f.image = (f.each + f.tile - 1) / f.tile * f.across;
    const int32_t all = f.each ? out->count / f.each * f.image : 0;
    const int32_t limit = divide(step, all, &some_ins);
    if (limit < 1)
        return;
    const int32_t rounds = (all + limit - 1) / limit, each = (all + rounds - 1) / rounds;
    f.pace = padded(some_ins);
    for (f.begin = 0; f.begin < all; f.begin += each) {
        f.tiles = least(each, all - f.begin);
        f.products = f.inputs + (ptrdiff_t)f.down * ACROSS * f.tiles * f.pace;
        for (f.first = f.reach.low; f.first < f.reach.high; f.first += f.some) {
            f.some = least(some_ins, f.reach.high - f.first);
            if (csdf_is_due(share, &stage))
                take_all(&f);
            for (int32_t channel = out->channel, next; channel < end; channel = next) {
                next = least(end, (channel / SUMS + 1) * SUMS);
                if (csdf_is_due(share, &stage))
                    multiply(&f, channel, next - channel);
                if (csdf_is_due(share, &stage))
                    give(&f, channel, next - channel);
            }
        }
    }
}

void csdf_winograd(const csdf_conv_step *step)
{
    const csdf_conv_share all = {step, CSDF_ALL_STAGES, 0, 1};
    csdf_winograd_share(&all);
}

void csdf_winograd_of(const void *step) { csdf_winograd(step); }
void csdf_winograd_share_of(const void *step) { csdf_winograd_share(step); }
