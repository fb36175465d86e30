"""Batches of different layers: the dynamic program, the search, and the checker that knows neither."""

from __future__ import annotations

import random
from dataclasses import replace
from math import inf

import pytest

from csdfgen.errors import InputError, ScheduleError
from csdfgen.paper.batches.literal import Literal
from csdfgen.paper.batches.random_chains import Task, compare_planners, replay_plan, tasks
from schedules.batches.baselines import largest_uniform, plan_best_uniform, plan_fixed, plan_greedy
from schedules.batches.chain import Chain, ChainLayer
from schedules.batches.exact import ExactSearch
from schedules.batches.planning import plan_cheapest, plan_exhaustively, plan_printed, plan_within
from schedules.batches.plans import BatchFiring, ChainPlan, batches
from schedules.batches.replay import replay
from schedules.batches.steps import Steps, merge_least
from schedules.batches.tables import Tables


def layer(
    name: str, costs: tuple[float, ...], sizes: tuple[int, int], each: int = 0, *branches: Chain
) -> ChainLayer:
    """Workspace: so many bytes an image."""
    workspace = tuple(each * b for b in range(1, len(costs) + 1))
    return ChainLayer(name, costs, workspace, *sizes, branches)


def example() -> Chain:
    """The paper's three layers, whose second needs four bytes an image."""
    return Chain(tuple(layer(f"L{k}", (4, 6), (1, 1), ws) for k, ws in ((1, 1), (2, 4), (3, 1))))


def gathering() -> Chain:
    """Two images lie between two layers neither of which takes both."""
    return Chain((layer("a", (4, 6), (1, 1), 2), layer("b", (4, 6), (1, 2), 0)))


def branched(rng: random.Random) -> Task:
    """Layers, one of which has branches of one or two layers."""
    count, images = rng.randint(1, 3), rng.randint(2, 4)
    sizes = [rng.randint(1, 3) for _ in range(count + 1)]
    special = rng.randrange(count)
    layers = []
    for number in range(count):
        inner: tuple[Chain, ...] = ()
        if number == special:
            inner = tuple(
                random_branch(rng, images, rng.randint(1, 2)) for _ in range(rng.randint(1, 2))
            )
        costs = random_costs(rng, images)
        ends = sizes[number], sizes[number + 1]
        layers.append(layer(f"{number}", costs, ends, rng.randint(0, 2), *inner))
    return Task(Chain(tuple(layers)), images, rng.randint(8, 30))


def random_branch(rng: random.Random, images: int, count: int) -> Chain:
    """Reads and writes what is the module's; sometimes its last result is its own."""
    sizes = [0, *(rng.randint(1, 3) for _ in range(count - 1)), rng.choice((0, 0, 2))]
    return Chain(
        tuple(
            layer(f"in{k}", random_costs(rng, images), (sizes[k], sizes[k + 1]), rng.randint(0, 4))
            for k in range(count)
        )
    )


def random_costs(rng: random.Random, images: int) -> tuple[int, ...]:
    """Not always growing: two calls may cost less than one on twice as many."""
    return tuple(rng.randint(1, 12) for _ in range(images))


# The paper's example --------------------------------------------------------------------------


def test_the_worked_example_takes_10_an_image() -> None:
    chain = example()
    plan = plan_printed(chain, 2, 7, unit=1)
    assert plan is not None and plan.cost_per_image == 10
    assert [batches(plan, k) for k in range(3)] == [(2,), (1, 1), (2,)]
    done = replay(chain, plan)
    assert (done.peak, done.cost) == (7, 20)
    base = plan_fixed(chain, 2, 7)
    assert base is not None and base.cost_per_image == 12 and base.rounds == (1, 1)
    assert plan_greedy(chain, 2, 7) is None  # 2 + 2 and 4 beside


def test_the_tables_are_the_recurrences() -> None:
    """Per image there, of all images here; only plain chains are written down literally."""
    for task in tasks(150, seed=5):
        said = Literal(task.chain).opt(0, len(task.chain) - 1, task.images, task.memory)
        ours = Tables(task.chain, task.images, task.memory, "printed").cost(task.images)
        assert ours == said * task.images


def test_a_product_with_no_images_spoils_every_entry() -> None:
    found = Literal(example(), skipped=False).opt(0, 2, 2, 7)
    assert found != found
    assert Literal(example()).opt(0, 2, 2, 7) == 10


