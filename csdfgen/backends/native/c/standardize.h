/* Normalization of maps: channels less their mean, divided by their deviation, over all rows of an image.
 *
 * Mean and squares about it are summed up row by row and then joined (Chan, Golub and LeVeque, 1983): a row is read twice
 * while it is near, the map once for them and once for its result, which may be written over it.
 */
#ifndef CSDF_STANDARDIZE_H
#define CSDF_STANDARDIZE_H

#include "narrow.h"
#include "products.h"

#include <math.h>

enum { PARTS = 4 }; /* sums of pixels at a time: an addition is done before the next one of its sum */

#define LOAD(at) (some ? TAKE_SOME(at, some) : TAKE(at))
#define PARAMETER(at) (some ? csdf_load_some(at, some) : csdf_load(at))

/* Sums over a line of pixels of the values less `shift`, or of the squares of these. some: channels, 0: a whole vector. */
CSDF_INLINE csdf_v sums(const element *at, int32_t pixels, ptrdiff_t apart, csdf_v shift, int squared, int some)
{
    csdf_v part[PARTS];
    int32_t p = 0;
    for (int k = 0; k < PARTS; k++)
        part[k] = csdf_splat(0.0f);
    for (; p + PARTS <= pixels; p += PARTS, at += PARTS * apart)
        for (int k = 0; k < PARTS; k++) {
            const csdf_v x = LOAD(at + k * apart) - shift;
            part[k] = squared ? csdf_fma(x, x, part[k]) : part[k] + x;
        }
    for (; p < pixels; p++, at += apart) {
        const csdf_v x = LOAD(at) - shift;
        part[0] = squared ? csdf_fma(x, x, part[0]) : part[0] + x;
    }
    return (part[0] + part[1]) + (part[2] + part[3]);
}

/* Mean of a vector of channels over all rows, and squares about it. */
CSDF_INLINE void moments(const csdf_standardize_step *step, const float *const *rows, int32_t channel, int some,
    float *means, float *squares)
{
    const csdf_v pixels = csdf_splat((float)step->pixels), share = csdf_splat(1.0f / (float)step->pixels);
    csdf_v mean = csdf_splat(0.0f), square = csdf_splat(0.0f);
    for (int32_t row = 0; row < step->count; row++) {
        const element *at = (const element *)(const void *)rows[row] + channel;
        const csdf_v none = csdf_splat(0.0f), own = sums(at, step->pixels, step->a_step, none, 0, some) * share;
        const csdf_v away = own - mean, part = csdf_splat(1.0f / (float)(row + 1));
        square = square + sums(at, step->pixels, step->a_step, own, 1, some)
            + away * away * pixels * csdf_splat((float)row) * part;
        mean = csdf_fma(away, part, mean);
    }
    csdf_store(means, mean);
    csdf_store(squares, square);
}

/* Of channels that share a mean: that, and what values are multiplied by. */
static void join(const csdf_standardize_step *step, float *means, float *squares)
{
    const float values = (float)step->count * (float)step->pixels;
    float mean = 0.0f, square = 0.0f;
    for (int32_t c = 0; c < step->group; c++)
        mean += means[c] / (float)step->group;
    mean = step->centre ? mean : 0.0f;
    for (int32_t c = 0; c < step->group; c++)
        square += squares[c] / values + (means[c] - mean) * (means[c] - mean);
    for (int32_t c = 0; c < step->group; c++) {
        means[c] = mean;
        squares[c] = 1.0f / sqrtf(square / (float)step->group + step->epsilon);
    }
}

/* A vector of channels of all rows. */
CSDF_INLINE void apply(const csdf_standardize_step *step, int32_t image, int32_t channel, int some, const float *means,
    const float *factors)
{
    const csdf_v mean = csdf_load(means), none = csdf_splat(0.0f);
    const ptrdiff_t pace = step->each ? step->channels : 0;
    csdf_v factor = csdf_load(factors), bias = none;
    if (!step->each && step->scale)
        factor = factor * PARAMETER(step->scale + channel);
    if (!step->each && step->bias)
        bias = PARAMETER(step->bias + channel);
    for (int32_t row = 0; row < step->count; row++) {
        const ptrdiff_t k = (ptrdiff_t)image * step->count + row;
        const element *at = (const element *)(const void *)step->a[k] + channel;
        element *out = (element *)(void *)step->out[k] + channel;
        ptrdiff_t place = pace * row * step->pixels + channel;
        for (int32_t p = 0; p < step->pixels; p++, at += step->a_step, out += step->out_step, place += pace) {
            csdf_v x = (LOAD(at) - mean) * factor;
            if (pace && step->scale)
                x = x * PARAMETER(step->scale + place);
            x = x + (pace && step->bias ? PARAMETER(step->bias + place) : bias);
            x = csdf_activated(x, &step->activation);
            if (some)
                GIVE_SOME(out, x, some);
            else
                GIVE(out, x);
        }
    }
}

static void standardize(const csdf_standardize_step *step)
{
    const int32_t end = step->last, whole = step->first + (end - step->first) / CSDF_LANES * CSDF_LANES;
    /* behind the last channel there is a vector's remainder */
    float *means = step->workspace, *squares = means + step->channels + CSDF_PANEL;
    for (int32_t image = 0; image < step->images; image++) {
        const float *const *rows = step->a + (ptrdiff_t)image * step->count;
        int32_t c = step->first;
        for (; c < whole; c += CSDF_LANES)
            moments(step, rows, c, 0, means + c, squares + c);
        if (c < end)
            moments(step, rows, c, end - c, means + c, squares + c);
        for (c = step->first; c < end; c += step->group)
            join(step, means + c, squares + c);
        for (c = step->first; c < whole; c += CSDF_LANES)
            apply(step, image, c, 0, means + c, squares + c);
        if (c < end)
            apply(step, image, c, end - c, means + c, squares + c);
    }
}

#endif
