/* Kernels of csdfgen: layers of convolutional networks over slabs of rows.
 *
 * A map is stored by rows, [row][column][channel], in float32; the channels of a pixel are contiguous.
 * Rows may be anywhere in memory: every step has a table of their addresses. The kernels allocate
 * nothing, keep no state, and write nothing outside the rows, columns and channels that a step names;
 * a call takes less than 8 KiB of stack, with vectors less than 12, with AVX512_BF16 less than 120. A step and everything that it
 * points to is constant while it runs, so that it may be in read-only memory, and threads may share it
 * unless they write the same values.
 */
#ifndef CSDF_H
#define CSDF_H

#include "strided.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with every structure below, so that code that was compiled with another header is detected. */
#define CSDF_VERSION 19

/* Output channels of a panel of packed weights, for every instruction set. */
#define CSDF_PANEL 16

/* CSDF_CLIP: min(max(x, a), b); Relu is a clip to [0, infinity]. CSDF_LEAKY: x < 0 ? a * x : x.
 * NaN stays NaN.
 * Only csdf_map has CSDF_SIGMOID, 1 / (1 + e^-x); CSDF_SWISH, x * sigmoid(a * x);
 * CSDF_HARD_SIGMOID, a * x + b clipped to [0, 1]; CSDF_HARD_SWISH, x times that; CSDF_TANH; CSDF_ERF, the error
 * function; CSDF_GELU, x times the normal distribution at x; CSDF_GELU_TANH, ONNX's approximation of it; CSDF_MISH,
 * x * tanh(log(1 + e^x)). */
enum {
    CSDF_NONE = 0,
    CSDF_CLIP = 1,
    CSDF_LEAKY = 2,
    CSDF_SIGMOID = 3,
    CSDF_SWISH = 4,
    CSDF_HARD_SIGMOID = 5,
    CSDF_HARD_SWISH = 6,
    CSDF_TANH = 7,
    CSDF_ERF = 8,
    CSDF_GELU = 9,
    CSDF_GELU_TANH = 10,
    CSDF_MISH = 11
};

typedef struct csdf_activation {
    int32_t kind;
    float a, b;
} csdf_activation;

/* Channels of a map that is read. A map may consist of several pieces along its channels.
 * rows: address of the first pixel of each row; NULL is a row of padding, all zeros.
 * stride: floats from one pixel to the next. */
typedef struct csdf_source {
    const float *const *rows;
    int32_t stride;
    int32_t channels;
} csdf_source;

/* `count` rows that are written: columns [column, column + columns) of each, and channels
 * [channel, channel + channels) of these, so that threads can share a slab. `channel` is a multiple of
 * CSDF_PANEL, counted from the first channel of its group.
 * rows: address of column 0, channel 0 of each row. stride: floats from one pixel to the next. */
typedef struct csdf_target {
    float *const *rows;
    int32_t stride;
    int32_t count;
    int32_t column, columns;
    int32_t channel, channels;
} csdf_target;

/* A convolution, for all kernels that compute one.
 * pad_left may be negative (a crop). Padding above and below are rows that are NULL, and padding at the
 * right are columns beyond the map's width.
 * weights: csdf_conv, [group][panel][kernel_h][kernel_w][in / groups][16]; the last panel of a group has as many outputs as
 *     there are left, so that groups follow each other without a gap;
 *     csdf_depthwise, [kernel_h][kernel_w][out]; Winograd's kernels, the same as csdf_conv or, where at_points is 1,
 *     what products take at points, which is faster but more: csdf_winograd, blocks of up to four panels of 16
 *     outputs, [block][(tile + 2) * 6][panel][in][16]; csdf_winograd_row, blocks of every group,
 *     [block][6][panel][kernel_h][in / groups][16]. Fastest at a multiple of 64 bytes.
 * bias: [out], zeros where there is none.
 * Vectors are read whole: weights of csdf_conv and biases are followed by as many floats, of any value, as the last panel
 * lacks of sixteen. */
typedef struct csdf_layer {
    int32_t in_channels, out_channels, groups;
    int32_t kernel_h, kernel_w;
    int32_t stride_h, stride_w;
    int32_t dilation_h, dilation_w;
    int32_t pad_left;
    csdf_activation activation;
    int32_t at_points;
    const float *weights;
    const float *bias;
} csdf_layer;

