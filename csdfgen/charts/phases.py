"""Which layer fires when? The phases of a plan as a Gantt chart: a line a layer, in the order of firings."""

from __future__ import annotations

import numpy as np

from csdfgen.charts.footprint import Footprint, ramp
from csdfgen.charts.plan_axes import (
    Axes,
    Look,
    draw_chart,
    merge_spans,
    panel_margins,
    shorten_name,
)
from csdfgen.charts.svg import Drawing, label_interval, quantity, text_width

_TALLEST, _LOWEST, _HEIGHT = 16.0, 4.0, 760.0
_WIDEST_NAME = 0.2
"""Of the picture's width."""

_APART = 0.6
"""Pixels between firings that are seen as a pause."""


def phases_chart(footprint: Footprint) -> bytes:
    """The chart as an SVG file."""
    return draw_chart(footprint, "phases", draw_phases)


def draw_phases(drawing: Drawing, footprint: Footprint, look: Look, top: float) -> Axes:
    """The chart below `top`, and its axes, in lines instead of bytes."""
    count = len(footprint.layers)
    height = min(_TALLEST, max(_LOWEST, _HEIGHT / max(1, count)))
    names = [shorten_name(layer.name, _WIDEST_NAME * drawing.width) for layer in footprint.layers]
    left = 14 + max((text_width(name, 10) for name in names), default=0.0)
    bottom = top + height * count
    axes = Axes(
        drawing,
        look,
        footprint.firings,
        max(1, count),
        top,
        bottom,
        (left, panel_margins(drawing)[1]),
    )
    colors = ramp(count)
    every = label_interval(height)
    for line, layer in enumerate(footprint.layers):
        middle = top + height * (line + 0.5)
        if line % every == 0:
            drawing.text(left - 6, middle + 3.5, names[line], 10, "end")
            drawing.line(left, middle, axes.right, middle, look.grid, 0.6)
        at = np.flatnonzero(footprint.order == line)
        step = (axes.right - left) / max(1, footprint.firings)
        starts, stops = merge_spans(left + step * at, left + step * (at + 1), _APART)
        spans = [(a, max(b, a + 1.0)) for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
        title = f"{layer.name}: {layer.function}, {quantity(layer.phases, 'phases')}"
        drawing.bars(spans, middle, height * 0.82, colors[line], title)
    axes.firing_axis("firings in their order")
    return axes
