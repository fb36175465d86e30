/* Element by element, of bytes: csdf_byte_map_step. An item has LANES channels of a pixel. */
DEVICE VI integers(const buffers *b, csdf_byte_source from, int32_t flip, int32_t row, int32_t pixel, int32_t channel, int32_t n)
{
    GLOBAL const uint8_t *at = AT(const uint8_t, IN_TABLES(place, from.rows)[row]) + (int64_t)pixel * from.stride;
    whole_lanes found;
    for (int32_t i = 0; i < LANES; i++)
        found.i[i] = i < n ? SIGNED(at[from.channels ? channel + i : 0], flip) + flip : 0;
    return found.v;
}

BODY(map_bytes_of, csdf_byte_map_step)
{
    const int32_t blocks = (step->channels + LANES - 1) / LANES;
    const int32_t pixel = across / blocks, channel = across % blocks * LANES, row = down;
    const int32_t n = step->channels - channel < LANES ? step->channels - channel : LANES;
    if (pixel >= step->columns || row >= step->count)
        return;
    const csdf_byte_source first = step->operands[0], second = step->operands[1];
    const V one = SPLAT(step->set[0]), two = SPLAT(step->set[1]), three = SPLAT(step->set[2]);
    GLOBAL uint8_t *out = IN_MEMORY(uint8_t, IN_TABLES(place, step->out)[row]) + (int64_t)pixel * step->stride;
    if (step->operation == CSDF_QUANTIZE) {
        GLOBAL const float *at = (GLOBAL const float *)(AT(const uint8_t, IN_TABLES(place, first.rows)[row])
            + (int64_t)pixel * first.stride);
        const V x = first.channels ? load_some(at + channel, n) : SPLAT(*at);
        store_bytes(x / one, (int32_t)step->set[1], step->low, step->high, out + channel, n);
        return;
    }
    if (step->operation == CSDF_TABLE) {
        GLOBAL const uint8_t *table = AT(const uint8_t, step->table);
        GLOBAL const uint8_t *at = AT(const uint8_t, IN_TABLES(place, first.rows)[row]) + (int64_t)pixel * first.stride;
        for (int32_t i = 0; i < n; i++)
            out[channel + i] = table[at[first.channels ? channel + i : 0]];
        return;
    }
    const VI x = integers(b, first, step->flip[0], row, pixel, channel, n);
    if (step->operation == CSDF_DEQUANTIZE) {
        store_some(APART(FLOATS_OF(x - SPLAT_I(step->zeros[0])), one), (GLOBAL float *)out + channel, n);
        return;
    }
    const VI y = integers(b, second.rows ? second : first, step->flip[second.rows ? 1 : 0], row, pixel, channel, n);
    if (step->operation == CSDF_ADD_BYTES) {
        V rest = three, sum = FLOATS_OF(x);
        MAD(rest, FLOATS_OF(y), two); /* each product is rounded once, with its sum */
        lanes a, c, r;
        a.v = sum;
        c.v = rest;
        for (int32_t i = 0; i < LANES; i++)
            r.f[i] = FMA(a.f[i], step->set[0], c.f[i]);
        store_bytes(r.v, 0, step->low, step->high, out + channel, n);
        return;
    }
    const VI product = (x - SPLAT_I(step->zeros[0])) * (y - SPLAT_I(step->zeros[1]));
    store_bytes(APART(FLOATS_OF(product), one) + two, 0, step->low, step->high, out + channel, n);
}
