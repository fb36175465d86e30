/* Written by csdfgen/native/generate.py: change that. */

#define FMA(sum, x, w) sum = csdf_fma(x, w, sum);
#define CLIPPED(x) x = csdf_min(high, csdf_max(low, x));
#define LEAKING(x) x = csdf_max(zero, x) + slope * csdf_min(zero, x);
#define FETCHES (16 / CSDF_LANES)
#define FETCH(count, at, pace) \
    for (ptrdiff_t i = 0; i < (count); i += FETCHES) \
        CSDF_PREFETCH_NEAR((at) + i * (pace));
#define FETCH_OUT(count, at, pace) \
    for (ptrdiff_t i = 0; i < (count); i += FETCHES) \
        CSDF_PREFETCH_OUT((at) + i * (pace));

#define ALL(DO) DO(a0)
static void strip_3_1_1(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0;
        a0 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 3) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
    }
}
#undef ALL

#define ALL(DO) DO(a0)
static void even_3_1_1(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(1, out + (1 + turn) * pace, pace)
        }
        csdf_v a0;
        a0 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(1, p + (3 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1)
static void strip_3_1_2(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1;
        a0 = a1 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 4) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w1)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a1, x3, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1)
static void even_3_1_2(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(2, out + (2 + turn) * pace, pace)
        }
        csdf_v a0, a1;
        a0 = a1 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(2, p + (4 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w1)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a1, x3, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2)
static void strip_3_1_3(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2;
        a0 = a1 = a2 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 5) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a1, x3, w2) FMA(a2, x3, w1)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a2, x4, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2)
static void even_3_1_3(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(3, out + (3 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2;
        a0 = a1 = a2 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(3, p + (5 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a1, x3, w2) FMA(a2, x3, w1)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a2, x4, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3)
static void strip_3_1_4(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3;
        a0 = a1 = a2 = a3 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 6) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a2, x4, w2) FMA(a3, x4, w1)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a3, x5, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3)
static void even_3_1_4(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(4, out + (4 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3;
        a0 = a1 = a2 = a3 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(4, p + (6 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a2, x4, w2) FMA(a3, x4, w1)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a3, x5, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4)
static void strip_3_1_5(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4;
        a0 = a1 = a2 = a3 = a4 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 7) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a2, x4, w2) FMA(a3, x4, w1) FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a3, x5, w2) FMA(a4, x5, w1)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a4, x6, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4)
static void even_3_1_5(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(5, out + (5 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4;
        a0 = a1 = a2 = a3 = a4 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(5, p + (7 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a2, x4, w2) FMA(a3, x4, w1) FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a3, x5, w2) FMA(a4, x5, w1)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a4, x6, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5)
static void strip_3_1_6(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4, a5;
        a0 = a1 = a2 = a3 = a4 = a5 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 8) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a2, x4, w2) FMA(a3, x4, w1) FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a3, x5, w2) FMA(a4, x5, w1) FMA(a5, x5, w0)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a4, x6, w2) FMA(a5, x6, w1)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a5, x7, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5)
static void even_3_1_6(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(6, out + (6 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4, a5;
        a0 = a1 = a2 = a3 = a4 = a5 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(6, p + (8 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a2, x4, w2) FMA(a3, x4, w1) FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a3, x5, w2) FMA(a4, x5, w1) FMA(a5, x5, w0)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a4, x6, w2) FMA(a5, x6, w1)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a5, x7, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6)
static void strip_3_1_7(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4, a5, a6;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 9) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a2, x4, w2) FMA(a3, x4, w1) FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a3, x5, w2) FMA(a4, x5, w1) FMA(a5, x5, w0)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a4, x6, w2) FMA(a5, x6, w1) FMA(a6, x6, w0)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a5, x7, w2) FMA(a6, x7, w1)
            const csdf_v x8 = csdf_load(t[8] + c); FMA(a6, x8, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6)
static void even_3_1_7(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(7, out + (7 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4, a5, a6;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(7, p + (9 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a2, x4, w2) FMA(a3, x4, w1) FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a3, x5, w2) FMA(a4, x5, w1) FMA(a5, x5, w0)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a4, x6, w2) FMA(a5, x6, w1) FMA(a6, x6, w0)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a5, x7, w2) FMA(a6, x7, w1)
            const csdf_v x8 = csdf_load(p + 8 * step); FMA(a6, x8, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6) DO(a7)
static void strip_3_1_8(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4, a5, a6, a7;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
            a7 += csdf_load(s->init + 7 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 10) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a2, x4, w2) FMA(a3, x4, w1) FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a3, x5, w2) FMA(a4, x5, w1) FMA(a5, x5, w0)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a4, x6, w2) FMA(a5, x6, w1) FMA(a6, x6, w0)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a5, x7, w2) FMA(a6, x7, w1) FMA(a7, x7, w0)
            const csdf_v x8 = csdf_load(t[8] + c); FMA(a6, x8, w2) FMA(a7, x8, w1)
            const csdf_v x9 = csdf_load(t[9] + c); FMA(a7, x9, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
        csdf_store(out + 7 * pace, a7);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6) DO(a7)
static void even_3_1_8(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(8, out + (8 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4, a5, a6, a7;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
            a7 += csdf_load(s->init + 7 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(8, p + (10 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a2, x4, w2) FMA(a3, x4, w1) FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a3, x5, w2) FMA(a4, x5, w1) FMA(a5, x5, w0)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a4, x6, w2) FMA(a5, x6, w1) FMA(a6, x6, w0)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a5, x7, w2) FMA(a6, x7, w1) FMA(a7, x7, w0)
            const csdf_v x8 = csdf_load(p + 8 * step); FMA(a6, x8, w2) FMA(a7, x8, w1)
            const csdf_v x9 = csdf_load(p + 9 * step); FMA(a7, x9, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
        csdf_store(out + 7 * pace, a7);
    }
}
#undef ALL

#define ALL(DO) DO(a0)
static void strip_3_2_1(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0;
        a0 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 3) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
    }
}
#undef ALL

