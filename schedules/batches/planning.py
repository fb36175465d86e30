"""Which plan suits a request within a memory and a time? The corrected dynamic program, applied to rounds of a request,
and an exact search where the network is small.

`plan_printed` is the choice of Algorithm 1 of the paper; docs/batches.md explains the differences.
"""

from __future__ import annotations

from math import inf

from schedules.batches.chain import Chain
from schedules.batches.exact import ExactSearch, states
from schedules.batches.plans import BatchFiring, ChainPlan
from schedules.batches.tables import Tables

PRINTED_UNIT = 2 * 2**20
"""Distance of the memory sizes for which the paper computes tables, in bytes."""

SEARCHED = 20_000
"""States up to which a search follows the tables; it takes a second at most."""


def plan_printed(
    chain: Chain,
    images: int,
    memory: int,
    *,
    unit: int = PRINTED_UNIT,
    cost_limit: float | None = None,
) -> ChainPlan | None:
    """The plan of Algorithm 1 for a request as a whole; None if it finds none.

    unit: distance of its memory sizes in bytes, 1 for all sizes. cost_limit: its latency bound, which limits the cost per
    image.
    """
    return _one_round(
        Tables(chain, images, memory, "printed", unit=unit, cost_limit=cost_limit), images
    )


def _one_round(tables: Tables, images: int) -> ChainPlan | None:
    cost = tables.cost(images)
    return None if cost == inf else ChainPlan((images,), tables.firings(images), cost)


def plan_exhaustively(
    chain: Chain, images: int, memory: int, *, most_states: int = 1_000_000
) -> ChainPlan | None:
    """The order of calls of least cost for a request as a whole; None if there is none, or if the search would need more
    than `most_states` (`ExactSearch.given_up`).
    """
    found = ExactSearch(chain, most_states).best(images, memory)
    return None if found is None else ChainPlan((images,), found.firings, found.cost, proven=True)


def plan_cheapest(
    chain: Chain,
    images: int,
    memory: int,
    *,
    rounds: bool = True,
    searched: int = SEARCHED,
    tables: Tables | None = None,
) -> ChainPlan | None:
    """The plan of least cost that is found for a request; None if there is none.

    rounds: whether the request may be cut into rounds; the inputs and results of other rounds are outside of this
    memory. searched: networks of up to so many states are searched for batches that are not nested, which proves the
    plan. tables: those of this chain for at least so many images and bytes, if there are any.
    """
    known = tables or Tables(chain, images, memory)
    if not rounds:
        return _round(chain, known, images, memory, searched)
    return _joined(_rounds(chain, known, images, memory, searched), images)


def _rounds(
    chain: Chain, tables: Tables, images: int, memory: int, searched: int
) -> list[ChainPlan | None]:
    """Plans of rounds of 1, 2, ... images."""
    return [_round(chain, tables, size, memory, searched) for size in range(1, images + 1)]


def _round(
    chain: Chain, tables: Tables, images: int, memory: int, searched: int
) -> ChainPlan | None:
    """The plan of one round of so many images."""
    cost = tables.cost(images, memory)
    proven = False
    if states(len(chain), images) <= searched:
        search = ExactSearch(chain, searched)
        found = search.best(images, memory, below=cost)
        proven = not search.given_up
        if found is not None:
            return ChainPlan((images,), found.firings, found.cost, proven)
    if cost == inf:
        return None
    return ChainPlan((images,), tables.firings(images, memory), cost, proven)


def _joined(wholes: list[ChainPlan | None], images: int) -> ChainPlan | None:
    """The rounds of least cost for a request, large ones first. wholes[r - 1]: a round of r images."""
    costs = [0.0, *(inf if one is None else one.cost for one in wholes)]
    total, last = [0.0], [0]
    for count in range(1, images + 1):
        by_last = [(total[count - size] + costs[size], size) for size in range(1, count + 1)]
        best = min(by_last)
        total.append(best[0])
        last.append(best[1])
    if total[images] == inf:
        return None
    sizes = []
    rest = images
    while rest:
        sizes.append(last[rest])
        rest -= last[rest]
    sizes.sort(reverse=True)
    firings: list[BatchFiring] = []
    first, proven = 0, True
    for size in sizes:
        one = wholes[size - 1]
        assert one is not None
        firings += [firing.moved(first) for firing in one.firings]
        first += size
        proven &= one.proven
    return ChainPlan(tuple(sizes), tuple(firings), total[images], proven)


def plan_within(
    chain: Chain, most_images: int, memory: int, time: float, *, rounds: bool = True
) -> ChainPlan | None:
    """The request of up to so many images with the least cost per image whose images are all complete within `time`;
    None if not even one image is.

    The paper compares the time per image with the bound instead: its batch of two that takes 10 each is within 12,
    although both images are complete after 20.
    """
    tables = Tables(chain, most_images, memory)
    wholes = _rounds(chain, tables, most_images, memory, SEARCHED)
    plans = [_joined(wholes, images) for images in range(1, most_images + 1)] if rounds else wholes
    in_time = [plan for plan in plans if plan is not None and plan.cost <= time]
    return min(in_time, key=lambda plan: plan.cost_per_image, default=None)
