/* Threads that run a program together: stages of it, one after the other, each shared out.
 *
 * The only file that needs an operating system; programs for boards leave it out. Threads wait for
 * a stage in a loop for a while, since the next one is mostly some microseconds away, and then sleep.
 */
#define _POSIX_C_SOURCE 200112L
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { SPINS = 4000, YIELD = 64 };

struct csdf_pool {
    pthread_t threads[CSDF_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t work;
    int32_t count;         /* threads beside the one that calls */
    int32_t started;
    const csdf_stage *stage;
    uint32_t turn;         /* stages handed out so far */
    int32_t busy;          /* threads that have not done with the stage */
    int32_t sleeping;
    int32_t ending;
};

typedef struct member {
    csdf_pool *pool;
    int32_t number;
} member;

static void do_part(const csdf_stage *stage, int32_t part)
{
    if (part < stage->parts)
        csdf_run(stage->records + stage->first[part], stage->first[part + 1] - stage->first[part]);
}

/* Whether there is a turn after `seen`; waits for one. */
static uint32_t await(csdf_pool *pool, uint32_t seen)
{
    for (int32_t i = 0; i < SPINS; i++) {
        const uint32_t turn = __atomic_load_n(&pool->turn, __ATOMIC_ACQUIRE);
        if (turn != seen)
            return turn;
        if (i % YIELD == YIELD - 1)
            sched_yield();
    }
    pthread_mutex_lock(&pool->lock);
    __atomic_add_fetch(&pool->sleeping, 1, __ATOMIC_SEQ_CST);
    uint32_t turn;
    while ((turn = __atomic_load_n(&pool->turn, __ATOMIC_SEQ_CST)) == seen)
        pthread_cond_wait(&pool->work, &pool->lock);
    __atomic_sub_fetch(&pool->sleeping, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&pool->lock);
    return turn;
}

static void *serve(void *given)
{
    const member me = *(member *)given;
    csdf_pool *pool = me.pool;
    uint32_t seen = 0;
    free(given);
    for (;;) {
        seen = await(pool, seen);
        if (pool->ending)
            return NULL;
        do_part(pool->stage, me.number);
        __atomic_sub_fetch(&pool->busy, 1, __ATOMIC_ACQ_REL);
    }
}

/* The next turn begins for everybody who waits. */
static void call(csdf_pool *pool)
{
    __atomic_add_fetch(&pool->turn, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool->sleeping, __ATOMIC_SEQ_CST)) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->work);
        pthread_mutex_unlock(&pool->lock);
    }
}

csdf_pool *csdf_pool_new(int32_t threads)
{
    csdf_pool *pool = calloc(1, sizeof *pool);
    if (!pool || threads < 1 || threads > CSDF_THREADS) {
        free(pool);
        return NULL;
    }
    pool->count = threads - 1;
    if (pthread_mutex_init(&pool->lock, NULL) || pthread_cond_init(&pool->work, NULL)) {
        free(pool);
        return NULL;
    }
    for (; pool->started < pool->count; pool->started++) {
        member *one = malloc(sizeof *one);
        if (!one)
            break;
        one->pool = pool;
        one->number = pool->started + 1;
        if (pthread_create(&pool->threads[pool->started], NULL, serve, one)) {
            free(one);
            break;
        }
    }
    if (pool->started < pool->count) {
        csdf_pool_end(pool);
        return NULL;
    }
    return pool;
}

void csdf_pool_end(csdf_pool *pool)
{
    pool->ending = 1;
    call(pool);
    for (int32_t i = 0; i < pool->started; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void csdf_pool_run(csdf_pool *pool, const csdf_stage *stages, int32_t count)
{
    for (const csdf_stage *stage = stages; stage < stages + count; stage++) {
        if (stage->parts < 2) {
            do_part(stage, 0);
            continue;
        }
        pool->stage = stage;
        __atomic_store_n(&pool->busy, pool->count, __ATOMIC_RELEASE);
        call(pool);
        do_part(stage, 0);
        for (int32_t i = 1; __atomic_load_n(&pool->busy, __ATOMIC_ACQUIRE); i++)
            if (i % YIELD == 0)
                sched_yield();
    }
}
