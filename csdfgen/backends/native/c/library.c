/* What was built? So that who loads a library can tell whether it is the one it was made for. */
#include "csdf.h"
#include "program.h"
#include "team.h"
#include "simd_halves.h"
#include "simd_pairs.h"

const char *csdf_instructions(void) { return CSDF_ISA; }

int32_t csdf_pairs_suit(void) { return CSDF_PAIRS_SUIT; }

/* Weights of a layer from which its sums are faster on slabs and weights of bfloat16, or of float16, than on widened ones; -1:
 * never. With AVX-512 it is where they leave a second-level cache as floats (measured). */
int32_t csdf_bf16_suits(void) { return CSDF_BF16_SUITS ? 0 : CSDF_LANES == 16 ? 1 << 18 : -1; }

int32_t csdf_f16_suits(void) { return CSDF_F16_SUITS ? 0 : -1; }

#ifdef __clang__
const char *csdf_compiler(void) { return __VERSION__; }
#elif defined __GNUC__
const char *csdf_compiler(void) { return "gcc " __VERSION__; }
#else
const char *csdf_compiler(void) { return "unknown"; }
#endif

int32_t csdf_version(void) { return CSDF_VERSION; }

size_t csdf_size_of(int32_t which)
{
    static const size_t sizes[] = {
#include "sizes.h"
    };
    const int32_t count = (int32_t)(sizeof sizes / sizeof sizes[0]);
    return which >= 0 && which < count ? sizes[which] : 0;
}
