"""How do processors of several kinds (native code, a device) share a network? Each computes parts of it, in an arena of its own.

Layers of a processor that depend on no other processor in between are a part: a network with a plan. A tensor that a part
computes and another one reads crosses: it has slots, for a frame each, in a pool of the host that both open as arrays of
theirs, and the input actor of the reader is the actor that copies its rows. Parts are executed in turns, runs of their
firings. A frame passes them in one step each after the other (the least latency), or a part works on a frame as many steps
later as there are changes of the processor before it (the highest throughput): processors then work on different frames.

Waits are those of `planning.waits`, for turns of other processors, counted from the start of a step: they are the same in
each. The graph that predicts the period has an actor for each processor, see `csdfgen.goals.throughput`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from csdfgen.errors import InputError, ScheduleError
from csdfgen.model.network import Network, Tensor
from csdfgen.model.rows import Rows
from csdfgen.planning.plan import Plan
from csdfgen.planning.waits import LINE, Use, Waits, check_uses, derive_waits
from csdfgen.rewriting.cut import divide

TURNS = 8
"""Turns of a part at most, if rows pass between processors while it is executed."""

Turn = tuple[int, int]
"""Number of a part, and of one of its turns."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Rows of a tensor that a firing takes from an array of an input, or puts into one of an output. tensor: name of the input or
    output.
    """

    firing: int
    tensor: str
    rows: Rows
    writes: bool


@dataclass(frozen=True, eq=False)
class Part:
    """Layers that a processor computes. lag: steps by which its frame is behind that of parts without one. starts: first
    firing of each turn, and the number of all firings.
    """

    processor: int
    lag: int
    plan: Plan
    starts: tuple[int, ...]

    @property
    def turns(self) -> int:
        """Number of turns of a frame."""
        return len(self.starts) - 1

    @cached_property
    def inputs(self) -> dict[str, Tensor]:
        """The inputs of its network by name."""
        return {one.name: one for one in self.plan.network.inputs}

    def moves(self, turn: int) -> list[Moved]:
        """What a turn reads and writes of arrays, in the order of its firings."""
        start, stop = self.starts[turn : turn + 2]
        return [one for one in self._moves if start <= one.firing < stop]

    @cached_property
    def _moves(self) -> list[Moved]:
        return list(list_moves(self.plan))


@dataclass(frozen=True, slots=True)
class Crossing:
    """A tensor between parts. tensor: as the part has it that computes it. offsets: of its slots, in the pool of all; frames
    take them in turn.
    """

    name: str
    tensor: Tensor
    source: int
    targets: tuple[int, ...]
    offsets: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class MappedPlan:
    """A network on several processors. pool: bytes of the slots of all crossings. waits: of each turn of a step."""

    network: Network
    processors: tuple[str, ...]
    parts: tuple[Part, ...]
    crossings: tuple[Crossing, ...]
    pool: int
    waits: Mapping[Turn, tuple[tuple[int, int], ...]]

    @property
    def lag(self) -> int:
        """Steps of a frame but for the first one."""
        return max(part.lag for part in self.parts)

    def parameter_bytes(self, processor: str) -> int:
        """Bytes of weights of a processor's layers."""
        own = [part for part in self.parts if self.processors[part.processor] == processor]
        return sum(part.plan.network.parameter_bytes for part in own)

    @property
    def copied_bytes(self) -> int:
        """Bytes that readers copy from slots, in a frame."""
        return sum(one.tensor.nbytes * len(one.targets) for one in self.crossings)

    def arenas(self) -> list[int]:
        """Bytes of the arena of each processor: its parts follow each other in it."""
        found = [0] * len(self.processors)
        for part in self.parts:
            found[part.processor] = max(found[part.processor], part.plan.planned_bytes)
        return found

    def turns(self, steps: int) -> list[tuple[int, int, int]]:
        """(part, turn, frame) of so many steps; frames below 0 do not exist, but count."""
        return [
            (number, turn, step - part.lag)
            for step in range(steps)
            for number, part in enumerate(self.parts)
            for turn in range(part.turns)
        ]

    def processors_of(self, turns: Sequence[tuple[int, int, int]]) -> list[int]:
        """The processor of each turn."""
        return [self.parts[part].processor for part, _, _ in turns]

    @cached_property
    def per_step(self) -> list[int]:
        """Turns of each processor in a step."""
        return np.bincount(self.processors_of(self.turns(1))).tolist()

    def spread_waits(self, turns: Sequence[tuple[int, int, int]]) -> Waits:
        """The waits of turns, for all turns since the first step."""
        return tuple(
            tuple(
                (other, count)
                for other, shift in self.waits[part, turn]
                if (count := shift + (frame + self.parts[part].lag) * self.per_step[other]) > 0
            )
            for part, turn, frame in turns
        )

    @property
    def steps_to_steady(self) -> int:
        """Steps behind which each one is like the one before."""
        return self.lag + 2 * max((len(one.offsets) for one in self.crossings), default=1) + 1


