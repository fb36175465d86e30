/* Threads that run a program together. */
#ifndef CSDF_TEAM_H
#define CSDF_TEAM_H

#include "csdf.h"

enum { CSDF_THREADS = 64 };

/* Part k of a section is the records [first[k], first[k + 1]); the parts touch nothing that another one
 * writes. A section begins when the one before it has ended. */
typedef struct csdf_section {
    const csdf_record *records;
    const int32_t *first;
    int32_t parts;
} csdf_section;

/* A counter of the firings that a part of a section has done, by which another part waits for it. */
typedef struct csdf_signal {
    int32_t *counter;
    int32_t count;
} csdf_signal;

/* Returns when the counter has reached the count: what was written before it was set may then be read. */
void csdf_await(const csdf_signal *step);

/* Sets the counter. */
void csdf_post(const csdf_signal *step);

void csdf_await_of(const void *step);
void csdf_post_of(const void *step);

typedef struct csdf_team csdf_team;

/* A team of `threads` threads, the one that calls csdf_team_run among them; NULL if there are not so
 * many to be had. */
csdf_team *csdf_team_new(int32_t threads);
void csdf_team_end(csdf_team *team);

/* Parts are taken by the threads that are free, the one that calls among them; parts that wait for each other (csdf_await)
 * need a thread each. One call at a time. */
void csdf_team_run(csdf_team *team, const csdf_section *sections, int32_t count);

#endif
