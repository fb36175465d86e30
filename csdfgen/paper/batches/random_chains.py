"""How often does Algorithm 1 miss the best plan? Random chains, and all orders of calls.

Chains of 1 to 4 layers and 2 to 5 images, small enough for a search over every order. Memory is between
what the largest call on one image needs and what one on all images does.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from csdfgen.errors import ScheduleError
from schedules.batches.chain import Chain, ChainLayer
from schedules.batches.planning import plan_cheapest, plan_exhaustively, plan_printed
from schedules.batches.plans import ChainPlan
from schedules.batches.replay import replay

COUNT, SEED = 3000, 2020


@dataclass(frozen=True, slots=True)
class Task:
    """A request on a chain."""

    chain: Chain
    images: int
    memory: int


def tasks(count: int = COUNT, seed: int = SEED) -> Iterator[Task]:
    """The same ones every time."""
    rng = random.Random(seed)
    for _ in range(count):
        layers, images = rng.randint(1, 4), rng.randint(2, 5)
        sizes = [rng.randint(1, 4) for _ in range(layers + 1)]
        chain = Chain(tuple(_layer(rng, sizes, number, images) for number in range(layers)))
        needs = [layer.held(1) for layer in chain.layers]
        yield Task(chain, images, rng.randint(max(needs), images * max(needs)))


def _layer(rng: random.Random, sizes: list[int], number: int, images: int) -> ChainLayer:
    """A call on one image more costs something more, or nothing; workspace grows with the images."""
    costs = [rng.randint(2, 12)]
    while len(costs) < images:
        costs.append(costs[-1] + rng.randint(0, 8))
    one = rng.randint(0, 5)
    workspace = tuple(one * b for b in range(1, images + 1))
    return ChainLayer(f"layer{number}", tuple(costs), workspace, sizes[number], sizes[number + 1])


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of one way to plan, over all tasks for which there is a plan. optimal, worse, missed: how many tasks;
    largest: the most by which a plan is worse, as a part of the best cost. below: plans that cost less than
    the best one, or do not do in their memory what they say, of which there may be none.
    """

    feasible: int
    optimal: int
    worse: int
    missed: int
    largest: float
    below: int


@cache
def compare_planners(count: int = COUNT, seed: int = SEED) -> dict[str, Comparison]:
    """Algorithm 1, the same with images that gather, and `plan_cheapest`, against all orders; requests whole."""
    found: dict[str, list[tuple[float, ChainPlan | None]]] = {"printed": [], "gathering": [], "searched": []}  # fmt: skip
    invented = dict.fromkeys(found, 0)
    for task in tasks(count, seed):
        best = plan_exhaustively(task.chain, task.images, task.memory)
        plans = {
            "printed": plan_printed(task.chain, task.images, task.memory, unit=1),
            "gathering": plan_cheapest(
                task.chain, task.images, task.memory, rounds=False, searched=0
            ),
            "searched": plan_cheapest(task.chain, task.images, task.memory, rounds=False),
        }
        for name, plan in plans.items():
            invented[name] += not replay_plan(task, plan)
            if best is None:
                invented[name] += plan is not None
            else:
                found[name].append((best.cost, plan))
    return {name: _comparison(rows, invented[name]) for name, rows in found.items()}


def _comparison(rows: list[tuple[float, ChainPlan | None]], invented: int) -> Comparison:
    ratios = [plan.cost / best for best, plan in rows if plan is not None]
    return Comparison(
        feasible=len(rows),
        optimal=sum(ratio == 1 for ratio in ratios),
        worse=sum(ratio > 1 for ratio in ratios),
        missed=len(rows) - len(ratios),
        largest=max(ratios, default=1.0) - 1,
        below=sum(ratio < 1 for ratio in ratios) + invented,
    )


def replay_plan(task: Task, plan: ChainPlan | None) -> bool:
    """Whether a plan, called by call, stays within the memory and costs what it says; no plan does."""
    if plan is None:
        return True
    try:
        done = replay(task.chain, plan)
    except ScheduleError:
        return False
    return done.peak <= task.memory and done.cost == plan.cost and plan.images == task.images
