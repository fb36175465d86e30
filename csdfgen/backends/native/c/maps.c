/* Maps of floats, element by element. */
#include "maps.h"

void csdf_map(const csdf_map_step *step) { map(step); }
void csdf_map_of(const void *step) { csdf_map(step); }
