@macros@

@for forms@
static void @form@_@vectors@x@pixels@(const csdf_pass *pass, const float *const *table,
    const float *const *init, float *const *out, ptrdiff_t next, int32_t first,
    int32_t times, int32_t all)
{
    const ptrdiff_t shift = pass->channel, pitch = pass->pitch * (ptrdiff_t)sizeof(float);
    const ptrdiff_t beside = (ptrdiff_t)all * @panel@;
    const int few = all < CSDF_TURN;
@if single@
    const ptrdiff_t all_of = pass->counts[0], count = STEPS(all_of);
@end@
@if panels@
    const ptrdiff_t panel = pass->panel;
@end@
    for (int32_t k = 0; k < times; k++) {
@unless single@
        const float *const *t = table;
@end@
@if several@
        const float *w = pass->weights;
@end@
        const float *z = pass->last;
        const ptrdiff_t ahead = next + (first + k) % CSDF_TURN * @panel@;
        @begun@
        if (init) {
@for grid@
            a@i@_@v@ += csdf_load(init[@i@] + shift + @lane@);
@end@
            init += @pixels@;
        }
@if single@
        @run@
@end@
@unless single@
@for fetched@
        CSDF_PREFETCH_OUT(out[@i@] + shift + @lane@);
@end@
        for (int32_t tap = 0; tap < pass->taps; tap++, z += pass->skip * pass->pitch@skips@) {
            for (int32_t i = 0; i < pass->pieces; i++, t += pass->pixels) {
                const ptrdiff_t all_of = pass->counts[i], count = STEPS(all_of);
                @run@
            }
        }
@end@
        if (pass->activation.kind == CSDF_CLIP) {
            const csdf_v low = csdf_splat(pass->activation.a), high = csdf_splat(pass->activation.b);
            ALL(CLIPPED)
        } else if (pass->activation.kind == CSDF_LEAKY) {
            const csdf_v slope = csdf_splat(pass->activation.a), zero = csdf_splat(0.0f);
            ALL(LEAKING)
        }
@for grid@
        STORE(out[@i@], shift + @lane@, a@i@_@v@);
@end@
        table += @pixels@;
        out += @pixels@;
    }
}

@end@
#undef PART
#undef PRODUCTS
@if by_element@
#undef FOUR
#undef FIRST
#undef ELEMENT
@end@
#undef ALL

