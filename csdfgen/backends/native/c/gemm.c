/* Rows of a matrix times a constant one: one tap, and the parts of a row as pieces. */
#include "products.h"

enum { ROWS = 32 }; /* of a pass */

void csdf_gemm(const csdf_gemm_step *step)
{
    const ptrdiff_t panel = (ptrdiff_t)step->inputs * CSDF_PANEL;
    int32_t done = step->first;
    for (int32_t part = 0; part < step->parts; done += step->sizes[part++]) {
        const int32_t begins = step->begin && part == 0;
        csdf_pass pass;
        pass.taps = pass.pieces = 1;
        pass.counts = step->sizes + part;
        pass.weights = step->weights + step->channel / CSDF_PANEL * panel;
        pass.panel = panel;
        pass.before = done;
        pass.stored = step->outputs - step->channel;
        pass.skip = 0;
        pass.channel = step->channel;
        pass.channels = step->channels;
        pass.spare = 0;
        pass.bias = begins ? step->bias + step->channel : NULL;
        pass.activation = step->activation;
        if (!step->end || part + 1 < step->parts)
            pass.activation.kind = CSDF_NONE;
        for (int32_t row = 0; row < step->count; row += ROWS) {
            pass.pixels = step->count - row < ROWS ? step->count - row : ROWS;
            pass.table = step->rows + (ptrdiff_t)part * step->count + row;
            pass.out = step->out + row;
            pass.init = begins ? NULL : (const float *const *)pass.out;
            csdf_products(&pass);
        }
    }
}

void csdf_gemm_of(const void *step) { csdf_gemm(step); }
