/* Windows of a map of bytes become their greatest byte: csdf_byte_pool_step. An item has LANES channels of a pixel. */
BODY(pool_bytes_of, csdf_byte_pool_step)
{
    const int32_t channel = across * LANES, row = down / step->columns, x = down % step->columns;
    const int32_t n = step->source.channels - channel < LANES ? step->source.channels - channel : LANES;
    if (n <= 0 || row >= step->count)
        return;
    const uint8_t flip = (uint8_t)(step->flip ^ 0x80);
    GLOBAL uint8_t *out = IN_MEMORY(uint8_t, IN_TABLES(place, step->out)[row]) + (int64_t)x * step->stride + channel;
    uint8_t most[LANES];
    for (int32_t i = 0; i < n; i++)
        most[i] = step->begin ? 0 : out[i] ^ flip;
    for (int32_t y = 0; y < step->kernel_h; y++) {
        const place at = IN_TABLES(place, step->source.rows)[row * step->stride_h + y * step->dilation_h];
        for (int32_t k = 0; at && k < step->kernel_w; k++) {
            const int32_t in = x * step->stride_w - step->pad_left + k * step->dilation_w;
            if (in < 0 || in >= step->width)
                continue;
            GLOBAL const uint8_t *seen = AT(const uint8_t, at) + (int64_t)in * step->source.stride + channel;
            for (int32_t i = 0; i < n; i++) {
                const uint8_t value = seen[i] ^ flip;
                most[i] = value > most[i] ? value : most[i];
            }
        }
    }
    for (int32_t i = 0; i < n; i++)
        out[i] = most[i] ^ flip;
}
