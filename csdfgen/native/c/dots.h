/* Written by csdfgen/native/generate.py: change that. */

#define DOT(sum, x, w) sum = csdf_dot(sum, x, w); CSDF_KEEP_TAPS(sum);

#if CSDF_VECTORS == 1
static void dots_1(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    (void)pitch, (void)apart;
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        csdf_sum a0_0 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0)
        }
        csdf_put(to + 0 + o, from + o, a0_0);
    }
}

#if CSDF_PIXELS >= 2
static void dots_2(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        csdf_sum a0_0 = csdf_none();
        csdf_sum a1_0 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0)
        }
        csdf_put(to + 0 + o, from + o, a0_0);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0);
    }
}

#endif
#if CSDF_PIXELS >= 3
static void dots_3(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        csdf_sum a0_0 = csdf_none();
        csdf_sum a1_0 = csdf_none();
        csdf_sum a2_0 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0)
        }
        csdf_put(to + 0 + o, from + o, a0_0);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0);
    }
}

#endif
#if CSDF_PIXELS >= 4
static void dots_4(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        csdf_sum a0_0 = csdf_none();
        csdf_sum a1_0 = csdf_none();
        csdf_sum a2_0 = csdf_none();
        csdf_sum a3_0 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0)
        }
        csdf_put(to + 0 + o, from + o, a0_0);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0);
    }
}

#endif
#if CSDF_PIXELS >= 5
static void dots_5(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        const csdf_e *p4 = x + 4 * pitch;
        csdf_sum a0_0 = csdf_none();
        csdf_sum a1_0 = csdf_none();
        csdf_sum a2_0 = csdf_none();
        csdf_sum a3_0 = csdf_none();
        csdf_sum a4_0 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0)
            const csdf_four x4 = csdf_spread(p4 + k); DOT(a4_0, x4, w0)
        }
        csdf_put(to + 0 + o, from + o, a0_0);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0);
        csdf_put(to + 64 + o, from + 4 * apart + o, a4_0);
    }
}

#endif
#if CSDF_PIXELS >= 6
static void dots_6(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        const csdf_e *p4 = x + 4 * pitch;
        const csdf_e *p5 = x + 5 * pitch;
        csdf_sum a0_0 = csdf_none();
        csdf_sum a1_0 = csdf_none();
        csdf_sum a2_0 = csdf_none();
        csdf_sum a3_0 = csdf_none();
        csdf_sum a4_0 = csdf_none();
        csdf_sum a5_0 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0)
            const csdf_four x4 = csdf_spread(p4 + k); DOT(a4_0, x4, w0)
            const csdf_four x5 = csdf_spread(p5 + k); DOT(a5_0, x5, w0)
        }
        csdf_put(to + 0 + o, from + o, a0_0);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0);
        csdf_put(to + 64 + o, from + 4 * apart + o, a4_0);
        csdf_put(to + 80 + o, from + 5 * apart + o, a5_0);
    }
}

#endif
#if CSDF_PIXELS >= 7
static void dots_7(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        const csdf_e *p4 = x + 4 * pitch;
        const csdf_e *p5 = x + 5 * pitch;
        const csdf_e *p6 = x + 6 * pitch;
        csdf_sum a0_0 = csdf_none();
        csdf_sum a1_0 = csdf_none();
        csdf_sum a2_0 = csdf_none();
        csdf_sum a3_0 = csdf_none();
        csdf_sum a4_0 = csdf_none();
        csdf_sum a5_0 = csdf_none();
        csdf_sum a6_0 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0)
            const csdf_four x4 = csdf_spread(p4 + k); DOT(a4_0, x4, w0)
            const csdf_four x5 = csdf_spread(p5 + k); DOT(a5_0, x5, w0)
            const csdf_four x6 = csdf_spread(p6 + k); DOT(a6_0, x6, w0)
        }
        csdf_put(to + 0 + o, from + o, a0_0);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0);
        csdf_put(to + 64 + o, from + 4 * apart + o, a4_0);
        csdf_put(to + 80 + o, from + 5 * apart + o, a5_0);
        csdf_put(to + 96 + o, from + 6 * apart + o, a6_0);
    }
}

#endif
#if CSDF_PIXELS >= 8
static void dots_8(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        const csdf_e *p4 = x + 4 * pitch;
        const csdf_e *p5 = x + 5 * pitch;
        const csdf_e *p6 = x + 6 * pitch;
        const csdf_e *p7 = x + 7 * pitch;
        csdf_sum a0_0 = csdf_none();
        csdf_sum a1_0 = csdf_none();
        csdf_sum a2_0 = csdf_none();
        csdf_sum a3_0 = csdf_none();
        csdf_sum a4_0 = csdf_none();
        csdf_sum a5_0 = csdf_none();
        csdf_sum a6_0 = csdf_none();
        csdf_sum a7_0 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0)
            const csdf_four x4 = csdf_spread(p4 + k); DOT(a4_0, x4, w0)
            const csdf_four x5 = csdf_spread(p5 + k); DOT(a5_0, x5, w0)
            const csdf_four x6 = csdf_spread(p6 + k); DOT(a6_0, x6, w0)
            const csdf_four x7 = csdf_spread(p7 + k); DOT(a7_0, x7, w0)
        }
        csdf_put(to + 0 + o, from + o, a0_0);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0);
        csdf_put(to + 64 + o, from + 4 * apart + o, a4_0);
        csdf_put(to + 80 + o, from + 5 * apart + o, a5_0);
        csdf_put(to + 96 + o, from + 6 * apart + o, a6_0);
        csdf_put(to + 112 + o, from + 7 * apart + o, a7_0);
    }
}

#endif
#if CSDF_PIXELS >= 9
static void dots_9(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        const csdf_e *p4 = x + 4 * pitch;
        const csdf_e *p5 = x + 5 * pitch;
        const csdf_e *p6 = x + 6 * pitch;
        const csdf_e *p7 = x + 7 * pitch;
        const csdf_e *p8 = x + 8 * pitch;
        csdf_sum a0_0 = csdf_none();
        csdf_sum a1_0 = csdf_none();
        csdf_sum a2_0 = csdf_none();
        csdf_sum a3_0 = csdf_none();
        csdf_sum a4_0 = csdf_none();
        csdf_sum a5_0 = csdf_none();
        csdf_sum a6_0 = csdf_none();
        csdf_sum a7_0 = csdf_none();
        csdf_sum a8_0 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0)
            const csdf_four x4 = csdf_spread(p4 + k); DOT(a4_0, x4, w0)
            const csdf_four x5 = csdf_spread(p5 + k); DOT(a5_0, x5, w0)
            const csdf_four x6 = csdf_spread(p6 + k); DOT(a6_0, x6, w0)
            const csdf_four x7 = csdf_spread(p7 + k); DOT(a7_0, x7, w0)
            const csdf_four x8 = csdf_spread(p8 + k); DOT(a8_0, x8, w0)
        }
        csdf_put(to + 0 + o, from + o, a0_0);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0);
        csdf_put(to + 64 + o, from + 4 * apart + o, a4_0);
        csdf_put(to + 80 + o, from + 5 * apart + o, a5_0);
        csdf_put(to + 96 + o, from + 6 * apart + o, a6_0);
        csdf_put(to + 112 + o, from + 7 * apart + o, a7_0);
        csdf_put(to + 128 + o, from + 8 * apart + o, a8_0);
    }
}

