/* Windows of a map of bytes become their average: csdf_byte_average_step. An item has LANES channels of a pixel. */
BODY(average_bytes_of, csdf_byte_average_step)
{
    const int32_t channel = across * LANES, row = down / step->columns, x = down % step->columns;
    const int32_t n = step->source.channels - channel < LANES ? step->source.channels - channel : LANES;
    if (n <= 0 || row >= step->count)
        return;
    V sums = SPLAT(0.0f);
    const V scale = SPLAT(step->scale);
    for (int32_t y = 0; y < step->kernel_h; y++) {
        const place at = IN_TABLES(place, step->source.rows)[row * step->stride_h + y * step->dilation_h];
        for (int32_t k = 0; at && k < step->kernel_w; k++) {
            const int32_t in = x * step->stride_w - step->pad_left + k * step->dilation_w;
            if (in < 0 || in >= step->width)
                continue;
            GLOBAL const uint8_t *seen = AT(const uint8_t, at) + (int64_t)in * step->source.stride + channel;
            whole_lanes value;
            for (int32_t i = 0; i < LANES; i++)
                value.i[i] = i < n ? SIGNED(seen[i], step->flip) + step->flip - step->source_zero : 0;
            sums = sums + APART(FLOATS_OF(value.v), scale);
        }
    }
    const V seen = SPLAT((float)(AT(const int32_t, step->rows_seen)[row] * AT(const int32_t, step->columns_seen)[x]));
    GLOBAL uint8_t *out = IN_MEMORY(uint8_t, IN_TABLES(place, step->out)[row]) + (int64_t)x * step->stride + channel;
    store_bytes(sums / seen / SPLAT(step->out_scale) + SPLAT((float)step->zero), 0, step->low, step->high, out, n);
}
