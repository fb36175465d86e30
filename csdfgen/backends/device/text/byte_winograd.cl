/* Convolutions 3x3 of bytes with fewer products: csdf_byte_conv_step, as csdf_byte_winograd of native code, whose weights these
 * are. An item has LANES outputs of TILES tiles of 2x2 pixels. It takes LANES channels of their windows to points at a time, so that
 * there is no workspace. Their products are added up in floats, which have sums of 28 of them exactly: points are 512 times 1,152
 * at most.
 */
#define TILES ((PIXELS + 3) / 4)
#define POINTS 16
#define EACH_TILE _Pragma("unroll") for (int32_t t = 0; t < TILES; t++)
/* Four numbers to points, in place: B'. */
#define TO_POINTS(a, b, c, d) { \
    const VI first = a - c, second = b + c, third = c - b, last = b - d; \
    a = first, b = second, c = third, d = last; \
}

/* Bytes from `low` on, the first n or as many paddings; zeros beside them. */
CALLED VI some_bytes(GLOBAL const uint8_t *at, int32_t inside, int32_t low, int32_t n, int32_t flip, int32_t padding)
{
    whole_lanes found;
    for (int32_t i = 0; i < LANES; i++)
        found.i[i] = i < low || i >= n ? 0 : inside ? SIGNED(at[i], flip) : padding;
    return found.v;
}

BODY(byte_winograd_of, csdf_byte_conv_step)
{
    GLOBAL const csdf_byte_layer *layer = IN_TABLES(csdf_byte_layer, step->layer);
    GLOBAL const csdf_byte_source *pieces = IN_TABLES(csdf_byte_source, step->pieces);
    const int32_t channel = across * LANES, some = layer->out_channels - channel, pairs = (layer->in_channels + 1) / 2;
    const int32_t wide = (step->out.columns + 1) / 2, each = step->each ? step->each : step->out.count;
    const int32_t image = (each + 1) / 2 * wide, all = each ? step->out.count / each * image : 0, begin = down * TILES;
    if (some <= 0 || begin >= all)
        return;
    GLOBAL const int32_t *weights = IN_WEIGHTS(int32_t, layer->weights)
        + (int64_t)(channel / CSDF_PANEL) * POINTS * pairs * CSDF_PANEL + channel % CSDF_PANEL;
    VI sums[POINTS][TILES];
    for (int32_t p = 0; p < POINTS; p++)
        EACH_TILE /* the point that counts once in each of the four pixels */
            sums[p][t] = p == 5 ? LOAD_I(IN_WEIGHTS(int32_t, layer->bias) + channel) : SPLAT_I(0);
    int32_t start = 0;
    for (int32_t k = 0; k < step->piece_count; k++) {
        const csdf_byte_source piece = pieces[k];
        const int32_t end = start + piece.channels;
        /* pairs of weights are of an even channel and the next one */
        for (int32_t first = LANES > 1 ? start & ~1 : start; first < end; first += LANES) {
            const int32_t n = end - first < LANES ? end - first : LANES;
            float points[TILES][POINTS][LANES];
            for (int32_t t = 0; t < TILES; t++) {
                const int32_t tile = begin + t < all ? begin + t : all - 1; /* the last one again */
                const int32_t row = tile % image / wide * 2, to = step->out.column + tile % wide * 2 - layer->pad_left;
                VI window[4][4];
                for (int32_t y = 0; y < 4; y++) {
                    const place at = piece.rows && row + y < each + 2
                        ? IN_TABLES(place, piece.rows)[tile / image * step->apart + row + y] : 0;
                    for (int32_t x = 0; x < 4; x++) {
                        const int32_t inside = at != 0 && to + x >= 0 && to + x < step->width;
                        GLOBAL const uint8_t *in = AT(const uint8_t, inside ? at : layer->bias)
                            + (inside ? (to + x) * piece.stride + first - start : 0);
                        if (inside && n == LANES && first >= start) {
                            window[y][x] = LOAD_BYTES(in, layer->flip);
                            continue;
                        }
                        window[y][x] = some_bytes(in, inside, start - first, n, layer->flip, layer->padding);
                    }
                }
                for (int32_t x = 0; x < 4; x++)
                    TO_POINTS(window[0][x], window[1][x], window[2][x], window[3][x])
                for (int32_t y = 0; y < 4; y++) {
                    TO_POINTS(window[y][0], window[y][1], window[y][2], window[y][3])
                    for (int32_t x = 0; x < 4; x++)
                        STORE(FLOATS_OF(window[y][x]), points[t][y * 4 + x]);
                }
            }
            for (int32_t p = 0; p < POINTS; p++) {
                GLOBAL const int32_t *own = weights + ((int64_t)p * pairs + first / 2) * CSDF_PANEL;
                V now[TILES];
                EACH_TILE
                    now[t] = SPLAT(0.0f);
                for (int32_t i = 0; i < n; i += 2, own += CSDF_PANEL) {
                    const VI both = LOAD_I(own);
                    const V even = FLOATS_OF(SHIFTED_RIGHT(SHIFTED_LEFT(both, 16), 16)), odd = FLOATS_OF(SHIFTED_RIGHT(both, 16));
                    EACH_TILE {
#if LANES > 1 /* behind the last channel are zeros */
                        MAD(now[t], SPLAT(points[t][p][i]), even);
                        MAD(now[t], SPLAT(points[t][p][i + 1]), odd);
#else
                        MAD(now[t], SPLAT(points[t][p][i]), first % 2 ? odd : even);
#endif
                    }
                }
                EACH_TILE
                    sums[p][t] = sums[p][t] + INTS_OF(now[t]);
            }
        }
        start = end;
    }
    const int32_t size = bytes_of(&layer->into);
    for (int32_t t = 0; t < TILES && begin + t < all; t++) {
        const int32_t tile = begin + t, row = tile % image / wide * 2, column = tile % wide * 2;
        VI half_[2][4];
        for (int32_t q = 0; q < 4; q++) {
            half_[0][q] = sums[q][t] + sums[4 + q][t] + sums[8 + q][t];
            half_[1][q] = sums[4 + q][t] - sums[8 + q][t] - sums[12 + q][t];
        }
        for (int32_t y = 0; y < 2 && row + y < each; y++) {
            const VI pixels[2] = {half_[y][0] + half_[y][1] + half_[y][2], half_[y][1] - half_[y][2] - half_[y][3]};
            GLOBAL uint8_t *made = IN_MEMORY(uint8_t, IN_TABLES(place, step->out.rows)[tile / image * each + row + y])
                + (int64_t)(step->out.column + column) * step->out.stride + channel * size;
            for (int32_t x = 0; x < 2 && column + x < step->out.columns; x++, made += step->out.stride)
                store_sums(b, &layer->into, channel, SHIFTED_RIGHT(pixels[x], 2), made, some < LANES ? some : LANES);
        }
    }
}
