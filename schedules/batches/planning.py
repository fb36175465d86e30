"""Which plan for a request within memory, and within a time? The corrected program, cut into rounds, and
searched on where the network is small.

What the paper's Algorithm 1 would choose is `printed`; what is better, and why, is in docs/batches.md.
"""

from __future__ import annotations

from math import inf

from schedules.batches.chain import Chain
from schedules.batches.exact import ExactSearch, states
from schedules.batches.plans import BatchFiring, ChainPlan
from schedules.batches.tables import Tables

__all__ = ["PRINTED_UNIT", "SEARCHED", "cheapest", "exhaustive", "printed", "within"]

PRINTED_UNIT = 2 * 2**20
"""Bytes between two memories for which the paper computes networks of images."""

SEARCHED = 20_000
"""States up to which a network is searched after the tables: a second at most."""


def printed(
    chain: Chain,
    images: int,
    memory: int,
    *,
    unit: int = PRINTED_UNIT,
    cost_limit: float | None = None,
) -> ChainPlan | None:
    """The plan of Algorithm 1 for a request as a whole; None where it finds none.

    unit: bytes between two memories that it knows; 1 for all. cost_limit: its latency bound, which holds
    the cost per image.
    """
    return _one_round(
        Tables(chain, images, memory, "printed", unit=unit, cost_limit=cost_limit), images
    )


def _one_round(tables: Tables, images: int) -> ChainPlan | None:
    cost = tables.cost(images)
    return None if cost == inf else ChainPlan((images,), tables.firings(images), cost)


def exhaustive(
    chain: Chain, images: int, memory: int, *, most_states: int = 1_000_000
) -> ChainPlan | None:
    """The cheapest order of calls for a request as a whole, of all that there are; None where there is none.

    Where more than `most_states` would have to be looked at, None may mean that, too: `ExactSearch.given_up`.
    """
    found = ExactSearch(chain, most_states).best(images, memory)
    return None if found is None else ChainPlan((images,), found.firings, found.cost, proven=True)


def cheapest(
    chain: Chain,
    images: int,
    memory: int,
    *,
    rounds: bool = True,
    searched: int = SEARCHED,
    tables: Tables | None = None,
) -> ChainPlan | None:
    """The cheapest plan that we find for a request; None where there is none.

    rounds: whether the request may be cut into rounds, whose inputs wait and whose results are kept
    outside of this memory. searched: networks of up to so many states are searched for batches that are
    not nested, and the plan is then proven. tables: those of this chain for at least so many images and
    bytes, if they are there.
    """
    known = tables or Tables(chain, images, memory)
    if not rounds:
        return _round(chain, known, images, memory, searched)
    return _joined(_rounds(chain, known, images, memory, searched), images)


def _rounds(
    chain: Chain, tables: Tables, images: int, memory: int, searched: int
) -> list[ChainPlan | None]:
    """Rounds of 1, 2, ... images."""
    return [_round(chain, tables, size, memory, searched) for size in range(1, images + 1)]


def _round(
    chain: Chain, tables: Tables, images: int, memory: int, searched: int
) -> ChainPlan | None:
    """All of so many images in one round."""
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
    """The cheapest rounds that make up a request; wholes[r - 1]: a round of r images. Large rounds first."""
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


def within(
    chain: Chain, most_images: int, memory: int, time: float, *, rounds: bool = True
) -> ChainPlan | None:
    """Of requests of up to so many images the one that costs least per image, all of which are done within
    `time`; None where not even one image is.

    The paper holds the time per image against the bound instead: its batch of two that takes 10 each is
    within 12, though both images come after 20.
    """
    tables = Tables(chain, most_images, memory)
    wholes = _rounds(chain, tables, most_images, memory, SEARCHED)
    plans = [_joined(wholes, images) for images in range(1, most_images + 1)] if rounds else wholes
    in_time = [plan for plan in plans if plan is not None and plan.cost <= time]
    return min(in_time, key=lambda plan: plan.cost_per_image, default=None)
