"""Is every recorded value of SDF3 and Kiter what we compute, digit by digit, and where not, why?

Our exact value is printed as the tool would print it, in its units (SDF3's iterations, its sizes),
and must be the recorded text.
`DIFFERENCES` lists every value that is not, with the fault of the tool that explains it; the README
of the data names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import groupby

from csdfgen.dataflow.graph import add_serial_loops, repetition_vector
from csdfgen.errors import InconsistentError
from schedules.liveness import find_deadlock
from schedules.order import strongly_connected_components
from schedules.storage import StorageDistribution, pareto_front
from schedules.throughput import throughput
from sdf3_bridge.iteration import sdf3_iteration
from tests.conformance.recorded import Row, graph_of, rows

__all__ = [
    "NOT_COMPARED",
    "QUESTIONS",
    "Compared",
    "Question",
    "capacities_of",
    "compared",
    "front",
    "printed_rate",
    "value",
]

SDF3, KITER, EXACT = "sdf3analysis", "kiter", "reference"
"""Who printed a row, or how that begins."""

SERIAL_SIZE = 2
"""What SDF3 counts for a one-token self-loop; we do not count it."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A recorded value beside ours, both as the tool prints them; rows: of expected.csv that it is
    made of.
    """

    graph: str
    question: str
    recorded: str
    ours: str
    rows: int = 1

    @property
    def agrees(self) -> bool:
        return self.recorded == self.ours


# --- our values, in the units of the tools ------------------------------------------------------


@cache
def value(path: str, method: str = "auto") -> Fraction | float:
    """Throughput of a graph of the collection, minimal iterations per time unit."""
    return throughput(
        graph_of(path), method="1-periodic" if method == "1-periodic" else "auto"
    ).value


@cache
def front(path: str) -> tuple[StorageDistribution, ...]:
    """Its storage distributions, all exact."""
    found = tuple(pareto_front(graph_of(path)))
    assert all(point.exact for point in found), path
    return found


def _factor(path: str) -> int:
    return sdf3_iteration(graph_of(path)).factor


def _listed(numbers: Mapping[str, int]) -> str:
    return ";".join(f"{name}={number}" for name, number in sorted(numbers.items()))


def _sorted(row: Row) -> str:
    """A recorded list of numbers by name, in the order of names."""
    return _listed({name: int(number) for name, number in row.entries.items()})


def _self_timed_without_overlap(path: str) -> Fraction | float:
    """What Kiter's SymbExec computes: no actor overlaps with itself."""
    return throughput(add_serial_loops(graph_of(path))).value


# --- one question a function: (recorded, ours) of a row -----------------------------------------

_Pair = tuple[str, str]


def _repetition(row: Row) -> _Pair:
    return _sorted(row), _listed(repetition_vector(graph_of(row.graph)))


def _sdf3_repetition(row: Row) -> _Pair:
    return _sorted(row), _listed(sdf3_iteration(graph_of(row.graph)).firings)


def _sdf3_repetition_sum(row: Row) -> _Pair:
    return row.value, str(sum(sdf3_iteration(graph_of(row.graph)).firings.values()))


def _k(row: Row) -> _Pair:
    return row.value, str(_factor(row.graph))


def _least_firings(row: Row) -> _Pair:
    return row.value, str(min(sdf3_iteration(graph_of(row.graph)).firings.values()))


def _exact_throughput(row: Row) -> _Pair:
    return row.value, str(value(row.graph))


def _consistency(row: Row) -> _Pair:
    try:
        repetition_vector(graph_of(row.graph))
    except InconsistentError:
        return row.value, "false"
    return row.value, "true"


def _deadlock(row: Row) -> _Pair:
    return row.value, str(find_deadlock(graph_of(row.graph)) is not None).lower()


def _sdf3_throughput(row: Row) -> _Pair:
    return row.value, _in_sdf3_digits(value(row.graph), _factor(row.graph))


def _in_sdf3_digits(rate: Fraction | float, factor: int) -> str:
    """A throughput per minimal iteration as SDF3 prints it: per its own iteration, 6 digits."""
    return f"{float(rate / factor):.6g}"


