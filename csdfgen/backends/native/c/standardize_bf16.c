/* Normalization of maps of bfloat16. */
#define CSDF_OF_BF16 1
#include "standardize.h"

void csdf_standardize_bf16(const csdf_standardize_step *step) { standardize(step); }
void csdf_standardize_bf16_of(const void *step) { csdf_standardize_bf16(step); }
