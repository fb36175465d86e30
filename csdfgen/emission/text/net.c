/* @title@: tables of a plan by csdfgen, and the order in which they are worked off.
 *
@arena_map@
 */
#include "@header@.h"

#include "kernels/names.h"

#include "kernels/csdf.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

@unless elsewhere@
#if defined(__GNUC__) && defined(@macro@_ARENA_SECTION)
#define CSDF_PLACED __attribute__((section(@macro@_ARENA_SECTION)))
#else
#define CSDF_PLACED
#endif

@end@
extern const unsigned char @owns@_weights[@owner_macro@_WEIGHTS_BYTES];

#define W(byte) ((const void *)(@owns@_weights + (byte)))

/* An offset in the arena; NONE: padding. */
typedef uint@place_bits@_t place;
#define NONE ((place)-1)

/* A kernel, what it works on, and who fills in the addresses that this lacks: those in the arena, which is at `base`.
 * count: of addresses, where calls that are filled in alike differ in it. */
typedef struct call {
    void (*fire)(const struct call *now, const place *at, unsigned char *base);
    void (*kernel)(const void *step);
    const void *step;
@if counts@
    uint@count_bits@_t count[@counts@];
@end@
} call;

#define AT(k) ((void *)(base + at[k]))
#define ROW(k) (at[k] == NONE ? NULL : AT(k))

@if counted@
/* Rows of the first input, when a stream ends. */
#define ALL_ROWS ((double)((const @name@_t *)(const void *)base)->rows)

@end@
/* A call, and the first of its places: the bits above those of the call. */
typedef uint@firing_bits@_t firing;
#define FIRE(call, first) ((call) | (firing)(first) << @call_bits@)

/* Pieces of rows: how they lie in the arena and in an array, and where in the arena each row's is. */
typedef struct part {
    csdf_transfer move;
    const place *rows;
} part;

/* Rows of a port from the first on, in so many pieces. bytes: of a row that is in one piece there, too; else 0. */
typedef struct side {
    int32_t port, first, count, bytes;
    const part *parts;
} side;

/* Rows [first, first + count) of a side. */
typedef struct task {
    int@task_bits@_t side, first, count;
} task;

@declared@
@for callbacks@

static void @kernel@(const void *step)
{
    const csdf_strided *one = step;
    memset(one->out, 0, @bytes@);
    @function@(@passed@);
}
@end@

@functions@
@pools@
@if kernels@
enum { FIRINGS = @firing_count@ };
static const firing firings[FIRINGS] = {
@firings@
};

@end@
static const task tasks[@task_count@] = {
@tasks@
};

/* Numbers of firings, and of tasks behind them. */
enum { ORDER = @order_count@ };
static const uint@order_bits@_t order[ORDER] = {
@order@
};

@if timed@
/* Whose firing an entry of the order ends. */
enum { NOBODY = 0xffff };
static const uint16_t ends[ORDER] = {
@ends@
};

@end@
@if kernels@
static void fire(int32_t number, unsigned char *base)
{
    const firing now = firings[number];
    const call *what = calls + now % (1 << @call_bits@);
    what->fire(what, places + (now >> @call_bits@), base);
}

@end@
/* The task at a place of the order, NULL: a firing. */
static const task *task_at(int32_t k)
{
@if kernels@
    return order[k] < FIRINGS ? NULL : tasks + (order[k] - FIRINGS);
@end@
@unless kernels@
    return tasks + order[k];
@end@
}

@if repeats@
/* Where the order begins again. */
enum { LOOP_START = @loop_start@, LOOP_STOP = @loop_stop@ };
@end@
@if repeats@
@unless endless@
/* How often, and the rows of each port that are moved then. */
enum { TURNS = @turn_count@ };
static const int32_t turn_rows[] = {@turn_rows@};

@end@
@end@
@if endless@
/* What ends a stream that is at an entry of the order, in this turn or, if no other does, a later one, of so many rows, of
 * which so many of each input wait: pieces [first, stop), of the entries that would be next, and of those from `own` on. */
enum { ENDINGS = @ending_count@ };
typedef struct ending {
    int32_t at, turns, own, first, stop, rows, held[@input_count@];
} ending;
static const ending endings[ENDINGS] = {
@endings@
};

/* So many entries are left out, so many are next, and then so many own ones. */
typedef struct piece {
    uint@piece_bits@_t left_out, next, own;
} piece;
static const piece pieces[@piece_count@] = {
@pieces@
};

