/* Arithmetic and comparisons: csdf_OPERATION_TYPE, out = operation(a, b).
 *
 * Integers wrap; what is divided by zero is zero. Minima and maxima hand on what is not a number.
 * float16 and bfloat16 are computed in float and rounded.
 */
#include "elements.h"

#include <math.h>

#define MOST(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
#define LEAST(x, y) ((x) < (y) || (x) != (x) ? (x) : (y))

/* --- floating point numbers: of both forms of a function the one that suits the type ----------- */

#define FLOATS(kind, name, in_float, in_double) \
    CSDF_F16(kind, name, in_float) \
    CSDF_BF16(kind, name, in_float) \
    CSDF_F32(kind, name, in_float) \
    CSDF_F64(kind, name, in_double)
#define FLOAT(kind, name, expression) FLOATS(kind, name, expression, expression)

FLOAT(CSDF_BINARY, add, x + y)
FLOAT(CSDF_BINARY, subtract, x - y)
FLOAT(CSDF_BINARY, multiply, x *y)
FLOAT(CSDF_BINARY, divide, x / y)
FLOAT(CSDF_BINARY, maximum, MOST(x, y))
FLOAT(CSDF_BINARY, minimum, LEAST(x, y))
FLOATS(CSDF_BINARY, power, powf(x, y), pow(x, y))
FLOATS(CSDF_BINARY, fmod, fmodf(x, y), fmod(x, y))
FLOATS(CSDF_BINARY, floor_divide, floorf(x / y), floor(x / y))

