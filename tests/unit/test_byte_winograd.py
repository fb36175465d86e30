"""Convolutions of bytes by fewer products: numpy's bytes, whatever the processor, the layer and its slabs; and where they are
chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import helper

import csdfgen
import runtime
from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.native.library import load
from csdfgen.backends.native.packing import winograd_byte_weights
from csdfgen.backends.native.ways import TILES, Choice, Variant, Ways
from csdfgen.lowering.program import lower
from csdfgen.model.network import Network
from csdfgen.paper.formulas.winograd import F2_WHOLE, transform_tiles
from csdfgen.planning.plan import Plan
from runtime.session import Executable
from tests.native_steps import MACHINES, compiler_missing, on_each_machine
from tests.networks import planned_together
from tests.unit.test_native_bytes import Case
from tests.ways import some

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

FEWER = "byte_winograd_of"


@dataclass(frozen=True, slots=True)
class AtPoints(Ways):
    """Ways whose layers all have weights at points."""

    def of(self, layer: str) -> Choice:
        return Choice(heights=(1,), variants=(Variant(TILES, 2, True),))


def kernels_of(machine: str) -> NativeKernels:
    """Those that may compute by fewer products, whether that suits the processor or not."""
    library = load(MACHINES[machine])
    return NativeKernels(library, ways=AtPoints(pairs=True))


def random_layer(seed: int) -> tuple[onnx.ModelProto, np.ndarray]:
    """A QLinearConv of 3x3 and its input."""
    case = Case(seed)
    rng = case.rng
    of_x, of_y = map(str, rng.choice(["int8", "uint8"], 2))
    ins, outs = int(rng.integers(16, 100)), int(rng.integers(16, 70))
    high, wide = (int(n) for n in rng.integers(8, 18, 2))
    pads = [int(n) for n in rng.integers(0, 2, 4)]
    return layer_of(case, (of_x, of_y), (ins, outs), (high, wide), pads)


def layer_of(
    case: Case,
    types: tuple[str, str],
    channels: tuple[int, int],
    size: tuple[int, int],
    pads: Sequence[int],
) -> tuple[onnx.ModelProto, np.ndarray]:
    """The same of such sizes."""
    (of_x, of_y), (ins, outs), (high, wide), rng = types, channels, size, case.rng
    x = case.bytes_of(of_x, (1, ins, high, wide))
    inputs = [
        "x", case.scale(0.02), case.constant(case.bytes_of(of_x, ())),
        case.constant(case.bytes_of("int8", (outs, ins, 3, 3))),
        case.constant(rng.uniform(0.01, 0.02, outs).astype(np.float32)), case.constant(np.zeros(outs, np.int8)),
        case.scale(3.0), case.constant(case.bytes_of(of_y, ())),
        case.constant(rng.integers(-90_000, 90_000, outs).astype(np.int32)),
    ]  # fmt: skip
    node = helper.make_node("QLinearConv", inputs, ["y"], kernel_shape=[3, 3], pads=pads)
    shape = 1, outs, high + pads[0] + pads[2] - 2, wide + pads[1] + pads[3] - 2
    return case.model(node, (of_x, x.shape), (of_y, shape)), x


def kernels_in(plan: Plan, kernels: NativeKernels) -> set[str]:
    return {one.kernel for one in lower(plan, kernels).instructions}


def check(
    network: Network, x: np.ndarray, kernels: NativeKernels, heights: Sequence[object]
) -> bool:
    """The bytes are numpy's at these heights; whether fewer products were used."""
    want = runtime.compile(csdfgen.plan(network, backend="numpy"))({"x": x})["y"]
    used = False
    for rows in heights:
        plan = csdfgen.plan(network, rows=rows, backend="native")
        used |= FEWER in kernels_in(plan, kernels)
        for threads in (1, 2):
            found = Executable(plan, kernels=kernels, threads=threads)({"x": x})["y"]
            np.testing.assert_array_equal(found, want, err_msg=f"{rows}, {threads} threads")
    return used


