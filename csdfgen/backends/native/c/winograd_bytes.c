/* Convolution 3x3 of bytes with fewer products: F(2x2, 3x3) of Lavin and Gray, 2015, in integers.
 *
 * A window of 4x4 pixels is taken to as many points, at each of which the layer is a product of matrices; sums are taken
 * back to 2x2 pixels: of nine products a pixel and channel four remain. The matrix that takes weights to points is twice
 * the usual one, so that all numbers are integers: inputs of a byte grow by 4, weights by 9, both fit into 16 bits, and
 * sums are four times those of the convolution, whose bytes come out to the bit.
 *
 * The workspace, or the stack where that has more, holds [tile][point][channel] of some tiles.
 */
#include "bytes.h"
#include "images.h"
#include "simd_pairs.h"

enum {
    SIDE = 2,   /* pixels of a tile along an axis, */
    ACROSS = 4, /* and its points */
    POINTS = ACROSS * ACROSS,
    MIDDLE = ACROSS + 1, /* the point that counts once in each of the four pixels */
    ROOM = 8192          /* values of tiles on the stack */
};

/* Computes sixteen outputs of a few tiles at a point: to[tile][16] = from[16] + sums of `steps` times two products. x: points
 * of a tile, the next one's `pitch` further. weights: [steps][16][2]. outs: that exist. */
typedef void csdf_pairs(const int16_t *x, ptrdiff_t pitch, const int16_t *weights, ptrdiff_t steps, const int32_t *from,
    ptrdiff_t apart, int32_t *to, int32_t outs);

#include "pairs.h"

/* Tiles of a slab. across, image: of a row of them, and of an image; each: output rows of an image; pace: values of a
 * point. */
typedef struct shape {
    const csdf_byte_conv_step *step;
    int32_t across, image, each, pace;
    uint8_t flip;
    int16_t *values;
} shape;

/* Channels of four pixels of a row or column to four points. */
#define TO_POINTS(STORE, d0, d1, d2, d3) \
    { \
        STORE(0, CSDF_SHORT(d0 - d2)) \
        STORE(1, CSDF_SHORT(d1 + d2)) \
        STORE(2, CSDF_SHORT(d2 - d1)) \
        STORE(3, CSDF_SHORT(d1 - d3)) \
    }

/* Some channels of the pixels of a window, NULL those of padding, to points, from one to the next `pace` apart. */
CSDF_INLINE void window(const uint8_t *const *seen, int32_t inside, int32_t c, csdf_h padding, uint8_t flip, int16_t *to,
    int32_t pace)
{
    csdf_h t[ACROSS][ACROSS];
#define AT(r) (inside || seen[r * ACROSS + q] ? csdf_load_h(seen[r * ACROSS + q] + c, flip) : padding)
    for (int32_t q = 0; q < ACROSS; q++) {
        const csdf_h d0 = AT(0), d1 = AT(1), d2 = AT(2), d3 = AT(3);
#define KEEP(k, x) t[k][q] = (x);
        TO_POINTS(KEEP, d0, d1, d2, d3)
#undef KEEP
    }
#undef AT
    for (int32_t r = 0; r < ACROSS; r++, to += ACROSS * pace) {
#define GIVE(k, x) csdf_store_h(to + (k) * pace, (x));
        TO_POINTS(GIVE, t[r][0], t[r][1], t[r][2], t[r][3])
#undef GIVE
    }
}

/* Channels of a piece in one tile, to its points. */
static void take(const shape *f, const csdf_byte_source *piece, int32_t tile, int16_t *to)
{
    const csdf_byte_conv_step *step = f->step;
    const int32_t image = tile / f->image, y = tile % f->image / f->across * SIDE, n = piece->channels;
    const int32_t in = step->out.column + tile % f->across * SIDE - step->layer->pad_left;
    const uint8_t *const *rows = piece->rows + (ptrdiff_t)image * step->apart;
    const csdf_h padding = csdf_splat_h((int16_t)step->layer->padding);
    const uint8_t *seen[POINTS] = {NULL};
    int32_t inside = 1, c = 0;
    for (int32_t r = 0; r < ACROSS; r++) {
        const uint8_t *row = y + r < f->each + ACROSS - SIDE ? rows[y + r] : NULL;
        for (int32_t q = 0; q < ACROSS; q++) {
            const int32_t here = row && in + q >= 0 && in + q < step->width;
            seen[r * ACROSS + q] = here ? row + (ptrdiff_t)(in + q) * piece->stride : NULL;
            inside = inside && here;
        }
    }
    if (inside)
        for (; c + CSDF_SHORTS <= n; c += CSDF_SHORTS)
            window(seen, 1, c, padding, f->flip, to + c, f->pace);
    else
        for (; c + CSDF_SHORTS <= n; c += CSDF_SHORTS)
            window(seen, 0, c, padding, f->flip, to + c, f->pace);
    if (c < n) {
        /* the last ones, where there are as many */
        uint8_t some[POINTS][CSDF_SHORTS] = {{0}};
        int16_t points[POINTS * CSDF_SHORTS];
        const uint8_t *copied[POINTS];
        for (int32_t p = 0; p < POINTS; p++) {
            copied[p] = seen[p] ? some[p] : NULL;
            if (seen[p])
                memcpy(some[p], seen[p] + c, (size_t)(n - c));
        }
        window(copied, 0, 0, padding, f->flip, points, CSDF_SHORTS);
        for (int32_t p = 0; p < POINTS; p++)
            memcpy(to + p * f->pace + c, points + p * CSDF_SHORTS, (size_t)(n - c) * sizeof *points);
    }
}