#define ALL(DO) DO(a0)
static void even_3_2_1(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(1, out + (1 + turn) * pace, pace)
        }
        csdf_v a0;
        a0 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(2, p + (3 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1)
static void strip_3_2_2(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1;
        a0 = a1 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 5) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a1, x4, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1)
static void even_3_2_2(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(2, out + (2 + turn) * pace, pace)
        }
        csdf_v a0, a1;
        a0 = a1 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(4, p + (5 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a1, x4, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2)
static void strip_3_2_3(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2;
        a0 = a1 = a2 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 7) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a2, x6, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2)
static void even_3_2_3(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(3, out + (3 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2;
        a0 = a1 = a2 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(6, p + (7 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a2, x6, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3)
static void strip_3_2_4(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3;
        a0 = a1 = a2 = a3 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 9) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(t[8] + c); FMA(a3, x8, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3)
static void even_3_2_4(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(4, out + (4 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3;
        a0 = a1 = a2 = a3 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(8, p + (9 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(p + 8 * step); FMA(a3, x8, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4)
static void strip_3_2_5(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4;
        a0 = a1 = a2 = a3 = a4 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 11) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(t[8] + c); FMA(a3, x8, w2) FMA(a4, x8, w0)
            const csdf_v x9 = csdf_load(t[9] + c); FMA(a4, x9, w1)
            const csdf_v x10 = csdf_load(t[10] + c); FMA(a4, x10, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4)
static void even_3_2_5(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(5, out + (5 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4;
        a0 = a1 = a2 = a3 = a4 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(10, p + (11 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(p + 8 * step); FMA(a3, x8, w2) FMA(a4, x8, w0)
            const csdf_v x9 = csdf_load(p + 9 * step); FMA(a4, x9, w1)
            const csdf_v x10 = csdf_load(p + 10 * step); FMA(a4, x10, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5)
static void strip_3_2_6(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4, a5;
        a0 = a1 = a2 = a3 = a4 = a5 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 13) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(t[8] + c); FMA(a3, x8, w2) FMA(a4, x8, w0)
            const csdf_v x9 = csdf_load(t[9] + c); FMA(a4, x9, w1)
            const csdf_v x10 = csdf_load(t[10] + c); FMA(a4, x10, w2) FMA(a5, x10, w0)
            const csdf_v x11 = csdf_load(t[11] + c); FMA(a5, x11, w1)
            const csdf_v x12 = csdf_load(t[12] + c); FMA(a5, x12, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5)
static void even_3_2_6(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(6, out + (6 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4, a5;
        a0 = a1 = a2 = a3 = a4 = a5 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(12, p + (13 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(p + 8 * step); FMA(a3, x8, w2) FMA(a4, x8, w0)
            const csdf_v x9 = csdf_load(p + 9 * step); FMA(a4, x9, w1)
            const csdf_v x10 = csdf_load(p + 10 * step); FMA(a4, x10, w2) FMA(a5, x10, w0)
            const csdf_v x11 = csdf_load(p + 11 * step); FMA(a5, x11, w1)
            const csdf_v x12 = csdf_load(p + 12 * step); FMA(a5, x12, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6)
static void strip_3_2_7(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4, a5, a6;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 15) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(t[8] + c); FMA(a3, x8, w2) FMA(a4, x8, w0)
            const csdf_v x9 = csdf_load(t[9] + c); FMA(a4, x9, w1)
            const csdf_v x10 = csdf_load(t[10] + c); FMA(a4, x10, w2) FMA(a5, x10, w0)
            const csdf_v x11 = csdf_load(t[11] + c); FMA(a5, x11, w1)
            const csdf_v x12 = csdf_load(t[12] + c); FMA(a5, x12, w2) FMA(a6, x12, w0)
            const csdf_v x13 = csdf_load(t[13] + c); FMA(a6, x13, w1)
            const csdf_v x14 = csdf_load(t[14] + c); FMA(a6, x14, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6)
static void even_3_2_7(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(7, out + (7 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4, a5, a6;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(14, p + (15 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(p + 8 * step); FMA(a3, x8, w2) FMA(a4, x8, w0)
            const csdf_v x9 = csdf_load(p + 9 * step); FMA(a4, x9, w1)
            const csdf_v x10 = csdf_load(p + 10 * step); FMA(a4, x10, w2) FMA(a5, x10, w0)
            const csdf_v x11 = csdf_load(p + 11 * step); FMA(a5, x11, w1)
            const csdf_v x12 = csdf_load(p + 12 * step); FMA(a5, x12, w2) FMA(a6, x12, w0)
            const csdf_v x13 = csdf_load(p + 13 * step); FMA(a6, x13, w1)
            const csdf_v x14 = csdf_load(p + 14 * step); FMA(a6, x14, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6) DO(a7)
static void strip_3_2_8(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4, a5, a6, a7;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
            a7 += csdf_load(s->init + 7 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 17) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(t[8] + c); FMA(a3, x8, w2) FMA(a4, x8, w0)
            const csdf_v x9 = csdf_load(t[9] + c); FMA(a4, x9, w1)
            const csdf_v x10 = csdf_load(t[10] + c); FMA(a4, x10, w2) FMA(a5, x10, w0)
            const csdf_v x11 = csdf_load(t[11] + c); FMA(a5, x11, w1)
            const csdf_v x12 = csdf_load(t[12] + c); FMA(a5, x12, w2) FMA(a6, x12, w0)
            const csdf_v x13 = csdf_load(t[13] + c); FMA(a6, x13, w1)
            const csdf_v x14 = csdf_load(t[14] + c); FMA(a6, x14, w2) FMA(a7, x14, w0)
            const csdf_v x15 = csdf_load(t[15] + c); FMA(a7, x15, w1)
            const csdf_v x16 = csdf_load(t[16] + c); FMA(a7, x16, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
        csdf_store(out + 7 * pace, a7);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6) DO(a7)
static void even_3_2_8(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(8, out + (8 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4, a5, a6, a7;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
            a7 += csdf_load(s->init + 7 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(16, p + (17 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(p + 8 * step); FMA(a3, x8, w2) FMA(a4, x8, w0)
            const csdf_v x9 = csdf_load(p + 9 * step); FMA(a4, x9, w1)
            const csdf_v x10 = csdf_load(p + 10 * step); FMA(a4, x10, w2) FMA(a5, x10, w0)
            const csdf_v x11 = csdf_load(p + 11 * step); FMA(a5, x11, w1)
            const csdf_v x12 = csdf_load(p + 12 * step); FMA(a5, x12, w2) FMA(a6, x12, w0)
            const csdf_v x13 = csdf_load(p + 13 * step); FMA(a6, x13, w1)
            const csdf_v x14 = csdf_load(p + 14 * step); FMA(a6, x14, w2) FMA(a7, x14, w0)
            const csdf_v x15 = csdf_load(p + 15 * step); FMA(a7, x15, w1)
            const csdf_v x16 = csdf_load(p + 16 * step); FMA(a7, x16, w2)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
        csdf_store(out + 7 * pace, a7);
    }
}
#undef ALL

#define ALL(DO) DO(a0)
static void strip_5_1_1(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0;
        a0 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 5) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a0, x3, w3)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a0, x4, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
    }
}
#undef ALL

#define ALL(DO) DO(a0)
static void even_5_1_1(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(1, out + (1 + turn) * pace, pace)
        }
        csdf_v a0;
        a0 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(1, p + (5 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a0, x3, w3)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a0, x4, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1)
static void strip_5_1_2(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1;
        a0 = a1 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 6) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w1)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a0, x3, w3) FMA(a1, x3, w2)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a0, x4, w4) FMA(a1, x4, w3)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a1, x5, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1)
static void even_5_1_2(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(2, out + (2 + turn) * pace, pace)
        }
        csdf_v a0, a1;
        a0 = a1 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(2, p + (6 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w1)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a0, x3, w3) FMA(a1, x3, w2)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a0, x4, w4) FMA(a1, x4, w3)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a1, x5, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2)
static void strip_5_1_3(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2;
        a0 = a1 = a2 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 7) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a0, x3, w3) FMA(a1, x3, w2) FMA(a2, x3, w1)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a0, x4, w4) FMA(a1, x4, w3) FMA(a2, x4, w2)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a1, x5, w4) FMA(a2, x5, w3)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a2, x6, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2)
static void even_5_1_3(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(3, out + (3 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2;
        a0 = a1 = a2 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(3, p + (7 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a0, x3, w3) FMA(a1, x3, w2) FMA(a2, x3, w1)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a0, x4, w4) FMA(a1, x4, w3) FMA(a2, x4, w2)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a1, x5, w4) FMA(a2, x5, w3)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a2, x6, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3)
static void strip_5_1_4(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3;
        a0 = a1 = a2 = a3 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 8) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a0, x3, w3) FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a0, x4, w4) FMA(a1, x4, w3) FMA(a2, x4, w2) FMA(a3, x4, w1)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a1, x5, w4) FMA(a2, x5, w3) FMA(a3, x5, w2)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a2, x6, w4) FMA(a3, x6, w3)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a3, x7, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3)
static void even_5_1_4(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(4, out + (4 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3;
        a0 = a1 = a2 = a3 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(4, p + (8 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a0, x3, w3) FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a0, x4, w4) FMA(a1, x4, w3) FMA(a2, x4, w2) FMA(a3, x4, w1)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a1, x5, w4) FMA(a2, x5, w3) FMA(a3, x5, w2)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a2, x6, w4) FMA(a3, x6, w3)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a3, x7, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4)
static void strip_5_1_5(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4;
        a0 = a1 = a2 = a3 = a4 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 9) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a0, x3, w3) FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a0, x4, w4) FMA(a1, x4, w3) FMA(a2, x4, w2) FMA(a3, x4, w1) FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a1, x5, w4) FMA(a2, x5, w3) FMA(a3, x5, w2) FMA(a4, x5, w1)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a2, x6, w4) FMA(a3, x6, w3) FMA(a4, x6, w2)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a3, x7, w4) FMA(a4, x7, w3)
            const csdf_v x8 = csdf_load(t[8] + c); FMA(a4, x8, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4)
static void even_5_1_5(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(5, out + (5 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4;
        a0 = a1 = a2 = a3 = a4 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(5, p + (9 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a0, x3, w3) FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a0, x4, w4) FMA(a1, x4, w3) FMA(a2, x4, w2) FMA(a3, x4, w1) FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a1, x5, w4) FMA(a2, x5, w3) FMA(a3, x5, w2) FMA(a4, x5, w1)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a2, x6, w4) FMA(a3, x6, w3) FMA(a4, x6, w2)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a3, x7, w4) FMA(a4, x7, w3)
            const csdf_v x8 = csdf_load(p + 8 * step); FMA(a4, x8, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5)
static void strip_5_1_6(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4, a5;
        a0 = a1 = a2 = a3 = a4 = a5 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 10) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a0, x3, w3) FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a0, x4, w4) FMA(a1, x4, w3) FMA(a2, x4, w2) FMA(a3, x4, w1) FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a1, x5, w4) FMA(a2, x5, w3) FMA(a3, x5, w2) FMA(a4, x5, w1) FMA(a5, x5, w0)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a2, x6, w4) FMA(a3, x6, w3) FMA(a4, x6, w2) FMA(a5, x6, w1)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a3, x7, w4) FMA(a4, x7, w3) FMA(a5, x7, w2)
            const csdf_v x8 = csdf_load(t[8] + c); FMA(a4, x8, w4) FMA(a5, x8, w3)
            const csdf_v x9 = csdf_load(t[9] + c); FMA(a5, x9, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5)
static void even_5_1_6(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(6, out + (6 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4, a5;
        a0 = a1 = a2 = a3 = a4 = a5 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(6, p + (10 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a0, x3, w3) FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a0, x4, w4) FMA(a1, x4, w3) FMA(a2, x4, w2) FMA(a3, x4, w1) FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a1, x5, w4) FMA(a2, x5, w3) FMA(a3, x5, w2) FMA(a4, x5, w1) FMA(a5, x5, w0)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a2, x6, w4) FMA(a3, x6, w3) FMA(a4, x6, w2) FMA(a5, x6, w1)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a3, x7, w4) FMA(a4, x7, w3) FMA(a5, x7, w2)
            const csdf_v x8 = csdf_load(p + 8 * step); FMA(a4, x8, w4) FMA(a5, x8, w3)
            const csdf_v x9 = csdf_load(p + 9 * step); FMA(a5, x9, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6)
static void strip_5_1_7(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4, a5, a6;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 11) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a0, x3, w3) FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a0, x4, w4) FMA(a1, x4, w3) FMA(a2, x4, w2) FMA(a3, x4, w1) FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a1, x5, w4) FMA(a2, x5, w3) FMA(a3, x5, w2) FMA(a4, x5, w1) FMA(a5, x5, w0)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a2, x6, w4) FMA(a3, x6, w3) FMA(a4, x6, w2) FMA(a5, x6, w1) FMA(a6, x6, w0)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a3, x7, w4) FMA(a4, x7, w3) FMA(a5, x7, w2) FMA(a6, x7, w1)
            const csdf_v x8 = csdf_load(t[8] + c); FMA(a4, x8, w4) FMA(a5, x8, w3) FMA(a6, x8, w2)
            const csdf_v x9 = csdf_load(t[9] + c); FMA(a5, x9, w4) FMA(a6, x9, w3)
            const csdf_v x10 = csdf_load(t[10] + c); FMA(a6, x10, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6)
