"""Where are the images of a batch, once a Transpose or a Reshape has moved them from axis 0?

In the elements of a tensor, in their order, images are a dimension of their own: `before` sizes outside it, N images, and
the sizes inside it. A Reshape keeps this order, a Transpose moves the axis that holds the images, and any other layer of
the tables below computes each index of that axis for itself. So it does the same to each image if the networks for N images
and for one differ in the size of that axis alone, N times as large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import takewhile
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from csdfgen.model.network import Layer, Network, Tensor
from csdfgen.ops import get_operator


class Place(NamedTuple):
    """Images are along this axis, inside the outer `part` of its indices."""

    axis: int
    part: int


class ImageAxes:
    """The places of images in the tensors of a network for `batch` images, asked layer by layer."""

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._before: dict[str, int] = {}  # tensor -> see above; 1 if it is not here

    def keep(self, whole: Layer, single: Layer) -> bool:
        """Whether a layer of known constants and settings does the same to each image. Notes where its results have them."""
        operands = [(a, b) for a, b in zip(whole.inputs, single.inputs, strict=True) if a and b]
        places = [self._place(a, b, self._before.get(a.name, 1)) for a, b in operands]
        if not places or None in places:
            return False
        found = [place for place in places if place is not None]
        for a, b in zip(whole.outputs, single.outputs, strict=True):
            axis = None
            if whole.op_type in _IN_ORDER:
                before: int | None = self._before.get(operands[0][0].name, 1)
            elif is_separable_gather(whole, single, self._batch):
                before = 1 if found == [Place(0, 1)] else None
            else:
                axis = _axis_of_result(whole, found)
                if axis is not None and axis < 0:
                    axis += len(b.shape)
                if axis is None and _differ(whole, single) and set(found) == {Place(0, 1)}:
                    axis = 0  # with constants that are repeated for each image
                before = None if axis is None else prod(b.shape[:axis]) * found[0].part
            if before is None:
                return False
            place = self._place(a, b, before)
            if place is None or axis not in (None, place.axis):
                return False
            self._before[a.name] = before
        return True

    def _place(self, whole: Tensor, single: Tensor, before: int) -> Place | None:
        """The axis that is `batch` times as large for all images, if they can be there behind so many; None for any other
        difference.
        """
        if len(whole.shape) != len(single.shape) or whole.dtype != single.dtype:
            return None
        sizes = list(zip(whole.shape, single.shape, strict=True))
        differ = [k for k, (a, b) in enumerate(sizes) if a != b]
        if len(differ) != 1 or sizes[differ[0]][0] != self._batch * sizes[differ[0]][1]:
            return None
        outside = prod(single.shape[: differ[0]])
        if before % outside or single.shape[differ[0]] % (before // outside):
            return None
        return Place(differ[0], before // outside)


class Outside:
    """How many sizes are outside the images in tensors of a network of one image that is built after one of all."""

    def __init__(self, whole: Network) -> None:
        self._whole = whole
        self._known: dict[str, int] = {}

    def count(self, name: str, single: Mapping[str, Any]) -> int:
        """For a tensor of both networks, by the layers of the one of all images that lead to it from its first operands.
        single: tensor -> what it is for one image.
        """
        chain: list[tuple[str, Layer]] = []
        found = self._known.get(name)
        while found is None and name in self._whole.producer:
            layer = self._whole.producer[name]
            if not any(layer.inputs):
                break
            chain.append((name, layer))
            name = _operand(layer).name
            found = self._known.get(name)
        found = found or 1
        for made, layer in reversed(chain):
            if layer.op_type not in _IN_ORDER:
                pairs = self._sizes(_operand(layer).name, single), self._sizes(made, single)
                outer, own = (
                    prod(one for _, one in takewhile(lambda pair: pair[0] == pair[1], sizes))
                    for sizes in pairs
                )
                found = own * max(1, found // outer)
            self._known[made] = found
        return found

    def _sizes(self, name: str, single: Mapping[str, Any]) -> list[tuple[int, int]]:
        """Of all images and of one, along each axis."""
        one = single.get(name)
        sizes = one.shape if isinstance(one, Tensor) else ()
        return list(zip(self._whole.tensors[name].shape, sizes, strict=False))


def _differ(whole: Layer, single: Layer) -> bool:
    """Whether the constants of a layer that computes each position along axis 0 for itself have other shapes for one image."""
    gathers = whole.op_type == "GatherElements" and whole.attributes["axis"] > 0
    known = gathers or whole.op_type == "MatMul" or get_operator(whole).pointwise
    pairs = [(c, single.constants[k]) for k, c in whole.constants.items() if k in single.constants]
    ranks = {len(whole.output.shape), *(c.ndim for c, _ in pairs)}
    return known and len(ranks) == 1 and any(c.shape != one.shape for c, one in pairs)


def is_separable_gather(whole: Layer, single: Layer, batch: int) -> bool:
    """Whether a layer gathers at constant positions from the front, for each image the same ones of its own."""
    given, other = whole.attributes, single.attributes
    if "flat" in given and "flat" in other:
        size = single.output.elements // len(other["flat"])
        return are_shifted(given["flat"], other["flat"], batch, _operand(single).elements // size)
    if "indices" not in given or "indices" not in other or given["axis"] or other["axis"]:
        return False
    return are_shifted(given["indices"], other["indices"], batch, _operand(single).shape[0])


def are_shifted(whole: np.ndarray, single: np.ndarray, batch: int, apart: Any) -> bool:
    """Whether integers for all images are those of one, so far apart from image to image."""
    images = np.arange(batch).reshape(-1, *(1,) * single.ndim)
    return whole.size == batch * single.size and np.array_equal(
        whole.reshape(batch, *single.shape), single + apart * images
    )


def _axis_of_result(layer: Layer, places: list[Place]) -> int | None:
    """The axis of the results that an axis of all operands becomes, counted from behind if it is negative; None where it is
    not known to be computed index by index.
    """
    if get_operator(layer).pointwise:
        return _pointwise(layer, places)
    rule = _RULES.get(layer.op_type)
    if rule is None or len(set(places)) != 1:
        return None
    return rule(layer, places[0].axis)


def _pointwise(layer: Layer, places: list[Place]) -> int | None:
    """Operands are aligned at their last axes; a constant is the same one for all images."""
    ranks = [len(t.shape) for t in layer.inputs if t is not None]
    behind = {(rank - place.axis, place.part) for rank, place in zip(ranks, places, strict=True)}
    if len(behind) != 1:
        return None
    ((last, _),) = behind
    alike = all(c.ndim < last or c.shape[-last] == 1 for c in layer.constants.values())
    return len(layer.output.shape) - last if alike else None


def _transposed(layer: Layer, axis: int) -> int:
    return int(layer.attributes["perm"].index(axis))


def _apart_from_axis(layer: Layer, axis: int) -> int | None:
    """Layers that work along other axes, of which results may have fewer."""
    given = layer.attributes
    along = given["axes"] if "axes" in given else (given["axis"],)
    if axis in along or (layer.op_type == "Concat" and layer.constants):
        return None
    same = len(layer.output.shape) == len(_operand(layer).shape)
    return axis if same else axis - sum(other < axis for other in along)


def _gathered(layer: Layer, axis: int) -> int | None:
    along, indices = layer.attributes.get("axis"), layer.attributes.get("indices")
    if along is None:
        return None
    if 0 in layer.constants:  # a row of a table for each index
        return int(along + axis)
    if along == axis or indices is None or len([t for t in layer.inputs if t is not None]) > 1:
        return None
    return int(axis if axis < along else axis - 1 + len(indices.shape))


def _padded(layer: Layer, axis: int) -> int | None:
    pads, rank = layer.attributes["pads"], len(layer.output.shape)
    return None if pads[axis] or pads[rank + axis] else axis


def _recurrent(layer: Layer, axis: int) -> int | None:
    """Turns along axis 0: each result has sequences in front of the last axis."""
    return -2 if axis == 1 and layer.attributes["axis"] == 0 else None


def _expanded(layer: Layer, axis: int) -> int | None:
    at = axis + len(layer.output.shape) - len(_operand(layer).shape)
    return at if layer.output.shape[at] == _operand(layer).shape[axis] else None


def _sliced(layer: Layer, axis: int) -> int | None:
    given, x = layer.attributes, _operand(layer)
    every = layer.output.shape[axis] == x.shape[axis] and given["steps"][axis] == 1
    return axis if every else None


def _multiplied(layer: Layer, axis: int) -> int | None:
    """A product of matrices: an axis in front of both, or that of the rows of the left one if the right one is constant."""
    ranks = {len(t.shape) for t in layer.inputs if t is not None}
    rank = max(ranks)
    rows = 1 in layer.constants
    if len(ranks) != 1 or axis >= rank - (1 if rows else 2):
        return None
    return axis if all(c.ndim == 2 for c in layer.constants.values()) else None


def _multiplied_and_added(layer: Layer, axis: int) -> int | None:
    """Gemm of rows of its left operand."""
    addend = layer.constants.get(2)
    alone = 1 in layer.constants and layer.inputs[1:] == (None,) * len(layer.inputs[1:])
    alike = addend is None or addend.ndim < 2 or addend.shape[0] == 1
    return 0 if axis == 0 and alone and alike and not layer.attributes["transA"] else None


def _leading(layer: Layer, axis: int) -> int | None:
    """Operators of ONNX on maps, whose axis 0 is one of images."""
    return 0 if axis == 0 and len([t for t in layer.inputs if t is not None]) == 1 else None


def _operand(layer: Layer) -> Tensor:
    return next(t for t in layer.inputs if t is not None)


_IN_ORDER = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
"""Operators that keep the order of elements."""

RECURRENT = frozenset({"GRU", "LSTM", "RNN"})

_ALONG_AXES = """
    ArgMax ArgMin Concat LayerNormalization LogSoftmax RMSNormalization ReduceL2 ReduceMax ReduceMean ReduceMin ReduceSum
    Softmax Split TopK
"""
_ON_MAPS = """
    AveragePool BatchNormalization Conv ConvTranspose DepthToSpace GlobalAveragePool GlobalMaxPool GroupNormalization
    InstanceNormalization MaxPool SpaceToDepth
"""

_RULES: Mapping[str, Callable[[Layer, int], int | None]] = MappingProxyType(
    {
        "Transpose": _transposed,
        "Gather": _gathered,
        "GatherND": _gathered,
        "Pad": _padded,
        "Slice": _sliced,
        "Expand": _expanded,
        "MatMul": _multiplied,
        "Gemm": _multiplied_and_added,
        **dict.fromkeys(RECURRENT, _recurrent),
        **dict.fromkeys(_ALONG_AXES.split(), _apart_from_axis),
        **dict.fromkeys(_ON_MAPS.split(), _leading),
    }
)
"""Operator -> the axis of its results where those of images are; operands have them at the same place."""
