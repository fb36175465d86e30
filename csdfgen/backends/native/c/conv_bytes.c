/* Convolution of bytes: what a few pixels see is gathered, in the form that the processor multiplies, and
 * met by panel after panel of weights.
 *
 * Gathering takes little beside the products: a pixel's terms are read once for sixteen outputs, or for
 * all of them where there is room. It lifts all differences between layers, so that there is one inner
 * loop: padding, pieces, dilation, few channels.
 */
#include "bytes.h"
#include "images.h"

enum {
    ROOM = 4608 / (int)sizeof(csdf_e), /* values that are gathered at a time, without a workspace */
    PANELS = 4,                        /* that meet them where there is no room for all terms */
    BLOCKS = CSDF_PIXELS > 6 ? 2 : 4   /* of pixels, whose sums become bytes together */
};

/* Computes sixteen outputs of a few pixels: to[pixel][16] = from[pixel * apart / 16][16] + sums of `steps` times four
 * products. x: gathered values of a pixel, the next one's `pitch` further. weights: [steps][16][4]. outs: that exist. */
typedef void csdf_dots(const csdf_x *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps, const int32_t *from,
    ptrdiff_t apart, int32_t *to, int32_t outs);

#ifdef CSDF_HELIUM
CSDF_HELIUM_DOTS(1)
CSDF_HELIUM_DOTS(2)
CSDF_HELIUM_DOTS(3)
static csdf_dots *const dots[] = {dots_1, dots_2, dots_3};
#elif defined(CSDF_DOT_DSP)
CSDF_DSP_DOTS(1)
CSDF_DSP_DOTS(2)
static csdf_dots *const dots[] = {dots_1, dots_2};
#else
#include "dots.h"
#endif

/* A group of a step: its first input channel, and how many; terms of a sum, in steps of four. */
typedef struct group {
    const csdf_byte_conv_step *step;
    int32_t first, ins;
    int32_t dense; /* the taps of a kernel row may be one run of bytes */
    uint8_t flip;
    csdf_e padding;
    int32_t zero; /* of inputs whose zero point is computed, signed */
    ptrdiff_t steps;
    csdf_e *room;
    int32_t size;  /* values that there is room for */
    int32_t loose; /* bytes behind a pixel's last are those of the next pixel, or meet weights of zero */
} group;

enum { SLACK = 64 }; /* bytes behind the room that may be written then */

/* Taps [tap, tap + taps), and of these channels [channel, channel + channels), all of them if there are several
 * taps. pitch: values from a pixel to the next. */
typedef struct part {
    int32_t tap, taps, channel, channels;
    ptrdiff_t pitch;
} part;

/* The row of the tables that the first tap of an output row meets. */
static int32_t first_row(const csdf_byte_conv_step *step, int32_t row)
{
    return csdf_first_row(row, step->layer->stride_h, step->each, step->apart);
}

/* What is called at several places, and on boards is there once. */
#if defined(CSDF_HELIUM) || defined(CSDF_DOT_DSP)
#define ONCE static __attribute__((noinline))
#else
#define ONCE CSDF_INLINE
#endif

ONCE void pad(csdf_e *to, ptrdiff_t n, csdf_e value)
{
    for (ptrdiff_t i = 0; i < n; i++)
        to[i] = value;
}

ONCE void values_of(csdf_e *to, const uint8_t *from, ptrdiff_t n, uint8_t flip) { csdf_values(to, from, n, flip); }

/* The channels of a part that one tap sees of a piece: from `at`, the pixel's first; NULL is padding. */
static void tap(const group *g, const part *p, const csdf_byte_source *piece, int32_t start, const uint8_t *at, csdf_e *to)
{
    const int32_t channel = g->first + p->channel, end = channel + p->channels;
    const int32_t low = most(channel, start), high = least(end, start + piece->channels);
    if (low >= high)
        return;
    if (at)
        values_of(to + (low - channel), at + (low - start), high - low, g->flip);
    else
        pad(to + (low - channel), high - low, g->padding);
}

