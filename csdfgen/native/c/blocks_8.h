/* Written by csdfgen/native/generate.py: change that. */

#define CSDF_BLOCK_FLOATS 96
#define CSDF_BLOCK_PIXELS 12
#define CSDF_TURN 8

#define FMA(sum, x, w) sum = csdf_fma(x, w, sum);
#define CLIPPED(x) x = csdf_min(high, csdf_max(low, x));
#define LEAKING(x) x = csdf_max(zero, x) + slope * csdf_min(zero, x);

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); FMA(a0_0, x0, w0) \
        csdf_v w1 = csdf_load(w + 8 + 16 * k); CSDF_KEEP(w1); FMA(a0_1, x0, w1) \
        csdf_v w2 = csdf_load(w + 1 * panel + 0 + 16 * k); CSDF_KEEP(w2); FMA(a0_2, x0, w2) \
        csdf_v w3 = csdf_load(w + 1 * panel + 8 + 16 * k); CSDF_KEEP(w3); FMA(a0_3, x0, w3) \
        csdf_v w4 = csdf_load(w + 2 * panel + 0 + 16 * k); CSDF_KEEP(w4); FMA(a0_4, x0, w4) \
        csdf_v w5 = csdf_load(w + 2 * panel + 8 + 16 * k); CSDF_KEEP(w5); FMA(a0_5, x0, w5) \
        csdf_v w6 = csdf_load(w + 3 * panel + 0 + 16 * k); CSDF_KEEP(w6); FMA(a0_6, x0, w6) \
        csdf_v w7 = csdf_load(w + 3 * panel + 8 + 16 * k); CSDF_KEEP(w7); FMA(a0_7, x0, w7) \
    }
#define ALL(DO) DO(a0_0) DO(a0_1) DO(a0_2) DO(a0_3) DO(a0_4) DO(a0_5) DO(a0_6) DO(a0_7)

static void block_8x1(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t panel = pass->panel;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1, a0_2, a0_3, a0_4, a0_5, a0_6, a0_7;
        a0_0 = csdf_load(pass->bias + 0);
        a0_1 = csdf_load(pass->bias + 8);
        a0_2 = csdf_load(pass->bias + 16);
        a0_3 = csdf_load(pass->bias + 24);
        a0_4 = csdf_load(pass->bias + 32);
        a0_5 = csdf_load(pass->bias + 40);
        a0_6 = csdf_load(pass->bias + 48);
        a0_7 = csdf_load(pass->bias + 56);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
            a0_2 += csdf_load(init[0] + shift + 16);
            a0_3 += csdf_load(init[0] + shift + 24);
            a0_4 += csdf_load(init[0] + shift + 32);
            a0_5 += csdf_load(init[0] + shift + 40);
            a0_6 += csdf_load(init[0] + shift + 48);
            a0_7 += csdf_load(init[0] + shift + 56);
            init += 1;
        }
        CSDF_PREFETCH_OUT(out[0] + shift + 0);
        CSDF_PREFETCH_OUT(out[0] + shift + 16);
        CSDF_PREFETCH_OUT(out[0] + shift + 32);
        CSDF_PREFETCH_OUT(out[0] + shift + 48);
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
        csdf_store(out[0] + shift + 8, a0_1);
        csdf_store(out[0] + shift + 16, a0_2);
        csdf_store(out[0] + shift + 24, a0_3);
        csdf_store(out[0] + shift + 32, a0_4);
        csdf_store(out[0] + shift + 40, a0_5);
        csdf_store(out[0] + shift + 48, a0_6);
        csdf_store(out[0] + shift + 56, a0_7);
        table += 1;
        out += 1;
    }
}

static void run_8x1(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    const ptrdiff_t panel = pass->panel;
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1, a0_2, a0_3, a0_4, a0_5, a0_6, a0_7;
        a0_0 = csdf_load(pass->bias + 0);
        a0_1 = csdf_load(pass->bias + 8);
        a0_2 = csdf_load(pass->bias + 16);
        a0_3 = csdf_load(pass->bias + 24);
        a0_4 = csdf_load(pass->bias + 32);
        a0_5 = csdf_load(pass->bias + 40);
        a0_6 = csdf_load(pass->bias + 48);
        a0_7 = csdf_load(pass->bias + 56);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
            a0_2 += csdf_load(init[0] + shift + 16);
            a0_3 += csdf_load(init[0] + shift + 24);
            a0_4 += csdf_load(init[0] + shift + 32);
            a0_5 += csdf_load(init[0] + shift + 40);
            a0_6 += csdf_load(init[0] + shift + 48);
            a0_7 += csdf_load(init[0] + shift + 56);
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
        csdf_store(out[0] + shift + 8, a0_1);
        csdf_store(out[0] + shift + 16, a0_2);
        csdf_store(out[0] + shift + 24, a0_3);
        csdf_store(out[0] + shift + 32, a0_4);
        csdf_store(out[0] + shift + 40, a0_5);
        csdf_store(out[0] + shift + 48, a0_6);
        csdf_store(out[0] + shift + 56, a0_7);
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
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); FMA(a0_0, x0, w0) \
        csdf_v w1 = csdf_load(w + 8 + 16 * k); CSDF_KEEP(w1); FMA(a0_1, x0, w1) \
        csdf_v w2 = csdf_load(w + 1 * panel + 0 + 16 * k); CSDF_KEEP(w2); FMA(a0_2, x0, w2) \
        csdf_v w3 = csdf_load(w + 1 * panel + 8 + 16 * k); CSDF_KEEP(w3); FMA(a0_3, x0, w3) \
    }
#define ALL(DO) DO(a0_0) DO(a0_1) DO(a0_2) DO(a0_3)

static void block_4x1(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t panel = pass->panel;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1, a0_2, a0_3;
        a0_0 = csdf_load(pass->bias + 0);
        a0_1 = csdf_load(pass->bias + 8);
        a0_2 = csdf_load(pass->bias + 16);
        a0_3 = csdf_load(pass->bias + 24);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
            a0_2 += csdf_load(init[0] + shift + 16);
            a0_3 += csdf_load(init[0] + shift + 24);
            init += 1;
        }
        CSDF_PREFETCH_OUT(out[0] + shift + 0);
        CSDF_PREFETCH_OUT(out[0] + shift + 16);
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
        csdf_store(out[0] + shift + 8, a0_1);
        csdf_store(out[0] + shift + 16, a0_2);
        csdf_store(out[0] + shift + 24, a0_3);
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
    const ptrdiff_t panel = pass->panel;
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1, a0_2, a0_3;
        a0_0 = csdf_load(pass->bias + 0);
        a0_1 = csdf_load(pass->bias + 8);
        a0_2 = csdf_load(pass->bias + 16);
        a0_3 = csdf_load(pass->bias + 24);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
            a0_2 += csdf_load(init[0] + shift + 16);
            a0_3 += csdf_load(init[0] + shift + 24);
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
        csdf_store(out[0] + shift + 8, a0_1);
        csdf_store(out[0] + shift + 16, a0_2);
        csdf_store(out[0] + shift + 24, a0_3);
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
        csdf_v w1 = csdf_load(w + 8 + 16 * k); CSDF_KEEP(w1); FMA(a0_1, x0, w1) FMA(a1_1, x1, w1) \
        csdf_v w2 = csdf_load(w + 1 * panel + 0 + 16 * k); CSDF_KEEP(w2); FMA(a0_2, x0, w2) FMA(a1_2, x1, w2) \
        csdf_v w3 = csdf_load(w + 1 * panel + 8 + 16 * k); CSDF_KEEP(w3); FMA(a0_3, x0, w3) FMA(a1_3, x1, w3) \
    }
#define ALL(DO) DO(a0_0) DO(a0_1) DO(a0_2) DO(a0_3) DO(a1_0) DO(a1_1) DO(a1_2) DO(a1_3)

