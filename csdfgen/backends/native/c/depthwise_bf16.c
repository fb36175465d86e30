/* Depthwise convolution of bfloat16. */
#define CSDF_OF_BF16 1
#include "depthwise.h"

void csdf_depthwise_bf16(const csdf_conv_step *step) { depthwise(step); }
void csdf_depthwise_bf16_of(const void *step) { csdf_depthwise_bf16(step); }