static void even_5_1_7(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(7, out + (7 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4, a5, a6;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(7, p + (11 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a0, x3, w3) FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a0, x4, w4) FMA(a1, x4, w3) FMA(a2, x4, w2) FMA(a3, x4, w1) FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a1, x5, w4) FMA(a2, x5, w3) FMA(a3, x5, w2) FMA(a4, x5, w1) FMA(a5, x5, w0)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a2, x6, w4) FMA(a3, x6, w3) FMA(a4, x6, w2) FMA(a5, x6, w1) FMA(a6, x6, w0)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a3, x7, w4) FMA(a4, x7, w3) FMA(a5, x7, w2) FMA(a6, x7, w1)
            const csdf_v x8 = csdf_load(p + 8 * step); FMA(a4, x8, w4) FMA(a5, x8, w3) FMA(a6, x8, w2)
            const csdf_v x9 = csdf_load(p + 9 * step); FMA(a5, x9, w4) FMA(a6, x9, w3)
            const csdf_v x10 = csdf_load(p + 10 * step); FMA(a6, x10, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6) DO(a7)
static void strip_5_1_8(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4, a5, a6, a7;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
            a7 += csdf_load(s->init + 7 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 12) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a0, x3, w3) FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a0, x4, w4) FMA(a1, x4, w3) FMA(a2, x4, w2) FMA(a3, x4, w1) FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a1, x5, w4) FMA(a2, x5, w3) FMA(a3, x5, w2) FMA(a4, x5, w1) FMA(a5, x5, w0)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a2, x6, w4) FMA(a3, x6, w3) FMA(a4, x6, w2) FMA(a5, x6, w1) FMA(a6, x6, w0)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a3, x7, w4) FMA(a4, x7, w3) FMA(a5, x7, w2) FMA(a6, x7, w1) FMA(a7, x7, w0)
            const csdf_v x8 = csdf_load(t[8] + c); FMA(a4, x8, w4) FMA(a5, x8, w3) FMA(a6, x8, w2) FMA(a7, x8, w1)
            const csdf_v x9 = csdf_load(t[9] + c); FMA(a5, x9, w4) FMA(a6, x9, w3) FMA(a7, x9, w2)
            const csdf_v x10 = csdf_load(t[10] + c); FMA(a6, x10, w4) FMA(a7, x10, w3)
            const csdf_v x11 = csdf_load(t[11] + c); FMA(a7, x11, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
        csdf_store(out + 7 * pace, a7);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6) DO(a7)
