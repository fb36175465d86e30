"""Weights that are mapped: the same outputs, pages that processes share, experts that are not read, more weights than memory."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import csdfgen
import runtime.session
from csdfgen.errors import InputError
from csdfgen.files import map_file
from csdfgen.lowering import weight_file
from csdfgen.lowering.weight_file import WeightFile
from csdfgen.program.instructions import get_address
from tests.builder import reference
from tests.command import ROOT, Call, python
from tests.models import model
from tests.native_steps import compiler_missing

pytestmark = pytest.mark.skipif(not Path("/proc/self/pagemap").exists(), reason="needs Linux")

BACKENDS = [
    "numpy",
    pytest.param("native", marks=pytest.mark.skipif(bool(compiler_missing()), reason="no C compiler")),
]  # fmt: skip

WIDE = 1024
"""Features of a layer with 4 MiB of weights."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of weights; that of compiled kernels stays."""
    from csdfgen.files import cache_folder

    folder = tmp_path / "cache" / "csdfgen"
    folder.mkdir(parents=True)
    (folder / "native").symlink_to(cache_folder("native"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder / "weights"


def products(path: Path, layers: int = 2, seed: int = 0, external: bool = True) -> Path:
    """A file of a chain of square products, a convolution before it."""
    rng = np.random.default_rng(seed)
    arrays = {"filter": rng.normal(size=(64, 16, 3, 3)).astype(np.float32)}
    arrays["first"] = (rng.normal(size=(64 * 36, WIDE)) / 50).astype(np.float32)
    text = "c = Conv (x, filter)  r0 = Relu(c)  f = Flatten(r0)  y0 = MatMul(f, first)"
    for k in range(layers):
        arrays[f"w{k}"] = (rng.normal(size=(WIDE, WIDE)) / 32).astype(np.float32)
        text += f"  y{k + 1} = MatMul(y{k}, w{k})"
    made = model(f"g (float[1,16,8,8] x) => (y{layers}) {{ {text} }}", arrays)
    onnx.save_model(made, path, save_as_external_data=external, location=f"{path.stem}.data")
    return path


def mapped(path: Path, backend: str = "numpy") -> tuple[runtime.session.Executable, np.ndarray]:
    """A program with mapped weights, and its output, as in a process without others."""
    weight_file._MAPPED.clear()
    network = csdfgen.load(path, weights="mapped")
    frame = runtime.compile(csdfgen.plan(network, weights="mapped", backend=backend))
    (y,) = frame(INPUT).values()
    return frame, y


INPUT = np.random.default_rng(1).normal(size=(1, 16, 8, 8)).astype(np.float32)


@pytest.mark.parametrize("external", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_outputs_are_those_of_copied_weights(
    tmp_path: Path, cache: Path, backend: str, external: bool
) -> None:
    path = products(tmp_path / "net.onnx", external=external)
    plan = csdfgen.plan(csdfgen.load(path, weights="copied"), backend=backend, weights="copied")
    copied = runtime.compile(plan)
    assert not copied.mapped and not cache.exists()
    (wanted,) = copied(INPUT).values()
    for _ in range(2):
        frame, y = mapped(path, backend)
        np.testing.assert_array_equal(y, wanted)
        total, resident = frame.weight_bytes
        assert resident is not None and 8 * WIDE * WIDE < resident <= total
        del frame
    (file,) = cache.iterdir()
    assert file.suffix == ".weights"
    # what a program of copied weights is asked for later is mapped then
    again = runtime.compile(copied.plan, weights="mapped")
    np.testing.assert_array_equal(next(iter(again(INPUT).values())), wanted)


def test_packed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    backend = "numpy" if compiler_missing() else "native"
    path = products(tmp_path / "net.onnx")
    written: list[str] = []
    write = WeightFile._write

    def counted(self: WeightFile, key: str, *values: Any) -> np.ndarray:
        written.append(key)
        return write(self, key, *values)

    monkeypatch.setattr(WeightFile, "_write", counted)
    assert mapped(path, backend) and written
    written.clear()
    assert mapped(path, backend) and not written


def test_what_other_code_packs_is_another_array(cache: Path) -> None:
    def doubled(given: np.ndarray) -> np.ndarray:
        return 2 * given

    def negated(given: np.ndarray) -> np.ndarray:
        return -given

    values = np.arange(weight_file.LEAST, dtype=np.float32)
    with weight_file.weight_file(cache / "packed.weights", "build") as file:
        for pack in (doubled, negated):
            np.testing.assert_array_equal(file.kept(pack, (values,)), pack(values))


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_unsound_file_is_written_again(tmp_path: Path, cache: Path, backend: str) -> None:
    path = products(tmp_path / "net.onnx")
    _, wanted = mapped(path, backend)
    (file,) = cache.iterdir()
    whole = file.read_bytes()

    def damaged(data: bytes) -> None:
        file.write_bytes(data)
        np.testing.assert_array_equal(mapped(path, backend)[1], wanted)
        (only,) = cache.iterdir()
        assert only == file and only.read_bytes()[:1000] == whole[:1000]

    half = len(whole) // 2
    damaged(whole[:half])
    damaged(b"")
    damaged(b"something else" * 1000)
    damaged(whole[:half] + bytes([whole[half] ^ 0xFF]) + whole[half + 1 :])
    # and one of other weights under the same name
    stat = file.stat()
    mapped(products(path, seed=1), backend)
    assert file.stat().st_ino != stat.st_ino


def test_programs_of_one_process_share_arrays(tmp_path: Path, cache: Path) -> None:
    network = csdfgen.load(products(tmp_path / "net.onnx"), weights="mapped")
    plans = [csdfgen.plan(network, weights="mapped", rows=rows) for rows in ("1", "whole")]
    one, other = map(runtime.compile, plans)
    (y,), (same,) = one(INPUT).values(), other(INPUT).values()
    np.testing.assert_allclose(y, same, rtol=1e-4, atol=1e-4)

    def places(frame: runtime.session.Executable) -> set[int]:
        return {get_address(a) for a in frame._bound.weights if a.nbytes > 4 * WIDE * WIDE - 1}

    assert len(places(one)) == 3 and places(one) == places(other)
    assert len(list(cache.iterdir())) == 1  # nothing new for another one


def test_weights_that_changed_are_packed_again(tmp_path: Path) -> None:
    path = products(tmp_path / "net.onnx", layers=1)
    _, before = mapped(path)
    products(path, layers=1, seed=3)
    _, after = mapped(path)
    network = csdfgen.load(path)
    np.testing.assert_array_equal(after, runtime.run(csdfgen.plan(network, backend="numpy"), INPUT)["y1"])  # fmt: skip
    assert np.abs(after - before).max() > 0.1


def test_types_survive_the_file(tmp_path: Path) -> None:
    def packed(count: int, kind: str) -> np.ndarray:
        return np.arange(count).astype(kind)

    for kind in ("bfloat16", "float16", "int8", "bool"):
        path = tmp_path / f"{kind}.weights"
        for made in (packed, None):
            weight_file._MAPPED.clear()
            with weight_file.weight_file(path, "build") as file:
                assert made is not None or file._index
                found = file.kept(packed, (9000, kind))
                assert found.dtype == kind and not found.flags.writeable
                np.testing.assert_array_equal(found, packed(9000, kind))


@pytest.mark.parametrize(
    "kind", ["bfloat16", "float16", "int4", "uint4", "int8", "float32", "float64"]
)
def test_arrays_of_every_type_are_packed_and_told_apart(tmp_path: Path, kind: str) -> None:
    """Some types of weights have no buffer of their own, and some share their numpy letter."""

    def packed(given: np.ndarray) -> np.ndarray:
        return np.concatenate([given, given])

    weight_file._MAPPED.clear()
    with weight_file.weight_file(tmp_path / "x.weights", "build") as file:
        for own in (kind, "bfloat16", "int8"):
            values = (np.arange(9000) % 7).astype(own)
            found = file.kept(packed, (values,))
            assert found.dtype == values.dtype
            np.testing.assert_array_equal(found, packed(values))
            np.testing.assert_array_equal(
                file.moved(np.arange(9000).astype(own)), np.arange(9000).astype(own)
            )


def test_weights_that_lie_otherwise_at_one_place_are_told_apart(tmp_path: Path) -> None:
    """A square matrix and its transpose are the same bytes of a file."""
    np.arange(1024, dtype=np.float32).tofile(tmp_path / "weights")
    square = np.frombuffer(map_file(tmp_path / "weights"), np.float32).reshape(32, 32)

    def packed(given: np.ndarray) -> np.ndarray:
        return given.copy()

    with weight_file.weight_file(tmp_path / "x.weights", "build") as file:
        for one in (square, square.T):
            np.testing.assert_array_equal(file.kept(packed, (one,)), one)


def test_no_room_for_the_file(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(InputError, match=r"No space left on device; make room there.*weights='copied'"):  # fmt: skip
        mapped(products(tmp_path / "net.onnx"))
    assert not list(cache.iterdir())


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_branch_that_is_not_taken_is_not_read(tmp_path: Path, backend: str) -> None:
    rng = np.random.default_rng(2)
    arrays = {
        "yes": (rng.normal(size=(WIDE, WIDE)) / 32).astype(np.float32),
        "no": (rng.normal(size=(WIDE, 2 * WIDE)) / 32).astype(np.float32),
        "back": (rng.normal(size=(2 * WIDE, WIDE)) / 32).astype(np.float32),
        "zero": np.zeros((), np.float32),
    }
    made = model(
        f"""g (float[1,{WIDE}] x) => (z) {{
            mean = ReduceMean <axes = [0, 1], keepdims = 0> (x)
            warm = Greater(mean, zero)
            y = If (warm) <
                then_branch = t () => (t1) {{ t1 = MatMul(x, yes) }},
                else_branch = e () => (e2) {{ e1 = MatMul(x, no)  e2 = MatMul(e1, back) }}
            >
            z = Relu(y)
        }}""",
        arrays,
    )
    x = rng.normal(size=(1, WIDE)).astype(np.float32)
    x += np.sign(x.mean())
    signs = np.sign(x.mean()), -np.sign(x.mean())
    wanted = [reference(made, {"x": sign * x})["z"] for sign in signs]
    path = tmp_path / "branches.onnx"
    onnx.save_model(made, path, save_as_external_data=True, location="branches.data")
    network = csdfgen.load(path, weights="mapped")
    plan = csdfgen.plan(network, weights="mapped", backend=backend)
    sizes = []
    for sign, there in zip(signs, wanted, strict=True):
        frame = runtime.compile(plan)
        found = frame(sign * x)["z"]
        np.testing.assert_allclose(found, there, rtol=1e-4, atol=1e-5)
        sizes.append(frame.weight_bytes)
    (total, resident), (_, both) = sizes
    assert resident is not None and both is not None
    assert 4 * WIDE * WIDE <= resident < 0.3 * total < 0.99 * total < both <= total


SHARING = """
import sys, numpy as np, csdfgen, runtime
network = csdfgen.load(sys.argv[1], weights="mapped")
frame = runtime.compile(csdfgen.plan(network, weights="mapped", backend=sys.argv[2]))
frame(np.ones((1, 16, 8, 8), np.float32))
print("ready", flush=True)
sys.stdin.readline()
of, sizes = False, {"Rss": 0, "Pss": 0}
for line in open("/proc/self/smaps"):
    name, _, rest = line.partition(":")
    if "-" in name.split()[0]:
        of = line.rstrip().endswith((".weights", ".data", ".part (deleted)"))
    elif of and name in sizes:
        sizes[name] += int(rest.split()[0])
print(sizes["Rss"], sizes["Pss"], flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_processes_share_pages(tmp_path: Path, backend: str) -> None:
    path = products(tmp_path / "net.onnx")
    mapped(path, backend)
    both = [
        subprocess.Popen(
            [sys.executable, "-c", SHARING, str(path), backend],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )
        for _ in range(2)
    ]  # fmt: skip
    for one in both:
        assert one.stdout is not None and one.stdout.readline() == "ready\n"
    one = both[0]
    assert one.stdin is not None and one.stdout is not None
    print(file=one.stdin, flush=True)
    resident, share = map(int, one.stdout.readline().split())
    assert resident > 12 * WIDE * WIDE // 1024  # KiB
    assert share < 0.55 * resident
    for one in both:
        one.communicate("\n\n")


LIMITED = """
import numpy, resource, sys
import csdfgen.cli, csdfgen.api, runtime.report, csdfgen.reading.loader, csdfgen.goals.choice
import csdfgen.backends.registry as registry
registry.load_backend(sys.argv[-1])
square = numpy.ones((256, 256))
square @ square  # OpenBLAS has its memory
held = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData"))
most = (held << 10) + int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_DATA, (most, most))
sys.exit(csdfgen.cli.main(sys.argv[2:]))
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_more_weights_than_memory(tmp_path: Path, backend: str) -> None:
    path = products(tmp_path / "net.onnx", layers=24)
    assert path.with_suffix(".data").stat().st_size > 88 << 20

    def run(weights: str) -> subprocess.CompletedProcess[str]:
        arguments = ["run", str(path), "--json", "--weights", weights, "--backend", backend]
        return python(
            "-c",
            LIMITED,
            88 << 20,
            *arguments,
            env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )

    copied = run("copied")
    said = "memory|return without exception set"  # of numpy, where it has none
    assert copied.returncode == 1 and re.search(said, copied.stderr), copied.stderr
    assert len(copied.stderr.splitlines()) == 1
    made = run("mapped")
    assert made.returncode == 0, made.stderr


def test_the_command_reports_them(tmp_path: Path, call: Call, cache: Path) -> None:
    path = str(products(tmp_path / "net.onnx"))
    plan = str(tmp_path / "plan.json")
    assert call("schedule", path, "-o", plan).code == 0
    for more in ([], ["--plan", plan]):
        found = call("run", path, "--weights", "mapped", "--check", *more)
        assert found.code == 0, found.err
        pattern = r"weights    mapped, ([\d,]+) bytes, ([\d,]+) of them in memory of this process"
        total, resident = re.search(pattern, found.out).groups()  # type: ignore[union-attr]
        assert 0 < int(resident.replace(",", "")) <= int(total.replace(",", ""))
    assert list(cache.glob("*.weights"))
    assert "weights" not in Path(plan).read_text()
    values = call("run", path, "--json", "--weights", "copied").json["weights"]
    assert values["kept"] == "copied" and 0 < values["resident_bytes"] <= values["bytes"]
    for function in (csdfgen.load, csdfgen.plan):
        with pytest.raises(InputError, match=r"weights='lent'.*copied"):
            function(path if function is csdfgen.load else csdfgen.load(path), weights="lent")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_is_written_while_it_is_mapped(tmp_path: Path, backend: str) -> None:
    path = products(tmp_path / "net.onnx", external=False)
    wanted = mapped(path, backend)[1]
    plan = csdfgen.plan(csdfgen.load(path), backend=backend)
    products(tmp_path / "other.onnx", seed=1, external=False).replace(path)
    (y,) = runtime.compile(plan)(INPUT).values()  # replaced: what was loaded is there still
    np.testing.assert_array_equal(y, wanted)
    plan = csdfgen.plan(csdfgen.load(path), backend=backend)
    products(path, layers=1, external=False)  # cut short in its place
    with pytest.raises(InputError, match=r"net\.onnx: was written since .*copied"):
        runtime.compile(plan)


def test_mapped_by_default(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(path: Path) -> bool:
        return runtime.compile(csdfgen.plan(csdfgen.load(path), backend="numpy")).mapped

    large, small = products(tmp_path / "large.onnx"), products(tmp_path / "small.onnx", 0)
    assert kept(large) and len(list(cache.iterdir())) == 1
    weight_file._MAPPED.clear()
    monkeypatch.setenv("CSDFGEN_CACHE_LIMIT", "8MiB")
    plan = csdfgen.plan(csdfgen.load(large, weights="copied"), backend="numpy")
    assert not runtime.compile(plan).mapped
    monkeypatch.delenv("CSDFGEN_CACHE_LIMIT")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    (y,) = runtime.compile(csdfgen.plan(csdfgen.load(small), backend="numpy"))(INPUT).values()
    assert np.isfinite(y).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("turned", [0, 1])
def test_a_product_is_packed_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, turned: int
) -> None:
    rng = np.random.default_rng(3)
    shape = (1000, 576) if turned else (576, 1000)
    arrays = {"w": (rng.normal(size=shape) / 24).astype(np.float32)}
    text = f"y = Gemm <alpha=0.5, transB={turned}> (x, w)"
    onnx.save(model(f"g (float[1,576] x) => (y) {{ {text} }}", arrays), tmp_path / "net.onnx")
    x = rng.normal(size=(1, 576)).astype(np.float32)
    monkeypatch.setattr(weight_file, "_PIECE", 1 << 19)
    found = []
    for weights in ("copied", "mapped", "auto"):
        weight_file._MAPPED.clear()
        network = csdfgen.load(tmp_path / "net.onnx", weights=weights)
        plan = csdfgen.plan(network, backend=backend, weights=weights)
        found.append(runtime.compile(plan)(x)["y"])
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])