@end@
@if arguments@
@unless endless@
/* Arrays of the caller, images one by one: inputs, then outputs; bytes along each axis. */
static const csdf_port arrays[@ports@] = {
@for arguments@
    {NULL, csdf_copy_@itemsize@, {@strides@}},
@end@
};

@end@
/* A row between the arena, at `base`, and an array whose first element of it is at `at`. */
static void move(const side *rows, const csdf_port *form, char *at, int32_t row, unsigned char *base)
{
    if (rows->bytes != 0) {
        unsigned char *there = base + rows->parts->rows[row - rows->first];
        const int out = rows->parts->move.into_port;
        memcpy(out ? (void *)at : there, out ? there : (void *)at, (size_t)rows->bytes);
        return;
    }
    csdf_port port = *form;
    port.base = at;
    for (int32_t k = 0; k < rows->count; k++) {
        csdf_transfer one = rows->parts[k].move;
        one.port = &port;
        one.memory = base + rows->parts[k].rows[row - rows->first];
        csdf_move(&one);
    }
}

@end@
@if branches@
/* Entries of the order to leave out, those of a branch that was not taken. The task with side -1 in front of them is their
 * condition: byte `first` of the arena is the lowest bit of `count`, the other bits say how many they are. */
static int32_t left_out(const task *now, const unsigned char *base)
{
    return (base[now->first] != 0) == (now->count & 1) ? 0 : now->count >> 1;
}

@end@
@unless endless@
@called@
{
@if arguments@
    char *at[@pointer_count@];
@end@
@if kernels@
    const csdf_mode csdf_before = csdf_enter();
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
@if kernels@
    csdf_leave(csdf_before);
@end@
@if unused@
    (void)net;
@end@
}
@end@
@unless elsewhere@

static @name@_t arena @macro@_ALIGNED CSDF_PLACED;
@unless endless@

@static_called@
{
    @name@_run_in(&arena@more@);
}
@end@
@end@
@if streams@

/* --- rows one by one ---------------------------------------------------------------------- */

/* A row of every port. */
static const csdf_port single[@ports@] = {
@for arguments@
    {NULL, csdf_copy_@itemsize@, {@row_strides@}},
@end@
};

static void hand_on(@name@_stream *stream, const side *rows, int32_t row)
{
    const @name@_sink *sink = &stream->sink;
    switch (rows->port) {
@for outputs@
    case @number@:
        if (sink->@word@) {
            move(rows, single + @number@, (char *)stream->@word@, row, stream->net->arena.bytes);
            (sink->@word@)(sink->user, @row_number@, stream->@word@);
        }
        break;
@end@
    default:
        break;
    }
}

/* Whether a task takes rows of an input. */
static int wanted(const task *now)
{
    return @moves@ && sides[now->side].port < @input_count@;
}

/* An entry of the order that takes no row. */
static void work(@name@_stream *stream, const task *now)
{
@if kernels@
    if (!now) {
        const csdf_mode csdf_before = csdf_enter();
        fire(order[stream->at], stream->net->arena.bytes);
        csdf_leave(csdf_before);
    }
@end@
@if branches@
    if (now && now->side < 0)
        stream->at += left_out(now, stream->net->arena.bytes);
@end@
    for (int32_t k = 0; @moves@ && k < now->count; k++)
        hand_on(stream, sides + now->side, now->first + k);
}

@if endless@
/* The next entry. */
static int advance(@name@_stream *stream)
{
    if (++stream->at == LOOP_STOP) {
        stream->at = LOOP_START;
        stream->turns++;
    }
    return 0;
}
@end@
@unless endless@
/* The next entry; whether it is the first of the next frame. */
static int advance(@name@_stream *stream)
{
@if repeats@
    if (++stream->at == LOOP_STOP && stream->turns < TURNS) {
        stream->at = LOOP_START;
        stream->turns++;
        return 0;
    }
    if (stream->at < ORDER)
        return 0;
    stream->turns = 0;
@end@
@unless repeats@
    if (++stream->at < ORDER)
        return 0;
@end@
    stream->at = 0;
    return 1;
}
@end@

/* Goes on until a row of an input is wanted; whether it is one of the next frame. */
static int go_on(@name@_stream *stream)
{
    int ended = 0;
    for (const task *now; !wanted(now = task_at(stream->at)); ended |= advance(stream))
        work(stream, now);
    return ended;
}

