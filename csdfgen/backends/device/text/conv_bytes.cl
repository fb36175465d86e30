/* Convolutions of bytes: csdf_byte_conv_step. An item has LANES output channels of PIXELS pixels, which follow each other
 * along the columns of the slab, across its rows. Four terms of a sum, of LANES outputs, are four bytes of one integer each.
 */
BODY(conv_bytes_of, csdf_byte_conv_step)
{
    GLOBAL const csdf_byte_layer *layer = IN_TABLES(csdf_byte_layer, step->layer);
    GLOBAL const csdf_byte_source *pieces = IN_TABLES(csdf_byte_source, step->pieces);
    const int32_t ins = layer->in_channels / layer->groups, outs = layer->out_channels / layer->groups;
    const int32_t panels = (outs + CSDF_PANEL - 1) / CSDF_PANEL, blocks = panels * (CSDF_PANEL / LANES);
    const int32_t group = across / blocks, channel = across % blocks * LANES, some = outs - channel;
    const int32_t columns = step->out.columns, all = columns * step->out.count, begin = down * PIXELS;
    if (group >= layer->groups || some <= 0 || begin >= all)
        return;
    const int32_t steps = (layer->kernel_h * layer->kernel_w * layer->pace + 3) / 4;
    const int32_t panel = group * panels * CSDF_PANEL + channel;
    GLOBAL const int32_t *weights = IN_WEIGHTS(int32_t, layer->weights)
        + (int64_t)(group * panels + channel / CSDF_PANEL) * steps * CSDF_PANEL + channel % CSDF_PANEL;
    VI sums[PIXELS];
    int32_t row[PIXELS], column[PIXELS], whole[PIXELS];
    EACH_PIXEL {
        const int32_t at = begin + p < all ? begin + p : all - 1; /* the last one again */
        row[p] = at / columns;
        column[p] = step->out.column + at % columns;
        whole[p] = 0;
        sums[p] = LOAD_I(IN_WEIGHTS(int32_t, layer->bias) + panel);
    }
    for (int32_t y = 0; y < layer->kernel_h; y++)
        for (int32_t x = 0; x < layer->kernel_w; x++) {
            int32_t start = 0;
            for (int32_t i = 0; i < step->piece_count; i++) {
                const csdf_byte_source piece = pieces[i];
                const int32_t low = start > group * ins ? start : group * ins;
                const int32_t end = start + piece.channels < (group + 1) * ins ? start + piece.channels : (group + 1) * ins;
                const int32_t shift = low - start;
                start += piece.channels;
                if (low >= end)
                    continue;
                GLOBAL const uint8_t *in[PIXELS];
                int32_t inside[PIXELS];
                EACH_PIXEL {
                    const int32_t from = first_row(row[p], layer->stride_h, step->each, step->apart) + y * layer->dilation_h;
                    const int32_t to = column[p] * layer->stride_w + x * layer->dilation_w - layer->pad_left;
                    const place at = piece.rows ? IN_TABLES(place, piece.rows)[from] : 0;
                    inside[p] = at != 0 && to >= 0 && to < step->width;
                    in[p] = AT(const uint8_t, inside[p] ? at : layer->bias) + (inside[p] ? shift + to * piece.stride : 0);
                }
                const int32_t first = (y * layer->kernel_w + x) * layer->pace + low - group * ins;
                for (int32_t c = 0; c < end - low; c++) {
                    const int32_t term = first + c;
                    const VI four = LOAD_I(weights + (int64_t)(term / 4) * CSDF_PANEL);
                    const VI factor = SHIFTED_RIGHT(SHIFTED_LEFT(four, 24 - term % 4 * 8), 24);
                    EACH_PIXEL {
                        const int32_t value = inside[p] ? SIGNED(in[p][c], layer->flip) : layer->padding;
                        sums[p] = sums[p] + factor * SPLAT_I(value);
                        whole[p] += value;
                    }
                }
            }
        }
    const int32_t size = bytes_of(&layer->into);
    EACH_PIXEL {
        if (begin + p >= all)
            continue;
        if (layer->zeros)
            sums[p] = sums[p] - LOAD_I(IN_WEIGHTS(int32_t, layer->zeros) + panel) * SPLAT_I(whole[p]);
        GLOBAL uint8_t *made = IN_MEMORY(uint8_t, IN_TABLES(place, step->out.rows)[row[p]])
            + (int64_t)column[p] * step->out.stride + (group * outs + channel) * size;
        store_sums(b, &layer->into, panel, sums[p], made, some < LANES ? some : LANES);
    }
}
