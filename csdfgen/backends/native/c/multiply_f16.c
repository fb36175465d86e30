/* Products of matrices of float16. */
#define CSDF_OF_F16 1
#include "multiply.h"

void csdf_matrices_f16(const csdf_multiply_step *step) { multiply(step); }
void csdf_matrices_f16_of(const void *step) { csdf_matrices_f16(step); }
