"""What is a cyclo-static dataflow graph, and does it have an iteration?

Actors fire their phases cyclically; a channel has the number of tokens that every phase of its
source produces and every phase of its target consumes (paper 002, section III-B; Bilsen et al.,
"Cyclo-static dataflow", 1996). A graph is consistent if some number of firings of every actor
leaves the tokens of all channels unchanged; the least such numbers are the repetition vector (docs/model.md).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, groupby, repeat
from math import lcm
from typing import Literal, get_args

from csdfgen.dataflow.origin import Origin
from csdfgen.errors import GraphError, InconsistentError
from csdfgen.model.describe import format_repr, html_table
from csdfgen.model.naming import make_unused_name

Kind = Literal["data", "overlap", "serial", "space"]
KINDS: tuple[Kind, ...] = get_args(Kind)

MAX_RATES = 10_000_000
"""Most rates and execution times of a graph that is read from a file, in total."""

MAX_VALUE = 2**63 - 1
"""Largest rate, token count or time that a file may hold."""

_MAX_BITS = 2**14
"""Most bits of the numbers in a repetition vector: more than can be fired, but few enough to compute with."""

_SHOWN_NUMBER = 10**30
_SHOWN_CYCLE = 12


@dataclass(frozen=True, slots=True)
class Actor:
    """An actor with one execution time per phase, in time units.

    function: a description of what the actor computes ("Conv 3x3"), which no analysis uses.
    """

    name: str
    execution_times: tuple[int, ...]
    function: str = ""

    @property
    def phases(self) -> int:
        return len(self.execution_times)


@dataclass(frozen=True, slots=True)
class Channel:
    """A queue of tokens between two actors.

    production: tokens that each phase of `source` produces; consumption: tokens that each phase of `target` consumes.
    kind: "data"; "overlap", a self-loop that keeps rows for the next phase (docs/model.md);
    "serial", a self-loop with one token that prevents an actor from overlapping with itself; "space", the
    free places of another channel.
    token_bytes: 0 for tokens without data.
    """

    name: str
    source: str
    target: str
    production: tuple[int, ...]
    consumption: tuple[int, ...]
    initial_tokens: int = 0
    token_bytes: int = 1
    kind: Kind = "data"

    @property
    def is_serial(self) -> bool:
        """Whether the channel alone prevents its actor from overlapping with itself."""
        ones = {1}
        loop = self.source == self.target and self.initial_tokens == 1
        return loop and set(self.production) == ones and set(self.consumption) == ones


@dataclass(frozen=True, slots=True)
class CsdfGraph:
    """A cyclo-static dataflow graph; all functions keep the order of actors and channels.

    origin: the network that it was made from, None for any other graph. No analysis uses it.
    """

    name: str
    actors: tuple[Actor, ...]
    channels: tuple[Channel, ...]
    origin: Origin | None = None

    def _facts(self) -> dict[str, object]:
        return {
            "actors": len(self.actors),
            "phases": sum(actor.phases for actor in self.actors),
            "channels": len(self.channels),
        }

    def __repr__(self) -> str:
        return format_repr("CsdfGraph", self.name, **self._facts())

    def _repr_html_(self) -> str:
        try:
            firings: object = sum(repetition_vector(self).values())
        except GraphError as error:
            firings = f"none: {error}"
        kinds = Counter(channel.kind for channel in self.channels)
        more = {
            **{f"{kind} channels": count for kind, count in kinds.items()},
            "firings an iteration": firings,
            "made from": self.origin and self.origin.model,
        }
        return html_table(f"CsdfGraph {self.name}", [*self._facts().items(), *more.items()])

    @property
    def phases(self) -> dict[str, int]:
        """Actor name -> number of phases."""
        return {actor.name: actor.phases for actor in self.actors}


def validate(graph: CsdfGraph) -> None:
    """Check that names are unique and known, that every list has one entry per phase, and that no number is negative.

    Raises GraphError for the first fault.
    """
    phases: dict[str, int] = {}
    for actor in graph.actors:
        where = f"actor '{actor.name}'"
        if not actor.name:
            raise GraphError("an actor has an empty name")
        if actor.name in phases:
            raise GraphError("its name is used twice", where=where)
        if not actor.execution_times:
            raise GraphError("has no phase; one execution time per phase is needed", where=where)
        _not_negative("execution time", actor.execution_times, where)
        phases[actor.name] = actor.phases
    names: set[str] = set()
    for channel in graph.channels:
        where = f"channel '{channel.name}'"
        if not channel.name:
            raise GraphError(
                f"the channel from '{channel.source}' to '{channel.target}' has an empty name"
            )
        if channel.name in names:
            raise GraphError("its name is used twice", where=where)
        names.add(channel.name)
        for role, actor_name, rates in _ends(channel):
            if actor_name not in phases:
                raise GraphError(
                    f"its {role} '{actor_name}' is not an actor of the graph", where=where
                )
            if len(rates) != phases[actor_name]:
                counts = f"{len(rates)} {role} rates, but actor '{actor_name}' has {phases[actor_name]} phases"
                raise GraphError(f"has {counts}", where=where)
            _not_negative(f"{role} rate", rates, where)
        _not_negative("number of initial tokens", (channel.initial_tokens,), where)
        _not_negative("number of bytes per token", (channel.token_bytes,), where)
        if channel.kind not in KINDS:
            raise GraphError(f"kind '{channel.kind}' is not one of {', '.join(KINDS)}", where=where)


def _ends(channel: Channel) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    return ("source", channel.source, channel.production), (
        "target",
        channel.target,
        channel.consumption,
    )


def _not_negative(what: str, values: Sequence[int], where: str) -> None:
    least = min(values)
    if least < 0:
        place = f" in phase {values.index(least) + 1} of {len(values)}" if len(values) > 1 else ""
        raise GraphError(f"{what} {least}{place} is negative", where=where)


def add_serial_loops(graph: CsdfGraph) -> CsdfGraph:
    """The graph with a one-token self-loop on every actor that has none, so that no actor overlaps with itself."""
    serial = {channel.source for channel in graph.channels if channel.is_serial}
    taken = {channel.name for channel in graph.channels}
    added = []
    for actor in graph.actors:
        if actor.name in serial:
            continue
        name = make_unused_name(f"serial_{actor.name}", taken)
        ones = (1,) * actor.phases
        added.append(
            Channel(
                name,
                actor.name,
                actor.name,
                ones,
                ones,
                initial_tokens=1,
                token_bytes=0,
                kind="serial",
            )
        )
    return replace(graph, channels=(*graph.channels, *added))


def repetition_vector(graph: CsdfGraph) -> dict[str, int]:
    """Actor name -> firings in a minimal iteration, of a valid graph.

    Every number is a multiple of the number of phases of the actor. The first actors of parts of the graph that no
    tokens connect make equally many cycles through their phases; SDF3 and Kiter count like this where these actors
    have one phase.
    Raises InconsistentError with the channel, the cycle that it closes and both products.

    >>> a, b = Actor("A", (1, 1)), Actor("B", (1,))
    >>> repetition_vector(CsdfGraph("g", (a, b), (Channel("ab", "A", "B", (3, 0), (2,)),)))
    {'A': 4, 'B': 3}
    """
    links: dict[str, list[Channel]] = {actor.name: [] for actor in graph.actors}
    totals: dict[str, tuple[int, int]] = {}
    for channel in graph.channels:
        produced, consumed = totals[channel.name] = (
            sum(channel.production),
            sum(channel.consumption),
        )
        if (produced == 0) != (consumed == 0):
            raise _out_of_balance(channel, totals[channel.name], (1, 1), ())
        if produced:
            links[channel.source].append(channel)
            links[channel.target].append(channel)
    ratio: dict[str, Fraction] = {}
    unit = 1
    for actor in graph.actors:
        if actor.name not in ratio:
            part = _rounds_for_one(actor.name, links, totals)
            for value in part.values():
                unit = lcm(unit, value.denominator)
                _check_length(unit)
            ratio.update(part)
    return {actor.name: int(ratio[actor.name] * unit) * actor.phases for actor in graph.actors}


def _rounds_for_one(
    root: str, links: Mapping[str, Sequence[Channel]], totals: Mapping[str, tuple[int, int]]
) -> dict[str, Fraction]:
    """Rounds through all phases, for one by `root`, that balance the channels reached from it."""
    ratio = {root: Fraction(1)}
    parent: dict[str, str] = {}
    waiting = [root]
    for name in waiting:  # grows while it is walked: breadth first
        for channel in links[name]:
            produced, consumed = totals[channel.name]
            forward = channel.source == name
            other = channel.target if forward else channel.source
            wanted = ratio[name] * (
                Fraction(produced, consumed) if forward else Fraction(consumed, produced)
            )
            if other not in ratio:
                _check_length(max(wanted.numerator, wanted.denominator))
                ratio[other], parent[other] = wanted, name
                waiting.append(other)
            elif ratio[other] != wanted:
                ends = ratio[channel.source], ratio[channel.target]
                unit = lcm(ends[0].denominator, ends[1].denominator)
                cycle = _tree_path(parent, channel.source, channel.target)
                raise _out_of_balance(
                    channel, (produced, consumed), (int(ends[0] * unit), int(ends[1] * unit)), cycle
                )
    return ratio


def _check_length(value: int) -> None:
    """Raise GraphError for rates that would make the arithmetic too long."""
    if value.bit_length() > _MAX_BITS:
        raise GraphError(
            f"repetition vector with numbers of {value.bit_length()} bits; at most {_MAX_BITS} are computed"
        )


def _tree_path(parent: Mapping[str, str], start: str, stop: str) -> tuple[str, ...]:
    """The actors from `start` to `stop` along the tree that `parent` spans."""
    import networkx as nx

    tree = nx.Graph()
    tree.add_node(start)
    tree.add_edges_from(parent.items())
    return tuple(nx.shortest_path(tree, start, stop))


def _out_of_balance(
    channel: Channel, totals: tuple[int, int], rounds: tuple[int, int], cycle: Sequence[str]
) -> InconsistentError:
    shown = (
        [*cycle[: _SHOWN_CYCLE // 2], "...", *cycle[-_SHOWN_CYCLE // 2 :]]
        if len(cycle) > _SHOWN_CYCLE
        else list(cycle)
    )
    around = f" on the cycle {' - '.join([*shown, cycle[0]])}" if cycle else ""
    sides = [
        f"'{actor}' {verb} {_number(total)} * {_number(times)} = {_number(total * times)}"
        for actor, verb, total, times in zip(
            (channel.source, channel.target), ("produces", "consumes"), totals, rounds, strict=True
        )
    ]
    return InconsistentError(
        f"out of balance{around}: {sides[0]} tokens, {sides[1]}", where=f"channel '{channel.name}'"
    )


def _number(value: int) -> str:
    return str(value) if value < _SHOWN_NUMBER else f"2^{value.bit_length()} (about)"


def format_runs(values: Iterable[int], *, ones: bool = True) -> str:
    """A list of numbers by runs, as the paper writes rate sequences; without `ones` a single value has no count.

    >>> format_runs([384, 192, 192, 256]), format_runs([384, 192, 192, 256], ones=False)
    ('1*384,2*192,1*256', '384,2*192,256')
    """
    runs = ((len(list(group)), value) for value, group in groupby(values))
    return ",".join(
        f"{count}*{value}" if ones or count > 1 else str(value) for count, value in runs
    )


_DIGITS = re.compile(r"[0-9]+")


def parse_short_form(text: str, limit: int = MAX_RATES, what: str = "rate") -> tuple[int, ...]:
    """The numbers of a list "384,2*192,256" of at most `limit` entries, which are counted before they are expanded.

    Raises GraphError for anything but decimal numbers, negative or too large numbers, a leading zero (which SDF3 reads
    as octal), and too many entries.

    >>> parse_short_form("1*384,2*192,256")
    (384, 192, 192, 256)
    """
    total = text.count(",") + 1
    if total > limit:
        raise GraphError(f"{what} list of {total} entries or more; at most {limit} are read")
    runs: list[tuple[int, int]] = []
    known: dict[str, tuple[int, int]] = {}
    total = 0
    for item in text.split(","):
        run = known.get(item)
        if run is None:
            run = known[item] = _run(item, what)
        total += run[0]
        if total > limit:
            raise GraphError(f"{what} list of {total} entries or more; at most {limit} are read")
        runs.append(run)
    return tuple(chain.from_iterable(repeat(entry, count) for count, entry in runs))


def _run(item: str, what: str) -> tuple[int, int]:
    """(count, value) of an item "3*7" or "7"."""
    times, star, value = item.rpartition("*")
    count = _whole(times, f"the repeat of {what}") if star else 1
    if not count:
        raise GraphError(f"{what} list repeats an entry 0 times")
    return count, _whole(value, what)


def _whole(text: str, what: str) -> int:
    """A number of a list, decimal and without sign."""
    digits = text.strip()
    if not digits:
        raise GraphError(f"{what} is empty, or has an empty item")
    shown = f"{what} '{digits[:40]}{'...' if len(digits) > 40 else ''}'"
    if not _DIGITS.fullmatch(digits):
        reason = (
            "is negative"
            if _DIGITS.fullmatch(digits[1:]) and digits[0] == "-"
            else "is not a whole decimal number"
        )
        raise GraphError(f"{shown} {reason}")
    if digits[0] == "0" and len(digits) > 1:
        raise GraphError(f"{shown} has a leading zero, which SDF3 reads as octal; write it without")
    if len(digits) > 19 or int(digits) > MAX_VALUE:
        raise GraphError(f"{shown} is larger than {MAX_VALUE}")
    return int(digits)
