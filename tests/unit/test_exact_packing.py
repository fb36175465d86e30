"""The exact packer: proved packings are the least there are, and whoever lacks it is told how to get it."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from csdfgen.errors import PlanError, name_options_as_flags
from csdfgen.planning.packing import Items, clash, pack
from csdfgen.planning.packing.exact import pack_exact
from tests.property.test_packing import least, overlaps, random_items


@pytest.mark.parametrize(
    ("born", "gone", "said"),
    [([3], [3], "gone at firing 3, which is not after"), ([0], [1, 2], "1 sizes of items, but 2")],
)
def test_contradictory_items_are_refused(born: list[int], gone: list[int], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        Items([16], born, gone)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ortools", "ortools.sat", "ortools.sat.python"):
        monkeypatch.setitem(sys.modules, name, None)
    with (
        name_options_as_flags(),
        pytest.raises(
            PlanError, match=r"--pack exact needs OR-Tools.*pip install 'csdfgen\[exact\]'"
        ),
    ):
        pack_exact(Items([16], [0], [1]))


class TestWithOrTools:
    @pytest.fixture(autouse=True)
    def _solver(self) -> None:
        pytest.importorskip("ortools.sat.python.cp_model", reason="OR-Tools is not installed")

    def test_proved_is_least(self) -> None:
        for seed in range(40):
            items = random_items(seed, 6)
            found = pack_exact(items, effort=10.0)
            assert not overlaps(items, found.offsets), seed
            assert found.optimal and found.total == least(items), seed
            assert found.lower_bound == found.total, seed
            assert not (found.offsets % items.alignment).any()

    def test_it_proves_what_bytes_alive_do_not(self) -> None:
        """Around a fixed block the bytes alive at one time are too few."""
        items = Items([16, 32], [0, 0], [1, 1], fixed=[16, -1])
        fast = pack(items)
        assert (fast.total, fast.lower_bound, fast.optimal) == (64, 48, False)
        found = pack_exact(items)
        assert (found.total, found.lower_bound, found.optimal) == (64, 64, True)

    def test_it_finds_what_first_fit_does_not(self) -> None:
        better = 0
        for seed in range(30):
            r = np.random.default_rng(seed)
            born = r.integers(0, 8, 11)
            items = Items(r.integers(1, 120, 11), born, born + 1 + r.integers(0, 6, 11))
            low, found = pack(items, effort="low"), pack_exact(items, effort=10.0)
            assert found.optimal and found.total <= low.total
            better += found.total < low.total
        assert better

    def test_fixed_items_stay(self) -> None:
        for seed in range(12):
            items = random_items(seed, 25, fixed=True)
            found = pack_exact(items, effort=3.0)
            assert clash(items, found.offsets) is None
            kept = items.fixed >= 0
            assert (found.offsets[kept] == items.fixed[kept]).all()
            assert found.lower_bound <= found.total <= pack(items, effort="low").total

    def test_an_effort_that_does_not_exist_is_refused(self) -> None:
        items = Items([32], [0], [1])
        with pytest.raises(PlanError, match="effort 'most' is none of low, normal, high"):
            pack_exact(items, effort="most")
