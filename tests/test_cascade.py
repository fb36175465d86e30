"""PP-OCR's detector, and its recogniser behind it on the regions of a page, as one program: equal to onnxruntime's."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import csdfgen
from csdfgen.errors import InputError
from csdfgen.files import packaged_file
from tests.emitted import Program
from tests.models import model, onnxruntime_outputs
from tests.native_steps import compiler_missing

pytestmark = [
    pytest.mark.networks,
    pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-"),
]

ROWS, COLUMNS, RUNS = 96, 192, 5
MAP, SCORES = "sigmoid_0.tmp_0", "softmax_11.tmp_0"

FIND = """#include "ocr.h"

enum { ROWS = 96, COLUMNS = 192, RUNS = 5 };
static int waiting[ROWS * COLUMNS];
static int seen[ROWS * COLUMNS];

void ocr_find(const float *a, float *out)
{
    int found = 0;
    for (int k = 0; k < ROWS * COLUMNS; k++)
        seen[k] = a[k] > 0.3f ? 0 : 1;
    for (int k = 0; k < ROWS * COLUMNS && found < RUNS; k++) {
        int count = 0, low[2] = {COLUMNS, ROWS}, high[2] = {0, 0};
        if (seen[k])
            continue;
        seen[waiting[count++] = k] = 1;
        while (count > 0) {
            const int at = waiting[--count], x[2] = {at % COLUMNS, at / COLUMNS};
            for (int axis = 0; axis < 2; axis++) {
                low[axis] = x[axis] < low[axis] ? x[axis] : low[axis];
                high[axis] = x[axis] >= high[axis] ? x[axis] + 1 : high[axis];
            }
            if (x[0] > 0 && !seen[at - 1])
                seen[waiting[count++] = at - 1] = 1;
            if (x[0] < COLUMNS - 1 && !seen[at + 1])
                seen[waiting[count++] = at + 1] = 1;
            if (x[1] > 0 && !seen[at - COLUMNS])
                seen[waiting[count++] = at - COLUMNS] = 1;
            if (x[1] < ROWS - 1 && !seen[at + COLUMNS])
                seen[waiting[count++] = at + COLUMNS] = 1;
        }
        for (int side = 0; side < 2 && high[1] - low[1] > 3; side++)
            for (int axis = 0; axis < 2; axis++)
                out[4 * found + 2 * side + axis] = (float)(side ? high[axis] + 2 : low[axis] - 2);
        found += high[1] - low[1] > 3;
    }
}
"""
"""Regions above a threshold, with two pixels around them, in the order of their first pixels."""


def find(scores: np.ndarray) -> list[list[int]]:
    """The same in Python."""
    ndimage = pytest.importorskip("scipy.ndimage")
    found = ndimage.find_objects(ndimage.label(scores[0, 0] > 0.3)[0])
    high = [(y, x) for y, x in found if y.stop - y.start > 3]
    return [[x.start - 2, y.start - 2, x.stop + 2, y.stop + 2] for y, x in high]


def read_page() -> np.ndarray:
    """The first lines of a page of scikit-image, from -1 to 1."""
    image = pytest.importorskip("PIL.Image")
    package = find_spec("skimage")
    if package is None or package.origin is None:
        pytest.skip("scikit-image is not installed")
    file = image.open(Path(package.origin).parent / "data" / "page.png")
    pixels = np.asarray(file.convert("RGB").crop((0, 0, COLUMNS, ROWS)), np.float32)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None] / 127.5 - 1)


def compute_by_onnxruntime(files: dict[str, str], page: np.ndarray) -> dict[str, np.ndarray]:
    """Both networks one after the other."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    detector, reader = (
        onnxruntime.InferenceSession(files[name], options, providers=["CPUExecutionProvider"])
        for name in ("det", "rec")
    )
    (scores,) = detector.run(None, {"x": page})
    boxes = np.array(find(scores)[:RUNS], np.float32)
    node = "RoiAlign <output_height=48, output_width=96, sampling_ratio=1>"
    crop = model(
        f"g (float[1,3,{ROWS},{COLUMNS}] x, float[N,4] b, int64[N] i) => (float[N,3,48,96] y) {{ y = {node} (x, b, i) }}"
    )
    feeds = {"x": page, "b": boxes, "i": np.zeros(len(boxes), np.int64)}
    runs = [reader.run(None, {"x": one[None]})[0] for one in onnxruntime_outputs(crop, feeds)["y"]]
    assert 0 < len(runs) < RUNS and all(run.max() > 0.5 for run in runs)
    runs += [np.zeros_like(runs[0])] * (RUNS - len(runs))
    named = {f"rec.{number}.{SCORES}": run for number, run in enumerate(runs, 1)}
    return {f"det.{MAP}": scores, **named}


def test_a_detector_and_a_recogniser_are_one_program(tmp_path: Path) -> None:
    names = {"det": "ch_PP-OCRv4_det_infer.onnx", "rec": "ch_PP-OCRv4_rec_infer.onnx"}
    try:
        files = {k: str(packaged_file("rapidocr-onnxruntime", name)) for k, name in names.items()}
    except InputError as error:
        pytest.skip(str(error))
    page = read_page()
    wanted = compute_by_onnxruntime(files, page)
    csdfgen.register_function("find", find)
    network = csdfgen.load(
        [f"{name}={file}" for name, file in files.items()],
        rates=[1, RUNS],
        connect=f"det.{MAP}:find,det.x=rec.x:crop",
        shapes={"det.x": page.shape, "rec.x": (1, 3, 48, 96)},
    )
    plan = csdfgen.plan(network)
    assert len(plan.order) < 2000
    for found in (
        csdfgen.run(plan, page),
        Program(plan, tmp_path, title="ocr", functions=FIND)({"det.x": page}),
    ):
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=2e-4)