/* A slab of a convolution. Output row r reads rows r * stride_h + y * dilation_h of the pieces' tables
 * for y in [0, kernel_h): the first row of a table is that of the first tap of the first output row.
 * In a layer of one group, the first and the last pieces may consist of padding only and have no table (NULL):
 * csdf_conv and Winograd's kernels skip their weights. At least one piece has a table.
 * width: columns of the map that is read.
 * residual: NULL, or a map of the output's shape that is added before the activation; its table has a row
 *     for each row of the target, and these rows may be the target's own.
 * workspace: for csdf_winograd and csdf_winograd_row, see there.
 * tile: for csdf_winograd, rows of a tile.
 * some: for both of these, input channels of a group that are processed at a time, whole panels or all
 *     channels; 0: as many as fit the workspace. Equal values round sums equally, for any workspace. For
 *     csdf_conv, weights of an output channel that are processed at a time; 0: as many as fit a near cache.
 * each, apart: for several images, output rows of one image, and rows of a piece's table from the first row of
 *     one image to that of the next: output row r is row r % each of image r / each. each is 0 for one image. */
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

/* Those of one group that have few output channels, up to the order in which products are added up.
 * weights: [out][kernel_h][kernel_w][in]. */
void csdf_conv_dots(const csdf_conv_step *step);

/* As csdf_conv, of bfloat16: rows are of such, strides in elements; biases are floats, sums are those of csdf_conv with
 * widened values, to the bit, before they are rounded. Where there are several pieces, all but the last have an even number of
 * channels, as has a group.
 * weights: [group][panel][kernel_h][kernel_w][ceil(in / groups / 2)][16] words of two, the first channel in the upper half,
 *     panels as csdf_conv has them; behind an odd number of channels comes -0. */
void csdf_conv_bf16(const csdf_conv_step *step);

/* The same of float16. weights: [...][ceil(in / groups / 2)][4][2][4] elements: four outputs' of one channel, then of the next;
 * outputs of a group are filled up to fours. */
void csdf_conv_f16(const csdf_conv_step *step);

/* One input channel per group, and any equal number of output channels per group. */
void csdf_depthwise(const csdf_conv_step *step);

/* The same of bfloat16, rounded once: one output channel per group, at most 64 taps, no sums of other steps. Weights and biases
 * are floats. */
void csdf_depthwise_bf16(const csdf_conv_step *step);

/* Kernel 3x3, stride and dilation 1, one group. step->tile: 2 for F(2x4, 3x3), 4 for F(4x4, 3x3).
 * Tables of rows as for csdf_conv: two more rows of an image are read than written. workspace: at least
 * csdf_winograd_kept(layer, tile) + csdf_winograd_bytes(layer, tile, 1, channels) bytes for up to 64 of the input channels, aligned to 64;
 * with a smaller one, nothing is computed. */
void csdf_winograd(const csdf_conv_step *step);

/* Bytes that computing `tiles` tiles (of tile x 4 pixels) from `channels` input channels at a time takes;
 * more than 128 tiles, or than all tiles of a step, bring nothing. */
size_t csdf_winograd_bytes(const csdf_layer *layer, int32_t tile, int32_t tiles, int32_t channels);

/* Bytes of the workspace for weights that are taken to points, beside these. */
size_t csdf_winograd_kept(const csdf_layer *layer, int32_t tile);
size_t csdf_winograd_row_kept(const csdf_layer *layer);

/* Kernel 2 to 5 wide and at most 127 high, stride and dilation 1 along the rows, any in the other direction;
 * any groups. Reads what csdf_conv reads. workspace: at least csdf_winograd_row_kept(layer) + csdf_winograd_row_bytes(layer, 1, 1, channels)
 * bytes for up to 64 of a group's input channels, aligned to 64; with a smaller one, nothing is computed. */
void csdf_winograd_row(const csdf_conv_step *step);

/* Bytes that computing `tiles` tiles (7 - kernel_w pixels each) of each of `rows` rows of an image takes, from
 * `channels` input channels of a group at a time; for that many rows of each of several images, a multiple. */
size_t csdf_winograd_row_bytes(const csdf_layer *layer, int32_t rows, int32_t tiles, int32_t channels);

/* What part `part` of `parts` does in stage `stage` of a step. The parts of a stage may be done at the same time; the stages
 * one after the other, from 0 on, are the step. A stage behind the last one does nothing. */
typedef struct csdf_conv_share {
    const csdf_conv_step *step;
    int32_t stage;
    int32_t part, parts;
} csdf_conv_share;

void csdf_winograd_share(const csdf_conv_share *share);
void csdf_winograd_row_share(const csdf_conv_share *share);

/* Rows of a matrix times a constant matrix: out[r] = activation(bias + rows[r] * weights).
 * The sum over `inputs` may be split: a step adds the products of `parts` pieces, from input `first` on.
 * begin: starts from the bias instead of the values in `out`; end: applies the activation.
 * rows: [parts][count], address of the values of each part and row; sizes: number of values of each part.
 * weights: [panel][inputs][16], the last panel and bias as csdf_conv has them.
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

/* The same with weights of two bytes, which are widened in registers: for few rows, whose time is that of reading weights.
 * The bits are those of csdf_gemm with widened weights. */
