@if owner@
/* A pass over all rows that @owner@.h makes in front of others. */
@end@
@unless owner@
/* @title@@batch@, written by @maker@.
@if renamed@
 * '@title@' @renamed@; here it is called @name@.
@end@
 *
 * Arrays are those of ONNX: dense, axes in their order, images of a batch one after the other.
 * The arena of a frame, a @name@_t, has @arena@ bytes, constants have @weights@.
 * Nothing is allocated; of libraries only libm is used.
@for arguments@
@if given@
 * @way@ @word@: @dtype@ @sizes@, '@place@'; @row@.
@end@
@end@
@for constants@
 * output @word@: @type@, '@place@', a constant.
@end@
 */
@end@
#ifndef @macro@_H
#define @macro@_H

@for earlier@
#include "@pass@.h"
@end@
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define @macro@_ARENA_BYTES @arena_bytes@
@unless owner@
#define @macro@_WEIGHTS_BYTES @weights_bytes@
#define @macro@_IMAGES @images@

/* Most bytes of the stack that a function takes, without those that a sink calls; kernels with vectors take 4096 more. */
#define @macro@_STACK_BYTES @stack_bytes@

@if endless@
/* PER_ROW: elements of a row. A stream may end behind a multiple of ENDS rows. */
@if passes@
/* All rows are given PASSES times. */
@end@
@if held_back@
/* The last rows wait in a @name@_stream until others come, or the end: HELD rows of each input. */
@end@
@end@
@unless endless@
/* SIZE: elements of an array; ROWS: of an image; PER_ROW: elements of a row. */
@end@
@for arguments@
@unless endless@
#define @macro@_@upper@_SIZE @elements@
#define @macro@_@upper@_ROWS @rows@
@end@
@if given@
#define @macro@_@upper@_PER_ROW @per_row@
@if held@
#define @macro@_@upper@_HELD @held@
@end@
@end@
@end@
@if endless@
#define @macro@_ENDS @all_ends@
@end@
@if passes@
#define @macro@_PASSES @passes@
@end@
@for constants@
#define @size@ @elements@
@end@
@end@

/* All that a frame writes. Frames in several of these may be computed at the same time: by a program and its interrupts, or by
 * threads. Where they are, addresses are multiples of 8; of 64 they are fastest. */
typedef struct @name@_t {
    union {
        unsigned char bytes[@macro@_ARENA_BYTES + !@macro@_ARENA_BYTES];
        double doubles[1];
        int64_t integers[1];
@for earlier@
        @pass@_t pass@number@;
@end@
    } arena;
@if counted@
    uint64_t rows; /* of the first input, at the end of a stream */
@end@
} @name@_t;

@unless owner@
#ifdef __GNUC__
#define @macro@_ALIGNED __attribute__((aligned(64)))
#else
#define @macro@_ALIGNED
#endif

@end@
@for callbacks@
/* Yours, in functions.c: of @takes@ it makes out @makes@, which is 0 before. */
void @function@(@parameters@);

@end@
@unless endless@
/* A frame. An output that is NULL is not stored. */
@called@;

/* The same in static memory, which is linked only where this function is called, or another one without a @name@_t. */
@static_called@;

@end@
@if check@
/* A self-test: a frame of inputs that are computed, in static arrays that are linked only where it is called. 0: the outputs are
 * those that csdfgen computed, else how many values differ. */
int @name@_check(@name@_t *net);

@end@
@if streamed@
/* There is no form that takes rows one by one: @streamed@. */

@end@
@unless streamed@
@unless endless@
/* The same without arrays: rows of the inputs come as they are there, and rows of the outputs
 * are handed to functions as they are made. A row is dense, the other axes in their order;
 * what a function gets is gone when it returns. A function that is NULL is not called. */
@end@
@if endless@
/* Rows of the inputs come as they are there, without a last one, and rows of the outputs are handed to functions as they are
 * made. A row is dense, the other axes in their order; what a function gets is gone when it returns. A function that is NULL
 * is not called. */
@end@
typedef struct @name@_sink {
    void *user;
@for outputs@
    void (*@word@)(void *user, @row_type@ row, const @type@ *values);
@end@
} @name@_sink;

/* Where a @frame@ stands whose rows come one by one, with a row of every output, @row_bytes@ bytes. */
typedef struct @name@_stream {
    @name@_t *net;
    @name@_sink sink;
    int32_t at, done;
@if repeats@
    @row_type@ turns;
@end@
@if held_back@
    int32_t front, taken; /* where the next row will be, and how many are taken there */
    int32_t oldest[@input_count@], waiting[@input_count@];
@for inputs@
    @type@ held_@word@[@held@][@least_row@];
@end@
@end@
@for outputs@
    @type@ @word@[@least_row@];
@end@
@if passes@
    struct {
        int32_t number; /* from 1 on */
        uint64_t rows, all; /* of the first input in this pass, and in those before */
        union {
@for earlier@
            @pass@_stream pass@number@;
@end@
        } now;
@for made@
        @type@ @word@[@elements@];
@end@
    } passes;
@end@
} @name@_stream;

@if owner@
void @name@_stream_begin(@name@_stream *stream, @name@_t *net, const @name@_sink *sink);
int @name@_stream_finish(@name@_stream *stream);
int @name@_stream_take(@name@_stream *stream, int32_t input, const void *row);
int @name@_stream_wants(@name@_stream *stream);

@end@
@unless owner@
@if endless@
/* Begins a stream; outputs go to the sink. A copy of the stream and of its @name@_t is all that it takes to go on later. */
void @name@_stream_begin(@name@_stream *stream, @name@_t *net, const @name@_sink *sink);

/* Ends a stream: all outputs that are not there yet are made, and the next row begins another stream.
 * 0: not behind a multiple of @macro@_ENDS rows, or rows of another input are missing; nothing was done. */
int @name@_stream_finish(@name@_stream *stream);

@if passes@
/* Ends a pass in front of the last one, in which outputs are made and which @name@_stream_finish ends: what rows depend on is
 * kept, and all rows are to be given once more. 0: as there, or other rows than in the pass before; nothing was done. */
int @name@_stream_next_pass(@name@_stream *stream);

@end@
/* The next row of an input; what can be computed with it is.
 * 0: another input's row is wanted first, nothing was done; 1: taken. */
@end@
@unless endless@
/* Begins a frame (of one image); outputs go to the sink, in all frames from now on. */
void @name@_stream_begin(@name@_stream *stream, @name@_t *net, const @name@_sink *sink);

/* The next row of an input, from the first to the last; what can be computed with it is.
 * 0: another input's row is wanted first, nothing was done; 1: taken; 2: taken, and the frame
 * is complete: the next row begins the next. */
@end@
@for pushed@
@stream_push@;
@end@

@if several@
/* The input whose row is wanted next: @several@. */
int @name@_stream_wants(@name@_stream *stream);

@end@
/* The same of one stream, in @memory@. */
void @name@_begin(const @name@_sink *sink);
@if endless@
int @name@_finish(void);
@end@
@if passes@
int @name@_next_pass(void);
@end@
@for pushed@
@push@;
@end@
@if several@
int @name@_wants(void);
@end@

@end@
@end@
#ifdef __cplusplus
}
#endif

#endif
