"""What does an order of several images cost and gain in which each image enters before the last has left?

The cost is memory: the arena of several images compared with that of one. On one processor the phases run one after the
other, and those of several images take less time per image. The gain of more memory is a pipeline with a processor for
every actor. Each tensor then has a buffer with as many rows as the order holds of it at most, and every phase starts as
soon as its input rows and free output rows are available. That is self-timed execution, which has the highest throughput
with these buffers. They are separate from the arena, in which only the one order keeps rows apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph, add_serial_loops
from csdfgen.devices.model import estimate, phase_seconds
from csdfgen.devices.profile import DeviceProfile
from csdfgen.phases.conversion import Conversion, convert, describe_function
from csdfgen.planning.buffers import Buffer
from csdfgen.planning.lifetimes import Lifetimes, firing_times
from csdfgen.planning.plan import Plan
from schedules.throughput import throughput

_SECOND = 10**9
"""Time units of a pipeline's graph: nanoseconds."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A processor for every actor. rate: frames a second, None if nothing takes time; a lower bound unless exact.
    bytes: of all buffers.
    """

    rate: float | None
    exact: bool
    bytes: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """An order of several images compared with that of one. in_flight: images with rows alive at one time, at most.
    rate: frames a second on one processor. pipeline, pipeline_of_one: with the buffers of each order.
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
        """(name, text), for a terminal and for a page. device: name of the device of the predicted rate."""

        def rate(value: float | None, exact: bool = True) -> str:
            bound = "" if exact else "at least "
            return "no work" if value is None else f"{bound}{value:,.4g} frames/s"

        many, one = self.pipeline, self.pipeline_of_one
        times = self.arena / max(1, self.arena_of_one)
        arenas = (
            f"arena of {self.arena:,} bytes, {times:.2f} times that of one ({self.arena_of_one:,})"
        )
        fast = f"{rate(many.rate, many.exact)} with a processor for each actor and buffers of {many.bytes:,} bytes"
        slow = f"{rate(one.rate, one.exact)} with those of one image ({one.bytes:,} bytes)"
        return (
            ("frames", f"{self.frames} in one order, at most {self.in_flight} in flight; {arenas}"),
            ("rate", f"{rate(self.rate)} on one processor; predicted on {device}"),
            ("pipeline", f"{fast} instead of the arena; {slow}"),
        )


def describe_overlap(plan: Plan, one: Plan, profile: DeviceProfile) -> Overlap:
    """The facts of a plan of several images. one: the plan of one image. Raises InputError if the profile has no cost for
    an operator.
    """
    frames = plan.conversion.frames
    seconds = estimate(plan, profile).seconds
    return Overlap(
        frames,
        count_in_flight(plan.rolling, plan.lifetimes, frames),
        plan.planned_bytes,
        one.planned_bytes,
        frames / seconds if seconds else None,
        _pipeline(plan, profile),
        _pipeline(one, profile),
    )


def count_held_rows(plan: Plan) -> dict[str, int]:
    """Tensor -> most rows that the order holds of it: claimed and not yet released by all readers."""
    times = firing_times(plan.order)
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
    """The pipeline of one image after another with the buffers of a plan's order."""
    one = convert(plan.network, plan.options.rows, image=plan.options.image)
    held = count_held_rows(plan)
    found = throughput(_graph(one, plan, profile, held))
    tensors = plan.network.tensors
    size = sum(rows * tensors[name].row_bytes for name, rows in held.items())
    rate = float(found.value) * _SECOND
    return Pipeline(rate if np.isfinite(rate) else None, found.exact, size)


def _graph(
    one: Conversion, plan: Plan, profile: DeviceProfile, held: Mapping[str, int]
) -> CsdfGraph:
    """Actors with their times in nanoseconds; tokens are rows, and free rows of a buffer: a phase claims them when it
    starts, and frees at its end the rows that it is the last to need.
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
                most = held[read.tensor.name]
                ends = work.name, source, freed, claimed
                channels.append(Channel(f"space_{name}", *ends, most, 0, "space"))
    actors = tuple(
        Actor(
            work.name,
            tuple(
                round(_SECOND * seconds)
                for seconds in phase_seconds(work, profile, work.name in plan.sharing.silent)
            ),
            describe_function(work),
        )
        for work in one.actors
    )
    return add_serial_loops(CsdfGraph(plan.network.name, actors, tuple(channels)))


def _steps(running: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(b - a for a, b in pairwise((0, *running)))


def count_in_flight(buffers: Sequence[Buffer], lifetimes: Lifetimes, frames: int) -> int:
    """Most images at one time that have started and have a row alive."""
    first = np.full(frames, np.iinfo(np.int64).max)
    last = np.zeros(frames, np.int64)
    for buffer, one in zip(buffers, lifetimes.each, strict=True):
        image = np.arange(buffer.rows) * frames // max(1, buffer.rows)
        np.minimum.at(first, image, one.born)
        np.maximum.at(last, image, one.gone)
    return max(int(np.count_nonzero((first <= at) & (last > at))) for at in first.tolist())