#endif
#if CSDF_PIXELS >= 10
static void dots_10(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        const csdf_e *p4 = x + 4 * pitch;
        const csdf_e *p5 = x + 5 * pitch;
        const csdf_e *p6 = x + 6 * pitch;
        const csdf_e *p7 = x + 7 * pitch;
        const csdf_e *p8 = x + 8 * pitch;
        const csdf_e *p9 = x + 9 * pitch;
        csdf_sum a0_0 = csdf_none();
        csdf_sum a1_0 = csdf_none();
        csdf_sum a2_0 = csdf_none();
        csdf_sum a3_0 = csdf_none();
        csdf_sum a4_0 = csdf_none();
        csdf_sum a5_0 = csdf_none();
        csdf_sum a6_0 = csdf_none();
        csdf_sum a7_0 = csdf_none();
        csdf_sum a8_0 = csdf_none();
        csdf_sum a9_0 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0)
            const csdf_four x4 = csdf_spread(p4 + k); DOT(a4_0, x4, w0)
            const csdf_four x5 = csdf_spread(p5 + k); DOT(a5_0, x5, w0)
            const csdf_four x6 = csdf_spread(p6 + k); DOT(a6_0, x6, w0)
            const csdf_four x7 = csdf_spread(p7 + k); DOT(a7_0, x7, w0)
            const csdf_four x8 = csdf_spread(p8 + k); DOT(a8_0, x8, w0)
            const csdf_four x9 = csdf_spread(p9 + k); DOT(a9_0, x9, w0)
        }
        csdf_put(to + 0 + o, from + o, a0_0);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0);
        csdf_put(to + 64 + o, from + 4 * apart + o, a4_0);
        csdf_put(to + 80 + o, from + 5 * apart + o, a5_0);
        csdf_put(to + 96 + o, from + 6 * apart + o, a6_0);
        csdf_put(to + 112 + o, from + 7 * apart + o, a7_0);
        csdf_put(to + 128 + o, from + 8 * apart + o, a8_0);
        csdf_put(to + 144 + o, from + 9 * apart + o, a9_0);
    }
}

#endif
#if CSDF_PIXELS >= 11
static void dots_11(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        const csdf_e *p4 = x + 4 * pitch;
        const csdf_e *p5 = x + 5 * pitch;
        const csdf_e *p6 = x + 6 * pitch;
        const csdf_e *p7 = x + 7 * pitch;
        const csdf_e *p8 = x + 8 * pitch;
        const csdf_e *p9 = x + 9 * pitch;
        const csdf_e *p10 = x + 10 * pitch;
        csdf_sum a0_0 = csdf_none();
        csdf_sum a1_0 = csdf_none();
        csdf_sum a2_0 = csdf_none();
        csdf_sum a3_0 = csdf_none();
        csdf_sum a4_0 = csdf_none();
        csdf_sum a5_0 = csdf_none();
        csdf_sum a6_0 = csdf_none();
        csdf_sum a7_0 = csdf_none();
        csdf_sum a8_0 = csdf_none();
        csdf_sum a9_0 = csdf_none();
        csdf_sum a10_0 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0)
            const csdf_four x4 = csdf_spread(p4 + k); DOT(a4_0, x4, w0)
            const csdf_four x5 = csdf_spread(p5 + k); DOT(a5_0, x5, w0)
            const csdf_four x6 = csdf_spread(p6 + k); DOT(a6_0, x6, w0)
            const csdf_four x7 = csdf_spread(p7 + k); DOT(a7_0, x7, w0)
            const csdf_four x8 = csdf_spread(p8 + k); DOT(a8_0, x8, w0)
            const csdf_four x9 = csdf_spread(p9 + k); DOT(a9_0, x9, w0)
            const csdf_four x10 = csdf_spread(p10 + k); DOT(a10_0, x10, w0)
        }
        csdf_put(to + 0 + o, from + o, a0_0);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0);
        csdf_put(to + 64 + o, from + 4 * apart + o, a4_0);
        csdf_put(to + 80 + o, from + 5 * apart + o, a5_0);
        csdf_put(to + 96 + o, from + 6 * apart + o, a6_0);
        csdf_put(to + 112 + o, from + 7 * apart + o, a7_0);
        csdf_put(to + 128 + o, from + 8 * apart + o, a8_0);
        csdf_put(to + 144 + o, from + 9 * apart + o, a9_0);
        csdf_put(to + 160 + o, from + 10 * apart + o, a10_0);
    }
}

