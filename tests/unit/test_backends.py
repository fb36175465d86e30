"""The seam between plans and kernels holds: a second backend runs the same plans, with its own
workspace, and for both of them the rows of a tensor may lie anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import csdfgen
from csdfgen.backends.numpy.backend import NUMPY, NumpyKernels
from csdfgen.errors import CapacityExceededError, PlanError
from csdfgen.lowering.program import lower
from csdfgen.model.options import PlanOptions
from csdfgen.ops import get_operator
from csdfgen.ops.base import Mode
from csdfgen.planning.buffers import ARENA, Buffer, workspace_buffer
from csdfgen.planning.checker import check
from csdfgen.planning.placement import Region
from csdfgen.planning.plan import Addresses, Plan
from csdfgen.planning.planner import assemble, plan_fixed_heights
from csdfgen.program.steps import ALIGNMENT, Backend, Scratchpad, Step
from runtime.session import Executable
from tests.builder import Graph, reference
from tests.python_backend import PYTHON
from tests.small_models import residual_classifier, squeeze_and_excite, two_inputs

Feeds = dict[str, np.ndarray]
Made = tuple[onnx.ModelProto, Feeds]

BACKENDS = (NUMPY, PYTHON)

# Networks ----------------------------------------------------------------------------------------


def windows() -> Made:
    """Groups, strides, dilations, uneven pads, both averages, a maximum, rows joined by channels."""
    graph = Graph()
    x = graph.input("x", (1, 4, 11, 9))
    a = graph.conv(x, 4, group=2, strides=[2, 1], pads=[1, 0, 2, 1], dilations=[1, 2])
    a = graph.node("LeakyRelu", graph.batch_normalization(a), alpha=0.1)
    shape: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    pools = [
        graph.node("AveragePool", a, count_include_pad=1, **shape),
        graph.node("AveragePool", a, **shape),
        graph.node("MaxPool", a, **shape),
    ]
    joined = graph.node("Concat", *pools, axis=1, channels=12)
    low, high = (graph.constant(np.float32(v)) for v in (-0.4, 0.6))
    clipped = graph.node("Clip", joined, low, high)
    scaled = graph.node("Mul", clipped, graph.per_channel(clipped))
    return graph.model(graph.conv(scaled, 3, bias=False, dilations=[2, 2])), graph.feeds()


def scores() -> Made:
    """A fully connected layer of a map (accumulating where it is fused), and a Softmax of it."""
    graph = Graph()
    x = graph.node("Relu", graph.conv(graph.input("x", (1, 2, 6, 5)), 3))
    weights = graph.constant(graph.rng.normal(0, 0.2, (4, 90)).astype(np.float32))
    bias = graph.constant(graph.rng.normal(0, 0.2, 4).astype(np.float32))
    flat = graph.node("Flatten", x)
    y = graph.node("Gemm", flat, weights, bias, transB=1, alpha=0.5, beta=2.0)
    return graph.model(graph.node("Softmax", y, axis=-1)), graph.feeds()


def means() -> Made:
    """A Softmax over channels, rows kept by one Reshape and mixed by another, a mean of each map."""
    graph = Graph()
    x = graph.conv(graph.input("x", (1, 2, 6, 5)), 4)
    y = graph.node("Softmax", x, axis=1)
    pairs = graph.node("Reshape", y, graph.constant(np.array([1, 2, 2, 6, 5])))
    maps = graph.node("Reshape", graph.node("Relu", pairs), graph.constant(np.array([1, 4, 6, 5])))
    mean = graph.node("GlobalAveragePool", graph.node("Add", maps, y))
    mixed = graph.node("Reshape", y, graph.constant(np.array([3, 40])))
    return graph.model(mean, mixed), graph.feeds()


def whole_window() -> Made:
    """A convolution and a pool that sum over all rows of their inputs."""
    graph = Graph()
    x = graph.input("x", (1, 2, 5, 5))
    fully = graph.conv(x, 3, kernel=5, pads=[0] * 4)
    pool = graph.node("MaxPool", x, kernel_shape=[5, 2])
    return graph.model(graph.node("Relu", fully), pool), graph.feeds()


def rows_joined() -> Made:
    """Maps joined below each other, and an operand that every row reads."""
    graph = Graph()
    x = graph.input("x", (1, 2, 5, 4))
    joined = graph.node("Concat", x, graph.conv(x, 2), axis=2)
    gate = graph.node("GlobalAveragePool", x)
    return graph.model(graph.conv(graph.node("Mul", joined, gate), 2)), graph.feeds()


def residual() -> Made:
    return residual_classifier(8, 6, 3), _image("x", (1, 3, 8, 6))


def two() -> Made:
    return two_inputs(), _image("left", (1, 2, 6, 5)) | _image("right", (1, 2, 6, 5))


def _image(name: str, shape: tuple[int, ...]) -> Feeds:
    rng = np.random.default_rng(len(name))
    return {name: rng.uniform(-1, 1, shape).astype(np.float32)}


NETWORKS = (windows, scores, means, whole_window, rows_joined, residual, two)
networks = pytest.mark.parametrize("make", NETWORKS, ids=lambda make: make.__name__)
heights = pytest.mark.parametrize("rows", [1, 2, "auto", "whole"])
levels = pytest.mark.parametrize("fuse", ["none", "full"])


def equal(got: Feeds, want: Feeds) -> None:
    assert got.keys() == want.keys()
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-5, err_msg=name)


# Rows anywhere -----------------------------------------------------------------------------------


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class _Scattering:
    """Blocks of a pool handed out in random order, with gaps."""

    def __init__(self, end: int, seed: int) -> None:
        self.end, self._rng = _aligned(end), np.random.default_rng(seed)

    def slots(self, count: int, size: int) -> list[int]:
        found = []
        for gap in self._rng.integers(0, 3, count).tolist():
            self.end += gap * ALIGNMENT
            found.append(self.end)
            self.end += _aligned(size)
        return [found[i] for i in self._rng.permutation(count)]

    def region(self, buffer: Buffer, region: Region, recycled: bool) -> Region:
        """The rows of a tensor in slots of their own, or in as many as the rolling buffer has."""
        count = region.capacity if recycled else buffer.rows
        slots = self.slots(count, buffer.row_bytes)
        table = tuple(slots[row % count] for row in range(buffer.rows))
        return replace(region, table=table)


def scattered(plan: Plan, kernels: Backend, recycled: bool, seed: int = 0) -> Plan:
    """The plan with the rows of all its tensors anywhere in a larger pool, and workspace for it."""
    places = _Scattering(plan.planned_bytes, seed)
    rolling = {one.name: plan.regions[one.name] for one in plan.rolling}
    for one in plan.rolling:
        if one.kind == "tensor":
            rolling[one.name] = places.region(one, rolling[one.name], recycled)
    addresses = Addresses(plan.sharing, rolling)
    buffers, regions = list(plan.rolling), dict(rolling)
    for work in plan.conversion.actors:
        if work.layer is None or work.name in plan.sharing.silent:
            continue
        steps = [
            addresses.step(work, number, 0, Scratchpad("", 0, 0))
            for number in range(len(work.phases))
        ]
        wanted = [kernels.workspace(step) for step in steps]
        if any(wanted):
            buffer = workspace_buffer(work.name, wanted)
            slots = places.slots(len(wanted), buffer.row_bytes)
            buffers.append(buffer)
            regions[buffer.name] = Region(buffer.name, buffer.row_bytes, 1, tuple(slots))
    return assemble(
        replace(
            plan,
            buffers=tuple(buffers),
            regions=MappingProxyType(regions),
            pools=MappingProxyType({ARENA: places.end}),
        ),
        plan.figures["lower_bound"],
    )


def _as_planned(plan: Plan, kernels: Backend) -> Plan:
    return plan


Place = Callable[[Plan, Backend], Plan]
anywhere = pytest.mark.parametrize(
    "place",
    [_as_planned, partial(scattered, recycled=False), partial(scattered, recycled=True)],
    ids=["planned", "scattered", "recycled"],
)


# Two backends, one kind of plan ------------------------------------------------------------------


@networks
@heights
@levels
@anywhere
def test_both_backends(make: Callable[[], Made], rows: int | str, fuse: str, place: Place) -> None:
    model, x = make()
    network, want = csdfgen.load(model), reference(model, x)
    for kernels in BACKENDS:
        plan = place(
            plan_fixed_heights(network, PlanOptions(rows=str(rows), fuse=fuse), kernels), kernels
        )
        equal(Executable(plan, kernels=kernels)(x), want)


@networks
@heights
def test_no_backend_touches_more_than_is_planned(make: Callable[[], Made], rows: int | str) -> None:
    model, x = make()
    for kernels in BACKENDS:
        plan = plan_fixed_heights(csdfgen.load(model), PlanOptions(rows=str(rows)), kernels)
        _, measured = Executable(plan, kernels=kernels).measure(x)
        assert measured.touched_bytes <= plan.planned_bytes


@pytest.mark.parametrize("rows", [1, 3, "whole"])
@anywhere
def test_sums_of_float16_are_held_apart_by_both(rows: int | str, place: Place) -> None:
    values = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT16, shape)
        for name, shape in (("x", (1, 3, 7, 5)), ("mean", (1, 3, 1, 1)))
    ]
    node = helper.make_node("GlobalAveragePool", ["x"], ["mean"])
    graph = helper.make_graph([node], "half", values[:1], values[1:])
    network = csdfgen.load(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    )
    x = _image("x", (1, 3, 7, 5))["x"].astype(np.float16)
    want = x.astype(np.float64).mean((2, 3), keepdims=True)
    for kernels in BACKENDS:
        plan = place(plan_fixed_heights(network, PlanOptions(rows=str(rows)), kernels), kernels)
        steps = [one for one in lower(plan, kernels).firings if isinstance(one, Step)]
        assert all(one.states[0].format.dtype == "float32" for one in steps)
        got = Executable(plan, kernels=kernels)(x)["mean"]
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("frames", [1, 2])
@anywhere
def test_images_of_an_iteration(frames: int, place: Place) -> None:
    model = residual_classifier(8, 6, 3, batch=2)
    x = _image("x", (2, 3, 8, 6))
    network, want = csdfgen.load(model), reference(model, x)
    for kernels in BACKENDS:
        plan = place(plan_fixed_heights(network, PlanOptions(frames=frames), kernels), kernels)
        equal(Executable(plan, kernels=kernels)(x), want)


def test_the_networks_have_every_operator_and_every_mode() -> None:
    """That what is run above reaches all of the second backend."""
    from tests.python_backend import _KERNELS

    seen: set[tuple[str, Mode]] = set()
    for make in NETWORKS:
        for fuse in ("none", "full"):
            network = csdfgen.load(make()[0])
            plan = plan_fixed_heights(network, PlanOptions(rows="1", fuse=fuse), PYTHON)
            for step in lower(plan, PYTHON).firings:
                if isinstance(step, Step):
                    for one in (step.layer, *step.layer.epilogue):
                        seen.add((one.op_type, get_operator(one).mode(one)))
    assert {name for name, _ in seen} == set(_KERNELS)
    accumulating = {name for name, mode in seen if mode is Mode.ACCUMULATE}
    assert accumulating >= {"Conv", "Flatten", "Gemm", "GlobalAveragePool", "MaxPool", "Reshape"}


# What does not fit is refused --------------------------------------------------------------------


@pytest.mark.parametrize(("planned", "run"), [(NUMPY, PYTHON), (PYTHON, NUMPY)])
def test_a_plan_with_less_workspace_is_refused(planned: Backend, run: Backend) -> None:
    network = csdfgen.load((scores if planned is PYTHON else one_row_softmax)()[0])
    plan = plan_fixed_heights(network, PlanOptions(rows="1"), planned)
    with pytest.raises(PlanError, match=r"^firing \d+ \(.*needs \d+ bytes of workspace") as caught:
        Executable(plan, kernels=run)
    assert "\n" not in str(caught.value)


def one_row_softmax() -> Made:
    """Of which numpy takes one float a row, and the second backend a double an element."""
    graph = Graph()
    x = graph.input("x", (1, 64))
    return graph.model(graph.node("Softmax", x, axis=-1)), graph.feeds()


def test_a_layer_that_a_backend_cannot_compute_is_named() -> None:
    network = csdfgen.load(squeeze_and_excite())
    plan = csdfgen.plan(network)
    with pytest.raises(
        PlanError, match=r"'excite\S*': backend 'python': Sigmoid is none of"
    ) as caught:
        Executable(plan, kernels=PYTHON)
    assert "\n" not in str(caught.value)


class Lines(NumpyKernels):
    """Numpy in a memory whose blocks start at lines of 64 bytes."""

    def alignment(self, pool: str) -> int:
        return 64


@pytest.mark.parametrize("result", ["stored", "arena"])
def test_blocks_are_aligned_as_the_backend_wants(result: str) -> None:
    network = csdfgen.load(squeeze_and_excite())
    plan = plan_fixed_heights(network, PlanOptions(rows="1", result=result), Lines())
    starts = [
        at
        for buffer in plan.buffers
        for row in ((0,) if buffer.kept else buffer.blocks or (0,))
        for at in plan.regions[buffer.name].table[row : row + 1]
    ]
    assert len(starts) > 10 and not any(at % 64 for at in starts)
    plain = plan_fixed_heights(network, PlanOptions(rows="1", result=result), NUMPY)
    with pytest.raises(PlanError, match=r"starts at byte .*, which is no multiple of 64"):
        check(replace(plan, regions=plain.regions, pools=plain.pools))


@pytest.mark.parametrize("kernels", BACKENDS, ids=lambda kernels: kernels.name)
def test_scattered_rows_that_overlap_are_refused(kernels: Backend) -> None:
    network = csdfgen.load(two()[0])
    plan = plan_fixed_heights(network, PlanOptions(rows="1"), kernels)
    moved = scattered(plan, kernels, recycled=False)
    name = moved.rolling[0].name
    region = moved.regions[name]
    table = (region.table[1], *region.table[1:])
    regions = {**moved.regions, name: replace(region, table=table)}
    assert region.capacity > 1, "rows 0 and 1 are alive at the same time"
    with pytest.raises(CapacityExceededError, match=f"row 1 of buffer '{name}' over row 0"):
        assemble(replace(moved, regions=MappingProxyType(regions)), 0)


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize(
    ("shape", "made"),
    [
        ((3, 9, 3, 6), (6, 81)),
        ((1, 4, 3, 6), (12, 6)),
        ((2, 4, 3, 6), (8, 18)),
        ((2, 3, 4), (4, 6)),
    ],
)
def test_rows_that_become_lines_of_a_part_of_a_concat(
    shape: tuple[int, ...], made: tuple[int, ...], backend: str
) -> None:
    g = Graph()
    size = g.constant(np.array(made, np.int64))
    lines = g.node("Reshape", g.node("Relu", g.input("x", shape)), size)
    model = g.model(g.node("Neg", g.node("Concat", lines, lines, axis=1)), checked=False)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    (found,) = csdfgen.run(csdfgen.plan(csdfgen.load(model), backend=backend), {"x": x}).values()
    line = np.maximum(x, 0).reshape(made)
    np.testing.assert_array_equal(found, -np.concatenate([line, line], 1))
