"""How much does a phase of a layer have to do? Multiply-accumulates, elements, bytes: what times
are given per.

Everything is taken from the conversion (the row rule) and the operators' own cost; nothing here
knows a device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

from csdfgen.model.network import Layer, Tensor
from csdfgen.ops import operator_of
from csdfgen.ops.base import Mode
from csdfgen.phases.conversion import ActorWork

__all__ = ["PhaseWork", "kernel_class", "layer_key", "phase_works", "tensor_key"]

DEPTHWISE = "depthwise"


@dataclass(frozen=True, slots=True)
class PhaseWork:
    """One phase: rows that it writes (or reads, where it accumulates), amounts of `profile.WORK`,
    floating point operations of the layer and of what is applied in its slab, and bytes that it
    reads anew and writes.
    """

    rows: int
    amounts: Mapping[str, float]
    operations: float
    moved: int


def kernel_class(layer: Layer) -> str:
    """ "3x3" for a layer with that window, "depthwise" for one channel a group, "" without a
    window.

    A rule of a profile may name it.
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
    """A tensor's shape, and its type where that is not float32: "1x64x56x56"."""
    shape = "x".join(map(str, tensor.shape))
    return shape if tensor.dtype == "float32" else f"{shape}:{tensor.dtype}"


def layer_key(layer: Layer) -> str:
    """What decides a layer's time, in one line: operators, shapes, attributes; not its name.

    Layers with equal keys run the same calls on other data.
    """
    function = "+".join([layer.op_type, *(after.op_type for after in layer.epilogue)])
    ins = ",".join(tensor_key(tensor) for tensor in layer.inputs if tensor is not None)
    weights = ",".join("x".join(map(str, array.shape)) or "1" for array in layer.constants.values())
    outs = ",".join(map(tensor_key, layer.outputs))
    settings = ",".join(
        f"{name}={text}"
        for name, value in sorted(layer.attributes.items())
        if (text := _setting(value))
    )
    return " ".join(
        filter(None, [function, ins, f"[{weights}]" if weights else "", "->", outs, settings])
    )


def _setting(value: object) -> str:
    """An attribute as text; "" for what is no number, string or short list of them."""
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
    """What each phase of an actor that computes a layer does."""
    layer = work.layer
    assert layer is not None
    multiplies = operator_of(layer).multiplies
    count, by_rows = len(work.phases), operator_of(layer).mode(layer) is Mode.ROWS
    elements, written = sum(t.elements for t in layer.outputs), sum(t.nbytes for t in layer.outputs)
    in_slab = len(layer.epilogue)
    for number, phase in enumerate(work.phases):
        # an accumulating layer writes its output once, over all its phases
        part = len(phase.out) / layer.output.rows if by_rows else 1 / count
        own = work.times[number]
        amounts = {
            "MAC": own if multiplies else 0,
            "element": elements * part,
            "input": sum(len(read.rows[number]) * read.tensor.row_elements for read in work.reads),
            "tap": _taps(layer) * part,
        }
        moved = sum(
            (read.need[number] - (read.need[number - 1] if number else 0)) * read.tensor.row_bytes
            for read in work.reads
        )
        yield PhaseWork(
            rows=_rows(work, number),
            amounts=MappingProxyType(amounts),
            operations=own * (2 if multiplies else 1) + in_slab * elements * part,
            moved=moved + round(written * part),
        )


def _rows(work: ActorWork, number: int) -> int:
    """Rows of a phase along which its layer is cut."""
    layer, phase = work.layer, work.phases[number]
    assert layer is not None
    operator = operator_of(layer)
    read = phase.ins[operator.accumulate_over] if operator.mode(layer) is Mode.ACCUMULATE else None
    return len(phase.out) if read is None else len(read)


def _taps(layer: Layer) -> int:
    """Window positions times output pixels, channels (axis 1 in ONNX) not counted."""
    shape = layer.output.shape
    window = layer.attributes.get("kernel_shape") or (layer.attributes.get("size", 1),)
    return int(prod(window)) * prod(shape[2:]) * shape[0] if len(shape) > 2 else 0
