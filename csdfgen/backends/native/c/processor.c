/* Does the processor that this runs on know the instructions that the library was compiled for?
 *
 * Compilers ask the processor that they run on themselves. An emulator starts them beside it, and a cache
 * folder may be that of several machines: then kernels would end with an illegal instruction.
 */
#include "csdf.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

#define KNOWN(word, bit) (((word) >> (bit)) & 1u)

#ifdef __AVX__
/* Whether the system keeps registers of these kinds (bits of XCR0). */
static int system_keeps(unsigned wanted)
{
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !KNOWN(c, 27))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & wanted) == wanted;
}
#endif

/* No loops, no arrays: nothing that a compiler makes vectors of. */
const char *csdf_lacking(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return "CPUID";
#ifdef __SSE4_2__
    if (!KNOWN(c, 20))
        return "SSE4.2";
#endif
#ifdef __FMA__
    if (!KNOWN(c, 12))
        return "FMA";
#endif
#ifdef __F16C__
    if (!KNOWN(c, 29))
        return "F16C";
#endif
#ifdef __AVX__
    if (!KNOWN(c, 28) || !system_keeps(0x06))
        return "AVX";
#endif
    a = b = c = d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        b = c = 0;
#ifdef __BMI__
    if (!KNOWN(b, 3))
        return "BMI";
#endif
#ifdef __AVX2__
    if (!KNOWN(b, 5))
        return "AVX2";
#endif
#ifdef __BMI2__
    if (!KNOWN(b, 8))
        return "BMI2";
#endif
#ifdef __AVX512F__
    if (!KNOWN(b, 16) || !system_keeps(0xe6))
        return "AVX512F";
#endif
#ifdef __AVX512DQ__
    if (!KNOWN(b, 17))
        return "AVX512DQ";
#endif
#ifdef __AVX512BW__
    if (!KNOWN(b, 30))
        return "AVX512BW";
#endif
#ifdef __AVX512VL__
    if (!KNOWN(b, 31))
        return "AVX512VL";
#endif
#ifdef __AVX512VBMI__
    if (!KNOWN(c, 1))
        return "AVX512VBMI";
#endif
#ifdef __AVX512VNNI__
    if (!KNOWN(c, 11))
        return "AVX512VNNI";
#endif
#ifdef __AVX512BF16__
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !KNOWN(a, 5))
        return "AVX512_BF16";
#endif
#ifdef __AVXVNNI__
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !KNOWN(a, 4))
        return "AVXVNNI";
#endif
    return 0;
}
#else
const char *csdf_lacking(void) { return 0; }
#endif
