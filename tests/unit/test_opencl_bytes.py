"""Convolutions of bytes on devices: numpy's bytes, with dot products of four bytes and without, and by fewer products."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import csdfgen
import runtime
from csdfgen.backends.device.backend import DeviceKernels
from csdfgen.backends.device.shapes import Blocks
from csdfgen.backends.opencl.devices import choose_device
from csdfgen.backends.opencl.driver import OpenCL
from csdfgen.lowering.program import lower
from csdfgen.model.network import Network
from runtime.session import Executable
from tests.networks import planned_together
from tests.opencl_device import device_missing
from tests.unit.test_byte_winograd import FEWER, random_layer
from tests.unit.test_native_bytes import Case
from tests.ways import some

pytestmark = pytest.mark.skipif(bool(device_missing()), reason=device_missing() or "-")

EXTENSION = "cl_khr_integer_dot_product"

DOT = f"""
#define {EXTENSION} 1
static int dot_4x8packed_ss_int(uint a, uint b)
{{
    const int4 products = convert_int4(as_char4(a)) * convert_int4(as_char4(b));
    return RESULT;
}}
"""
RIGHT, WRONG = "products.x + products.y + products.z + products.w", "products.x"

BLOCKS = {"as the device has them": "", "of a GPU": "4x4x1/16x4", "small": "1x2x1/1x1"}


class WithDots(OpenCL):
    """A device with the extension, whose function is this one."""

    def __init__(self, result: str) -> None:
        found = choose_device()
        self._text = DOT.replace("RESULT", result)
        name = f"{found.name} {result}"  # binaries are kept by it
        super().__init__(replace(found, name=name, extensions=found.extensions | {EXTENSION}))

    def _compiled(self, text: str) -> tuple[Any, bytes]:
        return super()._compiled(self._text + text)


@cache
def kernels_of(blocks: str = "", dots: str = "") -> DeviceKernels:
    """blocks: a word, "" for those of the device. dots: what the dot product gives, "" where there is none."""
    with pytest.MonkeyPatch.context() as patch:
        if blocks:
            patch.setattr(Blocks, "of", classmethod(lambda cls, *_: cls.read(blocks)))
        driver = WithDots(dots) if dots else OpenCL(choose_device())
    return DeviceKernels(driver, "OpenCL")


def computed(
    network: Network, x: np.ndarray, kernels: DeviceKernels, rows: object, **options: Any
) -> tuple[np.ndarray, set[str]]:
    """The output, and the kernels that made it."""
    plan = csdfgen.plan(network, rows=rows, kernels=kernels, backend="opencl", **options)
    made = {one.kernel for one in lower(plan, kernels).instructions}
    return np.array(Executable(plan, kernels=kernels)({"x": x})["y"]), made


def right(network: Network, x: np.ndarray, **options: Any) -> np.ndarray:
    return runtime.compile(csdfgen.plan(network, backend="numpy", **options))({"x": x})["y"]


LAYERS = {
    "few channels": (5, 9, 1, 3, 1, 1),
    "two groups, stride": (8, 12, 2, 3, 2, 1),
    "groups of three": (6, 12, 2, 3, 1, 1),
    "one pixel": (17, 33, 1, 1, 1, 0),
    "odd channels": (35, 40, 1, 3, 1, 1),
    "many": (64, 20, 1, 5, 1, 2),
}
"""Name -> input, output channels, groups, kernel, stride, padding."""


def layer(name: str, types: str, zero: int) -> tuple[onnx.ModelProto, np.ndarray]:
    """ConvInteger. zero: of the weights."""
    ins, outs, group, kernel, stride, pad = LAYERS[name]
    of_x, of_weights = types.split()
    case, side = Case(), 11
    x = case.bytes_of(of_x, (1, ins, side, side))
    operands = [
        "x", case.constant(case.bytes_of(of_weights, (outs, ins // group, kernel, kernel))),
        case.constant(np.array(7, of_x)), case.constant(np.full(outs, zero, of_weights)),
    ]  # fmt: skip
    settings = {"group": group, "strides": [stride] * 2, "pads": [pad] * 4}
    node = helper.make_node("ConvInteger", operands, ["y"], kernel_shape=[kernel] * 2, **settings)
    made = (side + 2 * pad - kernel) // stride + 1
    return case.model(node, (of_x, x.shape), ("int32", (1, outs, made, made))), x


@pytest.mark.networks
@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("dots", ["", RIGHT], ids=["in plain code", "dot products"])
def test_all_products(dots: str, blocks: str) -> None:
    kernels = kernels_of(BLOCKS[blocks], dots)
    for number, name in enumerate(LAYERS):
        types = ("int8 int8", "uint8 int8", "int8 uint8", "uint8 uint8")[number % 4]
        model, x = layer(name, types, (0, 90)[number % 2])
        network = csdfgen.load(model)
        for rows in (1, "whole"):
            found, made = computed(network, x, kernels, rows)
            assert made >= {"conv_bytes_of"} and FEWER not in made
            np.testing.assert_array_equal(found, right(network, x), err_msg=f"{name}, {rows}")


def test_dot_products_are_those_of_the_device() -> None:
    """Wrong ones are seen: by the layers whose inputs come in fours."""
    model, x = layer("many", "int8 int8", 0)
    network = csdfgen.load(model)
    found, _ = computed(network, x, kernels_of("", WRONG), "whole")
    assert np.mean(found != right(network, x)) > 0.9


@pytest.mark.parametrize(
    ("blocks", "seeds"),
    [
        *((blocks, range(2)) for blocks in BLOCKS),
        pytest.param("as the device has them", range(2, some(60, 200)), marks=pytest.mark.networks),
    ],
)
def test_fewer_products(blocks: str, seeds: range) -> None:
    """The bytes of all products, which a device with dot products computes."""
    kernels, direct, used = kernels_of(BLOCKS[blocks]), kernels_of("", RIGHT), 0
    for seed in seeds:
        model, x = random_layer(seed)
        network = csdfgen.load(model)
        want, made = computed(network, x, direct, "whole")
        assert FEWER not in made
        np.testing.assert_array_equal(want, right(network, x))
        for rows in (4, "whole"):
            found, made = computed(network, x, kernels, rows)
            np.testing.assert_array_equal(found, want, err_msg=f"{seed}, {rows}")
            used += FEWER in made
    assert used >= len(seeds)


@pytest.mark.parametrize("blocks", BLOCKS)
def test_fewer_products_of_several_images_and_of_several_tensors(blocks: str) -> None:
    kernels = kernels_of(BLOCKS[blocks])
    model, x = random_layer(3)
    network = csdfgen.load(model, batch=3)
    (one,) = network.layers
    together = planned_together(network, 2, {one.name: 3}, 3, backend="opencl")
    assert FEWER in {each.kernel for each in lower(together, kernels).instructions}
    images = [np.roll(x, k, -1) for k in range(3)]
    found = Executable(together, kernels=kernels)({"x": np.concatenate(images)})["y"]
    want = np.concatenate([right(csdfgen.load(model), image) for image in images])
    np.testing.assert_array_equal(found, want)
    model, x = random_layer(4)
    (conv,) = model.graph.node
    sizes = [5, 8, x.shape[1] - 13]  # one begins with an odd channel
    split = helper.make_node("Split", ["x", "sizes"], [f"p{k}" for k in range(3)], axis=1)
    joined = helper.make_node("Concat", ["p2", "p0", "p1"], ["joined"], axis=1)
    conv.input[0] = "joined"
    del model.graph.node[:]
    model.graph.node.extend([split, joined, conv])
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(sizes), "sizes"))
    network = csdfgen.load(model)
    for rows in (1, "whole"):
        found, _ = computed(network, x, kernels, rows)
        np.testing.assert_array_equal(found, right(network, x))


def test_bytes_by_integers_alone() -> None:
    model, x = random_layer(5)
    network = csdfgen.load(model)
    want = right(network, x, requantize="integer")
    for kernels in (kernels_of(), kernels_of("", RIGHT)):
        found, _ = computed(network, x, kernels, "whole", requantize="integer")
        np.testing.assert_array_equal(found, want)
