/* Windows of a map become their greatest value, or their average.
 *
 * Of each output pixel the pixels that its window sees are gathered, some at a time; all channels of
 * these are folded at once. A value that is not a number makes its windows so.
 */
#ifndef CSDF_POOL_H
#define CSDF_POOL_H

#include "narrow.h"
#include "products.h"

enum {
    TAPS = 64,                          /* of a table */
    LINE = CSDF_LANES > 1 ? 2048 : 1024 /* floats of a line of windows, on the stack: see csdf.h */
};

/* What a fold reads and writes: elements, unless one of them is a line of floats on the stack. */
typedef enum kind { PLAIN, INTO_LINE, FROM_LINE } kind;

/* Pixels to be folded into `out`, which has what came before unless it begins. In the last fold the
 * result is divided by the number of values and activated; `by` is NULL in all others.
 */
typedef struct taps {
    const void *at[TAPS];
    int32_t count, begins;
    void *out;
    int32_t channels;
    float values;
    const csdf_activation *by;
} taps;

CSDF_INLINE csdf_v ended(const taps *t, csdf_v x)
{
    return t->by ? csdf_activated(x / csdf_splat(t->values), t->by) : x;
}

#define FOLD_MOST(acc, bad, x) \
    { \
        const csdf_v seen = (x); \
        acc = csdf_max(acc, seen); \
        if (!CSDF_MAX_KEEPS_NONE) \
            bad |= csdf_unordered(seen); \
    }
#define MOST(acc, bad) csdf_not_where(CSDF_MAX_KEEPS_NONE ? csdf_unordered(acc) : (bad), acc)

CSDF_INLINE csdf_v get(int line, const void *at, ptrdiff_t c, int n)
{
    const element *from = (const element *)at + c;
    if (line)
        return n == CSDF_LANES ? csdf_load((const float *)at + c) : csdf_load_some((const float *)at + c, n);
    return n == CSDF_LANES ? TAKE(from) : TAKE_SOME(from, n);
}

CSDF_INLINE void put(int line, void *at, ptrdiff_t c, csdf_v x, int n)
{
    element *to = (element *)at + c;
    if (n == CSDF_LANES && line)
        csdf_store((float *)at + c, x);
    else if (line)
        csdf_store_some((float *)at + c, x, n);
    else if (n == CSDF_LANES)
        GIVE(to, x);
    else
        GIVE_SOME(to, x, n);
}

CSDF_INLINE void greatest(const taps *t, int from, int into)
{
    const csdf_v low = csdf_splat(-3.402823466e38f);
    ptrdiff_t c = 0;
    for (; c + 2 * CSDF_LANES <= t->channels; c += 2 * CSDF_LANES) {
        csdf_v a = low, b = low;
        if (!t->begins) {
            a = get(into, t->out, c, CSDF_LANES);
            b = get(into, t->out, c + CSDF_LANES, CSDF_LANES);
        }
        csdf_bits bad_a = csdf_unordered(a), bad_b = csdf_unordered(b);
        for (int32_t k = 0; k < t->count; k++) {
            FOLD_MOST(a, bad_a, get(from, t->at[k], c, CSDF_LANES))
            FOLD_MOST(b, bad_b, get(from, t->at[k], c + CSDF_LANES, CSDF_LANES))
        }
        put(into, t->out, c, ended(t, MOST(a, bad_a)), CSDF_LANES);
        put(into, t->out, c + CSDF_LANES, ended(t, MOST(b, bad_b)), CSDF_LANES);
    }
    for (; c < t->channels; c += CSDF_LANES) {
        const int n = least(CSDF_LANES, t->channels - (int32_t)c);
        csdf_v a = t->begins ? low : get(into, t->out, c, n);
        csdf_bits bad = csdf_unordered(a);
        for (int32_t k = 0; k < t->count; k++)
            FOLD_MOST(a, bad, get(from, t->at[k], c, n))
        put(into, t->out, c, ended(t, MOST(a, bad)), n);
    }
}

CSDF_INLINE void sum(const taps *t, int from, int into)
{
    const csdf_v zero = csdf_splat(0.0f);
    ptrdiff_t c = 0;
    for (; c + 2 * CSDF_LANES <= t->channels; c += 2 * CSDF_LANES) {
        csdf_v a = zero, b = zero;
        if (!t->begins) {
            a = get(into, t->out, c, CSDF_LANES);
            b = get(into, t->out, c + CSDF_LANES, CSDF_LANES);
        }
        for (int32_t k = 0; k < t->count; k++) {
            a += get(from, t->at[k], c, CSDF_LANES);
            b += get(from, t->at[k], c + CSDF_LANES, CSDF_LANES);
        }
        put(into, t->out, c, ended(t, a), CSDF_LANES);
        put(into, t->out, c + CSDF_LANES, ended(t, b), CSDF_LANES);
    }
    for (; c < t->channels; c += CSDF_LANES) {
        const int n = least(CSDF_LANES, t->channels - (int32_t)c);
        csdf_v a = t->begins ? zero : get(into, t->out, c, n);
        for (int32_t k = 0; k < t->count; k++)
            a += get(from, t->at[k], c, n);
        put(into, t->out, c, ended(t, a), n);
    }
}

CSDF_INLINE void fold_of(const taps *t, int32_t average, int from, int into)
{
    if (average)
        sum(t, from, into);
    else
        greatest(t, from, into);
}

