/* Products of matrices of floats. */
#include "multiply.h"

void csdf_multiply(const csdf_multiply_step *step) { multiply(step); }
void csdf_multiply_of(const void *step) { csdf_multiply(step); }
