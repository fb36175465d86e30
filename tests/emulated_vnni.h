/* What processors with AVX-VNNI do in one instruction, for those without: four products of unsigned and signed
 * bytes are added to each sum of 32 bits, and nothing saturates. */
#include <immintrin.h>

static inline __attribute__((unused)) __m256i emulated_dpbusd(__m256i sum, __m256i x, __m256i w)
{
    const __m256i high = _mm256_set1_epi16(255);
    const __m256i even = _mm256_madd_epi16(_mm256_and_si256(x, high), _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(x, 8), _mm256_srai_epi16(w, 8));
    return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
}
