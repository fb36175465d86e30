"""Emitted code on bare microcontrollers, as qemu has them: it computes what onnxruntime does, and the
linker's map holds no byte of RAM that nobody has named.

Where a compiler or an emulator is absent, its tests are skipped and say which.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from csdfgen.emission.targets import TARGETS, Board
from tests.board_networks import NETWORKS, absent, plan_of, right
from tests.emitted import Program
from tests.native_steps import compiler_missing

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

BOARDS = ("cortex-m7", "cortex-m55")

STACK = 8192
"""Bytes that a frame may take of the stack: what csdf.h says of kernels."""


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("target", BOARDS)
def test_a_board(name: str, target: str, tmp_path: Path) -> None:
    """Outputs, the stack, and every byte of RAM."""
    absent(TARGETS[target].compiler, "qemu-system-arm", "make")
    plan = plan_of(name)
    program = Program(plan, tmp_path / "c", target=target)
    right(program, name)
    used, size = stack_of(program)
    board = TARGETS[target].board
    assert board is not None and size == board.stack
    assert 256 < used < STACK
    outputs = [one.tensor for one in plan.network.outputs if one.tensor is not None]
    ports = sum(tensor.nbytes for tensor in (*plan.network.inputs, *outputs))
    items = ram(program, board)
    assert items.pop("stack") == size
    assert items.pop("small.o: arena") == -(-plan.planned_bytes // 8) * 8
    assert items.pop("main.o: data") == ports
    # board.c: the command line and its words, and how often the clock went round
    assert items.pop("board.o: line") == 512
    assert items.pop("board.o: words") == 64
    assert items.pop("board.o: rounds", 4) == 4
    gaps = items.pop("gaps", 0)
    assert gaps < 64 * 2
    assert not items, "RAM that nobody has named"


def stack_of(program: Program) -> tuple[int, int]:
    """Bytes of the stack that were used, and that there are, as the program says."""
    found = re.search(r"^stack (\d+) of (\d+) bytes$", program.said, re.M)
    assert found, program.said
    return int(found[1]), int(found[2])


def ram(program: Program, board: Board) -> dict[str, int]:
    """Bytes of RAM by what they are for, from the linker's map; they add up to its sections."""
    text = (program.folder / f"{program.name}.map").read_text()
    text = text.partition("Linker script and memory map")[2]
    found = re.findall(r"^(\.\S+)\s+(0x\w+)\s+(0x\w+)", text, re.M)
    sections = {name: (int(at, 16), int(size, 16)) for name, at, size in found}
    ((low, of_ram),) = [(at, size) for name, at, size in board.memory if name == "RAM"]
    stack = sections[".stack"]
    assert stack[0] == low
    items = {"stack": stack[1]}
    for name, at, size, home in re.findall(
        r"^ (\.\S+|COMMON|\*fill\*)\s+(0x\w+)\s+(0x\w+)(?: +(\S+))?", text, re.M
    ):
        if int(size, 16) and sum(stack) <= int(at, 16) < low + of_ram:
            plain = re.sub(r"[.]\d+$", "", re.sub(r"^[.](bss|data)[.]", "", name))
            key = f"{re.sub(r'.*[(/]|[)]', '', home)}: {plain}" if home else "gaps"
            items[key] = items.get(key, 0) + int(size, 16)
    assert sum(items.values()) == sum(
        size for at, size in sections.values() if low <= at < low + of_ram
    )
    return items


@pytest.mark.parametrize("target", BOARDS)
def test_a_stack_that_is_too_small(target: str, tmp_path: Path) -> None:
    """It does not run into the arena: the processor stops, and the program says so."""
    absent(TARGETS[target].compiler, "qemu-system-arm", "make")
    program = Program(plan_of("residual"), tmp_path / "c", target=target)
    right(program, "residual")
    used, _ = stack_of(program)
    small = f"LDFLAGS=-Wl,--gc-sections -Wl,--defsym=STACK={used // 16 * 8}"
    (program.folder / "small.elf").unlink()
    program.make(small, "all")
    said = refused(["make", "-s", "run", "ARGS=-o output.bin input0.bin"], program.folder)
    assert "met a fault" in said


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("", "usage: small -o OUTPUT X"),
        ("-o output.bin", "usage: small -o OUTPUT X"),
        ("-o output.bin short.bin", "short.bin: does not have the bytes of the input"),
        ("-o output.bin none.bin", "none.bin: does not have the bytes of the input"),
        ("-o none/output.bin input.bin", "none/output.bin: cannot be written"),
    ],
)
def test_a_board_refuses(words: str, line: str, tmp_path: Path) -> None:
    absent(TARGETS["cortex-m7"].compiler, "qemu-system-arm", "make")
    program = Program(plan_of("residual"), tmp_path / "c", target="cortex-m7")
    (program.folder / "input.bin").write_bytes(bytes(3 * 16 * 12 * 4))
    (program.folder / "short.bin").write_bytes(bytes(7))
    assert refused(["make", "-s", "run", f"ARGS={words}"], program.folder).startswith(f"{line}\n")


def refused(command: Sequence[str], folder: Path) -> str:
    """What a command that fails says."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return done.stdout + done.stderr
