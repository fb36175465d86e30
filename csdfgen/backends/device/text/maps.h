/* What kernels on maps have in common: vectors of LANES channels, activations, rows of a step.
 *
 * PIXELS: of a block, side by side, whose sums a work item keeps in registers. LANES divides CSDF_PANEL.
 */
#ifndef LANES
#define LANES 4
#endif
#ifndef PIXELS
#define PIXELS 4
#endif

#ifdef __OPENCL_VERSION__
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#if LANES == 1
typedef float V;
#define LOAD(at) (*(at))
#define STORE(value, at) (*(at) = (value))
#else
typedef JOIN(float, LANES) V;
#define LOAD(at) JOIN(vload, LANES)(0, at)
#define STORE(value, at) JOIN(vstore, LANES)(value, 0, at)
#endif
#define SPLAT(x) ((V)(x))
#define LARGER(low, x) ((x) < (low) ? (low) : (x)) /* what is not a number stays so */
#define SMALLER(high, x) ((x) > (high) ? (high) : (x))
#define EXP(x) exp(x)
#define TANH(x) tanh(x)
#define ERF(x) erf(x)
#define MAD(a, x, w) ((a) = fma(x, w, a))
typedef union lanes {
    V v;
    float f[LANES];
} lanes;
#else
struct V {
    float f[LANES];
};
#define EACH_LANE for (int i_ = 0; i_ < LANES; i_++)
#define OPERATOR(sign) \
    DEVICE V operator sign(V a, V b) { V r; EACH_LANE r.f[i_] = a.f[i_] sign b.f[i_]; return r; }
OPERATOR(+)
OPERATOR(-)
OPERATOR(*)
OPERATOR(/)
#define FUNCTION(name, expression) \
    DEVICE V name(V x) { V r; EACH_LANE r.f[i_] = expression(x.f[i_]); return r; }
FUNCTION(EXP, expf)
FUNCTION(TANH, tanhf)
FUNCTION(ERF, erff)
DEVICE V SPLAT(float x) { V r; EACH_LANE r.f[i_] = x; return r; }
DEVICE V LOAD(const float *at) { V r; EACH_LANE r.f[i_] = at[i_]; return r; }
DEVICE void STORE(V v, float *at) { EACH_LANE at[i_] = v.f[i_]; }
DEVICE V LARGER(V low, V x) { V r; EACH_LANE r.f[i_] = x.f[i_] < low.f[i_] ? low.f[i_] : x.f[i_]; return r; }
DEVICE V SMALLER(V high, V x) { V r; EACH_LANE r.f[i_] = x.f[i_] > high.f[i_] ? high.f[i_] : x.f[i_]; return r; }
DEVICE void mad_of(V &a, V x, V w) { EACH_LANE a.f[i_] = fmaf(x.f[i_], w.f[i_], a.f[i_]); }
#define MAD(a, x, w) mad_of(a, x, w)
typedef union lanes {
    V v;
    float f[LANES];
    __device__ lanes() {}
} lanes;
#endif

#define EACH_PIXEL _Pragma("unroll") for (int32_t p = 0; p < PIXELS; p++)

/* The first n lanes, zeros behind them. */
DEVICE V load_some(GLOBAL const float *at, int32_t n)
{
    lanes found;
    if (n >= LANES)
        return LOAD(at);
    for (int32_t i = 0; i < LANES; i++)
        found.f[i] = i < n ? at[i] : 0.0f;
    return found.v;
}

DEVICE void store_some(V value, GLOBAL float *at, int32_t n)
{
    lanes given;
    if (n >= LANES) {
        STORE(value, at);
        return;
    }
    given.v = value;
    for (int32_t i = 0; i < LANES; i++)
        if (i < n)
            at[i] = given.f[i];
}

DEVICE V sigmoid_of(V x) { return SPLAT(1.0f) / (SPLAT(1.0f) + EXP(SPLAT(0.0f) - x)); }

DEVICE V gate_of(V x, V slope, V shift)
{
    return SMALLER(SPLAT(1.0f), LARGER(SPLAT(0.0f), slope * x + shift));
}

DEVICE V activated(V x, csdf_activation by)
{
    const V a = SPLAT(by.a), b = SPLAT(by.b);
    switch (by.kind) {
    case CSDF_CLIP: return SMALLER(b, LARGER(a, x));
    case CSDF_LEAKY: return LARGER(SPLAT(0.0f), x) + a * SMALLER(SPLAT(0.0f), x);
    case CSDF_SIGMOID: return sigmoid_of(x);
    case CSDF_SWISH: return x * sigmoid_of(a * x);
    case CSDF_HARD_SIGMOID: return gate_of(x, a, b);
    case CSDF_HARD_SWISH: return x * gate_of(x, a, b);
    case CSDF_TANH: return TANH(x);
    case CSDF_ERF: return ERF(x);
    case CSDF_GELU: return SPLAT(0.5f) * x * (SPLAT(1.0f) + ERF(SPLAT(0.70710678118654752f) * x));
    case CSDF_GELU_TANH:
        return x * sigmoid_of(x * (SPLAT(0.0713548162726f) * (x * x) + SPLAT(1.59576912160573f)));
    case CSDF_MISH: {
        const V e = EXP(SMALLER(SPLAT(20.0f), x)), n = e * (e + SPLAT(2.0f));
        return x * (n / (n + SPLAT(2.0f)));
    }
    }
    return x;
}

/* The row of a piece's table that the first tap of an output row meets. */
DEVICE int32_t first_row(int32_t row, int32_t stride, int32_t each, int32_t apart)
{
    return each ? row / each * apart + row % each * stride : row * stride;
}

/* What all pixels of a convolution see of row y of the kernel, where that is one run: `in`, if it is inside the map; every:
 * whether all are. */
#define POINT_AT_RUNS(type, y, in, every) \
    EACH_PIXEL { \
        const place at_ = IN_TABLES(place, pieces[0].rows) \
            [first_row(row[p], layer->stride_h, step->each, step->apart) + (y) * layer->dilation_h]; \
        const int32_t to_ = column[p] * layer->stride_w - layer->pad_left; \
        const int32_t inside_ = at_ != 0 && to_ >= 0 && to_ + layer->kernel_w <= step->width; \
        in[p] = AT(const type, inside_ ? at_ : layer->bias) + (inside_ ? to_ * ins : 0); \
        every &= inside_; \
    }

typedef GLOBAL const place *table_of_rows;