def test_images_gather_between_layers_that_take_few() -> None:
    chain = gathering()
    assert plan_printed(chain, 2, 5, unit=1) is None
    plan = plan_cheapest(chain, 2, 5, rounds=False, searched=0)
    assert plan is not None and plan.cost == 16
    assert [call.held for call in replay(chain, plan).calls] == [5, 5, 4, 5]


def test_the_printed_latency_bound_is_of_one_image() -> None:
    chain = example()
    accepted = plan_printed(chain, 2, 7, unit=1, cost_limit=12)
    assert accepted is not None and accepted.cost == 20
    assert plan_printed(chain, 2, 7, unit=1, cost_limit=9) is None
    kept = plan_within(chain, 2, 7, 12)
    assert kept is not None and (kept.images, kept.cost) == (1, 12)
    both = plan_within(chain, 2, 7, 20)
    assert both is not None and (both.images, both.cost) == (2, 20)
    assert plan_within(chain, 2, 7, 11) is None


# Against all orders ---------------------------------------------------------------------------


def test_random_networks_against_all_orders() -> None:
    """All 3,000 are in `csdfgen reproduce vbs`."""
    found = compare_planners(400)
    assert found["printed"].feasible > 200
    assert all(one.below == 0 for one in found.values())
    assert found["printed"].worse > 0 and found["printed"].missed > 0
    gathered = found["gathering"]
    assert gathered.missed == 0 and gathered.optimal >= 0.995 * gathered.feasible
    assert found["searched"].optimal == found["searched"].feasible


def test_corrected_is_never_above_printed() -> None:
    for task in tasks(300, seed=6):
        by_rule = [
            Tables(task.chain, task.images, task.memory, rule).cost(task.images)
            for rule in ("printed", "gathering")
        ]
        assert by_rule[1] <= by_rule[0]


def test_branches_against_all_orders() -> None:
    rng = random.Random(7)
    feasible = 0
    for _ in range(150):
        task = branched(rng)
        best = plan_exhaustively(task.chain, task.images, task.memory)
        plans = [
            plan_printed(task.chain, task.images, task.memory, unit=1),
            plan_cheapest(task.chain, task.images, task.memory, rounds=False, searched=0),
            plan_cheapest(task.chain, task.images, task.memory, rounds=False),
            best,
        ]
        assert all(replay_plan(task, plan) for plan in plans)
        for plan in plans:
            assert plan is None or (best is not None and plan.cost >= best.cost)
        feasible += best is not None
        if best is not None:
            assert plans[2] is not None and plans[2].cost == best.cost and plans[2].proven
    assert feasible > 75


def test_the_search_finds_what_trying_everything_finds() -> None:
    """Every sequence of calls, judged by the checker alone."""
    for task in tasks(60, seed=8):
        if len(task.chain) > 2 or task.images > 3:
            continue
        tried = tried_out(task)
        found = ExactSearch(task.chain).best(task.images, task.memory)
        assert (inf if found is None else found.cost) == tried


def tried_out(task: Task) -> float:
    best = inf
    todo: list[tuple[tuple[int, ...], tuple[BatchFiring, ...]]] = [((0,) * len(task.chain), ())]
    while todo:
        passed, firings = todo.pop()
        if set(passed) == {task.images}:
            done = replay(task.chain, ChainPlan((task.images,), firings, 0))
            best = min(best, done.cost if done.peak <= task.memory else inf)
        for k, count in enumerate(passed):
            waiting = (passed[k - 1] if k else task.images) - count
            for size in range(1, waiting + 1):
                after = (*passed[:k], count + size, *passed[k + 1 :])
                todo.append((after, (*firings, BatchFiring(k, count, size))))
    return best


def test_a_search_that_gives_up_says_so() -> None:
    chain = example()
    search = ExactSearch(chain, most_states=1)
    assert search.best(2, 7) is None and search.given_up
    plan = plan_cheapest(chain, 2, 7, rounds=False, searched=0)
    assert plan is not None and not plan.proven


def test_batches_that_are_not_nested_are_found() -> None:
    """A chain on which parting and gathering alone cost more than all orders do."""
    for task in tasks(800):
        nested = plan_cheapest(task.chain, task.images, task.memory, rounds=False, searched=0)
        whole = plan_cheapest(task.chain, task.images, task.memory, rounds=False)
        assert (nested is None) == (whole is None)
        if nested is not None and whole is not None and whole.cost < nested.cost:
            return
    pytest.fail("no such chain among them")


# Memory ---------------------------------------------------------------------------------------


