/* Rows of a matrix times a constant one with elements of two bytes, row after row: each weight is read once for a row, and
 * eight vectors of them side by side, which is as fast as they come from memory.
 */
#include "products.h"

enum { AT_ONCE = 8 }; /* vectors of outputs */

typedef uint16_t half; /* a csdf_bf16 or csdf_f16 */

/* Constant where it is called: one of the two remains. */
CSDF_INLINE csdf_v wide(const half *at, int is_f16)
{
    return is_f16 ? csdf_load_f16((const void *)at) : csdf_load_bf16((const void *)at);
}

/* Outputs of a row that are computed together. w: of the first of them; panel: elements to the next panel; before: inputs in
 * front of the first; pitch: elements of a row of the last panel. */
typedef struct group {
    const float *x, *bias;
    const half *w;
    ptrdiff_t count, panel, before, pitch;
    float *out;
    int32_t lanes; /* outputs that exist */
    int32_t begins;
    csdf_activation activation;
} group;

CSDF_INLINE int32_t some_of(const group *g, int32_t vector)
{
    const int32_t left = g->lanes - vector * CSDF_LANES;
    return left < CSDF_LANES ? left : CSDF_LANES;
}

CSDF_INLINE csdf_v begun(const group *g, int32_t vector)
{
    const int32_t lane = vector * CSDF_LANES, some = some_of(g, vector);
    if (g->begins)
        return csdf_load(g->bias + lane);
    return some < CSDF_LANES ? csdf_load_some(g->out + lane, some) : csdf_load(g->out + lane);
}

CSDF_INLINE void ended(const group *g, int32_t vector, csdf_v sum)
{
    const int32_t lane = vector * CSDF_LANES, some = some_of(g, vector);
    sum = csdf_activated(sum, &g->activation);
    if (some < CSDF_LANES)
        csdf_store_some(g->out + lane, sum, some);
    else
        csdf_store(g->out + lane, sum);
}

/* Elements of a row of the panel that a vector of so many is of. */
CSDF_INLINE ptrdiff_t pitch_of(const group *g, int32_t vector, int32_t vectors)
{
    return vector * CSDF_LANES / CSDF_PANEL == (vectors * CSDF_LANES - 1) / CSDF_PANEL ? g->pitch : CSDF_PANEL;
}

CSDF_INLINE const half *weights_of(const group *g, int32_t vector, int32_t vectors)
{
    const int32_t lane = vector * CSDF_LANES;
    return g->w + lane / CSDF_PANEL * g->panel + lane % CSDF_PANEL + g->before * pitch_of(g, vector, vectors);
}

#define EACH(DO) DO(0, 8) DO(1, 8) DO(2, 8) DO(3, 8) DO(4, 8) DO(5, 8) DO(6, 8) DO(7, 8)
#define BEGIN(v, of) csdf_v a##v = begun(g, v); const half *w##v = weights_of(g, v, of);
#define ADD(v, of) a##v = csdf_fma(x, wide(w##v + k * pitch_of(g, v, of), is_f16), a##v);
#define END(v, of) ended(g, v, a##v);

CSDF_INLINE void eight(const group *g, int is_f16)
{
    EACH(BEGIN)
    for (ptrdiff_t k = 0; k < g->count; k++) {
        const csdf_v x = csdf_splat(g->x[k]);
        EACH(ADD)
    }
    EACH(END)
}

CSDF_INLINE void one(const group *g, int is_f16)
{
    BEGIN(0, 1)
    for (ptrdiff_t k = 0; k < g->count; k++) {
        const csdf_v x = csdf_splat(g->x[k]);
        ADD(0, 1)
    }
    END(0, 1)
}

CSDF_INLINE void gemm(const csdf_gemm_step *step, int is_f16)
{
    const ptrdiff_t panel = (ptrdiff_t)step->inputs * CSDF_PANEL;
    const half *weights = (const void *)step->weights;
    ptrdiff_t done = step->first;
    for (int32_t part = 0; part < step->parts; done += step->sizes[part++]) {
        group g = {.count = step->sizes[part], .panel = panel, .begins = step->begin && part == 0};
        if (step->end && part + 1 == step->parts)
            g.activation = step->activation;
        for (int32_t row = 0; row < step->count; row++) {
            const int32_t end = step->channel + step->channels;
            g.x = step->rows[(ptrdiff_t)part * step->count + row];
            for (int32_t lane = step->channel, at_once; lane < end; lane += at_once * CSDF_LANES) {
                at_once = end - lane > (AT_ONCE - 1) * CSDF_LANES ? AT_ONCE : 1;
                const int32_t last = (lane + at_once * CSDF_LANES - 1) / CSDF_PANEL * CSDF_PANEL;
                g.w = weights + lane / CSDF_PANEL * panel + lane % CSDF_PANEL;
                g.before = done;
                g.pitch = csdf_pitch_of(step->outputs - last);
                g.bias = step->bias + lane;
                g.out = step->out[row] + lane;
                g.lanes = end - lane;
                if (at_once > 1)
                    eight(&g, is_f16);
                else
                    one(&g, is_f16);
            }
        }
    }
}

void csdf_gemm_bf16(const csdf_gemm_step *step) { gemm(step, 0); }
void csdf_gemm_f16(const csdf_gemm_step *step) { gemm(step, 1); }
void csdf_gemm_bf16_of(const void *step) { csdf_gemm_bf16(step); }
void csdf_gemm_f16_of(const void *step) { csdf_gemm_f16(step); }