static void even_5_1_8(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(8, out + (8 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4, a5, a6, a7;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
            a7 += csdf_load(s->init + 7 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(8, p + (12 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1) FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w1) FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a0, x3, w3) FMA(a1, x3, w2) FMA(a2, x3, w1) FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a0, x4, w4) FMA(a1, x4, w3) FMA(a2, x4, w2) FMA(a3, x4, w1) FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a1, x5, w4) FMA(a2, x5, w3) FMA(a3, x5, w2) FMA(a4, x5, w1) FMA(a5, x5, w0)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a2, x6, w4) FMA(a3, x6, w3) FMA(a4, x6, w2) FMA(a5, x6, w1) FMA(a6, x6, w0)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a3, x7, w4) FMA(a4, x7, w3) FMA(a5, x7, w2) FMA(a6, x7, w1) FMA(a7, x7, w0)
            const csdf_v x8 = csdf_load(p + 8 * step); FMA(a4, x8, w4) FMA(a5, x8, w3) FMA(a6, x8, w2) FMA(a7, x8, w1)
            const csdf_v x9 = csdf_load(p + 9 * step); FMA(a5, x9, w4) FMA(a6, x9, w3) FMA(a7, x9, w2)
            const csdf_v x10 = csdf_load(p + 10 * step); FMA(a6, x10, w4) FMA(a7, x10, w3)
            const csdf_v x11 = csdf_load(p + 11 * step); FMA(a7, x11, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
        csdf_store(out + 7 * pace, a7);
    }
}
#undef ALL

