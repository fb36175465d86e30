/* Runs @title@ on raw files: one array each, as @name@.h says. */
#include "@name@.h"

#include "board.h"

static struct {
@members@
} data;

static int fail(const char *what, const char *where)
{
    board_say(where);
    board_say(": ");
    board_say(what);
    board_say("\n");
    return 1;
}

int main(int count, char **words)
{
    const char *option = count == @files@ + 3 ? words[1] : "";
    if (option[0] != '-' || option[1] != 'o' || option[2] != '\0') {
        board_say("usage: @name@ -o OUTPUT@usage@\n");
        return 2;
    }
@for inputs@
    if (!board_load(words[@position@], data.@word@, @bytes@))
        return fail("does not have the bytes of the input", words[@position@]);
@end@
    @name@_run(@passed@);
    const int32_t file = board_create(words[2]);
    int written = file != 0;
@for results@
    written = written && board_store(file, data.@word@, @bytes@);
@end@
    if (!written || !board_close(file))
        return fail("cannot be written", words[2]);
    board_say("stack ");
    board_say_number(board_stack_used());
    board_say(" of ");
    board_say_number(board_stack_bytes());
    board_say(" bytes\n");
    return 0;
}
