/* The turns of a loop, whose body is a program. */
#include "csdf.h"

static void copy_rows(const csdf_turn_rows *rows, int32_t count, ptrdiff_t turn)
{
    for (const csdf_turn_rows *end = rows + count; rows < end; rows++) {
        csdf_strided copy = rows->copy;
        if (rows->written)
            copy.out = (char *)copy.out + turn * rows->stride;
        else
            copy.a = (const char *)copy.a + turn * rows->stride;
        rows->kernel(&copy);
    }
}

void csdf_turns(const csdf_turns_step *step)
{
    for (ptrdiff_t turn = 0; turn != step->turns && (!step->going || *step->going); turn++) {
        copy_rows(step->before, step->before_count, turn);
        for (const csdf_record *one = step->body, *end = one + step->body_count; one < end; one++)
            one->kernel(one->step);
        copy_rows(step->behind, step->behind_count, turn);
    }
}

void csdf_turns_of(const void *step) { csdf_turns(step); }
