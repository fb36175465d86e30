/* Kernels of csdfgen: layers of convolutional networks over slabs of rows.
 *
 * A map is stored by rows, [row][column][channel], float32, the channels of a pixel side by side.
 * Its rows lie anywhere: every step has a table of their addresses. Nothing here allocates, keeps a
 * state or writes a value outside the rows, columns and channels that a step names; the stack that
 * a call takes is below 8 KiB. A step and all that it points to is constant while it runs, so that
 * it may lie in read-only memory, and threads may share it unless they write the same values.
 */
#ifndef CSDF_H
#define CSDF_H

#include "strided.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with every structure below, so that who was compiled against another header notices. */
#define CSDF_VERSION 9

/* Output channels that are packed side by side, whatever the instruction set. */
#define CSDF_PANEL 16

/* CSDF_CLIP: min(max(x, a), b); Relu is a clip to [0, infinity]. CSDF_LEAKY: x < 0 ? a * x : x.
 * A value that is not a number stays so.
 * Of csdf_map alone: CSDF_SIGMOID, 1 / (1 + e^-x); CSDF_SWISH, x * sigmoid(a * x);
 * CSDF_HARD_SIGMOID, a * x + b clipped to [0, 1]; CSDF_HARD_SWISH, x times that. */
enum {
    CSDF_NONE = 0,
    CSDF_CLIP = 1,
    CSDF_LEAKY = 2,
    CSDF_SIGMOID = 3,
    CSDF_SWISH = 4,
    CSDF_HARD_SIGMOID = 5,
    CSDF_HARD_SWISH = 6
};

typedef struct csdf_activation {
    int32_t kind;
    float a, b;
} csdf_activation;

/* Channels of a map that is read. A map may come in pieces, one after the other along its channels.
 * rows: address of the first pixel of each row; NULL is a row of padding, all zeros.
 * stride: floats from a pixel to the next. */
typedef struct csdf_source {
    const float *const *rows;
    int32_t stride;
    int32_t channels;
} csdf_source;

/* Rows that are written: `count` of them, of each the columns [column, column + columns) and of
 * these the channels [channel, channel + channels), which is how threads share a slab. `channel`
 * is a multiple of CSDF_PANEL from the first channel of its group.
 * rows: address of column 0, channel 0 of each row. stride: floats from a pixel to the next. */
typedef struct csdf_target {
    float *const *rows;
    int32_t stride;
    int32_t count;
    int32_t column, columns;
    int32_t channel, channels;
} csdf_target;

/* A convolution, whichever kernel computes it.
 * pad_left may be negative (a crop). Padding above, below and at the right needs no saying: rows
 * that are NULL, columns behind the map.
 * weights: csdf_conv, [group][ceil(out / groups / 16)][kernel_h][kernel_w][in / groups][16];
 *     csdf_depthwise, [kernel_h][kernel_w][out]; csdf_winograd, blocks of up to four panels of 16
 *     outputs, [block][(tile + 2) * 6][panel][in][16]; csdf_winograd_row, such blocks of every group,
 *     [block][6][panel][kernel_h][in / groups][16]. Best at a multiple of 64 bytes.
 * bias: [group][ceil(out / groups / 16)][16], zeros where there is none; depthwise [out]. */
typedef struct csdf_layer {
    int32_t in_channels, out_channels, groups;
    int32_t kernel_h, kernel_w;
    int32_t stride_h, stride_w;
    int32_t dilation_h, dilation_w;
    int32_t pad_left;
    csdf_activation activation;
    const float *weights;
    const float *bias;
} csdf_layer;

/* A slab of a convolution. Output row r reads rows r * stride_h + y * dilation_h of the pieces' tables
 * for y in [0, kernel_h): the first row of a table is that of the first tap of the first output row.
 * Of a layer of one group the first pieces and the last ones may be nothing but padding, their table NULL:
 * csdf_conv and Winograd's kernels pass over their weights. One piece at least has a table.
 * width: columns of the map that is read.
 * residual: NULL, or a map of the output's shape that is added before the activation; its tables
 *     have a row for each row of the target, which they may be.
 * workspace: of csdf_winograd and csdf_winograd_row, see there.
 * tile: of csdf_winograd, rows of a tile.
 * some: of both of these, input channels of a group at a time, whole panels or all of them; 0: as many as
 *     suit the workspace. Sums are rounded alike where this is, whatever the workspace. Of csdf_conv,
 *     weights of an output channel at a time; 0: as many as suit a near cache.
 * each, apart: of several images, output rows of one, and rows of a piece's table from the first of an image
 *     to that of the next: output row r is row r % each of image r / each. each is 0 where all are of one. */
