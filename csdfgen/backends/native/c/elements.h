/* How is an operation on elements written down? By its expression in x and y.
 *
 * `type` is stored, `wide` is computed in: `read` makes one of the other, `write` puts the value of
 * the expression into a `result`. Neighbours one after the other have loops of their own, which
 * compilers turn into vectors; CSDF_PLAIN and CSDF_PLAIN_UNARY, for what is rare, have none.
 */
#ifndef CSDF_ELEMENTS_H
#define CSDF_ELEMENTS_H

#include "strided.h"

#define CSDF_AT(type, at) (*(const type *)(const void *)(at))
#define CSDF_TO(type, at) (*(type *)(void *)(at))
#define CSDF_AS_IT_IS(x) (x)

#define CSDF_UNARY(name, type, wide, read, result, write, expression) \
    CSDF_KERNEL(name) \
    { \
        if (l->sa == sizeof(type) && l->so == sizeof(result)) { \
            const type *a = (const void *)l->a; \
            result *out = (void *)l->out; \
            for (ptrdiff_t i = 0; i < l->n; i++) { \
                const wide x = read(a[i]); \
                out[i] = write(expression); \
            } \
            return; \
        } \
        for (ptrdiff_t i = 0; i < l->n; i++) { \
            const wide x = read(CSDF_AT(type, l->a + i * l->sa)); \
            CSDF_TO(result, l->out + i * l->so) = write(expression); \
        } \
    }

#define CSDF_BINARY(name, type, wide, read, result, write, expression) \
    CSDF_KERNEL(name) \
    { \
        const int dense = l->sa == sizeof(type) && l->so == sizeof(result); \
        if (dense && l->sb == sizeof(type)) { \
            const type *a = (const void *)l->a, *b = (const void *)l->b; \
            result *out = (void *)l->out; \
            for (ptrdiff_t i = 0; i < l->n; i++) { \
                const wide x = read(a[i]), y = read(b[i]); \
                out[i] = write(expression); \
            } \
            return; \
        } \
        if (dense && l->sb == 0) { \
            const type *a = (const void *)l->a; \
            result *out = (void *)l->out; \
            const wide y = read(CSDF_AT(type, l->b)); \
            for (ptrdiff_t i = 0; i < l->n; i++) { \
                const wide x = read(a[i]); \
                out[i] = write(expression); \
            } \
            return; \
        } \
        for (ptrdiff_t i = 0; i < l->n; i++) { \
            const wide x = read(CSDF_AT(type, l->a + i * l->sa)), y = read(CSDF_AT(type, l->b + i * l->sb)); \
            CSDF_TO(result, l->out + i * l->so) = write(expression); \
        } \
    }

#define CSDF_PLAIN(name, type, wide, read, result, write, expression) \
    CSDF_KERNEL(name) \
    { \
        for (ptrdiff_t i = 0; i < l->n; i++) { \
            const wide x = read(CSDF_AT(type, l->a + i * l->sa)), y = read(CSDF_AT(type, l->b + i * l->sb)); \
            CSDF_TO(result, l->out + i * l->so) = write(expression); \
        } \
    }

#define CSDF_PLAIN_UNARY(name, type, wide, read, result, write, expression) \
    CSDF_KERNEL(name) \
    { \
        for (ptrdiff_t i = 0; i < l->n; i++) { \
            const wide x = read(CSDF_AT(type, l->a + i * l->sa)); \
            CSDF_TO(result, l->out + i * l->so) = write(expression); \
        } \
    }

#define CSDF_F16(kind, name, expression) \
    kind(name##_f16, csdf_f16, float, csdf_from_f16, csdf_f16, csdf_to_f16, expression)
#define CSDF_F32(kind, name, expression) \
    kind(name##_f32, float, float, CSDF_AS_IT_IS, float, CSDF_AS_IT_IS, expression)
#define CSDF_F64(kind, name, expression) \
    kind(name##_f64, double, double, CSDF_AS_IT_IS, double, CSDF_AS_IT_IS, expression)

#endif
