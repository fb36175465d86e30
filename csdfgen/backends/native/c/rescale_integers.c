/* Sums of products of bytes become bytes by integers alone: for processors without floating point. */
#include "bytes.h"

#ifdef CSDF_HELIUM

/* What csdf_shifted_twice does, four outputs at a time. */
static void twice(const csdf_rescaling *into, const int32_t *pairs, int32_t n, const int32_t *sums, int32_t pixels, uint8_t *out,
    ptrdiff_t apart)
{
    const int32_t zero = into->zero;
    const int32x4_t low = vdupq_n_s32(into->low - zero), high = vdupq_n_s32(into->high - zero), none = vdupq_n_s32(0);
    for (int32_t o = 0; o < n; o += 4) {
        const int32x4x2_t by = vld2q_s32(pairs + 2 * o);
        const int32x4_t exponent = vaddq_n_s32(by.val[1], 32);
        const int32x4_t left = vmaxq_s32(exponent, none), right = vminq_s32(exponent, none);
        const mve_pred16_t some = vctp32q((uint32_t)(n - o));
        const int32_t *from = sums + o;
        uint8_t *to = out + o;
        for (int32_t k = pixels; k > 0; k--, from += CSDF_PANEL, to += apart) {
            int32x4_t x = vqrdmulhq_s32(vshlq_s32(vld1q_s32(from), left), by.val[0]);
            x = vrshlq_s32(vqaddq_s32(x, vshrq_n_s32(vandq_s32(x, right), 31)), right); /* ties away from zero */
            x = vaddq_n_s32(vminq_s32(vmaxq_s32(x, low), high), zero);
            vstrbq_p_s32((int8_t *)to, x, some);
        }
    }
}

#else

static void twice(const csdf_rescaling *into, const int32_t *pairs, int32_t n, const int32_t *sums, int32_t pixels, uint8_t *out,
    ptrdiff_t apart)
{
    const int32_t zero = into->zero, low = into->low, high = into->high;
    for (int32_t k = 0; k < pixels; k++, sums += CSDF_PANEL, out += apart)
        for (int32_t o = 0; o < n; o++)
            out[o] = csdf_shifted_twice(sums[o], pairs + 2 * o, zero, low, high);
}

#endif

static void once(const csdf_rescaling *into, const int32_t *pairs, int32_t n, const int32_t *sums, int32_t pixels, uint8_t *out,
    ptrdiff_t apart)
{
    for (int32_t k = 0; k < pixels; k++, sums += CSDF_PANEL, out += apart)
        for (int32_t o = 0; o < n; o++)
            out[o] = csdf_shifted(sums[o], pairs + 2 * o, into->zero, into->low, into->high);
}

void csdf_rescale_by_shifts(const csdf_rescaling *into, ptrdiff_t panel, int32_t n, const int32_t *sums, int32_t pixels,
    uint8_t *out, ptrdiff_t apart)
{
    const int32_t *pairs = into->shifts + 2 * panel;
    (pairs[1] < 0 ? twice : once)(into, pairs, n, sums, pixels, out, apart);
}