@on_each_machine
@pytest.mark.parametrize(
    "seeds", [range(12), pytest.param(range(12, some(30, 60)), marks=pytest.mark.networks)]
)
def test_random_layers(seeds: range, machine: str) -> None:
    kernels = kernels_of(machine)
    used = 0
    for seed in seeds:
        model, x = random_layer(seed)
        used += check(csdfgen.load(model), x, kernels, (1, 3, "whole"))
    assert used > 0.9 * len(seeds)


@on_each_machine
def test_several_images_in_a_step(machine: str) -> None:
    """One behind the other in its tables."""
    kernels = kernels_of(machine)
    model, x = random_layer(3)
    network = csdfgen.load(model, batch=3)
    (layer,) = network.layers
    together = planned_together(network, 2, {layer.name: 3}, 3, backend="native")
    assert FEWER in kernels_in(together, kernels)
    alone = runtime.compile(csdfgen.plan(csdfgen.load(model), backend="numpy"))
    images = [np.roll(x, k, -1) for k in range(3)]
    found = Executable(together, kernels=kernels)({"x": np.concatenate(images)})["y"]
    np.testing.assert_array_equal(found, np.concatenate([alone({"x": one})["y"] for one in images]))


@on_each_machine
def test_channels_of_two_tensors(machine: str) -> None:
    kernels = kernels_of(machine)
    model, x = random_layer(4)
    (conv,) = model.graph.node
    parts = [f"p{k}" for k in range(2)]
    split = helper.make_node("Split", ["x"], parts, axis=1, num_outputs=2)
    joined = helper.make_node("Concat", parts[::-1], ["joined"], axis=1)
    conv.input[0] = "joined"
    del model.graph.node[:]
    model.graph.node.extend([split, joined, conv])
    model.opset_import[0].version = 18
    assert check(csdfgen.load(model), x, kernels, (1, 3, "whole"))


def test_points_of_weights_are_those_of_the_reference() -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(-128, 128, (20, 5, 3, 3)).astype(np.int8)
    packed = winograd_byte_weights(weights)
    assert packed.dtype == np.int16 and packed.shape == (2, 16, 3, 16, 2)
    points = transform_tiles(
        F2_WHOLE.weights, weights.astype(np.int16).transpose(2, 3, 0, 1)
    ).reshape(16, 20, 5)
    assert np.array_equal(packed[1, :, 1, 3, 1], points[:, 19, 3])
    assert not packed[1, :, :, 4:].any() and not packed[:, :, 2, :, 1].any()


def test_where_they_are_chosen() -> None:
    """Where they suit the processor, never in C for others, and in plans that are the same."""
    model, _ = random_layer(1)
    network, library = csdfgen.load(model), load()
    plans = []
    for pairs in (False, True):
        kernels = NativeKernels(library, ways=AtPoints(pairs=pairs))
        plan = csdfgen.plan(network, rows="whole", kernels=kernels, backend="native")
        plans.append(plan.planned_bytes)
        assert (FEWER in kernels_in(plan, kernels)) == pairs
        assert FEWER not in kernels_in(plan, kernels.anywhere())
    assert plans[0] == plans[1]
    assert load(MACHINES["scalar"]).pairs_suit


def test_sums_that_may_be_too_large_are_left_to_all_products() -> None:
    case = Case()
    ins = 40
    weights = case.constant(np.full((16, ins, 3, 3), -128, np.int8))
    large = case.constant(np.full(16, 2**29, np.int32))
    zero, one = case.constant(np.zeros((), np.int8)), case.scale(1.0)
    inputs = ["x", one, zero, weights, one, zero, case.scale(1e7), zero, large]
    node = helper.make_node("QLinearConv", inputs, ["y"], pads=[1] * 4)
    x = case.bytes_of("int8", (1, ins, 8, 8))
    network = csdfgen.load(case.model(node, ("int8", x.shape), ("int8", (1, 16, 8, 8))))
    assert not check(network, x, kernels_of("host"), ("whole",))
