"""In which order should the phases of a network fire? With the least peak, by policy, overlapped, or tile by tile.

The search for the least peak is that of `schedules.peak`: rows of buffers are its items, the actors that write and
release them its claimers and releasers, and each firing has its workspace. The bytes that an order keeps alive are then
those of `planning.lifetimes`, for every order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from csdfgen.phases.conversion import ActorWork, Conversion
from csdfgen.planning.buffers import Access, Buffer
from csdfgen.planning.lifetimes import firing_times
from schedules.demand import POLICIES, firing_order, firing_orders
from schedules.order import topological_order
from schedules.peak.clock import Effort
from schedules.peak.problem import Items, Link, Problem
from schedules.peak.search import find_lower_bound, search

Order = tuple[tuple[str, int], ...]
Scratch = Mapping[str, Sequence[int] | np.ndarray]
"""Actor -> bytes of scratch of each of its phases."""


@dataclass(frozen=True, slots=True)
class LeastPeak:
    """The order that was found, its peak of bytes alive, and a lower bound for all orders.

    peak, lower_bound: with the workspace of firings, and states. origin: the policy that was improved, or "barriers"
    or "crossing". optimal: whether no order has a lower peak. interrupted: whether Ctrl-C ended the search.
    """

    order: Order
    peak: int
    lower_bound: int
    origin: str
    optimal: bool
    interrupted: bool


def search_least_peak(
    conversion: Conversion,
    buffers: Sequence[Buffer],
    workspaces: Scratch | None = None,
    effort: Effort = "low",
    *,
    policies: Iterable[str] = POLICIES,
    starts: Mapping[str, Order] = MappingProxyType({}),
) -> LeastPeak:
    """The order of a conversion's firings with the least peak that `effort` finds.

    buffers, workspaces: see `build_problem`. policies: the orders that the search starts from; starts: more of them, by
    name. effort, and errors: those of `schedules.peak.search.search`.
    """
    problem = build_problem(conversion, buffers, workspaces)
    orders = {**_named_orders(conversion, policies), **starts}
    firings = {name: _numbered(problem, conversion, order) for name, order in orders.items()}
    found = search(problem, firings, effort)
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
    """A lower bound of the peak of every order of these firings, in bytes: the best that a share of `effort` proves, at
    most the peak of the given order.
    """
    problem = build_problem(conversion, buffers, workspaces)
    return find_lower_bound(problem, _numbered(problem, conversion, order), effort, share)


def _numbered(problem: Problem, conversion: Conversion, order: Order) -> np.ndarray:
    """The numbers of an order's firings in a problem."""
    number = {work.name: at for at, work in enumerate(conversion.actors)}
    return np.array([problem.base[number[actor]] + phase for actor, phase in order], np.int64)


def order_by_policy(conversion: Conversion, policy: str) -> Order:
    """The order of a conversion's firings by a policy of `schedules.demand`, or `layers`: one layer after another."""
    actors = conversion.graph.actors
    if policy == "layers":
        # the same as firing one by one, as no phase waits in a layer whose operands are complete
        inorder = [actors[at] for at in topological_order(conversion.graph)]
        return tuple((actor.name, phase) for actor in inorder for phase in range(actor.phases))
    return tuple((actors[at].name, phase) for at, phase in firing_order(conversion.graph, policy))


def _named_orders(conversion: Conversion, policies: Iterable[str]) -> dict[str, Order]:
    """`order_by_policy` by each of these policies."""
    names, asked = [actor.name for actor in conversion.graph.actors], tuple(policies)
    found = firing_orders(conversion.graph, [one for one in asked if one != "layers"])
    return {
        policy: tuple((names[at], phase) for at, phase in found[policy])
        if policy in found
        else order_by_policy(conversion, policy)
        for policy in asked
    }


def overlap_frames(one: Conversion, order: Order, frames: int) -> Order:
    """The order of `frames` images from an order of one image. one: the conversion of one image.

    Each image starts a constant lag after the one before: the least lag with which no actor works on two images at a
    time if one processor executes each image alone. That is the longest time from the first to the last phase of an
    actor, in the time units of phases (docs/model.md). The images are merged by these times into one order for one
    processor.
    """
    takes = [one.actor[actor].times[phase] for actor, phase in order]
    starts = np.concatenate([[0], np.cumsum(takes)[:-1]]) if takes else np.zeros(0, np.int64)
    at = firing_times(order)
    lag = max((int(starts[one[-1]] - starts[one[0]]) for one in at.values()), default=0)
    phases = {name: len(found) for name, found in at.items()}
    image = np.repeat(np.arange(frames), len(order))
    # firings that start at the same time: the earlier image first, and within an image its own order
    merged = np.lexsort((image, np.tile(starts, frames) + image * lag))
    return tuple(
        (actor, k * phases[actor] + phase)
        for number in merged.tolist()
        for k, firing in (divmod(number, len(order)),)
        for actor, phase in (order[firing],)
    )


