"""Is the picture of docs/performance.md that compares ways to use two threads drawn as its legend says?"""

from __future__ import annotations

import re

import pytest

from benchmarks.bench_threads import SECTION, Ratio, Timed, _section_graph, draw, waits
from csdfgen.goals.throughput import graph_period


def test_a_prediction_is_drawn_over_the_bar_that_it_predicts() -> None:
    """Symptom: it was between the bars of shared steps and of mapped layers."""
    ratios = [Ratio(middle, middle - 0.1, middle + 0.1) for middle in (1.5, 1.8, 1.6, 1.9)]
    rows = [Timed(name, 1.0, *ratios, 1.7, 1.8, 1000, 2000, ratios[0]) for name in ("one", "two")]
    picture = draw(rows, 2).decode()
    bars = re.findall(r'd="M ([\d.]+) [\d.]+ \nL ([\d.]+) [^"]*" clip-path[^/]*#2ca02c', picture)
    marks = re.search(r'"PathCollection_1">.*?</g>', picture, re.DOTALL)
    assert marks is not None
    found = [float(x) for x in re.findall(r' x="([\d.]+)"', marks[0])]
    assert [round((float(a) + float(b)) / 2, 2) for a, b in bars] == [round(x, 2) for x in found]
    assert len(found) == 2


def test_threads_that_wait_behind_every_section_take_its_longest_part() -> None:
    """Sections of one part are handed to nobody."""
    times = [[3e-6, 5e-6], [2e-6], [4e-6, 1e-6, 2e-6]]
    assert graph_period(_section_graph(times)) == pytest.approx(sum(map(max, times)) + 2 * SECTION)
    assert graph_period(_section_graph([[3e-6], [2e-6]])) == pytest.approx(5e-6)


def test_waits_are_those_behind_all_kernels() -> None:
    first, *rest = waits("lenet5", 2, 1)
    (waited,) = re.findall(r"a thread waits ([\d.]+)%", first)
    each = [float(line.split("%")[0]) for line in rest]
    assert each and sum(each) == pytest.approx(float(waited), abs=0.4)
    assert all(0 <= one <= 50 for one in each), "one of two threads always works"
