static void wide_@panels@x@pixels@(const csdf_wide *restrict b, const uint8_t *const *at, uint8_t *const *out, int32_t times)
{
    for (; times > 0; times--, at += @pixels@, out += @pixels@) {
        const int8_t *w = b->weights;
        const int32_t *from = b->bias;
        const uint8_t *const *t = at;
@for rows@
        csdf_sum @sums@;
        CSDF_WIDE_AGAIN(from);
@end@
        const int32_t *counts = b->counts;
        for (int32_t left = b->taps * b->pieces; left > 0; left--, t += b->apart) {
            const ptrdiff_t count = *counts++;
            const csdf_e *@addresses@;
            ptrdiff_t k = 0;
            if (counts == b->counts + b->pieces)
                counts = b->counts;
@if by_element@
#ifdef CSDF_DOT_BY
            @by_element@
#else
@end@
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
@if by_element@
#endif
@end@
        }
        if (b->sums) {
@for kept@
            csdf_wide_keep(b->sums + CSDF_WIDE_PLACE(@v@, @i@, @pixels@), a@i@_@v@);
@end@
            return;
        }
        csdf_wide_made @made@;
        if (CSDF_WIDE == 1 && b->plain) {
@for rows@
            made@i@ = csdf_wide_bytes(b, @panels@, 1, @four@);
@end@
        } else {
@for rows@
            made@i@ = csdf_wide_bytes(b, @panels@, 0, @four@);
@end@
        }
        const ptrdiff_t shift = b->shift;
        const int32_t outs = b->outs;
        if (outs == @panels@ * CSDF_OUTS) {
@for rows@
            csdf_wide_store(out[@i@] + shift, made@i@, @panels@ * CSDF_OUTS);
@end@
        } else {
@for rows@
            csdf_wide_store(out[@i@] + shift, made@i@, outs);
@end@
        }
    }
}

