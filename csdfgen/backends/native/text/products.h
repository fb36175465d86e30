#ifndef INPUT
/* What is multiplied, unless the file that includes this has said so: an input channel is one product. */
#define INPUT csdf_v
#define WEIGHTS csdf_v
#define SPREAD(part, at, alone) csdf_splat(*(at))
#define LOAD(part, at) csdf_load(at)
#define ADD(sum, x, w) CSDF_FMA(sum, x, w)
#define PARTS(DO, k, alone) DO(0, k, alone)
#define STEPS(count) (count)
#define LEFT(count) 0
#define CSDF_TURN @turn@
@if by_element@
#define TURN(DO) FOUR(0) FOUR(4)
#define LOAD_FOUR(at) csdf_load(at)
#define LOAD_TWO(w, v, at, n) CSDF_LOAD_TWO(w, v, at, n)
#define ADD_FOUR(sum, x, w, n) CSDF_FMA_BY(sum, x, w, n)
@end@
@unless by_element@
#define TURN(DO) @turns@
@end@
#endif

/* The weights of the next input channel in the last panel, which is as wide as it has channels. */
#define NEXT z = (const float *)(const void *)((const char *)z + pitch); CSDF_KEEP_ADDRESS(z);
#define CLIPPED(x) x = csdf_min(high, csdf_max(low, x));
#define LEAKING(x) x = csdf_max(zero, x) + slope * csdf_min(zero, x);
