"""Policies and the simulator: laws that hold under every policy, and what adaptive gains."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from csdfgen.errors import CsdfgenError
from csdfgen.serving.arrivals import Traffic, parse_images, read_arrivals
from csdfgen.serving.desk import Desk
from csdfgen.serving.policies import POLICIES, parse_policy
from csdfgen.serving.queueing import Worth
from csdfgen.serving.requests import Batch, Request
from csdfgen.serving.simulate import Simulated, simulate
from csdfgen.serving.summary import Summary
from csdfgen.serving.times import StageTimes, Times, make_table, read_times, write_times
from tests.command import Call, refused

SIZES = (1, 2, 4, 8, 16, 32)


def scaled(times: dict[int, float], by: float) -> dict[int, float]:
    return {b: seconds * by for b, seconds in times.items()}


def alexnet() -> Times:
    """Convolutions that gain nothing by batches, and fully connected layers that do, as onnxruntime computes them."""
    dense = dict(zip(SIZES, (0.0151, 0.0162, 0.0179, 0.0222, 0.0255, 0.0376), strict=True))
    conv = {b: 0.021 * b / 4 for b in SIZES}
    return make_table("alexnet", {f"conv{k}": conv for k in range(4)} | {"dense": dense})


def convolutional() -> Times:
    part = {b: 0.020 * (0.05 + 0.95 * b) / 4 for b in SIZES}
    return make_table("conv", {f"part{k}": part for k in range(4)})


def served(
    policy: str, times: Times, load: float, count: int = 3000, deadline: float = math.inf
) -> Simulated:
    requests = Traffic("poisson", load * times.capacity, (1, 1), deadline).requests(count, 7)
    return simulate(parse_policy(policy), times, requests, most=32, seed=3)


# Laws -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_every_request_is_answered_though_no_other_comes(policy: str) -> None:
    """By default no policy waits for more than a second. Symptom: a window waited without end, and bench-serve with it."""
    times = make_table("net", {name: {1: 0.01, 2: 0.014, 4: 0.02} for name in "abc"})
    for count in range(1, 6):
        desk = Desk(parse_policy(policy), times, most=4, slots=8)
        requests = [Request(k, k / 1000) for k in range(count)]
        for one in requests:
            desk.arrive(one, one.arrival)
        now = 0.1
        while not desk.idle:
            found = desk.turn(0, now)
            assert isinstance(found, Batch) or now < found < 2
            now = (
                found if isinstance(found, float) else now + times.stage[found.stage][found.images]
            )
            if isinstance(found, Batch):
                desk.passed(0, now)
        assert {one.outcome for one in requests} == {"answered"}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("workers", [1, 3])
def test_every_request_ends_once_and_passes_every_stage(policy: str, workers: int) -> None:
    """Mixed sizes (larger than a batch too), deadlines, priorities and cancellations, few slots."""
    rng = random.Random(len(policy) + workers)
    times = make_table("net", {name: {1: 0.01, 2: 0.014, 4: 0.02} for name in "abc"}, spread=0.1)
    ended: Counter[int] = Counter()
    desk = Desk(
        parse_policy(policy), times, most=4, slots=6, workers=workers,
        on_end=lambda request: ended.update([request.number]),
    )  # fmt: skip
    requests, runs, passed = [], dict[int, Batch](), Counter[int]()
    now, number = 0.0, 0
    while number < 400 or not desk.idle:
        now += rng.expovariate(150)
        if number < 400 and rng.random() < 0.4:
            due = now + rng.choice([0.05, 0.3, math.inf])
            requests.append(Request(number, now, rng.randint(1, 9), due, rng.randint(0, 2)))
            desk.arrive(requests[-1], now)
            number += 1
            desk.draining = number == 400
        if requests and rng.random() < 0.05:
            desk.cancel(rng.choice(requests), now)
        worker = rng.randrange(workers)
        if worker in runs:
            batch = runs.pop(worker)
            if batch.stage == times.count - 1:
                for request, first, images in batch.parts:
                    passed.update((request.number, first + k) for k in range(images))
            desk.passed(worker, now)
        else:
            found = desk.turn(worker, now)
            if isinstance(found, Batch):
                runs[worker] = found
                assert 1 <= found.images <= 4 and len(set(found.slots)) == found.images
        held = [slot for stack in desk.stacks for one in stack for slot in one.slots]
        assert sorted(held + desk.free) == list(range(6))
    assert ended == Counter(range(400))
    for request in requests:
        mine = {image: count for (owner, image), count in passed.items() if owner == request.number}
        assert set(mine.values()) <= {1}
        if request.outcome == "answered":
            assert sorted(mine) == list(range(request.images))
    outcomes = Counter(request.outcome for request in requests)
    assert outcomes["answered"] > 100
    assert bool(outcomes["refused"]) == (policy == "adaptive")


@pytest.mark.parametrize("policy", ["serial", "greedy", "lbci-paper", "lbci", "adaptive"])
def test_a_worker_is_never_idle_while_requests_wait(policy: str) -> None:
    """One image at a time, so that the work is the same in any order: it ends when serial ends."""
    times = make_table("net", {"a": {1: 0.01}, "b": {1: 0.02}})
    requests = Traffic("bursts", 40.0).requests(500, 1)
    found = simulate(parse_policy(policy), times, requests, most=1)
    free = 0.0
    for arrival in sorted(request.arrival for request in requests):
        free = max(free, arrival) + 0.03
    assert found.seconds == pytest.approx(free)


def test_the_same_seed_gives_the_same_run() -> None:
    first, again = (served("adaptive", alexnet(), 1.1, 500).summary for _ in range(2))
    assert first == again


def test_a_batch_is_joined_more_than_once_and_large_requests_are_split() -> None:
    found = served("adaptive", alexnet(), 1.4)
    assert max(joins for _, joins in found.batches) > 1
    whole = simulate(
        parse_policy("adaptive"), alexnet(), [Request(0, 0.0, 100)], most=32, slots=32
    )  # fmt: skip
    assert sorted(images for images, _ in whole.batches)[-1] <= 32
    assert whole.summary.answered == 1


def test_memory_is_what_runs_and_what_waits() -> None:
    """A batch of 2 in the second stage: its arena, and two images in front of it."""
    one = StageTimes("a", (1, 2), (0.01, 0.01), (0.0, 0.0), (100, 150), slot=10)
    two = StageTimes("b", (1, 2), (0.01, 0.01), (0.0, 0.0), (120, 180), slot=7)
    requests = [Request(0, 0.0), Request(1, 0.0)]
    assert (
        simulate(parse_policy("window:m=2"), Times("net", (one, two)), requests, most=2).memory
        == 200
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_higher_priorities_are_taken_first(policy: str) -> None:
    requests = [Request(k, 0.0, 1, math.inf, k % 3) for k in range(9)]
    times = make_table("net", {"a": {1: 0.01}})
    simulate(parse_policy(policy), times, requests, most=1)
    # the first one starts before the others are there
    order = [one.priority for one in sorted(requests[1:], key=lambda one: one.ended)]
    assert order == sorted(order, reverse=True)


# What adaptive gains ----------------------------------------------------------------------------


@pytest.mark.parametrize("times", [alexnet, convolutional])
@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_adaptive_is_as_good_as_the_best(times: Callable[[], Times], load: float) -> None:
    others = [
        served(name, times(), load).summary for name in ("serial", "greedy", "lbci", "lbci-paper")
    ]
    own = served("adaptive", times(), load).summary
    assert own.mean <= 1.03 * min(one.mean for one in others)
    assert own.percentiles[99] <= 1.10 * min(one.percentiles[99] for one in others)


def test_adaptive_beats_greedy_where_batches_pay_and_lbci_where_they_do_not() -> None:
    ratios = [
        served("adaptive", alexnet(), load).summary.mean / served("greedy", alexnet(), load).summary.mean
        for load in (0.9, 1.1, 1.4)
    ]  # fmt: skip
    assert math.prod(ratios) ** (1 / 3) <= 0.95
    pair = [served(name, convolutional(), 0.6).summary.mean for name in ("adaptive", "lbci")]
    assert pair[0] <= 0.9 * pair[1]


def test_adaptive_shares_the_queue_among_workers() -> None:
    """What waits is work of all of them: two workers at twice the rate."""

    def found(policy: str, load: float, deadline: float = math.inf) -> Summary:
        times = alexnet()
        requests = Traffic("poisson", 2 * load * times.capacity, (1, 1), deadline).requests(2000, 7)
        return simulate(parse_policy(policy), times, requests, most=32, workers=2, seed=3).summary

    others = [found(policy, 0.9) for policy in ("serial", "greedy", "lbci")]
    own = found("adaptive", 0.9)
    assert own.mean <= min(one.mean for one in others)
    assert own.percentiles[99] <= min(one.percentiles[99] for one in others)
    assert found("adaptive", 1.7, 0.5).in_time_of_all >= 0.65


def test_deadlines_under_overload() -> None:
    heavy = served("adaptive", alexnet(), 1.4, deadline=0.5).summary
    assert heavy.in_time_of_answered >= 0.96 and heavy.in_time_of_all >= 0.90
    overload = served("adaptive", alexnet(), 1.7, deadline=0.5).summary
    assert overload.in_time_of_all >= 0.65 and overload.latest <= 0.1
    assert served("lbci", alexnet(), 1.7, deadline=0.5).summary.in_time_of_all < 0.15


def test_the_gain_over_the_papers_baselines() -> None:
    def mean(policy: str, load: float) -> float:
        return served(policy, alexnet(), load).summary.mean

    assert mean("adaptive", 1.1) <= (1 - 0.5243) * mean("window:m=10", 1.1)
    assert mean("adaptive", 1.4) <= (1 - 0.1943) * mean("window:m=10", 1.4)
    assert mean("adaptive", 0.9) <= 0.5 * mean("serial", 0.9)


def test_values_are_those_of_the_queue_with_one_server() -> None:
    """Batches of one at a constant time: the mean number in an M/D/1 queue is known."""
    load = 0.7
    worth = Worth([0.0, 0.02], load / 0.02)
    assert worth.gain == pytest.approx(load + load**2 / (2 * (1 - load)), rel=0.02)


def test_virtual_time_is_hundreds_of_times_faster() -> None:
    found = served("greedy", alexnet(), 0.9, 5000)
    assert found.seconds > 300 * found.elapsed


# Files and errors -------------------------------------------------------------------------------


def test_tables_and_requests_of_files(tmp_path: Path, call: Call) -> None:
    path = tmp_path / "times.json"
    write_times(path, alexnet())
    again = read_times(path)
    assert again == alexnet()
    assert again.up_to(3).stage[4][3] == again.stage[4][3]
    (tmp_path / "requests.csv").write_text("seconds,images\n0.5,3,0.2,1\n0.1\n")
    found = read_arrivals(tmp_path / "requests.csv")
    assert [(r.arrival, r.images, r.deadline, r.priority) for r in found] == [
        (0.1, 1, math.inf, 0), (0.5, 3, 0.7, 1),
    ]  # fmt: skip
    result = call("simulate", str(path), "--requests", "200", "--policy", "all", "--json")
    assert set(result.json["policies"]) == set(POLICIES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batches": [2, 4]}, "ascending numbers from 1"),
        ({"batches": [1, 1]}, "ascending numbers from 1"),
        ({"seconds": [0.1]}, "1 numbers for 2 batches"),
        ({"seconds": [0.1, -1]}, "numbers from 1e-09"),
        ({"spread": "no"}, "a list of numbers"),
    ],
)
def test_damaged_tables(tmp_path: Path, change: dict[str, object], message: str) -> None:
    stage = {
        "name": "a", "batches": [1, 2], "seconds": [0.1, 0.2], "spread": [0, 0], "arena": [1, 2], **change
    }  # fmt: skip
    data = {"format": "csdfgen-stages", "version": 1, "model": "net", "stages": [stage]}
    (tmp_path / "times.json").write_text(json.dumps(data))
    with pytest.raises(CsdfgenError, match=message):
        read_times(tmp_path / "times.json")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: parse_policy("fastest"), "none of serial, window, greedy"),
        (lambda: parse_policy("window:n=3"), "no setting of the policy window; it has m, delay"),
        (lambda: parse_policy("window:m=0"), "a whole number above 0"),
        (lambda: parse_images("9-3"), "such as 1-25"),
        (lambda: Traffic("often", 1.0).requests(1), "none of poisson, bursts, uniform"),
        (lambda: Desk(parse_policy("greedy"), alexnet(), most=64, slots=1), "known up to 32"),
        (lambda: Desk(parse_policy("greedy"), alexnet(), most=2, slots=0), "at least 1"),
        (lambda: Times("net", ()), "without stages"),
    ],
)
def test_what_is_wrong_is_one_sentence(call: Callable[[], object], message: str) -> None:
    with pytest.raises(CsdfgenError, match=message):
        call()


def test_a_model_is_measured_and_its_table_kept(call: Call, tmp_path: Path) -> None:
    path = str(tmp_path / "times.json")
    options = "--requests", "300", "--load", "0.5", "--json"
    first = call("simulate", "zoo:lenet5", "--max-batch", "2", "-o", path, *options).json
    assert read_times(path).most == 2
    assert "load 1 is" in call("profile", "zoo:lenet5", "--batches", "2", "-o", path).out
    assert read_times(path).most == 2
    assert call("simulate", path, *options).json["policies"]["adaptive"]["answered"] == 300
    assert first["policies"]["adaptive"]["memory_bytes"] > 0


@pytest.mark.networks
def test_latency_against_memory(call: Call, tmp_path: Path) -> None:
    """Less memory allows smaller batches and fewer images in flight, and is kept."""
    options = "--requests", "200", "--max-batch", "4", "--json"
    found = call(
        "simulate", "zoo:lenet5", "--memories", "40KiB,400KiB", "--svg", str(tmp_path / "a.svg"), *options
    ).json["memories"]  # fmt: skip
    assert [one["memory_bytes"] <= size << 10 for one, size in zip(found, (40, 400), strict=True)]
    assert found[0]["memory_bytes"] < found[1]["memory_bytes"]
    assert "latency, ms" in (tmp_path / "a.svg").read_text()
    assert "give --memories" in refused(
        call("simulate", "zoo:lenet5", "--svg", str(tmp_path / "a.svg"))
    )
