"""What is a choice of batches? A list of calls of layers on images of the request.

This is lookup[i] of the paper, with the order of the batches of different layers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class BatchFiring:
    """A call of a layer on the images first, first + 1, ... of the request. layer: its number in the chain.

    inside: the calls of each of its branches before, in order, with numbers of layers in the branch and numbers of
    images in the request.
    """

    layer: int
    first: int
    images: int
    inside: tuple[tuple[BatchFiring, ...], ...] = ()

    def moved(self, by: int) -> BatchFiring:
        """The same call for images whose numbers are larger by `by`."""
        inside = tuple(tuple(one.moved(by) for one in branch) for branch in self.inside)
        return replace(self, first=self.first + by, inside=inside)


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """Calls in their order, for sum(rounds) images. cost: of all calls, by the tables of the planner.

    rounds: numbers of images that are in memory together: all inputs of a round from its first call on, all its results
    until its last call has ended; then the next round begins. The paper has one round, the request. proven: whether no
    plan of the same rounds costs less.
    """

    rounds: tuple[int, ...]
    firings: tuple[BatchFiring, ...]
    cost: float
    proven: bool = False

    @property
    def images(self) -> int:
        """Images of the request."""
        return sum(self.rounds)

    @property
    def cost_per_image(self) -> float:
        """The quantity that the paper minimises."""
        return self.cost / self.images


def batches(plan: ChainPlan, layer: int) -> tuple[int, ...]:
    """Images of each call of a layer, in order.

    >>> calls = BatchFiring(0, 0, 2), BatchFiring(1, 0, 1), BatchFiring(1, 1, 1)
    >>> batches(ChainPlan((2,), calls, 14), 1)
    (1, 1)
    """
    return tuple(one.images for one in plan.firings if one.layer == layer)
