/* Softmax of lines: csdf_softmax, out = e^(a - most) / sum, of `inner` lines whose elements take turns.
 *
 * Vectors go along all lines where so many fit into one, else each has elements of as many lines as it has lanes. Many short
 * lines behind each other exchange rows and columns for that: they would fill no vector, and meet in every one.
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

enum { SHORT = 32 };

/* Up to LANES lines of up to SHORT elements to [size][LANES], or back. Four of them are exchanged at a time where they are
 * as far apart. */
#define EXCHANGE(name, of_lines, of_part, FOUR, ONE) \
    static void name(of_lines *const *lines, int32_t count, int32_t size, of_part *part) \
    { \
        for (int32_t i = 0; i < count; i += 4) { \
            const int32_t some = count - i < 4 ? count - i : 4; \
            const ptrdiff_t apart = some == 4 ? lines[i + 1] - lines[i] : 0; \
            int32_t c = 0; \
            if (some == 4 && lines[i + 2] == lines[i] + 2 * apart && lines[i + 3] == lines[i] + 3 * apart) \
                for (; c + 4 <= size; c += 4) \
                    FOUR(lines[i] + c, apart, part + c * CSDF_LANES + i); \
            for (; c < size; c++) \
                for (int32_t k = i; k < i + some; k++) \
                    ONE(lines[k][c], part[c * CSDF_LANES + k]); \
        } \
    }

#define FOUR_IN(line, apart, at) csdf_transpose(line, apart, at, CSDF_LANES)
#define FOUR_OUT(line, apart, at) csdf_transpose(at, CSDF_LANES, line, apart)
#define ONE_IN(x, at) at = x
#define ONE_OUT(x, at) x = at

EXCHANGE(side_by_side, const float, float, FOUR_IN, ONE_IN)
EXCHANGE(apart_again, float, const float, FOUR_OUT, ONE_OUT)

/* Short lines, a lane each; sums are added in the order in which `softmax` adds those of one line. */
static void many(const csdf_softmax_step *step)
{
    const csdf_v none = csdf_exponential(csdf_splat(-INFINITY)), zero = csdf_splat(0.0f);
    const int32_t size = step->size, all = step->count * step->blocks;
    float part[SHORT * CSDF_LANES] = {0};
    for (int32_t first = 0; first < all; first += CSDF_LANES) {
        const int32_t some = all - first < CSDF_LANES ? all - first : CSDF_LANES;
        const float *in[CSDF_LANES];
        float *out[CSDF_LANES];
        for (int32_t i = 0; i < some; i++) {
            const int32_t row = (first + i) / step->blocks;
            const ptrdiff_t at = (ptrdiff_t)((first + i) % step->blocks) * size;
            in[i] = step->a[row] + at;
            out[i] = step->out[row] + at;
        }
        side_by_side(in, some, size, part);
        csdf_v most = csdf_load(part), sum = zero;
        for (int32_t c = 1; c < size; c++)
            most = csdf_max(most, csdf_load(part + c * CSDF_LANES));
        for (int32_t c = 0; c < CSDF_LANES && c < size; c++) {
            csdf_v own = zero;
            for (int32_t k = c; k < size; k += CSDF_LANES) {
                const csdf_v power =
                    csdf_max(zero, csdf_exponential(csdf_load(part + k * CSDF_LANES) - most) - none);
                own = own + power;
                csdf_store(part + k * CSDF_LANES, power);
            }
            sum = c ? sum + own : own;
        }
        for (int32_t c = 0; c < size; c++)
            csdf_store(part + c * CSDF_LANES, csdf_load(part + c * CSDF_LANES) / sum);
        apart_again(out, some, size, part);
    }
}

void csdf_softmax(const csdf_softmax_step *step)
{
    const int32_t each = step->size * step->inner, along = CSDF_LANES % step->inner == 0;
    if (step->inner == 1 && step->size <= SHORT && 2 * step->count * step->blocks >= CSDF_LANES && CSDF_LANES > 1) {
        many(step);
        return;
    }
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
