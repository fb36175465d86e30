"""Can every actor finish an iteration, or is there a deadlock?

Neither time nor the order of firings affects the answer, so that every actor fires as often as its tokens allow
until none can fire (Lee and Messerschmitt,
"Static scheduling of synchronous data flow programs", 1987; with capacities: Stuijk et al. 2008).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import DeadlockError
from schedules.links import Link, components, execution_times, make_links, own_quotas
from schedules.one_periodic import one_periodic_time


@dataclass(frozen=True, slots=True)
class Wait:
    """An actor that cannot fire: the channel has `there` of the `needed` tokens, or free places."""

    actor: str
    phase: int
    channel: str
    there: int
    needed: int
    space: bool

    @property
    def lacking(self) -> int:
        return self.needed - self.there

    def __str__(self) -> str:
        what = _counted(self.lacking, "more free place" if self.space else "more token")
        return f"'{self.actor}' phase {self.phase + 1} waits for {what} in '{self.channel}' ({self.there} of {self.needed})"


@dataclass(frozen=True, slots=True)
class Deadlock:
    """A cycle of actors, each of which waits for the next one, and the number of firings before the deadlock."""

    cycle: tuple[Wait, ...]
    firings: int

    def __str__(self) -> str:
        shown = [str(wait) for wait in self.cycle[:_SHOWN]]
        if len(self.cycle) > _SHOWN:
            shown.append(f"{len(self.cycle) - _SHOWN} more actors wait")
        return f"deadlock after {_counted(self.firings, 'firing')}: {', '.join(shown)}"


_SHOWN = 6

_LONG = 1_000_000
"""Firings of an iteration from which on a schedule is searched for before they are executed."""


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def check_live(graph: CsdfGraph, capacities: Mapping[str, int] | None = None) -> None:
    """Raise DeadlockError with the cycle of waiting actors if the graph cannot complete an iteration."""
    deadlock = find_deadlock(graph, capacities)
    if deadlock is not None:
        raise DeadlockError(str(deadlock), where=f"graph '{graph.name}'")


def find_deadlock(graph: CsdfGraph, capacities: Mapping[str, int] | None = None) -> Deadlock | None:
    """The cycle in which a valid graph is stuck, or None if it is live. Channels without a capacity
    are unbounded.

    Raises InconsistentError, and GraphError for capacities that do not fit.
    """
    times, quota = execution_times(graph)
    links = make_links(graph, capacities)
    if _live_by_parts(quota, times, links):
        return None
    fired, stuck = _run(quota, links)
    waits = []
    for link in _cycle(stuck):
        actor, channel = graph.actors[link.target], graph.channels[link.channel]
        phase = fired[link.target] % actor.phases
        there = _held(link, fired)
        waits.append(
            Wait(actor.name, phase, channel.name, there, link.consumption[phase], link.space)
        )
    return Deadlock(tuple(waits), sum(fired))


def _live_by_parts(
    quota: Sequence[int], times: Sequence[Sequence[int]], links: Sequence[Link]
) -> bool:
    """Whether each component alone completes its own least iteration; one of the graph may contain millions of these.

    The graph is then live, as a component waits only for components that do not wait for it. A component with a
    1-periodic schedule is live. This is tested first where an iteration is long, with times of 1, as a cycle without
    tokens may take no time.
    """
    parts = components(len(quota), links)
    own = own_quotas(quota, times, parts)
    ones = [(1,) * len(row) for row in times]
    rest = [
        part
        for part in parts
        if sum(own[actor] for actor in part.actors) < _LONG
        or one_periodic_time(ones, own, part) is None
    ]
    return not _run(own, [link for part in rest for link in part.links])[1]


def _run(quota: Sequence[int], links: Sequence[Link]) -> tuple[list[int], dict[int, Link]]:
    """Firings of every actor, and for actors below their quota a link that lacks tokens."""
    meters = [_Meter(link) for link in links]
    limit = list(quota)
    blocked: dict[int, Link] = {}
    inputs: list[list[_Meter]] = [[] for _ in quota]
    readers: list[list[int]] = [[] for _ in quota]
    for meter in meters:
        link = meter.link
        if link.source == link.target:
            most = _own_limit(link, quota[link.target])
            if most < limit[link.target]:
                limit[link.target], blocked[link.target] = most, link
        else:
            inputs[link.target].append(meter)
            readers[link.source].append(link.target)
    fired = [0] * len(quota)
    waiting = list(range(len(quota)))
    queued = [True] * len(quota)
    lacking: dict[int, Link] = {}
    while waiting:
        actor = waiting.pop()
        queued[actor] = False
        most = limit[actor]
        cause = blocked.get(actor)
        for meter in inputs[actor]:
            allowed = meter.allowed(fired[meter.link.source])
            if allowed < most:
                most, cause = allowed, meter.link
        if cause is not None:
            lacking[actor] = cause
        if most > fired[actor]:
            fired[actor] = most
            for reader in readers[actor]:
                if not queued[reader]:
                    queued[reader] = True
                    waiting.append(reader)
    return fired, {
        actor: lacking[actor] for actor in range(len(quota)) if fired[actor] < quota[actor]
    }


@lru_cache(maxsize=4096)
def _sums(rates: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(accumulate(rates))


@lru_cache(maxsize=4096)
def _own_limit(link: Link, quota: int) -> int:
    """Firings until a self-loop lacks tokens, at most the quota; a firing returns tokens only when it ends."""
    held = link.tokens
    for number, (given, taken) in enumerate(zip(link.production, link.consumption, strict=True)):
        if held < taken:
            return min(number, quota)
        held += given - taken
    return quota


class _Meter:
    """The firings that a link allows its target after given firings of its source."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.produced = (0, *_sums(link.production))
        self.consumed = _sums(link.consumption)

    def allowed(self, source_fired: int) -> int:
        rounds, phase = divmod(source_fired, len(self.produced) - 1)
        tokens = self.link.tokens + rounds * self.produced[-1] + self.produced[phase]
        full, rest = divmod(tokens, self.consumed[-1])
        return full * len(self.consumed) + bisect_right(self.consumed, rest)


def _held(link: Link, fired: Sequence[int]) -> int:
    """Tokens of a link after given firings of every actor."""
    total = link.tokens
    for rates, actor, sign in (
        (link.production, link.source, 1),
        (link.consumption, link.target, -1),
    ):
        rounds, phase = divmod(fired[actor], len(rates))
        total += sign * (rounds * sum(rates) + sum(rates[:phase]))
    return total


def _cycle(stuck: Mapping[int, Link]) -> list[Link]:
    """A cycle of links through stuck actors."""
    import networkx as nx

    if not stuck:
        return []
    waits = nx.DiGraph()
    waits.add_edges_from((actor, link.source) for actor, link in stuck.items())
    return [stuck[actor] for actor, _ in nx.find_cycle(waits, next(iter(stuck)))]
