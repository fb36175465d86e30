"""What do the charts of a plan have in common? Axes with firings from left to right, colours, and names on areas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from csdfgen.charts.footprint import Footprint, binary_size
from csdfgen.charts.svg import INK, PAPER, TOP, WIDTH, Drawing, number, text_width, ticks
from csdfgen.dataflow.dot import escape_text

_LABEL = 10.0
_APART = 6.0
"""Size of a name on an area, and pixels between names in a line."""
_LONGEST_NAME, _FEWEST = 200, 3
"""Characters of a name that are looked at, from its end, and that a part of it must have."""


@dataclass(frozen=True, slots=True)
class Look:
    """Colours of everything but layers; in a page they are variables of its style."""

    soft: str
    grid: str
    scratch: str
    whole: str
    edge: str
    mark: str
    accent: str


ON_PAPER = Look("#555555", "#dddddd", "#9aa1a9", "#e4e7ea", PAPER, "#c0392b", "#2b7bb0")
IN_PAGE = Look(*(f"var(--{field.name})" for field in fields(Look)))


def panel_margins(drawing: Drawing) -> tuple[float, float]:
    """Pixels left and right of a panel, by the width of the picture."""
    return (72.0, 16.0) if drawing.width >= WIDTH else (54.0, 14.0)


Spot = tuple[float, float, str]
"""A possible place of a text: x, its base line, and whether it begins ("start") or ends ("end") there."""

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


@dataclass(frozen=True, slots=True)
class Axes:
    """A panel: firings 0 to `firings` between `left` and `right`, bytes 0 to `most` from `bottom` up
    to `top`. margins: pixels left and right of it, by default as the width of the picture allows.
    """

    drawing: Drawing
    look: Look
    firings: int
    most: float
    top: float
    bottom: float
    margins: tuple[float, float] | None = None

    @property
    def left(self) -> float:
        return (self.margins or panel_margins(self.drawing))[0]

    @property
    def right(self) -> float:
        return self.drawing.width - (self.margins or panel_margins(self.drawing))[1]

    def x(self, firing: float) -> float:
        return self.left + (self.right - self.left) * firing / max(1, self.firings)

    def y(self, size: float) -> float:
        return self.bottom - (self.bottom - self.top) * size / max(1.0, self.most)

    def byte_axis(self, lines: int = 5) -> None:
        """Lines at round numbers of KiB or MiB, and their names."""
        unit = 2**20 if self.most >= 1000 * 2**10 else 2**10 if self.most >= 1000 else 1
        for hundredths in ticks(self.most / unit * 100, lines):
            value = hundredths / 100
            y = self.y(value * unit)
            self.drawing.line(self.left, y, self.right, y, self.look.grid, 0.6)
            text = f"{value:,.2f}".rstrip("0").rstrip(".")
            name = {2**20: " MiB", 2**10: " KiB", 1: " B"}[unit] if value else ""
            self.drawing.text(self.left - 6, y + 3.5, f"{text}{name}", _LABEL, "end")

    def firing_axis(self, label: str) -> None:
        """Round numbers of firings below the panel."""
        draw, y = self.drawing, self.bottom
        draw.line(self.left, y, self.right, y, self.look.soft)
        for value in ticks(self.firings, max(2, min(8, int(self.right - self.left) // 70))):
            x = self.x(value)
            draw.line(x, y, x, y + 4, self.look.soft)
            draw.text(x, y + 16, f"{value:,.0f}", _LABEL, "middle")
        draw.text((self.left + self.right) / 2, y + 32, label, 11, "middle", color=self.look.soft)

    def line(self, size: float, color: str = "") -> None:
        """A dashed line at a size."""
        y = self.y(size)
        self.drawing.line(self.left, y, self.right, y, color or INK_OF[self.look], 1, "5 3")

    def label(
        self, text: str, spots: Iterable[Spot], lines: Sequence[float], taken: list[Box]
    ) -> None:
        """Write a text at the first spot where its box crosses none of the horizontal lines (at
        these heights), overlaps no box that is taken, and is within the panel; its box is taken
        then. Where there is no such spot, nothing is written.
        """
        width = text_width(text, 11)
        for x, y, anchor in spots:
            left = x - width if anchor == "end" else x
            box = (left, y - 10, left + width, y + 3)
            inside = box[0] >= self.left and box[2] <= self.right + 1 and box[1] >= self.top - 10
            crossed = any(box[1] < line < box[3] for line in lines)
            if inside and not crossed and not any(_overlap(box, other) for other in taken):
                taken.append((left - _APART, box[1], left + width + _APART, box[3]))
                return self.named(x, y, text, anchor)
        return None

    def named(self, x: float, y: float, text: str, anchor: str = "start") -> None:
        """A text that is read on any ground: with a rim of the paper's colour."""
        self.drawing.parts.append(
            f'<g stroke="{self.look.edge}" stroke-width="3" paint-order="stroke" stroke-linejoin="round">'
        )
        self.drawing.text(x, y, text, 11, anchor)
        self.drawing.parts.append("</g>")

    def steps(self, edges: Sequence[float], sizes: Sequence[float]) -> str:
        """A path along the top of an area: `sizes[k]` between edges k and k + 1, in firings."""
        path = f"M{number(self.x(edges[0]))} {number(self.bottom)}"
        for at, size in enumerate(sizes):
            if at == 0 or size != sizes[at - 1]:
                path += f"H{number(self.x(edges[at]))}V{number(self.y(size))}"
        return f"{path}H{number(self.x(edges[-1]))}V{number(self.bottom)}Z"