@if held_back@
/* Of the first input as many rows are held as may be the last ones; others wait for them. */
enum { HELD = @held_rows@ };
static const struct {
    size_t at;
    int32_t rows;
    size_t bytes;
} queues[@input_count@] = {
@for inputs@
    {offsetof(@name@_stream, held_@word@), @held@, @per_row@ * @itemsize@},
@end@
};

/* The place of the k-th row that waits. */
static char *queued(@name@_stream *stream, int32_t input, int32_t k)
{
    const int32_t place = (stream->oldest[input] + k) % queues[input].rows;
    return (char *)stream + queues[input].at + (size_t)place * queues[input].bytes;
}

/* A row of a task, the oldest that waits. */
static void feed(@name@_stream *stream, const task *now, int32_t k)
{
    const int32_t input = sides[now->side].port;
    move(sides + now->side, single + input, queued(stream, input, 0), now->first + k, stream->net->arena.bytes);
    stream->oldest[input] = (stream->oldest[input] + 1) % queues[input].rows;
    stream->waiting[input]--;
}

/* Goes on with the rows that wait, but for so many of the first input. */
static void drain(@name@_stream *stream, int32_t kept)
{
    for (;;) {
        (void)go_on(stream);
        const task *now = task_at(stream->at);
        const int32_t input = sides[now->side].port;
        if (stream->waiting[input] <= (input == 0 ? kept : 0))
            return;
        feed(stream, now, stream->done);
        if (++stream->done == now->count) {
            stream->done = 0;
            (void)advance(stream);
        }
    }
}

/* The task that takes the next row that comes. */
static const task *front(@name@_stream *stream)
{
    while (!wanted(task_at(stream->front)))
        stream->front = stream->front + 1 == LOOP_STOP ? LOOP_START : stream->front + 1;
    return task_at(stream->front);
}

@take@(@name@_stream *stream, int32_t input, const void *row)
{
    const task *now = front(stream);
    if (input < 0 || sides[now->side].port != input)
        return 0;
    if (input == 0)
        drain(stream, HELD - 1);
    memcpy(queued(stream, input, stream->waiting[input]++), row, queues[input].bytes);
    if (++stream->taken == now->count) {
        stream->taken = 0;
        stream->front = stream->front + 1 == LOOP_STOP ? LOOP_START : stream->front + 1;
    }
    return 1;
}
@end@
@unless held_back@
@take@(@name@_stream *stream, int32_t input, const void *row)
{
    (void)go_on(stream); /* before the first row */
    const task *now = task_at(stream->at);
    if (input < 0 || sides[now->side].port != input)
        return 0;
    move(sides + now->side, single + input, (char *)row, now->first + stream->done, stream->net->arena.bytes);
    if (++stream->done < now->count)
        return 1;
    stream->done = 0;
    const int ended = advance(stream);
    return 1 + (ended | go_on(stream));
}
@end@

@if chosen@
/* The input whose row is wanted next. */
@wants@(@name@_stream *stream)
{
@if held_back@
    return sides[front(stream)->side].port;
@end@
@unless held_back@
    (void)go_on(stream);
    return sides[task_at(stream->at)->side].port;
@end@
}

@end@
@if passes@
/* What a pass takes of those before it, by the inputs behind the caller's: place and bytes of a row. */
enum { GIVEN = @public@ };
static const size_t given[@passes@][@most_taken@][2] = {
@for taken@
    @text@
@end@
};

@for made@
static void keep_@word@(void *user, uint64_t row, const @type@ *values)
{
    @name@_stream *stream = user;
    memcpy(stream->passes.@word@ + row * @per_row@, values, @row_bytes@);
}

@end@
@for earlier@
static @pass@_stream *in_pass@number@(@name@_stream *stream)
{
    @pass@_stream *one = &stream->passes.now.pass@number@;
    one->net = &stream->net->arena.pass@number@; /* also of a copy */
    one->sink.user = stream;
    return one;
}

@end@
static int wants_in_pass(@name@_stream *stream)
{
    switch (stream->passes.number) {
@for earlier@
    case @number@:
        return @pass@_stream_wants(in_pass@number@(stream));
@end@
    default:
        return wants(stream);
    }
}

static int take_in_pass(@name@_stream *stream, int32_t input, const void *row)
{
    switch (stream->passes.number) {
@for earlier@
    case @number@:
        return @pass@_stream_take(in_pass@number@(stream), input, row);
@end@
    default:
        return take(stream, input, row);
    }
}

