/* Normalization of lines of floats. */
#include "normalize.h"

void csdf_normalize(const csdf_normalize_step *step) { normalize(step); }
void csdf_normalize_of(const void *step) { csdf_normalize(step); }
