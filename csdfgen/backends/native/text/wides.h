@products@
#ifdef CSDF_WIDE
@for tables@
@if fewer@
#if CSDF_WIDE > 1
@end@
@blocks@
static csdf_wide_block *const wide_@panels@[] = {
    @names@,
};
@if fewer@
#endif
@end@
@end@
static const struct {
    csdf_wide_block *const *blocks;
    int32_t pixels;
} wide[] = {
#if CSDF_WIDE > 1
    @rows@
#endif
    @last@
};
#endif
