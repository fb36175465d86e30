/* Convolutions: csdf_conv_step. An item has LANES output channels of PIXELS pixels, which follow each other along the
 * columns of the slab, across its rows.
 */
BODY(conv_of, csdf_conv_step)
{
    GLOBAL const csdf_layer *layer = IN_TABLES(csdf_layer, step->layer);
    GLOBAL const csdf_source *pieces = IN_TABLES(csdf_source, step->pieces);
    const int32_t ins = layer->in_channels / layer->groups, outs = layer->out_channels / layer->groups;
    const int32_t panels = (outs + CSDF_PANEL - 1) / CSDF_PANEL, blocks = panels * (CSDF_PANEL / LANES);
    const int32_t group = across / blocks, block = across % blocks;
    const int32_t channel = block * LANES, some = outs - channel;
    const int32_t columns = step->out.columns, all = columns * step->out.count;
    const int32_t begin = down * PIXELS;
    if (group >= layer->groups || some <= 0 || begin >= all)
        return;
    const int32_t taps = layer->kernel_h * layer->kernel_w;
    GLOBAL const float *weights = IN_WEIGHTS(float, layer->weights)
        + (int64_t)(group * panels + channel / CSDF_PANEL) * taps * ins * CSDF_PANEL + channel % CSDF_PANEL;
    V sums[PIXELS];
    const V bias = LOAD(IN_WEIGHTS(float, layer->bias) + (group * panels * CSDF_PANEL + channel));
    int32_t row[PIXELS], column[PIXELS];
    EACH_PIXEL {
        const int32_t at = begin + p < all ? begin + p : all - 1; /* the last one again */
        row[p] = at / columns;
        column[p] = step->out.column + at % columns;
        sums[p] = bias;
    }
    /* the taps of a row of the kernel are one run where pixels follow each other without gaps */
    const int32_t runs = layer->kernel_w > 1 && layer->groups == 1 && layer->dilation_w == 1 && step->piece_count == 1
        && pieces[0].stride == ins && pieces[0].rows;
    for (int32_t y = 0; y < layer->kernel_h; y++) {
        if (runs) {
            GLOBAL const float *in[PIXELS];
            int32_t every = 1;
            EACH_PIXEL {
                const place at = IN_TABLES(place, pieces[0].rows)
                    [first_row(row[p], layer->stride_h, step->each, step->apart) + y * layer->dilation_h];
                const int32_t to = column[p] * layer->stride_w - layer->pad_left;
                const int32_t inside = at != 0 && to >= 0 && to + layer->kernel_w <= step->width;
                in[p] = AT(const float, inside ? at : layer->bias) + (inside ? to * ins : 0);
                every &= inside;
            }
            if (every) {
                GLOBAL const float *w = weights + (int64_t)y * layer->kernel_w * ins * CSDF_PANEL;
                for (int32_t c = 0; c < layer->kernel_w * ins; c++, w += CSDF_PANEL) {
                    const V factor = LOAD(w);
                    EACH_PIXEL
                        MAD(sums[p], SPLAT(in[p][c]), factor);
                }
                continue;
            }
        }
        for (int32_t x = 0; x < layer->kernel_w; x++) {
            int32_t start = 0;
            for (int32_t i = 0; i < step->piece_count; i++) {
                const csdf_source piece = pieces[i];
                const int32_t low = start > group * ins ? start : group * ins;
                const int32_t end = start + piece.channels < (group + 1) * ins ? start + piece.channels : (group + 1) * ins;
                const int32_t shift = low - start;
                start += piece.channels;
                if (low >= end || !piece.rows)
                    continue;
                table_of_rows rows = IN_TABLES(place, piece.rows);
                GLOBAL const float *in[PIXELS];
                int32_t inside[PIXELS], every = 1, any = 0;
                EACH_PIXEL {
                    const int32_t from = first_row(row[p], layer->stride_h, step->each, step->apart) + y * layer->dilation_h;
                    const int32_t to = column[p] * layer->stride_w + x * layer->dilation_w - layer->pad_left;
                    const place at = rows[from];
                    inside[p] = at != 0 && to >= 0 && to < step->width;
                    in[p] = AT(const float, inside[p] ? at : layer->bias) + (inside[p] ? shift + to * piece.stride : 0);
                    every &= inside[p];
                    any |= inside[p];
                }
                GLOBAL const float *w = weights + (int64_t)((y * layer->kernel_w + x) * ins + low - group * ins) * CSDF_PANEL;
                if (every) {
                    for (int32_t c = 0; c < end - low; c++, w += CSDF_PANEL) {
                        const V factor = LOAD(w);
                        EACH_PIXEL
                            MAD(sums[p], SPLAT(in[p][c]), factor);
                    }
                } else if (any) {
                    for (int32_t c = 0; c < end - low; c++, w += CSDF_PANEL) {
                        const V factor = LOAD(w);
                        EACH_PIXEL
                            MAD(sums[p], SPLAT(inside[p] ? in[p][c] : 0.0f), factor);
                    }
                }
            }
        }
    }
    table_of_rows out = IN_TABLES(place, step->out.rows);
    const int32_t into = group * outs + channel;
    EACH_PIXEL {
        if (begin + p >= all)
            continue;
        if (step->residual) {
            GLOBAL const csdf_source *added = IN_TABLES(csdf_source, step->residual);
            GLOBAL const float *there = AT(const float, IN_TABLES(place, added->rows)[row[p]]) + column[p] * added->stride;
            sums[p] = sums[p] + load_some(there + into, some);
        }
        GLOBAL float *made = IN_MEMORY(float, out[row[p]]) + (int64_t)column[p] * step->out.stride + into;
        store_some(activated(sums[p], layer->activation), made, some);
    }
}
