"""How does the method look? README's picture, of a plan of three layers: no row in it is drawn by hand.

A moment of a frame has a column for each tensor and a bar for each row, as wide as the row has bytes: what is filled is
in memory. Below the moments are the bytes of all firings. The picture is for a page 720 pixels wide, on paper without
colours too.

python -m benchmarks.method_picture docs
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import csdfgen
from csdfgen.charts.svg import DARK, INK, MARK, Drawing, number, text_width, ticks
from csdfgen.files import write_bytes
from csdfgen.model.network import Tensor
from csdfgen.model.rows import Rows
from csdfgen.phases.conversion import ActorWork
from csdfgen.planning.plan import Plan

__all__ = [
    "FILE",
    "SHOWN",
    "Moment",
    "Sketch",
    "fired",
    "memory",
    "moments",
    "picture",
    "three_layers",
]


class Sketch(Drawing):
    """A drawing with outlines, hatched boxes and polygons."""

    def frame(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        color: str,
        stroke: float = 1,
        dash: str = "",
    ) -> None:
        """The outline of a box, its line in the middle of the box's edge."""
        more = f' stroke-dasharray="{dash}"' if dash else ""
        size = f'width="{number(width)}" height="{number(height)}"'
        line = f'fill="none" stroke="{color}" stroke-width="{number(stroke)}"{more}'
        self.parts.append(f'<rect x="{number(x)}" y="{number(y)}" {size} {line}/>')
        self.height = max(self.height, y + height)

    def hatch(
        self, x: float, y: float, width: float, height: float, color: str, step: float = 6
    ) -> None:
        """Lines from lower left to upper right, `step` pixels apart, across a box."""
        path = ""
        for line in range(1, int((width + height) / step) + 1):
            low, high = max(0.0, line * step - height), min(line * step, width)
            path += f"M{number(x + low)} {number(y + line * step - low)}"
            path += f"L{number(x + high)} {number(y + line * step - high)}"
        self.parts.append(f'<path d="{path}" stroke="{color}" stroke-width="0.8" fill="none"/>')
        self.height = max(self.height, y + height)

    def polygon(self, corners: Sequence[tuple[float, float]], color: str) -> None:
        path = "L".join(f"{number(x)} {number(y)}" for x, y in corners)
        self.parts.append(f'<path d="M{path}Z" fill="{color}"/>')
        self.height = max(self.height, *(y for _, y in corners))


SIZE, CHANNELS = 16, 8

SHOWN = (("conv 1", 3), ("conv 2", 8), ("pool", 6))
"""Firings in the picture: layer and phase, counted from 0. One a layer: at the start of a frame, in
the middle, and near its end.
"""

FILE = "method.svg"