#endif
#if CSDF_PIXELS >= 12
static void dots_12(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        const csdf_e *p4 = x + 4 * pitch;
        const csdf_e *p5 = x + 5 * pitch;
        const csdf_e *p6 = x + 6 * pitch;
        const csdf_e *p7 = x + 7 * pitch;
        const csdf_e *p8 = x + 8 * pitch;
        const csdf_e *p9 = x + 9 * pitch;
        const csdf_e *p10 = x + 10 * pitch;
        const csdf_e *p11 = x + 11 * pitch;
        csdf_sum a0_0 = csdf_none();
        csdf_sum a1_0 = csdf_none();
        csdf_sum a2_0 = csdf_none();
        csdf_sum a3_0 = csdf_none();
        csdf_sum a4_0 = csdf_none();
        csdf_sum a5_0 = csdf_none();
        csdf_sum a6_0 = csdf_none();
        csdf_sum a7_0 = csdf_none();
        csdf_sum a8_0 = csdf_none();
        csdf_sum a9_0 = csdf_none();
        csdf_sum a10_0 = csdf_none();
        csdf_sum a11_0 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0)
            const csdf_four x4 = csdf_spread(p4 + k); DOT(a4_0, x4, w0)
            const csdf_four x5 = csdf_spread(p5 + k); DOT(a5_0, x5, w0)
            const csdf_four x6 = csdf_spread(p6 + k); DOT(a6_0, x6, w0)
            const csdf_four x7 = csdf_spread(p7 + k); DOT(a7_0, x7, w0)
            const csdf_four x8 = csdf_spread(p8 + k); DOT(a8_0, x8, w0)
            const csdf_four x9 = csdf_spread(p9 + k); DOT(a9_0, x9, w0)
            const csdf_four x10 = csdf_spread(p10 + k); DOT(a10_0, x10, w0)
            const csdf_four x11 = csdf_spread(p11 + k); DOT(a11_0, x11, w0)
        }
        csdf_put(to + 0 + o, from + o, a0_0);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0);
        csdf_put(to + 64 + o, from + 4 * apart + o, a4_0);
        csdf_put(to + 80 + o, from + 5 * apart + o, a5_0);
        csdf_put(to + 96 + o, from + 6 * apart + o, a6_0);
        csdf_put(to + 112 + o, from + 7 * apart + o, a7_0);
        csdf_put(to + 128 + o, from + 8 * apart + o, a8_0);
        csdf_put(to + 144 + o, from + 9 * apart + o, a9_0);
        csdf_put(to + 160 + o, from + 10 * apart + o, a10_0);
        csdf_put(to + 176 + o, from + 11 * apart + o, a11_0);
    }
}

#endif
#elif CSDF_VECTORS == 2
static void dots_1(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    (void)pitch, (void)apart;
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        csdf_sum a0_0 = csdf_none(), a0_1 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            csdf_taps w1 = csdf_weights(w + 4 * CSDF_OUTS); CSDF_KEEP_TAPS(w1);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0) DOT(a0_1, x0, w1)
        }
        csdf_put(to + 0 + o, from + o, a0_0, a0_1);
    }
}

#if CSDF_PIXELS >= 2
static void dots_2(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        csdf_sum a0_0 = csdf_none(), a0_1 = csdf_none();
        csdf_sum a1_0 = csdf_none(), a1_1 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            csdf_taps w1 = csdf_weights(w + 4 * CSDF_OUTS); CSDF_KEEP_TAPS(w1);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0) DOT(a0_1, x0, w1)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0) DOT(a1_1, x1, w1)
        }
        csdf_put(to + 0 + o, from + o, a0_0, a0_1);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0, a1_1);
    }
}

#endif
#if CSDF_PIXELS >= 3
static void dots_3(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        csdf_sum a0_0 = csdf_none(), a0_1 = csdf_none();
        csdf_sum a1_0 = csdf_none(), a1_1 = csdf_none();
        csdf_sum a2_0 = csdf_none(), a2_1 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            csdf_taps w1 = csdf_weights(w + 4 * CSDF_OUTS); CSDF_KEEP_TAPS(w1);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0) DOT(a0_1, x0, w1)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0) DOT(a1_1, x1, w1)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0) DOT(a2_1, x2, w1)
        }
        csdf_put(to + 0 + o, from + o, a0_0, a0_1);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0, a1_1);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0, a2_1);
    }
}

#endif
#if CSDF_PIXELS >= 4
static void dots_4(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        csdf_sum a0_0 = csdf_none(), a0_1 = csdf_none();
        csdf_sum a1_0 = csdf_none(), a1_1 = csdf_none();
        csdf_sum a2_0 = csdf_none(), a2_1 = csdf_none();
        csdf_sum a3_0 = csdf_none(), a3_1 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            csdf_taps w1 = csdf_weights(w + 4 * CSDF_OUTS); CSDF_KEEP_TAPS(w1);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0) DOT(a0_1, x0, w1)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0) DOT(a1_1, x1, w1)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0) DOT(a2_1, x2, w1)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0) DOT(a3_1, x3, w1)
        }
        csdf_put(to + 0 + o, from + o, a0_0, a0_1);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0, a1_1);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0, a2_1);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0, a3_1);
    }
}

#endif
#if CSDF_PIXELS >= 5
static void dots_5(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        const csdf_e *p4 = x + 4 * pitch;
        csdf_sum a0_0 = csdf_none(), a0_1 = csdf_none();
        csdf_sum a1_0 = csdf_none(), a1_1 = csdf_none();
        csdf_sum a2_0 = csdf_none(), a2_1 = csdf_none();
        csdf_sum a3_0 = csdf_none(), a3_1 = csdf_none();
        csdf_sum a4_0 = csdf_none(), a4_1 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            csdf_taps w1 = csdf_weights(w + 4 * CSDF_OUTS); CSDF_KEEP_TAPS(w1);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0) DOT(a0_1, x0, w1)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0) DOT(a1_1, x1, w1)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0) DOT(a2_1, x2, w1)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0) DOT(a3_1, x3, w1)
            const csdf_four x4 = csdf_spread(p4 + k); DOT(a4_0, x4, w0) DOT(a4_1, x4, w1)
        }
        csdf_put(to + 0 + o, from + o, a0_0, a0_1);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0, a1_1);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0, a2_1);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0, a3_1);
        csdf_put(to + 64 + o, from + 4 * apart + o, a4_0, a4_1);
    }
}

#endif
#if CSDF_PIXELS >= 6
static void dots_6(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        const csdf_e *p4 = x + 4 * pitch;
        const csdf_e *p5 = x + 5 * pitch;
        csdf_sum a0_0 = csdf_none(), a0_1 = csdf_none();
        csdf_sum a1_0 = csdf_none(), a1_1 = csdf_none();
        csdf_sum a2_0 = csdf_none(), a2_1 = csdf_none();
        csdf_sum a3_0 = csdf_none(), a3_1 = csdf_none();
        csdf_sum a4_0 = csdf_none(), a4_1 = csdf_none();
        csdf_sum a5_0 = csdf_none(), a5_1 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            csdf_taps w1 = csdf_weights(w + 4 * CSDF_OUTS); CSDF_KEEP_TAPS(w1);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0) DOT(a0_1, x0, w1)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0) DOT(a1_1, x1, w1)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0) DOT(a2_1, x2, w1)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0) DOT(a3_1, x3, w1)
            const csdf_four x4 = csdf_spread(p4 + k); DOT(a4_0, x4, w0) DOT(a4_1, x4, w1)
            const csdf_four x5 = csdf_spread(p5 + k); DOT(a5_0, x5, w0) DOT(a5_1, x5, w1)
        }
        csdf_put(to + 0 + o, from + o, a0_0, a0_1);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0, a1_1);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0, a2_1);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0, a3_1);
        csdf_put(to + 64 + o, from + 4 * apart + o, a4_0, a4_1);
        csdf_put(to + 80 + o, from + 5 * apart + o, a5_0, a5_1);
    }
}

