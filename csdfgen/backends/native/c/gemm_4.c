/* Rows of a matrix times a constant one of four bits: some inputs of a panel are widened, and meet all rows. */
#include "products.h"

enum { ROWS = 32, DEPTH = 40, SOME = 2 * CSDF_PANEL }; /* of a pass: rows, inputs and outputs */

/* Inputs [first, first + depth), of which the first is even; blocks have an even number of them. */
static void widen(const csdf_gemm_4_step *step, int32_t panel, int32_t first, int32_t depth, float *restrict values)
{
    const ptrdiff_t blocks = (step->inputs + step->block - 1) / step->block;
    const uint8_t *pairs = step->weights + (panel * (ptrdiff_t)((step->inputs + 1) / 2) + first / 2) * CSDF_PANEL;
    float zero[CSDF_PANEL], scale[CSDF_PANEL];
    for (int32_t k = first; k < first + depth;) {
        const int32_t block = k / step->block, left = (block + 1) * step->block;
        const int32_t stop = left < first + depth ? left : first + depth;
        const ptrdiff_t at = (panel * ((blocks + 1) / 2) + block / 2) * CSDF_PANEL;
        for (int32_t i = 0; i < CSDF_PANEL; i++) {
            zero[i] = step->zeros ? (float)(step->zeros[at + i] >> block % 2 * 4 & 15) : 8.0f;
            scale[i] = step->scales[(panel * blocks + block) * CSDF_PANEL + i];
        }
        for (; k < stop; k += 2, pairs += CSDF_PANEL, values += 2 * CSDF_PANEL)
            for (int32_t i = 0; i < CSDF_PANEL; i++) {
                values[i] = ((float)(pairs[i] & 15) - zero[i]) * scale[i];
                values[CSDF_PANEL + i] = ((float)(pairs[i] >> 4) - zero[i]) * scale[i];
            }
    }
}

void csdf_gemm_4(const csdf_gemm_4_step *step)
{
    float values[DEPTH * SOME];
    const float *table[ROWS];
    const int32_t end = step->channel + step->channels;
    csdf_pass pass;
    int32_t depth;
    pass.taps = pass.pieces = 1;
    pass.counts = &depth;
    pass.table = table;
    pass.weights = values;
    pass.panel = DEPTH * CSDF_PANEL;
    pass.before = pass.skip = 0;
    pass.stored = CSDF_WHOLE;
    pass.spare = 0;
    for (pass.channel = step->channel; pass.channel < end; pass.channel += SOME)
        for (int32_t first = 0; first < step->inputs; first += depth) {
            depth = step->inputs - first < DEPTH ? step->inputs - first : DEPTH;
            pass.channels = end - pass.channel < SOME ? end - pass.channel : SOME;
            for (int32_t c = 0; c < pass.channels; c += CSDF_PANEL)
                widen(step, (pass.channel + c) / CSDF_PANEL, first, depth, values + c * DEPTH);
            pass.bias = first ? NULL : step->bias + pass.channel;
            pass.activation = step->activation;
            if (first + depth < step->inputs)
                pass.activation.kind = CSDF_NONE;
            for (int32_t row = 0; row < step->count; row += ROWS) {
                pass.pixels = step->count - row < ROWS ? step->count - row : ROWS;
                for (int32_t i = 0; i < pass.pixels; i++)
                    table[i] = step->rows[row + i] + first;
                pass.out = step->out + row;
                pass.init = first ? (const float *const *)pass.out : NULL;
                csdf_products(&pass);
            }
        }
}

void csdf_gemm_4_of(const void *step) { csdf_gemm_4(step); }
