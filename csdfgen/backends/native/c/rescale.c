/* Sums of products of bytes become what is stored, by factors in floating point. */
#include "bytes.h"

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