#ifdef CSDF_WIDE

enum { LINES = 16, RUN = 32 };

/* As `windows`, of runs of up to 32 bytes, which are copied as 32: pixel by pixel, so that each overwrites what the one
 * before has written too much. How many pixels these are: those whose bytes are in the lines with all 32. */
static int32_t loosely(const group *g, const csdf_byte_source *piece, int32_t row, int32_t column, int32_t count,
    ptrdiff_t pitch, csdf_e *to)
{
    const csdf_byte_layer *layer = g->step->layer;
    const ptrdiff_t n = (ptrdiff_t)layer->kernel_w * layer->pace, step = (ptrdiff_t)layer->stride_w * piece->stride;
    const ptrdiff_t from = (column * layer->stride_w - layer->pad_left) * (ptrdiff_t)piece->stride;
    const ptrdiff_t room = (ptrdiff_t)g->step->width * piece->stride - RUN - from;
    const int32_t above = first_row(g->step, row), high = layer->kernel_h;
    uint8_t padding[RUN];
    const uint8_t *lines[LINES];
    ptrdiff_t steps[LINES];
    if (!g->loose || n > RUN || high > LINES || room < 0)
        return 0;
    count = least(count, (int32_t)(room / step) + 1);
    memset(padding, g->padding ^ g->flip, sizeof padding);
    for (int32_t y = 0; y < high; y++) {
        const uint8_t *line = piece->rows[above + y * layer->dilation_h];
        lines[y] = line ? line + from : padding;
        steps[y] = line ? step : 0;
    }
    for (int32_t k = 0; k < count; k++, to += pitch)
        for (int32_t y = 0; y < high; y++)
            csdf_flip_run((uint8_t *)to + y * n, lines[y] + k * steps[y], g->flip);
    return count;
}

#endif

/* What `count` pixels of an output row from a column on see, none of which meets padding at the left or the right:
 * a run of bytes a tap row. */
static void windows(const group *g, const csdf_byte_source *piece, int32_t row, int32_t column, int32_t count,
    ptrdiff_t pitch, csdf_e *to)
{
    const csdf_byte_layer *layer = g->step->layer;
    const ptrdiff_t n = (ptrdiff_t)layer->kernel_w * layer->pace, step = (ptrdiff_t)layer->stride_w * piece->stride;
    const ptrdiff_t from = (column * layer->stride_w - layer->pad_left) * (ptrdiff_t)piece->stride;
    const uint8_t flip = g->flip;
    const int32_t above = first_row(g->step, row);
#ifdef CSDF_WIDE
    const int32_t done = loosely(g, piece, row, column, count, pitch, to);
    if (done) {
        if (done < count)
            windows(g, piece, row, column + done, count - done, pitch, to + done * pitch);
        return;
    }
#endif
    for (int32_t y = 0; y < layer->kernel_h; y++, to += n) {
        const uint8_t *at = piece->rows[above + y * layer->dilation_h];
        if (at)
            at += from;
        for (int32_t k = 0; k < count; k++)
            if (at)
                values_of(to + k * pitch, at + k * step, n, flip);
            else
                pad(to + k * pitch, n, g->padding);
    }
}

/* How many pixels of an output row from a column on `windows` takes. */
static int32_t inside(const group *g, int32_t column, int32_t count)
{
    const csdf_byte_layer *layer = g->step->layer;
    const int32_t in = column * layer->stride_w - layer->pad_left, room = g->step->width - layer->kernel_w - in;
    return in < 0 || room < 0 ? 0 : least(count, room / layer->stride_w + 1);
}