#define ALL(DO) DO(a0)
static void strip_5_2_1(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0;
        a0 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 5) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a0, x3, w3)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a0, x4, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
    }
}
#undef ALL

#define ALL(DO) DO(a0)
static void even_5_2_1(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(1, out + (1 + turn) * pace, pace)
        }
        csdf_v a0;
        a0 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(2, p + (5 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a0, x3, w3)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a0, x4, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1)
static void strip_5_2_2(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1;
        a0 = a1 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 7) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a0, x3, w3) FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a0, x4, w4) FMA(a1, x4, w2)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a1, x5, w3)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a1, x6, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1)
static void even_5_2_2(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(2, out + (2 + turn) * pace, pace)
        }
        csdf_v a0, a1;
        a0 = a1 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(4, p + (7 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a0, x3, w3) FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a0, x4, w4) FMA(a1, x4, w2)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a1, x5, w3)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a1, x6, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2)
static void strip_5_2_3(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2;
        a0 = a1 = a2 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 9) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a0, x3, w3) FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a0, x4, w4) FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a1, x5, w3) FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a1, x6, w4) FMA(a2, x6, w2)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a2, x7, w3)
            const csdf_v x8 = csdf_load(t[8] + c); FMA(a2, x8, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2)
static void even_5_2_3(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(3, out + (3 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2;
        a0 = a1 = a2 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(6, p + (9 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a0, x3, w3) FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a0, x4, w4) FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a1, x5, w3) FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a1, x6, w4) FMA(a2, x6, w2)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a2, x7, w3)
            const csdf_v x8 = csdf_load(p + 8 * step); FMA(a2, x8, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3)
static void strip_5_2_4(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3;
        a0 = a1 = a2 = a3 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 11) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a0, x3, w3) FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a0, x4, w4) FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a1, x5, w3) FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a1, x6, w4) FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a2, x7, w3) FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(t[8] + c); FMA(a2, x8, w4) FMA(a3, x8, w2)
            const csdf_v x9 = csdf_load(t[9] + c); FMA(a3, x9, w3)
            const csdf_v x10 = csdf_load(t[10] + c); FMA(a3, x10, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3)
static void even_5_2_4(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(4, out + (4 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3;
        a0 = a1 = a2 = a3 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(8, p + (11 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a0, x3, w3) FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a0, x4, w4) FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a1, x5, w3) FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a1, x6, w4) FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a2, x7, w3) FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(p + 8 * step); FMA(a2, x8, w4) FMA(a3, x8, w2)
            const csdf_v x9 = csdf_load(p + 9 * step); FMA(a3, x9, w3)
            const csdf_v x10 = csdf_load(p + 10 * step); FMA(a3, x10, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4)
static void strip_5_2_5(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4;
        a0 = a1 = a2 = a3 = a4 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 13) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a0, x3, w3) FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a0, x4, w4) FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a1, x5, w3) FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a1, x6, w4) FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a2, x7, w3) FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(t[8] + c); FMA(a2, x8, w4) FMA(a3, x8, w2) FMA(a4, x8, w0)
            const csdf_v x9 = csdf_load(t[9] + c); FMA(a3, x9, w3) FMA(a4, x9, w1)
            const csdf_v x10 = csdf_load(t[10] + c); FMA(a3, x10, w4) FMA(a4, x10, w2)
            const csdf_v x11 = csdf_load(t[11] + c); FMA(a4, x11, w3)
            const csdf_v x12 = csdf_load(t[12] + c); FMA(a4, x12, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4)
static void even_5_2_5(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(5, out + (5 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4;
        a0 = a1 = a2 = a3 = a4 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(10, p + (13 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a0, x3, w3) FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a0, x4, w4) FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a1, x5, w3) FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a1, x6, w4) FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a2, x7, w3) FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(p + 8 * step); FMA(a2, x8, w4) FMA(a3, x8, w2) FMA(a4, x8, w0)
            const csdf_v x9 = csdf_load(p + 9 * step); FMA(a3, x9, w3) FMA(a4, x9, w1)
            const csdf_v x10 = csdf_load(p + 10 * step); FMA(a3, x10, w4) FMA(a4, x10, w2)
            const csdf_v x11 = csdf_load(p + 11 * step); FMA(a4, x11, w3)
            const csdf_v x12 = csdf_load(p + 12 * step); FMA(a4, x12, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5)
