/* Normalization of lines of float16. */
#define CSDF_OF_F16 1
#include "normalize.h"

void csdf_normalize_f16(const csdf_normalize_step *step) { normalize(step); }
void csdf_normalize_f16_of(const void *step) { csdf_normalize_f16(step); }
