"""Compiled programs compute what the plan computes, bit for bit; damaged and false files are refused in one line."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import csdfgen
import runtime
from csdfgen.backends.native.build import build, find_compiler
from csdfgen.backends.native.library import load
from csdfgen.backends.native.structures import SOURCES
from csdfgen.errors import CsdfgenError, InputError
from runtime.drawing import draw_values, random_inputs
from tests import random_networks
from tests.command import Call, python, refused
from tests.models import model as of_text
from tests.quantized_models import of_zoo
from tests.small_models import branched, residual_classifier, two_inputs
from tests.ways import some

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "run_compiled.c"
RUST = EXAMPLE.with_suffix(".rs")

HEAD = 80 + 12 * 16
"""Bytes of the head of a file: ten numbers, and twelve sections."""


def check_same(
    model: Any, path: Path, loaded: dict[str, Any] | None = None, threads: int = 1, **options: Any
) -> None:
    """A plan and its compiled program have the same outputs, in two frames each, and take the same branches."""
    plan = csdfgen.plan(csdfgen.load(model, **(loaded or {})), backend="native", **options)
    frame = runtime.compile(plan, threads=threads)
    frame.save(path)
    opened = runtime.open(path)
    for seed in range(2):
        x = random_inputs(plan.network, seed)
        wanted, found = frame(x), opened(x)
        assert wanted.keys() == found.keys()
        for name, array in wanted.items():
            assert (array.dtype, array.shape) == (found[name].dtype, found[name].shape)
            assert array.tobytes() == found[name].tobytes(), name
        assert frame.branches == opened.branches


@pytest.mark.every
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lenet5", {}),
        ("resnet8", {"rows": "1", "loaded": {"batch": 3}}),
        ("resnet8", {"frames": 2, "loaded": {"batch": 4}}),
        ("b_alexnet", {}),  # leaves early: conditions
        ("b_alexnet", {"threads": 2}),
        ("resnet8", {"threads": 3, "loaded": {"batch": 2}}),
        ("ds_cnn", {"result": "arena"}),
        ("mobilenet_v1_x0_25", {"weights": "mapped"}),
    ],
)
def test_networks_of_the_zoo(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    check_same(f"zoo:{name}", tmp_path / "net.csdfgen", **options)


def test_weights_of_a_byte(tmp_path: Path) -> None:
    check_same(of_zoo("resnet8", "QDQ"), tmp_path / "net.csdfgen")


@settings(max_examples=15, deadline=None)
@given(st.one_of(random_networks.models(), random_networks.branched_networks()), st.integers(1, 3))
def test_random_networks(
    tmp_path_factory: pytest.TempPathFactory, model: Any, threads: int
) -> None:
    check_same(model, tmp_path_factory.mktemp("compiled") / "net.csdfgen", threads=threads)


def test_a_branch_in_a_branch_is_taken_if_both_conditions_hold(tmp_path: Path) -> None:
    model = of_text(
        """nested (float[1,3,4,4] x) => (float[1,3,4,4] z) {
            mean = ReduceMean <axes = [1, 2, 3], keepdims = 0> (x)
            warm = Greater(mean, none)
            z = If (warm) <
                then_branch = t () => (t1) { t1 = Sigmoid(x) },
                else_branch = e () => (e1) {
                    cold = Less(mean, much)
                    e1 = If (cold) <
                        then_branch = a () => (a1) { a1 = Relu(x) },
                        else_branch = b () => (b1) {
                            b1 = If (cold) <
                                then_branch = c () => (c1) { c1 = Neg(x) },
                                else_branch = d () => (d1) { d1 = Tanh(x) }
                            >
                        }
                    >
                }
            >
        }""",
        {"none": np.zeros((), np.float32), "much": -np.ones((), np.float32)},
    )
    frame = runtime.compile(csdfgen.plan(csdfgen.load(model), backend="native"))
    frame.save(tmp_path / "net.csdfgen")
    opened = runtime.open(tmp_path / "net.csdfgen")
    for value in (2, -2, 2, -0.5):
        x = np.full((1, 3, 4, 4), value, np.float32)
        assert (frame(x)["z"] == opened(x)["z"]).all()
        assert frame.branches == opened.branches


@pytest.mark.parametrize("batch", [1, 3])
def test_threads_share_it_also_after_a_fork(batch: int, tmp_path: Path) -> None:
    frame = runtime.compile(
        csdfgen.plan(csdfgen.load("zoo:resnet8", batch=batch), backend="native"), threads=2
    )
    frame.save(tmp_path / "net.csdfgen")
    code = """
