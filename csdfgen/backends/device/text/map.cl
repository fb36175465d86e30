/* Element by element: csdf_map_step. An item has LANES channels of a pixel. */
DEVICE V operand(const buffers *b, csdf_source from, int32_t row, int32_t pixel, int32_t channel, int32_t some)
{
    if (!from.rows)
        return SPLAT(0.0f);
    GLOBAL const float *at = AT(const float, IN_TABLES(place, from.rows)[row]) + (int64_t)pixel * from.stride;
    return from.channels ? load_some(at + channel, some) : SPLAT(*at);
}

DEVICE void computed(const buffers *b, GLOBAL const csdf_map_step *step, int32_t item, int32_t row)
{
    const int32_t blocks = (step->channels + LANES - 1) / LANES;
    const int32_t pixel = item / blocks, channel = item % blocks * LANES, some = step->channels - channel;
    if (pixel >= step->columns || row >= step->count)
        return;
    V x = operand(b, step->operands[0], row, pixel, channel, some);
    const V y = operand(b, step->operands[1], row, pixel, channel, some);
    switch (step->operation) {
    case CSDF_ADD: x = x + y; break;
    case CSDF_SUBTRACT: x = x - y; break;
    case CSDF_MULTIPLY: x = x * y; break;
    case CSDF_DIVIDE: x = x / y; break;
    case CSDF_SCALE: x = x * y + operand(b, step->operands[2], row, pixel, channel, some); break;
    case CSDF_LEAK: x = LARGER(SPLAT(0.0f), x) + y * SMALLER(SPLAT(0.0f), x); break;
    }
    GLOBAL float *out = IN_MEMORY(float, IN_TABLES(place, step->out)[row]) + (int64_t)pixel * step->stride + channel;
    store_some(activated(x, step->activation), out, some);
}

BODY(map_of, csdf_map_step)
{
    computed(b, step, across, down);
}

/* Several steps that write the same elements, each by the item that has written them before: their number, and behind 16
 * bytes they themselves.
 */
BODY(maps_of, int32_t)
{
    GLOBAL const csdf_map_step *steps = (GLOBAL const csdf_map_step *)(step + 4);
    for (int32_t k = 0; k < *step; k++)
        computed(b, steps + k, across, down);
}
