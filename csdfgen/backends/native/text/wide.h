static void wide_@panels@x@pixels@(const csdf_wide *b, const uint8_t *const *at, uint8_t *const *out)
{
@if several@
    const ptrdiff_t panel = b->panel;
@end@
    const int8_t *w = b->weights;
@for rows@
    csdf_sum @sums@;
@end@
@for begun@
    @sums@ = csdf_wide_sums(b->bias + @lane@);
@end@
    for (int32_t tap = 0; tap < b->taps; tap++)
        for (int32_t piece = 0; piece < b->pieces; piece++, at += b->apart) {
            const ptrdiff_t count = b->counts[piece];
            const uint8_t *@addresses@;
            ptrdiff_t k = 0;
@for turns@
            for (; k + @terms@ <= count; k += @terms@, w += @moved@) {
@for steps@
                {
@for taps@
                    csdf_taps w@v@ = csdf_weights(w@shift@ + @weights@); CSDF_KEEP_TAPS(w@v@);
@end@
@for rows@
                    const csdf_four x@i@ = csdf_spread(p@i@ + k + @at@); @products@
@end@
                }
@end@
            }
@end@
        }
    if (b->sums) {
@for kept@
        csdf_wide_keep(b->sums + @place@, @sum@);
@end@
        return;
    }
@for rows@
    csdf_wide_bytes(b, out[@i@], @panels@, @four@);
@end@
}

