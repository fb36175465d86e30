/* Normalization of lines: out = (a - mean) / sqrt(variance + epsilon) * scale + bias.
 *
 * Mean and variance are sums of CSDF_LANES * PARTS columns, which are added in the same order for every line.
 */
#ifndef CSDF_NORMALIZE_H
#define CSDF_NORMALIZE_H

#include "csdf.h"
#include "narrow.h"

#include <math.h>

enum { PARTS = 4, WIDE = PARTS * CSDF_LANES };

/* The sum of a[i] - shift, or of its square. */
static float sum(const element *a, int32_t size, float shift, int squared)
{
    const csdf_v by = csdf_splat(shift);
    csdf_v part[PARTS];
    float lanes[CSDF_LANES], found = 0.0f;
    int32_t i = 0;
    for (int k = 0; k < PARTS; k++)
        part[k] = csdf_splat(0.0f);
    for (; i + WIDE <= size; i += WIDE)
        for (int k = 0; k < PARTS; k++) {
            const csdf_v x = TAKE(a + i + k * CSDF_LANES) - by;
            part[k] = squared ? csdf_fma(x, x, part[k]) : part[k] + x;
        }
    csdf_store(lanes, (part[0] + part[1]) + (part[2] + part[3]));
    for (int k = 0; k < CSDF_LANES; k++)
        found += lanes[k];
    for (; i < size; i++) {
        const float x = FLOAT_OF(a[i]) - shift;
        found += squared ? x * x : x;
    }
    return found;
}

static void line(const csdf_normalize_step *step, const element *a, element *out)
{
    const int32_t size = step->size;
    const float mean = step->centre ? sum(a, size, 0.0f, 0) / (float)size : 0.0f;
    const float factor = 1.0f / sqrtf(sum(a, size, mean, 1) / (float)size + step->epsilon);
    const csdf_v by = csdf_splat(mean), times = csdf_splat(factor);
    int32_t i = 0;
    for (; i + CSDF_LANES <= size; i += CSDF_LANES) {
        csdf_v x = (TAKE(a + i) - by) * times;
        if (step->scale)
            x = x * csdf_load(step->scale + i);
        GIVE(out + i, step->bias ? x + csdf_load(step->bias + i) : x);
    }
    for (; i < size; i++) {
        const float x = (FLOAT_OF(a[i]) - mean) * factor * (step->scale ? step->scale[i] : 1.0f);
        out[i] = ELEMENT_OF(step->bias ? x + step->bias[i] : x);
    }
}

static void normalize(const csdf_normalize_step *step)
{
    for (int32_t row = 0; row < step->count; row++) {
        const element *a = (const void *)step->a[row];
        element *out = (void *)step->out[row];
        for (int32_t k = 0; k < step->lines; k++, a += step->size, out += step->size)
            line(step, a, out);
    }
}

#endif
