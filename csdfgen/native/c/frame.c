/* A program is a table of kernels and what they are to work on. */
#include "csdf.h"

void csdf_run(const csdf_record *records, int32_t count)
{
    for (const csdf_record *end = records + count; records < end; records++)
        records->kernel(records->step);
}

void csdf_conv_of(const void *step) { csdf_conv(step); }
void csdf_depthwise_of(const void *step) { csdf_depthwise(step); }
void csdf_winograd_of(const void *step) { csdf_winograd(step); }
void csdf_gemm_of(const void *step) { csdf_gemm(step); }
