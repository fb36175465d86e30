/* Threads that run a program together: sections of it, one after the other, each shared out.
 *
 * The only file that needs an operating system; programs for boards leave it out. Threads wait for
 * a section in a loop for a while, since the next one is mostly some microseconds away, and then sleep.
 */
#define _POSIX_C_SOURCE 200112L
#include "team.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { SPINS = 4000, YIELD = 64 };

struct csdf_team {
    pthread_t threads[CSDF_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t work;
    int32_t count;         /* threads beside the one that calls */
    int32_t started;
    const csdf_section *section;
    uint32_t turn;         /* sections handed out so far */
    int32_t busy;          /* threads that have not done with the section */
    int32_t sleeping;
    int32_t ending;
};

void csdf_await(const csdf_signal *step)
{
    for (int32_t i = 1; __atomic_load_n(step->counter, __ATOMIC_ACQUIRE) < step->count; i++)
        if (i % YIELD == 0)
            sched_yield();
}

void csdf_post(const csdf_signal *step) { __atomic_store_n(step->counter, step->count, __ATOMIC_RELEASE); }

void csdf_await_of(const void *step) { csdf_await(step); }
void csdf_post_of(const void *step) { csdf_post(step); }

typedef struct member {
    csdf_team *team;
    int32_t number;
} member;

static void do_part(const csdf_section *section, int32_t part)
{
    if (part < section->parts)
        csdf_run(section->records + section->first[part], section->first[part + 1] - section->first[part]);
}

/* Whether there is a turn after `seen`; waits for one. */
static uint32_t await(csdf_team *team, uint32_t seen)
{
    for (int32_t i = 0; i < SPINS; i++) {
        const uint32_t turn = __atomic_load_n(&team->turn, __ATOMIC_ACQUIRE);
        if (turn != seen)
            return turn;
        if (i % YIELD == YIELD - 1)
            sched_yield();
    }
    pthread_mutex_lock(&team->lock);
    __atomic_add_fetch(&team->sleeping, 1, __ATOMIC_SEQ_CST);
    uint32_t turn;
    while ((turn = __atomic_load_n(&team->turn, __ATOMIC_SEQ_CST)) == seen)
        pthread_cond_wait(&team->work, &team->lock);
    __atomic_sub_fetch(&team->sleeping, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&team->lock);
    return turn;
}

static void *serve(void *given)
{
    const member me = *(member *)given;
    csdf_team *team = me.team;
    uint32_t seen = 0;
    free(given);
    for (;;) {
        seen = await(team, seen);
        if (team->ending)
            return NULL;
        do_part(team->section, me.number);
        __atomic_sub_fetch(&team->busy, 1, __ATOMIC_ACQ_REL);
    }
}

/* The next turn begins for everybody who waits. */
static void call(csdf_team *team)
{
    __atomic_add_fetch(&team->turn, 1, __ATOMIC_SEQ_CST);
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
    for (; team->started < team->count; team->started++) {
        member *one = malloc(sizeof *one);
        if (!one)
            break;
        one->team = team;
        one->number = team->started + 1;
        if (pthread_create(&team->threads[team->started], NULL, serve, one)) {
            free(one);
            break;
        }
    }
    if (team->started < team->count) {
        csdf_team_end(team);
        return NULL;
    }
    return team;
}

void csdf_team_end(csdf_team *team)
{
    team->ending = 1;
    call(team);
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
        team->section = section;
        __atomic_store_n(&team->busy, team->count, __ATOMIC_RELEASE);
        call(team);
        do_part(section, 0);
        for (int32_t i = 1; __atomic_load_n(&team->busy, __ATOMIC_ACQUIRE); i++)
            if (i % YIELD == 0)
                sched_yield();
    }
}