#endif
#if CSDF_PIXELS >= 7
static void dots_7(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        const csdf_e *p4 = x + 4 * pitch;
        const csdf_e *p5 = x + 5 * pitch;
        const csdf_e *p6 = x + 6 * pitch;
        csdf_sum a0_0 = csdf_none(), a0_1 = csdf_none();
        csdf_sum a1_0 = csdf_none(), a1_1 = csdf_none();
        csdf_sum a2_0 = csdf_none(), a2_1 = csdf_none();
        csdf_sum a3_0 = csdf_none(), a3_1 = csdf_none();
        csdf_sum a4_0 = csdf_none(), a4_1 = csdf_none();
        csdf_sum a5_0 = csdf_none(), a5_1 = csdf_none();
        csdf_sum a6_0 = csdf_none(), a6_1 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            csdf_taps w1 = csdf_weights(w + 4 * CSDF_OUTS); CSDF_KEEP_TAPS(w1);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0) DOT(a0_1, x0, w1)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0) DOT(a1_1, x1, w1)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0) DOT(a2_1, x2, w1)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0) DOT(a3_1, x3, w1)
            const csdf_four x4 = csdf_spread(p4 + k); DOT(a4_0, x4, w0) DOT(a4_1, x4, w1)
            const csdf_four x5 = csdf_spread(p5 + k); DOT(a5_0, x5, w0) DOT(a5_1, x5, w1)
            const csdf_four x6 = csdf_spread(p6 + k); DOT(a6_0, x6, w0) DOT(a6_1, x6, w1)
        }
        csdf_put(to + 0 + o, from + o, a0_0, a0_1);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0, a1_1);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0, a2_1);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0, a3_1);
        csdf_put(to + 64 + o, from + 4 * apart + o, a4_0, a4_1);
        csdf_put(to + 80 + o, from + 5 * apart + o, a5_0, a5_1);
        csdf_put(to + 96 + o, from + 6 * apart + o, a6_0, a6_1);
    }
}

#endif
#if CSDF_PIXELS >= 8
static void dots_8(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        const csdf_e *p4 = x + 4 * pitch;
        const csdf_e *p5 = x + 5 * pitch;
        const csdf_e *p6 = x + 6 * pitch;
        const csdf_e *p7 = x + 7 * pitch;
        csdf_sum a0_0 = csdf_none(), a0_1 = csdf_none();
        csdf_sum a1_0 = csdf_none(), a1_1 = csdf_none();
        csdf_sum a2_0 = csdf_none(), a2_1 = csdf_none();
        csdf_sum a3_0 = csdf_none(), a3_1 = csdf_none();
        csdf_sum a4_0 = csdf_none(), a4_1 = csdf_none();
        csdf_sum a5_0 = csdf_none(), a5_1 = csdf_none();
        csdf_sum a6_0 = csdf_none(), a6_1 = csdf_none();
        csdf_sum a7_0 = csdf_none(), a7_1 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            csdf_taps w1 = csdf_weights(w + 4 * CSDF_OUTS); CSDF_KEEP_TAPS(w1);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0) DOT(a0_1, x0, w1)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0) DOT(a1_1, x1, w1)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0) DOT(a2_1, x2, w1)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0) DOT(a3_1, x3, w1)
            const csdf_four x4 = csdf_spread(p4 + k); DOT(a4_0, x4, w0) DOT(a4_1, x4, w1)
            const csdf_four x5 = csdf_spread(p5 + k); DOT(a5_0, x5, w0) DOT(a5_1, x5, w1)
            const csdf_four x6 = csdf_spread(p6 + k); DOT(a6_0, x6, w0) DOT(a6_1, x6, w1)
            const csdf_four x7 = csdf_spread(p7 + k); DOT(a7_0, x7, w0) DOT(a7_1, x7, w1)
        }
        csdf_put(to + 0 + o, from + o, a0_0, a0_1);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0, a1_1);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0, a2_1);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0, a3_1);
        csdf_put(to + 64 + o, from + 4 * apart + o, a4_0, a4_1);
        csdf_put(to + 80 + o, from + 5 * apart + o, a5_0, a5_1);
        csdf_put(to + 96 + o, from + 6 * apart + o, a6_0, a6_1);
        csdf_put(to + 112 + o, from + 7 * apart + o, a7_0, a7_1);
    }
}

#endif
#if CSDF_PIXELS >= 9
static void dots_9(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        const csdf_e *p4 = x + 4 * pitch;
        const csdf_e *p5 = x + 5 * pitch;
        const csdf_e *p6 = x + 6 * pitch;
        const csdf_e *p7 = x + 7 * pitch;
        const csdf_e *p8 = x + 8 * pitch;
        csdf_sum a0_0 = csdf_none(), a0_1 = csdf_none();
        csdf_sum a1_0 = csdf_none(), a1_1 = csdf_none();
        csdf_sum a2_0 = csdf_none(), a2_1 = csdf_none();
        csdf_sum a3_0 = csdf_none(), a3_1 = csdf_none();
        csdf_sum a4_0 = csdf_none(), a4_1 = csdf_none();
        csdf_sum a5_0 = csdf_none(), a5_1 = csdf_none();
        csdf_sum a6_0 = csdf_none(), a6_1 = csdf_none();
        csdf_sum a7_0 = csdf_none(), a7_1 = csdf_none();
        csdf_sum a8_0 = csdf_none(), a8_1 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            csdf_taps w1 = csdf_weights(w + 4 * CSDF_OUTS); CSDF_KEEP_TAPS(w1);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0) DOT(a0_1, x0, w1)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0) DOT(a1_1, x1, w1)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0) DOT(a2_1, x2, w1)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0) DOT(a3_1, x3, w1)
            const csdf_four x4 = csdf_spread(p4 + k); DOT(a4_0, x4, w0) DOT(a4_1, x4, w1)
            const csdf_four x5 = csdf_spread(p5 + k); DOT(a5_0, x5, w0) DOT(a5_1, x5, w1)
            const csdf_four x6 = csdf_spread(p6 + k); DOT(a6_0, x6, w0) DOT(a6_1, x6, w1)
            const csdf_four x7 = csdf_spread(p7 + k); DOT(a7_0, x7, w0) DOT(a7_1, x7, w1)
            const csdf_four x8 = csdf_spread(p8 + k); DOT(a8_0, x8, w0) DOT(a8_1, x8, w1)
        }
        csdf_put(to + 0 + o, from + o, a0_0, a0_1);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0, a1_1);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0, a2_1);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0, a3_1);
        csdf_put(to + 64 + o, from + 4 * apart + o, a4_0, a4_1);
        csdf_put(to + 80 + o, from + 5 * apart + o, a5_0, a5_1);
        csdf_put(to + 96 + o, from + 6 * apart + o, a6_0, a6_1);
        csdf_put(to + 112 + o, from + 7 * apart + o, a7_0, a7_1);
        csdf_put(to + 128 + o, from + 8 * apart + o, a8_0, a8_1);
    }
}

