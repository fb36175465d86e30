/* Windows of a map of bytes become their greatest byte, or their average; maps the average of all of it.
 *
 * Loops over channels that lie side by side, which compilers turn into vectors.
 */
#include "bytes.h"

enum { CHANNELS = 64 }; /* at a time */

/* The greatest of n bytes each: those that are there, and those that are seen. All are flipped to unsigned ones. */
CSDF_INLINE void greater(uint8_t *most, const uint8_t *at, int32_t n, uint8_t flip)
{
    for (int32_t c = 0; c < n; c++) {
        const uint8_t x = at[c] ^ flip;
        most[c] = x > most[c] ? x : most[c];
    }
}

static void pixel(const csdf_byte_pool_step *step, int32_t row, int32_t x, int32_t channel, int32_t n)
{
    const uint8_t flip = (uint8_t)(step->flip ^ 0x80);
    uint8_t *out = step->out[row] + (ptrdiff_t)x * step->stride + channel;
    uint8_t most[CHANNELS];
    for (int32_t c = 0; c < n; c++)
        most[c] = step->begin ? 0 : out[c] ^ flip;
    for (int32_t y = 0; y < step->kernel_h; y++) {
        const uint8_t *line = step->source.rows[row * step->stride_h + y * step->dilation_h];
        int32_t in = x * step->stride_w - step->pad_left;
        for (int32_t k = 0; line && k < step->kernel_w; k++, in += step->dilation_w)
            if (in >= 0 && in < step->width) {
                const uint8_t *at = line + (ptrdiff_t)in * step->source.stride + channel;
                if (n == CHANNELS)
                    greater(most, at, CHANNELS, flip);
                else
                    greater(most, at, n, flip);
            }
    }
    for (int32_t c = 0; c < n; c++)
        out[c] = most[c] ^ flip;
}

void csdf_pool_bytes(const csdf_byte_pool_step *step)
{
    for (int32_t row = 0; row < step->count; row++)
        for (int32_t x = 0; x < step->columns; x++)
            for (int32_t c = 0; c < step->source.channels; c += CHANNELS)
                pixel(step, row, x, c, least(CHANNELS, step->source.channels - c));
}

void csdf_pool_bytes_of(const void *step) { csdf_pool_bytes(step); }

/* The first n of sixteen bytes as integers; those behind are anything. */
CSDF_INLINE void some(csdf_i *x, const uint8_t *at, int32_t n, uint8_t flip)
{
    uint8_t copy[16] = {0};
    if (n == 16) {
        csdf_widen(x, at, flip);
    } else {
        memcpy(copy, at, (size_t)n);
        csdf_widen(x, copy, flip);
    }
}

/* Up to sixteen channels of an output pixel. */
static void average(const csdf_byte_average_step *step, int32_t row, int32_t x, int32_t channel, int32_t n)
{
    const csdf_bounds bounds = csdf_bounds_of(0, step->low, step->high);
    const csdf_i more = csdf_splat_i(step->flip - step->source_zero);
    const csdf_v scale = csdf_splat(step->scale), out_scale = csdf_splat(step->out_scale);
    const csdf_v seen = csdf_splat((float)(step->rows_seen[row] * step->columns_seen[x]));
    const csdf_v zero = csdf_splat((float)step->zero);
    csdf_v sums[CSDF_BLOCK_VECTORS];
    csdf_i at[CSDF_BLOCK_VECTORS];
    CSDF_EACH(v)
        sums[v] = csdf_splat(0.0f);
    for (int32_t y = 0; y < step->kernel_h; y++) {
        const uint8_t *line = step->source.rows[row * step->stride_h + y * step->dilation_h];
        int32_t in = x * step->stride_w - step->pad_left;
        for (int32_t k = 0; line && k < step->kernel_w; k++, in += step->dilation_w)
            if (in >= 0 && in < step->width) {
                some(at, line + (ptrdiff_t)in * step->source.stride + channel, n, (uint8_t)step->flip);
                CSDF_EACH(v)
                    sums[v] += csdf_apart(csdf_float(at[v] + more), scale);
            }
    }
    CSDF_EACH(v)
        at[v] = csdf_round(sums[v] / seen / out_scale + zero, &bounds);
    csdf_store_bytes(step->out[row] + (ptrdiff_t)x * step->stride + channel, at, n);
}

void csdf_average_bytes(const csdf_byte_average_step *step)
{
    for (int32_t row = 0; row < step->count; row++)
        for (int32_t x = 0; x < step->columns; x++)
            for (int32_t c = 0; c < step->source.channels; c += 16)
                average(step, row, x, c, least(16, step->source.channels - c));
}

void csdf_average_bytes_of(const void *step) { csdf_average_bytes(step); }

void csdf_sum_bytes(const csdf_byte_sum_step *step)
{
    for (int32_t first = 0; first < step->source.channels; first += CSDF_SUMMED) {
        const int32_t n = least(CSDF_SUMMED, step->source.channels - first);
        int32_t sums[CSDF_SUMMED];
        csdf_sum_pixels(step, first, n, sums);
        float *kept = (float *)step->sums + first;
        for (int32_t c = 0; c < n; c++)
            kept[c] = (float)sums[c] + (step->begin ? 0.0f : kept[c]);
        if (step->end) {
            float factors[CSDF_SUMMED];
            const csdf_rescaling into = {CSDF_BYTES, step->zero, step->low, step->high, factors, NULL};
            for (int32_t c = 0; c < n; c++)
                sums[c] = (int32_t)kept[c] + step->rest;
            for (int32_t c = 0; c < CSDF_SUMMED; c++)
                factors[c] = step->factor;
            for (int32_t c = 0; c < n; c += CSDF_PANEL)
                csdf_rescale_by_factors(&into, 0, least(CSDF_PANEL, n - c), sums + c, 1, step->out + first + c, 0);
        }
    }
}

void csdf_sum_bytes_of(const void *step) { csdf_sum_bytes(step); }
