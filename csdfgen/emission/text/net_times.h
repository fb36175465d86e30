#ifndef @macro@_TIMES_H
#define @macro@_TIMES_H

#include "@name@.h"
#include "times.h"

/* The arena of the plan that runs. */
typedef union times_arena {
    unsigned char bytes[@bytes@];
    float floats[1];
    double doubles[1];
    int64_t integers[1];
} times_arena;

extern times_arena @name@_times_arena;

@for plans@
@called@;
@end@

#endif