void csdf_gemm_bf16(const csdf_gemm_step *step);
void csdf_gemm_f16(const csdf_gemm_step *step);

/* The same with weights of four bits, which are widened some at a time: (q - zero) * scale.
 * weights: [panel][pairs of inputs][16], the first of two in the lower half of a byte; scales: [panel][blocks of `block`
 *     inputs][16]; zeros: [panel][pairs of blocks][16], NULL: all are 8. sizes: one, of `inputs`. */
typedef struct csdf_gemm_4_step {
    int32_t inputs, outputs;
    int32_t block;
    int32_t count;
    int32_t channel, channels;
    csdf_activation activation;
    const uint8_t *weights;
    const float *scales;
    const uint8_t *zeros;
    const float *bias;
    const int32_t *sizes;
    const float *const *rows;
    float *const *out;
} csdf_gemm_4_step;

void csdf_gemm_4(const csdf_gemm_4_step *step);

/* Queries that attention computes at a time, at most. */
#define CSDF_QUERIES 32

/* Attention of `groups` (images times heads): of each query the values' sum, weighted by
 * softmax(cap * tanh(scale * q k' / cap) + masks); cap 0: without that bound.
 * q, out: [groups][count], k, v: [groups][keys], addresses of a query's `channels` floats, of a result's and a value's
 *     `values` floats; ..._step: floats from one channel to the next.
 * mask: [masks][groups][count], addresses of `keys` floats, mask_step floats apart. causal: -1, or the number of the first query, whose keys
 *     behind its own number are left out.
 * queries, block: queries and keys that are processed at a time, block a multiple of 16 or at least `keys`; neither
 *     changes a bit of what is computed. zeros: whether values weigh 0 where the softmax is no number, as where
 *     no score is finite. workspace: with p = 16, of floats
 *     block >= keys: ceil(keys / p) * p * channels + ceil(values / p) * p * keys, else the larger of
 *     block * channels and ceil(values / p) * p * block; and for each of `queries` ceil(keys / p) * p, and the larger of
 *     channels and ceil(values / p) * p where q_step or out_step is not 1. */
typedef struct csdf_attention_step {
    int32_t groups, count, keys, channels, values;
    int32_t q_step, k_step, v_step, out_step;
    int32_t masks, mask_step, causal;
    int32_t queries, block, zeros;
    float scale, cap;
    const float *const *q;
    const float *const *k;
    const float *const *v;
    const float *const *mask;
    float *const *out;
    float *workspace;
} csdf_attention_step;

void csdf_attention(const csdf_attention_step *step);

/* Sums over `count` rows, of `groups` matrices: out[0][(g * height + i) * width + j] is the sum over k of
 * a[k][g * a_group + i * a_step] * b[k][g * b_group + j * b_step].
 * a, b: [count], addresses of rows; out: [1]. */
typedef struct csdf_contract_step {
    int32_t count, groups, height, width;
    int32_t a_group, a_step, b_group, b_step;
    const float *const *a;
    const float *const *b;
    float *const *out;
} csdf_contract_step;

void csdf_contract(const csdf_contract_step *step);

/* Products of `groups` pairs of matrices: row i and column j of out are the sum over k below `depth` of a(i, k) * b(k, j).
 * a, out: [groups][count], addresses of rows, a_step and out_step floats from one column to the next.
 * b: [groups][depth], addresses of rows, b_step floats from one column to the next; with by_columns [groups][columns],
 *     addresses of columns, b_step floats from one row to the next.
 * rows: of a that are processed at a time where a_step or out_step is not 1, at most CSDF_ROWS; does not change a bit of
 *     what is computed. workspace: for each of them `depth` floats where a_step is not 1, and `columns`, padded to a
 *     multiple of 32, where out_step is not 1. */
#define CSDF_ROWS 32

typedef struct csdf_multiply_step {
    int32_t groups, count, depth, columns;
    int32_t a_step, b_step, out_step;
    int32_t by_columns, rows;
    const float *const *a;
    const float *const *b;
    float *const *out;
    float *workspace;
} csdf_multiply_step;

void csdf_multiply(const csdf_multiply_step *step);

/* The same of matrices of bfloat16, or float16, steps in elements; the workspace is as if no step were 1. */
void csdf_matrices_bf16(const csdf_multiply_step *step);
void csdf_matrices_f16(const csdf_multiply_step *step);

/* Rows of `lines` times `size` floats, each of these lines on its own: (a - mean) / sqrt(variance + epsilon) * scale + bias;
 * without `centre` mean is 0.
 * scale, bias: NULL, or one an element of a line. a, out: [count], addresses of rows; they may be the same. */
