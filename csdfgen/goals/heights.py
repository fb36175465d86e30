"""Which heights are worth their memory? Of every layer the best of 1, 2, 4, ..., whole rows, for a
price of memory.

A slab of h rows takes time (launches, weights fetched again) and holds bytes (the rows that a phase
reads and writes). At a price of p seconds a byte, every layer takes the height with the least time +
p * bytes, each on its own. All prices from dear to cheap give a ladder of heights: from one row to
whole layers, at each step some layer is taller. Plans are made of a few steps of it.

The default raises some layers above the heights of `auto` (`raised`), which gives every layer about 64 output
pixels a phase. Large weights come into the caches again for every slab. A layer that is taller on a rung of the
ladder than at `auto`, and faster, takes the height of the rung; all others keep theirs. Of some rungs the one with
the least bytes * seconds^2 is taken, where bytes are lower bounds of peaks: they take a fraction of a plan's time,
and plans reach them within a few percent.

Where so much is alive that rows have left the near caches when they are read again, few phases are compared too
(`few_phases`): a window of three rows reads every row three times at one row a phase, and 1.5 times at four. That
does not follow from any layer alone, so whole plans are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from csdfgen.devices.catalogue import device
from csdfgen.devices.model import check_costs, input_key, layer_time
from csdfgen.devices.profile import DeviceProfile
from csdfgen.model.options import PlanOptions
from csdfgen.phases.conversion import ActorWork, Conversion, Read
from csdfgen.phases.heights import RowSpec, layer_height, slab_heights
from csdfgen.planning.plan import Plan
from csdfgen.planning.prepared import Phased, Prepared
from csdfgen.program.steps import Backend
from csdfgen.tuning.use import tuned_profile_of

__all__ = [
    "Choice",
    "FewPhases",
    "Heights",
    "Predicted",
    "Rung",
    "few_phases",
    "heights_of",
    "predicting",
    "raised",
    "seconds_of",
]

_PSEUDO_LAUNCH = 2e-6
"""Seconds that a phase without modelled work is worth here: handing on rows of an input or of a view
is not free, whatever a profile says.
"""

_LEVELS = 12
"""Of time between the heights of `auto` and the fastest."""

_ROUNDED = 1e-9

_WHOLE, _AUTO = "whole", "auto"


@dataclass(frozen=True, slots=True)
class Choice:
    """A height of an actor: rows as in a specification, predicted seconds a frame, what these are
    for choosing, and bytes of the rows that a phase reads and writes at most.
    """

    rows: str
    seconds: float
    weighed: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Rung:
    """Heights for one price: the index of every actor's choice, and the seconds of a frame."""

    picks: tuple[int, ...]
    seconds: float


@dataclass(frozen=True, eq=False)
class Heights:
    """All that heights can be: choices by actor, tallest last. usual: those of `auto`. beside: seconds
    of a frame beside its layers.
    """

    names: tuple[str, ...]
    choices: tuple[tuple[Choice, ...], ...]
    usual: tuple[Choice, ...]
    beside: float

    def ladder(self) -> tuple[Rung, ...]:
        """Steps from the dearest memory to the cheapest; each has a layer taller than the last."""
        bends = sorted(
            (
                (price, actor, at)
                for actor, choices in enumerate(self.choices)
                for price, at in _bends(choices)
            ),
            reverse=True,
        )
        picks = [_cheapest(choices) for choices in self.choices]
        steps = [self.rung(picks)]
        for number, (price, actor, at) in enumerate(bends):
            picks[actor] = at
            if number + 1 == len(bends) or bends[number + 1][0] < price:
                steps.append(self.rung(picks))
        return tuple(steps)

    def rung(self, picks: Sequence[int]) -> Rung:
        """These choices, with what they take."""
        chosen = (choices[pick] for choices, pick in zip(self.choices, picks, strict=True))
        return Rung(tuple(picks), self.beside + sum(choice.seconds for choice in chosen))

    def rows(self, rung: Rung) -> str:
        """The heights of a rung, see `written`."""
        return self.written(
            [choices[pick] for choices, pick in zip(self.choices, rung.picks, strict=True)]
        )

    def raised(self, rung: Rung) -> tuple[Choice, ...]:
        """The heights of `auto`, but for actors that are taller on a rung, and faster."""
        return tuple(
            choices[pick]
            if choices[pick].bytes > usual.bytes and choices[pick].weighed < usual.weighed
            else usual
            for choices, pick, usual in zip(self.choices, rung.picks, self.usual, strict=True)
        )

    def levels(self) -> list[str]:
        """Heights of `auto` with ever more layers raised, as text: up to `_LEVELS` that take ever less
        time, from the dearest memory to the cheapest.
        """
        steps = [self.raised(step) for step in self.ladder()]
        usual, *times = (sum(one.seconds for one in step) for step in (self.usual, *steps))
        spared, found, level = usual - min(times), [], 1
        for step, time in zip(steps, times, strict=True):
            if spared > 0 and _LEVELS * (usual - time) >= level * spared:
                level = 1 + int(_LEVELS * (usual - time) / spared + _ROUNDED)
                found.append(self.written(step, _AUTO))
        return found

    def written(self, chosen: Sequence[Choice], general: str = "") -> str:
        """Heights as `phases.heights` reads them: the commonest in general, if nothing else is, and
        others by name.
        """
        each = [choice.rows for choice in chosen]
        general = general or max(sorted(set(each)), key=each.count)
        others = {
            name: int(rows) if rows.isdigit() else rows
            for name, rows in zip(self.names, each, strict=True)
            if rows != general
        }
        number = int(general) if general.isdigit() else general
        return str(RowSpec(number, MappingProxyType(others)))

    def taller(self, rung: Rung, room: Mapping[str, int]) -> Rung:
        """Every actor as tall as more bytes of its own, `room` by name, allow."""
        picks = list(rung.picks)
        for actor, (name, choices) in enumerate(zip(self.names, self.choices, strict=True)):
            limit = choices[picks[actor]].bytes + room.get(name, 0)
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


