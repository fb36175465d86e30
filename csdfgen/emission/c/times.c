/* Times the firings of every actor, heights in turn, and writes a result for csdfgen profile --import.
 *
 *     NAME_times -o RESULT [-n FRAMES]
 *
 * Without -n so many frames of every height as csdfgen profile measures, and on for a second. */
#if defined(__unix__) || defined(__APPLE__)
#define _DEFAULT_SOURCE 1
#define _DARWIN_C_SOURCE 1
#endif

#include "times.h"

#include <stddef.h>
#include <string.h>

enum { FRAMES = 11, MOST = 1000, WARM_UP = 2, READINGS = 64, BATCHES = 16 };

static int32_t frames_of(const char *text)
{
    int32_t number = 0;
    for (; *text >= '0' && *text <= '9' && number < 100000; text++)
        number = 10 * number + (*text - '0');
    return *text == '\0' ? number : 0;
}

static char *digits(uint64_t number, char *end)
{
    *end = '\0';
    do
        *--end = (char)('0' + number % 10);
    while (number /= 10);
    return end;
}

static int good = 1;
static void put(const char *text);

static void put_number(uint64_t number)
{
    char text[24];
    put(digits(number, text + sizeof text - 1));
}

#ifdef TIMES_CLOCK_HZ /* --- a bare machine ------------------------------------------------------ */

#include "board.h"

static const uint64_t second = TIMES_CLOCK_HZ;
static int32_t file;

uint64_t times_now(void)
{
    return board_ticks();
}

static void put(const char *text)
{
    good &= board_store(file, text, (uint32_t)strlen(text));
}

static int created(const char *path)
{
    board_clock_start();
    file = board_create(path);
    return file != 0;
}

static int closed(void)
{
    return board_close(file);
}

static void complain(const char *what)
{
    board_say(what);
    board_say("\n");
}

static void put_machine(void)
{
    put("\"memory\": ");
    put_number(board_ram_bytes());
    put(", \"usable\": ");
    put_number(board_ram_bytes() - board_stack_bytes());
    put(", \"constants\": ");
    put_number(board_constant_bytes());
    put(", \"cores\": 1, \"clock\": \"SysTick, cycles of the processor\"");
    put(", \"stack used\": ");
    put_number(board_stack_used());
}

#else /* --- an operating system ------------------------------------------------------------------- */

#include <stdio.h>
#include <time.h>
#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

static FILE *file;

#ifdef CLOCK_MONOTONIC
static const uint64_t second = 1000000000u;

uint64_t times_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * second + (uint64_t)now.tv_nsec;
}
#else
static const uint64_t second = (uint64_t)CLOCKS_PER_SEC;

uint64_t times_now(void)
{
    return (uint64_t)clock();
}
#endif

static void put(const char *text)
{
    good &= fputs(text, file) >= 0;
}

static int created(const char *path)
{
    file = fopen(path, "w");
    return file != NULL;
}

static int closed(void)
{
    return fclose(file) == 0;
}

static void complain(const char *what)
{
    fprintf(stderr, "%s\n", what);
}

/* The first line of a file, or of it what stands behind a colon in the line that begins so. */
static void put_line(const char *name, const char *path, const char *begin)
{
    char line[200];
    FILE *from = fopen(path, "r");
    const char *text = NULL;
    while (from != NULL && text == NULL && fgets(line, sizeof line, from) != NULL)
        if (strncmp(line, begin, strlen(begin)) == 0)
            text = *begin ? strchr(line, ':') : line;
    if (from != NULL)
        fclose(from);
    if (text == NULL)
        return;
    put(", \"");
    put(name);
    put("\": \"");
    for (text += *text == ':'; *text == ' ' || *text == '\t'; text++)
        ;
    for (; *text != '\0' && *text != '\n'; text++) {
        const char plain[2] = {*text, '\0'};
        put(*text < ' ' || *text > '~' || *text == '"' || *text == '\\' ? "_" : plain);
    }
    put("\"");
}

static uint64_t told(long number)
{
    return number > 0 ? (uint64_t)number : 0;
}

