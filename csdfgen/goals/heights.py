"""Which slab heights are worth their memory? For a price of memory, each layer takes the best of 1, 2, 4, ... and all
rows.

A height costs time (launches, weights that are read again) and bytes (the rows that a phase reads and writes). At a
price of p seconds a byte, each layer on its own takes the height with the least time + p * bytes. The prices from high
to low give a ladder of heights from one row to whole layers; on each rung at least one layer is taller than on the rung
before. A search makes plans of a few rungs.

The default raises some layers above the heights of `auto` (`raise_heights`), which gives every layer about 64 output pixels a
phase, because large weights are read into the caches again for every slab. A layer that is taller and faster on a rung
than at `auto` takes the height of the rung; all others keep theirs. Of some rungs the one with the least bytes *
seconds^2 is taken, parameters included (`PlanOptions.count`). The other bytes are lower bounds of peaks, which take a
fraction of the time of a plan; plans are within a few percent of them.

If so many bytes are alive that rows have left the near caches when they are read again, a plan with few phases is also
compared (`plan_few_phases`): a window of three rows reads every row three times at one row a phase, and 1.5 times at four.
This effect does not follow from any single layer, so that whole plans are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from pathlib import Path
from types import MappingProxyType

from csdfgen.devices.catalogue import device
from csdfgen.devices.model import check_costs, counts_input, layer_time
from csdfgen.devices.profile import DeviceProfile
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.model.rows import differences
from csdfgen.phases.conversion import ActorWork, Conversion, Read
from csdfgen.phases.heights import (
    RowSpec,
    board_heights,
    layer_height,
    lowest_heights,
    slab_heights,
)
from csdfgen.planning.lifetimes import whole_layer_live
from csdfgen.planning.plan import Plan
from csdfgen.planning.prepared import Phased, Prepared
from csdfgen.program.steps import Backend
from csdfgen.stopping import raise_if_stopped

_PSEUDO_LAUNCH = 2e-6
"""Seconds counted for a phase without modelled work when heights are chosen: handing on rows of an input or of a view
is not free, even if a profile has no cost for it.
"""

_LEVELS = 12
"""Levels of time between the heights of `auto` and the fastest."""

_ROUNDED = 1e-9

_WHOLE, _AUTO = "whole", "auto"


@dataclass(frozen=True, slots=True)
class Choice:
    """A height of an actor. rows: as in a specification; seconds: predicted for a frame; weighed: seconds that heights
    are chosen by; bytes: of the rows that a phase reads and writes, at most.
    """

    rows: str
    seconds: float
    weighed: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Rung:
    """Heights for one price: index of every actor's choice, and seconds of a frame."""

    picks: tuple[int, ...]
    seconds: float