def list_moves(plan: Plan) -> Iterator[Moved]:
    """What the firings of a plan take from arrays, and put into them."""
    outputs: dict[str, list[str]] = {}
    for output in plan.network.outputs:
        if output.tensor is not None:
            outputs.setdefault(output.tensor.name, []).append(output.name)
    for at, (actor, phase) in enumerate(plan.order):
        work = plan.conversion.actor[actor]
        if work.kind == "input":
            source = work.writes[0].tensor if work.taken is None else work.taken.inputs[0]
            assert source is not None
            yield Moved(at, source.name, work.phases[phase].out, False)
        for write in work.writes:
            rows = Rows(write.complete[phase - 1] if phase else 0, write.complete[phase])
            for name in outputs.get(write.tensor.name, ()) if rows else ():
                yield Moved(at, name, rows, True)


# Making ------------------------------------------------------------------------------------------


def plan_mapped(
    network: Network,
    processors: Sequence[str],
    mapping: Mapping[str, int],
    plan: Callable[[Network, int], Plan],
    *,
    pipelined: bool,
    streamed: Sequence[bool],
) -> MappedPlan:
    """The plan of a network whose layers have these processors, by number, checked.

    plan: makes the plan of a part for a processor. pipelined: for the highest throughput, instead of the least latency.
    streamed: whether a processor takes rows from arrays, and puts rows into them, as they come; others copy arrays as wholes.
    The images of a batch are frames. Raises InputError for networks that cannot be divided so, and what `plan` raises.
    """
    network = replace(network, batch=1)
    _check_network(network, mapping)
    keys = _levels(network, mapping)
    order = sorted(set(keys.values()))
    groups = [[name for name in keys if keys[name] == key] for key in order]
    parts = []
    stages = divide(network, groups)
    inside = {one.name for stage in stages for layer in stage.layers for one in layer.outputs}
    for (level, processor), stage in zip(order, stages, strict=True):
        made = plan(stage, processor)
        most = 1 if pipelined or not streamed[processor] else TURNS
        lag = level if pipelined else 0
        parts.append(Part(processor, lag, made, _starts(made, inside, most)))
    crossings, pool = _crossings(parts, pipelined)
    names = tuple(processors)
    draft = MappedPlan(network, names, tuple(parts), crossings, pool, {})
    found = MappedPlan(network, names, draft.parts, crossings, pool, _steady_waits(draft))
    check_mapped(found)
    return found


def _check_network(network: Network, mapping: Mapping[str, int]) -> None:
    """Raises InputError for a network that is not divided among processors, or not so."""
    if not network.layers:
        raise InputError(f"'{network.name}' computes nothing; leave --map out")
    first: dict[str, str] = {}
    for name, branch in find_branches(network).items():
        if mapping[name] != mapping[first.setdefault(branch, name)]:
            raise InputError(
                f"one processor computes all of If '{branch}'; give '{name}' the device of '{first[branch]}'"
            )
    for output in network.outputs:
        if output.tensor is not None and output.tensor.name not in network.producer:
            raise InputError(f"output '{output.name}' is an input of the network; leave --map out")


def find_branches(network: Network) -> dict[str, str]:
    """Layer -> the outermost If whose branches it is in, or whose results it joins."""
    found = {}
    for layer in network.layers:
        branch = layer.guards[0].branch if layer.guards else layer.attributes.get("branch")
        if branch is not None:
            found[layer.name] = branch
    return found


