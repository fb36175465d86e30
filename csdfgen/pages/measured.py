"""What does a frame take on this machine, in csdfgen and in onnxruntime? It is measured for a page and for the demo."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isinf
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import runtime
from csdfgen.errors import CsdfgenError
from csdfgen.planning.plan import Plan
from runtime.cascade import open_reference
from runtime.reference import Comparison
from runtime.resident import measure_onnxruntime_growth
from runtime.session import Driven
from runtime.verify import compare_outputs


@dataclass(frozen=True, slots=True)
class Measured:
    """A frame of a plan, and of onnxruntime on the same input, one thread each.

    touched: bytes written in the arena; firing, call: bytes allocated outside it while firing and in the whole call. ours,
    theirs: seconds, medians of `repeat` alternating frames. their_bytes: growth of a process in a frame of onnxruntime; None
    if the system does not report it. refused: why onnxruntime has no figures, or "". outputs, reference: of csdfgen and of
    onnxruntime. driven: what a device did in a frame of csdfgen.
    """

    touched: int
    firing: int
    call: int
    ours: float
    repeat: int
    theirs: float | None = None
    their_bytes: int | None = None
    comparisons: tuple[Comparison, ...] = ()
    refused: str = ""
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    reference: Mapping[str, np.ndarray] = field(default_factory=dict)
    driven: Driven | None = None

    def to_json(self) -> dict[str, Any]:
        """Figures as JSON values; null where onnxruntime has none."""
        return {
            "measured_bytes": self.touched, "latency_ms": 1e3 * self.ours,
            "onnxruntime_ms": self.theirs and 1e3 * self.theirs, "onnxruntime_bytes": self.their_bytes,
            "max_abs_error": None if self.refused or isinf(self.max_abs_error) else self.max_abs_error,
            "equal": self.equal, "refused": self.refused or None,
        }  # fmt: skip

    @property
    def max_abs_error(self) -> float:
        """The largest difference of any output."""
        return max((one.max_abs_error for one in self.comparisons), default=0.0)

    @property
    def equal(self) -> bool | None:
        """Whether all outputs are onnxruntime's; None if it did not run."""
        return None if self.refused else all(one.ok for one in self.comparisons)


def measure_frame(
    plan: Plan,
    model: str,
    feeds: Mapping[str, np.ndarray],
    *,
    repeat: int = 5,
    progress: Callable[..., None] = lambda *what: None,
) -> Measured:
    """Run both. model: what onnxruntime loads. Raises what `runtime.compile` and a program raise; a
    model that onnxruntime refuses is no error.
    """
    network = plan.network
    with threadpool_limits(limits=1, user_api="blas"):
        progress("compiling")
        program = runtime.compile(plan)
        progress("measuring a frame")
        lent, measured = program.measure(feeds)
        outputs = {name: value.copy() for name, value in lent.items()}
        del (
            lent
        )  # the next frame would use another arena if outputs in this one were still referenced
        sizes = measured.touched_bytes, measured.python_peak_bytes, measured.call_peak_bytes
        driven = before = program.driven
        if before is not None:
            program(feeds)
            driven = program.driven and program.driven.since(before)
        progress("running onnxruntime")
        try:
            theirs = open_reference(model, network)
            reference = theirs(feeds)
        except CsdfgenError as error:
            (ours,) = time_interleaved([lambda: program(feeds)], repeat)
            return Measured(*sizes, ours, repeat, refused=error.message, driven=driven)
        found = compare_outputs(plan, outputs, reference)
        progress("timing both")
        ours, their_time = time_interleaved([lambda: program(feeds), lambda: theirs(feeds)], repeat)
    progress("measuring onnxruntime's memory")
    inputs = {tensor.name: network.whole_shape(tensor) for tensor in network.inputs}
    grown = measure_onnxruntime_growth(model, inputs, network.batch, network.fixed)
    return Measured(
        *sizes,
        ours,
        repeat,
        their_time,
        grown,
        found,
        outputs=outputs,
        reference=reference,
        driven=driven,
    )


def time_interleaved(functions: Sequence[Callable[[], object]], repeat: int) -> list[float]:
    """Median seconds of functions that are called alternately, so that a busy machine slows all of them equally."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeat):
        for function, seconds in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            seconds.append(time.perf_counter() - start)
    return [statistics.median(one) for one in times]