def _mcm(row: Row) -> _Pair:
    rate = value(row.graph)
    if not rate:
        return row.value, "2147483647"  # SDF3's infinity
    cycle_mean = 1 / Fraction(rate)
    return row.value, str(cycle_mean) if row.algorithm == "mcm" else f"{float(cycle_mean):.6g}"


def _components(row: Row) -> _Pair:
    graph = graph_of(row.graph)
    numbers = strongly_connected_components(graph)
    groups: dict[int, list[str]] = {}
    for actor, number in zip(graph.actors, numbers, strict=True):
        groups.setdefault(number, []).append(actor.name)
    listed = [line.removeprefix("Component: ").split(", ") for line in row.value.split(" | ")[1:]]
    return _sets(listed), _sets(groups.values())


def _sets(groups: Iterable[Sequence[str]]) -> str:
    return "; ".join(sorted(", ".join(sorted(group)) for group in groups))


def _k_periodic(row: Row) -> _Pair:
    return row.value, f"{float(value(row.graph)):.9g}"


def _one_periodic(row: Row) -> _Pair:
    return row.value, f"{float(value(row.graph, '1-periodic')):.9g}"


def _period(row: Row) -> _Pair:
    rate = value(row.graph, "1-periodic" if row.algorithm == "1PeriodicThroughput" else "auto")
    return row.value, f"{float(1 / rate):.6f}" if rate else "inf"


def _symbolic(row: Row) -> _Pair:
    return row.value, f"{float(_self_timed_without_overlap(row.graph)):.9g}"


def capacities_of(row: Row) -> dict[str, int]:
    """The capacities in a row `pareto_distribution`: by name from SDF3, in the order of the
    channels that it keeps from Kiter.
    """
    listed = row.value.split(";", 2)[2]
    items = listed.split(",") if listed else []
    if row.tool != KITER:
        return {name: int(tokens) for name, _, tokens in (item.rpartition("=") for item in items)}
    kept = [channel.name for channel in graph_of(row.graph).channels if not channel.is_serial]
    return dict(zip(kept, map(int, items), strict=True))


def printed_rate(row: Row, rate: Fraction | float) -> str:
    """A throughput of the row's graph as its tool prints it."""
    return f"{float(rate):.6g}" if row.tool == KITER else _in_sdf3_digits(rate, _factor(row.graph))


def _distribution(row: Row) -> _Pair:
    """The throughput under the capacities that a tool lists."""
    rate = throughput(graph_of(row.graph), capacities_of(row)).value
    return row.value.partition(";")[0], f"thr={printed_rate(row, rate)}"


_Points = list[tuple[int, float]]


def _undominated(points: Sequence[tuple[int, float]]) -> str:
    """(size, throughput as printed) of points that are faster than every smaller one."""
    shown, best = [], 0.0
    for size, rate in sorted(points, key=lambda point: (point[0], -point[1])):
        if rate > best:
            best = rate
            shown.append(f"{size}: {rate:.6g}")
    return ", ".join(shown) or "none"


def _recorded_points(found: Sequence[Row]) -> _Points:
    return [(int(row.entries["size"]), float(row.entries["thr"])) for row in found]


def _sdf3_front(found: Sequence[Row]) -> _Pair:
    """Sizes as SDF3 counts them, with its serial self-loops."""
    path = found[0].graph
    loops = SERIAL_SIZE * sum(channel.is_serial for channel in graph_of(path).channels)
    ours = [
        (point.size + loops, float(_in_sdf3_digits(point.throughput, _factor(path))))
        for point in front(path)
    ]
    return _undominated(_recorded_points(found)), _undominated(ours)


def _kiter_front(found: Sequence[Row]) -> _Pair:
    ours = [
        (point.size, float(f"{float(point.throughput):.6g}")) for point in front(found[0].graph)
    ]
    return _undominated(_recorded_points(found)), _undominated(ours)


