"""The second run of a model executes the program that the first one left in the cache, prints the same, and needs neither onnx
nor a planner; no program is run for another model, other options, or with anything else that is not as it was.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import csdfgen.api
from csdfgen.backends.native.library import load
from csdfgen.cache import get_folder
from csdfgen.cli import compiled
from tests.command import Call, Result, python, refused
from tests.models import model
from tests.native_steps import compiler_missing
from tests.small_models import branched, residual_classifier

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason="no C compiler")

ROOT = Path(__file__).parents[2]
SETTLED = 0.06
"""Seconds after which a file's time tells whether it is changed again."""

OF_OTHER_RUNS = {
    "csdfgen.backends.native.generate", "csdfgen.charts", "csdfgen.devices.measure", "csdfgen.emission.emit",
    "csdfgen.emission.order", "csdfgen.goals.batching.choice", "csdfgen.goals.overlap", "csdfgen.goals.throughput",
    "csdfgen.planning.repeating", "csdfgen.planning.replacing", "csdfgen.planning.saved", "csdfgen.planning.streams",
    "csdfgen.reading.caffe", "csdfgen.reading.several", "csdfgen.reading.tflite", "csdfgen.rewriting.experts",
    "csdfgen.tuning.file", "html.entities", "lxml", "networkx", "onnxruntime", "rich.progress", "runtime.reference",
    "runtime.stream", "runtime.verify", "schedules.selftimed", "scipy", "ssl",
}  # fmt: skip
"""Modules for boards, streams, pictures, several images and other formats, which would be resident memory."""

LIBRARIES = {"google.protobuf", "onnx", "tracemalloc", "urllib.request"}
"""Of the first run alone."""

RUN = """
import sys
from csdfgen.cli import main
code = main(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where programs are kept: in a cache with kernels alone."""
    library = load().path
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copy2(library, get_folder("native") / library.name)
    return get_folder("programs")


