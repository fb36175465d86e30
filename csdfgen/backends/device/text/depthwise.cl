/* Convolutions with one input channel a group: csdf_conv_step. An item has LANES output channels of PIXELS pixels that
 * follow each other in a row.
 */
BODY(depthwise_of, csdf_conv_step)
{
    GLOBAL const csdf_layer *layer = IN_TABLES(csdf_layer, step->layer);
    GLOBAL const csdf_source *pieces = IN_TABLES(csdf_source, step->pieces);
    const int32_t outs = layer->out_channels, times = outs / layer->groups;
    const int32_t columns = step->out.columns, strips = (columns + PIXELS - 1) / PIXELS;
    const int32_t channel = across * LANES, some = outs - channel;
    const int32_t row = down / strips, begin = down % strips * PIXELS;
    if (some <= 0 || row >= step->out.count)
        return;
    GLOBAL const float *weights = IN_WEIGHTS(float, layer->weights) + channel;
    V sums[PIXELS];
    const V bias = load_some(IN_WEIGHTS(float, layer->bias) + channel, some);
    EACH_PIXEL
        sums[p] = bias;
    /* the piece that all lanes are in */
    const int32_t first = channel / times, last = ((some < LANES ? outs : channel + LANES) - 1) / times;
    int32_t start = 0, own = -1, shift = 0;
    for (int32_t i = 0; i < step->piece_count; start += pieces[i].channels, i++)
        if (first >= start && last < start + pieces[i].channels) {
            own = i;
            shift = first - start;
        }
    const int32_t from = first_row(row, layer->stride_h, step->each, step->apart);
    const int32_t left = (step->out.column + begin) * layer->stride_w - layer->pad_left;
    /* whole vectors of one piece; beside the map, and behind the last column, they are zeros */
    const int32_t whole = own >= 0 && times == 1 && some >= LANES;
    for (int32_t y = 0; whole && y < layer->kernel_h; y++) {
        const csdf_source piece = pieces[own];
        const place at = IN_TABLES(place, piece.rows)[from + y * layer->dilation_h];
        if (!at)
            continue;
        GLOBAL const float *in = AT(const float, at) + shift;
        for (int32_t x = 0; x < layer->kernel_w; x++) {
            const V factor = LOAD(weights + (int64_t)(y * layer->kernel_w + x) * outs);
            EACH_PIXEL {
                const int32_t to = left + p * layer->stride_w + x * layer->dilation_w;
                MAD(sums[p], LOAD(to >= 0 && to < step->width ? in + (int64_t)to * piece.stride : ZEROS), factor);
            }
        }
    }
    for (int32_t y = whole ? layer->kernel_h : 0; y < layer->kernel_h; y++)
        for (int32_t x = 0; x < layer->kernel_w; x++) {
            const V factor = load_some(weights + (int64_t)(y * layer->kernel_w + x) * outs, some);
            EACH_PIXEL {
                const int32_t to = (step->out.column + begin + p) * layer->stride_w + x * layer->dilation_w - layer->pad_left;
                if (to < 0 || to >= step->width || begin + p >= columns)
                    continue;
                if (own >= 0 && times == 1) {
                    const csdf_source piece = pieces[own];
                    const place at = IN_TABLES(place, piece.rows)[from + y * layer->dilation_h];
                    if (at)
                        MAD(sums[p], load_some(AT(const float, at) + (int64_t)to * piece.stride + shift, some), factor);
                    continue;
                }
                lanes in;
                for (int32_t lane = 0; lane < LANES; lane++) {
                    int32_t c = (channel + lane) / times, before = 0;
                    in.f[lane] = 0.0f;
                    if (lane >= some)
                        continue;
                    for (int32_t i = 0; i < step->piece_count; before += pieces[i].channels, i++) {
                        const csdf_source piece = pieces[i];
                        if (c < before || c >= before + piece.channels)
                            continue;
                        const place at = IN_TABLES(place, piece.rows)[from + y * layer->dilation_h];
                        if (at)
                            in.f[lane] = AT(const float, at)[(int64_t)to * piece.stride + c - before];
                    }
                }
                MAD(sums[p], in.v, factor);
            }
        }
    GLOBAL float *made = IN_MEMORY(float, IN_TABLES(place, step->out.rows)[row]);
    EACH_PIXEL {
        if (begin + p >= columns)
            continue;
        const int32_t column = step->out.column + begin + p;
        V sum = sums[p];
        if (step->residual) {
            GLOBAL const csdf_source *added = IN_TABLES(csdf_source, step->residual);
            GLOBAL const float *there = AT(const float, IN_TABLES(place, added->rows)[row]) + column * added->stride;
            sum = sum + load_some(there + channel, some);
        }
        store_some(activated(sum, layer->activation), made + (int64_t)column * step->out.stride + channel, some);
    }
}
