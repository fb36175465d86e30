#ifndef INPUT
/* What is multiplied, unless the file that includes this has said so: an input channel is one product. */
#define INPUT csdf_v
#define WEIGHTS csdf_v
#define SPREAD(part, at, alone) csdf_splat(*(at))
#define LOAD(part, at) csdf_load(at)
#define ADD(sum, x, w) CSDF_FMA(sum, x, w)
#define STORE(to, at, x) csdf_store((to) + (at), x)
#define PARTS(DO, k, alone) DO(0, k, alone)
#define STEPS(count) (count)
#define LEFT(count) 0
#define CSDF_TURN @turn@
@if by_element@
#define TURN(DO) FOUR(0) FOUR(4)
#define REST FIRST(0)
@end@
@unless by_element@
#define TURN(DO) @turns@
@end@
#endif
@if by_element@
#ifndef REST
#define REST PRODUCTS(0)
#endif
@end@

/* The weights of the next input channel in the last panel, which is as wide as it has channels. */
#define NEXT z = (const float *)(const void *)((const char *)z + pitch); CSDF_KEEP_ADDRESS(z);
#define CLIPPED(x) x = csdf_min(high, csdf_max(low, x));
#define LEAKING(x) x = csdf_max(zero, x) + slope * csdf_min(zero, x);
