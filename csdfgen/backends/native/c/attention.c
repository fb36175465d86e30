/* Attention: csdf_attention, out = softmax(cap(scale * q k') + masks) v.
 *
 * Scores exist for some queries at a time. Keys and values are packed as csdf_products has weights: all of them
 * once, or blocks of them again for every few queries where the workspace has no more room. Each product is
 * added to the sum of those before it, so that outputs do not depend on the sizes of blocks.
 */
#include "products.h"

#include <math.h>

enum { QUERIES = CSDF_QUERIES };

static int32_t panels(int32_t size) { return (size + CSDF_PANEL - 1) / CSDF_PANEL; }

/* The softmax of `size` scores in place; what is behind them becomes 0. Vectors reach behind the scores, up to a
 * multiple of 16, where there is room. */
static void softmax(float *scores, int32_t size, int32_t all, const csdf_attention_step *step,
    const float *const *masks, ptrdiff_t apart)
{
    const csdf_v scale = csdf_splat(step->scale);
    const int32_t room = panels(all) * CSDF_PANEL;
    csdf_v most = csdf_splat(-INFINITY), sum = csdf_splat(0.0f);
    float lanes[CSDF_LANES], peak = -INFINITY, total = 0.0f;
    for (int32_t i = 0; i < size; i += CSDF_LANES)
        csdf_store(scores + i, csdf_load(scores + i) * scale);
    if (step->cap != 0.0f)
        for (int32_t i = 0; i < size; i++)
            scores[i] = tanhf(scores[i] / step->cap) * step->cap;
    for (int32_t m = 0; m < step->masks; m++) {
        const float *mask = masks[m * apart];
        int32_t i = 0;
        if (step->mask_step == 1)
            for (; i + CSDF_LANES <= size; i += CSDF_LANES)
                csdf_store(scores + i, csdf_load(scores + i) + csdf_load(mask + i));
        for (; i < size; i++)
            scores[i] += mask[(ptrdiff_t)i * step->mask_step];
    }
    for (int32_t i = size; i < room; i++)
        scores[i] = -INFINITY;
    for (int32_t i = 0; i < room; i += CSDF_LANES)
        most = csdf_max(most, csdf_load(scores + i));
    csdf_store(lanes, most);
    for (int32_t i = 0; i < CSDF_LANES; i++)
        peak = lanes[i] > peak || lanes[i] != lanes[i] ? lanes[i] : peak;
    for (int32_t i = 0; i < room; i += CSDF_LANES) {
        const csdf_v power = csdf_exponential(csdf_load(scores + i) - csdf_splat(peak));
        csdf_store(scores + i, power);
    }
    for (int32_t i = size; i < room; i++)
        scores[i] = 0.0f;
    for (int32_t i = 0; i < room; i += CSDF_LANES)
        sum = sum + csdf_load(scores + i);
    csdf_store(lanes, sum);
    for (int32_t i = 0; i < CSDF_LANES; i++)
        total += lanes[i];
    const int32_t none = step->zeros && total != total;
    for (int32_t i = 0; i < room; i += CSDF_LANES)
        csdf_store(scores + i, none ? csdf_splat(0.0f) : csdf_load(scores + i) / csdf_splat(total));
}

