"""Measured memory of a frame: the bytes of the arena that it changes, and the allocations of Python and numpy."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from csdfgen.errors import PlanError

_PATTERN = np.frombuffer(bytes.fromhex("c71fa9ffc71fa9ff"), np.uint8).copy()

Outputs = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Measurement:
    """Bytes that a frame used: up to the last touched byte of the arena, and the peaks of the allocations of Python and numpy
    in addition to it, while firing and in the whole call. The latter includes outputs that are new arrays.
    """

    touched_bytes: int
    python_peak_bytes: int
    call_peak_bytes: int


def measure_memory(
    planned: int,
    fill: Callable[[np.ndarray], None],
    frame: Callable[[Callable[[int], None]], Outputs],
    run: Callable[[int], None],
    touched: Callable[[np.ndarray], int],
) -> tuple[Outputs, Measurement]:
    """The outputs of a frame and its memory.

    planned: bytes of the arena. fill: fills it and the guard bytes with a pattern; touched: bytes up to the last one that
    differs from a pattern. frame: executes a frame and calls its argument for each run; run: executes a run, given the index
    of its first image.

    A byte that keeps the pattern counts as untouched. Results may equal the pattern by chance, so that a second frame with
    the complement of the pattern follows if the end of the arena seems untouched. Raises PlanError if bytes after the arena
    were written.
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
        outputs: Outputs = {}  # releases the outputs of the previous frame
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