@dataclass(frozen=True, eq=False)
class Heights:
    """The heights that actors can have: choices by actor, tallest last. usual: the heights of `auto`. beside: seconds of
    a frame outside its layers.
    """

    names: tuple[str, ...]
    choices: tuple[tuple[Choice, ...], ...]
    usual: tuple[Choice, ...]
    beside: float

    @cached_property
    def ladder(self) -> tuple[Rung, ...]:
        """The rungs from the highest price of memory to the lowest; each has a layer that is taller than before."""
        found = sorted(
            (
                (price, actor, at)
                for actor, choices in enumerate(self.choices)
                for price, at in find_bends(choices)
            ),
            reverse=True,
        )
        picks = [_cheapest(choices) for choices in self.choices]
        steps = [self.rung(picks)]
        for number, (price, actor, at) in enumerate(found):
            picks[actor] = at
            if number + 1 == len(found) or found[number + 1][0] < price:
                steps.append(self.rung(picks))
        return tuple(steps)

    def rung(self, picks: Sequence[int]) -> Rung:
        """The rung of these choices, with its seconds."""
        chosen = (choices[pick] for choices, pick in zip(self.choices, picks, strict=True))
        return Rung(tuple(picks), self.beside + sum(choice.seconds for choice in chosen))

    def rows(self, rung: Rung) -> str:
        """The heights of a rung as text, see `written`."""
        return self.written(
            [choices[pick] for choices, pick in zip(self.choices, rung.picks, strict=True)]
        )

    def raised(self, rung: Rung) -> tuple[Choice, ...]:
        """The heights of `auto`, except for actors that are taller and faster on a rung."""
        return tuple(
            choices[pick]
            if choices[pick].bytes > usual.bytes and choices[pick].weighed < usual.weighed
            else usual
            for choices, pick, usual in zip(self.choices, rung.picks, self.usual, strict=True)
        )

    def levels(self) -> list[str]:
        """Heights of `auto` with more and more layers raised, as text: up to `_LEVELS`, each faster than the one before."""
        steps = [self.raised(step) for step in self.ladder]
        usual, *times = (sum(one.seconds for one in step) for step in (self.usual, *steps))
        spared, found, level = usual - min(times), [], 1
        for step, time in zip(steps, times, strict=True):
            if spared > 0 and _LEVELS * (usual - time) >= level * spared:
                level = 1 + int(_LEVELS * (usual - time) / spared + _ROUNDED)
                found.append(self.written(step, _AUTO))
        return found

    def written(self, chosen: Sequence[Choice], general: str = "") -> str:
        """Heights as `phases.heights` reads them: a general one, by default the most frequent, and the others by name."""
        each = [choice.rows for choice in chosen]
        general = general or max(sorted(set(each)), key=each.count)
        others = {
            name: int(rows) if rows.isdigit() else rows
            for name, rows in zip(self.names, each, strict=True)
            if rows != general
        }
        number = int(general) if general.isdigit() else general
        return str(RowSpec(number, MappingProxyType(others)))

    def taller(self, rung: Rung, free: Mapping[str, int]) -> Rung:
        """Every actor as tall as its free bytes, by name, allow."""
        picks = list(rung.picks)
        for actor, (name, choices) in enumerate(zip(self.names, self.choices, strict=True)):
            limit = choices[picks[actor]].bytes + free.get(name, 0)
            fitting = (
                at
                for at, choice in enumerate(choices)
                if choice.bytes <= limit and choice.weighed <= choices[picks[actor]].weighed
            )
            picks[actor] = min(
                fitting,
                key=lambda at: (choices[at].weighed, choices[at].bytes),
                default=picks[actor],
            )
        return self.rung(picks)


def choose_profile(options: PlanOptions, kernels: Backend) -> DeviceProfile:
    """The profile that times are predicted by: of the named device, of the tuning file, or of the backend. A file with times of
    whole layers alone says nothing of what slabs cost. Raises InputError.
    """
    if options.tuning and not options.device and not kernels.whole_variants:
        from csdfgen.tuning.file import load_tuned_profile

        return load_tuned_profile(options, kernels, device(kernels.profile))
    return load_devices(options, kernels)[0]


def load_devices(options: PlanOptions, kernels: Backend) -> list[DeviceProfile]:
    """The profile of each of several processors, or one of all. Raises InputError."""
    several = options.goal == "throughput" and not Path(options.device).exists()
    names = options.device.split(",") if several else [options.device]
    return [device(name or kernels.profile) for name in names]


class Predicted:
    """Predicted seconds of a prepared network's actors on a device; actors that plans have in common are predicted once."""

    def __init__(self, prepared: Prepared, profile: DeviceProfile) -> None:
        self.prepared, self.profile = prepared, profile
        self.silent = prepared.silent
        self._known: dict[tuple[ActorWork, bool], float] = {}
        self._held: dict[ActorWork, int] = {}
        self._phased: dict[str, Phased] = {}

    def for_options(self, options: PlanOptions) -> Predicted:
        """The same for plans of other options, at the same heights in the same times."""
        other = Predicted(replace(self.prepared, options=options), self.profile)
        other.__dict__["heights"] = self.heights
        other._known = self._known
        return other

    def at(self, rows: str) -> Phased:
        """The network cut into phases of so many rows, once for all heights that the default compares."""
        if rows not in self._phased:
            for other in self._phased.values():
                other.forget_declarations()
            self._phased[rows] = self.prepared.at(rows)
        return self._phased[rows]

    @cached_property
    def general(self) -> str:
        """The heights that the default begins with: of `auto`, or lower ones where constants are in flash. On such processors a
        phase costs some hundred instructions, and memory is dear.
        """
        options = self.prepared.options
        return (
            str(board_heights(self.prepared.network)) if options.count == "flash" else options.rows
        )

    @cached_property
    def heights(self) -> Heights:
        """Choices of every actor. Raises as `price_heights`."""
        return price_heights(self)

    @property
    def beside(self) -> float:
        """Seconds of a frame outside its layers."""
        return frame_overhead(self.profile)

    def of(self, work: ActorWork) -> float:
        """Seconds of all phases of an actor."""
        key = work.kin, work.name in self.silent
        if key not in self._known:
            self._known[key] = predict_seconds(work, self.silent, self.profile)
        return self._known[key]

    def held(self, work: ActorWork) -> int:
        """Bytes of the rows that a phase of an actor reads and writes, at most."""
        if work.kin not in self._held:
            self._held[work.kin] = _held(work)
        return self._held[work.kin]

    def frame(self, conversion: Conversion) -> float:
        """Seconds of a frame of the network as it is cut into phases, as by `devices.model.estimate`."""
        return self.beside + sum(map(self.of, conversion.actors))


