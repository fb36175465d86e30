/* Runs compiled programs: files that `csdfgen compile MODEL -o model.csdfgen` wrote.
 *
 *     char why[256];
 *     csdfgen_program *net = csdfgen_open("model.csdfgen", why, sizeof why);
 *     void *arrays[] = {input, output};              // one for each tensor, in their order
 *     csdfgen_run(net, arrays);
 *     csdfgen_close(net);
 *
 * A file is mapped: processes that run one share its constants. A program is for the instruction set that it was compiled
 * for. Whoever runs a program trusts who compiled it, as with any executable: what is checked is that it is whole, and
 * that nothing that is read of it lies elsewhere. A program that was compiled for several threads starts them when it is
 * opened; after a fork the child starts its own. */
#ifndef CSDFGEN_H
#define CSDFGEN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct csdfgen_program csdfgen_program;

/* An input or output. type: numpy's name of its elements, "float32"; arrays are in C order. */
typedef struct csdfgen_tensor {
    const char *name, *type;
    int32_t output, rank;
    const int64_t *sizes;
    size_t bytes;
} csdfgen_tensor;

/* A program in memory of its own; NULL, and a sentence in `why`, for a file that is none, or for another processor. */
csdfgen_program *csdfgen_open(const char *path, char *why, size_t size);
int32_t csdfgen_tensors(const csdfgen_program *program);
csdfgen_tensor csdfgen_tensor_at(const csdfgen_program *program, int32_t number);
/* Bytes of the memory that a frame is computed in, and of the constants, which are pages of the file. */
size_t csdfgen_arena_bytes(const csdfgen_program *program);
size_t csdfgen_constant_bytes(const csdfgen_program *program);
/* What the program counted since it was opened, and how many counters it has: csdfgen_about tells which. The one of a branch
 * says how often its condition was false, and the next one how often it was true; the one of a comparison how many NaNs it met,
 * with which its result means nothing. */
const int64_t *csdfgen_counts(const csdfgen_program *program, int32_t *number);
/* What the program is, as JSON. */
const char *csdfgen_about(const csdfgen_program *program);
/* Computes a frame; one at a time for each program. arrays: of all tensors; an output that is NULL is not written. */
void csdfgen_run(csdfgen_program *program, void *const *arrays);
void csdfgen_close(csdfgen_program *program);

#ifdef __cplusplus
}
#endif

#endif
