"""Is there any order of calls that costs less? A search over all of them, for small networks.

All that matters of what has been done is how many images each layer has passed: they are alike, and pass in
their order. A call of a layer on b of those that wait for it leads to the next state. The cheapest way to
the last state is found by A*: what the rest of each layer costs by itself, in all the memory, is a bound
of what is still to come.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from math import comb, inf

from schedules.batches.chain import Chain
from schedules.batches.plans import BatchFiring

__all__ = ["ExactSearch", "FoundCalls", "states"]

State = tuple[int, ...]
"""Images that each layer has passed, from the first on."""


def states(layers: int, images: int) -> int:
    """How many states there are at most.

    >>> states(4, 5), states(20, 12)
    (126, 225792840)
    """
    return comb(layers + images, layers)


@dataclass(frozen=True, slots=True)
class FoundCalls:
    """The cheapest calls, and what they cost together."""

    firings: tuple[BatchFiring, ...]
    cost: float


@dataclass(eq=False)
class ExactSearch:
    """The cheapest orders of a chain; what branches do in some memory is looked for once.

    most_states: of one search. Where that is not enough, branches' searches included, `given_up` is set:
    then nothing that was not found is proven.
    """

    chain: Chain
    most_states: int = 1_000_000
    given_up: bool = False
    _known: dict[tuple[int, int], FoundCalls | None] = field(default_factory=dict)

    @cached_property
    def _inner(self) -> list[list[ExactSearch]]:
        return [
            [ExactSearch(branch, self.most_states) for branch in layer.branches]
            for layer in self.chain.layers
        ]

    def best(self, images: int, memory: int, below: float = inf) -> FoundCalls | None:
        """The cheapest order of calls that brings so many images through in so many bytes, if any costs
        less than `below`.
        """
        key = images, memory
        if below == inf and key in self._known:
            return self._known[key]
        found = self._search(images, memory, below)
        if below == inf:
            self._known[key] = found
        return found

    def _search(self, images: int, memory: int, below: float) -> FoundCalls | None:
        rests = self._rests(images, memory)
        start, end = (0,) * len(self.chain), (images,) * len(self.chain)
        spent = {start: 0.0}
        came: dict[State, tuple[State, int, int, int]] = {}
        queue = [(sum(rest[images] for rest in rests), start)]
        closed: set[State] = set()
        while queue:
            estimate, state = heappop(queue)
            if state == end:
                return FoundCalls(self._read(came, state), spent[state])
            if state in closed or estimate >= below:
                continue
            closed.add(state)
            if len(closed) > self.most_states:
                self.given_up = True
                return None
            for number, size, free, cost in self._calls(state, images, memory):
                after = (*state[:number], state[number] + size, *state[number + 1 :])
                total = spent[state] + cost
                if total < spent.get(after, inf):
                    spent[after] = total
                    came[after] = state, number, size, free
                    rest = sum(r[images - done] for r, done in zip(rests, after, strict=True))
                    if total + rest < below:
                        heappush(queue, (total + rest, after))
        return None

    def _calls(self, state: State, images: int, memory: int) -> list[tuple[int, int, int, float]]:
        """(layer, images, bytes that the call may take, cost) of every call that is possible."""
        counts = (images, *state)
        waiting = [a - b for a, b in zip(counts, state, strict=False)]
        held = sum(
            count * size
            for count, size in zip((*waiting, state[-1]), self.chain.images, strict=True)
        )
        found = []
        for number, layer in enumerate(self.chain.layers):
            for size in range(1, min(waiting[number], layer.most_images) + 1):
                free = memory - held + size * layer.input_bytes
                cost = self._cost(number, size, free)
                if cost < inf:
                    found.append((number, size, free, cost))
        return found

    def _cost(self, number: int, size: int, free: int) -> float:
        """Of a call with its branches in so many bytes, input and output among them."""
        layer = self.chain.layers[number]
        if layer.held(size) > free:
            return inf
        total = layer.costs[size - 1]
        inner = free - size * (layer.input_bytes + layer.output_bytes)
        for branch in self._inner[number]:
            found = branch.best(size, inner)
            self.given_up |= branch.given_up
            if found is None:
                return inf
            total += found.cost
        return total

    def _rests(self, images: int, memory: int) -> list[list[float]]:
        """The least that 0, 1, ... images cost in each layer, if nothing else were in memory."""
        rests = []
        for number, layer in enumerate(self.chain.layers):
            most = min(images, layer.most_images)
            alone = [self._cost(number, size, memory) for size in range(1, most + 1)]
            rest = [0.0]
            for count in range(1, images + 1):
                sizes = range(1, min(count, most) + 1)
                rest.append(min(alone[size - 1] + rest[count - size] for size in sizes))
            rests.append(rest)
        return rests

    def _read(
        self, came: dict[State, tuple[State, int, int, int]], state: State
    ) -> tuple[BatchFiring, ...]:
        firings = []
        while state in came:
            state, number, size, free = came[state]
            layer, first = self.chain.layers[number], state[number]
            inner = free - size * (layer.input_bytes + layer.output_bytes)
            inside = []
            for branch in self._inner[number]:
                found = branch.best(size, inner)
                assert found is not None
                inside.append(tuple(one.moved(first) for one in found.firings))
            firings.append(BatchFiring(number, first, size, tuple(inside)))
        return tuple(reversed(firings))