def three_layers() -> onnx.ModelProto:
    """A 3x3 convolution, another one, a 2x2 pool; tensors have the names of the layers."""
    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["sums 1"], "conv 1", pads=[1] * 4),
        helper.make_node("Relu", ["sums 1"], ["conv 1"], "relu 1"),
        helper.make_node("Conv", ["conv 1", "w2"], ["sums 2"], "conv 2", pads=[1] * 4),
        helper.make_node("Relu", ["sums 2"], ["conv 2"], "relu 2"),
        helper.make_node(
            "MaxPool", ["conv 2"], ["pool"], "pool", kernel_shape=[2, 2], strides=[2, 2]
        ),
    ]
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.normal(0, 0.1, shape).astype(np.float32), name)
        for name, shape in {"w1": (CHANNELS, 3, 3, 3), "w2": (CHANNELS, CHANNELS, 3, 3)}.items()
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIZE, SIZE])
    output = helper.make_tensor_value_info("pool", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "three layers", [image], [output], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def fired(plan: Plan) -> Iterator[tuple[str, int]]:
    """Actor and phase of every firing, in the order of the plan."""
    yield from plan.order


def moments(plan: Plan) -> list[Moment]:
    """What is in memory during every firing of a plan whose tensors lie each in a buffer of its own.

    During a firing are alive the rows that have been claimed up to it and were not released before
    it; rows of a tensor that no layer reads, an output, are handed on by the firing that writes them.
    """
    conversion = plan.conversion
    tensors = {w.tensor.name: w.tensor for work in conversion.actors for w in work.writes}
    outputs = {name for name in tensors if not conversion.network.readers[name]}
    released, claimed = dict.fromkeys(tensors, 0), dict.fromkeys(tensors, 0)
    found = []
    for firing, (name, phase) in enumerate(fired(plan), start=1):
        work = conversion.actor[name]
        before = dict(claimed)
        for write in work.writes:
            claimed[write.tensor.name] = write.claimed[phase]
        alive = {tensor: Rows(released[tensor], claimed[tensor]) for tensor in tensors}
        written = {tensor: Rows(before[tensor], claimed[tensor]) for tensor in tensors}
        found.append(Moment(firing, _columns(tensors, alive, written, work, phase)))
        for read in work.reads if work.kind == "layer" else ():
            released[read.tensor.name] = read.release[phase]
        for write in work.writes:
            if write.tensor.name in outputs:
                released[write.tensor.name] = write.complete[phase]
    return found


def _columns(
    tensors: Mapping[str, Tensor],
    alive: Mapping[str, Rows],
    written: Mapping[str, Rows],
    work: ActorWork,
    phase: int,
) -> tuple[Column, ...]:
    reads = {read.tensor.name: read.rows[phase] for read in work.reads if work.kind == "layer"}
    return tuple(
        Column(name, t.rows, t.row_bytes, alive[name], reads.get(name, Rows(0, 0)), written[name])
        for name, t in tensors.items()
    )


def memory(found: list[Moment], whole: list[Moment]) -> Memory:
    """Bytes of a plan's moments, beside those of the same layers one after another."""
    highest = [max(len(c.alive) * c.row_bytes for c in kept) for kept in _by_tensor(found)]
    return Memory(tuple(map(_bytes, found)), sum(highest), max(map(_bytes, whole)))


def _by_tensor(found: list[Moment]) -> Iterator[tuple[Column, ...]]:
    return zip(*(moment.columns for moment in found), strict=True)


def _bytes(moment: Moment) -> int:
    return sum(len(column.alive) * column.row_bytes for column in moment.columns)


def picture() -> bytes:
    """The picture as an SVG file."""
    network = csdfgen.load(three_layers())
    plan = csdfgen.plan(network, rows=1, result="stored")
    found = moments(plan)
    numbers = {firing: number for number, firing in enumerate(fired(plan))}
    shown = [found[numbers[firing]] for firing in SHOWN]
    whole = moments(csdfgen.plan(network, rows="whole", result="stored"))
    return method_chart(
        "Only the rows that are still needed are in memory",
        f"A {SIZE} x {SIZE} image, two 3x3 convolutions, a 2x2 pool: three of a frame's {len(found)} firings",
        shown,
        memory(found, whole),
        _notes(found),
    )


def _notes(found: list[Moment]) -> list[str]:
    *rolling, last = (
        f"{max(len(c.alive) for c in kept)} of {kept[0].name}" for kept in _by_tensor(found)
    )
    return [
        f"Buffers hold {', '.join(rolling)} and {last}, the output, which is handed on: a new row takes the",
        "place of a released one. Bars are as wide as rows have bytes. Not counted: scratch of the kernels, and the array",
        f"of {found[0].columns[-1].rows * found[0].columns[-1].row_bytes:,} bytes that the output goes to.",
    ]


# The drawing --------------------------------------------------------------------------------------

_WIDTH = 720.0
_MARGIN = 18.0
_SMALL, _PLAIN, _LARGE = 12.0, 13.0, 17.0
"""Sizes of text in pixels."""

_BETWEEN_PANELS, _BETWEEN_COLUMNS = 34.0, 20.0
_PANEL_TOP = 138.0
_ROWS_HEIGHT = 192.0
"""Of a whole tensor, whatever its number of rows: rows of the same place are at the same height."""

_ROWS_BOTTOM = _PANEL_TOP + 24 + _ROWS_HEIGHT

_BAR = 0.8
"""Of the distance between the rows of the tensor that has most."""

_PALE, _FAINT, _SOFT = "#f9ddc1", "#b5b5b5", "#555555"
_CHART_HEIGHT = 132.0


@dataclass(frozen=True, slots=True)
class Column:
    """A tensor at one moment: the rows in memory, and of these the ones read and written now."""

    name: str
    rows: int
    row_bytes: int
    alive: Rows
    read: Rows
    written: Rows


@dataclass(frozen=True, slots=True)
class Moment:
    """A firing, numbered from 1, by one of the tensors' actors."""

    firing: int
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes alive during every firing of a frame, bytes of all buffers, most bytes of whole layers."""

    alive: tuple[int, ...]
    buffers: int
    whole: int


def method_chart(
    title: str, facts: str, moments: Sequence[Moment], memory: Memory, notes: Sequence[str]
) -> bytes:
    """The picture as an SVG file. Moments have the same tensors, in the order of the layers."""
    drawing = Sketch(_WIDTH)
    drawing.text(_MARGIN, 30, title, _LARGE, bold=True)
    drawing.text(_MARGIN, 51, facts, _PLAIN, color=_SOFT)
    _legend(drawing, 66)
    room = (_WIDTH - 2 * _MARGIN + _BETWEEN_PANELS) / len(moments)
    for place, moment in enumerate(moments):
        _panel(drawing, moment, place + 1, _MARGIN + place * room, room - _BETWEEN_PANELS)
    _chart(drawing, memory, moments, _ROWS_BOTTOM + 84)
    y = drawing.height + 16
    for note in notes:
        drawing.text(_MARGIN, y, note, _SMALL, color=_SOFT)
        y += 17
    return drawing.to_bytes(title)


# The rows ---------------------------------------------------------------------------------------


def _legend(drawing: Sketch, y: float) -> None:
    """What a bar's look means."""
    x = _MARGIN
    entries = (
        ("in memory", _alive),
        ("read now", _read),
        ("written now", _written),
        ("released", _released),
        ("not made yet", _missing),
    )
    for name, draw in entries:
        draw(drawing, x, y, 22, 10)
        drawing.text(x + 28, y + 9.5, name, _SMALL)
        x += 28 + text_width(name, _SMALL) + 20


def _alive(drawing: Sketch, x: float, y: float, width: float, height: float) -> None:
    drawing.box(x, y, width, height, DARK)


def _read(drawing: Sketch, x: float, y: float, width: float, height: float) -> None:
    drawing.box(x, y, width, height, DARK)
    drawing.frame(x - 2, y - 2, width + 4, height + 4, MARK, 2.5)


def _written(drawing: Sketch, x: float, y: float, width: float, height: float) -> None:
    drawing.box(x, y, width, height, MARK)


def _released(drawing: Sketch, x: float, y: float, width: float, height: float) -> None:
    drawing.hatch(x, y, width, height, _FAINT, 5)
    drawing.frame(x, y, width, height, _FAINT, 0.8)


def _missing(drawing: Sketch, x: float, y: float, width: float, height: float) -> None:
    drawing.frame(x, y, width, height, "#8a8a8a", 0.8, "2 2.5")


@dataclass(frozen=True, slots=True)
class _Box:
    """A column's place on the page."""

    x: float
    width: float
    pitch: float
    bar: float

    def top(self, row: int) -> float:
        return _PANEL_TOP + 24 + self.pitch * (row + 0.5) - self.bar / 2


def _panel(drawing: Sketch, moment: Moment, number: int, left: float, width: float) -> None:
    """The columns of one moment below a heading of two lines."""
    boxes = _boxes(moment.columns, left, width)
    source = next((c for c in moment.columns if c.read), None)
    target = next(c for c in moment.columns if c.written)
    _number(drawing, number, left + 9, _PANEL_TOP - 28)
    heading = f"{target.name} makes {_named(target.written)}"
    drawing.text(left + 25, _PANEL_TOP - 23, heading, _PLAIN, bold=True)
    if source is not None:
        drawing.text(left + 25, _PANEL_TOP - 6, f"of {source.name}, {_named(source.read)}", _SMALL)
    for column, box in zip(moment.columns, boxes, strict=True):
        if column is source:
            after = boxes[moment.columns.index(target)]
            _wedge(drawing, column.read, box, target.written, after)
        middle = box.x + box.width / 2
        drawing.text(middle, _PANEL_TOP + 18, column.name, _SMALL, "middle")
        _column(drawing, column, box)
        held = str(len(column.alive))
        drawing.text(middle, _ROWS_BOTTOM + 17, held, _PLAIN, "middle", bold=True)
    size = sum(len(column.alive) * column.row_bytes for column in moment.columns)
    drawing.text(
        left + width / 2, _ROWS_BOTTOM + 34, f"rows in memory: {size:,} bytes", _SMALL, "middle"
    )


def _boxes(columns: Sequence[Column], left: float, width: float) -> list[_Box]:
    """Columns as wide as their rows have bytes, so that the area of bars is memory."""
    room = width - _BETWEEN_COLUMNS * (len(columns) - 1) - 16
    scale = room / sum(column.row_bytes for column in columns)
    bar = _BAR * _ROWS_HEIGHT / max(column.rows for column in columns)
    boxes, x = [], left + 8
    for column in columns:
        size = column.row_bytes * scale
        boxes.append(_Box(x, size, _ROWS_HEIGHT / column.rows, bar))
        x += size + _BETWEEN_COLUMNS
    return boxes


def _column(drawing: Sketch, column: Column, box: _Box) -> None:
    for row in range(column.rows):
        at = drawing, box.x, box.top(row), box.width, box.bar
        if column.written.start <= row < column.written.stop:
            _written(*at)
        elif column.alive.start <= row < column.alive.stop:
            _alive(*at)
        elif row < column.alive.start:
            _released(*at)
        else:
            _missing(*at)
    if column.read:
        top, bottom = box.top(column.read.start), box.top(column.read.stop - 1) + box.bar
        drawing.frame(box.x - 2.5, top - 2.5, box.width + 5, bottom - top + 5, MARK, 2.5)


def _wedge(drawing: Sketch, read: Rows, source: _Box, written: Rows, target: _Box) -> None:
    """From the window that is read to the rows that are made of it."""
    right = source.x + source.width + 3.5
    corners = (
        (right, source.top(read.start) - 3.5),
        (target.x, target.top(written.start)),
        (target.x, target.top(written.stop - 1) + target.bar),
        (right, source.top(read.stop - 1) + source.bar + 3.5),
    )
    drawing.polygon(corners, _PALE)


def _number(drawing: Sketch, number: int, x: float, y: float) -> None:
    drawing.dots([(x, y)], 18, INK)
    drawing.text(x, y + 4.5, str(number), _PLAIN, "middle", bold=True, color="white")


def _named(rows: Rows) -> str:
    """Rows counted from 1, as people do."""
    one = len(rows) == 1
    return f"row {rows.stop}" if one else f"rows {rows.start + 1} to {rows.stop}"


# The bytes --------------------------------------------------------------------------------------


def _chart(drawing: Sketch, memory: Memory, moments: Sequence[Moment], top: float) -> None:
    """Bytes alive over the firings, below the line of whole layers."""
    left, right, bottom = _MARGIN + 46, _WIDTH - _MARGIN, top + _CHART_HEIGHT
    most = memory.whole * 1.25
    scale, step = _CHART_HEIGHT / most, (right - left) / len(memory.alive)

    def height(size: float) -> float:
        return bottom - size * scale

    drawing.text(
        _MARGIN, top - 14, "Bytes of activations in memory during a frame", _PLAIN, bold=True
    )
    for value in ticks(most, 4):
        drawing.line(left, height(value), right, height(value), "#e2e2e2", 0.8)
        drawing.text(left - 6, height(value) + 4, f"{value:,.0f}", _SMALL, "end")
    corners = [(left + step * n, height(size)) for n, size in enumerate(memory.alive)]
    drawing.area(corners, bottom, right, DARK)
    drawing.line(left, height(memory.whole), right, height(memory.whole), INK, 2)
    drawing.text(
        left + 8,
        height(memory.whole) - 7,
        f"whole layers: {memory.whole:,} bytes, dead tensors freed",
        _PLAIN,
        bold=True,
    )
    drawing.line(left, height(memory.buffers), right, height(memory.buffers), MARK, 2, "6 4")
    drawing.text(
        left + 8,
        height(memory.buffers) - 7,
        f"rows: {memory.buffers:,} bytes, all buffers together",
        _PLAIN,
        bold=True,
    )
    for place, moment in enumerate(moments):
        x = left + step * (moment.firing - 0.5)
        drawing.line(x, height(memory.alive[moment.firing - 1]), x, bottom, "white", 1.2)
        _number(drawing, place + 1, x, bottom + 13)
    drawing.line(left, bottom, right, bottom, INK)
    drawing.text(left, bottom + 18, "firing 1", _SMALL)
    drawing.text(right, bottom + 18, str(len(memory.alive)), _SMALL, "end")
    arrow = right - 150
    _fewer(drawing, arrow, height(memory.whole), height(memory.buffers), memory)


def _fewer(drawing: Sketch, x: float, top: float, bottom: float, memory: Memory) -> None:
    """An arrow from the one line down to the other, with the factor."""
    drawing.line(x, top + 2, x, bottom - 7, INK, 1.5)
    drawing.polygon([(x - 5, bottom - 10), (x + 5, bottom - 10), (x, bottom - 2)], INK)
    factor = f"{memory.whole / memory.buffers:.1f} times less"
    drawing.text(x - 10, (top + bottom) / 2 + 5, factor, _PLAIN, "end", bold=True)


def main() -> None:
    write_bytes(Path(sys.argv[1]) / FILE, picture())


if __name__ == "__main__":
    main()
