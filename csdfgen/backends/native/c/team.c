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
#include <time.h>

enum { PATIENCE = 1000000 /* nanoseconds */, YIELD = 64, PARTS = 8, LINE = 128 };

/* A turn of a loop that waits. Two threads of a core share what it computes with: one that waits at full speed takes half of
 * it from the one that it waits for. */
static void relax(int32_t turn)
{
    CSDF_PAUSE();
    if (turn % YIELD == YIELD - 1)
        sched_yield();
}

/* A thread, and the part of a section that is its own unless another thread is there first: the last turn in which that part was
 * taken, and in which it ended. On lines of cache of its own. */
typedef struct own_part {
    uint64_t taken, done;
    pthread_t thread;
    csdf_team *team;
    char apart[LINE - 2 * sizeof(uint64_t) - sizeof(pthread_t) - sizeof(csdf_team *)];
} own_part;

struct csdf_team {
    own_part parts[CSDF_THREADS]; /* the first one is of the thread that calls */
    const csdf_section *section;
    uint64_t ticket; /* the turn of the last section that was handed out, and how many parts it has */
    char apart[LINE];
    pthread_mutex_t lock;
    pthread_cond_t work;
    int32_t count; /* threads, with the one that calls */
    int32_t started;
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

static void do_part(const csdf_section *section, int32_t part)
{
    csdf_run(section->records + section->first[part], section->first[part + 1] - section->first[part]);
}

/* Takes the own part of the section that was handed out last, then others that are left: so nobody waits for a thread that has
 * no processor, and a thread meets the columns and channels that it had before. Returns the turn. A part that is taken keeps
 * its section from ending, so that it is the section that is read then. */
static uint64_t do_parts(csdf_team *team, int32_t own)
{
    const uint64_t ticket = __atomic_load_n(&team->ticket, __ATOMIC_ACQUIRE), turn = ticket >> PARTS;
    const int32_t parts = (int32_t)(ticket & ((1 << PARTS) - 1));
    for (int32_t k = 0; k < parts; k++) {
        const int32_t part = (own + k) % parts;
        uint64_t last = __atomic_load_n(&team->parts[part].taken, __ATOMIC_RELAXED);
        if (last < turn
            && __atomic_compare_exchange_n(&team->parts[part].taken, &last, turn, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            do_part(__atomic_load_n(&team->section, __ATOMIC_RELAXED), part);
            __atomic_store_n(&team->parts[part].done, turn, __ATOMIC_RELEASE);
        }
    }
    return turn;
}

static uint64_t turn_of(csdf_team *team) { return __atomic_load_n(&team->ticket, __ATOMIC_SEQ_CST) >> PARTS; }

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * (int64_t)1000000000 + now.tv_nsec;
}

/* Waits for a turn after `seen`. */
static void await(csdf_team *team, uint64_t seen)
{
    const int64_t end = nanoseconds() + PATIENCE;
    for (int32_t i = 0; i % YIELD || nanoseconds() < end; i++) {
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
    const own_part *own = given;
    csdf_team *team = own->team;
    uint64_t seen = 0;
    for (;;) {
        await(team, seen);
        if (__atomic_load_n(&team->ending, __ATOMIC_ACQUIRE))
            return NULL;
        seen = do_parts(team, (int32_t)(own - team->parts));
    }
}

/* The next turn begins for everybody who waits, with so many parts. */
static uint64_t call(csdf_team *team, int32_t parts)
{
    const uint64_t turn = (team->ticket >> PARTS) + 1;
    __atomic_store_n(&team->ticket, turn << PARTS | (uint64_t)parts, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&team->sleeping, __ATOMIC_SEQ_CST)) {
        pthread_mutex_lock(&team->lock);
        pthread_cond_broadcast(&team->work);
        pthread_mutex_unlock(&team->lock);
    }
    return turn;
}

csdf_team *csdf_team_new(int32_t threads)
{
    csdf_team *team = calloc(1, sizeof *team);
    if (!team || threads < 1 || threads > CSDF_THREADS) {
        free(team);
        return NULL;
    }
    team->count = threads;
    team->started = 1;
    if (pthread_mutex_init(&team->lock, NULL) || pthread_cond_init(&team->work, NULL)) {
        free(team);
        return NULL;
    }
    for (; team->started < team->count; team->started++) {
        own_part *own = &team->parts[team->started];
        own->team = team;
        if (pthread_create(&own->thread, NULL, serve, own))
            break;
    }
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
    for (int32_t i = 1; i < team->started; i++)
        pthread_join(team->parts[i].thread, NULL);
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
        const uint64_t turn = call(team, section->parts);
        do_parts(team, 0);
        for (int32_t part = 0; part < section->parts; part++)
            for (int32_t i = 0; __atomic_load_n(&team->parts[part].done, __ATOMIC_ACQUIRE) < turn; i++)
                relax(i);
    }
}
