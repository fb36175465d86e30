"""How much memory does a frame really use? The bytes of the arena that change, and what Python and numpy
allocate.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from csdfgen.errors import PlanError

__all__ = ["Measurement", "measured"]

_PATTERN = np.frombuffer(bytes.fromhex("c71fa9ffc71fa9ff"), np.uint8).copy()

Outputs = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a frame really used, in bytes: the highest byte touched in the arena, and the most that
    Python and numpy had allocated in addition to it at one time: while firing, and in the whole call with
    the outputs that the caller gets (none where rows are handed on).
    """

    touched_bytes: int
    python_peak_bytes: int
    call_peak_bytes: int


def measured(
    planned: int,
    fill: Callable[[np.ndarray], None],
    frame: Callable[[Callable[[int], None]], Outputs],
    run: Callable[[int], None],
    touched: Callable[[np.ndarray], int],
) -> tuple[Outputs, Measurement]:
    """The outputs of a frame and its memory.

    planned: bytes of the arena. fill: fills it and the guard bytes with a pattern; touched: bytes up to the
    last that differs from a pattern. frame: a frame, given what makes its runs; run: makes one, given its
    first image.

    A byte that keeps the pattern was not touched. Should a result happen to equal the pattern at the end of
    the arena, a second frame with the complement of the pattern tells. Raises PlanError if bytes behind the
    arena were written.
    """
    most = firing = whole = 0

    def traced(first: int) -> None:
        nonlocal firing, whole
        before, peak = tracemalloc.get_traced_memory()
        whole = max(whole, peak)
        tracemalloc.reset_peak()
        run(first)
        peak = tracemalloc.get_traced_memory()[1]
        firing, whole = max(firing, peak - before), max(whole, peak)

    for pattern in (_PATTERN, ~_PATTERN):
        outputs: Outputs = {}  # those of the frame before are let go of
        fill(pattern)
        tracemalloc.start()
        try:
            outputs = frame(traced)
            whole = max(whole, tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        most = max(most, touched(pattern))
        if most > planned:
            raise PlanError(
                f"byte {most} was written, the arena has {planned} (guard bytes follow)"
            )
        if most == planned:
            break
    return outputs, Measurement(most, firing, whole)
