static void @name@_@pixels@(const @low@e *x, ptrdiff_t pitch, const @weight@ *weights, ptrdiff_t steps,
    const int32_t *from, ptrdiff_t apart, int32_t *to, int32_t outs)
{
@if alone@
    (void)pitch, (void)apart;
@end@
    for (int32_t o = 0; o < outs; o += @size@VECTORS * @size@OUTS) {
        const @weight@ *w = weights + @terms@ * o;
@for rows@
        const @low@e *p@i@ = x@pitched@;
@end@
@for rows@
        @low@sum @none@;
@end@
        ptrdiff_t k = 0;
@if by_element@
#ifdef CSDF_DOT_BY
        @by_element@
#else
@end@
        for (; k < @terms@ * steps; k += @terms@, w += @moved@) {
@for taps@
            @low@taps w@v@ = @low@weights(w + @place@ * @size@OUTS); @size@KEEP_TAPS(w@v@);
@end@
@for rows@
            const @low@four x@i@ = @low@spread(p@i@ + k); @each@
@end@
        }
@if by_element@
#endif
@end@
@for puts@
        @low@put(@put@);
@end@
    }
}

