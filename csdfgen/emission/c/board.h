/* What a program on a bare microcontroller asks of its board. board.c answers by semihosting: the debugger, or
 * qemu, opens files and prints. On a board of your own the start code and the clock stay; what reads and
 * writes becomes your camera and your display. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

/* Calls main with the words of the command line. The names are the program's. */
int main(int count, char **words);

/* Prints a text; a number. */
void board_say(const char *text);
void board_say_number(uint32_t number);

/* Whether a file has so many bytes and no more, which are stored. */
int board_load(const char *path, void *to, uint32_t size);

/* A file that is read: a number above 0, or 0; whether so many bytes more were there. */
int32_t board_open(const char *path);
int board_read(int32_t file, void *to, uint32_t size);

/* A file that is written: a number above 0, or 0; whether bytes were written; whether it is complete. */
int32_t board_create(const char *path);
int board_store(int32_t file, const void *from, uint32_t size);
int board_close(int32_t file);

/* Bytes of the stack that were in use at some time since the start: painted then, looked at now. */
uint32_t board_stack_used(void);

/* Bytes of the stack, of all RAM, and of the memory that constants lie in, as the linker script says. */
uint32_t board_stack_bytes(void);
uint32_t board_ram_bytes(void);
uint32_t board_constant_bytes(void);

/* Cycles of the processor since the clock was started (SysTick, so that every Cortex-M has it, or mcycle). */
void board_clock_start(void);
uint64_t board_ticks(void);

#endif
