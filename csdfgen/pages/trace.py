"""Which layers take the time of a frame? Every firing with its start and end, for a trace viewer and by layer.

The calls are those of every frame, in their order; the clock is read between firings, which costs a
fraction of a microsecond each. Operations and bytes are those of `csdfgen.devices.work`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import runtime
from csdfgen.devices.work import phase_works
from csdfgen.phases.conversion import describe_function
from csdfgen.planning.plan import Plan


@dataclass(frozen=True, slots=True)
class FiringTime:
    """One firing: nanoseconds from the start of the frame; floating point operations, and bytes that
    it reads again and writes; bytes of rows alive during it. taken: whether it was executed; firings of the other branch of
    an If are not.
    """

    actor: str
    function: str
    phase: int
    start: int
    end: int
    operations: float
    moved: int
    alive: int
    taken: bool = True


@dataclass(frozen=True, slots=True)
class LayerTime:
    """All firings of a layer in a frame. seconds: their sum; operations and bytes likewise."""

    name: str
    function: str
    firings: int
    seconds: float
    operations: float
    moved: int

    @property
    def rate(self) -> float:
        """Operations a second; 0 where nothing takes time."""
        return self.operations / self.seconds if self.seconds else 0.0


def time_firings(
    plan: Plan, feeds: Mapping[str, np.ndarray], repeats: int = 5, threads: int = 1
) -> tuple[FiringTime, ...]:
    """The firings of the frame with the median time of `repeats`, after one to warm up: thread time on one thread, wall time on
    several, and the device's own time where a device computes.

    Raises what `runtime.compile` and a program raise.
    """
    from csdfgen.devices.measure import choose_clock

    program, clock = runtime.compile(plan, threads=threads), choose_clock(threads)
    frames = sorted(
        (program.time_firings(dict(feeds), clock) for _ in range(repeats + 1)),
        key=lambda times: times[-1] - times[0],
    )
    times = frames[len(frames) // 2]
    actor = plan.conversion.actor
    works = {
        work.name: list(phase_works(work))
        for work in plan.conversion.actors
        if work.layer is not None
    }
    found = []
    for number, (name, phase) in enumerate(plan.order):
        taken = number not in program.left_out
        work = works[name][phase] if name in works and taken else None
        found.append(
            FiringTime(
                name,
                describe_function(actor[name]),
                phase,
                times[number] - times[0],
                times[number + 1] - times[0],
                0.0 if work is None else work.operations,
                0 if work is None else work.moved,
                int(plan.lifetimes.live[number]),
                taken,
            )
        )
    return tuple(found)


def sum_by_layer(firings: Sequence[FiringTime]) -> tuple[LayerTime, ...]:
    """The layers, the one that takes longest first."""
    groups: dict[str, list[FiringTime]] = {}
    for one in firings:
        groups.setdefault(one.actor, []).append(one)
    found = [
        LayerTime(
            name,
            own[0].function,
            sum(one.taken for one in own),
            sum(one.end - one.start for one in own) / 1e9,
            sum(one.operations for one in own),
            sum(one.moved for one in own),
        )
        for name, own in groups.items()
    ]
    return tuple(sorted(found, key=lambda layer: -layer.seconds))


def chrome_trace(
    plan: Plan, firings: Sequence[FiringTime], device: str | None = None
) -> dict[str, Any]:
    """The frame as Chrome and Perfetto read it: a slice a firing, and the bytes alive as a counter.

    device: whose clock the times are of; None: the host's. Times are microseconds. Format: the Trace Event Format, JSON object
    form.
    """
    name = plan.network.name
    return {
        "displayTimeUnit": "ns",
        "otherData": {
            "network": name,
            "backend": plan.options.backend,
            "arena": plan.planned_bytes,
            "firings": len(firings),
            **({"device": device} if device else {}),
        },
        "traceEvents": list(_events(name, firings, device)),
    }


def _events(
    name: str, firings: Sequence[FiringTime], device: str | None
) -> Iterator[dict[str, Any]]:
    thread = f"firings on {device}" if device else "firings"
    yield {"name": "process_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": name}}
    yield {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": thread}}
    for one in firings:
        if not one.taken:
            continue
        start, long = one.start / 1e3, (one.end - one.start) / 1e3
        yield {
            "name": one.actor, "cat": one.function, "ph": "X", "pid": 1, "tid": 1, "ts": start, "dur": long,
            "args": {
                "phase": one.phase, "operations": one.operations, "bytes": one.moved,
                "GFLOP/s": round(one.operations / (one.end - one.start), 3) if one.end > one.start else 0.0,
            },
        }  # fmt: skip
        yield {
            "name": "rows alive, bytes",
            "ph": "C",
            "pid": 1,
            "ts": start,
            "args": {"bytes": one.alive},
        }
