"""Which layers have kernels of their own, and what are those handed?

A family says which steps it takes, as their rows lie, and makes of such a step a structure of the
kernel library: tables of row addresses, packed weights, sizes. Weights are packed once a layer, when
its first step is bound.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any, Protocol, cast

import numpy as np

from csdfgen.kernels.steps import Memory, Step, View
from csdfgen.model.network import Layer, Tensor, remembered
from csdfgen.native import packing
from csdfgen.native.library import (
    CLIP,
    LEAKY,
    NONE,
    Activation,
    ConvStep,
    GemmStep,
    Source,
    Target,
)
from csdfgen.native.library import Layer as PackedLayer
from csdfgen.native.strided import Native, address_of
from csdfgen.ops import operator_of
from csdfgen.ops._windows import windows_of
from csdfgen.ops.base import Mode

__all__ = ["Family", "family_of"]

_FLOAT = 4
"""Bytes of an element."""


class Family(Protocol):
    """Layers that are computed by one kind of kernel."""

    def takes(self, step: Step) -> bool:
        """Whether the kernel can be handed the step's rows as they lie."""

    def follows(self, layer: Layer) -> int:
        """How many layers of the epilogue the kernel computes on the way."""

    def workspace(self, step: Step, limit: int | None) -> int:
        """Bytes that the kernel takes."""

    def kernels(self, step: Step, memory: Memory) -> list[Native]:
        """The step, with what it computes on the way."""


def family_of(layer: Layer) -> Family | None:
    """The family that a layer is of, if there is one."""
    return _family(layer)


@remembered
def _family(layer: Layer) -> Family | None:
    floats = all(t is None or t.dtype == "float32" for t in (*layer.inputs, *layer.outputs))
    make = _FAMILIES.get(layer.op_type) if floats else None
    return None if make is None else make(layer)


# What follows in the slab ------------------------------------------------------------------------


def _activation(layer: Layer) -> tuple[int, float, float] | None:
    """A layer of an epilogue as an activation of the kernels; None if it is none of these."""
    given = layer.attributes
    if layer.op_type == "Relu":
        return CLIP, 0.0, inf
    if layer.op_type == "Clip" and "bounds" not in given:
        return CLIP, float(given["min"]), float(given["max"])
    if layer.op_type == "LeakyRelu":
        return LEAKY, float(given["alpha"]), 0.0
    return None


def _first(layer: Layer) -> tuple[int, float, float] | None:
    return _activation(layer.epilogue[0]) if layer.epilogue else None


def _count(layer: Layer) -> int:
    return 0 if _first(layer) is None else 1


def _activated(layer: Layer) -> Activation:
    return Activation(*(_first(layer) or (NONE, 0.0, 0.0)))


# Rows --------------------------------------------------------------------------------------------


def _addresses(view: View, memory: Memory) -> list[int]:
    """Of every row of a view without pieces."""
    base = address_of(memory[view.pool])
    return [base + row for row in view.rows]


def _pointers(addresses: Sequence[int]) -> ctypes.Array[ctypes.c_void_p]:
    """A table of them; 0 is NULL."""
    return (ctypes.c_void_p * len(addresses))(*addresses)


def _is_map(view: View) -> bool:
    """Whether rows are (columns, 1, channels) or (1, channels), channels side by side."""
    *_, images, channels = view.shape
    return (
        len(view.shape) in (2, 3)
        and images == 1
        and (channels == 1 or view.strides[-1] == _FLOAT)
        and (len(view.shape) == 2 or view.strides[0] % _FLOAT == 0)
    )


def _pixel(view: View) -> int:
    """Floats from a column to the next."""
    return view.strides[0] // _FLOAT if len(view.shape) == 3 else view.shape[-1]


