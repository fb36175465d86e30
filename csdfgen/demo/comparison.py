"""A frame of csdfgen compared with a frame of onnxruntime: same network, same picture, one thread each."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from csdfgen.planning.plan import Plan

__all__ = ["FrameComparison", "compared", "interleaved"]


@dataclass(frozen=True)
class FrameComparison:
    """A frame of a plan, compared with onnxruntime's.

    touched_bytes: highest byte of the arena that a frame wrote. ours, theirs: seconds a frame,
        medians.
    equal: every output is within the tolerance (`runtime.reference`). reference: onnxruntime's
        outputs.
    """

    firings: int
    touched_bytes: int
    ours: float
    theirs: float
    max_abs_error: float
    equal: bool
    outputs: Mapping[str, np.ndarray]
    reference: Mapping[str, np.ndarray]


def interleaved(
    first: Callable[[], Any], second: Callable[[], Any], repeats: int
) -> tuple[float, float]:
    """Median seconds of two functions called in turn, so that a busy machine slows both alike."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for function, seconds in zip((first, second), times, strict=True):
            start = time.perf_counter()
            function()
            seconds.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def compared(
    plan: Plan, model: Path, feeds: dict[str, np.ndarray], repeats: int
) -> FrameComparison:
    """Run a plan and onnxruntime on the same inputs: outputs, memory, and time over `repeats`
    frames each.
    """
    from threadpoolctl import threadpool_limits

    import runtime
    from runtime.reference import Reference
    from runtime.verify import compare_outputs

    theirs = Reference(model, plan.network)
    program = runtime.compile(plan)
    with threadpool_limits(1):
        lent, measured = program.measure(feeds)
        outputs = {name: value.copy() for name, value in lent.items()}
        del lent  # a frame whose caller holds outputs in the arena would go on in another one
        reference = theirs(feeds)
        our_time, their_time = interleaved(lambda: program(feeds), lambda: theirs(feeds), repeats)
    found = compare_outputs(plan, outputs, reference)
    return FrameComparison(
        program.firings,
        measured.touched_bytes,
        our_time,
        their_time,
        max(one.max_abs_error for one in found),
        all(one.ok for one in found),
        outputs,
        reference,
    )
