/* Convolutions: csdf_conv_step. An item has VECTORS times LANES output channels of PIXELS pixels, which follow each other
 * along the columns of the slab, across its rows or (IN_ROW) in one of them.
 */
#define EACH_VECTOR _Pragma("unroll") for (int32_t v = 0; v < VECTORS; v++)
/* Products of `count` terms of all pixels and the weights from a term on. */
#define ADD_UP(first, count) { \
    const int32_t terms = count; \
    GLOBAL const float *own[VECTORS]; \
    EACH_VECTOR own[v] = weights[v] + (int64_t)(first) * pitch[v]; \
    for (int32_t c = 0; c < terms; c++) { \
        V factor[VECTORS]; \
        EACH_VECTOR factor[v] = LOAD(own[v]); \
        EACH_VECTOR own[v] += pitch[v]; \
        EACH_PIXEL { \
            const V term = SPLAT(in[p][c]); \
            EACH_VECTOR MAD(sums[v][p], term, factor[v]); \
        } \
    } \
}

BODY(conv_of, csdf_conv_step)
{
    GLOBAL const csdf_layer *layer = IN_TABLES(csdf_layer, step->layer);
    GLOBAL const csdf_source *pieces = IN_TABLES(csdf_source, step->pieces);
    const int32_t ins = layer->in_channels / layer->groups, outs = layer->out_channels / layer->groups;
    const int32_t panels = (outs + CSDF_PANEL - 1) / CSDF_PANEL, taps = layer->kernel_h * layer->kernel_w;
    const int32_t blocks = (outs + VECTORS * LANES - 1) / (VECTORS * LANES);
    const int32_t group = across / blocks, channel = across % blocks * VECTORS * LANES;
    const int32_t columns = step->out.columns;
#if !IN_ROW
    const int32_t begin = down * PIXELS, all = columns * step->out.count;
    if (group >= layer->groups || begin >= all)
        return;
#else
    const int32_t strips = (columns + PIXELS - 1) / PIXELS, line = down / strips;
    const int32_t begin = down % strips * PIXELS, all = columns;
    if (group >= layer->groups || line >= step->out.count)
        return;
#endif
    GLOBAL const float *weights[VECTORS];
    V sums[VECTORS][PIXELS];
    int32_t pitch[VECTORS]; /* floats of a row of a vector's panel: the last one of a group is narrow */
    int32_t row[PIXELS], column[PIXELS];
    EACH_VECTOR {
        const int32_t panel = channel + v * LANES < outs ? (channel + v * LANES) / CSDF_PANEL : panels - 1; /* the last one again */
        const int32_t lane = (channel + v * LANES) % CSDF_PANEL, left = outs - panel * CSDF_PANEL;
        const int32_t first = (group + 1) * outs - left;
        const V bias = LOAD(IN_WEIGHTS(float, layer->bias) + (first + lane));
        weights[v] = IN_WEIGHTS(float, layer->weights) + (int64_t)first * taps * ins + lane;
        pitch[v] = left < CSDF_PANEL ? left : CSDF_PANEL;
        EACH_PIXEL
            sums[v][p] = bias;
    }
    EACH_PIXEL {
        const int32_t at = begin + p < all ? begin + p : all - 1; /* the last one again */
#if !IN_ROW
        row[p] = at / columns;
        column[p] = step->out.column + at % columns;
#else
        row[p] = line;
        column[p] = step->out.column + at;
#endif
    }
    /* the taps of a row of the kernel are one run where pixels follow each other without gaps */
    const int32_t runs = layer->kernel_w > 1 && layer->groups == 1 && layer->dilation_w == 1 && step->piece_count == 1
        && pieces[0].stride == ins && pieces[0].rows;
    for (int32_t y = 0; y < layer->kernel_h; y++) {
        if (runs) {
            GLOBAL const float *in[PIXELS];
            int32_t every = 1;
            POINT_AT_RUNS(float, y, in, every)
            if (every) {
                ADD_UP(y * layer->kernel_w * ins, layer->kernel_w * ins);
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
                int32_t any = 0;
                EACH_PIXEL {
                    const int32_t from = first_row(row[p], layer->stride_h, step->each, step->apart) + y * layer->dilation_h;
                    const int32_t to = column[p] * layer->stride_w + x * layer->dilation_w - layer->pad_left;
                    const place at = rows[from];
                    const int32_t inside = at != 0 && to >= 0 && to < step->width;
                    in[p] = inside ? AT(const float, at) + (shift + to * piece.stride) : ZEROS;
                    any |= inside;
                }
                if (any)
                    ADD_UP((y * layer->kernel_w + x) * ins + low - group * ins, end - low);
            }
        }
    }
    table_of_rows out = IN_TABLES(place, step->out.rows);
    EACH_VECTOR {
        const int32_t own = channel + v * LANES, some = outs - own, into = group * outs + own;
        if (some <= 0)
            continue;
        EACH_PIXEL {
            if (begin + p >= all)
                continue;
            V sum = sums[v][p];
            if (step->residual) {
                GLOBAL const csdf_source *added = IN_TABLES(csdf_source, step->residual);
                GLOBAL const float *there = AT(const float, IN_TABLES(place, added->rows)[row[p]]) + column[p] * added->stride;
                sum = sum + load_some(there + into, some);
            }
            GLOBAL float *made = IN_MEMORY(float, out[row[p]]) + (int64_t)column[p] * step->out.stride + into;
            store_some(activated(sum, layer->activation), made, some);
        }
    }
}