def draw_chart(
    footprint: Footprint,
    what: str,
    draw: Callable[[Drawing, Footprint, Look, float], Axes],
    top: float = TOP,
) -> bytes:
    """A chart of a plan as an SVG file, with a title and the plan's figures above `top`."""
    drawing, title = Drawing(), f"{footprint.title}: {what}"
    drawing.heading(title, _facts(footprint))
    draw(drawing, footprint, ON_PAPER, top)
    return drawing.to_bytes(title)


INK_OF = {ON_PAPER: INK, IN_PAGE: "currentColor"}
"""Colour of lines that are read like text."""


def text_color(color: str) -> str:
    """Black or white, whichever is read on a colour.

    >>> text_color("#5b4b9e"), text_color("#e3b045")
    ('#ffffff', '#1b1b1b')
    """
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return "#1b1b1b" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "#ffffff"


def label(drawing: Drawing, x: float, y: float, name: str, color: str) -> None:
    """A layer's name on an area of its colour, x in the middle."""
    drawing.text(x, y, name, _LABEL, "middle", color=text_color(color))


def shorten_name(name: str, width: float, *, parts: bool = False) -> str:
    """A name, or as much of its end as fits into `width` pixels, cut after a "/" if there is one. parts: return "" instead of
    cutting it elsewhere.

    >>> shorten_name("features/conv1", 200), shorten_name("features/conv1", 50), shorten_name("features", 35)
    ('features/conv1', '…conv1', '…tures')
    >>> shorten_name("features", 35, parts=True)
    ''
    """
    name = escape_text(name[-_LONGEST_NAME:])
    if text_width(name, _LABEL) <= width:
        return name
    fitting = next(
        (at for at in range(1, len(name)) if text_width(f"…{name[at:]}", _LABEL) <= width),
        len(name),
    )
    slash = name.find("/", fitting - 1, len(name) - 1)
    if slash >= 0:
        return f"…{name[slash + 1 :]}"
    return "" if parts or len(name) - fitting < _FEWEST else f"…{name[fitting:]}"


def merge_spans(starts: np.ndarray, stops: np.ndarray, gap: float) -> tuple[np.ndarray, np.ndarray]:
    """Spans in order of their starts, those nearer than `gap` as one.

    >>> [one.tolist() for one in merge_spans(np.array([0, 2, 9]), np.array([1, 4, 10]), 2)]
    [[0, 9], [4, 10]]
    """
    if not len(starts):
        return starts, stops
    reach = np.maximum.accumulate(stops)
    fresh = np.concatenate([[True], starts[1:] - reach[:-1] >= gap])
    first = np.flatnonzero(fresh)
    return starts[first], reach[np.append(first[1:], len(starts)) - 1]


def _facts(footprint: Footprint) -> str:
    """One line below a chart's title."""
    figures = footprint.figures
    parts = [
        f"{footprint.firings:,} firings",
        f"arena {binary_size(footprint.arena)}",
        f"most alive {binary_size(footprint.most)}, workspace too",
    ]
    if figures.get("lower_bound"):
        parts.append(f"bound {binary_size(figures['lower_bound'])}")
    if figures.get("whole_layer_live"):
        parts.append(f"whole layers {binary_size(figures['whole_layer_live'])}")
    return "; ".join(parts)
