"""Which row of the input does each row of a padded map show? Pad: constant, edge, reflect, wrap,
and crops.

Source: https://onnx.ai/onnx/operators/onnx__Pad.html. A table per axis says which input position an
output position shows, or that it shows the constant; the row axis's table is the row rule. Rows
mirrored at the top or the bottom stay until their mirror image has been written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.network import Layer, Node
from csdfgen.model.rows import Rows
from csdfgen.ops._operands import (
    check_shape,
    check_word,
    first_input_rows,
    normalize_axes,
    one_input_layer,
    output_elements,
    read_attribute_or_input,
    read_integers,
    storage_axis,
)
from csdfgen.ops.base import (
    Alias,
    AliasKind,
    Call,
    Emit,
    Mode,
    Operator,
    Work,
    require_constant,
    require_tensor,
)
from csdfgen.ops.copies import OUTSIDE, RowTable, Segment, copy_segments, cut, segments

MODES = ("constant", "edge", "reflect", "wrap")


@dataclass(frozen=True, slots=True)
class _Padding:
    """What happens to an axis of `length`: `begin` before it, `end` behind; negative to crop."""

    length: int
    begin: int
    end: int
    mode: str

    @property
    def kept(self) -> range:
        """Input positions that are not cropped."""
        return range(max(0, -self.begin), min(self.length, self.length + self.end))

    @property
    def interior(self) -> slice:
        """Output positions that show the kept input positions, in order."""
        begin = max(0, self.begin)
        return slice(begin, begin + len(self.kept))


@lru_cache(maxsize=256)
def _table(padding: _Padding) -> tuple[int, ...]:
    """Input position of every output position; `OUTSIDE` where it shows the constant.

    >>> _table(_Padding(4, 2, -1, "reflect"))
    (2, 1, 0, 1, 2)
    """
    kept = padding.kept
    if padding.mode == "constant":
        return tuple(
            k if k in kept else OUTSIDE for k in range(-padding.begin, padding.length + padding.end)
        )
    widths = max(0, padding.begin), max(0, padding.end)
    return tuple(int(k) for k in np.pad(np.array(kept), widths, mode=padding.mode))  # type: ignore[call-overload]


@lru_cache(maxsize=256)
def _places(padding: _Padding) -> np.ndarray:
    """The same as an array."""
    return np.array(_table(padding), np.int64)


@lru_cache(maxsize=256)
def _row_table(padding: _Padding) -> RowTable:
    table = _table(padding)
    return RowTable.of(table, table, padding.length)


def _padding(layer: Layer, axis: int) -> _Padding:
    pads, source = layer.attributes["pads"], layer.computed(0)
    return _Padding(
        source.shape[axis], pads[axis], pads[axis + len(source.shape)], layer.attributes["mode"]
    )


def _pads(node: Node, rank: int) -> tuple[int, ...]:
    """Pads at the begin of every axis, then at the end of every axis."""
    pads = read_attribute_or_input(node, "pads", 1, since=11)
    given = node.operand(3)
    axes = (
        range(rank)
        if given is None
        else normalize_axes(read_integers(require_constant(node, 3), "axes"), rank)
    )
    if pads is None or len(pads) != 2 * len(axes):
        raise ModelError(f"pads {pads} do not fit {len(axes)} axes; two values per axis are needed")
    full = [0] * (2 * rank)
    for k, axis in enumerate(axes):
        full[axis], full[axis + rank] = pads[k], pads[k + len(axes)]
    return tuple(full)


def _value(node: Node, dtype: str) -> Any:
    """The constant to pad with, a Python scalar."""
    if node.opset < 11:
        return np.array(PAD.attribute(node, "value")).astype(dtype).item()
    if node.operand(2) is None:
        return np.zeros((), dtype).item()
    given = require_constant(node, 2)
    if given.size != 1:
        raise ModelError(f"'constant_value' has {given.size} elements, one is needed")
    return given.astype(dtype).item()


def _build(node: Node) -> Layer:
    source = require_tensor(node, 0)
    mode = check_word(PAD.attribute(node, "mode"), "mode", MODES)
    rank = len(source.shape)
    pads = _pads(node, rank)
    shape = check_shape(
        tuple(size + pads[k] + pads[k + rank] for k, size in enumerate(source.shape))
    )
    output = replace(source, name=node.outputs[0], shape=shape)
    layer = one_input_layer(
        node, source, output, pads=pads, mode=mode, value=_value(node, source.dtype)
    )
    for axis in range(rank):
        padding = _padding(layer, axis)
        if not padding.kept and mode != "constant":
            raise ModelError(
                f"axis {axis} of {padding.length} is cropped away, so there is nothing to pad with mode '{mode}'"
            )
    return layer


def _wraps_rows(layer: Layer) -> bool:
    k = layer.computed(0).row_axis
    return (
        k is not None
        and layer.attributes["mode"] == "wrap"
        and max(_padding(layer, k).begin, _padding(layer, k).end) > 0
    )


def _rows(layer: Layer, out: Rows) -> tuple[Rows | None, ...]:
    source = layer.computed(0)
    if source.row_axis is None:
        rows = out
    elif _wraps_rows(layer):
        rows = Rows(0, source.rows)
    elif layer.attributes.get("streams"):
        rows = _widened_rows(layer, out, source.row_axis)
    else:
        rows = _row_table(_padding(layer, source.row_axis)).input_rows(out)
    return first_input_rows(layer, rows)


def _widened_rows(layer: Layer, out: Rows, axis: int) -> Rows:
    """The rows that any output rows so far from the ends of an image may show: those of a stream follow one rule."""
    padding = _padding(layer, axis)
    times = 2 if padding.mode == "reflect" else 1
    start = out.start - padding.begin - times * max(0, padding.end)
    stop = out.stop - padding.begin + times * max(0, padding.begin)
    return Rows(max(0, start), max(0, start, stop)).clip(padding.length)


def widen(layer: Layer) -> Layer:
    """A layer that repeats rows at the ends of an image as one that may stream: it keeps rows for as long as these are apart
    from where they are shown. Others stay as they are.
    """
    repeats = layer.op_type == "Pad" and layer.attributes["mode"] in ("edge", "reflect")
    return (
        replace(layer, attributes={**layer.attributes, "streams": True})
        if repeats and layer.computed(0).row_axis is not None
        else layer
    )


def _row_segments(layer: Layer, out: Rows, held: Rows) -> tuple[Segment, ...]:
    """Where the slab's rows go among output rows `out`; `OUTSIDE` for constant rows."""
    k = layer.computed(0).row_axis
    if k is None:
        return (Segment(0, 0),)
    rows = _places(_padding(layer, k))[out.start : out.stop]
    return segments(np.where(rows == OUTSIDE, OUTSIDE, rows - held.start))


