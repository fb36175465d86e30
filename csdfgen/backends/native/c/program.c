/* Compiled programs: a file is mapped, checked, and its places become addresses. csdfgen.lowering.compiled writes it. */
#define _GNU_SOURCE /* dladdr */
#include "csdf.h"
#include "csdfgen.h"
#include "program.h"
#include "team.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every step of a lane can be undone if the word is known, so that no single change of a word goes unnoticed. */
static inline void mix(uint64_t lanes[4], const char *bytes)
{
    uint64_t words[4];
    memcpy(words, bytes, sizeof words);
    for (int k = 0; k < 4; k++) {
        lanes[k] = (lanes[k] ^ words[k]) * UINT64_C(0x9E3779B97F4A7C15);
        lanes[k] ^= lanes[k] >> 29;
    }
}

uint64_t csdf_checksum(const void *bytes, size_t size)
{
    uint64_t lanes[4] = {1, 2, 3, 4}, sum = size;
    const char *at = bytes, *end = at + size / sizeof lanes * sizeof lanes;
    for (; at < end; at += sizeof lanes)
        mix(lanes, at);
    char rest[sizeof lanes] = {0};
    memcpy(rest, at, size % sizeof lanes);
    if (size % sizeof lanes)
        mix(lanes, rest);
    for (int k = 0; k < 4; k++)
        sum = (sum ^ lanes[k]) * UINT64_C(0xBF58476D1CE4E5B9), sum ^= sum >> 31;
    return sum;
}

void csdf_choose(const csdf_choice *step) { step->counts[*step->condition != 0]++; }

void csdf_suspected(const csdf_suspect *step)
{
    const uint64_t magnitude = (UINT64_C(1) << (8 * step->bytes - 1)) - 1;
    for (size_t k = 0; k < step->size; k++) {
        uint64_t bits = 0; /* of which the first bytes are the lowest: compiled programs are little-endian */
        memcpy(&bits, step->values + (ptrdiff_t)k * step->stride, (size_t)step->bytes);
        *step->count += (bits & magnitude) > step->infinity;
    }
}

void csdf_shift_port(const csdf_shift *step)
{
    step->port->base = step->port->base ? (char *)step->port->base + step->bytes : NULL;
}

void csdf_choose_of(const void *step) { csdf_choose(step); }
void csdf_suspected_of(const void *step) { csdf_suspected(step); }
void csdf_shift_port_of(const void *step) { csdf_shift_port(step); }

#if defined __unix__ || defined __APPLE__
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct csdfgen_program {
    char *file, *arena;
    size_t size, room;
    const csdf_program_head *head;
    csdfgen_tensor *tensors;
    csdf_section *sections;
    csdf_team *team;
    int32_t threads;
    pid_t owner; /* of the team: the threads of a parent are not there after a fork */
    void *library;
};

#define SECTION(program, name) ((void *)((program)->file + (program)->head->name.start))

static csdfgen_program *refused(csdfgen_program *program, char *why, size_t size, const char *text, ...)
{
    va_list values;
    va_start(values, text);
    if (size)
        vsnprintf(why, size, text, values);
    va_end(values);
    csdfgen_close(program);
    return NULL;
}

/* Whether `count` elements of a section are in the file, where numbers of 64 bits may be. */
static int inside(const csdf_program_head *head, csdf_program_part part, size_t each)
{
    return part.start % 8 == 0 && part.start <= head->total && part.count <= (head->total - part.start) / each;
}

static const char *word(const csdfgen_program *program, uint64_t at)
{
    return at < program->head->strings.count ? (char *)SECTION(program, strings) + at : NULL;
}

