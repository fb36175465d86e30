"""How far is the published TX2 model from measured layers? A panel a kind of layer, a dot a layer.

Written by hand as SVG (csdfgen/charts/svg.py), so that the file is small and its text is text.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import NamedTuple

from benchmarks.method_picture import Sketch
from csdfgen.charts.svg import DARK, GREY, INK, MARK

__all__ = ["HIGH", "LOW", "PANELS", "Dot", "layers_chart"]


class Dot(NamedTuple):
    """A measured layer with what both profiles say, ms; kind as in `benchmarks/tx2_layers.py`."""

    kind: str
    measured: float
    published: float
    swept: float


PANELS = (
    ("1x1 convolution", ("1x1", "1x1 merged")),
    ("3x3 convolution", ("3x3",)),
    ("5x5 to 11x11 convolution", ("5x5", "7x7", "11x11")),
    ("fully connected", ("FC",)),
    ("pooling", ("pool",)),
    ("normalization, softmax", ("BN", "LRN", "softmax")),
)
"""Title -> the kinds of layers in it."""

_WIDTH, _MARGIN = 720.0, 18.0
_LEFT, _BETWEEN, _SIZE = 62.0, 22.0, 198.0
_TOP, _DOWN = 132.0, 262.0
_SMALL, _PLAIN, _LARGE = 12.0, 13.0, 17.0
_SOFT, _BAND, _GRID = "#555555", "#eeeeee", "#dddddd"
LOW, HIGH = 0.003, 40.0
"""ms, of both axes."""


def layers_chart(dots: Sequence[Dot], title: str, facts: str) -> bytes:
    """The picture as an SVG file: measured to the right, predicted upwards, both logarithmic."""
    drawing = Sketch(_WIDTH)
    drawing.text(_MARGIN, 30, title, _LARGE, bold=True)
    drawing.text(_MARGIN, 51, facts, _PLAIN, color=_SOFT)
    _legend(drawing, 72)
    for place, (name, kinds) in enumerate(PANELS):
        left = _LEFT + place % 3 * (_SIZE + _BETWEEN)
        top = _TOP + place // 3 * _DOWN
        _panel(drawing, left, top, name, [dot for dot in dots if dot.kind in kinds], place)
    bottom = _TOP + _DOWN + _SIZE
    middle = _LEFT + (3 * _SIZE + 2 * _BETWEEN) / 2
    drawing.text(middle, bottom + 36, "measured, ms", _PLAIN, "middle")
    drawing.text(_MARGIN + 4, (_TOP + bottom) / 2, "predicted, ms", _PLAIN, "middle", upright=True)
    return drawing.to_bytes(title)


def _legend(drawing: Sketch, y: float) -> None:
    drawing.dots([(_MARGIN + 5, y)], 7, DARK)
    drawing.text(_MARGIN + 15, y + 4.5, "jetson-tx2, the published model", _SMALL)
    drawing.dots([(_MARGIN + 245, y)], 5, MARK)
    drawing.text(_MARGIN + 255, y + 4.5, "jetson-tx2-sweep, where it differs", _SMALL)
    drawing.box(_MARGIN + 498, y - 7, 22, 14, _BAND)
    drawing.line(_MARGIN + 500, y + 6, _MARGIN + 518, y - 6, INK)
    drawing.text(_MARGIN + 526, y + 4.5, "equal; within factor 2", _SMALL)


def _panel(
    drawing: Sketch, left: float, top: float, name: str, dots: Sequence[Dot], place: int
) -> None:
    scale = _SIZE / log10(HIGH / LOW)

    def at(measured: float, predicted: float) -> tuple[float, float]:
        return left + log10(measured / LOW) * scale, top + _SIZE - log10(predicted / LOW) * scale

    drawing.text(left, top - 24, name, _PLAIN, bold=True)
    drawing.text(left, top - 8, _verdict(dots), _SMALL)
    drawing.polygon(
        [at(LOW, LOW), at(LOW, 2 * LOW), at(HIGH / 2, HIGH), at(HIGH, HIGH), at(HIGH, HIGH / 2), at(2 * LOW, LOW)],
        _BAND,
    )  # fmt: skip
    for value in (0.01, 0.1, 1.0, 10.0):
        x, y = at(value, value)
        drawing.line(x, top, x, top + _SIZE, _GRID, 0.6)
        drawing.line(left, y, left + _SIZE, y, _GRID, 0.6)
        if place % 3 == 0:
            drawing.text(left - 5, y + 4, f"{value:g}", _SMALL, "end")
        if place // 3 == 1:
            drawing.text(x, top + _SIZE + 16, f"{value:g}", _SMALL, "middle")
    drawing.line(*at(LOW, LOW), *at(HIGH, HIGH), INK, 1)
    drawing.frame(left, top, _SIZE, _SIZE, GREY, 0.8)
    other = [at(d.measured, d.swept) for d in dots if abs(d.swept / d.published - 1) > 0.001]
    drawing.dots(other, 4.4, MARK)
    drawing.dots([at(d.measured, d.published) for d in dots], 5.6, DARK)


def _verdict(dots: Sequence[Dot]) -> str:
    """The sum of all published predictions beside that of the measured times."""
    ratio = sum(dot.published for dot in dots) / sum(dot.measured for dot in dots)
    said = f"{ratio:.1f} ×" if ratio > 0.5 else f"1/{1 / ratio:.0f} of"
    return f"{len(dots)} layers: {said} measured"
