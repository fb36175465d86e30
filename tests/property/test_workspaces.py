"""Workspace is declared, and what is declared is what kernels touch: no byte more, none less."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from csdfgen.backends.numpy.backend import NUMPY
from csdfgen.model.formats import FLOAT32
from csdfgen.ops import get_operator
from csdfgen.ops.base import CountingScratch, Scratch, Work, phases
from csdfgen.program.steps import Scratchpad, Step, View
from tests.lowered import run_step
from tests.op_harness import Sample, _in_storage, _slabs, heights, run_in_slabs
from tests.op_samples import SAMPLES
from tests.scattered import Layout, declared, run_scattered
from tests.unit.test_convolution import build, random_input, run
from tests.ways import ways

PATTERN = 0xA7
GUARD = 256


@pytest.mark.parametrize("sample", SAMPLES, ids=[str(s) for s in SAMPLES])
def test_the_last_byte_that_a_kernel_takes_is_written(sample: Sample) -> None:
    """So that an arena which ends with a workspace is touched to its end, as `measure` asks; and
    nothing behind it is.
    """
    layer, operator = sample.layer(), sample.operator
    feeds = sample.feeds()
    stored = _in_storage(layer, feeds)
    emit = operator.kernel(layer)
    accumulates = operator.state(layer).dtype
    for height in heights(layer):
        for phase in phases(operator, layer, height):
            slabs = _slabs(layer, phase, stored, copied=True)

            def results() -> list[np.ndarray]:
                mode = operator.mode(layer).value == "accumulating"
                kinds = [accumulates if mode else t.dtype for t in layer.outputs]
                rows = operator.written(layer, phase.out)  # noqa: B023
                shapes = [(len(r), *t.row_shape) for t, r in zip(layer.outputs, rows, strict=True)]
                return [np.zeros(s, k) for s, k in zip(shapes, kinds, strict=True)]

            counting = CountingScratch()
            list(emit(Work(phase, slabs, results(), counting)))
            if not counting.end:
                continue
            raw = np.full(counting.end + GUARD + 64, PATTERN, np.uint8)
            start = -raw.ctypes.data % 64
            block = raw[start : start + counting.end]
            scratch = Scratch(block)
            with np.errstate(all="ignore"):
                for function, arguments in emit(Work(phase, slabs, results(), scratch)):
                    function(*arguments)
            assert scratch.end == counting.end
            assert (raw[start + counting.end :] == PATTERN).all(), "wrote behind its workspace"
            # the last element may end with bytes that happen to equal the pattern: look at eight
            assert (block[-8:] != PATTERN).any(), f"took {counting.end} bytes, touched fewer"


LAYOUTS = (Layout(block=2, pieces=3), Layout(onnx=True), Layout(block=3, pieces=2))
WAYS = ways(
    [s.values for s in SAMPLES],
    {"layout": LAYOUTS, "limit": (None, 0), "rows": ("apart", "together", "even")},
    2,
)


@pytest.mark.parametrize("number", range(len(SAMPLES)), ids=[str(s) for s in SAMPLES])
def test_what_is_declared_is_enough_wherever_rows_lie(number: int) -> None:
    """Under any limit, and in memory where blocks that were apart lie together, or rows at equal distances; results
    stay equal."""
    sample = SAMPLES[number]
    layer, feeds = sample.layer(), sample.feeds()
    height = heights(layer)[min(1, len(heights(layer)) - 1)]
    with np.errstate(all="ignore"):
        wanted = run_in_slabs(sample, layer, feeds, height)
    for layout, limit, rows in WAYS[number]:
        before = Layout(onnx=layout.onnx) if rows == "even" else layout
        sizes = declared(layer, height, before, limit)
        now = replace(before, together=rows == "together", even=rows == "even")
        results = run_scattered(layer, feeds, height, now, limit, sizes)
        for got, want in zip(results, wanted, strict=False):  # states come last
            half = want.dtype == np.float16
            np.testing.assert_allclose(
                got.astype(float),
                want.astype(float),
                rtol=2e-3 if half else 2e-4,
                atol=2e-3 if half else 1e-4,
                err_msg=str((now, limit)),
            )


def test_a_workspace_may_lie_between_rows_that_are_evenly_spaced() -> None:
    """An array over such rows would reach over the workspace, and every copy be taken for a copy
    onto itself.
    """
    layer = build("Conv", (1, 4, 6, 5), (4, 1, 3, 3), pads=[1, 1, 1, 1], group=4)
    operator = get_operator(layer)
    (phase,) = phases(operator, layer, 6)
    memory = {"m": np.full(1 << 16, PATTERN, np.uint8)}
    rows = tuple(range(0, 6 * 8192, 8192))
    source = View("m", rows, (5, 1, 4), (16, 16, 4), FLOAT32)
    target = View("m", tuple(60000 + 80 * k for k in range(6)), (5, 1, 4), (16, 16, 4), FLOAT32)
    x = random_input(layer)
    for row, values in zip(rows, layer.inputs[0].to_storage(x), strict=True):  # type: ignore[union-attr]
        np.copyto(memory["m"][row : row + 80].view(np.float32).reshape(5, 1, 4), values)
    step = Step(
        0, "c", layer, phase, (source, None, None), (target,), (), Scratchpad("m", 256, 4096)
    )
    run_step(NUMPY, step, memory)
    found = memory["m"][60000:60480].view(np.float32).reshape(6, 5, 1, 4)
    np.testing.assert_allclose(layer.output.to_onnx(found), run(layer, x, 6), rtol=1e-5, atol=1e-5)
