"""Emitted code for a bare microcontroller: a linker script, and a program that reads and writes files by semihosting.

The program runs under qemu, or on a board with a debugger. The linker script has the sizes of a board and the addresses of
the machine that qemu emulates, and is a template: change the two lines of memory, and the functions that read and write.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from csdfgen.backends.native.template import fill_template
from csdfgen.emission.source import TEXT, Unit
from csdfgen.emission.targets import Board

FOLDER = Path(__file__).parent / "c"

FILES = (FOLDER / "board.c", FOLDER / "board.h")
"""Files that are copied unchanged: start code, and input and output by semihosting."""


def linker_script(unit: Unit, board: Board) -> Iterator[str]:
    """board.ld: the memories of a board, and the sections in each."""
    return fill_template(
        TEXT / "board.ld",
        name=unit.name,
        title=board.title,
        emulator=board.emulator,
        memory=[
            f"    {name:<9} ({'rwx' if name == 'RAM' else 'rx'}) : ORIGIN = 0x{start:08x}, LENGTH = {size // 1024}K"
            for name, start, size in board.memory
        ],
        one_flash=len(board.memory) < 3,
        stack=board.stack,
    )


def qemu(program: str, words: str) -> str:
    """The command of a Makefile that runs a program under qemu."""
    return (
        "$(QEMU) -semihosting-config enable=on,target=native,"
        f"arg=$(subst $(space),$(comma)arg=,$(strip {program} {words})) -kernel $<"
    )
