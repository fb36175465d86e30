"""In which order do the phases of a network keep least alive? Its firings as a problem of `schedules.peak`.

Rows of buffers become items, who writes and who releases them claimers and releasers; the workspace
of a firing is its own. What an order keeps alive is then what `planning.lifetimes` says, for every
order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from csdfgen.phases.conversion import Conversion
from csdfgen.planning.buffers import Access, Buffer
from schedules.demand import POLICIES, firing_order
from schedules.order import topological_order
from schedules.peak.clock import Effort
from schedules.peak.problem import Items, Link, Problem
from schedules.peak.search import bound_for, search

__all__ = ["LeastPeak", "Order", "least_peak", "lower_bound", "named_order", "problem_of"]

Order = tuple[tuple[str, int], ...]
Scratch = Mapping[str, Sequence[int] | np.ndarray]
"""Actor -> bytes of scratch of each of its phases."""


@dataclass(frozen=True, slots=True)
class LeastPeak:
    """The order of firings found, the most bytes that it keeps alive, and a bound for all orders.

    peak, lower_bound: with the workspace of the firing, and states. origin: where the order comes
    from: the policy that was improved, or "barriers" or "crossing". optimal: whether no order keeps
    less. interrupted: whether Ctrl-C ended the search.
    """

    order: Order
    peak: int
    lower_bound: int
    origin: str
    optimal: bool
    interrupted: bool


def least_peak(
    conversion: Conversion,
    buffers: Sequence[Buffer],
    workspaces: Scratch | None = None,
    effort: Effort = "low",
    *,
    policies: Iterable[str] = POLICIES,
    starts: Mapping[str, Order] = MappingProxyType({}),
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] | None = None,
) -> LeastPeak:
    """The order of a conversion's firings with the least peak that `effort` finds.

    buffers, workspaces: see `problem_of`. policies: the orders that the search starts from; starts:
    more of them, by name. effort, seed, progress, stop: see `schedules.peak.search.search`, with what
    it raises.
    """
    problem = problem_of(conversion, buffers, workspaces)
    orders = {**{name: named_order(conversion, name) for name in policies}, **starts}
    firings = {name: _numbered(problem, conversion, order) for name, order in orders.items()}
    found = search(problem, firings, effort, seed=seed, progress=progress, stop=stop)
    names = [work.name for work in conversion.actors]
    actors, phases = problem.actor[found.order].tolist(), problem.phase[found.order].tolist()
    order = tuple((names[actor], phase) for actor, phase in zip(actors, phases, strict=True))
    return LeastPeak(
        order, found.peak, found.lower_bound, found.origin, found.optimal, found.interrupted
    )


def lower_bound(
    conversion: Conversion,
    buffers: Sequence[Buffer],
    workspaces: Scratch,
    order: Order,
    effort: Effort = "low",
    share: float = 1.0,
) -> int:
    """Bytes that no order of these firings has a peak below, as far as a share of `effort` can prove;
    looked for no further than the peak of this order.
    """
    problem = problem_of(conversion, buffers, workspaces)
    return bound_for(problem, _numbered(problem, conversion, order), effort, share)


def _numbered(problem: Problem, conversion: Conversion, order: Order) -> np.ndarray:
    """The firings of an order by their numbers in a problem."""
    number = {work.name: at for at, work in enumerate(conversion.actors)}
    return np.array([problem.base[number[actor]] + phase for actor, phase in order], np.int64)


def named_order(conversion: Conversion, policy: str) -> Order:
    """An order of firings (actor name, phase) of the conversion's graph."""
    actors = conversion.graph.actors
    if policy == "layers":
        # what firing one by one comes to, as nothing limits a layer whose operands are whole
        inorder = [actors[at] for at in topological_order(conversion.graph)]
        return tuple((actor.name, phase) for actor in inorder for phase in range(actor.phases))
    return tuple((actors[at].name, phase) for at, phase in firing_order(conversion.graph, policy))


def problem_of(
    conversion: Conversion,
    buffers: Sequence[Buffer],
    workspaces: Scratch | None = None,
) -> Problem:
    """The firings of a conversion, actors in its order, and the rows that they claim and release.

    buffers: tensors and states (`buffers_of`). workspaces: actor -> bytes of scratch of each phase;
    actors that need none may be left out.
    """
    number = {work.name: at for at, work in enumerate(conversion.actors)}
    phases = [len(work.phases) for work in conversion.actors]
    base = np.concatenate([[0], np.cumsum(phases)])
    extra = np.zeros(base[-1], np.int64)
    for name, sizes in (workspaces or {}).items():
        extra[base[number[name]] : base[number[name] + 1]] = sizes
    items = [
        Items(np.full(buffer.rows, buffer.row_bytes, np.int64), claimers, releasers)
        for buffer in buffers
        for releasers in [_firings(() if buffer.kept else buffer.readers, buffer, number, base)]
        for claimers in [_firings(buffer.writers, buffer, number, base)]
    ]
    return Problem.of(phases, _links(conversion, number), items, extra)


def _firings(
    accesses: Sequence[Access], buffer: Buffer, number: Mapping[str, int], base: np.ndarray
) -> np.ndarray:
    """(rows, accesses): the firing in which each actor reaches each row."""
    rows = np.arange(buffer.rows)
    found = np.empty((buffer.rows, len(accesses)), np.int64)
    for column, access in enumerate(accesses):
        reached = np.searchsorted(np.array(access.rows), rows, side="right")
        found[:, column] = base[number[access.actor]] + reached
    return found


def _links(conversion: Conversion, number: Mapping[str, int]) -> Iterator[Link]:
    """Who waits for how many phases of whom: for those that complete the rows it needs."""
    writers = {w.tensor.name: (work.name, w) for work in conversion.actors for w in work.writes}
    for work in conversion.actors:
        for read in work.reads:
            source, write = writers[read.tensor.name]
            need = np.array(read.need)
            counts = np.searchsorted(np.array(write.complete), need, side="left") + 1
            yield Link(number[source], number[work.name], np.where(need > 0, counts, 0))
