"""The engine: answers equal onnxruntime's under every policy, in the memory that is planned."""

from __future__ import annotations

import asyncio
import random
import threading
import time
import tracemalloc
from collections.abc import Iterator

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.errors import CsdfgenError, InputError, PlanError
from csdfgen.model.network import Network
from csdfgen.rewriting.cut import crossing, cut
from csdfgen.serving.arrivals import Traffic
from csdfgen.serving.engine import Answer, ClosedError, Engine, QueueFullError, RefusedError
from csdfgen.serving.policies import POLICIES, parse_policy
from csdfgen.serving.programs import Image, Programs
from csdfgen.serving.requests import Batch, Decision, Request, View
from csdfgen.serving.service import Service, find_cuts, list_batch_sizes, plan
from csdfgen.serving.simulate import simulate
from csdfgen.serving.times import Times, make_table
from tests.models import onnxruntime_outputs
from tests.small_models import residual_classifier, squeeze_and_excite, two_inputs

CUTS = [["r1"], ["p"]]
IMAGES = np.random.default_rng(3).standard_normal((24, 3, 16, 12)).astype(np.float32)


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    """Of every image, by onnxruntime."""
    model = residual_classifier()
    one = [onnxruntime_outputs(model, {"x": image[None]})["scores"] for image in IMAGES]
    return np.concatenate(one)


@pytest.fixture(scope="module")
def service() -> Service:
    return plan(csdfgen.load(residual_classifier()), max_batch=4, in_flight=10, cuts=CUTS)


@pytest.fixture(scope="module")
def times(service: Service) -> Times:
    with Engine(service) as engine:
        return engine.times


