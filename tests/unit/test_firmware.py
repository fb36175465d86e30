"""Emitted networks in one program: instances that are computed in turn, each in memory of its own."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks.bench_boards import stack_of
from csdfgen.emission.emit import emit
from csdfgen.emission.targets import TARGETS
from tests.board_networks import NETWORKS, absent, feeds_of, plan_of
from tests.command import Call, refused
from tests.emitted import Program, run
from tests.models import onnxruntime_outputs
from tests.native_steps import compiler_missing
from tests.small_models import residual_classifier

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

_TURNS = """\
#include "small.h"
#include <stdio.h>
#include <string.h>

enum { WIDTH = SMALL_X_PER_ROW / 3, PLANE = SMALL_X_ROWS * WIDTH };

static void taken(void *user, int32_t number, const float *values)
{
    (void)number;
    memcpy(user, values, SMALL_SCORES_SIZE * sizeof(float));
}

/* Two streams, a row of each in turn, and a whole frame after each row; memory at odd multiples of 8. */
int main(int count, char **words)
{
    static struct {
        int64_t shift;
        small_t first, second, third;
    } nets SMALL_ALIGNED;
    static float images[2][SMALL_X_SIZE], scores[4][SMALL_SCORES_SIZE], row[SMALL_X_PER_ROW];
    static small_stream streams[2];
    const small_sink sinks[2] = {{scores[0], taken}, {scores[1], taken}};
    FILE *file = fopen(words[3], "rb");
    if (count != 4 || !fread(images, sizeof images, 1, file))
        return 1;
    small_stream_begin(streams, &nets.first, sinks);
    small_stream_begin(streams + 1, &nets.second, sinks + 1);
    for (int32_t y = 0; y < SMALL_X_ROWS; y++)
        for (int32_t k = 0; k < 2; k++) {
            for (int32_t c = 0; c < 3; c++)
                memcpy(row + c * WIDTH, images[k] + c * PLANE + y * WIDTH, WIDTH * sizeof *row);
            if (small_stream_push_row(streams + k, row) != (y == SMALL_X_ROWS - 1 ? 2 : 1))
                return 4;
            small_run_in(&nets.third, images[1 - k], scores[2]);
            small_run(images[k], scores[3]);
        }
    file = fopen(words[2], "wb");
    return !fwrite(scores, sizeof scores, 1, file) || fclose(file);
}
"""


@pytest.mark.parametrize("target", ["generic", "host"])
def test_instances_in_turn(target: str, tmp_path: Path) -> None:
    """What is computed in one does not reach another, wherever it is."""
    plan = plan_of("residual")
    program = Program(plan, tmp_path / "c", target=target)
    images = [feeds_of(plan, seed) for seed in (0, 1)]
    wanted = [program(image)["scores"].ravel() for image in images]
    (program.folder / "turns.c").write_text(_TURNS)
    program.link("turns")
    (program.folder / "images.bin").write_bytes(b"".join(one["x"].tobytes() for one in images))
    program.execute("turns", "-o", "output.bin", "images.bin")
    found = np.fromfile(program.folder / "output.bin", np.float32).reshape(4, -1)
    for number, image in enumerate((0, 1, 0, 1)):
        np.testing.assert_array_equal(found[number], wanted[image])


_INTERRUPTED = """\
#include "small.h"
#include "other.h"
#include "board.h"
#include <string.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))
enum { WIDTH = SMALL_X_PER_ROW / 3, PLANE = SMALL_X_ROWS * WIDTH, FRAMES = 2, CLASSES = 10 };

static small_t camera SMALL_ALIGNED, second SMALL_ALIGNED;
static small_stream stream;
static other_t third OTHER_ALIGNED;
static float images[2][SMALL_X_SIZE], more[OTHER_X_SIZE], row[SMALL_X_PER_ROW];
static struct {
    float camera[SMALL_SCORES_SIZE], second[SMALL_SCORES_SIZE], third[CLASSES];
} found, again;
static volatile int32_t rows, within, running;

static void taken(void *user, int32_t number, const float *values)
{
    (void)number;
    memcpy(user, values, sizeof found.camera);
}