/* What pixels [first, first + count) of the slab see. */
static void gather(const group *g, const part *p, int32_t first, int32_t count, csdf_e *to)
{
    const csdf_byte_conv_step *step = g->step;
    const csdf_byte_layer *layer = step->layer;
    const int32_t columns = step->out.columns, last = p->tap + p->taps;
    const int32_t pace = layer->pace, wide = layer->kernel_w, dense = g->dense && p->channels == g->ins;
    const int32_t above = p->tap / wide, before = p->tap % wide;
    const int32_t lines = dense && layer->kernel_h * wide * layer->stride_w == 1 && !layer->pad_left && p->pitch == pace;
    const int32_t whole = dense && !lines && last == layer->kernel_h * wide && !p->tap;
    int32_t start = 0;
    for (int32_t i = 0; i < step->piece_count; start += step->pieces[i++].channels) {
        const csdf_byte_source *piece = step->pieces + i;
        const ptrdiff_t stride = piece->stride;
        if (start >= g->first + g->ins || start + piece->channels <= g->first)
            continue;
        int32_t row = first / columns, column = first % columns;
        csdf_e *values = to;
        for (int32_t k = 0; k < count; k++, values += p->pitch) {
            if (whole) {
                const int32_t at = step->out.column + column, some = inside(g, at, least(count - k, columns - column));
                if (some) {
                    windows(g, piece, row, at, some, p->pitch, values);
                    values += (some - 1) * p->pitch;
                    k += some - 1;
                    column += some;
                    if (column == columns) {
                        column = 0;
                        row++;
                    }
                    continue;
                }
            }
            if (lines) {
                /* pixels that lie one behind the other */
                const uint8_t *line = piece->rows[first_row(step, row)];
                const int32_t some = least(count - k, columns - column), from = step->out.column + column;
                if (line && from + some <= step->width) {
                    values_of(values, line + from * stride, some * p->pitch, g->flip);
                    values += (some - 1) * p->pitch;
                    k += some - 1;
                    column = 0;
                    row++;
                    continue;
                }
            }
            const int32_t top = first_row(step, row);
            int32_t y = above, x = before;
            const int32_t left = (step->out.column + column) * layer->stride_w - layer->pad_left;
            csdf_e *at = values;
            for (int32_t t = p->tap; t < last; y++, x = 0) {
                const uint8_t *line = piece->rows[top + y * layer->dilation_h];
                const int32_t some = least(wide - x, last - t), from = left + x * layer->dilation_w;
                if (dense) {
                    const int32_t low = line ? most(0, least(some, -from)) : some;
                    const int32_t high = most(low, least(some, step->width - from));
                    pad(at, (ptrdiff_t)low * pace, g->padding);
                    if (low < high)
                        values_of(at + low * pace, line + (from + low) * stride, (ptrdiff_t)(high - low) * pace, g->flip);
                    pad(at + high * pace, (ptrdiff_t)(some - high) * pace, g->padding);
                    at += some * pace;
                } else {
                    for (int32_t in = from, n = 0; n < some; n++, in += layer->dilation_w, at += pace)
                        tap(g, p, piece, start, line && in >= 0 && in < step->width ? line + in * stride : NULL, at);
                }
                t += some;
            }
            if (++column == columns) {
                column = 0;
                row++;
            }
        }
    }
}

/* Zeros behind the channels of taps, and behind the last: weights are zeros there. */
static void fill(const group *g, const part *p, int32_t count, csdf_e *to)
{
    const int32_t pace = g->step->layer->pace, own = p->taps > 1 ? g->ins : p->channels;
    const int32_t each = p->taps > 1 ? pace : own, behind = (int32_t)p->pitch - (p->taps - 1) * each;
    if (own == each && own == behind)
        return;
    for (int32_t k = 0; k < count; k++, to += p->pitch) {
        for (int32_t t = 0; t + 1 < p->taps && own < each; t++)
            pad(to + t * each + own, each - own, 0);
        pad(to + (p->taps - 1) * each + own, behind - own, 0);
    }
}

/* The terms of some pixels. bytes: as they were gathered. */
typedef struct terms {
    const csdf_x *x;
    const csdf_e *bytes;
} terms;

