/* Start of a Cortex-M or of a RISC-V processor, and semihosting. board.ld says where memory is. */
#include "board.h"

/* Of board.ld: only their addresses mean something. */
extern uint32_t board_stack_low[], board_stack_top[];
extern uint32_t board_data_from[], board_data_low[], board_data_end[];
extern uint32_t board_bss_low[], board_bss_end[];
extern char board_ram_size[], board_constants_size[];

#define PAINT 0xC5DFC5DFu

/* --- Semihosting ------------------------------------------------------------------------------ */

enum { OPEN = 1, CLOSE = 2, WRITE0 = 4, WRITE = 5, READ = 6, FLEN = 12, COMMAND = 21, EXIT = 32 };

#ifdef __riscv
/* The three instructions lie in one page, and none is a short one. */
__attribute__((naked, aligned(16))) static int32_t ask(int32_t what, const void *with)
{
    (void)what;
    (void)with;
    __asm__ volatile(".option push\n\t.option norvc\n\tslli zero, zero, 0x1f\n\tebreak\n\tsrai zero, zero, 7\n\t"
                     ".option pop\n\tret");
}
#else
static int32_t ask(int32_t what, const void *with)
{
    register int32_t r0 __asm__("r0") = what;
    register const void *r1 __asm__("r1") = with;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}
#endif

static uint32_t word(const void *address)
{
    return (uint32_t)(uintptr_t)address;
}

static void leave(int32_t code)
{
    const uint32_t block[2] = {0x20026u, (uint32_t)code};
    (void)ask(EXIT, block);
    for (;;)
        ;
}

void board_say(const char *text)
{
    (void)ask(WRITE0, text);
}

void board_say_number(uint32_t number)
{
    char text[11];
    char *at = text + sizeof text - 1;
    *at = '\0';
    do
        *--at = (char)('0' + number % 10);
    while (number /= 10);
    board_say(at);
}

static int32_t opened(const char *path, uint32_t mode)
{
    uint32_t length = 0;
    while (path[length])
        length++;
    const uint32_t block[3] = {word(path), mode, length};
    return ask(OPEN, block);
}

int board_close(int32_t file)
{
    return ask(CLOSE, &file) == 0;
}

int32_t board_open(const char *path)
{
    const int32_t file = opened(path, 1); /* rb */
    return file < 0 ? 0 : file;
}

int board_read(int32_t file, void *to, uint32_t size)
{
    const uint32_t block[3] = {(uint32_t)file, word(to), size};
    return ask(READ, block) == 0;
}

int board_load(const char *path, void *to, uint32_t size)
{
    const int32_t file = board_open(path);
    if (file == 0)
        return 0;
    const int whole = ask(FLEN, &file) == (int32_t)size && board_read(file, to, size);
    (void)board_close(file);
    return whole;
}

int32_t board_create(const char *path)
{
    const int32_t file = opened(path, 5); /* wb */
    return file < 0 ? 0 : file;
}

int board_store(int32_t file, const void *from, uint32_t size)
{
    const uint32_t block[3] = {(uint32_t)file, word(from), size};
    return ask(WRITE, block) == 0;
}

/* --- Memory and time -------------------------------------------------------------------------- */

uint32_t board_stack_bytes(void)
{
    return word(board_stack_top) - word(board_stack_low);
}

uint32_t board_ram_bytes(void)
{
    return word(board_ram_size);
}

uint32_t board_constant_bytes(void)
{
    return word(board_constants_size);
}

uint32_t board_stack_used(void)
{
    const volatile uint32_t *at = board_stack_low;
    while (at < board_stack_top && *at == PAINT)
        at++;
    return word(board_stack_top) - (uint32_t)(uintptr_t)at;
}

/* --- Start ------------------------------------------------------------------------------------ */

void board_fault(void);
void board_reset(void);
void board_begin(volatile uint32_t *here);

void board_fault(void)
{
    board_say("the processor has met a fault; is the stack too small?\n");
    leave(3);
}

