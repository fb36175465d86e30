/* Depthwise convolutions of bytes: csdf_byte_conv_step. An item has LANES channels of a pixel. */
BODY(depthwise_bytes_of, csdf_byte_conv_step)
{
    GLOBAL const csdf_byte_layer *layer = IN_TABLES(csdf_byte_layer, step->layer);
    GLOBAL const csdf_byte_source *pieces = IN_TABLES(csdf_byte_source, step->pieces);
    const int32_t channel = across * LANES, some = layer->out_channels - channel < LANES ? layer->out_channels - channel : LANES;
    const int32_t row = down / step->out.columns, column = step->out.column + down % step->out.columns;
    if (some <= 0 || row >= step->out.count)
        return;
    const int32_t all = (layer->out_channels + CSDF_PANEL - 1) / CSDF_PANEL * CSDF_PANEL, pairs = (layer->kernel_h + 1) / 2;
    const int32_t from = first_row(row, layer->stride_h, step->each, step->apart);
    whole_lanes sums;
    for (int32_t i = 0; i < LANES; i++)
        sums.i[i] = i < some ? IN_WEIGHTS(int32_t, layer->bias)[channel + i] : 0;
    int32_t start = 0;
    for (int32_t n = 0; n < step->piece_count; n++) {
        const csdf_byte_source piece = pieces[n];
        const int32_t low = start > channel ? start - channel : 0;
        const int32_t end = start + piece.channels < channel + some ? start + piece.channels - channel : some;
        const int32_t shift = channel - start;
        start += piece.channels;
        if (low >= end)
            continue;
        for (int32_t y = 0; y < layer->kernel_h; y++) {
            const place at = piece.rows ? IN_TABLES(place, piece.rows)[from + y * layer->dilation_h] : 0;
            for (int32_t x = 0; x < layer->kernel_w; x++) {
                const int32_t to = column * layer->stride_w + x * layer->dilation_w - layer->pad_left;
                const int32_t inside = at != 0 && to >= 0 && to < step->width;
                GLOBAL const int8_t *w = IN_WEIGHTS(int8_t, layer->weights) + ((x * pairs + y / 2) * all + channel) * 2 + y % 2;
                GLOBAL const uint8_t *in = AT(const uint8_t, inside ? at : layer->bias) + (inside ? to * piece.stride + shift : 0);
                for (int32_t i = low; i < end; i++)
                    sums.i[i] += (inside ? SIGNED(in[i], layer->flip) : layer->padding) * w[2 * i];
            }
        }
    }
    GLOBAL uint8_t *made = IN_MEMORY(uint8_t, IN_TABLES(place, step->out.rows)[row])
        + (int64_t)column * step->out.stride + channel * bytes_of(&layer->into);
    store_sums(b, &layer->into, channel, sums.v, made, some);
}
