"""A plan as C: compiled with every warning an error it computes what onnxruntime does, with whole arrays
and row by row; what is equal is stored once; what cannot be written is refused in one line.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

import csdfgen
from csdfgen.backends.native.build import STANDARD, find_compiler, sources
from csdfgen.backends.native.generate import write
from csdfgen.backends.native.structures import instruction, structure
from csdfgen.emission.emit import emit
from csdfgen.emission.kernels import collect_sources, list_functions
from csdfgen.emission.macros import format_token, shorten_even_table, shorten_table
from csdfgen.emission.names import comment, identifier, identifiers
from csdfgen.emission.tables import Blob, Pool
from csdfgen.emission.used import list_used
from csdfgen.errors import InputError, PlanError
from csdfgen.model.network import Network
from csdfgen.planning.plan import Plan
from csdfgen.program.instructions import Constants
from csdfgen.rewriting.fuse import fuse
from runtime.reference import fill_array
from tests.builder import Graph
from tests.command import Call, refused
from tests.emitted import Program, differences
from tests.models import model, onnxruntime_outputs
from tests.native_steps import compiler_missing
from tests.networks import planned_together
from tests.small_models import residual_classifier, squeeze_and_excite, two_inputs
from tests.unit import test_bounded as bounded
from tests.unit import test_outputs as outputs
from tests.unit import test_volumes as volumes

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")


def hourglass() -> onnx.ModelProto:
    """Depthwise and strided convolutions, a pool, a Concat of branches, a resize, a Gemm."""
    g = Graph()
    x = g.input("x:0", (1, 3, 17, 13))
    a = g.node("Relu", g.conv(x, 8, strides=[2, 2]))
    b = g.node("Clip", g.conv(a, 8, group=8), g.constant(np.float32(0)), g.constant(np.float32(6)))
    c = g.node("Concat", a, g.conv(b, 20, 1), axis=1, channels=28)
    d = g.node("MaxPool", c, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    e = g.node("LeakyRelu", g.conv(d, 5), alpha=0.1)
    flat = g.node("Flatten", g.node("GlobalAveragePool", e))
    weight = g.constant(np.random.default_rng(1).normal(0, 1, (5, 9)).astype(np.float32))
    return g.model(g.node("Softmax", g.node("Gemm", flat, weight)), e)


def fewer_products() -> onnx.ModelProto:
    """3x3 convolutions that are summed up along the rows, or in tiles where a phase has several rows."""
    g = Graph()
    x = g.input("x", (1, 48, 17, 25))
    return g.model(g.conv(g.node("Relu", g.conv(x, 48)), 18))


MODELS = {
    "fewer": fewer_products,
    "residual": residual_classifier,
    "two": two_inputs,
    "gate": squeeze_and_excite,
    "hourglass": hourglass,
    "frames": volumes.network,
    "boxes": partial(bounded.tail, "of every class"),
    **{make.__name__: make for make in outputs.MODELS},
}
UNDEFINED = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
CASES = [
    *((name, "auto") for name in MODELS),
    ("hourglass", "1"),
    ("gate", "1"),
    ("frames", "1"),
    ("two", "whole"),
    ("fewer", "4"),
]


def feeds_of(network: Network, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        tensor.name: rng.uniform(-1, 1, network.whole_shape(tensor)).astype(tensor.dtype)
        for tensor in network.inputs
    }


def planned(model: onnx.ModelProto | str, batch: int | None = None, **options: Any) -> Plan:
    return csdfgen.plan(csdfgen.load(model, batch=batch), backend="native", **options)


def check(program: Program, model: onnx.ModelProto, limit: float = 1e-4) -> None:
    """Both forms against onnxruntime, two frames each: nothing of one is left in the next."""
    constant = {one.name for one in program.network.outputs if one.tensor is None}
    half = any(one.tensor and one.tensor.dtype == "float16" for one in program.network.outputs)
    for seed in (0, 1):
        feeds = feeds_of(program.network, seed)
        if program.network.batch > 1:
            images = [
                onnxruntime_outputs(model, {k: v[n : n + 1] for k, v in feeds.items()})
                for n in range(program.network.batch)
            ]
            wanted = {name: np.concatenate([one[name] for one in images]) for name in images[0]}
        else:
            wanted = onnxruntime_outputs(model, feeds)
        for one in program.network.outputs:
            if one.name in program.network.found_outputs and one.tensor is not None:
                wanted[one.name] = fill_array(wanted[one.name], one.tensor.shape)
        found = program(feeds)
        wanted = {name: bits_of(wanted[name]) if half else wanted[name] for name in found}
        found = {name: bits_of(found[name]) if half else found[name] for name in found}
        assert max(differences(found, wanted)) < (2e-3 if half else limit)
        if not streams(program):
            continue
        rows = program.streamed(feeds)
        for name in found.keys() - constant:
            np.testing.assert_array_equal(rows[name].view(found[name].dtype), found[name])


def bits_of(array: np.ndarray) -> np.ndarray:
    return array.view(np.float16) if array.dtype == np.uint16 else array


def streams(program: Program) -> bool:
    return f"{program.name}_begin" in (program.folder / f"{program.name}.h").read_text()


@pytest.mark.networks
@pytest.mark.parametrize("name", ["residual", "hourglass", "gate"])
def test_nothing_in_emitted_code_is_undefined(name: str, tmp_path: Path) -> None:
    """Under the undefined-behaviour sanitizer, where the compiler has one."""
    model, machine = MODELS[name](), " ".join(("-DCSDF_SCALAR", *UNDEFINED))
    probe = tmp_path / "probe.c"
    probe.write_text("int main(void) { return 0; }")
    built = [*find_compiler().command, *UNDEFINED, "-o", tmp_path / "probe", probe]
    if subprocess.run(built, capture_output=True, check=False).returncode:
        pytest.skip("the compiler has no sanitizer of undefined behaviour")
    program = Program(planned(model), tmp_path / "c", linked=UNDEFINED, machine=machine)
    check(program, model)


@pytest.mark.parametrize(("name", "rows"), CASES)
def test_emitted_code_is_onnxruntime_s(name: str, rows: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    check(Program(planned(model, rows=rows), tmp_path / "c", title=name), model)


@pytest.mark.networks
def test_for_this_machine_with_a_blob(tmp_path: Path) -> None:
    """Vectors, and weights that the assembler takes in."""
    model = hourglass()
    program = Program(planned(model), tmp_path / "c", target="host", literals=0)
    assert {"small_weights.bin", "small_weights.S"} <= set(program.emitted.files)
    size = (program.folder / "small_weights.bin").stat().st_size
    assert size == program.emitted.weights_bytes
    check(program, model)


def test_a_network_without_weights_is_standard_c(tmp_path: Path) -> None:
    """An array without elements is an extension of compilers."""
    bare = model(
        "g (float[1,3,8,8] x) => (y, nothing) { y = Relu(x)  nothing = Identity(empty) }",
        {"empty": np.zeros(0, np.float32)},
    )
    emit(planned(bare), "bare", tmp_path / "c")
    for source in sorted((tmp_path / "c").glob("*.c")):
        folders = ["-I", tmp_path / "c", "-I", tmp_path / "c" / "kernels"]
        flags = ["-std=c99", "-pedantic-errors", "-fsyntax-only", *folders, source]
        code, _, said = find_compiler().run(flags)
        assert code == 0, said


@pytest.mark.parametrize(("tool", "literals"), [("make", 2**20), ("cmake", 0)])
def test_makefile_and_cmake_build_it(tool: str, literals: int, tmp_path: Path) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    model, folder = residual_classifier(), tmp_path / "c"
    plan = planned(model)
    emit(plan, "small", folder, target="generic", literals=literals)
    for path in (folder / "Makefile", folder / "CMakeLists.txt"):
        assert "-O3" in path.read_text()
        path.write_text(path.read_text().replace("-O3", "-O0"))  # to have it sooner
    commands = {
        "make": [["make", "-s", "-C", "c"]],
        "cmake": [["cmake", "-S", "c", "-B", "c"], ["cmake", "--build", "c"]],
    }
    for command in commands[tool]:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "warning" not in done.stderr
    feeds = feeds_of(plan.network)
    data, program = feeds["x"].tobytes(), folder / "small"
    said = subprocess.run([program], input=data, capture_output=True, check=True)
    found = {"scores": np.array(said.stdout.split(), np.float32).reshape(1, 7, 1, 1)}
    assert max(differences(found, onnxruntime_outputs(model, feeds))) < 1e-4
    short = subprocess.run([program], input=data[:-1], capture_output=True, check=False)
    assert short.returncode == 1 and b"bytes of the input" in short.stderr


def test_a_batch_runs_image_by_image(tmp_path: Path) -> None:
    model = residual_classifier(batch="N")
    check(Program(planned(model, batch=3), tmp_path / "c"), model)


def test_images_in_flight_have_no_form_by_rows(tmp_path: Path) -> None:
    model = residual_classifier(batch="N")
    program = Program(planned(model, batch=2, frames=2), tmp_path / "c")
    assert not streams(program)
    assert "several images" in (program.folder / "small.h").read_text()
    check(program, model)


def test_layers_compute_several_images_at_once(tmp_path: Path) -> None:
    model = residual_classifier(batch="N")
    network = csdfgen.load(model, batch=3)
    names = [layer.name for layer in fuse(network).layers]
    plan = planned_together(network, 2, dict.fromkeys(names, 3), 3, backend="native")
    check(Program(plan, tmp_path / "c"), model)


def test_tiles_take_parts_of_rows(tmp_path: Path) -> None:
    g = Graph()
    x = g.input("x", (1, 3, 32, 64))
    for _ in range(3):
        x = g.node("Relu", g.conv(x, 8))
    model = g.model(g.node("GlobalAveragePool", g.conv(x, 4, strides=[2, 2])))
    plan = planned(model, rows="1", recompute=1.5)
    program = Program(plan, tmp_path / "c")
    check(program, model)
    assert streams(program) == (plan.network.original is None)


def test_outputs_may_lie_in_the_arena(tmp_path: Path) -> None:
    model = outputs.several()
    check(Program(planned(model, result="arena"), tmp_path / "c"), model)


# What is stored once ------------------------------------------------------------------------------


def test_a_table_that_is_there_is_not_stored_again() -> None:
    pool = Pool("reads", "int")

    def rows(*numbers: int) -> list[tuple[tuple[str, int], ...]]:
        return [(("#", number),) for number in numbers]

    assert [pool.add(rows(1, 2, 3)), pool.add(rows(2, 3)), pool.add(rows(3, 4))] == [0, 1, 2]
    assert [pool.add(rows(4, 1)), pool.add(rows(1, 2, 3, 4, 1)), pool.add(rows(9))] == [3, 0, 5]
    assert [row[0][1] for row in pool.rows] == [1, 2, 3, 4, 1, 9]


def test_equal_constants_are_stored_once() -> None:
    arrays = [np.arange(32, dtype=np.float32), np.arange(32, dtype=np.float32), np.ones(2)]
    constants = Constants()
    places = [constants.array(a).offset for a in arrays]
    blob = Blob(constants)
    first, second, third = map(blob.find, places)
    assert first == second != third
    assert blob.find(places[1] + 8) == second + 8
    data = b"".join(bytes(part) for part in blob.parts())
    assert len(data) == blob.size and data.count(arrays[0].tobytes()) == 1
    assert data[third:].startswith(arrays[2].tobytes())


def test_firings_that_are_alike_share_a_macro() -> None:
    """Rows of a table as they are, and by how far they are from the first of their firing."""
    rows = [
        (("dims", 1), ("A", 100 * firing + 16 * row), ("A", 100 * firing + 16 * row), ("#", "2.5f"))
        for firing in range(40)
        for row in range(3)
    ]
    macros, texts = shorten_table(rows, "{%s, %s, %s, %s}", range(0, 120, 3), "S")
    assert macros == [
        "#define S0(x0) {dims + 1, A(x0), A(x0), 2.5f}",
        "#define S1(x0) S0(x0),S0(x0+16),S0(x0+32)",
    ]
    assert texts == [f"S1({100 * firing})" for firing in range(40)]


def test_macros_are_what_they_stand_for(tmp_path: Path) -> None:
    """Steps of a few layers in an order that mixes them, expanded by a compiler."""
    rng = np.random.default_rng(0)
    layers = rng.integers(0, 50, (20, 6)).tolist()
    rows: list[tuple[tuple[str, Any], ...]] = []
    marks = []
    for _ in range(200):
        one = layers[int(rng.integers(20))]
        for row in range(int(rng.integers(1, 4))):
            at = 64 * int(rng.integers(1000))
            fixed = [("#", value) for value in one[:4]]
            reads = [("dims", at + row), ("A", at + 16 * row), ("A", at + 16 * row), ("W", one[4])]
            rows.append((*fixed, *reads, ("", "NULL" if one[5] < 25 else "f")))
        marks.append(len(rows))
    text = f"{{{', '.join(['%s'] * 9)}}}"
    plain = [text % tuple(map(format_token, row)) for row in rows]
    macros, texts = shorten_table(rows, text, marks, "S")
    assert len("".join((*macros, *texts))) < 0.5 * len("".join(plain))
    path = tmp_path / "macros.c"
    path.write_text("\n".join((*macros, ",\n".join(texts))) + "\n")
    code, expanded, _ = find_compiler().run(["-E", "-P", path])
    assert code == 0
    assert summed(expanded) == summed(",".join(plain))


def summed(text: str) -> str:
    """C without spaces, sums of numbers made."""
    return re.sub(r"(?<![\w.])\d+(?:[+-]\d+)+", lambda m: str(eval(m[0])), "".join(text.split()))


def test_addresses_that_lie_evenly_share_a_macro() -> None:
    """Whatever is written, expanded it is what was there."""
    rng = np.random.default_rng(0)
    tokens: list[tuple[str, Any]] = []
    for _ in range(60):
        kind, first, step = (
            rng.choice(["A", "W"]),
            int(rng.integers(9999)),
            int(rng.integers(-3, 4)),
        )
        tokens += [
            (str(kind), first + 64 * step * k) for k in range(int(rng.choice([1, 5, 12, 17])))
        ]
        tokens += [("", "NULL")] * int(rng.integers(2))
    macros, texts = shorten_even_table(tokens, "R")
    assert macros and len(texts) < 0.6 * len(tokens)
    bodies = dict(re.findall(r"#define (R\d+)\(x0\) (.*)", "\n".join(macros)))
    found = []
    for text in texts:
        name, _, first = text.rstrip(")").partition("(")
        found += bodies[name].replace("x0", first).split(",") if name in bodies else [text]
    values = [re.sub(r"\((.*)\)", lambda sum_: f"({eval(sum_[1])})", one) for one in found]
    assert values == [format_token(token) for token in tokens]


def test_source_is_small_and_the_same_every_time(tmp_path: Path) -> None:
    plan = planned(hourglass(), rows="1")
    texts = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        made = emit(plan, "small", folder)
        texts.append({name: (folder / name).read_bytes() for name in made.files})
    assert texts[0] == texts[1]
    assert len(texts[0]["small.c"]) < 40_000


def test_only_the_files_that_are_called_come_along() -> None:
    names = collect_sources(["csdf_conv_of"], [1]).keys()
    assert {"conv.c", "products.c", "csdf.h", "blocks_1.h"} <= names
    assert names.isdisjoint({"winograd.c", "reduce.c", "depthwise.c", "blocks_16.h"})
    with pytest.raises(PlanError, match="csdf_nothing"):
        collect_sources(["csdf_nothing"])


@pytest.mark.networks
@pytest.mark.skipif(not shutil.which("nm"), reason="nm, which lists symbols, is not installed")
def test_what_a_file_of_kernels_uses_of_others_comes_along(tmp_path: Path) -> None:
    """By the symbols that the compiled file lacks."""
    write(tmp_path)
    known = list_functions(one.name for one in sources())
    home = {name: file for file, (defined, _) in known.items() for name in defined}
    flags = [*STANDARD, "-c", "-DCSDF_SCALAR", f"-I{tmp_path}"]
    made = {file: tmp_path / f"{file.stem}.o" for file in sources()}
    done = find_compiler().run_all([*flags, file, "-o", at] for file, at in made.items())
    assert not any(code for code, _, _ in done)
    for file, at in made.items():
        listed = subprocess.run(["nm", "-u", at], capture_output=True, text=True, check=True)
        lacking = {line.split()[-1] for line in listed.stdout.splitlines() if line} & home.keys()
        found = collect_sources(known[file.name][0], [1]).keys()
        assert {home[name] for name in lacking} <= found, file.name


def test_kernels_know_what_no_step_takes() -> None:
    """Values below tables; of a kernel that another one calls anything may occur."""
    constants = Constants()
    layer, step = (structure(f"csdf_byte_{name}").record for name in ("layer", "conv_step"))
    kind = structure("csdf_rescaling").record(kind=3)
    at = constants.table("csdf_byte_layer", [layer(groups=70, into=kind)])
    program: Any = SimpleNamespace(
        constants=constants, instructions=[instruction("conv_bytes_of", step(layer=at))]
    )
    asked = ["layer__into__kind, 1)", "layer__groups)", "layer__zeros, 1)"]
    texts = [f"CSDF_{'MAY' if ',' in one else 'MOST'}(conv_bytes__{one}" for one in asked]
    found = "\n".join(list_used(texts, [program], ()))
    assert "VALUES_conv_bytes__layer__into__kind 0x8u" in found
    assert "MOST_conv_bytes__layer__groups 70" in found
    assert "FACTOR_conv_bytes__layer__groups 70" in found
    assert "VALUES_conv_bytes__layer__zeros 0x1u" in found
    found = "\n".join(list_used(texts, [program], ["csdf_conv_bytes"]))
    assert "VALUES_conv_bytes__layer__zeros 0xffffffffu" in found
    assert "FACTOR_conv_bytes__layer__groups 1\n" in found


@pytest.mark.parametrize(("rows", "file"), [("2", "winograd_row.c"), ("4", "winograd.c")])
def test_fewer_products_come_along(rows: str, file: str, tmp_path: Path) -> None:
    """Weights are at points where any time is worth their bytes."""
    emit(planned(fewer_products(), rows=rows, goal="speed"), "small", tmp_path / "c")
    assert (tmp_path / "c" / "kernels" / file).exists()


def test_nothing_is_allocated(tmp_path: Path) -> None:
    """No function of the system is called but those of bytes and numbers."""
    program = Program(planned(hourglass()), tmp_path / "c")
    calls = re.compile(r"\b(malloc|calloc|realloc|free|alloca|fopen|printf)\s*\(")
    for path in (program.folder / "small.c", *(program.folder / "kernels").glob("*.[ch]")):
        assert not calls.search(path.read_text()), path.name


def test_the_arena_is_the_plan_s(tmp_path: Path) -> None:
    plan = planned(hourglass())
    emit(plan, "small", tmp_path / "c")
    header, source = ((tmp_path / "c" / name).read_text() for name in ("small.h", "small.c"))
    assert f"#define SMALL_ARENA_BYTES {plan.planned_bytes}\n" in header
    rows = re.findall(r"^ \* +(\d+) +(\d+) +(\d+) +(\d+)  (.+)$", source, re.M)
    assert {row[4] for row in rows} == {
        comment(b.name) for b in plan.buffers if b.row_bytes and b.rows
    }
    assert max(int(row[1]) for row in rows) == plan.planned_bytes


SHIFTED = """
g (float[1,2,6,4] state, float[1,2,2,4] x) => (later, sooner) <int64[1] axis = {2}, int64[1] zero = {0}, int64[1] two = {2},
int64[1] four = {4}, int64[1] eight = {8}> {
    all = Concat<axis=2>(state, x)  later = Slice(all, two, eight, axis)
    low = Slice(state, zero, four, axis)  both = Concat<axis=2>(x, low)  sooner = Relu(both)
}
"""

IN_PLACE = """
#include "small.h"
#include <string.h>
int main(void)
{
    static float state[SMALL_STATE_SIZE], x[SMALL_X_SIZE], later[SMALL_LATER_SIZE];
    for (int k = 0; k < SMALL_STATE_SIZE; k++)
        state[k] = (float)(3 * k % 17);
    for (int k = 0; k < SMALL_X_SIZE; k++)
        x[k] = (float)(5 * k % 13);
    small_run(state, x, later, NULL);
    small_run(state, x, state, NULL);
    return memcmp(later, state, sizeof later) != 0;
}
"""


def test_a_state_is_updated_in_its_array(tmp_path: Path) -> None:
    """Where each row is read before it is written; in the header alone."""
    program = Program(planned(model(SHIFTED), rows="1"), tmp_path / "c")
    header = (program.folder / "small.h").read_text()
    assert re.findall(r"^ \* output (\w+): .*; it may be the array of (\w+)\.$", header, re.M) == [
        ("later", "state")
    ]
    (program.folder / "in_place.c").write_text(IN_PLACE)
    program.link("in_place")
    program.execute("in_place")


# Names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("squeezenet1.1", "squeezenet1_1"),
        ("3d-net", "net_3d_net"),
        ("while", "net_while"),
        ("csdf", "net_csdf"),
        ("größe", "gr_e"),
        ("", "net"),
        ("x" * 200, "x" * 40),
    ],
)
def test_names_become_identifiers(name: str, wanted: str) -> None:
    assert identifier(name) == wanted


@pytest.mark.parametrize("title", ["kernels", "Makefile", "stdint", "string", "clean", "all", "m"])
def test_networks_called_as_something_else_is(title: str, tmp_path: Path) -> None:
    """Files of the folder, headers of C, targets of make and of CMake; of one kernel, which is soon built."""
    folder, g = tmp_path / "c", Graph()
    model = g.model(g.node("Relu", g.input("x", (1, 2, 5, 5))))
    made = emit(planned(model), title, folder, target="generic")
    assert made.name == f"net_{title}"
    wanted = f"'{title}' names something else in C or in its folder; here it is called net_{title}."
    assert wanted in (folder / f"{made.name}.h").read_text()
    (folder / "Makefile").write_text((folder / "Makefile").read_text().replace("-O3", "-O0"))
    for words in (["-s"], ["-q"], ["-s", "clean"]):
        done = subprocess.run(["make", "-C", folder, *words], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    assert {path.name for path in folder.iterdir()} == {Path(file).parts[0] for file in made.files}


def test_no_two_names_are_alike() -> None:
    found = identifiers(["a", "A", "a.", "1", "1.", "row", "arena"], without=["arena"])
    assert len({one.upper() for one in found} | {"ARENA"}) == 8


def test_odd_names_compile_and_are_told(tmp_path: Path) -> None:
    """Keywords, macros, ends of comments and line breaks as names of tensors and of the network."""
    g = Graph()
    x, y = g.input("int", (1, 2, 5, 5)), g.input("*/ W\n", (1, 2, 5, 5))
    model = g.model(g.node("Relu", g.node("Add", x, y)), g.conv(y, 2), g.conv(x, 3))
    for number, name in enumerate(["A", "data", "stdin??/"]):
        for node in model.graph.node:
            node.output[:] = [
                name if one == model.graph.output[number].name else one for one in node.output
            ]
        model.graph.output[number].name = name
    program = Program(planned(model), tmp_path / "c", title="9 lives */\\")
    assert program.name == "net_9_lives"
    text = (program.folder / "net_9_lives.h").read_text()
    assert "'9 lives * //' is no identifier of C; here it is called net_9_lives." in text
    check(program, model)


# Refusals -----------------------------------------------------------------------------------------


@pytest.fixture
def command(call: Call) -> Call:
    onnx.save(residual_classifier(), "net.onnx")
    return call


def left(folder: Path = Path()) -> list[str]:
    return sorted(str(path) for path in folder.iterdir())


def test_the_command_writes_a_folder(command: Call) -> None:
    result = command("emit-c", "net.onnx", "-o", "out", "--target", "generic")
    assert (result.code, result.err) == (0, "")
    assert re.match(r"out: net, \d+ files, net.c of [\d,]+ bytes, constants of ", result.out)
    assert {"net.h", "net.c", "main.c", "Makefile", "CMakeLists.txt"} <= {
        path.name for path in Path("out").iterdir()
    }
    assert command("schedule", "net.onnx", "-o", "plan.json").code == 0
    assert command("emit-c", "plan.json", "-o", "of_plan").code == 0
    assert left() == ["net.onnx", "of_plan", "out", "plan.json"]


def test_a_folder_that_has_the_name_of_a_file(command: Call) -> None:
    line = refused(command("emit-c", "net.onnx", "-o", "net.c"))
    assert line.startswith("net.c: names a file; a folder of several is written, such as net")
    assert not Path("net.c").exists()


def test_a_folder_that_is_not_empty(command: Call) -> None:
    Path("out").mkdir()
    assert command("emit-c", "net.onnx", "-o", "out").code == 0
    Path("out/mine.txt").write_text("kept")
    Path("out/main.c").write_text("old")
    line = refused(command("emit-c", "net.onnx", "-o", "out"))
    assert line.startswith("out: is not empty; --force")
    assert Path("out/main.c").read_text() == "old"
    assert command("emit-c", "net.onnx", "-o", "out", "--force").code == 0
    assert Path("out/main.c").read_text() != "old"
    assert Path("out/mine.txt").read_text() == "kept"
    assert not list(Path("out").glob(".*"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("net.onnx", "-o", "net.onnx"), "net.onnx: is a file"),
        (("net.onnx", "-o", "out", "--target", "z80"), "--target z80 is not one of host, aarch64"),
        (("none.onnx", "-o", "out"), "none.onnx: "),
        (("damaged.onnx", "-o", "out"), "damaged.onnx: "),
        (("net.onnx", "-o", "net.onnx/out"), "net.onnx/out: cannot be written: "),
    ],
)
def test_refusals_leave_nothing(command: Call, arguments: tuple[str, ...], said: str) -> None:
    Path("damaged.onnx").write_bytes(Path("net.onnx").read_bytes()[:100])
    line = refused(command("emit-c", *arguments))
    assert line.startswith(said), line
    assert left() == ["damaged.onnx", "net.onnx"]


def test_no_compiler(command: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from csdfgen.backends import registry
    from csdfgen.backends.native import library

    monkeypatch.setenv("CC", "no-such-compiler")
    registry._made.cache_clear()
    library.load.cache_clear()
    try:
        assert "no-such-compiler: no such program" in refused(
            command("emit-c", "net.onnx", "-o", "out")
        )
    finally:
        registry._made.cache_clear()
        library.load.cache_clear()
    assert left() == ["net.onnx"]


@pytest.mark.parametrize("exists", [False, True])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool) -> None:
    """Nothing is left where a write fails, whichever it is."""
    plan, folder = planned(residual_classifier()), tmp_path / "out"
    if exists:
        folder.mkdir()
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for place in ("kernels/csdf.h", "small.c", "Makefile"):
        real = Path.open

        def fails(path: Path, *args: Any, ends: str = place, **options: Any) -> Any:
            if str(path).endswith(ends) and "w" in "".join(map(str, args)):
                raise full
            return real(path, *args, **options)  # noqa: B023 (used at once)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "open", fails)
            with pytest.raises(InputError, match="cannot be written: No space left on device"):
                emit(plan, "small", folder)
        assert left(tmp_path) == ([str(folder)] if exists else [])
        assert not exists or not left(folder)


def test_interrupted_while_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("csdfgen.emission.emit.write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        emit(planned(residual_classifier()), "small", tmp_path / "out")
    assert left(tmp_path) == []


@pytest.mark.networks
def test_a_program_prints_its_usage_when_asked(call: Call) -> None:
    if compiler_missing():
        pytest.skip("no C compiler")
    onnx.save(residual_classifier(), "net.onnx")
    facts = call("emit-c", "net.onnx", "-o", "made", "--json").json
    assert facts["output"] == "made" and {*facts["files"]} <= {
        str(one.relative_to("made")) for one in Path("made").rglob("*")
    }
    subprocess.run(["make", "-s", "-C", "made"], check=True, capture_output=True)
    for word, code in (("--help", 0), ("-h", 0), ("--nonsense", 1)):
        done = subprocess.run([f"made/{facts['name']}", word], capture_output=True, text=True)
        assert done.returncode == code
        assert done.stdout.startswith(f"usage: {facts['name']} [-o OUTPUT]") is (code == 0)


@pytest.mark.parametrize(
    ("text", "shape", "memory"),
    [
        ("g (float[1,700] x) => (float[1,800] y) { y = MatMul (x, w) }", (700, 800), "CONSTANTS"),
        ("g (float[1,1,900,900] x) => (float[1,1,900,900] y) { y = Mul (x, w) }", (1,), "RAM"),
    ],
)
def test_a_board_has_no_room(text: str, shape: tuple[int, ...], memory: str, call: Call) -> None:
    if compiler_missing():
        pytest.skip("no C compiler")
    onnx.save(model(text, {"w": np.ones(shape, np.float32)}), "net.onnx")
    for words in (("emit-c", "-o", "made"), ("bundle", "-o", "made.tar.gz", "--heights", "1")):
        asked = (*words, "net.onnx", "--target", "cortex-m55")
        line = refused(call(*asked))
        assert f"more than the 2,097,152 of {memory} that --target cortex-m55" in line
        assert "--oversize" in line and not Path(words[2]).exists()
        assert call(*asked, "--oversize").code == 0
