"""Our analysis gives every reference value, and what SDF3 and Kiter give where they are right."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from fractions import Fraction

import pytest

from csdfgen.errors import GraphError
from csdfgen.graph import repetition_vector
from schedules.analysis import analyze, to_json
from schedules.periodic import periodic_schedule
from schedules.storage import pareto_front
from schedules.throughput import throughput
from sdf3_bridge.sdf3read import read
from tests.graphs import SDF3_DATA

if not SDF3_DATA.exists():
    pytest.skip("the recorded values of SDF3 and Kiter are not beside the repository", allow_module_level=True)

KITER_WRONG = {
    "graphs/t71_kiter_inf.xml": Fraction(1, 4),
    "graphs/t72_kiter_high.xml": Fraction(1, 14),
}
"""Graphs whose K-periodic value is too high: auto-concurrent actors (README of the data, section 6)."""


def _recorded() -> dict[str, dict[str, list[str]]]:
    """Graph -> what was recorded -> values."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    with (SDF3_DATA / "expected.csv").open() as file:
        for row in csv.DictReader(file):
            if "/bad/" in row["graph"] or row["exit_code"] not in ("0", ""):
                continue
            key = row["metric"] if row["tool"] == "reference" else f"{row['tool']} {row['metric']}"
            if row["metric"] == "throughput" and row["tool"] == "kiter":
                key = f"kiter {row['command'].split()[-1]}"
            found[row["graph"]][key].append(row["value"])
    return found


RECORDED = _recorded()
GRAPHS = sorted(RECORDED)


def _with(key: str) -> list[str]:
    return [name for name in GRAPHS if key in RECORDED[name]]


@pytest.mark.parametrize("name", _with("repetition_vector"))
def test_repetition_vectors(name: str) -> None:
    (text,) = RECORDED[name]["repetition_vector"]
    assert repetition_vector(read(SDF3_DATA / name)) == {
        actor: int(count) for actor, count in (item.split("=") for item in text.split(";"))
    }


@pytest.mark.parametrize("name", _with("throughput_exact"))
@pytest.mark.parametrize("method", ["auto", "self-timed"])
def test_exact_throughput(name: str, method: str) -> None:
    graph = read(SDF3_DATA / name)
    found = throughput(graph, method=method, max_firings=100_000)
    assert found.exact
    assert found.value == Fraction(RECORDED[name]["throughput_exact"][0])


@pytest.mark.parametrize("name", _with("kiter KPeriodicThroughput"))
def test_kiter_k_periodic(name: str) -> None:
    value = throughput(read(SDF3_DATA / name)).value
    if name in KITER_WRONG:
        assert value == KITER_WRONG[name]
    else:
        assert float(value) == pytest.approx(float(RECORDED[name]["kiter KPeriodicThroughput"][0]), rel=2e-8)


@pytest.mark.parametrize("name", _with("kiter 1PeriodicThroughput"))
def test_kiter_one_periodic(name: str) -> None:
    recorded = float(RECORDED[name]["kiter 1PeriodicThroughput"][0])
    graph = read(SDF3_DATA / name)
    found = throughput(graph, method="1-periodic")
    assert found.value <= throughput(graph).value
    if name not in KITER_WRONG:
        assert float(found.value) == pytest.approx(recorded, rel=2e-8)


@pytest.mark.parametrize("name", _with("pareto_exact"))
def test_exact_fronts(name: str) -> None:
    wanted = set()
    for row in RECORDED[name]["pareto_exact"]:
        entries = dict(item.split("=") for item in row.split(";"))
        wanted.add((Fraction(entries["thr"]), int(entries["size"])))
    graph = read(SDF3_DATA / name)
    front = list(pareto_front(graph))
    assert {(point.throughput, point.size) for point in front} == wanted
    assert [point.size for point in front] == sorted(point.size for point in front)
    for point in front:
        assert point.exact
        assert throughput(graph, point.capacities).value == point.throughput


@pytest.mark.parametrize("name", _with("sdf3analysis-csdf consistency"))
def test_consistency_and_json(name: str) -> None:
    (recorded,) = set(RECORDED[name]["sdf3analysis-csdf consistency"])
    answer = to_json(analyze(read(SDF3_DATA / name)))
    assert answer["consistent"] == (recorded == "true")
    if recorded == "true":
        assert answer["exact"]
        assert answer["deadlock"] == (answer["throughput"] == "0")


@pytest.mark.parametrize("name", _with("throughput_exact"))
def test_periodic_schedules_have_the_exact_period(name: str) -> None:
    graph = read(SDF3_DATA / name)
    exact = Fraction(RECORDED[name]["throughput_exact"][0])
    if not exact:
        with pytest.raises(GraphError, match="deadlock after"):
            periodic_schedule(graph)
        return
    schedule = periodic_schedule(graph)
    assert schedule.period * exact == 1
    assert min(min(starts) for starts in schedule.starts.values()) >= 0
    assert not any(math.isinf(start) for starts in schedule.starts.values() for start in starts)
