/* Products of two matrices that are both computed: csdf_matmul_f32, out = a * b.
 *
 * Panels of b are packed on the stack, as many of their rows as there is room for, and meet all rows of a.
 * Rows of a whose elements do not follow each other are packed, too, some at a time.
 */
#include "elements.h"
#include "products.h"

enum {
    TABLE = 32,                  /* rows of a table */
    WIDE = 2 * CSDF_PANEL,       /* columns that are packed at a time: so many sums hide what is loaded */
    DEPTH = 40,                  /* rows of them */
    FLAT = 22, PACKED = 24,      /* rows of them where rows of a are packed, too, and how many of these */
    ROOM = DEPTH * WIDE
};

void csdf_pack_panels(const float *from, ptrdiff_t down, ptrdiff_t across, int32_t depth, int32_t columns,
    float *packed)
{
    for (int32_t c = 0; c < columns; c += CSDF_PANEL, packed += (ptrdiff_t)depth * CSDF_PANEL) {
        const int32_t wide = least(columns - c, CSDF_PANEL);
        const float *at = from + c * across;
        if (across == 1 && wide == CSDF_PANEL) {
            for (int32_t k = 0; k < depth; k++)
                for (int32_t i = 0; i < CSDF_PANEL; i += CSDF_LANES)
                    csdf_store(packed + k * CSDF_PANEL + i, csdf_load(at + k * down + i));
            continue;
        }
        int32_t done = 0;
        if (down == 1)
            for (; done + 4 <= depth; done += 4) {
                int32_t i = 0;
                float *to = packed + done * CSDF_PANEL;
                for (; i + 4 <= wide; i += 4)
                    csdf_transpose(at + done + i * across, across, to + i, CSDF_PANEL);
                for (; i < CSDF_PANEL; i++)
                    for (int32_t k = 0; k < 4; k++)
                        to[k * CSDF_PANEL + i] = i < wide ? at[done + k + i * across] : 0.0f;
            }
        for (; done < depth; done++)
            for (int32_t i = 0; i < CSDF_PANEL; i++)
                packed[done * CSDF_PANEL + i] = i < wide ? at[done * down + i * across] : 0.0f;
    }
}

void csdf_pack_columns(const float *const *columns, ptrdiff_t at, ptrdiff_t step, int32_t depth, int32_t count,
    float *packed)
{
    for (int32_t first = 0; first < count; first += CSDF_PANEL, packed += (ptrdiff_t)depth * CSDF_PANEL) {
        const int32_t wide = least(count - first, CSDF_PANEL);
        for (int32_t i = 0; i < CSDF_PANEL; i += 4) {
            const float *const *from = columns + first + i;
            const ptrdiff_t apart = i + 4 <= wide ? from[1] - from[0] : 0;
            int32_t c = 0;
            if (i + 4 <= wide && step == 1 && from[2] - from[1] == apart && from[3] - from[2] == apart)
                for (; c + 4 <= depth; c += 4)
                    csdf_transpose(from[0] + at + c, apart, packed + c * CSDF_PANEL + i, CSDF_PANEL);
            for (; c < depth; c++)
                for (int32_t k = i; k < i + 4; k++)
                    packed[c * CSDF_PANEL + k] = k < wide ? columns[first + k][at + c * step] : 0.0f;
        }
    }
}

void csdf_pack_rows(const float *const *rows, ptrdiff_t at, ptrdiff_t step, int32_t depth, int32_t columns, float *packed)
{
    for (int32_t c = 0; c < columns; c += CSDF_PANEL)
        for (int32_t k = 0; k < depth; k++, packed += CSDF_PANEL) {
            const float *from = rows[k] + at + c * step;
            const int32_t wide = least(columns - c, CSDF_PANEL);
            if (step == 1 && wide == CSDF_PANEL)
                for (int32_t i = 0; i < CSDF_PANEL; i += CSDF_LANES)
                    csdf_store(packed + i, csdf_load(from + i));
            else
                for (int32_t i = 0; i < CSDF_PANEL; i++)
                    packed[i] = i < wide ? from[i * step] : 0.0f;
        }
}

