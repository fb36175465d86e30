/* Products of matrices of bytes that are both computed: csdf_multiply_bytes, out = a * b for each group.
 *
 * b becomes the weights of a layer of one pixel, in the workspace, and csdf_conv_bytes multiplies rows of a, its pixels, with
 * these. Rows of a whose elements are apart are copied first; so are, behind the product, those of out.
 */
#include "bytes.h"

enum { TABLE = 32 }; /* rows of a table */

/* Sixteen columns of b from `c` on, `n` of which exist: [depth / 4][16][4], zeros behind the last; and the sums of these. */
static void pack_columns(const csdf_byte_multiply_step *step, const uint8_t *const *b, int32_t n, int8_t *to, int32_t *sums)
{
    const int32_t depth = step->depth, whole = step->b_step == 1 ? depth / 4 * 4 : 0;
    const uint8_t flip = (uint8_t)step->flip;
    const uint32_t bits = 0x01010101u * flip;
    for (int32_t o = 0; o < n; o++) {
        const uint8_t *column = b[o];
        int8_t *at = to + 4 * o;
        int32_t sum = 0;
        for (int32_t k = 0; k < whole; k += 4) {
            uint32_t four;
            memcpy(&four, column + k, 4);
            four ^= bits;
            memcpy(at + (ptrdiff_t)k * CSDF_PANEL, &four, 4);
        }
        for (int32_t k = whole; k < depth; k++)
            at[(ptrdiff_t)(k / 4) * 4 * CSDF_PANEL + k % 4] = (int8_t)(column[(ptrdiff_t)k * step->b_step] ^ flip);
        for (int32_t k = 0; k < depth; k++)
            sum += (int8_t)(column[(ptrdiff_t)k * step->b_step] ^ flip);
        sums[o] = sum;
    }
}

/* Four whole rows of sixteen bytes beside each other. */
static void four_rows(const uint8_t *const *rows, ptrdiff_t from, uint8_t flip, int8_t *to, int32_t *sums)
{
    const uint8_t *a = rows[0] + from, *b = rows[1] + from, *c = rows[2] + from, *d = rows[3] + from;
    for (int32_t o = 0; o < CSDF_PANEL; o++) {
        to[4 * o] = (int8_t)(a[o] ^ flip);
        to[4 * o + 1] = (int8_t)(b[o] ^ flip);
        to[4 * o + 2] = (int8_t)(c[o] ^ flip);
        to[4 * o + 3] = (int8_t)(d[o] ^ flip);
    }
    for (int32_t o = 0; o < CSDF_PANEL; o++)
        sums[o] += (int8_t)(a[o] ^ flip) + (int8_t)(b[o] ^ flip) + (int8_t)(c[o] ^ flip) + (int8_t)(d[o] ^ flip);
}

/* As pack_columns, of the rows of b. from: of the first column. */
static void pack_rows(const csdf_byte_multiply_step *step, const uint8_t *const *b, ptrdiff_t from, int32_t n, int8_t *to,
    int32_t *sums)
{
    const uint8_t flip = (uint8_t)step->flip;
    for (int32_t k = 0; k < step->depth; k += 4, to += 4 * CSDF_PANEL) {
        const int32_t some = least(step->depth - k, 4);
        if (step->b_step == 1 && n == CSDF_PANEL && some == 4) {
            four_rows(b + k, from, flip, to, sums);
            continue;
        }
        for (int32_t i = 0; i < some; i++)
            for (int32_t o = 0; o < n; o++) {
                to[4 * o + i] = (int8_t)(b[k + i][from + (ptrdiff_t)o * step->b_step] ^ flip);
                sums[o] += to[4 * o + i];
            }
    }
}

/* All columns of b, and what zero points add to the sums. */
static void pack(const csdf_byte_multiply_step *step, const csdf_byte_layer *layer, const uint8_t *const *b, int8_t *weights,
    int32_t *bias)
{
    const ptrdiff_t size = ((ptrdiff_t)step->depth + 3) / 4 * 4;
    const int32_t zero = layer->padding + (CSDF_UNSIGNED ? 128 : 0);
    for (int32_t c = 0; c < step->columns; c += CSDF_PANEL) {
        const int32_t n = least(step->columns - c, CSDF_PANEL);
        int8_t *panel = weights + c * size;
        int32_t sums[CSDF_PANEL] = {0};
        if (n < CSDF_PANEL)
            memset(panel, 0, (size_t)(CSDF_PANEL * size));
        else if (size > step->depth)
            memset(panel + CSDF_PANEL * (size - 4), 0, 4 * CSDF_PANEL);
        if (step->by_columns)
            pack_columns(step, b + c, n, panel, sums);
        else
            pack_rows(step, b, (ptrdiff_t)c * step->b_step, n, panel, sums);
        for (int32_t o = 0; o < CSDF_PANEL; o++)
            bias[c + o] = zero * (step->depth * step->zero - sums[o]);
    }
}

