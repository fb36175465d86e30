"""In which order does nothing come before what it waits for?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush


def sort_topologically(waits: Mapping[int, Collection[int]]) -> list[int]:
    """Nodes behind those that they wait for, the least first of those that do not; without those that wait for a cycle.

    >>> sort_topologically({0: {2}, 1: (), 2: {1}, 3: {3}})
    [1, 2, 0]
    """
    sorter = TopologicalSorter(waits)
    with suppress(CycleError):
        sorter.prepare()
    ready, order = [*sorter.get_ready()], list[int]()
    heapify(ready)
    while ready:
        order.append(heappop(ready))
        sorter.done(order[-1])
        for node in sorter.get_ready():
            heappush(ready, node)
    return order
