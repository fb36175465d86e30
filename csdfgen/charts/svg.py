"""How is a chart written as SVG? Text, lines, one path for many bars, axes with round numbers.

Coordinates have one decimal; the same calls give the same bytes. Widths of texts are estimated,
generously: no font is at hand.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from xml.sax.saxutils import escape, quoteattr

from csdfgen.dataflow.dot import escape_text

WIDTH, NARROW = 960, 380
"""Of every picture that does not ask for another, and of one for a telephone, in pixels; heights
follow from what is shown.
"""

DARK, LIGHT, MARK = "#08306b", "#7fb3d9", "#e6862b"
"""Colours that differ in brightness too, so that they do in grey print."""

INK, GREY, PAPER = "#222222", "#888888", "white"

ROW_LABEL = 10
"""Font size of the names of rows, in pixels."""

TOP = 62.0
"""Where a chart begins, below its heading."""

_FONT = "Helvetica,Arial,sans-serif"
_NARROW = frozenset("fijlrtI.,:;'|!()[]{}/- ")
_LONGEST_TITLE = 200


def text_width(text: str, size: float) -> float:
    """About how many pixels a text takes.

    >>> text_width("conv", 10) < text_width("CONV", 10)
    True
    """
    units = sum(
        0.36
        if c in _NARROW
        else 0.72
        if c.isupper() or c in "mw@%"
        else 0.58
        if ord(c) < 0x2E80
        else 1.05
        for c in text
    )
    return units * size


def cut(text: str, longest: int) -> str:
    """A name short enough to be shown, its end kept, where names of one network differ.

    >>> cut("features/denseblock1/conv2", 16)
    'feature...ck1/conv2'
    """
    shown = escape_text(text)
    return (
        shown
        if len(shown) <= longest + 3
        else f"{shown[: longest // 2 - 1]}...{shown[-(longest - longest // 2 + 1) :]}"
    )


def number(value: float) -> str:
    """A coordinate, with as few characters as it takes.

    >>> number(12.0), number(0.25)
    ('12', '0.2')
    """
    return f"{value:.1f}".removesuffix(".0")


def quantity(value: float, unit: str) -> str:
    """A number with its unit; from 10,000 bytes on kB, MB or GB, powers of ten.

    >>> quantity(544, "bytes"), quantity(2_304_000, "bytes"), quantity(1, "tokens")
    ('544 bytes', '2.30 MB', '1 token')
    """
    if unit != "bytes" or value < 10_000:
        return f"{value:,.0f} {unit.removesuffix('s') if value == 1 else unit}"
    scale, name = (1e9, "GB") if value >= 1e9 else (1e6, "MB") if value >= 1e6 else (1e3, "kB")
    return f"{value / scale:,.2f} {name}"


def format_count(value: int | Fraction) -> str:
    """A whole number with commas, or a fraction.

    >>> format_count(Fraction(12000)), format_count(Fraction(1, 3))
    ('12,000', '1/3')
    """
    return f"{int(value):,}" if value == int(value) else str(value)


def sentence(text: str) -> str:
    """A note as a sentence.

    >>> sentence("one iteration is shown")
    'One iteration is shown.'
    """
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def ticks(end: float, most: int) -> list[float]:
    """Round numbers from 0 to `end`, at most so many and one.

    >>> ticks(87, 5)
    [0.0, 20.0, 40.0, 60.0, 80.0]
    """
    step = 1.0
    rest = max(end, 1e-9) / most
    while step * 10 <= rest:
        step *= 10
    while step > rest * 10:
        step /= 10
    step = next(step * factor for factor in (1, 2, 5, 10) if step * factor >= rest)
    return [index * step for index in range(int(end / step + 1e-9) + 1)]


def label_interval(height: float) -> int:
    """How many rows of this height share the space that one name needs."""
    return 1 if height >= ROW_LABEL else -int(-(ROW_LABEL + 1) // height)


class Drawing:
    """An SVG picture under construction; `height` is that of what has been drawn."""

    def __init__(self, width: float = WIDTH) -> None:
        self.width = width
        self.parts: list[str] = []
        self.height = 0.0

    def text(
        self, x: float, y: float, text: str, size: float = 11, anchor: str = "start", *, bold: bool = False, color: str = INK,
        upright: bool = False,
    ) -> None:  # fmt: skip
        """A text with the start, "middle" or "end" of its baseline at (x, y). upright: rotated to read upwards."""
        more = f' text-anchor="{anchor}"' if anchor != "start" else ""
        more += ' font-weight="bold"' if bold else ""
        more += f' fill="{color}"' if color != INK else ""
        more += f' transform="rotate(-90 {number(x)} {number(y)})"' if upright else ""
        shown = escape(escape_text(text))
        self.parts.append(
            f'<text x="{number(x)}" y="{number(y)}" font-size="{number(size)}"{more}>{shown}</text>'
        )
        self.height = max(self.height, y + size / 2)

    def line(
        self,
        x1: float,
        y1: float,
        x2: float,
        y2: float,
        color: str = GREY,
        width: float = 1,
        dash: str = "",
    ) -> None:
        more = f' stroke-dasharray="{dash}"' if dash else ""
        ends = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
        self.parts.append(f'<line {ends} stroke="{color}" stroke-width="{number(width)}"{more}/>')
        self.height = max(self.height, y1, y2)

    def heading(self, title: str, facts: str) -> None:
        """Two lines at the top."""
        self.text(12, 20, title, 14, bold=True)
        self.text(12, 37, facts, 11, color="#444444")

    def box(self, x: float, y: float, width: float, height: float, color: str) -> None:
        size = f'width="{number(width)}" height="{number(height)}"'
        self.parts.append(f'<rect x="{number(x)}" y="{number(y)}" {size} fill="{color}"/>')
        self.height = max(self.height, y + height)

    def dots(self, places: Iterable[tuple[float, float]], size: float, color: str) -> None:
        """Round dots of this diameter; one path, however many there are."""
        path = "".join(f"M{number(x)} {number(y)}h0" for x, y in places)
        if path:
            style = f'stroke="{color}" stroke-width="{number(size)}" stroke-linecap="round"'
            self.parts.append(f'<path d="{path}" {style} fill="none"/>')

    def bars(
        self,
        spans: Iterable[tuple[float, float]],
        y: float,
        height: float,
        color: str,
        title: str = "",
    ) -> None:
        """Horizontal bars from x to x around the line y; title: shown under the pointer."""
        path = "".join(f"M{number(start)} {number(y)}H{number(stop)}" for start, stop in spans)
        if path:
            style = f'stroke="{color}" stroke-width="{number(height)}" fill="none"'
            self.parts.append(f'<path d="{path}" {style}>{_tooltip(title)}</path>')
        self.height = max(self.height, y + height / 2)

    def shape(
        self, path: str, color: str, title: str = "", *, edge: str = "", width: float = 0.5
    ) -> None:
        """A path as it is, filled, with a line around it where `edge` names a colour; it must be
        inside what else is drawn.
        """
        if path:
            line = f' stroke="{edge}" stroke-width="{number(width)}"' if edge else ""
            self.parts.append(f'<path d="{path}" fill="{color}"{line}>{_tooltip(title)}</path>')

    def area(
        self,
        corners: Sequence[tuple[float, float]],
        bottom: float,
        stop: float,
        color: str,
        title: str = "",
    ) -> None:
        """The area below steps: from each x on at height y, the last until x is `stop`."""
        path = "".join(f"H{number(x)}V{number(y)}" for x, y in corners)
        start = f"M{number(corners[0][0])} {number(bottom)}"
        self.parts.append(
            f'<path d="{start}{path}H{number(stop)}V{number(bottom)}Z" fill="{color}" stroke="{color}" stroke-width="0.4">'
            f"{_tooltip(title)}</path>"
        )
        self.height = max(self.height, bottom)

    def notes(self, x: float, y: float, lines: Iterable[str], size: float = 10) -> None:
        """Sentences below a chart, each on lines of its own."""
        for line in lines:
            y = self.wrapped(x, y, line, size, color="#444444")

    def wrapped(
        self, x: float, y: float, text: str, size: float, *, bold: bool = False, color: str = INK
    ) -> float:
        """A text on as many lines as it takes up to the right edge; where the next line would be."""
        fitting = int((self.width - x - 12) / (size * (0.6 if bold else 0.55)))
        for row in textwrap.wrap(escape_text(text), fitting) or [""]:
            self.text(x, y, row, size, bold=bold, color=color)
            y += size + 3
        return y

    def time_axis(
        self, left: float, right: float, y: float, top: float, end: float, label: str
    ) -> None:
        """An axis from 0 to `end` along y, with lines up to `top`."""
        most = int((right - left) / (text_width(f"{end:,.0f}", 10) + 24))
        shown = ticks(end, max(1, min(8, most)))
        decimals = (
            0
            if len(shown) < 2 or shown[1] >= 1
            else len(f"{shown[1]:.9f}".rstrip("0").partition(".")[2])
        )
        self.line(left, y, right, y, INK)
        for value in shown:
            x = left + (right - left) * (value / end if end else 0)
            self.line(x, top, x, y, "#dddddd", 0.6)
            self.line(x, y, x, y + 4, INK)
            self.text(x, y + 15, f"{value:,.{decimals}f}", 10, "middle")
        self.text((left + right) / 2, y + 31, label, 11, "middle")

    def to_bytes(self, title: str) -> bytes:
        """The whole file."""
        head = f'xmlns="http://www.w3.org/2000/svg" {self._size()}'
        style = f'font-family={quoteattr(_FONT)} fill="{INK}"'
        return self._svg(f"{head} {style}", title, PAPER).encode()

    def inline(self, title: str, attributes: Mapping[str, object]) -> str:
        """The picture as an element of a page, which scales it and gives it font and ink.

        Needs no namespace, has no background; attributes: of the element.
        """
        more = "".join(f" {name}={quoteattr(str(value))}" for name, value in attributes.items())
        named = f'role="img" aria-label={quoteattr(escape_text(title))}'
        return self._svg(f'{self._size()} {named} fill="currentColor"{more}', title, "")

    def _size(self) -> str:
        width, height = number(self.width), number(self.height + 10)
        return f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'

    def _svg(self, attributes: str, title: str, paper: str) -> str:
        parts = [f"<svg {attributes}>", f"<title>{escape(escape_text(title))}</title>"]
        if paper:
            parts.append(f'<rect width="100%" height="100%" fill="{paper}"/>')
        return "\n".join([*parts, *self.parts, "</svg>"]) + "\n"


def _tooltip(title: str) -> str:
    shown = escape_text(title)
    return (
        f"<title>{escape(shown if len(shown) <= _LONGEST_TITLE else shown[:_LONGEST_TITLE] + '...')}</title>"
        if title
        else ""
    )