def price_heights(predicted: Predicted) -> Heights:
    """Time and bytes of every actor of a network at every height. Raises InputError for an operator without a cost in
    the profile.
    """
    check_costs(predicted.prepared.network, predicted.silent, predicted.profile)
    found: dict[str, list[Choice]] = {}
    names: dict[str, str] = {}
    last: dict[str, ActorWork] = {}
    network = predicted.prepared.network
    specs = [lowest_heights(network, rows) for rows in slab_heights(network)]
    for spec in (*specs, RowSpec(_WHOLE)):
        raise_if_stopped()
        for work in _cut(predicted, str(spec)):
            names[work.name] = work.asked_by
            if last.get(work.name) is not work:  # the same phases as at the last height
                rows = str(spec.layers.get(work.asked_by, spec.general))
                _add(found.setdefault(work.name, []), _choice(work, rows, predicted))
            last[work.name] = work
    usual = {work.name: _choice(work, _AUTO, predicted) for work in _cut(predicted, _AUTO)}
    actors = tuple(found)
    return Heights(
        tuple(names[actor] for actor in actors),
        tuple(tuple(found[actor]) for actor in actors),
        tuple(usual[actor] for actor in actors),
        predicted.beside,
    )


def _cut(predicted: Predicted, rows: str) -> Iterator[ActorWork]:
    """The actors at these heights, without those of outputs."""
    conversion = predicted.prepared.at(rows).conversion
    return (work for work in conversion.actors if work.kind != "output")


def frame_overhead(profile: DeviceProfile) -> float:
    """Seconds of a frame outside its layers."""
    return 0.0 if profile.processor.frame is None else profile.processor.frame.value


def _add(choices: list[Choice], choice: Choice) -> None:
    """Append a height unless it takes what the last one takes."""
    if not choices or (choice.bytes, choice.weighed) != (choices[-1].bytes, choices[-1].weighed):
        choices.append(choice)


def _choice(work: ActorWork, rows: str, predicted: Predicted) -> Choice:
    seconds = predicted.of(work)
    weighed = seconds + (0.0 if seconds else _PSEUDO_LAUNCH * len(work.phases))
    return Choice(rows, seconds, weighed, predicted.held(work))


def _held(work: ActorWork) -> int:
    moved = [
        *(
            [len(rows) * size for rows in read.rows]
            for read in work.reads
            for size in [read.tensor.row_bytes]
        ),
        *(
            [rows * size for rows in differences(write.claimed)]
            for write in work.writes
            for size in [write.tensor.row_bytes]
        ),
    ]
    return max(map(sum, zip(*moved, strict=True)))


def predict_seconds(work: ActorWork, silent: frozenset[str], profile: DeviceProfile) -> float:
    """Predicted seconds of all phases of an actor. silent: layers that take no time."""
    if work.kind != "layer" and not counts_input(work, profile):
        return 0.0
    return layer_time(work, profile, work.name in silent).seconds


def _cheapest(choices: Sequence[Choice]) -> int:
    return min(range(len(choices)), key=lambda at: (choices[at].bytes, choices[at].weighed))


def find_bends(choices: Sequence[Choice]) -> list[tuple[float, int]]:
    """(price, index): the highest price of a byte at which each choice is the best of its layer.

    These are the corners of the lower convex hull of seconds over bytes, after the choice with the fewest bytes.
    """
    at = _cheapest(choices)
    found: list[tuple[float, int]] = []
    while True:
        here = choices[at]
        slopes = [
            ((here.weighed - choice.weighed) / (choice.bytes - here.bytes), -choice.bytes, index)
            for index, choice in enumerate(choices)
            if choice.bytes > here.bytes and choice.weighed < here.weighed
        ]
        if not slopes:
            return found
        price, _, at = max(slopes)
        found.append((price, at))


# Heights of the default ----------------------------------------------------------------------------

GROWTHS = (1.05, 1.2)
"""Multiples of the bytes of `auto`: the last levels within each are compared. Bytes jump where a map becomes whole, so
that the best level is just before.
"""

