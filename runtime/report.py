"""Reports on runs: planned and measured figures, and the outputs compared with onnxruntime's.

Every tensor that the plan keeps whole is listed with the reason. In networks with squeeze-and-excite blocks or large outputs
these tensors take most of the memory.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import runtime
from csdfgen.emission.account import Account
from csdfgen.errors import CsdfgenError, InputError, option
from csdfgen.model.describe import format_repr, html_table, mebibytes
from csdfgen.ops import get_operator
from csdfgen.ops.base import Mode
from csdfgen.phases.conversion import ActorWork
from csdfgen.planning.plan import Plan
from csdfgen.program.steps import Driven
from runtime.branches import count_taken_since
from runtime.resident import describe_process

if TYPE_CHECKING:
    from runtime.reference import Comparison, Source
    from runtime.verify import ForcedRun, LayerComparison

CHECKS = ("outputs", "layers")
"""What is compared with onnxruntime; layers are also compared if an output is wrong."""

RESULTS = ("stored", "arena", "streamed")
"""Output rows are stored in arrays outside the arena, stay in the arena until the next frame (if the plan provides for it),
or are handed on as they are computed.
"""

Progress = Callable[..., None]
"""Called as progress("what is done now") or progress("what", done, total)."""


@dataclass(frozen=True, slots=True)
class KeptWhole:
    """A tensor with all rows in memory at one time, and the reason. layer: "" for a network input."""

    tensor: str
    layer: str
    op_type: str
    rows: int
    nbytes: int
    why: str


@dataclass(frozen=True, slots=True)
class Report:
    """A run of a plan. ok and max_abs_error are None without a check. measured_bytes: touched in the arena. python_peak_bytes,
    call_peak_bytes: allocated in addition to it, while firing and in the whole call (see `measurement.Measurement`).
    latency_ms: median of the timed frames. result: see `RESULTS`. account: the memory in all. parameters_packed: bytes of
    weights in the layout of the kernels, None if unknown. weights: bytes that the program only reads, and those of them in
    memory behind the last frame, None if unknown. driven: what a device did in a frame, and the time in which it built all
    kernels; None where processors of the host compute. branches: name of an If -> for how many images of the timed frames its
    condition was true, and false. process: bytes of it that were resident at most, and what of them, by name; {} where the
    system does not say. mapped: whether weights are in files. forced: with a check, further frames in which they took the
    other branches.
    """

    model: str
    plan: Plan
    measured_bytes: int
    python_peak_bytes: int
    call_peak_bytes: int
    latency_ms: float
    threads: int
    repeat: int
    firings: int
    outputs: Mapping[str, tuple[tuple[int, ...], str]]
    comparisons: tuple[Comparison, ...] | None = None
    layers: tuple[LayerComparison, ...] = ()
    result: str = RESULTS[0]
    account: Account | None = None
    parameters_packed: int | None = None
    weights: tuple[int, int | None] = (0, None)
    mapped: bool = False
    driven: Driven | None = None
    branches: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    process: Mapping[str, int] = field(default_factory=dict)
    forced: tuple[ForcedRun, ...] = ()

    @property
    def figures(self) -> Mapping[str, int]:
        """The plan's figures, in bytes; outputs that were handed on count as 0."""
        return (
            {**self.plan.figures, "outputs": 0} if self.result == "streamed" else self.plan.figures
        )

    @property
    def ok(self) -> bool | None:
        if self.comparisons is None:
            return None
        equal = all(one.ok for some in (self.comparisons, self.layers, self.forced) for one in some)
        return equal and not self.inconclusive

    @property
    def inconclusive(self) -> Mapping[str, str]:
        """Output -> why it proves nothing that it equals onnxruntime's."""
        found = {one.name: one.inconclusive for one in self.comparisons or ()}
        return {name: why for name, why in found.items() if why}

    @property
    def max_abs_error(self) -> float | None:
        """Largest difference of any output from onnxruntime's."""
        return (
            None
            if self.comparisons is None
            else max((one.max_abs_error for one in self.comparisons), default=0.0)
        )

    def _facts(self) -> dict[str, object]:
        verdict = {None: "not checked", True: "equal", False: "different"}[self.ok]
        verdict = "equal, which proves nothing" if self.inconclusive else verdict
        error = (
            "" if self.max_abs_error is None else f", largest difference {self.max_abs_error:.3g}"
        )
        return {
            "outputs": f"{verdict}{error}",
            "arena": f"{mebibytes(self.measured_bytes)} measured",
            "planned": mebibytes(self.plan.planned_bytes),
            "latency": f"{self.latency_ms:,.1f} ms",
        }

    def __repr__(self) -> str:
        return format_repr("Report", self.model, **self._facts())

    def _repr_html_(self) -> str:
        more = {
            "firings": self.firings,
            "threads": self.threads,
            **{name: mebibytes(size) for name, size in self.figures.items()},
        }
        return html_table(f"Report on {self.model}", [*self._facts().items(), *more.items()])


