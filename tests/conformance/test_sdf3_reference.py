"""Our analysis gives every reference value, and to the last printed digit what SDF3 and Kiter give
where they are right.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from csdfgen.errors import GraphError
from schedules.analysis import analyze, to_json
from schedules.liveness import find_deadlock
from schedules.periodic import periodic_schedule
from schedules.storage import size_storage
from schedules.throughput import throughput
from tests.conformance.comparison import NOT_COMPARED, QUESTIONS, Compared, compared, front, value
from tests.conformance.differences import DIFFERENCES, NO_ANSWER, REASONS, path_of, proof
from tests.conformance.executed import execute
from tests.conformance.recorded import graph_of, rows
from tests.graphs import SDF3_DATA

if not SDF3_DATA.exists():
    pytest.skip(
        "the recorded values of SDF3 and Kiter are not beside the repository",
        allow_module_level=True,
    )

SECONDS = 30.0

EXACT = {row.graph: Fraction(row.value) for row in rows() if row.metric == "throughput_exact"}
UNSIZED = sorted(
    {
        row.graph
        for row in rows()
        if row.value == "timeout" and row.algorithm in ("buffersize", "ThroughputBufferingDSE")
    }
)


@pytest.mark.networks
@pytest.mark.parametrize("question", [question.title for question in QUESTIONS])
def test_every_recorded_value_is_ours_or_a_known_fault(question: str) -> None:
    found = [item for item in compared() if item.question == question]
    assert found
    wrong = [
        f"{item.graph}: {item.recorded}, ours {item.ours}"
        for item in found
        if not item.agrees and not is_known(item)
    ]
    assert wrong == []


def is_known(item: Compared) -> bool:
    return not item.question.startswith("exact") and (item.graph, item.question) in DIFFERENCES


@pytest.mark.networks
def test_no_difference_is_listed_that_there_is_not() -> None:
    found = {(item.graph, item.question) for item in compared() if not item.agrees}
    assert sorted(DIFFERENCES.keys() - found) == []
    assert sorted(REASONS.keys() - set(DIFFERENCES.values())) == []


@pytest.mark.networks
@pytest.mark.parametrize(("name", "question"), sorted([*DIFFERENCES, *NO_ANSWER]))
def test_every_difference_has_its_reason_and_our_answer_is_run(name: str, question: str) -> None:
    reason = REASONS[{**DIFFERENCES, **NO_ANSWER}[name, question]]
    assert reason.applies(path_of(name)), reason.text
    items = [item for item in compared() if (item.graph, item.question) == (name, question)]
    assert proof(
        items[0] if items else Compared(name, question, "no answer", str(value(path_of(name))))
    )


def test_every_throughput_that_did_not_end_is_listed() -> None:
    endless = {
        row.name for row in rows() if row.value == "timeout" and row.algorithm == "throughput"
    }
    assert endless == {name for name, _ in NO_ANSWER}


def test_every_row_is_compared_or_no_value() -> None:
    asked = {row for row in rows() if any(question.asks(row) for question in QUESTIONS)}
    left = {
        row.metric
        for row in rows()
        if row not in asked and not row.value.startswith("thr=0;size=0;")
    }
    assert left == {metric for metric, _ in NOT_COMPARED}


@pytest.mark.parametrize("path", sorted(EXACT))
def test_exact_throughput_by_execution(path: str) -> None:
    found = throughput(graph_of(path), method="self-timed", max_firings=100_000)
    assert found.exact
    assert found.value == EXACT[path]


@pytest.mark.parametrize(
    "path", sorted({row.graph for row in rows() if row.metric == "pareto_exact"})
)
def test_exact_fronts_ascend_and_are_executed(path: str) -> None:
    points = front(path)
    assert [point.size for point in points] == sorted({point.size for point in points})
    for point in points:
        done = execute(graph_of(path), point.capacities)
        assert done is not None
        assert (
            done.throughput
            == point.throughput
            == throughput(graph_of(path), point.capacities).value
        )


@pytest.mark.parametrize("path", UNSIZED)
def test_storage_is_proven_where_the_tools_did_not_end(path: str) -> None:
    graph = graph_of(path)
    if math.isinf(value(path)):
        with pytest.raises(GraphError, match="nothing limits its throughput"):
            size_storage(graph, "maximal")
        return
    live, best = (size_storage(graph, wanted, seconds=SECONDS) for wanted in ("live", "maximal"))
    assert live.exact and best.exact
    assert live.throughput > 0
    assert best.throughput == value(path)


@pytest.mark.parametrize(
    "path", sorted({row.graph for row in rows() if row.metric == "consistency"})
)
def test_analysis_as_json(path: str) -> None:
    (recorded,) = {row.value for row in rows() if (row.graph, row.metric) == (path, "consistency")}
    answer = to_json(analyze(graph_of(path)))
    assert answer["consistent"] == (recorded == "true")
    if recorded == "true":
        assert answer["exact"]
        assert (
            answer["deadlock"]
            == (answer["throughput"] == "0")
            == (find_deadlock(graph_of(path)) is not None)
        )


@pytest.mark.parametrize("path", sorted(EXACT))
def test_periodic_schedules_have_the_exact_period(path: str) -> None:
    graph = graph_of(path)
    if not EXACT[path]:
        with pytest.raises(GraphError, match="deadlock after"):
            periodic_schedule(graph)
        return
    schedule = periodic_schedule(graph)
    assert schedule.period * EXACT[path] == 1
    assert min(min(starts) for starts in schedule.starts.values()) >= 0
    assert not any(math.isinf(start) for starts in schedule.starts.values() for start in starts)
