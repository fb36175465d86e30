/* Maps of bfloat16, element by element. */
#define CSDF_OF_BF16 1
#include "maps.h"

void csdf_map_bf16(const csdf_map_step *step) { map(step); }
void csdf_map_bf16_of(const void *step) { csdf_map_bf16(step); }
