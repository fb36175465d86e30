/* LSTM, GRU, RNN: what the inputs add to the gates is known; step by step, the products of the hidden values follow.
 *
 * A panel of sixteen hidden values at a time: sums of all of its gates stay in registers until its states are made.
 */
#include "products.h"

enum {
    VECTORS = CSDF_PANEL / CSDF_LANES, /* of a gate of a panel */
    MOST = 4 * VECTORS,                /* of a panel */
    ENOUGH = 8                         /* sums that hide the latency of a multiply-add */
};

static inline csdf_v sigmoid(csdf_v x)
{
    const csdf_v one = csdf_splat(1.0f);
    return one / (one + csdf_exponential(csdf_splat(0.0f) - x));
}

static inline csdf_v activated(csdf_v x, const csdf_activation *by)
{
    const csdf_v one = csdf_splat(1.0f), two = csdf_splat(2.0f);
    if (by->kind == CSDF_SIGMOID)
        return sigmoid(x);
    if (by->kind == CSDF_TANH)
        return one - two / (one + csdf_exponential(two * x));
    if (by->kind == CSDF_HARD_SIGMOID)
        return csdf_min(one, csdf_max(csdf_splat(0.0f), csdf_splat(by->a) * x + csdf_splat(by->b)));
    return csdf_activated(x, by);
}

static inline csdf_v applied(csdf_v x, const csdf_activation *by, float clip)
{
    return activated(csdf_min(csdf_splat(clip), csdf_max(csdf_splat(-clip), x)), by);
}

/* Adds h[k] * weights[k] to `vectors` sums, for k below `count`; `turns` values of k at a time have sums of their own. */
CSDF_INLINE void add_products(csdf_v *sums, int vectors, int turns, const float *h, const float *weights, int32_t count)
{
    csdf_v own[MOST > ENOUGH ? MOST : ENOUGH];
    int32_t k = 0;
    for (int i = 0; i < vectors * turns; i++)
        own[i] = csdf_splat(0.0f);
    for (; k + turns <= count; k += turns)
        for (int turn = 0; turn < turns; turn++) {
            const csdf_v value = csdf_splat(h[k + turn]);
            const float *row = weights + (ptrdiff_t)(k + turn) * vectors * CSDF_LANES;
            for (int i = 0; i < vectors; i++)
                own[turn * vectors + i] =
                    csdf_fma(value, csdf_load(row + i * CSDF_LANES), own[turn * vectors + i]);
        }
    for (; k < count; k++) {
        const csdf_v value = csdf_splat(h[k]);
        for (int i = 0; i < vectors; i++)
            own[i] = csdf_fma(value, csdf_load(weights + ((ptrdiff_t)k * vectors + i) * CSDF_LANES), own[i]);
    }
    for (int turn = 0; turn < turns; turn++)
        for (int i = 0; i < vectors; i++)
            sums[i] = sums[i] + own[turn * vectors + i];
}

#define TURNS(gates) (ENOUGH / ((gates) * VECTORS) > 1 ? ENOUGH / ((gates) * VECTORS) : 1)

/* The products of `gates` gates of a panel. */
#define PRODUCTS(sums, gates, h, weights, count) \
    add_products(sums, (gates) * VECTORS, TURNS(gates), h, weights, count)

/* One step of one sequence. now: hidden values before it; next: where those behind it are put; cell: the cell values of an
 * LSTM, room for the reset values of a GRU. All in whole panels. */
typedef void csdf_cell(const csdf_recurrent_step *step, int32_t panels, float *gates, const float *now, float *next, float *cell);

#define EACH_VECTOR for (int v = 0; v < VECTORS; v++)

static void rnn(const csdf_recurrent_step *step, int32_t panels, float *gates, const float *now, float *next, float *cell)
{
    (void)cell;
    for (int32_t p = 0; p < panels; p++) {
        csdf_v sums[VECTORS];
        EACH_VECTOR sums[v] = csdf_load(gates + p * CSDF_PANEL + v * CSDF_LANES);
        PRODUCTS(sums, 1, now, step->weights + (ptrdiff_t)p * step->hidden * CSDF_PANEL, step->hidden);
        EACH_VECTOR csdf_store(next + p * CSDF_PANEL + v * CSDF_LANES, applied(sums[v], step->activations, step->clip));
    }
}

static void lstm(const csdf_recurrent_step *step, int32_t panels, float *gates, const float *now, float *next, float *cell)
{
    const csdf_activation *by = step->activations;
    const float clip = step->clip;
    for (int32_t p = 0; p < panels; p++) {
        csdf_v sums[4 * VECTORS];
        for (int i = 0; i < 4 * VECTORS; i++)
            sums[i] = csdf_load(gates + 4 * p * CSDF_PANEL + i * CSDF_LANES);
        if (step->weights)
            PRODUCTS(sums, 4, now, step->weights + (ptrdiff_t)p * step->hidden * 4 * CSDF_PANEL, step->hidden);
        EACH_VECTOR {
            const ptrdiff_t at = (ptrdiff_t)p * CSDF_PANEL + v * CSDF_LANES, wide = (ptrdiff_t)panels * CSDF_PANEL;
            csdf_v i = sums[v], o = sums[VECTORS + v], f = sums[2 * VECTORS + v], c = csdf_load(cell + at);
            if (step->peepholes) {
                i = i + csdf_load(step->peepholes + at) * c;
                f = f + csdf_load(step->peepholes + 2 * wide + at) * c;
            }
            i = applied(i, by, clip);
            f = step->input_forget ? csdf_splat(1.0f) - i : applied(f, by, clip);
            c = f * c + i * applied(sums[3 * VECTORS + v], by + 1, clip);
            if (step->peepholes)
                o = o + csdf_load(step->peepholes + wide + at) * c;
            csdf_store(cell + at, c);
            csdf_store(next + at, applied(o, by, clip) * activated(c, by + 2));
        }
    }
}

