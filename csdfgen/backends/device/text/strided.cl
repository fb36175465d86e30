/* One operation on every element of some arrays with strides, as csdfgen/backends/native/c/strided.h has it.
 *
 * Defined before: NAME, FORM, and for what the form needs: T, the type that is stored; W, the one that is computed in;
 * READ and WRITE, which make one of the other; T2 and READ2, those of operand a where it differs; EXPRESSION, in x and y.
 * Elements along the first `apart` dimensions are computed side by side, those along the others one after the other.
 */
#ifndef STRIDED
#define STRIDED
enum { RANK = 10 };

typedef struct loop_dim {
    int64_t size, a, b, c, out;
} loop_dim;

typedef struct loop {
    place a, b, c, out, index;
    int64_t along, out_along;
    int64_t items;
    int32_t rank, apart, count, rest;
    loop_dim dims[RANK];
} loop;

#define CSDF_AS_IT_IS(x) (x)
#define GET(type, at) (*(GLOBAL const type *)(at))
#define PUT(type, at) (*(GLOBAL type *)(at))
#define MOST(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
#define LEAST(x, y) ((x) < (y) || (x) != (x) ? (x) : (y))

/* Where the operands of an element are. */
typedef struct spot {
    GLOBAL const char *a, *b, *c;
    GLOBAL char *out;
} spot;

DEVICE spot start_of(const buffers *b, GLOBAL const loop *step)
{
    spot found;
    found.a = AT(const char, step->a);
    found.b = AT(const char, step->b);
    found.c = AT(const char, step->c);
    found.out = AT(char, step->out);
    return found;
}

/* The spot of element number i of dimensions [from, to). */
DEVICE spot moved(GLOBAL const loop *step, spot at, int64_t i, int32_t from, int32_t to)
{
    for (int32_t k = to; k-- > from;) {
        GLOBAL const loop_dim *dim = step->dims + k;
        int64_t own = i;
        if (k > from) {
            own = i < 0x7fffffff ? (int64_t)((uint32_t)i % (uint32_t)dim->size) : i % dim->size;
            i = i < 0x7fffffff ? (int64_t)((uint32_t)i / (uint32_t)dim->size) : i / dim->size;
        }
        at.a += own * dim->a;
        at.b += own * dim->b;
        at.c += own * dim->c;
        at.out += own * dim->out;
    }
    return at;
}

/* SPAN elements along the last dimension that is computed side by side, one after the other by an item: processors go along
 * lines, devices whose items run side by side take neighbours at once (1).
 */
typedef struct line {
    spot at;
    int64_t left;
    loop_dim step;
} line;

DEVICE line line_of(GLOBAL const loop *step, spot at, int64_t item)
{
    line found;
    const int32_t last = step->apart - 1;
    if (last < 0) {
        found.at = at;
        found.left = 1;
        found.step.size = 1;
        found.step.a = found.step.b = found.step.c = found.step.out = 0;
        return found;
    }
    found.step = step->dims[last];
    const int64_t spans = (found.step.size + SPAN - 1) / SPAN, first = item % spans * SPAN;
    found.at = moved(step, at, item / spans, 0, last);
    found.at.a += first * found.step.a;
    found.at.b += first * found.step.b;
    found.at.c += first * found.step.c;
    found.at.out += first * found.step.out;
    found.left = found.step.size - first < SPAN ? found.step.size - first : SPAN;
    return found;
}

DEVICE line further(line now, int64_t n)
{
    now.left -= n;
    now.at.a += n * now.step.a;
    now.at.b += n * now.step.b;
    now.at.c += n * now.step.c;
    now.at.out += n * now.step.out;
    return now;
}

#define EVERY_LINE \
    const spot start = start_of(b, step); \
    const int64_t item = across; \
    if (item < step->items)
#define EVERY_ELEMENT \
    EVERY_LINE for (line now = line_of(step, start, item); now.left > 0; now = further(now, 1))

#define OWN_(kernel, name) kernel##_##name
#define OWNED(kernel, name) OWN_(kernel, name)
#define OWN(name) OWNED(NAME, name) /* of each kernel in a text of several */
#endif

#ifdef POWER
#undef POWER
/* Powers by squaring; of a negative exponent the whole part. */
DEVICE T OWN(power)(T x, T y)
{
    uint64_t found = 1, base = (uint64_t)x;
#if SIGNED
    if (y < 0)
        return (T)(x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0);
#endif
    for (uint64_t rest = (uint64_t)y; rest; rest >>= 1) {
        if (rest & 1)
            found *= base;
        base *= base;
    }
    return (T)found;
}
#define POWER(x, y) OWN(power)(x, y)
#endif
#ifdef REMAINDER
#undef REMAINDER
DEVICE W OWN(remainder)(W x, W y)
{
    const W found = fmod(x, y);
    return found != 0 && (found < 0) != (y < 0) ? found + y : found;
}
#define REMAINDER(x, y) OWN(remainder)(x, y)
#endif
#ifdef LOGADDEXP
#undef LOGADDEXP
#define LOGADDEXP(x, y) (x == y ? x + (W)0.693147180559945309 : MOST(x, y) + log1p(exp(-fabs(x - y))))
#endif
#ifdef WHOLE
DEVICE int64_t OWN(whole)(WHOLE x)
{
    return x >= (WHOLE)-9223372036854775808.0f && x < (WHOLE)9223372036854775808.0f ? (int64_t)x : (int64_t)1 << 63;
}

