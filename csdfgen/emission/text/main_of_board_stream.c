/* Runs @title@ on rows from raw files, until they end: outputs one behind the other, row by row, in one file. */
#include "@name@.h"

#include "board.h"

static int32_t file;
static int written = 1;

static int fail(const char *what, const char *where)
{
    board_say(where);
    board_say(": ");
    board_say(what);
    board_say("\n");
    return 1;
}

@for results@
static void take_@word@(void *user, uint64_t row, const @type@ *values)
{
    (void)user;
    (void)row;
    written = written && board_store(file, values, @per_row@ * sizeof *values);
}

@end@
/* Pushes all rows. */
static int push(char **words)
{
    int32_t rows[@files@];
    for (int k = 0; k < @files@; k++) {
        rows[k] = board_open(words[k]);
        if (rows[k] == 0)
            return fail("cannot be read", words[k]);
    }
    int there = 1;
    while (there) {
@if several@
        switch (@name@_wants()) {
@end@
@unless several@
        switch (0) {
@end@
@for inputs@
        case @number@: {
            static @type@ row[@least_row@];
            there = board_read(rows[@number@], row, @per_row@ * sizeof *row);
            if (there)
                (void)@push_name@(row);
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
    const char *option = count == @files@ + 3 ? words[1] : "";
    if (option[0] != '-' || option[1] != 'o' || option[2] != '\0') {
        board_say("usage: @name@ -o OUTPUT@usage@\n");
        return 2;
    }
    file = board_create(words[2]);
    const @name@_sink sink = {0@sinks@};
    @name@_begin(&sink);
    int whole = file != 0;
@if passes@
    for (int pass = 1; whole && pass < @macro@_PASSES; pass++)
        whole = push(words + 3) == 0 && @name@_next_pass();
@end@
    whole = whole && push(words + 3) == 0 && @name@_finish();
    if (file == 0 || !written || !board_close(file))
        return fail("cannot be written", words[2]);
    board_say("stack ");
    board_say_number(board_stack_used());
    board_say(" of ");
    board_say_number(board_stack_bytes());
    board_say(" bytes\n");
    return whole ? 0 : fail("the rows are no multiple of those behind which a stream may end", "@name@");
}