def measure(
    plan: Plan,
    feeds: Mapping[str, np.ndarray],
    *,
    model: str = "",
    threads: int = 1,
    repeat: int = 1,
    result: str = RESULTS[0],
    libraries: int = 0,
    progress: Progress = lambda *what: None,
) -> tuple[Report, dict[str, np.ndarray]]:
    """A report without a comparison, and the outputs: one frame with its memory traced, then `repeat` timed ones without.

    feeds: an array for each input. model: the name in the report. result: "stored", or "streamed": output rows are computed
    and not stored. libraries: bytes that were resident before the network was read. Raises what `runtime.compile` and a
    program raise.
    """
    progress("compiling")
    program = runtime.compile(plan, threads=threads)
    progress("measuring")
    on_rows = _passed_over if result == "streamed" else None
    outputs, measured = program.measure(feeds, on_rows=on_rows)
    times, driven, taken = [], program.driven, program.branches
    for number in range(repeat):
        progress(f"frame {number + 1} of {repeat}", number, repeat)
        outputs = {}  # a frame would use another arena if outputs in this one were still referenced
        before = program.driven
        start = time.perf_counter()
        outputs = program(feeds, on_rows=on_rows)
        times.append(time.perf_counter() - start)
        if before is not None and program.driven is not None:
            driven = replace(program.driven.since(before), building=program.driven.building)
    weights = program.weight_bytes
    there = weights[0] if weights[1] is None else weights[1]
    return Report(
        model=model or plan.network.source or plan.network.name,
        plan=plan,
        measured_bytes=measured.touched_bytes,
        python_peak_bytes=measured.python_peak_bytes,
        call_peak_bytes=measured.call_peak_bytes,
        latency_ms=1e3 * statistics.median(times),
        threads=threads,
        repeat=repeat,
        firings=program.firings,
        outputs={one.name: plan.network.whole_form(one) for one in plan.network.outputs},
        result="arena" if result == "stored" and plan.options.result == "arena" else result,
        account=replace(program.account, **{"outputs": 0} if result == "streamed" else {}),
        parameters_packed=program.packed_bytes,
        weights=weights,
        mapped=program.mapped,
        driven=driven,
        branches=count_taken_since(program.branches, taken),
        process=describe_process(libraries, there, plan.planned_bytes, plan.figures["outputs"]),
    ), outputs


def _passed_over(name: str, image: int, start: int, stop: int, rows: np.ndarray) -> None:
    """Ignore rows of outputs."""


def compare_with_reference(
    report: Report,
    source: Source,
    feeds: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    check: str = "outputs",
    *,
    progress: Progress = lambda *what: None,
) -> tuple[Report, CsdfgenError | None]:
    """The report with the comparison, and the error if outputs differ, or are equal where that proves nothing. If they differ
    all layers are compared, to find the first one that does.

    source: the model that onnxruntime runs. outputs: those of the report's frames; if they were streamed, another frame is
    compared row by row. Raises ModelError if onnxruntime cannot run the model.
    """
    from runtime.reference import comparison_types
    from runtime.steps import find_saturating
    from runtime.verify import (
        check_branches,
        check_layers,
        check_outputs,
        check_rows,
        mismatch,
        tolerance_types,
    )

    progress("running onnxruntime")
    plan = report.plan
    if report.result == "streamed":
        comparisons = check_rows(source, plan, feeds, report.threads)
    else:
        comparisons = check_outputs(source, plan, feeds, outputs, report.threads)
    wrong = next((one for one in comparisons if not one.ok), None)
    layers: tuple[LayerComparison, ...] = ()
    if check == "layers" or wrong is not None:
        progress("comparing layers")
        layers = check_layers(source, plan, feeds, report.threads)
    progress("comparing branches")
    forced = check_branches(source, plan, feeds, report.branches, report.threads)
    report = replace(report, comparisons=comparisons, layers=layers, forced=forced)
    saturated = find_saturating(plan.network)
    if wrong is not None:
        dtype = tolerance_types(plan).get(wrong.name, np.dtype(report.outputs[wrong.name][1]))
        return report, mismatch(wrong, dtype, layers, report.model, saturated)
    first = next((entry for entry in layers if not entry.ok), None)
    if first is not None:
        dtype = comparison_types(plan.network)[first.comparison.name]
        return report, mismatch(first.comparison, dtype, layers, report.model, saturated)
    for run in forced:
        if not run.ok:
            one = next(one for one in run.comparisons if not one.ok)
            dtype = tolerance_types(plan).get(one.name, np.dtype(report.outputs[one.name][1]))
            return report, mismatch(one, dtype, (), f"{report.model}: with {run}", saturated)
    for name, why in report.inconclusive.items():
        text = (
            f"output '{name}' equals onnxruntime's, which proves nothing: {why}; give data with {option('input')}, values of "
            f"lengths and switches with {option('fix')}, or other random inputs with {option('seed')}"
        )
        return report, CsdfgenError(text, where=report.model)
    return report, None


