/* Maps of float16, element by element. */
#define CSDF_OF_F16 1
#include "maps.h"

void csdf_map_f16(const csdf_map_step *step) { map(step); }
void csdf_map_f16_of(const void *step) { csdf_map_f16(step); }
