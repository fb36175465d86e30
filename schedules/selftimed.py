"""When does every firing start if all start as soon as possible?

Self-timed execution: a firing starts when its tokens and its output space are available, takes the tokens and claims
the space; when it ends, it produces tokens and frees space, which are available for starts at the same instant. An
actor without a serial self-loop may overlap with itself; the tokens of a channel then arrive in the order of the
firings that produce them. After a transient the execution is periodic. The states at the iterations of one actor are
kept in a hash table, and the first state that occurs again shows the period (Ghamarian et al., "Throughput
analysis of synchronous data flow graphs", 2006).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush

from csdfgen.dataflow.graph import CsdfGraph
from schedules.links import Component, Link, execution_times, make_links
from schedules.precedence import serial_actors

MAX_FIRINGS = 2_000_000
"""Firings that are executed at most until the periodic part is found."""


@dataclass(frozen=True, slots=True)
class Execution:
    """The long-term behaviour of self-timed execution of a component.

    ratio: time per iteration. transient: time at which the periodic part begins; period: its length, in which
    `iterations` iterations complete. peaks: most tokens held or claimed per channel (by number).
    """

    ratio: Fraction
    transient: int
    period: int
    iterations: Fraction
    peaks: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Timing:
    """The first iterations of a graph: starts[actor][firing], the actors in the order of their starts, the time at
    which the last firing ends, and most tokens per channel.
    """

    starts: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    makespan: int
    peaks: tuple[int, ...]


_Output = tuple[int, int, int]
"""Number of the link, tokens, the actor that may start when they arrive."""


class _Machine:
    """Executes actors by events, at which tokens arrive and actors can start.

    Unlimited space is a link without tokens from which a claim may always take. Its tokens become negative, and their
    minimum is the most that the channel held.
    """

    def __init__(
        self,
        times: Sequence[Sequence[int]],
        links: Sequence[Link],
        limit: Sequence[int] | None = None,
    ) -> None:
        self.times = times
        self.phases = [len(row) for row in times]
        self.limit = limit
        limited = {link.channel for link in links if link.space}
        free = [_unlimited(link) for link in links if link.channel not in limited]
        self.links = [*links, *free]
        self.checked = len(links)
        self.tokens = [link.tokens for link in self.links]
        self.least = list(self.tokens)
        self.next = [0] * len(times)
        self.fired = [0] * len(times)
        self.now = 0
        self.last_end = 0
        self.order: list[int] = []
        self.events: list[tuple[int, int, tuple[_Output, ...]]] = []
        self.starts: list[list[int]] = [[] for _ in times]
        self._compile()

    def _compile(self) -> None:
        """Compute what every phase of every actor needs, takes, claims and gives."""
        needs: list[list[list[tuple[int, int]]]] = [[[] for _ in row] for row in self.times]
        takes: list[list[list[tuple[int, int]]]] = [[[] for _ in row] for row in self.times]
        claims: list[list[list[tuple[int, int]]]] = [[[] for _ in row] for row in self.times]
        gives: list[list[list[_Output]]] = [[[] for _ in row] for row in self.times]
        for number, link in enumerate(self.links):
            for phase, rate in enumerate(link.consumption):
                if rate:
                    (claims if link.space else takes)[link.target][phase].append((number, rate))
                    if number < self.checked:
                        needs[link.target][phase].append((number, rate))
            for phase, rate in enumerate(link.production):
                if rate:
                    gives[link.source][phase].append((number, rate, link.target))
        self.needs, self.takes, self.claims = _frozen(needs), _frozen(takes), _frozen(claims)
        self.gives = [[tuple(phase) for phase in rows] for rows in gives]
        serial = serial_actors(self.links)
        self.overtakes = [
            actor not in serial and len(set(row)) > 1 for actor, row in enumerate(self.times)
        ]
        self.arrives = [0] * len(self.links)
        self.ids = {
            entries: i for i, entries in enumerate({phase for rows in self.gives for phase in rows})
        }

    def start(self, waiting: list[int]) -> None:
        """Start the waiting actors that can start now."""
        tokens, least = self.tokens, self.least
        while waiting:
            actor = waiting.pop()
            phase = self.next[actor]
            while self.limit is None or self.fired[actor] < self.limit[actor]:
                if any(tokens[number] < rate for number, rate in self.needs[actor][phase]):
                    break
                for number, rate in self.takes[actor][phase]:
                    tokens[number] -= rate
                for number, rate in self.claims[actor][phase]:
                    left = tokens[number] = tokens[number] - rate
                    if left < least[number]:
                        least[number] = left
                self._begin(actor, phase)
                phase += 1
                if phase == self.phases[actor]:
                    phase = 0
            self.next[actor] = phase

    def _begin(self, actor: int, phase: int) -> None:
        end = self.now + self.times[actor][phase]
        self.last_end = max(self.last_end, end)
        self.fired[actor] += 1
        self.order.append(actor)
        self.starts[actor].append(self.now)
        entries = self.gives[actor][phase]
        if not self.overtakes[actor]:
            heappush(self.events, (end, self.ids[entries], entries))
            return
        for entry in entries:
            arrival = self.arrives[entry[0]] = max(self.arrives[entry[0]], end)
            one = (entry,)
            heappush(self.events, (arrival, self.ids.setdefault(one, len(self.ids)), one))

    def advance(self) -> list[int]:
        """Advance to the next instant, at which tokens arrive; the actors that may start."""
        events, tokens = self.events, self.tokens
        self.now = events[0][0]
        waiting: list[int] = []
        while events and events[0][0] == self.now:
            for number, rate, reader in heappop(events)[2]:
                tokens[number] += rate
                waiting.append(reader)
        return waiting

    def state(self) -> tuple[object, ...]:
        """All that the further execution depends on: tokens, next phases, firings under way."""
        under_way = sorted((time - self.now, number) for time, number, _ in self.events)
        return (*self.tokens, *self.next, *under_way)

    def peaks(self) -> dict[int, int]:
        """Channel (by number) -> most tokens held or claimed."""
        held = {link.channel: link.tokens for link in self.links if not link.space}
        pairs = zip(self.links, self.least, strict=True)
        return {
            link.channel: held[link.channel] + link.tokens - least
            for link, least in pairs
            if link.space
        }


def _unlimited(link: Link) -> Link:
    return Link(
        link.target, link.source, link.consumption, link.production, 0, link.channel, space=True
    )


def _frozen(rows: list[list[list[tuple[int, int]]]]) -> list[list[tuple[tuple[int, int], ...]]]:
    return [[tuple(phase) for phase in row] for row in rows]


def steady_state(
    times: Sequence[Sequence[int]],
    quota: Sequence[int],
    component: Component,
    max_firings: int = MAX_FIRINGS,
) -> Execution | None:
    """Execute a live component until a state occurs again; None if that takes too many firings, or if no time passes."""
    machine = _Machine(
        times,
        component.links,
        [0 if i not in set(component.actors) else max_firings for i in range(len(times))],
    )
    reference = min(component.actors, key=lambda actor: quota[actor])
    seen: dict[tuple[object, ...], tuple[int, int]] = {}
    done = -1
    waiting = list(component.actors)
    while len(machine.order) < max_firings:
        machine.start(waiting)
        if not machine.events or len(machine.order) >= max_firings:
            return None
        if (
            machine.events[0][0] > machine.now
            and machine.fired[reference] // quota[reference] > done
        ):
            done = machine.fired[reference] // quota[reference]
            here = machine.now, machine.fired[reference]
            before = seen.setdefault(machine.state(), here)
            if before is not here:
                period, firings = here[0] - before[0], here[1] - before[1]
                iterations = Fraction(firings, quota[reference])
                return Execution(
                    period / iterations, before[0], period, iterations, machine.peaks()
                )
        waiting = machine.advance()
    return None


def execute_iterations(
    graph: CsdfGraph, capacities: Mapping[str, int] | None = None, iterations: int = 1
) -> Timing:
    """Execute exactly the firings of a number of iterations of a live graph.

    The makespan of one iteration is its latency, from the first start to the last end. An actor in a deadlock has fewer
    starts. Raises InconsistentError, and GraphError for capacities that do not fit.
    """
    times, quota = execution_times(graph)
    limit = [count * iterations for count in quota]
    machine = _Machine(times, make_links(graph, capacities), limit)
    machine.start(list(range(len(limit))))
    while machine.events:
        machine.start(machine.advance())
    peaks = machine.peaks()
    held = tuple(
        peaks.get(number, channel.initial_tokens) for number, channel in enumerate(graph.channels)
    )
    return Timing(tuple(map(tuple, machine.starts)), tuple(machine.order), machine.last_end, held)
