"""How much memory does a frame really use? The bytes of the arena that change, and what Python and numpy
allocate.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from csdfgen.errors import PlanError
from runtime.bound import GUARD_BYTES, BoundProgram

if TYPE_CHECKING:
    from runtime.session import Executable, Inputs, OnRows

__all__ = ["Measurement", "measured"]

_PATTERN = np.frombuffer(bytes.fromhex("c71fa9ffc71fa9ff"), np.uint8).copy()


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
    session: Executable,
    bound: BoundProgram,
    x: Inputs,
    out: Mapping[str, np.ndarray] | None = None,
    on_rows: OnRows | None = None,
) -> tuple[dict[str, np.ndarray], Measurement]:
    """Run a frame of a session and measure its memory; x, out, on_rows: as in a call.

    The arena is filled with a pattern first; a byte that keeps it was not touched. Should a
    result happen to equal the pattern at the end of the arena, a second frame with the complement of the
    pattern tells. Bytes behind the arena must keep theirs: PlanError otherwise.
    """
    planned, touched, firing, whole = session.plan.planned_bytes, 0, 0, 0
    if on_rows is not None:
        bound.prepared(bound.firings, handing_on=True)  # made once for all frames
    outputs: dict[str, np.ndarray] = {}

    def traced(first: int) -> None:
        nonlocal firing, whole
        before, peak = tracemalloc.get_traced_memory()
        whole = max(whole, peak)
        tracemalloc.reset_peak()
        session.run(first, on_rows, None)
        peak = tracemalloc.get_traced_memory()[1]
        firing, whole = max(firing, peak - before), max(whole, peak)

    for pattern in (_PATTERN, ~_PATTERN):
        outputs = {}
        session.take_back()
        bound.fill(pattern)
        tracemalloc.start()
        try:
            outputs = session.frame(x, out, on_rows, traced)
            whole = max(whole, tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        touched = max(touched, bound.touched(pattern))
        if touched > planned:
            raise PlanError(
                f"byte {touched} was written, the arena has {planned} ({GUARD_BYTES} guard bytes follow)"
            )
        if touched == planned:
            break
    return outputs, Measurement(touched, firing, whole)