def test_one_table_knows_all_memories() -> None:
    for task in tasks(60, seed=9):
        tables = Tables(task.chain, task.images, 40)
        front = tables.front(task.images)
        assert [cost for _, cost in front] == sorted({cost for _, cost in front}, reverse=True)
        for memory in range(1, 41):
            alone = Tables(task.chain, task.images, memory)
            assert tables.cost(task.images, memory) == alone.cost(task.images)
        for memory, cost in front:
            plan = ChainPlan((task.images,), tables.firings(task.images, memory), cost)
            done = replay(task.chain, plan)
            assert done.cost == cost and done.peak == memory  # a step is where a plan just fits


def test_coarse_memory_never_exceeds_its_plan_and_never_costs_less() -> None:
    worse = 0
    for task in tasks(200, seed=10):
        fine = plan_printed(task.chain, task.images, task.memory, unit=1)
        coarse = plan_printed(task.chain, task.images, task.memory, unit=3)
        assert replay_plan(task, coarse)
        if coarse is None:
            worse += fine is not None
        else:
            assert fine is not None and fine.cost <= coarse.cost
            worse += fine.cost < coarse.cost
    assert worse > 20


def test_rounds_take_a_request_that_does_not_fit_as_a_whole() -> None:
    chain = Chain((layer("a", (4, 6, 9, 12), (3, 1), 1),))
    assert (
        plan_cheapest(chain, 4, 9, rounds=False) is None
    )  # three wait: 9, and a call on one takes 5
    plan = plan_cheapest(chain, 4, 10)
    assert plan is not None and plan.rounds == (2, 2) and plan.cost == 12
    assert replay(chain, plan).peak == 10


def test_rounds_are_never_dearer_than_uniform_batches_or_the_greedy_rule() -> None:
    for task in tasks(200, seed=11):
        ours = plan_cheapest(task.chain, task.images, task.memory, searched=0)
        assert replay_plan(task, ours)
        for rule in (plan_fixed, plan_best_uniform, plan_greedy):
            theirs = rule(task.chain, task.images, task.memory)
            assert replay_plan(task, theirs)
            assert theirs is None or (ours is not None and ours.cost <= theirs.cost)


def test_steps_are_the_least_of_their_alternatives() -> None:
    one, two = Steps.of(4, 10.0), Steps.of(8, 3.0)
    both = merge_least([(1, (one,)), (2, (two,)), (3, (Steps.of(6, 12.0),))], 10)
    assert both is not None and [both.at(m) for m in (3, 4, 7, 8)] == [inf, 10, 10, 3]
    assert [both.chosen(m) for m in (4, 8)] == [1, 2]
    assert merge_least([(1, (two,))], 7) is None and merge_least([], 7) is None
    added = merge_least([(0, (both, both.beside(2)))], 100)
    assert added is not None
    assert [(m, added.at(m)) for m in (5, 6, 8, 9, 10)] == [(5, inf), (6, 20), (8, 13), (9, 13), (10, 6)]  # fmt: skip


# Baselines ------------------------------------------------------------------------------------


def test_the_largest_batch_need_not_be_the_best() -> None:
    """As of a fully connected layer in numpy: a call on two packs its weights, one on one does not."""
    chain = Chain((layer("fc", (9.24, 29.82, 32.13, 29.88), (1, 1)),))
    assert largest_uniform(chain, 4, 4) == 2
    assert largest_uniform(chain, 4, 8) == 4
    largest, best = plan_fixed(chain, 4, 4), plan_best_uniform(chain, 4, 4)
    assert largest is not None and largest.cost == pytest.approx(59.64)
    assert best is not None and best.cost == pytest.approx(36.96)


def test_the_greedy_rule_holds_all_images_at_both_ends() -> None:
    chain = Chain((layer("a", (4, 6, 8), (1, 2), 3),))
    plan = plan_greedy(chain, 3, 9 + 6)
    assert plan is not None and batches(plan, 0) == (2, 1)
    assert replay(chain, plan).peak == 13  # of the 15 that the rule charges
    assert plan_greedy(chain, 3, 11) is None
    inner = Chain((layer("in", (1, 2, 3), (0, 0), 2),))
    special = Chain((layer("s", (0, 0, 0), (1, 2), 0, inner),))
    plan = plan_greedy(special, 3, 9 + 4)
    assert plan is not None and [one.images for one in plan.firings[0].inside[0]] == [2, 1]


# The checker ----------------------------------------------------------------------------------


