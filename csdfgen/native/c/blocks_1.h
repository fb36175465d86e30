/* Written by csdfgen/native/generate.py: change that. */

#define CSDF_BLOCK_FLOATS 16
#define CSDF_BLOCK_PIXELS 4
#define CSDF_TURN 8

#define FMA(sum, x, w) sum = csdf_fma(x, w, sum);
#define CLIPPED(x) x = csdf_min(high, csdf_max(low, x));
#define LEAKING(x) x = csdf_max(zero, x) + slope * csdf_min(zero, x);

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); FMA(a0_0, x0, w0) \
        csdf_v w1 = csdf_load(w + 1 + 16 * k); CSDF_KEEP(w1); FMA(a0_1, x0, w1) \
        csdf_v w2 = csdf_load(w + 2 + 16 * k); CSDF_KEEP(w2); FMA(a0_2, x0, w2) \
        csdf_v w3 = csdf_load(w + 3 + 16 * k); CSDF_KEEP(w3); FMA(a0_3, x0, w3) \
    }
#define ALL(DO) DO(a0_0) DO(a0_1) DO(a0_2) DO(a0_3)

static void block_4x1(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1, a0_2, a0_3;
        a0_0 = csdf_load(pass->bias + 0);
        a0_1 = csdf_load(pass->bias + 1);
        a0_2 = csdf_load(pass->bias + 2);
        a0_3 = csdf_load(pass->bias + 3);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 1);
            a0_2 += csdf_load(init[0] + shift + 2);
            a0_3 += csdf_load(init[0] + shift + 3);
            init += 1;
        }
        CSDF_PREFETCH_OUT(out[0] + shift + 0);
        for (int32_t tap = 0; tap < pass->taps; tap++, w += pass->skip) {
            for (int32_t i = 0; i < pass->pieces; i++, t += pass->pixels) {
                const ptrdiff_t count = pass->counts[i];
                const float *p0 = t[0];
                ptrdiff_t c = 0;
                for (; c + 8 <= count; c += 8, w += 128) {
                    for (ptrdiff_t line = ahead; line < next + 128; line += beside)
                        CSDF_PREFETCH(w + line);
                    PRODUCTS(0) PRODUCTS(1) PRODUCTS(2) PRODUCTS(3) PRODUCTS(4) PRODUCTS(5) PRODUCTS(6) PRODUCTS(7)
                }
                for (; c < count; c++, w += 16) {
                    PRODUCTS(0)
                }
            }
        }
        if (pass->activation.kind == CSDF_CLIP) {
            const csdf_v low = csdf_splat(pass->activation.a), high = csdf_splat(pass->activation.b);
            ALL(CLIPPED)
        } else if (pass->activation.kind == CSDF_LEAKY) {
            const csdf_v slope = csdf_splat(pass->activation.a), zero = csdf_splat(0.0f);
            ALL(LEAKING)
        }
        csdf_store(out[0] + shift + 0, a0_0);
        csdf_store(out[0] + shift + 1, a0_1);
        csdf_store(out[0] + shift + 2, a0_2);
        csdf_store(out[0] + shift + 3, a0_3);
        table += 1;
        out += 1;
    }
}

static void run_4x1(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1, a0_2, a0_3;
        a0_0 = csdf_load(pass->bias + 0);
        a0_1 = csdf_load(pass->bias + 1);
        a0_2 = csdf_load(pass->bias + 2);
        a0_3 = csdf_load(pass->bias + 3);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 1);
            a0_2 += csdf_load(init[0] + shift + 2);
            a0_3 += csdf_load(init[0] + shift + 3);
            init += 1;
        }
        const float *p0 = table[0];
        ptrdiff_t c = 0;
        for (; c + 8 <= count; c += 8, w += 128) {
            for (ptrdiff_t line = ahead; line < next + 128; line += beside)
                CSDF_PREFETCH(w + line);
            PRODUCTS(0) PRODUCTS(1) PRODUCTS(2) PRODUCTS(3) PRODUCTS(4) PRODUCTS(5) PRODUCTS(6) PRODUCTS(7)
        }
        for (; c < count; c++, w += 16) {
            PRODUCTS(0)
        }
        if (pass->activation.kind == CSDF_CLIP) {
            const csdf_v low = csdf_splat(pass->activation.a), high = csdf_splat(pass->activation.b);
            ALL(CLIPPED)
        } else if (pass->activation.kind == CSDF_LEAKY) {
            const csdf_v slope = csdf_splat(pass->activation.a), zero = csdf_splat(0.0f);
            ALL(LEAKING)
        }
        csdf_store(out[0] + shift + 0, a0_0);
        csdf_store(out[0] + shift + 1, a0_1);
        csdf_store(out[0] + shift + 2, a0_2);
        csdf_store(out[0] + shift + 3, a0_3);
        table += 1;
        out += 1;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); FMA(a0_0, x0, w0) FMA(a1_0, x1, w0) \
        csdf_v w1 = csdf_load(w + 1 + 16 * k); CSDF_KEEP(w1); FMA(a0_1, x0, w1) FMA(a1_1, x1, w1) \
        csdf_v w2 = csdf_load(w + 2 + 16 * k); CSDF_KEEP(w2); FMA(a0_2, x0, w2) FMA(a1_2, x1, w2) \
        csdf_v w3 = csdf_load(w + 3 + 16 * k); CSDF_KEEP(w3); FMA(a0_3, x0, w3) FMA(a1_3, x1, w3) \
    }