typedef struct csdf_normalize_step {
    int32_t count, lines, size, centre;
    float epsilon;
    const float *scale;
    const float *bias;
    const float *const *a;
    float *const *out;
} csdf_normalize_step;

void csdf_normalize(const csdf_normalize_step *step);

/* The same of bfloat16, or float16; scale and bias are floats. */
void csdf_normalize_bf16(const csdf_normalize_step *step);
void csdf_normalize_f16(const csdf_normalize_step *step);

/* Maps of several rows, whose channels are normalized over all rows of an image: (a - mean) / sqrt(variance + epsilon) * scale
 * + bias, then the activation; without `centre` mean is 0. Channels [first, last) of `channels`; `group` neighbours share a
 * mean, and are all among these. first is a multiple of CSDF_PANEL.
 * images, count: rows are those of one image behind those of another. pixels: of a row, a_step and out_step floats apart.
 * scale, bias: NULL, or one a channel; with `each` one an element, [count][pixels][channels].
 * a, out: [images][count], addresses of rows; they may be the same. workspace: 2 * (channels + 16) floats. */
typedef struct csdf_standardize_step {
    int32_t images, count, pixels, channels;
    int32_t a_step, out_step;
    int32_t group, first, last;
    int32_t centre, each;
    float epsilon;
    csdf_activation activation;
    const float *scale;
    const float *bias;
    const float *const *a;
    float *const *out;
    float *workspace;
} csdf_standardize_step;

void csdf_standardize(const csdf_standardize_step *step);

/* The same of maps of bfloat16, or float16; scale, bias and the workspace have floats. */
void csdf_standardize_bf16(const csdf_standardize_step *step);
void csdf_standardize_f16(const csdf_standardize_step *step);

/* Softmax of lines: rows of `blocks` times `size` times `inner` floats, in each block `inner` lines of `size` floats that
 * are `inner` floats apart.
 * a, out: [count], addresses of rows; they may be the same. */
typedef struct csdf_softmax_step {
    int32_t count, blocks, size, inner;
    const float *const *a;
    float *const *out;
} csdf_softmax_step;

void csdf_softmax(const csdf_softmax_step *step);

/* What csdf_map computes from its operands a, b and c. CSDF_LEAK: a < 0 ? a * b : a. */
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
 * operands: rows is NULL for operands that the operation does not have, else a table of row addresses; stride:
 *     floats from one pixel to the next, 0 if all pixels of a row use the same one; channels: 1, or 0 if a
 *     pixel is one number for all channels.
 * out: address of each row; stride: floats from one pixel to the next. */
typedef struct csdf_map_step {
    int32_t operation;
    int32_t count, columns, channels;
    csdf_source operands[3];
    float *const *out;
    int32_t stride;
    csdf_activation activation;
} csdf_map_step;

void csdf_map(const csdf_map_step *step);

/* The same of maps of bfloat16, or float16: operands and the output have elements of two bytes, computed with as floats and
 * rounded once; factors and shifts of CSDF_SCALE are floats. No sums of more than two operands; activations up to CSDF_LEAKY, others of a copy alone. */
void csdf_map_bf16(const csdf_map_step *step);
void csdf_map_f16(const csdf_map_step *step);

/* The greatest value of each window of a map, or (average) the sum of the window divided by the product of
 * rows_seen of the output row and columns_seen of the output column, both positive.
 * Output row r reads rows r * stride_h + y * dilation_h of the source for y in [0, kernel_h) that are not NULL;
 * width: columns of the map, beyond which nothing is read.
 * begin: starts empty instead of from the values in the output; end: divides and applies the activation.
 * out: address of each of `count` rows of `columns` pixels; stride: floats from one pixel to the next. */
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

/* The same of maps of bfloat16, or float16, that begins and ends; sums of fewer than 64 values. */
void csdf_pool_bf16(const csdf_pool_step *step);
void csdf_pool_f16(const csdf_pool_step *step);

/* Maps of bytes: tensors of int8 or uint8, quantized values (docs/model.md, Number formats).
 *
 * Channels of a map of bytes that is read: as csdf_source, in bytes. A row that is NULL is padding. */
typedef struct csdf_byte_source {
    const uint8_t *const *rows;
    int32_t stride;
    int32_t channels;
} csdf_byte_source;

/* Rows that are written: as csdf_target. stride: bytes from one pixel to the next. */
typedef struct csdf_byte_target {
    uint8_t *const *rows;
    int32_t stride;
    int32_t count;
    int32_t column, columns;
    int32_t channel, channels;
} csdf_byte_target;

