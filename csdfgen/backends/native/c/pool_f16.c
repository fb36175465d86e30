/* Windows of maps of float16. */
#define CSDF_OF_F16 1
#include "pool.h"

void csdf_pool_f16(const csdf_pool_step *step) { pool(step); }
void csdf_pool_f16_of(const void *step) { csdf_pool_f16(step); }