#define ALL(DO) DO(a0_0) DO(a0_1) DO(a0_2) DO(a0_3) DO(a1_0) DO(a1_1) DO(a1_2) DO(a1_3)

static void block_4x2(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1, a0_2, a0_3;
        csdf_v a1_0, a1_1, a1_2, a1_3;
        a0_0 = a1_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = csdf_load(pass->bias + 1);
        a0_2 = a1_2 = csdf_load(pass->bias + 2);
        a0_3 = a1_3 = csdf_load(pass->bias + 3);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 1);
            a0_2 += csdf_load(init[0] + shift + 2);
            a0_3 += csdf_load(init[0] + shift + 3);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 1);
            a1_2 += csdf_load(init[1] + shift + 2);
            a1_3 += csdf_load(init[1] + shift + 3);
            init += 2;
        }
        CSDF_PREFETCH_OUT(out[0] + shift + 0);
        CSDF_PREFETCH_OUT(out[1] + shift + 0);
        for (int32_t tap = 0; tap < pass->taps; tap++, w += pass->skip) {
            for (int32_t i = 0; i < pass->pieces; i++, t += pass->pixels) {
                const ptrdiff_t count = pass->counts[i];
                const float *p0 = t[0];
                const float *p1 = t[1];
                ptrdiff_t c = 0;
                for (; c + 8 <= count; c += 8, w += 128) {
                    for (ptrdiff_t line = ahead; line < next + 128; line += beside)
                        CSDF_PREFETCH(w + line);
                    PRODUCTS(0) PRODUCTS(1) PRODUCTS(2) PRODUCTS(3) PRODUCTS(4) PRODUCTS(5) PRODUCTS(6) PRODUCTS(7)
                }
                for (; c < count; c++, w += 16) {
                    PRODUCTS(0)
                }
            }
        }
        if (pass->activation.kind == CSDF_CLIP) {
            const csdf_v low = csdf_splat(pass->activation.a), high = csdf_splat(pass->activation.b);
            ALL(CLIPPED)
        } else if (pass->activation.kind == CSDF_LEAKY) {
            const csdf_v slope = csdf_splat(pass->activation.a), zero = csdf_splat(0.0f);
            ALL(LEAKING)
        }
        csdf_store(out[0] + shift + 0, a0_0);
        csdf_store(out[0] + shift + 1, a0_1);
        csdf_store(out[0] + shift + 2, a0_2);
        csdf_store(out[0] + shift + 3, a0_3);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 1, a1_1);
        csdf_store(out[1] + shift + 2, a1_2);
        csdf_store(out[1] + shift + 3, a1_3);
        table += 2;
        out += 2;
    }
}