/* Makes a place an address. Returns whether there is such a place. */
static int placed(const csdfgen_program *program, const csdf_program_place *place)
{
    const csdf_program_head *head = program->head;
    const uint64_t limits[] = {head->image.count, head->arena, head->weights.count, head->kernels.count};
    if (place->at % 8 || head->image.count < 8 || place->at > head->image.count - 8 || place->pool > CSDF_OF_KERNELS)
        return 0;
    /* a place behind the last byte is where an empty table is */
    if (place->offset > limits[place->pool] || (place->pool == CSDF_OF_KERNELS && place->offset == limits[place->pool]))
        return 0;
    void *address;
    if (place->pool == CSDF_OF_KERNELS) {
        const char *name = word(program, ((uint64_t *)SECTION(program, kernels))[place->offset]);
        if (!name || strncmp(name, "csdf_", 5) || !(address = dlsym(program->library, name)))
            return 0;
    } else {
        char *bases[] = {SECTION(program, image), program->arena, SECTION(program, weights)};
        address = bases[place->pool] + place->offset;
    }
    memcpy((char *)SECTION(program, image) + place->at, &address, sizeof address);
    return 1;
}

/* A sentence for what is wrong with the order of a program; NULL for nothing. Makes its sections. */
static const char *disordered(csdfgen_program *program)
{
    const csdf_program_head *head = program->head;
    const csdf_program_section *sections = SECTION(program, sections);
    const int32_t *firsts = SECTION(program, firsts);
    const uint64_t records = (head->image.count - head->records) / sizeof(csdf_record);
    for (size_t k = 0; k < head->sections.count; k++) {
        const csdf_program_section *one = sections + k;
        if (one->parts < 1 || one->parts > CSDF_THREADS || one->record > records || one->first >= head->firsts.count ||
            one->parts >= head->firsts.count - one->first)
            return "a section of records is outside of it";
        const int32_t *first = firsts + one->first;
        for (size_t p = 0; p < one->parts; p++)
            if (first[p] < 0 || first[p + 1] < first[p] || (uint64_t)first[p + 1] > records - one->record)
                return "a part is outside of it";
        program->sections[k] = (csdf_section){
            (const csdf_record *)(void *)((char *)SECTION(program, image) + head->records) + one->record, first, (int32_t)one->parts};
        program->threads = program->threads < (int32_t)one->parts ? (int32_t)one->parts : program->threads;
    }
    const csdf_program_run *runs = SECTION(program, runs);
    for (size_t k = 0; k < head->runs.count; k++)
        if (runs[k].first > head->sections.count || runs[k].count > head->sections.count - runs[k].first || runs[k].count > INT32_MAX ||
            runs[k].guard > head->guards.count || runs[k].guards > head->guards.count - runs[k].guard)
            return "a run is outside of it";
    const csdf_program_guard *guards = SECTION(program, guards);
    for (size_t k = 0; k < head->guards.count; k++)
        if (guards[k].at >= head->arena)
            return "a condition is outside of its memory";
    return NULL;
}

/* A sentence for what is wrong with the numbers of a program; NULL for nothing. */
static const char *unsound(csdfgen_program *program)
{
    const csdf_program_head *head = program->head;
    const char *strings = SECTION(program, strings);
    if (!inside(head, head->strings, 1) || !head->strings.count || strings[head->strings.count - 1])
        return "its words have no end";
    if (!inside(head, head->image, 1) || !inside(head, head->weights, 1) || !inside(head, head->kernels, 8) ||
        !inside(head, head->places, sizeof(csdf_program_place)) || !inside(head, head->runs, sizeof(csdf_program_run)) ||
        !inside(head, head->guards, sizeof(csdf_program_guard)) || !inside(head, head->ports, sizeof(csdf_program_port)) ||
        !inside(head, head->tensors, sizeof(csdf_program_tensor)) ||
        !inside(head, head->sections, sizeof(csdf_program_section)) || !inside(head, head->firsts, sizeof(int32_t)))
        return "a section is outside of it";
    if (head->counts.start % 8 || head->counts.start > head->arena || head->counts.count > INT32_MAX ||
        head->counts.count > (head->arena - head->counts.start) / sizeof(int64_t))
        return "its counters are outside of its memory";
    if (head->records % 8 || head->records > head->image.count || head->tensors.count > INT32_MAX || !word(program, head->about))
        return "a place is outside of it";
    const csdf_program_tensor *tensors = SECTION(program, tensors);
    for (size_t k = 0; k < head->tensors.count; k++) {
        uint64_t bytes = tensors[k].each;
        if (!word(program, tensors[k].name) || !word(program, tensors[k].type) || tensors[k].rank > CSDF_RANK || !bytes)
            return "a tensor is none";
        for (size_t d = 0; d < tensors[k].rank; d++) {
            if (tensors[k].sizes[d] < 0 || (tensors[k].sizes[d] && bytes > INT64_MAX / (uint64_t)tensors[k].sizes[d]))
                return "a tensor is too large";
            bytes *= (uint64_t)tensors[k].sizes[d];
        }
        if (tensors[k].constant && (tensors[k].constant - 1 > head->weights.count || bytes > head->weights.count - (tensors[k].constant - 1)))
            return "a constant is outside of it";
        program->tensors[k] = (csdfgen_tensor){
            word(program, tensors[k].name), word(program, tensors[k].type), tensors[k].output != 0,
            (int32_t)tensors[k].rank, tensors[k].sizes, bytes};
    }
    const csdf_program_port *ports = SECTION(program, ports);
    for (size_t k = 0; k < head->ports.count; k++) {
        if (ports[k].tensor >= head->tensors.count || ports[k].at % 8 || head->image.count < sizeof(csdf_port) ||
            ports[k].at > head->image.count - sizeof(csdf_port))
            return "an array is outside of it";
        const uint64_t bytes = program->tensors[ports[k].tensor].bytes;
        if (ports[k].offset > bytes || (head->repeats > 1 && ports[k].step > (bytes - ports[k].offset) / (head->repeats - 1)))
            return "an array is too small";
    }
    const char *wrong = disordered(program);
    if (wrong)
        return wrong;
    const csdf_program_place *places = SECTION(program, places);
    for (size_t k = 0; k < head->places.count; k++)
        if (!placed(program, places + k))
            return "an address is outside of it, or a kernel is missing";
    return NULL;
}