def predicting(options: PlanOptions, kernels: Backend) -> DeviceProfile:
    """The profile by which a plan's times are predicted: of the device that is named, of the tuning
    file, or of the backend. Raises InputError.
    """
    if options.tuning and not options.device:
        return tuned_profile_of(options, device(kernels.profile))
    return device(options.device or kernels.profile)


class Predicted:
    """Seconds of actors of a prepared network on a device: each is predicted once, in whatever plan it is."""

    def __init__(self, prepared: Prepared, profile: DeviceProfile) -> None:
        self.prepared, self.profile = prepared, profile
        self.silent = prepared.silent
        self._known: dict[ActorWork, float] = {}

    @property
    def beside(self) -> float:
        """Seconds of a frame beside its layers."""
        return beside(self.profile)

    def of(self, work: ActorWork) -> float:
        """Seconds of all phases of an actor."""
        if work not in self._known:
            self._known[work] = _seconds(work, self.silent, self.profile)
        return self._known[work]

    def frame(self, conversion: Conversion) -> float:
        """Seconds of a frame of the network as it is cut, as `devices.model.estimate` has it."""
        return self.beside + sum(map(self.of, conversion.actors))


def heights_of(predicted: Predicted) -> Heights:
    """What every actor of a network takes at every height, cut otherwise as its options say. Raises InputError for
    an operator that the profile has no cost for.
    """
    check_costs(predicted.prepared.network, predicted.silent, predicted.profile)
    found: dict[str, list[Choice]] = {}
    names: dict[str, str] = {}
    last: dict[str, ActorWork] = {}
    for rows in (*map(str, slab_heights(predicted.prepared.network)), _WHOLE):
        for work in _cut(predicted, rows):
            names[work.name] = work.asked_by
            if last.get(work.name) is not work:  # one that is cut like the last one is the same
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
    """The actors at these heights, those of outputs left out."""
    conversion = predicted.prepared.at(rows).conversion
    return (work for work in conversion.actors if work.kind != "output")


def beside(profile: DeviceProfile) -> float:
    """Seconds of a frame beside its layers."""
    return 0.0 if profile.processor.frame is None else profile.processor.frame.value


def seconds_of(conversion: Conversion, silent: frozenset[str], profile: DeviceProfile) -> float:
    """Predicted seconds of a frame of a network as it is cut, as `devices.model.estimate` has it. silent: layers
    that take no time.
    """
    each = (_seconds(work, silent, profile) for work in conversion.actors)
    return beside(profile) + sum(each)


def _add(choices: list[Choice], choice: Choice) -> None:
    """The next taller height; one that is cut like the last one is the same."""
    if not choices or (choice.bytes, choice.weighed) != (choices[-1].bytes, choices[-1].weighed):
        choices.append(choice)


