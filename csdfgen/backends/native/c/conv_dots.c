/* Direct convolution of few output channels: vectors lie along the products of a sum instead of the channels, of which there
 * would be less than a vector.
 *
 * What a window sees of a row of one piece is a run of floats, or one for each tap where taps are not side by side; what it
 * sees of padding is left out. Some pixels and some output channels are summed up at a time, which share their loads.
 */
#include "images.h"
#include "products.h"

enum {
    OUTS = 4,  /* output channels at a time, at most */
    RUNS = 64, /* of a window at a time */
    SUMS = 24  /* of a kernel, at most */
};

/* count: floats. step: from a pixel's run to the next one's. */
typedef struct csdf_dots_run {
    const float *at, *weights;
    ptrdiff_t step;
    int32_t count;
} csdf_dots_run;

/* filter: floats from a channel's weights to the next one's. sums: of each pixel, of each channel, that are added to. */
typedef void csdf_dots_kernel(const csdf_dots_run *runs, int32_t count, ptrdiff_t filter, float *sums);

#define UNROLLED _Pragma("GCC unroll 24")

/* One loop over all sums, which compilers take apart before they choose registers. */
CSDF_INLINE void add_run(csdf_v *sums, const csdf_dots_run *run, ptrdiff_t filter, int pixels, int outs)
{
    const float *at = run->at, *weights = run->weights;
    const ptrdiff_t step = run->step;
    int32_t left = run->count;
    for (; left >= CSDF_LANES; left -= CSDF_LANES, at += CSDF_LANES, weights += CSDF_LANES)
        UNROLLED for (int i = 0; i < pixels * outs; i++)
            CSDF_FMA(sums[i], csdf_load(at + i / outs * step), csdf_load(weights + i % outs * filter));
    if (left)
        UNROLLED for (int i = 0; i < pixels * outs; i++)
            CSDF_FMA(sums[i], csdf_load_some(at + i / outs * step, left), csdf_load_some(weights + i % outs * filter, left));
}

CSDF_INLINE void add_runs(const csdf_dots_run *runs, int32_t count, ptrdiff_t filter, float *sums, int pixels, int outs)
{
    csdf_v own[SUMS];
    UNROLLED for (int i = 0; i < pixels * outs; i++)
        own[i] = csdf_splat(0.0f);
    for (int32_t r = 0; r < count; r++)
        add_run(own, runs + r, filter, pixels, outs);
    UNROLLED for (int i = 0; i < pixels * outs; i++)
        sums[i] += csdf_total(own[i]);
}

#define KERNEL(pixels, outs)                                                                                    \
    static void dots_##pixels##_##outs(const csdf_dots_run *runs, int32_t count, ptrdiff_t filter, float *sums) \
    {                                                                                                           \
        add_runs(runs, count, filter, sums, pixels, outs);                                                      \
    }

/* Kernels of one pixel, of some, and of as many as have sums in registers. */
typedef struct csdf_dots_shape {
    int32_t pixels[3];
    csdf_dots_kernel *kernels[3];
} csdf_dots_shape;

KERNEL(1, 1) KERNEL(1, 2) KERNEL(1, 3) KERNEL(1, 4)
#if CSDF_LANES == 16 || CSDF_LANES == 4 /* 32 registers */
KERNEL(4, 1) KERNEL(4, 2) KERNEL(4, 3) KERNEL(3, 4)
KERNEL(12, 1) KERNEL(12, 2) KERNEL(8, 3) KERNEL(6, 4)
static const csdf_dots_shape shapes[OUTS] = {
    {{1, 4, 12}, {dots_1_1, dots_4_1, dots_12_1}},
    {{1, 4, 12}, {dots_1_2, dots_4_2, dots_12_2}},
    {{1, 4, 8}, {dots_1_3, dots_4_3, dots_8_3}},
    {{1, 3, 6}, {dots_1_4, dots_3_4, dots_6_4}},
};
#else
KERNEL(4, 1) KERNEL(3, 2) KERNEL(2, 3)
KERNEL(12, 1) KERNEL(6, 2) KERNEL(4, 3) KERNEL(2, 4)
static const csdf_dots_shape shapes[OUTS] = {
    {{1, 4, 12}, {dots_1_1, dots_4_1, dots_12_1}},
    {{1, 3, 6}, {dots_1_2, dots_3_2, dots_6_2}},
    {{1, 2, 4}, {dots_1_3, dots_2_3, dots_4_3}},
    {{1, 2, 2}, {dots_1_4, dots_2_4, dots_2_4}},
};
#endif

/* Some channels of a slab. filter: see csdf_dots_kernel. whole: whether the taps of a row of the kernel are one run. bias: by
 * pixel and channel. */
typedef struct csdf_dots {
    const csdf_conv_step *step;
    const csdf_dots_shape *shape;
    const float *weights;
    ptrdiff_t filter;
    int32_t channel, outs, whole;
    float bias[SUMS + CSDF_LANES];
} csdf_dots;