static void put_machine(void)
{
    uint64_t memory = 0, usable = 0, cores = 1;
#if defined(_SC_PHYS_PAGES) && defined(_SC_PAGESIZE)
    const uint64_t page = told(sysconf(_SC_PAGESIZE));
    memory = usable = told(sysconf(_SC_PHYS_PAGES)) * page;
#ifdef _SC_AVPHYS_PAGES
    usable = told(sysconf(_SC_AVPHYS_PAGES)) * page;
#endif
#endif
#ifdef _SC_NPROCESSORS_ONLN
    cores = told(sysconf(_SC_NPROCESSORS_ONLN));
#endif
    put("\"memory\": ");
    put_number(memory);
    put(", \"usable\": ");
    put_number(usable);
    put(", \"constants\": 0, \"cores\": ");
    put_number(cores ? cores : 1);
    put(", \"clock\": \"time of day\"");
    put_line("board", "/proc/device-tree/model", "");
    put_line("cpu", "/proc/cpuinfo", "model name");
    put_line("governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "");
    put_line("kHz", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "");
    put_line("load", "/proc/loadavg", "");
}

#endif

#if defined(__VERSION__) && !defined(__clang__)
#define COMPILER "gcc " __VERSION__
#elif defined(__VERSION__)
#define COMPILER __VERSION__
#else
#define COMPILER "not told"
#endif

static void put_all(const char *const *texts)
{
    for (; *texts != NULL; texts++)
        put(*texts);
}

/* Ticks that a reading of the clock takes: the least of some batches. */
static uint64_t reading(void)
{
    uint64_t least = ~(uint64_t)0;
    for (int32_t batch = 0; batch < BATCHES; batch++) {
        const uint64_t start = times_now();
        for (int32_t k = 0; k < READINGS; k++)
            (void)times_now();
        const uint64_t taken = times_now() - start;
        least = taken < least ? taken : least;
    }
    return least / READINGS;
}

/* A frame without readings and one with them, each behind one of its own: [plan, plain, timed, [ticks]] */
static void put_frames(int32_t number, const char *separator)
{
    const times_plan *plan = times_plans + number;
    plan->frame(NULL);
    uint64_t start = times_now();
    plan->frame(NULL);
    const uint64_t plain = times_now() - start;
    for (int32_t k = 0; k < plan->actors; k++)
        times_ticks[k] = 0;
    start = times_now();
    plan->frame(times_ticks);
    const uint64_t timed = times_now() - start;
    put(separator);
    put("\n  [");
    put_number((uint64_t)number);
    put(", ");
    put_number(plain);
    put(", ");
    put_number(timed);
    for (int32_t k = 0; k < plan->actors; k++) {
        put(k ? ", " : ", [");
        put_number(times_ticks[k]);
    }
    put("]]");
}

int main(int count, char **words)
{
    const char *out = count >= 3 && strcmp(words[1], "-o") == 0 ? words[2] : NULL;
    const int exact = count == 5 && strcmp(words[3], "-n") == 0;
    const int32_t frames = exact ? frames_of(words[4]) : FRAMES;
    if (out == NULL || frames == 0 || (count != 3 && !exact)) {
        complain("usage: -o RESULT [-n FRAMES]");
        return 2;
    }
    if (!created(out)) {
        complain("the result cannot be written");
        return 1;
    }
    put("{\n");
    put_all(times_about);
    put(",\n \"compiler\": \"" COMPILER "\",\n \"heights\": [");
    uint64_t difference = 0;
    for (int32_t number = 0; number < times_plan_count; number++) {
        put(number ? "},\n  {" : "\n  {");
        put_all(times_plans[number].about);
        times_inputs();
        for (int32_t k = 0; k < WARM_UP; k++)
            times_plans[number].frame(NULL);
        const uint64_t here = times_difference();
        difference = here > difference ? here : difference;
    }
    put("}],\n \"difference\": ");
    put_number(difference);
    put(",\n \"ticks a second\": ");
    put_number(second);
    put(",\n \"reading\": ");
    put_number(reading());
    put(",\n \"frames\": [");
    const uint64_t start = times_now();
    for (int32_t round = 0; round < frames || (!exact && round < MOST && times_now() - start < second);
         round++)
        for (int32_t number = 0; number < times_plan_count; number++)
            put_frames(number, round || number ? "," : "");
    put("],\n \"machine\": {");
    put_machine();
    put("}\n}\n");
    if (!closed() || !good) {
        complain("the result cannot be written");
        return 1;
    }
    if (difference > 1000)
        complain("outputs are not those that csdfgen computed");
    return difference > 1000;
}
