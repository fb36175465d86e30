"""What does a graph really do? Its self-timed execution, token by token, by the shortest program
that can be read and believed.

python -m tests.conformance.executed GRAPH.xml [CHANNEL=CAPACITY ...]

prints every firing until the state is one that was before. Shares nothing with the engine but the
graph: no links, no cycle ratio, no state hashing at iterations; the whole state after every instant
    is kept and compared.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from csdfgen.dataflow.graph import CsdfGraph, repetition_vector
from sdf3_bridge.sdf3read import read

__all__ = ["Execution", "execute", "time_of"]


@dataclass
class Machine:
    """Tokens, free places, and what is on its way to either, per channel; firings made, per actor."""

    graph: CsdfGraph
    capacities: Mapping[str, int]
    now: int = 0
    tokens: dict[str, int] = field(default_factory=dict)
    room: dict[str, int] = field(default_factory=dict)
    coming: dict[str, deque[tuple[int, int]]] = field(default_factory=dict)
    leaving: dict[str, deque[tuple[int, int]]] = field(default_factory=dict)
    fired: dict[str, int] = field(default_factory=dict)
    log: list[tuple[int, str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for channel in self.graph.channels:
            self.tokens[channel.name] = channel.initial_tokens
            if channel.name in self.capacities:
                self.room[channel.name] = self.capacities[channel.name] - channel.initial_tokens
            self.coming[channel.name] = deque()
            self.leaving[channel.name] = deque()
        self.fired = dict.fromkeys((actor.name for actor in self.graph.actors), 0)
        self.inputs = {
            actor.name: [c for c in self.graph.channels if c.target == actor.name]
            for actor in self.graph.actors
        }
        self.outputs = {
            actor.name: [c for c in self.graph.channels if c.source == actor.name]
            for actor in self.graph.actors
        }

    def arrive(self) -> None:
        """What ends now: tokens come, places become free."""
        for queues, store in ((self.coming, self.tokens), (self.leaving, self.room)):
            for name, queue in queues.items():
                while queue and queue[0][0] <= self.now:
                    count = queue.popleft()[1]
                    if name in store:
                        store[name] += count

    def can_fire(self, actor: str, phase: int) -> bool:
        """Whether all tokens are there, and room for all that will be produced."""
        return all(self.tokens[c.name] >= c.consumption[phase] for c in self.inputs[actor]) and all(
            self.room.get(c.name, c.production[phase]) >= c.production[phase]
            for c in self.outputs[actor]
        )

    def fire(self, actor: str, phase: int, time: int) -> None:
        """Take tokens and claim room now; produce and free at the end, not before an earlier
        firing's.
        """
        for channel in self.inputs[actor]:
            self.tokens[channel.name] -= channel.consumption[phase]
            _queue(self.leaving[channel.name], self.now + time, channel.consumption[phase])
        for channel in self.outputs[actor]:
            if channel.name in self.room:
                self.room[channel.name] -= channel.production[phase]
            _queue(self.coming[channel.name], self.now + time, channel.production[phase])
        self.fired[actor] += 1
        self.log.append((self.now, actor, phase))

    def instant(self, limit: Mapping[str, int] | None = None, most: int = 10**6) -> None:
        """Fire all that can fire now, again and again, as firings may take no time."""
        moved = True
        while moved:
            self.arrive()
            moved = False
            for actor in self.graph.actors:
                while limit is None or self.fired[actor.name] < limit[actor.name]:
                    phase = self.fired[actor.name] % actor.phases
                    if not self.can_fire(actor.name, phase):
                        break
                    assert len(self.log) < most, "fires without end"
                    self.fire(actor.name, phase, actor.execution_times[phase])
                    moved = True

    def next(self) -> bool:
        """Go to the next end of a firing; False if nothing is under way."""
        heads = [
            queue[0][0]
            for queues in (self.coming, self.leaving)
            for queue in queues.values()
            if queue
        ]
        if heads:
            self.now = min(heads)
        return bool(heads)

    def state(self) -> object:
        """All that decides what happens from now on."""
        phases = tuple(self.fired[actor.name] % actor.phases for actor in self.graph.actors)
        under_way = tuple(
            tuple((end - self.now, count) for end, count in queue)
            for queues in (self.coming, self.leaving)
            for queue in queues.values()
        )
        return tuple(self.tokens.values()), tuple(self.room.values()), phases, under_way


def _queue(queue: deque[tuple[int, int]], end: int, count: int) -> None:
    if count:
        queue.append((max(end, queue[-1][0]) if queue else end, count))


@dataclass(frozen=True)
class Execution:
    """From time `transient` on, `iterations` of the graph every `period` time units; log: firings
    as (time, actor, phase).
    """

    transient: int
    period: int
    iterations: Fraction
    log: tuple[tuple[int, str, int], ...]

    @property
    def throughput(self) -> Fraction:
        return self.iterations / self.period


def execute(graph: CsdfGraph, capacities: Mapping[str, int] | None = None) -> Execution | None:
    """Execute until the state comes again; None if it stops before (a deadlock)."""
    machine = Machine(graph, capacities or {})
    firings = repetition_vector(graph)
    first = graph.actors[0].name
    seen: dict[object, tuple[int, int]] = {}
    while True:
        machine.instant()
        state = machine.state()
        if state in seen:
            since, before = seen[state]
            made = Fraction(machine.fired[first] - before, firings[first])
            return Execution(since, machine.now - since, made, tuple(machine.log))
        seen[state] = machine.now, machine.fired[first]
        if not machine.next():
            return None


def time_of(graph: CsdfGraph, iterations: int) -> int:
    """Time that so many iterations take, from the first start to the last end."""
    limit = {name: count * iterations for name, count in repetition_vector(graph).items()}
    machine = Machine(graph, {})
    machine.instant(limit)
    while machine.next():
        machine.instant(limit)
    return machine.now


def main(arguments: list[str]) -> None:
    graph = read(arguments[0])
    pairs = (text.rpartition("=") for text in arguments[1:])
    found = execute(graph, {name: int(tokens) for name, _, tokens in pairs})
    if found is None:
        print("it stops: deadlock")
        return
    for time, actor, phase in found.log:
        print(f"{time:>8} {actor} phase {phase + 1}")
    print(
        f"from {found.transient} on {found.iterations} iteration(s) every {found.period}: throughput {found.throughput}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