static void block_4x2(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t panel = pass->panel;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1, a0_2, a0_3;
        csdf_v a1_0, a1_1, a1_2, a1_3;
        a0_0 = a1_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = csdf_load(pass->bias + 8);
        a0_2 = a1_2 = csdf_load(pass->bias + 16);
        a0_3 = a1_3 = csdf_load(pass->bias + 24);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
            a0_2 += csdf_load(init[0] + shift + 16);
            a0_3 += csdf_load(init[0] + shift + 24);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 8);
            a1_2 += csdf_load(init[1] + shift + 16);
            a1_3 += csdf_load(init[1] + shift + 24);
            init += 2;
        }
        CSDF_PREFETCH_OUT(out[0] + shift + 0);
        CSDF_PREFETCH_OUT(out[0] + shift + 16);
        CSDF_PREFETCH_OUT(out[1] + shift + 0);
        CSDF_PREFETCH_OUT(out[1] + shift + 16);
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
        csdf_store(out[0] + shift + 8, a0_1);
        csdf_store(out[0] + shift + 16, a0_2);
        csdf_store(out[0] + shift + 24, a0_3);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 8, a1_1);
        csdf_store(out[1] + shift + 16, a1_2);
        csdf_store(out[1] + shift + 24, a1_3);
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
    const ptrdiff_t panel = pass->panel;
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1, a0_2, a0_3;
        csdf_v a1_0, a1_1, a1_2, a1_3;
        a0_0 = a1_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = csdf_load(pass->bias + 8);
        a0_2 = a1_2 = csdf_load(pass->bias + 16);
        a0_3 = a1_3 = csdf_load(pass->bias + 24);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
            a0_2 += csdf_load(init[0] + shift + 16);
            a0_3 += csdf_load(init[0] + shift + 24);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 8);
            a1_2 += csdf_load(init[1] + shift + 16);
            a1_3 += csdf_load(init[1] + shift + 24);
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
        csdf_store(out[0] + shift + 8, a0_1);
        csdf_store(out[0] + shift + 16, a0_2);
        csdf_store(out[0] + shift + 24, a0_3);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 8, a1_1);
        csdf_store(out[1] + shift + 16, a1_2);
        csdf_store(out[1] + shift + 24, a1_3);
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
        csdf_v w1 = csdf_load(w + 8 + 16 * k); CSDF_KEEP(w1); FMA(a0_1, x0, w1) FMA(a1_1, x1, w1) FMA(a2_1, x2, w1) \
        csdf_v w2 = csdf_load(w + 1 * panel + 0 + 16 * k); CSDF_KEEP(w2); FMA(a0_2, x0, w2) FMA(a1_2, x1, w2) FMA(a2_2, x2, w2) \
        csdf_v w3 = csdf_load(w + 1 * panel + 8 + 16 * k); CSDF_KEEP(w3); FMA(a0_3, x0, w3) FMA(a1_3, x1, w3) FMA(a2_3, x2, w3) \
    }
#define ALL(DO) DO(a0_0) DO(a0_1) DO(a0_2) DO(a0_3) DO(a1_0) DO(a1_1) DO(a1_2) DO(a1_3) \
    DO(a2_0) DO(a2_1) DO(a2_2) DO(a2_3)

static void block_4x3(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t panel = pass->panel;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1, a0_2, a0_3;
        csdf_v a1_0, a1_1, a1_2, a1_3;
        csdf_v a2_0, a2_1, a2_2, a2_3;
        a0_0 = a1_0 = a2_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = a2_1 = csdf_load(pass->bias + 8);
        a0_2 = a1_2 = a2_2 = csdf_load(pass->bias + 16);
        a0_3 = a1_3 = a2_3 = csdf_load(pass->bias + 24);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
            a0_2 += csdf_load(init[0] + shift + 16);
            a0_3 += csdf_load(init[0] + shift + 24);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 8);
            a1_2 += csdf_load(init[1] + shift + 16);
            a1_3 += csdf_load(init[1] + shift + 24);
            a2_0 += csdf_load(init[2] + shift + 0);
            a2_1 += csdf_load(init[2] + shift + 8);
            a2_2 += csdf_load(init[2] + shift + 16);
            a2_3 += csdf_load(init[2] + shift + 24);
            init += 3;
        }
        CSDF_PREFETCH_OUT(out[0] + shift + 0);
        CSDF_PREFETCH_OUT(out[0] + shift + 16);
        CSDF_PREFETCH_OUT(out[1] + shift + 0);
        CSDF_PREFETCH_OUT(out[1] + shift + 16);
        CSDF_PREFETCH_OUT(out[2] + shift + 0);
        CSDF_PREFETCH_OUT(out[2] + shift + 16);
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
        csdf_store(out[0] + shift + 8, a0_1);
        csdf_store(out[0] + shift + 16, a0_2);
        csdf_store(out[0] + shift + 24, a0_3);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 8, a1_1);
        csdf_store(out[1] + shift + 16, a1_2);
        csdf_store(out[1] + shift + 24, a1_3);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[2] + shift + 8, a2_1);
        csdf_store(out[2] + shift + 16, a2_2);
        csdf_store(out[2] + shift + 24, a2_3);
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
    const ptrdiff_t panel = pass->panel;
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1, a0_2, a0_3;
        csdf_v a1_0, a1_1, a1_2, a1_3;
        csdf_v a2_0, a2_1, a2_2, a2_3;
        a0_0 = a1_0 = a2_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = a2_1 = csdf_load(pass->bias + 8);
        a0_2 = a1_2 = a2_2 = csdf_load(pass->bias + 16);
        a0_3 = a1_3 = a2_3 = csdf_load(pass->bias + 24);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
            a0_2 += csdf_load(init[0] + shift + 16);
            a0_3 += csdf_load(init[0] + shift + 24);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 8);
            a1_2 += csdf_load(init[1] + shift + 16);
            a1_3 += csdf_load(init[1] + shift + 24);
            a2_0 += csdf_load(init[2] + shift + 0);
            a2_1 += csdf_load(init[2] + shift + 8);
            a2_2 += csdf_load(init[2] + shift + 16);
            a2_3 += csdf_load(init[2] + shift + 24);
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
        csdf_store(out[0] + shift + 8, a0_1);
        csdf_store(out[0] + shift + 16, a0_2);
        csdf_store(out[0] + shift + 24, a0_3);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 8, a1_1);
        csdf_store(out[1] + shift + 16, a1_2);
        csdf_store(out[1] + shift + 24, a1_3);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[2] + shift + 8, a2_1);
        csdf_store(out[2] + shift + 16, a2_2);
        csdf_store(out[2] + shift + 24, a2_3);
        table += 3;
        out += 3;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); FMA(a0_0, x0, w0) \
        csdf_v w1 = csdf_load(w + 8 + 16 * k); CSDF_KEEP(w1); FMA(a0_1, x0, w1) \
    }
#define ALL(DO) DO(a0_0) DO(a0_1)

static void block_2x1(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1;
        a0_0 = csdf_load(pass->bias + 0);
        a0_1 = csdf_load(pass->bias + 8);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
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
        csdf_store(out[0] + shift + 8, a0_1);
        table += 1;
        out += 1;
    }
}

static void run_2x1(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1;
        a0_0 = csdf_load(pass->bias + 0);
        a0_1 = csdf_load(pass->bias + 8);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
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
        csdf_store(out[0] + shift + 8, a0_1);
        table += 1;
        out += 1;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); \
        csdf_v w1 = csdf_load(w + 8 + 16 * k); CSDF_KEEP(w1); \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); FMA(a0_0, x0, w0) FMA(a0_1, x0, w1) \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); FMA(a1_0, x1, w0) FMA(a1_1, x1, w1) \
    }
#define ALL(DO) DO(a0_0) DO(a0_1) DO(a1_0) DO(a1_1)

static void block_2x2(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1;
        csdf_v a1_0, a1_1;
        a0_0 = a1_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = csdf_load(pass->bias + 8);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 8);
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
        csdf_store(out[0] + shift + 8, a0_1);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 8, a1_1);
        table += 2;
        out += 2;
    }
}

static void run_2x2(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1;
        csdf_v a1_0, a1_1;
        a0_0 = a1_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = csdf_load(pass->bias + 8);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 8);
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
        csdf_store(out[0] + shift + 8, a0_1);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 8, a1_1);
        table += 2;
        out += 2;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); \
        csdf_v w1 = csdf_load(w + 8 + 16 * k); CSDF_KEEP(w1); \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); FMA(a0_0, x0, w0) FMA(a0_1, x0, w1) \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); FMA(a1_0, x1, w0) FMA(a1_1, x1, w1) \
        csdf_v x2 = csdf_splat(p2[c + k]); CSDF_KEEP(x2); FMA(a2_0, x2, w0) FMA(a2_1, x2, w1) \
    }
#define ALL(DO) DO(a0_0) DO(a0_1) DO(a1_0) DO(a1_1) DO(a2_0) DO(a2_1)

static void block_2x3(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1;
        csdf_v a1_0, a1_1;
        csdf_v a2_0, a2_1;
        a0_0 = a1_0 = a2_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = a2_1 = csdf_load(pass->bias + 8);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 8);
            a2_0 += csdf_load(init[2] + shift + 0);
            a2_1 += csdf_load(init[2] + shift + 8);
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
        csdf_store(out[0] + shift + 8, a0_1);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 8, a1_1);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[2] + shift + 8, a2_1);
        table += 3;
        out += 3;
    }
}

