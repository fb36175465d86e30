"""In which order should the phases fire? As late as possible, and as soon as the reader needs it;
or layer by layer; or between.

An actor is *enabled* if every input channel holds what its next phase consumes. It is *wanted* if
the next firing of one of its consumers lacks tokens on a channel from it, or if nobody deeper reads
it. Of the actors that are both, the deepest fires (`demand`); if there is none, the deepest enabled
one. Policy `eager` always fires the deepest enabled one, policy `layers` the shallowest: one layer
after another is complete, so that few buffers are in use at a time, which is best where most
tensors must be whole. Policy `bounded` fires the shallowest that finds room within the capacities
that `demand` needs: rows run ahead and are gone early, in buffers no larger. Capacities are what
the order itself needs, so that they cannot deadlock (docs/paper.md: largest-rate capacities can).
"""

from __future__ import annotations

from heapq import heappop, heappush

from csdfgen.dataflow.graph import CsdfGraph, repetition_vector
from csdfgen.dataflow.transform import with_space_channels
from csdfgen.errors import DeadlockError, GraphError
from schedules.order import topological_order
from schedules.schedule import MAX_FIRINGS, Firing, Schedule

__all__ = ["POLICIES", "bounded", "demand_driven", "eager", "firing_order", "layers"]

POLICIES: tuple[str, ...] = ("demand", "eager", "layers", "bounded")

_SHOWN_ACTORS = 4


