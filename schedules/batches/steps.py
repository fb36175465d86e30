"""What does a part of the network cost within a memory? A decreasing step function, which is exact for every memory
size, where paper 000 computes at multiples of 2 MB.

Each step has the number of its alternative, so that the plan for any memory can be reconstructed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

Array = np.ndarray


@dataclass(frozen=True, eq=False, slots=True)
class Steps:
    """cost[k] from memory[k] bytes on, up to memory[k + 1]; impossible below memory[0].

    memory: ascending int64. cost: descending. choice: the number of the alternative of each step.

    >>> one = Steps.of(5, 8.0)
    >>> one.at(4), one.at(5)
    (inf, 8.0)
    """

    memory: Array
    cost: Array
    choice: Array

    @classmethod
    def of(cls, memory: int, cost: float) -> Steps:
        """A function of one step."""
        return cls(np.array([memory], np.int64), np.array([cost], float), np.zeros(1, np.int32))

    def __len__(self) -> int:
        return len(self.memory)

    def _step(self, memory: int) -> int:
        return int(np.searchsorted(self.memory, memory, "right")) - 1

    def at(self, memory: int) -> float:
        """The cost in so many bytes; infinity if they do not suffice."""
        step = self._step(memory)
        return inf if step < 0 else float(self.cost[step])

    def chosen(self, memory: int) -> int:
        """The best alternative in so many bytes, which must suffice."""
        return int(self.choice[self._step(memory)])

    def beside(self, size: int) -> Steps:
        """The function while so many further bytes are held."""
        return Steps(self.memory + size, self.cost, self.choice) if size else self

    def plus(self, other: Steps) -> Steps:
        """The cost of both parts, one after the other in the same memory."""
        if len(self) == 1 and len(other) == 1:
            at = np.maximum(self.memory, other.memory)
            return Steps(at, self.cost + other.cost, self.choice)
        both = np.concatenate([self.memory, other.memory])
        both.sort()
        both = both[np.searchsorted(both, max(self.memory[0], other.memory[0])) :]
        mine = np.searchsorted(self.memory, both, "right") - 1
        theirs = np.searchsorted(other.memory, both, "right") - 1
        return Steps(both, self.cost[mine] + other.cost[theirs], self.choice)


NOTHING = Steps(np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.int32))
"""The cost of no layers: 0 in any memory."""


def limit_cost(steps: Steps, most: float) -> Steps | None:
    """The steps of a cost of at most `most`; None if there are none."""
    keep = int(np.count_nonzero(steps.cost > most))
    if keep == len(steps):
        return None
    return Steps(steps.memory[keep:], steps.cost[keep:], steps.choice[keep:])


def merge_least(alternatives: Iterable[tuple[int, Sequence[Steps]]], limit: int) -> Steps | None:
    """The best of several alternatives in every memory up to `limit`; None if none is possible.

    alternatives: (number, parts that are computed one after another).
    """
    memory, cost, choice = [], [], []
    for number, parts in alternatives:
        total = parts[0]
        for part in parts[1:]:
            total = total.plus(part)
        memory.append(total.memory)
        cost.append(total.cost)
        choice.append(np.full(len(total.memory), number, np.int32))
    if not memory:
        return None
    at, of, by = np.concatenate(memory), np.concatenate(cost), np.concatenate(choice)
    order = np.lexsort((of, at))
    order = order[: np.searchsorted(at[order], limit, "right")]
    at, of, by = at[order], of[order], by[order]
    if not len(at):
        return None
    best = np.minimum.accumulate(of)
    keep = np.concatenate([[True], of[1:] < best[:-1]])
    return Steps(at[keep], of[keep], by[keep])
