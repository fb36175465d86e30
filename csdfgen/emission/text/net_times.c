/* What is timed of @title@. */
#include "@name@_times.h"

#include <stddef.h>

#ifdef __GNUC__
__attribute__((aligned(64)))
#endif
times_arena @name@_times_arena;

static struct {
@members@
} data;

void times_inputs(void)
{
@for inputs@
    for (size_t k = 0; k < @size@; k++)
        data.@word@[k] = @value@;
@end@
}

static double distance(double a, double b)
{
    return a < b ? b - a : a - b;
}

uint64_t times_difference(void)
{
    double most = distance(0, 0);
@for expected@
    {
        static const @type@ wanted[@count@] = {
            @values@
        };
        for (size_t k = 0; k < @count@; k++) {
            const double here = distance((double)data.@word@[k * @step@], (double)wanted[k]) / @largest@;
            most = here <= most ? most : here;
            if (!(here < 4e9))
                return 4000000000u;
        }
    }
@end@
    return most < 4e3 ? (uint64_t)(1e6 * most + 0.5) : 4000000000u;
}

@for plans@
static void frame_@number@(uint64_t *ticks)
{
    @timed@_timed(@arguments@);
}

static const char *const about_@number@[] = {
    @about@
    NULL,
};

@end@
const char *const times_about[] = {
    @about@
    NULL,
};

uint64_t times_ticks[@most_actors@];

const int32_t times_plan_count = @plan_count@;
const times_plan times_plans[@plan_count@] = {
@for plans@
    {frame_@number@, about_@number@, @actors@},
@end@
};
