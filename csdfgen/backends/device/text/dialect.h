/* What OpenCL C and CUDA C++ have in common, by one set of names.
 *
 * Every kernel has the same arguments: the memory of a program, its weights, its tables (among them the records of its
 * instructions), and which records a launch computes: those at `which[first]`, `which[first + 1]` and so on, each by the
 * work items with the same third index.
 */
#ifdef __OPENCL_VERSION__
#define GLOBAL __global
#define LOCAL __local
#define DEVICE static
#define CALLED static __attribute__((noinline))
#define KERNEL(name) __kernel void name
#define GRID
#define ITEM(axis) ((int)get_global_id(axis))
#define LOCAL_ITEM ((int)get_local_id(0))
#define LOCAL_ITEMS ((int)get_local_size(0))
#define BARRIER barrier(CLK_GLOBAL_MEM_FENCE)
#define AS_FLOAT(x) as_float(x)
#define AS_UINT(x) as_uint(x)
#define FMA(a, b, c) fma(a, b, c)
typedef signed char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;
#ifdef NEEDS_DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#else
#define GLOBAL
#define LOCAL __shared__
#define DEVICE static __device__ __forceinline__
#define CALLED static __device__ __noinline__
#define KERNEL(name) extern "C" __global__ void name
#define GRID , int32_t blocks_
#define ITEM(axis) csdf_item(axis, blocks_)
#define LOCAL_ITEM ((int)threadIdx.x)
#define LOCAL_ITEMS ((int)blockDim.x)
#define BARRIER __syncthreads()
#define AS_FLOAT(x) __uint_as_float(x)
#define AS_UINT(x) __float_as_uint(x)
#define FMA(a, b, c) fma(a, b, c)
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define INFINITY __int_as_float(0x7f800000)
#define convert_int_rte(x) __float2int_rn(x)
/* A grid has many blocks along its first axis alone: it is both of items, `blocks_` in a row; the second one is of records. */
DEVICE int csdf_item(int axis, int blocks)
{
    return axis == 0 ? blockIdx.x % blocks * blockDim.x + threadIdx.x
         : axis == 1 ? blockIdx.x / blocks * blockDim.y + threadIdx.y
                     : blockIdx.y;
}
#endif

/* A byte somewhere: the buffer in the two upper bits, the offset in it in the others. Nowhere is 0. */
typedef uint64_t place;

typedef struct buffers {
    GLOBAL char *memory;
    GLOBAL const char *weights;
    GLOBAL const char *tables;
} buffers;

#define OFFSET(at) ((int64_t)((at) & 0x3fffffffffffffff))
/* What is there may be written, unless it is a constant. */
#define AT(type, at) \
    ((GLOBAL type *)(((at) >> 62 == 1 ? b->memory \
        : (GLOBAL char *)((at) >> 62 == 2 ? b->weights : b->tables)) + OFFSET(at)))
#define IN_TABLES(type, at) ((GLOBAL const type *)(b->tables + OFFSET(at)))
#define IN_WEIGHTS(type, at) ((GLOBAL const type *)(b->weights + OFFSET(at)))
#define IN_MEMORY(type, at) ((GLOBAL type *)(b->memory + OFFSET(at)))

#define ARGUMENTS \
    GLOBAL char *memory_, GLOBAL const char *weights_, GLOBAL const char *tables_, GLOBAL const int32_t *which_, int32_t first_ GRID
#define ZEROS IN_TABLES(float, 0) /* as many as a kernel reads one after the other */

/* A kernel by its body, a function of a record, `step`, and of a work item, number `across` along the first axis and `down`
 * along the second one. Bodies are called by kernels of their own, or (CHAIN) by one kernel, which has none
 * of them in it: it would take long to build.
 */
#define BODY(name, type) BODY_(name, type)
#define FUNCTION_(name, type) \
    void name(const buffers *b, GLOBAL const type *step, const int32_t across, const int32_t down)
#ifdef CHAIN
#define BODY_(name, type) CALLED FUNCTION_(name, type)
#else
#define BODY_(name, type) \
    DEVICE FUNCTION_(name, type); \
    KERNEL(csdf_##name)(ARGUMENTS) \
    { \
        const buffers all_ = {memory_, weights_, tables_}; \
        name(&all_, (GLOBAL const type *)(tables_ + which_[first_ + ITEM(2)]), ITEM(0), ITEM(1)); \
    } \
    DEVICE FUNCTION_(name, type)
#endif

/* float16 as the 16 bits that it is stored in, rounded half to even. */
typedef struct csdf_f16 {
    uint16_t bits;
} csdf_f16;

DEVICE float csdf_from_f16(csdf_f16 half_)
{
    const uint32_t sign = (uint32_t)(half_.bits & 0x8000u) << 16, rest = half_.bits & 0x7fffu;
    if (rest >= 0x7c00u)
        return AS_FLOAT(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    const float size = rest < 0x400u ? (float)rest * 5.9604644775390625e-8f : AS_FLOAT(rest << 13) * 5.192296858534827628e33f;
    return AS_FLOAT(sign | AS_UINT(size));
}

DEVICE csdf_f16 csdf_to_f16(float value)
{
    const uint32_t bits = AS_UINT(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    csdf_f16 found;
    if (rest > 0x7f800000u) {
        found.bits = (uint16_t)(sign | 0x7e00u | (rest >> 13 & 0x3ffu));
    } else if (rest >= 0x47800000u) { /* 65536 and more */
        found.bits = (uint16_t)(sign | 0x7c00u);
    } else if (rest < 0x38800000u) { /* subnormal: times 2^24 it is a whole number */
        found.bits = (uint16_t)(sign | (uint32_t)convert_int_rte(AS_FLOAT(rest) * 16777216.0f));
    } else {
        const uint32_t odd = rest >> 13 & 1u;
        found.bits = (uint16_t)(sign | ((rest - 0x38000000u + 0xfffu + odd) >> 13));
    }
    return found;
}
