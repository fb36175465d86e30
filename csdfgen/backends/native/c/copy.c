/* Copies, conversions, chosen elements: csdf_copy_BYTES, csdf_put_BYTES, csdf_take_BYTES,
 * csdf_look_BYTES, csdf_from_TYPE_to_TYPE.
 */
#include "simd.h"

#include <string.h>

enum { WOVEN_RUNS = 4 };

/* The last two dimensions of a copy swap places, as channels that are shuffled do: of `many` runs of
 * `count` elements, each contiguous, element by element one of each run. */
#define WOVEN(type) \
    static void woven_##type(const type *a, type *out, ptrdiff_t many, ptrdiff_t count, ptrdiff_t apart) \
    { \
        ptrdiff_t c = 0; \
        if (many == 2) \
            for (; c < count; c++, out += 2) { \
                out[0] = a[c]; \
                out[1] = a[apart + c]; \
            } \
        else if (many == 3) \
            for (; c < count; c++, out += 3) { \
                out[0] = a[c]; \
                out[1] = a[apart + c]; \
                out[2] = a[2 * apart + c]; \
            } \
        else if (many == 4) \
            for (; c < count; c++, out += 4) { \
                out[0] = a[c]; \
                out[1] = a[apart + c]; \
                out[2] = a[2 * apart + c]; \
                out[3] = a[3 * apart + c]; \
            } \
        else \
            for (; c < count; c++) \
                for (ptrdiff_t k = 0; k < many; k++) \
                    *out++ = a[k * apart + c]; \
    }

/* csdf_take of single elements, or of runs of a few, of one row after the other: whether it is such a one. */
enum { FEW = 16 };
#define TAKE_FEW(bytes, type) \
    static int take_few_##bytes(const csdf_strided *one) \
    { \
        const csdf_dim none = {1, 0, 0, 0, 0}, *last = one->rank ? one->dims + one->rank - 1 : &none; \
        const int run = one->rank && last->a == bytes && last->out == bytes; \
        const csdf_dim *rows = one->rank > run ? one->dims : &none; \
        const ptrdiff_t n = run ? last->size : 1; \
        if (one->rank > 1 + run || n > FEW) \
            return 0; \
        for (ptrdiff_t r = 0; r < rows->size; r++) \
            for (int32_t i = 0; i < one->count; i++) { \
                const type *from = (const void *)((const char *)one->a + r * rows->a + one->index[i] * one->along); \
                type *to = (void *)((char *)one->out + r * rows->out + i * one->out_along); \
                for (ptrdiff_t k = 0; k < n; k++) \
                    to[k] = from[k]; \
            } \
        return 1; \
    }

#if CSDF_LANES > 1 && !defined(CSDF_HELIUM)
/* Exchanges rows and columns: `rows` of what is read, `apart` floats from one to the next, become columns, `pace` apart. Blocks
 * of four by four go through registers, four of them side by side that share lines of the cache. */
enum { BLOCK = 4, LINE = 16 };
static void exchange(const float *a, float *out, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t apart, ptrdiff_t pace)
{
    const ptrdiff_t even = rows - rows % BLOCK;
    for (ptrdiff_t first = 0, size; first < columns; first += size) {
        size = columns - first < LINE ? columns - first : LINE;
        for (ptrdiff_t r = 0; r < rows; r += r < even ? BLOCK : 1) {
            ptrdiff_t c = first;
            if (r < even)
                for (; c + BLOCK <= first + size; c += BLOCK)
                    csdf_transpose(a + r * apart + c, apart, out + c * pace + r, pace);
            for (; c < first + size; c++)
                for (ptrdiff_t k = r; k < (r < even ? r + BLOCK : r + 1); k++)
                    out[c * pace + k] = a[k * apart + c];
        }
    }
}

/* Whether memory that is read is not written. */
static int is_apart(const csdf_strided *one)
{
    const char *from[2] = {one->a, one->a}, *to[2] = {one->out, one->out};
    for (int32_t k = 0; k < one->rank; k++) {
        const csdf_dim *dim = one->dims + k;
        from[dim->a > 0] += (dim->size - 1) * dim->a;
        to[dim->out > 0] += (dim->size - 1) * dim->out;
    }
    return from[1] + sizeof(float) <= to[0] || to[1] + sizeof(float) <= from[0];
}

static void exchange_line(const csdf_line *l)
{
    const csdf_dim *dims = (const void *)l->c;
    for (ptrdiff_t i = 0; i < l->n; i++)
        exchange((const float *)(const void *)(l->a + i * l->sa), (float *)(void *)(l->out + i * l->so), dims[0].size,
            dims[1].size, dims[0].a / (ptrdiff_t)sizeof(float), dims[1].out / (ptrdiff_t)sizeof(float));
}

