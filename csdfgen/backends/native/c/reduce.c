/* What goes on from what the output has: csdf_sum_TYPE, csdf_product_TYPE, csdf_most_TYPE and
 * csdf_least_TYPE, out = operation(out, a); csdf_muladd_TYPE, out = out + a * b, which is any matrix
 * product; csdf_argmax_TYPE and csdf_argmin_TYPE, positions along a dimension.
 *
 * Of the first four there are forms for float16 into float, csdf_sum_f16_in_f32 and so on. An output
 * with a stride of zero takes up a line; floats that lie one after the other are then added in eight sums.
 */
#include "elements.h"

#include <string.h>

#define MOST(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
#define LEAST(x, y) ((x) < (y) || (x) != (x) ? (x) : (y))

enum { PARTS = 8 };

/* x is what there is, y what comes; `other` and `take` are type and reading of what comes. */
#define FOLD(name, type, wide, read, write, other, take, expression) \
    CSDF_KERNEL(name) \
    { \
        if (l->so == 0) { \
            wide x = read(CSDF_AT(type, l->out)); \
            ptrdiff_t i = 0; \
            if (l->sa == sizeof(other) && l->n >= 2 * PARTS) { \
                const other *a = (const void *)l->a; \
                wide part[PARTS]; \
                for (int k = 0; k < PARTS; k++) \
                    part[k] = take(a[k]); \
                for (i = PARTS; i + PARTS <= l->n; i += PARTS) \
                    for (int k = 0; k < PARTS; k++) { \
                        const wide y = take(a[i + k]), before = x; \
                        x = part[k]; \
                        part[k] = expression; \
                        x = before; \
                    } \
                for (int k = 0; k < PARTS; k++) { \
                    const wide y = part[k]; \
                    x = expression; \
                } \
            } \
            for (; i < l->n; i++) { \
                const wide y = take(CSDF_AT(other, l->a + i * l->sa)); \
                x = expression; \
            } \
            CSDF_TO(type, l->out) = write(x); \
            return; \
        } \
        if (l->sa == sizeof(other) && l->so == sizeof(type)) { \
            const other *a = (const void *)l->a; \
            type *out = (void *)l->out; \
            for (ptrdiff_t i = 0; i < l->n; i++) { \
                const wide x = read(out[i]), y = take(a[i]); \
                out[i] = write(expression); \
            } \
            return; \
        } \
        for (ptrdiff_t i = 0; i < l->n; i++) { \
            const wide x = read(CSDF_AT(type, l->out + i * l->so)), y = take(CSDF_AT(other, l->a + i * l->sa)); \
            CSDF_TO(type, l->out + i * l->so) = write(expression); \
        } \
    }

#define MULADD(name, type, wide, read, write, expression) \
    CSDF_KERNEL(name) \
    { \
        const int dense = l->sb == sizeof(type) && (l->sa == sizeof(type) || l->sa == 0); \
        if (l->so == 0) { \
            wide sum = read(CSDF_AT(type, l->out)); \
            ptrdiff_t i = 0; \
            if (dense && l->sa != 0 && l->n >= 2 * PARTS) { \
                const type *a = (const void *)l->a, *b = (const void *)l->b; \
                wide part[PARTS] = {0}; \
                for (; i + PARTS <= l->n; i += PARTS) \
                    for (int k = 0; k < PARTS; k++) { \
                        const wide x = read(a[i + k]), y = read(b[i + k]), before = part[k]; \
                        part[k] = expression; \
                    } \
                for (int k = 0; k < PARTS; k++) { \
                    const wide x = part[k], y = 1, before = sum; \
                    sum = expression; \
                } \
            } \
            for (; i < l->n; i++) { \
                const wide x = read(CSDF_AT(type, l->a + i * l->sa)), y = read(CSDF_AT(type, l->b + i * l->sb)), \
                    before = sum; \
                sum = expression; \
            } \
            CSDF_TO(type, l->out) = write(sum); \
            return; \
        } \
        if (dense && l->so == sizeof(type)) { \
            const type *b = (const void *)l->b; \
            type *out = (void *)l->out; \
            if (l->sa == 0) { \
                const wide x = read(CSDF_AT(type, l->a)); \
                for (ptrdiff_t i = 0; i < l->n; i++) { \
                    const wide y = read(b[i]), before = read(out[i]); \
                    out[i] = write(expression); \
                } \
                return; \
            } \
            const type *a = (const void *)l->a; \
            for (ptrdiff_t i = 0; i < l->n; i++) { \
                const wide x = read(a[i]), y = read(b[i]), before = read(out[i]); \
                out[i] = write(expression); \
            } \
            return; \
        } \
        for (ptrdiff_t i = 0; i < l->n; i++) { \
            const wide x = read(CSDF_AT(type, l->a + i * l->sa)), y = read(CSDF_AT(type, l->b + i * l->sb)), \
                before = read(CSDF_AT(type, l->out + i * l->so)); \
            CSDF_TO(type, l->out + i * l->so) = write(expression); \
        } \
    }