# Convolutions ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Convolution:
    """Conv of one or two axes: csdf_conv, and csdf_depthwise where every channel is a group.

    packed: the layer as the kernels want it, made when first asked for.
    """

    kernel: str
    packed: Callable[[], PackedLayer]

    def takes(self, step: Step) -> bool:
        view, out = step.inputs[0], step.outputs[0]
        assert view is not None
        pieces = view.pieces or (view,)
        return (
            not step.states
            and not out.pieces
            and (not view.pieces or view.along == len(view.shape) - 1)
            and all(_is_map(one) for one in (*pieces, out))
        )

    def follows(self, layer: Layer) -> int:
        return _count(layer)

    def workspace(self, step: Step, limit: int | None) -> int:
        return 0

    def kernels(self, step: Step, memory: Memory) -> list[Native]:
        layer, out, held, view = step.layer, step.phase.out, step.phase.ins[0], step.inputs[0]
        x = layer.inputs[0]
        assert held is not None and view is not None and x is not None
        rows = windows_of(layer.attributes)[0]
        first = out.start * rows.stride - rows.pad_top
        reach = (len(out) - 1) * rows.stride + rows.extent
        tables, sources = [], []
        for piece in view.pieces or (view,):
            there = _addresses(piece, memory)
            table = [
                there[row - held.start] if held.start <= row < held.stop else 0
                for row in range(first, first + reach)
            ]
            tables.append(_pointers(table))
            sources.append(Source(ctypes.addressof(tables[-1]), _pixel(piece), piece.shape[-1]))
        target = step.outputs[0]
        written = _pointers(_addresses(target, memory))
        columns = layer.output.shape[3] if len(layer.output.shape) > 3 else 1
        channels = layer.output.shape[1]
        pieces = (Source * len(sources))(*sources)
        packed = self.packed()
        made = ConvStep(
            ctypes.pointer(packed),
            ctypes.cast(pieces, ctypes.POINTER(Source)),
            len(sources),
            x.shape[3] if len(x.shape) > 3 else 1,
            Target(ctypes.addressof(written), _pixel(target), len(out), 0, columns, 0, channels),
        )
        return [Native(f"{self.kernel}_of", made, packed, pieces, tables, written)]


def _convolution(layer: Layer) -> Family | None:
    x, group = layer.inputs[0], layer.attributes["group"]
    if x is None or len(x.shape) > 4 or operator_of(layer).mode(layer) is not Mode.ROWS:
        return None
    if x.row_axis != layer.input_axes[0]:
        return None
    windows = windows_of(layer.attributes)
    across = windows[1] if len(windows) > 1 else None
    out, ins = layer.output.shape[1], x.shape[1]
    depthwise = group == ins > 1

    def packed() -> PackedLayer:
        weights, bias = layer.constants[1], layer.constants.get(2)
        bias = None if bias is None else bias.reshape(-1)
        if across is None:
            weights = weights[..., None]
        if depthwise:
            arrays = packing.depthwise_weights(weights), packing.depthwise_bias(bias, out)
        else:
            arrays = packing.conv_weights(weights, group), packing.conv_bias(bias, out, group)
        rows = windows[0]
        made = PackedLayer(
            ins,
            out,
            group,
            rows.kernel,
            across.kernel if across else 1,
            rows.stride,
            across.stride if across else 1,
            rows.dilation,
            across.dilation if across else 1,
            across.pad_top if across else 0,
            _activated(layer),
            *map(address_of, arrays),
        )
        made.kept = arrays
        return made

    return _Convolution("depthwise" if depthwise else "conv", _once(packed))


def _once(make: Callable[[], Any]) -> Callable[[], Any]:
    """What `make` gives, made when first asked for."""
    made: list[Any] = []

    def get() -> Any:
        if not made:
            made.append(make())
        return made[0]

    return get


