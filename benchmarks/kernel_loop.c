/* How long do kernels take, without what calling them from Python adds? */
#define _GNU_SOURCE
#include <stdint.h>
#include <time.h>

double bench_seconds(void);
double bench_steps(
    void (*kernel)(const void *), const void *const *steps, int64_t count, int64_t rounds);

/* Processor time of this thread. */
double bench_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
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
