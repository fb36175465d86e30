"""How is the memory of frames drawn? Bars beside onnxruntime's, network by network.

Networks differ by a factor of hundreds: bars are drawn in multiples of the first bar of their
group, and say their bytes. The picture follows the reader's scheme of colours, light or dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from csdfgen.charts.svg import (
    DARK,
    GREY,
    INK,
    LIGHT,
    MARK,
    ROW_LABEL,
    TOP,
    WIDTH,
    Drawing,
    cut,
    text_width,
)

__all__ = ["Bar", "Group", "picture"]

COLORS = (GREY, LIGHT, DARK, MARK)
"""Of the bars of a group, from the top."""

AT_NIGHT = {
    "white": "#0d1117",
    INK: "#e6edf3",
    "#444444": "#b1bac4",
    "#dddddd": "#30363d",
    GREY: "#7d8590",
    LIGHT: "#35618e",
    DARK: "#79c0ff",
    MARK: "#f0a04b",
}
"""Colours on a dark page."""

THICK, BETWEEN = 9.0, 9.0
"""Pixels: the height of a bar, and the space between groups."""

LONGEST_NAME = 26

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Bar:
    """What is compared, and its bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Group:
    """The bars of one network; the first is what the others are compared with."""

    name: str
    bars: tuple[Bar, ...]


def picture(groups: Sequence[Group]) -> bytes:
    """The SVG file. All groups have the same bars, at most four."""
    drawing = Drawing()
    names = [cut(group.name, LONGEST_NAME) for group in groups]
    first = groups[0].bars[0].name
    left = 20 + max(text_width(name, ROW_LABEL) for name in names)
    gains = [_gain(group) for group in groups]
    right = WIDTH - 24 - max(text_width(gain, ROW_LABEL) for gain in gains)
    label = max(text_width(_label(bar), ROW_LABEL) for group in groups for bar in group.bars)
    longest = max(bar.size / group.bars[0].size for group in groups for bar in group.bars)
    scale = (right - left - label - 8) / longest
    title = f"Memory of a frame, compared with {first}'s"
    drawing.heading(title, "everything that is alive at one time, but the caller's input")
    _legend(drawing, [bar.name for bar in groups[0].bars])
    top = TOP + 14
    height = len(groups[0].bars) * THICK
    bottom = top + len(groups) * (height + BETWEEN)
    drawing.time_axis(left, left + longest * scale, bottom, top, longest, f"times {first}'s")
    drawing.line(left, top, left, bottom, INK)
    drawing.line(left + scale, top, left + scale, bottom, GREY, 1, "4 3")
    for place, (group, name, gain) in enumerate(zip(groups, names, gains, strict=True)):
        y = top + BETWEEN / 2 + place * (height + BETWEEN)
        drawing.text(left - 6, y + height / 2 + 3.5, name, ROW_LABEL, "end")
        for row, (bar, color) in enumerate(zip(group.bars, COLORS, strict=False)):
            base = y + row * THICK
            stop = left + scale * bar.size / group.bars[0].size
            drawing.box(left, base, max(stop - left, 0.6), THICK - 1, color)
            # the line of 1 shall not cross the bytes
            drawing.box(stop + 3, base, text_width(_label(bar), THICK) + 4, THICK - 1, "white")
            drawing.text(stop + 5, base + THICK - 1.5, _label(bar), THICK)
        drawing.text(right + 8, y + height - 1, gain, ROW_LABEL, bold=True)
    return _both_schemes(drawing.to_bytes(title))


def _gain(group: Group) -> str:
    """The last bar beside the first.

    >>> _gain(Group("net", (Bar("theirs", 300), Bar("ours", 100))))
    '3.0 times less'
    >>> _gain(Group("net", (Bar("theirs", 100), Bar("ours", 150))))
    '1.5 times more'
    """
    theirs, ours = group.bars[0].size, group.bars[-1].size
    return (
        f"{theirs / ours:.1f} times less" if ours <= theirs else f"{ours / theirs:.1f} times more"
    )


def _label(bar: Bar) -> str:
    return f"{bar.size / MIB:,.2f} MiB"


def _legend(drawing: Drawing, names: Sequence[str]) -> None:
    x = 12.0
    for name, color in zip(names, COLORS, strict=False):
        drawing.box(x, TOP - 9, 10, 10, color)
        drawing.text(x + 15, TOP, name, 11)
        x += 33 + text_width(name, 11)


def _both_schemes(drawn: bytes) -> bytes:
    """The picture with other colours where the reader's page is dark; what is drawn stays."""
    rules = "".join(
        f'[fill="{day}"]{{fill:{night}}}[stroke="{day}"]{{stroke:{night}}}'
        for day, night in AT_NIGHT.items()
    )
    style = f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>\n"
    return drawn.replace(b"<title>", style.encode() + b"<title>", 1)