#endif
#if CSDF_PIXELS >= 10
static void dots_10(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        const csdf_e *p4 = x + 4 * pitch;
        const csdf_e *p5 = x + 5 * pitch;
        const csdf_e *p6 = x + 6 * pitch;
        const csdf_e *p7 = x + 7 * pitch;
        const csdf_e *p8 = x + 8 * pitch;
        const csdf_e *p9 = x + 9 * pitch;
        csdf_sum a0_0 = csdf_none(), a0_1 = csdf_none();
        csdf_sum a1_0 = csdf_none(), a1_1 = csdf_none();
        csdf_sum a2_0 = csdf_none(), a2_1 = csdf_none();
        csdf_sum a3_0 = csdf_none(), a3_1 = csdf_none();
        csdf_sum a4_0 = csdf_none(), a4_1 = csdf_none();
        csdf_sum a5_0 = csdf_none(), a5_1 = csdf_none();
        csdf_sum a6_0 = csdf_none(), a6_1 = csdf_none();
        csdf_sum a7_0 = csdf_none(), a7_1 = csdf_none();
        csdf_sum a8_0 = csdf_none(), a8_1 = csdf_none();
        csdf_sum a9_0 = csdf_none(), a9_1 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            csdf_taps w1 = csdf_weights(w + 4 * CSDF_OUTS); CSDF_KEEP_TAPS(w1);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0) DOT(a0_1, x0, w1)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0) DOT(a1_1, x1, w1)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0) DOT(a2_1, x2, w1)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0) DOT(a3_1, x3, w1)
            const csdf_four x4 = csdf_spread(p4 + k); DOT(a4_0, x4, w0) DOT(a4_1, x4, w1)
            const csdf_four x5 = csdf_spread(p5 + k); DOT(a5_0, x5, w0) DOT(a5_1, x5, w1)
            const csdf_four x6 = csdf_spread(p6 + k); DOT(a6_0, x6, w0) DOT(a6_1, x6, w1)
            const csdf_four x7 = csdf_spread(p7 + k); DOT(a7_0, x7, w0) DOT(a7_1, x7, w1)
            const csdf_four x8 = csdf_spread(p8 + k); DOT(a8_0, x8, w0) DOT(a8_1, x8, w1)
            const csdf_four x9 = csdf_spread(p9 + k); DOT(a9_0, x9, w0) DOT(a9_1, x9, w1)
        }
        csdf_put(to + 0 + o, from + o, a0_0, a0_1);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0, a1_1);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0, a2_1);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0, a3_1);
        csdf_put(to + 64 + o, from + 4 * apart + o, a4_0, a4_1);
        csdf_put(to + 80 + o, from + 5 * apart + o, a5_0, a5_1);
        csdf_put(to + 96 + o, from + 6 * apart + o, a6_0, a6_1);
        csdf_put(to + 112 + o, from + 7 * apart + o, a7_0, a7_1);
        csdf_put(to + 128 + o, from + 8 * apart + o, a8_0, a8_1);
        csdf_put(to + 144 + o, from + 9 * apart + o, a9_0, a9_1);
    }
}

#endif
#if CSDF_PIXELS >= 11
static void dots_11(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        const csdf_e *p4 = x + 4 * pitch;
        const csdf_e *p5 = x + 5 * pitch;
        const csdf_e *p6 = x + 6 * pitch;
        const csdf_e *p7 = x + 7 * pitch;
        const csdf_e *p8 = x + 8 * pitch;
        const csdf_e *p9 = x + 9 * pitch;
        const csdf_e *p10 = x + 10 * pitch;
        csdf_sum a0_0 = csdf_none(), a0_1 = csdf_none();
        csdf_sum a1_0 = csdf_none(), a1_1 = csdf_none();
        csdf_sum a2_0 = csdf_none(), a2_1 = csdf_none();
        csdf_sum a3_0 = csdf_none(), a3_1 = csdf_none();
        csdf_sum a4_0 = csdf_none(), a4_1 = csdf_none();
        csdf_sum a5_0 = csdf_none(), a5_1 = csdf_none();
        csdf_sum a6_0 = csdf_none(), a6_1 = csdf_none();
        csdf_sum a7_0 = csdf_none(), a7_1 = csdf_none();
        csdf_sum a8_0 = csdf_none(), a8_1 = csdf_none();
        csdf_sum a9_0 = csdf_none(), a9_1 = csdf_none();
        csdf_sum a10_0 = csdf_none(), a10_1 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            csdf_taps w1 = csdf_weights(w + 4 * CSDF_OUTS); CSDF_KEEP_TAPS(w1);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0) DOT(a0_1, x0, w1)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0) DOT(a1_1, x1, w1)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0) DOT(a2_1, x2, w1)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0) DOT(a3_1, x3, w1)
            const csdf_four x4 = csdf_spread(p4 + k); DOT(a4_0, x4, w0) DOT(a4_1, x4, w1)
            const csdf_four x5 = csdf_spread(p5 + k); DOT(a5_0, x5, w0) DOT(a5_1, x5, w1)
            const csdf_four x6 = csdf_spread(p6 + k); DOT(a6_0, x6, w0) DOT(a6_1, x6, w1)
            const csdf_four x7 = csdf_spread(p7 + k); DOT(a7_0, x7, w0) DOT(a7_1, x7, w1)
            const csdf_four x8 = csdf_spread(p8 + k); DOT(a8_0, x8, w0) DOT(a8_1, x8, w1)
            const csdf_four x9 = csdf_spread(p9 + k); DOT(a9_0, x9, w0) DOT(a9_1, x9, w1)
            const csdf_four x10 = csdf_spread(p10 + k); DOT(a10_0, x10, w0) DOT(a10_1, x10, w1)
        }
        csdf_put(to + 0 + o, from + o, a0_0, a0_1);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0, a1_1);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0, a2_1);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0, a3_1);
        csdf_put(to + 64 + o, from + 4 * apart + o, a4_0, a4_1);
        csdf_put(to + 80 + o, from + 5 * apart + o, a5_0, a5_1);
        csdf_put(to + 96 + o, from + 6 * apart + o, a6_0, a6_1);
        csdf_put(to + 112 + o, from + 7 * apart + o, a7_0, a7_1);
        csdf_put(to + 128 + o, from + 8 * apart + o, a8_0, a8_1);
        csdf_put(to + 144 + o, from + 9 * apart + o, a9_0, a9_1);
        csdf_put(to + 160 + o, from + 10 * apart + o, a10_0, a10_1);
    }
}

