"""What is a choice of batches? A list of calls: which layer, which images of the request.

The paper's lookup[i], with the order in which the batches of different layers take turns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["BatchFiring", "ChainPlan", "batches"]


@dataclass(frozen=True, slots=True)
class BatchFiring:
    """A call of a layer on the images first, first + 1, ... of the request. layer: its number in the chain.

    inside: what each of its branches does before, in order; numbers of layers are those of the branch,
    numbers of images those of the request.
    """

    layer: int
    first: int
    images: int
    inside: tuple[tuple[BatchFiring, ...], ...] = ()

    def moved(self, by: int) -> BatchFiring:
        """The same for images that stand `by` further behind."""
        inside = tuple(tuple(one.moved(by) for one in branch) for branch in self.inside)
        return replace(self, first=self.first + by, inside=inside)


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """Calls in their order, for sum(rounds) images. cost: of all of them, as who made the plan counts.

    rounds: images that come and go together: all inputs of a round are there from its first call on, all
    its results until its last call has ended; the next one begins then. The paper knows one round, the
    request. proven: no plan of the same rounds costs less.
    """

    rounds: tuple[int, ...]
    firings: tuple[BatchFiring, ...]
    cost: float
    proven: bool = False

    @property
    def images(self) -> int:
        """Of the request."""
        return sum(self.rounds)

    @property
    def cost_per_image(self) -> float:
        """What the paper minimises."""
        return self.cost / self.images


def batches(plan: ChainPlan, layer: int) -> tuple[int, ...]:
    """Images of each call of a layer, in order.

    >>> calls = BatchFiring(0, 0, 2), BatchFiring(1, 0, 1), BatchFiring(1, 1, 1)
    >>> batches(ChainPlan((2,), calls, 14), 1)
    (1, 1)
    """
    return tuple(one.images for one in plan.firings if one.layer == layer)
