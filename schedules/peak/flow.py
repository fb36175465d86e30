"""The smallest minimum cut of a flow network: scipy's, until a compiled one takes its place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray

Solver = Callable[[Array, Array, Array], tuple[int, Array]]

SOURCE, SINK = 0, 1

_compiled: list[Solver] = []


def least_cut(capacity: Array, columns: Array, rows: Array) -> tuple[int, Array]:
    """(units of the maximum flow, whether each node is inside in the smallest minimum cut) of arcs in the layout of a
    csr_array, each with its reverse. All solvers give the same, as both are unique.
    """
    return (_compiled[-1] if _compiled else scipy_cut)(capacity, columns, rows)


def use_compiled(solver: Solver) -> None:
    """Use another function in the place of scipy's, which takes 26 MiB and a quarter of a second to import."""
    _compiled[:] = [solver]


def scipy_cut(capacity: Array, columns: Array, rows: Array) -> tuple[int, Array]:
    """See `least_cut`."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    count = len(rows) - 1
    arcs = csr_array((capacity, columns, rows), shape=(count, count))
    flow = maximum_flow(arcs, SOURCE, SINK)
    moved = flow.flow
    if len(moved.data) == len(capacity):
        left = np.flatnonzero(capacity > moved.data)
        rows = np.searchsorted(left, rows).astype(np.int32)
        ones = np.ones(len(left))
        passable = csr_array((ones, columns[left], rows), shape=(count, count))
    else:
        passable = csr_array(arcs - moved > 0)
    inside = np.zeros(count, bool)
    inside[breadth_first_order(passable, SOURCE, return_predecessors=False)] = True
    return int(flow.flow_value), inside