static void fold(taps *t, int32_t average, kind of)
{
    if (of == PLAIN || !CSDF_NARROW)
        fold_of(t, average, 0, 0);
    else if (of == INTO_LINE)
        fold_of(t, average, 0, 1);
    else
        fold_of(t, average, 1, 0);
    t->count = 0;
    t->begins = 0;
}

/* Windows of one output pixel after the other. */
static void by_pixel(const csdf_pool_step *step)
{
    const csdf_source *from = &step->source;
    const int32_t ends = step->end && (step->average || step->activation.kind != CSDF_NONE);
    taps t;
    t.channels = from->channels;
    for (int32_t row = 0; row < step->count; row++)
        for (int32_t x = 0; x < step->columns; x++) {
            const int32_t left = x * step->stride_w - step->pad_left;
            t.out = (element *)(void *)step->out[row] + (ptrdiff_t)x * step->stride;
            t.count = 0;
            t.begins = step->begin;
            t.by = NULL;
            for (int32_t y = 0; y < step->kernel_h; y++) {
                const element *at = (const void *)from->rows[row * step->stride_h + y * step->dilation_h];
                for (int32_t k = 0, in = left; at && k < step->kernel_w; k++, in += step->dilation_w)
                    if (in >= 0 && in < step->width) {
                        t.at[t.count++] = at + (ptrdiff_t)in * from->stride;
                        if (t.count == TAPS)
                            fold(&t, step->average, PLAIN);
                    }
            }
            if (ends) {
                t.values = (float)(step->average ? step->rows_seen[row] * step->columns_seen[x] : 1);
                t.by = &step->activation;
            }
            if (t.count || t.begins || ends)
                fold(&t, step->average, PLAIN);
        }
}

/* `n` output pixels of a row from column `first` on: windows become lines of one row, whose columns see `span` pixels,
 * and these the output. */
static void by_line(const csdf_pool_step *step, int32_t row, int32_t first, int32_t n, int32_t span)
{
    float line[LINE];
    const csdf_source *from = &step->source;
    const ptrdiff_t channels = from->channels;
    const int32_t left = first * step->stride_w - step->pad_left, low = most(0, -left);
    const int32_t high = most(low, least(span, step->width - left));
    const float none = step->average ? 0.0f : -3.402823466e38f;
    taps t;
    for (ptrdiff_t k = 0; k < low * channels; k++)
        line[k] = none;
    for (ptrdiff_t k = high * channels; k < span * channels; k++)
        line[k] = none;
    t.channels = (high - low) * from->channels;
    t.out = line + low * channels;
    t.count = 0;
    t.begins = 1;
    t.by = NULL;
    for (int32_t y = 0; y < step->kernel_h; y++) {
        const element *at = (const void *)from->rows[row * step->stride_h + y * step->dilation_h];
        if (at) {
            t.at[t.count++] = at + (left + low) * channels;
            if (t.count == TAPS)
                fold(&t, step->average, INTO_LINE);
        }
    }
    if (t.count || t.begins)
        fold(&t, step->average, INTO_LINE);
    /* output pixels at once where one follows the other, and a column counts what the one before does */
    for (int32_t x = 0, some; x < n; x += some) {
        const int32_t *seen = step->columns_seen + first + x;
        some = 1;
        if (step->stride_w == 1 && step->stride == channels)
            while (x + some < n && (!step->average || seen[some] == *seen))
                some++;
        t.channels = some * from->channels;
        t.out = (element *)(void *)step->out[row] + (ptrdiff_t)(first + x) * step->stride;
        t.begins = 1;
        t.values = (float)(step->average ? step->rows_seen[row] * *seen : 1);
        for (int32_t k = 0; k < step->kernel_w; k++) {
            if (t.count == TAPS)
                fold(&t, step->average, FROM_LINE);
            t.at[t.count++] = line + (x * step->stride_w + k * step->dilation_w) * channels;
        }
        t.by = step->average || step->activation.kind != CSDF_NONE ? &step->activation : NULL;
        fold(&t, step->average, FROM_LINE);
        t.by = NULL;
    }
}

static void pool(const csdf_pool_step *step)
{
    const csdf_source *from = &step->source;
    const int32_t channels = from->channels, extent = (step->kernel_w - 1) * step->dilation_w + 1;
    const int32_t room = LINE / most(1, channels) - extent, each = least(step->columns, room / step->stride_w + 1);
    const int32_t span = (each - 1) * step->stride_w + extent;
    /* what both take, in vectors, of which a tap of a pixel costs three more: pixels have few channels, or windows overlap */
    const int64_t tap = (3 + (channels + CSDF_LANES - 1) / CSDF_LANES) * CSDF_LANES;
    const int64_t joined = step->stride_w == 1 && step->stride == channels ? channels : tap;
    const int64_t lines = (int64_t)span * channels * (step->kernel_h + 1) + each * step->kernel_w * joined;
    if (room < 0 || !step->begin || !step->end || from->stride != channels ||
        lines >= (int64_t)each * step->kernel_h * step->kernel_w * tap) {
        by_pixel(step);
        return;
    }
    for (int32_t row = 0; row < step->count; row++)
        for (int32_t x = 0; x < step->columns; x += each) {
            const int32_t n = least(each, step->columns - x);
            by_line(step, row, x, n, (n - 1) * step->stride_w + extent);
        }
}

#endif