static void strip_5_2_6(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4, a5;
        a0 = a1 = a2 = a3 = a4 = a5 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 15) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a0, x3, w3) FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a0, x4, w4) FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a1, x5, w3) FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a1, x6, w4) FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a2, x7, w3) FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(t[8] + c); FMA(a2, x8, w4) FMA(a3, x8, w2) FMA(a4, x8, w0)
            const csdf_v x9 = csdf_load(t[9] + c); FMA(a3, x9, w3) FMA(a4, x9, w1)
            const csdf_v x10 = csdf_load(t[10] + c); FMA(a3, x10, w4) FMA(a4, x10, w2) FMA(a5, x10, w0)
            const csdf_v x11 = csdf_load(t[11] + c); FMA(a4, x11, w3) FMA(a5, x11, w1)
            const csdf_v x12 = csdf_load(t[12] + c); FMA(a4, x12, w4) FMA(a5, x12, w2)
            const csdf_v x13 = csdf_load(t[13] + c); FMA(a5, x13, w3)
            const csdf_v x14 = csdf_load(t[14] + c); FMA(a5, x14, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5)
static void even_5_2_6(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(6, out + (6 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4, a5;
        a0 = a1 = a2 = a3 = a4 = a5 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(12, p + (15 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a0, x3, w3) FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a0, x4, w4) FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a1, x5, w3) FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a1, x6, w4) FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a2, x7, w3) FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(p + 8 * step); FMA(a2, x8, w4) FMA(a3, x8, w2) FMA(a4, x8, w0)
            const csdf_v x9 = csdf_load(p + 9 * step); FMA(a3, x9, w3) FMA(a4, x9, w1)
            const csdf_v x10 = csdf_load(p + 10 * step); FMA(a3, x10, w4) FMA(a4, x10, w2) FMA(a5, x10, w0)
            const csdf_v x11 = csdf_load(p + 11 * step); FMA(a4, x11, w3) FMA(a5, x11, w1)
            const csdf_v x12 = csdf_load(p + 12 * step); FMA(a4, x12, w4) FMA(a5, x12, w2)
            const csdf_v x13 = csdf_load(p + 13 * step); FMA(a5, x13, w3)
            const csdf_v x14 = csdf_load(p + 14 * step); FMA(a5, x14, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6)
static void strip_5_2_7(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4, a5, a6;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 17) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a0, x3, w3) FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a0, x4, w4) FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a1, x5, w3) FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a1, x6, w4) FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a2, x7, w3) FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(t[8] + c); FMA(a2, x8, w4) FMA(a3, x8, w2) FMA(a4, x8, w0)
            const csdf_v x9 = csdf_load(t[9] + c); FMA(a3, x9, w3) FMA(a4, x9, w1)
            const csdf_v x10 = csdf_load(t[10] + c); FMA(a3, x10, w4) FMA(a4, x10, w2) FMA(a5, x10, w0)
            const csdf_v x11 = csdf_load(t[11] + c); FMA(a4, x11, w3) FMA(a5, x11, w1)
            const csdf_v x12 = csdf_load(t[12] + c); FMA(a4, x12, w4) FMA(a5, x12, w2) FMA(a6, x12, w0)
            const csdf_v x13 = csdf_load(t[13] + c); FMA(a5, x13, w3) FMA(a6, x13, w1)
            const csdf_v x14 = csdf_load(t[14] + c); FMA(a5, x14, w4) FMA(a6, x14, w2)
            const csdf_v x15 = csdf_load(t[15] + c); FMA(a6, x15, w3)
            const csdf_v x16 = csdf_load(t[16] + c); FMA(a6, x16, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6)
static void even_5_2_7(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(7, out + (7 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4, a5, a6;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(14, p + (17 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a0, x3, w3) FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a0, x4, w4) FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a1, x5, w3) FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a1, x6, w4) FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a2, x7, w3) FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(p + 8 * step); FMA(a2, x8, w4) FMA(a3, x8, w2) FMA(a4, x8, w0)
            const csdf_v x9 = csdf_load(p + 9 * step); FMA(a3, x9, w3) FMA(a4, x9, w1)
            const csdf_v x10 = csdf_load(p + 10 * step); FMA(a3, x10, w4) FMA(a4, x10, w2) FMA(a5, x10, w0)
            const csdf_v x11 = csdf_load(p + 11 * step); FMA(a4, x11, w3) FMA(a5, x11, w1)
            const csdf_v x12 = csdf_load(p + 12 * step); FMA(a4, x12, w4) FMA(a5, x12, w2) FMA(a6, x12, w0)
            const csdf_v x13 = csdf_load(p + 13 * step); FMA(a5, x13, w3) FMA(a6, x13, w1)
            const csdf_v x14 = csdf_load(p + 14 * step); FMA(a5, x14, w4) FMA(a6, x14, w2)
            const csdf_v x15 = csdf_load(p + 15 * step); FMA(a6, x15, w3)
            const csdf_v x16 = csdf_load(p + 16 * step); FMA(a6, x16, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6) DO(a7)