static void run_4x2(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1, a0_2, a0_3;
        csdf_v a1_0, a1_1, a1_2, a1_3;
        a0_0 = a1_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = csdf_load(pass->bias + 1);
        a0_2 = a1_2 = csdf_load(pass->bias + 2);
        a0_3 = a1_3 = csdf_load(pass->bias + 3);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 1);
            a0_2 += csdf_load(init[0] + shift + 2);
            a0_3 += csdf_load(init[0] + shift + 3);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 1);
            a1_2 += csdf_load(init[1] + shift + 2);
            a1_3 += csdf_load(init[1] + shift + 3);
            init += 2;
        }
        const float *p0 = table[0];
        const float *p1 = table[1];
        ptrdiff_t c = 0;
        for (; c + 8 <= count; c += 8, w += 128) {
            for (ptrdiff_t line = ahead; line < next + 128; line += beside)
                CSDF_PREFETCH(w + line);
            PRODUCTS(0) PRODUCTS(1) PRODUCTS(2) PRODUCTS(3) PRODUCTS(4) PRODUCTS(5) PRODUCTS(6) PRODUCTS(7)
        }
        for (; c < count; c++, w += 16) {
            PRODUCTS(0)
        }
        if (pass->activation.kind == CSDF_CLIP) {
            const csdf_v low = csdf_splat(pass->activation.a), high = csdf_splat(pass->activation.b);
            ALL(CLIPPED)
        } else if (pass->activation.kind == CSDF_LEAKY) {
            const csdf_v slope = csdf_splat(pass->activation.a), zero = csdf_splat(0.0f);
            ALL(LEAKING)
        }
        csdf_store(out[0] + shift + 0, a0_0);
        csdf_store(out[0] + shift + 1, a0_1);
        csdf_store(out[0] + shift + 2, a0_2);
        csdf_store(out[0] + shift + 3, a0_3);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 1, a1_1);
        csdf_store(out[1] + shift + 2, a1_2);
        csdf_store(out[1] + shift + 3, a1_3);
        table += 2;
        out += 2;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); \
        csdf_v x2 = csdf_splat(p2[c + k]); CSDF_KEEP(x2); \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); FMA(a0_0, x0, w0) FMA(a1_0, x1, w0) FMA(a2_0, x2, w0) \
        csdf_v w1 = csdf_load(w + 1 + 16 * k); CSDF_KEEP(w1); FMA(a0_1, x0, w1) FMA(a1_1, x1, w1) FMA(a2_1, x2, w1) \
        csdf_v w2 = csdf_load(w + 2 + 16 * k); CSDF_KEEP(w2); FMA(a0_2, x0, w2) FMA(a1_2, x1, w2) FMA(a2_2, x2, w2) \
        csdf_v w3 = csdf_load(w + 3 + 16 * k); CSDF_KEEP(w3); FMA(a0_3, x0, w3) FMA(a1_3, x1, w3) FMA(a2_3, x2, w3) \
    }
#define ALL(DO) DO(a0_0) DO(a0_1) DO(a0_2) DO(a0_3) DO(a1_0) DO(a1_1) DO(a1_2) DO(a1_3) \
    DO(a2_0) DO(a2_1) DO(a2_2) DO(a2_3)

static void block_4x3(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1, a0_2, a0_3;
        csdf_v a1_0, a1_1, a1_2, a1_3;
        csdf_v a2_0, a2_1, a2_2, a2_3;
        a0_0 = a1_0 = a2_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = a2_1 = csdf_load(pass->bias + 1);
        a0_2 = a1_2 = a2_2 = csdf_load(pass->bias + 2);
        a0_3 = a1_3 = a2_3 = csdf_load(pass->bias + 3);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 1);
            a0_2 += csdf_load(init[0] + shift + 2);
            a0_3 += csdf_load(init[0] + shift + 3);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 1);
            a1_2 += csdf_load(init[1] + shift + 2);
            a1_3 += csdf_load(init[1] + shift + 3);
            a2_0 += csdf_load(init[2] + shift + 0);
            a2_1 += csdf_load(init[2] + shift + 1);
            a2_2 += csdf_load(init[2] + shift + 2);
            a2_3 += csdf_load(init[2] + shift + 3);
            init += 3;
        }
        CSDF_PREFETCH_OUT(out[0] + shift + 0);
        CSDF_PREFETCH_OUT(out[1] + shift + 0);
        CSDF_PREFETCH_OUT(out[2] + shift + 0);
        for (int32_t tap = 0; tap < pass->taps; tap++, w += pass->skip) {
            for (int32_t i = 0; i < pass->pieces; i++, t += pass->pixels) {
                const ptrdiff_t count = pass->counts[i];
                const float *p0 = t[0];
                const float *p1 = t[1];
                const float *p2 = t[2];
                ptrdiff_t c = 0;
                for (; c + 8 <= count; c += 8, w += 128) {
                    for (ptrdiff_t line = ahead; line < next + 128; line += beside)
                        CSDF_PREFETCH(w + line);
                    PRODUCTS(0) PRODUCTS(1) PRODUCTS(2) PRODUCTS(3) PRODUCTS(4) PRODUCTS(5) PRODUCTS(6) PRODUCTS(7)
                }
                for (; c < count; c++, w += 16) {
                    PRODUCTS(0)
                }
            }
        }
        if (pass->activation.kind == CSDF_CLIP) {
            const csdf_v low = csdf_splat(pass->activation.a), high = csdf_splat(pass->activation.b);
            ALL(CLIPPED)
        } else if (pass->activation.kind == CSDF_LEAKY) {
            const csdf_v slope = csdf_splat(pass->activation.a), zero = csdf_splat(0.0f);
            ALL(LEAKING)
        }
        csdf_store(out[0] + shift + 0, a0_0);
        csdf_store(out[0] + shift + 1, a0_1);
        csdf_store(out[0] + shift + 2, a0_2);
        csdf_store(out[0] + shift + 3, a0_3);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 1, a1_1);
        csdf_store(out[1] + shift + 2, a1_2);
        csdf_store(out[1] + shift + 3, a1_3);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[2] + shift + 1, a2_1);
        csdf_store(out[2] + shift + 2, a2_2);
        csdf_store(out[2] + shift + 3, a2_3);
        table += 3;
        out += 3;
    }
}

