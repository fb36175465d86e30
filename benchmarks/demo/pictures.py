"""What is shown to the detector, and how is what it found drawn?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from benchmarks.demo.centerface import Face
from csdfgen.files import packaged_file

TILES = (
    (0, 0, 1088),
    (1088, 416, 672),
    (1088, 0, 416),
    (1504, 0, 416),
    *((1760, 416 + 160 * i, 160) for i in range(4)),
)
"""Left, top and side of each copy of the photograph in the mosaic of 1088x1920 pixels."""

Bar = tuple[str, float, str]
"""Label, length in MiB, colour."""

INK, PAPER, MARK = "#e8eaed", "#15181c", "#3ddc84"


def photograph() -> np.ndarray:
    """The astronaut Eileen Collins, (512, 512, RGB) uint8; public domain, ships with scikit-image."""
    with Image.open(packaged_file("scikit-image", "astronaut.png")) as image:
        return np.asarray(image.convert("RGB"))


def mosaic(picture: np.ndarray) -> np.ndarray:
    """The photograph at four sizes on one canvas of 1088x1920 pixels: faces from 27 to 210 pixels
    wide.
    """
    canvas = Image.new("RGB", (1920, 1088), PAPER)
    source = Image.fromarray(picture)
    for number, (left, top, side) in enumerate(TILES):
        copy = source.resize((side, side), Image.Resampling.LANCZOS)
        if number % 2:
            copy = copy.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        canvas.paste(copy, (left, top))
    return np.asarray(canvas)


def draw_faces(
    picture: np.ndarray, found: Sequence[Face], title: str, bars: Sequence[Bar], note: str
) -> Image.Image:
    """The picture with a box, a score and landmarks for every face, and below it memory as bars of
    one scale.
    """
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    for face in found:
        _draw_face(draw, face)
    unit = image.width / 1920
    panel = Image.new("RGB", (image.width, round((140 + 62 * len(bars)) * unit)), PAPER)
    _draw_panel(ImageDraw.Draw(panel), panel.width, unit, title, bars, note)
    whole = Image.new("RGB", (image.width, image.height + panel.height))
    whole.paste(image, (0, 0))
    whole.paste(panel, (0, image.height))
    return whole


def _draw_face(draw: ImageDraw.ImageDraw, face: Face) -> None:
    left, top, right, _ = face.box
    size = right - left
    draw.rectangle(face.box, outline=MARK, width=max(2, round(size / 60)))
    radius = max(1.0, size / 45)
    for x, y in face.landmarks:
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=MARK)
    font = ImageFont.load_default(size=max(13, min(26, round(size / 5))))
    label = f"{face.score:.2f}"
    _, _, wide, high = draw.textbbox((0, 0), label, font=font)
    draw.rectangle((left, top - high - 6, left + wide + 8, top), fill=MARK)
    draw.text((left + 4, top - high - 4), label, fill=PAPER, font=font)


def _draw_panel(
    draw: ImageDraw.ImageDraw, width: int, unit: float, title: str, bars: Sequence[Bar], note: str
) -> None:
    large, small = (ImageFont.load_default(size=round(size * unit)) for size in (34, 26))
    margin, top = 36 * unit, 24 * unit
    draw.text((margin, top), title, fill=INK, font=large)
    top += 64 * unit
    longest = max(length for _, length, _ in bars)
    labels = 620 * unit
    room = width - labels - margin - 170 * unit
    for label, length, colour in bars:
        draw.text((margin, top + 4 * unit), label, fill=INK, font=small)
        end = labels + max(2.0, room * length / longest)
        draw.rectangle((labels, top, end, top + 38 * unit), fill=colour)
        draw.text((end + 12 * unit, top + 4 * unit), f"{length:.1f} MiB", fill=INK, font=small)
        top += 62 * unit
    draw.text(
        (margin, top - 8 * unit),
        note,
        fill="#9aa0a6",
        font=ImageFont.load_default(size=round(22 * unit)),
    )


def save(image: Image.Image, path: Path) -> None:
    """Write a PNG as a whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    image.save(part, format="PNG", optimize=True)
    part.replace(path)
