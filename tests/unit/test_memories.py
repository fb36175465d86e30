"""Two memories: the choice against all choices, what is refused, and the bytes that phases move."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import csdfgen
from csdfgen.errors import PlanError
from csdfgen.planning.memories import FAST, SLOW, Split, row_traffic, split
from csdfgen.planning.packing import Items, clash, pack
from tests.property.test_packing import least


def taken(items: Items, which: np.ndarray) -> Items:
    return Items(items.sizes[which], items.born[which], items.gone[which], items.alignment)


def check(items: Items, moved: np.ndarray, fast: int, slow: int, found: Split) -> None:
    """Each memory on its own: within its bytes, no overlap, aligned; every byte moved is counted."""
    for pool, there, capacity in ((FAST, found.fast, fast), (SLOW, ~found.fast, slow)):
        which = np.flatnonzero(there)
        assert clash(taken(items, which), found.offsets[which]) is None
        ends = (found.offsets + items.sizes)[there & (items.sizes > 0)]
        assert ends.max(initial=0) == found.pools[pool] <= capacity
        assert found.traffic[pool] == moved[there].sum()
        assert [found.pool(i) for i in which] == [pool] * len(which)
    assert not (found.offsets % items.alignment).any()


def random_case(seed: int, most: int) -> tuple[Items, np.ndarray, int, int]:
    r = np.random.default_rng(seed)
    count = int(r.integers(2, most + 1))
    born = r.integers(0, 8, count)
    items = Items(
        r.integers(1, 100, count), born, born + r.integers(1, 6, count), int(r.choice([1, 16]))
    )
    fast = int(r.integers(20, 160))
    return items, r.integers(0, 1000, count), fast, fast + int(r.integers(0, 300))


def least_lost(items: Items, moved: np.ndarray, fast: int, slow: int) -> int | None:
    """The fewest bytes moved of the slow memory over all choices and packings; None if none fits."""
    best: int | None = None
    for flags in product([True, False], repeat=len(items)):
        there = np.array(flags)
        lost = int(moved[~there].sum())
        if (best is None or lost < best) and all(
            least(taken(items, np.flatnonzero(one))) <= capacity
            for one, capacity in ((there, fast), (~there, slow))
        ):
            best = lost
    return best


def test_choices_against_all_choices() -> None:
    best, refused, possible = 0, 0, 0
    for seed in range(150):
        items, moved, fast, slow = random_case(seed, 5)
        wanted = least_lost(items, moved, fast, slow)
        possible += wanted is not None
        try:
            found = split(items, moved, fast, slow)
        except PlanError:
            refused += wanted is not None
            continue
        assert wanted is not None, seed
        check(items, moved, fast, slow, found)
        assert found.traffic[SLOW] >= wanted, seed
        best += found.traffic[SLOW] == wanted
    assert possible > 100
    assert refused <= 1 and best >= 0.97 * possible, (possible, best, refused)


@pytest.mark.networks
def test_many_items() -> None:
    for seed in range(5):
        r = np.random.default_rng(seed)
        born = r.integers(0, 200, 400)
        spans = 1 + r.integers(0, 40, 400) * (r.random(400) < 0.7)
        items = Items(r.choice([64, 256, 700, 4096], 400), born, born + spans)
        moved = items.sizes * r.integers(2, 6, 400)
        whole = pack(items, effort="low")
        fast = whole.total // int(r.integers(2, 9))
        found = split(items, moved, fast, 2 * whole.total)
        check(items, moved, fast, 2 * whole.total, found)
        assert 0 < found.traffic[SLOW] < moved.sum()
        tight = split(items, moved, fast, whole.total, effort=1.0)
        check(items, moved, fast, whole.total, tight)


def test_a_slow_memory_that_needs_the_fast_one() -> None:
    items, moved = Items([64, 64, 32], [0, 0, 5], [2, 2, 6]), np.array([1, 2, 900])
    found = split(items, moved, 64, 64)
    check(items, moved, 64, 64, found)
    assert found.fast.tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("fast", "slow", "said"),
    [
        (128, 64, "fast memory has 128 bytes, more than the slow one with 64; exchange"),
        (0, 64, "give each 1 byte or more"),
        (
            64,
            128,
            "256 bytes .* alive at one time, where the fast memory has 64 and the slow one 128",
        ),
        (64, 96, "'x' takes 128 bytes, where the slow memory has 96 and the fast one 64"),
    ],
)
def test_refused(fast: int, slow: int, said: str) -> None:
    items = Items([128, 128], [0, 1], [2, 3], names=["x", "y"])
    with pytest.raises(PlanError, match=said) as told:
        split(items, np.ones(2, np.int64), fast, slow)
    assert "\n" not in str(told.value)


def test_alive_together_fits_but_no_packing_does() -> None:
    """48 bytes never lie beside each other where 32 and 32 are alive: as many bytes are not enough."""
    items = Items([48, 48], [0, 0], [1, 1])
    with pytest.raises(PlanError, match="96 bytes"):
        split(items, np.ones(2, np.int64), 40, 56)


def test_rows_are_counted_as_phases_read_them() -> None:
    plan = csdfgen.plan(csdfgen.load("zoo:lenet5"), rows=1)
    reads, writes = row_traffic(plan.conversion, plan.sharing, plan.buffers)
    for found in (reads, writes):
        assert {name: len(rows) for name, rows in found.items()} == {
            b.name: b.rows for b in plan.buffers
        }
    (conv,) = [
        w
        for w in plan.conversion.actors
        if w.layer and w.reads[0].tensor.name == plan.network.inputs[0].name
    ]
    tensor, read = conv.reads[0].tensor, conv.reads[0]
    each = [sum(rows.start <= row < rows.stop for rows in read.rows) for row in range(tensor.rows)]
    home = plan.sharing.places[tensor.name].buffer
    assert reads[home].tolist() == [n * tensor.row_bytes for n in each]
    assert set(writes[home].tolist()) == {tensor.row_bytes}
    assert max(each) == 5  # a 5x5 kernel reads a row for five of its own
    for buffer in plan.buffers:
        if buffer.kind == "workspace":
            for found in (reads, writes):
                assert found[buffer.name].tolist() == list(buffer.sizes)