static void strip_5_2_8(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4, a5, a6, a7;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
            a7 += csdf_load(s->init + 7 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 19) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a0, x3, w3) FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a0, x4, w4) FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a1, x5, w3) FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a1, x6, w4) FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a2, x7, w3) FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(t[8] + c); FMA(a2, x8, w4) FMA(a3, x8, w2) FMA(a4, x8, w0)
            const csdf_v x9 = csdf_load(t[9] + c); FMA(a3, x9, w3) FMA(a4, x9, w1)
            const csdf_v x10 = csdf_load(t[10] + c); FMA(a3, x10, w4) FMA(a4, x10, w2) FMA(a5, x10, w0)
            const csdf_v x11 = csdf_load(t[11] + c); FMA(a4, x11, w3) FMA(a5, x11, w1)
            const csdf_v x12 = csdf_load(t[12] + c); FMA(a4, x12, w4) FMA(a5, x12, w2) FMA(a6, x12, w0)
            const csdf_v x13 = csdf_load(t[13] + c); FMA(a5, x13, w3) FMA(a6, x13, w1)
            const csdf_v x14 = csdf_load(t[14] + c); FMA(a5, x14, w4) FMA(a6, x14, w2) FMA(a7, x14, w0)
            const csdf_v x15 = csdf_load(t[15] + c); FMA(a6, x15, w3) FMA(a7, x15, w1)
            const csdf_v x16 = csdf_load(t[16] + c); FMA(a6, x16, w4) FMA(a7, x16, w2)
            const csdf_v x17 = csdf_load(t[17] + c); FMA(a7, x17, w3)
            const csdf_v x18 = csdf_load(t[18] + c); FMA(a7, x18, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
        csdf_store(out + 7 * pace, a7);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6) DO(a7)
static void even_5_2_8(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(8, out + (8 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4, a5, a6, a7;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
            a7 += csdf_load(s->init + 7 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(16, p + (19 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            csdf_v w1 = csdf_load(w + 1 * s->channels); CSDF_KEEP(w1);
            csdf_v w2 = csdf_load(w + 2 * s->channels); CSDF_KEEP(w2);
            csdf_v w3 = csdf_load(w + 3 * s->channels); CSDF_KEEP(w3);
            csdf_v w4 = csdf_load(w + 4 * s->channels); CSDF_KEEP(w4);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a0, x1, w1)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a0, x2, w2) FMA(a1, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a0, x3, w3) FMA(a1, x3, w1)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a0, x4, w4) FMA(a1, x4, w2) FMA(a2, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a1, x5, w3) FMA(a2, x5, w1)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a1, x6, w4) FMA(a2, x6, w2) FMA(a3, x6, w0)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a2, x7, w3) FMA(a3, x7, w1)
            const csdf_v x8 = csdf_load(p + 8 * step); FMA(a2, x8, w4) FMA(a3, x8, w2) FMA(a4, x8, w0)
            const csdf_v x9 = csdf_load(p + 9 * step); FMA(a3, x9, w3) FMA(a4, x9, w1)
            const csdf_v x10 = csdf_load(p + 10 * step); FMA(a3, x10, w4) FMA(a4, x10, w2) FMA(a5, x10, w0)
            const csdf_v x11 = csdf_load(p + 11 * step); FMA(a4, x11, w3) FMA(a5, x11, w1)
            const csdf_v x12 = csdf_load(p + 12 * step); FMA(a4, x12, w4) FMA(a5, x12, w2) FMA(a6, x12, w0)
            const csdf_v x13 = csdf_load(p + 13 * step); FMA(a5, x13, w3) FMA(a6, x13, w1)
            const csdf_v x14 = csdf_load(p + 14 * step); FMA(a5, x14, w4) FMA(a6, x14, w2) FMA(a7, x14, w0)
            const csdf_v x15 = csdf_load(p + 15 * step); FMA(a6, x15, w3) FMA(a7, x15, w1)
            const csdf_v x16 = csdf_load(p + 16 * step); FMA(a6, x16, w4) FMA(a7, x16, w2)
            const csdf_v x17 = csdf_load(p + 17 * step); FMA(a7, x17, w3)
            const csdf_v x18 = csdf_load(p + 18 * step); FMA(a7, x18, w4)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
        csdf_store(out + 7 * pace, a7);
    }
}
#undef ALL

#define ALL(DO) DO(a0)
static void strip_1_1_1(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0;
        a0 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
    }
}
#undef ALL

#define ALL(DO) DO(a0)
static void even_1_1_1(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(1, out + (1 + turn) * pace, pace)
        }
        csdf_v a0;
        a0 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(1, p + (1 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1)
static void strip_1_1_2(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1;
        a0 = a1 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 2) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a1, x1, w0)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1)
static void even_1_1_2(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(2, out + (2 + turn) * pace, pace)
        }
        csdf_v a0, a1;
        a0 = a1 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(2, p + (2 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a1, x1, w0)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2)
static void strip_1_1_3(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2;
        a0 = a1 = a2 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 3) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a2, x2, w0)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2)
