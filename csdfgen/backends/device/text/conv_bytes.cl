/* Convolutions of bytes: csdf_byte_conv_step. An item has LANES output channels of PIXELS pixels, which follow each other
 * along the columns of the slab, across its rows. Four terms of a sum, of LANES outputs, are four bytes of one integer each, and
 * are added up at a time where as many inputs follow each other.
 */
/* Products of `count` terms of all pixels and the weights from a term on. fours: four inputs of a pixel; one: one. */
#define ADD_UP(from, count, fours, one) { \
    for (int32_t c = 0; c < count;) { \
        const int32_t term = (from) + c; \
        GLOBAL const int32_t *own = weights + (int64_t)(term / 4) * CSDF_PANEL; \
        if (term % 4 || c + 4 > count) { \
            const VI factor = SHIFTED_RIGHT(SHIFTED_LEFT(LOAD_I(own), 24 - term % 4 * 8), 24); \
            EACH_PIXEL { \
                const int32_t value = one; \
                sums[p] = sums[p] + factor * SPLAT_I(value); \
                whole[p] += value; \
            } \
            c++; \
            continue; \
        } \
        const int32_t stop = (count - c < MOST_TERMS ? count - c : MOST_TERMS) / 4 * 4 + c; \
        partial parts[PIXELS]; \
        EACH_PIXEL \
            parts[p] = NOTHING; \
        for (; c < stop; c += 4, own += CSDF_PANEL) { \
            const VI four = LOAD_I(own); \
            EACH_PIXEL { \
                const int32_t values = fours; \
                parts[p] = DOTS(parts[p], four, values); \
                if (zeros) \
                    whole[p] = DOT(whole[p], 0x01010101, values); \
            } \
        } \
        EACH_PIXEL \
            sums[p] = sums[p] + WHOLE_OF(parts[p]); \
    } \
}

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
    const int32_t computed = layer->into.kind == CSDF_CENTRED;
    const int32_t beside = computed
        ? SIGNED(IN_MEMORY(const uint8_t, IN_TABLES(place, pieces[step->piece_count].rows)[0])[0], layer->flip)
        : layer->padding;
    const int32_t flip = (int32_t)(layer->flip * 0x01010101u), padding = (int32_t)((beside & 255) * 0x01010101u);
    const int32_t zeros = layer->zeros != 0;
    VI sums[PIXELS];
    int32_t row[PIXELS], column[PIXELS], whole[PIXELS];
    EACH_PIXEL {
        const int32_t at = begin + p < all ? begin + p : all - 1; /* the last one again */
        row[p] = at / columns;
        column[p] = step->out.column + at % columns;
        whole[p] = 0;
        sums[p] = LOAD_I(IN_WEIGHTS(int32_t, layer->bias) + panel);
    }
    /* the taps of a row of the kernel are one run where pixels follow each other without gaps */
    const int32_t runs = layer->kernel_w > 1 && layer->groups == 1 && layer->dilation_w == 1 && step->piece_count == 1
        && pieces[0].stride == ins && layer->pace == ins && pieces[0].rows;
    for (int32_t y = 0; y < layer->kernel_h; y++) {
        if (runs) {
            GLOBAL const uint8_t *in[PIXELS];
            int32_t every = 1;
            POINT_AT_RUNS(uint8_t, y, in, every)
            if (every) {
                ADD_UP(y * layer->kernel_w * ins, layer->kernel_w * ins, FOUR_BYTES(in[p] + c) ^ flip, SIGNED(in[p][c], layer->flip))
                continue;
            }
        }
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
                int32_t inside[PIXELS], every = 1;
                EACH_PIXEL {
                    const int32_t from = first_row(row[p], layer->stride_h, step->each, step->apart) + y * layer->dilation_h;
                    const int32_t to = column[p] * layer->stride_w + x * layer->dilation_w - layer->pad_left;
                    const place at = piece.rows ? IN_TABLES(place, piece.rows)[from] : 0;
                    inside[p] = at != 0 && to >= 0 && to < step->width;
                    in[p] = AT(const uint8_t, inside[p] ? at : layer->bias) + (inside[p] ? shift + to * piece.stride : 0);
                    every &= inside[p];
                }
                const int32_t first = (y * layer->kernel_w + x) * layer->pace + low - group * ins;
#ifdef __OPENCL_VERSION__ /* processors do not look at each value whether it is there */
                if (every)
                    ADD_UP(first, end - low, FOUR_BYTES(in[p] + c) ^ flip, SIGNED(in[p][c], layer->flip))
                else
#endif
                    ADD_UP(first, end - low, inside[p] ? FOUR_BYTES(in[p] + c) ^ flip : padding,
                        inside[p] ? SIGNED(in[p][c], layer->flip) : beside)
            }
        }
    }
    const int32_t size = bytes_of(&layer->into);
    EACH_PIXEL {
        if (begin + p >= all)
            continue;
        if (zeros)
            sums[p] = sums[p] - LOAD_I(IN_WEIGHTS(int32_t, layer->zeros) + panel) * SPLAT_I(whole[p]);
        if (computed)
            sums[p] = sums[p] - LOAD_I(IN_WEIGHTS(int32_t, layer->into.shifts) + panel) * SPLAT_I(beside);
        GLOBAL uint8_t *made = IN_MEMORY(uint8_t, IN_TABLES(place, step->out.rows)[row[p]])
            + (int64_t)column[p] * step->out.stride + (group * outs + channel) * size;
        store_sums(b, &layer->into, panel, sums[p], made, some < LANES ? some : LANES);
    }
}
