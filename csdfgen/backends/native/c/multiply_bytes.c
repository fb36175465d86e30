/* Products of matrices of bytes that are both computed: csdf_multiply_bytes, out = a * b for each group.
 *
 * Some columns of b at a time become the weights of a layer of one pixel, in the workspace, and csdf_conv_bytes multiplies rows
 * of a, its pixels, with these. Rows of a whose elements are apart are copied first. What the zero point of b takes away
 * is the same for all sums of a row of a: with one, sums are integers in the workspace first.
 */
#include "bytes.h"

enum { ROWS = CSDF_BYTE_ROWS }; /* that are multiplied at a time */

/* Sixteen columns of b, `n` of which exist: [depth / 4][16][4], zeros behind the last. */
static void pack_columns(const csdf_byte_multiply_step *step, const uint8_t *const *b, int32_t n, int8_t *to)
{
    const int32_t depth = step->depth, whole = step->b_step == 1 ? depth / 4 * 4 : 0;
    const uint8_t flip = (uint8_t)step->flip;
    const uint32_t bits = 0x01010101u * flip;
    for (int32_t o = 0; o < n; o++) {
        const uint8_t *column = b[o];
        int8_t *at = to + 4 * o;
        for (int32_t k = 0; k < whole; k += 4) {
            uint32_t four;
            memcpy(&four, column + k, 4);
            four ^= bits;
            memcpy(at + (ptrdiff_t)k * CSDF_PANEL, &four, 4);
        }
        for (int32_t k = whole; k < depth; k++)
            at[(ptrdiff_t)(k / 4) * 4 * CSDF_PANEL + k % 4] = (int8_t)(column[(ptrdiff_t)k * step->b_step] ^ flip);
    }
}

/* Four rows of sixteen bytes beside each other, `apart` bytes from one to the next. */
CSDF_INLINE void four_rows(const uint8_t *const *rows, ptrdiff_t from, ptrdiff_t apart, uint8_t flip, int8_t *to)
{
    const uint8_t *a = rows[0] + from, *b = rows[1] + from, *c = rows[2] + from, *d = rows[3] + from;
    for (int32_t o = 0; o < CSDF_PANEL; o++) {
        to[4 * o] = (int8_t)(a[o * apart] ^ flip);
        to[4 * o + 1] = (int8_t)(b[o * apart] ^ flip);
        to[4 * o + 2] = (int8_t)(c[o * apart] ^ flip);
        to[4 * o + 3] = (int8_t)(d[o * apart] ^ flip);
    }
}

/* As pack_columns, of the rows of b. from: of the first column. */
static void pack_rows(const csdf_byte_multiply_step *step, const uint8_t *const *b, ptrdiff_t from, int32_t n, int8_t *to)
{
    const uint8_t flip = (uint8_t)step->flip;
    for (int32_t k = 0; k < step->depth; k += 4, to += 4 * CSDF_PANEL) {
        const int32_t some = least(step->depth - k, 4);
        if (n == CSDF_PANEL && some == 4 && step->b_step == 1)
            four_rows(b + k, from, 1, flip, to);
        else if (n == CSDF_PANEL && some == 4)
            four_rows(b + k, from, step->b_step, flip, to);
        else
            for (int32_t i = 0; i < some; i++)
                for (int32_t o = 0; o < n; o++)
                    to[4 * o + i] = (int8_t)(b[k + i][from + (ptrdiff_t)o * step->b_step] ^ flip);
    }
}

/* The sums of sixteen packed columns. */
static void add_up(const int8_t *panel, ptrdiff_t size, int32_t *sums)
{
    int32_t all[4 * CSDF_PANEL] = {0};
    for (ptrdiff_t k = 0; k < size; k += 4, panel += 4 * CSDF_PANEL)
        for (int32_t i = 0; i < 4 * CSDF_PANEL; i++)
            all[i] += panel[i];
    for (int32_t o = 0; o < CSDF_PANEL; o++)
        sums[o] = all[4 * o] + all[4 * o + 1] + all[4 * o + 2] + all[4 * o + 3];
}

/* `count` columns of b from the first on, and what the zero point of a adds to their sums. */
static void pack(const csdf_byte_multiply_step *step, const uint8_t *const *b, int32_t first, int32_t count, int8_t *weights,
    int32_t *bias)
{
    const ptrdiff_t size = ((ptrdiff_t)step->depth + 3) / 4 * 4;
    const int32_t zero = step->layer->padding + (CSDF_UNSIGNED ? 128 : 0);
    bias += CSDF_UNSIGNED ? (count + CSDF_PANEL - 1) / CSDF_PANEL * CSDF_PANEL : 0;
    for (int32_t c = 0; c < count; c += CSDF_PANEL) {
        const int32_t n = least(count - c, CSDF_PANEL);
        int8_t *panel = weights + c * size;
        if (n < CSDF_PANEL)
            memset(panel, 0, (size_t)(CSDF_PANEL * size));
        else if (size > step->depth)
            memset(panel + CSDF_PANEL * (size - 4), 0, 4 * CSDF_PANEL);
        if (step->by_columns)
            pack_columns(step, b + first + c, n, panel);
        else
            pack_rows(step, b, (ptrdiff_t)(first + c) * step->b_step, n, panel);
        add_up(panel, size, bias + c);
        for (int32_t o = 0; o < CSDF_PANEL; o++)
            bias[c + o] *= -zero;
    }
}

