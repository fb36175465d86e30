/* What do kernels of bytes have in common? What becomes of sums. */
#ifndef CSDF_BYTES_H
#define CSDF_BYTES_H

#include "csdf.h"
#include "simd_bytes.h"

#define CSDF_EACH(v) for (int v = 0; v < CSDF_BLOCK_VECTORS; v++)

/* The bytes of sixteen values: half to even, moved by `zero`, between bounds that are less by that. */
CSDF_INLINE void csdf_round(csdf_i *x, const csdf_v *values, csdf_v low, csdf_v high, csdf_i zero)
{
    CSDF_EACH(v)
        x[v] = csdf_nearest(csdf_min(high, csdf_max(low, values[v]))) + zero;
}

/* Sixteen sums of outputs from the o-th of all panels on, of which n exist, at `out`. */
CSDF_INLINE void csdf_written(const csdf_rescaling *into, ptrdiff_t o, const int32_t *sums, int32_t n, uint8_t *out)
{
    csdf_v values[CSDF_BLOCK_VECTORS];
    if (into->kind == CSDF_INTEGERS) {
        memcpy(out, sums, (size_t)n * sizeof *sums);
        return;
    }
    CSDF_EACH(v)
        values[v] = csdf_float(csdf_load_i(sums + v * CSDF_LANES)) * csdf_load(into->factors + o + v * CSDF_LANES);
    if (into->kind == CSDF_BYTES) {
        const csdf_v low = csdf_splat((float)(into->low - into->zero));
        const csdf_v high = csdf_splat((float)(into->high - into->zero));
        csdf_i x[CSDF_BLOCK_VECTORS];
        csdf_round(x, values, low, high, csdf_splat_i(into->zero));
        if (n == 16) {
            csdf_narrow(out, x);
        } else {
            uint8_t some[16];
            csdf_narrow(some, x);
            memcpy(out, some, (size_t)n);
        }
    } else {
        float some[16];
        CSDF_EACH(v)
            csdf_store(some + v * CSDF_LANES, values[v]);
        memcpy(out, some, (size_t)n * sizeof *some);
    }
}

/* Bytes of an output. */
CSDF_INLINE ptrdiff_t csdf_bytes_of(const csdf_rescaling *into) { return into->kind == CSDF_BYTES ? 1 : 4; }

#endif
