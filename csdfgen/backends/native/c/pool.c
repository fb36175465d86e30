/* Windows of maps of floats. */
#include "pool.h"

void csdf_pool(const csdf_pool_step *step) { pool(step); }
void csdf_pool_of(const void *step) { csdf_pool(step); }
