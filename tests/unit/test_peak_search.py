"""What a search for the least peak promises: repeatable, interruptible, quick, and refusing in one line."""

from __future__ import annotations

from math import inf
from time import monotonic

import numpy as np
import pytest

from csdfgen.errors import InputError, ScheduleError
from schedules.peak.barriers import State, Tables, barriers, pull_actor
from schedules.peak.bound import Cuts, lower_bound
from schedules.peak.problem import Items, Link, Problem, evaluate
from schedules.peak.search import search
from tests.counting import count_calls


def rows(firings: range | list[int]) -> np.ndarray:
    return np.array(firings, np.int64).reshape(-1, 1)


def two_branches(height: int) -> Problem:
    """A source whose rows two long branches read, joined row by row; both can run ahead."""
    layers = 6
    phases = [height] * layers  # 0 source, 1-2 and 3-4 branches, 5 join
    ahead = np.minimum(np.arange(height) + 2, height)
    pairs = [(0, 1), (1, 2), (0, 3), (3, 4), (2, 5), (4, 5)]
    links = [Link(a, b, ahead) for a, b in pairs]
    items = []
    for actor, (size, readers) in enumerate(
        [(100, [1, 3]), (900, [2]), (60, [5]), (500, [4]), (60, [5])]
    ):
        late = np.minimum(np.arange(height) + 1, height - 1)
        items.append(
            Items(
                np.full(height, size),
                rows(range(actor * height, (actor + 1) * height)),
                np.stack([reader * height + late for reader in readers], axis=1),
            )
        )
    kept = Items(
        np.full(height, 5), rows(range(5 * height, 6 * height)), np.empty((height, 0), np.int64)
    )
    extra = np.zeros(layers * height, np.int64)
    extra[height : 2 * height] = 40
    return Problem.of(phases, links, [*items, kept], extra)


def layers_of(problem: Problem) -> dict[str, np.ndarray]:
    return {"layers": np.arange(problem.firings)}


def test_a_search_meets_the_bound_of_two_branches() -> None:
    problem = two_branches(12)
    start = layers_of(problem)
    found = search(problem, start)
    assert found.optimal and problem.is_order(found.order)
    assert found.peak < int(evaluate(problem, start["layers"]).max()) / 2
    assert int(evaluate(problem, found.order).max()) == found.peak == found.lower_bound


def test_a_firing_needs_what_it_takes_in_every_order() -> None:
    problem = two_branches(5)
    first = layers_of(problem)["layers"]
    for order in (first, search(problem, {"layers": first}).order):
        assert (problem.alone[order] <= evaluate(problem, order)).all()


def test_what_a_firing_reads_to_the_end_is_a_bound() -> None:
    """Three rows of 10 bytes are read at once; the last is not released where it could be before it is made."""
    whole = Items(np.full(3, 10), rows([0, 1, 2]), rows([3, 3, 3]))
    made, late = Items.of(5, [3], [3]), Items(np.array([7]), rows([2]), np.array([[1, 4]]))
    links = [Link(0, 1, np.array([3])), Link(1, 2, np.array([1]))]
    problem = Problem.of([3, 1, 1], links, [whole, made, late], np.array([0, 0, 0, 1, 0]))
    assert problem.alone.tolist() == [10, 10, 17, 36, 7]


def test_equal_arguments_give_equal_orders() -> None:
    problem = two_branches(30)
    orders = [search(problem, layers_of(problem), "normal", seed=3).order for _ in range(2)]
    assert np.array_equal(*orders)


def test_a_start_that_meets_the_bound_is_kept() -> None:
    problem = two_branches(10)
    best = search(problem, layers_of(problem), "normal")
    again = search(problem, {"mine": best.order})
    assert np.array_equal(again.order, best.order) and again.origin == "mine"


def test_small_problems_take_no_time() -> None:
    problem = two_branches(12)
    search(problem, layers_of(problem))  # what is loaded once
    calls, _ = count_calls(lambda: search(problem, layers_of(problem)))
    assert calls < 200_000  # 15 ms


def test_seconds_end_a_search() -> None:
    problem = two_branches(400)
    started = monotonic()
    found = search(problem, layers_of(problem), 0.2)
    assert monotonic() - started < 100
    assert problem.is_order(found.order) and found.lower_bound <= found.peak


def test_a_stop_ends_a_search_with_the_best_so_far() -> None:
    problem = two_branches(100)
    asked = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 5

    found = search(problem, layers_of(problem), stop=stop)
    assert problem.is_order(found.order) and not found.interrupted


@pytest.mark.parametrize("moment", [0, 1, 3, 10, 40])
def test_ctrl_c_gives_the_best_so_far(moment: int) -> None:
    problem = two_branches(100)
    asked = []

    def interrupt() -> bool:
        asked.append(1)
        if len(asked) > moment:
            raise KeyboardInterrupt
        return False

    found = search(problem, layers_of(problem), stop=interrupt)
    assert found.interrupted
    assert int(evaluate(problem, found.order).max()) == found.peak >= found.lower_bound


def test_progress_only_gets_better() -> None:
    problem = two_branches(60)
    told: list[tuple[int, int]] = []
    found = search(problem, layers_of(problem), progress=lambda *one: told.append(one))
    assert told[-1] == (found.peak, found.lower_bound)
    peaks, bounds = zip(*told, strict=True)
    assert list(peaks) == sorted(peaks, reverse=True) and list(bounds) == sorted(bounds)


