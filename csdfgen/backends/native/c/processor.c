/* Does the processor that this runs on know the instructions that the library was compiled for?
 *
 * Compilers ask the processor that they run on themselves. An emulator starts them beside it, and a cache
 * folder may be that of several machines: then kernels would end with an illegal instruction.
 */
#include "csdf.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

#define KNOWN(word, bit) (((word) >> (bit)) & 1u)

/* Whether kernels are compiled for a set of instructions: compilers define its macro as 1, else its name remains. */
#define NEEDS(macro) (sizeof TEXT(macro) == sizeof "1")
#define TEXT(macro) #macro

/* Whether the system keeps registers of these kinds (bits of XCR0). */
static int system_keeps(unsigned wanted)
{
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !KNOWN(c, 27))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & wanted) == wanted;
}

/* No loops, no arrays: nothing that a compiler makes vectors of. */
const char *csdf_lacking(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return "CPUID";
    if (NEEDS(__SSE4_2__) && !KNOWN(c, 20))
        return "SSE4.2";
    if (NEEDS(__FMA__) && !KNOWN(c, 12))
        return "FMA";
    if (NEEDS(__F16C__) && !KNOWN(c, 29))
        return "F16C";
    if (NEEDS(__AVX__) && (!KNOWN(c, 28) || !system_keeps(0x06)))
        return "AVX";
    a = b = c = d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        b = c = 0;
    if (NEEDS(__BMI__) && !KNOWN(b, 3))
        return "BMI";
    if (NEEDS(__AVX2__) && !KNOWN(b, 5))
        return "AVX2";
    if (NEEDS(__BMI2__) && !KNOWN(b, 8))
        return "BMI2";
    if (NEEDS(__AVX512F__) && (!KNOWN(b, 16) || !system_keeps(0xe6)))
        return "AVX512F";
    if (NEEDS(__AVX512DQ__) && !KNOWN(b, 17))
        return "AVX512DQ";
    if (NEEDS(__AVX512BW__) && !KNOWN(b, 30))
        return "AVX512BW";
    if (NEEDS(__AVX512VL__) && !KNOWN(b, 31))
        return "AVX512VL";
    if (NEEDS(__AVX512VBMI__) && !KNOWN(c, 1))
        return "AVX512VBMI";
    if (NEEDS(__AVX512VNNI__) && !KNOWN(c, 11))
        return "AVX512VNNI";
    if (NEEDS(__AVX512BF16__) && (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !KNOWN(a, 5)))
        return "AVX512_BF16";
    if (NEEDS(__AVXVNNI__) && (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !KNOWN(a, 4)))
        return "AVXVNNI";
    return 0;
}
#else
const char *csdf_lacking(void) { return 0; }
#endif
