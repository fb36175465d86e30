"""Emitted code on bare microcontrollers, as qemu has them: it computes what onnxruntime does, and the
linker's map holds no byte of RAM that nobody has named.

Where a compiler or an emulator is absent, its tests are skipped and say which.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from benchmarks.bench_boards import ram, stack_of
from csdfgen.emission.emit import emit
from csdfgen.emission.targets import TARGETS
from tests.board_networks import ALL_KERNELS, NETWORKS, absent, absent_board, plan_of, right
from tests.command import execute
from tests.emitted import Program
from tests.native_steps import compiler_missing
from tests.ways import ALL

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

BOARDS = tuple(name for name, target in TARGETS.items() if target.board)

STACK = 8192
"""Bytes that a frame may take of the stack: what csdf.h says of kernels."""


EACH = [*product(BOARDS, ["residual"]), *product(["cortex-m7", "cortex-m55"], ALL_KERNELS)]
EACH += product(["cortex-m0plus", "rv32imc"], ["integers"])


@pytest.mark.networks
@pytest.mark.parametrize(("target", "name"), list(product(BOARDS, NETWORKS)) if ALL else EACH)
def test_a_board(name: str, target: str, tmp_path: Path) -> None:
    """Outputs, the stack, and every byte of RAM."""
    absent_board(target)
    plan = plan_of(name)
    program = Program(plan, tmp_path / "c", target=target)
    right(program, name)
    used, size = stack_of(program.said)
    board = TARGETS[target].board
    assert board is not None and size == board.stack
    header = (program.folder / "small.h").read_text()
    bound = int(header.partition("#define SMALL_STACK_BYTES ")[2].split()[0])
    assert 256 < used < min(STACK, bound)
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


@pytest.mark.networks
@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m7", "cortex-m55", "rv32imc"])
def test_a_stack_that_is_too_small(target: str, tmp_path: Path) -> None:
    """It does not run into the arena: the processor stops, and the program says so."""
    absent_board(target)
    program = Program(plan_of("residual"), tmp_path / "c", target=target)
    right(program, "residual")
    used, _ = stack_of(program.said)
    small = f"LDFLAGS=-Wl,--gc-sections -Wl,--defsym=STACK={used // 16 * 8}"
    (program.folder / "small.elf").unlink()
    program.make(small, "all")
    said = refused(["make", "-s", "run", "ARGS=-o output.bin input0.bin"], program.folder)
    assert "met a fault" in said


@pytest.fixture(scope="module")
def residual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a program for a board is."""
    absent_board("cortex-m7")
    folder = tmp_path_factory.mktemp("residual") / "c"
    return Program(plan_of("residual"), folder, target="cortex-m7").folder


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
def test_a_board_refuses(words: str, line: str, residual: Path) -> None:
    (residual / "input.bin").write_bytes(bytes(3 * 16 * 12 * 4))
    (residual / "short.bin").write_bytes(bytes(7))
    assert refused(["make", "-s", "run", f"ARGS={words}"], residual).startswith(f"{line}\n")


def refused(command: Sequence[str], folder: Path) -> str:
    """What a command that fails says."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return done.stdout + done.stderr


def test_cmake_links_the_same_memory(tmp_path: Path) -> None:
    """Constants lie in their own memory too, which is what has room for them."""
    absent(TARGETS["cortex-m55"].compiler, "cmake")
    folder = tmp_path / "c"
    made = emit(plan_of("residual"), "small", folder, target="cortex-m55")
    path = folder / "CMakeLists.txt"
    path.write_text(path.read_text().replace("-O2", "-O0"))  # to have it sooner
    for command in (["cmake", "-S", "c", "-B", "c"], ["cmake", "--build", "c"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    objects = execute("arm-none-eabi-size", "-A", folder / "small.elf", check=True).stdout
    assert f".constants {made.weights_bytes} " in " ".join(objects.split())


_ROWS = """\
#include "small.h"
#include "board.h"
#include <string.h>

static float image[SMALL_X_SIZE], row[SMALL_X_PER_ROW], scores[SMALL_SCORES_SIZE];

static void taken(void *user, int32_t number, const float *values)
{
    memcpy((float *)user + number * SMALL_SCORES_PER_ROW, values, sizeof scores);
}

int main(int count, char **words)
{
    const small_sink sink = {scores, taken};
    enum { WIDTH = SMALL_X_PER_ROW / 3, PLANE = SMALL_X_ROWS * WIDTH };
    if (count != 4 || !board_load(words[3], image, sizeof image))
        return 1;
    small_begin(&sink);
    for (int32_t y = 0; y < SMALL_X_ROWS; y++) {
        for (int32_t c = 0; c < 3; c++)
            memcpy(row + c * WIDTH, image + c * PLANE + y * WIDTH, WIDTH * sizeof *row);
        if (small_push_row(row) != (y == SMALL_X_ROWS - 1 ? 2 : 1))
            return 4;
    }
    const int32_t file = board_create(words[2]);
    if (!file || !board_store(file, scores, sizeof scores) || !board_close(file))
        return 1;
    board_say("stack ");
    board_say_number(board_stack_used());
    board_say(" of ");
    board_say_number(board_stack_bytes());
    board_say(" bytes\\n");
    return 0;
}
"""


def test_rows_on_a_board(tmp_path: Path) -> None:
    """As a camera has them: beside the arena a row of the output, and where the frame stands."""
    absent_board("cortex-m7")
    plan = plan_of("residual")
    program = Program(plan, tmp_path / "c", target="cortex-m7")
    (program.folder / "main.c").write_text(_ROWS)
    program.make("all")
    right(program, "residual")
    board = TARGETS["cortex-m7"].board
    assert board is not None and stack_of(program.said)[0] < STACK
    items = ram(program.folder / "small.map", board)
    mine = {key: size for key, size in items.items() if key.startswith("small.o: ")}
    assert mine.pop("small.o: arena") == -(-plan.planned_bytes // 8) * 8
    # its memory, the sink of two pointers, where it stands in the order, and a row of the output
    (scores,) = (one.tensor for one in plan.network.outputs if one.tensor is not None)
    assert mine.pop("small.o: only") == 20 + scores.row_bytes
    assert not mine
