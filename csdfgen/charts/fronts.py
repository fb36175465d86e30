"""Charts of predicted time over the memory of plans: a sweep has a panel for each model and a line for each set of options;
the Pareto front of a network is one line.

The axes of a sweep do not start at 0, because sets of options differ by a small part of their figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from csdfgen.charts.footprint import ramp
from csdfgen.charts.svg import DARK, GREY, INK, LIGHT, MARK, TOP, Drawing, cut, number, text_width

_LEFT, _RIGHT, _TALL = 64.0, 20.0, 230.0
_BELOW, _ABOVE = 62.0, 26.0
"""Pixels for the names of an axis, and for a panel's title."""

_MARGIN = 0.06
"""Of a span, left free beyond its ends."""

_LEAST_ROOM = 0.02
"""The same, of what the axis ends at."""

_FRONT_TALL, _HEAD_ROOM = 300.0, 1.08
"""Height of the panel of a front, and what its axes show beyond the largest value, as a factor."""

_MOST_PANELS = 24
_LONGEST = 60
_SMALL, _DOT = 10.0, 7.0
_RING, _RIM, _RINGS = 3.0, 2.0, 3
"""Pixels that an earlier line's dots and path are wider for each later one, of at most so many."""
_DASHES = ("", "7 3", "2 2")
_FEW = 6
"""Lines that colours alone distinguish; of more, neighbours differ in their dashes too."""


@dataclass(frozen=True, slots=True)
class Line:
    """Plans with one set of options: (bytes, seconds), from the smallest to the largest; or points of a panel with axes of
    its own.
    """

    label: str
    dots: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """The plans of one model. axes: what is drawn across and up, if that is not memory and time; dots then have these values."""

    title: str
    lines: tuple[Line, ...]
    axes: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class _Axes:
    """A panel's place, and the values at its edges: KiB or MiB, and ms."""

    drawing: Drawing
    left: float
    right: float
    top: float
    bottom: float
    across: tuple[float, float]
    up: tuple[float, float]

    def x(self, size: float) -> float:
        low, high = self.across
        return self.left + (self.right - self.left) * (size - low) / (high - low)

    def y(self, ms: float) -> float:
        low, high = self.up
        return self.bottom - (self.bottom - self.top) * (ms - low) / (high - low)

    def draw(self, across: str, up: str) -> None:
        """Edges, lines at round numbers, and what the axes are."""
        drawing = self.drawing
        for value, text in _marks(self.across, 7):
            x = self.x(value)
            drawing.line(x, self.top, x, self.bottom, "#dddddd", 0.6)
            drawing.text(x, self.bottom + 15, text, _SMALL, "middle")
        for value, text in _marks(self.up, 6):
            y = self.y(value)
            drawing.line(self.left, y, self.right, y, "#dddddd", 0.6)
            drawing.text(self.left - 6, y + 3.5, text, _SMALL, "end")
        drawing.line(self.left, self.bottom, self.right, self.bottom, INK)
        drawing.line(self.left, self.top, self.left, self.bottom, INK)
        drawing.text((self.left + self.right) / 2, self.bottom + 31, across, 11, "middle")
        x, y = self.left + 14 - _LEFT, (self.top + self.bottom) / 2
        drawing.text(x, y, up, 11, "middle", upright=True)

    def path(self, steps: str, color: str, width: float, dash: str = "") -> None:
        more = f' stroke-dasharray="{dash}"' if dash else ""
        line = f'stroke="{color}" stroke-width="{number(width)}" fill="none"{more}'
        self.drawing.parts.append(f'<path d="{steps}" {line}/>')


