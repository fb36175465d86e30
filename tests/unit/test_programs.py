"""Programs are values: equal where plans are, written to a file and run elsewhere, on memory that is not numpy's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import csdfgen
from csdfgen.backends.numpy.backend import NUMPY
from csdfgen.backends.registry import load_backend
from csdfgen.errors import InputError
from csdfgen.lowering.program import lower
from csdfgen.program.instructions import Constants
from csdfgen.program.steps import Backend
from runtime.session import Executable
from tests.native_steps import compiler_missing
from tests.op_harness import Sample, heights
from tests.op_samples import SAMPLES
from tests.program_file import StoredProgram, read_program, write_program
from tests.remote_backend import RemoteBackend
from tests.scattered import Layout, run_scattered

BACKENDS = [
    "numpy",
    pytest.param(
        "native",
        marks=pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-"),
    ),
]

NETWORKS = ("lenet5", "resnet8", "squeezenet1_1@64x64", "mobilenet_v1_x0_25@32x32", "unet@32x32")

ELSEWHERE = """
import sys
import numpy as np
from tests.program_file import read_program
from csdfgen.backends.registry import load_backend
kernels, program = load_backend(sys.argv[1]), read_program("program.zip")
bound = kernels.bind(program, kernels.allocate(program.pools), kernels.upload(program.constants))
arrays = dict(np.load("given.npz"))
for number, port in enumerate(program.ports):
    bound.open(number, arrays[port.name])
bound.prepared(program.order)()
bound.wait()
np.savez("made.npz", **arrays)
"""


@pytest.fixture(scope="module")
def remote() -> RemoteBackend:
    return RemoteBackend()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_program_is_written_here_and_run_elsewhere(tmp_path: Path, backend: str) -> None:
    network = csdfgen.load("zoo:squeezenet1_1@64x64")
    plan, kernels = csdfgen.plan(network, backend=backend), load_backend(backend)
    program = lower(plan, kernels)
    write_program(tmp_path / "program.zip", StoredProgram.of(program))
    (x,), (output,) = network.inputs, network.outputs
    assert output.tensor is not None
    image = np.random.default_rng(5).standard_normal(x.shape).astype(np.float32)
    arrays = {x.name: image, output.name: np.zeros(output.tensor.shape, output.tensor.dtype)}
    np.savez(tmp_path / "given.npz", **arrays)  # type: ignore[arg-type]
    subprocess.run([sys.executable, "-c", ELSEWHERE, backend], cwd=tmp_path, check=True)
    made = np.load(tmp_path / "made.npz")[output.name]
    (want,) = Executable(plan, kernels=kernels)(image).values()
    np.testing.assert_array_equal(made, want)


@pytest.mark.parametrize("backend", BACKENDS)
def test_programs_of_a_plan_are_equal(tmp_path: Path, backend: str) -> None:
    """Instructions and tables are plain values, equal and hashable; reading gives what was written."""
    kernels = load_backend(backend)
    plan = csdfgen.plan(csdfgen.load("zoo:resnet8"), backend=backend)
    one, two = lower(plan, kernels), lower(plan, kernels, Constants(plan.pools))
    assert lower(plan, kernels) is one  # of a plan that exists
    assert one.instructions == two.instructions and one.code == two.code
    assert len(set(one.instructions)) == len(one.instructions)
    assert one.constants.tables == two.constants.tables
    write_program(tmp_path / "one", StoredProgram.of(one))
    read = read_program(tmp_path / "one")
    assert read.instructions == one.instructions and read.pools == one.pools
    assert [bytes(b.values) for b in read.constants.blocks] == [
        bytes(b.values) for b in one.constants.blocks
    ]


def test_a_file_that_is_no_program_is_refused(tmp_path: Path) -> None:
    plan = csdfgen.plan(csdfgen.load("zoo:lenet5"), backend="numpy")
    write_program(tmp_path / "good", StoredProgram.of(lower(plan, NUMPY)))
    whole = (tmp_path / "good").read_bytes()
    for number, damaged in enumerate((b"", b"PK", whole[: len(whole) // 2], b"{}")):
        path = tmp_path / str(number)
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="no program of csdfgen"):
            read_program(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_program(tmp_path / "absent")


# Memory that numpy does not see ------------------------------------------------------------------


def same_as_numpy(sample: Sample, kernels: Backend) -> None:
    layer, feeds = sample.layer(), sample.feeds()
    height = heights(layer)[-1]
    want = run_scattered(layer, feeds, height, Layout(), None, None, NUMPY)
    for got, expected in zip(
        run_scattered(layer, feeds, height, Layout(), None, None, kernels), want, strict=True
    ):
        np.testing.assert_array_equal(got, expected)


def test_every_operator_runs_in_memory_elsewhere(remote: RemoteBackend) -> None:
    """One sample in four, and the first of every operator."""
    first = {sample.op_type: sample for sample in reversed(SAMPLES)}
    for number, sample in enumerate(SAMPLES):
        if not number % 4 or sample is first[sample.op_type]:
            same_as_numpy(sample, remote)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_run_in_memory_elsewhere(name: str, remote: RemoteBackend) -> None:
    network = csdfgen.load(f"zoo:{name}")
    plan = csdfgen.plan(network, backend="numpy")
    shape = network.whole_shape(network.inputs[0])
    x = np.random.default_rng(1).uniform(0, 1, shape).astype(network.inputs[0].dtype)
    want = Executable(plan)(x)
    frame = Executable(plan, kernels=remote, taps=[plan.network.layers[0].output.name])
    for output, got in frame(x).items():
        np.testing.assert_array_equal(got, want[output])
    rows: list[int] = []
    frame(x, on_rows=lambda _output, _image, start, stop, _rows: rows.append(stop - start))
    assert sum(rows) == sum(o.tensor.rows for o in network.outputs if o.tensor is not None)
    assert frame.measure(x)[1].touched_bytes == plan.planned_bytes
