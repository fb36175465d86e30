/* Places that are computed: csdf_pick_BYTES, csdf_put_at_BYTES, csdf_OPERATION_at_TYPE read or write elements
 * at them, csdf_largest_TYPE and csdf_smallest_TYPE find them.
 * csdf_nonzero and csdf_suppressed find coordinates, as many as there are; rows behind them are -1.
 * csdf_aligned_TYPE reads maps at places between elements.
 *
 * Places are `count` numbers of 64 bits, one after the other, each within the array that it is a place of.
 */
#include "elements.h"

#include <math.h>
#include <string.h>

/* out[i] = a[place], rows `along` apart, of the elements of `dims`; the places are b. */
#define PICK(bytes, type) \
    static void pick_##bytes##_line(const csdf_line *l) \
    { \
        if (l->sa == bytes && l->so == bytes) { \
            memcpy(l->out, l->a, (size_t)l->n * bytes); \
            return; \
        } \
        for (ptrdiff_t i = 0; i < l->n; i++) \
            CSDF_TO(type, l->out + i * l->so) = CSDF_AT(type, l->a + i * l->sa); \
    } \
    void csdf_pick_##bytes(const void *step); \
    void csdf_pick_##bytes(const void *step) \
    { \
        csdf_strided one = *(const csdf_strided *)step; \
        const int64_t *places = one.b; \
        const char *a = one.a; \
        char *out = one.out; \
        for (int32_t i = 0; i < one.count; i++) { \
            one.a = a + places[i] * one.along; \
            one.out = out + i * one.out_along; \
            csdf_each(&one, pick_##bytes##_line); \
        } \
    } \
    /* out[place] = a[i], elements of a `out_along` apart */ \
    void csdf_put_at_##bytes(const void *step); \
    void csdf_put_at_##bytes(const void *step) \
    { \
        const csdf_strided *one = step; \
        const int64_t *places = one->b; \
        const char *a = one->a; \
        char *out = one->out; \
        for (int32_t i = 0; i < one->count; i++) \
            CSDF_TO(type, out + places[i] * one->along) = CSDF_AT(type, a + i * one->out_along); \
    }

PICK(1, uint8_t)
PICK(2, uint16_t)
PICK(4, uint32_t)
PICK(8, uint64_t)

/* out[place] = operation(out[place], a[i]) */
#define JOIN(name, type, wide, read, write, expression) \
    void csdf_##name(const void *step); \
    void csdf_##name(const void *step) \
    { \
        const csdf_strided *one = step; \
        const int64_t *places = one->b; \
        for (int32_t i = 0; i < one->count; i++) { \
            char *at = (char *)one->out + places[i] * one->along; \
            const wide x = read(CSDF_AT(type, at)); \
            const wide y = read(CSDF_AT(type, (const char *)one->a + i * one->out_along)); \
            CSDF_TO(type, at) = write(expression); \
        } \
    }

#define JOINS(short, type, wide, read, write, sum, product) \
    JOIN(add_at_##short, type, wide, read, write, sum) \
    JOIN(multiply_at_##short, type, wide, read, write, product) \
    JOIN(maximum_at_##short, type, wide, read, write, (x > y || x != x ? x : y)) \
    JOIN(minimum_at_##short, type, wide, read, write, (x < y || x != x ? x : y))

JOINS(f16, csdf_f16, float, csdf_from_f16, csdf_to_f16, x + y, x *y)
JOINS(f32, float, float, CSDF_AS_IT_IS, CSDF_AS_IT_IS, x + y, x *y)
JOINS(f64, double, double, CSDF_AS_IT_IS, CSDF_AS_IT_IS, x + y, x *y)

/* Integers wrap. */
#define INTEGER(short, type) \
    JOINS(short, type, type, CSDF_AS_IT_IS, (type), (uint64_t)x + (uint64_t)y, (uint64_t)x * (uint64_t)y)

INTEGER(i8, int8_t)
INTEGER(i16, int16_t)
INTEGER(i32, int32_t)
INTEGER(i64, int64_t)
INTEGER(u8, uint8_t)
INTEGER(u16, uint16_t)
INTEGER(u32, uint32_t)
INTEGER(u64, uint64_t)

/* The places of the `count` best of index[0] elements of a line, `along` apart, the best first: a heap whose root
 * is the worst of them. Of equal elements the first is better; what is not a number is worse than any. */
#define RANK(name, type, wide, read, better) \
    static inline int name##_beats(const char *a, ptrdiff_t along, int64_t i, int64_t k) \
    { \
        const wide x = read(CSDF_AT(type, a + i * along)), y = read(CSDF_AT(type, a + k * along)); \
        if (better || (x == x && y != y)) \
            return 1; \
        return (x == y || (x != x && y != y)) && i < k; \
    } \
    /* lets the place at the root of a heap of n sink to where it belongs */ \
    static void name##_sinks(const char *a, ptrdiff_t along, char *out, ptrdiff_t by, int64_t n) \
    { \
        const int64_t sinking = CSDF_AT(int64_t, out); \
        int64_t at = 0; \
        for (int64_t child = 1; child < n; child = 2 * at + 1) { \
            int64_t other = CSDF_AT(int64_t, out + child * by); \
            if (child + 1 < n && name##_beats(a, along, other, CSDF_AT(int64_t, out + (child + 1) * by))) { \
                child++; \
                other = CSDF_AT(int64_t, out + child * by); \
            } \
            if (name##_beats(a, along, other, sinking)) \
                break; \
            CSDF_TO(int64_t, out + at * by) = other; \
            at = child; \
        } \
        CSDF_TO(int64_t, out + at * by) = sinking; \
    } \
    static void name##_line(const csdf_line *l) \
    { \
        const csdf_strided *step; \
        memcpy(&step, l->c, sizeof step); \
        const int64_t n = step->index[0], count = step->count; \
        const ptrdiff_t along = step->along, by = step->out_along; \
        for (ptrdiff_t i = 0; i < l->n; i++) { \
            const char *a = l->a + i * l->sa; \
            char *out = l->out + i * l->so; \
            for (int64_t k = 0; k < count; k++) { /* up from a leaf */ \
                int64_t at = k; \
                for (; at > 0; at = (at - 1) / 2) { \
                    const int64_t parent = CSDF_AT(int64_t, out + (at - 1) / 2 * by); \
                    if (name##_beats(a, along, k, parent)) \
                        break; \
                    CSDF_TO(int64_t, out + at * by) = parent; \
                } \
                CSDF_TO(int64_t, out + at * by) = k; \
            } \
            for (int64_t k = count; k < n; k++) \
                if (name##_beats(a, along, k, CSDF_AT(int64_t, out))) { \
                    CSDF_TO(int64_t, out) = k; \
                    name##_sinks(a, along, out, by, count); \
                } \
            for (int64_t k = count - 1; k > 0; k--) { /* the worst one to the end */ \
                const int64_t worst = CSDF_AT(int64_t, out); \
                CSDF_TO(int64_t, out) = CSDF_AT(int64_t, out + k * by); \
                CSDF_TO(int64_t, out + k * by) = worst; \
                name##_sinks(a, along, out, by, k); \
            } \
        } \
    } \
    void csdf_##name(const void *step); \
    void csdf_##name(const void *step) \
    { \
        csdf_strided one = *(const csdf_strided *)step; \
        one.c = &step; \
        csdf_each(&one, name##_line); \
    }

#define RANKS(short, type, wide, read) \
    RANK(largest_##short, type, wide, read, x > y) \
    RANK(smallest_##short, type, wide, read, x < y)

RANKS(f16, csdf_f16, float, csdf_from_f16)
RANKS(f32, float, float, CSDF_AS_IT_IS)
RANKS(f64, double, double, CSDF_AS_IT_IS)
RANKS(i8, int8_t, int8_t, CSDF_AS_IT_IS)
RANKS(i16, int16_t, int16_t, CSDF_AS_IT_IS)
RANKS(i32, int32_t, int32_t, CSDF_AS_IT_IS)
RANKS(i64, int64_t, int64_t, CSDF_AS_IT_IS)
RANKS(u8, uint8_t, uint8_t, CSDF_AS_IT_IS)
RANKS(u16, uint16_t, uint16_t, CSDF_AS_IT_IS)
RANKS(u32, uint32_t, uint32_t, CSDF_AS_IT_IS)
RANKS(u64, uint64_t, uint64_t, CSDF_AS_IT_IS)

/* The coordinates of the bytes of a that are not 0, in a row of the output each; index: sizes of the `count` dimensions. */
void csdf_nonzero(const void *step);
void csdf_nonzero(const void *step)
{
    const csdf_strided *one = step;
    const uint8_t *a = one->a;
    int64_t *out = one->out;
    int64_t n = 1;
    for (int32_t k = 0; k < one->count; k++)
        n *= one->index[k];
    int64_t *const end = out + n * one->count;
    for (int64_t i = 0; i < n; i++) {
        if (!a[i])
            continue;
        int64_t rest = i;
        for (int32_t k = one->count; k-- > 0; rest /= one->index[k])
            out[k] = rest % one->index[k];
        out += one->count;
    }
    while (out < end)
        *out++ = -1;
}

/* Lower and upper end of a box along an axis, 0 for the first of its numbers. */
static void ends_of(const float *box, int axis, int centre, float *low, float *high)
{
    const float one = box[axis], two = box[axis + 2], half = two / 2;
    *low = centre ? one - half : one < two ? one : two;
    *high = centre ? one + half : one < two ? two : one;
    if (centre && half < 0) {
        *low = one + half;
        *high = one - half;
    }
}

/* Whether boxes overlap in more than a share of their union. Products are stored: contracted with sums, they would be
 * rounded in another way than elsewhere. */
static int overlaps(const float *one, const float *two, int centre, float share)
{
    volatile float common = 1, areas[2] = {1, 1};
    for (int axis = 0; axis < 2; axis++) {
        float low[2], high[2];
        ends_of(one, axis, centre, low, high);
        ends_of(two, axis, centre, low + 1, high + 1);
        const float from = low[0] > low[1] ? low[0] : low[1], to = high[0] < high[1] ? high[0] : high[1];
        if (!(to > from))
            return 0;
        common *= to - from;
        areas[0] *= high[0] - low[0];
        areas[1] *= high[1] - low[1];
    }
    const float all = areas[0] + areas[1] - common;
    return common > 0 && areas[0] > 0 && areas[1] > 0 && all > 0 && common / all > share;
}

/* Rows (image, class, box) of the boxes that remain, the best of each class first. a: scores (images, classes, n); b: boxes
 * (images, n, 4); c: room for n places. index: images, classes, n, most boxes of a class, whether boxes are given by their
 * centres, whether scores have a limit; the bits of the share of two boxes that is too much, and of that limit. */
void csdf_suppressed(const void *step);
void csdf_suppressed(const void *step)
{
    const csdf_strided *one = step;
    const int32_t *index = one->index, classes = index[1], n = index[2], most = index[3];
    const float *scores = one->a, *boxes = one->b;
    int64_t *out = one->out, *order;
    float share, least;
    memcpy(&order, &one->c, sizeof order);
    memcpy(&share, index + 6, sizeof share);
    memcpy(&least, index + 7, sizeof least);
    int64_t *const end = out + (int64_t)3 * index[0] * classes * most;
    char *heap = (char *)order;
    const ptrdiff_t size = sizeof *order;
    for (int32_t line = 0; line < index[0] * classes; line++, scores += n) {
        const float *own = boxes + (ptrdiff_t)(line / classes) * n * 4;
        const char *a = (const char *)scores;
        int64_t found = 0;
        for (int64_t k = 0; k < n; k++)
            if (!index[5] || scores[k] > least) {
                int64_t at = found++;
                for (; at > 0 && largest_f32_beats(a, sizeof(float), order[(at - 1) / 2], k); at = (at - 1) / 2)
                    order[at] = order[(at - 1) / 2];
                order[at] = k;
            }
        for (int64_t k = found - 1; k > 0; k--) {
            const int64_t worst = order[0];
            order[0] = order[k];
            order[k] = worst;
            largest_f32_sinks(a, sizeof(float), heap, size, k);
        }
        const int64_t *const first = out;
        for (int64_t k = 0; k < found && out < first + (ptrdiff_t)3 * most; k++) {
            const float *box = own + 4 * order[k];
            const int64_t *other = first;
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

/* What the weights of the leaves that samples come to give, tree by tree. a: rows of features, `along` apart; b: what they are
 * compared with, by node; c: weights; out: rows of targets, `out_along` apart. index: targets, how weights are joined (0: sums,
 * 1: the least, 2: the largest), trees, nodes, the ways of all nodes (0: they differ); the root of each tree; nodes, four numbers
 * each: 32 * feature + the ways that lead to the second follower (1: less, 2: equal, 4: greater, 8: none of these, 16: not a
 * number), followers, 0; a leaf has no ways, follows itself, and has the range of its weights; the target of each weight. */
enum { WALKED = 4 }; /* trees at the same time, as each walk waits for memory */

#define WALK(short, type) \
    static inline void join_##short(type *at, type w, int32_t joined) \
    { \
        if (joined == 0) \
            *at += w; \
        else if (joined == 1 ? !(*at <= w) : !(*at >= w)) \
            *at = w; \
    } \
    static inline int32_t next_##short(const int32_t *node, type seen, type value, int32_t ways) \
    { \
        if (ways == 3) /* by far the most trees */ \
            return node[1 + ((node[0] & 1) & (seen <= value))]; \
        const int less = seen < value, equal = seen == value, above = seen > value; \
        const int kind = less | equal << 1 | above << 2 | !(less | equal | above) << 3 | (seen != seen) << 4; \
        return node[1 + ((node[0] & kind) != 0)]; \
    } \
    static inline void walk_##short(const csdf_strided *one, const char *x, char *out, int32_t ways) \
    { \
        const int32_t *heads = one->index, *roots = heads + 5, *nodes = roots + heads[2], *targets = nodes + 4 * heads[3]; \
        const type *values = one->b, *weights = one->c; \
        for (int32_t tree = 0; tree < heads[2]; tree += WALKED) { \
            int32_t at[WALKED], moved = 1; \
            for (int32_t k = 0; k < WALKED; k++) \
                at[k] = roots[tree + k < heads[2] ? tree + k : tree]; \
            while (moved) { \
                moved = 0; \
                for (int32_t k = 0; k < WALKED; k++) { \
                    const int32_t *node = nodes + 4 * (ptrdiff_t)at[k]; \
                    const type seen = CSDF_AT(type, x + (node[0] >> 5) * one->along); \
                    const int32_t now = next_##short(node, seen, values[at[k]], ways); \
                    moved |= now ^ at[k]; \
                    at[k] = now; \
                } \
            } \
            for (int32_t k = 0; k < WALKED && tree + k < heads[2]; k++) { \
                const int32_t *leaf = nodes + 4 * (ptrdiff_t)at[k]; \
                for (int32_t w = leaf[2]; w < leaf[3]; w++) \
                    join_##short((type *)(void *)(out + targets[w] * one->out_along), weights[w], heads[1]); \
            } \
        } \
    } \
    void csdf_walked_##short(const void *step); \
    void csdf_walked_##short(const void *step) \
    { \
        const csdf_strided *one = step; \
        const ptrdiff_t in = one->rank ? one->dims->a : 0, row = one->rank ? one->dims->out : 0; \
        const int32_t *heads = one->index; \
        for (int32_t s = 0; s < one->count; s++) { \
            const char *x = (const char *)one->a + s * in; \
            char *out = (char *)one->out + s * row; \
            for (int32_t k = 0; k < heads[0]; k++) \
                CSDF_TO(type, out + k * one->out_along) = heads[1] ? (type)NAN : (type)0; \
            if (heads[4] == 3) \
                walk_##short(one, x, out, 3); \
            else \
                walk_##short(one, x, out, 0); \
            for (int32_t k = 0; heads[1] && k < heads[0]; k++) { \
                type *found = (type *)(void *)(out + k * one->out_along); \
                if (*found != *found) \
                    *found = 0; \
            } \
        } \
    }

WALK(f32, float)
WALK(f64, double)

/* Means, or maxima, of places spread evenly over bins of regions of maps, as RoiAlign has them. a: maps, `along` bytes from row
 * to row and `out_along` from column to column; b: corners x, y, x, y of regions; c: the number of the map of each. dims:
 * regions, rows, columns, channels. count: places of a bin along an axis, 0: the size of the bin, rounded up. index: rows and
 * columns of maps, bins of a region along both, the first row of bins, whether maxima are taken, whether elements are at halves,
 * maps, elements from one to the next, and the bits of what corners are multiplied by. Corners are stored: contracted with
 * sums, they would be rounded in another way than elsewhere. */
#define ALIGN(short, type, wide, read, write) \
    typedef struct bin_##short { \
        wide start, apart; \
        int32_t from, to, number; /* places: those that may be on the map, all */ \
    } bin_##short; \
    static inline int32_t whole_##short(wide x, int32_t most) { return x < (wide)most ? x > 0 ? (int32_t)x : 0 : x == x ? most : 0; } \
    /* The places of a bin along an axis, 0: rows. */ \
    static bin_##short places_##short(const csdf_strided *one, const type *corner, int axis, int32_t number) \
    { \
        const int32_t *index = one->index, length = index[axis]; \
        const wide half = index[6] ? 0.5f : 0; \
        volatile wide start = read(corner[1 - axis]) * csdf_float_of((uint32_t)index[9]); \
        volatile wide stop = read(corner[3 - axis]) * csdf_float_of((uint32_t)index[9]); \
        start -= half; \
        stop -= half; \
        wide size = stop - start; \
        if (!index[6] && size < 1) \
            size = 1; \
        size /= (wide)index[2 + axis]; \
        bin_##short found = {start + size * (wide)number, 0, 0, one->count, one->count}; \
        if (!one->count) { \
            found.number = whole_##short((wide)ceil(size), 1 << 30); \
            if (found.number) { /* those far beyond the map are left out */ \
                found.apart = size / (wide)found.number; \
                found.from = whole_##short((-1 - found.start) / found.apart - 1, found.number); \
                found.to = whole_##short((wide)found.from + (wide)(length + 1) / found.apart + 4, found.number); \
            } \
        } else \
            found.apart = size / (wide)one->count; \
        return found; \
    } \
    /* The two elements around a place, and the share of the second; 0 beyond the map. */ \
    static inline int around_##short(const bin_##short *bin, int32_t k, int32_t length, int32_t *low, wide *share) \
    { \
        wide at = bin->start + ((wide)k + 0.5f) * bin->apart; \
        if (!(at >= -1 && at <= (wide)length)) \
            return 0; \
        at = at > 0 ? at < (wide)(length - 1) ? at : (wide)(length - 1) : 0; \
        *low = (int32_t)at; \
        *share = at - (wide)*low; \
        return 1; \
    } \
    static wide mixed_##short(const csdf_strided *one, const char *map, const bin_##short *rows, const bin_##short *columns) \
    { \
        const int32_t *index = one->index, maxima = index[5]; \
        const int part = (int64_t)(rows->to - rows->from) * (columns->to - columns->from) < (int64_t)rows->number * columns->number; \
        wide total = 0, y = 0, x = 0; \
        int32_t row = 0, column = 0, some = part; \
        for (int32_t i = rows->from; i < rows->to; i++) \
            for (int32_t k = columns->from; k < columns->to; k++) { \
                const int there = around_##short(rows, i, index[0], &row, &y) & around_##short(columns, k, index[1], &column, &x); \
                for (int32_t corner = 0; corner < (there ? 4 : maxima); corner++) { \
                    wide value = 0; \
                    if (there) { \
                        const int32_t low = row + (corner > 1 && row + 1 < index[0]), side = column + (corner % 2 && column + 1 < index[1]); \
                        value = (corner > 1 ? y : 1 - y) * (corner % 2 ? x : 1 - x); \
                        value *= read(CSDF_AT(type, map + low * one->along + side * one->out_along)); \
                    } \
                    total = !maxima ? total + value : !some || value > total || value != value ? value : total; \
                    some = 1; \
                } \
            } \
        const wide number = (wide)rows->number * (wide)columns->number; \
        return maxima || number < 1 ? total : total / number; \
    } \
    void csdf_aligned_##short(const void *step); \
    void csdf_aligned_##short(const void *step) \
    { \
        const csdf_strided *one = step; \
        const csdf_dim *dims = one->dims; \
        const int32_t *index = one->index; \
        const int64_t *images = one->c; \
        for (ptrdiff_t n = 0; n < dims[0].size; n++) { \
            const type *corner = (const type *)one->b + 4 * n; \
            const int64_t image = images[n] < 0 ? 0 : images[n] < index[7] ? images[n] : index[7] - 1; \
            const char *map = (const char *)one->a + image * index[8] * (ptrdiff_t)sizeof(type); \
            for (ptrdiff_t row = 0; row < dims[1].size; row++) { \
                const bin_##short rows = places_##short(one, corner, 0, index[4] + (int32_t)row); \
                for (ptrdiff_t column = 0; column < dims[2].size; column++) { \
                    const bin_##short columns = places_##short(one, corner, 1, (int32_t)column); \
                    char *out = (char *)one->out + n * dims[0].out + row * dims[1].out + column * dims[2].out; \
                    for (ptrdiff_t c = 0; c < dims[3].size; c++) \
                        CSDF_TO(type, out + c * dims[3].out) = write(mixed_##short(one, map + c * dims[3].a, &rows, &columns)); \
                } \
            } \
        } \
    }

ALIGN(f16, csdf_f16, float, csdf_from_f16, csdf_to_f16)
ALIGN(f32, float, float, CSDF_AS_IT_IS, CSDF_AS_IT_IS)
ALIGN(f64, double, double, CSDF_AS_IT_IS, CSDF_AS_IT_IS)