def _choice(work: ActorWork, rows: str, predicted: Predicted) -> Choice:
    seconds = predicted.of(work)
    weighed = seconds + (0.0 if seconds else _PSEUDO_LAUNCH * len(work.phases))
    held = 0
    for phase in range(len(work.phases)):
        read = sum(len(one.rows[phase]) * one.tensor.row_bytes for one in work.reads)
        written = 0
        for one in work.writes:
            before = one.claimed[phase - 1] if phase else 0
            written += (one.claimed[phase] - before) * one.tensor.row_bytes
        held = max(held, read + written)
    return Choice(rows, seconds, weighed, held)


def _seconds(work: ActorWork, silent: frozenset[str], profile: DeviceProfile) -> float:
    if work.kind == "output" or (work.kind == "input" and input_key(work) not in profile.layers):
        return 0.0
    return layer_time(work, profile, work.name in silent).seconds


def _cheapest(choices: Sequence[Choice]) -> int:
    return min(range(len(choices)), key=lambda at: (choices[at].bytes, choices[at].weighed))


def _bends(choices: Sequence[Choice]) -> list[tuple[float, int]]:
    """(price, index): from which price of a byte on, falling, each choice is the best of its layer.

    The lower convex hull of seconds over bytes, from the choice with the fewest bytes on.
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


# What the default raises --------------------------------------------------------------------------

GROWTHS = (1.05, 1.2)
"""Bytes, in those of `auto`: the last steps within the one and within the other are compared. What
memory and time are worth jumps where a map becomes whole, and is best just before.
"""

TIME = 2.0
"""How much more a percent of time counts than one of memory."""

FAR = 8 * 2**20
"""Bytes alive above which what is read again comes from far away."""

FAR_BYTE = 0.06e-9
"""Seconds to read one from there: about 17 GB/s."""

SLAB = 4
"""Rows that every phase then has at least."""

GROWTH = 1.25
"""Bytes that they may take, in those of the plan without."""

GAIN = 0.97
"""Part of the time that few phases must leave to be worth a plan of their own."""


def raised(predicted: Predicted) -> Phased:
    """The network cut at those heights. Its options have heights of `auto`."""
    prepared = predicted.prepared
    usual = prepared.phased()
    seconds = predicted.frame(usual.conversion)
    levels = [prepared.options.rows, *heights_of(predicted).levels()]
    found = {0: (1.0, 1.0, usual)}  # level -> bytes and seconds, in those of `auto`

    def grown(level: int) -> float:
        if level not in found:
            phased = prepared.at(levels[level])
            taken, time = phased.rough_bound, predicted.frame(phased.conversion)
            found[level] = taken / usual.rough_bound, time / seconds, phased
        return found[level][0]

    low = 0
    for growth in GROWTHS:  # memory grows along the ladder, mostly
        high = len(levels) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if grown(middle) <= growth else (low, middle - 1)
    within = [one for one in found.values() if one[0] <= GROWTHS[-1]]
    return min(within, key=lambda one: one[0] * one[1] ** TIME)[2]


@dataclass(frozen=True, slots=True)
class FewPhases:
    """The network cut with `SLAB` rows a phase at least wherever there are so many; time: of a frame of it, as a
    part of what it was.
    """

    phased: Phased
    time: float

    def better(self, taller: Plan, usual: Plan) -> bool:
        """Whether bytes * seconds^2 fall, and bytes do not grow by more than is allowed."""
        grown = taller.total_bytes / usual.total_bytes
        return grown <= GROWTH and grown * self.time**TIME < 1


def few_phases(plan: Plan, predicted: Predicted) -> FewPhases | None:
    """What few phases would bring a plan; None where rows that are read again are near, or little is
    gained.
    """
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
    taller = predicted.prepared.at(
        str(replace(spec, layers=MappingProxyType({**spec.layers, **low})))
    )
    usual, time = (_with_rereads(one, predicted) for one in (plan.conversion, taller.conversion))
    return FewPhases(taller, time / usual) if time <= GAIN * usual else None


def _with_rereads(conversion: Conversion, predicted: Predicted) -> float:
    """Predicted seconds of a frame, with those for reading rows again."""
    again = sum(
        (sum(map(len, read.rows)) - _distinct(read)) * read.tensor.row_bytes
        for work in conversion.actors
        if work.kind == "layer" and work.name not in predicted.silent
        for read in work.reads
    )
    return predicted.frame(conversion) + FAR_BYTE * again


def _distinct(read: Read) -> int:
    """Rows that are read at all."""
    held = [rows for rows in read.rows if rows]
    if not held:
        return 0
    return max(rows.stop for rows in held) - min(rows.start for rows in held)