static void run_2x3(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1;
        csdf_v a1_0, a1_1;
        csdf_v a2_0, a2_1;
        a0_0 = a1_0 = a2_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = a2_1 = csdf_load(pass->bias + 8);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 8);
            a2_0 += csdf_load(init[2] + shift + 0);
            a2_1 += csdf_load(init[2] + shift + 8);
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
        csdf_store(out[0] + shift + 8, a0_1);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 8, a1_1);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[2] + shift + 8, a2_1);
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
        csdf_v w1 = csdf_load(w + 8 + 16 * k); CSDF_KEEP(w1); \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); FMA(a0_0, x0, w0) FMA(a0_1, x0, w1) \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); FMA(a1_0, x1, w0) FMA(a1_1, x1, w1) \
        csdf_v x2 = csdf_splat(p2[c + k]); CSDF_KEEP(x2); FMA(a2_0, x2, w0) FMA(a2_1, x2, w1) \
        csdf_v x3 = csdf_splat(p3[c + k]); CSDF_KEEP(x3); FMA(a3_0, x3, w0) FMA(a3_1, x3, w1) \
    }
#define ALL(DO) DO(a0_0) DO(a0_1) DO(a1_0) DO(a1_1) DO(a2_0) DO(a2_1) DO(a3_0) DO(a3_1)

static void block_2x4(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1;
        csdf_v a1_0, a1_1;
        csdf_v a2_0, a2_1;
        csdf_v a3_0, a3_1;
        a0_0 = a1_0 = a2_0 = a3_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = a2_1 = a3_1 = csdf_load(pass->bias + 8);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 8);
            a2_0 += csdf_load(init[2] + shift + 0);
            a2_1 += csdf_load(init[2] + shift + 8);
            a3_0 += csdf_load(init[3] + shift + 0);
            a3_1 += csdf_load(init[3] + shift + 8);
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
        csdf_store(out[0] + shift + 8, a0_1);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 8, a1_1);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[2] + shift + 8, a2_1);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[3] + shift + 8, a3_1);
        table += 4;
        out += 4;
    }
}

static void run_2x4(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1;
        csdf_v a1_0, a1_1;
        csdf_v a2_0, a2_1;
        csdf_v a3_0, a3_1;
        a0_0 = a1_0 = a2_0 = a3_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = a2_1 = a3_1 = csdf_load(pass->bias + 8);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 8);
            a2_0 += csdf_load(init[2] + shift + 0);
            a2_1 += csdf_load(init[2] + shift + 8);
            a3_0 += csdf_load(init[3] + shift + 0);
            a3_1 += csdf_load(init[3] + shift + 8);
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
        csdf_store(out[0] + shift + 8, a0_1);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 8, a1_1);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[2] + shift + 8, a2_1);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[3] + shift + 8, a3_1);
        table += 4;
        out += 4;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); \
        csdf_v w1 = csdf_load(w + 8 + 16 * k); CSDF_KEEP(w1); \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); FMA(a0_0, x0, w0) FMA(a0_1, x0, w1) \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); FMA(a1_0, x1, w0) FMA(a1_1, x1, w1) \
        csdf_v x2 = csdf_splat(p2[c + k]); CSDF_KEEP(x2); FMA(a2_0, x2, w0) FMA(a2_1, x2, w1) \
        csdf_v x3 = csdf_splat(p3[c + k]); CSDF_KEEP(x3); FMA(a3_0, x3, w0) FMA(a3_1, x3, w1) \
        csdf_v x4 = csdf_splat(p4[c + k]); CSDF_KEEP(x4); FMA(a4_0, x4, w0) FMA(a4_1, x4, w1) \
    }
#define ALL(DO) DO(a0_0) DO(a0_1) DO(a1_0) DO(a1_1) DO(a2_0) DO(a2_1) DO(a3_0) DO(a3_1) \
    DO(a4_0) DO(a4_1)

static void block_2x5(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1;
        csdf_v a1_0, a1_1;
        csdf_v a2_0, a2_1;
        csdf_v a3_0, a3_1;
        csdf_v a4_0, a4_1;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = a2_1 = a3_1 = a4_1 = csdf_load(pass->bias + 8);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 8);
            a2_0 += csdf_load(init[2] + shift + 0);
            a2_1 += csdf_load(init[2] + shift + 8);
            a3_0 += csdf_load(init[3] + shift + 0);
            a3_1 += csdf_load(init[3] + shift + 8);
            a4_0 += csdf_load(init[4] + shift + 0);
            a4_1 += csdf_load(init[4] + shift + 8);
            init += 5;
        }
        CSDF_PREFETCH_OUT(out[0] + shift + 0);
        CSDF_PREFETCH_OUT(out[1] + shift + 0);
        CSDF_PREFETCH_OUT(out[2] + shift + 0);
        CSDF_PREFETCH_OUT(out[3] + shift + 0);
        CSDF_PREFETCH_OUT(out[4] + shift + 0);
        for (int32_t tap = 0; tap < pass->taps; tap++, w += pass->skip) {
            for (int32_t i = 0; i < pass->pieces; i++, t += pass->pixels) {
                const ptrdiff_t count = pass->counts[i];
                const float *p0 = t[0];
                const float *p1 = t[1];
                const float *p2 = t[2];
                const float *p3 = t[3];
                const float *p4 = t[4];
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
        csdf_store(out[0] + shift + 8, a0_1);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 8, a1_1);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[2] + shift + 8, a2_1);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[3] + shift + 8, a3_1);
        csdf_store(out[4] + shift + 0, a4_0);
        csdf_store(out[4] + shift + 8, a4_1);
        table += 5;
        out += 5;
    }
}

static void run_2x5(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1;
        csdf_v a1_0, a1_1;
        csdf_v a2_0, a2_1;
        csdf_v a3_0, a3_1;
        csdf_v a4_0, a4_1;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = a2_1 = a3_1 = a4_1 = csdf_load(pass->bias + 8);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 8);
            a2_0 += csdf_load(init[2] + shift + 0);
            a2_1 += csdf_load(init[2] + shift + 8);
            a3_0 += csdf_load(init[3] + shift + 0);
            a3_1 += csdf_load(init[3] + shift + 8);
            a4_0 += csdf_load(init[4] + shift + 0);
            a4_1 += csdf_load(init[4] + shift + 8);
            init += 5;
        }
        const float *p0 = table[0];
        const float *p1 = table[1];
        const float *p2 = table[2];
        const float *p3 = table[3];
        const float *p4 = table[4];
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
        csdf_store(out[0] + shift + 8, a0_1);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 8, a1_1);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[2] + shift + 8, a2_1);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[3] + shift + 8, a3_1);
        csdf_store(out[4] + shift + 0, a4_0);
        csdf_store(out[4] + shift + 8, a4_1);
        table += 5;
        out += 5;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); \
        csdf_v w1 = csdf_load(w + 8 + 16 * k); CSDF_KEEP(w1); \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); FMA(a0_0, x0, w0) FMA(a0_1, x0, w1) \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); FMA(a1_0, x1, w0) FMA(a1_1, x1, w1) \
        csdf_v x2 = csdf_splat(p2[c + k]); CSDF_KEEP(x2); FMA(a2_0, x2, w0) FMA(a2_1, x2, w1) \
        csdf_v x3 = csdf_splat(p3[c + k]); CSDF_KEEP(x3); FMA(a3_0, x3, w0) FMA(a3_1, x3, w1) \
        csdf_v x4 = csdf_splat(p4[c + k]); CSDF_KEEP(x4); FMA(a4_0, x4, w0) FMA(a4_1, x4, w1) \
        csdf_v x5 = csdf_splat(p5[c + k]); CSDF_KEEP(x5); FMA(a5_0, x5, w0) FMA(a5_1, x5, w1) \
    }
#define ALL(DO) DO(a0_0) DO(a0_1) DO(a1_0) DO(a1_1) DO(a2_0) DO(a2_1) DO(a3_0) DO(a3_1) \
    DO(a4_0) DO(a4_1) DO(a5_0) DO(a5_1)

