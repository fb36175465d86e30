/* Direct convolution of float16. */
#define CSDF_OF_F16 1
#include "conv_halves.h"

void csdf_conv_f16(const csdf_conv_step *step) { conv_halves(step, csdf_reach_of(step)); }
void csdf_conv_f16_of(const void *step) { csdf_conv_f16(step); }
