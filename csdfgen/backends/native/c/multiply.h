/* Products of matrices whose rows or columns are at any addresses: csdf_multiply, out = a * b for each group.
 *
 * Panels of b are packed on the stack, as many of their rows as there is room for, and meet rows of a. Rows of a whose
 * elements are apart are copied first; so are, behind the product, those of out. Elements of two bytes are widened and
 * rounded on the way.
 */
#ifndef CSDF_MULTIPLY_H
#define CSDF_MULTIPLY_H

#include "narrow.h"
#include "products.h"

/* rows of a table; columns and rows of b that are packed */
enum { TABLE = 32, WIDE = 2 * CSDF_PANEL, DEPTH = !CSDF_NARROW ? 40 : CSDF_LANES > 1 ? 32 : 16 };

#define COPIES(step) (CSDF_NARROW || (step) != 1)

/* Elements as floats side by side, and back. */
static void widen(const void *from, ptrdiff_t step, int32_t n, float *to)
{
    const element *at = from;
    int32_t i = 0;
    for (; CSDF_NARROW && step == 1 && i + CSDF_LANES <= n; i += CSDF_LANES)
        csdf_store(to + i, TAKE(at + i));
    for (; i < n; i++)
        to[i] = FLOAT_OF(at[i * step]);
}

static void narrow(const float *from, int32_t n, void *to, ptrdiff_t step)
{
    element *at = to;
    int32_t i = 0;
    for (; CSDF_NARROW && step == 1 && i + CSDF_LANES <= n; i += CSDF_LANES)
        GIVE(at + i, csdf_load(from + i));
    for (; i < n; i++)
        at[i * step] = ELEMENT_OF(from[i]);
}

/* Panels of `depth` rows and `columns` columns of b, whose first ones are at these addresses. */
static void pack(const csdf_multiply_step *step, const float *const *b, ptrdiff_t at, int32_t depth, int32_t columns,
    float *panels)
{
    ptrdiff_t apart = step->b_step;
#if CSDF_NARROW
    float wide[DEPTH * WIDE];
    const float *lines[WIDE];
    const int32_t count = step->by_columns ? columns : depth, each = step->by_columns ? depth : columns;
    for (int32_t i = 0; i < count; i++) {
        widen((const element *)(const void *)b[i] + at * apart, apart, each, wide + i * each);
        lines[i] = wide + i * each;
    }
    b = lines;
    at = 0;
    apart = 1;
#endif
    if (step->by_columns)
        csdf_pack_columns(b, at * apart, apart, depth, columns, panels);
    else
        csdf_pack_rows(b, at * apart, apart, depth, columns, panels);
}

/* Rows of a product from row `first` of `at`, `count` of them: sources of a, where sums go. */
typedef struct some_rows {
    const float *const *a;
    float *const *out;
    float *copied, *sums;
    ptrdiff_t padded;
    int32_t count;
} some_rows;

static void meet(const csdf_multiply_step *step, const some_rows *some, int32_t k, int32_t c, csdf_pass *pass)
{
    const float *table[TABLE];
    float *into[TABLE];
    pass->table = table;
    pass->out = into;
    pass->init = k > 0 ? (const float *const *)into : NULL;
    pass->channel = c;
    pass->spare = COPIES(step->out_step) ? WIDE - pass->channels : 0;
    for (int32_t row = 0; row < some->count; row += TABLE) {
        pass->pixels = least(some->count - row, TABLE);
        for (int32_t i = 0; i < pass->pixels; i++) {
            const ptrdiff_t at = row + i;
            table[i] = k + (COPIES(step->a_step) ? some->copied + at * step->depth : some->a[at]);
            into[i] = COPIES(step->out_step) ? some->sums + at * some->padded : some->out[at];
        }
        csdf_products(pass);
    }
}

static void meet_all(const csdf_multiply_step *step, const float *const *b, const some_rows *some)
{
    float panels[DEPTH * WIDE];
    csdf_pass pass;
    pass.taps = pass.pieces = 1;
    pass.before = pass.skip = 0;
    pass.stored = CSDF_WHOLE;
    pass.bias = NULL;
    pass.activation.kind = CSDF_NONE;
    pass.weights = panels;
    if (COPIES(step->a_step))
        for (int32_t i = 0; i < some->count; i++)
            widen(some->a[i], step->a_step, step->depth, some->copied + (ptrdiff_t)i * step->depth);
    for (int32_t k = 0; k < step->depth; k += DEPTH) {
        const int32_t now = least(step->depth - k, DEPTH);
        pass.counts = &now;
        pass.panel = (ptrdiff_t)now * CSDF_PANEL;
        for (int32_t c = 0; c < step->columns; c += WIDE) {
            pass.channels = least(step->columns - c, WIDE);
            pack(step, b + (step->by_columns ? c : k), step->by_columns ? k : c, now, pass.channels, panels);
            meet(step, some, k, c, &pass);
        }
    }
    if (COPIES(step->out_step))
        for (int32_t i = 0; i < some->count; i++)
            narrow(some->sums + i * some->padded, step->columns, some->out[i], step->out_step);
}

static void multiply(const csdf_multiply_step *step)
{
    const int32_t rows = COPIES(step->a_step) || COPIES(step->out_step) ? step->rows : step->count;
    some_rows some;
    some.copied = step->workspace;
    some.sums = step->workspace + (COPIES(step->a_step) ? (ptrdiff_t)rows * step->depth : 0);
    some.padded = (step->columns + WIDE - 1) / WIDE * WIDE;
    for (int32_t group = 0; group < step->groups; group++)
        for (int32_t row = 0; row < step->count; row += rows) {
            const ptrdiff_t at = (ptrdiff_t)group * step->count + row;
            some.a = step->a + at;
            some.out = step->out + at;
            some.count = least(step->count - row, rows);
            meet_all(step, step->b + (ptrdiff_t)group * (step->by_columns ? step->columns : step->depth), &some);
        }
}

#endif
