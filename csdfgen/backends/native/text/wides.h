@products@
#ifdef CSDF_WIDE
@blocks@
@for tables@
static csdf_wide_block *const wide_@panels@[] = {
    @names@,
};
@end@
static const struct {
    csdf_wide_block *const *blocks;
    int32_t pixels;
} wide[] = {
    @rows@
};
#endif
