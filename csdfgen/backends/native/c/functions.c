/* Functions of one number, and clips: csdf_FUNCTION_TYPE, out = function(a); csdf_clip_TYPE,
 * out = min(max(a, b), c), where what is not a number stays so.
 *
 * exp, tanh and expm1 of floats are their own, without branches, so that compilers make vectors of
 * them: within 2 units of the last place, a few times faster than the library's one by one.
 */
#include "elements.h"

#include <math.h>
#include <string.h>

/* --- e^x: 2^k * e^r with |r| <= log(2) / 2, and e^r by its polynomial (Cephes, expf) ---------------- */

static inline float clipped(float x, float low, float high)
{
    const float y = x < low ? low : x;
    return y > high ? high : y;
}

static inline float rounded(float x)
{
    const float shift = 0x1.8p23f; /* the sum has no room for a fraction */
    return (x + shift) - shift;
}

static inline float power_of_two(float k)
{
    const uint32_t bits = (uint32_t)((int32_t)k + 127) << 23;
    float found;
    memcpy(&found, &bits, sizeof found);
    return found;
}

/* (e^r - 1 - r) / r^2 */
static inline float tail(float r)
{
    return ((((1.9875691500e-4f * r + 1.3981999507e-3f) * r + 8.3334519073e-3f) * r + 4.1665795894e-2f) * r +
               1.6666665459e-1f) * r + 5.0000001201e-1f;
}

static inline float exp_f(float x)
{
    const float in = clipped(x, -104.0f, 89.0f);
    const float k = rounded(in * 1.44269504088896341f);
    const float r = (in - k * 0.693359375f) + k * 2.12194440e-4f;
    const float half = rounded(0.5f * k); /* twice, so that neither factor leaves the exponents' range */
    return (1.0f + (r + r * r * tail(r))) * power_of_two(half) * power_of_two(k - half);
}

/* e^x - 1 for |x| of up to some tens. */
static inline float expm1_f(float x)
{
    const float in = clipped(x, -30.0f, 89.0f);
    const float k = rounded(in * 1.44269504088896341f);
    const float r = (in - k * 0.693359375f) + k * 2.12194440e-4f;
    const float half = rounded(0.5f * k);
    const float low = r + r * r * tail(r), one = power_of_two(half), two = power_of_two(k - half);
    return low * one * two + (one * two - 1.0f);
}

/* tanh |x| = m / (m + 2) with m = e^(2 |x|) - 1 */
static inline float tanh_f(float x)
{
    const float size = x < 0.0f ? -x : x;
    const float m = expm1_f(2.0f * (size > 10.0f ? 10.0f : size));
    const float found = m / (m + 2.0f);
    return x < 0.0f ? -found : x != x ? x : found;
}

/* --- the kernels ------------------------------------------------------------------------------------- */

#define FUNCTION(name, in_float, in_double) \
    CSDF_F16(CSDF_UNARY, name, in_float) \
    CSDF_BF16(CSDF_UNARY, name, in_float) \
    CSDF_F32(CSDF_UNARY, name, in_float) \
    CSDF_F64(CSDF_UNARY, name, in_double)
#define LIBRARY(name, function) FUNCTION(name, function##f(x), function(x))

FUNCTION(exp, exp_f(x), exp(x))
FUNCTION(expm1, expm1_f(x), expm1(x))
FUNCTION(tanh, tanh_f(x), tanh(x))
LIBRARY(log, log)
LIBRARY(log1p, log1p)
LIBRARY(sin, sin)
LIBRARY(cos, cos)
LIBRARY(tan, tan)
LIBRARY(sinh, sinh)
LIBRARY(cosh, cosh)
LIBRARY(arcsin, asin)
LIBRARY(arccos, acos)
LIBRARY(arctan, atan)
LIBRARY(arcsinh, asinh)
LIBRARY(arccosh, acosh)
LIBRARY(arctanh, atanh)

#define CLIP(name, type, wide, read, write) \
    CSDF_KERNEL(clip_##name) \
    { \
        if (l->sb == 0 && l->sc == 0 && l->sa == sizeof(type) && l->so == sizeof(type)) { \
            const type *a = (const void *)l->a; \
            type *out = (void *)l->out; \
            const wide low = read(CSDF_AT(type, l->b)), high = read(CSDF_AT(type, l->c)); \
            for (ptrdiff_t i = 0; i < l->n; i++) { \
                const wide x = read(a[i]), y = x < low ? low : x; \
                out[i] = write(y > high ? high : y); \
            } \
            return; \
        } \
        for (ptrdiff_t i = 0; i < l->n; i++) { \
            const wide x = read(CSDF_AT(type, l->a + i * l->sa)), low = read(CSDF_AT(type, l->b + i * l->sb)), \
                high = read(CSDF_AT(type, l->c + i * l->sc)), y = x < low ? low : x; \
            CSDF_TO(type, l->out + i * l->so) = write(y > high ? high : y); \
        } \
    }

CLIP(f16, csdf_f16, float, csdf_from_f16, csdf_to_f16)
CLIP(f32, float, float, CSDF_AS_IT_IS, CSDF_AS_IT_IS)
CLIP(f64, double, double, CSDF_AS_IT_IS, CSDF_AS_IT_IS)
CLIP(i8, int8_t, int8_t, CSDF_AS_IT_IS, (int8_t))
CLIP(i16, int16_t, int16_t, CSDF_AS_IT_IS, (int16_t))
CLIP(i32, int32_t, int32_t, CSDF_AS_IT_IS, (int32_t))
CLIP(i64, int64_t, int64_t, CSDF_AS_IT_IS, (int64_t))
CLIP(u8, uint8_t, uint8_t, CSDF_AS_IT_IS, (uint8_t))
CLIP(u16, uint16_t, uint16_t, CSDF_AS_IT_IS, (uint16_t))
CLIP(u32, uint32_t, uint32_t, CSDF_AS_IT_IS, (uint32_t))
CLIP(u64, uint64_t, uint64_t, CSDF_AS_IT_IS, (uint64_t))
