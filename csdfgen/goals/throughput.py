"""Which actors does each of several processors fire, so that most images a second leave the pipeline?

Consecutive layers share a processor, and the busiest one has as little to do as predicted times allow. The period of a
mapping is what the analysis of a cyclo-static dataflow graph predicts: its actors are the processors, with a phase for
each firing of an image, and its channels are what they wait for: rows, and free rows. Cuts near the balanced ones are
compared by their periods; then buffers between processors get as few slots as cost no more than a hundredth of the least
period.

A device is one profile for all processors, or several with commas between them, as of a CPU and a GPU: a profile for
each processor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph, add_serial_loops
from csdfgen.devices.model import check_costs, phase_seconds
from csdfgen.devices.profile import DeviceProfile
from csdfgen.errors import InputError, PlanError, option
from csdfgen.model.options import DEFAULTS
from csdfgen.phases.conversion import ActorWork, Conversion
from csdfgen.planning.pipelined import WHOLE, Pipelined
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import assemble
from csdfgen.planning.prepared import Prepared
from csdfgen.planning.waits import Waits, count_cores, split_by_processor
from csdfgen.stopping import is_stopped
from schedules.throughput import throughput

_NANOSECONDS = 10**9

_STEADY = 2
"""An image before which the pipeline is filled: buffers have slots for two images at most."""

_SHIFTS = (-1, 1, -2, 2)
"""Actors by which a cut is moved."""

_NEAR = 1.01
"""Periods within one percent are equal: no model predicts more exactly."""

_SLOTS = ((1, 1), (2, 1), (4, 1), (8, 1), (WHOLE, 1), (WHOLE, 2))
"""(times as many slots as one image needs, images with slots of their own) of buffers between processors."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """What is predicted of a plan on several processors.

    loads: seconds that each works on an image. period: seconds between two images that leave a filled pipeline, None for too
    few images to fill it; seconds: of all images of the order, with filling and emptying it. sequential: of all images on
    the first processor. waits: for how many firings of an order others are waited for. device: names of profiles.
    """

    mapping: Mapping[str, int]
    loads: tuple[float, ...]
    period: float | None
    seconds: float
    sequential: float
    frames: int
    waits: int
    device: str

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        found = asdict(replace(self, mapping=dict(self.mapping)))
        return {**found, "loads": list(self.loads)}

    def told(self) -> tuple[tuple[str, str], ...]:
        """(name, text), for a terminal."""
        counts = np.bincount([*self.mapping.values()]).tolist()
        parts = (
            f"{count} actors, {1e3 * load:,.4g} ms an image"
            for count, load in zip(counts, self.loads, strict=True)
        )
        each = self.seconds / self.frames
        whole = f"{1e3 * each:,.4g} ms an image for {self.frames} with filling and emptying the pipeline"
        full = "" if self.period is None else f"{1e3 * self.period:,.4g} ms once it is full; "
        gain = self.sequential / self.seconds if self.seconds else 1.0
        return (
            ("processors", "; ".join(f"{k}: {part}" for k, part in enumerate(parts))),
            (
                "period",
                f"{full}{whole}, {gain:.3g} times one processor; predicted on {self.device}",
            ),
        )


_Times = Sequence[Mapping[str, Sequence[float]]]
"""Of each processor: actor -> seconds of each of its phases."""


def plan_processors(
    prepared: Prepared, one_image: Callable[[Prepared], Plan], profiles: Sequence[DeviceProfile]
) -> Plan:
    """The plan of the goal `throughput`.

    one_image: makes the plan of one image, whose heights and order it has. profiles: as many as there are processors, or
    one of all of them. Raises InputError for options that it does not take, PlanError for a memory budget that it exceeds.
    """
    options, network = prepared.options, prepared.network
    _check(prepared)
    cores = options.threads or max(len(profiles), int(profiles[0].processor.cores.value))
    profiles = _each(profiles, cores)
    alone = replace(
        options, goal=DEFAULTS.goal, frames=1, threads=0, memory=0, policy=DEFAULTS.policy
    )
    alone = replace(alone, device="") if len({one.name for one in profiles}) > 1 else alone
    one = one_image(replace(prepared.for_images(1), options=alone))
    check_costs(one.network, one.sharing.silent, profiles[0])
    asked = replace(prepared, options=options)
    filled = Pipelined.of(asked.for_images(_STEADY + 1), one, _STEADY + 1)
    search = _Search(filled, _times(one, profiles), cores)
    mapping = search.mapping()
    ahead, copies = search.slots(mapping)
    made = Pipelined.of(asked, one, options.frames)
    draft = made.plan(mapping, made.rings(mapping, ahead, copies))
    own = replace(options, rows=one.options.rows, ways=one.options.ways)
    interrupted = one.interrupted or is_stopped()
    draft = replace(draft, options=own, notes=one.notes, interrupted=interrupted)
    plan = assemble(draft, one.figures["lower_bound"])
    if options.memory and plan.total_bytes > options.memory:
        raise PlanError(
            f"{option('memory')} of {options.memory:,} bytes is less than the {plan.total_bytes:,} that "
            f"{option('goal', 'throughput')} takes for {network.name}; ask for that much, or for fewer "
            f"{option('threads')}"
        )
    return plan


def _check(prepared: Prepared) -> None:
    """Raises InputError for what a plan on several processors cannot have."""
    options = prepared.options
    if prepared.network.conditions:
        raise InputError(
            f"{option('goal', 'throughput')} is for networks without Ifs, whose branches are chosen between firings; "
            f"this one has {len(prepared.network.conditions)}, leave it out"
        )
    odd = [
        name
        for name in ("latency", "energy", "fast", "batches", "batching")
        if getattr(options, name)
    ]
    odd += ["recompute"] * (options.recompute > 1) + ["tiles"] * bool(options.tiles)
    odd += ["result"] * (options.result == "arena")
    if odd:
        given = option(odd[0], getattr(options, odd[0]))
        raise InputError(f"{option('goal', 'throughput')} takes no {given}; leave one of them out")


def _each(profiles: Sequence[DeviceProfile], cores: int) -> list[DeviceProfile]:
    """A profile for each processor. Raises InputError."""
    if len(profiles) not in (1, cores):
        names = ",".join(one.name for one in profiles)
        raise InputError(
            f"{option('device', names)} names {len(profiles)} processors, {option('threads', cores)} asks for {cores}; "
            "give one device for all, or one for each"
        )
    return [*profiles] * (cores // len(profiles))


def _times(plan: Plan, profiles: Sequence[DeviceProfile]) -> list[dict[str, list[float]]]:
    """Predicted seconds of the phases of all actors on each processor."""
    known: dict[str, dict[str, list[float]]] = {}
    for profile in profiles:
        check_costs(plan.network, plan.sharing.silent, profile)
        if profile.name not in known:
            known[profile.name] = {
                work.name: phase_seconds(work, profile, work.name in plan.sharing.silent)
                for work in plan.conversion.actors
            }
    return [known[profile.name] for profile in profiles]


class _Search:
    """Mappings of a pipeline that is filled, compared by their periods."""

    def __init__(self, pipelined: Pipelined, times: _Times, cores: int) -> None:
        self.pipelined, self.times, self.cores = pipelined, times, cores
        conversion = pipelined.single.conversion
        self.layers = [work.name for work in conversion.actors if work.kind == "layer"]
        self.spent = [[sum(of[name]) for name in self.layers] for of in times]

    def mapping(self) -> dict[str, int]:
        """The mapping of least period near the balanced ones."""
        cuts = self._balanced()
        best = self._period(cuts)
        for at in range(len(cuts)):
            for shift in () if is_stopped() else _SHIFTS:
                moved = (*cuts[:at], cuts[at] + shift, *cuts[at + 1 :])
                edges = (0, *moved, len(self.layers))
                if any(a >= b for a, b in pairwise(edges)) or self._busiest(edges) >= best:
                    continue
                period = self._period(moved)
                if period < best:
                    cuts, best = moved, period
        return self._mapped(cuts)

    def _busiest(self, edges: Sequence[int]) -> float:
        """Seconds of the processor that has most to do: no period is shorter."""
        return max(
            sum(of[start:stop])
            for of, (start, stop) in zip(self.spent, pairwise(edges), strict=True)
        )

    def slots(self, mapping: Mapping[str, int]) -> tuple[int, int]:
        """The fewest slots whose period is within a percent of the least."""
        found = []
        for ahead, copies in _SLOTS[-1:] if is_stopped() else _SLOTS:
            rings = self.pipelined.rings(mapping, ahead, copies)
            size = max((max(one.table) + one.row_bytes for one in rings.values()), default=0)
            waits = self.pipelined.waits(mapping, rings)
            found.append((size, self._steady(mapping, waits), (ahead, copies)))
        limit = _NEAR * min(period for _, period, _ in found)
        return min((size, slots) for size, period, slots in found if period <= limit)[1]

    def _period(self, cuts: tuple[int, ...]) -> float:
        """With slots for two images; the load of the busiest processor decides between equal ones."""
        mapping = self._mapped(cuts)
        rings = self.pipelined.rings(mapping, *_SLOTS[-1])
        return self._steady(mapping, self.pipelined.waits(mapping, rings))

    def _steady(self, mapping: Mapping[str, int], waits: Waits) -> float:
        order = self.pipelined.order
        return graph_period(
            build_processor_graph(order, mapping, waits, self.pipelined.frames, self.times)
        )

    def _mapped(self, cuts: Sequence[int]) -> dict[str, int]:
        """Layers between cuts; inputs go to the first processor that reads them, outputs to the one that writes them."""
        conversion, edges = self.pipelined.single.conversion, (0, *cuts, len(self.layers))
        found = {
            name: core
            for core, (start, stop) in enumerate(pairwise(edges))
            for name in self.layers[start:stop]
        }
        return {work.name: _core_of(work.name, conversion, found) for work in conversion.actors}

    def _balanced(self) -> tuple[int, ...]:
        """Cuts with which the busiest processor has the least to do: by dynamic programming over layers."""
        count = len(self.layers)
        if count < self.cores:
            raise InputError(
                f"{option('threads', self.cores)}: the network has {count} layers, a processor needs one at least; ask for fewer"
            )
        sums = [[0.0, *accumulate(one)] for one in self.spent]
        # least[n]: (seconds of the busiest of the processors so far, cuts) for the first n layers
        least: list[tuple[float, tuple[int, ...]]] = [(s, ()) for s in sums[0]]
        for core in range(1, self.cores):
            along = np.array(sums[core])
            before = np.array([one for one, _ in least])
            after = list(least)
            for n in range(core + 1, count + 1):
                worst = np.maximum(before[core:n], along[n] - along[core:n])
                at = core + int(np.argmin(worst))
                after[n] = float(worst[at - core]), (*least[at][1], at)
            least = after
        return least[count][1]


def _core_of(name: str, conversion: Conversion, layers: Mapping[str, int]) -> int:
    if name in layers:
        return layers[name]
    tensors = _tensors(conversion.actor[name])
    beside = [
        core
        for other, core in layers.items()
        if not tensors.isdisjoint(_tensors(conversion.actor[other]))
    ]
    return (max if conversion.actor[name].kind == "output" else min)(beside, default=0)


def _tensors(work: ActorWork) -> set[str]:
    """What an actor reads and writes."""
    return {one.tensor.name for one in work.reads} | {one.tensor.name for one in work.writes}


# Periods -----------------------------------------------------------------------------------------


def build_processor_graph(
    order: Sequence[tuple[str, int]],
    mapping: Mapping[str, int],
    waits: Waits,
    frames: int,
    times: _Times,
    steady: int = _STEADY,
) -> CsdfGraph:
    """The dataflow graph of a filled pipeline: an actor for each processor, with a phase for each firing of an image; a
    token of a channel for each firing that has ended. steady: an image before which the pipeline is filled.
    """
    lists = split_by_processor(order, mapping)
    each = [len(one) // frames for one in lists]
    actors, channels = [], []
    for core, all_of in enumerate(lists):
        mine = all_of[steady * each[core] : (steady + 1) * each[core]]
        if not mine:
            mine, each[core] = [-1], 1
        spent = [_of(times, core, order[at]) if at >= 0 else 0.0 for at in mine]
        actors.append(Actor(f"processor {core}", tuple(round(_NANOSECONDS * s) for s in spent)))
        for other in range(len(lists)):
            counts = [
                max((n for k, n in waits[at] if k == other), default=0) if at >= 0 else 0
                for at in mine
            ]
            last = max(counts) - steady * each[other]
            if not max(counts) or other == core:
                continue
            reached = [max(last - each[other], n - steady * each[other]) for n in counts]
            reached = [*accumulate(reached, max)]
            taken = [b - a for a, b in pairwise((last - each[other], *reached))]
            channels.append(
                Channel(
                    f"{other} to {core}",
                    f"processor {other}",
                    f"processor {core}",
                    (1,) * each[other],
                    tuple(taken),
                    each[other] - last,
                    0,
                )
            )
    return add_serial_loops(CsdfGraph("processors", tuple(actors), tuple(channels)))


def _of(times: _Times, core: int, firing: tuple[str, int]) -> float:
    """Seconds of a firing, of any image."""
    of_actor = times[core][firing[0]]
    return of_actor[firing[1] % len(of_actor)]


def graph_period(graph: CsdfGraph) -> float:
    """Seconds an iteration."""
    rate = float(throughput(graph).value) * _NANOSECONDS
    return 1 / rate if rate and np.isfinite(rate) else 0.0


def predict_mapping(plan: Plan, profiles: Sequence[DeviceProfile]) -> Mapped:
    """What is predicted of a plan with a mapping. Raises InputError as `_each`, and for operators without a cost."""
    order, mapping, frames = plan.order, plan.mapping, plan.conversion.frames
    times = _times(plan, _each(profiles, count_cores(mapping)))
    lists, waits = split_by_processor(order, mapping), plan.waits
    ends: list[list[float]] = [[] for _ in lists]
    sequential = 0.0
    for at, firing in enumerate(order):
        core = mapping[firing[0]]
        start = max([ends[k][n - 1] for k, n in waits[at]] + ends[core][-1:], default=0.0)
        ends[core].append(start + _of(times, core, firing))
        sequential += _of(times, 0, firing)
    loads = tuple(
        sum(_of(times, core, order[at]) for at in one) / frames for core, one in enumerate(lists)
    )
    filled = frames > _STEADY and all(len(one) % frames == 0 for one in lists)
    period = (
        graph_period(build_processor_graph(order, mapping, waits, frames, times))
        if filled
        else None
    )
    names = dict.fromkeys(one.name for one in profiles)
    return Mapped(
        mapping,
        loads,
        period,
        max((one[-1] for one in ends if one), default=0.0),
        sequential,
        frames,
        sum(map(bool, waits)),
        ", ".join(names),
    )