static void run_4x3(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1, a0_2, a0_3;
        csdf_v a1_0, a1_1, a1_2, a1_3;
        csdf_v a2_0, a2_1, a2_2, a2_3;
        a0_0 = a1_0 = a2_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = a2_1 = csdf_load(pass->bias + 1);
        a0_2 = a1_2 = a2_2 = csdf_load(pass->bias + 2);
        a0_3 = a1_3 = a2_3 = csdf_load(pass->bias + 3);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 1);
            a0_2 += csdf_load(init[0] + shift + 2);
            a0_3 += csdf_load(init[0] + shift + 3);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 1);
            a1_2 += csdf_load(init[1] + shift + 2);
            a1_3 += csdf_load(init[1] + shift + 3);
            a2_0 += csdf_load(init[2] + shift + 0);
            a2_1 += csdf_load(init[2] + shift + 1);
            a2_2 += csdf_load(init[2] + shift + 2);
            a2_3 += csdf_load(init[2] + shift + 3);
            init += 3;
        }
        const float *p0 = table[0];
        const float *p1 = table[1];
        const float *p2 = table[2];
        ptrdiff_t c = 0;
        for (; c + 8 <= count; c += 8, w += 128) {
            for (ptrdiff_t line = ahead; line < next + 128; line += beside)
                CSDF_PREFETCH(w + line);
            PRODUCTS(0) PRODUCTS(1) PRODUCTS(2) PRODUCTS(3) PRODUCTS(4) PRODUCTS(5) PRODUCTS(6) PRODUCTS(7)
        }
        for (; c < count; c++, w += 16) {
            PRODUCTS(0)
        }
        if (pass->activation.kind == CSDF_CLIP) {
            const csdf_v low = csdf_splat(pass->activation.a), high = csdf_splat(pass->activation.b);
            ALL(CLIPPED)
        } else if (pass->activation.kind == CSDF_LEAKY) {
            const csdf_v slope = csdf_splat(pass->activation.a), zero = csdf_splat(0.0f);
            ALL(LEAKING)
        }
        csdf_store(out[0] + shift + 0, a0_0);
        csdf_store(out[0] + shift + 1, a0_1);
        csdf_store(out[0] + shift + 2, a0_2);
        csdf_store(out[0] + shift + 3, a0_3);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 1, a1_1);
        csdf_store(out[1] + shift + 2, a1_2);
        csdf_store(out[1] + shift + 3, a1_3);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[2] + shift + 1, a2_1);
        csdf_store(out[2] + shift + 2, a2_2);
        csdf_store(out[2] + shift + 3, a2_3);
        table += 3;
        out += 3;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); \
        csdf_v w1 = csdf_load(w + 1 + 16 * k); CSDF_KEEP(w1); \
        csdf_v w2 = csdf_load(w + 2 + 16 * k); CSDF_KEEP(w2); \
        csdf_v w3 = csdf_load(w + 3 + 16 * k); CSDF_KEEP(w3); \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); FMA(a0_0, x0, w0) FMA(a0_1, x0, w1) FMA(a0_2, x0, w2) FMA(a0_3, x0, w3) \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); FMA(a1_0, x1, w0) FMA(a1_1, x1, w1) FMA(a1_2, x1, w2) FMA(a1_3, x1, w3) \
        csdf_v x2 = csdf_splat(p2[c + k]); CSDF_KEEP(x2); FMA(a2_0, x2, w0) FMA(a2_1, x2, w1) FMA(a2_2, x2, w2) FMA(a2_3, x2, w3) \
        csdf_v x3 = csdf_splat(p3[c + k]); CSDF_KEEP(x3); FMA(a3_0, x3, w0) FMA(a3_1, x3, w1) FMA(a3_2, x3, w2) FMA(a3_3, x3, w3) \
    }