def measure_and_compare(
    plan: Plan,
    feeds: Mapping[str, np.ndarray],
    source: Source,
    *,
    check: str | None = "outputs",
    threads: int = 1,
    repeat: int = 1,
    result: str = RESULTS[0],
) -> Report:
    """Run a plan, measure it, and compare it with onnxruntime: what `csdfgen run --check` reports.

    A difference is reported by `report.ok` and raises no error. check: None runs no comparison. result: "stored", or
    "streamed" (rows are compared as they are computed). Raises InputError for invalid arguments, and as `measure`.
    """
    if check is not None and check not in CHECKS:
        raise InputError(f"{option('check', check)}: not one of {', '.join(CHECKS)}")
    if result not in RESULTS:
        raise InputError(f"{option('result', result)}: not one of {', '.join(RESULTS)}")
    if repeat < 1:
        raise InputError(f"{option('repeat', repeat)}: at least 1 frame is timed")
    try:
        report, outputs = measure(plan, feeds, threads=threads, repeat=repeat, result=result)
    except CsdfgenError as error:
        raise error.at(plan.network.source or plan.network.name) from None
    if check is None:
        return report
    return compare_with_reference(report, source, feeds, outputs, check)[0]


def list_whole_tensors(plan: Plan) -> tuple[KeptWhole, ...]:
    """Tensors of more than one row with a buffer for all rows, largest first."""
    network = plan.network
    found = []
    for buffer in plan.rolling:
        region = plan.regions[buffer.name]
        if buffer.kind != "tensor" or buffer.rows <= 1 or region.capacity < buffer.rows:
            continue
        tensor = plan.sharing.buffers[buffer.name]
        layer = network.producer.get(tensor.name)
        name, op_type = (layer.name, layer.op_type) if layer is not None else ("", "input")
        why = next(_reasons(plan, buffer.name))
        found.append(KeptWhole(tensor.name, name, op_type, buffer.rows, region.size, why))
    return tuple(sorted(found, key=lambda entry: -entry.nbytes))


def _reasons(plan: Plan, buffer: str) -> Iterator[str]:
    """The reasons why all rows of a buffer are in memory at one time, the strongest first."""
    if plan.by_name[buffer].kept:
        yield "is an output, and stays in the arena to the end of the frame"
    members = set(plan.sharing.members[buffer])
    rows = plan.sharing.buffers[buffer].rows
    actors = plan.conversion.actors
    writers = [
        work for work in actors if any(write.tensor.name in members for write in work.writes)
    ]
    readers = [
        (work, read) for work in actors for read in work.reads if read.tensor.name in members
    ]
    for work in writers:
        if work.layer is not None and get_operator(work.layer).mode(work.layer) is Mode.WHOLE:
            yield f"{_named(work)} has no row structure and runs whole"
    waiting = [work for work, read in readers if work.kind == "layer" and read.need[0] >= rows]
    for work in waiting:
        if work.layer is not None and get_operator(work.layer).mode(work.layer) is Mode.WHOLE:
            yield f"{_named(work)} has no row structure and runs whole"
        elif len(work.phases) > 1:
            yield f"{_named(work)} needs every row before its first phase"
    for work in writers:
        if work.layer is not None and get_operator(work.layer).mode(work.layer) is Mode.ACCUMULATE:
            yield f"{_named(work)} adds to all {rows} rows in every phase"
        elif len(work.phases) == 1:
            yield f"{_named(work)} makes its {rows} rows in one phase"
    for work in waiting:
        yield f"{_named(work)} takes its {rows} rows in one phase"
    for work, _ in readers:
        for other in work.reads:
            if other.tensor.name not in members and other.need[0] >= other.tensor.rows:
                yield f"{_named(work)} also needs the whole of '{other.tensor.name}' before its first phase"
    yield "a later reader needs its first rows when the last are written"