static void start_team(csdfgen_program *program)
{
    program->owner = getpid();
    program->team = program->threads > 1 ? csdf_team_new(program->threads) : NULL;
}

csdfgen_program *csdfgen_open(const char *path, char *why, size_t size)
{
    csdfgen_program *program = calloc(1, sizeof *program);
    if (!program)
        return refused(NULL, why, size, "there is no memory");
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat found;
    if (file < 0 || fstat(file, &found) || !S_ISREG(found.st_mode)) {
        if (file >= 0)
            close(file);
        return refused(program, why, size, "it cannot be read");
    }
    program->size = (size_t)found.st_size;
    if (program->size < sizeof(csdf_program_head)) {
        close(file);
        return refused(program, why, size, "it is no compiled program");
    }
    /* pages of the image become this program's own when addresses are put in; those of constants stay shared */
    program->file = mmap(NULL, program->size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    close(file);
    if (program->file == MAP_FAILED) {
        program->file = NULL;
        return refused(program, why, size, "it cannot be mapped");
    }
    const csdf_program_head *head = program->head = (const csdf_program_head *)program->file;
    if (memcmp(head->word, CSDF_PROGRAM_WORD, sizeof head->word))
        return refused(program, why, size, "it is no compiled program");
    if (head->version != CSDF_VERSION || head->pointer != sizeof(void *))
        return refused(program, why, size, "it was compiled by version %d of the kernels, this is %d; compile the model again",
                       (int)head->version, CSDF_VERSION);
    if (head->total != program->size)
        return refused(program, why, size, "it has %llu bytes, %llu were written", (unsigned long long)program->size,
                       (unsigned long long)head->total);
    const size_t behind = offsetof(csdf_program_head, total);
    if (csdf_checksum(program->file + behind, program->size - behind) != head->checksum)
        return refused(program, why, size, "it is damaged");
    if (csdf_lacking())
        return refused(program, why, size, "these kernels are for processors with %s, which this one does not have; compile the model here",
                       csdf_lacking());
    Dl_info own;
    const char *needed = inside(head, head->strings, 1) ? word(program, head->instructions) : NULL;
    if (!needed || strncmp(needed, csdf_instructions(), head->strings.count - head->instructions))
        return refused(program, why, size, "it was compiled for %.40s, this library is for %s; compile the model here",
                       needed ? needed : "nothing", csdf_instructions());
    union {
        const char *(*function)(void);
        void *address;
    } here = {csdf_instructions};
    if (!dladdr(here.address, &own) || !(program->library = dlopen(own.dli_fname, RTLD_NOW)))
        return refused(program, why, size, "the kernels are in no shared library");
    if (head->arena > SIZE_MAX / 2 || head->tensors.count > program->size || head->sections.count > program->size)
        return refused(program, why, size, "its memory is too large");
    program->room = (size_t)head->arena + 1;
    program->tensors = calloc((size_t)head->tensors.count + 1, sizeof *program->tensors);
    program->sections = calloc((size_t)head->sections.count + 1, sizeof *program->sections);
    void *arena = mmap(NULL, program->room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    program->arena = arena == MAP_FAILED ? NULL : arena;
    if (!program->arena || !program->tensors || !program->sections)
        return refused(program, why, size, "there is no memory for its %llu bytes", (unsigned long long)head->arena);
    const char *wrong = unsound(program);
    if (wrong)
        return refused(program, why, size, "%s", wrong);
    start_team(program);
    if (program->threads > 1 && !program->team)
        return refused(program, why, size, "its %d threads cannot be started", program->threads);
    return program;
}

/* Works off sections; one after the other, in this thread, where there are no others: parts do not depend on each other. */
static void perform(csdfgen_program *program, const csdf_section *sections, uint64_t count)
{
    if (program->team) {
        csdf_team_run(program->team, sections, (int32_t)count);
        return;
    }
    for (const csdf_section *one = sections; one < sections + count; one++)
        csdf_run(one->records + one->first[0], one->first[one->parts] - one->first[0]);
}

void csdfgen_run(csdfgen_program *program, void *const *arrays)
{
    const csdf_program_head *head = program->head;
    const csdf_program_port *ports = SECTION(program, ports);
    const csdf_program_run *runs = SECTION(program, runs);
    const csdf_program_guard *guards = SECTION(program, guards);
    const csdf_program_tensor *tensors = SECTION(program, tensors);
    char *image = SECTION(program, image);
    if (program->threads > 1 && program->owner != getpid())
        start_team(program);
    for (size_t k = 0; k < head->tensors.count; k++)
        if (tensors[k].constant && arrays[k])
            memcpy(arrays[k], (char *)SECTION(program, weights) + tensors[k].constant - 1, program->tensors[k].bytes);
    for (uint64_t turn = 0; turn < head->repeats; turn++) {
        for (size_t k = 0; k < head->ports.count; k++) {
            char *array = arrays[ports[k].tensor];
            csdf_port *port = (csdf_port *)(void *)(image + ports[k].at);
            port->base = array ? array + ports[k].offset + turn * ports[k].step : NULL;
        }
        for (size_t k = 0; k < head->runs.count; k++) {
            int taken = 1;
            for (uint64_t g = runs[k].guard; g < runs[k].guard + runs[k].guards; g++)
                taken &= (program->arena[guards[g].at] != 0) == (guards[g].taken != 0);
            if (taken)
                perform(program, program->sections + runs[k].first, runs[k].count);
        }
    }
}

void csdfgen_close(csdfgen_program *program)
{
    if (!program)
        return;
    if (program->team && program->owner == getpid())
        csdf_team_end(program->team);
    if (program->file)
        munmap(program->file, program->size);
    if (program->arena)
        munmap(program->arena, program->room);
    if (program->library)
        dlclose(program->library);
    free(program->tensors);
    free(program->sections);
    free(program);
}

size_t csdfgen_arena_bytes(const csdfgen_program *program) { return (size_t)program->head->arena; }

size_t csdfgen_constant_bytes(const csdfgen_program *program) { return (size_t)program->head->weights.count; }

int32_t csdfgen_tensors(const csdfgen_program *program) { return (int32_t)program->head->tensors.count; }

csdfgen_tensor csdfgen_tensor_at(const csdfgen_program *program, int32_t number) { return program->tensors[number]; }

const int64_t *csdfgen_counts(const csdfgen_program *program, int32_t *number)
{
    *number = (int32_t)program->head->counts.count;
    return (const int64_t *)(const void *)(program->arena + program->head->counts.start);
}

const char *csdfgen_about(const csdfgen_program *program) { return word(program, program->head->about); }
#endif