/* Copies of rows of a whose elements are apart. */
static void copy_rows(const csdf_byte_multiply_step *step, const uint8_t *const *a, int32_t count, uint8_t *to)
{
    const int32_t depth = step->depth;
    const ptrdiff_t apart = step->a_step;
    for (int32_t i = 0; i < count; i++, to += depth) {
        const uint8_t *row = a[i];
        for (int32_t k = 0; k < depth; k++, row += apart)
            to[k] = *row;
    }
}

/* What the zero point of b adds to the sums of each row of a. */
static void sum_rows(const csdf_byte_multiply_step *step, const uint8_t *const *a, int32_t count, int32_t *sums)
{
    const int32_t depth = step->depth;
    const uint8_t flip = (uint8_t)step->layer->flip;
    for (int32_t i = 0; i < count; i++) {
        int32_t sum = 0;
        for (int32_t k = 0; k < depth; k++)
            sum += (int8_t)(a[i][k] ^ flip);
        sums[i] = step->zero * (depth * step->layer->padding - sum);
    }
}

/* Integers of `rows` rows and some columns, with what is added to those of each row, become what is written. */
static void finish(const csdf_byte_multiply_step *step, const int32_t *made, const int32_t *more, int32_t rows, int32_t columns,
    uint8_t *const *out)
{
    const csdf_rescaling *into = &step->layer->into;
    const ptrdiff_t size = csdf_bytes_of(into), apart = step->out_step * size;
    int32_t sums[ROWS * CSDF_PANEL] = {0}, becomes[ROWS * CSDF_PANEL];
    for (int32_t c = 0; c < columns; c += CSDF_PANEL) {
        const int32_t n = least(columns - c, CSDF_PANEL);
        const uint8_t *from = (const uint8_t *)becomes;
        for (int32_t i = 0; i < rows; i++)
            for (int32_t o = 0; o < n; o++)
                sums[i * CSDF_PANEL + o] = made[(ptrdiff_t)i * columns + c + o] + more[i];
        CSDF_RESCALED(1, into)(into, 0, n, sums, rows, (uint8_t *)becomes, CSDF_PANEL * size);
        for (int32_t i = 0; i < rows; i++, from += CSDF_PANEL * size) {
            uint8_t *to = out[i] + c * apart;
            for (int32_t o = 0; o < n; o++, to += apart)
                if (size == 1)
                    *to = from[o];
                else
                    memcpy(to, from + o * size, sizeof(int32_t));
        }
    }
}

void csdf_multiply_bytes(const csdf_byte_multiply_step *step)
{
    const ptrdiff_t depth = step->depth, size = (depth + 3) / 4 * 4;
    const ptrdiff_t padded = ((ptrdiff_t)step->wide + CSDF_PANEL - 1) / CSDF_PANEL * CSDF_PANEL;
    const int32_t copies = step->a_step != 1, direct = step->out_step == 1 && !step->zero;
    const int32_t block = copies || !direct ? least(step->rows, ROWS) : ROWS;
    int8_t *weights = step->workspace;
    int32_t *bias = (int32_t *)(void *)(weights + padded * size), *made = bias + 2 * padded;
    uint8_t *copied = (uint8_t *)(made + (direct ? 0 : block * padded));
    const ptrdiff_t used = (copied + copies * step->rows * depth - (uint8_t *)weights + 63) / 64 * 64;
    csdf_byte_layer layer = *step->layer;
    csdf_byte_source source = {NULL, step->depth, step->depth};
    csdf_byte_conv_step conv = {0};
    const uint8_t *from[ROWS];
    uint8_t *into[ROWS], *to[ROWS];
    int32_t more[ROWS];
    layer.weights = weights;
    layer.bias = bias;
    layer.zeros = NULL;
    if (!direct)
        layer.into.kind = CSDF_INTEGERS;
    conv.layer = &layer;
    conv.pieces = &source;
    conv.piece_count = conv.width = conv.out.columns = 1;
    conv.out.rows = direct ? to : into;
    source.rows = from;
    if ((ptrdiff_t)step->workspace_bytes > used) {
        conv.workspace = weights + used;
        conv.workspace_bytes = step->workspace_bytes - (size_t)used;
    }
    for (int32_t group = 0; group < step->groups; group++) {
        const uint8_t *const *a = step->a + (ptrdiff_t)group * step->count, *const *b = step->b + (ptrdiff_t)group * step->apart;
        uint8_t *const *out = step->out + (ptrdiff_t)group * step->count;
        for (int32_t c = 0; c < step->columns; c += step->wide) {
            const int32_t columns = least(step->columns - c, step->wide);
            pack(step, b, c, columns, weights, bias);
            layer.out_channels = conv.out.channels = columns;
            for (int32_t row = 0; row < step->count; row += block) {
                const int32_t rows = conv.out.count = least(step->count - row, block);
                uint8_t *copy = copied + (step->rows < step->count ? 0 : row * depth);
                if (copies && (c == 0 || step->rows < step->count))
                    copy_rows(step, a + row, rows, copy);
                for (int32_t i = 0; i < rows; i++) {
                    from[i] = copies ? copy + i * depth : a[row + i];
                    to[i] = out[row + i] + (ptrdiff_t)c * step->out_step * csdf_bytes_of(&step->layer->into);
                    into[i] = (uint8_t *)(made + i * (ptrdiff_t)columns);
                }
                csdf_conv_bytes(&conv);
                if (!direct) {
                    sum_rows(step, from, rows, more);
                    finish(step, made, more, rows, columns, to);
                }
            }
        }
    }
}

void csdf_multiply_bytes_of(const void *step) { csdf_multiply_bytes(step); }