/* What sums of products are stored as. CSDF_BYTES: a byte, round(sum * factor) + zero, rounded half to even and
 * clipped to [low, high]; CSDF_INTEGERS: the sum, int32; CSDF_VALUES: sum * factor, float; CSDF_SHIFTED: a byte,
 * (sum * multiplier + 2^(shift - 1)) / 2^shift + zero, in integers of 64 bits, rounded down, clipped likewise,
 * or, where the shift is below 0, what csdf_twice (bytes.h) makes of the three;
 * CSDF_CENTRED, of csdf_conv_bytes alone: the sum less the input's zero point times the sum of the output's weights, int32.
 * factors: one for each output, in panels like the bias, for CSDF_BYTES and CSDF_VALUES; else NULL.
 * shifts: for CSDF_SHIFTED the pairs of a multiplier and a shift (1 to 62, -63 to -2) of each output, for CSDF_CENTRED the sum of its
 *     weights less their zero points, likewise; else NULL. */
enum { CSDF_BYTES = 0, CSDF_INTEGERS = 1, CSDF_VALUES = 2, CSDF_SHIFTED = 3, CSDF_CENTRED = 4 };

typedef struct csdf_rescaling {
    int32_t kind;
    int32_t zero, low, high;
    const float *factors;
    const int32_t *shifts;
} csdf_rescaling;

/* A convolution of bytes. Sums are of signed bytes: 128 is subtracted from unsigned inputs.
 * flip: 128 if the input is unsigned, else 0. padding: the value of padding, signed: the zero point; not used where sums
 *     become CSDF_CENTRED.
 * pace: weights of an output from one tap to the next: the input channels of a group, padded with zeros to a
 *     multiple of four where that is faster.
 * weights: csdf_conv_bytes, signed, [group][ceil(out / groups / 16)][four terms of a sum][16][4]; a sum has
 *     kernel_h * kernel_w * pace terms, padded with zeros to a multiple of four;
 *     csdf_depthwise_bytes, signed, [kernel_w][pairs of a column][out][2]: the taps of a column in pairs from top to
 *     bottom, padded with zeros; out is padded to a multiple of 16.
 * bias: [2][group][ceil(out / groups / 16)][16], what is added to the sums for signed inputs, and for inputs that are
 *     128 larger, which some processors need.
 * zeros: NULL, or zero points of the weights, laid out like the bias: times the sum of all inputs they are subtracted. */
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

/* A slab of a convolution of bytes: as csdf_conv_step. workspace: where values are gathered, aligned to 16; all terms
 * of a dozen sums, two bytes each, are best; with less, values are gathered in parts, on the stack. Where sums become
 * CSDF_CENTRED, one more piece follows the piece_count ones: its first byte is the zero point of the input, which padding
 * reads as, too. */
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

/* Any convolution of two axes, groups included; and products with a constant matrix, whose rows are the pixels. */
void csdf_conv_bytes(const csdf_byte_conv_step *step);

/* Recurrent layers. CSDF_GRU_LINEAR: the product with the hidden values comes before the reset gate. */
enum { CSDF_RNN = 0, CSDF_GRU = 1, CSDF_GRU_LINEAR = 2, CSDF_LSTM = 3 };

/* What csdf_recurrent_bytes reads. given: [steps][batch], what inputs add to the gates, [gates][hidden]. product: of `values`,
 * [batch][ceil(hidden / 16) * 16], the hidden values as bytes, whose zero point is put at `zero`, with weights, to `sums`, which
 * are laid out like gates, as are bias, which is added to what is given, and scales, of the weights. */
typedef struct csdf_recurrent_product {
    const float *const *given;
    const csdf_byte_conv_step *product;
    uint8_t *values, *zero;
    const int32_t *sums;
    const float *bias, *scales;
} csdf_recurrent_product;

/* `steps` steps of a recurrent layer, for `batch` sequences of `hidden` hidden values. What is an input of an activation
 * is clipped to [-clip, clip] before.
 * A panel has the gates of 16 hidden values, filled up with zeros: [gate][16], the gates in the order of ONNX: i, o, f, c;
 * z, r, h. activations: f, g, h of ONNX.
 * weights: [ceil(hidden / 16)][hidden][gates][16]; of CSDF_GRU those of z and r, and behind all of these those of h.
 * bias: of CSDF_GRU_LINEAR, [ceil(hidden / 16)][16], what is added to the product of gate h with the hidden values.
 * peepholes: of CSDF_LSTM, NULL or [3][ceil(hidden / 16)][16], of the gates i, o, f.
 * gates: [steps][batch][ceil(hidden / 16)][gates][16], what inputs and biases add to the gates; overwritten.
 * h, c: where the states are, [batch][hidden]; first_h, first_c: what they are before the first step, the same, or NULL for
 *     zeros. c: of CSDF_LSTM alone.
 * bytes: of csdf_recurrent_bytes alone, which has no weights and gates of one step.
 * workspace: 3 * batch * ceil(hidden / 16) * 16 floats.
 * out: NULL, or where the hidden values of each step and sequence are stored. */
