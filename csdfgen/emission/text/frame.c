@for pointers@
at[@number@] = @value@;
@end@
@if timed@
uint64_t last = ticks ? times_now() : 0;
@end@
@if repeats@
int32_t turn = 0;
@end@
for (int32_t k = 0; k < ORDER; k++) {
@if repeats@
    if (k == LOOP_STOP && turn < TURNS) {
        turn++;
        k = LOOP_START;
    }
@end@
    const task *now = task_at(k);
@if kernels@
    if (!now)
        fire(order[k], @base@);
@end@
@if branches@
    if (now && now->side < 0) {
        k += left_out(now, @base@);
        continue;
    }
@end@
@if pointers@
    for (int32_t row = 0; now && row < now->count; row++) {
        const side *rows = sides + now->side;
        const csdf_port *form = arrays + rows->port@share@;
        const int32_t number = now->first + row;
        if (at[rows->port])
            move(rows, form, at[rows->port] + (number@shift@) * form->strides[0], number, @base@);
    }
@end@
@if timed@
    if (ticks && ends[k] != NOBODY) {
        const uint64_t at_end = times_now();
        ticks[ends[k]] += at_end - last;
        last = at_end;
    }
@end@
}