static terms take(const group *g, const part *p, int32_t first, int32_t count)
{
    csdf_e *bytes = g->room + (CSDF_ROOMY - 1) * count * p->pitch;
    const terms found = {(const csdf_x *)(void *)g->room, bytes};
    gather(g, p, first, count, bytes);
    fill(g, p, count, bytes);
#ifdef CSDF_DOT_DSP
    for (int32_t k = 0; k < count; k += CSDF_PIXELS) {
        int16_t *to = (int16_t *)(void *)g->room + k * p->pitch;
        if (k + 1 < count)
            csdf_to_pairs(1, to, bytes + k * p->pitch, p->pitch);
        else
            csdf_to_pairs(0, to, bytes + k * p->pitch, p->pitch);
    }
#endif
    return found;
}

/* Zero points of weights: the sum of a pixel's values times these is taken away. */
static void centre(const int32_t *zeros, const csdf_e *x, const part *p, int32_t pixels, int32_t *sums)
{
    for (int32_t k = 0; k < pixels; k++, x += p->pitch) {
        int32_t all = 0;
        for (ptrdiff_t i = 0; i < p->pitch; i++)
            all += x[i];
        for (int32_t o = 0; o < CSDF_PANEL; o++)
            sums[k * CSDF_PANEL + o] -= zeros[o] * all;
    }
}

/* Whether sums become bytes by integers, and whether weights have zero points. */
#define SHIFTS CSDF_MAY(conv_bytes__layer__into__kind, CSDF_SHIFTED)
#define CENTRES CSDF_MAY(conv_bytes__layer__zeros, 1)

/* A zero point of inputs that is computed: what it adds to the sums is taken away. weights: the sums of the outputs'. */
static void less_zero(int32_t zero, const int32_t *weights, int32_t pixels, int32_t *sums)
{
    for (int32_t k = 0; k < pixels; k++, sums += CSDF_PANEL)
        for (int32_t o = 0; o < CSDF_PANEL; o += CSDF_LANES)
            csdf_store_i(sums + o, csdf_load_i(sums + o) - csdf_splat_i(zero) * csdf_load_i(weights + o));
}

/* Sums of n outputs of pixels from `first` on go where the slab has them. panel: their first in all panels. */
static void written(const group *g, ptrdiff_t panel, int32_t channel, int32_t n, int32_t first, int32_t pixels,
    int32_t *sums)
{
    const csdf_byte_target *out = &g->step->out;
    const csdf_rescaling *into = &g->step->layer->into;
    const ptrdiff_t shift = channel * csdf_bytes_of(into);
    /* a division for every panel would take as long as its product with a row of a matrix */
    int32_t row = out->columns == 1 ? first : first / out->columns, column = first - row * out->columns;
    if (CSDF_MAY(conv_bytes__layer__into__kind, CSDF_CENTRED) && into->kind == CSDF_CENTRED)
        less_zero(g->zero, into->shifts + panel, pixels, sums);
    for (int32_t some; pixels > 0; pixels -= some, column = 0, row++) {
        uint8_t *at = out->rows[row] + (ptrdiff_t)(out->column + column) * out->stride + shift;
        some = least(pixels, out->columns - column);
        CSDF_RESCALED(SHIFTS, into)(into, panel, n, sums, some, at, out->stride);
        sums += some * CSDF_PANEL;
    }
}

/* Outputs [low, high) of a group, whose first in all panels is `panel`, its panels' weights behind each other. */
typedef struct outputs {
    int32_t low, high, channel;
    ptrdiff_t panel;
    const int8_t *weights;
    const int32_t *bias, *zeros;
} outputs;

