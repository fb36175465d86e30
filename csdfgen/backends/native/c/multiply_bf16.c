/* Products of matrices of bfloat16. */
#define CSDF_OF_BF16 1
#include "multiply.h"

void csdf_matrices_bf16(const csdf_multiply_step *step) { multiply(step); }
void csdf_matrices_bf16_of(const void *step) { csdf_matrices_bf16(step); }
