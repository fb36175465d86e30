/* LSTM of bytes: the hidden values before a step become bytes by their range, and csdf_conv_bytes multiplies them. */
#include "bytes.h"

/* The scale of values from low to high, both with zero between them; their zero point, and the bytes of `count` of them. */
static float quantized(const float *x, ptrdiff_t count, uint8_t *to, uint8_t *zero)
{
    csdf_v low = csdf_splat(0.0f), high = low;
    float lows[CSDF_LANES], highs[CSDF_LANES];
    int32_t point[CSDF_LANES];
    for (ptrdiff_t i = 0; i < count; i += CSDF_LANES) {
        low = csdf_min(low, csdf_load(x + i));
        high = csdf_max(high, csdf_load(x + i));
    }
    csdf_store(lows, low);
    csdf_store(highs, high);
    for (int i = 1; i < CSDF_LANES; i++) {
        lows[0] = lows[i] < lows[0] ? lows[i] : lows[0];
        highs[0] = highs[i] > highs[0] ? highs[i] : highs[0];
    }
    const float span = (highs[0] - lows[0]) / 255.0f, own = span == 0.0f ? 1.0f : span;
    const csdf_bounds whole = csdf_bounds_of(0, 0, 255);
    csdf_store_i(point, csdf_round(csdf_splat(-lows[0] / own), &whole));
    *zero = (uint8_t)*point;
    const csdf_bounds bounds = csdf_bounds_of(*zero, 0, 255);
    const csdf_v scale = csdf_splat(own), inverse = csdf_splat(1.0f / own);
    for (ptrdiff_t i = 0; i < count; i += CSDF_PANEL) {
        csdf_i made[CSDF_BLOCK_VECTORS];
        CSDF_EACH(v)
            made[v] = csdf_round(csdf_quotient(csdf_load(x + i + v * CSDF_LANES), scale, inverse), &bounds);
        csdf_narrow(to + i, made);
    }
    return own;
}

/* What the input adds, the bias, and the product with the hidden values. */
static void gates_of(const csdf_recurrent_step *step, int32_t t, const float *now)
{
    const csdf_recurrent_product *by = step->bytes;
    const int32_t hidden = step->hidden, panels = (hidden + CSDF_PANEL - 1) / CSDF_PANEL;
    const csdf_v own = csdf_splat(quantized(now, (ptrdiff_t)step->batch * panels * CSDF_PANEL, by->values, by->zero));
    const int32_t *sums = by->sums;
    float *to = step->gates;
    csdf_conv_bytes(by->product);
    for (int32_t b = 0; b < step->batch; b++) {
        const float *given = by->given[(ptrdiff_t)t * step->batch + b], *bias = by->bias, *scales = by->scales;
        for (int32_t p = 0; p < panels; p++)
            for (int32_t gate = 0; gate < 4; gate++) {
                const int32_t count = least(CSDF_PANEL, hidden - p * CSDF_PANEL);
                for (int32_t i = 0; i < CSDF_PANEL; i += CSDF_LANES, to += CSDF_LANES) {
                    const float *from = given + gate * hidden + p * CSDF_PANEL + i;
                    const csdf_v factor = csdf_apart(own, csdf_load(scales));
                    csdf_v x = csdf_splat(0.0f);
                    if (i + CSDF_LANES <= count)
                        x = csdf_load(from);
                    else if (i < count)
                        x = csdf_load_some(from, count - i);
                    csdf_store(to, x + csdf_load(bias) + csdf_apart(csdf_float(csdf_load_i(sums)), factor));
                    sums += CSDF_LANES;
                    bias += CSDF_LANES;
                    scales += CSDF_LANES;
                }
            }
    }
}

void csdf_recurrent_bytes(const csdf_recurrent_step *step) { csdf_recurrent_by(step, gates_of); }

void csdf_recurrent_bytes_of(const void *step) { csdf_recurrent_bytes(step); }
