#define CSDF_BLOCK_FLOATS @floats@
#define CSDF_BLOCK_PIXELS @pixels@

@products@

@for shapes@
@blocks@
@end@
@for shapes@
@for kinds@
static csdf_block *const @kind@s_@vectors@[] = {
    @names@
};
@end@
@end@

static const csdf_shape shapes[] = {
@for shapes@
    {@vectors@, @pixels@, @most@, {blocks_@vectors@, runs_@vectors@}},
@end@
};