# Matrix products ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Product:
    """Gemm and MatMul with a constant right operand, and the Gemm that reads a map row by row.

    inputs: that are summed up for an output. packed: weights and bias.
    """

    inputs: int
    outputs: int
    packed: Callable[[], tuple[np.ndarray, np.ndarray]]

    def takes(self, step: Step) -> bool:
        view, out = step.inputs[0], step.outputs[0]
        return (
            view is not None
            and not step.states
            and not view.pieces
            and not out.pieces
            and _is_dense(view)
            and _is_dense(out)
        )

    def follows(self, layer: Layer) -> int:
        return _count(layer)

    def workspace(self, step: Step, limit: int | None) -> int:
        return 0

    def kernels(self, step: Step, memory: Memory) -> list[Native]:
        phase, view, target = step.phase, step.inputs[0], step.outputs[0]
        held = phase.ins[0]
        assert view is not None and held is not None
        accumulates = operator_of(step.layer).mode(step.layer) is Mode.ACCUMULATE
        elements = prod(view.shape)
        if accumulates:
            table = _addresses(view, memory)
            first, parts, size = held.start * elements, len(table), elements
        else:
            table = _every(view, self.inputs, memory)
            first, parts, size = 0, 1, self.inputs
        written = _every(target, self.outputs, memory)
        weights, bias = self.packed()
        sizes = (ctypes.c_int32 * parts)(*[size] * parts)
        rows, out = _pointers(table), _pointers(written)
        made = GemmStep(
            self.inputs,
            self.outputs,
            first,
            parts,
            len(written),
            0,
            self.outputs,
            int(phase.first or not accumulates),
            int(phase.last or not accumulates),
            _activated(step.layer),
            address_of(weights),
            address_of(bias),
            *(ctypes.addressof(one) for one in (sizes, rows, out)),
        )
        return [Native("gemm_of", made, weights, bias, sizes, rows, out)]


def _is_dense(view: View) -> bool:
    """Whether the elements of a row lie one after the other."""
    steps = (_FLOAT * prod(view.shape[axis + 1 :]) for axis in range(len(view.shape)))
    return all(
        size == 1 or own == step
        for size, own, step in zip(view.shape, view.strides, steps, strict=True)
    )


def _every(view: View, size: int, memory: Memory) -> list[int]:
    """Addresses of every `size` elements of all rows."""
    count = prod(view.shape) // size
    return [at + _FLOAT * size * k for at in _addresses(view, memory) for k in range(count)]


def _gemm(layer: Layer) -> Family | None:
    given, x = layer.attributes, layer.inputs[0]
    if given.get("flattened"):
        weights = layer.constants[1]
        outputs = weights.shape[-1]
        return _Product(weights.size // outputs, outputs, _packed_once(layer, 1.0, 1.0))
    addend = layer.constants.get(2)
    if (
        x is None
        or 1 not in layer.constants
        or given.get("transA")
        or layer.constants[1].ndim != 2
        or any(t is not None for t in layer.inputs[1:])
        or not _rows_of_a_matrix(x, layer)
        or (addend is not None and addend.size not in (1, layer.output.shape[-1]))
        or (addend is not None and addend.ndim > 1 and addend.shape[-1] != addend.size)
    ):
        return None
    outputs = layer.output.shape[-1]
    scales = float(given.get("alpha", 1)), float(given.get("beta", 1))
    return _Product(x.shape[-1], outputs, _packed_once(layer, *scales))


def _rows_of_a_matrix(x: Tensor, layer: Layer) -> bool:
    """Whether stored rows hold rows of the left operand whole, those of the result likewise."""
    if len(x.shape) < 2 or x.row_axis != layer.input_axes[0]:
        return False
    if x.row_axis != layer.output.row_axis or len(x.shape) != len(layer.output.shape):
        return False
    # behind the row axis come the others, then those in front: the last must be the summed one
    return x.row_axis is None or (
        (x.row_axis == 0 or prod(x.shape[: x.row_axis]) == 1) and (x.row_axis < len(x.shape) - 1)
    )


def _packed_once(
    layer: Layer, alpha: float, beta: float
) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    def packed() -> tuple[np.ndarray, np.ndarray]:
        weights = layer.constants[1]
        if layer.attributes.get("transB"):
            weights = weights.T
        outputs = weights.shape[-1]
        matrix = weights.reshape(-1, outputs)
        bias = np.zeros(outputs, np.float32)
        if 2 in layer.constants:
            bias += np.float32(beta) * layer.constants[2].reshape(-1)
        if alpha != 1:
            matrix = matrix * np.float32(alpha)
        return packing.gemm_weights(matrix), packing.conv_bias(bias, outputs)

    return cast(Callable[[], tuple[np.ndarray, np.ndarray]], _once(packed))


_FAMILIES: dict[str, Callable[[Layer], Family | None]] = {
    "Conv": _convolution,
    "Gemm": _gemm,
    "MatMul": _gemm,
}