/* The first `count` queries of a group from `first` on. */
static void attend(const csdf_attention_step *step, int32_t group, int32_t first, int32_t count, float *keys,
    float *values, float *scores)
{
    const int32_t all = step->keys, wide = panels(all) * CSDF_PANEL, block = step->block;
    const ptrdiff_t at = (ptrdiff_t)group * step->count + first;
    const float *const *k = step->k + (ptrdiff_t)group * all, *const *v = step->v + (ptrdiff_t)group * all;
    float *apart = scores + (ptrdiff_t)count * wide, *into[QUERIES], *const *out = step->out + at;
    const float *table[QUERIES];
    csdf_pass pass;
    pass.taps = pass.pieces = 1;
    pass.pixels = count;
    pass.before = pass.skip = 0;
    pass.stored = CSDF_WHOLE;
    pass.channel = 0;
    pass.bias = NULL;
    pass.activation.kind = CSDF_NONE;
    pass.table = table;
    pass.out = into;
    /* scores; queries whose channels are not side by side are copied to where the output will be */
    for (int32_t i = 0; i < count; i++) {
        table[i] = step->q[at + i];
        if (step->q_step != 1) {
            for (int32_t c = 0; c < step->channels; c++)
                apart[i * step->channels + c] = table[i][(ptrdiff_t)c * step->q_step];
            table[i] = apart + i * step->channels;
        }
    }
    for (int32_t done = 0; done < all; done += block) {
        const int32_t some = least(all - done, block);
        if (block < all)
            csdf_pack_columns(k + done, 0, step->k_step, step->channels, some, keys);
        for (int32_t i = 0; i < count; i++)
            into[i] = scores + (ptrdiff_t)i * wide + done;
        pass.counts = &step->channels;
        pass.weights = keys;
        pass.panel = (ptrdiff_t)step->channels * CSDF_PANEL;
        pass.channels = some;
        pass.spare = panels(some) * CSDF_PANEL - some;
        pass.init = NULL;
        csdf_products(&pass);
    }
    for (int32_t i = 0; i < count; i++)
        softmax(scores + (ptrdiff_t)i * wide, step->causal < 0 ? all : least(all, step->causal + first + i + 1), all,
            step, step->mask + at + i, (ptrdiff_t)step->groups * step->count);
    /* outputs; the channels of one that are not side by side are copied there at the end */
    const int32_t padded = panels(step->values) * CSDF_PANEL;
    for (int32_t i = 0; i < count; i++)
        into[i] = step->out_step == 1 ? out[i] : apart + (ptrdiff_t)i * padded;
    for (int32_t done = 0; done < all; done += block) {
        const int32_t some = least(all - done, block);
        if (block < all)
            csdf_pack_rows(v + done, 0, step->v_step, some, step->values, values);
        for (int32_t i = 0; i < count; i++)
            table[i] = scores + (ptrdiff_t)i * wide + done;
        pass.counts = &some;
        pass.weights = values;
        pass.panel = (ptrdiff_t)some * CSDF_PANEL;
        pass.channels = step->values;
        pass.spare = 0;
        pass.init = done ? (const float *const *)into : NULL;
        csdf_products(&pass);
    }
    if (step->out_step != 1)
        for (int32_t i = 0; i < count; i++)
            for (int32_t c = 0; c < step->values; c++)
                out[i][(ptrdiff_t)c * step->out_step] = into[i][c];
}

void csdf_attention(const csdf_attention_step *step)
{
    const int32_t whole = step->block >= step->keys;
    float *keys = step->workspace, *values = keys, *scores;
    const ptrdiff_t of_keys = (ptrdiff_t)panels(least(step->block, step->keys)) * step->channels * CSDF_PANEL;
    const ptrdiff_t of_values = (ptrdiff_t)panels(step->values) * least(step->block, step->keys) * CSDF_PANEL;
    if (whole)
        values += of_keys; /* both are kept for all queries, blocks take turns */
    scores = values + (whole || of_values > of_keys ? of_values : of_keys);
    for (int32_t group = 0; group < step->groups; group++) {
        if (whole) {
            const ptrdiff_t first = (ptrdiff_t)group * step->keys;
            csdf_pack_columns(step->k + first, 0, step->k_step, step->channels, step->keys, keys);
            csdf_pack_rows(step->v + first, 0, step->v_step, step->keys, step->values, values);
        }
        for (int32_t first = 0; first < step->count; first += step->queries)
            attend(step, group, first, least(step->count - first, step->queries), keys, values, scores);
    }
}

void csdf_attention_of(const void *step) { csdf_attention(step); }
