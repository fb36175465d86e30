@all@
static void @name@(
    const csdf_strip *s, ptrdiff_t c, ptrdiff_t end)
{
@if even@
    const ptrdiff_t step = s->step;
@end@
@if some@
    const int some = (int)(end - c);
@end@
    const ptrdiff_t pace = s->pace;
    for (; c < end; c += CSDF_LANES) {
        const element *const *t = s->table;
        element *out = s->out + c;
@if fetches@
        const ptrdiff_t turn = c / CSDF_LANES % FETCHES;
        if (s->far) {
            FETCH_OUT(@pixels@, out + (@pixels@ + turn) * pace, pace)
        }
@end@
        csdf_v @names@;
        @sums@ = @load@s->bias + c@loaded@;
        if (s->init) {
@for each@
            a@i@ += @load@s->init + @i@ * s->init_pace + c@loaded@;
@end@
        }
        for (int32_t row = 0; row < s->rows; row++, t += @moved@) {
            const float *w = s->weights[row] + c;
@if even@
            const element *p = t[0] + c;
@end@
@if fetches@
            if (s->far) {
                FETCH(@new@, p + (@columns@ + turn) * step, step)
            }
@end@
@for taps@
            const csdf_v w@k@ = @load@@at@@loaded@;
@end@
@for inputs@
            const csdf_v x@column@ = @take@@at@@loaded@; @products@
@end@
        }
    if (s->activation.kind == CSDF_CLIP) {
        const csdf_v low = csdf_splat(s->activation.a), high = csdf_splat(s->activation.b);
        ALL(CLIPPED)
    } else if (s->activation.kind == CSDF_LEAKY) {
        const csdf_v slope = csdf_splat(s->activation.a), zero = csdf_splat(0.0f);
        ALL(LEAKING)
    }
@for each@
        @give@out + @i@ * pace, a@i@@stored@;
@end@
    }
}
#undef ALL

