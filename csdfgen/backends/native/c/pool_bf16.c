/* Windows of maps of bfloat16. */
#define CSDF_OF_BF16 1
#include "pool.h"

void csdf_pool_bf16(const csdf_pool_step *step) { pool(step); }
void csdf_pool_bf16_of(const void *step) { csdf_pool_bf16(step); }
