"""Where in the arena is each row, and when? Addresses from bottom to top, firings from left to right."""

from __future__ import annotations

import numpy as np

from csdfgen.charts.footprint import Footprint, binary_size, ramp
from csdfgen.charts.plan_axes import Axes, Look, draw_chart, label, merge_spans, shorten_name
from csdfgen.charts.svg import Drawing, number, text_width

_HEIGHT = 400.0
_GRID = 5
"""Steps of a pixel that are distinguished: rectangles that are closer are drawn as one."""

_SEEN = 2.5
"""Pixels from which on, in both directions, a rectangle has a line around it, so that rows can be
distinguished.
"""

_TALL = 12.0
_FILLED = 0.7
"""Part of the bytes and firings around a tensor's rows that they fill where its name is written."""


def arena_chart(footprint: Footprint) -> bytes:
    """The chart as an SVG file."""
    return draw_chart(footprint, f"the arena over {footprint.span}", draw_arena)


def draw_arena(drawing: Drawing, footprint: Footprint, look: Look, top: float) -> Axes:
    """The map below `top`, and its axes."""
    axes = Axes(
        drawing, look, footprint.firings, float(max(1, footprint.arena)), top, top + _HEIGHT
    )
    axes.byte_axis(6)
    colors = ramp(len(footprint.layers))
    shown = footprint.in_arena
    size = footprint.high - footprint.low
    for line, layer in enumerate(footprint.layers):
        mine = shown & ~footprint.scratch & (footprint.layer == line)
        if mine.any():
            rows = int((footprint.end - footprint.row)[mine].sum())
            title = f"{layer.name}: {rows:,} rows, {binary_size(int(size[mine].sum()))} over {footprint.span}"
            apart, close = _boxes(axes, footprint, mine)
            drawing.shape(close, colors[line], title, edge=colors[line], width=0.6)
            drawing.shape(apart, colors[line], title, edge=look.edge)
    scratch = shown & footprint.scratch
    if scratch.any():
        title = f"workspace: at most {binary_size(int(size[scratch].max()))} in a firing"
        drawing.shape("".join(_boxes(axes, footprint, scratch)), look.scratch, title)
    for owner in np.unique(footprint.owner[shown & ~footprint.scratch]).tolist():
        _name(axes, footprint, owner, colors)
    drawing.line(axes.left, axes.top, axes.right, axes.top, look.soft, 1, "5 3")
    axes.named(axes.right, axes.top - 5, f"arena {binary_size(footprint.arena)}", "end")
    axes.firing_axis("firings in their order")
    return axes


def _boxes(axes: Axes, footprint: Footprint, mine: np.ndarray) -> tuple[str, str]:
    """Paths of the rectangles that are seen, and of the others, of which those closer than a step
    of a pixel are one.
    """
    wide_x = (axes.right - axes.left) / max(1, footprint.firings) * _GRID
    wide_y = (axes.bottom - axes.top) / axes.most * _GRID
    x0 = np.floor(footprint.first[mine] * wide_x).astype(np.int64)
    x1 = np.maximum(x0 + 1, np.round(footprint.last[mine] * wide_x).astype(np.int64))
    y0 = np.floor(footprint.low[mine] * wide_y).astype(np.int64)
    y1 = np.maximum(y0 + 1, np.round(footprint.high[mine] * wide_y).astype(np.int64))
    seen = (x1 - x0 >= _SEEN * _GRID) & (y1 - y0 >= _SEEN * _GRID)
    boxes = np.unique(np.stack([x0, x1, y0, y1], axis=1)[seen], axis=0)
    apart = "".join(_box(axes, *box) for box in boxes.tolist())
    x0, x1, y0, y1 = (one[~seen] for one in (x0, x1, y0, y1))
    if not len(x0):
        return apart, ""
    lanes, lane = np.unique(np.stack([y0, y1], axis=1), axis=0, return_inverse=True)
    # lanes follow each other, far enough apart that no span of one joins a span of the next
    step = int(x1.max()) + 3
    shift = lane.reshape(-1) * step
    order = np.lexsort((x0, shift))
    starts, stops = merge_spans((x0 + shift)[order], (x1 + shift)[order], 2)
    at = starts // step
    boxes = np.column_stack([starts - at * step, stops - at * step, lanes[at]])
    return apart, "".join(_box(axes, *box) for box in boxes.tolist())


def _box(axes: Axes, x0: int, x1: int, y0: int, y1: int) -> str:
    wide_, tall = number((x1 - x0) / _GRID), number((y1 - y0) / _GRID)
    at = f"M{number(axes.left + x0 / _GRID)} {number(axes.bottom - y1 / _GRID)}"
    return f"{at}h{wide_}v{tall}h-{wide_}z"


def _name(axes: Axes, footprint: Footprint, owner: int, colors: tuple[str, ...]) -> None:
    """The layer's name on its rows, where they are a block that is large enough for it."""
    mine = footprint.owner == owner
    low, high = int(footprint.low[mine].min()), int(footprint.high[mine].max())
    first, last = int(footprint.first[mine].min()), int(footprint.last[mine].max())
    area = ((footprint.high - footprint.low) * (footprint.last - footprint.first))[mine].sum()
    if axes.y(low) - axes.y(high) < _TALL or area < _FILLED * (high - low) * (last - first):
        return
    place = footprint.owners[owner].layer
    shown = shorten_name(footprint.layers[place].name, axes.x(last) - axes.x(first) - 8, parts=True)
    if text_width(shown, 10) > 0:
        middle = (axes.y(low) + axes.y(high)) / 2 + 3.5
        label(axes.drawing, (axes.x(first) + axes.x(last)) / 2, middle, shown, colors[place])
