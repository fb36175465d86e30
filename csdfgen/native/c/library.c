/* What was built? So that who loads a library can tell whether it is the one it was made for. */
#include "csdf.h"
#include "team.h"
#include "simd.h"

const char *csdf_instructions(void) { return CSDF_ISA; }

int32_t csdf_version(void) { return CSDF_VERSION; }

size_t csdf_size_of(int32_t which)
{
    switch (which) {
    case 0:
        return sizeof(csdf_layer);
    case 1:
        return sizeof(csdf_conv_step);
    case 2:
        return sizeof(csdf_gemm_step);
    case 3:
        return sizeof(csdf_strided);
    case 4:
        return sizeof(csdf_dim);
    case 5:
        return sizeof(csdf_record);
    case 6:
        return sizeof(csdf_port);
    case 7:
        return sizeof(csdf_transfer);
    case 8:
        return sizeof(csdf_stage);
    case 9:
        return sizeof(csdf_map_step);
    case 10:
        return sizeof(csdf_pool_step);
    default:
        return 0;
    }
}