# Cuts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "cuts"),
    [
        (residual_classifier(), [["r1"], ["p"]]),
        (residual_classifier(), [["c2", "r1"]]),
        (residual_classifier(), [["c2"]]),  # r1 crosses too, for the Add behind
        (two_inputs(), None),
        (squeeze_and_excite(), None),
    ],
)
def test_stages_are_the_network(model: onnx.ModelProto, cuts: list[list[str]] | None) -> None:
    network = csdfgen.load(model)
    if cuts is None:
        cuts = [[network.layers[(len(network.layers) - 1) // 2].output.name]]
    stages = cut(network, cuts)
    assert sum(len(one.layers) for one in stages) == len(network.layers)
    rng = np.random.default_rng(1)
    feeds = {
        tensor.name: rng.standard_normal(tensor.shape).astype(np.float32)
        for tensor in network.inputs
    }
    whole = runtime.run(csdfgen.plan(network), feeds)
    held = dict(feeds)
    for number, stage in enumerate(stages):
        assert {one.name for one in stage.inputs} <= {
            *feeds, *(one.name for one in crossing(stages, number))
        }  # fmt: skip
        own = {one.name: held[one.name] for one in stage.inputs}
        held |= runtime.run(csdfgen.plan(stage), own)
    for name, values in whole.items():
        np.testing.assert_allclose(held[name], values, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("cuts", "message"),
    [([["nothing"]], "'nothing' is no tensor"), ([["r1"], ["r1"]], "in front of cut 2"),
     ([["scores"]], "behind the last cut")],
)  # fmt: skip
def test_a_cut_that_is_none_is_refused(cuts: list[list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cut(csdfgen.load(residual_classifier()), cuts)


def test_cuts_are_found_where_few_bytes_cross() -> None:
    network = csdfgen.load("zoo:lenet5")
    found = find_cuts(network, 3, {})
    assert len(found) <= 2
    if found:
        cut(network, found)
    assert find_cuts(network, 1, {}) == ()


# Memory -----------------------------------------------------------------------------------------


@pytest.mark.networks
def test_memory_is_planned_and_refused_with_the_least(service: Service) -> None:
    network = service.network
    assert service.total_bytes == service.arena_bytes + 10 * service.slots.bytes
    budget = service.arena_bytes // 2 + 6 * service.slots.bytes
    small = plan(network, max_batch=4, cuts=CUTS, memory=budget)
    assert small.total_bytes <= budget
    assert small.in_flight < 8 and small.arena_bytes < service.arena_bytes
    with pytest.raises(PlanError, match="the least for 4 images in flight") as refused:
        plan(network, max_batch=4, cuts=CUTS, memory=1000)
    again = plan(network, max_batch=4, cuts=CUTS, memory=refused.value.least)
    assert again.total_bytes <= refused.value.least and again.in_flight == 4
    with pytest.raises(PlanError):
        plan(network, max_batch=4, cuts=CUTS, memory=refused.value.least - 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [({"max_batch": 0}, "max_batch=0"), ({"workers": 0}, "workers=0"),
     ({"in_flight": 2}, "less than a batch of 8"), ({"memory": "x"}, "memory")],
)  # fmt: skip
def test_numbers_that_are_none_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(CsdfgenError, match=message):
        plan(csdfgen.load(residual_classifier()), **given)  # type: ignore[arg-type]


def test_sizes_of_batches() -> None:
    assert list_batch_sizes(1) == (1,) and list_batch_sizes(7) == (1, 2, 3, 4, 6, 7)


# Answers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("workers", [1, 2])
def test_answers_are_right(policy: str, workers: int, scores: np.ndarray, times: Times) -> None:
    """1 to 9 images, from four threads, with priorities and deadlines; some are withdrawn."""
    network = csdfgen.load(residual_classifier())
    made = plan(network, max_batch=4, in_flight=10, cuts=CUTS, workers=workers)
    found: list[tuple[int, int, Answer]] = []
    chosen = parse_policy("window:m=4,delay=5ms" if policy == "window" else policy)
    with Engine(made, policy=chosen, times=times) as engine:

        def client(seed: int) -> None:
            rng = random.Random(seed)
            for _ in range(25):
                first, count = rng.randrange(15), rng.randint(1, 9)
                answer = engine.submit(
                    IMAGES[first : first + count],
                    deadline=rng.choice([None, "20s"]), priority=rng.randint(0, 2),
                )  # fmt: skip
                found.append((first, count, answer))
                if rng.random() < 0.1:
                    answer.cancel()
                time.sleep(rng.random() / 500)

        clients = [threading.Thread(target=client, args=(seed,)) for seed in range(4)]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
    assert len(found) == 100
    for first, count, answer in found:
        assert answer.done()
        if not answer.cancelled():
            y = answer.result()["scores"]
            np.testing.assert_allclose(y, scores[first : first + count], rtol=1e-4, atol=1e-5)
    counts = engine.counts
    assert counts["answered"] == sum(not answer.cancelled() for *_, answer in found)
    assert counts["answered"] + counts["cancelled"] == 100 and not counts["refused"]
    assert sum(engine.latencies) == counts["answered"] and engine.running == engine.waiting == 0


class _Held(parse_policy("greedy").__class__):  # type: ignore[misc]
    """Greedy, but for what is to wait until `free` is set."""

    free = False

    def decide(self, view: View) -> Decision:
        found: Decision = super().decide(view)
        return found if self.free or view.stack else Decision(until=view.now + 0.002)


@pytest.fixture
def held(service: Service, times: Times) -> Iterator[Engine]:
    with Engine(service, policy=_Held(), times=times, queue=8) as engine:
        yield engine
        engine.policy.free = True  # type: ignore[attr-defined]


def test_a_full_queue_and_a_withdrawn_request(held: Engine, scores: np.ndarray) -> None:
    first = held.submit(IMAGES[:6])
    with pytest.raises(QueueFullError, match="6 images wait, and 3 more would exceed 8"):
        held.submit(IMAGES[:3])
    assert first.cancel() and held.waiting == 0
    again = held.submit(IMAGES[:8])
    held.policy.free = True  # type: ignore[attr-defined]
    np.testing.assert_allclose(again.result(20)["scores"], scores[:8], rtol=1e-4, atol=1e-5)
    assert not again.cancel()


def test_answers_behind_their_deadlines_are_counted(held: Engine) -> None:
    answers = [held.submit(IMAGES[:1], deadline=deadline) for deadline in ("1ms", "60s", None)]
    time.sleep(0.01)
    held.policy.free = True  # type: ignore[attr-defined]
    for answer in answers:
        answer.result(20)
    assert (held.counts["answered"], held.counts["late"]) == (3, 1)


def test_hopeless_requests_are_refused_at_once(service: Service, times: Times) -> None:
    with Engine(service, times=times) as engine:
        with pytest.raises(RefusedError, match="cannot be there within"):
            engine.submit(IMAGES[:9], deadline=1e-6).result(20)
        assert not engine.counts["stages"]
    with pytest.raises(ClosedError):
        engine.submit(IMAGES[:1])


def test_answers_are_awaited(service: Service, times: Times, scores: np.ndarray) -> None:
    async def all_of_them(engine: Engine) -> list[dict[str, np.ndarray]]:
        return list(await asyncio.gather(*(engine.submit(IMAGES[k : k + 1]) for k in range(24))))

    with Engine(service, times=times) as engine:
        found = asyncio.run(all_of_them(engine))
    np.testing.assert_allclose(
        np.concatenate([one["scores"] for one in found]), scores, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((1, 3, 16, 11), np.float32), "Nx3x16x12 is needed"),
        (np.zeros((0, 3, 16, 12), np.float32), "N images from 1 on"),
        (np.zeros((1, 3, 16, 12), np.complex64), "complex64"),
        ({"y": np.zeros((1, 3, 16, 12), np.float32)}, "input 'x' is missing; given: y"),
        ({}, "'x' is missing"),
    ],
)
def test_wrong_arrays(service: Service, times: Times, images: np.ndarray, message: str) -> None:
    with Engine(service, times=times) as engine, pytest.raises(InputError, match=message):
        engine.submit(images)


def test_serving_allocates_answers_only(service: Service, times: Times) -> None:
    """No array of numpy remains of 300 requests, and none but the answers is made at a time."""
    with Engine(service, times=times) as engine:
        for _ in range(50):
            engine.submit(IMAGES[:3]).result(20)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        for _ in range(300):
            engine.submit(IMAGES[:3]).result(20)
        now, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert now - before < 100_000 and peak - before < 200_000


def test_a_batch_is_joined_in_front_of_a_later_stage(service: Service, times: Times) -> None:
    """Images that wait while a batch is in its first stage leave with it."""
    policy = _Joining()
    with Engine(service, policy=policy, times=times) as engine:
        answers = [engine.submit(IMAGES[k : k + 1]) for k in range(4)]
        for answer in answers:
            answer.result(20)
    assert policy.joined >= 1 and max(engine.batches) > 1


class _Joining(parse_policy("greedy").__class__):  # type: ignore[misc]
    """One image starts; the second stage waits until another joins, or no other comes."""

    joined = 0

    def decide(self, view: View) -> Decision:
        top: Batch | None = view.top
        if top is None:
            return Decision(min(1, self.largest(view)))
        if top.stage == 1 and len(view.stack) == 1 and view.queue and top.images < self.most:
            self.joined += 1
            return Decision(1)
        return Decision()


def test_networks_of_two_inputs_are_served() -> None:
    model = two_inputs()
    network: Network = csdfgen.load(model)
    rng = np.random.default_rng(2)
    shapes = {one.name: (5, *one.shape[1:]) for one in network.inputs}
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    with Engine(network, max_batch=4) as engine:
        found = engine.submit(feeds).result(20)
        with pytest.raises(InputError, match="one array for 2 inputs"):
            engine.submit(next(iter(feeds.values())))
        uneven = {name: array[: 1 + k] for k, (name, array) in enumerate(feeds.items())}
        with pytest.raises(InputError, match="different numbers of images"):
            engine.submit(uneven)
    for k in range(5):
        one = onnxruntime_outputs(model, {name: array[k : k + 1] for name, array in feeds.items()})
        for name, values in one.items():
            np.testing.assert_allclose(found[name][k : k + 1], values, rtol=1e-4, atol=1e-5)


def test_a_stage_that_fails_ends_its_requests_and_no_others(
    service: Service, times: Times, scores: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Programs.run

    def run(self: Programs, stage: int, images: list[Image]) -> None:
        if stage == 1 and any(np.isnan(image["x"]).any() for image in images):
            raise FloatingPointError("not a number")
        whole(self, stage, images)

    monkeypatch.setattr(Programs, "run", run)
    broken = np.full((6, 3, 16, 12), np.nan, np.float32)
    with Engine(service, policy="serial", times=times) as engine:
        wrong, right = engine.submit(broken), engine.submit(IMAGES[:3])
        with pytest.raises(FloatingPointError):
            wrong.result(20)
        np.testing.assert_allclose(right.result(20)["scores"], scores[:3], rtol=1e-4, atol=1e-5)
    assert engine.counts["failed"] == 1 and engine.running == 0


def test_a_quantized_model_is_served() -> None:
    model = csdfgen.quantize(residual_classifier(), IMAGES[:4]).model
    network = csdfgen.load(model)
    one = runtime.compile(csdfgen.plan(network))
    with Engine(network, max_batch=4, cuts=[[network.layers[2].output.name]]) as engine:
        found = engine.submit(IMAGES[:9]).result(20)
    for k in range(9):
        for name, values in one(IMAGES[k : k + 1]).items():
            np.testing.assert_array_equal(found[name][k : k + 1], values)


def test_the_engine_is_predicted(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages that sleep as long as the table says: the simulator gets the arrivals as they were, and how much longer than
    wanted a busy machine slept.
    """
    table = make_table(
        "sleeping",
        {"a": {1: 0.004, 4: 0.016}, "b": {1: 0.004, 4: 0.012}, "c": {1: 0.006, 4: 0.008}},
    )
    wanted, slept = [], []

    def run(self: Programs, stage: int, images: list[Image]) -> None:
        wanted.append(table.stage[stage][len(images)])
        start = time.perf_counter()
        time.sleep(wanted[-1])
        slept.append(time.perf_counter() - start)

    monkeypatch.setattr(Programs, "run", run)
    arrivals = []
    with Engine(service, times=table) as engine:
        start, answers = time.perf_counter(), []
        for one in Traffic("poisson", 0.6 * table.capacity).requests(100, 5):
            time.sleep(max(0.0, one.arrival - (time.perf_counter() - start)))
            arrivals.append(time.perf_counter() - start)
            answers.append(engine.submit(IMAGES[:1]))
        for answer in answers:
            answer.result(20)
    pace = sum(slept) / sum(wanted)
    if pace > 1.3:
        pytest.skip(f"the machine is busy: stages took {pace:.1f} times as long")
    scaled = {
        one.name: {b: pace * one.seconds[k] for k, b in enumerate(one.batches)}
        for one in table.stages
    }
    requests = [Request(k, at) for k, at in enumerate(arrivals)]
    virtual = simulate(
        parse_policy("adaptive"), make_table("scaled", scaled), requests, most=4
    ).summary
    assert engine.latency_sum / 100 == pytest.approx(virtual.mean, rel=0.25)