static void block_2x6(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1;
        csdf_v a1_0, a1_1;
        csdf_v a2_0, a2_1;
        csdf_v a3_0, a3_1;
        csdf_v a4_0, a4_1;
        csdf_v a5_0, a5_1;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = a5_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = a2_1 = a3_1 = a4_1 = a5_1 = csdf_load(pass->bias + 8);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 8);
            a2_0 += csdf_load(init[2] + shift + 0);
            a2_1 += csdf_load(init[2] + shift + 8);
            a3_0 += csdf_load(init[3] + shift + 0);
            a3_1 += csdf_load(init[3] + shift + 8);
            a4_0 += csdf_load(init[4] + shift + 0);
            a4_1 += csdf_load(init[4] + shift + 8);
            a5_0 += csdf_load(init[5] + shift + 0);
            a5_1 += csdf_load(init[5] + shift + 8);
            init += 6;
        }
        CSDF_PREFETCH_OUT(out[0] + shift + 0);
        CSDF_PREFETCH_OUT(out[1] + shift + 0);
        CSDF_PREFETCH_OUT(out[2] + shift + 0);
        CSDF_PREFETCH_OUT(out[3] + shift + 0);
        CSDF_PREFETCH_OUT(out[4] + shift + 0);
        CSDF_PREFETCH_OUT(out[5] + shift + 0);
        for (int32_t tap = 0; tap < pass->taps; tap++, w += pass->skip) {
            for (int32_t i = 0; i < pass->pieces; i++, t += pass->pixels) {
                const ptrdiff_t count = pass->counts[i];
                const float *p0 = t[0];
                const float *p1 = t[1];
                const float *p2 = t[2];
                const float *p3 = t[3];
                const float *p4 = t[4];
                const float *p5 = t[5];
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
        csdf_store(out[0] + shift + 8, a0_1);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 8, a1_1);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[2] + shift + 8, a2_1);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[3] + shift + 8, a3_1);
        csdf_store(out[4] + shift + 0, a4_0);
        csdf_store(out[4] + shift + 8, a4_1);
        csdf_store(out[5] + shift + 0, a5_0);
        csdf_store(out[5] + shift + 8, a5_1);
        table += 6;
        out += 6;
    }
}

static void run_2x6(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0, a0_1;
        csdf_v a1_0, a1_1;
        csdf_v a2_0, a2_1;
        csdf_v a3_0, a3_1;
        csdf_v a4_0, a4_1;
        csdf_v a5_0, a5_1;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = a5_0 = csdf_load(pass->bias + 0);
        a0_1 = a1_1 = a2_1 = a3_1 = a4_1 = a5_1 = csdf_load(pass->bias + 8);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a0_1 += csdf_load(init[0] + shift + 8);
            a1_0 += csdf_load(init[1] + shift + 0);
            a1_1 += csdf_load(init[1] + shift + 8);
            a2_0 += csdf_load(init[2] + shift + 0);
            a2_1 += csdf_load(init[2] + shift + 8);
            a3_0 += csdf_load(init[3] + shift + 0);
            a3_1 += csdf_load(init[3] + shift + 8);
            a4_0 += csdf_load(init[4] + shift + 0);
            a4_1 += csdf_load(init[4] + shift + 8);
            a5_0 += csdf_load(init[5] + shift + 0);
            a5_1 += csdf_load(init[5] + shift + 8);
            init += 6;
        }
        const float *p0 = table[0];
        const float *p1 = table[1];
        const float *p2 = table[2];
        const float *p3 = table[3];
        const float *p4 = table[4];
        const float *p5 = table[5];
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
        csdf_store(out[0] + shift + 8, a0_1);
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[1] + shift + 8, a1_1);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[2] + shift + 8, a2_1);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[3] + shift + 8, a3_1);
        csdf_store(out[4] + shift + 0, a4_0);
        csdf_store(out[4] + shift + 8, a4_1);
        csdf_store(out[5] + shift + 0, a5_0);
        csdf_store(out[5] + shift + 8, a5_1);
        table += 6;
        out += 6;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); FMA(a0_0, x0, w0) \
    }
#define ALL(DO) DO(a0_0)

static void block_1x1(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        a0_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
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
        table += 1;
        out += 1;
    }
}

static void run_1x1(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        a0_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
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
        table += 1;
        out += 1;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); FMA(a0_0, x0, w0) \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); FMA(a1_0, x1, w0) \
    }
#define ALL(DO) DO(a0_0) DO(a1_0)

static void block_1x2(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        a0_0 = a1_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
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
        csdf_store(out[1] + shift + 0, a1_0);
        table += 2;
        out += 2;
    }
}

static void run_1x2(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        a0_0 = a1_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
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
        csdf_store(out[1] + shift + 0, a1_0);
        table += 2;
        out += 2;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); FMA(a0_0, x0, w0) \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); FMA(a1_0, x1, w0) \
        csdf_v x2 = csdf_splat(p2[c + k]); CSDF_KEEP(x2); FMA(a2_0, x2, w0) \
    }
#define ALL(DO) DO(a0_0) DO(a1_0) DO(a2_0)

static void block_1x3(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        a0_0 = a1_0 = a2_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        table += 3;
        out += 3;
    }
}

static void run_1x3(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        a0_0 = a1_0 = a2_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
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
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); FMA(a0_0, x0, w0) \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); FMA(a1_0, x1, w0) \
        csdf_v x2 = csdf_splat(p2[c + k]); CSDF_KEEP(x2); FMA(a2_0, x2, w0) \
        csdf_v x3 = csdf_splat(p3[c + k]); CSDF_KEEP(x3); FMA(a3_0, x3, w0) \
    }
#define ALL(DO) DO(a0_0) DO(a1_0) DO(a2_0) DO(a3_0)

static void block_1x4(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        csdf_v a3_0;
        a0_0 = a1_0 = a2_0 = a3_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
            a3_0 += csdf_load(init[3] + shift + 0);
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[3] + shift + 0, a3_0);
        table += 4;
        out += 4;
    }
}

static void run_1x4(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        csdf_v a3_0;
        a0_0 = a1_0 = a2_0 = a3_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
            a3_0 += csdf_load(init[3] + shift + 0);
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[3] + shift + 0, a3_0);
        table += 4;
        out += 4;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); FMA(a0_0, x0, w0) \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); FMA(a1_0, x1, w0) \
        csdf_v x2 = csdf_splat(p2[c + k]); CSDF_KEEP(x2); FMA(a2_0, x2, w0) \
        csdf_v x3 = csdf_splat(p3[c + k]); CSDF_KEEP(x3); FMA(a3_0, x3, w0) \
        csdf_v x4 = csdf_splat(p4[c + k]); CSDF_KEEP(x4); FMA(a4_0, x4, w0) \
    }
#define ALL(DO) DO(a0_0) DO(a1_0) DO(a2_0) DO(a3_0) DO(a4_0)

static void block_1x5(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        csdf_v a3_0;
        csdf_v a4_0;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
            a3_0 += csdf_load(init[3] + shift + 0);
            a4_0 += csdf_load(init[4] + shift + 0);
            init += 5;
        }
        CSDF_PREFETCH_OUT(out[0] + shift + 0);
        CSDF_PREFETCH_OUT(out[1] + shift + 0);
        CSDF_PREFETCH_OUT(out[2] + shift + 0);
        CSDF_PREFETCH_OUT(out[3] + shift + 0);
        CSDF_PREFETCH_OUT(out[4] + shift + 0);
        for (int32_t tap = 0; tap < pass->taps; tap++, w += pass->skip) {
            for (int32_t i = 0; i < pass->pieces; i++, t += pass->pixels) {
                const ptrdiff_t count = pass->counts[i];
                const float *p0 = t[0];
                const float *p1 = t[1];
                const float *p2 = t[2];
                const float *p3 = t[3];
                const float *p4 = t[4];
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[4] + shift + 0, a4_0);
        table += 5;
        out += 5;
    }
}

static void run_1x5(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        csdf_v a3_0;
        csdf_v a4_0;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
            a3_0 += csdf_load(init[3] + shift + 0);
            a4_0 += csdf_load(init[4] + shift + 0);
            init += 5;
        }
        const float *p0 = table[0];
        const float *p1 = table[1];
        const float *p2 = table[2];
        const float *p3 = table[3];
        const float *p4 = table[4];
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[4] + shift + 0, a4_0);
        table += 5;
        out += 5;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); FMA(a0_0, x0, w0) \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); FMA(a1_0, x1, w0) \
        csdf_v x2 = csdf_splat(p2[c + k]); CSDF_KEEP(x2); FMA(a2_0, x2, w0) \
        csdf_v x3 = csdf_splat(p3[c + k]); CSDF_KEEP(x3); FMA(a3_0, x3, w0) \
        csdf_v x4 = csdf_splat(p4[c + k]); CSDF_KEEP(x4); FMA(a4_0, x4, w0) \
        csdf_v x5 = csdf_splat(p5[c + k]); CSDF_KEEP(x5); FMA(a5_0, x5, w0) \
    }
#define ALL(DO) DO(a0_0) DO(a1_0) DO(a2_0) DO(a3_0) DO(a4_0) DO(a5_0)