@pytest.fixture
def ran_kept(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For every run so far that looked for a program, whether it had one."""
    found: list[bool] = []
    run_kept = compiled.run_kept

    def noted(*given: Any) -> Any:
        made = run_kept(*given)
        found.append(made is not None)
        return made

    monkeypatch.setattr(compiled, "run_kept", noted)
    return found


def written(path: Path, made: onnx.ModelProto, external: bool = False) -> Path:
    onnx.save_model(made, path, save_as_external_data=external, location="w.data", size_threshold=0)
    time.sleep(SETTLED)
    return path


def scaled(factor: float) -> onnx.ModelProto:
    weights = np.linspace(-1, 1, 8 * 3 * 9, dtype=np.float32).reshape(8, 3, 3, 3) * factor
    return model(
        "scaled (float[1, 3, 8, 8] x) => (float[1, 8] y) { c = Conv(x, w) g = GlobalAveragePool(c) y = Flatten(g) }",
        {"w": weights.astype(np.float32)},
    )


def done(result: Result) -> str:
    """What was printed, without what is measured in every run."""
    assert (result.code, result.err) == (0, ""), result.err
    return re.sub(r"(?m)^(latency +|process +peak ).*$", r"\1", result.out)


@pytest.mark.parametrize("name", ["zoo:lenet5", "model.onnx"])
def test_the_second_run_needs_no_planner(name: str, tmp_path: Path, programs: Path) -> None:
    written(tmp_path / "model.onnx", residual_classifier())
    runs = [
        python("-c", RUN, "run", name, "--seed", "3", cwd=tmp_path, env={"PYTHONPATH": str(ROOT)})
        for _ in range(2)
    ]  # fmt: skip
    assert [one.returncode for one in runs] == [0, 0], runs[1].stderr
    first, second = (done(Result(0, one.stdout, "")) for one in runs)
    assert "top 5" in first and first == second
    (program,) = programs.iterdir()
    assert program.stat().st_mode & 0o777 == 0o600
    first, second = ({*one.stderr.split()} for one in runs)
    assert not (found := OF_OTHER_RUNS & first), found
    heavy = {
        "onnx",
        "csdfgen.planning",
        "csdfgen.reading",
        "csdfgen.ops",
        "csdfgen.backends.registry",
    }
    assert heavy <= first
    assert not (found := (heavy | OF_OTHER_RUNS | LIBRARIES) & second), found


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say")
def test_writing_the_program_needs_no_second_copy_of_the_weights(tmp_path: Path) -> None:
    w = np.random.default_rng(0).normal(size=(4, 1024, 1024)).astype(np.float32)
    nodes = " ".join(f"x{k + 1} = Gemm (x{k}, w{k})" for k in range(4))
    text = f"net (float[1, 1024] x0) => (float[1, 1024] x4) {{ {nodes} }}"
    written(tmp_path / "m.onnx", model(text, {f"w{k}": w[k] for k in range(4)}))
    peak = RUN.replace("print(*sys.modules", "print(open('/proc/self/status').read()")
    one = python("-c", peak, "run", "m.onnx", "--json", cwd=tmp_path, env={"PYTHONPATH": str(ROOT)})
    before = json.loads(one.stdout)["process"]["peak"]
    most = re.search(r"VmHWM:\s+(\d+) kB", one.stderr)
    assert most and 1024 * int(most[1]) < before + w.nbytes / 2


def test_texts_and_defaults_need_no_library_that_converts(tmp_path: Path) -> None:
    written(tmp_path / "model.onnx", residual_classifier())
    one = python("-c", RUN, "run", "model.onnx", cwd=tmp_path, env={"PYTHONPATH": str(ROOT)})
    assert one.returncode == 0 and "pydantic" not in one.stderr.split()


def test_json_and_arrays_are_the_same(tmp_path: Path, call: Call, ran_kept: list[bool]) -> None:
    written(tmp_path / "m.onnx", scaled(1), external=True)
    np.save("x.npy", np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32))
    told, arrays = [], []
    for _ in range(2):
        for given in ((), ("--input", "x.npy", "--repeat", "2"), ("--seed", "1")):
            one = call("run", "m.onnx", "--json", "--output", "y.npy", *given).json
            assert one.pop("latency_ms") > 0 and one.pop("process")["peak"] > 0
            assert one["weights"].pop("resident_bytes") >= 0
            told.append(one)
            arrays.append(np.load("y.npy").tobytes())
    assert ran_kept == [False, True, True, True, True, True]
    assert told[:3] == told[3:] and arrays[:3] == arrays[3:]
    assert len({*arrays}) == 3


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("m.onnx", ()), ("m.onnx", ("--threads", "2")), ("zoo:b_alexnet", ()), ("zoo:resnet8", ("--threads", "2")),
        pytest.param("zoo:mobilenet_v1_x0_25", (), marks=pytest.mark.every),
        pytest.param("zoo:ds_cnn", ("--threads", "3"), marks=pytest.mark.every),
        pytest.param("zoo:squeezenet1_1", (), marks=pytest.mark.every),
        pytest.param("zoo:b_alexnet", ("--threads", "2"), marks=pytest.mark.every),
    ],
)  # fmt: skip
def test_outputs_and_reports_are_those_of_the_first_run(
    name: str, given: tuple[str, ...], tmp_path: Path, call: Call, ran_kept: list[bool]
) -> None:
    written(tmp_path / "m.onnx", branched())
    said, arrays = [], []
    for _ in range(2):
        said.append(done(call("run", name, "--output", "y.npy", *given)))
        arrays.append(np.load("y.npy").tobytes())
    assert ran_kept == [False, True]
    assert said[0] == said[1] and arrays[0] == arrays[1]


def test_other_branches_are_told(tmp_path: Path, call: Call, ran_kept: list[bool]) -> None:
    written(tmp_path / "m.onnx", branched())
    found = [call("run", "m.onnx", "--json", "--seed", str(seed)).json for seed in range(12)]
    assert ran_kept == [False, *[True] * 11]
    (first, *_) = taken = [one["branches"]["choose"] for one in found]
    assert {one["then"] for one in taken} == {0, 1}
    for one, branch in zip(found, taken, strict=True):
        assert one["measured_bytes"] == (found[0]["measured_bytes"] if branch == first else None)
    other = taken.index({"then": first["else"], "else": first["then"]})
    assert "measured   nothing: other branches" in call("run", "m.onnx", "--seed", str(other)).out
    assert call("run", "m.onnx", "--json", "--repeat", "3").json["measured_bytes"] is not None


def test_integers_are_as_before(tmp_path: Path, call: Call, ran_kept: list[bool]) -> None:
    made = model(
        "rows (int64[1, 6] i, float[1, 4] n) => (float[1, 6, 2] y, bool[1, 4] z) { y = Gather<axis=0>(w, i) z = Less(n, m) }",
        {"w": np.arange(8, dtype=np.float32).reshape(4, 2), "m": np.arange(4, dtype=np.float32)},
    )
    written(tmp_path / "m.onnx", made)
    found = []
    for _ in range(2):
        assert call("run", "m.onnx", "--output", "y.npz").code == 0
        with np.load("y.npz") as arrays:
            found.append({name: arrays[name].tobytes() for name in arrays})
    assert ran_kept == [False, True] and found[0] == found[1]


def rewritten(path: Path, data: bytes) -> None:
    """Other content of the same length, with the times of before."""
    assert len(data) == path.stat().st_size and data != path.read_bytes()
    times = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("settled", [0, SETTLED])
def test_a_changed_model_is_planned_anew(
    external: bool, settled: float, tmp_path: Path, call: Call, ran_kept: list[bool]
) -> None:
    def output() -> bytes:
        assert call("run", "m.onnx", "--output", "y.npy").code == 0
        return Path("y.npy").read_bytes()

    (tmp_path / "other").mkdir()
    name = "w.data" if external else "m.onnx"
    written(tmp_path / "other/m.onnx", scaled(2), external)
    written(tmp_path / "m.onnx", scaled(1), external)
    first = output()
    assert output() == first
    rewritten(tmp_path / name, (tmp_path / "other" / name).read_bytes())
    time.sleep(settled)
    second = output()
    assert second != first and output() == second
    assert ran_kept[:3] == [False, True, False] and ran_kept[3] | (not settled)


def test_a_file_that_was_written_just_now_is_not_trusted(
    tmp_path: Path, call: Call, ran_kept: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "m.onnx", scaled(1))
    monkeypatch.setattr("csdfgen.files._TICKS", (10**12, 10**12))
    assert all(call("run", "m.onnx").code == 0 for _ in range(2))
    assert ran_kept == [False, False]


def test_what_a_program_depends_on_is_in_its_name(
    tmp_path: Path, call: Call, ran_kept: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "m.onnx", scaled(1))
    for given in (
        (),
        ("--rows", "2"),
        ("--fuse", "none"),
        ("--shape", "x=1x3x9x9"),
        ("--batch", "2"),
    ):
        assert call("run", "m.onnx", *given).code == 0
        assert call("run", "m.onnx", *given).code == 0
    assert ran_kept == [False, True] * 5
    monkeypatch.setenv("CC", "a compiler")
    assert call("run", "m.onnx").code == 0
    monkeypatch.setattr(compiled, "_PACKAGES", ("csdfgen",))
    assert call("run", "m.onnx").code == 0
    assert ran_kept[10:] == [False, False]


@pytest.mark.parametrize(
    "given",
    [
        ("--check",), ("--layers",), ("--trace", "t.json"), ("--weights", "copied"),
        ("--backend", "numpy"), ("--precision", "bfloat16"), ("--result", "streamed"), ("--pareto",),
    ],
)  # fmt: skip
def test_what_needs_the_network_is_planned(
    given: tuple[str, ...], tmp_path: Path, call: Call, programs: Path, ran_kept: list[bool]
) -> None:
    written(tmp_path / "m.onnx", scaled(1))
    assert call("run", "m.onnx", *given).code == 0
    assert not ran_kept and not [*programs.iterdir()]


@pytest.mark.parametrize(
    ("name", "given"),
    [("zoo:lenet5", ("--device", "cortex-m7")), ("zoo:lenet5", ("--frames", "2"))],
)  # fmt: skip
def test_reports(name: str, given: tuple[str, ...], call: Call, ran_kept: list[bool]) -> None:
    assert [call("run", name, *given).code for _ in range(2)] == [0, 0]
    assert ran_kept == [False, False]


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [flipped, cut_off, emptied])
def test_a_damaged_program_is_replaced_silently(
    damage: Callable[[Path], None], call: Call, programs: Path, ran_kept: list[bool]
) -> None:
    first = done(call("run", "zoo:lenet5"))
    (program,) = programs.iterdir()
    damage(program)
    assert done(call("run", "zoo:lenet5")) == first
    assert done(call("run", "zoo:lenet5")) == first
    assert ran_kept == [False, False, True]


def test_others_can_write_it(call: Call, programs: Path, ran_kept: list[bool]) -> None:
    first = done(call("run", "zoo:lenet5"))
    (program,) = programs.iterdir()
    compiled.release(program)
    program.chmod(0o666)
    second = call("run", "zoo:lenet5")
    assert len(second.err.splitlines()) == 1 and "can be written by others" in second.err
    assert done(Result(second.code, second.out, "")) == first and ran_kept == [False, False]
    assert program.stat().st_mode & 0o777 == 0o600


def test_the_cache_has_limits(call: Call, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CSDFGEN_CACHE_LIMIT", "100KiB")
    assert call("run", "zoo:lenet5").code == 0
    assert not [*programs.iterdir()]


def test_without_a_cache(call: Call, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any, **more: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr(compiled.tempfile, "TemporaryDirectory", full)
    assert "top 5" in done(call("run", "zoo:lenet5"))
    assert not [*programs.iterdir()]


def test_the_plan_of_a_stream_is_made_once(
    call: Call, tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second run reads it, with the weights of the model as it is now; a plan file of a stream is run as well."""
    made: list[Any] = []
    plan_stream = csdfgen.api.plan_stream

    def noted(*given: Any, **named: Any) -> Any:
        made.append(given)
        return plan_stream(*given, **named)

    monkeypatch.setattr(csdfgen.api, "plan_stream", noted)
    path = tmp_path / "net.onnx"
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((1, 3, 40, 8), np.float32))

    def run(*more: str) -> tuple[int, np.ndarray]:
        before, y = len(made), tmp_path / "y.npy"
        result = call("run", str(path), "--stream", f"{tmp_path}/x.npy", "--output", str(y), *more)
        assert result.code == 0, result.err
        return len(made) - before, np.load(y)

    def one(factor: float, kernel: int = 3) -> onnx.ModelProto:
        weights = np.full((2, 3, kernel, 3), factor, np.float32)
        return model("one (float[1, 3, 8, 8] x) => (y) { y = Conv <pads=[1, 1, 1, 1]> (x, w) }", {"w": weights})  # fmt: skip

    written(path, one(1))
    assert call("schedule", str(path), "--stream", "-o", f"{tmp_path}/plan.json").code == 0
    made.clear()
    planned, first = run()
    again, second = run()
    read, third = run("--plan", f"{tmp_path}/plan.json")
    assert (planned, again, read) == (1, 0, 0)
    assert np.array_equal(first, second) and np.array_equal(first, third)
    assert [one.suffix for one in programs.iterdir()] == [".json"]
    assert run("--rows", "2")[0] == 1
    written(path, one(2))
    planned, doubled = run()
    assert planned == 0 and np.allclose(doubled, 2 * first)
    written(path, one(1, kernel=2))
    planned, other = run()
    assert planned == 1 and other.shape != first.shape
    given = "--stream", f"{tmp_path}/x.npy", "-o", "y.npy", "--plan", f"{tmp_path}/plan.json"
    said = refused(call("run", str(path), *given))
    assert "plan.json: made for 'net.onnx'" in said
