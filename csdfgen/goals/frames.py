"""What does it cost, and what does it bring, that the next image enters before the last has left?

Memory is the arena of the order of several images against that of one. On one processor the rate is
that of the phases one after the other, of which those of several images take less time an image. What
more memory can bring is a pipeline with a processor for every actor: each tensor then has a room of its own, of as many rows as
the order holds of it at most, and every phase starts as soon as its rows and its room are there.
That is self-timed execution, so that its throughput is the highest in these rooms. The rooms are not
the arena: rows lie in it at offsets that only the one order keeps apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph, with_serial_loops
from csdfgen.devices.model import estimate, phase_seconds
from csdfgen.devices.profile import DeviceProfile
from csdfgen.phases.conversion import Conversion, convert, function_of
from csdfgen.planning.lifetimes import times_of
from csdfgen.planning.overlapping import in_flight
from csdfgen.planning.plan import Plan
from schedules.throughput import throughput

__all__ = ["Frames", "Pipeline", "frames_of", "rooms_of"]

_SECOND = 10**9
"""Time units of a pipeline's graph: nanoseconds."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A processor for every actor. rate: frames a second, None where nothing takes time; exact, or
    what it reaches at least. bytes: of all rooms.
    """

    rate: float | None
    exact: bool
    bytes: int


@dataclass(frozen=True, slots=True)
class Frames:
    """An order of several images beside that of one. in_flight: images with rows alive at one time, at
    most. rate: frames a second on one processor. pipeline, pipeline_of_one: in the rooms of each.
    """

    frames: int
    in_flight: int
    arena: int
    arena_of_one: int
    rate: float | None
    pipeline: Pipeline
    pipeline_of_one: Pipeline

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    def told(self, device: str) -> tuple[tuple[str, str], ...]:
        """(what, in words), for a terminal and for a page. device: where the rate is predicted."""

        def rate(value: float | None, exact: bool = True) -> str:
            bound = "" if exact else "at least "
            return "no work" if value is None else f"{bound}{value:,.4g} frames/s"

        many, one = self.pipeline, self.pipeline_of_one
        times = self.arena / max(1, self.arena_of_one)
        arenas = (
            f"arena of {self.arena:,} bytes, {times:.2f} times that of one ({self.arena_of_one:,})"
        )
        fast = f"{rate(many.rate, many.exact)} with a processor an actor, in rooms of {many.bytes:,} bytes"
        slow = f"in those of one image ({one.bytes:,} bytes) {rate(one.rate, one.exact)}"
        return (
            ("frames", f"{self.frames} in one order, at most {self.in_flight} in flight; {arenas}"),
            ("rate", f"{rate(self.rate)} on one processor; predicted on {device}"),
            ("pipeline", f"{fast} instead of the arena; {slow}"),
        )


def frames_of(plan: Plan, one: Plan, profile: DeviceProfile) -> Frames:
    """What is to be told of a plan of several images. one: the plan of one image. Raises InputError if
    the profile has no cost for an operator.
    """
    frames = plan.conversion.frames
    seconds = estimate(plan, profile).seconds
    return Frames(
        frames,
        in_flight(plan.rolling, plan.lifetimes, frames),
        plan.planned_bytes,
        one.planned_bytes,
        frames / seconds if seconds else None,
        _pipeline(plan, profile),
        _pipeline(one, profile),
    )


def rooms_of(plan: Plan) -> dict[str, int]:
    """Tensor -> most rows that the order holds of it: claimed, and not released by all its readers."""
    times = times_of(plan.order)
    readers: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for work in plan.conversion.actors:
        for read in work.reads if work.kind != "output" else ():
            released = np.concatenate([[0], read.release])
            readers.setdefault(read.tensor.name, []).append((times[work.name], released))
    found = {}
    for work in plan.conversion.actors:
        for write in work.writes:
            claimed, at = np.array(write.claimed), times[work.name]
            gone = [
                released[np.searchsorted(when, at)]
                for when, released in readers.get(write.tensor.name, ())
            ]
            if gone:
                found[write.tensor.name] = int((claimed - np.min(gone, axis=0)).max())
    return found


def _pipeline(plan: Plan, profile: DeviceProfile) -> Pipeline:
    """The pipeline of one image after another in the rooms of a plan's order."""
    one = convert(plan.network, plan.options.rows, image=plan.options.image)
    rooms = rooms_of(plan)
    found = throughput(_graph(one, plan, profile, rooms))
    tensors = plan.network.tensors
    size = sum(rows * tensors[name].row_bytes for name, rows in rooms.items())
    rate = float(found.value) * _SECOND
    return Pipeline(rate if np.isfinite(rate) else None, found.exact, size)


def _graph(
    one: Conversion, plan: Plan, profile: DeviceProfile, rooms: Mapping[str, int]
) -> CsdfGraph:
    """Actors with their times in nanoseconds; rows as tokens, and the rows of a room that are free: a
    phase claims them when it starts, and those that it is the last to need are free when it ends.
    """
    writers = {w.tensor.name: (work.name, w) for work in one.actors for w in work.writes}
    channels = []
    for number, work in enumerate(one.actors):
        for place, read in enumerate(work.reads):
            name, (source, write) = f"{number}.{place}", writers[read.tensor.name]
            made, taken = _steps(write.complete), _steps(read.need)
            channels.append(Channel(name, source, work.name, made, taken, 0, 1, "data"))
            if work.kind != "output":
                freed, claimed = _steps(read.release), _steps(write.claimed)
                room = rooms[read.tensor.name]
                ends = work.name, source, freed, claimed
                channels.append(Channel(f"space_{name}", *ends, room, 0, "space"))
    actors = tuple(
        Actor(
            work.name,
            tuple(
                round(_SECOND * seconds)
                for seconds in phase_seconds(work, profile, work.name in plan.sharing.silent)
            ),
            function_of(work),
        )
        for work in one.actors
    )
    return with_serial_loops(CsdfGraph(plan.network.name, actors, tuple(channels)))


def _steps(running: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(b - a for a, b in pairwise((0, *running)))