#define ALL(DO) DO(a0_0) DO(a0_1) DO(a0_2) DO(a0_3) DO(a1_0) DO(a1_1) DO(a1_2) DO(a1_3) \
    DO(a2_0) DO(a2_1) DO(a2_2) DO(a2_3) DO(a3_0) DO(a3_1) DO(a3_2) DO(a3_3)

static void block_4x4(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1, a0_2, a0_3;
        csdf_v a1_0, a1_1, a1_2, a1_3;
        csdf_v a2_0, a2_1, a2_2, a2_3;
        csdf_v a3_0, a3_1, a3_2, a3_3;
        a0_0 = a1_0 = a2_0 = a3_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = a2_1 = a3_1 = csdf_load(pass->bias + 1);
        a0_2 = a1_2 = a2_2 = a3_2 = csdf_load(pass->bias + 2);
        a0_3 = a1_3 = a2_3 = a3_3 = csdf_load(pass->bias + 3);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 1);
            a0_2 += csdf_load(init[0] + shift + 2);
            a0_3 += csdf_load(init[0] + shift + 3);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 1);
            a1_2 += csdf_load(init[1] + shift + 2);
            a1_3 += csdf_load(init[1] + shift + 3);
            a2_0 += csdf_load(init[2] + shift + 0);
            a2_1 += csdf_load(init[2] + shift + 1);
            a2_2 += csdf_load(init[2] + shift + 2);
            a2_3 += csdf_load(init[2] + shift + 3);
            a3_0 += csdf_load(init[3] + shift + 0);
            a3_1 += csdf_load(init[3] + shift + 1);
            a3_2 += csdf_load(init[3] + shift + 2);
            a3_3 += csdf_load(init[3] + shift + 3);
            init += 4;
        }
        CSDF_PREFETCH_OUT(out[0] + shift + 0);
        CSDF_PREFETCH_OUT(out[1] + shift + 0);
        CSDF_PREFETCH_OUT(out[2] + shift + 0);
        CSDF_PREFETCH_OUT(out[3] + shift + 0);
        for (int32_t tap = 0; tap < pass->taps; tap++, w += pass->skip) {
            for (int32_t i = 0; i < pass->pieces; i++, t += pass->pixels) {
                const ptrdiff_t count = pass->counts[i];
                const float *p0 = t[0];
                const float *p1 = t[1];
                const float *p2 = t[2];
                const float *p3 = t[3];
                ptrdiff_t c = 0;
                for (; c + 8 <= count; c += 8, w += 128) {
                    for (ptrdiff_t line = ahead; line < next + 128; line += beside)
                        CSDF_PREFETCH(w + line);
                    PRODUCTS(0) PRODUCTS(1) PRODUCTS(2) PRODUCTS(3) PRODUCTS(4) PRODUCTS(5) PRODUCTS(6) PRODUCTS(7)
                }
                for (; c < count; c++, w += 16) {
                    PRODUCTS(0)
                }
            }
        }
        if (pass->activation.kind == CSDF_CLIP) {
            const csdf_v low = csdf_splat(pass->activation.a), high = csdf_splat(pass->activation.b);
            ALL(CLIPPED)
        } else if (pass->activation.kind == CSDF_LEAKY) {
            const csdf_v slope = csdf_splat(pass->activation.a), zero = csdf_splat(0.0f);
            ALL(LEAKING)
        }
        csdf_store(out[0] + shift + 0, a0_0);
        csdf_store(out[0] + shift + 1, a0_1);
        csdf_store(out[0] + shift + 2, a0_2);
        csdf_store(out[0] + shift + 3, a0_3);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 1, a1_1);
        csdf_store(out[1] + shift + 2, a1_2);
        csdf_store(out[1] + shift + 3, a1_3);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[2] + shift + 1, a2_1);
        csdf_store(out[2] + shift + 2, a2_2);
        csdf_store(out[2] + shift + 3, a2_3);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[3] + shift + 1, a3_1);
        csdf_store(out[3] + shift + 2, a3_2);
        csdf_store(out[3] + shift + 3, a3_3);
        table += 4;
        out += 4;
    }
}