/* All terms of some pixels, then all panels. */
static void at_once(const group *g, const outputs *o, int32_t all)
{
    const csdf_byte_layer *layer = g->step->layer;
    const part p = {0, layer->kernel_h * layer->kernel_w, 0, g->ins, 4 * g->steps};
    const int32_t fits = g->size / (CSDF_ROOMY * (int32_t)p.pitch), some = fits > CSDF_PIXELS ? fits / CSDF_PIXELS * CSDF_PIXELS : fits;
    int32_t sums[BLOCKS * CSDF_PIXELS * CSDF_PANEL];
    for (int32_t first = 0, count; first < all; first += count) {
        count = least(some, all - first);
        const terms t = take(g, &p, first, count);
        for (int32_t low = o->low; low < o->high; low += CSDF_PANEL) {
            const ptrdiff_t panel = o->panel + low;
            const int32_t n = least(CSDF_PANEL, o->high - low);
            const int8_t *weights = o->weights + (ptrdiff_t)low * p.pitch;
            csdf_even even = csdf_evenly(count, CSDF_PIXELS);
            for (int32_t k = 0, begin = 0, pixels; k < count; k += pixels) {
                const ptrdiff_t at = k * p.pitch;
                int32_t *to = sums + (k - begin) * CSDF_PANEL;
                pixels = csdf_next(&even);
                dots[pixels - 1](t.x + at, p.pitch, weights, g->steps, o->bias + panel, 0, to, n);
                if (CENTRES && o->zeros)
                    centre(o->zeros + panel, t.bytes + at, &p, pixels, to);
                if (k + pixels == count || k + pixels - begin > (BLOCKS - 1) * CSDF_PIXELS) {
                    written(g, panel, o->channel + low, n, first + begin, k + pixels - begin, sums);
                    begin = k + pixels;
                }
            }
        }
    }
}

/* The next terms from tap and channel on, as many as there is room for with so many pixels. */
static part next(const group *g, int32_t tap, int32_t channel, int32_t pixels)
{
    const csdf_byte_layer *layer = g->step->layer;
    const int32_t window = layer->kernel_h * layer->kernel_w, pace = layer->pace, limit = g->size / (CSDF_ROOMY * pixels);
    part p = {tap, 1, channel, least(g->ins - channel, limit / 4 * 4), 0};
    if (p.channels == g->ins && pace % 4 == 0)
        p.taps = most(1, least(window - tap, limit / pace));
    p.pitch = ((p.taps - 1) * (ptrdiff_t)pace + p.channels + 3) / 4 * 4;
    return p;
}

/* Of sums with more terms than there is room for: some at a time, for a few panels. */
static void in_parts(const group *g, const outputs *o, int32_t all)
{
    const csdf_byte_layer *layer = g->step->layer;
    const int32_t window = layer->kernel_h * layer->kernel_w;
    int32_t sums[PANELS][CSDF_PIXELS * CSDF_PANEL];
    for (int32_t low = o->low; low < o->high; low += PANELS * CSDF_PANEL) {
        csdf_even even = csdf_evenly(all, CSDF_PIXELS);
        for (int32_t first = 0, pixels; first < all; first += pixels) {
            const int32_t high = least(o->high, low + PANELS * CSDF_PANEL);
            part p;
            pixels = csdf_next(&even);
            for (int32_t tap = 0, channel = 0; tap < window;) {
                const int32_t begins = !tap && !channel;
                const ptrdiff_t done = (ptrdiff_t)tap * layer->pace + channel;
                p = next(g, tap, channel, pixels);
                const terms t = take(g, &p, first, pixels);
                for (int32_t at = low, k = 0; at < high; at += CSDF_PANEL, k++) {
                    const int8_t *weights = o->weights + (ptrdiff_t)at * 4 * g->steps + done * CSDF_PANEL;
                    const int32_t n = least(CSDF_PANEL, high - at);
                    dots[pixels - 1](t.x, p.pitch, weights, p.pitch / 4, begins ? o->bias + o->panel + at : sums[k],
                        begins ? 0 : CSDF_PANEL, sums[k], n);
                    if (CENTRES && o->zeros)
                        centre(o->zeros + o->panel + at, t.bytes, &p, pixels, sums[k]);
                }
                channel += p.channels;
                if (channel == g->ins) {
                    tap += p.taps;
                    channel = 0;
                }
            }
            for (int32_t at = low, k = 0; at < high; at += CSDF_PANEL, k++)
                written(g, o->panel + at, o->channel + at, least(CSDF_PANEL, high - at), first, pixels, sums[k]);
        }
    }
}

