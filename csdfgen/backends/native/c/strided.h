/* Everything that is not worth a kernel of its own: one operation on every element of some arrays.
 *
 * Arrays have up to CSDF_RANK dimensions and any strides, zero (the same element again) and negative
 * ones included. Elements are visited in the order of the dimensions, the last one fastest, one after
 * the other: where the output is an operand too, or an element of it is met again (stride zero), the
 * later visit sees what the earlier one wrote.
 */
#ifndef CSDF_STRIDED_H
#define CSDF_STRIDED_H

#include <stddef.h>
#include <stdint.h>

enum { CSDF_RANK = 10 };

/* How many, and bytes from one to the next of each operand and of the output. */
typedef struct csdf_dim {
    ptrdiff_t size, a, b, c, out;
} csdf_dim;

/* Operands that an operation does not have are the output, with strides of zero.
 * index, count, along, out_along: of csdf_take, csdf_arg and the kernels of index.c alone, see there. */
typedef struct csdf_strided {
    const csdf_dim *dims;
    int32_t rank;
    int32_t count;
    const void *a, *b, *c;
    void *out;
    const int32_t *index;
    ptrdiff_t along, out_along;
} csdf_strided;

/* The elements along the last dimension. */
typedef struct csdf_line {
    const char *a, *b, *c;
    char *out;
    ptrdiff_t n, sa, sb, sc, so;
} csdf_line;

/* Calls `line` for the elements along the last dimension, of all others in turn. */
void csdf_each(const csdf_strided *step, void (*line)(const csdf_line *));

/* A kernel csdf_NAME_TYPE of the elements of a line. */
#define CSDF_KERNEL(name) \
    void csdf_##name(const void *step); \
    static void name##_line(const csdf_line *l); \
    void csdf_##name(const void *step) { csdf_each(step, name##_line); } \
    static void name##_line(const csdf_line *l)

/* float16 as the 16 bits that it is stored in. */
typedef struct csdf_f16 {
    uint16_t bits;
} csdf_f16;

float csdf_from_f16(csdf_f16 half);
csdf_f16 csdf_to_f16(float value);

#endif