/* The product for `count` rows. copied: room for rows of a and of out that are not side by side. */
static void meet(const csdf_byte_multiply_step *step, csdf_byte_conv_step *conv, const uint8_t *const *a, uint8_t *const *out,
    int32_t count, uint8_t *copied)
{
    const int32_t size = (int32_t)csdf_bytes_of(&step->layer->into);
    const ptrdiff_t line = (ptrdiff_t)step->columns * size, apart = (ptrdiff_t)step->out_step * size;
    uint8_t *made = copied + (step->a_step != 1 ? (ptrdiff_t)step->rows * step->depth : 0);
    const uint8_t *from[TABLE];
    uint8_t *into[TABLE];
    csdf_byte_source source = {a, step->depth, step->depth};
    conv->pieces = &source;
    conv->out.rows = out;
    conv->out.count = count;
    if (step->a_step != 1) {
        for (int32_t i = 0; i < count; i++) {
            uint8_t *to = copied + (ptrdiff_t)i * step->depth;
            for (int32_t k = 0; k < step->depth; k++)
                to[k] = a[i][(ptrdiff_t)k * step->a_step];
            from[i] = to;
        }
        source.rows = from;
    }
    if (step->out_step != 1) {
        for (int32_t i = 0; i < count; i++)
            into[i] = made + i * line;
        conv->out.rows = into;
    }
    csdf_conv_bytes(conv);
    for (int32_t i = 0; i < count && step->out_step != 1; i++)
        for (int32_t c = 0; c < step->columns; c++)
            if (size == 1)
                out[i][c * apart] = made[i * line + c];
            else
                memcpy(out[i] + c * apart, made + i * line + (ptrdiff_t)c * size, sizeof(int32_t));
}

void csdf_multiply_bytes(const csdf_byte_multiply_step *step)
{
    const ptrdiff_t padded = ((ptrdiff_t)step->columns + CSDF_PANEL - 1) / CSDF_PANEL * CSDF_PANEL;
    const ptrdiff_t size = ((ptrdiff_t)step->depth + 3) / 4 * 4;
    const int32_t apart = step->a_step != 1 || step->out_step != 1, rows = apart ? least(step->rows, TABLE) : step->count;
    const ptrdiff_t line = (step->a_step != 1 ? step->depth : 0) +
        (step->out_step != 1 ? step->columns * csdf_bytes_of(&step->layer->into) : 0);
    int8_t *weights = step->workspace;
    int32_t *bias = (int32_t *)(void *)(weights + padded * size), *zeros = bias + 2 * padded;
    uint8_t *copied = (uint8_t *)(zeros + padded);
    const ptrdiff_t used = (padded * (size + 12) + step->rows * line + 63) / 64 * 64;
    csdf_byte_layer layer = *step->layer;
    csdf_byte_conv_step conv = {0};
    layer.out_channels = step->columns;
    layer.weights = weights;
    layer.bias = bias;
    layer.zeros = step->zero ? zeros : NULL;
    conv.layer = &layer;
    conv.piece_count = conv.width = conv.out.columns = 1;
    conv.out.channels = step->columns;
    if ((ptrdiff_t)step->workspace_bytes > used) {
        conv.workspace = weights + used;
        conv.workspace_bytes = step->workspace_bytes - (size_t)used;
    }
    for (ptrdiff_t c = 0; c < padded && step->zero; c++)
        zeros[c] = step->zero;
    for (int32_t group = 0; group < step->groups; group++) {
        const ptrdiff_t first = (ptrdiff_t)group * step->count;
        pack(step, &layer, step->b + (ptrdiff_t)group * step->apart, weights, bias + (CSDF_UNSIGNED ? padded : 0));
        for (int32_t row = 0; row < step->count; row += rows)
            meet(step, &conv, step->a + first + row, step->out + first + row, least(step->count - row, rows), copied);
    }
}

void csdf_multiply_bytes_of(const void *step) { csdf_multiply_bytes(step); }