#ifdef CSDF_WIDE

enum {
    NONE = 2048,  /* bytes of padding that a tap sees */
    MOST = 8,     /* pieces whose places are in tables */
    LEAST = 6,    /* pixels that are worth a block */
    NEAR = 28672, /* bytes of weights that stay in the first-level cache */
    LONG = 256    /* channels of a tap that are worth the addresses of more pixels */
};

/* Whether blocks can read what pixels see where it lies: in whole fours, as it is. */
static int in_place(const group *g)
{
    const csdf_byte_conv_step *step = g->step;
    const int32_t count = step->piece_count;
    int32_t odd = g->ins % 4 || step->layer->pace != g->ins || g->flip || g->ins > NONE || count > MOST;
    for (int32_t i = 0; i < count && !odd; i++)
        odd = step->pieces[i].channels % 4 || (step->layer->groups > 1 && count > 1);
    return !odd;
}

/* Where `count` pixels from column `in` on see a tap of a line of a piece: `none` where that is padding. */
static void along(const group *g, const csdf_byte_source *piece, const uint8_t *line, int32_t in, int32_t count,
    const uint8_t *none, const uint8_t **to)
{
    const int32_t pace = g->step->layer->stride_w, width = g->step->width;
    const ptrdiff_t step = (ptrdiff_t)pace * piece->stride;
    if (line && in >= 0 && in + (count - 1) * pace < width) {
        line += (ptrdiff_t)in * piece->stride;
        for (int32_t k = 0; k < count; k++)
            to[k] = line + k * step;
    } else {
        for (int32_t k = 0; k < count; k++, in += pace)
            to[k] = line && in >= 0 && in < width ? line + (ptrdiff_t)in * piece->stride : none;
    }
}

/* Places of what pixels [first, first + count) see, [tap][piece][pixel], unless `to` is NULL, and of their outputs. */
static void places(const group *g, int32_t first, int32_t count, const uint8_t *none, const uint8_t **to, uint8_t **out)
{
    const csdf_byte_conv_step *step = g->step;
    const csdf_byte_layer *layer = step->layer;
    const int32_t columns = step->out.columns;
    int32_t row = first / columns, column = first % columns;
    for (int32_t k = 0, some; k < count; k += some, row++, column = 0) {
        const int32_t top = first_row(step, row), at = step->out.column + column;
        uint8_t *made = step->out.rows[row] + (ptrdiff_t)at * step->out.stride;
        const uint8_t **t = to + k;
        some = least(count - k, columns - column);
        for (int32_t i = 0; i < some; i++, made += step->out.stride)
            out[k + i] = made;
        for (int32_t y = 0; y < layer->kernel_h && to; y++)
            for (int32_t x = 0; x < layer->kernel_w; x++)
                for (int32_t i = 0; i < step->piece_count; i++, t += count) {
                    const uint8_t *line = step->pieces[i].rows[top + y * layer->dilation_h];
                    along(g, step->pieces + i, line ? line + g->first : NULL,
                        at * layer->stride_w - layer->pad_left + x * layer->dilation_w, some, none, t);
                }
    }
}

/* Whether sums stay integers. */
CSDF_INLINE int kept(const csdf_rescaling *into)
{
    return (CSDF_MAY(conv_bytes__layer__into__kind, CSDF_INTEGERS) && into->kind == CSDF_INTEGERS)
        || (CSDF_MAY(conv_bytes__layer__into__kind, CSDF_CENTRED) && into->kind == CSDF_CENTRED);
}