typedef struct csdf_conv_step {
    const csdf_layer *layer;
    const csdf_source *pieces;
    int32_t piece_count;
    int32_t width;
    csdf_target out;
    const csdf_source *residual;
    float *workspace;
    size_t workspace_bytes;
    int32_t tile, some;
    int32_t each, apart;
} csdf_conv_step;

/* Any convolution of two axes, groups included. */
void csdf_conv(const csdf_conv_step *step);

/* One input channel a group, as many output channels a group as divide evenly. */
void csdf_depthwise(const csdf_conv_step *step);

/* Kernel 3x3, stride and dilation 1, one group. step->tile: 2 for F(2x4, 3x3), 4 for F(4x4, 3x3).
 * Tables of rows as for csdf_conv: of an image two rows more are read than written. workspace: at least
 * csdf_winograd_bytes(layer, tile, 1, channels) bytes for up to 64 of the input channels, aligned to 64;
 * with less nothing is computed. */
void csdf_winograd(const csdf_conv_step *step);

/* Bytes with which `tiles` tiles (of tile x 4 pixels) are computed at a time, from `channels` input
 * channels at a time; more than 128 tiles, or all tiles of a step, are of no use. */
size_t csdf_winograd_bytes(const csdf_layer *layer, int32_t tile, int32_t tiles, int32_t channels);

/* Kernel 2 to 5 wide and at most 127 high, stride and dilation 1 along the rows, any down; any groups.
 * Reads as csdf_conv does. workspace: at least csdf_winograd_row_bytes(layer, 1, 1, channels) bytes
 * for up to 64 of a group's input channels, aligned to 64; with less nothing is computed. */
void csdf_winograd_row(const csdf_conv_step *step);

/* Bytes with which `rows` rows of an image, `tiles` tiles (7 - kernel_w pixels each) of each of them, are
 * computed at a time, from `channels` input channels of a group at a time; for as many rows of several images
 * as many times that. */
size_t csdf_winograd_row_bytes(const csdf_layer *layer, int32_t rows, int32_t tiles, int32_t channels);

/* Rows of a matrix times a constant one: out[r] = activation(bias + rows[r] * weights).
 * The sum over inputs may be made in parts: of `outputs` sums over all `inputs` a step adds those
 * of `parts` pieces, from input `first` on. begin: starts from the bias instead of what `out` has;
 * end: applies the activation.
 * rows: [parts][count], address of the values of each part and row; sizes: values of each part.
 * weights: [ceil(outputs / 16)][inputs][16], bias [ceil(outputs / 16)][16].
 * Outputs [channel, channel + channels) are computed; channel is a multiple of CSDF_PANEL. */
typedef struct csdf_gemm_step {
    int32_t inputs, outputs;
    int32_t first, parts;
    int32_t count;
    int32_t channel, channels;
    int32_t begin, end;
    csdf_activation activation;
    const float *weights;
    const float *bias;
    const int32_t *sizes;
    const float *const *rows;
    float *const *out;
} csdf_gemm_step;

void csdf_gemm(const csdf_gemm_step *step);

/* What csdf_map computes of its operands a, b and c. CSDF_LEAK: a < 0 ? a * b : a. */
enum {
    CSDF_COPY = 0,
    CSDF_ADD = 1,
    CSDF_SUBTRACT = 2,
    CSDF_MULTIPLY = 3,
    CSDF_DIVIDE = 4,
    CSDF_SCALE = 5, /* a * b + c */
    CSDF_LEAK = 6
};

/* Element by element: out = activation(operation(operands)), `count` rows of `columns` pixels of
 * `channels` floats. The output may be an operand.
 * operands: rows is NULL for those that the operation does not have, each row's address else; stride:
 *     floats from a pixel to the next, 0: all of a row meet the same pixel; channels: 1, or 0 where a
 *     pixel is one number for all channels.
 * out: address of each row; stride: floats from a pixel to the next. */
typedef struct csdf_map_step {
    int32_t operation;
    int32_t count, columns, channels;
    csdf_source operands[3];
    float *const *out;
    int32_t stride;
    csdf_activation activation;
} csdf_map_step;

void csdf_map(const csdf_map_step *step);

/* Windows of a map become their greatest value, or (average) their sum divided by the product of
 * rows_seen of the output row and columns_seen of the output column, both positive.
 * Output row r reads rows r * stride_h + y * dilation_h of the source for y in [0, kernel_h), NULL ones
 * not at all; width: columns of the map that is read, others are not read either.
 * begin: starts from nothing instead of what the output has; end: divides and applies the activation.
 * out: address of each of `count` rows of `columns` pixels; stride: floats from a pixel to the next. */
typedef struct csdf_pool_step {
    int32_t average;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int32_t pad_left, width;
    int32_t begin, end;
    int32_t count, columns;
    int32_t stride;
    csdf_source source;
    float *const *out;
    const int32_t *rows_seen, *columns_seen;
    csdf_activation activation;
} csdf_pool_step;

