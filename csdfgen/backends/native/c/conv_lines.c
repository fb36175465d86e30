/* Direct convolution of few input channels: pixels of an output row, whose windows are equally far apart.
 *
 * The taps of a kernel row are one run of floats, and a pointer for each row of the kernel is all that the pixels of a
 * line need. What lines at the edges of a map see is copied with its padding, so that it is as regular.
 */
#include "images.h"
#include "products.h"

enum {
    ROWS = 16,    /* of a kernel */
    COPIED = 768, /* floats of a line that are copied: 3 KiB */
    LEAST = 4,    /* pixels that have to fit into them, or too many lines would be copied */
    WIDE = 16,    /* pixels of a row, where windows have one tap: blocks across several rows suit less */
    FEW = 2 * CSDF_PANEL, FEW_OF_ONE = 6 * CSDF_PANEL, /* input channels, of windows and of single taps */
    PIXELS = 12   /* of a line, at most */
};

/* Some vectors of output channels for pixels of a row. at, weights, last: by row of the kernel, what the first pixel sees, and
 * the weights of the first vector and of the first one in the last panel, there `pitch` floats from an input to the next.
 * run: floats of a row of the kernel. step, pace, init_pace: floats from a pixel to the next. init: what is added, or NULL.
 * some: channels of the last vector, 0: all. */
typedef struct csdf_pixels {
    const float *at[ROWS], *weights[ROWS], *last[ROWS];
    int32_t rows, some;
    ptrdiff_t pitch, panel, run, step, pace, init_pace;
    const float *bias, *init;
    float *out;
    csdf_activation activation;
} csdf_pixels;

/* Computes pixels, `times` times so many, one behind the other. */
typedef void csdf_pixels_kernel(const csdf_pixels *line, int32_t times);

/* Kernels of 1 to `pixels` pixels, by pixels - 1. */
typedef struct csdf_pixels_shape {
    int32_t vectors, pixels;
    csdf_pixels_kernel *kernels[PIXELS];
} csdf_pixels_shape;

#if CSDF_LANES == 16
#include "lines_16.h"
#elif CSDF_LANES == 8
#include "lines_8.h"
#elif CSDF_LANES == 4
#include "lines_4.h"
#else
#include "lines_1.h"
#endif

/* The first shape that has no vector too many for so many channels; the last one has a single vector. */
static const csdf_pixels_shape *shape_for(int32_t channels)
{
    const csdf_pixels_shape *shape = lines;
    while (shape->vectors > (channels + CSDF_LANES - 1) / CSDF_LANES)
        shape++;
    return shape;
}

/* Floats [in, in + count) of a row of `width`, zeros outside of it; zeros, up to a vector of them, are written behind. */
CSDF_INLINE void clip(const float *row, int32_t width, int32_t in, int32_t count, float *to)
{
    const int32_t low = least(count, most(0, -in)), high = most(low, least(count, width - in));
    csdf_v zero = csdf_splat(0.0f);
    int32_t c = 0;
    CSDF_KEEP(zero); /* a call of memset would take longer */
    for (; c < low; c += CSDF_LANES)
        csdf_store(to + c, zero);
    for (c = low; c + CSDF_LANES <= high; c += CSDF_LANES)
        csdf_store(to + c, csdf_load(row + in + c));
    if (c < high)
        csdf_store(to + c, csdf_load_some(row + in + c, high - c));
    for (c = high; c < count; c += CSDF_LANES)
        csdf_store(to + c, zero);
}

/* Columns from x on, `times` times so many pixels, of all rows of a step; inside: whether none of them sees padding at the
 * left or the right. from, behind: the first vector's weights, and panels from there to the last. */