static void block_1x6(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        csdf_v a3_0;
        csdf_v a4_0;
        csdf_v a5_0;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = a5_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
            a3_0 += csdf_load(init[3] + shift + 0);
            a4_0 += csdf_load(init[4] + shift + 0);
            a5_0 += csdf_load(init[5] + shift + 0);
            init += 6;
        }
        CSDF_PREFETCH_OUT(out[0] + shift + 0);
        CSDF_PREFETCH_OUT(out[1] + shift + 0);
        CSDF_PREFETCH_OUT(out[2] + shift + 0);
        CSDF_PREFETCH_OUT(out[3] + shift + 0);
        CSDF_PREFETCH_OUT(out[4] + shift + 0);
        CSDF_PREFETCH_OUT(out[5] + shift + 0);
        for (int32_t tap = 0; tap < pass->taps; tap++, w += pass->skip) {
            for (int32_t i = 0; i < pass->pieces; i++, t += pass->pixels) {
                const ptrdiff_t count = pass->counts[i];
                const float *p0 = t[0];
                const float *p1 = t[1];
                const float *p2 = t[2];
                const float *p3 = t[3];
                const float *p4 = t[4];
                const float *p5 = t[5];
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[4] + shift + 0, a4_0);
        csdf_store(out[5] + shift + 0, a5_0);
        table += 6;
        out += 6;
    }
}

static void run_1x6(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        csdf_v a3_0;
        csdf_v a4_0;
        csdf_v a5_0;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = a5_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
            a3_0 += csdf_load(init[3] + shift + 0);
            a4_0 += csdf_load(init[4] + shift + 0);
            a5_0 += csdf_load(init[5] + shift + 0);
            init += 6;
        }
        const float *p0 = table[0];
        const float *p1 = table[1];
        const float *p2 = table[2];
        const float *p3 = table[3];
        const float *p4 = table[4];
        const float *p5 = table[5];
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[4] + shift + 0, a4_0);
        csdf_store(out[5] + shift + 0, a5_0);
        table += 6;
        out += 6;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); FMA(a0_0, x0, w0) \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); FMA(a1_0, x1, w0) \
        csdf_v x2 = csdf_splat(p2[c + k]); CSDF_KEEP(x2); FMA(a2_0, x2, w0) \
        csdf_v x3 = csdf_splat(p3[c + k]); CSDF_KEEP(x3); FMA(a3_0, x3, w0) \
        csdf_v x4 = csdf_splat(p4[c + k]); CSDF_KEEP(x4); FMA(a4_0, x4, w0) \
        csdf_v x5 = csdf_splat(p5[c + k]); CSDF_KEEP(x5); FMA(a5_0, x5, w0) \
        csdf_v x6 = csdf_splat(p6[c + k]); CSDF_KEEP(x6); FMA(a6_0, x6, w0) \
    }
#define ALL(DO) DO(a0_0) DO(a1_0) DO(a2_0) DO(a3_0) DO(a4_0) DO(a5_0) DO(a6_0)

static void block_1x7(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        csdf_v a3_0;
        csdf_v a4_0;
        csdf_v a5_0;
        csdf_v a6_0;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = a5_0 = a6_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
            a3_0 += csdf_load(init[3] + shift + 0);
            a4_0 += csdf_load(init[4] + shift + 0);
            a5_0 += csdf_load(init[5] + shift + 0);
            a6_0 += csdf_load(init[6] + shift + 0);
            init += 7;
        }
        CSDF_PREFETCH_OUT(out[0] + shift + 0);
        CSDF_PREFETCH_OUT(out[1] + shift + 0);
        CSDF_PREFETCH_OUT(out[2] + shift + 0);
        CSDF_PREFETCH_OUT(out[3] + shift + 0);
        CSDF_PREFETCH_OUT(out[4] + shift + 0);
        CSDF_PREFETCH_OUT(out[5] + shift + 0);
        CSDF_PREFETCH_OUT(out[6] + shift + 0);
        for (int32_t tap = 0; tap < pass->taps; tap++, w += pass->skip) {
            for (int32_t i = 0; i < pass->pieces; i++, t += pass->pixels) {
                const ptrdiff_t count = pass->counts[i];
                const float *p0 = t[0];
                const float *p1 = t[1];
                const float *p2 = t[2];
                const float *p3 = t[3];
                const float *p4 = t[4];
                const float *p5 = t[5];
                const float *p6 = t[6];
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[4] + shift + 0, a4_0);
        csdf_store(out[5] + shift + 0, a5_0);
        csdf_store(out[6] + shift + 0, a6_0);
        table += 7;
        out += 7;
    }
}

static void run_1x7(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        csdf_v a3_0;
        csdf_v a4_0;
        csdf_v a5_0;
        csdf_v a6_0;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = a5_0 = a6_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
            a3_0 += csdf_load(init[3] + shift + 0);
            a4_0 += csdf_load(init[4] + shift + 0);
            a5_0 += csdf_load(init[5] + shift + 0);
            a6_0 += csdf_load(init[6] + shift + 0);
            init += 7;
        }
        const float *p0 = table[0];
        const float *p1 = table[1];
        const float *p2 = table[2];
        const float *p3 = table[3];
        const float *p4 = table[4];
        const float *p5 = table[5];
        const float *p6 = table[6];
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[4] + shift + 0, a4_0);
        csdf_store(out[5] + shift + 0, a5_0);
        csdf_store(out[6] + shift + 0, a6_0);
        table += 7;
        out += 7;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); FMA(a0_0, x0, w0) \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); FMA(a1_0, x1, w0) \
        csdf_v x2 = csdf_splat(p2[c + k]); CSDF_KEEP(x2); FMA(a2_0, x2, w0) \
        csdf_v x3 = csdf_splat(p3[c + k]); CSDF_KEEP(x3); FMA(a3_0, x3, w0) \
        csdf_v x4 = csdf_splat(p4[c + k]); CSDF_KEEP(x4); FMA(a4_0, x4, w0) \
        csdf_v x5 = csdf_splat(p5[c + k]); CSDF_KEEP(x5); FMA(a5_0, x5, w0) \
        csdf_v x6 = csdf_splat(p6[c + k]); CSDF_KEEP(x6); FMA(a6_0, x6, w0) \
        csdf_v x7 = csdf_splat(p7[c + k]); CSDF_KEEP(x7); FMA(a7_0, x7, w0) \
    }
#define ALL(DO) DO(a0_0) DO(a1_0) DO(a2_0) DO(a3_0) DO(a4_0) DO(a5_0) DO(a6_0) DO(a7_0)

static void block_1x8(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        csdf_v a3_0;
        csdf_v a4_0;
        csdf_v a5_0;
        csdf_v a6_0;
        csdf_v a7_0;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = a5_0 = a6_0 = a7_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
            a3_0 += csdf_load(init[3] + shift + 0);
            a4_0 += csdf_load(init[4] + shift + 0);
            a5_0 += csdf_load(init[5] + shift + 0);
            a6_0 += csdf_load(init[6] + shift + 0);
            a7_0 += csdf_load(init[7] + shift + 0);
            init += 8;
        }
        CSDF_PREFETCH_OUT(out[0] + shift + 0);
        CSDF_PREFETCH_OUT(out[1] + shift + 0);
        CSDF_PREFETCH_OUT(out[2] + shift + 0);
        CSDF_PREFETCH_OUT(out[3] + shift + 0);
        CSDF_PREFETCH_OUT(out[4] + shift + 0);
        CSDF_PREFETCH_OUT(out[5] + shift + 0);
        CSDF_PREFETCH_OUT(out[6] + shift + 0);
        CSDF_PREFETCH_OUT(out[7] + shift + 0);
        for (int32_t tap = 0; tap < pass->taps; tap++, w += pass->skip) {
            for (int32_t i = 0; i < pass->pieces; i++, t += pass->pixels) {
                const ptrdiff_t count = pass->counts[i];
                const float *p0 = t[0];
                const float *p1 = t[1];
                const float *p2 = t[2];
                const float *p3 = t[3];
                const float *p4 = t[4];
                const float *p5 = t[5];
                const float *p6 = t[6];
                const float *p7 = t[7];
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[4] + shift + 0, a4_0);
        csdf_store(out[5] + shift + 0, a5_0);
        csdf_store(out[6] + shift + 0, a6_0);
        csdf_store(out[7] + shift + 0, a7_0);
        table += 8;
        out += 8;
    }
}