def _levels(network: Network, mapping: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Layer -> (changes of the processor in front of it, its processor); layers of an If have the most of them."""
    found: dict[str, tuple[int, int]] = {}
    branches, least = find_branches(network), dict[str, int]()
    for _ in range(1 + len({*branches.values()})):
        for layer in network.layers:
            own, level = mapping[layer.name], least.get(branches.get(layer.name, ""), 0)
            for tensor in layer.inputs:
                before = network.producer.get(tensor.name) if tensor is not None else None
                if before is not None:
                    theirs, processor = found[before.name]
                    level = max(level, theirs + (processor != own))
            found[layer.name] = level, own
            if layer.name in branches:
                least[branches[layer.name]] = level
    return found


def _starts(plan: Plan, inside: set[str], most: int) -> tuple[int, ...]:
    """First firings of turns: in front of rows that are taken of other parts, and behind rows that are made for them."""
    count, outer = len(plan.order), {one.name for one in plan.network.inputs} & inside
    places = sorted(
        {one.firing + one.writes for one in list_moves(plan) if one.writes or one.tensor in outer}
        - {0, count}
    )
    picked = places
    if len(places) >= most:
        picked = [places[(k + 1) * len(places) // most - 1] for k in range(most - 1)]
    return (0, *sorted(set(picked)), count)


def _crossings(parts: Sequence[Part], pipelined: bool) -> tuple[tuple[Crossing, ...], int]:
    """What crosses, with a slot for each frame between its writer and its last reader, and one for the next frame."""
    found, pool = [], 0
    for number, part in enumerate(parts):
        made = {one.name: one.tensor for one in part.plan.network.outputs if one.tensor}
        for name, tensor in made.items():
            targets = [
                k
                for k, other in enumerate(parts)
                if any(one.name == name for one in other.plan.network.inputs)
            ]
            if targets:
                slots = max(parts[k].lag for k in targets) - part.lag + 1 + (not pipelined)
                size = -(-tensor.nbytes // LINE) * LINE
                offsets = tuple(pool + k * size for k in range(slots))
                found.append(Crossing(name, tensor, number, tuple(targets), offsets))
                pool += slots * size
    return tuple(found), pool


def _uses(plan: MappedPlan, turns: Sequence[tuple[int, int, int]]) -> Iterator[tuple[Use, Moved]]:
    """Cells of the pool that turns use, and for what."""
    crossing = {one.name: one for one in plan.crossings}
    for at, (number, turn, frame) in enumerate(turns):
        part = plan.parts[number]
        for one in part.moves(turn) if frame >= 0 else ():
            there = crossing.get(one.tensor)
            if there is not None:
                if not one.writes and part.inputs[one.tensor].row_axis != there.tensor.row_axis:
                    one = replace(one, rows=Rows(0, there.tensor.rows))
                slot, size = there.offsets[frame % len(there.offsets)], there.tensor.row_bytes
                low, high = slot + one.rows.start * size, slot + one.rows.stop * size
                yield (at, part.processor, low // LINE, -(-high // LINE), one.writes), one


def _steady_waits(plan: MappedPlan) -> dict[Turn, tuple[tuple[int, int], ...]]:
    """The waits of a step, found in one behind the first ones."""
    steps = plan.steps_to_steady
    turns = plan.turns(steps)
    waits = derive_waits(plan.processors_of(turns), [use for use, _ in _uses(plan, turns)])
    own = sum(plan.per_step)
    return {
        (part, turn): tuple((k, count - (steps - 1) * plan.per_step[k]) for k, count in waits[at])
        for at, (part, turn, _) in enumerate(turns)
        if at >= len(turns) - own
    }


# Checking ----------------------------------------------------------------------------------------


def check_mapped(plan: MappedPlan) -> None:
    """Check that parts which obey the waits alone read the rows of their frames. Raises ScheduleError at the first that may not.

    It executes steps in order with the numbers of frames as values of the cells of the pool, and then checks that waits keep
    the order of all uses of a cell. Plans of parts have checks of their own.
    """
    turns = plan.turns(plan.steps_to_steady + 1)
    uses = list(_uses(plan, turns))
    crossing = {one.name: number for number, one in enumerate(plan.crossings)}
    cells = np.full((-(-plan.pool // LINE), 2), -1)
    made: dict[tuple[str, int], int] = {}
    for (at, _, low, high, writes), one in uses:
        number, turn, frame = turns[at]
        where = f"part {number}, turn {turn}, frame {frame}: '{one.tensor}' rows {one.rows}"
        if high > len(cells):
            raise ScheduleError(f"{where} end at byte {high * LINE} of a pool of {plan.pool}")
        value = crossing[one.tensor], frame
        if writes:
            cells[low:high] = value
            made[one.tensor, frame] = one.rows.stop
        elif made.get((one.tensor, frame), 0) < one.rows.stop:
            raise ScheduleError(f"{where} are read before they are written")
        elif not np.all(cells[low:high] == value):
            raise ScheduleError(f"{where} are read when others are in their bytes")
    names = [f"part {part}, turn {turn}, frame {frame}" for part, turn, frame in turns]
    found = [use for use, _ in uses]
    check_uses(plan.processors_of(turns), found, plan.spread_waits(turns), names)
