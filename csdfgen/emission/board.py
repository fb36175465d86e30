"""Emitted code for a bare Cortex-M: a linker script, and a program that reads and writes files by semihosting.

The program runs under qemu, or on a board with a debugger. The files are written for the boards that qemu emulates, and are
a template for others: change the two lines of memory in the linker script, and the functions that read and write.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from csdfgen.emission.names import comment
from csdfgen.emission.source import Unit
from csdfgen.emission.targets import Board

FOLDER = Path(__file__).parent / "c"

FILES = (FOLDER / "board.c", FOLDER / "board.h")
"""Files that are copied unchanged: start code, and input and output by semihosting."""

_SCRIPT = """\
/* Memory of {title} ({machine} in qemu). For another board: its addresses and sizes, and where code
 * and constants lie in one flash, REGION_ALIAS("CONSTANTS", CODE). */
MEMORY
{{
{memory}
}}
{alias}
STACK = DEFINED(STACK) ? STACK : {stack};

ENTRY(board_reset)

SECTIONS
{{
    .vectors : {{ KEEP(*(.vectors)) }} > CODE
    .constants : {{ {weights}(.rodata .rodata.*) }} > CONSTANTS
    .text : {{ *(.text .text.* .rodata .rodata.* .ARM.extab*) }} > CODE
    .ARM.exidx : {{ *(.ARM.exidx*) }} > CODE

    /* The stack lies below all else: one that grows too large meets the end of memory, not the arena. */
    .stack (NOLOAD) :
    {{
        board_stack_low = .;
        . += STACK;
        . = ALIGN(8);
        board_stack_top = .;
    }} > RAM
    .data :
    {{
        . = ALIGN(4);
        board_data_low = .;
        *(.data .data.*)
        . = ALIGN(4);
        board_data_end = .;
    }} > RAM AT > CODE
    board_data_from = LOADADDR(.data);
    .bss (NOLOAD) :
    {{
        . = ALIGN(4);
        board_bss_low = .;
        *(.bss .bss.* COMMON)
        . = ALIGN(4);
        board_bss_end = .;
    }} > RAM
    board_ram_size = LENGTH(RAM);
    board_constants_size = LENGTH(CONSTANTS);
}}
"""


def linker_script(unit: Unit, board: Board) -> Iterator[str]:
    """board.ld: the memories of a board, and the sections in each."""
    memory = [
        f"    {name:<9} ({'rwx' if name == 'RAM' else 'rx'}) : ORIGIN = 0x{start:08x}, LENGTH = {size // 1024}K"
        for name, start, size in board.memory
    ]
    alias = "" if len(board.memory) > 2 else 'REGION_ALIAS("CONSTANTS", CODE)\n'
    text = _SCRIPT.format(
        title=board.title,
        machine=board.machine,
        memory="\n".join(memory),
        alias=alias,
        stack=board.stack,
        weights=f"*{unit.name}_weights.*",
    )
    yield from text.splitlines()


_MAIN = """\
#include "{name}.h"

#include "board.h"

#include <string.h>

static struct {{
{arrays}
}} data;

static int fail(const char *what, const char *where)
{{
    board_say(where);
    board_say(": ");
    board_say(what);
    board_say("\\n");
    return 1;
}}

int main(int count, char **words)
{{
    if (count != {files} + 3 || strcmp(words[1], "-o") != 0) {{
        board_say("usage: {name} -o OUTPUT{usage}\\n");
        return 2;
    }}
{loads}    {name}_run({arguments});
    const int32_t file = board_create(words[2]);
    int written = file != 0;
{stores}    if (!written || !board_close(file))
        return fail("cannot be written", words[2]);
    board_say("stack ");
    board_say_number(board_stack_used());
    board_say(" of ");
    board_say_number(board_stack_bytes());
    board_say(" bytes\\n");
    return 0;
}}
"""


def main(unit: Unit) -> Iterator[str]:
    """main.c: reads inputs from files of the debugger's host, writes outputs into one, and prints how much stack was used."""
    words = [one.word for one in unit.inputs]
    text = _MAIN.format(
        name=unit.name,
        arrays="\n".join(unit.members()),
        files=len(words),
        usage="".join(f" {word.upper()}" for word in words),
        loads="".join(
            f"    if (!board_load(words[{number}], data.{word}, {unit.bytes_of(word)}))\n"
            f'        return fail("does not have the bytes of the input", words[{number}]);\n'
            for number, word in enumerate(words, 3)
        ),
        arguments=unit.passed(),
        stores="".join(
            f"    written = written && board_store(file, data.{word}, {unit.bytes_of(word)});\n"
            for word, _, _ in unit.results()
        ),
    )
    yield f"/* Runs {comment(unit.title)} on raw files: one array each, as {unit.name}.h says. */"
    yield from text.splitlines()


def run_rule(program: str, board: Board) -> Iterator[str]:
    """The rule of a Makefile that runs a program under qemu with the arguments in ARGS."""
    yield "comma := ,"
    yield "space := $(comma:,=) $(comma:,=)"
    yield f"QEMU = qemu-system-arm -M {board.machine} -display none -monitor none -serial none"
    yield ""
    yield f'run: {program}.elf  # ARGS="-o output.bin input.bin"; a board runs it by its debugger'
    yield f"\t{qemu(program, '$(ARGS)')}"


def qemu(program: str, words: str) -> str:
    """The command of a Makefile that runs a program under qemu."""
    return (
        "$(QEMU) -semihosting-config enable=on,target=native,"
        f"arg=$(subst $(space),$(comma)arg=,$(strip {program} {words})) -kernel $<"
    )