import os, sys, runtime
from runtime.drawing import draw_values
frame = runtime.open(sys.argv[1])
x = draw_values(frame.inputs, frame.about["inputs"], 0)
wanted = frame(x)
threads = len(os.listdir("/proc/self/task"))
child = os.fork()
(found,), (array,) = frame(x).values(), wanted.values()
threads = min(threads, len(os.listdir("/proc/self/task")))
same = found.tobytes() == array.tobytes() and threads == 2
if not child:
    os._exit(not same)
assert same and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    done = python("-c", code, tmp_path / "net.csdfgen", timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_condition_of_nan_is_refused(branching: Path) -> None:
    x = np.full((1, 3, 32, 32), np.nan, np.float32)
    frame = runtime.open(branching)
    for _ in range(2):
        with pytest.raises(
            InputError, match=r"compares NaN .* the condition of 'choose' means nothing"
        ):
            frame(x)
    before = frame.branches
    assert frame(np.zeros_like(x)) and frame.branches != before


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compiled") / "lenet5.csdfgen"
    runtime.compile(csdfgen.plan(csdfgen.load("zoo:lenet5"), backend="native")).save(path)
    return path


@pytest.fixture(scope="module")
def branching(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a network with an If, for two threads."""
    path = tmp_path_factory.mktemp("compiled") / "branched.csdfgen"
    plan = csdfgen.plan(csdfgen.load(branched()), backend="native")
    runtime.compile(plan, threads=2).save(path)
    return path


@pytest.fixture(params=["file", "branching"])
def either(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


def test_a_pipe_is_no_program(call: Call, tmp_path: Path) -> None:
    pipe = tmp_path / "net.csdfgen"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="cannot be read"):
        csdfgen.open(pipe)
    assert "is not a regular file" in call("run", str(pipe)).err


def test_both_kinds_of_programs_refuse_the_same_inputs(tmp_path: Path) -> None:
    frame = csdfgen.compile(csdfgen.plan(csdfgen.load(two_inputs()), backend="native"))
    frame.save(tmp_path / "net.csdfgen")
    opened = csdfgen.open(tmp_path / "net.csdfgen")
    first = {name: np.zeros(*form) for name, form in opened.inputs.items()}
    assert all((frame(first)[name] == y).all() for name, y in opened(first).items())
    name, array = first.popitem()
    ragged = {**first, name: [[1.0], [1.0, 2.0]]}
    for wrong, said in (
        (array, "one array for 2 inputs"),
        (first, f"'{name}' is missing"),
        (ragged, f"'{name}' is no array"),
    ):
        for program in (frame, opened):
            with pytest.raises(InputError, match=said):
                program(wrong)


@pytest.mark.parametrize("seed", range(500))
def test_damaged_files_are_refused(seed: int, either: Path, tmp_path: Path) -> None:
    rng, data = Random(seed), bytearray(either.read_bytes())
    kind = seed % 3
    if kind == 0:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[rng.randrange(len(data)) :]
    else:
        at = rng.randrange(len(data))
        data[at : at + rng.randrange(1, 5000)] = rng.randbytes(rng.randrange(1, 5000))
    path = tmp_path / "damaged.csdfgen"
    path.write_bytes(data)
    with pytest.raises(InputError) as refusal:
        runtime.open(path)
    assert len(str(refusal.value).splitlines()) == 1


def false_file(data: bytearray, rng: Random) -> bytes:
    """A file with other numbers in its head or tables, whose checksum is right."""
    numbers = [int.from_bytes(data[at : at + 8], "little") for at in range(80, HEAD, 16)]
    counts = [int.from_bytes(data[at : at + 8], "little") for at in range(88, HEAD, 16)]
    sizes = (1, 1, 1, 8, 24, 32, 16, 128, 32, 24, 4)
    spans = [(24, HEAD)]
    spans += [(numbers[k], numbers[k] + counts[k] * sizes[k]) for k in range(3, 11)]
    for _ in range(rng.choice((1, 1, 2, 5))):
        start, stop = rng.choice([span for span in spans if span[1] > span[0]])
        at = start + 8 * rng.randrange((stop - start) // 8)
        value = rng.choice(
            (0, 1, 7, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1, rng.getrandbits(64))
        )
        data[at : at + 8] = value.to_bytes(8, "little")
    return sealed(data)


def sealed(data: bytearray) -> bytes:
    """A file with the checksum that its bytes have."""
    checksum = load().function("checksum", ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t)
    data[8:16] = checksum(bytes(data[16:]), len(data) - 16).to_bytes(8, "little")
    return bytes(data)


OTHERS = (None, True, 0, -1, 10**30, 0.5, "", "x", "ü", [], [1], [[]], {}, {"x": None})
"""A value of every type of JSON, and some that are none of those that are meant."""


def variants(value: Any) -> Iterator[Any]:
    """A JSON value with each key removed, and with each value in it replaced by others."""
    for key, one in value.items():
        yield {name: other for name, other in value.items() if name != key}
        for other in OTHERS:
            yield {**value, key: other}
        if isinstance(one, dict):
            yield from ({**value, key: other} for other in variants(one))


def test_false_descriptions_do_no_harm(call: Call, either: Path, tmp_path: Path) -> None:
    data, codes = either.read_bytes(), set[int]()
    about = data[data.index(b'{"network"') :].partition(b"\0")[0]
    for number, one in enumerate([[], 1, *variants(json.loads(about))][:: some(3, 1)]):
        text = json.dumps(one, separators=(",", ":")).encode().ljust(len(about))
        assert len(text) == len(about)
        path = tmp_path / f"{number}.csdfgen"
        path.write_bytes(sealed(bytearray(data.replace(about, text))))
        for more in ((), ("--json", "--seed", "1")):
            done = call("run", str(path), *more)
            codes.add(done.code)
            if done.code:
                line = refused(done)
                assert "internal error" not in line and line.startswith(str(path)), one
    assert codes == {0, 1}


OPENS = """
import sys, runtime
from csdfgen.errors import CsdfgenError
for path in sys.argv[1:]:
    try:
        runtime.open(path)
    except CsdfgenError as error:
        print(error)
    else:
        print("opened")
"""


def test_false_numbers_are_refused_or_harmless(either: Path, tmp_path: Path) -> None:
    paths = []
    for seed in range(300):
        paths.append(tmp_path / f"{seed}.csdfgen")
        paths[-1].write_bytes(false_file(bytearray(either.read_bytes()), Random(seed)))
    done = python("-c", OPENS, *paths)
    assert done.returncode == 0, done.stderr[-2000:]
    said = done.stdout.splitlines()
    assert len(said) == len(paths)
    assert len({line.partition(": ")[2] for line in said}) > 5
    assert said.count("opened") < len(said) / 2


def test_another_processor_is_named(file: Path, tmp_path: Path) -> None:
    own = load().instructions.encode()
    data = bytearray(file.read_bytes())
    at = data.index(own + b"\0")
    data[at] ^= 1
    path = tmp_path / "other.csdfgen"
    path.write_bytes(sealed(data))
    with pytest.raises(
        InputError, match=r"was compiled for .*, this library is for .*; compile the model"
    ):
        runtime.open(path)
    with pytest.raises(CsdfgenError, match=r"zoo:resnet8: .* the input has 1"):
        runtime.open(path, model="zoo:resnet8")
    wanted = runtime.open(file)
    check_alike(runtime.open(path, model="zoo:lenet5"), wanted)
    check_alike(runtime.open(path), wanted)
    path.write_bytes(b"csdfgen1 is no program")
    with pytest.raises(InputError, match="is not JSON"):
        runtime.open(path, model="zoo:lenet5")


def test_it_is_compiled_for_this_processor(call: Call, branching: Path, tmp_path: Path) -> None:
    onnx.save_model(branched(), tmp_path / "branched.onnx")
    path, wanted = tmp_path / "net.csdfgen", call("run", str(branching), "--output", "y.npy")
    array = np.load("y.npy").tobytes()
    for damage in ("processor", "version"):
        data = bytearray(branching.read_bytes())
        data[24 if damage == "version" else data.index(load().instructions.encode() + b"\0")] ^= 1
        path.write_bytes(sealed(data))
        why = refused(call("run", str(path)))
        assert why.endswith("compile the model here; with --model it is compiled again") or (
            damage == "version"
            and why.endswith("the model again; with --model it is compiled again")
        )
        done = call("run", str(path), "--model", "branched.onnx", "--output", "z.npy")
        assert (wanted.code, done.code) == (0, 0), done.err
        assert np.load("z.npy").tobytes() == array and "2 threads" in done.out
        assert runtime.open(path).about["threads"] == 2
    assert "leave --model out" in refused(call("run", "branched.onnx", "--model", "branched.onnx"))
    path.write_bytes(b"csdfgen1 is no program")
    assert "--model" not in refused(call("run", str(path)))


def test_kernels_that_the_processor_lacks_instructions_for_are_refused(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "lacking.c"
    source.write_text('const char *csdf_lacking(void) { return "AVX9"; }\n')
    files = [SOURCES / f"{name}.c" for name in ("program", "library", "frame", "team")]
    path = build([*files, source], folder=tmp_path)
    monkeypatch.setattr("csdfgen.backends.native.opened._library", lambda _: path)
    with pytest.raises(InputError, match="for processors with AVX9, which this one does not have"):
        runtime.open(file)


def check_alike(one: Any, other: Any) -> None:
    """Two opened programs tell the same of themselves, and compute the same."""
    assert (one.about, one.arena_bytes) == (other.about, other.arena_bytes)
    x = draw_values(one.inputs, one.about["inputs"], 0)
    outputs = other(x)
    assert outputs and all(
        array.tobytes() == outputs[name].tobytes() for name, array in one(x).items()
    )


@pytest.mark.parametrize(
    ("loaded", "options"),
    [
        ({"shapes": {"x": (1, 3, 20, 12)}}, {"rows": "1", "result": "arena"}),
        ({"batch": 4}, {"frames": 2, "goal": "memory"}),
    ],
)
def test_compiled_again(loaded: dict[str, Any], options: dict[str, Any], tmp_path: Path) -> None:
    onnx.save_model(residual_classifier(batch="n"), tmp_path / "net.onnx")
    plan = csdfgen.plan(csdfgen.load(tmp_path / "net.onnx", **loaded), backend="native", **options)
    path = tmp_path / "net.csdfgen"
    runtime.compile(plan).save(path)
    wanted = runtime.open(path)
    damaged = path.read_bytes()[:-1]
    path.unlink()
    path.write_bytes(damaged)
    other = onnx.load(tmp_path / "net.onnx")
    other.graph.name = "other"
    onnx.save_model(other, tmp_path / "other.onnx")
    with pytest.raises(InputError, match=r"is of network '.*', the model has 'other'"):
        runtime.open(path, model=tmp_path / "other.onnx")
    check_alike(runtime.open(path, model=tmp_path / "net.onnx"), wanted)


def test_neither_the_model_nor_a_planner_is_loaded(file: Path) -> None:
    code = "import sys, runtime; runtime.open(sys.argv[1]); print(*sys.modules)"
    loaded = python("-c", code, file, check=True).stdout.split()
    for name in ("onnx", "scipy", "networkx", "csdfgen.planning", "csdfgen.reading", "csdfgen.ops"):
        assert name not in loaded


def test_c_runs_it(call: Call, file: Path, tmp_path: Path) -> None:
    frame = runtime.open(file)
    (name, (shape, dtype)), *_ = frame.inputs.items()
    wanted = frame({name: np.zeros(shape, dtype)})
    made = call(
        "compile", "zoo:lenet5", "-o", str(tmp_path / "net.csdfgen"), "--library", str(tmp_path)
    )
    assert made.code == 0, made.err
    program = tmp_path / "run"
    code, _, said = find_compiler().run(
        ["-std=c99", "-Wall", "-Wextra", "-Werror", EXAMPLE, f"-I{tmp_path}", f"-L{tmp_path}", "-lcsdfgen",
         f"-Wl,-rpath,{tmp_path}", "-o", program]
    )  # fmt: skip
    assert code == 0, said
    done = subprocess.run([program, file], capture_output=True, text=True, check=True)
    (name, array), *_ = wanted.items()
    assert done.stdout.splitlines()[0] == f"{name}: {array.reshape(-1)[0]:.9g}"
    broken = subprocess.run([program, EXAMPLE], capture_output=True, text=True)
    assert (broken.returncode, broken.stderr) == (1, f"{EXAMPLE}: it is no compiled program\n")


@pytest.mark.skipif(
    shutil.which("rustc") is None
    or subprocess.run(["rustc", "-V"], capture_output=True).returncode > 0,
    reason="no compiler of Rust",
)
def test_rust_runs_it_in_threads(call: Call, file: Path, tmp_path: Path) -> None:
    frame = runtime.open(file)
    (wanted,) = frame({name: np.zeros(*form) for name, form in frame.inputs.items()}).values()
    library = call("compile", "zoo:lenet5", "--library", "lib")
    assert library.code == 0, library.err
    build = ["rustc", "-O", RUST, "-L", "lib", "-l", "csdfgen", "-C", "link-arg=-Wl,-rpath,lib"]
    made = subprocess.run(build, capture_output=True, text=True)
    assert (made.returncode, made.stderr) == (0, "")
    done = subprocess.run(["./run_compiled", file, "3"], capture_output=True, text=True)
    lines = [line.partition(": ") for line in done.stdout.splitlines()]
    assert [name for name, _, _ in lines] == [
        f"{k} {one}" for k in range(3) for one in frame.outputs
    ]
    assert {np.float32(value) for _, _, value in lines} == {wanted.reshape(-1)[0]}
    broken = subprocess.run(["./run_compiled", EXAMPLE, "1"], capture_output=True, text=True)
    assert (broken.returncode, broken.stderr) == (1, f"{EXAMPLE}: it is no compiled program\n")


def test_the_command(call: Call, file: Path, tmp_path: Path) -> None:
    done = call("run", str(file), "--json", "--output", str(tmp_path / "y.npz"))
    assert done.code == 0, done.err
    assert done.json["arena_bytes"] > 0 < done.json["constants_bytes"]
    mapping = done.json["mapping"]
    assert not mapping or mapping["resident"] >= mapping["proportional"] > 0
    assert not mapping or done.json["process"]["constants"] == mapping["resident"]
    assert bool(mapping) == ("this process's share" in call("run", str(file)).out)
    with np.load(tmp_path / "y.npz") as found:
        assert found.files
    assert "leave --rows out" in refused(call("run", str(file), "--rows", "1"))
    assert "leave --check out" in refused(call("run", str(file), "--check"))
    assert ".csdfgen" in refused(call("compile", "zoo:lenet5", "-o", "net.bin"))
    assert not Path("net.bin").exists()
    numpy = call("compile", "zoo:lenet5", "--backend", "numpy", "-o", str(tmp_path / "no.csdfgen"))
    assert "writes no compiled programs" in refused(numpy)
    assert not (tmp_path / "no.csdfgen").exists()


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not say")
def test_processes_share_the_constants(tmp_path: Path) -> None:
    path = tmp_path / "net.csdfgen"
    runtime.compile(csdfgen.plan(csdfgen.load("zoo:resnet8"), backend="native")).save(path)
    code = (
        "import sys, runtime; from pathlib import Path; from runtime.drawing import draw_values\n"
        "from runtime.resident import read_mapping\n"
        "frame = runtime.open(sys.argv[1]); frame(draw_values(frame.inputs, frame.about['inputs'], 0))\n"
        "for line in sys.stdin: print(*read_mapping(Path(sys.argv[1])).values(), flush=True)"
    )

    def started() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip

    def sizes(one: subprocess.Popen[str]) -> list[int]:
        assert one.stdin and one.stdout
        one.stdin.write("?\n")
        one.stdin.flush()
        return [*map(int, one.stdout.readline().split())]

    constants = runtime.open(path).constants_bytes
    with started() as first:
        alone = sizes(first)
        with started() as second:
            both = [sizes(second), sizes(first)]
            second.communicate()
        first.communicate()
    assert alone[0] >= constants and alone[1] > 0.9 * alone[0]
    for resident, share in both:
        assert resident >= constants and share < resident - 0.4 * constants


def test_the_header_is_one_of_c_and_of_cpp(tmp_path: Path) -> None:
    for name in ("a.c", "a.cpp"):
        (tmp_path / name).write_text('#include "csdfgen.h"\n')
        code, _, said = find_compiler().run(
            ["-c", "-Wall", "-Werror", f"-I{SOURCES}", tmp_path / name, "-o", tmp_path / "a.o"]
        )
        assert code == 0, said