/* A copy of floats that are side by side along one dimension where they are read, and along another where they are written:
 * whether it is one. */
static int exchange_4(const csdf_strided *step)
{
    csdf_strided one = *step;
    csdf_dim dims[CSDF_RANK];
    int32_t rows = -1, columns = -1, kept = 0;
    for (int32_t k = 0; k < one.rank; k++) {
        const csdf_dim *dim = one.dims + k;
        const int whole = dim->a % (ptrdiff_t)sizeof(float) == 0 && dim->out % (ptrdiff_t)sizeof(float) == 0;
        if (dim->size >= BLOCK && whole && dim->out == sizeof(float))
            rows = k;
        if (dim->size >= BLOCK && whole && dim->a == sizeof(float))
            columns = k;
    }
    if (rows < 0 || columns < 0 || rows == columns || !is_apart(step))
        return 0;
    for (int32_t k = 0; k < one.rank; k++)
        if (k != rows && k != columns)
            dims[kept++] = one.dims[k];
    dims[kept] = step->dims[rows];
    dims[kept + 1] = step->dims[columns];
    one.dims = dims;
    one.rank = kept;
    one.c = dims + kept;
    csdf_each(&one, exchange_line);
    return 1;
}
#else
#define exchange_4(one) 0
#endif

#define exchange_1(one) 0
#define exchange_2(one) 0
#define exchange_8(one) 0

/* memcpy reads words at any address where memmove goes byte by byte in C libraries of microcontrollers. */
static void copy_run(char *out, const char *a, size_t size)
{
    const uintptr_t apart = (uintptr_t)out - (uintptr_t)a;
    if (apart < size || 0u - apart < size)
        memmove(out, a, size);
    else
        memcpy(out, a, size);
}

