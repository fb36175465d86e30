/* Products of matrices whose rows or columns are at any addresses: csdf_multiply, out = a * b for each group.
 *
 * Panels of b are packed on the stack, as many of their rows as there is room for, and meet rows of a. Rows of a whose
 * elements are apart are copied first; so are, behind the product, those of out.
 */
#include "products.h"

enum { TABLE = 32, WIDE = 2 * CSDF_PANEL, DEPTH = 40 }; /* rows of a table; columns and rows of b that are packed */

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
    pass->spare = step->out_step != 1 ? WIDE - pass->channels : 0;
    for (int32_t row = 0; row < some->count; row += TABLE) {
        pass->pixels = least(some->count - row, TABLE);
        for (int32_t i = 0; i < pass->pixels; i++) {
            const ptrdiff_t at = row + i;
            table[i] = k + (step->a_step != 1 ? some->copied + at * step->depth : some->a[at]);
            into[i] = step->out_step != 1 ? some->sums + at * some->padded : some->out[at];
        }
        csdf_products(pass);
    }
}

static void multiply(const csdf_multiply_step *step, const float *const *b, const some_rows *some)
{
    float panels[DEPTH * WIDE];
    csdf_pass pass;
    pass.taps = pass.pieces = 1;
    pass.before = pass.skip = 0;
    pass.stored = CSDF_WHOLE;
    pass.bias = NULL;
    pass.activation.kind = CSDF_NONE;
    pass.weights = panels;
    if (step->a_step != 1)
        for (int32_t i = 0; i < some->count; i++)
            for (int32_t k = 0; k < step->depth; k++)
                some->copied[(ptrdiff_t)i * step->depth + k] = some->a[i][(ptrdiff_t)k * step->a_step];
    for (int32_t k = 0; k < step->depth; k += DEPTH) {
        const int32_t now = least(step->depth - k, DEPTH);
        pass.counts = &now;
        pass.panel = (ptrdiff_t)now * CSDF_PANEL;
        for (int32_t c = 0; c < step->columns; c += WIDE) {
            pass.channels = least(step->columns - c, WIDE);
            if (step->by_columns)
                csdf_pack_columns(b + c, (ptrdiff_t)k * step->b_step, step->b_step, now, pass.channels, panels);
            else
                csdf_pack_rows(b + k, (ptrdiff_t)c * step->b_step, step->b_step, now, pass.channels, panels);
            meet(step, some, k, c, &pass);
        }
    }
    if (step->out_step != 1)
        for (int32_t i = 0; i < some->count; i++)
            for (int32_t c = 0; c < step->columns; c++)
                some->out[i][(ptrdiff_t)c * step->out_step] = some->sums[i * some->padded + c];
}

void csdf_multiply(const csdf_multiply_step *step)
{
    const int32_t rows = step->a_step != 1 || step->out_step != 1 ? step->rows : step->count;
    some_rows some;
    some.copied = step->workspace;
    some.sums = step->workspace + (step->a_step != 1 ? (ptrdiff_t)rows * step->depth : 0);
    some.padded = (step->columns + WIDE - 1) / WIDE * WIDE;
    for (int32_t group = 0; group < step->groups; group++)
        for (int32_t row = 0; row < step->count; row += rows) {
            const ptrdiff_t at = (ptrdiff_t)group * step->count + row;
            some.a = step->a + at;
            some.out = step->out + at;
            some.count = least(step->count - row, rows);
            multiply(step, step->b + (ptrdiff_t)group * (step->by_columns ? step->columns : step->depth), &some);
        }
}

void csdf_multiply_of(const void *step) { csdf_multiply(step); }
