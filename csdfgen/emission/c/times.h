/* What is timed: plans of one network at several slab heights. */
#ifndef TIMES_H
#define TIMES_H

#include <stdint.h>

/* frame: runs one; ticks: NULL, or a number for each actor, to which is added what its firings take.
 * about: what the result says of it, JSON in pieces, NULL behind the last. */
typedef struct times_plan {
    void (*frame)(uint64_t *ticks);
    const char *const *about;
    int32_t actors;
} times_plan;

extern const times_plan times_plans[];
extern const int32_t times_plan_count;

/* The same of the network. */
extern const char *const times_about[];

/* Room for the ticks of a frame. */
extern uint64_t times_ticks[];

/* Fills the inputs. */
void times_inputs(void);

/* How far the outputs are from those that csdfgen computed, in millionths of their largest value. */
uint64_t times_difference(void);

/* The clock, in units that the result names. */
uint64_t times_now(void);

#endif