/* out = a, both of so many bytes; put: where the byte c is not 0. */
#define COPY(bytes, type) \
    WOVEN(type) \
    TAKE_FEW(bytes, type) \
    static void copy_##bytes##_line(const csdf_line *l); \
    static void weave_##bytes##_line(const csdf_line *l) \
    { \
        const csdf_dim *dims = (const void *)l->c; \
        for (ptrdiff_t i = 0; i < l->n; i++) \
            woven_##type((const type *)(const void *)(l->a + i * l->sa), \
                (type *)(void *)(l->out + i * l->so), dims[0].size, dims[1].size, dims[0].a / bytes); \
    } \
    void csdf_copy_##bytes(const void *step); \
    void csdf_copy_##bytes(const void *step) \
    { \
        csdf_strided one = *(const csdf_strided *)step; \
        const csdf_dim *dims = one.rank >= 2 ? one.dims + one.rank - 2 : NULL; \
        if (dims != NULL && dims[0].size <= WOVEN_RUNS && dims[0].out == bytes && dims[1].a == bytes \
            && dims[1].out == dims[0].size * bytes && dims[0].a % bytes == 0) { \
            one.rank -= 2; \
            one.c = dims; \
            csdf_each(&one, weave_##bytes##_line); \
        } else if (!exchange_##bytes(&one)) { \
            csdf_each(&one, copy_##bytes##_line); \
        } \
    } \
    static void copy_##bytes##_line(const csdf_line *l) \
    { \
        const char *a = l->a; \
        char *out = l->out; \
        if (l->sa == bytes && l->so == bytes) { \
            copy_run(out, a, (size_t)l->n * bytes); \
            return; \
        } \
        for (ptrdiff_t i = 0; i < l->n; i++, a += l->sa, out += l->so) \
            *(type *)(void *)out = *(const type *)(const void *)a; \
    } \
    CSDF_KERNEL(put_##bytes) \
    { \
        const char *a = l->a, *c = l->c; \
        char *out = l->out; \
        if (l->so == bytes && l->sc == 1 && (l->sa == bytes || l->sa == 0)) { /* without branches */ \
            const type *from = (const void *)a; \
            type *to = (void *)out; \
            if (l->sa == 0) \
                for (ptrdiff_t i = 0; i < l->n; i++) \
                    to[i] = c[i] ? from[0] : to[i]; \
            else \
                for (ptrdiff_t i = 0; i < l->n; i++) \
                    to[i] = c[i] ? from[i] : to[i]; \
            return; \
        } \
        for (ptrdiff_t i = 0; i < l->n; i++, a += l->sa, c += l->sc, out += l->so) \
            *(type *)(void *)out = *c ? *(const type *)(const void *)a : *(type *)(void *)out; \
    } \
    /* out = c[a], a of 64 bits, c one table for all */ \
    CSDF_KERNEL(look_##bytes) \
    { \
        const char *a = l->a; \
        const type *table = (const void *)l->c; \
        char *out = l->out; \
        for (ptrdiff_t i = 0; i < l->n; i++, a += l->sa, out += l->so) \
            *(type *)(void *)out = table[*(const int64_t *)(const void *)a]; \
    } \
    /* out[i] = a[index[i]] for i below count, along a dimension that `dims` does not have */ \
    void csdf_take_##bytes(const void *step); \
    void csdf_take_##bytes(const void *step) \
    { \
        csdf_strided one = *(const csdf_strided *)step; \
        const char *a = one.a; \
        char *out = one.out; \
        if (take_few_##bytes(&one)) \
            return; \
        for (int32_t i = 0; i < one.count; i++) { \
            one.a = a + one.index[i] * one.along; \
            one.out = out + i * one.out_along; \
            csdf_each(&one, copy_##bytes##_line); \
        } \
    }

COPY(1, uint8_t)
COPY(2, uint16_t)
COPY(4, uint32_t)
COPY(8, uint64_t)

/* What a value becomes in another type: numbers that an integer type does not have lose their upper
 * bits; those that are none, or beyond 64 bits, become the least. */
static int64_t whole(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

static uint64_t natural(double x)
{
    return x >= 0x1p63 && x < 0x1p64 ? (uint64_t)x : (uint64_t)whole(x);
}

#define SAME(x) (x)
#define TO_F16(x) csdf_to_f16((float)(x))
#define TO_BF16(x) csdf_to_bf16((float)(x))
#define TO_F32(x) ((float)(x))
#define TO_F64(x) ((double)(x))
#define TO_BOOL(x) ((uint8_t)((x) != 0))
#define I_I(type) (type)
#define F_I8(x) ((int8_t)whole((double)(x)))
#define F_I16(x) ((int16_t)whole((double)(x)))
#define F_I32(x) ((int32_t)whole((double)(x)))
#define F_I64(x) (whole((double)(x)))
#define F_U8(x) ((uint8_t)whole((double)(x)))
#define F_U16(x) ((uint16_t)whole((double)(x)))
#define F_U32(x) ((uint32_t)whole((double)(x)))
#define F_U64(x) (natural((double)(x)))
#define I_I8(x) ((int8_t)(x))
#define I_I16(x) ((int16_t)(x))
#define I_I32(x) ((int32_t)(x))
#define I_I64(x) ((int64_t)(x))
#define I_U8(x) ((uint8_t)(x))
#define I_U16(x) ((uint16_t)(x))
#define I_U32(x) ((uint32_t)(x))
#define I_U64(x) ((uint64_t)(x))

/* How many of the first elements are converted by vectors: all that fill one. */
#define NO_VECTORS(x, made, n) 0

#define VECTORS(type) \
    static ptrdiff_t widened_##type(const csdf_##type *x, float *made, ptrdiff_t n) \
    { \
        ptrdiff_t i = 0; \
        for (; i + CSDF_LANES <= n; i += CSDF_LANES) \
            csdf_store(made + i, csdf_load_##type(x + i)); \
        return i; \
    } \
    static ptrdiff_t narrowed_##type(const float *x, csdf_##type *made, ptrdiff_t n) \
    { \
        ptrdiff_t i = 0; \
        for (; i + CSDF_LANES <= n; i += CSDF_LANES) \
            csdf_store_##type(made + i, csdf_load(x + i)); \
        return i; \
    }

VECTORS(f16)
VECTORS(bf16)

static ptrdiff_t rounded_bf16(const float *x, csdf_bf16 *made, ptrdiff_t n)
{
    ptrdiff_t i = 0;
    for (; i + CSDF_LANES <= n; i += CSDF_LANES)
        csdf_round_bf16(made + i, csdf_load(x + i));
    return i;
}

/* Floats that 32 bits have, chunk by chunk up to the first in which one has more. */
#define TRUNCATED(to, type) \
    static ptrdiff_t truncated_##to(const float *x, type *made, ptrdiff_t n) \
    { \
        ptrdiff_t i = 0; \
        for (ptrdiff_t size; i < n; i += size) { \
            uint32_t most = 0, bits[256]; \
            size = n - i < 256 ? n - i : 256; \
            memcpy(bits, x + i, (size_t)size * sizeof(float)); \
            for (ptrdiff_t k = 0; k < size; k++) \
                most = most > (bits[k] & 0x7fffffff) ? most : bits[k] & 0x7fffffff; \
            if (most >= 0x4f000000) /* 2^31, and what is no number */ \
                return i; \
            for (ptrdiff_t k = 0; k < size; k++) \
                made[i + k] = (type)(int32_t)x[i + k]; \
        } \
        return i; \
    }

TRUNCATED(i8, int8_t)
TRUNCATED(u8, uint8_t)

#define CONVERT(from, from_type, read, to, to_type, write) \
    CONVERT_BY(NO_VECTORS, from, from_type, read, to, to_type, write)

#define CONVERT_BY(vectors, from, from_type, read, to, to_type, write) \
    CSDF_KERNEL(from_##from##_to_##to) \
    { \
        const char *a = l->a; \
        char *out = l->out; \
        if (l->sa == sizeof(from_type) && l->so == sizeof(to_type)) { \
            const from_type *x = (const void *)a; \
            to_type *made = (void *)out; \
            for (ptrdiff_t i = vectors(x, made, l->n); i < l->n; i++) \
                made[i] = write(read(x[i])); \
            return; \
        } \
        for (ptrdiff_t i = 0; i < l->n; i++, a += l->sa, out += l->so) \
            *(to_type *)(void *)out = write(read(*(const from_type *)(const void *)a)); \
    }

#define TO_INTEGERS(K, from, type, read) TO_INTEGERS_BY(NO_VECTORS, NO_VECTORS, K, from, type, read)

#define TO_INTEGERS_BY(signed_bytes, bytes, K, from, type, read) \
    CONVERT_BY(signed_bytes, from, type, read, i8, int8_t, K##_I8) \
    CONVERT(from, type, read, i16, int16_t, K##_I16) \
    CONVERT(from, type, read, i32, int32_t, K##_I32) \
    CONVERT(from, type, read, i64, int64_t, K##_I64) \
    CONVERT_BY(bytes, from, type, read, u8, uint8_t, K##_U8) \
    CONVERT(from, type, read, u16, uint16_t, K##_U16) \
    CONVERT(from, type, read, u32, uint32_t, K##_U32) \
    CONVERT(from, type, read, u64, uint64_t, K##_U64) \
    CONVERT(from, type, read, bool, uint8_t, TO_BOOL)

#define TO_FLOATS(from, type) \
    CONVERT(from, type, SAME, f16, csdf_f16, TO_F16) \
    CONVERT(from, type, SAME, bf16, csdf_bf16, TO_BF16) \
    CONVERT(from, type, SAME, f32, float, TO_F32) \
    CONVERT(from, type, SAME, f64, double, TO_F64)

TO_INTEGERS_BY(truncated_i8, truncated_u8, F, f32, float, SAME)
TO_INTEGERS(F, f64, double, SAME)
TO_INTEGERS(F, f16, csdf_f16, csdf_from_f16)
TO_INTEGERS(F, bf16, csdf_bf16, csdf_from_bf16)
CONVERT_BY(widened_bf16, bf16, csdf_bf16, csdf_from_bf16, f32, float, SAME)
CONVERT(bf16, csdf_bf16, csdf_from_bf16, f64, double, TO_F64)
CONVERT(bf16, csdf_bf16, csdf_from_bf16, f16, csdf_f16, TO_F16)
CONVERT(f16, csdf_f16, csdf_from_f16, bf16, csdf_bf16, TO_BF16)
CONVERT_BY(narrowed_bf16, f32, float, SAME, bf16, csdf_bf16, TO_BF16)
CONVERT_BY(rounded_bf16, results, float, SAME, bf16, csdf_bf16, TO_BF16)
CONVERT(f64, double, SAME, bf16, csdf_bf16, TO_BF16)
CONVERT_BY(narrowed_f16, f32, float, SAME, f16, csdf_f16, TO_F16)
CONVERT(f32, float, SAME, f64, double, TO_F64)
CONVERT(f64, double, SAME, f16, csdf_f16, TO_F16)
CONVERT(f64, double, SAME, f32, float, TO_F32)
CONVERT_BY(widened_f16, f16, csdf_f16, csdf_from_f16, f32, float, SAME)
CONVERT(f16, csdf_f16, csdf_from_f16, f64, double, TO_F64)

#define FROM_INTEGER(from, type) TO_FLOATS(from, type) TO_INTEGERS(I, from, type, SAME)

FROM_INTEGER(i8, int8_t)
FROM_INTEGER(i16, int16_t)
FROM_INTEGER(i32, int32_t)
FROM_INTEGER(i64, int64_t)
FROM_INTEGER(u8, uint8_t)
FROM_INTEGER(u16, uint16_t)
FROM_INTEGER(u32, uint32_t)
FROM_INTEGER(u64, uint64_t)
FROM_INTEGER(bool, uint8_t)