def plan_of_example() -> ChainPlan:
    plan = plan_printed(example(), 2, 7, unit=1)
    assert plan is not None
    return plan


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f[:-1], "image 0 has passed 2 of 3 layers"),
        (lambda f: (f[1], *f), "'L2' is layer 1, and is called on image 0, which has passed 0"),
        (lambda f: (f[0], *f), "which has passed 1"),
        (lambda f: (replace(f[0], images=3), *f[1:]), "called on 3 images; its tables have 1 to 2"),
        (lambda f: (replace(f[0], first=1), *f[1:]), "image 2, which is not one of 0 to 1"),
        (lambda f: (replace(f[0], layer=3), *f[1:]), "layer 3 is called; there are 3"),
        (lambda f: (*f, BatchFiring(0, 2, 1)), "image 2 is called for; there are 2"),
        (lambda f: (replace(f[0], inside=((),)), *f[1:]), "has 0 branches, and calls of 1"),
    ],
)
def test_planted_faults_are_found(change: object, said: str) -> None:
    plan = plan_of_example()
    assert callable(change)
    with pytest.raises(ScheduleError, match=said):
        replay(example(), replace(plan, firings=change(plan.firings)))


def test_all_that_waits_and_all_that_is_kept_counts() -> None:
    """Three images of 1, 2 and 4 bytes in front of, between and behind two layers without workspace."""
    chain = Chain((layer("a", (1, 1, 1), (1, 2)), layer("b", (1, 1, 1), (2, 4))))
    calls = ((0, 0, 2), (1, 1, 1), (0, 2, 1), (1, 0, 1), (1, 2, 1))
    firings = tuple(BatchFiring(*one) for one in calls)
    held = [call.held for call in replay(chain, ChainPlan((3,), firings, 5)).calls]
    assert held == [3 + 4, 1 + 4 + 4, 1 + 2 + 4 + 2, 4 + 2 + 2 + 4, 8 + 2 + 4]


def test_input_and_output_stay_while_branches_run() -> None:
    inner = Chain((layer("x", (1, 1), (0, 3), 1), layer("y", (1, 1), (3, 0), 0)))
    chain = Chain((layer("s", (1, 1), (2, 5), 7, inner),))
    calls = (BatchFiring(0, 0, 1), BatchFiring(1, 0, 1), BatchFiring(0, 1, 1), BatchFiring(1, 1, 1))
    done = replay(chain, ChainPlan((2,), (BatchFiring(0, 0, 2, (calls,)),), 5))
    assert [call.held - 14 for call in done.calls] == [4, 3, 4, 3, 14]
    assert [call.layer for call in done.calls] == ["x", "y", "x", "y", "s"]


def test_rounds_do_not_see_each_other() -> None:
    chain = example()
    alone = replay(chain, ChainPlan((1, 1), tuple(BatchFiring(k, r, 1) for r in (0, 1) for k in range(3)), 24))  # fmt: skip
    assert alone.peak == 6
    with pytest.raises(ScheduleError, match="a round of 0 images"):
        replay(chain, ChainPlan((0,), (), 0))


# What a chain may be --------------------------------------------------------------------------


def test_what_is_no_chain_is_told() -> None:
    with pytest.raises(InputError, match="b: reads 2 bytes an image, 'a' before it writes 1"):
        Chain((layer("a", (1,), (1, 1)), layer("b", (1,), (2, 1))))
    with pytest.raises(InputError, match="without layers"):
        Chain(())
    with pytest.raises(InputError, match="a: has 2 costs and 1 workspaces"):
        ChainLayer("a", (1, 2), (0,), 1, 1)
    with pytest.raises(InputError, match="a: has a cost of inf"):
        ChainLayer("a", (inf,), (0,), 1, 1)
    with pytest.raises(InputError, match="a: has a size of -1 bytes"):
        ChainLayer("a", (1,), (0,), -1, 1)


def test_larger_requests_than_the_tables_are_parted() -> None:
    chain = Chain((layer("a", (4, 6), (1, 1)),))
    plan = plan_cheapest(chain, 5, 10)
    assert plan is not None and plan.cost == 16 and max(batches(plan, 0)) == 2
    assert plan_printed(chain, 5, 10, unit=1) is not None
    assert plan_greedy(chain, 5, 10) is not None


def test_rounds_are_proven_by_their_own_searches() -> None:
    """Even where larger rounds have no plan; what `searched` leaves out is not."""
    chain = Chain((layer("a", (4, 6, 9, 12), (3, 1), 1),))
    plan, unsearched = plan_cheapest(chain, 4, 10), plan_cheapest(chain, 4, 10, searched=0)
    assert plan is not None and plan.rounds == (2, 2) and plan.proven
    assert unsearched is not None and unsearched.cost == plan.cost and not unsearched.proven