#endif
#if CSDF_PIXELS >= 12
static void dots_12(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        const csdf_e *p4 = x + 4 * pitch;
        const csdf_e *p5 = x + 5 * pitch;
        const csdf_e *p6 = x + 6 * pitch;
        const csdf_e *p7 = x + 7 * pitch;
        const csdf_e *p8 = x + 8 * pitch;
        const csdf_e *p9 = x + 9 * pitch;
        const csdf_e *p10 = x + 10 * pitch;
        const csdf_e *p11 = x + 11 * pitch;
        csdf_sum a0_0 = csdf_none(), a0_1 = csdf_none();
        csdf_sum a1_0 = csdf_none(), a1_1 = csdf_none();
        csdf_sum a2_0 = csdf_none(), a2_1 = csdf_none();
        csdf_sum a3_0 = csdf_none(), a3_1 = csdf_none();
        csdf_sum a4_0 = csdf_none(), a4_1 = csdf_none();
        csdf_sum a5_0 = csdf_none(), a5_1 = csdf_none();
        csdf_sum a6_0 = csdf_none(), a6_1 = csdf_none();
        csdf_sum a7_0 = csdf_none(), a7_1 = csdf_none();
        csdf_sum a8_0 = csdf_none(), a8_1 = csdf_none();
        csdf_sum a9_0 = csdf_none(), a9_1 = csdf_none();
        csdf_sum a10_0 = csdf_none(), a10_1 = csdf_none();
        csdf_sum a11_0 = csdf_none(), a11_1 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            csdf_taps w1 = csdf_weights(w + 4 * CSDF_OUTS); CSDF_KEEP_TAPS(w1);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0) DOT(a0_1, x0, w1)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0) DOT(a1_1, x1, w1)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0) DOT(a2_1, x2, w1)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0) DOT(a3_1, x3, w1)
            const csdf_four x4 = csdf_spread(p4 + k); DOT(a4_0, x4, w0) DOT(a4_1, x4, w1)
            const csdf_four x5 = csdf_spread(p5 + k); DOT(a5_0, x5, w0) DOT(a5_1, x5, w1)
            const csdf_four x6 = csdf_spread(p6 + k); DOT(a6_0, x6, w0) DOT(a6_1, x6, w1)
            const csdf_four x7 = csdf_spread(p7 + k); DOT(a7_0, x7, w0) DOT(a7_1, x7, w1)
            const csdf_four x8 = csdf_spread(p8 + k); DOT(a8_0, x8, w0) DOT(a8_1, x8, w1)
            const csdf_four x9 = csdf_spread(p9 + k); DOT(a9_0, x9, w0) DOT(a9_1, x9, w1)
            const csdf_four x10 = csdf_spread(p10 + k); DOT(a10_0, x10, w0) DOT(a10_1, x10, w1)
            const csdf_four x11 = csdf_spread(p11 + k); DOT(a11_0, x11, w0) DOT(a11_1, x11, w1)
        }
        csdf_put(to + 0 + o, from + o, a0_0, a0_1);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0, a1_1);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0, a2_1);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0, a3_1);
        csdf_put(to + 64 + o, from + 4 * apart + o, a4_0, a4_1);
        csdf_put(to + 80 + o, from + 5 * apart + o, a5_0, a5_1);
        csdf_put(to + 96 + o, from + 6 * apart + o, a6_0, a6_1);
        csdf_put(to + 112 + o, from + 7 * apart + o, a7_0, a7_1);
        csdf_put(to + 128 + o, from + 8 * apart + o, a8_0, a8_1);
        csdf_put(to + 144 + o, from + 9 * apart + o, a9_0, a9_1);
        csdf_put(to + 160 + o, from + 10 * apart + o, a10_0, a10_1);
        csdf_put(to + 176 + o, from + 11 * apart + o, a11_0, a11_1);
    }
}

#endif
#elif CSDF_VECTORS == 4
static void dots_1(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    (void)pitch, (void)apart;
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        csdf_sum a0_0 = csdf_none(), a0_1 = csdf_none(), a0_2 = csdf_none(), a0_3 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            csdf_taps w1 = csdf_weights(w + 4 * CSDF_OUTS); CSDF_KEEP_TAPS(w1);
            csdf_taps w2 = csdf_weights(w + 8 * CSDF_OUTS); CSDF_KEEP_TAPS(w2);
            csdf_taps w3 = csdf_weights(w + 12 * CSDF_OUTS); CSDF_KEEP_TAPS(w3);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0) DOT(a0_1, x0, w1) DOT(a0_2, x0, w2) DOT(a0_3, x0, w3)
        }
        csdf_put(to + 0 + o, from + o, a0_0, a0_1);
        csdf_put(to + 0 + o + 2 * CSDF_OUTS, from + o + 2 * CSDF_OUTS, a0_2, a0_3);
    }
}

#if CSDF_PIXELS >= 2
static void dots_2(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        csdf_sum a0_0 = csdf_none(), a0_1 = csdf_none(), a0_2 = csdf_none(), a0_3 = csdf_none();
        csdf_sum a1_0 = csdf_none(), a1_1 = csdf_none(), a1_2 = csdf_none(), a1_3 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            csdf_taps w1 = csdf_weights(w + 4 * CSDF_OUTS); CSDF_KEEP_TAPS(w1);
            csdf_taps w2 = csdf_weights(w + 8 * CSDF_OUTS); CSDF_KEEP_TAPS(w2);
            csdf_taps w3 = csdf_weights(w + 12 * CSDF_OUTS); CSDF_KEEP_TAPS(w3);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0) DOT(a0_1, x0, w1) DOT(a0_2, x0, w2) DOT(a0_3, x0, w3)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0) DOT(a1_1, x1, w1) DOT(a1_2, x1, w2) DOT(a1_3, x1, w3)
        }
        csdf_put(to + 0 + o, from + o, a0_0, a0_1);
        csdf_put(to + 0 + o + 2 * CSDF_OUTS, from + o + 2 * CSDF_OUTS, a0_2, a0_3);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0, a1_1);
        csdf_put(to + 16 + o + 2 * CSDF_OUTS, from + 1 * apart + o + 2 * CSDF_OUTS, a1_2, a1_3);
    }
}

