/* Kernels on rows that lie alone in memory, for the sanitizers: a value read or written outside a row
 * ends the program. Sums are compared with plain loops. Prints the number of layers, or what is wrong.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "csdf.h"

static uint32_t seed = 1;

static int32_t between(int32_t low, int32_t high)
{
    seed = seed * 1664525u + 1013904223u;
    return low + (int32_t)((seed >> 8) % (uint32_t)(high - low + 1));
}

static float value(void) { return (float)between(-1000, 1000) / 1000.0f; }

static void *room(size_t bytes)
{
    void *found = malloc(bytes ? bytes : 1);
    if (!found)
        exit(2);
    return found;
}

static float *filled(int32_t count)
{
    float *found = room((size_t)count * sizeof(float));
    for (int32_t i = 0; i < count; i++)
        found[i] = value();
    return found;
}

enum { CONV, DEPTHWISE, WINOGRAD };

/* Floats that vectors read behind the last output of a group of so many. */
static int32_t behind(int32_t out) { return (16 - out % 16) % 16; }

/* Where a weight of an output of a group is, of `terms` weights that are added up, in panels as narrow as they can be. */
static int32_t place(int32_t o, int32_t out, int32_t terms, int32_t term)
{
    const int32_t first = o / 16 * 16, wide = out - first < 16 ? out - first : 16;
    return first * terms + term * wide + o % 16;
}

/* 0 if a layer of random shape comes out right. */
static int convolution(int kind)
{
    const int32_t win = kind == WINOGRAD, deep = kind == DEPTHWISE;
    const int32_t groups = deep ? between(1, 40) : win ? 1 : between(1, 2);
    const int32_t in = deep ? 1 : between(1, 20), out = deep ? between(1, 2) : between(1, 40);
    const int32_t kh = win ? 3 : between(1, 5), kw = win ? 3 : between(1, 5);
    const int32_t sh = win ? 1 : between(1, 2), sw = win ? 1 : between(1, 2);
    const int32_t dh = win ? 1 : between(1, 2), dw = win ? 1 : between(1, 2);
    const int32_t width = between(10, 20), rows = between(1, 5), left = between(0, kw - 1);
    const int32_t columns = (width + 2 * left - (kw - 1) * dw - 1) / sw + 1;
    const int32_t seen = (rows - 1) * sh + (kh - 1) * dh + 1;
    const int32_t ins = in * groups, outs = out * groups, panels = (out + 15) / 16;
    const int32_t first = ins > 1 ? between(1, ins - 1) : ins, tile = between(1, 2) * 2;
    const int32_t at_points = win && between(0, 1), points = at_points ? (tile + 2) * 6 : kh * kw;
    const int32_t size = at_points ? panels * 16 * in * points : outs * in * points + (deep ? 0 : behind(out));
    const float **tables[2], **plain = room((size_t)seen * sizeof *plain);
    float **written = room((size_t)rows * sizeof *written);
    float *weights = filled(outs * in * kh * kw), *bias = filled(outs + (deep ? 0 : behind(out))), *packed;
    int wrong = 0;

    for (int i = 0; i < 2; i++)
        tables[i] = room((size_t)seen * sizeof(float *));
    for (int32_t r = 0; r < seen; r++) {
        const int32_t none = between(0, 5) == 0;
        float *whole = none ? NULL : filled(width * ins), *parts[2] = {NULL, NULL};
        plain[r] = whole;
        for (int i = 0; whole && i < 2; i++) {
            const int32_t from = i ? first : 0, count = i ? ins - first : first;
            parts[i] = room((size_t)(width * count) * sizeof(float));
            for (int32_t x = 0; x < width; x++)
                for (int32_t c = 0; c < count; c++)
                    parts[i][x * count + c] = whole[x * ins + from + c];
        }
        tables[0][r] = parts[0];
        tables[1][r] = parts[1];
    }
    for (int32_t r = 0; r < rows; r++)
        written[r] = filled(columns * outs);

    packed = room((size_t)size * sizeof(float));
    for (int32_t k = 0; k < size; k++)
        packed[k] = 0.0f;
    for (int32_t o = 0; o < outs; o++)
        for (int32_t c = 0; c < in; c++) {
            const int32_t p = o / 16, lane = o % 16;
            const float *w = weights + (o * in + c) * kh * kw;
            if (!at_points) {
                float *group = packed + o / out * out * in * kh * kw;
                for (int32_t k = 0; k < kh * kw; k++)
                    *(deep ? packed + k * outs + o : group + place(o % out, out, in * kh * kw, k * in + c)) = w[k];
                continue;
            }
            static const float two[4][3] = {{1, 0, 0}, {.5f, .5f, .5f}, {.5f, -.5f, .5f}, {0, 0, 1}};
            static const float four[6][3] = {{.25f, 0, 0}, {-1.f / 6, -1.f / 6, -1.f / 6},
                {-1.f / 6, 1.f / 6, -1.f / 6}, {1.f / 24, 1.f / 12, 1.f / 6},
                {1.f / 24, -1.f / 12, 1.f / 6}, {0, 0, 1}};
            const float(*matrix)[3] = tile == 2 ? two : four;
            const int32_t block = p / 4, many = panels - 4 * block < 4 ? panels - 4 * block : 4;
            for (int32_t a = 0; a < tile + 2; a++)
                for (int32_t b = 0; b < 6; b++) {
                    const int32_t at = (4 * block * points + (a * 6 + b) * many + p % 4) * in + c;
                    float sum = 0.0f;
                    for (int32_t i = 0; i < 3; i++)
                        for (int32_t j = 0; j < 3; j++)
                            sum += matrix[a][i] * four[b][j] * w[i * 3 + j];
                    packed[at * 16 + lane] = sum;
                }
        }

    const csdf_layer layer = {ins, outs, groups, kh, kw, sh, sw, dh, dw, left, {CSDF_CLIP, -1.0f, 2.0f},
        at_points, packed, bias};
    const csdf_source pieces[2] = {{tables[0], first, first}, {tables[1], ins - first, ins - first}};
    csdf_conv_step step = {&layer, pieces, ins > first ? 2 : 1, width,
        {written, outs, rows, 0, columns, 0, outs}, NULL, NULL, 0, tile, 0};
    if (win) {
        step.workspace_bytes = csdf_winograd_kept(&layer, tile);
        step.workspace_bytes += csdf_winograd_bytes(&layer, tile, between(1, 9), ins < 64 ? ins : 64);
        step.workspace = room(step.workspace_bytes);
        csdf_winograd(&step);
        free(step.workspace);
    } else if (deep) {
        csdf_depthwise(&step);
    } else {
        csdf_conv(&step);
    }

    for (int32_t r = 0; r < rows; r++)
        for (int32_t x = 0; x < columns; x++)
            for (int32_t o = 0; o < outs; o++) {
                const int32_t g = o / out;
                double sum = bias[o];
                for (int32_t i = 0; i < kh; i++)
                    for (int32_t j = 0; j < kw; j++) {
                        const float *row = plain[r * sh + i * dh];
                        const int32_t at = x * sw - left + j * dw;
                        for (int32_t c = 0; row && at >= 0 && at < width && c < in; c++)
                            sum += (double)row[at * ins + g * in + c]
                                * (double)weights[((o * in + c) * kh + i) * kw + j];
                    }
                sum = fmin(2.0, fmax(-1.0, sum));
                wrong |= !(fabs(sum - (double)written[r][x * outs + o]) < 1e-3);
            }

    for (int32_t r = 0; r < seen; r++) {
        free((void *)plain[r]);
        free((void *)tables[0][r]);
        free((void *)tables[1][r]);
    }
    for (int32_t r = 0; r < rows; r++)
        free(written[r]);
    free(tables[0]);
    free(tables[1]);
    free(plain);
    free(written);
    free(weights);
    free(bias);
    free(packed);
    return wrong;
}