def _constant_rows(layer: Layer, out: Rows) -> tuple[Segment, ...] | None:
    """Where output rows show rows of the input, and where the constant; None in modes in which rows are read for others,
    too.
    """
    held = _rows(layer, out)[0]
    if layer.attributes["mode"] != "constant" or held is None:
        return None
    return _row_segments(layer, out, held)


def _kernel(layer: Layer) -> Emit:
    source = layer.computed(0)
    constant = layer.attributes["mode"] == "constant"
    value = np.array(layer.attributes["value"], source.dtype)
    paddings: Mapping[int, _Padding] = {
        storage_axis(source, axis): _padding(layer, axis)
        for axis in range(len(source.shape))
        if axis != source.row_axis
    }
    inner = (slice(None), *(slice(p.kept.start, p.kept.stop) for _, p in sorted(paddings.items())))
    interior = (slice(None), *(p.interior for _, p in sorted(paddings.items())))
    sides = _sides(paddings)

    def emit(work: Work) -> list[Call]:
        slab, held, result = work.slab, work.held, work.result
        rows = _row_segments(layer, work.phase.out, held)
        calls: list[Call] = []
        for row in rows:
            if row.first == OUTSIDE:
                calls.append((np.copyto, (result[row.target], value)))
            else:
                calls.append(copy_segments(result[interior], slab[inner], [(0, row)]))
        # Constant rows are done. The rest surrounds the interior: axis by axis, each from what is
        # written so far.
        written = [row.target for row in rows if row.first != OUTSIDE]
        for side in sides if written else ():
            region = result[written[0].start : written[-1].stop][side.region]
            if constant:
                calls.append((np.copyto, (cut(region, side.axis, side.segment.target), value)))
            else:
                calls.append(copy_segments(region, region, [(side.axis, side.segment)]))
        return calls

    return emit


@dataclass(frozen=True, slots=True)
class _Side:
    """A run of padded positions beside the interior, and the region of the row where it is filled."""

    axis: int
    segment: Segment
    region: tuple[slice, ...]


def _sides(paddings: Mapping[int, _Padding]) -> tuple[_Side, ...]:
    """The padded positions of a row, in an order in which each is filled from what is there."""
    found: list[_Side] = []
    region = [slice(None), *(paddings[axis].interior for axis in sorted(paddings))]
    for axis in sorted(paddings):
        padding = paddings[axis]
        region[axis] = slice(None)
        shift = padding.interior.start - padding.kept.start
        positions = [
            OUTSIDE if position == OUTSIDE else position + shift for position in _table(padding)
        ]
        for begin, stop in ((0, padding.interior.start), (padding.interior.stop, len(positions))):
            for run in segments(positions[begin:stop]):
                found.append(_Side(axis, replace(run, at=run.at + begin), tuple(region)))
    return tuple(found)


def _aliases(layer: Layer) -> tuple[Alias, ...]:
    return () if any(layer.attributes["pads"]) else (Alias(AliasKind.VIEW, 0),)


PAD = Operator(
    "Pad",
    _build,
    _rows,
    _kernel,
    output_elements,
    mode=lambda layer: Mode.WHOLE if _wraps_rows(layer) else Mode.ROWS,
    aliases=_aliases,
    pattern=_constant_rows,
    row_kind=lambda layer, row: 0,
    constant_inputs=frozenset({1, 2, 3}),
    attributes=MappingProxyType({"mode": "constant", "pads": None, "value": 0.0}),
    structure="row-phased; whole if rows wrap around",
    notes="Negative pads crop.",
)

OPERATORS: tuple[Operator, ...] = (PAD,)