static void run_4x4(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1, a0_2, a0_3;
        csdf_v a1_0, a1_1, a1_2, a1_3;
        csdf_v a2_0, a2_1, a2_2, a2_3;
        csdf_v a3_0, a3_1, a3_2, a3_3;
        a0_0 = a1_0 = a2_0 = a3_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = a2_1 = a3_1 = csdf_load(pass->bias + 1);
        a0_2 = a1_2 = a2_2 = a3_2 = csdf_load(pass->bias + 2);
        a0_3 = a1_3 = a2_3 = a3_3 = csdf_load(pass->bias + 3);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 1);
            a0_2 += csdf_load(init[0] + shift + 2);
            a0_3 += csdf_load(init[0] + shift + 3);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 1);
            a1_2 += csdf_load(init[1] + shift + 2);
            a1_3 += csdf_load(init[1] + shift + 3);
            a2_0 += csdf_load(init[2] + shift + 0);
            a2_1 += csdf_load(init[2] + shift + 1);
            a2_2 += csdf_load(init[2] + shift + 2);
            a2_3 += csdf_load(init[2] + shift + 3);
            a3_0 += csdf_load(init[3] + shift + 0);
            a3_1 += csdf_load(init[3] + shift + 1);
            a3_2 += csdf_load(init[3] + shift + 2);
            a3_3 += csdf_load(init[3] + shift + 3);
            init += 4;
        }
        const float *p0 = table[0];
        const float *p1 = table[1];
        const float *p2 = table[2];
        const float *p3 = table[3];
        ptrdiff_t c = 0;
        for (; c + 8 <= count; c += 8, w += 128) {
            for (ptrdiff_t line = ahead; line < next + 128; line += beside)
                CSDF_PREFETCH(w + line);
            PRODUCTS(0) PRODUCTS(1) PRODUCTS(2) PRODUCTS(3) PRODUCTS(4) PRODUCTS(5) PRODUCTS(6) PRODUCTS(7)
        }
        for (; c < count; c++, w += 16) {
            PRODUCTS(0)
        }
        if (pass->activation.kind == CSDF_CLIP) {
            const csdf_v low = csdf_splat(pass->activation.a), high = csdf_splat(pass->activation.b);
            ALL(CLIPPED)
        } else if (pass->activation.kind == CSDF_LEAKY) {
            const csdf_v slope = csdf_splat(pass->activation.a), zero = csdf_splat(0.0f);
            ALL(LEAKING)
        }
        csdf_store(out[0] + shift + 0, a0_0);
        csdf_store(out[0] + shift + 1, a0_1);
        csdf_store(out[0] + shift + 2, a0_2);
        csdf_store(out[0] + shift + 3, a0_3);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 1, a1_1);
        csdf_store(out[1] + shift + 2, a1_2);
        csdf_store(out[1] + shift + 3, a1_3);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[2] + shift + 1, a2_1);
        csdf_store(out[2] + shift + 2, a2_2);
        csdf_store(out[2] + shift + 3, a2_3);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[3] + shift + 1, a3_1);
        csdf_store(out[3] + shift + 2, a3_2);
        csdf_store(out[3] + shift + 3, a3_3);
        table += 4;
        out += 4;
    }
}

#undef PRODUCTS
#undef ALL

static csdf_block *const blocks_4[] = {
    block_4x1, block_4x2, block_4x3, block_4x4,
};
static csdf_block *const runs_4[] = {
    run_4x1, run_4x2, run_4x3, run_4x4,
};

static const csdf_shape shapes[] = {
    {4, 4, 0, {blocks_4, runs_4}},
};