void csdf_pool(const csdf_pool_step *step);

/* Maps of bytes: tensors of int8 or uint8, whose numbers stand for values (docs/model.md, Number formats).
 *
 * Channels of such a map that is read: as csdf_source, in bytes. A row that is NULL is padding. */
typedef struct csdf_byte_source {
    const uint8_t *const *rows;
    int32_t stride;
    int32_t channels;
} csdf_byte_source;

/* Rows that are written: as csdf_target. stride: bytes from a pixel to the next. */
typedef struct csdf_byte_target {
    uint8_t *const *rows;
    int32_t stride;
    int32_t count;
    int32_t column, columns;
    int32_t channel, channels;
} csdf_byte_target;

/* What becomes of sums of products. CSDF_BYTES: a byte, round(sum * factor) + zero from low to high, half to
 * even; CSDF_INTEGERS: the sum, int32; CSDF_VALUES: sum * factor, float.
 * factors: of each output, in panels as the bias is; NULL for CSDF_INTEGERS. */
enum { CSDF_BYTES = 0, CSDF_INTEGERS = 1, CSDF_VALUES = 2 };

typedef struct csdf_rescaling {
    int32_t kind;
    int32_t zero, low, high;
    const float *factors;
} csdf_rescaling;

/* A convolution of bytes. Sums are of signed bytes: an input of unsigned ones is 128 smaller.
 * flip: 128 if the input is unsigned, else 0. padding: what padding reads, signed: the zero point.
 * pace: weights of an output from a tap to the next: the input channels of a group, unless they are filled
 *     up with zeros to a multiple of four.
 * weights: csdf_conv_bytes, signed, [group][ceil(out / groups / 16)][four terms of a sum][16][4], a sum has
 *     kernel_h * kernel_w * pace terms, filled up with zeros to a multiple of four;
 *     csdf_depthwise_bytes, signed, [kernel_w][pairs of a column][out][2]: a column's taps two by two from above to
 *     below, filled up with zeros; out is filled up to a multiple of 16.
 * bias: [2][group][ceil(out / groups / 16)][16], what is added to the sums for inputs that are signed, and for
 *     such that are 128 larger, as some processors want them.
 * zeros: NULL, or as the bias, times which the sum of all inputs is taken away: zero points of the weights. */
typedef struct csdf_byte_layer {
    int32_t in_channels, out_channels, groups;
    int32_t kernel_h, kernel_w;
    int32_t stride_h, stride_w;
    int32_t dilation_h, dilation_w;
    int32_t pad_left;
    int32_t flip, padding, pace;
    csdf_rescaling into;
    const int8_t *weights;
    const int32_t *bias;
    const int32_t *zeros;
} csdf_byte_layer;

/* A slab of it: as csdf_conv_step. workspace: where values are gathered, aligned to 16; best are bytes for all
 * terms of a dozen sums, two each; with few or none it is done in parts, on the stack. */
typedef struct csdf_byte_conv_step {
    const csdf_byte_layer *layer;
    const csdf_byte_source *pieces;
    int32_t piece_count;
    int32_t width;
    csdf_byte_target out;
    void *workspace;
    size_t workspace_bytes;
    int32_t each, apart;
} csdf_byte_conv_step;

/* Any convolution of two axes, groups included; and products with a constant matrix, whose rows are pixels. */
void csdf_conv_bytes(const csdf_byte_conv_step *step);

/* One input channel a group, and one output channel. */
void csdf_depthwise_bytes(const csdf_byte_conv_step *step);

/* What csdf_map_bytes computes of bytes x and y, as the integers that they are, and `set`:
 * CSDF_TABLE: table[x], of the bits of a byte;
 * CSDF_ADD_BYTES: round(x * set[0] + (y * set[1] + set[2])), each product and sum rounded once (a fused one);
 * CSDF_MULTIPLY_BYTES: round((x - zeros[0]) * (y - zeros[1]) * set[0] + set[1]), rounded at each step;
 * CSDF_QUANTIZE: round(v / set[0]) + set[1] of a float v;
 * CSDF_DEQUANTIZE: the float (x - zeros[0]) * set[0].
 * All rounded half to even, and kept from low to high. */
enum { CSDF_TABLE = 0, CSDF_ADD_BYTES = 1, CSDF_MULTIPLY_BYTES = 2, CSDF_QUANTIZE = 3, CSDF_DEQUANTIZE = 4 };

/* Element by element: `count` rows of `columns` pixels of `channels` elements. The output may be an operand.
 * flip: of either operand, 128 if its bytes are unsigned, else 0.
 * operands: as those of csdf_map, strides in bytes; out, stride: as csdf_byte_target. */