DEVICE uint64_t OWN(natural)(WHOLE x)
{
    return x >= (WHOLE)9223372036854775808.0f && x < (WHOLE)18446744073709551616.0f ? (uint64_t)x : (uint64_t)OWN(whole)(x);
}
#endif

#if FORM == 0 /* element by element; RESULT is stored */
BODY(NAME, loop)
{
    EVERY_ELEMENT {
        const spot at = now.at;
#if SPAN > 1
        /* neighbours in all arrays, or one for all of them */
        if (step->rest == 1 && now.step.a == sizeof(T) && now.step.out == sizeof(RESULT)
#ifdef BINARY
            && (now.step.b == sizeof(T) || now.step.b == 0)
#endif
#ifdef CLIP
            && now.step.b == 0 && now.step.c == 0
#endif
        ) {
            GLOBAL const T *a = (GLOBAL const T *)at.a;
            GLOBAL RESULT *out = (GLOBAL RESULT *)at.out;
#ifdef CLIP
            const W low = READ(GET(T, at.b)), high = READ(GET(T, at.c));
#endif
#ifdef BINARY
            if (now.step.b == 0) {
                const W y = READ(GET(T, at.b));
                for (int32_t i = 0; i < now.left; i++) {
                    const W x = READ(a[i]);
                    out[i] = WRITE(EXPRESSION);
                }
                break;
            }
            GLOBAL const T *others = (GLOBAL const T *)at.b;
#endif
            for (int32_t i = 0; i < now.left; i++) {
                const W x = READ(a[i]);
#ifdef BINARY
                const W y = READ(others[i]);
#endif
                out[i] = WRITE(EXPRESSION);
            }
            break;
        }
#endif
        for (int64_t k = 0; k < step->rest; k++) {
            const spot one = moved(step, at, k, step->apart, step->rank);
            const W x = READ(GET(T, one.a));
#ifdef BINARY
            const W y = READ(GET(T, one.b));
#endif
#ifdef CLIP
            const W low = READ(GET(T, one.b)), high = READ(GET(T, one.c));
#endif
            PUT(RESULT, one.out) = WRITE(EXPRESSION);
        }
    }
}
#elif FORM == 1 /* what there is in the output, x, joined with what comes, y: of a, or the product of a and b */
#if SPAN > 1
#undef BESIDE
#define TOGETHER 16 /* outputs side by side, whose sums stay in registers; what comes to them lies side by side, too */
#ifdef PRODUCTS
#define BESIDE (now.step.b == sizeof(T) && (now.step.a == sizeof(T) || now.step.a == 0))
#else
#define BESIDE (now.step.a == sizeof(T2))
#endif

DEVICE void OWN(together)(GLOBAL const loop *step, spot at, int each)
{
    W sums[TOGETHER];
    GLOBAL T *out = (GLOBAL T *)at.out;
    const loop_dim deep = step->dims[step->rank - 1];
    for (int i = 0; i < TOGETHER; i++)
#ifdef FRESH
        sums[i] = 0;
#else
        sums[i] = READ(out[i]);
#endif
    for (int64_t k = 0; k < step->rest; k += deep.size) {
        spot one = moved(step, at, k / deep.size, step->apart, step->rank - 1);
        for (int64_t n = 0; n < deep.size; n++, one.a += deep.a, one.b += deep.b) {
#ifdef PRODUCTS
            GLOBAL const T *a = (GLOBAL const T *)one.a, *others = (GLOBAL const T *)one.b;
            if (each) {
                for (int i = 0; i < TOGETHER; i++)
                    sums[i] = SUM(sums[i], PRODUCT(READ(a[i]), READ(others[i])));
            } else {
                const W u = READ(*a);
                for (int i = 0; i < TOGETHER; i++)
                    sums[i] = SUM(sums[i], PRODUCT(u, READ(others[i])));
            }
#else
            GLOBAL const T2 *a = (GLOBAL const T2 *)one.a;
            (void)each;
            for (int i = 0; i < TOGETHER; i++) {
                const W x = sums[i], y = READ2(a[i]);
                sums[i] = EXPRESSION;
            }
#endif
        }
    }
    for (int i = 0; i < TOGETHER; i++)
        out[i] = WRITE(sums[i]);
}
#endif

