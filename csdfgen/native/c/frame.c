/* A program is a table of kernels and what they are to work on. */
#include "csdf.h"

void csdf_run(const csdf_record *records, int32_t count)
{
    for (const csdf_record *end = records + count; records < end; records++)
        records->kernel(records->step);
}