/* Sums of a block, which stay integers, go to these pixels. panel: their first in all panels. */
static void keep(const group *g, const csdf_wide *b, ptrdiff_t panel, int32_t pixels, int32_t *sums, uint8_t *const *out)
{
    const csdf_rescaling *into = &g->step->layer->into;
    for (int32_t o = 0; o < b->outs; o += CSDF_PANEL) {
        const int32_t some = least(CSDF_PANEL, b->outs - o);
        if (into->kind == CSDF_CENTRED)
            less_zero(g->zero, into->shifts + panel + o, pixels, sums);
        for (int32_t k = 0; k < pixels; k++, sums += CSDF_PANEL) {
            uint8_t *to = out[k] + (b->shift + o) * (ptrdiff_t)sizeof *sums;
            if (some == CSDF_PANEL)
                memcpy(to, sums, CSDF_PANEL * sizeof *sums);
            else
                memcpy(to, sums, (size_t)some * sizeof *sums);
        }
    }
}

/* All outputs of pixels [first, first + count), which see what is `at` these places. */
static void all_panels(const group *g, const outputs *o, csdf_wide *b, int32_t first, int32_t count,
    const uint8_t *const *at, uint8_t *const *out)
{
    const csdf_rescaling *into = &g->step->layer->into;
    /* weights of four panels that come from the second-level cache are read for twelve pixels at a time */
    const int32_t far = CSDF_WIDE * 4 * g->steps * CSDF_PANEL > NEAR && b->counts[0] >= LONG;
    int32_t sums[40 * CSDF_PANEL];
    b->sums = into->kind == CSDF_BYTES ? NULL : sums;
    for (int32_t low = o->low, panels; low < o->high; low += panels * CSDF_PANEL) {
        const int32_t n = o->high - low, left = (n + CSDF_PANEL - 1) / CSDF_PANEL;
        panels = least(CSDF_WIDE, far ? 2 : left == CSDF_WIDE + 1 ? left / 2 + 1 : left);
        panels = least(panels, left);
        b->weights = o->weights + (ptrdiff_t)low * 4 * g->steps;
        b->bias = o->bias + o->panel + low;
        b->factors = b->sums ? NULL : into->factors + o->panel + low;
        b->outs = least(n, panels * CSDF_PANEL);
        b->shift = o->channel + low;
        csdf_even even = csdf_evenly(count, wide[panels - 1].pixels);
        for (int32_t k = 0, pixels, times; k < count; k += times * pixels) {
            pixels = csdf_next(&even);
            times = b->sums ? 1 : even.more < 0 ? (count - k) / pixels : even.more + 1;
            even.more -= times - 1;
            wide[panels - 1].blocks[pixels - 1](b, at + k, out + k, times);
            if (kept(into))
                keep(g, b, o->panel + low, pixels, sums, out + k);
            for (int32_t v = 0; v < panels && b->sums && !kept(into); v++)
                written(g, o->panel + low + v * CSDF_PANEL, o->channel + low + v * CSDF_PANEL,
                    least(CSDF_PANEL, n - v * CSDF_PANEL), first + k, pixels, sums + v * pixels * CSDF_PANEL);
        }
    }
}

