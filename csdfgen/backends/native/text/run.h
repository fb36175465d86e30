@for addresses@
const float *p@i@ = @table@[@i@];
@end@
ptrdiff_t c = 0;
for (; c + CSDF_TURN <= count; c += CSDF_TURN@turned@) {
    CSDF_PREFETCH(@first@ + ahead);
    if (few)
        for (ptrdiff_t line = ahead + beside; line < next + CSDF_TURN * @panel@; line += beside)
            CSDF_PREFETCH(@first@ + line);
    @panels@
    TURN(PRODUCTS)
}
for (; c < count; c++@stepped@) {
    @panels@
    @rest@
}
if (LEFT(all_of)) {
    @panels@
    PARTS(PART, 0, 1) NEXT
@if several@
    w += @panel@;
@end@
}