static void even_1_1_3(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(3, out + (3 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2;
        a0 = a1 = a2 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(3, p + (3 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a2, x2, w0)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3)
static void strip_1_1_4(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3;
        a0 = a1 = a2 = a3 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 4) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a3, x3, w0)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3)
static void even_1_1_4(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(4, out + (4 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3;
        a0 = a1 = a2 = a3 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(4, p + (4 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a3, x3, w0)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4)
static void strip_1_1_5(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4;
        a0 = a1 = a2 = a3 = a4 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 5) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a4, x4, w0)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4)
static void even_1_1_5(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(5, out + (5 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4;
        a0 = a1 = a2 = a3 = a4 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(5, p + (5 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a4, x4, w0)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5)
static void strip_1_1_6(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4, a5;
        a0 = a1 = a2 = a3 = a4 = a5 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 6) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a5, x5, w0)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5)
static void even_1_1_6(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(6, out + (6 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4, a5;
        a0 = a1 = a2 = a3 = a4 = a5 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(6, p + (6 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a5, x5, w0)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6)
static void strip_1_1_7(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4, a5, a6;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 7) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a5, x5, w0)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a6, x6, w0)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6)
static void even_1_1_7(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(7, out + (7 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4, a5, a6;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(7, p + (7 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a5, x5, w0)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a6, x6, w0)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6) DO(a7)
static void strip_1_1_8(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        csdf_v a0, a1, a2, a3, a4, a5, a6, a7;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
            a7 += csdf_load(s->init + 7 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 8) {
            const float *w = s->weights[row] + c;
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            const csdf_v x0 = csdf_load(t[0] + c); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(t[1] + c); FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(t[2] + c); FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(t[3] + c); FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(t[4] + c); FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(t[5] + c); FMA(a5, x5, w0)
            const csdf_v x6 = csdf_load(t[6] + c); FMA(a6, x6, w0)
            const csdf_v x7 = csdf_load(t[7] + c); FMA(a7, x7, w0)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
        csdf_store(out + 7 * pace, a7);
    }
}
#undef ALL

#define ALL(DO) DO(a0) DO(a1) DO(a2) DO(a3) DO(a4) DO(a5) DO(a6) DO(a7)
static void even_1_1_8(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
    const ptrdiff_t step = s->step;
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const float *const *t = s->table;
        float *out = s->out + c;
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(8, out + (8 + turn) * pace, pace)
        }
        csdf_v a0, a1, a2, a3, a4, a5, a6, a7;
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = csdf_load(s->bias + c);
        if (s->init) {
            a0 += csdf_load(s->init + 0 * s->init_pace + c);
            a1 += csdf_load(s->init + 1 * s->init_pace + c);
            a2 += csdf_load(s->init + 2 * s->init_pace + c);
            a3 += csdf_load(s->init + 3 * s->init_pace + c);
            a4 += csdf_load(s->init + 4 * s->init_pace + c);
            a5 += csdf_load(s->init + 5 * s->init_pace + c);
            a6 += csdf_load(s->init + 6 * s->init_pace + c);
            a7 += csdf_load(s->init + 7 * s->init_pace + c);
        }
        for (int32_t row = 0; row < s->rows; row++, t += 1) {
            const float *w = s->weights[row] + c;
            const float *p = t[0] + c;
            if (s->far) {
                FETCH(8, p + (8 + turn) * step, step)
            }
            csdf_v w0 = csdf_load(w); CSDF_KEEP(w0);
            const csdf_v x0 = csdf_load(p + 0 * step); FMA(a0, x0, w0)
            const csdf_v x1 = csdf_load(p + 1 * step); FMA(a1, x1, w0)
            const csdf_v x2 = csdf_load(p + 2 * step); FMA(a2, x2, w0)
            const csdf_v x3 = csdf_load(p + 3 * step); FMA(a3, x3, w0)
            const csdf_v x4 = csdf_load(p + 4 * step); FMA(a4, x4, w0)
            const csdf_v x5 = csdf_load(p + 5 * step); FMA(a5, x5, w0)
            const csdf_v x6 = csdf_load(p + 6 * step); FMA(a6, x6, w0)
            const csdf_v x7 = csdf_load(p + 7 * step); FMA(a7, x7, w0)
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
        csdf_store(out + 0 * pace, a0);
        csdf_store(out + 1 * pace, a1);
        csdf_store(out + 2 * pace, a2);
        csdf_store(out + 3 * pace, a3);
        csdf_store(out + 4 * pace, a4);
        csdf_store(out + 5 * pace, a5);
        csdf_store(out + 6 * pace, a6);
        csdf_store(out + 7 * pace, a7);
    }
}
#undef ALL

static const csdf_strip_shape strips[] = {
    {3, 1, {
        {strip_3_1_1, even_3_1_1},
        {strip_3_1_2, even_3_1_2},
        {strip_3_1_3, even_3_1_3},
        {strip_3_1_4, even_3_1_4},
        {strip_3_1_5, even_3_1_5},
        {strip_3_1_6, even_3_1_6},
        {strip_3_1_7, even_3_1_7},
        {strip_3_1_8, even_3_1_8},
    }},
    {3, 2, {
        {strip_3_2_1, even_3_2_1},
        {strip_3_2_2, even_3_2_2},
        {strip_3_2_3, even_3_2_3},
        {strip_3_2_4, even_3_2_4},
        {strip_3_2_5, even_3_2_5},
        {strip_3_2_6, even_3_2_6},
        {strip_3_2_7, even_3_2_7},
        {strip_3_2_8, even_3_2_8},
    }},
    {5, 1, {
        {strip_5_1_1, even_5_1_1},
        {strip_5_1_2, even_5_1_2},
        {strip_5_1_3, even_5_1_3},
        {strip_5_1_4, even_5_1_4},
        {strip_5_1_5, even_5_1_5},
        {strip_5_1_6, even_5_1_6},
        {strip_5_1_7, even_5_1_7},
        {strip_5_1_8, even_5_1_8},
    }},
    {5, 2, {
        {strip_5_2_1, even_5_2_1},
        {strip_5_2_2, even_5_2_2},
        {strip_5_2_3, even_5_2_3},
        {strip_5_2_4, even_5_2_4},
        {strip_5_2_5, even_5_2_5},
        {strip_5_2_6, even_5_2_6},
        {strip_5_2_7, even_5_2_7},
        {strip_5_2_8, even_5_2_8},
    }},
    {1, 1, {
        {strip_1_1_1, even_1_1_1},
        {strip_1_1_2, even_1_1_2},
        {strip_1_1_3, even_1_1_3},
        {strip_1_1_4, even_1_1_4},
        {strip_1_1_5, even_1_1_5},
        {strip_1_1_6, even_1_1_6},
        {strip_1_1_7, even_1_1_7},
        {strip_1_1_8, even_1_1_8},
    }},
};
