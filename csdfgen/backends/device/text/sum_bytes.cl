/* The sums of rows of a map of bytes: csdf_byte_sum_step. An item has LANES channels. */
BODY(sum_bytes_of, csdf_byte_sum_step)
{
    const int32_t channel = across * LANES;
    const int32_t n = step->source.channels - channel < LANES ? step->source.channels - channel : LANES;
    if (n <= 0)
        return;
    whole_lanes sums;
    sums.v = SPLAT_I(step->flip * step->width * step->count);
    for (int32_t row = 0; row < step->count; row++) {
        GLOBAL const uint8_t *at = AT(const uint8_t, IN_TABLES(place, step->source.rows)[row]) + channel;
        for (int32_t x = 0; x < step->width; x++, at += step->source.stride)
            for (int32_t i = 0; i < n; i++)
                sums.i[i] += SIGNED(at[i], step->flip);
    }
    GLOBAL float *kept = IN_MEMORY(float, step->sums) + channel;
    lanes total;
    total.v = FLOATS_OF(sums.v);
    for (int32_t i = 0; i < n; i++) {
        total.f[i] += step->begin ? 0.0f : kept[i];
        kept[i] = total.f[i];
    }
    if (!step->end)
        return;
    for (int32_t i = 0; i < LANES; i++)
        total.f[i] = (float)((int32_t)(i < n ? total.f[i] : 0.0f) + step->rest);
    store_bytes(APART(total.v, SPLAT(step->factor)), step->zero, step->low, step->high, IN_MEMORY(uint8_t, step->out) + channel, n);
}
