/* Sums of products of bytes become what is stored, by factors in floating point. */
#include "bytes.h"

#ifdef CSDF_HELIUM

/* Eight outputs at a time. */
static void bytes(const csdf_rescaling *into, ptrdiff_t panel, int32_t n, const int32_t *sums, int32_t pixels, uint8_t *out,
    ptrdiff_t apart)
{
    const csdf_helium_bounds bounds = csdf_helium_bounds_of(into->zero, into->low, into->high);
    for (int32_t o = 0; o < n; o += 8) {
        const float32x4x2_t factors = vld2q_f32(into->factors + panel + o);
        const mve_pred16_t some = vctp16q((uint32_t)(n - o));
        const int32_t *from = sums + o;
        uint8_t *to = out + o;
        for (int32_t k = pixels; k > 0; k--, from += CSDF_PANEL, to += apart) {
            const int32x4x2_t x = vld2q_s32(from);
            vstrbq_p_s16((int8_t *)to, csdf_helium_rescaled(x.val[0], x.val[1], factors, &bounds), some);
        }
    }
}

#elif defined(CSDF_DSP_NEAREST)

/* Outputs of a pixel. as: -1 or 1 where bounds are those of a signed or of an unsigned byte, a constant. */
CSDF_INLINE void pixel(const csdf_rescaling *into, const float *factors, int32_t n, const int32_t *sums, uint8_t *out, int as)
{
    const int32_t zero = into->zero, low = into->low, high = into->high;
    for (int32_t o = 0; o < n; o++) {
        const int32_t value = __qadd(csdf_nearest((float)sums[o] * factors[o]), zero);
        out[o] = (uint8_t)(as < 0 ? least(127, most(-128, value)) : as > 0 ? least(255, most(0, value)) : least(high, most(low, value)));
    }
}

static void bytes(const csdf_rescaling *into, ptrdiff_t panel, int32_t n, const int32_t *sums, int32_t pixels, uint8_t *out,
    ptrdiff_t apart)
{
    const float *factors = into->factors + panel;
    const int32_t is_whole = into->high - into->low == 255;
    for (int32_t k = 0; k < pixels; k++, sums += CSDF_PANEL, out += apart)
        if (is_whole && into->low)
            pixel(into, factors, n, sums, out, -1);
        else if (is_whole)
            pixel(into, factors, n, sums, out, 1);
        else
            pixel(into, factors, n, sums, out, 0);
}

#elif defined(CSDF_SIXTEEN)

static void bytes(const csdf_rescaling *into, ptrdiff_t panel, int32_t n, const int32_t *sums, int32_t pixels, uint8_t *out,
    ptrdiff_t apart)
{
    const csdf_ends ends = csdf_ends_of(into->factors + panel, into->zero, into->low);
    for (int32_t k = 0; k < pixels; k++, sums += CSDF_PANEL, out += apart)
        csdf_store_sixteen(out, csdf_rescaled_sixteen(&ends, csdf_sixteen_begun(sums), 0), n);
}

#else

static void bytes(const csdf_rescaling *into, ptrdiff_t panel, int32_t n, const int32_t *sums, int32_t pixels, uint8_t *out,
    ptrdiff_t apart)
{
    const csdf_bounds bounds = csdf_bounds_of(into->zero, into->low, into->high);
    csdf_v factors[CSDF_BLOCK_VECTORS];
    CSDF_EACH(v)
        factors[v] = csdf_load(into->factors + panel + v * CSDF_LANES);
    for (int32_t k = 0; k < pixels; k++, sums += CSDF_PANEL, out += apart) {
        csdf_i x[CSDF_BLOCK_VECTORS];
        CSDF_EACH(v)
            x[v] = csdf_round(csdf_float(csdf_load_i(sums + v * CSDF_LANES)) * factors[v], &bounds);
        csdf_store_bytes(out, x, n);
    }
}

#endif

/* Of four bytes. */
static void values(const csdf_rescaling *into, ptrdiff_t panel, int32_t n, const int32_t *sums, int32_t pixels,
    uint8_t *out, ptrdiff_t apart)
{
    for (int32_t k = 0; k < pixels; k++, sums += CSDF_PANEL, out += apart) {
        float made[CSDF_PANEL];
        if (into->kind == CSDF_VALUES)
            for (int32_t o = 0; o < n; o++)
                made[o] = (float)sums[o] * into->factors[panel + o];
        memcpy(out, into->kind == CSDF_VALUES ? (const void *)made : (const void *)sums, (size_t)n * sizeof *made);
    }
}

void csdf_rescale_by_factors(const csdf_rescaling *into, ptrdiff_t panel, int32_t n, const int32_t *sums, int32_t pixels,
    uint8_t *out, ptrdiff_t apart)
{
    (into->kind == CSDF_BYTES ? bytes : values)(into, panel, n, sums, pixels, out, apart);
}
