/* Constants of @title@: the bytes of @name@_weights.bin. */
#ifdef __APPLE__
#define NAME _@name@_weights
    .const
#else
#define NAME @name@_weights
#ifdef @macro@_WEIGHTS_SECTION
    .section @macro@_WEIGHTS_SECTION, "a"
#else
    .section .rodata
#endif
#endif
    .globl NAME
    .balign 64
NAME:
    .incbin "@name@_weights.bin"
#ifdef __ELF__
    .section .note.GNU-stack, "", %progbits
#endif