def _named(work: ActorWork) -> str:
    return f"'{work.name}' ({work.layer.op_type})" if work.layer is not None else f"'{work.name}'"


def to_json(report: Report) -> dict[str, Any]:
    """The report as JSON values; numbers that are not finite become null."""
    plan = report.plan
    values: dict[str, Any] = {
        "model": report.model,
        "ok": report.ok,
        "max_abs_error": _finite(report.max_abs_error),
        "latency_ms": report.latency_ms,
        "firings": report.firings,
        "planned_bytes": plan.planned_bytes,
        "measured_bytes": report.measured_bytes,
        "python_peak_bytes": report.python_peak_bytes,
        "call_peak_bytes": report.call_peak_bytes,
        "result": report.result,
        "backend": plan.options.backend,
        **_driven(report.driven),
        "branches": {n: {"then": y, "else": e} for n, (y, e) in report.branches.items()},
        "forced_branches": [
            {
                "branches": {name: "then" if yes else "else" for name, yes in run.forced.items()},
                "ok": None if run.why else run.ok,
                "max_abs_error": None if run.why else _finite(run.max_abs_error),
                "why": run.why,
            }
            for run in report.forced
        ],
        "figures": dict(report.figures),
        "account": None if report.account is None else report.account.to_json(),
        "parameters_packed": report.parameters_packed,
        "weights": {
            "kept": "mapped" if report.mapped else "copied",
            "bytes": report.weights[0],
            "resident_bytes": report.weights[1],
        },
        "process": dict(report.process),
        "rows": str(plan.conversion.rows),
        "fuse": plan.options.fuse,
        "image": plan.options.image,
        "batch": plan.network.batch,
        "threads": report.threads,
        "repeat": report.repeat,
        "outputs": {
            name: {"shape": list(shape), "dtype": dtype}
            for name, (shape, dtype) in report.outputs.items()
        },
        "whole_layers": [
            {
                "layer": e.layer,
                "op_type": e.op_type,
                "tensor": e.tensor,
                "rows": e.rows,
                "bytes": e.nbytes,
                "why": e.why,
            }
            for e in list_whole_tensors(plan)
        ],
    }
    noises = {o.name: o.sqnr_db for o in report.comparisons or () if o.sqnr_db is not None}
    checked = report.comparisons is not None
    values["checks"] = (
        {one.name: _check_values(one) for one in report.comparisons or ()} if checked else None
    )
    if noises:
        values["sqnr_db"] = {name: _finite(one) for name, one in noises.items()}
    steps = {one.name: one.steps for one in report.comparisons or () if one.steps is not None}
    if steps:
        from runtime.steps import find_saturating

        values["steps"] = {
            name: {
                "step": one.step.size,
                "largest": _finite(one.largest),
                "share": one.share,
                "root_mean_square": _finite(one.root),
            }
            for name, one in steps.items()
        }
        values["saturated_by_onnxruntime"] = list(find_saturating(plan.network))
    if report.layers:
        values["layers"] = [
            {
                "layer": entry.layer.name,
                "op_type": entry.layer.op_type,
                "tensor": entry.comparison.name,
                "rows": entry.rows,
                "max_abs_error": _finite(entry.comparison.max_abs_error),
                "ok": entry.comparison.ok,
            }
            for entry in report.layers
        ]
    return values


def _check_values(one: Comparison) -> dict[str, Any]:
    """The comparison of an output: of `allowed`, the largest accepted difference, see `reference.Spread`."""
    assert one.spread is not None
    return {
        "equal": one.ok,
        "values": one.values,
        "wrong": one.wrong,
        "max_abs_error": _finite(one.max_abs_error),
        "min": _finite(one.spread.low),
        "max": _finite(one.spread.high),
        "allowed": _finite(one.spread.allowed),
        "constant": one.spread.fixed,
        "inconclusive": one.inconclusive or None,
    }


def _driven(driven: Driven | None) -> dict[str, Any]:
    """What a device did in a frame; null where processors of the host compute."""
    if driven is None:
        return dict.fromkeys(("device", "launches", "copied_bytes", "build_ms"))
    return {
        "device": driven.device,
        "launches": driven.launches,
        "copied_bytes": driven.copied,
        "build_ms": 1e3 * driven.building,
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
