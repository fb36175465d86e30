"""What do simpler rules choose? One batch for all layers, or each layer's largest with all images at hand.

Paper 000, section IV: Fixed Batch Size (FBS) and Greedy-VBS.
"""

from __future__ import annotations

from collections.abc import Iterator

from schedules.batches.chain import Chain, ChainLayer
from schedules.batches.plans import BatchFiring, ChainPlan

__all__ = ["best_uniform", "fixed", "greedy", "largest_uniform", "uniform"]


def largest_uniform(chain: Chain, images: int, memory: int) -> int:
    """The largest batch, up to `images`, with which every layer fits by itself; 0 where none does."""
    return max((b for b in range(1, images + 1) if _fits(chain, b, memory)), default=0)


def _fits(chain: Chain, images: int, memory: int) -> bool:
    """Whether every layer can be called on so many. Layers of branches have the input and output of the
    layer that they are part of beside them.
    """
    for layer in chain.layers:
        if images > layer.most_images or layer.held(images) > memory:
            return False
        inner = memory - images * (layer.input_bytes + layer.output_bytes)
        if not all(_fits(branch, images, inner) for branch in layer.branches):
            return False
    return True


def uniform(chain: Chain, images: int, batch: int) -> ChainPlan:
    """All layers with one batch: a request in rounds of so many images, the last one of what is left."""
    rounds = tuple(min(batch, images - first) for first in range(0, images, batch))
    firings: list[BatchFiring] = []
    for number, size in enumerate(rounds):
        firings += _whole(chain, number * batch, size)
    return ChainPlan(rounds, tuple(firings), sum(_cost(chain, size) for size in rounds))


def _whole(chain: Chain, first: int, images: int) -> Iterator[BatchFiring]:
    for number, layer in enumerate(chain.layers):
        inside = tuple(tuple(_whole(branch, first, images)) for branch in layer.branches)
        yield BatchFiring(number, first, images, inside)


def _cost(chain: Chain, images: int) -> float:
    return sum(
        layer.costs[images - 1] + sum(_cost(branch, images) for branch in layer.branches)
        for layer in chain.layers
    )


def fixed(chain: Chain, images: int, memory: int) -> ChainPlan | None:
    """FBS as printed: the largest uniform batch. Only the images of a batch count as held: the paper's own
    figures need that (11 waiting images and one conv1 of ResNet50 are above its 15 MB).
    """
    batch = largest_uniform(chain, images, memory)
    return uniform(chain, images, batch) if batch else None


def best_uniform(chain: Chain, images: int, memory: int) -> ChainPlan | None:
    """FBS corrected: of the uniform batches that fit the one whose request costs least; the smallest of
    several. A call on two images may cost more than two calls on one.
    """
    fitting = [b for b in range(1, images + 1) if _fits(chain, b, memory)]
    plans = (uniform(chain, images, batch) for batch in fitting)
    return min(plans, key=lambda plan: plan.cost, default=None)


def greedy(chain: Chain, images: int, memory: int) -> ChainPlan | None:
    """Greedy-VBS: one layer after another, each on all images before the next, in the largest batches that
    fit beside input and output of all of them. None where some layer has no room for a call on one.
    """
    found = _greedy(chain, 0, images, memory)
    if found is None:
        return None
    firings, cost = found
    return ChainPlan((images,), tuple(firings), cost)


def _greedy(
    chain: Chain, first: int, images: int, memory: int
) -> tuple[list[BatchFiring], float] | None:
    firings: list[BatchFiring] = []
    cost = 0.0
    for number, layer in enumerate(chain.layers):
        free = memory - images * (layer.input_bytes + layer.output_bytes)
        # branches are layers of the network too: all images pass each of theirs before the next
        least = images if layer.branches else 1
        for batch in range(min(images, layer.most_images), least - 1, -1):
            calls = _calls(layer, number, range(first, first + images), batch, free)
            if calls is not None:
                break
        else:
            return None
        firings += calls[0]
        cost += calls[1]
    return firings, cost


def _calls(
    layer: ChainLayer, number: int, images: range, batch: int, free: int
) -> tuple[list[BatchFiring], float] | None:
    """All images through one layer, so many at a time, with so many bytes beside input and output of all;
    None where that is not enough.
    """
    firings: list[BatchFiring] = []
    cost = 0.0
    for first in range(images.start, images.stop, batch):
        size = min(batch, images.stop - first)
        inner = [_greedy(branch, first, size, free) for branch in layer.branches]
        if layer.workspace[size - 1] > free or None in inner:
            return None
        done = [one for one in inner if one is not None]
        firings.append(BatchFiring(number, first, size, tuple(tuple(one[0]) for one in done)))
        cost += layer.costs[size - 1] + sum(one[1] for one in done)
    return firings, cost