static void gru_linear(const csdf_recurrent_step *step, int32_t panels, float *gates, const float *now, float *next, float *cell)
{
    const csdf_activation *by = step->activations;
    (void)cell;
    for (int32_t p = 0; p < panels; p++) {
        const float *add = gates + 3 * p * CSDF_PANEL;
        csdf_v sums[3 * VECTORS];
        for (int i = 0; i < 2 * VECTORS; i++)
            sums[i] = csdf_load(add + i * CSDF_LANES);
        EACH_VECTOR sums[2 * VECTORS + v] = csdf_load(step->bias + p * CSDF_PANEL + v * CSDF_LANES);
        PRODUCTS(sums, 3, now, step->weights + (ptrdiff_t)p * step->hidden * 3 * CSDF_PANEL, step->hidden);
        EACH_VECTOR {
            const ptrdiff_t at = (ptrdiff_t)p * CSDF_PANEL + v * CSDF_LANES;
            const csdf_v z = applied(sums[v], by, step->clip), r = applied(sums[VECTORS + v], by, step->clip);
            const csdf_v x = csdf_load(add + (2 * VECTORS + v) * CSDF_LANES) + r * sums[2 * VECTORS + v];
            const csdf_v g = applied(x, by + 1, step->clip);
            csdf_store(next + at, g + z * (csdf_load(now + at) - g));
        }
    }
}

static void gru(const csdf_recurrent_step *step, int32_t panels, float *gates, const float *now, float *next, float *cell)
{
    const csdf_activation *by = step->activations;
    const float *weights = step->weights + (ptrdiff_t)panels * step->hidden * 2 * CSDF_PANEL;
    for (int32_t p = 0; p < panels; p++) {
        float *add = gates + 3 * p * CSDF_PANEL;
        csdf_v sums[2 * VECTORS];
        for (int i = 0; i < 2 * VECTORS; i++)
            sums[i] = csdf_load(add + i * CSDF_LANES);
        PRODUCTS(sums, 2, now, step->weights + (ptrdiff_t)p * step->hidden * 2 * CSDF_PANEL, step->hidden);
        EACH_VECTOR {
            const ptrdiff_t at = (ptrdiff_t)p * CSDF_PANEL + v * CSDF_LANES;
            csdf_store(add + v * CSDF_LANES, applied(sums[v], by, step->clip));
            csdf_store(cell + at, applied(sums[VECTORS + v], by, step->clip) * csdf_load(now + at));
        }
    }
    for (int32_t p = 0; p < panels; p++) {
        const float *add = gates + 3 * p * CSDF_PANEL;
        csdf_v sums[VECTORS];
        EACH_VECTOR sums[v] = csdf_load(add + (2 * VECTORS + v) * CSDF_LANES);
        PRODUCTS(sums, 1, cell, weights + (ptrdiff_t)p * step->hidden * CSDF_PANEL, step->hidden);
        EACH_VECTOR {
            const ptrdiff_t at = (ptrdiff_t)p * CSDF_PANEL + v * CSDF_LANES;
            const csdf_v g = applied(sums[v], by + 1, step->clip);
            csdf_store(next + at, g + csdf_load(add + v * CSDF_LANES) * (csdf_load(now + at) - g));
        }
    }
}

/* `rows` rows of `count` floats, zeros from a source that is NULL. from, to: floats from one row to the next. */
static void copied(float *out, ptrdiff_t to, const float *in, ptrdiff_t from, int32_t rows, int32_t count)
{
    for (int32_t row = 0; row < rows; row++)
        for (int32_t i = 0; i < count; i++)
            out[row * to + i] = in ? in[row * from + i] : 0.0f;
}

void csdf_recurrent_by(const csdf_recurrent_step *step, csdf_gates_of *begin)
{
    static csdf_cell *const cells[] = {rnn, gru, gru_linear, lstm};
    static const int32_t gates_of[] = {1, 3, 3, 4};
    csdf_cell *const cell_of = cells[step->kind];
    const int32_t panels = (step->hidden + CSDF_PANEL - 1) / CSDF_PANEL, hidden = step->hidden;
    const ptrdiff_t wide = (ptrdiff_t)panels * CSDF_PANEL, each = wide * gates_of[step->kind];
    float *now = step->workspace, *next = now + step->batch * wide, *cell = next + step->batch * wide;
    float *gates = step->gates;
    copied(now, wide, NULL, 0, 1, (int32_t)(3 * step->batch * wide));
    copied(now, wide, step->first_h, hidden, step->batch, hidden);
    if (step->kind == CSDF_LSTM)
        copied(cell, wide, step->first_c, hidden, step->batch, hidden);
    for (int32_t t = 0; t < step->steps; t++) {
        float *const before = now;
        if (begin) {
            begin(step, t, now);
            gates = step->gates;
        }
        for (int32_t b = 0; b < step->batch; b++, gates += each) {
            cell_of(step, panels, gates, now + b * wide, next + b * wide, cell + b * wide);
            if (step->out)
                copied(step->out[(ptrdiff_t)t * step->batch + b], 0, next + b * wide, 0, 1, hidden);
        }
        now = next;
        next = before;
    }
    copied(step->h, hidden, now, wide, step->batch, hidden);
    if (step->kind == CSDF_LSTM)
        copied(step->c, hidden, cell, wide, step->batch, hidden);
}

void csdf_recurrent(const csdf_recurrent_step *step) { csdf_recurrent_by(step, NULL); }

void csdf_recurrent_of(const void *step) { csdf_recurrent(step); }
