/* Normalization of lines of bfloat16. */
#define CSDF_OF_BF16 1
#include "normalize.h"

void csdf_normalize_bf16(const csdf_normalize_step *step) { normalize(step); }
void csdf_normalize_bf16_of(const void *step) { csdf_normalize_bf16(step); }
