"""Layers of bytes on microcontrollers, as qemu has them: the bytes of numpy's integers, whatever the shapes, steps, zero points
and types.

Where a compiler or an emulator is absent, tests are skipped and say which.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import csdfgen
import runtime
from csdfgen.emission.targets import TARGETS
from tests.board_networks import absent
from tests.builder import Graph
from tests.emitted import Program
from tests.native_steps import compiler_missing

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

SIDE = 17, 15

M4 = "-mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mthumb -mfloat-abi=hard -DCSDF_SCALAR"
"""A processor with the products of pairs, but without the M7's instructions for floats. qemu's M7 executes it."""

MACHINES = {"m4": ("cortex-m7", M4), "m7": ("cortex-m7", None), "m55": ("cortex-m55", None)}

WINDOWS = (
    (1, 1, 1, 0),
    (1, 2, 1, 0),
    (1, 1, 1, 1),
    (3, 1, 1, 1),
    (3, 2, 1, 1),
    (3, 1, 2, 2),
    (5, 1, 1, 2),
    (2, 2, 1, 0),
    (9, 1, 1, 4),
)
"""Kernel, stride, dilation, padding."""


class Chain(Graph):
    """Layers of bytes, each of which reads the one before; all of them are outputs."""

    def __init__(self, seed: int, dtype: str) -> None:
        super().__init__(seed)
        self.dtype = dtype
        self.size = SIDE

    def number(self) -> list[str]:
        """A scale and a zero point."""
        info = np.iinfo(self.dtype)
        zero = self.rng.integers(info.min, info.max + 1) if self.rng.random() < 0.5 else info.min
        return [self.constant(np.float32(0.02)), self.constant(np.array(zero, self.dtype))]

    def keep(self, name: str, channels: int) -> str:
        """A tensor that is an output too."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        self.outputs.append(helper.make_tensor_value_info(name, kind, (1, channels, *self.size)))
        return name

    def window(self, first: int) -> tuple[int, int, int, int]:
        """One of the windows, that leaves some pixels."""
        some = [one for one in WINDOWS[first:] if one[1] == 1 or min(self.size) > 7]
        return some[self.rng.integers(len(some))]

    def convolve(
        self, x: str, outs: int, group: int, window: tuple[int, int, int, int], zero: list[str]
    ) -> tuple[str, list[str]]:
        """A convolution whose outputs fill a byte, with a scale of weights of each channel. zero: of x."""
        kernel, stride, dilation, pad = window
        ins = self.channels[x] // group
        reach = dilation * (kernel - 1) + 1
        self.size = tuple((side + 2 * pad - reach) // stride + 1 for side in self.size)  # type: ignore[assignment]
        weights = self.rng.integers(-128, 128, (outs, ins, kernel, kernel)).astype(np.int8)
        spread = np.float32(0.02 / 40 * 5000 * np.sqrt(ins * kernel * kernel))
        made = self.number()
        y = self.node(
            "QLinearConv",
            *(x, *zero, self.constant(weights)),
            self.constant(self.rng.uniform(0.3, 1.7, outs).astype(np.float32) * 0.02 / spread),
            self.constant(np.zeros(outs, np.int8)),
            *made,
            self.constant(self.rng.integers(-9999, 9999, outs).astype(np.int32)),
            channels=outs,
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            dilations=[dilation] * 2,
            pads=[pad] * 4,
            group=group,
        )
        return self.keep(y, outs), made


def chain(seed: int, dtype: str) -> onnx.ModelProto:
    """Convolutions of two kinds in turn, with any numbers of channels; a sum, a pool."""
    g = Chain(seed, dtype)
    channels = int(g.rng.choice([1, 3, 5]))
    x, zero = g.input("x", (1, channels, *SIDE), dtype), g.number()
    for turn in range(6):
        outs = int(g.rng.choice([8, 16, 24, 64]) if turn % 2 else g.rng.integers(1, 40))
        x, zero = g.convolve(x, outs, 1, g.window(0), zero)
        x, zero = g.convolve(x, outs, outs, g.window(3), zero)
    operands = [x, *zero, x, g.constant(np.float32(0.0137)), zero[1], *g.number()]
    x = g.keep(g.node("QLinearAdd", *operands, domain="com.microsoft"), g.channels[x])
    sides: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1]}
    x = g.keep(g.node("MaxPool", x, **sides), g.channels[x])
    channels, g.size = g.channels[x], (1, 1)
    x = g.node("QLinearGlobalAveragePool", x, *operands[6:], *zero, domain="com.microsoft")
    g.keep(x, channels)
    graph = helper.make_graph(g.nodes, "chain", g.inputs, g.outputs, g.weights)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


@pytest.mark.parametrize("rows", [1, "whole"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("machine", MACHINES)
def test_layers_of_bytes(machine: str, dtype: str, rows: int | str, tmp_path: Path) -> None:
    target, flags = MACHINES[machine]
    absent(TARGETS[target].compiler, "qemu-system-arm", "make")
    for seed in range(2):
        network = csdfgen.load(chain(seed if rows == 1 else seed + 2, dtype))
        (tensor,) = network.inputs
        info = np.iinfo(dtype)
        x = np.random.default_rng(seed).integers(info.min, info.max + 1, tensor.shape).astype(dtype)
        want = runtime.compile(csdfgen.plan(network, rows="whole", backend="numpy"))({"x": x})
        plan = csdfgen.plan(network, rows=rows, backend="native")
        linked = [f"TARGET={flags}"] if flags else []
        program = Program(plan, tmp_path / str(seed), target=target, machine=flags, linked=linked)
        found = program({"x": x})
        assert sum(len(np.unique(array)) for array in want.values()) > 400
        for name, array in want.items():
            np.testing.assert_array_equal(found[name], array, err_msg=f"{seed} {name}")
