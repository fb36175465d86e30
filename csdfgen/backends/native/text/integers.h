#define DOT(sum, x, w) sum = @low@dot(sum, x, w); @size@KEEP_TAPS(sum);

@for blocks@
#@otherwise@if @size@VECTORS == @vectors@
@for counts@
@if guarded@
#if @size@PIXELS >= @count@
@end@
@dots@
@if guarded@
#endif
@end@
@end@
@end@
#endif

static csdf_@name@ *const @name@[] = {
@for all_counts@
@if guarded@
#if @size@PIXELS >= @count@
@end@
    @name@_@count@,
@if guarded@
#endif
@end@
@end@
};
