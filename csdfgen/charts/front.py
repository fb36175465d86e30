"""How much time does how much memory buy? Plans as dots, memory across and time upwards, the steps
between them, and whole layers beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from csdfgen.charts.svg import DARK, GREY, INK, LIGHT, MARK, TOP, Drawing, number, ticks

__all__ = ["Dot", "front_chart"]

_LEFT, _RIGHT, _TALL = 76.0, 24.0, 300.0
_HEAD_ROOM = 1.08
"""So much is shown beyond the largest value."""

_NEAR = 14.0
"""Pixels: labels closer to each other than this would overlap."""


@dataclass(frozen=True, slots=True)
class Dot:
    """A plan: bytes, predicted seconds, measured seconds if it was run, and a few words."""

    bytes: int
    seconds: float
    measured: float | None = None
    label: str = ""


def front_chart(
    dots: Sequence[Dot], *, name: str, device: str, whole_layers: int, bound: int | None = None
) -> bytes:
    """The plans of a network that nothing dominates, as SVG. whole_layers, bound: bytes, drawn as
    lines. An empty front is a chart without dots.
    """
    drawing = Drawing()
    times = [time for dot in dots for time in (dot.seconds, dot.measured) if time is not None]
    wide = max([whole_layers, *(dot.bytes for dot in dots)], default=1) * _HEAD_ROOM / 2**20
    high = max(times, default=1.0) * _HEAD_ROOM * 1e3
    drawing.heading(
        f"{name}: memory against time",
        f"{len(dots)} plans that no other beats in both; times predicted on {device}",
    )
    left, right, bottom = _LEFT, drawing.width - _RIGHT, TOP + _TALL

    def place(size: float, ms: float) -> tuple[float, float]:
        return left + (right - left) * size / 2**20 / wide, bottom - _TALL * ms / high

    drawing.time_axis(left, right, bottom, TOP, wide, "memory, MiB")
    for value in ticks(high, 6):
        y = place(0, value)[1]
        drawing.line(left, y, right, y, "#dddddd", 0.6)
        drawing.text(left - 6, y + 3.5, f"{value:,g}", 10, "end")
    drawing.line(left, TOP, left, bottom, INK)
    drawing.text(18, (TOP + bottom) / 2, "a frame, ms", 11, "middle", upright=True)
    for size, said, dash in ((whole_layers, "whole layers", "5 3"), (bound, "bound", "2 2")):
        if size:
            x = place(size, 0)[0]
            drawing.line(x, TOP, x, bottom, GREY, 1, dash)
            drawing.text(x - 4, TOP + 10, said, 10, "end", color="#444444")
    _steps(drawing, [place(dot.bytes, 1e3 * dot.seconds) for dot in dots])
    measured = [dot for dot in dots if dot.measured is not None]
    drawing.dots([place(d.bytes, 1e3 * (d.measured or 0)) for d in measured], 7, MARK)
    drawing.dots([place(d.bytes, 1e3 * d.seconds) for d in dots], 7, DARK)
    last = -_NEAR
    for dot in dots:
        x, y = place(dot.bytes, 1e3 * dot.seconds)
        if dot.label and x - last >= _NEAR:
            drawing.text(x + 6, y - 6, dot.label, 10, color="#444444")
            last = x
    lines = ["A step is what a little more memory saves of time."]
    if measured:
        lines.append("Orange: measured on this machine, dark: predicted.")
    drawing.notes(left, bottom + 52, lines)
    return drawing.to_bytes(f"{name}: memory against time")


def _steps(drawing: Drawing, places: Sequence[tuple[float, float]]) -> None:
    """Between two plans the smaller one is the best that fits: right first, then down."""
    if len(places) > 1:
        path = f"M{number(places[0][0])} {number(places[0][1])}"
        path += "".join(f"H{number(x)}V{number(y)}" for x, y in places[1:])
        drawing.parts.append(f'<path d="{path}" stroke="{LIGHT}" stroke-width="2" fill="none"/>')