def order_by_sinks(conversion: Conversion, sinks: Iterable[str]) -> Order:
    """The order that completes each of these actors in turn, then the network's outputs, and last what no layer reads.

    A phase fires just before the first phase that needs its rows. The firings for one of the actors are a stream of
    rows that ends before the next stream starts: tiles are executed one after the other like this.
    """
    writer: dict[str, ActorWork] = {}
    for work in conversion.actors:
        writer.update((write.tensor.name, work) for write in work.writes)
    fired = dict.fromkeys(conversion.actor, 0)
    order: list[tuple[str, int]] = []

    def pull(wanted: ActorWork, count: int) -> None:
        waiting = [(wanted, count)]
        while waiting:
            work, goal = waiting[-1]
            phase = fired[work.name]
            if phase >= goal:
                waiting.pop()
                continue
            missing = _missing(work, phase, writer, fired)
            if missing is None:
                order.append((work.name, phase))
                fired[work.name] += 1
            else:
                waiting.append(missing)

    ends = [work for work in conversion.actors if work.kind == "output"]
    for work in [*(conversion.actor[name] for name in sinks), *ends, *conversion.actors]:
        pull(work, len(work.phases))
    return tuple(order)


def _missing(
    work: ActorWork, phase: int, writer: dict[str, ActorWork], fired: dict[str, int]
) -> tuple[ActorWork, int] | None:
    """The first actor whose rows a phase waits for, and the phases that it must have completed; None for none."""
    for read in work.reads:
        need = read.need[phase]
        source = writer[read.tensor.name]
        done = fired[source.name]
        write = next(w for w in source.writes if w.tensor.name == read.tensor.name)
        if need > (write.complete[done - 1] if done else 0):
            return source, done + 1
    return None


def build_problem(
    conversion: Conversion, buffers: Sequence[Buffer], workspaces: Scratch | None = None
) -> Problem:
    """The firings of a conversion, actors in its order, and the rows that they claim and release.

    buffers: of tensors and states (`buffers_of`). workspaces: actor -> bytes of scratch of each phase, of actors that
    need any.
    """
    number = {work.name: at for at, work in enumerate(conversion.actors)}
    phases = [len(work.phases) for work in conversion.actors]
    base = np.cumsum([0, *phases])
    extra = np.zeros(base[-1], np.int64)
    for name, sizes in (workspaces or {}).items():
        extra[base[number[name]] : base[number[name] + 1]] = sizes
    items = []
    for buffer in buffers:
        readers = () if buffer.kept else buffer.readers
        # rows that all actors reach in the same firings are one item
        reached = {buffer.rows}.union(*(access.rows for access in (*buffer.writers, *readers)))
        ends = np.array(sorted(end for end in reached if 0 < end <= buffer.rows), np.int64)
        starts = np.append(0, ends[:-1])
        claimers, releasers = (
            _firings(accesses, starts, number, base) for accesses in (buffer.writers, readers)
        )
        items.append(Items((ends - starts) * buffer.row_bytes, claimers, releasers))
    return Problem.of(phases, trace_links(conversion), items, extra)


def _firings(
    accesses: Sequence[Access], rows: np.ndarray, number: Mapping[str, int], base: np.ndarray
) -> np.ndarray:
    """(rows, accesses): the firing in which each actor reaches each of these rows."""
    found = np.empty((len(rows), len(accesses)), np.int64)
    for column, access in enumerate(accesses):
        reached = np.searchsorted(np.array(access.rows), rows, side="right")
        found[:, column] = base[number[access.actor]] + reached
    return found


def trace_links(conversion: Conversion) -> Iterator[Link]:
    """For each phase the number of phases of every producer that complete the rows it needs, actors numbered in order."""
    number = {work.name: at for at, work in enumerate(conversion.actors)}
    writers = {w.tensor.name: (work.name, w) for work in conversion.actors for w in work.writes}
    for work in conversion.actors:
        for read in work.reads:
            source, write = writers[read.tensor.name]
            need = np.array(read.need)
            counts = np.searchsorted(np.array(write.complete), need, side="left") + 1
            yield Link(number[source], number[work.name], np.where(need > 0, counts, 0))
