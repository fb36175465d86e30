"""Which order of calls has the least cost of all? A search over all orders, for small networks.

The state of a request is the number of images that have passed each layer, as images are alike and pass in their
order. A call of a layer on b of the images that wait for it leads to the next state. A* finds the path of least cost to
the last state; the cost of the remaining images of each layer alone, in the whole memory, is its lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from math import comb, inf

from schedules.batches.chain import Chain
from schedules.batches.plans import BatchFiring

State = tuple[int, ...]
"""Images that have passed each layer, from the first layer on."""


def states(layers: int, images: int) -> int:
    """The largest number of states.

    >>> states(4, 5), states(20, 12)
    (126, 225792840)
    """
    return comb(layers + images, layers)


@dataclass(frozen=True, slots=True)
class FoundCalls:
    """The calls of least cost, and their total cost."""

    firings: tuple[BatchFiring, ...]
    cost: float


@dataclass(eq=False)
class ExactSearch:
    """Searches for the orders of least cost of a chain, and keeps the results for its branches.

    most_states: of one search. `given_up` is set if that is not enough, in searches of branches too; the absence of a
    result then proves nothing.
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
        """The order of least cost in which so many images pass all layers within a memory; None if there is none that
        costs less than `below`.
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
        """(layer, images, bytes that the call may take, cost) of every possible call."""
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
        """The cost of a call with its branches in `free` bytes, which include input and output."""
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
        """The least cost of 0, 1, ... images in each layer, with nothing else in memory."""
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