def _exact_front(found: Sequence[Row]) -> _Pair:
    recorded = {";".join(row.value.split(";")[:2]) for row in found}
    ours = {f"thr={point.throughput};size={point.size}" for point in front(found[0].graph)}
    return ", ".join(sorted(recorded)), ", ".join(sorted(ours))


# --- all questions ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Question:
    """Which rows ask it, and who compares one of them, or all of a graph (`whole`)."""

    title: str
    tool: str
    metric: str
    algorithm: str
    one: Callable[[Row], _Pair] | None = None
    whole: Callable[[Sequence[Row]], _Pair] | None = None

    def asks(self, row: Row) -> bool:
        if row.value.startswith("thr=0;size=0;"):  # how SDF3 says that it found no distribution
            return False
        return (
            row.tool.startswith(self.tool)
            and row.metric == self.metric
            and self.algorithm in ("", row.algorithm)
        )


QUESTIONS: tuple[Question, ...] = (
    Question("exact: repetition vector", EXACT, "repetition_vector", "", _repetition),
    Question("exact: k", EXACT, "k", "", _k),
    Question("exact: least firings of an SDF3 iteration", EXACT, "min_R", "", _least_firings),
    Question("exact: throughput", EXACT, "throughput_exact", "", _exact_throughput),
    Question("exact: Pareto points", EXACT, "pareto_exact", "", None, _exact_front),
    Question("SDF3: consistency", SDF3, "consistency", "", _consistency),
    Question("SDF3: repetition vector", SDF3, "repetition_vector", "", _sdf3_repetition),
    Question("SDF3: its sum", SDF3, "repetition_vector_sum", "", _sdf3_repetition_sum),
    Question("SDF3: throughput", SDF3, "throughput", "", _sdf3_throughput),
    Question("SDF3: deadlock", SDF3, "deadlock", "", _deadlock),
    Question("SDF3: maximum cycle mean", SDF3, "mcm", "", _mcm),
    Question(
        "SDF3: strongly connected components",
        SDF3,
        "text",
        "strongly_connected_components",
        _components,
    ),
    Question("SDF3: trade-off (buffersize)", SDF3, "pareto", "", None, _sdf3_front),
    Question(
        "SDF3: throughput of its distributions", SDF3, "pareto_distribution", "", _distribution
    ),
    Question("Kiter: repetition vector", KITER, "repetition_vector", "", _repetition),
    Question(
        "Kiter: K-periodic throughput", KITER, "throughput", "KPeriodicThroughput", _k_periodic
    ),
    Question("Kiter: K-periodic period", KITER, "period", "KPeriodicThroughput", _period),
    Question(
        "Kiter: 1-periodic throughput", KITER, "throughput", "1PeriodicThroughput", _one_periodic
    ),
    Question("Kiter: 1-periodic period", KITER, "period", "1PeriodicThroughput", _period),
    Question("Kiter: symbolic execution", KITER, "throughput", "SymbExec", _symbolic),
    Question("Kiter: trade-off", KITER, "pareto", "", None, _kiter_front),
    Question(
        "Kiter: throughput of its distributions", KITER, "pareto_distribution", "", _distribution
    ),
)


NOT_COMPARED = {
    ("error", "an error message instead of a value"),
    ("scheduling_size", "the size of the problem that Kiter solves"),
    ("text", "structure without a counterpart here: cycles, HSDF sizes"),
}
"""Rows that answer no question: metric, what it is."""


@cache
def compared() -> tuple[Compared, ...]:
    """Every recorded value that answers one of the questions, beside ours."""
    return tuple(_compared())


def _compared() -> Iterator[Compared]:
    for question in QUESTIONS:
        asked = sorted((row for row in rows() if question.asks(row)), key=lambda row: row.graph)
        for _, group in groupby(asked, key=lambda row: (row.graph, row.command)):
            found = list(group)
            if question.whole is not None:
                yield Compared(found[0].name, question.title, *question.whole(found), len(found))
            if question.one is not None:
                for row in found:
                    yield Compared(row.name, question.title, *question.one(row))