void csdf_multiply_panels(const float *rows, ptrdiff_t apart, int32_t count, int32_t depth,
    const float *packed, ptrdiff_t panel, float *out, ptrdiff_t pace, int32_t columns, int32_t more)
{
    const float *table[TABLE];
    float *into[TABLE];
    csdf_pass pass;
    pass.table = table;
    pass.taps = pass.pieces = 1;
    pass.counts = &depth;
    pass.weights = packed;
    pass.panel = panel;
    pass.before = pass.skip = 0;
    pass.stored = CSDF_WHOLE;
    pass.channel = 0;
    pass.channels = columns;
    pass.spare = 0;
    pass.bias = NULL;
    pass.init = more ? (const float *const *)into : NULL;
    pass.out = into;
    pass.activation.kind = CSDF_NONE;
    for (int32_t row = 0; row < count; row += TABLE) {
        pass.pixels = least(count - row, TABLE);
        for (int32_t i = 0; i < pass.pixels; i++) {
            table[i] = rows + (row + i) * apart;
            into[i] = out + (row + i) * pace;
        }
        csdf_products(&pass);
    }
}

/* The size of equal parts of a whole that are at most so large. */
static int32_t equal(int32_t whole, int32_t limit)
{
    const int32_t parts = (whole + limit - 1) / limit;
    return (whole + parts - 1) / parts;
}

/* One product. d: dimensions of rows, columns and what is summed up, strides in floats. */
static void product(const csdf_dim *d, const float *a, const float *b, float *out)
{
    const int32_t count = (int32_t)d[0].size, columns = (int32_t)d[1].size, depth = (int32_t)d[2].size;
    const int32_t packs = d[2].a != 1, high = packs ? PACKED : count;
    const int32_t deep = equal(depth, packs ? FLAT : columns > CSDF_PANEL ? DEPTH : 2 * DEPTH);
    float panels[ROOM], *const rows = panels + FLAT * WIDE;
    for (int32_t row = 0; row < count; row += high) {
        const int32_t some = least(count - row, high);
        for (int32_t k = 0; k < depth; k += deep) {
            const int32_t now = least(depth - k, deep);
            const float *at = a + row * d[0].a + k * d[2].a;
            if (packs)
                for (int32_t i = 0; i < some; i++)
                    for (int32_t j = 0; j < now; j++)
                        rows[i * FLAT + j] = at[i * d[0].a + j * d[2].a];
            for (int32_t c = 0; c < columns; c += WIDE) {
                const int32_t wide = least(columns - c, WIDE);
                csdf_pack_panels(b + k * d[2].b + c * d[1].b, d[2].b, d[1].b, now, wide, panels);
                csdf_multiply_panels(packs ? rows : at, packs ? FLAT : d[0].a, some, now, panels,
                    (ptrdiff_t)now * CSDF_PANEL, out + row * d[0].out + c, d[0].out, wide, k > 0);
            }
        }
    }
}

static void products(const csdf_line *l)
{
    const csdf_dim *given = (const void *)l->c;
    csdf_dim d[3];
    for (int k = 0; k < 3; k++) {
        d[k] = given[k];
        d[k].a /= (ptrdiff_t)sizeof(float);
        d[k].b /= (ptrdiff_t)sizeof(float);
        d[k].out /= (ptrdiff_t)sizeof(float);
    }
    for (ptrdiff_t i = 0; i < l->n; i++)
        product(d, (const void *)(l->a + i * l->sa), (const void *)(l->b + i * l->sb),
            (void *)(l->out + i * l->so));
}

/* The last three dimensions are rows of a, columns of b, which are side by side in the output, and what is
 * summed up; those before are products of their own. */
void csdf_matmul_f32(const void *step);
void csdf_matmul_f32(const void *step)
{
    csdf_strided one = *(const csdf_strided *)step;
    one.rank -= 3;
    one.c = one.dims + one.rank;
    csdf_each(&one, products);
}
