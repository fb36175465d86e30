/* Where does a pixel see an input channel? Tables of addresses for the taps and pieces of a pass; elements of any size. */
#ifndef CSDF_TAPS_H
#define CSDF_TAPS_H

#include "images.h"
#include "products.h"

enum {
    POINTERS = 512,  /* of a table: 4 KiB where pointers have 8 bytes */
    SEGMENTS = 64,   /* of a pass: taps times pieces */
    PIECES = 32      /* of a pass */
};

/* Weights of an output channel in a pass: their panel stays in a near cache for all pixels. */
#ifndef CSDF_PASS_STEPS
#define CSDF_PASS_STEPS 1280
#endif

/* Channels [first, first + count) of a group are the pass's, in these pieces of the input. */
typedef struct slice {
    int32_t first, count;
    int32_t pieces;
    const csdf_source *piece[PIECES];
    int32_t offset[PIECES], counts[PIECES];
} slice;

/* The pieces that hold channels [first, first + count) of the input, of which at most so many that
 * the pass has `limit` of them; runs of padding are no longer than the zeros are. */
CSDF_INLINE void cut(const csdf_conv_step *step, int32_t first, int32_t count, int32_t limit, slice *cut)
{
    int32_t start = 0;
    cut->first = first;
    cut->count = 0;
    cut->pieces = 0;
    for (int32_t i = 0; i < step->piece_count && cut->pieces < limit; i++) {
        const csdf_source *piece = step->pieces + i;
        const int32_t low = most(first, start), high = least(first + count, start + piece->channels);
        if (low < high) {
            const int32_t n = least(high - low, CSDF_ZEROS);
            cut->piece[cut->pieces] = piece;
            cut->offset[cut->pieces] = low - start;
            cut->counts[cut->pieces++] = n;
            cut->count += n;
            if (n < high - low)
                return;
        }
        start += piece->channels;
    }
}

/* The table's pointers of one tap and piece: `count` pixels of the slab from this row and column of it on.
 * size: bytes of an element. */
CSDF_INLINE void point(const csdf_conv_step *step, const csdf_source *piece, int32_t offset, int32_t y, int32_t x,
    int32_t row, int32_t column, int32_t count, int32_t size, const float **table)
{
    const csdf_layer *layer = step->layer;
    const int32_t shift = x * layer->dilation_w - layer->pad_left;
    const ptrdiff_t next = (ptrdiff_t)piece->stride * size, pace = next * layer->stride_w;
    for (int32_t k = 0; k < count; row++, column = 0) {
        const int32_t from = csdf_first_row(row, layer->stride_h, step->each, step->apart);
        const char *at = (const void *)piece->rows[from + y * layer->dilation_h];
        const int32_t end = least(count, k + step->out.columns - column);
        if (!at) {
            while (k < end)
                table[k++] = csdf_zeros;
            continue;
        }
        int32_t in = (step->out.column + column) * layer->stride_w + shift;
        for (; k < end && in < 0; in += layer->stride_w)
            table[k++] = csdf_zeros;
        at += (ptrdiff_t)offset * size + in * next;
        int32_t until = end;
        if (in + (end - k - 1) * layer->stride_w >= step->width)
            until = k + (step->width - in + layer->stride_w - 1) / layer->stride_w;
        for (; k < until; at += pace)
            table[k++] = (const void *)at;
        while (k < end)
            table[k++] = csdf_zeros;
    }
}

/* The size of equal parts of a whole that are at most so large. */
CSDF_INLINE int32_t equal(int32_t whole, int32_t limit)
{
    const int32_t parts = (whole + limit - 1) / limit;
    return (whole + parts - 1) / parts;
}

#endif
