/* What kernels on maps of bytes have in common: vectors of LANES integers, sums as they are stored. */

/* A byte as a signed number; flip: 128 if bytes are unsigned. */
#define SIGNED(byte, flip) ((int32_t)(int8_t)((byte) ^ (uint8_t)(flip)))

#ifdef __OPENCL_VERSION__
#pragma OPENCL FP_CONTRACT OFF
#if LANES == 1
typedef int VI;
#define LOAD_I(at) (*(at))
#define LOAD_BYTES(at, flip) SIGNED(*(at), flip)
#define FLOATS_OF(x) ((float)(x))
#define INTS_OF(x) ((int)(x))
#else
typedef JOIN(int, LANES) VI;
#define LOAD_I(at) JOIN(vload, LANES)(0, at)
#define LOAD_BYTES(at, flip) JOIN(convert_int, LANES)(JOIN(vload, LANES)(0, (GLOBAL const char *)(at)) ^ (char)(flip))
#define FLOATS_OF(x) JOIN(convert_float, LANES)(x)
#define INTS_OF(x) JOIN(convert_int, LANES)(x)
#endif
#define SPLAT_I(x) ((VI)(x))
#define SHIFTED_LEFT(x, n) ((x) << (n))
#define SHIFTED_RIGHT(x, n) ((x) >> (n))
#define ROUNDED(x) rint(x)
#define APART(x, y) ((x) * (y)) /* is not contracted here */
typedef union whole_lanes {
    VI v;
    int32_t i[LANES];
} whole_lanes;
#else
struct VI {
    int32_t i[LANES];
};
#define OPERATOR_I(sign) \
    DEVICE VI operator sign(VI a, VI b) { VI r; EACH_LANE r.i[i_] = a.i[i_] sign b.i[i_]; return r; }
OPERATOR_I(+)
OPERATOR_I(-)
OPERATOR_I(*)
DEVICE VI SPLAT_I(int32_t x) { VI r; EACH_LANE r.i[i_] = x; return r; }
DEVICE VI LOAD_I(const int32_t *at) { VI r; EACH_LANE r.i[i_] = at[i_]; return r; }
DEVICE VI SHIFTED_LEFT(VI x, int n) { EACH_LANE x.i[i_] = (int32_t)((uint32_t)x.i[i_] << n); return x; }
DEVICE VI SHIFTED_RIGHT(VI x, int n) { EACH_LANE x.i[i_] >>= n; return x; }
DEVICE VI LOAD_BYTES(const uint8_t *at, int flip) { VI r; EACH_LANE r.i[i_] = SIGNED(at[i_], flip); return r; }
DEVICE V FLOATS_OF(VI x) { V r; EACH_LANE r.f[i_] = (float)x.i[i_]; return r; }
DEVICE VI INTS_OF(V x) { VI r; EACH_LANE r.i[i_] = (int32_t)x.f[i_]; return r; }
DEVICE V ROUNDED(V x) { EACH_LANE x.f[i_] = rintf(x.f[i_]); return x; }
DEVICE V APART(V x, V y) { V r; EACH_LANE r.f[i_] = __fmul_rn(x.f[i_], y.f[i_]); return r; }
typedef union whole_lanes {
    VI v;
    int32_t i[LANES];
    __device__ whole_lanes() {}
} whole_lanes;
#endif

/* Sums of products of bytes, of MOST_TERMS at most: four at a time by one instruction, where the device has it, or else in floats,
 * which have such sums exactly, and are added and multiplied faster than integers.
 */
#if defined(cl_khr_integer_dot_product) || defined(__opencl_c_integer_dot_product_input_4x8bit_packed)
#define DOT(sum, a, b) ((sum) + dot_4x8packed_ss_int((uint)(a), (uint)(b)))
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 610
#define DOT(sum, a, b) __dp4a(a, b, sum)
#endif
#define MOST_TERMS 1024
#define BYTE_OF(x, k) ((int32_t)(int8_t)((x) >> 8 * (k)))
#ifdef DOT
typedef VI partial;
#define NOTHING SPLAT_I(0)
#define WHOLE_OF(x) (x)
/* `four` has four bytes of each lane. */
DEVICE partial DOTS(partial sums, VI four, int32_t values)
{
    whole_lanes factors, found;
    factors.v = four;
    found.v = sums;
    for (int32_t i = 0; i < LANES; i++)
        found.i[i] = DOT(found.i[i], factors.i[i], values);
    return found.v;
}
#else
#define DOT(sum, a, b) \
    ((sum) + BYTE_OF(a, 0) * BYTE_OF(b, 0) + BYTE_OF(a, 1) * BYTE_OF(b, 1) + BYTE_OF(a, 2) * BYTE_OF(b, 2) + BYTE_OF(a, 3) * BYTE_OF(b, 3))
