@macros@
static void line_@vectors@x@pixels@(const csdf_pixels *l, int32_t times)
{
    const ptrdiff_t step = l->step, run = l->run, pace = l->pace;
    const int32_t some = l->some;
@if thrice@
    ptrdiff_t thrice = 3 * step;
    CSDF_KEEP_ADDRESS(thrice);
@end@
    const ptrdiff_t pitch = l->pitch * (ptrdiff_t)sizeof(float);
@if panels@
    const ptrdiff_t panel = l->panel;
@end@
    for (ptrdiff_t first = 0; first < @pixels@ * (ptrdiff_t)times; first += @pixels@) {
        float *out = l->out + first * pace;
        @begun@
        if (l->init) {
            const float *init = l->init + first * l->init_pace;
@for grid@
            a@i@_@v@ += @load@(init@at@);@next_init@
@end@
        }
        for (int32_t row = 0; row < l->rows; row++) {
@if several@
            const float *w = l->weights[row];
@end@
            const float *z = l->last[row];
            const float *p0 = l->at[row] + first * step;
@for bases@
            const float *p@i@ = p0 + @i@ * step;
            CSDF_KEEP_ADDRESS(p@i@);
@end@
            ptrdiff_t c = 0;
@if by_element@
            for (; c + 4 <= run; c += 4@moved@) {
                @panels@
                FOUR(0)
            }
            for (; c < run; c++@stepped@) {
                @panels@
                FIRST(0)
            }
@end@
@unless by_element@
            for (; c + 2 <= run; c += 2@moved@) {
                @panels@
                PRODUCTS(0) PRODUCTS(1)
            }
            if (c < run) {
                @panels@
                PRODUCTS(0)
            }
@end@
        }
        if (l->activation.kind == CSDF_CLIP) {
            const csdf_v low = csdf_splat(l->activation.a), high = csdf_splat(l->activation.b);
            ALL(CLIPPED)
        } else if (l->activation.kind == CSDF_LEAKY) {
            const csdf_v slope = csdf_splat(l->activation.a), zero = csdf_splat(0.0f);
            ALL(LEAKING)
        }
@for grid@
        @store@(out@to@, a@i@_@v@);@next_out@
@end@
    }
}
#undef PART
#undef PRODUCTS
@if by_element@
#undef FOUR
#undef FIRST
#undef ELEMENT
@end@
#undef ALL

