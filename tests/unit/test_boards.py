"""Emitted code on bare microcontrollers, as qemu has them: it computes what onnxruntime does, and the
linker's map holds no byte of RAM that nobody has named.

Where a compiler or an emulator is absent, its tests are skipped and say which.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.bench_boards import ram, stack_of
from csdfgen.emission.targets import TARGETS
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
    used, size = stack_of(program.said)
    board = TARGETS[target].board
    assert board is not None and size == board.stack
    assert 256 < used < STACK
    outputs = [one.tensor for one in plan.network.outputs if one.tensor is not None]
    ports = sum(tensor.nbytes for tensor in (*plan.network.inputs, *outputs))
    items = ram(program.folder / "small.map", board)
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


@pytest.mark.parametrize("target", BOARDS)
def test_a_stack_that_is_too_small(target: str, tmp_path: Path) -> None:
    """It does not run into the arena: the processor stops, and the program says so."""
    absent(TARGETS[target].compiler, "qemu-system-arm", "make")
    program = Program(plan_of("residual"), tmp_path / "c", target=target)
    right(program, "residual")
    used, _ = stack_of(program.said)
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
