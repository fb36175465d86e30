"""How much work does a phase of a layer have? Multiply-accumulates, elements and bytes, which profiles give times per.

All amounts follow from the conversion (the row rule) and the cost of the operators, and depend on no device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

import numpy as np

from csdfgen.devices.units import LANES, WORK
from csdfgen.model.network import Layer, Tensor, memoize_layer
from csdfgen.ops import get_operator
from csdfgen.ops.base import Mode
from csdfgen.phases.conversion import ActorWork

DEPTHWISE, SQUARE, SLIDING, DOTS = "depthwise", "3x3", "sliding", "dots"

FORMATS = ("int8", "int16", "float16", "float32")
"""Formats that times are given for, the narrowest first; unsigned integers are computed as signed ones."""

_TO = "->"

_OF_VALUES = MappingProxyType(
    {"ConvInteger": "Conv", "MatMulInteger": "MatMul", "QGemm": "Gemm", "QLinearMatMul": "MatMul"}
)
_ON_INTEGERS = "QLinear"

_BOUNDS = "range"
"""An attribute of operators on integers that differs with every scale and does not affect the time."""


@dataclass(frozen=True, slots=True)
class PhaseWork:
    """The work of one phase.

    rows: rows of each image that it writes (or reads, where it accumulates). images: images that it works on.
    weights: bytes of weights and biases that it reads. amounts: by the units of `units.WORK`. operations: floating
    point operations of the layer and of the activations in its slab. moved: bytes that it reads for the first time,
    and bytes that it writes.
    """

    rows: int
    images: int
    weights: float
    amounts: Mapping[str, float]
    operations: float
    moved: int


NO_WORK = PhaseWork(
    rows=0,
    images=0,
    weights=0.0,
    amounts=MappingProxyType(dict.fromkeys(WORK, 0)),
    operations=0.0,
    moved=0,
)
"""The work of time that belongs to no layer: copying inputs, and what a frame takes besides its phases."""


@memoize_layer
def kernel_classes(layer: Layer) -> tuple[str, ...]:
    """What the costs of a profile may name of a layer with a window, from special to general; () without a window.

    The last is `kernel_class`. Before it, of products: "depthwise/2" with a stride; "dots": few outputs, each a long
    sum; "few": fewer than 8 input channels a group; "sliding": neighbouring windows of a row share products, so that
    Winograd's form along the rows computes them; "3x3": that in tiles does; "direct": they share none.
    """
    own = kernel_class(layer)
    if not own or not get_operator(layer).multiplies:
        return (own,) if own else ()
    strides, groups = layer.attributes.get("strides", (1,)), layer.attributes.get("group", 1)
    if own == DEPTHWISE:
        return (f"{DEPTHWISE}/{strides[-1]}", own) if strides[-1] > 1 else (own,)
    weights, outs = layer.constants.get(1), layer.output.shape[1]
    ins = weights.shape[1] if weights is not None else _FEW
    high, wide = (1, *map(int, layer.attributes["kernel_shape"]))[-2:]
    some = groups == 1 and outs <= LANES // 2
    if some and 4 * outs * (high * -(-wide * ins // LANES) + _TOTAL) < 3 * high * wide * ins:
        return (DOTS, own)
    if ins < _FEW:
        return ("few", own)
    if own == "1x1":
        return (own,)
    dilations = layer.attributes.get("dilations", (1,))
    once = strides[-1] == 1 == dilations[-1]
    if not once or ins < _LEAST_SHARED or not 1 < wide <= _MOST_SHARED:
        return ("direct", own)
    square = groups == 1 and high == wide == 3 and set(strides) == {1} == set(dilations)
    return (SQUARE if square else SLIDING, own)


_FEW, _LEAST_SHARED, _MOST_SHARED, _TOTAL = 8, 16, 5, 6
"""Input channels, columns of a window, and vectors to add up, of the classes of `kernel_classes`."""


def kernel_class(layer: Layer) -> str:
    """The window of a layer ("3x3"), "depthwise" where each group has one channel, "" without a window. The costs of a
    profile may name it.
    """
    window = layer.attributes.get("kernel_shape")
    if window is None:
        return ""
    groups = layer.attributes.get("group", 1)
    tensor = layer.inputs[0]
    if groups > 1 and tensor is not None and groups == tensor.shape[1]:
        return DEPTHWISE
    return "x".join(map(str, window))


def tensor_key(tensor: Tensor) -> str:
    """The shape of a tensor, and its type unless that is float32: "1x64x56x56". Unsigned integers are computed and
    written as signed ones.
    """
    shape = "x".join(map(str, tensor.shape))
    return shape if tensor.dtype == "float32" else f"{shape}:{tensor.dtype.removeprefix('u')}"


def float_operator(op_type: str) -> str:
    """The operator on values that an operator on integers corresponds to; an operator on values is returned itself.

    >>> float_operator("QLinearConv"), float_operator("QGemm"), float_operator("Conv")
    ('Conv', 'Gemm', 'Conv')
    """
    return _OF_VALUES.get(op_type) or op_type.removeprefix(_ON_INTEGERS)


def format_key(layer: Layer) -> str:
    """The formats that the time of a layer depends on: the widest format of its operands (weights included), and the
    widest of its results if that is another one; "" for float32 alone.

    A QLinearConv has "int8", "int8->int16" if its result has two bytes, "int16" if its input has.
    """
    operands = {tensor.dtype for tensor in layer.inputs if tensor is not None}
    if get_operator(layer).multiplies and 1 in layer.constants:
        operands.add(str(layer.constants[1].dtype))
    reads, writes = _widest(operands), _widest({tensor.dtype for tensor in layer.outputs})
    found = reads if not writes or reads == writes else f"{reads}{_TO}{writes}"
    return "" if found == FORMATS[-1] else found


def _widest(dtypes: Collection[str]) -> str:
    """The widest of several types; "" if none of them is a format of values (indices are not)."""
    known = {dtype.removeprefix("u") for dtype in dtypes} & set(FORMATS)
    return max(known, key=FORMATS.index, default="")


def read_format(formats: str) -> str:
    """The format that is read, of one or two formats.

    >>> read_format("int8->int16"), read_format("int16")
    ('int8', 'int16')
    """
    return formats.partition(_TO)[0]


def layer_key(layer: Layer) -> str:
    """All that the time of a layer depends on, in one line: operators, shapes, types and attributes, without its name.

    Layers with equal keys run the same calls on other data. The key has the type of weights that are wider than the
    data they are multiplied with, since sums are then of that type. Narrower weights are widened when they are packed.
    """
    data = layer.inputs[0]
    narrow = "" if data is None or not get_operator(layer).multiplies else _widest({data.dtype})
    function = "+".join([layer.op_type, *(after.op_type for after in layer.epilogue)])
    ins = ",".join(tensor_key(tensor) for tensor in layer.inputs if tensor is not None)
    weights = ",".join(
        _array_key(array, narrow if position == 1 else "")
        for position, array in layer.constants.items()
    )
    outs = ",".join(map(tensor_key, layer.outputs))
    settings = ",".join(
        f"{name}={text}"
        for name, value in sorted(layer.attributes.items())
        if (text := _setting(value)) and name != _BOUNDS
    )
    return " ".join(
        filter(None, [function, ins, f"[{weights}]" if weights else "", "->", outs, settings])
    )


def _array_key(array: np.ndarray, narrow: str) -> str:
    """The shape of a constant, and its type if that is wider than a format ("" for none)."""
    shape = "x".join(map(str, array.shape)) or "1"
    stored = _widest({str(array.dtype)})
    wider = bool(narrow and stored) and FORMATS.index(stored) > FORMATS.index(narrow)
    return f"{shape}:{stored}" if wider else shape


def _setting(value: object) -> str:
    """An attribute as text; "" for anything but a number, a string or a short list of numbers."""
    if isinstance(value, (bool, int, float, str)):
        return str(value)
    if (
        isinstance(value, (tuple, list))
        and len(value) <= 8
        and all(isinstance(item, (int, float)) for item in value)
    ):
        return "x".join(map(str, value))
    return ""


def phase_works(work: ActorWork) -> Iterator[PhaseWork]:
    """The work of each phase of an actor that computes a layer."""
    layer = work.layer
    assert layer is not None
    multiplies, kernels = get_operator(layer).multiplies, kernel_classes(layer)
    lanes = _lanes(layer, kernels)
    by_rows = get_operator(layer).mode(layer) is Mode.ROWS
    counts = Counter(phase.group for phase in work.phases)
    elements, written = sum(t.elements for t in layer.outputs), sum(t.nbytes for t in layer.outputs)
    in_slab, parameters, taps = len(layer.epilogue), layer.parameter_bytes, _taps(layer)
    reads = [(read, read.tensor.row_elements, read.tensor.row_bytes) for read in work.reads]
    for number, phase in enumerate(work.phases):
        # an accumulating layer writes its output once, over all its phases
        part = len(phase.out) / layer.output.rows if by_rows else 1 / counts[phase.group]
        weights = parameters * (1.0 if by_rows else part)
        part *= phase.images
        own = work.times[number]
        amounts = {
            "MAC": own if multiplies else 0,
            "lane": own * lanes * _left(layer, kernels, len(phase.out)) if multiplies else 0,
            "element": elements * part,
            "input": sum(len(read.rows[number]) * each for read, each, _ in reads),
            "tap": taps * part,
        }
        moved = sum(
            (read.need[number] - (read.need[number - 1] if number else 0)) * size
            for read, _, size in reads
        )
        yield PhaseWork(
            rows=_rows(work, number),
            images=phase.images,
            weights=weights,
            amounts=MappingProxyType(amounts),
            operations=own * (2 if multiplies else 1) + in_slab * elements * part,
            moved=moved + round(written * part),
        )


def _lanes(layer: Layer, kernels: tuple[str, ...]) -> float:
    """Channels of a group's output in whole vectors, over the channels that there are. kernels: its classes."""
    if not kernels or kernels[0] == DOTS or len(layer.output.shape) < 2:
        return 1.0
    groups = 1 if kernels[-1] == DEPTHWISE else layer.attributes.get("group", 1)
    channels = layer.output.shape[1] // groups
    return -(-channels // LANES) * LANES / channels


def _left(layer: Layer, kernels: tuple[str, ...], rows: int) -> float:
    """The part of the products that Winograd's forms leave, of slabs of so many rows: 6 of the columns of a tile, and 4 or 6
    of the rows of one of 2 or 4 rows.
    """
    if not kernels or kernels[0] not in (SQUARE, SLIDING):
        return 1.0
    if kernels[0] == SQUARE and rows > 1:
        return 1 / 3 if rows < 4 else 1 / 4
    wide = int(layer.attributes["kernel_shape"][-1])
    return 6 / (7 - wide) / wide


def _rows(work: ActorWork, number: int) -> int:
    """Rows of a phase, of the tensor that its layer is cut along."""
    layer, phase = work.layer, work.phases[number]
    assert layer is not None
    operator = get_operator(layer)
    read = phase.ins[operator.accumulate_over] if operator.mode(layer) is Mode.ACCUMULATE else None
    return len(phase.out) if read is None else len(read)


def _taps(layer: Layer) -> int:
    """Window positions times output pixels, channels (axis 1 in ONNX) not counted."""
    shape = layer.output.shape
    window = layer.attributes.get("kernel_shape") or (layer.attributes.get("size", 1),)
    return int(prod(window)) * prod(shape[2:]) * shape[0] if len(shape) > 2 else 0
