"""README's picture of the method shows a plan of today, adds up, and can be read on a page."""

from __future__ import annotations

import re

import pytest

import csdfgen
from benchmarks.method_picture import (
    FILE,
    SHOWN,
    Moment,
    fired,
    memory,
    moments,
    picture,
    three_layers,
)
from csdfgen.model.network import Network
from tests.documents import ROOT


@pytest.fixture(scope="module")
def network() -> Network:
    return csdfgen.load(three_layers())


def bytes_of(moment: Moment) -> int:
    return sum(len(column.alive) * column.row_bytes for column in moment.columns)


def test_the_picture_is_the_one_that_is_drawn() -> None:
    assert (ROOT / "docs" / FILE).read_bytes() == picture(), f"make docs draws {FILE} anew"


@pytest.mark.parametrize("rows", [1, 3, "whole"])
def test_rows_in_memory_add_up_to_the_plans_figures(network: Network, rows: int | str) -> None:
    plan = csdfgen.plan(network, rows=rows, result="stored")
    found = moments(plan)
    assert tuple(map(bytes_of, found)) == tuple(plan.lifetimes.live.tolist())
    shown = memory(found, moments(csdfgen.plan(network, rows="whole", result="stored")))
    assert max(shown.alive) == plan.lifetimes.peak_live
    assert shown.buffers == plan.figures["sum_of_capacities"]
    assert shown.whole == plan.figures["whole_layer_live"]


def test_what_is_read_is_in_memory_and_every_row_is_written_once(network: Network) -> None:
    found = moments(csdfgen.plan(network, rows=1, result="stored"))
    written: dict[str, list[int]] = {}
    for moment in found:
        for column in moment.columns:
            assert column.alive.start <= column.read.start or not column.read
            assert column.read.stop <= column.alive.stop
            assert column.alive.stop == column.written.stop
            written.setdefault(column.name, []).extend(
                range(column.written.start, column.written.stop)
            )
    assert {name: len(rows) for name, rows in written.items()} == {
        "image": 16,
        "conv 1": 16,
        "conv 2": 16,
        "pool": 8,
    }
    assert all(rows == list(range(len(rows))) for rows in written.values())


def test_each_layer_is_shown_at_work(network: Network) -> None:
    order = list(fired(csdfgen.plan(network, rows=1, result="stored")))
    assert [name for name, _ in SHOWN] == ["conv 1", "conv 2", "pool"]
    places = [order.index(firing) for firing in SHOWN]
    assert places == sorted(places)


def test_it_can_be_read_on_a_page_720_pixels_wide() -> None:
    text = picture().decode()
    assert ' width="720" ' in text and '<rect width="100%" height="100%" fill="white"/>' in text
    assert min(float(size) for size in re.findall(r'font-size="([\d.]+)"', text)) >= 12
    assert len(text) < 60_000
