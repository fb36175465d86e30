"""Plans on several processors: whatever firings overlap, outputs are those of one, and nothing that a processor has to wait
for is left out.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import csdfgen
import runtime
from csdfgen.backends.native.build import find_compiler
from csdfgen.backends.native.structures import SOURCES
from csdfgen.backends.registry import load_backend, resolve_backend
from csdfgen.devices.catalogue import device
from csdfgen.errors import InputError, PlanError, ScheduleError
from csdfgen.goals.throughput import predict_mapping
from csdfgen.model.options import PlanOptions
from csdfgen.planning.checker import check
from csdfgen.planning.pipelined import Pipelined
from csdfgen.planning.plan import Plan
from csdfgen.planning.plan_file import from_json, to_json, to_plan
from csdfgen.planning.planner import assemble, plan_phased
from csdfgen.planning.prepared import prepare
from csdfgen.planning.waits import Waits, check_waits, split_by_processor
from csdfgen.program.steps import Backend
from runtime.session import Executable
from tests.command import execute
from tests.counting import count_calls
from tests.native_steps import compiler_missing
from tests.random_networks import models
from tests.small_models import residual_classifier

Choice = Callable[[list[int]], int]
"""Which of the processors that may fire does so next?"""


def images(plan: Plan, seed: int = 0) -> dict[str, np.ndarray]:
    rng, network = np.random.default_rng(seed), plan.network
    return {
        one.name: rng.uniform(-1, 1, network.whole_shape(one)).astype(one.dtype)
        for one in network.inputs
    }


def interleaved(
    frame: Executable, x: dict[str, np.ndarray], choose: Choice, waits: Waits
) -> dict[str, np.ndarray]:
    """A frame whose firings are executed in any order that waits allow."""
    bound, plan = frame._bound, frame.plan

    def fire(first: int) -> None:
        lists = split_by_processor(plan.order, plan.mapping)
        done = [0] * len(lists)
        while left := [core for core, one in enumerate(lists) if done[core] < len(one)]:
            ready = [
                core
                for core in left
                if all(done[k] >= count for k, count in waits[lists[core][done[core]]])
            ]
            assert ready, "nobody can fire"
            core = choose(ready)
            at = lists[core][done[core]]
            bound._bound.prepared(bound.program.code[at] + bound.program.stores[at])()
            done[core] += 1

    return frame._frame(x, None, None, fire)


@cache
def small(frames: int = 4, threads: int = 2, backend: str = "numpy") -> Plan:
    network = csdfgen.load(residual_classifier(batch=frames), batch=frames)
    return csdfgen.plan(
        network, goal="throughput", threads=threads, frames=frames, rows=1, backend=backend
    )


CHOICES: dict[str, Choice] = {"first": min, "last": max, "any": Random(5).choice}


@pytest.mark.parametrize("how", CHOICES)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_order_that_waits_allow_gives_the_same_bits(threads: int, how: str) -> None:
    plan = small(threads=threads)
    alone = csdfgen.plan(plan.network.original or plan.network, rows=1, backend="numpy")
    x, frame = images(plan), runtime.compile(plan)
    (want,) = runtime.compile(alone)(x).values()
    for _ in range(3 if how == "any" else 1):
        (got,) = interleaved(frame, x, CHOICES[how], plan.waits).values()
        np.testing.assert_array_equal(got, want)


def test_without_a_wait_outputs_differ() -> None:
    """So that the test above means something: of data as well as of space."""
    plan = small()
    frame, x = runtime.compile(plan), images(plan)
    (want,) = frame(x).values()
    for late, choose in ((1, max), (0, min)):
        waits = tuple(
            () if plan.mapping[actor] == late else one
            for one, (actor, _) in zip(plan.waits, plan.order, strict=True)
        )
        (got,) = interleaved(frame, x, choose, waits).values()
        assert not np.array_equal(got, want)


def test_every_wait_that_is_missing_or_too_short_is_found() -> None:
    plan = small()
    check_waits(plan, plan.waits)
    tried = 0
    for at, waits in enumerate(plan.waits):
        for number, (core, count) in enumerate(waits):
            for other in ((), ((core, count - 1),) if count > 1 else ()):
                fewer = (*waits[:number], *other, *waits[number + 1 :])
                tried += 1
                with pytest.raises(ScheduleError, match=f"firing {at} .* processor {core}"):
                    check_waits(plan, (*plan.waits[:at], fewer, *plan.waits[at + 1 :]))
    assert tried > 40
    (at, *_) = [at for at, waits in enumerate(plan.waits) if waits]
    ((core, _),) = plan.waits[at]
    late = (*plan.waits[:at], ((core, len(plan.order)),), *plan.waits[at + 1 :])
    with pytest.raises(ScheduleError, match="come before it"):
        check_waits(plan, late)


@pytest.mark.parametrize("part", range(2))
def test_any_mapping_of_any_network(part: int) -> None:
    """Layers on any processors, that may wait for each other in turn; buffers with few slots or many."""
    kernels: Backend = load_backend("numpy")

    @settings(
        max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(models(), st.randoms(use_true_random=False), st.integers(2, 3))
    def run(model: onnx.ModelProto, rng: Random, cores: int) -> None:
        network = csdfgen.load(model, batch=3)
        if network.conditions or network.batch != 3:
            return
        options = PlanOptions(rows=rng.choice(["1", "2", "auto"]), backend="numpy")
        prepared = prepare(network, options, kernels)
        single = prepared.for_images(1)
        one = plan_phased(single, single.phased())
        pipelined = Pipelined.of(prepared, one, 3)
        mapping = {work.name: rng.randrange(cores) for work in one.conversion.actors}
        mapping[one.conversion.actors[-1].name] = cores - 1
        slots = rng.choice([(1, 1), (2, 1), (0, 1), (0, 2)])
        draft = pipelined.plan(mapping, pipelined.rings(mapping, *slots))
        plan = assemble(draft, one.figures["lower_bound"])
        x = images(plan, part)
        wanted = Executable(one, kernels=kernels)
        frame = Executable(plan, kernels=kernels)
        for choose in CHOICES.values():
            for name, got in interleaved(frame, x, choose, plan.waits).items():
                for image in range(3):
                    some = {key: value[image : image + 1] for key, value in x.items()}
                    np.testing.assert_array_equal(got[image : image + 1], wanted(some)[name])

    run()


def test_a_search_for_many_processors_calls_little_more_than_for_one() -> None:
    network = csdfgen.load("zoo:mobilenet_v1_x0_25@32x32", batch=3)
    csdfgen.plan(network, frames=3)

    def calls(threads: int) -> int:
        return count_calls(
            lambda: csdfgen.plan(network, goal="throughput", threads=threads, frames=3)
        )[0]

    assert calls(12) < 1.3 * calls(1)


# Threads -----------------------------------------------------------------------------------------

needs_compiler = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")


@needs_compiler
@pytest.mark.parametrize("name", ["zoo:resnet8", "zoo:mobilenet_v1_x0_25@32x32"])
def test_threads_fire_what_is_mapped_to_them(name: str) -> None:
    network = csdfgen.load(name, batch=5)
    (want,) = runtime.compile(csdfgen.plan(network))(x := images(csdfgen.plan(network))).values()
    for threads in (2, 3):
        plan = csdfgen.plan(network, goal="throughput", threads=threads, frames=5)
        for given_threads in (1, threads):
            frame = runtime.compile(plan, threads=given_threads)
            assert frame._bound.processors == (threads if given_threads >= threads else 1)
            for _ in range(3):
                (got,) = frame(x).values()
                np.testing.assert_array_equal(got, want)
        rows = set[int]()
        frame(x, on_rows=lambda name, image, *more, rows=rows: rows.add(image))
        assert rows == {*range(5)}, "rows are handed on in one order"


@needs_compiler
def test_signals_order_memory(tmp_path: Path) -> None:
    """By the thread sanitizer, which finds a race where a thread does not wait."""
    source = Path(__file__).parent.parent / "signals.c"
    for flag, races in (("-DWAITS=1", False), ("-DWAITS=0", True)):
        program = tmp_path / flag[1:]
        command = [
            *find_compiler().command,
            "-std=c99",
            "-O1",
            "-g",
            "-fsanitize=thread",
            flag,
            f"-I{SOURCES}",
        ]
        files = [source, SOURCES / "team.c", SOURCES / "frame.c"]
        built = execute(*command, *files, "-o", program, "-pthread", "-lm")
        if built.returncode:
            pytest.skip(f"no thread sanitizer: {built.stderr.splitlines()[-1]}")
        found = subprocess.run([program], capture_output=True, text=True, check=False)
        if "unexpected memory mapping" in found.stderr:
            pytest.skip("the thread sanitizer does not run here")
        assert ("data race" in found.stderr) == races, found.stderr[-2000:]
        assert races or found.returncode == 0


# What is predicted -------------------------------------------------------------------------------


def test_the_period_is_that_of_self_timed_execution() -> None:
    """Once the pipeline is full, each further image takes a period; no image takes less than the busiest processor."""
    profile = [device("native-core")]
    six, seven = (predict_mapping(small(frames), profile) for frames in (6, 7))
    assert six.period is not None and six.period == seven.period
    assert six.period == pytest.approx(seven.seconds - six.seconds, rel=1e-3)
    assert six.period >= max(six.loads) - 1e-9
    assert six.seconds < 0.75 * six.sequential, "processors overlap"
    assert sum(six.loads) * 6 == pytest.approx(six.sequential)
    assert predict_mapping(small(1), profile).period is None


def test_each_processor_may_be_another_device() -> None:
    """The faster one gets more of the layers, and periods are of their own times."""
    network = csdfgen.load("zoo:squeezenet1_1@64x64", batch=3)
    names = "jetson-tx2,raspberry-pi-4"
    plan = csdfgen.plan(network, goal="throughput", frames=3, device=names, backend="numpy")
    found = predict_mapping(plan, [device(name) for name in names.split(",")])
    spent = np.array(found.loads)
    assert set(found.mapping.values()) == {0, 1} and found.device == "jetson-tx2, raspberry-pi-4"
    assert found.period is not None and found.period >= spent.max() * 0.999
    alone = predict_mapping(plan, [device("raspberry-pi-4")])
    assert alone.loads[0] > alone.loads[1] and alone.loads[1] == pytest.approx(found.loads[1])
    with pytest.raises(InputError, match="names 2 processors, threads=3 asks for 3"):
        csdfgen.plan(network, goal="throughput", threads=3, frames=3, device=names)


# Files and refusals ------------------------------------------------------------------------------


def test_a_plan_file_has_the_mapping() -> None:
    plan = small()
    network = csdfgen.load(residual_classifier(batch=4), batch=4)
    data = to_json(plan)
    again = to_plan(from_json(data), network, load_backend("numpy"))
    assert again.mapping == plan.mapping and again.waits == plan.waits and to_json(again) == data
    lacking = {**data, "mapping": {k: v for k, v in data["mapping"].items() if k != "conv1"}}
    with pytest.raises(PlanError, match="one of them alone has 'conv1'"):
        to_plan(from_json(lacking), network, load_backend("numpy"))
    with pytest.raises(PlanError, match="maps no actor to processor 1, but to 5"):
        from_json({**data, "mapping": {name: 5 * core for name, core in plan.mapping.items()}})
    other = {**data["mapping"], "conv1": 1 - data["mapping"]["conv1"]}
    check(to_plan(from_json({**data, "mapping": other}), network, load_backend("numpy")))


@pytest.mark.parametrize(
    ("given_options", "said"),
    [
        ({"threads": 2}, "are processors of goal='throughput'"),
        ({"goal": "throughput", "threads": 90}, "the network has .* layers"),
        ({"goal": "throughput", "threads": 2, "memory": 1000}, "is less than the .* that goal="),
        ({"goal": "throughput", "threads": 2, "result": "arena"}, "takes no result='arena'"),
        ({"goal": "throughput", "threads": 2, "recompute": 1.5}, "takes no recompute"),
        ({"goal": "throughput", "threads": 2, "device": "abacus,quipu"}, "is not a known device"),
    ],
)
def test_refusals(given_options: dict[str, object], said: str) -> None:
    network = csdfgen.load(residual_classifier())
    with pytest.raises((InputError, PlanError), match=said):
        csdfgen.plan(network, backend="numpy", **given_options)


def test_networks_with_ifs_are_refused() -> None:
    network = csdfgen.load("zoo:b_alexnet")
    with pytest.raises(InputError, match="for networks without Ifs"):
        csdfgen.plan(network, goal="throughput", threads=2, backend=resolve_backend("auto"))
    plan = small()
    broken = replace(plan, mapping=dict.fromkeys(list(plan.mapping)[1:], 0))
    with pytest.raises(PlanError, match="one of them alone has"):
        check(broken)
