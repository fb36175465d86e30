/* Places that are found: the best elements of lines, coordinates of what is set, boxes that remain; see
 * csdfgen/backends/native/c/index.c. Defined before as for strided.cl, behind which this text comes.
 */
#ifdef RANKS
/* Whether element i of a line comes before element k. */
DEVICE int beats(GLOBAL const char *a, int64_t along, int64_t i, int64_t k)
{
    const W x = READ(GET(T, a + i * along)), y = READ(GET(T, a + k * along));
    if (EXPRESSION || (x == x && y != y))
        return 1;
    return (x == y || (x != x && y != y)) && i < k;
}

/* Lets the place at the root of a heap of n, whose root is the worst, sink to where it belongs. */
DEVICE void sinks(GLOBAL const char *a, int64_t along, GLOBAL char *out, int64_t by, int64_t n)
{
    const int64_t sinking = GET(int64_t, out);
    int64_t at = 0;
    for (int64_t child = 1; child < n; child = 2 * at + 1) {
        int64_t other = GET(int64_t, out + child * by);
        if (child + 1 < n && beats(a, along, other, GET(int64_t, out + (child + 1) * by))) {
            child++;
            other = GET(int64_t, out + child * by);
        }
        if (beats(a, along, other, sinking))
            break;
        PUT(int64_t, out + at * by) = other;
        at = child;
    }
    PUT(int64_t, out + at * by) = sinking;
}
#endif

#if FORM == 6 /* the places of the `count` best of index[0] elements of a line, the best first */
BODY(NAME, loop)
{
    const int64_t n = AT(const int32_t, step->index)[0], count = step->count, along = step->along, by = step->out_along;
    EVERY_ELEMENT {
        const spot at = now.at;
        GLOBAL char *out = at.out;
        for (int64_t k = 0; k < count; k++) { /* up from a leaf */
            int64_t leaf = k;
            for (; leaf > 0; leaf = (leaf - 1) / 2) {
                const int64_t parent = GET(int64_t, out + (leaf - 1) / 2 * by);
                if (beats(at.a, along, k, parent))
                    break;
                PUT(int64_t, out + leaf * by) = parent;
            }
            PUT(int64_t, out + leaf * by) = k;
        }
        for (int64_t k = count; k < n; k++)
            if (beats(at.a, along, k, GET(int64_t, out))) {
                PUT(int64_t, out) = k;
                sinks(at.a, along, out, by, count);
            }
        for (int64_t k = count - 1; k > 0; k--) { /* the worst one to the end */
            const int64_t worst = GET(int64_t, out);
            PUT(int64_t, out) = GET(int64_t, out + k * by);
            PUT(int64_t, out + k * by) = worst;
            sinks(at.a, along, out, by, k);
        }
    }
}
#elif FORM == 7 /* the coordinates of bytes that are not 0, in rows of the output; -1 behind them */
BODY(NAME, loop)
{
    if (across)
        return;
    const spot at = start_of(b, step);
    GLOBAL const uint8_t *a = (GLOBAL const uint8_t *)at.a;
    GLOBAL int64_t *out = (GLOBAL int64_t *)at.out;
    GLOBAL const int32_t *sizes = AT(const int32_t, step->index);
    int64_t n = 1;
    for (int32_t k = 0; k < step->count; k++)
        n *= sizes[k];
    GLOBAL int64_t *end = out + n * step->count;
    for (int64_t i = 0; i < n; i++) {
        if (!a[i])
            continue;
        int64_t rest = i;
        for (int32_t k = step->count; k-- > 0; rest /= sizes[k])
            out[k] = rest % sizes[k];
        out += step->count;
    }
    while (out < end)
        *out++ = -1;
}
#elif FORM == 8 /* boxes that remain, see csdf_suppressed */
#ifdef __OPENCL_VERSION__
#pragma OPENCL FP_CONTRACT OFF
#endif
DEVICE void ends_of(GLOBAL const float *box, int axis, int centre, float *low, float *high)
{
    const float one = box[axis], two = box[axis + 2], half_ = two / 2;
    *low = centre ? one - half_ : one < two ? one : two;
    *high = centre ? one + half_ : one < two ? two : one;
    if (centre && half_ < 0) {
        *low = one + half_;
        *high = one - half_;
    }
}

