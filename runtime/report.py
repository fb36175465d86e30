"""What did a run need, and what was gained? The figures of a plan beside what a frame really used.

Every tensor that the plan keeps whole is listed with the reason: these, not the rolling buffers,
are what a network with squeeze-and-excite blocks or large outputs spends its memory on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from csdfgen.ops import operator_of
from csdfgen.ops.base import Mode
from csdfgen.phases.conversion import ActorWork
from csdfgen.planning.plan import Plan
from runtime.reference import Comparison
from runtime.verify import LayerComparison

__all__ = ["KeptWhole", "Report", "kept_whole", "to_json"]


@dataclass(frozen=True, slots=True)
class KeptWhole:
    """A tensor of which all rows are in memory at one time, and why; layer "" for a network input."""

    tensor: str
    layer: str
    op_type: str
    rows: int
    nbytes: int
    why: str


@dataclass(frozen=True, slots=True)
class Report:
    """One run of a plan. Bytes; times in milliseconds; ok and max_abs_error are None without a
    check.
    """

    model: str
    plan: Plan
    measured_bytes: int
    python_peak_bytes: int
    latency_ms: float
    threads: int
    repeat: int
    firings: int
    outputs: Mapping[str, tuple[tuple[int, ...], str]]
    comparisons: tuple[Comparison, ...] | None = None
    layers: tuple[LayerComparison, ...] = ()

    @property
    def ok(self) -> bool | None:
        if self.comparisons is None:
            return None
        return all(one.ok for one in self.comparisons) and all(
            one.comparison.ok for one in self.layers
        )

    @property
    def max_abs_error(self) -> float | None:
        """Largest difference of any output from onnxruntime's."""
        return (
            None
            if self.comparisons is None
            else max((one.max_abs_error for one in self.comparisons), default=0.0)
        )


def kept_whole(plan: Plan) -> tuple[KeptWhole, ...]:
    """Tensors of more than one row whose buffer holds all of them, largest first."""
    network = plan.network
    found = []
    for storage in plan.storages:
        slot = plan.slots[storage.name]
        if storage.rows <= 1 or slot.capacity < storage.rows:
            continue
        tensor = plan.placement.storages[storage.name]
        layer = network.producer.get(tensor.name)
        name, op_type = (layer.name, layer.op_type) if layer is not None else ("", "input")
        why = (
            "it is an output of the network" if storage.kept else next(_reasons(plan, storage.name))
        )
        found.append(KeptWhole(tensor.name, name, op_type, storage.rows, slot.size, why))
    return tuple(sorted(found, key=lambda entry: -entry.nbytes))


def _reasons(plan: Plan, storage: str) -> Iterator[str]:
    """Why all rows of a storage are there at one time, the strongest reason first."""
    members = set(plan.placement.members[storage])
    rows = plan.placement.storages[storage].rows
    actors = plan.conversion.actors
    writers = [
        work for work in actors if any(write.tensor.name in members for write in work.writes)
    ]
    readers = [
        (work, read) for work in actors for read in work.reads if read.tensor.name in members
    ]
    for work in writers:
        if work.layer is not None and operator_of(work.layer).mode(work.layer) is Mode.WHOLE:
            yield f"{_named(work)} has no row structure and runs whole"
    waiting = [work for work, read in readers if work.kind == "layer" and read.need[0] >= rows]
    for work in waiting:
        if work.layer is not None and operator_of(work.layer).mode(work.layer) is Mode.WHOLE:
            yield f"{_named(work)} has no row structure and runs whole"
        elif len(work.phases) > 1:
            yield f"{_named(work)} needs every row before its first phase"
    for work in writers:
        if len(work.phases) == 1:
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
    """The report as JSON values; a number that is not finite is null."""
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
        "figures": dict(plan.figures),
        "rows": str(plan.conversion.rows),
        "fuse": plan.fuse,
        "image": plan.image,
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
            for e in kept_whole(plan)
        ],
    }
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


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
