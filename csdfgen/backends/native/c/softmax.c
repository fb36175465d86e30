/* Softmax of lines: csdf_softmax, out = e^(a - most) / sum, of `inner` lines whose elements take turns.
 *
 * Vectors go along all lines where so many fit into one, else each has elements of as many lines as it has lanes.
 * Sums are added in an order that depends on the sizes of lines alone.
 */
#include "products.h"

#include <math.h>

/* `count` vectors, `step` floats apart, of `wide` floats each, the last one of `last`: lanes `inner` apart are of one line. */
typedef struct some_lines {
    int32_t count;
    ptrdiff_t step;
    int32_t wide, last, inner;
} some_lines;

static csdf_v load(const float *at, int32_t wide)
{
    float part[CSDF_LANES];
    if (wide == CSDF_LANES)
        return csdf_load(at);
    for (int32_t i = 0; i < CSDF_LANES; i++)
        part[i] = i < wide ? at[i] : -INFINITY;
    return csdf_load(part);
}

static void store(float *at, csdf_v x, int32_t wide)
{
    if (wide == CSDF_LANES)
        csdf_store(at, x);
    else
        csdf_store_some(at, x, wide);
}

/* The greatest of the lanes of each line, or their sum, in all of them. */
static csdf_v together(csdf_v x, int32_t inner, int adds)
{
    float lanes[CSDF_LANES];
    csdf_store(lanes, x);
    for (int32_t i = inner; i < CSDF_LANES; i++) {
        float *to = lanes + i % inner;
        *to = adds ? *to + lanes[i] : lanes[i] > *to || lanes[i] != lanes[i] ? lanes[i] : *to;
    }
    for (int32_t i = inner; i < CSDF_LANES; i++)
        lanes[i] = lanes[i - inner];
    return csdf_load(lanes);
}

static void softmax(const some_lines *lines, const float *a, float *out)
{
    const csdf_v none = csdf_exponential(csdf_splat(-INFINITY)), zero = csdf_splat(0.0f);
    const int32_t full = lines->count - 1;
    const ptrdiff_t end = full * lines->step;
    csdf_v most = load(a + end, lines->last), sum = zero;
    for (int32_t i = 0; i < full; i++)
        most = csdf_max(most, load(a + i * lines->step, lines->wide));
    most = together(most, lines->inner, 0);
    for (int32_t i = 0; i <= full; i++) {
        const int32_t wide = i < full ? lines->wide : lines->last;
        const ptrdiff_t at = i * lines->step;
        /* nothing is left of minus infinity */
        const csdf_v power = csdf_max(zero, csdf_exponential(load(a + at, wide) - most) - none);
        sum = sum + power;
        store(out + at, power, wide);
    }
    sum = together(sum, lines->inner, 1);
    for (int32_t i = 0; i <= full; i++) {
        const int32_t wide = i < full ? lines->wide : lines->last;
        const ptrdiff_t at = i * lines->step;
        store(out + at, load(out + at, wide) / sum, wide);
    }
}

void csdf_softmax(const csdf_softmax_step *step)
{
    const int32_t each = step->size * step->inner, along = CSDF_LANES % step->inner == 0;
    for (int32_t row = 0; row < step->count; row++)
        for (int32_t k = 0; k < step->blocks; k++) {
            const float *a = step->a[row] + (ptrdiff_t)k * each;
            float *out = step->out[row] + (ptrdiff_t)k * each;
            some_lines lines = {step->size, step->inner, 0, 0, CSDF_LANES};
            if (along) {
                lines.count = (each + CSDF_LANES - 1) / CSDF_LANES;
                lines.step = lines.wide = CSDF_LANES;
                lines.last = each - (lines.count - 1) * CSDF_LANES;
                lines.inner = step->inner;
            }
            for (int32_t c = 0; c < (along ? 1 : step->inner); c += CSDF_LANES) {
                if (!along)
                    lines.wide = lines.last = step->inner - c < CSDF_LANES ? step->inner - c : CSDF_LANES;
                softmax(&lines, a + c, out + c);
            }
        }
}

void csdf_softmax_of(const void *step) { csdf_softmax(step); }
