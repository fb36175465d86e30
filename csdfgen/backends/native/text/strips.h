#define CLIPPED(x) x = csdf_min(high, csdf_max(low, x));
#define LEAKING(x) x = csdf_max(zero, x) + slope * csdf_min(zero, x);
#define FETCHES (@panel@ / CSDF_LANES)
#define FETCH(count, at, pace) \
    for (ptrdiff_t i = 0; i < (count); i += FETCHES) \
        CSDF_PREFETCH_NEAR((at) + i * (pace));
#define FETCH_OUT(count, at, pace) \
    for (ptrdiff_t i = 0; i < (count); i += FETCHES) \
        CSDF_PREFETCH_OUT((at) + i * (pace));

@whole@
#if CSDF_LANES > 1
@some@
#define SOME(name) name
#else
#define SOME(name) NULL
#endif
static const csdf_strip_shape strips[] = {
@for shapes@
    {@kernel@, @stride@, {
        @pixels@
    }},
@end@
};
