"""Workspace is declared, and what is declared is what kernels touch: no byte more, none less."""

from __future__ import annotations

import numpy as np
import pytest

from csdfgen.ops.base import CountingScratch, Scratch, phases
from tests.op_harness import Sample, _in_storage, _slabs, heights
from tests.op_samples import SAMPLES

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
                shapes = [(len(phase.out), *t.row_shape) for t in layer.outputs]  # noqa: B023
                return [np.zeros(s, k) for s, k in zip(shapes, kinds, strict=True)]

            counting = CountingScratch()
            list(emit(phase, slabs, results(), counting))
            if not counting.end:
                continue
            raw = np.full(counting.end + GUARD + 64, PATTERN, np.uint8)
            start = -raw.ctypes.data % 64
            block = raw[start : start + counting.end]
            scratch = Scratch(block)
            with np.errstate(all="ignore"):
                for function, arguments in emit(phase, slabs, results(), scratch):
                    function(*arguments)
            assert scratch.end == counting.end
            assert (raw[start + counting.end :] == PATTERN).all(), "wrote behind its workspace"
            # the last element may end with bytes that happen to equal the pattern: look at eight
            assert (block[-8:] != PATTERN).any(), f"took {counting.end} bytes, touched fewer"
