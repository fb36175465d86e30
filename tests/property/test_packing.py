"""Packings of random items: nothing overlaps, nothing is below the bound or the proven least."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from csdfgen.errors import PlanError
from csdfgen.planning.packing import Items, clash, lower_bound, pack, repair
from csdfgen.planning.packing.first_fit import Arena, fit_few, group_items
from csdfgen.planning.packing.items import breadths
from tests.command import python

ROOT = Path(__file__).resolve().parents[2]


def random_items(seed: int, most: int = 120, *, fixed: bool = False) -> Items:
    """Rows of a few sizes, often equal, and items of one firing; a few of them of no bytes."""
    r = np.random.default_rng(seed)
    count = int(r.integers(1, most + 1))
    born = r.integers(0, r.integers(1, 40), count)
    gone = born + 1 + r.integers(0, 15, count) * (r.random(count) < r.random())
    sizes = r.choice(r.integers(0, 300, 8), count)
    items = Items(sizes, born, gone, alignment=int(r.choice([1, 4, 16, 64])))
    if not fixed:
        return items
    # offsets of a first fit are free of overlaps; moved apart they are no longer aligned
    offsets = pack(items, effort="low").offsets * 2 + int(r.integers(0, 9))
    kept = np.where(r.random(count) < 0.2, offsets, -1)
    return Items(sizes, born, gone, alignment=items.alignment, fixed=kept)


def overlaps(items: Items, offsets: np.ndarray) -> list[tuple[int, int]]:
    """Pairs that share a byte while both are alive, each pair looked at."""
    found = []
    for i in range(len(items)):
        for j in range(i):
            together = items.born[i] < items.gone[j] and items.born[j] < items.gone[i]
            low = max(offsets[i], offsets[j])
            high = min(offsets[i] + items.sizes[i], offsets[j] + items.sizes[j])
            if together and low < high:
                found.append((j, i))
    return found


def most_alive(items: Items) -> int:
    """Bytes alive at one time, by looking at every firing."""
    return max(
        int(items.sizes[(items.born <= t) & (t < items.gone)].sum())
        for t in range(int(items.gone.max()))
    )


def least(items: Items) -> int:
    """The fewest bytes of all packings: some order of items makes first fit find it."""
    best = 2**62
    for order in permutations(range(len(items))):
        offsets: dict[int, int] = {}
        for i in order:
            rivals = [
                (offsets[j], offsets[j] + int(items.sizes[j]))
                for j in offsets
                if items.sizes[i] and items.sizes[j]
                and items.born[i] < items.gone[j] and items.born[j] < items.gone[i]
            ]  # fmt: skip
            ends = [0, *(-(-high // items.alignment) * items.alignment for _, high in rivals)]
            offsets[i] = min(
                at for at in ends
                if all(at + items.sizes[i] <= low or high <= at for low, high in rivals)
            )  # fmt: skip
        ends = [offsets[i] + int(items.sizes[i]) for i in order if items.sizes[i]]
        best = min(best, max(ends, default=0))
    return best


@pytest.mark.parametrize("start", range(0, 300, 50))
def test_nothing_overlaps(start: int) -> None:
    for seed in range(start, start + 50):
        items = random_items(seed, fixed=seed % 3 == 0)
        found = pack(items, effort="low")
        assert not overlaps(items, found.offsets), seed
        assert clash(items, found.offsets) is None, seed
        assert found.total == (found.offsets + items.sizes)[items.sizes > 0].max(initial=0)
        assert most_alive(items) <= found.lower_bound <= found.total, seed
        kept = items.fixed >= 0
        assert (found.offsets[kept] == items.fixed[kept]).all()
        assert not (found.offsets[~kept] % items.alignment).any()


@pytest.mark.parametrize("start", range(0, 300, 100))
def test_few_items_against_all_packings(start: int) -> None:
    for seed in range(start, start + 100):
        items = random_items(seed, 5 if seed % 10 else 6)
        found, best = pack(items, effort="low"), least(items)
        assert lower_bound(items) <= best <= found.total, seed
        if found.optimal:
            assert found.total == best, seed


def test_items_of_the_fullest_times_first() -> None:
    """Other orders take 144 bytes; there is no time for repair."""
    items = Items([48, 64, 32, 48], [4, 1, 4, 2], [5, 4, 7, 5])
    assert pack(items, effort=0).total == lower_bound(items) == 128


def test_the_most_bytes_beside_an_item_are_those_of_some_firing() -> None:
    for seed in range(100):
        items = random_items(seed, 40)
        alive = [
            [items.sizes[(items.born <= t) & (t < items.gone)].sum() for t in range(born, gone)]
            for born, gone in zip(items.born, items.gone, strict=True)
        ]
        assert breadths(items).tolist() == [*map(max, alive)], seed


def test_in_bulk_is_one_by_one() -> None:
    for seed in range(150):
        items = random_items(seed, 90, fixed=seed % 2 == 0)
        groups = group_items(items)
        order = np.random.default_rng(seed).permutation(len(groups)).tolist()
        bulk, single = (
            Arena(items, groups).fit(order, np.inf),
            fit_few(items, groups, order, np.inf),
        )
        assert bulk is not None and single is not None
        assert bulk[0].tolist() == single[0].tolist() and bulk[1] == single[1], seed


def test_planted_overlaps_are_found() -> None:
    planted = 0
    for seed in range(200):
        items = random_items(seed, 40)
        offsets = pack(items, effort="low").offsets
        r = np.random.default_rng(seed)
        moved = offsets.copy()
        moved[r.integers(len(items))] = r.choice(offsets)
        wrong = overlaps(items, moved)
        planted += bool(wrong)
        found = clash(items, moved)
        assert (found in wrong) if wrong else found is None, seed
    assert planted > 50


def test_fixed_items_that_overlap_are_refused() -> None:
    items = Items([32, 32, 8], [0, 1, 2], [2, 3, 4], fixed=[0, 16, -1], names=["x", "y", "z"])
    with pytest.raises(
        PlanError, match=r"'x' is fixed at 0 \(32 bytes\) and 'y' at 16 \(32 bytes\)"
    ):
        pack(items)


def test_search_gets_smaller_and_ends_at_the_limit() -> None:
    """The search is repeatable, and ends at the limit or at the bound."""
    gained = 0
    for seed in range(6):
        items = random_items(seed + 700, 200, fixed=seed % 3 == 0)
        low, found = pack(items, effort="low"), pack(items, effort="normal")
        assert not overlaps(items, found.offsets), seed
        assert found.total <= low.total
        gained += low.total - found.total
        assert (found.offsets[items.fixed >= 0] == items.fixed[items.fixed >= 0]).all()
        again = pack(items, effort="normal")
        assert again.offsets.tolist() == found.offsets.tolist()
        assert pack(items, effort="high", limit=low.total).total == low.total
    assert gained > 0


def test_a_second_search_never_takes_more() -> None:
    gains = []
    for seed in (*range(50), 1627):
        items = random_items(seed, 200)
        once, twice = pack(items, effort="low"), pack(items, effort="low", twice=True)
        assert clash(items, twice.offsets) is None, seed
        gains.append(once.total - twice.total)
    assert min(gains) == 0 < gains[-1]


def test_few_items_are_repaired_in_lists_as_in_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    improved = 0
    for seed in range(60):
        items = random_items(seed + 300, 48, fixed=seed % 3 == 0)
        found = pack(items, effort="low")
        improved += found.total < pack(items, effort=0.0).total
        with monkeypatch.context() as patch:
            patch.setattr(repair, "_FEW", 0)
            assert pack(items, effort="low").offsets.tolist() == found.offsets.tolist(), seed
    assert improved >= 2


def test_items_of_exabytes_are_packed_without_repair() -> None:
    """Offsets and numbers of items of an arena that is being repaired share the bits of an integer."""
    small = random_items(28, most=400)
    unrepaired = pack(small, effort=0.0).total
    assert pack(small, effort="low").total < unrepaired
    items = Items(small.sizes << 44, small.born, small.gone, alignment=small.alignment << 44)
    found = pack(items, effort="low")
    assert found.total == unrepaired << 44
    assert not overlaps(items, found.offsets)


def test_a_packing_is_the_same_whatever_vectors_numpy_has() -> None:
    """numpy sorts with those of the processor, which leave equal keys in an order of their own."""
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    if not found:
        pytest.skip("numpy has no vectors beyond its least here")
    program = """
from csdfgen.planning.packing import pack
from tests.property.test_packing import random_items
for seed in range(700, 730):
    print(pack(random_items(seed, 200), effort="low").offsets.tolist())
"""
    plain, with_vectors = (
        python("-c", program, env={"NPY_DISABLE_CPU_FEATURES": without}, check=True).stdout
        for without in (" ".join(found), "")
    )
    assert plain == with_vectors


@pytest.mark.parametrize("effort", ["most", -1.0, float("nan"), float("inf")])
def test_unknown_efforts_are_refused(effort: str | float) -> None:
    with pytest.raises(PlanError, match="effort"):
        pack(Items([16], [0], [1]), effort=effort)
