/* How is an operation on elements written down? By its expression in x and y.
 *
 * `type` is stored, `wide` is computed in: `read` makes one of the other, `write` puts the value of
 * the expression into a `result`. Neighbours one after the other have loops of their own, which
 * compilers turn into vectors; CSDF_PLAIN and CSDF_PLAIN_UNARY, for what is rare, have none.
 */
#ifndef CSDF_ELEMENTS_H
#define CSDF_ELEMENTS_H

#include "simd.h"
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

/* Elements of two bytes are computed in floats, a few at a time on the stack: compilers make no vectors of conversions. */
enum { CSDF_FEW = CSDF_LANES > 1 ? 64 : 8 };

#define CSDF_FEW_OF(half, store) \
    CSDF_INLINE void csdf_widen_##half(const void *from, ptrdiff_t n, float *few) \
    { \
        csdf_##half some[CSDF_FEW]; \
        if (n < CSDF_FEW) \
            from = memcpy(memset(some, 0, sizeof some), from, (size_t)n * sizeof *some); \
        for (int k = 0; k < CSDF_FEW; k += CSDF_LANES) \
            csdf_store(few + k, csdf_load_##half((const csdf_##half *)from + k)); \
    } \
    CSDF_INLINE void csdf_narrow_##half(const float *few, ptrdiff_t n, void *to) \
    { \
        csdf_##half some[CSDF_FEW], *at = n < CSDF_FEW ? some : to; \
        for (int k = 0; k < CSDF_FEW; k += CSDF_LANES) \
            store(at + k, csdf_load(few + k)); \
        if (n < CSDF_FEW) \
            memcpy(to, some, (size_t)n * sizeof *some); \
    }
CSDF_FEW_OF(f16, csdf_store_f16)
CSDF_FEW_OF(bf16, csdf_round_bf16)

#define CSDF_BINARY_HALVES(name, half, expression) \
    CSDF_KERNEL(name##_##half) \
    { \
        const ptrdiff_t size = sizeof(csdf_##half); \
        if (l->sa == size && l->so == size && (l->sb == size || l->sb == 0)) { \
            float one[CSDF_FEW], two[CSDF_FEW]; \
            for (int k = 0; k < CSDF_FEW; k++) \
                two[k] = csdf_from_##half(CSDF_AT(csdf_##half, l->b)); \
            for (ptrdiff_t i = 0; i < l->n; i += CSDF_FEW) { \
                csdf_widen_##half(l->a + i * size, l->n - i, one); \
                if (l->sb) \
                    csdf_widen_##half(l->b + i * size, l->n - i, two); \
                for (int k = 0; k < CSDF_FEW; k++) { \
                    const float x = one[k], y = two[k]; \
                    (void)y; \
                    one[k] = (expression); \
                } \
                csdf_narrow_##half(one, l->n - i, l->out + i * size); \
            } \
            return; \
        } \
        for (ptrdiff_t i = 0; i < l->n; i++) { \
            const float x = csdf_from_##half(CSDF_AT(csdf_##half, l->a + i * l->sa)), \
                        y = csdf_from_##half(CSDF_AT(csdf_##half, l->b + i * l->sb)); \
            (void)y; \
            CSDF_TO(csdf_##half, l->out + i * l->so) = csdf_to_##half(expression); \
        } \
    }
#define CSDF_UNARY_HALVES CSDF_BINARY_HALVES /* no function has y */

#define CSDF_F16(kind, name, expression) kind##_HALVES(name, f16, expression)
#define CSDF_BF16(kind, name, expression) kind##_HALVES(name, bf16, expression)
#define CSDF_F32(kind, name, expression) \
    kind(name##_f32, float, float, CSDF_AS_IT_IS, float, CSDF_AS_IT_IS, expression)
#define CSDF_F64(kind, name, expression) \
    kind(name##_f64, double, double, CSDF_AS_IT_IS, double, CSDF_AS_IT_IS, expression)

#endif