static void run_1x8(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        csdf_v a3_0;
        csdf_v a4_0;
        csdf_v a5_0;
        csdf_v a6_0;
        csdf_v a7_0;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = a5_0 = a6_0 = a7_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
            a3_0 += csdf_load(init[3] + shift + 0);
            a4_0 += csdf_load(init[4] + shift + 0);
            a5_0 += csdf_load(init[5] + shift + 0);
            a6_0 += csdf_load(init[6] + shift + 0);
            a7_0 += csdf_load(init[7] + shift + 0);
            init += 8;
        }
        const float *p0 = table[0];
        const float *p1 = table[1];
        const float *p2 = table[2];
        const float *p3 = table[3];
        const float *p4 = table[4];
        const float *p5 = table[5];
        const float *p6 = table[6];
        const float *p7 = table[7];
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[4] + shift + 0, a4_0);
        csdf_store(out[5] + shift + 0, a5_0);
        csdf_store(out[6] + shift + 0, a6_0);
        csdf_store(out[7] + shift + 0, a7_0);
        table += 8;
        out += 8;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); FMA(a0_0, x0, w0) \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); FMA(a1_0, x1, w0) \
        csdf_v x2 = csdf_splat(p2[c + k]); CSDF_KEEP(x2); FMA(a2_0, x2, w0) \
        csdf_v x3 = csdf_splat(p3[c + k]); CSDF_KEEP(x3); FMA(a3_0, x3, w0) \
        csdf_v x4 = csdf_splat(p4[c + k]); CSDF_KEEP(x4); FMA(a4_0, x4, w0) \
        csdf_v x5 = csdf_splat(p5[c + k]); CSDF_KEEP(x5); FMA(a5_0, x5, w0) \
        csdf_v x6 = csdf_splat(p6[c + k]); CSDF_KEEP(x6); FMA(a6_0, x6, w0) \
        csdf_v x7 = csdf_splat(p7[c + k]); CSDF_KEEP(x7); FMA(a7_0, x7, w0) \
        csdf_v x8 = csdf_splat(p8[c + k]); CSDF_KEEP(x8); FMA(a8_0, x8, w0) \
    }
#define ALL(DO) DO(a0_0) DO(a1_0) DO(a2_0) DO(a3_0) DO(a4_0) DO(a5_0) DO(a6_0) DO(a7_0) \
    DO(a8_0)

static void block_1x9(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        csdf_v a3_0;
        csdf_v a4_0;
        csdf_v a5_0;
        csdf_v a6_0;
        csdf_v a7_0;
        csdf_v a8_0;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = a5_0 = a6_0 = a7_0 = a8_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
            a3_0 += csdf_load(init[3] + shift + 0);
            a4_0 += csdf_load(init[4] + shift + 0);
            a5_0 += csdf_load(init[5] + shift + 0);
            a6_0 += csdf_load(init[6] + shift + 0);
            a7_0 += csdf_load(init[7] + shift + 0);
            a8_0 += csdf_load(init[8] + shift + 0);
            init += 9;
        }
        CSDF_PREFETCH_OUT(out[0] + shift + 0);
        CSDF_PREFETCH_OUT(out[1] + shift + 0);
        CSDF_PREFETCH_OUT(out[2] + shift + 0);
        CSDF_PREFETCH_OUT(out[3] + shift + 0);
        CSDF_PREFETCH_OUT(out[4] + shift + 0);
        CSDF_PREFETCH_OUT(out[5] + shift + 0);
        CSDF_PREFETCH_OUT(out[6] + shift + 0);
        CSDF_PREFETCH_OUT(out[7] + shift + 0);
        CSDF_PREFETCH_OUT(out[8] + shift + 0);
        for (int32_t tap = 0; tap < pass->taps; tap++, w += pass->skip) {
            for (int32_t i = 0; i < pass->pieces; i++, t += pass->pixels) {
                const ptrdiff_t count = pass->counts[i];
                const float *p0 = t[0];
                const float *p1 = t[1];
                const float *p2 = t[2];
                const float *p3 = t[3];
                const float *p4 = t[4];
                const float *p5 = t[5];
                const float *p6 = t[6];
                const float *p7 = t[7];
                const float *p8 = t[8];
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[4] + shift + 0, a4_0);
        csdf_store(out[5] + shift + 0, a5_0);
        csdf_store(out[6] + shift + 0, a6_0);
        csdf_store(out[7] + shift + 0, a7_0);
        csdf_store(out[8] + shift + 0, a8_0);
        table += 9;
        out += 9;
    }
}

static void run_1x9(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        csdf_v a3_0;
        csdf_v a4_0;
        csdf_v a5_0;
        csdf_v a6_0;
        csdf_v a7_0;
        csdf_v a8_0;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = a5_0 = a6_0 = a7_0 = a8_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
            a3_0 += csdf_load(init[3] + shift + 0);
            a4_0 += csdf_load(init[4] + shift + 0);
            a5_0 += csdf_load(init[5] + shift + 0);
            a6_0 += csdf_load(init[6] + shift + 0);
            a7_0 += csdf_load(init[7] + shift + 0);
            a8_0 += csdf_load(init[8] + shift + 0);
            init += 9;
        }
        const float *p0 = table[0];
        const float *p1 = table[1];
        const float *p2 = table[2];
        const float *p3 = table[3];
        const float *p4 = table[4];
        const float *p5 = table[5];
        const float *p6 = table[6];
        const float *p7 = table[7];
        const float *p8 = table[8];
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[4] + shift + 0, a4_0);
        csdf_store(out[5] + shift + 0, a5_0);
        csdf_store(out[6] + shift + 0, a6_0);
        csdf_store(out[7] + shift + 0, a7_0);
        csdf_store(out[8] + shift + 0, a8_0);
        table += 9;
        out += 9;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); FMA(a0_0, x0, w0) \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); FMA(a1_0, x1, w0) \
        csdf_v x2 = csdf_splat(p2[c + k]); CSDF_KEEP(x2); FMA(a2_0, x2, w0) \
        csdf_v x3 = csdf_splat(p3[c + k]); CSDF_KEEP(x3); FMA(a3_0, x3, w0) \
        csdf_v x4 = csdf_splat(p4[c + k]); CSDF_KEEP(x4); FMA(a4_0, x4, w0) \
        csdf_v x5 = csdf_splat(p5[c + k]); CSDF_KEEP(x5); FMA(a5_0, x5, w0) \
        csdf_v x6 = csdf_splat(p6[c + k]); CSDF_KEEP(x6); FMA(a6_0, x6, w0) \
        csdf_v x7 = csdf_splat(p7[c + k]); CSDF_KEEP(x7); FMA(a7_0, x7, w0) \
        csdf_v x8 = csdf_splat(p8[c + k]); CSDF_KEEP(x8); FMA(a8_0, x8, w0) \
        csdf_v x9 = csdf_splat(p9[c + k]); CSDF_KEEP(x9); FMA(a9_0, x9, w0) \
    }
#define ALL(DO) DO(a0_0) DO(a1_0) DO(a2_0) DO(a3_0) DO(a4_0) DO(a5_0) DO(a6_0) DO(a7_0) \
    DO(a8_0) DO(a9_0)

static void block_1x10(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        csdf_v a3_0;
        csdf_v a4_0;
        csdf_v a5_0;
        csdf_v a6_0;
        csdf_v a7_0;
        csdf_v a8_0;
        csdf_v a9_0;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = a5_0 = a6_0 = a7_0 = a8_0 = a9_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
            a3_0 += csdf_load(init[3] + shift + 0);
            a4_0 += csdf_load(init[4] + shift + 0);
            a5_0 += csdf_load(init[5] + shift + 0);
            a6_0 += csdf_load(init[6] + shift + 0);
            a7_0 += csdf_load(init[7] + shift + 0);
            a8_0 += csdf_load(init[8] + shift + 0);
            a9_0 += csdf_load(init[9] + shift + 0);
            init += 10;
        }
        CSDF_PREFETCH_OUT(out[0] + shift + 0);
        CSDF_PREFETCH_OUT(out[1] + shift + 0);
        CSDF_PREFETCH_OUT(out[2] + shift + 0);
        CSDF_PREFETCH_OUT(out[3] + shift + 0);
        CSDF_PREFETCH_OUT(out[4] + shift + 0);
        CSDF_PREFETCH_OUT(out[5] + shift + 0);
        CSDF_PREFETCH_OUT(out[6] + shift + 0);
        CSDF_PREFETCH_OUT(out[7] + shift + 0);
        CSDF_PREFETCH_OUT(out[8] + shift + 0);
        CSDF_PREFETCH_OUT(out[9] + shift + 0);
        for (int32_t tap = 0; tap < pass->taps; tap++, w += pass->skip) {
            for (int32_t i = 0; i < pass->pieces; i++, t += pass->pixels) {
                const ptrdiff_t count = pass->counts[i];
                const float *p0 = t[0];
                const float *p1 = t[1];
                const float *p2 = t[2];
                const float *p3 = t[3];
                const float *p4 = t[4];
                const float *p5 = t[5];
                const float *p6 = t[6];
                const float *p7 = t[7];
                const float *p8 = t[8];
                const float *p9 = t[9];
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[4] + shift + 0, a4_0);
        csdf_store(out[5] + shift + 0, a5_0);
        csdf_store(out[6] + shift + 0, a6_0);
        csdf_store(out[7] + shift + 0, a7_0);
        csdf_store(out[8] + shift + 0, a8_0);
        csdf_store(out[9] + shift + 0, a9_0);
        table += 10;
        out += 10;
    }
}

