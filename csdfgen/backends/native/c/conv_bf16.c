/* Direct convolution of bfloat16. */
#include "conv_halves.h"

void csdf_conv_bf16(const csdf_conv_step *step) { conv_halves(step, csdf_reach_of(step)); }
void csdf_conv_bf16_of(const void *step) { csdf_conv_bf16(step); }
