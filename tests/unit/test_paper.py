"""The base paper, reproduced: its figure, its tables, and what docs/paper.md says about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from csdfgen.algorithm1 import algorithm1
from csdfgen.cli import main
from csdfgen.conversion import convert
from csdfgen.errors import InputError
from csdfgen.heights import parse_rows
from csdfgen.paper.deadlock import Full, largest_rates, stuck
from csdfgen.paper.figure1 import check_figure1, figure1_graph
from csdfgen.paper.printed import TABLE_2, TABLE_3
from csdfgen.paper.table2 import reproduce_table2
from csdfgen.paper.table3 import Cell, load_network, reproduce_table3, schedule_values
from csdfgen.rows import Rows, slabs
from schedules import check, demand_driven
from tests import paper_page


def test_figure_1_comes_out_exactly() -> None:
    assert all(one.match for one in check_figure1(figure1_graph()))


def test_table_2_is_found_and_runs() -> None:
    results = reproduce_table2()
    assert [one.total for one in results] == [example.total for example in TABLE_2]
    assert all(one.match and one.same_outputs for one in results)


def test_table_3_as_its_authors_counted() -> None:
    cells = [c for c in reproduce_table3(("paper",)) if c.column in ("m_DL", "m_our", "tau_DL", "tau_our")]
    assert [(c.network, c.column) for c in cells if not c.match] == [("squeezenet1_1", "tau_DL")]
    assert len(cells) == 28


def test_a_match_is_equality_after_the_printed_rounding() -> None:
    assert Cell("x", "paper", "m_DL", 51.7, 52).match
    assert not Cell("x", "paper", "m_DL", 51.4, 52).match
    assert not Cell("x", "paper", "tau_our", 3.876, 3.87).match


@pytest.mark.parametrize("name", ["squeezenet1_1", "inception_v1"])
def test_our_schedules_need_no_more_than_printed(name: str) -> None:
    assert schedule_values(name)[1] <= TABLE_3[name][1]


def test_largest_rates_deadlock_beside_a_window() -> None:
    graph = paper_page.skip_graph()
    assert stuck(graph, largest_rates(graph)) == (Full("skip", held=1, produced=1, capacity=1),)
    schedule = demand_driven(graph)
    check(graph, schedule)
    assert not stuck(graph, schedule.capacities)
    assert schedule.capacities["skip"] == 2


@pytest.mark.parametrize("name", TABLE_3)
def test_which_networks_deadlock(name: str) -> None:
    graph = paper_page.row_graph(load_network(name, weights=False))
    assert bool(stuck(graph, largest_rates(graph))) == (name in ("resnet18", "densenet121"))
    assert not stuck(graph, demand_driven(graph).capacities)


def test_algorithm_1_as_printed_saves_next_to_nothing() -> None:
    graph = algorithm1(convert(load_network("squeezenet1_1", weights=False), 1))
    assert sum(largest_rates(graph).values()) * 4 / 1e6 > 29  # of 29.2 MB of buffers whole


def test_slabs_of_unequal_height() -> None:
    assert slabs(10, (5, 2)) == (Rows(0, 5), Rows(5, 7), Rows(7, 9), Rows(9, 10))
    assert slabs(4, (5, 2)) == (Rows(0, 4),)
    assert str(parse_rows("whole,image=24+8")) == "whole,image=24+8"
    with pytest.raises(InputError, match="adds up"):
        parse_rows("image=24+auto")
    with pytest.raises(InputError, match="above 0"):
        parse_rows("image=24+0")


def test_the_command_writes_json_and_csv(tmp_path: Path) -> None:
    out, cells = tmp_path / "out.json", tmp_path / "out.csv"
    assert main(["reproduce", "all", "--counting", "paper", "--json", str(out), "--csv", str(cells)]) == 0
    found = json.loads(out.read_text())
    assert list(found) == ["fig1", "table2", "table3"]
    assert len(found["table3"]) == 42
    assert len(cells.read_text().splitlines()) == 1 + 4 + 4 + 42


@pytest.mark.networks
def test_the_tables_of_the_page_are_current() -> None:
    text = paper_page.PAGE.read_text()
    assert paper_page.with_tables(text) == text, "python -m tests.paper_page brings them up to date"
