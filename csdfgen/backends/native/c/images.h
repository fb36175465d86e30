/* Which row of its tables does an output row of a convolution begin to read? One for images that lie one
 * behind the other in the tables (csdf_conv_step, csdf_byte_conv_step). */
#ifndef CSDF_IMAGES_H
#define CSDF_IMAGES_H

#include <stdint.h>

static inline int32_t csdf_first_row(int32_t row, int32_t stride, int32_t each, int32_t apart)
{
    return each ? row / each * apart + row % each * stride : row * stride;
}

#endif