typedef struct csdf_recurrent_step {
    int32_t kind, steps, batch, hidden;
    int32_t input_forget;
    float clip;
    csdf_activation activations[3];
    const float *weights;
    const float *bias;
    const float *peepholes;
    float *gates;
    const float *first_h;
    const float *first_c;
    float *h;
    float *c;
    float *workspace;
    float *const *out;
    const csdf_recurrent_product *bytes;
} csdf_recurrent_step;

void csdf_recurrent(const csdf_recurrent_step *step);

/* An LSTM whose hidden values are quantized by their range in every step, that of all sequences, and multiplied as bytes. */
void csdf_recurrent_bytes(const csdf_recurrent_step *step);

/* csdf_recurrent, with what makes the gates of a step from the hidden values before it, or NULL. */
typedef void csdf_gates_of(const csdf_recurrent_step *step, int32_t t, const float *now);
void csdf_recurrent_by(const csdf_recurrent_step *step, csdf_gates_of *gates_of);

/* 3x3 windows, stride and dilation 1, one group, no zero points of weights, outputs that are bytes, with fewer products: the
 * same bytes. weights: 16 bits, [ceil(out / 16)][16][pairs of input channels][16][2], G w G' with G twice the usual one.
 * bias: times four, once: for signed inputs. workspace: [tiles][16][input channels, even] of 16 bits, aligned to 16, for tiles of
 * 2x2 pixels; 16 KiB of stack are used where it has less. At most 512 input channels, or nothing is computed. */
void csdf_byte_winograd(const csdf_byte_conv_step *step);

/* Rows that csdf_multiply_bytes multiplies at a time, at most. */
#define CSDF_BYTE_ROWS 32

/* Products of matrices of bytes that are both computed: as csdf_multiply, steps in elements.
 * apart: addresses in `b` from a group to the next. flip, zero: of b, 128 if it is unsigned, and its zero point, signed.
 * rows, wide: rows of a that are copied, and columns of b that are packed, at a time: neither changes what is computed.
 * layer: of one pixel from `depth` to `columns` channels, all with the first factor; its flip and padding are those of a.
 *     Weights and biases, which are NULL, are made of b for each group.
 * workspace: aligned to 64: for each of `wide` columns, rounded up to 16, depth bytes, rounded up to four, and 8 more, and
 *     4 for each of `rows` or, if these are fewer, CSDF_BYTE_ROWS, unless b has no zero point and out_step is 1; for each of
 *     `rows` depth bytes where a_step is not 1; then, from a multiple of 64 on, that of csdf_conv_bytes. */
typedef struct csdf_byte_multiply_step {
    int32_t groups, count, depth, columns, apart;
    int32_t a_step, b_step, out_step;
    int32_t by_columns, rows, wide;
    int32_t flip, zero;
    const csdf_byte_layer *layer;
    const uint8_t *const *a;
    const uint8_t *const *b;
    uint8_t *const *out;
    void *workspace;
    size_t workspace_bytes;
} csdf_byte_multiply_step;

void csdf_multiply_bytes(const csdf_byte_multiply_step *step);

/* Softmax of lines of bytes that lie as those of csdf_softmax: of each byte round(power * whole / sum) + zero, rounded half to even
 * and clipped to [low, high]; sums are added up from the first byte of a line on.
 * powers: [256] and zeros up to a multiple of 16 further ones, of differences from -255 to 0 from the largest byte of a line.
 * first: before it, whatever the sum, `zero` is the result. flip: 128 where bytes are signed, else 0.
 * a, out: [count], addresses of rows; they may be the same. */
typedef struct csdf_byte_softmax_step {
    int32_t count, blocks, size, inner;
    int32_t flip, zero, low, high, first;
    float whole;
    const float *powers;
    const uint8_t *const *a;
    uint8_t *const *out;
} csdf_byte_softmax_step;

void csdf_softmax_bytes(const csdf_byte_softmax_step *step);

/* One input channel and one output channel per group. */
void csdf_depthwise_bytes(const csdf_byte_conv_step *step);

