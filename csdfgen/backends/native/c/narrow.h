/* What is an element of a map here? A float, unless the file that includes this defines CSDF_OF_BF16 or CSDF_OF_F16: then
 * bfloat16 or float16, whose values are computed with as floats and rounded once, when they are stored.
 */
#ifndef CSDF_NARROW_H
#define CSDF_NARROW_H

#include "simd.h"

#if defined(CSDF_OF_BF16) || defined(CSDF_OF_F16)
#define CSDF_NARROW 1
#ifdef CSDF_OF_BF16
typedef csdf_bf16 element;
#define FLOAT_OF(x) csdf_from_bf16(x)
#define ELEMENT_OF(x) csdf_to_bf16(x)
#define TAKE(at) csdf_load_bf16(at)
#define GIVE(at, x) csdf_round_bf16(at, x)
#else
typedef csdf_f16 element;
#define FLOAT_OF(x) csdf_from_f16(x)
#define ELEMENT_OF(x) csdf_to_f16(x)
#define TAKE(at) csdf_load_f16(at)
#define GIVE(at, x) csdf_store_f16(at, x)
#endif
CSDF_INLINE csdf_v TAKE_SOME(const element *at, int n)
{
    element some[CSDF_LANES] = {{0}};
    memcpy(some, at, (size_t)n * sizeof *some);
    return TAKE(some);
}
CSDF_INLINE void GIVE_SOME(element *at, csdf_v x, int n)
{
    element some[CSDF_LANES];
    GIVE(some, x);
    memcpy(at, some, (size_t)n * sizeof *some);
}
#else
#define CSDF_NARROW 0
typedef float element;
#define FLOAT_OF(x) (x)
#define ELEMENT_OF(x) (x)
#define TAKE(at) csdf_load(at)
#define GIVE(at, x) csdf_store(at, x)
#define TAKE_SOME(at, n) csdf_load_some(at, n)
#define GIVE_SOME(at, x, n) csdf_store_some(at, x, n)
#endif

#endif
