"""The base paper, reproduced: its figure, its tables, and what docs/paper.md says about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from csdfgen.cli import main
from csdfgen.cli.reproduce import Reproduce, _Part
from csdfgen.dataflow.graph import repetition_vector
from csdfgen.errors import InconsistentError, InputError
from csdfgen.model.rows import Rows, Window, slabs
from csdfgen.paper.deadlock import Full, find_full_channels, largest_rates
from csdfgen.paper.figure1 import check_figure1, figure1_graph
from csdfgen.paper.findings import Finding, findings, readings, row_graph, skip_graph
from csdfgen.paper.printed import TABLE_2, TABLE_3
from csdfgen.paper.table2 import fit_launch_seconds, reproduce_table2
from csdfgen.paper.table3 import Cell, load_network, reproduce_table3, schedule_values
from csdfgen.phases.algorithm1 import algorithm1, last_phase_rows
from csdfgen.phases.conversion import convert
from csdfgen.phases.heights import parse_rows
from schedules import check, demand_driven
from tests import paper_page


def test_figure_1_comes_out_exactly() -> None:
    assert all(one.match for one in check_figure1(figure1_graph()))


def test_table_2_is_found_and_runs() -> None:
    results = reproduce_table2()
    assert [one.total for one in results] == [example.total for example in TABLE_2]
    assert all(one.match and one.same_outputs for one in results)
    assert [round(one.fitted) for one in results] == [one.throughput for one in TABLE_2]


@pytest.mark.parametrize(("launch", "fits"), [(4.97, 0), (4.99, 1), (5.23, 1), (5.25, 0)])
def test_table_2s_frames_a_second_follow_from_one_time_and_a_launch_a_phase(
    launch: float, fits: bool
) -> None:
    """Independently: some time of the layers, of a fine grid, gives all four."""
    works = np.linspace(2.5e-3, 3.1e-3, 600_001)
    rates = [1 / (works + launch * 1e-6 * sum(one.phases)) for one in TABLE_2]
    given = [np.round(rate) == one.throughput for rate, one in zip(rates, TABLE_2, strict=True)]
    assert np.logical_and.reduce(given).any() == fits
    assert (fit_launch_seconds()[0] <= launch * 1e-6 <= fit_launch_seconds()[1]) == fits


def test_table_3_as_its_authors_counted() -> None:
    cells = [
        c
        for c in reproduce_table3(("paper",))
        if c.column in ("m_DL", "m_our", "tau_DL", "tau_our")
    ]
    assert [(c.network, c.column) for c in cells if not c.match] == [("squeezenet1_1", "tau_DL")]
    assert len(cells) == 28


def test_a_match_is_equality_after_the_printed_rounding() -> None:
    assert Cell("x", "paper", "m_DL", 51.7, 52).match
    assert not Cell("x", "paper", "m_DL", 51.4, 52).match
    assert not Cell("x", "paper", "tau_our", 3.876, 3.87).match


@pytest.mark.parametrize("name", TABLE_3)
def test_our_schedules_need_no_more_than_printed(name: str) -> None:
    assert schedule_values(name)[1] <= TABLE_3[name][1]


def test_largest_rates_deadlock_beside_a_window() -> None:
    graph = skip_graph()
    assert find_full_channels(graph, largest_rates(graph)) == (
        Full("skip", held=1, produced=1, capacity=1),
    )
    schedule = demand_driven(graph)
    check(graph, schedule)
    assert not find_full_channels(graph, schedule.capacities)
    assert schedule.capacities["skip"] == 2


@pytest.mark.parametrize("name", TABLE_3)
def test_which_networks_deadlock(name: str) -> None:
    graph = row_graph(load_network(name, weights=False))
    assert bool(find_full_channels(graph, largest_rates(graph))) == (
        name in ("resnet18", "densenet121")
    )
    assert not find_full_channels(graph, demand_driven(graph).capacities)


@pytest.fixture(scope="module")
def found() -> dict[str, Finding]:
    return {name: findings(name) for name in TABLE_3}


def test_algorithm_1_as_printed_saves_next_to_nothing(found: dict[str, Finding]) -> None:
    for one in found.values():
        assert one.m_algorithm1 > 0.9 * one.m_dl > one.m_printed


def test_lines_38_and_42_to_the_letter_do_not_balance(found: dict[str, Finding]) -> None:
    def images_and_results(name: str) -> tuple[int, int]:
        assert not found[name].iteration.unbalanced
        return found[name].iteration.images, found[name].iteration.results

    assert {name for name, one in found.items() if one.iteration.unbalanced} == {"resnet18"}
    assert (
        "stage2/block1" in found["resnet18"].iteration.unbalanced
    )  # the first block whose shortcut has a stride
    assert images_and_results("squeezenet1_1") == images_and_results("googlenet") == (223, 224)
    assert images_and_results("densenet121") == (223 * 111, 224 * 112)
    for name, one in found.items():
        if not one.leaving:
            assert images_and_results(name) == (1, 1)
    with pytest.raises(InconsistentError, match="out of balance"):
        repetition_vector(
            algorithm1(convert(load_network("resnet18", weights=False), 1), literal_last=True)
        )


def test_lines_38_and_42_where_padding_exceeds_the_stride(found: dict[str, Finding]) -> None:
    assert (
        len(found["googlenet"].negative) == 10
    )  # the 7x7 in front and a 5x5 in each of nine modules
    assert found["vgg19"].negative == ()
    assert last_phase_rows(Window(5, 1, pad_top=2, pad_bottom=2)) == -1
    assert last_phase_rows(Window(3, 1, pad_top=1, pad_bottom=1)) == 0


def test_the_text_of_algorithm_1_balances_every_network() -> None:
    for name in TABLE_3:
        graph = algorithm1(convert(load_network(name, weights=False), 1))
        assert repetition_vector(graph) == graph.phases


def test_what_each_open_rule_is_worth() -> None:
    found = {(one.network, one.rule.partition(":")[0]): one for one in readings()}
    yolo = [one for one in found.values() if one.network == "tiny_yolo_v2"]
    assert [(round(one.m_our, 2), one.match) for one in yolo] == [
        (65.58, True),
        (65.04, False),
        (65.73, True),
    ]
    assert not found["densenet121", "k rows in the first phase, whatever the padding"].match
    # a row less in front of the pools behind the first and third convolutions: 112 * 64 + 56 * 192
    # values
    padded, counted = (
        found["googlenet", rule].m_our
        for rule in ("strided pools padded by 1 on every side", "as counted")
    )
    assert counted - padded == pytest.approx((112 * 64 + 56 * 192) * 4 / 1e6)


def test_slabs_of_unequal_height() -> None:
    assert slabs(10, (5, 2)) == (Rows(0, 5), Rows(5, 7), Rows(7, 9), Rows(9, 10))
    assert slabs(4, (5, 2)) == (Rows(0, 4),)
    assert str(parse_rows("whole,image=24+8")) == "whole,image=24+8"
    with pytest.raises(InputError, match="adds up"):
        parse_rows("image=24+auto")
    with pytest.raises(InputError, match="above 0"):
        parse_rows("image=24+0")


def test_the_command_writes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, cells = tmp_path / "out.json", tmp_path / "out.csv"
    assert (
        main(
            [
                "reproduce",
                "paper002",
                "--counting",
                "paper",
                "--json",
                str(out),
                "--csv",
                str(cells),
            ]
        )
        == 0
    )
    found = json.loads(out.read_text())
    assert list(found) == ["fig1", "table2", "table3", "findings"]
    assert len(found["table3"]) == 42
    assert len(cells.read_text().splitlines()) == 1 + 4 + 4 + 42 + len(found["findings"])
    rows = found["findings"]
    assert [row["network"] for row in rows[:7]] == list(TABLE_3)
    assert rows[0]["full_channels"][-1]["channel"] == "maxpool1->stage1/block1/add1"
    assert {row["verdict"] for row in rows if row.get("table") == "misprints"} == {"differs"}
    printed = capsys.readouterr().out
    assert "In buffers of the largest rate it stops at 'skip', which holds 1 of 1" in printed


def test_all_is_every_part_that_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(Reproduce, "_rows", lambda self, part: asked.append(part) or [])
    for part in get_args(_Part):
        Reproduce(part=part).run()
    alone = [*dict.fromkeys(part for part in asked if part not in ("all", "paper002"))]
    assert asked[-len(alone) :] == alone and len(alone) == len(get_args(_Part)) - 2


def test_what_cannot_be_written_is_told_before_the_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "all", "--json", "out.json", "--csv", "none/out.csv"]) == 1
    assert capsys.readouterr() == (
        "",
        "none/out.csv: cannot be written: No such file or directory\n",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.networks
def test_the_tables_of_the_page_are_current() -> None:
    text = paper_page.PAGE.read_text()
    assert paper_page.with_tables(text) == text, "python -m tests.paper_page brings them up to date"