static void run_1x10(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        csdf_v a3_0;
        csdf_v a4_0;
        csdf_v a5_0;
        csdf_v a6_0;
        csdf_v a7_0;
        csdf_v a8_0;
        csdf_v a9_0;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = a5_0 = a6_0 = a7_0 = a8_0 = a9_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
            a3_0 += csdf_load(init[3] + shift + 0);
            a4_0 += csdf_load(init[4] + shift + 0);
            a5_0 += csdf_load(init[5] + shift + 0);
            a6_0 += csdf_load(init[6] + shift + 0);
            a7_0 += csdf_load(init[7] + shift + 0);
            a8_0 += csdf_load(init[8] + shift + 0);
            a9_0 += csdf_load(init[9] + shift + 0);
            init += 10;
        }
        const float *p0 = table[0];
        const float *p1 = table[1];
        const float *p2 = table[2];
        const float *p3 = table[3];
        const float *p4 = table[4];
        const float *p5 = table[5];
        const float *p6 = table[6];
        const float *p7 = table[7];
        const float *p8 = table[8];
        const float *p9 = table[9];
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[4] + shift + 0, a4_0);
        csdf_store(out[5] + shift + 0, a5_0);
        csdf_store(out[6] + shift + 0, a6_0);
        csdf_store(out[7] + shift + 0, a7_0);
        csdf_store(out[8] + shift + 0, a8_0);
        csdf_store(out[9] + shift + 0, a9_0);
        table += 10;
        out += 10;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); FMA(a0_0, x0, w0) \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); FMA(a1_0, x1, w0) \
        csdf_v x2 = csdf_splat(p2[c + k]); CSDF_KEEP(x2); FMA(a2_0, x2, w0) \
        csdf_v x3 = csdf_splat(p3[c + k]); CSDF_KEEP(x3); FMA(a3_0, x3, w0) \
        csdf_v x4 = csdf_splat(p4[c + k]); CSDF_KEEP(x4); FMA(a4_0, x4, w0) \
        csdf_v x5 = csdf_splat(p5[c + k]); CSDF_KEEP(x5); FMA(a5_0, x5, w0) \
        csdf_v x6 = csdf_splat(p6[c + k]); CSDF_KEEP(x6); FMA(a6_0, x6, w0) \
        csdf_v x7 = csdf_splat(p7[c + k]); CSDF_KEEP(x7); FMA(a7_0, x7, w0) \
        csdf_v x8 = csdf_splat(p8[c + k]); CSDF_KEEP(x8); FMA(a8_0, x8, w0) \
        csdf_v x9 = csdf_splat(p9[c + k]); CSDF_KEEP(x9); FMA(a9_0, x9, w0) \
        csdf_v x10 = csdf_splat(p10[c + k]); CSDF_KEEP(x10); FMA(a10_0, x10, w0) \
    }
#define ALL(DO) DO(a0_0) DO(a1_0) DO(a2_0) DO(a3_0) DO(a4_0) DO(a5_0) DO(a6_0) DO(a7_0) \
    DO(a8_0) DO(a9_0) DO(a10_0)

static void block_1x11(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        csdf_v a3_0;
        csdf_v a4_0;
        csdf_v a5_0;
        csdf_v a6_0;
        csdf_v a7_0;
        csdf_v a8_0;
        csdf_v a9_0;
        csdf_v a10_0;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = a5_0 = a6_0 = a7_0 = a8_0 = a9_0 = a10_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
            a3_0 += csdf_load(init[3] + shift + 0);
            a4_0 += csdf_load(init[4] + shift + 0);
            a5_0 += csdf_load(init[5] + shift + 0);
            a6_0 += csdf_load(init[6] + shift + 0);
            a7_0 += csdf_load(init[7] + shift + 0);
            a8_0 += csdf_load(init[8] + shift + 0);
            a9_0 += csdf_load(init[9] + shift + 0);
            a10_0 += csdf_load(init[10] + shift + 0);
            init += 11;
        }
        CSDF_PREFETCH_OUT(out[0] + shift + 0);
        CSDF_PREFETCH_OUT(out[1] + shift + 0);
        CSDF_PREFETCH_OUT(out[2] + shift + 0);
        CSDF_PREFETCH_OUT(out[3] + shift + 0);
        CSDF_PREFETCH_OUT(out[4] + shift + 0);
        CSDF_PREFETCH_OUT(out[5] + shift + 0);
        CSDF_PREFETCH_OUT(out[6] + shift + 0);
        CSDF_PREFETCH_OUT(out[7] + shift + 0);
        CSDF_PREFETCH_OUT(out[8] + shift + 0);
        CSDF_PREFETCH_OUT(out[9] + shift + 0);
        CSDF_PREFETCH_OUT(out[10] + shift + 0);
        for (int32_t tap = 0; tap < pass->taps; tap++, w += pass->skip) {
            for (int32_t i = 0; i < pass->pieces; i++, t += pass->pixels) {
                const ptrdiff_t count = pass->counts[i];
                const float *p0 = t[0];
                const float *p1 = t[1];
                const float *p2 = t[2];
                const float *p3 = t[3];
                const float *p4 = t[4];
                const float *p5 = t[5];
                const float *p6 = t[6];
                const float *p7 = t[7];
                const float *p8 = t[8];
                const float *p9 = t[9];
                const float *p10 = t[10];
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[4] + shift + 0, a4_0);
        csdf_store(out[5] + shift + 0, a5_0);
        csdf_store(out[6] + shift + 0, a6_0);
        csdf_store(out[7] + shift + 0, a7_0);
        csdf_store(out[8] + shift + 0, a8_0);
        csdf_store(out[9] + shift + 0, a9_0);
        csdf_store(out[10] + shift + 0, a10_0);
        table += 11;
        out += 11;
    }
}

static void run_1x11(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        csdf_v a3_0;
        csdf_v a4_0;
        csdf_v a5_0;
        csdf_v a6_0;
        csdf_v a7_0;
        csdf_v a8_0;
        csdf_v a9_0;
        csdf_v a10_0;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = a5_0 = a6_0 = a7_0 = a8_0 = a9_0 = a10_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
            a3_0 += csdf_load(init[3] + shift + 0);
            a4_0 += csdf_load(init[4] + shift + 0);
            a5_0 += csdf_load(init[5] + shift + 0);
            a6_0 += csdf_load(init[6] + shift + 0);
            a7_0 += csdf_load(init[7] + shift + 0);
            a8_0 += csdf_load(init[8] + shift + 0);
            a9_0 += csdf_load(init[9] + shift + 0);
            a10_0 += csdf_load(init[10] + shift + 0);
            init += 11;
        }
        const float *p0 = table[0];
        const float *p1 = table[1];
        const float *p2 = table[2];
        const float *p3 = table[3];
        const float *p4 = table[4];
        const float *p5 = table[5];
        const float *p6 = table[6];
        const float *p7 = table[7];
        const float *p8 = table[8];
        const float *p9 = table[9];
        const float *p10 = table[10];
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[4] + shift + 0, a4_0);
        csdf_store(out[5] + shift + 0, a5_0);
        csdf_store(out[6] + shift + 0, a6_0);
        csdf_store(out[7] + shift + 0, a7_0);
        csdf_store(out[8] + shift + 0, a8_0);
        csdf_store(out[9] + shift + 0, a9_0);
        csdf_store(out[10] + shift + 0, a10_0);
        table += 11;
        out += 11;
    }
}

#undef PRODUCTS
#undef ALL

