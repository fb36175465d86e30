/* How are elements visited, and what is a float16? */
#include "strided.h"

void csdf_each(const csdf_strided *step, void (*line)(const csdf_line *))
{
    csdf_line l = {step->a, step->b, step->c, step->out, 1, 0, 0, 0, 0};
    const int32_t outer = step->rank - 1;
    ptrdiff_t at[CSDF_RANK] = {0};
    if (outer >= 0) {
        const csdf_dim *last = step->dims + outer;
        l.n = last->size;
        l.sa = last->a;
        l.sb = last->b;
        l.sc = last->c;
        l.so = last->out;
    }
    for (;;) {
        line(&l);
        int32_t k = outer - 1;
        for (; k >= 0; k--) {
            const csdf_dim *dim = step->dims + k;
            if (++at[k] < dim->size) {
                l.a += dim->a;
                l.b += dim->b;
                l.c += dim->c;
                l.out += dim->out;
                break;
            }
            at[k] = 0;
            l.a -= (dim->size - 1) * dim->a;
            l.b -= (dim->size - 1) * dim->b;
            l.c -= (dim->size - 1) * dim->c;
            l.out -= (dim->size - 1) * dim->out;
        }
        if (k < 0)
            return;
    }
}

float csdf_wide_f16(csdf_f16 half)
{
    const uint32_t sign = (uint32_t)(half.bits & 0x8000u) << 16, rest = half.bits & 0x7fffu;
    if (rest >= 0x7c00u)
        return csdf_float_of(sign | 0x7f800000u | (rest > 0x7c00u ? 0x400000u : 0u) | (rest & 0x3ffu) << 13);
    const float size = rest < 0x400u ? (float)rest * 0x1p-24f : csdf_float_of(rest << 13) * 0x1p112f;
    return csdf_float_of(sign | csdf_bits_of(size));
}

csdf_f16 csdf_near_f16(float value)
{
    const uint32_t bits = csdf_bits_of(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    csdf_f16 half;
    if (rest > 0x7f800000u) {
        half.bits = (uint16_t)(sign | 0x7e00u | (rest >> 13 & 0x3ffu));
    } else if (rest >= 0x47800000u) { /* 65536 and more */
        half.bits = (uint16_t)(sign | 0x7c00u);
    } else if (rest < 0x38800000u) { /* subnormal: the sum rounds at its last bit, which is the half's */
        half.bits = (uint16_t)(sign | (csdf_bits_of(csdf_float_of(rest) + 0.5f) - 0x3f000000u));
    } else {
        const uint32_t odd = rest >> 13 & 1u;
        half.bits = (uint16_t)(sign | ((rest - 0x38000000u + 0xfffu + odd) >> 13));
    }
    return half;
}