def demand_driven(graph: CsdfGraph, iterations: int = 1, *, policy: str = "demand") -> Schedule:
    """A firing order of a valid graph and the capacities it needs.

    Raises InconsistentError, DeadlockError, and GraphError for an iteration too long to be listed.
    """
    run = _executed(graph, iterations, policy)
    names = [actor.name for actor in graph.actors]
    fired = [0] * len(names)
    firings = []
    for actor, phase in run.order:
        firings.append(Firing(names[actor], phase, fired[actor] // run.quota[actor]))
        fired[actor] += 1
    capacities = {
        channel.name: peak
        for channel, peak in zip(graph.channels, run.peak[: len(graph.channels)], strict=True)
    }
    return Schedule.of(graph, firings, capacities, iterations, policy)


def eager(graph: CsdfGraph, iterations: int = 1) -> Schedule:
    """`demand_driven` with policy "eager": the deepest enabled actor fires, wanted or not."""
    return demand_driven(graph, iterations, policy="eager")


def layers(graph: CsdfGraph, iterations: int = 1) -> Schedule:
    """`demand_driven` with policy "layers": the shallowest enabled actor fires, so each completes
    before the next.
    """
    return demand_driven(graph, iterations, policy="layers")


def bounded(graph: CsdfGraph, iterations: int = 1) -> Schedule:
    """`demand_driven` with policy "bounded": the shallowest enabled actor fires, in no more room
    than "demand" takes.
    """
    return demand_driven(graph, iterations, policy="bounded")


def firing_order(
    graph: CsdfGraph, policy: str = "demand", iterations: int = 1
) -> list[tuple[int, int]]:
    """The same order as (index of the actor in the graph, phase); raises what `demand_driven`
    raises.
    """
    return _executed(graph, iterations, policy).order


def _executed(graph: CsdfGraph, iterations: int, policy: str) -> _Execution:
    """The complete execution; the first of its channels are those of the graph."""
    if policy == "bounded":
        room = _executed(graph, iterations, "demand").peak
        capacities = {
            channel.name: peak for channel, peak in zip(graph.channels, room, strict=True)
        }
        # one order within these capacities ends, so all do: who finds tokens and room keeps them
        # until it fires
        graph, policy = with_space_channels(graph, capacities), "layers"
    run = _Execution(graph, iterations, policy)
    run.complete()
    return run


class _Execution:
    """The state of a graph while it fires: tokens, next phases, who is enabled, who is wanted.

    Actors are numbered as in the graph; a heap entry is minus the actor's place in topological
    order, so that the deepest comes first, or the place itself for policy `layers`. Heap entries
    may be out of date; they are dropped when they come up.
    """

    def __init__(self, graph: CsdfGraph, iterations: int, policy: str) -> None:
        if policy not in POLICIES:
            raise GraphError(f"policy '{policy}' is not one of {', '.join(POLICIES)}")
        firings = repetition_vector(graph)
        total = sum(firings.values()) * iterations
        if total > MAX_FIRINGS:
            raise GraphError(
                f"{iterations} iteration{'s' if iterations != 1 else ''} take {total} firings; at most {MAX_FIRINGS} are "
                "listed, use fewer phases",
                where=f"graph '{graph.name}'",
            )
        self.graph = graph
        self.policy = policy
        index = {actor.name: i for i, actor in enumerate(graph.actors)}
        self.by_place = topological_order(graph)
        self.place = [0] * len(index)
        for place, actor in enumerate(self.by_place):
            self.place[actor] = place
        sign = 1 if policy == "layers" else -1
        self.entry = [sign * place for place in self.place]
        self.phases = [actor.phases for actor in graph.actors]
        self.quota = [firings[actor.name] for actor in graph.actors]
        self.left = [count * iterations for count in self.quota]
        self.phase = [0] * len(index)
        self.source = [index[channel.source] for channel in graph.channels]
        self.target = [index[channel.target] for channel in graph.channels]
        self.tokens = [channel.initial_tokens for channel in graph.channels]
        self.peak = list(self.tokens)
        self.outputs: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in index]
        self.inputs: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in index]
        for number, channel in enumerate(graph.channels):
            self.outputs[self.source[number]].append((number, channel.production))
            self.inputs[self.target[number]].append((number, channel.consumption))
        self.order: list[tuple[int, int]] = []
        self._start()

    def _start(self) -> None:
        """Who lacks what before the first firing."""
        size = len(self.phases)
        self.lacking = [False] * len(self.source)
        self.missing = [0] * size  # input channels that lack tokens for the next phase
        self.wanted_by = [
            1
        ] * size  # output channels on which a reader's next phase lacks tokens; 1 more for a sink
        self.enabled_heap: list[int] = []
        self.wanted_heap: list[int] = []
        self.in_enabled = [False] * size
        self.in_wanted = [False] * size
        for source, target in zip(self.source, self.target, strict=True):
            if self.place[target] > self.place[source]:
                self.wanted_by[source] = 0
        for actor in range(size):
            self._look_at_inputs(actor)
        for actor in range(size):
            self._offer(actor)

    def complete(self) -> None:
        """Fire until the iterations are done. Raises DeadlockError."""
        demand = self.policy == "demand"
        for _ in range(sum(self.left)):
            actor = self._first_wanted() if demand else -1
            if actor < 0:
                actor = self._first_enabled()
            if actor < 0:
                raise self._deadlock()
            self._fire(actor)

    def _first_wanted(self) -> int:
        heap = self.wanted_heap
        while heap:
            actor = self.by_place[abs(heap[0])]
            if self.wanted_by[actor] and not self.missing[actor] and self.left[actor]:
                return actor
            heappop(heap)
            self.in_wanted[actor] = False
        return -1

    def _first_enabled(self) -> int:
        heap = self.enabled_heap
        while heap:
            actor = self.by_place[abs(heap[0])]
            if not self.missing[actor] and self.left[actor]:
                return actor
            heappop(heap)
            self.in_enabled[actor] = False
        return -1

    def _fire(self, actor: int) -> None:
        phase = self.phase[actor]
        self.order.append((actor, phase))
        tokens, peak = self.tokens, self.peak
        for channel, rates in self.outputs[actor]:
            held = (
                tokens[channel] + rates[phase]
            )  # the claim: inputs, a self-loop's too, are not yet freed
            tokens[channel] = held
            if held > peak[channel]:
                peak[channel] = held
        for channel, rates in self.inputs[actor]:
            tokens[channel] -= rates[phase]
        self.phase[actor] = (phase + 1) % self.phases[actor]
        self.left[actor] -= 1
        self._look_at_inputs(actor)
        self._look_at_readers(actor)
        self._offer(actor)

    def _look_at_inputs(self, actor: int) -> None:
        """What the actor's next phase lacks now."""
        phase, more = self.phase[actor], self.left[actor] > 0
        for channel, rates in self.inputs[actor]:
            lacks = more and self.tokens[channel] < rates[phase]
            if lacks == self.lacking[channel]:
                continue
            self.lacking[channel] = lacks
            change = 1 if lacks else -1
            self.missing[actor] += change
            source = self.source[channel]
            if source != actor:
                self.wanted_by[source] += change
                if lacks:
                    self._offer(source)

    def _look_at_readers(self, actor: int) -> None:
        """Readers that the actor's tokens have satisfied."""
        for channel, _ in self.outputs[actor]:
            reader = self.target[channel]
            if self.lacking[channel] and reader != actor:
                rates = self.graph.channels[channel].consumption
                if self.tokens[channel] >= rates[self.phase[reader]]:
                    self.lacking[channel] = False
                    self.missing[reader] -= 1
                    self.wanted_by[actor] -= 1
                    self._offer(reader)

    def _offer(self, actor: int) -> None:
        """Put an actor that can fire where it will be found."""
        if self.missing[actor] or not self.left[actor]:
            return
        if not self.in_enabled[actor]:
            self.in_enabled[actor] = True
            heappush(self.enabled_heap, self.entry[actor])
        if self.wanted_by[actor] and not self.in_wanted[actor]:
            self.in_wanted[actor] = True
            heappush(self.wanted_heap, self.entry[actor])

    def _deadlock(self) -> DeadlockError:
        """Who waits for what: actor, phase, channel, tokens there and tokens needed."""
        names = [actor.name for actor in self.graph.actors]
        waiting = [actor for actor, left in enumerate(self.left) if left]
        said = []
        for actor in waiting[:_SHOWN_ACTORS]:
            phase = self.phase[actor]
            lacks = [
                f"{lacking} more token{'' if lacking == 1 else 's'} on '{self.graph.channels[channel].name}' "
                f"({self.tokens[channel]} of {rates[phase]})"
                for channel, rates in self.inputs[actor]
                if self.lacking[channel] and (lacking := rates[phase] - self.tokens[channel])
            ]
            said.append(f"'{names[actor]}' phase {phase + 1} waits for {' and '.join(lacks)}")
        if len(waiting) > _SHOWN_ACTORS:
            said.append(f"{len(waiting) - _SHOWN_ACTORS} more actors wait")
        done, total = len(self.order), len(self.order) + sum(self.left)
        return DeadlockError(
            f"deadlock after {done} of {total} firings: {'; '.join(said)}",
            where=f"graph '{self.graph.name}'",
        )
