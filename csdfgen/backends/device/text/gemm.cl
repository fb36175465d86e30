/* Rows of a matrix times a constant one: csdf_gemm_step. An item has LANES outputs of PIXELS rows. */
BODY(gemm_of, csdf_gemm_step)
{
    const int32_t channel = step->channel + across * LANES, some = step->channel + step->channels - channel;
    const int32_t begin = down * PIXELS;
    if (some <= 0 || begin >= step->count)
        return;
    const int32_t lane = channel % CSDF_PANEL, left = step->outputs - (channel - lane); /* the last panel is narrow */
    const int32_t pitch = left < CSDF_PANEL ? left : CSDF_PANEL;
    GLOBAL const float *weights = IN_WEIGHTS(float, step->weights)
        + (int64_t)(channel - lane) * step->inputs + (int64_t)step->first * pitch + lane;
    table_of_rows rows = IN_TABLES(place, step->rows), out = IN_TABLES(place, step->out);
    GLOBAL const int32_t *sizes = AT(const int32_t, step->sizes);
    V sums[PIXELS];
    EACH_PIXEL {
        const int32_t row = begin + p < step->count ? begin + p : step->count - 1;
        sums[p] = step->begin ? LOAD(IN_WEIGHTS(float, step->bias) + channel)
                              : load_some(IN_MEMORY(float, out[row]) + channel, some);
    }
    for (int32_t part = 0; part < step->parts; part++) {
        GLOBAL const float *in[PIXELS];
        EACH_PIXEL {
            const int32_t row = begin + p < step->count ? begin + p : step->count - 1;
            in[p] = AT(const float, rows[part * step->count + row]);
        }
        for (int32_t c = 0; c < sizes[part]; c++, weights += pitch) {
            const V factor = LOAD(weights);
            EACH_PIXEL
                MAD(sums[p], SPLAT(in[p][c]), factor);
        }
    }
    EACH_PIXEL {
        if (begin + p < step->count)
            store_some(step->end ? activated(sums[p], step->activation) : sums[p],
                       IN_MEMORY(float, out[begin + p]) + channel, some);
    }
}
