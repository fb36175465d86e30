"""In which order do the phases fire? A greedy order by one of four policies.

An actor is *enabled* if every input channel holds the tokens that its next phase consumes. It is *demanded* if
the next firing of one of its consumers lacks tokens on a channel from it, or if no deeper actor reads it. Policy
`demand` fires the deepest actor that is both; if there is none, the deepest enabled one. Policy `eager` always fires
the deepest enabled actor, policy `layers` the shallowest: the layers complete one after another, so that few buffers
are in use at a time, which is best where most tensors must be whole. Policy `bounded` fires the shallowest actor that
has space within the capacities of `demand`: rows are computed ahead and freed early, in buffers that are no larger.
The capacities of a schedule are those that its order needs, so that they cannot deadlock (docs/paper.md: capacities
of the largest rate can).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from heapq import heappop, heappush

from csdfgen.dataflow.graph import CsdfGraph, repetition_vector
from csdfgen.dataflow.transform import add_space_channels
from csdfgen.errors import DeadlockError, GraphError
from schedules.order import topological_order
from schedules.schedule import MAX_FIRINGS, Firing, Schedule

POLICIES: tuple[str, ...] = ("demand", "eager", "layers", "bounded")

_SHOWN_ACTORS = 4


def demand_driven(graph: CsdfGraph, iterations: int = 1, *, policy: str = "demand") -> Schedule:
    """A firing order of a valid graph by a policy, and the capacities that it needs.

    Raises InconsistentError, DeadlockError, and GraphError for an iteration too long to be listed.
    """
    run = _executed(graph, iterations, policy)
    firings = expand_firings(graph, (actor for actor, _ in run.order), run.quota)
    capacities = {
        channel.name: peak for channel, peak in zip(graph.channels, run.peak, strict=False)
    }
    return Schedule.of(graph, firings, capacities, iterations, policy)


eager = partial(demand_driven, policy="eager")
layers = partial(demand_driven, policy="layers")
bounded = partial(demand_driven, policy="bounded")


def firing_order(
    graph: CsdfGraph, policy: str = "demand", iterations: int = 1
) -> list[tuple[int, int]]:
    """The order of `demand_driven` as (index of the actor in the graph, phase); raises the same errors."""
    return _executed(graph, iterations, policy).order


def firing_orders(
    graph: CsdfGraph, policies: Iterable[str] = POLICIES
) -> dict[str, list[tuple[int, int]]]:
    """`firing_order` of one iteration by each of these policies; what they have in common is computed once."""
    demand = _executed(graph, 1, "demand")
    return {policy: _executed(graph, 1, policy, demand).order for policy in policies}


def expand_firings(graph: CsdfGraph, actors: Iterable[int], quota: Sequence[int]) -> list[Firing]:
    """The firings of actors, given by number in the order in which they fire. quota: firings of each actor in an
    iteration.
    """
    count = [0] * len(quota)
    firings = []
    for number in actors:
        actor, done = graph.actors[number], count[number]
        firings.append(Firing(actor.name, done % actor.phases, done // quota[number]))
        count[number] += 1
    return firings


def _executed(
    graph: CsdfGraph, iterations: int, policy: str, demand: _Execution | None = None
) -> _Execution:
    """The complete execution; its first channels are those of the graph. demand: that of the same iterations by `demand`."""
    if demand is not None and policy == "demand":
        return demand
    if policy == "bounded":
        demand = demand or _executed(graph, iterations, "demand")
        peaks = demand.peak
        capacities = {
            channel.name: peak for channel, peak in zip(graph.channels, peaks, strict=True)
        }
        # one order within these capacities completes, so all do: an enabled actor remains enabled
        # until it fires
        graph, policy = add_space_channels(graph, capacities), "layers"
    run = _Execution(graph, iterations, policy, demand)
    run.complete()
    return run


class _Execution:
    """The state of a graph while it fires: tokens, next phases, enabled actors, demanded actors.

    Actors are numbered as in the graph. A heap entry is minus the place of the actor in topological
    order, so that the deepest comes first, or the place itself for policy `layers`. Entries that are
    out of date are dropped when they come to the top.
    """

    def __init__(
        self, graph: CsdfGraph, iterations: int, policy: str, like: _Execution | None = None
    ) -> None:
        """like: an execution of the graph, or of the graph without space channels."""
        if policy not in POLICIES:
            raise GraphError(f"policy '{policy}' is not one of {', '.join(POLICIES)}")
        self.quota: list[int] = (
            like.quota if like is not None else [*repetition_vector(graph).values()]
        )
        total = sum(self.quota) * iterations
        if total > MAX_FIRINGS:
            raise GraphError(
                f"{iterations} iteration{'s' if iterations != 1 else ''} take {total} firings; at most {MAX_FIRINGS} are "
                "listed, use fewer phases",
                where=f"graph '{graph.name}'",
            )
        self.graph = graph
        self.policy = policy
        index = {actor.name: i for i, actor in enumerate(graph.actors)}
        same = like is not None and like.graph is graph
        self.by_place: list[int] = (
            like.by_place if like is not None and same else topological_order(graph)
        )
        self.place = [0] * len(index)
        for place, actor in enumerate(self.by_place):
            self.place[actor] = place
        sign = 1 if policy == "layers" else -1
        self.entry = [sign * place for place in self.place]
        self.phases = [actor.phases for actor in graph.actors]
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
        """The tokens that actors lack before the first firing."""
        size = len(self.phases)
        self.lacking = [False] * len(self.source)
        self.missing = [0] * size  # input channels that lack tokens for the next phase
        # output channels on which the next phase of a reader lacks tokens; 1 more for a sink
        self.wanted_by = [1] * size
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
            )  # the claim, made before inputs (of self-loops too) are freed
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
        """Count the input channels that lack tokens for the next phase of an actor."""
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
        """Note the readers that no longer lack tokens of an actor."""
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
        """Put an actor that can fire into the heaps."""
        if self.missing[actor] or not self.left[actor]:
            return
        if not self.in_enabled[actor]:
            self.in_enabled[actor] = True
            heappush(self.enabled_heap, self.entry[actor])
        if self.wanted_by[actor] and not self.in_wanted[actor]:
            self.in_wanted[actor] = True
            heappush(self.wanted_heap, self.entry[actor])

    def _deadlock(self) -> DeadlockError:
        """The error of a deadlock: actors, phases, channels, tokens there and tokens needed."""
        names = [actor.name for actor in self.graph.actors]
        waiting = [actor for actor, left in enumerate(self.left) if left]
        reasons = []
        for actor in waiting[:_SHOWN_ACTORS]:
            phase = self.phase[actor]
            lacks = [
                f"{lacking} more token{'' if lacking == 1 else 's'} on '{self.graph.channels[channel].name}' "
                f"({self.tokens[channel]} of {rates[phase]})"
                for channel, rates in self.inputs[actor]
                if self.lacking[channel] and (lacking := rates[phase] - self.tokens[channel])
            ]
            reasons.append(f"'{names[actor]}' phase {phase + 1} waits for {' and '.join(lacks)}")
        if len(waiting) > _SHOWN_ACTORS:
            reasons.append(f"{len(waiting) - _SHOWN_ACTORS} more actors wait")
        done, total = len(self.order), len(self.order) + sum(self.left)
        return DeadlockError(
            f"deadlock after {done} of {total} firings: {'; '.join(reasons)}",
            where=f"graph '{self.graph.name}'",
        )