/* A line of the camera. */
static void tick(void)
{
    if (rows == FRAMES * SMALL_X_ROWS)
        return;
    for (int32_t c = 0; c < 3; c++)
        memcpy(row + c * WIDTH, images[0] + c * PLANE + rows % SMALL_X_ROWS * WIDTH, WIDTH * sizeof *row);
    (void)small_stream_push_row(&stream, row);
    rows = rows + 1;
    within = within + running;
}

int main(int count, char **words)
{
    static uint32_t vectors[64] __attribute__((aligned(256)));
    const small_sink sink = {found.camera, taken};
    int32_t wrong = 0;
    if (count != 6 || !board_load(words[3], images[0], sizeof images[0]) || !board_load(words[4], images[1], sizeof images[1])
        || !board_load(words[5], more, sizeof more))
        return 1;
    small_run_in(&second, images[1], found.second);
    other_run_in(&third, more, found.third);
    for (uint32_t k = 0; k < 16; k++)
        vectors[k] = REGISTER(4 * k);
    vectors[15] = (uint32_t)(uintptr_t)tick;
    REGISTER(0xE000ED08u) = (uint32_t)(uintptr_t)vectors;
    small_stream_begin(&stream, &camera, &sink);
    REGISTER(0xE000E014u) = 9999;
    REGISTER(0xE000E018u) = 0;
    REGISTER(0xE000E010u) = 7;
    running = 1;
    while (rows < FRAMES * SMALL_X_ROWS) {
        small_run_in(&second, images[1], again.second);
        other_run_in(&third, more, again.third);
        wrong += memcmp(again.second, found.second, sizeof found.second) != 0;
        wrong += memcmp(again.third, found.third, sizeof found.third) != 0;
    }
    REGISTER(0xE000E010u) = 0;
    const int32_t file = board_create(words[2]);
    if (wrong || within != rows || !file || !board_store(file, &found, sizeof found) || !board_close(file))
        return 2;
    board_say("stack ");
    board_say_number(board_stack_used());
    board_say(" of ");
    board_say_number(board_stack_bytes());
    board_say(" bytes\\n");
    return 0;
}
"""

_FRAME_OF_INTERRUPT = 112
"""Bytes of the registers that a Cortex-M7 stores, with those of floats, aligned."""


def bound(folder: Path, name: str) -> int:
    """The stack that a header states."""
    found = re.search(
        rf"#define {name.upper()}_STACK_BYTES (\d+)", (folder / f"{name}.h").read_text()
    )
    assert found
    return int(found[1])


def test_two_networks_and_interrupts(tmp_path: Path) -> None:
    """All sources of two folders in one program; an interrupt pushes rows while another instance, or network, computes."""
    absent(TARGETS["cortex-m7"].compiler, "qemu-system-arm", "make")
    plans = {"small": plan_of("residual"), "other": plan_of("everything")}
    objects = []
    for name, plan in plans.items():
        folder = tmp_path / name
        made = emit(plan, name, folder, target="cortex-m7")
        sources = [one for one in made.files if one.endswith(".c") and one != "main.c"]
        sources = [one for one in sources if one != "board.c" or name == "small"]
        text = (folder / "Makefile").read_text()
        (folder / "Makefile").write_text(text.replace("-O2", "-O1"))
        run("make", "-s", "-j2", *(one.replace(".c", ".o") for one in sources), folder=folder)
        objects += [str(folder / one.replace(".c", ".o")) for one in sources]
    (tmp_path / "small" / "main.c").write_text(_INTERRUPTED)
    images = [feeds_of(plans["small"], 0), feeds_of(plans["small"], 1), feeds_of(plans["other"], 2)]
    for number, one in enumerate(images):
        (tmp_path / "small" / f"{number}.bin").write_bytes(one["x"].tobytes())
    machine = [*TARGETS["cortex-m7"].flags, "-Wl,--gc-sections", "-nostartfiles", "-T", "board.ld"]
    command = [TARGETS["cortex-m7"].compiler, *machine, "-std=c99", "-O1", "-I.", "-I../other"]
    run(*command, "-o", "small.elf", "main.c", *objects, "-lm", folder=tmp_path / "small")
    qemu = "QEMU=qemu-system-arm -M mps2-an500 -icount shift=0 -display none -monitor none -serial none"
    words = "ARGS=-o output.bin 0.bin 1.bin 2.bin"
    said = run("make", "-s", "-o", "small.elf", "run", qemu, words, folder=tmp_path / "small")
    output = np.fromfile(tmp_path / "small" / "output.bin", np.float32)
    wanted = [
        flat_outputs(name, one)
        for name, one in zip(("residual", "residual", "everything"), images, strict=True)
    ]
    np.testing.assert_allclose(output, np.concatenate(wanted), rtol=0, atol=1e-4)
    own = bound(tmp_path / "small", "small")
    assert (
        stack_of(said)[0] < max(own, bound(tmp_path / "other", "other")) + own + _FRAME_OF_INTERRUPT
    )
    names = subprocess.run(
        ["arm-none-eabi-nm", tmp_path / "small" / "small.elf"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert len(re.findall(r" csdf_copy_4_", names)) == 1, "a kernel that is the same is there twice"


_CHECKED = """\
#include "net.h"