/* Positions along a dimension of `count` elements, `along` apart, that `dims` does not have; of
 * several the first, and the first that is not a number before all. */
#define ARG(name, short, type, wide, read, better) \
    void csdf_##name##_##short(const void *step); \
    static void name##_##short##_line(const csdf_line *l) \
    { \
        const csdf_strided *step; \
        memcpy(&step, l->c, sizeof step); \
        for (ptrdiff_t i = 0; i < l->n; i++) { \
            const char *a = l->a + i * l->sa; \
            wide y = read(CSDF_AT(type, a)); \
            int64_t found = 0; \
            for (int64_t k = 1; k < step->count && y == y; k++) { \
                const wide x = read(CSDF_AT(type, a + k * step->along)); \
                if (better || x != x) { \
                    y = x; \
                    found = k; \
                } \
            } \
            CSDF_TO(int64_t, l->out + i * l->so) = found; \
        } \
    } \
    void csdf_##name##_##short(const void *step) \
    { \
        csdf_strided one = *(const csdf_strided *)step; \
        one.c = &step; \
        csdf_each(&one, name##_##short##_line); \
    }

#define FOLDS(short, type, wide, read, write, other, take, sum, product) \
    FOLD(sum_##short, type, wide, read, write, other, take, sum(x, y)) \
    FOLD(product_##short, type, wide, read, write, other, take, product(x, y)) \
    FOLD(most_##short, type, wide, read, write, other, take, MOST(x, y)) \
    FOLD(least_##short, type, wide, read, write, other, take, LEAST(x, y))

#define EVERY(short, type, wide, read, write, sum, product) \
    FOLDS(short, type, wide, read, write, type, read, sum, product) \
    MULADD(muladd_##short, type, wide, read, write, sum(before, product(x, y))) \
    ARG(argmax, short, type, wide, read, x > y) \
    ARG(argmin, short, type, wide, read, x < y)

#define PLUS(x, y) ((x) + (y))
#define TIMES(x, y) ((x) * (y))
EVERY(f16, csdf_f16, float, csdf_from_f16, csdf_to_f16, PLUS, TIMES)
EVERY(f32, float, float, CSDF_AS_IT_IS, CSDF_AS_IT_IS, PLUS, TIMES)
EVERY(f64, double, double, CSDF_AS_IT_IS, CSDF_AS_IT_IS, PLUS, TIMES)
FOLDS(f16_in_f32, float, float, CSDF_AS_IT_IS, CSDF_AS_IT_IS, csdf_f16, csdf_from_f16, PLUS, TIMES)

/* Integers wrap. */
#define INTEGER(short, type) \
    static inline type sum_of_##short(type x, type y) { return (type)((uint64_t)x + (uint64_t)y); } \
    static inline type product_of_##short(type x, type y) { return (type)((uint64_t)x * (uint64_t)y); } \
    EVERY(short, type, type, CSDF_AS_IT_IS, CSDF_AS_IT_IS, sum_of_##short, product_of_##short)

INTEGER(i8, int8_t)
INTEGER(i16, int16_t)
INTEGER(i32, int32_t)
INTEGER(i64, int64_t)
INTEGER(u8, uint8_t)
INTEGER(u16, uint16_t)
INTEGER(u32, uint32_t)
INTEGER(u64, uint64_t)
