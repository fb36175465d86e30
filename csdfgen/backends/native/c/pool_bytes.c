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
    csdf_i made[CSDF_BLOCK_VECTORS];
    CSDF_EACH(v)
        sums[v] = csdf_splat(0.0f);
    for (int32_t y = 0; y < step->kernel_h; y++) {
        const uint8_t *line = step->source.rows[row * step->stride_h + y * step->dilation_h];
        int32_t in = x * step->stride_w - step->pad_left;
        for (int32_t k = 0; line && k < step->kernel_w; k++, in += step->dilation_w)
            if (in >= 0 && in < step->width) {
                csdf_i at[CSDF_BLOCK_VECTORS];
                some(at, line + (ptrdiff_t)in * step->source.stride + channel, n, (uint8_t)step->flip);
                CSDF_EACH(v)
                    sums[v] += csdf_apart(csdf_float(at[v] + more), scale);
            }
    }
    CSDF_EACH(v)
        made[v] = csdf_round(csdf_divided(csdf_divided(sums[v], seen), out_scale) + zero, &bounds);
    csdf_store_bytes(step->out[row] + (ptrdiff_t)x * step->stride + channel, made, n);
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

/* Channels whose sums are in registers. */
#if CSDF_LANES == 1
enum { SUMS = 8 };
#else
enum { SUMS = 16 };
#endif

#ifdef __GNUC__
#define EACH(v, of) _Pragma("GCC unroll 8") for (int v = 0; v < of; v++)
#else
#define EACH(v, of) for (int v = 0; v < of; v++)
#endif

/* Adds the bytes of a pixel, signed and moved by `more`, times a factor to sums. */
CSDF_INLINE void add_pixel(csdf_v *sums, const uint8_t *at, uint8_t flip, int32_t more, csdf_v factor)
{
#ifdef CSDF_DSP_NEAREST
    const int32_t both = more * 0x10000 + (more & 0xffff);
    EACH(v, SUMS / 4) {
        const uint32_t word = (uint32_t)csdf_word(at + 4 * v) ^ 0x01010101u * flip;
        csdf_add_products(sums + 4 * v, csdf_add_even(both, word), csdf_add_odd(both, word), factor);
    }
#else
    csdf_i x[SUMS / CSDF_LANES];
#if CSDF_LANES == 1
    EACH(v, SUMS / 4) {
        const uint32_t word = (uint32_t)csdf_word(at + 4 * v) ^ 0x01010101u * flip;
        EACH(k, 4)
            x[4 * v + k] = (int8_t)(word >> (8 * k) & 255);
    }
#else
    csdf_widen(x, at, flip);
#endif
    EACH(v, SUMS / CSDF_LANES)
        sums[v] += csdf_apart(csdf_float(x[v] + csdf_splat_i(more)), factor);
#endif
}

/* Adds the values of SUMS channels. */
static void add_values(const csdf_byte_sum_step *step, int32_t channel, float *sums)
{
    const csdf_v factor = csdf_splat(step->factor);
    csdf_v kept[SUMS / CSDF_LANES];
    EACH(v, SUMS / CSDF_LANES)
        kept[v] = csdf_load(sums + v * CSDF_LANES);
    for (int32_t row = 0; row < step->count; row++) {
        const uint8_t *at = step->source.rows[row] + channel;
        for (int32_t k = step->width; k > 0; k--, at += step->source.stride)
            add_pixel(kept, at, (uint8_t)step->flip, step->flip + step->rest, factor);
    }
    EACH(v, SUMS / CSDF_LANES)
        csdf_store(sums + v * CSDF_LANES, kept[v]);
}

/* Adds those of one channel. */
static void add_value(const csdf_byte_sum_step *step, int32_t channel, float *sum)
{
    for (int32_t row = 0; row < step->count; row++) {
        const uint8_t *at = step->source.rows[row] + channel;
        for (int32_t k = step->width; k > 0; k--, at += step->source.stride) {
            volatile float value = (float)((int8_t)(*at ^ step->flip) + step->flip + step->rest) * step->factor;
            *sum += value; /* a product of its own: volatile */
        }
    }
}

#if CSDF_LANES == 1
/* The byte of an average. */
CSDF_INLINE uint8_t nearest(float x, int32_t low, int32_t high)
{
#ifdef CSDF_DSP_NEAREST
    return (uint8_t)least(high, most(low, csdf_nearest(x)));
#else
    const csdf_bounds bounds = csdf_bounds_of(0, low, high);
    return (uint8_t)csdf_round(x, &bounds);
#endif
}

/* The averages of all channels. */
static void divide_sums(const csdf_byte_sum_step *step)
{
    const float *sums = step->sums, *const end = sums + step->source.channels;
    const float first = step->divisors[0], second = step->divisors[1], zero = (float)step->zero;
    const int32_t low = step->low, high = step->high;
    for (uint8_t *out = step->out; sums < end; sums++)
        *out++ = nearest(csdf_divided(csdf_divided(*sums, first), second) + zero, low, high);
}
#else
static void divide_sums(const csdf_byte_sum_step *step)
{
    const int32_t channels = step->source.channels;
    const csdf_bounds bounds = csdf_bounds_of(0, step->low, step->high);
    const csdf_v divisors[2] = {csdf_splat(step->divisors[0]), csdf_splat(step->divisors[1])};
    const csdf_v zero = csdf_splat((float)step->zero);
    const float *sums = step->sums;
    for (int32_t c = 0; c < channels; c += 16) {
        const int32_t n = CSDF_MULTIPLE(sum_values__source__channels, 16) ? 16 : least(16, channels - c);
        float own[16] = {0};
        csdf_i made[CSDF_BLOCK_VECTORS];
        memcpy(own, sums + c, (size_t)n * sizeof *own);
        CSDF_EACH(v)
            made[v] = csdf_round(csdf_divided(csdf_divided(csdf_load(own + v * CSDF_LANES), divisors[0]), divisors[1]) + zero, &bounds);
        csdf_store_bytes(step->out + c, made, n);
    }
}
#endif

void csdf_sum_values(const csdf_byte_sum_step *step)
{
    const int32_t channels = step->source.channels;
    float *sums = step->sums;
    int32_t c = 0;
    if (step->begin)
        memset(sums, 0, (size_t)channels * sizeof *sums);
    for (; c + SUMS <= channels; c += SUMS)
        add_values(step, c, sums + c);
    for (; !CSDF_MULTIPLE(sum_values__source__channels, SUMS) && c < channels; c++)
        add_value(step, c, sums + c);
    if (step->end)
        divide_sums(step);
}

void csdf_sum_values_of(const void *step) { csdf_sum_values(step); }
