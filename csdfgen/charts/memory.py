"""The memory of each layer, firing by firing, as stacked areas, compared with whole layers.

The chart shows the scratch that kernels require; a kernel gets more if the arena has free bytes. If firings are narrower than
a pixel, a column shows the firing with the most live bytes, so that no peak is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from csdfgen.charts.footprint import Footprint, binary_size, ramp
from csdfgen.charts.plan_axes import (
    ON_PAPER,
    Axes,
    Box,
    Look,
    Spot,
    draw_chart,
    label,
    panel_margins,
    shorten_name,
)
from csdfgen.charts.svg import TOP, Drawing, number, text_width

_OVERVIEW, _HEIGHT = 96.0, 300.0
_APART = 2.0
"""Whole layers that take so many times more are shown in a panel of their own."""

_MOST_POINTS = 120_000
_TALL = 12.0
"""Pixels that an area needs for its name."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """edges[k] to edges[k + 1]: firings of column k; held[line, k]: bytes in its fullest firing."""

    edges: np.ndarray
    held: np.ndarray


def memory_chart(footprint: Footprint) -> bytes:
    """The chart as an SVG file."""
    return draw_chart(footprint, f"memory over {footprint.span}", draw_memory, TOP + 4)


def small_memory_chart(footprint: Footprint, width: float = 480, height: float = 150) -> str:
    """What is alive by layers, without axes, on white: an element for a notebook."""
    drawing = Drawing(width)
    columns = _columns(footprint, int(width))
    most = float(max(footprint.arena, columns.held.sum(axis=0).max(initial=0), 1))
    axes = Axes(drawing, ON_PAPER, footprint.firings, most * 1.02, 4, height, (2, 2))
    drawing.box(0, 0, width, height, ON_PAPER.edge)
    _stack(axes, footprint, columns, names=False)
    drawing.line(2, height, width - 2, height, ON_PAPER.soft)
    axes.line(footprint.arena)
    axes.named(
        axes.right, axes.y(footprint.arena) + 12, f"arena {binary_size(footprint.arena)}", "end"
    )
    return drawing.inline(
        f"{footprint.title}: bytes alive in each of {footprint.firings:,} firings",
        {"style": "max-width:100%;height:auto;color:#222222", "font-family": "sans-serif"},
    )


def draw_memory(
    drawing: Drawing, footprint: Footprint, look: Look, top: float, scale: float = 0
) -> Axes:
    """Both panels, or one, below `top`; the axes of the stacked one. scale: bytes that it reaches up
    to, without whole layers; 0 as it needs.
    """
    left, right = panel_margins(drawing)
    pixels = int(drawing.width - left - right)
    # columns of two pixels; with few layers, of one
    few = len(footprint.layers) * 2 * pixels <= _MOST_POINTS
    columns = _columns(footprint, pixels if few else pixels // 2)
    whole = footprint.whole_alive()
    ours = float(max(columns.held.sum(axis=0).max(initial=0), footprint.arena, scale, 1))
    apart = bool(scale) or float(whole.max(initial=0)) >= _APART * max(1, footprint.most)
    if apart and not scale:
        gain = f"at most {binary_size(whole.max())}; by rows (blue), in an arena of {binary_size(footprint.arena)}"
        text = f"To scale: whole layers, {gain}"
        top = drawing.wrapped(left, top + 9, text, 11, bold=True) - 7
        most = float(whole.max()) * 1.04
        over = Axes(drawing, look, footprint.firings, most, top, top + _OVERVIEW)
        _overview(over, columns, whole)
        text = "The same, enlarged: what is alive, by layer"
        top = drawing.wrapped(left, over.bottom + 32, text, 11, bold=True) - 6
    most = 1.06 * max(ours, 0.0 if apart else float(whole.max(initial=0)))
    axes = Axes(drawing, look, footprint.firings, most, top, top + _HEIGHT)
    axes.byte_axis()
    if not apart and footprint.whole:
        drawing.shape(_silhouette(axes, whole), look.whole, "whole layers, one after another")
    _stack(axes, footprint, columns, names=True)
    _labels(axes, footprint, 0 if apart else int(whole.max(initial=0)))
    axes.firing_axis("firings in their order")
    return axes


def _columns(footprint: Footprint, most: int) -> _Columns:
    count = max(1, min(most, footprint.firings))
    edges = np.arange(count + 1) * footprint.firings // count
    alive = footprint.counted
    if not len(alive):
        return _Columns(edges, footprint.held[:, :0])
    starts = edges[:-1]
    best = np.maximum.reduceat(alive, starts)
    place = np.repeat(np.arange(count), np.diff(edges))
    fullest = np.flatnonzero(alive == best[place])
    chosen = fullest[np.unique(place[fullest], return_index=True)[1]]
    held = footprint.held[:, chosen]
    held[-1] = np.minimum(held[-1], footprint.needed[chosen])
    return _Columns(edges, held)


def _overview(axes: Axes, columns: _Columns, whole: np.ndarray) -> None:
    """Whole layers and rows at one scale."""
    drawing, look = axes.drawing, axes.look
    axes.byte_axis(3)
    drawing.shape(_silhouette(axes, whole), look.whole, "whole layers, one after another")
    total = columns.held.sum(axis=0).tolist()
    drawing.shape(axes.steps(columns.edges.tolist(), total), look.accent, "by rows, this plan")
    drawing.line(axes.left, axes.bottom, axes.right, axes.bottom, look.soft)


def _silhouette(axes: Axes, alive: np.ndarray) -> str:
    changes = np.flatnonzero(np.diff(alive)) + 1
    starts = np.concatenate([[0], changes])
    return axes.steps([*starts.tolist(), len(alive)], alive[starts].tolist())


def _stack(axes: Axes, footprint: Footprint, columns: _Columns, *, names: bool) -> None:
    """An area a layer, the first at the bottom, workspace on top."""
    drawing, count = axes.drawing, len(footprint.layers)
    colors = (*ramp(count), axes.look.scratch)
    tops = np.cumsum(columns.held, axis=0)
    xs = axes.left + (axes.right - axes.left) * columns.edges / max(1, footprint.firings)
    scale = (axes.bottom - axes.top) / max(1.0, axes.most)
    most = columns.held.max(axis=1, initial=0)
    for line in np.flatnonzero(most):
        name = footprint.layers[line].name if line < count else "workspace that the firing needs"
        title = f"{name}: at most {binary_size(most[line])}"
        low, high = tops[line] - columns.held[line], tops[line]
        drawing.shape(_bands(axes, xs, low, high), colors[line], title)
    drawing.height = max(drawing.height, axes.bottom)
    if not names:
        return
    for line in np.argsort(-most, kind="stable")[: 2 * count]:
        if line == count or most[line] * scale < _TALL:
            continue
        low, high = tops[line] - columns.held[line], tops[line]
        found = _place_for(
            footprint.layers[line].name, xs, axes.bottom - high * scale, axes.bottom - low * scale
        )
        if found is not None:
            label(drawing, found[0], found[1], found[2], colors[line])


def _bands(axes: Axes, xs: np.ndarray, low: np.ndarray, high: np.ndarray) -> str:
    """Closed steps over each stretch of columns in which something is alive."""
    alive = np.concatenate([[False], high > low, [False]])
    edges = np.flatnonzero(alive[1:] != alive[:-1])
    path = ""
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        over = _walk(axes, xs, high, range(start, stop))
        under = _walk(axes, xs, low, range(stop - 1, start - 1, -1))
        path += f"M{number(float(xs[start]))} {over}{under}Z"
    return path


def _walk(axes: Axes, xs: np.ndarray, sizes: np.ndarray, columns: range) -> str:
    """Along a side of an area: forwards from the first column's left, backwards from its right."""
    ahead = 1 if columns.step > 0 else 0
    path, last = "", ""
    for at in columns:
        y = number(axes.y(float(sizes[at])))
        if y != last:
            before = "" if not last else f"H{number(float(xs[at + 1 - ahead]))}"
            path += f"{before}V{y}" if last or ahead == 0 else y
            last = y
    end = columns[-1] + ahead
    return f"{path}H{number(float(xs[end]))}"