BODY(NAME, loop)
{
    EVERY_ELEMENT {
#if SPAN > 1
        if (now.left >= TOGETHER && now.step.out == sizeof(T) && step->apart < step->rank && BESIDE) {
            OWN(together)(step, now.at, now.step.a != 0);
            now = further(now, TOGETHER - 1);
            continue;
        }
#endif
        const spot at = now.at;
#ifdef FRESH
        W x = 0;
#else
        W x = READ(GET(T, at.out));
#endif
        GLOBAL char *written = at.out;
        int32_t deep = step->rank - step->apart;
        const int64_t n = deep ? step->dims[step->rank - 1].size : 1;
        const int64_t sa = deep ? step->dims[step->rank - 1].a : 0, sb = deep ? step->dims[step->rank - 1].b : 0,
                      so = deep ? step->dims[step->rank - 1].out : 0;
        for (int64_t k = 0; k < step->rest; k += n) {
            spot one = moved(step, at, k / n, step->apart, step->rank - (deep != 0));
            for (int64_t i = 0; i < n; i++, one.a += sa, one.b += sb, one.out += so) {
                if (one.out != written) { /* of outputs that are computed one after the other */
                    PUT(T, written) = WRITE(x);
                    written = one.out;
#ifdef FRESH
                    x = 0;
#else
                    x = READ(GET(T, written));
#endif
                }
#ifdef PRODUCTS
                const W u = READ(GET(T, one.a)), v = READ(GET(T, one.b));
                x = SUM(x, PRODUCT(u, v));
#else
                const W y = READ2(GET(T2, one.a));
                x = EXPRESSION;
#endif
            }
        }
        PUT(T, written) = WRITE(x);
    }
}
#elif FORM == 2 /* the position of the best along a dimension */
BODY(NAME, loop)
{
    EVERY_ELEMENT {
        const spot at = now.at;
        W y = READ(GET(T, at.a));
        int64_t found = 0;
        for (int64_t k = 1; k < step->count && y == y; k++) {
            const W x = READ(GET(T, at.a + k * step->along));
            if (EXPRESSION || x != x) {
                y = x;
                found = k;
            }
        }
        PUT(int64_t, at.out) = found;
    }
}
#elif FORM == 3 /* copies: PUTS where the byte c is not 0; LOOKS up a table; all others as they are */
BODY(NAME, loop)
{
    EVERY_ELEMENT {
        const spot at = now.at;
#if SPAN > 1 && !defined(PUTS) && !defined(LOOKS)
        if (step->rest == 1) {
            for (int32_t i = 0; i < now.left; i++)
                PUT(RESULT, at.out + i * now.step.out) = WRITE(READ(GET(T, at.a + i * now.step.a)));
            break;
        }
#endif
        for (int64_t k = 0; k < step->rest; k++) {
            const spot one = moved(step, at, k, step->apart, step->rank);
#ifdef PUTS
            if (*one.c)
#endif
#ifdef LOOKS
                PUT(T, one.out) = ((GLOBAL const T *)one.c)[GET(int64_t, one.a)];
#else
                PUT(RESULT, one.out) = WRITE(READ(GET(T, one.a)));
#endif
        }
    }
}
#elif FORM == 4 /* lines that are named: by numbers of 32 bits of `index`, or (PICKS) of 64 bits of b */
BODY(NAME, loop)
{
    spot start = start_of(b, step);
    const place named = step->index;
    GLOBAL const char *numbers = start.b;
    const int64_t item = across;
    for (int32_t i = 0; item < step->items && i < step->count; i++) {
#ifdef PICKS
        const int64_t from = ((GLOBAL const int64_t *)numbers)[i];
        (void)named;
#else
        const int64_t from = AT(const int32_t, named)[i];
        (void)numbers;
#endif
        for (line now = line_of(step, start, item); now.left > 0; now = further(now, 1))
            for (int64_t k = 0; k < step->rest; k++) {
                const spot one = moved(step, now.at, k, step->apart, step->rank);
                PUT(T, one.out + i * step->out_along) = GET(T, one.a + from * step->along);
            }
    }
}
#elif FORM == 5 /* elements at places of 64 bits: stored, or joined with what is there */
BODY(NAME, loop)
{
    if (across)
        return;
    const spot at = start_of(b, step);
    GLOBAL const int64_t *places = (GLOBAL const int64_t *)at.b;
    for (int32_t i = 0; i < step->count; i++) {
        GLOBAL char *to = at.out + places[i] * step->along;
        const W y = READ(GET(T, at.a + i * step->out_along));
#ifdef EXPRESSION
        const W x = READ(GET(T, to));
        PUT(T, to) = WRITE(EXPRESSION);
#else
        PUT(T, to) = WRITE(y);
#endif
    }
}
#endif