/* Blocks of several panels; whether there is room for what they need. */
static int widely(const group *g, const outputs *o, int32_t all)
{
    const csdf_byte_conv_step *step = g->step;
    const csdf_byte_layer *layer = step->layer;
    const csdf_rescaling *into = &layer->into;
    const int32_t is_in_place = in_place(g), window = layer->kernel_h * layer->kernel_w;
    const part p = {0, window, 0, g->ins, 4 * g->steps};
    const int32_t taps = is_in_place ? window * step->piece_count : 0;
    const int32_t each = (is_in_place ? 1 + taps : 2) * (int32_t)sizeof(void *) + (is_in_place ? 0 : (int32_t)p.pitch);
    const int32_t room = (g->size - SLACK) / each, whole = CSDF_WIDE > 1 || room < CSDF_PIXELS ? 1 : CSDF_PIXELS;
    const int32_t fits = least(all, room - room % whole);
    group with = *g;
    int32_t counts[MOST];
    uint8_t none[NONE];
    csdf_wide b;
    if (o->zeros || fits < least(all, LEAST))
        return 0;
    csdf_wide_into(&b, into);
    b.pieces = is_in_place ? step->piece_count : 1;
    b.taps = is_in_place ? window : 1;
    b.panel = CSDF_PANEL * 4 * g->steps;
    b.counts = counts;
    with.loose = 1;
    if (!is_in_place)
        counts[0] = (int32_t)p.pitch;
    for (int32_t i = 0; i < b.pieces && is_in_place; i++)
        counts[i] = layer->groups > 1 ? g->ins : step->pieces[i].channels;
    if (is_in_place && (window > 1 || layer->pad_left))
        memset(none, g->padding, (size_t)g->ins);
    for (int32_t first = 0, count; first < all; first += count) {
        uint8_t **out = (uint8_t **)(void *)g->room;
        const uint8_t **at = (const uint8_t **)(void *)(g->room + fits * (int32_t)sizeof(void *));
        csdf_e *gathered = g->room + 2 * fits * (int32_t)sizeof(void *);
        count = least(fits, all - first);
        b.apart = count;
        places(g, first, count, none, is_in_place ? at : NULL, out);
        if (!is_in_place) {
            gather(&with, &p, first, count, gathered); /* what is between meets weights of zero */
            for (int32_t k = 0; k < count; k++)
                at[k] = (const uint8_t *)gathered + k * p.pitch;
        }
        all_panels(g, o, &b, first, count, at, out);
    }
    return 1;
}

#endif

void csdf_conv_bytes(const csdf_byte_conv_step *step)
{
    const csdf_byte_layer *layer = step->layer;
    const csdf_byte_source *piece = step->pieces;
    const int32_t ins = layer->in_channels / layer->groups, outs = layer->out_channels / layer->groups;
    const int32_t panels = (outs + CSDF_PANEL - 1) / CSDF_PANEL, all = step->out.count * step->out.columns;
    const ptrdiff_t steps = ((ptrdiff_t)layer->kernel_h * layer->kernel_w * layer->pace + 3) / 4;
    const ptrdiff_t every = (ptrdiff_t)layer->groups * panels * CSDF_PANEL;
    CSDF_LINES csdf_e room[ROOM];
    const int32_t zero = layer->into.kind == CSDF_CENTRED ? (int8_t)(piece[step->piece_count].rows[0][0] ^ layer->flip)
                                                          : layer->padding;
    group g = {step, 0, ins, 0, CSDF_FLIP(layer->flip), 0, zero, steps, room, ROOM, 0};
    g.dense = step->piece_count == 1 && layer->groups == 1 && piece->stride == ins && layer->pace == ins;
    g.dense = g.dense && (layer->dilation_w == 1 || layer->kernel_w == 1);
    g.padding = (csdf_e)(zero + (CSDF_UNSIGNED ? 128 : 0));
    if (step->workspace_bytes > sizeof room) {
        g.room = step->workspace;
        g.size = (int32_t)(step->workspace_bytes / sizeof(csdf_e));
    }
    if (all <= 0)
        return;
    for (int32_t k = 0; k < layer->groups; k++, g.first += ins) {
        outputs o;
        o.channel = k * outs;
        o.low = most(0, step->out.channel - o.channel);
        o.high = least(outs, step->out.channel + step->out.channels - o.channel);
        o.panel = (ptrdiff_t)k * panels * CSDF_PANEL;
        o.weights = layer->weights + o.panel * 4 * steps;
        o.bias = layer->bias + (CSDF_UNSIGNED ? every : 0);
        o.zeros = layer->zeros;
        if (o.low >= o.high)
            continue;
#ifdef CSDF_WIDE
        if (widely(&g, &o, all))
            continue;
#endif
        /* taps that are no whole fours do not come apart: there is room for a pixel's */
        const int32_t is_one = layer->pace % 4 && layer->kernel_h * layer->kernel_w > 1;
        if (is_one || CSDF_ROOMY * 4 * steps * least(all, CSDF_PIXELS) <= g.size)
            at_once(&g, &o, all);
        else
            in_parts(&g, &o, all);
    }
}

void csdf_conv_bytes_of(const void *step) { csdf_conv_bytes(step); }
