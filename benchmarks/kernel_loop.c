/* How long do kernels take, without what calling them from Python adds? And what could they reach? */
#define _GNU_SOURCE
#include <stdint.h>
#include <time.h>

#include "simd.h"

#if defined(__x86_64__)
#define HIDE(x) __asm__ volatile("" : "+x"(x))
#elif defined(__aarch64__)
#define HIDE(x) __asm__ volatile("" : "+w"(x))
#else
#define HIDE(x) (void)(x)
#endif

double bench_seconds(void);
double bench_peak(int64_t rounds, float *sink);
double bench_steps(
    void (*kernel)(const void *), const void *const *steps, int64_t count, int64_t rounds);

#define FROM(k) csdf_load(sink + (k) * CSDF_LANES)

/* Processor time of this thread. */
double bench_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Seconds of 24 * CSDF_LANES floating point operations a round, all in registers.
 * sink: 14 * CSDF_LANES values. */
double bench_peak(int64_t rounds, float *sink)
{
    csdf_v a0 = FROM(0), a1 = FROM(1), a2 = FROM(2), a3 = FROM(3), a4 = FROM(4), a5 = FROM(5);
    csdf_v a6 = FROM(6), a7 = FROM(7), a8 = FROM(8), a9 = FROM(9), a10 = FROM(10), a11 = FROM(11);
    csdf_v x = FROM(12), y = FROM(13);
    const double start = bench_seconds();
    for (int64_t i = 0; i < rounds; i++) {
        HIDE(x);
        a0 += x * y;
        a1 += x * y;
        a2 += x * y;
        a3 += x * y;
        a4 += x * y;
        a5 += x * y;
        HIDE(y);
        a6 += x * y;
        a7 += x * y;
        a8 += x * y;
        a9 += x * y;
        a10 += x * y;
        a11 += x * y;
    }
    const double taken = bench_seconds() - start;
    csdf_store(sink, a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11);
    return taken;
}

/* Seconds of all steps, `rounds` times. */
double bench_steps(
    void (*kernel)(const void *), const void *const *steps, int64_t count, int64_t rounds)
{
    const double start = bench_seconds();
    for (int64_t i = 0; i < rounds; i++)
        for (int64_t k = 0; k < count; k++)
            kernel(steps[k]);
    return bench_seconds() - start;
}
