/* How a compiled program lies in its file: numbers of 64 bits, little-endian, all offsets from the start of a section.
 *
 * image: what kernels read, steps and tables, and the table of records, in which places become addresses. */
#ifndef CSDF_PROGRAM_H
#define CSDF_PROGRAM_H

#include "csdf.h"

#define CSDF_PROGRAM_WORD "csdfgen1"

enum { CSDF_OF_IMAGE, CSDF_OF_ARENA, CSDF_OF_WEIGHTS, CSDF_OF_KERNELS };

/* A section: its first byte in the file, and how many elements it has. */
typedef struct csdf_program_part {
    uint64_t start, count;
} csdf_program_part;

/* about, instructions: words. records: of the image. arena: bytes. repeats: how often a frame runs it, for so many images each. */
typedef struct csdf_program_head {
    char word[8];
    uint64_t checksum; /* of all that follows */
    uint64_t total, version, pointer, about, instructions, arena, records, repeats;
    csdf_program_part strings, image, weights, kernels, places, runs, guards, tensors, ports, sections, firsts;
    csdf_program_part counts; /* of the arena, in numbers of 64 bits */
} csdf_program_head;

/* The address of `offset` in a pool belongs at `at` of the image. */
typedef struct csdf_program_place {
    uint64_t at, pool, offset;
} csdf_program_place;

/* Sections that are worked off if all of so many guards hold. */
typedef struct csdf_program_run {
    uint64_t first, count, guard, guards;
} csdf_program_run;

/* As a csdf_section: part k is the records [first[k], first[k + 1]) behind `record`, and `first` a place among all firsts. */
typedef struct csdf_program_section {
    uint64_t record, first, parts;
} csdf_program_section;

/* A condition in the arena, and whether it is to be true. */
typedef struct csdf_program_guard {
    uint64_t at, taken;
} csdf_program_guard;

/* each: bytes of an element. constant: 1 + its place among the weights, for an output that nothing computes; else 0. */
typedef struct csdf_program_tensor {
    uint64_t name, type, output, rank, each, constant;
    int64_t sizes[CSDF_RANK];
} csdf_program_tensor;

/* A port of the program at `at` of the image: bytes `offset` of the array of a tensor, `step` further in each turn. */
typedef struct csdf_program_port {
    uint64_t tensor, at, offset, step;
} csdf_program_port;

/* Counts how often a condition was false, and true. */
typedef struct csdf_choice {
    const char *condition;
    int64_t *counts;
} csdf_choice;

/* Counts NaNs among numbers of so many bytes each: what is more than `infinity` without its sign. */
typedef struct csdf_suspect {
    const char *values;
    int64_t *count;
    size_t size, infinity;
    ptrdiff_t stride;
    int32_t bytes;
} csdf_suspect;

/* Moves what the rows of a port are, by so many bytes. */
typedef struct csdf_shift {
    csdf_port *port;
    ptrdiff_t bytes;
} csdf_shift;

void csdf_choose(const csdf_choice *step);
void csdf_suspected(const csdf_suspect *step);
void csdf_shift_port(const csdf_shift *step);
void csdf_choose_of(const void *step);
void csdf_suspected_of(const void *step);
void csdf_shift_port_of(const void *step);

uint64_t csdf_checksum(const void *bytes, size_t size);

#endif