static void begin_pass(@name@_stream *stream, int32_t number)
{
    stream->passes.number = number;
    stream->passes.rows = 0;
    switch (number) {
@for earlier@
    case @number@: {
        const @pass@_sink sink = {stream@kept@};
        @pass@_stream_begin(in_pass@number@(stream), &stream->net->arena.pass@number@, &sink);
        break;
    }
@end@
    default:
        break;
    }
    size_t rows[@most_taken@] = {0};
    for (int32_t input; (input = wants_in_pass(stream) - GIVEN) >= 0; rows[input]++) {
        const size_t *one = given[number - 1][input];
        (void)take_in_pass(stream, GIVEN + input, (char *)stream + one[0] + rows[input] * one[1]);
    }
}

/* Whether a pass has all rows. */
static int is_whole(const @name@_stream *stream)
{
    const uint64_t rows = stream->passes.rows;
    return stream->passes.number == 1 ? rows % @macro@_ENDS == 0 : rows == stream->passes.all;
}

int @name@_stream_next_pass(@name@_stream *stream)
{
    int ended = 0;
    if (!is_whole(stream))
        return 0;
    switch (stream->passes.number) {
@for earlier@
    case @number@:
        ended = @pass@_stream_finish(in_pass@number@(stream));
        break;
@end@
    default:
        break;
    }
    if (!ended)
        return 0;
    stream->passes.all = stream->passes.rows;
    begin_pass(stream, stream->passes.number + 1);
    return 1;
}

@end@
void @name@_stream_begin(@name@_stream *stream, @name@_t *net, const @name@_sink *sink)
{
    stream->net = net;
    stream->sink = *sink;
    stream->at = stream->done = 0;
@if repeats@
    stream->turns = 0;
@end@
@if held_back@
    stream->front = stream->taken = 0;
@for inputs@
    stream->oldest[@number@] = stream->waiting[@number@] = 0;
@end@
@end@
@if passes@
    begin_pass(stream, 1);
@end@
}
@if endless@

/* An entry of the order, whose rows wait. */
static void end(@name@_stream *stream)
{
    const task *now = task_at(stream->at);
@if held_back@
    for (int32_t k = 0; wanted(now) && k < now->count; k++)
        feed(stream, now, k);
@end@
    work(stream, now);
}

int @name@_stream_finish(@name@_stream *stream)
{
@if passes@
    if (stream->passes.number < @macro@_PASSES || !is_whole(stream))
        return 0;
@end@
    const ending *last = NULL;
    for (const ending *one = endings; one < endings + ENDINGS; one++)
@if held_back@
        if (memcmp(one->held, stream->waiting, sizeof one->held) == 0)
@end@
        if (one->at == stream->at && (uint64_t)one->turns <= stream->turns)
            last = one; /* they are in the order of their turns */
    if (last == NULL || stream->done != 0)
        return 0;
    stream->turns -= (uint64_t)last->turns;
@if counted@
    stream->net->rows = (uint64_t)last->rows + stream->turns * @turn_first@;
@end@
    int32_t own = last->own;
    for (const piece *some = pieces + last->first; some < pieces + last->stop; some++) {
        for (int32_t k = 0; k < some->left_out; k++)
            (void)advance(stream);
        for (int32_t k = 0; k < some->next; k++, (void)advance(stream))
            end(stream);
        const int32_t next = stream->at;
        for (stream->at = own, own += some->own; stream->at < own; stream->at++)
            end(stream);
        stream->at = next;
    }
    @name@_stream_begin(stream, stream->net, &stream->sink);
    return 1;
}
@end@
@unless owner@
@for pushed@

@stream_push@
{
@if passes@
    const int taken = take_in_pass(stream, @number@, row);
@unless number@
    stream->passes.rows += (uint64_t)taken;
@end@
    return taken;
@end@
@unless passes@
    return take(stream, @number@, row);
@end@
}
@end@
@if several@

int @name@_stream_wants(@name@_stream *stream)
{
    return @wanting@(stream);
}
@end@

static @name@_stream only;

void @name@_begin(const @name@_sink *sink)
{
    @name@_stream_begin(&only, &arena, sink);
}
@for pushed@

@push@
{
    return @push_name@(&only, row);
}
@end@
@if endless@

int @name@_finish(void)
{
    return @name@_stream_finish(&only);
}
@end@
@if passes@

int @name@_next_pass(void)
{
    return @name@_stream_next_pass(&only);
}
@end@
@if several@

int @name@_wants(void)
{
    return @name@_stream_wants(&only);
}
@end@
@end@
@end@
