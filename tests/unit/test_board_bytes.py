"""Layers and networks of bytes on microcontrollers, as qemu has them, on x86-64 and on aarch64: the bytes of numpy's integers,
whatever the shapes, steps, zero points and types.

Where a compiler or an emulator is absent, tests are skipped and say which.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.compose import add_prefix

import csdfgen
import runtime
from csdfgen.emission.targets import TARGETS
from csdfgen.model.network import Network
from csdfgen.phases.heights import AskedRows
from csdfgen.planning.plan import Plan
from csdfgen.rewriting.fuse import fuse
from tests.board_networks import absent, absent_board, flags_of_processor
from tests.builder import Graph
from tests.emitted import Program
from tests.native_steps import compiler_missing
from tests.quantized_models import FORMS, quantized
from tests.ways import ALL, some

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

SIDE = 17, 15

MACHINES: dict[str, tuple[str, str | None, set[str]]] = {
    "m0plus": ("cortex-m4", "-mcpu=cortex-m0plus -mthumb -DCSDF_SCALAR", set()),
    "m4": ("cortex-m4", None, set()),
    "m7": ("cortex-m7", None, set()),
    "m33": ("cortex-m33", None, set()),
    "m55": ("cortex-m55", None, set()),
    "rv32": ("rv32imc", None, set()),
    "AVX-512 VNNI": ("host", "-march=icelake-server", {"avx512_vnni", "avx512_vbmi2"}),
    "AVX-512": ("host", "-march=x86-64-v4", {"avx512f", "avx512bw", "avx512dq", "avx512vl"}),
    "AVX2": ("host", "-march=x86-64-v3", {"avx2", "fma"}),
    "SSE4": ("host", "-march=x86-64-v2", {"sse4_2"}),
    "scalar": ("generic", None, set()),
    "NEON": ("aarch64", "-march=armv8-a", set()),
    "dot product": ("aarch64", "-march=armv8.2-a+dotprod", set()),
    "mixed product": ("aarch64", "-march=armv8.6-a", set()),
}
"""Target, flags instead of its own (all outputs take more RAM than a Cortex-M0+ has), what a processor must have."""

FEW = "m4", "m7", "m55", "rv32"
"""Those whose products of bytes are formed in different ways by compilers for microcontrollers."""

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


Window = tuple[tuple[int, int], int, int, int]
"""The same of a layer, whose kernel may be as high as the map."""


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

    def window(self, first: int) -> Window:
        """One of the windows, that leaves some pixels."""
        some = [one for one in WINDOWS[first:] if one[1] == 1 or min(self.size) > 7]
        kernel, *others = some[self.rng.integers(len(some))]
        return (kernel, kernel), *others  # type: ignore[return-value]

    def convolve(
        self, x: str, outs: int, group: int, window: Window, zero: list[str]
    ) -> tuple[str, list[str]]:
        """A convolution whose outputs fill a byte, with a scale of weights of each channel. zero: of x."""
        kernel, stride, dilation, pad = window
        ins = self.channels[x] // group
        self.size = tuple(
            (side + 2 * pad - dilation * (taps - 1) - 1) // stride + 1
            for side, taps in zip(self.size, kernel, strict=True)
        )  # type: ignore[assignment]
        weights = self.rng.integers(-128, 128, (outs, ins, *kernel)).astype(np.int8)
        spread = np.float32(0.02 / 40 * 5000 * np.sqrt(ins * kernel[0] * kernel[1]))
        made = self.number()
        y = self.node(
            "QLinearConv",
            *(x, *zero, self.constant(weights)),
            self.constant(self.rng.uniform(0.3, 1.7, outs).astype(np.float32) * 0.02 / spread),
            self.constant(np.zeros(outs, np.int8)),
            *made,
            self.constant(self.rng.integers(-9999, 9999, outs).astype(np.int32)),
            channels=outs,
            kernel_shape=kernel,
            strides=[stride] * 2,
            dilations=[dilation] * 2,
            pads=[pad] * 4,
            group=group,
        )
        return self.keep(y, outs), made


def chain(seed: int, dtype: str, turns: int = 6) -> onnx.ModelProto:
    """Convolutions of two kinds in turn, with any numbers of channels; a sum, a pool, convolutions of one output row."""
    g = Chain(seed, dtype)
    channels = int(g.rng.choice([1, 3, 5]))
    x, zero = g.input("x", (1, channels, *SIDE), dtype), g.number()
    for turn in range(turns):
        outs = int(g.rng.choice([8, 16, 24, 64]) if turn % 2 else g.rng.integers(1, 40))
        x, zero = g.convolve(x, outs, 1, g.window(0), zero)
        x, zero = g.convolve(x, outs, outs, g.window(3), zero)
    operands = [x, *zero, x, g.constant(np.float32(0.0137)), zero[1], *g.number()]
    x = g.keep(g.node("QLinearAdd", *operands, domain="com.microsoft"), g.channels[x])
    sides: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1]}
    x = g.keep(g.node("MaxPool", x, **sides), g.channels[x])
    channels, whole = g.channels[x], g.size
    for outs, group in ((33, 1), (channels, channels)):
        g.size = whole
        g.convolve(x, outs, group, ((whole[0], min(2, whole[1])), 1, 1, 0), operands[6:])
    g.size = 1, 1
    x = g.node("QLinearGlobalAveragePool", x, *operands[6:], *zero, domain="com.microsoft")
    g.keep(x, channels)
    graph = helper.make_graph(g.nodes, "chain", g.inputs, g.outputs, g.weights)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def program_on(machine: str, plan: Plan, folder: Path) -> Program:
    """A plan as a program for a machine; skips where there is none."""
    target, flags, needs = MACHINES[machine]
    if TARGETS[target].board is not None:
        absent_board(target)
        linked = [f"TARGET={flags}"] if flags else []
        return Program(plan, folder, target=target, machine=flags, linked=linked)
    if target == "aarch64":
        absent(TARGETS[target].compiler, "qemu-aarch64")
        start = ["qemu-aarch64", "-cpu", "max"]
        return Program(plan, folder, target=target, machine=flags, linked=["-static"], start=start)
    if lacking := needs - flags_of_processor():
        pytest.skip(f"this processor has no {', '.join(sorted(lacking))}")
    return Program(plan, folder, target=target, machine=flags)


def compare(machine: str, network: Network, rows: AskedRows, seed: int, folder: Path) -> int:
    """The bytes of a machine with those of numpy; how many different values there were."""
    rng, x = np.random.default_rng(seed), {}
    for tensor in network.inputs:
        if tensor.dtype == "float32":
            x[tensor.name] = rng.uniform(-1, 1, tensor.shape).astype(np.float32)
        else:
            info = np.iinfo(tensor.dtype)
            x[tensor.name] = rng.integers(info.min, info.max + 1, tensor.shape).astype(info.dtype)
    want = runtime.compile(csdfgen.plan(network, rows="whole", backend="numpy"))(x)
    plan = csdfgen.plan(network, rows=rows, backend="native")
    found = program_on(machine, plan, folder)(x)
    for name, array in want.items():
        np.testing.assert_array_equal(found[name], array, err_msg=f"{seed} {name}")
    return sum(len(np.unique(array)) for array in want.values())


@pytest.mark.parametrize("rows", [1, "whole"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("machine", FEW)
def test_layers_of_bytes(machine: str, dtype: str, rows: int | str, tmp_path: Path) -> None:
    for seed in range(2):
        network = csdfgen.load(chain(seed if rows == 1 else seed + 2, dtype))
        assert compare(machine, network, rows, seed, tmp_path / str(seed)) > 400


@cache
def chains(count: int) -> tuple[Network, Mapping[str, int | str]]:
    """Chains of 45 layers as one network, whose program is compiled at once, and the slab heights of each of them."""
    whole, heights = onnx.ModelProto(), {}
    for seed in range(count):
        model = chain(10 + seed, ("int8", "uint8")[seed % 2], turns=20)
        assert sum(len(layer.outputs) for layer in csdfgen.load(model).layers) == 45
        one = add_prefix(model, f"of{seed}_")
        for name in ("node", "input", "output", "initializer"):
            getattr(one.graph, name).extend(getattr(whole.graph, name))
        whole = one
        names = (node.name for node in one.graph.node if node.name.startswith(f"of{seed}_"))
        heights |= dict.fromkeys(names, (1, "whole", 2)[seed % 3])
    network = csdfgen.load(whole)
    there = {layer.name for layer in fuse(network).layers}
    return network, {name: rows for name, rows in heights.items() if name in there}


@pytest.mark.networks
@pytest.mark.parametrize("machine", MACHINES)
def test_hundreds_of_layers(machine: str, tmp_path: Path) -> None:
    """Of three chains, and of seven where everything is tested."""
    network, heights = chains(some(3, 7))
    assert compare(machine, network, heights, 10, tmp_path) > 3000


def grow(g: Graph, x: str) -> str:
    """A random network of residual blocks, gates, joins and pools, with scores."""
    x = g.node("Relu", g.conv(x, int(g.rng.integers(4, 24))))
    for _ in range(int(g.rng.integers(2, 5))):
        outs = g.channels[x]
        deep = g.node(*[("Relu",), ("LeakyRelu",)][g.rng.integers(2)], g.conv(x, outs, group=outs))
        kind = g.rng.integers(4)
        if kind == 0:
            x = g.node("Add", x, g.conv(deep, outs, 1))
        elif kind == 1:
            x = g.node("Mul", x, g.node("Sigmoid", g.conv(deep, outs, 1)))
        elif kind == 2:
            more = int(g.rng.integers(1, 9))
            x = g.node("Concat", x, g.conv(deep, more, 1), axis=1, channels=outs + more)
        else:
            x = g.node("MaxPool", deep, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    flat = g.node("Flatten", g.node("GlobalAveragePool", x))
    weight = g.rng.normal(0, 1, (g.channels[x], 10)).astype(np.float32)
    return g.node("Gemm", flat, g.constant(weight))


@cache
def ten_networks(seed: int) -> Network:
    """Ten networks of one model, with an image and scores each."""
    g = Graph(seed)
    images = [g.input(f"x{k}", (1, int(g.rng.integers(1, 4)), 12, 14)) for k in range(10)]
    model = g.model(*(grow(g, x) for x in images))
    return csdfgen.load(quantized(model, FORMS[seed % 2]))


TEN = [
    (machine, seed)
    for k, machine in enumerate(MACHINES)
    for seed in range(3)
    if ALL or k % 3 == seed
]
"""A machine, and which ten of thirty networks: all of them where everything is tested."""


@pytest.mark.networks
@pytest.mark.parametrize(("machine", "seed"), TEN)
def test_thirty_networks(machine: str, seed: int, tmp_path: Path) -> None:
    network = ten_networks(seed)
    assert len(network.outputs) == 10
    assert compare(machine, network, (1, "whole", 3)[seed], seed, tmp_path / "c") > 50
