"""Which heights are worth their memory? Of every layer the best of 1, 2, 4, ..., whole rows, for a
price of memory.

A slab of h rows takes time (launches, weights fetched again) and holds bytes (the rows that a phase
reads and writes). At a price of p seconds a byte, every layer takes the height with the least time +
p * bytes, each on its own. All prices from dear to cheap give a ladder of heights: from one row to
whole layers, at each step some layer is taller. Plans are made of a few steps of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from csdfgen.devices.model import check_costs, input_key, layer_time
from csdfgen.devices.profile import DeviceProfile
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.phases.conversion import ActorWork
from csdfgen.phases.heights import RowSpec, rungs
from csdfgen.planning.planner import Prepared, prepare

__all__ = ["Choice", "Heights", "Step", "heights_of", "seconds_of"]

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
class Step:
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

    def ladder(self) -> tuple[Step, ...]:
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
        steps = [self.step(picks)]
        for number, (price, actor, at) in enumerate(bends):
            picks[actor] = at
            if number + 1 == len(bends) or bends[number + 1][0] < price:
                steps.append(self.step(picks))
        return tuple(steps)

    def step(self, picks: Sequence[int]) -> Step:
        """These choices, with what they take."""
        chosen = (choices[pick] for choices, pick in zip(self.choices, picks, strict=True))
        return Step(tuple(picks), self.beside + sum(choice.seconds for choice in chosen))

    def rows(self, step: Step) -> str:
        """The heights of a step, see `written`."""
        return self.written(
            [choices[pick] for choices, pick in zip(self.choices, step.picks, strict=True)]
        )

    def raised(self, step: Step) -> tuple[Choice, ...]:
        """The heights of `auto`, but for actors that are taller in a step, and faster."""
        return tuple(
            choices[pick]
            if choices[pick].bytes > usual.bytes and choices[pick].weighed < usual.weighed
            else usual
            for choices, pick, usual in zip(self.choices, step.picks, self.usual, strict=True)
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

    def taller(self, step: Step, room: Mapping[str, int]) -> Step:
        """Every actor as tall as more bytes of its own, `room` by name, allow."""
        picks = list(step.picks)
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
        return self.step(picks)


def heights_of(network: Network, options: PlanOptions, profile: DeviceProfile) -> Heights:
    """What every actor of a network takes at every height. options: how it is cut otherwise.
    Raises InputError for an operator that the profile has no cost for.
    """
    found: dict[str, list[Choice]] = {}
    names: dict[str, str] = {}
    for rows in (*map(str, rungs(network)), _WHOLE):
        for name, work, choice in _choices(network, options, rows, profile):
            names[name] = work.asked_by
            _add(found.setdefault(name, []), choice)
    usual = {name: choice for name, _, choice in _choices(network, options, _AUTO, profile)}
    beside = 0.0 if profile.processor.frame is None else profile.processor.frame.value
    actors = tuple(found)
    return Heights(
        tuple(names[actor] for actor in actors),
        tuple(tuple(found[actor]) for actor in actors),
        tuple(usual[actor] for actor in actors),
        beside,
    )


def _choices(
    network: Network, options: PlanOptions, rows: str, profile: DeviceProfile
) -> Iterator[tuple[str, ActorWork, Choice]]:
    """What every actor takes at these heights."""
    prepared = prepare(network, replace(options, rows=rows))
    check_costs(prepared.conversion.network, prepared.sharing.silent, profile)
    for work in prepared.conversion.actors:
        if work.kind != "output":
            yield work.name, work, _choice(work, rows, prepared, profile)


def seconds_of(prepared: Prepared, profile: DeviceProfile) -> float:
    """Predicted seconds of a frame of a network as it is cut, as `devices.model.estimate` has it."""
    beside = 0.0 if profile.processor.frame is None else profile.processor.frame.value
    return beside + sum(_seconds(work, prepared, profile) for work in prepared.conversion.actors)


def _add(choices: list[Choice], choice: Choice) -> None:
    """The next taller height; one that is cut like the last one is the same."""
    if not choices or (choice.bytes, choice.weighed) != (choices[-1].bytes, choices[-1].weighed):
        choices.append(choice)


def _choice(work: ActorWork, rows: str, prepared: Prepared, profile: DeviceProfile) -> Choice:
    seconds = _seconds(work, prepared, profile)
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


def _seconds(work: ActorWork, prepared: Prepared, profile: DeviceProfile) -> float:
    if work.kind == "output" or (work.kind == "input" and input_key(work) not in profile.layers):
        return 0.0
    return layer_time(work, profile, work.name in prepared.sharing.silent).seconds


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
