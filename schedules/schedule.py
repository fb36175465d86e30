"""What is a schedule? A sequence of firings, and the capacity that every channel needs for it.

The paper writes long sequences by loops (paper 002, Table II, column "Execution order"):

    n1(1-17), n2(1), [n1(18-22), n2(2-6)], n3(1), ...

that is, phases 18 to 22 of n1 and 2 to 6 of n2 alternate. `compact_loops` finds such loops, also nested ones, in any
sequence; `expand` is its inverse; `format_loops` prints loops as the paper does. A file stores a schedule as JSON, with its
firings as loops:

    {"format": "csdfgen-schedule", "version": 1, "graph": "cnn5", "policy": "demand", "iterations": 1,
     "capacities": {"e12": 17},
     "firings": [{"actor": "n1", "first": 0, "count": 17}, {"actor": "n2", "first": 0, "count": 1},
                 {"repeat": 5, "body": [{"actor": "n1", "first": 17, "count": 1},
                                        {"actor": "n2", "first": 1, "count": 1}]}]}

Three keys are optional: "origin" describes how the graph was made from a network (see `csdfgen.dataflow.origin`),
"token_bytes" is the size of a token of each channel, and "throughput" (a string "p/q") is the throughput that the
capacities allow. A run fires `count` phases of `actor` from `first` (counted from 0). It has "iteration" if that is not
0, and "phases", the number of phases of the actor, if the actor begins again within the iteration. A loop repeats its
body; every repetition continues where the one before ended: `first` grows by the number of firings of the actor in the
body.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from types import MappingProxyType
from typing import Any

from csdfgen.dataflow import origin
from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.dataflow.origin import Origin
from csdfgen.errors import ScheduleError
from csdfgen.files import Fields, load_json, quote, write_json
from csdfgen.model.describe import format_repr, html_table, mebibytes
from csdfgen.model.frozen import Pickled
from schedules.loops import Tree, repetitions

FORMAT = "csdfgen-schedule"
VERSION = 1

_FRACTION = re.compile(r"[0-9]{1,1000}(/[1-9][0-9]{0,999})?")

MAX_FIRINGS = 10_000_000
"""Most firings that a schedule lists."""

_MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Firing:
    """One run of one phase (counted from 0) of an actor, in one iteration."""

    actor: str
    phase: int
    iteration: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """Firings of phases [first, first + count) of one actor, in order.

    phases: number of phases after which the first one follows again; 0 if the actor does not begin again within an
    iteration.
    """

    actor: str
    first: int
    count: int
    iteration: int = 0
    phases: int = 0

    def phase(self, number: int) -> int:
        """The phase that is reached by counting on to `number`."""
        return number % self.phases if self.phases else number


@dataclass(frozen=True, slots=True)
class Loop:
    """A body fired `repeat` times; every repetition continues where the one before ended."""

    repeat: int
    body: tuple[Run | Loop, ...]


@dataclass(frozen=True, slots=True)
class Schedule(Pickled):
    """A firing order of a graph on one processor.

    capacities: channel name -> tokens that the channel must hold for this order (SDF3's rule,
    docs/model.md: output space is claimed when a firing starts, input space freed when it ends).
    iterations: number of iterations in the firings. policy: the rule that chose the order. throughput: iterations per
    time unit that the capacities allow, None if unknown. token_bytes, origin: those of the graph, if it has them.
    """

    graph_name: str
    firings: tuple[Firing, ...]
    capacities: Mapping[str, int] = field(default_factory=dict)
    iterations: int = 1
    policy: str = ""
    throughput: Fraction | float | None = None
    token_bytes: Mapping[str, int] = field(default_factory=dict)
    origin: Origin | None = None

    def _facts(self) -> dict[str, object]:
        return {
            "order": self.policy or None,
            "actors": len({firing.actor for firing in self.firings}),
            "firings": len(self.firings),
            "channels": len(self.capacities),
            "iterations": self.iterations if self.iterations > 1 else None,
        }

    def __repr__(self) -> str:
        return format_repr("Schedule", self.graph_name, **self._facts())

    def _repr_html_(self) -> str:
        size = sum(n * self.token_bytes.get(name, 0) for name, n in self.capacities.items())
        more = {
            "capacities": mebibytes(size) if self.token_bytes else None,
            "throughput": self.throughput,
            "made from": self.origin and self.origin.model,
        }
        return html_table(f"Schedule of {self.graph_name}", [*self._facts().items(), *more.items()])

    @classmethod
    def of(
        cls,
        graph: CsdfGraph,
        firings: Iterable[Firing],
        capacities: Mapping[str, int],
        iterations: int,
        policy: str,
    ) -> Schedule:
        """A schedule of a graph, with the sizes of its tokens and its origin."""
        sizes = {channel.name: channel.token_bytes for channel in graph.channels}
        return cls(
            graph.name,
            tuple(firings),
            MappingProxyType(dict(capacities)),
            iterations,
            policy,
            token_bytes=MappingProxyType(sizes),
            origin=graph.origin,
        )


def compact_loops(firings: Iterable[Firing], *, nested: bool = True) -> tuple[Run | Loop, ...]:
    """Runs and loops that `expand` to exactly these firings; near linear in their number.

    nested: whether loops may contain loops, which those of the paper do not.

    >>> compact_loops([Firing("a", 0), Firing("b", 0), Firing("a", 1), Firing("b", 1)])[0].repeat
    2
    """
    runs: list[Run] = []
    symbols: list[object] = []
    following: dict[str, tuple[int, int]] = {}
    for run in _runs(list(firings)):
        # only a run that continues where its actor ended can be part of a loop; others equal no run
        goes_on = following.get(run.actor, (0, 0)) == (run.iteration, run.first)
        following[run.actor] = (run.iteration, run.phase(run.first + run.count))
        symbols.append((run.actor, run.count) if goes_on else len(runs))
        runs.append(run)
    return tuple(_fold(repetitions(symbols, nested=nested), runs))


def _runs(firings: Sequence[Firing]) -> Iterator[Run]:
    """The firings as maximal runs of phases of one actor that follow each other."""
    rounds = _rounds(firings)
    start = 0
    for stop in range(1, len(firings) + 1):
        last = firings[stop - 1]
        if stop < len(firings):
            firing, phases = firings[stop], rounds.get(last.actor, 0)
            due = (last.phase + 1) % phases if phases else last.phase + 1
            if (
                firing.phase == due
                and firing.actor == last.actor
                and firing.iteration == last.iteration
            ):
                continue
        first = firings[start]
        yield Run(
            first.actor, first.phase, stop - start, first.iteration, rounds.get(first.actor, 0)
        )
        start = stop


def _rounds(firings: Sequence[Firing]) -> dict[str, int]:
    """Phases of the actors that go on from their last phase to the first one within an iteration."""
    top: dict[str, int] = {}
    for firing in firings:
        if firing.phase > top.get(firing.actor, -1):
            top[firing.actor] = firing.phase
    found: dict[str, int] = {}
    previous: dict[str, Firing] = {}
    for firing in firings:
        if not firing.phase and firing.actor in previous:
            before = previous[firing.actor]
            if before.phase == top[firing.actor] and before.iteration == firing.iteration:
                found[firing.actor] = before.phase + 1
        previous[firing.actor] = firing
    return found


def _fold(tree: Sequence[Tree], runs: Sequence[Run]) -> Iterator[Run | Loop]:
    """The tree of `repetitions` with runs in place of their numbers."""
    for node in tree:
        yield runs[node] if isinstance(node, int) else Loop(node[0], tuple(_fold(node[1], runs)))


def expand(items: Sequence[Run | Loop]) -> tuple[Firing, ...]:
    """The firings of runs and loops, in order. Raises ScheduleError if they are more than
    MAX_FIRINGS.

    >>> expand([Loop(2, (Run("b", 0, 1), Run("a", 2, 1)))])[-1]
    Firing(actor='a', phase=3, iteration=0)
    """
    total = sum(_totals(items).values())
    if total > MAX_FIRINGS:
        raise ScheduleError(f"{total} firings; at most {MAX_FIRINGS} can be listed")
    out: list[Firing] = []
    _expand_into(out, items, {})
    return tuple(out)


def _totals(items: Sequence[Run | Loop]) -> Counter[str]:
    """Firings of every actor."""
    found: Counter[str] = Counter()
    for item in items:
        if isinstance(item, Run):
            found[item.actor] += item.count
        else:
            for actor, count in _totals(item.body).items():
                found[actor] += count * item.repeat
    return found


def _expand_into(out: list[Firing], items: Sequence[Run | Loop], shift: Mapping[str, int]) -> None:
    """Append the firings, those of an actor moved by shift[actor] phases."""
    for item in items:
        if isinstance(item, Run):
            start = item.first + shift.get(item.actor, 0)
            out.extend(
                Firing(item.actor, item.phase(n), item.iteration)
                for n in range(start, start + item.count)
            )
            continue
        step = _totals(item.body)
        for turn in range(item.repeat):
            _expand_into(
                out,
                item.body,
                {actor: shift.get(actor, 0) + turn * count for actor, count in step.items()},
            )


def format_loops(items: Sequence[Run | Loop]) -> str:
    """Runs and loops as the paper's Table II writes them, phases counted from 1.

    A loop has its number of repetitions in front, unless its body is one phase of each of its actors. Where an actor
    begins again, the number of its firings is written.

    >>> format_loops([Run("n1", 0, 17), Run("n2", 0, 1), Loop(5, (Run("n1", 17, 1), Run("n2", 1, 1)))])
    'n1(1-17), n2(1), [n1(18-22), n2(2-6)]'
    """
    return ", ".join(_item_text(item, 1) for item in items)


def _item_text(item: Run | Loop, times: int) -> str:
    """times: number of repetitions by the loops around the item."""
    if isinstance(item, Run):
        total = item.count * times
        name = f"{item.actor}#{item.iteration + 1}" if item.iteration else item.actor
        if item.phases and item.first + total > item.phases:
            return f"{name}({item.first + 1}, {total} firings)"
        return (
            f"{name}({item.first + 1}-{item.first + total})"
            if total > 1
            else f"{name}({item.first + 1})"
        )
    body = ", ".join(_item_text(inner, times * item.repeat) for inner in item.body)
    plain = times == 1 and all(isinstance(inner, Run) and inner.count == 1 for inner in item.body)
    once = len(_totals(item.body)) == len(item.body)
    return f"[{body}]" if plain and once else f"{item.repeat}*[{body}]"


def firings_to_json(firings: Iterable[Firing]) -> list[dict[str, Any]]:
    """The firings as JSON values, by loops (see the module)."""
    return [_item_to_json(item) for item in compact_loops(firings)]


def _item_to_json(item: Run | Loop) -> dict[str, Any]:
    if isinstance(item, Loop):
        return {"repeat": item.repeat, "body": [_item_to_json(inner) for inner in item.body]}
    out: dict[str, Any] = {"actor": item.actor, "first": item.first, "count": item.count}
    if item.iteration:
        out["iteration"] = item.iteration
    if item.phases:
        out["phases"] = item.phases
    return out


def firings_from_json(
    fields: Fields, key: str = "firings", limit: int = MAX_FIRINGS
) -> tuple[Firing, ...]:
    """The firings under a key of a JSON object, counted before they are expanded.

    Raises the error of `fields` for other values than runs and loops, negative numbers, and more firings than the limit.
    """
    items = tuple(_item_from_json(item, 0) for item in fields.children(key))
    total = sum(_totals(items).values())
    if total > limit:
        raise fields.fault(f"'{key}' lists {total} firings; at most {limit} are read")
    return expand(items)


def _item_from_json(fields: Fields, depth: int) -> Run | Loop:
    if depth > _MAX_DEPTH:
        raise fields.fault(f"loops nested more than {_MAX_DEPTH} deep")
    if "body" in fields:
        body = tuple(_item_from_json(item, depth + 1) for item in fields.children("body"))
        if not body:
            raise fields.fault("'body' is empty; a loop needs at least one run")
        return Loop(fields.integer("repeat", low=1), body)
    return Run(
        fields.text("actor"),
        fields.integer("first"),
        fields.integer("count", low=1),
        fields.integer("iteration", default=0),
        fields.integer("phases", default=0),
    )


def to_json(schedule: Schedule) -> dict[str, Any]:
    """The schedule as JSON values; `from_json` gives it back."""
    out: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "graph": schedule.graph_name,
        "policy": schedule.policy,
        "iterations": schedule.iterations,
    }
    if schedule.throughput is not None:
        out["throughput"] = str(schedule.throughput)
    if schedule.origin is not None:
        out["origin"] = origin.to_json(schedule.origin)
    out["capacities"] = dict(schedule.capacities)
    if schedule.token_bytes:
        out["token_bytes"] = dict(schedule.token_bytes)
    return {**out, "firings": firings_to_json(schedule.firings)}


def from_json(data: object, where: str = "schedule", limit: int = MAX_FIRINGS) -> Schedule:
    """The schedule in JSON values, of at most `limit` firings. `schedules.check` tests whether it fits a graph. Raises
    ScheduleError with the place, the key and both numbers.
    """
    fields = Fields(data, where, ScheduleError)
    fields.check_header(FORMAT, VERSION)
    return Schedule(
        fields.text("graph"),
        firings_from_json(fields, limit=limit),
        _numbers(fields.child("capacities")),
        fields.integer("iterations", low=1, default=1),
        fields.text("policy", ""),
        _throughput(fields) if "throughput" in fields else None,
        _numbers(fields.child("token_bytes")) if "token_bytes" in fields else {},
        origin.from_fields(fields.child("origin")) if "origin" in fields else None,
    )


def _numbers(fields: Fields) -> dict[str, int]:
    return {channel: fields.integer(channel) for channel in fields.value}


def _throughput(fields: Fields) -> Fraction | float:
    """A throughput "p/q", "p" or "inf"."""
    text = fields.text("throughput")
    if text == "inf":
        return inf
    if not _FRACTION.fullmatch(text):
        raise fields.fault(f"'throughput' is {quote(text)}; a fraction such as \"3/4\" is needed")
    return Fraction(text)


def read_schedule(path: str | os.PathLike[str]) -> Schedule:
    """Read a schedule file. Raises InputError or ScheduleError, one line each."""
    return from_json(load_json(path), str(path))


def write_schedule(path: str | os.PathLike[str], schedule: Schedule) -> None:
    """Write a schedule file; equal schedules give equal bytes."""
    write_json(path, to_json(schedule))
