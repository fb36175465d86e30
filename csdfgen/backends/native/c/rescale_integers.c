/* Sums of products of bytes become bytes by integers alone: for processors without floating point. */
#include "bytes.h"

void csdf_rescale_by_shifts(const csdf_rescaling *into, ptrdiff_t panel, int32_t n, const int32_t *sums, int32_t pixels,
    uint8_t *out, ptrdiff_t apart)
{
    const int32_t *pairs = into->shifts + 2 * panel;
    const int twice = pairs[1] < 0;
    for (int32_t k = 0; k < pixels; k++, sums += CSDF_PANEL, out += apart)
        for (int32_t o = 0; o < n; o++)
            out[o] = twice ? csdf_shifted_twice(sums[o], pairs + 2 * o, into->zero, into->low, into->high)
                           : csdf_shifted(sums[o], pairs + 2 * o, into->zero, into->low, into->high);
}