/* The words of the command line. */
static int32_t split(char *text, char **words, int32_t most)
{
    int32_t count = 0;
    while (*text && count < most) {
        while (*text == ' ')
            *text++ = '\0';
        if (*text)
            words[count++] = text;
        while (*text && *text != ' ')
            text++;
    }
    return count;
}

/* Paints the stack below here, and calls main. */
__attribute__((noinline)) void board_begin(volatile uint32_t *here)
{
    static char line[512];
    static char *words[16];
    for (volatile uint32_t *at = board_stack_low; at < here - 32; at++)
        *at = PAINT;
    const volatile uint32_t *from = board_data_from;
    for (volatile uint32_t *to = board_data_low; to < board_data_end; to++)
        *to = *from++;
    for (volatile uint32_t *to = board_bss_low; to < board_bss_end; to++)
        *to = 0;
    const uint32_t block[2] = {word(line), sizeof line};
    const int32_t count = ask(COMMAND, block) == 0 ? split(line, words, 16) : 0;
    leave(main(count, words));
}

#ifdef __riscv

void board_clock_start(void) {}

uint64_t board_ticks(void)
{
    uint32_t high, low, again;
    __asm__ volatile(".option push\n\t.option arch, +zicsr\n1:\tcsrr %0, mcycleh\n\tcsrr %1, mcycle\n\t"
                     "csrr %2, mcycleh\n\tbne %0, %2, 1b\n\t.option pop"
                     : "=&r"(high), "=&r"(low), "=&r"(again));
    return (uint64_t)high << 32 | low;
}

/* The stack may be what is at fault: it begins anew. */
__attribute__((naked, aligned(4))) static void fault(void)
{
    __asm__ volatile("la sp, board_stack_top\n\tj board_fault");
}

/* What lies below the stack cannot be written, so that one that grows too large is met. */
__attribute__((naked, section(".vectors"))) void board_reset(void)
{
    __asm__ volatile(".option push\n\t.option arch, +zicsr\n\tla t0, %0\n\tcsrw mtvec, t0\n\t"
                     "la t0, board_stack_low\n\tsrli t0, t0, 2\n\tcsrw pmpaddr0, t0\n\tli t0, 0x8d\n\tcsrw pmpcfg0, t0\n\t"
                     "la sp, board_stack_top\n\tmv a0, sp\n\tj board_begin\n\t.option pop"
                     :
                     : "i"(fault));
}

#else

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define CPACR REGISTER(0xE000ED88u)
#define SYST_CSR REGISTER(0xE000E010u)
#define SYST_RVR REGISTER(0xE000E014u)
#define SYST_CVR REGISTER(0xE000E018u)

#define TICKS 0x1000000u /* of SysTick until it begins anew */

static volatile uint32_t rounds;

static void tick(void)
{
    rounds = rounds + 1;
}

void board_clock_start(void)
{
    SYST_RVR = TICKS - 1;
    SYST_CVR = 0;
    SYST_CSR = 7; /* on, with an interrupt, at the processor's clock */
    while (SYST_CVR == 0)
        ; /* it is loaded at the first cycle */
}

uint64_t board_ticks(void)
{
    uint32_t before, left;
    do {
        before = rounds;
        left = SYST_CVR;
    } while (before != rounds);
    return (uint64_t)before * TICKS + (TICKS - 1 - left);
}

/* The stack may be what is at fault: it begins anew. */
__attribute__((naked)) static void fault(void)
{
    __asm__ volatile("ldr r0, =board_stack_top\n\tmov sp, r0\n\tldr r0, =board_fault\n\tbx r0");
}

/* Nothing here may touch a floating point register before they are switched on. */
void board_reset(void)
{
    volatile uint32_t *here;
#ifdef __ARM_FP
    CPACR |= 0xFu << 20;
    __asm__ volatile("dsb\n\tisb");
#endif
    __asm__ volatile("mov %0, sp" : "=r"(here) : : "memory");
    board_begin(here);
}

typedef void (*handler)(void);

__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    handler handlers[15];
} vectors = {
    board_stack_top,
    {board_reset, fault, fault, fault, fault, fault, 0, 0, 0, 0, fault, fault, 0, fault, tick},
};

#endif