def sweep_chart(title: str, facts: str, panels: Sequence[Panel]) -> bytes:
    """The panels as an SVG file, two in a row where there are several; facts: the line below the title."""
    drawing = Drawing()
    drawing.heading(title, facts)
    shown = panels[:_MOST_PANELS]
    looks = _looks([line.label for panel in shown for line in panel.lines])
    top = _legend(drawing, looks)
    columns = 2 if len(shown) > 1 else 1
    width = drawing.width / columns
    for place, panel in enumerate(shown):
        row, column = divmod(place, columns)
        _panel(drawing, panel, looks, column * width, width, top + row * (_ABOVE + _TALL + _BELOW))
    bottom = top - (-len(shown) // columns) * (_ABOVE + _TALL + _BELOW)
    notes = ["Axes need not begin at 0."]
    if any(panel.axes is None for panel in shown):
        notes = [f"A dot is a plan; its memory is the arena and the outputs outside it. {notes[0]}"]
    if not shown:
        notes = ["No point has a plan."]
    if len(panels) > len(shown):
        notes.append(f"{len(panels) - len(shown)} more models are in the table.")
    drawing.notes(_LEFT, bottom + 8, notes)
    return drawing.to_bytes(title)


def _looks(labels: Sequence[str]) -> Mapping[str, tuple[str, str]]:
    """Label -> colour and dashes."""
    names = list(dict.fromkeys(labels))
    dashes = _DASHES if len(names) > _FEW else _DASHES[:1]
    return {
        name: (color, dashes[place % len(dashes)])
        for place, (name, color) in enumerate(zip(names, ramp(len(names)), strict=True))
    }


def _legend(drawing: Drawing, looks: Mapping[str, tuple[str, str]]) -> float:
    """A sample of every line with its name; returns the height of what follows."""
    x, y = 12.0, TOP
    if len(looks) < 2:
        return y
    for name, (color, dash) in looks.items():
        shown = cut(name, _LONGEST)
        size = 30 + text_width(shown, 11) + 18
        if x > 12 and x + size > drawing.width - 12:
            x, y = 12.0, y + 17
        drawing.line(x, y - 4, x + 24, y - 4, color, 2.2, dash)
        drawing.dots([(x + 12, y - 4)], _DOT, color)
        drawing.text(x + 30, y, shown, 11)
        x += size
    return y + 22


def _panel(
    drawing: Drawing,
    panel: Panel,
    looks: Mapping[str, tuple[str, str]],
    left: float,
    width: float,
    top: float,
) -> None:
    sizes = [size for line in panel.lines for size, _ in line.dots]
    unit, name = (2**20, "MiB") if max(sizes) >= 2**20 else (2**10, "KiB")
    across, up = panel.axes or (f"memory of a plan, {name}", "an image, predicted ms")
    unit, milli = (unit, 1e3) if panel.axes is None else (1, 1.0)
    times = [milli * seconds for line in panel.lines for _, seconds in line.dots]
    axes = _Axes(
        drawing, left + _LEFT, left + width - _RIGHT, top + _ABOVE, top + _ABOVE + _TALL,
        _span([size / unit for size in sizes]), _span(times),
    )  # fmt: skip
    drawing.text(axes.left, top + 12, cut(panel.title, _LONGEST), 12, bold=True)
    axes.draw(across, up)
    for place, line in enumerate(panel.lines):
        color, dash = looks[line.label]
        places = [(axes.x(size / unit), axes.y(milli * seconds)) for size, seconds in line.dots]
        # of plans that several lines share, the earlier lines are seen as rims and rings
        under = min(_RINGS, len(panel.lines) - 1 - place)
        if len(places) > 1:
            path = "L".join(f"{number(x)} {number(y)}" for x, y in places)
            axes.path(f"M{path}", color, 2.2 + _RIM * under, dash)
        drawing.dots(places, _DOT + _RING * under, color)


# One network's front ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dot:
    """A plan: bytes, predicted seconds, and measured seconds if it was executed."""

    bytes: int
    seconds: float
    measured: float | None = None


def front_chart(
    dots: Sequence[Dot], *, name: str, device: str, whole_layers: int, bound: int | None = None
) -> bytes:
    """The Pareto front of a network as SVG. whole_layers, bound: bytes, drawn as lines. An empty
    front is a chart without dots.
    """
    drawing, title = Drawing(), f"{name}: memory against time"
    times = [time for dot in dots for time in (dot.seconds, dot.measured) if time is not None]
    end = max([whole_layers, *(dot.bytes for dot in dots)], default=1) * _HEAD_ROOM / 2**20
    high = max(times, default=1.0) * _HEAD_ROOM * 1e3
    count = "1 plan" if len(dots) == 1 else f"{len(dots)} plans"
    drawing.heading(title, f"{count} on the Pareto front; times predicted on {device}")
    right, bottom = drawing.width - _RIGHT, TOP + _FRONT_TALL
    axes = _Axes(drawing, _LEFT, right, TOP, bottom, (0.0, end), (0.0, high))
    axes.draw("memory, MiB", "a frame, ms")
    for size, text, dash in ((whole_layers, "whole layers", "5 3"), (bound, "bound", "2 2")):
        if size:
            x = axes.x(size / 2**20)
            drawing.line(x, TOP, x, bottom, GREY, 1, dash)
            drawing.text(x - 4, TOP + 10, text, 10, "end", color="#444444")
    places = [(axes.x(dot.bytes / 2**20), axes.y(1e3 * dot.seconds)) for dot in dots]
    if len(places) > 1:
        # between two plans the smaller one is the best that fits: right first, then down
        steps = "".join(f"H{number(x)}V{number(y)}" for x, y in places[1:])
        axes.path(f"M{number(places[0][0])} {number(places[0][1])}{steps}", LIGHT, 2)
    measured = [
        (x, axes.y(1e3 * dot.measured))
        for (x, _), dot in zip(places, dots, strict=True)
        if dot.measured is not None
    ]
    drawing.dots(measured, 7, MARK)
    drawing.dots(places, 7, DARK)
    lines = ["A step is the time that a little more memory saves."]
    if measured:
        lines.append("Orange: measured on this machine, dark: predicted.")
    drawing.notes(_LEFT, bottom + 52, lines)
    return drawing.to_bytes(title)


def _span(values: Sequence[float]) -> tuple[float, float]:
    """From below the least to above the most, so far apart that rounding is not seen.

    >>> _span([2.0, 2.0]), _span([1.0, 2.0])
    ((1.96, 2.04), (0.94, 2.06))
    """
    low, high = min(values), max(values)
    margin = max(_MARGIN * (high - low), _LEAST_ROOM * high) or 1.0
    return max(0.0, low - margin), high + margin


def _marks(span: tuple[float, float], most: int) -> list[tuple[float, str]]:
    """Round numbers within a span, and how they are written.

    >>> _marks((9, 32), 4)
    [(10.0, '10'), (20.0, '20'), (30.0, '30')]
    """
    low, high = span
    power = floor(log10((high - low) / most))
    step = next(f * 10.0**power for f in (1, 2, 5, 10) if f * 10.0**power * most >= high - low)
    decimals = max(0, -floor(log10(step)))
    places = range(ceil(low / step), floor(high / step) + 1)
    return [(place * step, f"{place * step:,.{decimals}f}") for place in places]
