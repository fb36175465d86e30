/* Lines less their mean, divided by their deviation: csdf_normalize_step. An item has a line. */
BODY(normalize_of, csdf_normalize_step)
{
    const int32_t row = across / step->lines, line = across % step->lines, size = step->size;
    if (row >= step->count)
        return;
    GLOBAL const float *a = AT(const float, IN_TABLES(place, step->a)[row]) + (int64_t)line * size;
    GLOBAL float *out = IN_MEMORY(float, IN_TABLES(place, step->out)[row]) + (int64_t)line * size;
    V sums = SPLAT(0.0f);
    lanes parts;
    float mean = 0.0f, variance = 0.0f;
    if (step->centre) {
        for (int32_t i = 0; i < size; i += LANES)
            sums = sums + load_some(a + i, size - i);
        parts.v = sums;
        for (int32_t i = 0; i < LANES; i++)
            mean += parts.f[i];
        mean /= (float)size;
    }
    sums = SPLAT(0.0f);
    for (int32_t i = 0; i < size; i += LANES) {
        if (size - i >= LANES) {
            const V x = LOAD(a + i) - SPLAT(mean);
            sums = sums + x * x;
        } else {
            for (int32_t k = i; k < size; k++)
                variance += (a[k] - mean) * (a[k] - mean);
        }
    }
    parts.v = sums;
    for (int32_t i = 0; i < LANES; i++)
        variance += parts.f[i];
    const V factor = SPLAT(1.0f / sqrt(variance / (float)size + step->epsilon)), middle = SPLAT(mean);
    for (int32_t i = 0; i < size; i += LANES) {
        V y = (load_some(a + i, size - i) - middle) * factor;
        if (step->scale)
            y = y * load_some(AT(const float, step->scale) + i, size - i);
        if (step->bias)
            y = y + load_some(AT(const float, step->bias) + i, size - i);
        store_some(y, out + i, size - i);
    }
}