/* Adds up what pixels of an output row from column x on see by taps [from, to) of each row of the kernel. */
static void block(const csdf_dots *own, csdf_dots_kernel *kernel, int32_t row, int32_t x, int32_t from, int32_t to, float *sums)
{
    const csdf_conv_step *step = own->step;
    const csdf_layer *layer = step->layer;
    const ptrdiff_t ins = layer->in_channels;
    const int32_t first = csdf_first_row(row, layer->stride_h, step->each, step->apart);
    const int32_t taps = own->whole ? to - from : 1, in = x * layer->stride_w - layer->pad_left;
    csdf_dots_run runs[RUNS];
    int32_t count = 0;
    for (int32_t y = 0; y < layer->kernel_h; y++) {
        const float *weights = own->weights + y * layer->kernel_w * ins;
        for (int32_t i = 0; i < step->piece_count; weights += step->pieces[i++].channels) {
            const csdf_source *piece = step->pieces + i;
            const float *const at = piece->rows ? piece->rows[first + y * layer->dilation_h] : NULL;
            for (int32_t tap = from; at && tap < to; tap += taps) {
                if (count == RUNS) {
                    kernel(runs, count, own->filter, sums);
                    count = 0;
                }
                csdf_dots_run *run = runs + count++;
                run->at = at + (in + tap * layer->dilation_w) * piece->stride;
                run->weights = weights + tap * ins;
                run->step = layer->stride_w * piece->stride;
                run->count = taps * piece->channels;
            }
        }
    }
    kernel(runs, count, own->filter, sums);
}

static void finish(const csdf_dots *own, int32_t row, int32_t x, int32_t pixels, float *sums)
{
    const csdf_target *out = &own->step->out;
    const csdf_source *residual = own->step->residual;
    float *to = out->rows[row] + x * out->stride + own->channel;
    if (residual) {
        const float *init = residual->rows[row] + x * residual->stride + own->channel;
        for (int32_t p = 0; p < pixels; p++)
            for (int32_t o = 0; o < own->outs; o++)
                sums[p * own->outs + o] += init[p * residual->stride + o];
    }
    for (int32_t i = 0; i < pixels * own->outs; i += CSDF_LANES) {
        const csdf_v sum = csdf_load(sums + i) + csdf_load(own->bias + i);
        csdf_store(sums + i, csdf_activated(sum, &own->step->layer->activation));
    }
    for (int32_t p = 0; p < pixels; p++)
        for (int32_t o = 0; o < own->outs; o++)
            to[p * out->stride + o] = sums[p * own->outs + o];
}

static void channels(const csdf_dots *own)
{
    const csdf_conv_step *step = own->step;
    const csdf_layer *layer = step->layer;
    const csdf_target *out = &step->out;
    const int32_t stride = layer->stride_w, dilation = layer->dilation_w, wide = layer->kernel_w;
    /* the last column, as the first tap of column 0 sees it */
    const int32_t right = step->width - 1 + layer->pad_left;
    const int32_t last = right < (wide - 1) * dilation ? 0 : (right - (wide - 1) * dilation) / stride + 1;
    for (int32_t row = 0; row < out->count; row++)
        for (int32_t x = out->column, end = x + out->columns, pixels; x < end; x += pixels) {
            const int32_t in = x * stride - layer->pad_left;
            const int32_t from = in < 0 ? least(wide, (-in + dilation - 1) / dilation) : 0;
            const int32_t to = right < x * stride ? from : most(from, least(wide, (right - x * stride) / dilation + 1));
            const int32_t alike = in < 0 ? 1 : most(1, least(end, last) - x);
            const int32_t size = (alike >= own->shape->pixels[1]) + (alike >= own->shape->pixels[2]);
            float sums[SUMS + CSDF_LANES] = {0};
            pixels = own->shape->pixels[size];
            if (from < to)
                block(own, own->shape->kernels[size], row, x, from, to, sums);
            finish(own, row, x, pixels, sums);
        }
}

void csdf_conv_dots(const csdf_conv_step *step)
{
    const csdf_layer *layer = step->layer;
    const csdf_target *out = &step->out;
    csdf_dots own;
    own.step = step;
    own.filter = (ptrdiff_t)layer->kernel_h * layer->kernel_w * layer->in_channels;
    own.whole = layer->dilation_w == 1 && step->piece_count == 1 && step->pieces->stride == layer->in_channels;
    for (int32_t done = 0, groups = (out->channels + OUTS - 1) / OUTS; groups; done += own.outs, groups--) {
        own.outs = (out->channels - done + groups - 1) / groups;
        own.channel = out->channel + done;
        own.shape = shapes + own.outs - 1;
        own.weights = layer->weights + own.channel * own.filter;
        for (int32_t i = 0; i < SUMS + CSDF_LANES; i++)
            own.bias[i] = layer->bias[own.channel + i % own.outs];
        channels(&own);
    }
}

void csdf_conv_dots_of(const void *step) { csdf_conv_dots(step); }