/* What csdf_map_bytes computes from bytes x and y, as integers, and `set`:
 * CSDF_TABLE: table[x], indexed by the bits of a byte;
 * CSDF_ADD_BYTES: round(x * set[0] + (y * set[1] + set[2])), each product rounded once with its sum (fused);
 * CSDF_MULTIPLY_BYTES: round((x - zeros[0]) * (y - zeros[1]) * set[0] + set[1]), rounded at each step;
 * CSDF_QUANTIZE: round(v / set[0]) + set[1] of a float v;
 * CSDF_DEQUANTIZE: the float (x - zeros[0]) * set[0].
 * Results are rounded half to even and clipped to [low, high]. */
enum { CSDF_TABLE = 0, CSDF_ADD_BYTES = 1, CSDF_MULTIPLY_BYTES = 2, CSDF_QUANTIZE = 3, CSDF_DEQUANTIZE = 4 };

/* Element by element: `count` rows of `columns` pixels of `channels` elements. The output may be an operand.
 * flip: for each operand, 128 if its bytes are unsigned, else 0.
 * operands: as those of csdf_map, strides in bytes; out, stride: as csdf_byte_target. */
typedef struct csdf_byte_map_step {
    int32_t operation;
    int32_t count, columns, channels;
    int32_t low, high;
    int32_t flip[2];
    int32_t zeros[2];
    int32_t zero, upper[3], lower[3], shift;
    float set[3];
    const uint8_t *table;
    csdf_byte_source operands[2];
    uint8_t *const *out;
    int32_t stride;
} csdf_byte_map_step;

void csdf_map_bytes(const csdf_byte_map_step *step);

/* CSDF_ADD_BYTES and CSDF_MULTIPLY_BYTES by integers alone, clipped likewise, with numbers in two halves of 15 bits, such as
 * m[k] = upper[k] * 2^15 + lower[k]: zero + (x * m[0] + y * m[1] + m[2]) / 2^shift, or, of the product p,
 * zero + (p * m[0] + m[2]) / 2^shift, rounded down. shift: 15 to 45. set is not read. */
void csdf_map_integers(const csdf_byte_map_step *step);

/* The same as TensorFlow Lite Micro rounds it, `twice`: zero + twice(twice((x - zeros[0]) * 2^20, 0) + twice((y - zeros[1]) * 2^20,
 * 1), 2), or, of the product, zero + twice(p, 0), by multipliers and exponents of CSDF_SHIFTED: exponent -(upper[k] / 2^16),
 * multiplier upper[k] % 2^16 * 2^15 + lower[k]. */
void csdf_map_twice(const csdf_byte_map_step *step);

/* The greatest byte of each window of a map of bytes: as csdf_pool, which describes the other fields.
 * flip: 128 if bytes are unsigned, else 0. stride: bytes. An empty window gives the least byte. */
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

/* The average of the values (x - source_zero) * scale in each window of a map of bytes: the values are added from left
 * to right and from top to bottom, divided by the product of rows_seen and columns_seen, then by out_scale; the output
 * is round(average + zero), clipped to [low, high]. Each operation is rounded to 32 bits. The other fields are those of
 * csdf_byte_pool_step and csdf_pool_step. */
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
    const int32_t *shifts;
} csdf_byte_average_step;

void csdf_average_bytes(const csdf_byte_average_step *step);

/* The same by integers alone: sums of x - source_zero, times a multiplier, shifted as CSDF_SHIFTED is. shifts: those pairs,
 * by the product of rows_seen and columns_seen. Scales are not read. */
void csdf_average_integers(const csdf_byte_average_step *step);

/* The sums of rows of a map of bytes: sums[channel], integers in floats (float *), are those of all rows before, and zero if
 * `begin` is set. end: the output is round((sum + rest) * factor) + zero, clipped to [low, high].
 * source: `count` rows of `width` pixels. */
typedef struct csdf_byte_sum_step {
    int32_t flip;
    int32_t begin, end;
    int32_t count, width;
    int32_t rest, zero, low, high;
    float factor;
    float divisors[2];
    int32_t by[2];
    csdf_byte_source source;
    void *sums;
    uint8_t *out;
} csdf_byte_sum_step;

void csdf_sum_bytes(const csdf_byte_sum_step *step);

/* The same by integers alone: sums are int32_t, by: a multiplier and a shift, as of CSDF_SHIFTED, instead of the factor. */
void csdf_sum_integers(const csdf_byte_sum_step *step);

/* The average of values that are rounded: sums are those of (x + rest) * factor, added one after the other; end: the output is
 * round(sum / divisors[0] / divisors[1] + zero), clipped likewise. Each operation is rounded to 32 bits. */
void csdf_sum_values(const csdf_byte_sum_step *step);

/* A kernel and its step, in one form for all kernels; a table of records is a program. */
typedef struct csdf_record {
    void (*kernel)(const void *step);
    const void *step;
} csdf_record;

void csdf_run(const csdf_record *records, int32_t count);