WHOLE = 0.9
"""Part of what whole layers take up to which layers are raised: plans are a few percent above their bounds."""

TIME = 2.0
"""Weight of a percent of time against a percent of memory."""

FAR = 8 * 2**20
"""Bytes alive above which rows that are read again come from outside the near caches."""

FAR_BYTE = 0.06e-9
"""Seconds to read a byte from there: about 17 GB/s."""

SLAB = 4
"""Least rows of every phase in a plan with few phases."""

GROWTH = 1.25
"""Such a plan may take so many times the bytes of the plan without."""

GAIN = 0.97
"""Few phases are worth a plan if they are predicted to take at most this part of the time."""


def raise_heights(predicted: Predicted) -> Phased:
    """The network cut into phases of the default's heights. Its options have heights of `auto`."""
    prepared = predicted.prepared
    usual = predicted.at(predicted.general)
    seconds = predicted.frame(usual.conversion)
    beside = weigh_beside(prepared.network, prepared.options)
    most = max(usual.rough_bound, int(WHOLE * whole_layer_live(prepared.network)))
    levels = [predicted.general, *predicted.heights.levels()]
    found = {
        0: (1.0, 1.0, usual)
    }  # level -> bytes and seconds as multiples of those of `auto`, and phases

    def grown(level: int) -> float:
        if level not in found:
            phased = predicted.at(levels[level])
            taken, time = phased.rough_bound, predicted.frame(phased.conversion)
            times = (taken + beside) / (usual.rough_bound + beside) if taken <= most else inf
            found[level] = times, time / seconds, phased
        return found[level][0]

    low = 0
    for growth in GROWTHS:  # bytes mostly grow along the ladder
        high = len(levels) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if grown(middle) <= growth else (low, middle - 1)
    within = [one for one in found.values() if one[0] <= GROWTHS[-1]]
    return min(within, key=lambda one: one[0] * one[1] ** TIME)[2]


@dataclass(frozen=True, slots=True)
class FewPhases:
    """The network cut with at least `SLAB` rows a phase in every map that has so many. time: of a frame, relative to the
    usual heights.
    """

    phased: Phased
    time: float

    def better(self, taller: Plan, usual: Plan) -> bool:
        """Whether bytes * seconds^2 decrease and bytes grow by no more than `GROWTH`."""
        grown = weigh_plan(taller) / weigh_plan(usual)
        return grown <= GROWTH and grown * self.time**TIME < 1


def weigh_beside(network: Network, options: PlanOptions) -> int:
    """Bytes that the default weighs with those of arena and outputs: constants are memory, too, where they are not in flash."""
    return network.parameter_bytes if options.weighs_parameters else 0


def weigh_plan(plan: Plan) -> int:
    """Bytes of a plan as the default weighs them."""
    counted = plan.options.count == "total"  # constants are
    return plan.total_bytes + (0 if counted else weigh_beside(plan.network, plan.options))


def plan_few_phases(plan: Plan, predicted: Predicted) -> FewPhases | None:
    """Few phases for a plan; None if rows that are read again are in near caches, or the gain is small."""
    if plan.figures["peak_live"] < FAR:
        return None
    spec = plan.conversion.rows
    heights = {layer.name: layer_height(spec, layer) for layer in plan.network.layers}
    for tensor in plan.network.inputs:
        heights[tensor.name] = spec.height(tensor.name, tensor, tensor.rows), tensor.rows
    low = {
        name: min(SLAB, total)
        for name, (rows, total) in heights.items()
        if isinstance(rows, int) and rows < min(SLAB, total)
    }
    taller = predicted.at(str(replace(spec, layers=MappingProxyType({**spec.layers, **low}))))
    usual, time = (_with_rereads(one, predicted) for one in (plan.conversion, taller.conversion))
    return FewPhases(taller, time / usual) if time <= GAIN * usual else None


def _with_rereads(conversion: Conversion, predicted: Predicted) -> float:
    """Predicted seconds of a frame, with those to read rows again from far away."""
    again = sum(
        (sum(map(len, read.rows)) - _distinct(read)) * read.tensor.row_bytes
        for work in conversion.actors
        if work.kind == "layer" and work.name not in predicted.silent
        for read in work.reads
    )
    return predicted.frame(conversion) + FAR_BYTE * again


def _distinct(read: Read) -> int:
    """Number of different rows that are read."""
    held = [rows for rows in read.rows if rows]
    if not held:
        return 0
    return max(rows.stop for rows in held) - min(rows.start for rows in held)
