/* Depthwise convolution of floats. */
#include "depthwise.h"

void csdf_depthwise(const csdf_conv_step *step) { depthwise(step); }
void csdf_depthwise_of(const void *step) { csdf_depthwise(step); }
