/* Runs a compiled program on zeros and prints the first value of each output.
 *
 *     csdfgen compile zoo:resnet8 --library lib
 *     cc run_compiled.c -Ilib -Llib -lcsdfgen -Wl,-rpath,lib -o run_compiled
 *     ./run_compiled resnet8.csdfgen */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "csdfgen.h"

int main(int count, char **words)
{
    char why[256];
    if (count != 2) {
        fprintf(stderr, "usage: %s FILE.csdfgen\n", words[0]);
        return 2;
    }
    csdfgen_program *program = csdfgen_open(words[1], why, sizeof why);
    if (!program) {
        fprintf(stderr, "%s: %s\n", words[1], why);
        return 1;
    }
    const int32_t tensors = csdfgen_tensors(program);
    void **arrays = calloc((size_t)tensors, sizeof *arrays);
    for (int32_t k = 0; k < tensors; k++)
        if (!(arrays[k] = calloc(csdfgen_tensor_at(program, k).bytes + 1, 1)))
            return 1;
    csdfgen_run(program, arrays);
    for (int32_t k = 0; k < tensors; k++) {
        const csdfgen_tensor tensor = csdfgen_tensor_at(program, k);
        if (tensor.output && !strcmp(tensor.type, "float32"))
            printf("%s: %.9g\n", tensor.name, *(float *)arrays[k]);
        free(arrays[k]);
    }
    free(arrays);
    csdfgen_close(program);
    return 0;
}