static float remainder_f(float x, float y)
{
    const float rest = fmodf(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

static double remainder_d(double x, double y)
{
    const double rest = fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

static float logaddexp_f(float x, float y)
{
    return x == y ? x + 0.693147180559945f : MOST(x, y) + log1pf(expf(-fabsf(x - y)));
}

static double logaddexp_d(double x, double y)
{
    return x == y ? x + 0.693147180559945309 : MOST(x, y) + log1p(exp(-fabs(x - y)));
}

FLOATS(CSDF_BINARY, remainder, remainder_f(x, y), remainder_d(x, y))
FLOATS(CSDF_BINARY, logaddexp, logaddexp_f(x, y), logaddexp_d(x, y))
FLOAT(CSDF_UNARY, negative, -x)
FLOATS(CSDF_UNARY, absolute, fabsf(x), fabs(x))
FLOAT(CSDF_UNARY, square, x *x)
FLOAT(CSDF_UNARY, reciprocal, 1 / x)
FLOATS(CSDF_UNARY, sqrt, sqrtf(x), sqrt(x))
FLOAT(CSDF_UNARY, sign, x != x ? x : x > 0 ? 1 : x < 0 ? -1 : 0)
FLOATS(CSDF_UNARY, ceil, ceilf(x), ceil(x))
FLOATS(CSDF_UNARY, floor, floorf(x), floor(x))
FLOATS(CSDF_UNARY, rint, rintf(x), rint(x))

/* --- integers: sums and products are those of numbers without a sign, which may overflow -------- */

#define INTEGER(kind, short, type, natural) \
    kind(add_##short, type, type, CSDF_AS_IT_IS, type, (type), (natural)((natural)x + (natural)y)) \
    kind(subtract_##short, type, type, CSDF_AS_IT_IS, type, (type), (natural)((natural)x - (natural)y)) \
    kind(multiply_##short, type, type, CSDF_AS_IT_IS, type, (type), (natural)((uint64_t)x * (uint64_t)y)) \
    kind(maximum_##short, type, type, CSDF_AS_IT_IS, type, (type), (x > y ? x : y)) \
    kind(minimum_##short, type, type, CSDF_AS_IT_IS, type, (type), (x < y ? x : y)) \
    CSDF_PLAIN(floor_divide_##short, type, type, CSDF_AS_IT_IS, type, (type), quotient_##short(x, y)) \
    CSDF_PLAIN(remainder_##short, type, type, CSDF_AS_IT_IS, type, (type), modulo_##short(x, y)) \
    CSDF_PLAIN(fmod_##short, type, type, CSDF_AS_IT_IS, type, (type), rest_##short(x, y)) \
    CSDF_PLAIN(power_##short, type, type, CSDF_AS_IT_IS, type, (type), power_of_##short(x, y)) \
    CSDF_PLAIN(bitwise_and_##short, type, type, CSDF_AS_IT_IS, type, (type), x & y) \
    CSDF_PLAIN(bitwise_or_##short, type, type, CSDF_AS_IT_IS, type, (type), x | y) \
    CSDF_PLAIN(bitwise_xor_##short, type, type, CSDF_AS_IT_IS, type, (type), x ^ y) \
    CSDF_PLAIN_UNARY(invert_##short, type, type, CSDF_AS_IT_IS, type, (type), ~x) \
    CSDF_PLAIN(left_shift_##short, type, type, CSDF_AS_IT_IS, type, (type), \
        (natural)((uint64_t)y < 8 * sizeof(type) ? (uint64_t)x << y : 0)) \
    CSDF_PLAIN_UNARY(square_##short, type, type, CSDF_AS_IT_IS, type, (type), (natural)((uint64_t)x * (uint64_t)x)) \
    CSDF_PLAIN_UNARY(negative_##short, type, type, CSDF_AS_IT_IS, type, (type), (natural)(0u - (natural)x))

/* Powers by squaring; of a negative exponent the whole part. */
#define POWER(short, type, natural, negative) \
    static type power_of_##short(type x, type y) \
    { \
        natural found = 1, base = (natural)x; \
        if (negative) \
            return (type)(x == 1 ? 1 : x + 1 == 0 && x != 0 ? (y & 1 ? -1 : 1) : 0); \
        for (natural rest = (natural)y; rest; rest = (natural)(rest >> 1)) { \
            if (rest & 1) \
                found = (natural)((uint64_t)found * base); \
            base = (natural)((uint64_t)base * base); \
        } \
        return (type)found; \
    }

#define SIGNED(kind, short, type, natural) \
    static type rest_##short(type x, type y) { return (type)(y == 0 || y == -1 ? 0 : x % y); } \
    static type modulo_##short(type x, type y) \
    { \
        const type rest = rest_##short(x, y); \
        return (type)(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest); \
    } \
    static type quotient_##short(type x, type y) \
    { \
        if (y == 0) \
            return 0; \
        if (y == -1) \
            return (type)(natural)(0u - (natural)x); \
        return (type)(x / y - (x % y != 0 && (x % y < 0) != (y < 0))); \
    } \
    POWER(short, type, natural, y < 0) \
    INTEGER(kind, short, type, natural) \
    CSDF_PLAIN(right_shift_##short, type, type, CSDF_AS_IT_IS, type, (type), \
        ((uint64_t)y < 8 * sizeof(type) ? x >> y : x < 0 ? -1 : 0)) \
    CSDF_PLAIN_UNARY(absolute_##short, type, type, CSDF_AS_IT_IS, type, (type), \
        x < 0 ? (type)(natural)(0u - (natural)x) : x) \
    CSDF_PLAIN_UNARY(sign_##short, type, type, CSDF_AS_IT_IS, type, (type), (x > 0) - (x < 0))

#define UNSIGNED(kind, short, type) \
    static type rest_##short(type x, type y) { return (type)(y == 0 ? 0 : x % y); } \
    static type modulo_##short(type x, type y) { return rest_##short(x, y); } \
    static type quotient_##short(type x, type y) { return (type)(y == 0 ? 0 : x / y); } \
    POWER(short, type, type, 0) \
    INTEGER(kind, short, type, type) \
    CSDF_PLAIN(right_shift_##short, type, type, CSDF_AS_IT_IS, type, (type), (y < 8 * sizeof(type) ? x >> y : 0)) \
    CSDF_PLAIN_UNARY(absolute_##short, type, type, CSDF_AS_IT_IS, type, (type), x) \
    CSDF_PLAIN_UNARY(sign_##short, type, type, CSDF_AS_IT_IS, type, (type), x > 0)

SIGNED(CSDF_BINARY, i8, int8_t, uint8_t)
SIGNED(CSDF_PLAIN, i16, int16_t, uint16_t)
SIGNED(CSDF_BINARY, i32, int32_t, uint32_t)
SIGNED(CSDF_BINARY, i64, int64_t, uint64_t)
UNSIGNED(CSDF_BINARY, u8, uint8_t)
UNSIGNED(CSDF_PLAIN, u16, uint16_t)
UNSIGNED(CSDF_PLAIN, u32, uint32_t)
UNSIGNED(CSDF_PLAIN, u64, uint64_t)

/* --- truth ----------------------------------------------------------------------------------------- */

#define COMPARE(kind, short, type, wide, read) \
    kind(equal_##short, type, wide, read, uint8_t, (uint8_t), (x == y)) \
    kind(not_equal_##short, type, wide, read, uint8_t, (uint8_t), (x != y)) \
    kind(less_##short, type, wide, read, uint8_t, (uint8_t), (x < y)) \
    kind(less_equal_##short, type, wide, read, uint8_t, (uint8_t), (x <= y)) \
    kind(greater_##short, type, wide, read, uint8_t, (uint8_t), (x > y)) \
    kind(greater_equal_##short, type, wide, read, uint8_t, (uint8_t), (x >= y))

COMPARE(CSDF_PLAIN, f16, csdf_f16, float, csdf_from_f16)
COMPARE(CSDF_BINARY, f32, float, float, CSDF_AS_IT_IS)
COMPARE(CSDF_PLAIN, f64, double, double, CSDF_AS_IT_IS)
COMPARE(CSDF_PLAIN, i8, int8_t, int8_t, CSDF_AS_IT_IS)
COMPARE(CSDF_PLAIN, i16, int16_t, int16_t, CSDF_AS_IT_IS)
COMPARE(CSDF_PLAIN, i32, int32_t, int32_t, CSDF_AS_IT_IS)
COMPARE(CSDF_PLAIN, i64, int64_t, int64_t, CSDF_AS_IT_IS)
COMPARE(CSDF_PLAIN, u8, uint8_t, uint8_t, CSDF_AS_IT_IS)
COMPARE(CSDF_PLAIN, u16, uint16_t, uint16_t, CSDF_AS_IT_IS)
COMPARE(CSDF_PLAIN, u32, uint32_t, uint32_t, CSDF_AS_IT_IS)
COMPARE(CSDF_PLAIN, u64, uint64_t, uint64_t, CSDF_AS_IT_IS)
COMPARE(CSDF_PLAIN, bool, uint8_t, uint8_t, CSDF_AS_IT_IS)

#define TRUTH(kind, name, expression) \
    kind(name##_bool, uint8_t, uint8_t, CSDF_AS_IT_IS, uint8_t, (uint8_t), (expression))

TRUTH(CSDF_BINARY, logical_and, x && y)
TRUTH(CSDF_BINARY, logical_or, x || y)
TRUTH(CSDF_BINARY, logical_xor, !x != !y)
TRUTH(CSDF_UNARY, logical_not, !x)
TRUTH(CSDF_BINARY, maximum, x || y)
TRUTH(CSDF_BINARY, minimum, x &&y)
