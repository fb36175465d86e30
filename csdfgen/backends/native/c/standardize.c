/* Normalization of maps of floats. */
#include "standardize.h"

void csdf_standardize(const csdf_standardize_step *step) { standardize(step); }
void csdf_standardize_of(const void *step) { csdf_standardize(step); }
