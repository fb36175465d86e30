"""What does memory buy, in each way of planning? A panel a model, predicted time over the memory that plans take,
a line a way.

Axes begin where the plans do: ways differ by little of what each takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from csdfgen.charts.footprint import ramp
from csdfgen.charts.svg import INK, TOP, Drawing, cut, number, wide

__all__ = ["Line", "Panel", "sweep_chart"]

_LEFT, _RIGHT, _TALL = 64.0, 20.0, 230.0
_BELOW, _ABOVE = 62.0, 26.0
"""Room for the names of an axis, and for a panel's title."""

_MARGIN = 0.06
"""Of a span, left free beyond its ends."""

_LEAST_ROOM = 0.02
"""The same, of what the axis ends at."""

_MOST_PANELS = 24
_LONGEST = 60
_SMALL, _DOT = 10.0, 7.0
_RING, _RINGS = 3.0, 3
_DASHES = ("", "7 3", "2 2")
_FEW = 6
"""Lines that colours alone tell apart; of more, neighbours differ in their dashes too."""


@dataclass(frozen=True, slots=True)
class Line:
    """Plans of one way: (bytes, seconds), from the smallest to the largest."""

    label: str
    dots: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """The ways that one model was planned in."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class _Axes:
    """A panel's place, and what its edges stand for: KiB or MiB, and ms."""

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


def sweep_chart(title: str, facts: str, panels: Sequence[Panel]) -> bytes:
    """The panels as an SVG file, two beside each other where there are several; facts: the line below the title."""
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
    notes = ["A dot is a plan: arena and outputs beside it. Axes need not begin at 0."]
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
    """A sample of every line with its name; gives the height of what follows."""
    x, y = 12.0, TOP
    if len(looks) < 2:
        return y
    for name, (color, dash) in looks.items():
        shown = cut(name, _LONGEST)
        size = 30 + wide(shown, 11) + 18
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
    times = [1e3 * seconds for line in panel.lines for _, seconds in line.dots]
    axes = _Axes(
        left + _LEFT, left + width - _RIGHT, top + _ABOVE, top + _ABOVE + _TALL,
        _span([size / unit for size in sizes]), _span(times),
    )  # fmt: skip
    drawing.text(axes.left, top + 12, cut(panel.title, _LONGEST), 12, bold=True)
    for value, said in _marks(axes.across, 7):
        x = axes.x(value)
        drawing.line(x, axes.top, x, axes.bottom, "#dddddd", 0.6)
        drawing.text(x, axes.bottom + 15, said, _SMALL, "middle")
    for value, said in _marks(axes.up, 6):
        y = axes.y(value)
        drawing.line(axes.left, y, axes.right, y, "#dddddd", 0.6)
        drawing.text(axes.left - 6, y + 3.5, said, _SMALL, "end")
    drawing.line(axes.left, axes.bottom, axes.right, axes.bottom, INK)
    drawing.line(axes.left, axes.top, axes.left, axes.bottom, INK)
    middle = (axes.left + axes.right) / 2
    drawing.text(middle, axes.bottom + 31, f"memory of a plan, {name}", 11, "middle")
    drawing.text(
        left + 14,
        (axes.top + axes.bottom) / 2,
        "an image, predicted ms",
        11,
        "middle",
        upright=True,
    )
    for place, line in enumerate(panel.lines):
        color, dash = looks[line.label]
        places = [(axes.x(size / unit), axes.y(1e3 * seconds)) for size, seconds in line.dots]
        if len(places) > 1:
            path = "L".join(f"{number(x)} {number(y)}" for x, y in places)
            more = f' stroke-dasharray="{dash}"' if dash else ""
            drawing.parts.append(
                f'<path d="M{path}" stroke="{color}" stroke-width="2.2" fill="none"{more}/>'
            )
        # plans that several lines share are seen as rings
        drawing.dots(places, _DOT + _RING * min(_RINGS, len(panel.lines) - 1 - place), color)


def _span(values: Sequence[float]) -> tuple[float, float]:
    """From below the least to above the most, so far apart that rounding is not seen.

    >>> _span([2.0, 2.0]), _span([1.0, 2.0])
    ((1.96, 2.04), (0.94, 2.06))
    """
    low, high = min(values), max(values)
    room = max(_MARGIN * (high - low), _LEAST_ROOM * high) or 1.0
    return max(0.0, low - room), high + room


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
