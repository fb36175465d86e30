/* How fast can any kernel be here? Multiply-adds on registers, and nothing else.
 *
 * Sums do not wait for each other: there are more of them than a processor has begun at any time.
 */
#include "csdf.h"
#include "simd.h"

#if CSDF_LANES == 16 || CSDF_LANES == 4
#define SUMS 24 /* of 32 registers */
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) \
    X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23)
#else
#define SUMS 12 /* of 16 registers */
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#endif

#define BEGIN(n) csdf_v s##n = csdf_splat((float)(n));
#define STEP(n) s##n = csdf_fma(s##n, w, x);
#define END(n) csdf_store(out, s##n); *kept += out[0];

/* Floating point operations of so many rounds; kept: what they come to, so that they are done. */
double csdf_peak(int32_t rounds, float *kept)
{
    const csdf_v x = csdf_splat(*kept), w = csdf_splat(0.5f);
    float out[CSDF_LANES];
    EACH(BEGIN)
    for (int32_t k = 0; k < rounds; k++) {
        EACH(STEP)
    }
    EACH(END)
    return 2.0 * SUMS * CSDF_LANES * rounds;
}
