/* @title@: tables of a plan by csdfgen, and the order in which they are worked off.
 *
@arena_map@
 */
#include "@header@.h"

#include "csdf.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

@if timed@
#define arena @owner@_times_arena
@end@
@unless timed@
/* CSDF_ALIGNED: lines of cache. Where the arena and the constants lie can be said: SECTION. */
#ifdef __GNUC__
#define CSDF_ALIGNED __attribute__((aligned(64)))
#ifdef @macro@_ARENA_SECTION
#define CSDF_PLACED __attribute__((section(@macro@_ARENA_SECTION)))
#else
#define CSDF_PLACED
#endif
#else
#define CSDF_ALIGNED
#define CSDF_PLACED
#endif

static union {
    unsigned char bytes[@macro@_ARENA_BYTES + !@macro@_ARENA_BYTES];
    float floats[1];
    double doubles[1];
    int64_t integers[1];
} arena CSDF_ALIGNED CSDF_PLACED;

@end@
extern const unsigned char @owner@_weights[@owner_macro@_WEIGHTS_BYTES];

#define A(byte) ((void *)(arena.bytes + (byte)))
#define W(byte) ((const void *)(@owner@_weights + (byte)))

/* Pieces of rows: how they lie in the arena and in an array, and where in the arena each row's is. */
typedef struct part {
    csdf_transfer move;
    void *const *rows;
} part;

/* Rows of a port from the first on, in so many pieces. */
typedef struct side {
    int32_t port, first, count;
    const part *parts;
} side;

/* Rows [first, first + count) of a side; with side -1 so many records from the first on. */
typedef struct task {
    int32_t side, first, count;
} task;

@kernels@

@pools@
static const task tasks[@task_count@] = {
@tasks@
};

enum { ORDER = @order_count@ };
static const uint@index_bits@_t order[ORDER] = {
@order@
};

@if timed@
/* Whose firing a task of the order ends. */
enum { NOBODY = 0xffff };
static const uint16_t ends[ORDER] = {
@ends@
};

@end@
@if arguments@
/* Arrays of the caller, images one by one: inputs, then outputs; bytes along each axis. */
static const csdf_port arrays[@ports@] = {
@for arguments@
    {NULL, csdf_copy_@itemsize@, {@strides@}},
@end@
};

/* A row between the arena and an array whose first element of it is at `base`. */
static void move(const side *rows, const csdf_port *form, char *base, int32_t row)
{
    csdf_port port = *form;
    port.base = base;
    for (int32_t k = 0; k < rows->count; k++) {
        csdf_transfer one = rows->parts[k].move;
        one.port = &port;
        one.memory = rows->parts[k].rows[row - rows->first];
        csdf_move(&one);
    }
}

@end@
@if branches@
/* Tasks to leave out, those of a branch that was not taken. The task with side -2 in front of them is their condition: byte
 * `first` of the arena is the lowest bit of `count`, the other bits say how many they are. */
static int32_t left_out(const task *now)
{
    return (arena.bytes[now->first] != 0) == (now->count & 1) ? 0 : now->count >> 1;
}
@end@
@called@
{
@if arguments@
    char *at[@pointer_count@];
@end@
@if rounds@
    for (int32_t image = 0; image < @batch@; image += @images@) {
        @frame@
    }
@end@
@unless rounds@
    @frame@
@end@
@for constants@
    if (@word@)
        memcpy(@word@, W(@offset@), @bytes@);
@end@
}
@if streams@

/* --- rows one by one ---------------------------------------------------------------------- */

/* A row of every port. */
static const csdf_port single[@ports@] = {
@for arguments@
    {NULL, csdf_copy_@itemsize@, {@row_strides@}},
@end@
};

static void hand_on(const side *rows, int32_t row);

static struct {
    @name@_sink sink;
    int32_t at, done;
} stream;

/* Goes on until a row of an input is wanted; whether it is one of the next frame. */
static int go_on(void)
{
    int ended = 0;
    for (;;) {
        const task *now = tasks + order[stream.at];
        if (now->side >= 0 && sides[now->side].port < @input_count@)
            return ended;
@if branches@
        if (now->side == -2)
            stream.at += left_out(now);
@end@
@if records@
        if (now->side @records@)
            csdf_run(records + now->first, now->count);
@end@
        if (now->side >= 0)
            for (int32_t row = now->first; row < now->first + now->count; row++)
                hand_on(sides + now->side, row);
        if (++stream.at == ORDER) {
            stream.at = 0;
            ended = 1;
        }
    }
}

static int take(int32_t input, const void *row)
{
    const task *now = tasks + order[stream.at];
    if (now->side < 0 || sides[now->side].port >= @input_count@) { /* before the first frame's first row */
        (void)go_on();
        now = tasks + order[stream.at];
    }
    if (input < 0 || sides[now->side].port != input)
        return 0;
    move(sides + now->side, single + input, (char *)row, now->first + stream.done);
    if (++stream.done < now->count)
        return 1;
    stream.done = 0;
    if (++stream.at < ORDER)
        return 1 + go_on();
    stream.at = 0;
    return 2;
}

void @name@_begin(const @name@_sink *sink)
{
    stream.sink = *sink;
    stream.at = stream.done = 0;
}
@for inputs@

@push@
{
    return take(@number@, row);
}
@end@
@if several@

int @name@_wants(void)
{
    (void)take(-1, NULL);
    return sides[tasks[order[stream.at]].side].port;
}
@end@

static void hand_on(const side *rows, int32_t row)
{
    switch (rows->port) {
@for outputs@
    case @number@:
        if (stream.sink.@word@) {
            static @type@ values[@least_row@];
            move(rows, single + @number@, (char *)values, row);
            (stream.sink.@word@)(stream.sink.user, row, values);
        }
        break;
@end@
    default:
        break;
    }
}
@end@
