/* Products that sum over rows: csdf_contract, out = a' * b, for each group of columns of rows at any addresses.
 *
 * Some rows of both are packed on the stack at a time, and their product is added to those of the rows before.
 */
#include "products.h"

enum { DEPTH = 24, HIGH = 32, WIDE = 2 * CSDF_PANEL }; /* rows, and columns of a and b, that are packed at a time */

void csdf_contract(const csdf_contract_step *step)
{
    float turned[HIGH * DEPTH], panels[WIDE * DEPTH];
    for (int32_t group = 0; group < step->groups; group++)
        for (int32_t k = 0; k < step->count; k += DEPTH) {
            const int32_t depth = least(step->count - k, DEPTH);
            for (int32_t row = 0; row < step->height; row += HIGH) {
                const int32_t high = least(step->height - row, HIGH);
                const ptrdiff_t at = (ptrdiff_t)group * step->a_group + (ptrdiff_t)row * step->a_step;
                for (int32_t j = 0; j < depth; j++)
                    for (int32_t i = 0; i < high; i++)
                        turned[i * DEPTH + j] = step->a[k + j][at + (ptrdiff_t)i * step->a_step];
                for (int32_t c = 0; c < step->width; c += WIDE) {
                    const int32_t wide = least(step->width - c, WIDE);
                    float *out = step->out[0] + ((ptrdiff_t)group * step->height + row) * step->width + c;
                    csdf_pack_rows(step->b + k, (ptrdiff_t)group * step->b_group + (ptrdiff_t)c * step->b_step,
                        step->b_step, depth, wide, panels);
                    csdf_multiply_panels(turned, DEPTH, high, depth, panels, (ptrdiff_t)depth * CSDF_PANEL, out,
                        step->width, wide, k > 0);
                }
            }
        }
}

void csdf_contract_of(const void *step) { csdf_contract(step); }
