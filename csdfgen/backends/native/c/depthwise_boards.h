/* How do depthwise convolutions of bytes go on microcontrollers, with Helium or DSP instructions? Part of depthwise_bytes.c:
 * a pixel at a time, taps in pairs, some channels at a time.
 */
#ifndef CSDF_DEPTHWISE_BOARDS_H
#define CSDF_DEPTHWISE_BOARDS_H

/* Pairs of taps and channels of a pixel at a time; what bytes are taken for. */
enum { MOST_PAIRS = 32, AT_ONCE = 64, SIGNED, UNSIGNED, FLIPPED };

static int32_t pairs_of(const csdf_byte_layer *layer) { return (layer->kernel_h + 1) / 2 * layer->kernel_w; }

/* A row that a tap meets: its first pixel, and bytes from one to the next; of padding 0, as it is the same everywhere. */
typedef struct line {
    const uint8_t *first;
    ptrdiff_t stride;
} line;

/* What a pixel sees. lines: of its row. A function of its own leaves the registers to the products. */
static __attribute__((noinline)) void look(const part *p, const line *lines, const uint8_t *padding, int32_t x, const uint8_t **to)
{
    const csdf_byte_layer *layer = p->step->layer;
    const int32_t high = layer->kernel_h, width = p->step->width, odd = high % 2;
    int32_t in = x * layer->stride_w - layer->pad_left;
    for (int32_t k = layer->kernel_w; k > 0; k--, in += layer->dilation_w) {
        const int32_t inside = in >= 0 && in < width;
        for (const line *l = lines; l < lines + high; l++)
            *to++ = inside ? l->first + in * l->stride : padding;
        if (odd)
            *to++ = NULL;
    }
}

#ifdef CSDF_HELIUM

enum { EIGHT = 8, LEAST = EIGHT };

/* Sums of channels of even and of odd places. */
typedef struct halves {
    int32x4_t even, odd;
} halves;

CSDF_INLINE void add_products(halves *sums, const uint8_t *at, int as, int16x8_t bits, int16x8_t weights)
{
    const int16x8_t bytes = as == UNSIGNED ? (int16x8_t)vldrbq_u16(at) : vldrbq_s16((const int8_t *)at);
    const int16x8_t x = as == FLIPPED ? veorq_s16(bytes, bits) : bytes;
    sums->even = vaddq_s32(sums->even, vmullbq_int_s16(x, weights));
    sums->odd = vaddq_s32(sums->odd, vmulltq_int_s16(x, weights));
}

/* What the channels of a part have in common, behind its first one. */
typedef struct own {
    const int32_t *bias[2]; /* for signed inputs, and for those that are 128 larger */
    const int8_t *weights;
    ptrdiff_t step; /* of weights from a pair to the next */
    int32_t pairs;
    const csdf_rescaling *into; /* of outputs that are no bytes, else NULL */
    const float *factors;
    csdf_helium_bounds bounds;
} own;

/* Eight or sixteen channels of a pixel, from c on of its part. seen: what the taps of each column see, in pairs; NULL where a pair
 * has no second one. */
CSDF_INLINE void channels(const part *p, const own *o, const uint8_t *const *seen, int32_t c, int eights, int as, uint8_t *to)
{
    const int32_t *bias = o->bias[as == UNSIGNED] + c;
    const int8_t *w = o->weights + 2 * c;
    const int16x8_t bits = vdupq_n_s16((int8_t)p->step->layer->flip);
    halves sums[2];
    CSDF_UNROLLED
    for (int i = 0; i < eights; i++) {
        const int32x4x2_t first = vld2q_s32(bias + EIGHT * i);
        sums[i].even = first.val[0];
        sums[i].odd = first.val[1];
    }
    for (int32_t k = o->pairs; k > 0; k--, seen += 2, w += o->step) {
        CSDF_UNROLLED
        for (int i = 0; i < eights; i++) {
            const int8x16_t both = vldrbq_s8(w + 2 * EIGHT * i);
            add_products(&sums[i], seen[0] + c + EIGHT * i, as, bits, vmovlbq_s8(both));
            if (seen[1])
                add_products(&sums[i], seen[1] + c + EIGHT * i, as, bits, vmovltq_s8(both));
        }
    }
    if (!o->into) {
        CSDF_UNROLLED
        for (int i = 0; i < eights; i++) {
            const float32x4x2_t factors = vld2q_f32(o->factors + c + EIGHT * i);
            vstrbq_s16((int8_t *)to + c + EIGHT * i, csdf_helium_rescaled(sums[i].even, sums[i].odd, factors, &o->bounds));
        }
    } else {
        int32_t stored[2 * EIGHT];
        CSDF_UNROLLED
        for (int i = 0; i < eights; i++) {
            const int32x4x2_t both = {{sums[i].even, sums[i].odd}};
            vst2q_s32(stored + EIGHT * i, both);
        }
        CSDF_RESCALED(SHIFTS, o->into)(o->into, p->channel + c, EIGHT * eights, stored, 1, to + c * csdf_bytes_of(o->into), 0);
    }
}

