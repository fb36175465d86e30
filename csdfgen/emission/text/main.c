/* Runs @title@ on raw files: one array each, as @name@.h says. Without -o the values of the
 * outputs are printed, one a line. */
#include "@name@.h"

#include <stdio.h>
#include <string.h>

static struct {
@members@
} data;

static int fail(const char *what, const char *where)
{
    fprintf(stderr, "%s: %s\n", where, what);
    return 1;
}

@if inputs@
static int filled(FILE *file, void *to, size_t size)
{
    return fread(to, 1, size, file) == size && getc(file) == EOF;
}

static int load(const char *path, void *to, size_t size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return fail("cannot be read", path);
    const int whole = filled(file, to, size);
    fclose(file);
    return whole ? 0 : fail("does not have the bytes of the input", path);
}

@end@
int main(int count, char **words)
{
    const char *out = NULL;
    if (count > 2 && strcmp(words[1], "-o") == 0) {
        out = words[2];
        words += 2;
        count -= 2;
    }
    const int help = count == 2 && (strcmp(words[1], "--help") == 0 || strcmp(words[1], "-h") == 0);
    if (help || (count != @files@ + 1@or_none@)) {
        fputs("usage: @name@ [-o OUTPUT] @usage@\n", help ? stdout : stderr);
        return help ? 0 : 2;
    }
@for inputs@
@if or_none@
    if (count == 1 && !filled(stdin, data.@word@, @bytes@))
        return fail("does not have the bytes of the input", "standard input");
@end@
    if (@given@load(words[@position@], data.@word@, @bytes@) != 0)
        return 1;
@end@
    @name@_run(@passed@);
    if (out != NULL) {
        FILE *file = fopen(out, "wb");
        if (file == NULL)
            return fail("cannot be written", out);
        int written = 1;
@for results@
        written &= fwrite(data.@word@, 1, @bytes@, file) == @bytes@;
@end@
        if (fclose(file) != 0 || !written)
            return fail("cannot be written", out);
        return 0;
    }
@for results@
    for (size_t k = 0; k < @size@; k++)
        printf(@form@data.@word@[k]);
@end@
    return fflush(stdout) == 0 ? 0 : 1;
}
