@for turns@
for (; k + @terms@ <= @count@; k += @terms@, w += @terms@ * @panel@) {
@for rows@
    const csdf_four x@i@ = @load@(p@i@ + k);
@end@
@for elements@
    {
        CSDF_LOAD_TWO(w0, w1, w, @low_two@);
        @first_two@
    }
    {
        CSDF_LOAD_TWO(w2, w3, w, @high_two@);
        @last_two@
    }
@end@
}
@end@