/* Pixels of a row, some channels of them twice, to the same values. */
static void pixels(const part *p, const line *lines, const uint8_t *padding, int32_t row)
{
    const csdf_byte_layer *layer = p->step->layer;
    const csdf_byte_target *out = &p->step->out;
    const csdf_rescaling *into = &layer->into;
    const int32_t *bias = layer->bias + p->channel;
    const own o = {{bias, bias + p->all}, layer->weights + 2 * p->channel, 2 * p->all, pairs_of(layer),
        into->kind == CSDF_BYTES ? NULL : into, into->factors + p->channel,
        csdf_helium_bounds_of(into->zero, into->low, into->high)};
    const int32_t is_unsigned = layer->flip, n = p->n;
    const uint8_t *seen[2 * MOST_PAIRS];
    uint8_t *to = out->rows[row] + (ptrdiff_t)out->column * out->stride + p->channel * csdf_bytes_of(into);
    for (int32_t k = 0; k < out->columns; k++, to += out->stride) {
        int32_t c = 0;
        look(p, lines, padding, out->column + k, seen);
        for (; c + 2 * EIGHT <= n; c += 2 * EIGHT)
            if (is_unsigned)
                channels(p, &o, seen, c, 2, UNSIGNED, to);
            else
                channels(p, &o, seen, c, 2, SIGNED, to);
        for (; c < n; c += EIGHT)
            channels(p, &o, seen, least(c, n - EIGHT), 1, FLIPPED, to);
    }
}

#else

enum { LEAST = 4 };

/* Four channels of a pixel, from c on of its part. seen: what the taps of each column see, in pairs; NULL where a pair has no
 * second one. */
CSDF_INLINE void channels(const part *p, const uint8_t *const *seen, int32_t c, int as, int32_t *sums)
{
    const csdf_byte_layer *layer = p->step->layer;
    const int32_t *bias = layer->bias + (as == UNSIGNED ? p->all : 0) + p->channel + c;
    const int8_t *w = layer->weights + (p->channel + c) * 2;
    int32_t s0 = bias[0], s1 = bias[1], s2 = bias[2], s3 = bias[3];
    for (int32_t k = pairs_of(layer); k > 0; k--, w += p->all * 2) {
        const csdf_pair u = csdf_word(w), v = csdf_word(w + 4);
        const uint8_t *above = *seen++, *below = *seen++;
        csdf_pair x = csdf_word(above + c);
        int16x2_t even = as == UNSIGNED ? csdf_even_unsigned(x) : csdf_even_bytes(x);
        int16x2_t odd = as == UNSIGNED ? csdf_odd_unsigned(x) : csdf_odd_bytes(x);
        int16x2_t low = csdf_even_bytes(u), high = csdf_even_bytes(v);
        s0 = __smlabb(even, low, s0);
        s1 = __smlabt(odd, low, s1);
        s2 = __smlatb(even, high, s2);
        s3 = __smlatt(odd, high, s3);
        if (below) {
            x = csdf_word(below + c);
            even = as == UNSIGNED ? csdf_even_unsigned(x) : csdf_even_bytes(x);
            odd = as == UNSIGNED ? csdf_odd_unsigned(x) : csdf_odd_bytes(x);
            low = csdf_odd_bytes(u);
            high = csdf_odd_bytes(v);
            s0 = __smlabb(even, low, s0);
            s1 = __smlabt(odd, low, s1);
            s2 = __smlatb(even, high, s2);
            s3 = __smlatt(odd, high, s3);
        }
    }
    sums[c] = s0;
    sums[c + 1] = s1;
    sums[c + 2] = s2;
    sums[c + 3] = s3;
}

/* Pixels of a row, some channels of them twice. */
static void pixels(const part *p, const line *lines, const uint8_t *padding, int32_t row)
{
    const csdf_byte_layer *layer = p->step->layer;
    const csdf_byte_target *out = &p->step->out;
    const ptrdiff_t size = csdf_bytes_of(&layer->into);
    const uint8_t *seen[2 * MOST_PAIRS];
    uint8_t *to = out->rows[row] + (ptrdiff_t)out->column * out->stride + p->channel * size;
    int32_t sums[AT_ONCE];
    for (int32_t k = 0; k < out->columns; k++, to += out->stride) {
        look(p, lines, padding, out->column + k, seen);
        for (int32_t c = 0; c < p->n; c += LEAST)
            if (layer->flip)
                channels(p, seen, least(c, p->n - LEAST), UNSIGNED, sums);
            else
                channels(p, seen, least(c, p->n - LEAST), SIGNED, sums);
        for (int32_t c = 0; c < p->n; c += 16)
            CSDF_RESCALED(SHIFTS, &layer->into)(&layer->into, p->channel + c, least(16, p->n - c), sums + c, 1, to + c * size, 0);
    }
}

#endif

static void slab(const part *p)
{
    const csdf_byte_layer *layer = p->step->layer;
    const csdf_byte_target *out = &p->step->out;
    const int32_t by_pairs = p->n >= LEAST && pairs_of(layer) <= MOST_PAIRS;
    line lines[2 * MOST_PAIRS];
    uint8_t padding[AT_ONCE];
    memset(padding, layer->padding ^ layer->flip, sizeof padding);
    for (int32_t row = 0; row < out->count; row++) {
        for (int32_t y = 0; y < layer->kernel_h && by_pairs; y++) {
            const uint8_t *first = line_of(p, row, y);
            lines[y].first = first ? first : padding;
            lines[y].stride = first ? p->piece->stride : 0;
        }
        if (by_pairs)
            pixels(p, lines, padding, row);
        for (int32_t x = out->column; x < out->column + out->columns && !by_pairs; x++)
            tapped(p, row, x);
    }
}

#endif
