"""What do simpler rules choose? One batch for all layers, or the largest batch of each layer in turn.

Paper 000, section IV: Fixed Batch Size (FBS) and Greedy-VBS.
"""

from __future__ import annotations

from collections.abc import Iterator

from schedules.batches.chain import Chain, ChainLayer
from schedules.batches.plans import BatchFiring, ChainPlan


def largest_uniform(chain: Chain, images: int, memory: int) -> int:
    """The largest batch, up to `images`, with which every layer fits alone; 0 if none does."""
    return max((b for b in range(1, images + 1) if _fits(chain, b, memory)), default=0)


def _fits(chain: Chain, images: int, memory: int) -> bool:
    """Whether every layer can be called on so many images. The input and output of a layer stay in memory during the
    calls of its branches.
    """
    for layer in chain.layers:
        if images > layer.most_images or layer.held(images) > memory:
            return False
        inner = memory - images * (layer.input_bytes + layer.output_bytes)
        if not all(_fits(branch, images, inner) for branch in layer.branches):
            return False
    return True


def plan_uniform(chain: Chain, images: int, batch: int) -> ChainPlan:
    """All layers with one batch: a request in rounds of so many images, the last round with the rest."""
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


def plan_fixed(chain: Chain, images: int, memory: int) -> ChainPlan | None:
    """FBS as printed: the largest uniform batch. Only the images of one batch count as held, as the figures of the paper
    require (11 waiting images and one conv1 of ResNet50 exceed its 15 MB).
    """
    batch = largest_uniform(chain, images, memory)
    return plan_uniform(chain, images, batch) if batch else None


def plan_best_uniform(chain: Chain, images: int, memory: int) -> ChainPlan | None:
    """FBS corrected: the uniform batch that fits and gives the least cost of the request, the smallest of several. A
    call on two images may cost more than two calls on one.
    """
    fitting = [b for b in range(1, images + 1) if _fits(chain, b, memory)]
    plans = (plan_uniform(chain, images, batch) for batch in fitting)
    return min(plans, key=lambda plan: plan.cost, default=None)


def plan_greedy(chain: Chain, images: int, memory: int) -> ChainPlan | None:
    """Greedy-VBS: each layer computes all images before the next layer, in the largest batches that fit besides the
    inputs and outputs of all images. None if a layer does not fit with one image.
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
        # in branches too, all images pass a layer before the next
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
    """The calls of one layer on all images, `batch` at a time, with `free` bytes besides the inputs and outputs of all;
    None if that is not enough.
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
