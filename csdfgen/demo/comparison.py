"""A frame of csdfgen beside a frame of onnxruntime: same network, same picture, one thread each.

onnxruntime gets the network with its weights as constants only: exporters used to list them as inputs too, which
keeps it from preparing them and doubles its time on CenterFace.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx
    import onnxruntime

    from csdfgen.planning import Plan

__all__ = ["Comparison", "compared", "fixed_shapes", "interleaved", "largest_error", "session", "within_tolerance"]


@dataclass(frozen=True)
class Comparison:
    """One network at one input size.

    figures: bytes by name (`planning.FIGURES`). touched_bytes: highest byte of the arena that a frame wrote.
    python_peak_bytes: what Python allocated beside it while firing. ours, theirs: seconds a frame, medians.
    """

    figures: Mapping[str, int]
    firings: int
    touched_bytes: int
    python_peak_bytes: int
    ours: float
    theirs: float
    max_abs_error: float
    equal: bool
    outputs: Mapping[str, np.ndarray]
    reference: Mapping[str, np.ndarray]


def fixed_shapes(model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> onnx.ModelProto:
    """A copy with these input shapes, and with weights that are constants only."""
    import onnx

    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    graph = fixed.graph
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    del graph.input[:]
    graph.input.extend(inputs)
    fixed.ir_version = max(fixed.ir_version, 4)  # before 4 every weight had to be listed as an input
    for value in graph.input:
        if value.name in shapes:
            kind = value.type.tensor_type.elem_type
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, kind, shapes[value.name]))
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    del graph.value_info[:]
    return fixed


def session(model: bytes, *, sparing: bool = False) -> onnxruntime.InferenceSession:
    """onnxruntime on one thread; `sparing`: every tensor is an allocation of its own, freed when dead."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if sparing:
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def interleaved(first: Callable[[], Any], second: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Median seconds of two functions called in turn, so that a busy machine slows both alike."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for function, seconds in zip((first, second), times, strict=True):
            start = time.perf_counter()
            function()
            seconds.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def largest_error(got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray]) -> float:
    """Largest absolute difference over all outputs."""
    return max(float(np.max(np.abs(got[name] - want[name]), initial=0.0)) for name in want)


def within_tolerance(got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray]) -> bool:
    """Whether every output is within 1e-4 + 1e-3 * |reference| (DESIGN section 7)."""
    return all(np.allclose(got[name], want[name], rtol=1e-3, atol=1e-4) for name in want)


def compared(plan: Plan, model: bytes, feeds: dict[str, np.ndarray], repeats: int) -> Comparison:
    """Run a plan and onnxruntime on the same inputs: outputs, memory, and time over `repeats` frames each."""
    from threadpoolctl import threadpool_limits

    import runtime

    names = [output.name for output in plan.network.outputs]
    other = session(model)
    program = runtime.compile(plan)
    with threadpool_limits(1):
        outputs, measured = program.measure(feeds)
        reference = dict(zip(names, other.run(names, feeds), strict=True))
        ours, theirs = interleaved(lambda: program(feeds), lambda: other.run(names, feeds), repeats)
    return Comparison(
        plan.figures,
        program.firings,
        measured.touched_bytes,
        measured.python_peak_bytes,
        ours,
        theirs,
        largest_error(outputs, reference),
        within_tolerance(outputs, reference),
        outputs,
        reference,
    )
