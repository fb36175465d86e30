/* Softmax of lines of bytes: csdf_softmax_bytes.
 *
 * The powers of a line are added up in order, as onnxruntime does, those of some lines at a time. Then every byte is looked
 * up among the shares of all bytes, or, where a line has fewer terms, is computed by itself.
 */
#include "bytes.h"

/* LINES: whose sums are in registers; several, where a processor starts a sum before the one before it has ended. */
#if CSDF_LANES == 1 || defined(CSDF_HELIUM)
enum { LINES = 1, AT_ONCE = 16, BYTES = 256 };
#else
enum { LINES = 4, AT_ONCE = 16, BYTES = 256 };
#endif

/* Lines: addresses of some bytes, of which each has the next `apart` bytes behind it. */
typedef struct some_lines {
    const uint8_t *x[LINES];
    uint8_t *out[LINES];
    int32_t top[LINES]; /* the largest byte, signs exchanged */
    float sum[LINES];
} some_lines;

/* The largest byte of a line without gaps. */
static int32_t largest(const uint8_t *x, int32_t size, uint8_t flip)
{
    uint8_t top = 0;
    for (int32_t i = 0; i < size; i++)
        top = (x[i] ^ flip) > top ? x[i] ^ flip : top;
    return top;
}

CSDF_INLINE void find(const csdf_byte_softmax_step *step, some_lines *lines, int count)
{
    const int32_t size = step->size, flip = step->flip;
    const ptrdiff_t apart = step->inner;
    const uint8_t *x[LINES];
    int32_t top[LINES];
    for (int k = 0; k < count; k++) {
        x[k] = lines->x[k];
        top[k] = apart == 1 ? largest(x[k], size, (uint8_t)flip) : 0;
    }
    for (ptrdiff_t i = 0; i < size * apart && apart > 1; i += apart)
        for (int k = 0; k < count; k++)
            top[k] = most(top[k], x[k][i] ^ flip);
    for (int k = 0; k < count; k++)
        lines->top[k] = top[k];
}

CSDF_INLINE void add(const csdf_byte_softmax_step *step, some_lines *lines, int count)
{
    const int32_t flip = step->flip;
    const ptrdiff_t apart = step->inner, end = step->size * apart;
    const uint8_t *x[LINES];
    const float *powers[LINES];
    float sum[LINES] = {0};
    for (int k = 0; k < count; k++) {
        x[k] = lines->x[k];
        powers[k] = step->powers + (BYTES - 1) - lines->top[k];
    }
    for (ptrdiff_t i = 0; i < end; i += apart)
        for (int k = 0; k < count; k++)
            sum[k] += powers[k][x[k][i] ^ flip];
    for (int k = 0; k < count; k++)
        lines->sum[k] = sum[k];
}

/* Bytes of sixteen powers. */
CSDF_INLINE void shares(const csdf_byte_softmax_step *step, const csdf_bounds *bounds, const float *powers, float sum, uint8_t *out)
{
    csdf_i x[CSDF_BLOCK_VECTORS];
    CSDF_EACH(v)
        x[v] = csdf_round(csdf_divided(csdf_load(powers + v * CSDF_LANES) * csdf_splat(step->whole), csdf_splat(sum)), bounds);
    csdf_store_bytes(out, x, AT_ONCE);
}

/* A line of many terms. powers: of a byte 0. */
static void look_up(const csdf_byte_softmax_step *step, const csdf_bounds *bounds, const some_lines *lines, int k)
{
    const int32_t flip = step->flip, moved = (BYTES - 1) - lines->top[k], first = most(0, step->first - moved);
    const ptrdiff_t apart = step->inner, end = step->size * apart;
    const uint8_t *x = lines->x[k];
    uint8_t *out = lines->out[k], becomes[BYTES + AT_ONCE];
    memset(becomes, step->zero, (size_t)first);
    for (int32_t i = first; i <= lines->top[k]; i += AT_ONCE)
        shares(step, bounds, step->powers + moved + i, lines->sum[k], becomes + i);
    for (ptrdiff_t i = 0; i < end; i += apart)
        out[i] = becomes[x[i] ^ flip];
}

/* A line of few terms. */
static void compute(const csdf_byte_softmax_step *step, const csdf_bounds *bounds, const some_lines *lines, int k)
{
    const float *powers = step->powers + (BYTES - 1) - lines->top[k];
    const ptrdiff_t apart = step->inner;
    for (int32_t from = 0; from < step->size; from += AT_ONCE) {
        const int32_t some = least(step->size - from, AT_ONCE);
        float own[AT_ONCE] = {0};
        uint8_t becomes[AT_ONCE];
        for (int32_t i = 0; i < some; i++)
            own[i] = powers[lines->x[k][(from + i) * apart] ^ step->flip];
        shares(step, bounds, own, lines->sum[k], becomes);
        for (int32_t i = 0; i < some; i++)
            lines->out[k][(from + i) * apart] = becomes[i];
    }
}

/* Whether all lines have few terms. */
#define FEW (2 * (int64_t)CSDF_MOST(softmax_bytes__size) < BYTES - CSDF_MOST(softmax_bytes__first))

void csdf_softmax_bytes(const csdf_byte_softmax_step *step)
{
    const csdf_bounds bounds = csdf_bounds_of(step->zero, step->low, step->high);
    const int32_t each = step->blocks * step->inner, all = step->count * each;
    const int few = FEW || 2 * step->size < BYTES - step->first;
    for (int32_t line = 0; line < all; line += LINES) {
        const int some = least(all - line, LINES);
        some_lines lines;
        for (int k = 0; k < some; k++) {
            const int32_t row = (line + k) / each, own = (line + k) % each;
            const ptrdiff_t at = (ptrdiff_t)(own / step->inner) * step->size * step->inner + own % step->inner;
            lines.x[k] = step->a[row] + at;
            lines.out[k] = step->out[row] + at;
        }
        if (some == LINES) {
            find(step, &lines, LINES);
            add(step, &lines, LINES);
        } else {
            find(step, &lines, some);
            add(step, &lines, some);
        }
        for (int k = 0; k < some; k++)
            (few ? compute : look_up)(step, &bounds, &lines, k);
    }
}

void csdf_softmax_bytes_of(const void *step) { csdf_softmax_bytes(step); }
