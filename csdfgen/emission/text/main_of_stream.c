/* Runs @title@ on rows from raw files, or from standard input, until they end. Without -o the values of the
 * outputs are printed, one a line; with several outputs, -o OUTPUT writes OUTPUT.NAME for each. */
#include "@name@.h"

#include <stdio.h>
#include <string.h>

static int fail(const char *what, const char *where)
{
    fprintf(stderr, "%s: %s\n", where, what);
    return 1;
}

/* Where rows go. */
static FILE *files[@result_count@];
static int lost;

@for results@
static void take_@word@(void *user, uint64_t row, const @type@ *values)
{
    (void)user;
    (void)row;
    if (files[@number@] != NULL)
        lost |= fwrite(values, sizeof *values, @per_row@, files[@number@]) != @per_row@;
    for (size_t k = 0; files[@number@] == NULL && k < @per_row@; k++)
        lost |= printf(@form@values[k]) < 0;
}

@end@
static int begin(const char *out)
{
    char path[4096];
@for results@
    if (out != NULL) {
        snprintf(path, sizeof path, "%s%s", out, "@suffix@");
        files[@number@] = fopen(path, "wb");
        if (files[@number@] == NULL)
            return fail("cannot be written", path);
    }
@end@
    const @name@_sink sink = {NULL@sinks@};
    @name@_begin(&sink);
    return 0;
}

/* Pushes all rows. */
static int push(FILE **rows, int count, char **words)
{
    size_t there = 1;
    while (there != 0) {
@if several@
        switch (@name@_wants()) {
@end@
@unless several@
        switch (0) {
@end@
@for inputs@
        case @number@: {
            static @type@ row[@least_row@];
            there = fread(row, sizeof *row, @per_row@, rows[@number@]);
            if (there == @per_row@)
                (void)@push_name@(row);
            else if (there != 0)
                return fail("ends within a row", count > @number@ + 1 ? words[@number@ + 1] : "standard input");
            break;
        }
@end@
        default:
            there = 0;
        }
    }
    return 0;
}

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
    FILE *rows[@files@];
    for (int k = 0; k < @files@; k++) {
        rows[k] = k + 1 < count ? fopen(words[k + 1], "rb") : stdin;
        if (rows[k] == NULL)
            return fail("cannot be read", words[k + 1]);
    }
    if (begin(out) != 0)
        return 1;
@unless passes@
    if (push(rows, count, words) != 0)
        return 1;
    const int whole = @name@_finish();
@end@
@if passes@
    int whole = 1;
    for (int pass = 1; whole && pass <= @macro@_PASSES; pass++) {
        for (int k = 0; k < @files@; k++)
            rewind(rows[k]);
        if (push(rows, count, words) != 0)
            return 1;
        whole = pass < @macro@_PASSES ? @name@_next_pass() : @name@_finish();
    }
@end@
@for results@
    lost |= files[@number@] != NULL && fclose(files[@number@]) != 0;
@end@
    if (fflush(stdout) != 0 || lost)
        return fail("cannot be written", out != NULL ? out : "standard output");
    return whole ? 0 : fail("the rows are no multiple of those behind which a stream may end; the last outputs are missing", "@name@");
}