DEVICE int overlaps(GLOBAL const float *one, GLOBAL const float *two, int centre, float share)
{
    float common = 1, area_one = 1, area_two = 1;
    for (int axis = 0; axis < 2; axis++) {
        float low, high, low_two, high_two;
        ends_of(one, axis, centre, &low, &high);
        ends_of(two, axis, centre, &low_two, &high_two);
        const float from = low > low_two ? low : low_two, to = high < high_two ? high : high_two;
        if (!(to > from))
            return 0;
        common *= to - from;
        area_one *= high - low;
        area_two *= high_two - low_two;
    }
    const float all = area_one + area_two - common;
    return common > 0 && area_one > 0 && area_two > 0 && all > 0 && common / all > share;
}

BODY(NAME, loop)
{
    if (across)
        return;
    const spot at = start_of(b, step);
    GLOBAL const int32_t *index = AT(const int32_t, step->index);
    const int32_t classes = index[1], n = index[2], most = index[3];
    GLOBAL const float *scores = (GLOBAL const float *)at.a, *boxes = (GLOBAL const float *)at.b;
    GLOBAL int64_t *order = (GLOBAL int64_t *)at.c, *out = (GLOBAL int64_t *)at.out;
    const float share = AS_FLOAT((uint32_t)index[6]), least = AS_FLOAT((uint32_t)index[7]);
    GLOBAL int64_t *end = out + (int64_t)3 * index[0] * classes * most;
    for (int32_t line = 0; line < index[0] * classes; line++, scores += n) {
        GLOBAL const float *own = boxes + (int64_t)(line / classes) * n * 4;
        GLOBAL const char *a = (GLOBAL const char *)scores;
        int64_t found = 0;
        for (int64_t k = 0; k < n; k++)
            if (!index[5] || scores[k] > least) {
                int64_t leaf = found++;
                for (; leaf > 0 && beats(a, 4, order[(leaf - 1) / 2], k); leaf = (leaf - 1) / 2)
                    order[leaf] = order[(leaf - 1) / 2];
                order[leaf] = k;
            }
        for (int64_t k = found - 1; k > 0; k--) {
            const int64_t worst = order[0];
            order[0] = order[k];
            order[k] = worst;
            sinks(a, 4, (GLOBAL char *)order, 8, k);
        }
        GLOBAL const int64_t *row = out;
        for (int64_t k = 0; k < found && out < row + (int64_t)3 * most; k++) {
            GLOBAL const float *box = own + 4 * order[k];
            GLOBAL const int64_t *other = row;
            while (other < out && !overlaps(own + 4 * other[2], box, index[4], share))
                other += 3;
            if (other < out)
                continue;
            *out++ = line / classes;
            *out++ = line % classes;
            *out++ = order[k];
        }
    }
    while (out < end)
        *out++ = -1;
}
#elif FORM == 9 /* what the weights of leaves give, see csdf_walked_f32 */
BODY(NAME, loop)
{
    GLOBAL const int32_t *heads = AT(const int32_t, step->index), *roots = heads + 5, *nodes = roots + heads[2];
    GLOBAL const int32_t *targets = nodes + 4 * heads[3];
    const int64_t along = step->along, by = step->out_along;
    EVERY_ELEMENT {
        const spot at = now.at;
        GLOBAL const T *values = (GLOBAL const T *)at.b, *weights = (GLOBAL const T *)at.c;
        GLOBAL char *out = at.out;
        const T none = (T)0 / (T)0;
        for (int32_t k = 0; k < heads[0]; k++)
            PUT(T, out + k * by) = heads[1] ? none : 0;
        for (int32_t tree = 0; tree < heads[2]; tree++) {
            int32_t place = roots[tree];
            GLOBAL const int32_t *node;
            while (node = nodes + 4 * (int64_t)place, node[0]) {
                const T seen = GET(T, at.a + (node[0] >> 5) * along), value = values[place];
                const int less = seen < value, equal = seen == value, above = seen > value;
                const int kind = less | equal << 1 | above << 2 | !(less | equal | above) << 3 | (seen != seen) << 4;
                place = node[1 + ((node[0] & kind) != 0)];
            }
            for (int32_t k = node[2]; k < node[3]; k++) {
                GLOBAL char *to = out + targets[k] * by;
                const T w = weights[k], was = GET(T, to);
                const int taken = heads[1] == 1 ? !(was <= w) : !(was >= w);
                PUT(T, to) = heads[1] == 0 ? was + w : taken ? w : was;
            }
        }
        for (int32_t k = 0; heads[1] && k < heads[0]; k++) {
            const T found = GET(T, out + k * by);
            PUT(T, out + k * by) = found != found ? 0 : found;
        }
    }
}
#elif FORM == 10 /* places of bins of regions, see csdf_aligned_f32; b numbers the bins of all regions */
#ifdef __OPENCL_VERSION__
#pragma OPENCL FP_CONTRACT OFF
#endif
typedef struct OWN(bin) {
    W start, apart;
    int32_t from, to, number;
} OWN(bin);