@pytest.mark.parametrize("effort", ["lots", 0, -1.0, float("nan")])
def test_an_effort_that_does_not_exist_is_refused(effort: str | float) -> None:
    problem = two_branches(2)
    with pytest.raises(InputError, match="effort="):
        search(problem, layers_of(problem), effort)


def test_what_is_no_order_is_refused() -> None:
    problem = two_branches(2)
    with pytest.raises(ScheduleError, match="'back' is no order of the 12 firings"):
        search(problem, {"back": np.arange(12)[::-1]})
    with pytest.raises(ScheduleError, match="none was given"):
        search(problem, {})


def test_links_lead_to_larger_numbers() -> None:
    with pytest.raises(ScheduleError, match="actor 0 waits for actor 1"):
        Problem.of([1, 1], [Link(1, 0, np.array([1]))], [])


def test_an_item_is_claimed_before_it_is_released() -> None:
    with pytest.raises(
        ScheduleError, match=r"firings \[0\] claim may be released before, by firings \[1\]"
    ):
        Problem.of([1, 1], [], [Items.of(4, [0], [1])])


def test_nothing_to_fire() -> None:
    found = search(Problem.of([], [], []), {"none": np.array([], np.int64)})
    assert found.peak == 0 and found.optimal


def test_items_alive_together_are_one() -> None:
    """The first of ordered claimers counts, the last of ordered releasers, and equal items add up."""
    items = [Items.of(10, [0, 1], [1, 2]), Items.of(5, [0], [2]), Items.of(7, [0], [1])]
    links = [Link(0, 1, np.array([1])), Link(1, 2, np.array([1]))]
    problem = Problem.of([1, 1, 1], links, items)
    (group,) = problem.items
    assert group.size.tolist() == [7, 15]
    assert group.claimers.tolist() == [[0], [0]] and group.releasers.tolist() == [[1], [2]]


def test_a_cut_is_the_same_again_whatever_became_of_its_state() -> None:
    problem = two_branches(6)
    cuts, nothing = Cuts(problem), np.zeros(problem.firings, bool)
    for firing in range(problem.firings):
        value, state = cuts.between(firing, nothing, ~nothing)
        expected = state.copy()
        state[:] = ~state
        assert cuts.between(firing, nothing, ~nothing)[0] == value
        assert np.array_equal(cuts.between(firing, nothing, ~nothing)[1], expected)
    early, late = 11, 18  # of two branches
    before = cuts.between(late, nothing, ~nothing)[1]
    cuts.demand(early, late)
    assert not before[early] and cuts.between(late, nothing, ~nothing)[1][early]


def test_large_bytes_are_rounded_down_in_the_bound() -> None:
    """Sums beyond 32 bits: cuts may be below the least, never above."""
    problem = two_branches(8)
    large = [Items(g.size * 2**40 + 1, g.claimers, g.releasers) for g in problem.items]
    big = Problem.of(problem.phases, problem.links, large, problem.extra * 2**40)
    order = search(problem, layers_of(problem)).order
    live = evaluate(big, order)
    bound = lower_bound(Cuts(big), order, live, 0, lambda: False)
    exact = lower_bound(Cuts(problem), order, evaluate(problem, order), 0, lambda: False)
    assert 0.999 * exact * 2**40 < bound <= live.max()


def test_more_than_a_table_holds_is_still_ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the table of ancestors there are no cuts, but starts, barriers and a bound."""
    monkeypatch.setattr("schedules.peak.problem.MAX_CELLS", 10)
    problem = two_branches(20)
    start = layers_of(problem)
    found = search(problem, start)
    assert found.origin == "barriers" and problem.is_order(found.order)
    assert 0 < found.lower_bound <= found.peak < int(evaluate(problem, start["layers"]).max())
    # Symptom: it was made all the same, and took 6 GB for a Sum of 5,000 inputs
    assert "ancestors" not in vars(problem)


def test_barriers_keep_a_limit_to_the_byte() -> None:
    problem = two_branches(5)

    def order(limit: float) -> list[int] | None:
        return barriers(Tables(problem), limit, lambda: False, lambda microseconds: None)

    free = order(inf)
    assert free is not None
    peak = int(evaluate(problem, np.array(free)).max())
    below = order(peak + 1)
    assert below is not None and int(evaluate(problem, np.array(below)).max()) == peak
    assert order(peak) is None


def test_an_actor_of_many_sources_looks_at_each_once() -> None:
    """Symptom: after each of n sources it began from the first again; 800 convolutions that are added took 24 s."""

    class Counts(list):
        looks = 0

        def __getitem__(self, phase: object) -> int:
            Counts.looks += 1
            return 1

    sources = 50
    links = [Link(k, sources, np.array([1])) for k in range(sources)]
    nothing = np.zeros(sources + 1, np.int64)
    tables = Tables(Problem.of([1] * (sources + 1), links, [], nothing))
    tables.waits[sources] = [(one, Counts()) for one, _ in tables.waits[sources]]
    order: list[int] = []
    assert len(list(pull_actor(State(tables), sources, order))) == sources + 1
    assert sorted(order) == list(range(sources + 1)) and order[-1] == sources
    assert Counts.looks == 2 * sources