/* Rows of turns, `stride` bytes from one to the next: a copy of that of the first turn into a place of its own, or of such a place
 * into the row (written). */
typedef struct csdf_turn_rows {
    void (*kernel)(const void *step);
    csdf_strided copy;
    ptrdiff_t stride;
    int32_t written;
} csdf_turn_rows;

/* The turns of a loop: each copies rows, works off `body`, and copies others. turns: how many, -1 for any number. going: the loop
 * ends before a turn where it is 0; may be NULL. */
typedef struct csdf_turns_step {
    const csdf_record *body;
    const csdf_turn_rows *before, *behind;
    const uint8_t *going;
    ptrdiff_t turns;
    int32_t body_count, before_count, behind_count;
} csdf_turns_step;

void csdf_turns(const csdf_turns_step *step);

/* Before kernels that are called one by one, and behind them: how the processor takes subnormal numbers. */
typedef uint64_t csdf_mode;
csdf_mode csdf_enter(void);
void csdf_leave(csdf_mode before);

/* An array of the caller, set before a frame: where it starts (NULL: nothing is copied), the kernel
 * (csdf_copy_..., csdf_from_..._to_...) that copies between its elements and the program's, and bytes from
 * one element to the next along each of its axes. */
typedef struct csdf_port {
    void *base;
    void (*copy)(const void *step);
    ptrdiff_t strides[CSDF_RANK];
} csdf_port;

/* A copy of elements between a port and the memory of the program, from the port or into it.
 * dims: for each dimension its size and, in `a`, its stride in the program's memory; axes: the axis of the port
 * that it corresponds to. starts: first element along each of the `port_rank` axes of the port. */
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
void csdf_conv_bf16_of(const void *step);
void csdf_conv_dots_of(const void *step);
void csdf_conv_f16_of(const void *step);
void csdf_depthwise_of(const void *step);
void csdf_depthwise_bf16_of(const void *step);
void csdf_winograd_of(const void *step);
void csdf_winograd_row_of(const void *step);
void csdf_winograd_share_of(const void *step);
void csdf_winograd_row_share_of(const void *step);
void csdf_gemm_of(const void *step);
void csdf_gemm_bf16_of(const void *step);
void csdf_gemm_f16_of(const void *step);
void csdf_gemm_4_of(const void *step);
void csdf_attention_of(const void *step);
void csdf_contract_of(const void *step);
void csdf_multiply_of(const void *step);
void csdf_matrices_bf16_of(const void *step);
void csdf_matrices_f16_of(const void *step);
void csdf_multiply_bytes_of(const void *step);
void csdf_normalize_of(const void *step);
void csdf_normalize_bf16_of(const void *step);
void csdf_normalize_f16_of(const void *step);
void csdf_softmax_of(const void *step);
void csdf_softmax_bytes_of(const void *step);
void csdf_standardize_of(const void *step);
void csdf_standardize_bf16_of(const void *step);
void csdf_standardize_f16_of(const void *step);
void csdf_recurrent_of(const void *step);
void csdf_recurrent_bytes_of(const void *step);
void csdf_map_of(const void *step);
void csdf_map_bf16_of(const void *step);
void csdf_map_f16_of(const void *step);
void csdf_turns_of(const void *step);
void csdf_pool_of(const void *step);
void csdf_pool_bf16_of(const void *step);
void csdf_pool_f16_of(const void *step);
void csdf_conv_bytes_of(const void *step);
void csdf_depthwise_bytes_of(const void *step);
void csdf_byte_winograd_of(const void *step);
void csdf_map_bytes_of(const void *step);
void csdf_map_integers_of(const void *step);
void csdf_map_twice_of(const void *step);
void csdf_pool_bytes_of(const void *step);
void csdf_average_bytes_of(const void *step);
void csdf_sum_bytes_of(const void *step);
void csdf_sum_values_of(const void *step);
void csdf_average_integers_of(const void *step);
void csdf_sum_integers_of(const void *step);

/* What the library was built for, "avx512", "avx2", "neon" or "scalar", and by which compiler. */
const char *csdf_instructions(void);
const char *csdf_compiler(void);
/* An instruction set that the library was compiled for and that this processor does not have, or NULL. */
const char *csdf_lacking(void);
double csdf_peak(int32_t rounds, float *kept);
int64_t csdf_least_cut(int32_t nodes, const int32_t *rows, const int32_t *columns, int32_t *room, int32_t *work);
/* CSDF_VERSION of the header that the library was compiled with. */
int32_t csdf_version(void);
/* Sizes of the structures in the order in which strided.h, this header and team.h declare them; 0 after the last. */
size_t csdf_size_of(int32_t which);

#ifdef __cplusplus
}
#endif

#endif
