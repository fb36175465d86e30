"""The search for a least peak against all orders of small graphs: the least peak is known exactly there."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from schedules.peak.barriers import Tables, barriers
from schedules.peak.bound import Cuts
from schedules.peak.commits import follow_order
from schedules.peak.implied import Demands
from schedules.peak.problem import Items, Link, Problem, evaluate
from schedules.peak.search import search, uncross_order
from schedules.peak.waypoints import search_waypoints

GRAPHS = 500
MOST_STATES = 4_000

Item = tuple[int, frozenset[int], frozenset[int]]


class Small:
    """A random graph of layers with rows, as plain sets, and as the problem that is searched."""

    def __init__(self, seed: int) -> None:
        self.random = draw = random.Random(seed)
        while True:
            layers = draw.randint(2, 8)
            self.phases = [draw.randint(1, 4 if layers < 6 else 3) for _ in range(layers)]
            if draw.random() < 0.2:  # as an actor of a period in which it never fires
                self.phases[draw.choice([-1, draw.randrange(layers)])] = 0
            self.before: list[set[int]] = []  # all that a firing waits for, directly
            self.links: list[Link] = []
            self.base = np.concatenate([[0], np.cumsum(self.phases)]).tolist()
            self._wire()
            if len(self.downsets()) <= MOST_STATES:
                break
        self.items = self._items()
        count = self.base[-1]
        self.extra = [draw.choice([0, 0, 0, draw.randint(1, 30)]) for _ in range(count)]

    def _wire(self) -> None:
        """Every layer but the first reads one to three earlier ones, row by row."""
        self.before = [set() for _ in range(self.base[-1])]
        for actor, count in enumerate(self.phases):
            for phase in range(1, count):
                self.before[self.base[actor] + phase].add(self.base[actor] + phase - 1)
            sources = range(actor)
            for source in self.random.sample(sources, min(actor, self.random.randint(1, 3))):
                total = self.phases[source]
                ahead = self.random.randint(0, 2)
                need = [-(-(p + 1) * total // count) + ahead for p in range(count)]
                counts = [min(n, total) for n in need]
                if counts and self.random.random() < 0.2:
                    counts = [0, *counts[1:]]
                self.links.append(Link(source, actor, np.array(counts, np.int64)))
                for phase, waits in enumerate(counts):
                    if waits:
                        self.before[self.base[actor] + phase].add(self.base[source] + waits - 1)

    def after(self, firing: int) -> list[int]:
        """The firings that wait for one, and itself."""
        found = {firing}
        for late in range(self.base[-1]):
            if self.before[late] & found:
                found.add(late)
        return sorted(found)

    def _items(self) -> list[Item]:
        draw, found = self.random, []
        for firing in range(self.base[-1]):
            for _ in range(draw.randint(1, 2)):
                claimers = {firing}
                if draw.random() < 0.25:  # in place, or an operand beside others
                    claimers |= set(draw.sample(range(self.base[-1]), min(2, self.base[-1])))
                later = self.after(firing)
                releasers = set(draw.sample(later, min(len(later), draw.randint(1, 3))))
                if draw.random() < 0.1:
                    releasers = set()
                found.append((draw.randint(1, 40), frozenset(claimers), frozenset(releasers)))
        return found

    def problem(self) -> Problem:
        items = [Items.of(size, sorted(c), sorted(r)) for size, c, r in self.items]
        return Problem.of(self.phases, self.links, items, np.array(self.extra))

    def downsets(self) -> list[tuple[int, ...]]:
        """All states, as phases by layer, smallest first; too many of them are cut short."""
        found = {(0,) * len(self.phases)}
        front = list(found)
        while front and len(found) <= MOST_STATES:
            state = front.pop()
            for nxt, _ in self.steps(state):
                if nxt not in found:
                    found.add(nxt)
                    front.append(nxt)
        return sorted(found, key=sum)

    def steps(self, state: tuple[int, ...]) -> list[tuple[tuple[int, ...], int]]:
        done = self.fired(state)
        return [
            (
                (*state[:actor], state[actor] + 1, *state[actor + 1 :]),
                self.base[actor] + state[actor],
            )
            for actor, count in enumerate(self.phases)
            if state[actor] < count and self.before[self.base[actor] + state[actor]] <= done
        ]

    def fired(self, state: tuple[int, ...]) -> set[int]:
        return {self.base[a] + p for a, count in enumerate(state) for p in range(count)}

    def during(self, done: set[int], firing: int) -> int:
        """Bytes alive while a firing runs, by the definition."""
        now = done | {firing}
        held = (size for size, c, r in self.items if c & now and not (r and r <= done))
        return sum(held) + self.extra[firing]

    def least_peak(self) -> int:
        """Over all orders: the least, over ways to each state, of the most alive on the way."""
        states = self.downsets()
        best = {states[0]: 0}
        for state in states[:-1]:
            done = self.fired(state)
            for nxt, firing in self.steps(state):
                peak = max(best[state], self.during(done, firing))
                best[nxt] = min(best.get(nxt, peak), peak)
        return best[states[-1]]

    def least_start(self, firing: int) -> int:
        """The least alive while a firing runs, over all states in which it can start."""
        return min(
            self.during(self.fired(state), firing)
            for state in self.downsets()
            for _, one in self.steps(state)
            if one == firing
        )


def orders(small: Small, problem: Problem) -> dict[str, np.ndarray]:
    """Layer by layer, and a random one."""
    state, order = (0,) * len(small.phases), []
    while len(order) < problem.firings:
        state, firing = small.random.choice(small.steps(state))
        order.append(firing)
    return {"layers": np.arange(problem.firings), "random": np.array(order)}


@pytest.mark.parametrize("block", range(10))
def test_search_against_all_orders(block: int) -> None:
    each, optimal, least = GRAPHS // 10, 0, 0
    for seed in range(block * each, (block + 1) * each):
        small = Small(seed)
        problem = small.problem()
        starts = orders(small, problem)
        best = small.least_peak()
        found = search(problem, starts, "normal" if seed % 10 == 0 else "low")
        assert problem.is_order(found.order), seed
        assert int(evaluate(problem, found.order).max()) == found.peak, seed
        assert found.lower_bound <= best <= found.peak, seed
        if found.optimal:
            assert found.peak == best, seed
        optimal += found.optimal
        least += found.peak == best
    assert least >= 0.95 * each  # in time: so small a graph is gone through whole
    assert optimal >= 0.95 * each


@pytest.mark.parametrize("block", range(4))
def test_each_way_against_all_orders(block: int) -> None:
    """What is used where states are too many: no way comes below the least peak, most reach it."""
    reached = {"waypoints": 0, "drained": 0, "uncrossed": 0, "barriers": 0}
    seeds = range(1000 + 25 * block, 1025 + 25 * block)
    for seed in seeds:
        small = Small(seed)
        problem, best = small.problem(), small.least_peak()
        start = orders(small, problem)["random"]
        cuts, tables = Cuts(problem), Tables(problem)
        worst = int(evaluate(problem, start).max())
        for limit in {best - 1, best, (best + worst) // 2}:
            drained = follow_order(tables, start.tolist(), limit, never)
            barred = barriers(tables, limit + 1, never, nothing)
            for name, order in (
                ("waypoints", search_waypoints(cuts, start, limit, never)),
                ("drained", None if drained is None else np.array(drained)),
                ("barriers", None if barred is None else np.array(barred)),
            ):
                if order is not None:
                    assert problem.is_order(order), (seed, name)
                    assert best <= evaluate(problem, order).max() <= limit, (seed, name)
                    reached[name] += limit == best
        peak, order, bound = uncross_order(cuts, start, never)
        assert problem.is_order(order) and evaluate(problem, order).max() == peak
        assert bound <= best <= peak <= worst
        reached["uncrossed"] += peak == best
    assert reached["waypoints"] >= 0.6 * len(seeds), reached
    assert min(reached.values()) >= 0.1 * len(seeds), reached


@pytest.mark.parametrize("block", range(4))
def test_only_what_does_not_exist_is_refuted(block: int) -> None:
    """Demands of orders below a threshold: kept by all best orders, refuted only where there are none."""
    refuted = proved = 0
    for seed in range(2000 + 25 * block, 2025 + 25 * block):
        small = Small(seed)
        problem, best = small.problem(), small.least_peak()
        start = orders(small, problem)["random"]
        cuts = Cuts(problem), Cuts(problem.backwards())
        bound = max(cuts[0].of(firing).value for firing in range(problem.firings))
        for limit in {bound, best - 1, best, best + 3}:
            demands = Demands(cuts, limit)
            demands.find(start, never)
            assert not (demands.refuted and limit >= best), seed
            if limit == best - 1 and best > bound:
                proved += 1
                refuted += demands.refuted
            if not demands.refuted and limit >= best:
                for side, one in enumerate(demands.cuts):
                    turned = problem.firings - 1 - start[::-1] if side else start
                    order = one.obeying(turned)
                    assert one.problem.is_order(order), seed
                    # some best order does all that is demanded, so no cut excludes it
                    assert max(one.of(f).value for f in range(problem.firings)) <= limit, seed
    assert refuted >= 0.1 * proved > 0, (refuted, proved)


def never() -> bool:
    """Time is never up."""
    return False


def nothing(_: float) -> None:
    """Work is not counted."""


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_figures_are_those_of_the_definition(seed: int) -> None:
    """Bytes alive along an order, forwards and backwards; cuts over all states of every firing."""
    small = Small(seed)
    problem = small.problem()
    back = problem.backwards()
    for order in orders(small, problem).values():
        done: set[int] = set()
        wanted = []
        for firing in order.tolist():
            wanted.append(small.during(done, firing))
            done.add(firing)
        assert evaluate(problem, order).tolist() == wanted
        turned = problem.firings - 1 - order[::-1]
        assert back.is_order(turned)
        assert evaluate(back, turned).tolist() == wanted[::-1]
    cuts, turned_cuts = Cuts(problem), Cuts(back)
    for firing in range(problem.firings):
        least = small.least_start(firing)
        assert cuts.of(firing).value == least
        assert turned_cuts.of(problem.firings - 1 - firing).value == least


def test_states_are_told_apart() -> None:
    """A state is a downset: what the brute force walks over is all that there is."""
    small = Small(1)
    every = {
        state
        for state in product(*(range(count + 1) for count in small.phases))
        if all(small.before[firing] <= small.fired(state) for firing in small.fired(state))
    }
    assert set(small.downsets()) == every