#endif
#if CSDF_PIXELS >= 3
static void dots_3(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        csdf_sum a0_0 = csdf_none(), a0_1 = csdf_none(), a0_2 = csdf_none(), a0_3 = csdf_none();
        csdf_sum a1_0 = csdf_none(), a1_1 = csdf_none(), a1_2 = csdf_none(), a1_3 = csdf_none();
        csdf_sum a2_0 = csdf_none(), a2_1 = csdf_none(), a2_2 = csdf_none(), a2_3 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            csdf_taps w1 = csdf_weights(w + 4 * CSDF_OUTS); CSDF_KEEP_TAPS(w1);
            csdf_taps w2 = csdf_weights(w + 8 * CSDF_OUTS); CSDF_KEEP_TAPS(w2);
            csdf_taps w3 = csdf_weights(w + 12 * CSDF_OUTS); CSDF_KEEP_TAPS(w3);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0) DOT(a0_1, x0, w1) DOT(a0_2, x0, w2) DOT(a0_3, x0, w3)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0) DOT(a1_1, x1, w1) DOT(a1_2, x1, w2) DOT(a1_3, x1, w3)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0) DOT(a2_1, x2, w1) DOT(a2_2, x2, w2) DOT(a2_3, x2, w3)
        }
        csdf_put(to + 0 + o, from + o, a0_0, a0_1);
        csdf_put(to + 0 + o + 2 * CSDF_OUTS, from + o + 2 * CSDF_OUTS, a0_2, a0_3);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0, a1_1);
        csdf_put(to + 16 + o + 2 * CSDF_OUTS, from + 1 * apart + o + 2 * CSDF_OUTS, a1_2, a1_3);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0, a2_1);
        csdf_put(to + 32 + o + 2 * CSDF_OUTS, from + 2 * apart + o + 2 * CSDF_OUTS, a2_2, a2_3);
    }
}

#endif
#if CSDF_PIXELS >= 4
static void dots_4(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        csdf_sum a0_0 = csdf_none(), a0_1 = csdf_none(), a0_2 = csdf_none(), a0_3 = csdf_none();
        csdf_sum a1_0 = csdf_none(), a1_1 = csdf_none(), a1_2 = csdf_none(), a1_3 = csdf_none();
        csdf_sum a2_0 = csdf_none(), a2_1 = csdf_none(), a2_2 = csdf_none(), a2_3 = csdf_none();
        csdf_sum a3_0 = csdf_none(), a3_1 = csdf_none(), a3_2 = csdf_none(), a3_3 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            csdf_taps w1 = csdf_weights(w + 4 * CSDF_OUTS); CSDF_KEEP_TAPS(w1);
            csdf_taps w2 = csdf_weights(w + 8 * CSDF_OUTS); CSDF_KEEP_TAPS(w2);
            csdf_taps w3 = csdf_weights(w + 12 * CSDF_OUTS); CSDF_KEEP_TAPS(w3);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0) DOT(a0_1, x0, w1) DOT(a0_2, x0, w2) DOT(a0_3, x0, w3)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0) DOT(a1_1, x1, w1) DOT(a1_2, x1, w2) DOT(a1_3, x1, w3)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0) DOT(a2_1, x2, w1) DOT(a2_2, x2, w2) DOT(a2_3, x2, w3)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0) DOT(a3_1, x3, w1) DOT(a3_2, x3, w2) DOT(a3_3, x3, w3)
        }
        csdf_put(to + 0 + o, from + o, a0_0, a0_1);
        csdf_put(to + 0 + o + 2 * CSDF_OUTS, from + o + 2 * CSDF_OUTS, a0_2, a0_3);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0, a1_1);
        csdf_put(to + 16 + o + 2 * CSDF_OUTS, from + 1 * apart + o + 2 * CSDF_OUTS, a1_2, a1_3);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0, a2_1);
        csdf_put(to + 32 + o + 2 * CSDF_OUTS, from + 2 * apart + o + 2 * CSDF_OUTS, a2_2, a2_3);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0, a3_1);
        csdf_put(to + 48 + o + 2 * CSDF_OUTS, from + 3 * apart + o + 2 * CSDF_OUTS, a3_2, a3_3);
    }
}

#endif
#if CSDF_PIXELS >= 5
static void dots_5(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        const csdf_e *p4 = x + 4 * pitch;
        csdf_sum a0_0 = csdf_none(), a0_1 = csdf_none(), a0_2 = csdf_none(), a0_3 = csdf_none();
        csdf_sum a1_0 = csdf_none(), a1_1 = csdf_none(), a1_2 = csdf_none(), a1_3 = csdf_none();
        csdf_sum a2_0 = csdf_none(), a2_1 = csdf_none(), a2_2 = csdf_none(), a2_3 = csdf_none();
        csdf_sum a3_0 = csdf_none(), a3_1 = csdf_none(), a3_2 = csdf_none(), a3_3 = csdf_none();
        csdf_sum a4_0 = csdf_none(), a4_1 = csdf_none(), a4_2 = csdf_none(), a4_3 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            csdf_taps w1 = csdf_weights(w + 4 * CSDF_OUTS); CSDF_KEEP_TAPS(w1);
            csdf_taps w2 = csdf_weights(w + 8 * CSDF_OUTS); CSDF_KEEP_TAPS(w2);
            csdf_taps w3 = csdf_weights(w + 12 * CSDF_OUTS); CSDF_KEEP_TAPS(w3);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0) DOT(a0_1, x0, w1) DOT(a0_2, x0, w2) DOT(a0_3, x0, w3)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0) DOT(a1_1, x1, w1) DOT(a1_2, x1, w2) DOT(a1_3, x1, w3)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0) DOT(a2_1, x2, w1) DOT(a2_2, x2, w2) DOT(a2_3, x2, w3)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0) DOT(a3_1, x3, w1) DOT(a3_2, x3, w2) DOT(a3_3, x3, w3)
            const csdf_four x4 = csdf_spread(p4 + k); DOT(a4_0, x4, w0) DOT(a4_1, x4, w1) DOT(a4_2, x4, w2) DOT(a4_3, x4, w3)
        }
        csdf_put(to + 0 + o, from + o, a0_0, a0_1);
        csdf_put(to + 0 + o + 2 * CSDF_OUTS, from + o + 2 * CSDF_OUTS, a0_2, a0_3);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0, a1_1);
        csdf_put(to + 16 + o + 2 * CSDF_OUTS, from + 1 * apart + o + 2 * CSDF_OUTS, a1_2, a1_3);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0, a2_1);
        csdf_put(to + 32 + o + 2 * CSDF_OUTS, from + 2 * apart + o + 2 * CSDF_OUTS, a2_2, a2_3);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0, a3_1);
        csdf_put(to + 48 + o + 2 * CSDF_OUTS, from + 3 * apart + o + 2 * CSDF_OUTS, a3_2, a3_3);
        csdf_put(to + 64 + o, from + 4 * apart + o, a4_0, a4_1);
        csdf_put(to + 64 + o + 2 * CSDF_OUTS, from + 4 * apart + o + 2 * CSDF_OUTS, a4_2, a4_3);
    }
}