static void columns(const csdf_conv_step *step, int32_t x, int32_t pixels, int32_t times, int32_t inside,
    csdf_pixels_kernel *kernel, int32_t channel, const float *from, int32_t behind, csdf_pixels *own)
{
    const csdf_layer *layer = step->layer;
    const csdf_source *residual = step->residual;
    const int32_t stride = (int32_t)step->pieces->stride, in = (x * layer->stride_w - layer->pad_left) * stride;
    const int32_t seen = (pixels - 1) * (int32_t)own->step + (int32_t)own->run;
    float copied[COPIED + CSDF_LANES];
    for (int32_t row = 0; row < step->out.count; row++) {
        const float *const *rows = step->pieces->rows + csdf_first_row(row, layer->stride_h, step->each, step->apart);
        float *to = copied;
        own->rows = 0;
        for (int32_t y = 0; y < layer->kernel_h; y++, rows += layer->dilation_h) {
            if (!*rows)
                continue;
            own->weights[own->rows] = from + y * own->run * CSDF_PANEL;
            own->last[own->rows] = from + behind * own->panel + y * own->run * own->pitch;
            own->at[own->rows++] = inside ? *rows + in : to;
            if (!inside) {
                clip(*rows, (step->width - 1) * stride + layer->in_channels, in, seen, to);
                to += seen;
            }
        }
        own->out = step->out.rows[row] + x * own->pace + channel;
        if (residual)
            own->init = residual->rows[row] + x * own->init_pace + channel;
        kernel(own, times);
    }
}

int32_t csdf_conv_lines(const csdf_conv_step *step)
{
    const csdf_layer *layer = step->layer;
    const csdf_source *piece = step->pieces;
    const csdf_target *out = &step->out;
    const int32_t ins = layer->in_channels, run = layer->kernel_w * ins, pace = layer->stride_w * (int32_t)piece->stride;
    const int32_t single = layer->kernel_w == 1 && layer->kernel_h == 1;
    if (layer->groups > 1 || layer->dilation_w > 1 || step->piece_count > 1 || out->columns < (single ? WIDE : 1)
        || ins > (single ? FEW_OF_ONE : FEW) || (!single && piece->stride != ins) || layer->kernel_h > ROWS
        || COPIED / layer->kernel_h < run + (LEAST - 1) * pace)
        return 0;
    /* pixels that can be copied; columns [from, to) see no padding */
    const int32_t fit = (COPIED / layer->kernel_h - run) / pace + 1;
    const int32_t before = most(0, layer->pad_left), right = step->width - layer->kernel_w + layer->pad_left;
    const int32_t from = (before + layer->stride_w - 1) / layer->stride_w, to = right < 0 ? 0 : right / layer->stride_w + 1;
    csdf_pixels own;
    own.run = run;
    own.step = pace;
    own.panel = (ptrdiff_t)layer->kernel_h * run * CSDF_PANEL;
    own.pace = out->stride;
    own.init = NULL;
    own.init_pace = step->residual ? step->residual->stride : 0;
    own.activation = layer->activation;
    for (int32_t done = 0, lanes; done < out->channels; done += lanes) {
        const int32_t channel = out->channel + done, left = out->channels - done;
        const csdf_pixels_shape *shape = shape_for(left);
        /* of equal size, or one more */
        const int32_t count = (out->columns + shape->pixels - 1) / shape->pixels;
        const int32_t size = out->columns / count, more = out->columns % count;
        lanes = shape->vectors * CSDF_LANES;
        own.some = left < lanes ? left % CSDF_LANES : 0;
        const int32_t behind = (lanes - 1) / CSDF_PANEL, first = channel / CSDF_PANEL;
        const float *weights = layer->weights + first * own.panel + channel % CSDF_PANEL;
        own.pitch = csdf_pitch_of(layer->out_channels - (first + behind) * CSDF_PANEL);
        own.bias = layer->bias + channel;
        for (int32_t k = 0, x = out->column, times; k < count; k += times) {
            const int32_t pixels = size + (k < more), alike = k < more ? more : count;
            const int32_t inside = x >= from && x + pixels <= to, end = x + pixels;
            times = 1;
            while (inside && k + times < alike && x + (times + 1) * pixels <= to)
                times++;
            for (; !inside && x + fit < end; x += fit)
                columns(step, x, fit, 1, 0, shape->kernels[fit - 1], channel, weights, behind, &own);
            columns(step, x, end - x, times, inside, shape->kernels[end - x - 1], channel, weights, behind, &own);
            x = end + (times - 1) * pixels;
        }
    }
    return 1;
}
