/* Threads that run a program together: sections of it, one after the other, each shared out.
 *
 * The only file that needs an operating system; programs for boards leave it out. Threads wait for
 * a section in a loop for a while, since the next one is mostly some microseconds away, and then sleep.
 */
#define _POSIX_C_SOURCE 200112L
#include "team.h"

#include "simd.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { SPINS = 2000, YIELD = 64 };

/* A turn of a loop that waits. Two threads of a core share what it computes with: one that waits at full speed takes half of
 * it from the one that it waits for. */
static void relax(int32_t turn)
{
    CSDF_PAUSE();
    if (turn % YIELD == YIELD - 1)
        sched_yield();
}

struct csdf_team {
    pthread_t threads[CSDF_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t work;
    int32_t count;         /* threads beside the one that calls */
    int32_t started;
    const csdf_section *section;
    uint64_t ticket;       /* sections handed out so far, and parts of the last one: how many, and the next to be taken */
    int32_t done;          /* parts of the section that have ended */
    int32_t sleeping;
    int32_t ending;
};

void csdf_await(const csdf_signal *step)
{
    for (int32_t i = 0; __atomic_load_n(step->counter, __ATOMIC_ACQUIRE) < step->count; i++)
        relax(i);
}

void csdf_post(const csdf_signal *step) { __atomic_store_n(step->counter, step->count, __ATOMIC_RELEASE); }

void csdf_await_of(const void *step) { csdf_await(step); }
void csdf_post_of(const void *step) { csdf_post(step); }

enum { PARTS = 16, TURN = 32, MASK = (1 << PARTS) - 1 };

static void do_part(const csdf_section *section, int32_t part)
{
    csdf_run(section->records + section->first[part], section->first[part + 1] - section->first[part]);
}

/* Takes parts of the section while there are any: whoever is there first, so that nobody waits for a thread
 * that has no processor. Returns the turn of the last ticket. While a part of a section is left to be taken, the
 * next section has not begun, so that the ticket that is exchanged belongs to the section that was read. */
static uint32_t do_parts(csdf_team *team)
{
    for (;;) {
        uint64_t ticket = __atomic_load_n(&team->ticket, __ATOMIC_ACQUIRE);
        const int32_t part = (int32_t)(ticket & MASK), parts = (int32_t)(ticket >> PARTS & MASK);
        const csdf_section *section = __atomic_load_n(&team->section, __ATOMIC_RELAXED);
        if (part >= parts)
            return (uint32_t)(ticket >> TURN);
        if (__atomic_compare_exchange_n(&team->ticket, &ticket, ticket + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            do_part(section, part);
            __atomic_add_fetch(&team->done, 1, __ATOMIC_RELEASE);
        }
    }
}

static uint32_t turn_of(csdf_team *team) { return (uint32_t)(__atomic_load_n(&team->ticket, __ATOMIC_SEQ_CST) >> TURN); }

/* Waits for a turn after `seen`. */
static void await(csdf_team *team, uint32_t seen)
{
    for (int32_t i = 0; i < SPINS; i++) {
        if (turn_of(team) != seen)
            return;
        relax(i);
    }
    pthread_mutex_lock(&team->lock);
    __atomic_add_fetch(&team->sleeping, 1, __ATOMIC_SEQ_CST);
    while (turn_of(team) == seen)
        pthread_cond_wait(&team->work, &team->lock);
    __atomic_sub_fetch(&team->sleeping, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&team->lock);
}

static void *serve(void *given)
{
    csdf_team *team = given;
    uint32_t seen = 0;
    for (;;) {
        await(team, seen);
        if (__atomic_load_n(&team->ending, __ATOMIC_ACQUIRE))
            return NULL;
        seen = do_parts(team);
    }
}

/* The next turn begins for everybody who waits, with so many parts. */
static void call(csdf_team *team, int32_t parts)
{
    const uint64_t turn = (team->ticket >> TURN) + 1;
    __atomic_store_n(&team->ticket, turn << TURN | (uint64_t)parts << PARTS, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&team->sleeping, __ATOMIC_SEQ_CST)) {
        pthread_mutex_lock(&team->lock);
        pthread_cond_broadcast(&team->work);
        pthread_mutex_unlock(&team->lock);
    }
}

csdf_team *csdf_team_new(int32_t threads)
{
    csdf_team *team = calloc(1, sizeof *team);
    if (!team || threads < 1 || threads > CSDF_THREADS) {
        free(team);
        return NULL;
    }
    team->count = threads - 1;
    if (pthread_mutex_init(&team->lock, NULL) || pthread_cond_init(&team->work, NULL)) {
        free(team);
        return NULL;
    }
    while (team->started < team->count && !pthread_create(&team->threads[team->started], NULL, serve, team))
        team->started++;
    if (team->started < team->count) {
        csdf_team_end(team);
        return NULL;
    }
    return team;
}

void csdf_team_end(csdf_team *team)
{
    __atomic_store_n(&team->ending, 1, __ATOMIC_RELEASE);
    call(team, 0);
    for (int32_t i = 0; i < team->started; i++)
        pthread_join(team->threads[i], NULL);
    pthread_cond_destroy(&team->work);
    pthread_mutex_destroy(&team->lock);
    free(team);
}

void csdf_team_run(csdf_team *team, const csdf_section *sections, int32_t count)
{
    for (const csdf_section *section = sections; section < sections + count; section++) {
        if (section->parts < 2) {
            do_part(section, 0);
            continue;
        }
        __atomic_store_n(&team->section, section, __ATOMIC_RELAXED);
        __atomic_store_n(&team->done, 0, __ATOMIC_RELAXED);
        call(team, section->parts);
        do_parts(team);
        for (int32_t i = 0; __atomic_load_n(&team->done, __ATOMIC_ACQUIRE) < section->parts; i++)
            relax(i);
    }
}