/* Tiles from `begin` on, to points. */
static void take_all(const shape *f, int32_t begin, int32_t tiles)
{
    const csdf_byte_conv_step *step = f->step;
    const int32_t ins = step->layer->in_channels;
    const ptrdiff_t pitch = (ptrdiff_t)POINTS * f->pace;
    int32_t start = 0;
    for (int32_t i = 0; i < step->piece_count; start += step->pieces[i++].channels)
        for (int32_t k = 0; k < tiles; k++)
            take(f, step->pieces + i, begin + k, f->values + k * pitch + start);
    if (ins < f->pace)
        for (ptrdiff_t k = 0; k < (ptrdiff_t)tiles * POINTS; k++)
            f->values[k * f->pace + ins] = 0;
}

/* Sixteen outputs of a tile's sums, [point][apart], to pixels: y, [row][column][16]. */
CSDF_INLINE void back(const int32_t *from, ptrdiff_t apart, int32_t y[SIDE][SIDE][CSDF_PANEL])
{
    CSDF_EACH(v)
    {
        csdf_i t[SIDE][ACROSS];
        for (int32_t q = 0; q < ACROSS; q++) {
            const int32_t *at = from + q * apart + v * CSDF_LANES;
            const csdf_i m0 = csdf_load_i(at), m1 = csdf_load_i(at + ACROSS * apart);
            const csdf_i m2 = csdf_load_i(at + 2 * ACROSS * apart), m3 = csdf_load_i(at + 3 * ACROSS * apart);
            t[0][q] = m0 + m1 + m2;
            t[1][q] = m1 - m2 - m3;
        }
        for (int32_t r = 0; r < SIDE; r++) {
            csdf_store_i(&y[r][0][v * CSDF_LANES], (t[r][0] + t[r][1] + t[r][2]) >> 2);
            csdf_store_i(&y[r][1][v * CSDF_LANES], (t[r][1] - t[r][2] - t[r][3]) >> 2);
        }
    }
}

/* Tiles from `begin` on, whose points are `values`, as bytes: n outputs from a channel on, the first of a panel. */
static void multiply(const shape *f, int32_t channel, int32_t n, int32_t begin, int32_t tiles)
{
    static const int32_t zeros[CSDF_PANEL];
    const csdf_byte_conv_step *step = f->step;
    const csdf_byte_target *out = &step->out;
    const ptrdiff_t pitch = (ptrdiff_t)POINTS * f->pace;
    const int16_t *weights = (const int16_t *)(const void *)step->layer->weights + channel * pitch;
    int32_t sums[POINTS][CSDF_PAIR_PIXELS * CSDF_PANEL], y[SIDE][SIDE][CSDF_PANEL];
    for (int32_t first = 0, some; first < tiles; first += some) {
        const int32_t blocks = (tiles - first + CSDF_PAIR_PIXELS - 1) / CSDF_PAIR_PIXELS;
        some = (tiles - first + blocks - 1) / blocks;
        for (int32_t p = 0; p < POINTS; p++)
            pairs[some - 1](f->values + first * pitch + p * f->pace, pitch, weights + (ptrdiff_t)p * f->pace * CSDF_PANEL,
                f->pace / 2, p == MIDDLE ? step->layer->bias + channel : zeros, 0, sums[p], n);
        for (int32_t k = 0; k < some; k++) {
            const int32_t tile = begin + first + k, x = tile % f->across * SIDE, row = tile % f->image / f->across * SIDE;
            const int32_t high = least(SIDE, f->each - row), wide = least(SIDE, out->columns - x);
            back(sums[0] + k * CSDF_PANEL, CSDF_PAIR_PIXELS * CSDF_PANEL, y);
            for (int32_t r = 0; r < high; r++) {
                uint8_t *line = out->rows[tile / f->image * f->each + row + r];
                CSDF_RESCALED(1, &step->layer->into)(&step->layer->into, channel, n, y[r][0], wide,
                    line + (ptrdiff_t)(out->column + x) * out->stride + channel, out->stride);
            }
        }
    }
}

void csdf_byte_winograd(const csdf_byte_conv_step *step)
{
    const csdf_byte_target *out = &step->out;
    const int32_t end = out->channel + out->channels, ins = step->layer->in_channels;
    int16_t room[ROOM];
    size_t size = sizeof room;
    shape f;
    f.step = step;
    f.across = (out->columns + SIDE - 1) / SIDE;
    f.each = step->each ? step->each : out->count;
    f.image = (f.each + SIDE - 1) / SIDE * f.across;
    f.pace = ins + ins % 2;
    f.flip = (uint8_t)step->layer->flip;
    f.values = room;
    if (step->workspace_bytes > size) {
        f.values = step->workspace;
        size = step->workspace_bytes;
    }
    const int32_t all = f.each ? out->count / f.each * f.image : 0;
    const int32_t limit = least(all, (int32_t)(size / ((size_t)POINTS * (size_t)f.pace * sizeof *room)));
    if (limit < 1)
        return;
    const int32_t rounds = (all + limit - 1) / limit, each = (all + rounds - 1) / rounds;
    for (int32_t begin = 0; begin < all; begin += each) {
        const int32_t tiles = least(each, all - begin);
        take_all(&f, begin, tiles);
        for (int32_t channel = out->channel; channel < end; channel += CSDF_PANEL)
            multiply(&f, channel, least(CSDF_PANEL, end - channel), begin, tiles);
    }
}

void csdf_byte_winograd_of(const void *step) { csdf_byte_winograd(step); }