/* 0 if a product with a random matrix comes out right, made of two parts. */
static int product(void)
{
    const int32_t rows = between(1, 9), in = between(2, 50), out = between(1, 60);
    const int32_t sizes[2] = {in / 2, in - in / 2};
    float *matrix = filled(in * out), *packed = filled(in * out + behind(out)), *bias = filled(out + behind(out));
    const float *table[18];
    float *written[9];
    int wrong = 0;
    for (int32_t k = 0; k < in; k++)
        for (int32_t o = 0; o < out; o++)
            packed[place(o, out, in, k)] = matrix[k * out + o];
    for (int32_t r = 0; r < rows; r++) {
        table[r] = filled(sizes[0]);
        table[rows + r] = filled(sizes[1]);
        written[r] = filled(out);
    }
    const csdf_gemm_step step = {in, out, 0, 2, rows, 0, out, 1, 1, {CSDF_LEAKY, 0.5f, 0.0f}, packed, bias,
        sizes, table, written};
    csdf_gemm(&step);
    for (int32_t r = 0; r < rows; r++)
        for (int32_t o = 0; o < out; o++) {
            double sum = bias[o];
            for (int32_t k = 0; k < in; k++)
                sum += (double)(k < sizes[0] ? table[r][k] : table[rows + r][k - sizes[0]])
                    * (double)matrix[k * out + o];
            wrong |= !(fabs((sum < 0 ? 0.5 * sum : sum) - (double)written[r][o]) < 1e-3);
        }
    for (int32_t r = 0; r < rows; r++) {
        free((void *)table[r]);
        free((void *)table[rows + r]);
        free(written[r]);
    }
    free(matrix);
    free(packed);
    free(bias);
    return wrong;
}

int main(void)
{
    static const char *const names[] = {"conv", "depthwise", "winograd", "gemm"};
    const int rounds = 150;
    for (int i = 0; i < rounds; i++)
        for (int kind = 0; kind < 4; kind++)
            if (kind < 3 ? convolution(kind) : product()) {
                printf("%s is wrong in round %d\n", names[kind], i);
                return 1;
            }
    printf("%d layers, %s\n", 4 * rounds, csdf_instructions());
    return 0;
}