/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) \
    { \
        csdf_v w0 = csdf_load(w + 0 + 16 * k); CSDF_KEEP(w0); \
        csdf_v x0 = csdf_splat(p0[c + k]); CSDF_KEEP(x0); FMA(a0_0, x0, w0) \
        csdf_v x1 = csdf_splat(p1[c + k]); CSDF_KEEP(x1); FMA(a1_0, x1, w0) \
        csdf_v x2 = csdf_splat(p2[c + k]); CSDF_KEEP(x2); FMA(a2_0, x2, w0) \
        csdf_v x3 = csdf_splat(p3[c + k]); CSDF_KEEP(x3); FMA(a3_0, x3, w0) \
        csdf_v x4 = csdf_splat(p4[c + k]); CSDF_KEEP(x4); FMA(a4_0, x4, w0) \
        csdf_v x5 = csdf_splat(p5[c + k]); CSDF_KEEP(x5); FMA(a5_0, x5, w0) \
        csdf_v x6 = csdf_splat(p6[c + k]); CSDF_KEEP(x6); FMA(a6_0, x6, w0) \
        csdf_v x7 = csdf_splat(p7[c + k]); CSDF_KEEP(x7); FMA(a7_0, x7, w0) \
        csdf_v x8 = csdf_splat(p8[c + k]); CSDF_KEEP(x8); FMA(a8_0, x8, w0) \
        csdf_v x9 = csdf_splat(p9[c + k]); CSDF_KEEP(x9); FMA(a9_0, x9, w0) \
        csdf_v x10 = csdf_splat(p10[c + k]); CSDF_KEEP(x10); FMA(a10_0, x10, w0) \
        csdf_v x11 = csdf_splat(p11[c + k]); CSDF_KEEP(x11); FMA(a11_0, x11, w0) \
    }
#define ALL(DO) DO(a0_0) DO(a1_0) DO(a2_0) DO(a3_0) DO(a4_0) DO(a5_0) DO(a6_0) DO(a7_0) \
    DO(a8_0) DO(a9_0) DO(a10_0) DO(a11_0)

static void block_1x12(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    for (int32_t k = 0; k < times; k++) {
        const float *const *t = table;
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        csdf_v a3_0;
        csdf_v a4_0;
        csdf_v a5_0;
        csdf_v a6_0;
        csdf_v a7_0;
        csdf_v a8_0;
        csdf_v a9_0;
        csdf_v a10_0;
        csdf_v a11_0;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = a5_0 = a6_0 = a7_0 = a8_0 = a9_0 = a10_0 = a11_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
            a3_0 += csdf_load(init[3] + shift + 0);
            a4_0 += csdf_load(init[4] + shift + 0);
            a5_0 += csdf_load(init[5] + shift + 0);
            a6_0 += csdf_load(init[6] + shift + 0);
            a7_0 += csdf_load(init[7] + shift + 0);
            a8_0 += csdf_load(init[8] + shift + 0);
            a9_0 += csdf_load(init[9] + shift + 0);
            a10_0 += csdf_load(init[10] + shift + 0);
            a11_0 += csdf_load(init[11] + shift + 0);
            init += 12;
        }
        CSDF_PREFETCH_OUT(out[0] + shift + 0);
        CSDF_PREFETCH_OUT(out[1] + shift + 0);
        CSDF_PREFETCH_OUT(out[2] + shift + 0);
        CSDF_PREFETCH_OUT(out[3] + shift + 0);
        CSDF_PREFETCH_OUT(out[4] + shift + 0);
        CSDF_PREFETCH_OUT(out[5] + shift + 0);
        CSDF_PREFETCH_OUT(out[6] + shift + 0);
        CSDF_PREFETCH_OUT(out[7] + shift + 0);
        CSDF_PREFETCH_OUT(out[8] + shift + 0);
        CSDF_PREFETCH_OUT(out[9] + shift + 0);
        CSDF_PREFETCH_OUT(out[10] + shift + 0);
        CSDF_PREFETCH_OUT(out[11] + shift + 0);
        for (int32_t tap = 0; tap < pass->taps; tap++, w += pass->skip) {
            for (int32_t i = 0; i < pass->pieces; i++, t += pass->pixels) {
                const ptrdiff_t count = pass->counts[i];
                const float *p0 = t[0];
                const float *p1 = t[1];
                const float *p2 = t[2];
                const float *p3 = t[3];
                const float *p4 = t[4];
                const float *p5 = t[5];
                const float *p6 = t[6];
                const float *p7 = t[7];
                const float *p8 = t[8];
                const float *p9 = t[9];
                const float *p10 = t[10];
                const float *p11 = t[11];
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[4] + shift + 0, a4_0);
        csdf_store(out[5] + shift + 0, a5_0);
        csdf_store(out[6] + shift + 0, a6_0);
        csdf_store(out[7] + shift + 0, a7_0);
        csdf_store(out[8] + shift + 0, a8_0);
        csdf_store(out[9] + shift + 0, a9_0);
        csdf_store(out[10] + shift + 0, a10_0);
        csdf_store(out[11] + shift + 0, a11_0);
        table += 12;
        out += 12;
    }
}

static void run_1x12(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel;
    const ptrdiff_t beside = all < 8 ? all * 16 : 128;
    const ptrdiff_t count = pass->counts[0];
    for (int32_t k = 0; k < times; k++) {
        const float *w = pass->weights;
        const ptrdiff_t ahead = next + (first + k) % 8 * 16;
        csdf_v a0_0;
        csdf_v a1_0;
        csdf_v a2_0;
        csdf_v a3_0;
        csdf_v a4_0;
        csdf_v a5_0;
        csdf_v a6_0;
        csdf_v a7_0;
        csdf_v a8_0;
        csdf_v a9_0;
        csdf_v a10_0;
        csdf_v a11_0;
        a0_0 = a1_0 = a2_0 = a3_0 = a4_0 = a5_0 = a6_0 = a7_0 = a8_0 = a9_0 = a10_0 = a11_0 = csdf_load(pass->bias + 0);
        if (init) {
            a0_0 += csdf_load(init[0] + shift + 0);
            a1_0 += csdf_load(init[1] + shift + 0);
            a2_0 += csdf_load(init[2] + shift + 0);
            a3_0 += csdf_load(init[3] + shift + 0);
            a4_0 += csdf_load(init[4] + shift + 0);
            a5_0 += csdf_load(init[5] + shift + 0);
            a6_0 += csdf_load(init[6] + shift + 0);
            a7_0 += csdf_load(init[7] + shift + 0);
            a8_0 += csdf_load(init[8] + shift + 0);
            a9_0 += csdf_load(init[9] + shift + 0);
            a10_0 += csdf_load(init[10] + shift + 0);
            a11_0 += csdf_load(init[11] + shift + 0);
            init += 12;
        }
        const float *p0 = table[0];
        const float *p1 = table[1];
        const float *p2 = table[2];
        const float *p3 = table[3];
        const float *p4 = table[4];
        const float *p5 = table[5];
        const float *p6 = table[6];
        const float *p7 = table[7];
        const float *p8 = table[8];
        const float *p9 = table[9];
        const float *p10 = table[10];
        const float *p11 = table[11];
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
        csdf_store(out[1] + shift + 0, a1_0);
        csdf_store(out[2] + shift + 0, a2_0);
        csdf_store(out[3] + shift + 0, a3_0);
        csdf_store(out[4] + shift + 0, a4_0);
        csdf_store(out[5] + shift + 0, a5_0);
        csdf_store(out[6] + shift + 0, a6_0);
        csdf_store(out[7] + shift + 0, a7_0);
        csdf_store(out[8] + shift + 0, a8_0);
        csdf_store(out[9] + shift + 0, a9_0);
        csdf_store(out[10] + shift + 0, a10_0);
        csdf_store(out[11] + shift + 0, a11_0);
        table += 12;
        out += 12;
    }
}

#undef PRODUCTS
#undef ALL

static csdf_block *const blocks_8[] = {
    block_8x1,
};
static csdf_block *const runs_8[] = {
    run_8x1,
};
static csdf_block *const blocks_4[] = {
    block_4x1, block_4x2, block_4x3,
};
static csdf_block *const runs_4[] = {
    run_4x1, run_4x2, run_4x3,
};
static csdf_block *const blocks_2[] = {
    block_2x1, block_2x2, block_2x3, block_2x4, block_2x5, block_2x6,
};
static csdf_block *const runs_2[] = {
    run_2x1, run_2x2, run_2x3, run_2x4, run_2x5, run_2x6,
};
static csdf_block *const blocks_1[] = {
    block_1x1, block_1x2, block_1x3, block_1x4, block_1x5, block_1x6,
    block_1x7, block_1x8, block_1x9, block_1x10, block_1x11, block_1x12,
};
static csdf_block *const runs_1[] = {
    run_1x1, run_1x2, run_1x3, run_1x4, run_1x5, run_1x6,
    run_1x7, run_1x8, run_1x9, run_1x10, run_1x11, run_1x12,
};

static const csdf_shape shapes[] = {
    {8, 1, 1, {blocks_8, runs_8}},
    {4, 3, 3, {blocks_4, runs_4}},
    {2, 6, 0, {blocks_2, runs_2}},
    {1, 12, 0, {blocks_1, runs_1}},
};
