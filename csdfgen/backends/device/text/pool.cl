/* Windows of a map become their greatest value or their average: csdf_pool_step. An item has LANES channels of a pixel. */
BODY(pool_of, csdf_pool_step)
{
    const int32_t channel = across * LANES, some = step->source.channels - channel;
    const int32_t row = down / step->columns, x = down % step->columns;
    if (some <= 0 || row >= step->count)
        return;
    table_of_rows rows = IN_TABLES(place, step->source.rows);
    GLOBAL float *out = IN_MEMORY(float, IN_TABLES(place, step->out)[row]) + (int64_t)x * step->stride + channel;
    lanes value;
    value.v = step->begin ? SPLAT(step->average ? 0.0f : -3.402823466e38f) : load_some(out, some);
    for (int32_t y = 0; y < step->kernel_h; y++) {
        const place at = rows[row * step->stride_h + y * step->dilation_h];
        if (!at)
            continue;
        for (int32_t k = 0; k < step->kernel_w; k++) {
            const int32_t in = x * step->stride_w - step->pad_left + k * step->dilation_w;
            if (in < 0 || in >= step->width)
                continue;
            lanes seen;
            seen.v = load_some(AT(const float, at) + (int64_t)in * step->source.stride + channel, some);
            if (step->average)
                value.v = value.v + seen.v;
            else
                for (int32_t i = 0; i < LANES; i++)
                    value.f[i] = seen.f[i] > value.f[i] || seen.f[i] != seen.f[i] ? seen.f[i] : value.f[i];
        }
    }
    if (step->end) {
        if (step->average)
            value.v = value.v / SPLAT((float)(AT(const int32_t, step->rows_seen)[row] * AT(const int32_t, step->columns_seen)[x]));
        value.v = activated(value.v, step->activation);
    }
    store_some(value.v, out, some);
}