int main(void)
{
    static net_t net;
    return net_check(&net) > 9 ? 9 : net_check(&net);
}
"""


@pytest.mark.parametrize(("name", "batch"), [("residual", 1), ("residual", 2), ("integers", 1)])
def test_a_self_test(name: str, batch: int, call: Call) -> None:
    """It finds nothing in what was emitted, and weights that are others."""
    onnx.save(
        residual_classifier(batch="N") if name == "residual" else NETWORKS[name](), "net.onnx"
    )
    words = ("--target", "generic", "--check", *(("--batch", "2") if batch > 1 else ()))
    assert call("emit-c", "net.onnx", "-o", "c", *words).code == 0
    Path("c/main.c").write_text(_CHECKED)
    run("make", "-s", "-j2", "OPTIMIZE=-O0", "CC=cc -Werror", "net", folder=Path("c"))
    assert subprocess.run(["c/net"]).returncode == 0
    text = Path("c/net_weights.c").read_text()
    Path("c/net_weights.c").write_text(re.sub(r"0x[0-9a-f]{8}u", "0x3f3f3f3fu", text))
    run("make", "-s", "OPTIMIZE=-O0", "net", folder=Path("c"))
    assert 0 < subprocess.run(["c/net"]).returncode <= 9


@pytest.mark.parametrize(
    ("kind", "operator", "compared"),
    [
        ("FLOAT16", "Relu", 0),
        ("BFLOAT16", "Relu", 0),
        ("FLOAT", "Log", 0),
        ("UINT16", "Max", 1),
        ("INT16", "Max", 24),
    ],
)
def test_a_self_test_that_compares_nothing_is_refused(
    kind: str, operator: str, compared: int, call: Call
) -> None:
    """Outputs of 16-bit floats, or that are not finite; integers of 16 bits are compared. compared: different values."""
    code = onnx.TensorProto.DataType.Value(kind)
    x, y = (onnx.helper.make_tensor_value_info(name, code, [1, 2, 4, 3]) for name in "xy")
    inputs = ["x"] * (1 + (operator == "Max"))
    graph = onnx.helper.make_graph([onnx.helper.make_node(operator, inputs, ["y"])], "g", [x], [y])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), "net.onnx")
    done = call("emit-c", "net.onnx", "-o", "c", "--check", "--target", "generic")
    if not compared:
        assert "--check compares" in refused(done) and not Path("c").exists()
        return
    values = Path("c/net_check.c").read_text().partition("wanted[24] = {")[2].partition("}")[0]
    assert done.code == 0 and len(set(values.split())) >= compared
    Path("c/main.c").write_text(_CHECKED)
    run("make", "-s", "OPTIMIZE=-O0", "CC=cc -Werror", "net", folder=Path("c"))
    run("c/net")


def flat_outputs(name: str, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """What onnxruntime computes, flat."""
    return np.concatenate(
        [one.ravel() for one in onnxruntime_outputs(NETWORKS[name](), feeds).values()]
    )