typedef V partial;
#define NOTHING SPLAT(0.0f)
#define WHOLE_OF(x) INTS_OF(x)
#ifdef __OPENCL_VERSION__
#define PARTS(x) const float4 parts_ = convert_float4(as_char4(x))
#define PART(k) parts_.s##k
#else
#define PARTS(x) const int32_t parts_ = x
#define PART(k) (float)BYTE_OF(parts_, k)
#endif
DEVICE partial DOTS(partial sums, VI four, int32_t values)
{
    PARTS(values);
    MAD(sums, SPLAT(PART(0)), FLOATS_OF(SHIFTED_RIGHT(SHIFTED_LEFT(four, 24), 24)));
    MAD(sums, SPLAT(PART(1)), FLOATS_OF(SHIFTED_RIGHT(SHIFTED_LEFT(four, 16), 24)));
    MAD(sums, SPLAT(PART(2)), FLOATS_OF(SHIFTED_RIGHT(SHIFTED_LEFT(four, 8), 24)));
    MAD(sums, SPLAT(PART(3)), FLOATS_OF(SHIFTED_RIGHT(four, 24)));
    return sums;
}
#endif

/* Four bytes that follow each other anywhere, the first one lowest. */
#ifdef __OPENCL_VERSION__
#define FOUR_BYTES(at) as_int(vload4(0, at))
#else
DEVICE int32_t FOUR_BYTES(const uint8_t *at)
{
    if ((uint64_t)at % 4 == 0)
        return *(const int32_t *)at;
    return (int32_t)(at[0] | at[1] << 8 | at[2] << 16 | (uint32_t)at[3] << 24);
}
#endif

/* Bytes of values that are rounded half to even, within [low, high], and moved by the zero point: the first n. */
DEVICE void store_bytes(V x, int32_t zero, int32_t low, int32_t high, GLOBAL uint8_t *to, int32_t n)
{
    lanes found;
    found.v = ROUNDED(SMALLER(SPLAT((float)(high - zero)), LARGER(SPLAT((float)(low - zero)), x)));
    for (int32_t i = 0; i < LANES; i++)
        if (i < n)
            to[i] = (uint8_t)((int32_t)found.f[i] + zero);
}

/* The byte of a sum by a multiplier and a shift, rounded to the nearest, ties upwards. */
DEVICE uint8_t shifted(int32_t sum, int32_t by, int32_t shift, int32_t zero, int32_t low, int32_t high)
{
    const int64_t value = ((int64_t)sum * by + ((int64_t)1 << (shift - 1))) >> shift;
    return (uint8_t)(zero + (int32_t)(value < low - zero ? low - zero : value > high - zero ? high - zero : value));
}

/* Sums of the outputs from `panel` on in all panels, the first n, as they are stored. */
DEVICE void store_sums(const buffers *b, GLOBAL const csdf_rescaling *into, int32_t panel, VI sums, GLOBAL uint8_t *to, int32_t n)
{
    whole_lanes whole;
    lanes values;
    if (into->kind == CSDF_INTEGERS || into->kind == CSDF_CENTRED) {
        whole.v = sums;
        for (int32_t i = 0; i < LANES; i++)
            if (i < n)
                ((GLOBAL int32_t *)to)[i] = whole.i[i];
        return;
    }
    if (into->kind == CSDF_SHIFTED) {
        GLOBAL const int32_t *by = AT(const int32_t, into->shifts) + 2 * panel;
        whole.v = sums;
        for (int32_t i = 0; i < n && i < LANES; i++)
            to[i] = shifted(whole.i[i], by[2 * i], by[2 * i + 1], into->zero, into->low, into->high);
        return;
    }
    values.v = APART(FLOATS_OF(sums), load_some(AT(const float, into->factors) + panel, n));
    if (into->kind == CSDF_VALUES) {
        for (int32_t i = 0; i < LANES; i++)
            if (i < n)
                ((GLOBAL float *)to)[i] = values.f[i];
        return;
    }
    store_bytes(values.v, into->zero, into->low, into->high, to, n);
}

DEVICE int32_t bytes_of(GLOBAL const csdf_rescaling *into)
{
    return into->kind == CSDF_BYTES || into->kind == CSDF_SHIFTED ? 1 : 4;
}
