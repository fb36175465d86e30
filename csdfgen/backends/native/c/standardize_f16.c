/* Normalization of maps of float16. */
#define CSDF_OF_F16 1
#include "standardize.h"

void csdf_standardize_f16(const csdf_standardize_step *step) { standardize(step); }
void csdf_standardize_f16_of(const void *step) { csdf_standardize_f16(step); }