DEVICE int32_t OWN(whole)(W x, int32_t most)
{
    return x < (W)most ? x > 0 ? (int32_t)x : 0 : x == x ? most : 0;
}

DEVICE OWN(bin) OWN(places)(GLOBAL const int32_t *index, GLOBAL const T *corner, int axis, int32_t number, int32_t count)
{
    const W half_ = index[6] ? 0.5f : 0, by = AS_FLOAT((uint32_t)index[9]);
    const W start = READ(corner[1 - axis]) * by - half_, stop = READ(corner[3 - axis]) * by - half_;
    const W size = (!index[6] && stop - start < 1 ? 1 : stop - start) / (W)index[2 + axis];
    OWN(bin) found;
    found.start = start + size * (W)number;
    found.number = count ? count : OWN(whole)(ceil(size), 1 << 30);
    found.apart = size / (W)(found.number ? found.number : 1);
    found.from = count ? 0 : OWN(whole)((-1 - found.start) / found.apart - 1, found.number);
    found.to = count ? count : OWN(whole)((W)found.from + (W)(index[axis] + 1) / found.apart + 4, found.number);
    return found;
}

DEVICE int OWN(around)(OWN(bin) bin, int32_t k, int32_t length, int32_t *low, W *share)
{
    W at = bin.start + ((W)k + 0.5f) * bin.apart;
    if (!(at >= -1 && at <= (W)length))
        return 0;
    at = at > 0 ? at < (W)(length - 1) ? at : (W)(length - 1) : 0;
    *low = (int32_t)at;
    *share = at - (W)*low;
    return 1;
}

BODY(NAME, loop)
{
    GLOBAL const int32_t *index = AT(const int32_t, step->index);
    GLOBAL const int64_t *images = AT(const int64_t, step->c);
    const int64_t along = step->along, by = step->out_along;
    const int32_t maxima = index[5], bins = index[2] * index[3];
    EVERY_ELEMENT {
        const spot at = now.at;
        const int64_t number = at.b - start.b, region = number / bins;
        const int32_t bin = (int32_t)(number % bins);
        GLOBAL const T *corner = (GLOBAL const T *)start.b + 4 * region;
        const OWN(bin) rows = OWN(places)(index, corner, 0, index[4] + bin / index[3], step->count);
        const OWN(bin) columns = OWN(places)(index, corner, 1, bin % index[3], step->count);
        const int64_t image = images[region] < 0 ? 0 : images[region] < index[7] ? images[region] : index[7] - 1;
        GLOBAL const char *map = at.a + image * index[8] * (int64_t)sizeof(T);
        W total = 0, y, x;
        int32_t row, column;
        int some = (int64_t)(rows.to - rows.from) * (columns.to - columns.from) < (int64_t)rows.number * columns.number;
        for (int32_t i = rows.from; i < rows.to; i++)
            for (int32_t k = columns.from; k < columns.to; k++) {
                const int there = OWN(around)(rows, i, index[0], &row, &y) & OWN(around)(columns, k, index[1], &column, &x);
                for (int32_t one = 0; one < (there ? 4 : maxima); one++) {
                    W value = 0;
                    if (there) {
                        const int32_t low = row + (one > 1 && row + 1 < index[0]), side = column + (one % 2 && column + 1 < index[1]);
                        value = (one > 1 ? y : 1 - y) * (one % 2 ? x : 1 - x) * READ(GET(T, map + low * along + side * by));
                    }
                    total = !maxima ? total + value : !some || value > total || value != value ? value : total;
                    some = 1;
                }
            }
        const W all = (W)rows.number * (W)columns.number;
        PUT(T, at.out) = WRITE((maxima || all < 1 ? total : total / all));
    }
}
#endif
