/* All products of the k-th input channel from c on. */
#define PRODUCTS(k) PARTS(PART, k, 0) NEXT
#define PART(part, k, alone) \
    { \
        @products@
    }
@if by_element@
/* All products of four input channels, the first of which is the k-th from c on, and of this one alone. */
#define FOUR(k) \
    { \
@for inputs@
        const csdf_v x@i@ = csdf_load(@at@); \
@end@
        ELEMENT(k, 0) ELEMENT((k + 1), 1) ELEMENT((k + 2), 2) ELEMENT((k + 3), 3) \
    }
#define FIRST(k) \
    { \
@for inputs@
        CSDF_LOAD_FIRST(x@i@, @at@); \
@end@
        ELEMENT(k, 0) \
    }
#define ELEMENT(k, n) \
    { \
        @elements@
    }
@end@
@all@
