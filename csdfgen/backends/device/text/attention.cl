/* Attention: csdf_attention_step. An item has a query of a group and VALUES of its results at a time; sums are scaled anew
 * whenever a greater score comes, so that no scores are kept.
 */
#define VALUES 64

BODY(attention_of, csdf_attention_step)
{
    const int32_t group = down, query = across;
    if (group >= step->groups || query >= step->count)
        return;
    const int32_t line = group * step->count + query;
    GLOBAL const float *q = AT(const float, IN_TABLES(place, step->q)[line]);
    table_of_rows k = IN_TABLES(place, step->k) + (int64_t)group * step->keys;
    table_of_rows v = IN_TABLES(place, step->v) + (int64_t)group * step->keys;
    GLOBAL float *out = IN_MEMORY(float, IN_TABLES(place, step->out)[line]);
    const int32_t keys = step->causal < 0 || step->causal + query + 1 > step->keys ? step->keys : step->causal + query + 1;
    for (int32_t begin = 0; begin < step->values; begin += VALUES) {
        float sums[VALUES], total = 0.0f, most = -INFINITY;
        const int32_t some = step->values - begin < VALUES ? step->values - begin : VALUES;
        for (int32_t i = 0; i < VALUES; i++)
            sums[i] = 0.0f;
        for (int32_t key = 0; key < keys; key++) {
            GLOBAL const float *at = AT(const float, k[key]);
            float score = 0.0f;
            for (int32_t c = 0; c < step->channels; c++)
                score += q[c * step->q_step] * at[c * step->k_step];
            score *= step->scale;
            if (step->cap != 0.0f)
                score = step->cap * tanh(score / step->cap);
            for (int32_t m = 0; m < step->masks; m++)
                score += AT(const float, IN_TABLES(place, step->mask)[(int64_t)(m * step->groups + group) * step->count + query])[key * step->mask_step];
            if (score == -INFINITY)
                continue;
            if (!(score <= most)) {
                const float less = exp(most - score);
                total *= less;
                for (int32_t i = 0; i < some; i++)
                    sums[i] *= less;
                most = score;
            }
            const float weight = exp(score - most);
            GLOBAL const float *value = AT(const float, v[key]) + begin * step->v_step;
            total += weight;
            for (int32_t i = 0; i < some; i++)
                sums[i] += weight * value[i * step->v_step];
        }
        for (int32_t i = 0; i < some; i++)
            out[(begin + i) * step->out_step] = step->zeros && !(total > 0.0f) ? 0.0f : sums[i] / total;
    }
}
