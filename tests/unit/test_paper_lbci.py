"""Paper 001, reproduced: all printed percentages, the fit, the errata, and what docs/lbci.md shows."""

from __future__ import annotations

import numpy as np
import pytest

from csdfgen.paper.cells import Left
from csdfgen.paper.joining import measured
from csdfgen.paper.joining.fit import fit_times, largest_error, model_sample_time
from csdfgen.paper.joining.times import scale_alexnet
from tests import lbci_page

PRINTED = {26.12, 20.3, 52.43, 16.96, 19.43, 9.56, 11.67, 1, 22.76, 10.08, 4.32}


@pytest.mark.networks
def test_every_printed_percentage_has_a_cell_and_a_reason() -> None:
    cells = [one for part in lbci_page.found()[0].values() for one in part]
    assert {one.printed for one in cells} - {None} == PRINTED
    for one in cells:
        if one.printed is not None and one.table not in ("together", "of a rate"):
            assert one.verdict == "same" and not one.note.startswith("not reached"), one


@pytest.mark.networks
def test_the_errata_are_those_of_the_notes() -> None:
    errata = {one.row for one in lbci_page.found()[0]["errata"]}
    assert len(errata) == 12


@pytest.mark.networks
def test_the_page_shows_what_is_computed() -> None:
    text = lbci_page.PAGE.read_text()
    assert lbci_page.with_tables(text) == text, "python -m tests.lbci_page writes the new tables"


def test_the_fit_finds_the_curve_that_it_is_given() -> None:
    sizes = np.arange(1, 65, dtype=float)
    seconds = sizes * model_sample_time(sizes, 0.05, 0.01, 3.0, 1.2)
    assert largest_error(seconds.tolist()) < 1e-3
    z1, z2, _, _ = fit_times(seconds.tolist())
    assert z2 == pytest.approx(0.01, rel=0.05) and z1 > z2


def test_the_table_is_scaled_and_shared() -> None:
    assert scale_alexnet(0.02).whole[1] == pytest.approx(0.02)
    dense = scale_alexnet(0.02, share=0.75).stage[-1]
    assert dense[1] == pytest.approx(0.015)


@pytest.mark.networks
def test_policies_are_measured_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "NETWORK": "zoo:lenet5",
        "POLICIES": ("serial", "lbci"),
        "COUNT": 5,
    }.items():
        monkeypatch.setattr(measured, name, value)
    left: list[Left] = []
    cells = list(measured.policies(left))
    assert not left
    assert {one.row for one in cells} == {
        f"load {load:g}: {policy}" for load in measured.LOADS for policy in ("serial", "lbci")
    }
    assert {one.ours for one in cells if "serial" in one.row and one.unit == "%"} == {0.0}