def _place_for(
    name: str, xs: np.ndarray, top: np.ndarray, bottom: np.ndarray
) -> tuple[float, float, str] | None:
    """(middle, base line, text) where a name fits between the edges of an area; None if nowhere."""
    shown = shorten_name(name, 150, parts=True)
    step = float(xs[-1] - xs[0]) / max(1, len(top))
    count = int((text_width(shown, 10) + 8) / max(step, 1e-9)) + 1
    if not shown or count > len(top):
        return None
    views = np.lib.stride_tricks.sliding_window_view
    tops, bottoms = views(top, count), views(bottom, count)
    upper, lower = tops.mean(axis=1), bottoms.mean(axis=1)
    # free height, less where the edges go up and down
    height = lower - upper - (tops.std(axis=1) + bottoms.std(axis=1))
    best = int(height.argmax())
    if height[best] < _TALL * 0.7 or lower[best] - upper[best] < _TALL:
        return None
    middle = float(xs[best] + xs[best + count]) / 2
    return middle, float(upper[best] + lower[best]) / 2 + 3.5, shown


def _labels(axes: Axes, footprint: Footprint, whole: int) -> None:
    """Dashed lines at the arena, a bound and whole layers (0: not shown), and a dot on the fullest
    firing, each with its name and size.
    """
    look, bound = axes.look, footprint.figures.get("lower_bound", 0)
    levels = [(footprint.arena, "arena", "", False), (bound, "proven bound", look.mark, True)]
    if whole > footprint.arena:
        levels.append((whole, "whole layers", look.soft, False))
    levels = [level for level in levels if level[0]]
    lines = [axes.y(size) for size, *_ in levels]
    x, y = axes.x(footprint.peak + 0.5), axes.y(footprint.most)
    taken: list[Box] = [(x - 4, y - 4, x + 4, y + 4)] * bool(footprint.firings)
    for size, name, color, at_left in levels:
        axes.line(size, color)
        axes.label(
            f"{name} {binary_size(size)}", _around(axes, axes.y(size), at_left), lines, taken
        )
    if footprint.firings:
        axes.drawing.dots([(x, y)], 6, look.mark)
        text = f"{binary_size(footprint.most)} alive in firing {footprint.peak + 1:,}"
        middle = min(
            max(x - text_width(text, 11) / 2, axes.left), axes.right - text_width(text, 11)
        )
        sides = ((x + 8, "start"), (x - 8, "end"), (middle, "start"))
        # above the dot there are no bars, but there may be lines
        heights = (*(y - 4 - 13 * k for k in range(2)), *(y + 4 + 13 * k for k in range(6)))
        spots = [(at, height, anchor) for height in heights for at, anchor in sides]
        axes.label(text, spots, lines, taken)


def _around(axes: Axes, y: float, at_left: bool) -> list[Spot]:
    """Above and below a line at y, at its ends, the nearest first."""
    sides = ((axes.right, "end"), (axes.left + 4, "start"))
    return [
        (x, y - 4 - 13 * k if above else y + 12 + 13 * k, anchor)
        for k in range(4)
        for above in (True, False)
        for x, anchor in (reversed(sides) if at_left else sides)
    ]
