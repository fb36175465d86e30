@products@
#define LINE_LOAD(at) (some ? csdf_load_some(at, some) : csdf_load(at))
#define LINE_STORE(at, x) if (some) csdf_store_some(at, x, some); else csdf_store(at, x)

@lines@
static const csdf_pixels_shape lines[] = {
@for shapes@
    {@vectors@, @pixels@, {@names@}},
@end@
};