typedef struct csdf_byte_map_step {
    int32_t operation;
    int32_t count, columns, channels;
    int32_t low, high;
    int32_t flip[2];
    int32_t zeros[2];
    float set[3];
    const uint8_t *table;
    csdf_byte_source operands[2];
    uint8_t *const *out;
    int32_t stride;
} csdf_byte_map_step;

void csdf_map_bytes(const csdf_byte_map_step *step);

/* Windows of a map of bytes become their greatest one: as csdf_pool, which says what the others mean.
 * flip: 128 if bytes are unsigned, else 0. stride: bytes. A window that sees nothing has the least byte there is. */
typedef struct csdf_byte_pool_step {
    int32_t flip;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int32_t pad_left, width;
    int32_t begin;
    int32_t count, columns;
    int32_t stride;
    csdf_byte_source source;
    uint8_t *const *out;
} csdf_byte_pool_step;

void csdf_pool_bytes(const csdf_byte_pool_step *step);

/* Windows of a map of bytes become the average of their values (x - source_zero) * scale: these are added up one by
 * one, from left to right and from above to below, divided by the product of rows_seen and columns_seen, then by
 * out_scale; the output is round(that + zero), from low to high. Each step is rounded by itself, in 32 bits. Others are
 * those of csdf_byte_pool_step and csdf_pool_step. */
typedef struct csdf_byte_average_step {
    int32_t flip;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int32_t pad_left, width;
    int32_t count, columns;
    int32_t stride;
    int32_t source_zero, zero, low, high;
    float scale, out_scale;
    csdf_byte_source source;
    uint8_t *const *out;
    const int32_t *rows_seen, *columns_seen;
} csdf_byte_average_step;

void csdf_average_bytes(const csdf_byte_average_step *step);

/* Rows of a map of bytes are added up: sums[channel], floats that hold integers, are those of all rows before, unless
 * it begins. end: then the output is round((sum + rest) * factor) + zero, from low to high.
 * source: `count` rows of `width` pixels. */
typedef struct csdf_byte_sum_step {
    int32_t flip;
    int32_t begin, end;
    int32_t count, width;
    int32_t rest, zero, low, high;
    float factor;
    csdf_byte_source source;
    float *sums;
    uint8_t *out;
} csdf_byte_sum_step;

void csdf_sum_bytes(const csdf_byte_sum_step *step);

/* A kernel and its step, in a form that is the same for all kernels; tables of these are programs. */
typedef struct csdf_record {
    void (*kernel)(const void *step);
    const void *step;
} csdf_record;

void csdf_run(const csdf_record *records, int32_t count);

/* An array of whoever runs the program, set before a frame: where it starts (NULL: nothing is moved),
 * the copy (csdf_copy_..., csdf_from_..._to_...) between its elements and the program's, and bytes from
 * one element to the next along each of its axes. */
typedef struct csdf_port {
    void *base;
    void (*copy)(const void *step);
    ptrdiff_t strides[CSDF_RANK];
} csdf_port;

/* Elements between a port and memory of the program, out of the port or into it.
 * dims: size, and in `a` the stride in the program's memory, of each dimension; axes: which of the port's
 * axes it is. starts: first element along each of the port's axes, of which there are `port_rank`. */
typedef struct csdf_transfer {
    const csdf_port *port;
    const csdf_dim *dims;
    const int32_t *axes;
    const int32_t *starts;
    int32_t rank, port_rank;
    int32_t into_port;
    void *memory;
} csdf_transfer;

void csdf_move(const void *step);

void csdf_conv_of(const void *step);
void csdf_depthwise_of(const void *step);
void csdf_winograd_of(const void *step);
void csdf_winograd_row_of(const void *step);
void csdf_gemm_of(const void *step);
void csdf_map_of(const void *step);
void csdf_pool_of(const void *step);
void csdf_conv_bytes_of(const void *step);
void csdf_depthwise_bytes_of(const void *step);
void csdf_map_bytes_of(const void *step);
void csdf_pool_bytes_of(const void *step);
void csdf_average_bytes_of(const void *step);
void csdf_sum_bytes_of(const void *step);

/* What was built: "avx512", "avx2", "neon" or "scalar"; CSDF_VERSION and sizes of the structures. */
const char *csdf_instructions(void);
const char *csdf_compiler(void);
/* An instruction set that was compiled for and that this processor has not, or NULL. */
const char *csdf_lacking(void);
double csdf_peak(int32_t rounds, float *kept);
int32_t csdf_version(void);
/* Of the structures in the order in which strided.h, this header and team.h declare them; 0 behind the last. */
size_t csdf_size_of(int32_t which);

#ifdef __cplusplus
}
#endif

#endif
