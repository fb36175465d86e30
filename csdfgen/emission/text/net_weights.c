/* Constants of @title@: packed weights, biases, numbers, as words of 32 bits, the lowest
 * byte first. */
#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the constants are for machines that store the lowest byte first"
#endif
#ifdef __GNUC__
#ifdef @macro@_WEIGHTS_SECTION
#define CSDF_PLACED __attribute__((aligned(64), section(@macro@_WEIGHTS_SECTION)))
#else
#define CSDF_PLACED __attribute__((aligned(64)))
#endif
#else
#define CSDF_PLACED
#endif

extern const uint32_t @name@_weights[@count@];
const uint32_t @name@_weights[@count@] CSDF_PLACED = {
@words@
};
