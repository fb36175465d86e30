/* Two lists of records that a team executes: one fills slots in turn, the other one reads them. */
#include "team.h"

#include <stdio.h>

enum { COUNT = 2000, SLOTS = 3, RECORDS = 2 + 3 * COUNT };

static int32_t slots[SLOTS], counters[2][16], begun[2][16], sum;

typedef struct place {
    int32_t number;
} place;

static void fill(const void *step) { slots[((const place *)step)->number % SLOTS] = ((const place *)step)->number; }
static void nothing(const void *step) { (void)step; }
static void take(const void *step) { sum += slots[((const place *)step)->number % SLOTS]; }

int main(void)
{
    static csdf_record records[2 * RECORDS];
    static csdf_signal waits[2][COUNT], posts[2][COUNT], here[2];
    static place places[COUNT];
    const int32_t first[] = {0, RECORDS, 2 * RECORDS};
    const csdf_section section = {records, first, 2};
    csdf_team *team = csdf_team_new(2);
    for (int32_t who = 0; who < 2; who++) {
        /* each on a thread of its own */
        here[who] = (csdf_signal){begun[who], 1};
        records[who * RECORDS] = (csdf_record){csdf_post_of, &here[who]};
        records[who * RECORDS + 1] = (csdf_record){csdf_await_of, &here[1 - who]};
    }
    for (int32_t k = 0; k < COUNT; k++)
        for (int32_t who = 0; who < 2; who++) {
            csdf_record *at = records + who * RECORDS + 2 + 3 * k;
            places[k].number = k;
            /* what is read has been filled; what is filled again has been read */
            waits[who][k] = (csdf_signal){counters[1 - who], who ? k + 1 : k + 1 - SLOTS};
            posts[who][k] = (csdf_signal){counters[who], k + 1};
            at[0] = (csdf_record){WAITS ? csdf_await_of : nothing, &waits[who][k]};
            at[1] = (csdf_record){who ? take : fill, &places[k]};
            at[2] = (csdf_record){csdf_post_of, &posts[who][k]};
        }
    csdf_team_run(team, &section, 1);
    csdf_team_end(team);
    printf("%d\n", (int)sum);
    return WAITS && sum != COUNT * (COUNT - 1) / 2;
}