#endif
#if CSDF_PIXELS >= 6
static void dots_6(const csdf_e *x, ptrdiff_t pitch, const int8_t *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
    for (int32_t o = 0; o < outs; o += CSDF_VECTORS * CSDF_OUTS) {
        const int8_t *w = weights + 4 * o;
        const csdf_e *p0 = x;
        const csdf_e *p1 = x + 1 * pitch;
        const csdf_e *p2 = x + 2 * pitch;
        const csdf_e *p3 = x + 3 * pitch;
        const csdf_e *p4 = x + 4 * pitch;
        const csdf_e *p5 = x + 5 * pitch;
        csdf_sum a0_0 = csdf_none(), a0_1 = csdf_none(), a0_2 = csdf_none(), a0_3 = csdf_none();
        csdf_sum a1_0 = csdf_none(), a1_1 = csdf_none(), a1_2 = csdf_none(), a1_3 = csdf_none();
        csdf_sum a2_0 = csdf_none(), a2_1 = csdf_none(), a2_2 = csdf_none(), a2_3 = csdf_none();
        csdf_sum a3_0 = csdf_none(), a3_1 = csdf_none(), a3_2 = csdf_none(), a3_3 = csdf_none();
        csdf_sum a4_0 = csdf_none(), a4_1 = csdf_none(), a4_2 = csdf_none(), a4_3 = csdf_none();
        csdf_sum a5_0 = csdf_none(), a5_1 = csdf_none(), a5_2 = csdf_none(), a5_3 = csdf_none();
        for (ptrdiff_t k = 0; k < 4 * steps; k += 4, w += 64) {
            csdf_taps w0 = csdf_weights(w + 0 * CSDF_OUTS); CSDF_KEEP_TAPS(w0);
            csdf_taps w1 = csdf_weights(w + 4 * CSDF_OUTS); CSDF_KEEP_TAPS(w1);
            csdf_taps w2 = csdf_weights(w + 8 * CSDF_OUTS); CSDF_KEEP_TAPS(w2);
            csdf_taps w3 = csdf_weights(w + 12 * CSDF_OUTS); CSDF_KEEP_TAPS(w3);
            const csdf_four x0 = csdf_spread(p0 + k); DOT(a0_0, x0, w0) DOT(a0_1, x0, w1) DOT(a0_2, x0, w2) DOT(a0_3, x0, w3)
            const csdf_four x1 = csdf_spread(p1 + k); DOT(a1_0, x1, w0) DOT(a1_1, x1, w1) DOT(a1_2, x1, w2) DOT(a1_3, x1, w3)
            const csdf_four x2 = csdf_spread(p2 + k); DOT(a2_0, x2, w0) DOT(a2_1, x2, w1) DOT(a2_2, x2, w2) DOT(a2_3, x2, w3)
            const csdf_four x3 = csdf_spread(p3 + k); DOT(a3_0, x3, w0) DOT(a3_1, x3, w1) DOT(a3_2, x3, w2) DOT(a3_3, x3, w3)
            const csdf_four x4 = csdf_spread(p4 + k); DOT(a4_0, x4, w0) DOT(a4_1, x4, w1) DOT(a4_2, x4, w2) DOT(a4_3, x4, w3)
            const csdf_four x5 = csdf_spread(p5 + k); DOT(a5_0, x5, w0) DOT(a5_1, x5, w1) DOT(a5_2, x5, w2) DOT(a5_3, x5, w3)
        }
        csdf_put(to + 0 + o, from + o, a0_0, a0_1);
        csdf_put(to + 0 + o + 2 * CSDF_OUTS, from + o + 2 * CSDF_OUTS, a0_2, a0_3);
        csdf_put(to + 16 + o, from + 1 * apart + o, a1_0, a1_1);
        csdf_put(to + 16 + o + 2 * CSDF_OUTS, from + 1 * apart + o + 2 * CSDF_OUTS, a1_2, a1_3);
        csdf_put(to + 32 + o, from + 2 * apart + o, a2_0, a2_1);
        csdf_put(to + 32 + o + 2 * CSDF_OUTS, from + 2 * apart + o + 2 * CSDF_OUTS, a2_2, a2_3);
        csdf_put(to + 48 + o, from + 3 * apart + o, a3_0, a3_1);
        csdf_put(to + 48 + o + 2 * CSDF_OUTS, from + 3 * apart + o + 2 * CSDF_OUTS, a3_2, a3_3);
        csdf_put(to + 64 + o, from + 4 * apart + o, a4_0, a4_1);
        csdf_put(to + 64 + o + 2 * CSDF_OUTS, from + 4 * apart + o + 2 * CSDF_OUTS, a4_2, a4_3);
        csdf_put(to + 80 + o, from + 5 * apart + o, a5_0, a5_1);
        csdf_put(to + 80 + o + 2 * CSDF_OUTS, from + 5 * apart + o + 2 * CSDF_OUTS, a5_2, a5_3);
    }
}

#endif
#endif

static csdf_dots *const dots[] = {
    dots_1,
#if CSDF_PIXELS >= 2
    dots_2,
#endif
#if CSDF_PIXELS >= 3
    dots_3,
#endif
#if CSDF_PIXELS >= 4
    dots_4,
#endif
#if CSDF_PIXELS >= 5
    dots_5,
#endif
#if CSDF_PIXELS >= 6
    dots_6,
#endif
#if CSDF_PIXELS >= 7
    dots_7,
#endif
#if CSDF_PIXELS >= 8
    dots_8,
#endif
#if CSDF_PIXELS >= 9
    dots_9,
#endif
#if CSDF_PIXELS >= 10
    dots_10,
#endif
#if CSDF_PIXELS >= 11
    dots_11,
#endif
#if CSDF_PIXELS >= 12
    dots_12,
#endif
};
