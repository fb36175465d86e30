/* Averages of bytes by integers alone: csdf_average_integers, csdf_sum_integers. */
#include "bytes.h"

/* Up to so many channels of an output pixel. */
static void average(const csdf_byte_average_step *step, int32_t row, int32_t x, int32_t channel, int32_t n)
{
    const int32_t *by = step->shifts + 2 * (ptrdiff_t)(step->rows_seen[row] * step->columns_seen[x]);
    uint8_t *out = step->out[row] + (ptrdiff_t)x * step->stride + channel;
    int32_t sums[CSDF_SUMMED] = {0}, read = 0;
    for (int32_t y = 0; y < step->kernel_h; y++) {
        const uint8_t *line = step->source.rows[row * step->stride_h + y * step->dilation_h];
        int32_t in = x * step->stride_w - step->pad_left;
        for (int32_t k = 0; line && k < step->kernel_w; k++, in += step->dilation_w)
            if (in >= 0 && in < step->width) {
                csdf_add_bytes(sums, line + (ptrdiff_t)in * step->source.stride + channel, n, (uint8_t)step->flip);
                read++;
            }
    }
    for (int32_t c = 0; c < n; c++) {
        const int32_t sum = sums[c] + read * (step->flip - step->source_zero);
        out[c] = csdf_shifted(sum, by, step->zero, step->low, step->high);
    }
}

void csdf_average_integers(const csdf_byte_average_step *step)
{
    for (int32_t row = 0; row < step->count; row++)
        for (int32_t x = 0; x < step->columns; x++)
            for (int32_t c = 0; c < step->source.channels; c += CSDF_SUMMED)
                average(step, row, x, c, least(CSDF_SUMMED, step->source.channels - c));
}

void csdf_average_integers_of(const void *step) { csdf_average_integers(step); }

void csdf_sum_integers(const csdf_byte_sum_step *step)
{
    for (int32_t first = 0; first < step->source.channels; first += CSDF_SUMMED) {
        const int32_t n = least(CSDF_SUMMED, step->source.channels - first);
        int32_t sums[CSDF_SUMMED], *kept = (int32_t *)step->sums + first;
        csdf_sum_pixels(step, first, n, sums);
        for (int32_t c = 0; c < n; c++) {
            kept[c] = sums[c] + (step->begin ? 0 : kept[c]);
            if (step->end)
                step->out[first + c] = (step->by[1] < 0 ? csdf_shifted_twice : csdf_shifted)(
                    kept[c] + step->rest, step->by, step->zero, step->low, step->high);
        }
    }
}

void csdf_sum_integers_of(const void *step) { csdf_sum_integers(step); }
