/* Sums of products of bytes become bytes by integers alone: for processors without floating point.
 *
 * A multiplier has 31 bits, so that it is a factor of 24 bits exactly, and the result the true product, rounded to the
 * nearest integer, ties upwards.
 */
#include "bytes.h"

void csdf_rescale_by_shifts(const csdf_rescaling *into, ptrdiff_t panel, int32_t n, const int32_t *sums, int32_t pixels,
    uint8_t *out, ptrdiff_t apart)
{
    const int32_t *pairs = into->shifts + 2 * panel;
    const int64_t low = into->low - into->zero, high = into->high - into->zero;
    for (int32_t k = 0; k < pixels; k++, sums += CSDF_PANEL, out += apart)
        for (int32_t o = 0; o < n; o++) {
            const int32_t shift = pairs[2 * o + 1];
            const int64_t moved = (int64_t)sums[o] * pairs[2 * o] + ((int64_t)1 << (shift - 1));
            const int64_t value = moved >> shift; /* rounds down, negative numbers too */
            out[o] = (uint8_t)(into->zero + (int32_t)(value < low ? low : value > high ? high : value));
        }
}
