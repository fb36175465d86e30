"""The profile that csdfgen keeps of this machine: what it is fitted to, where it is kept, and which times it shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

import csdfgen
from csdfgen.backends.registry import choose_backend, find_backend
from csdfgen.devices import facts, host, measure
from csdfgen.devices.catalogue import device
from csdfgen.devices.fitting import fit_terms
from csdfgen.devices.measure import Measurements, Point
from csdfgen.devices.model import actor_key, estimate, find_rule
from csdfgen.devices.profile import DeviceProfile
from csdfgen.devices.samples import sample_models
from csdfgen.devices.work import kernel_classes, layer_key, phase_works
from csdfgen.goals.choice import choose_shown_profile, load_profile
from csdfgen.lowering.program import lower
from csdfgen.model.network import Layer
from csdfgen.model.options import PlanOptions
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import plan_phased

NATIVE = choose_backend(None).emits


def test_terms_are_found_again_through_noise_and_outliers() -> None:
    random = np.random.default_rng(3)
    terms = 10 ** random.uniform(0, 4, (200, 3))
    wanted = np.array([5.0, 0.0, 0.3])
    times = terms @ wanted * random.lognormal(0, 0.05, 200)
    times[::20] *= 5
    found = fit_terms(terms, times)
    assert found[0] == pytest.approx(5, rel=0.1) and found[2] == pytest.approx(0.3, rel=0.1)
    assert (found >= 0).all() and found[1] < 0.01


def test_a_term_without_amounts_costs_nothing() -> None:
    assert fit_terms(np.array([[1.0, 0.0], [2.0, 0.0]]), np.array([3.0, 6.0])).tolist() == [3, 0]


KERNELS = {
    "few": {"conv_of"}, "1x1": {"conv_of"}, "direct": {"conv_of"}, "dots": {"conv_dots_of"},
    "depthwise": {"depthwise_of"}, "depthwise/2": {"depthwise_of"},
    "3x3": {"winograd_of", "winograd_row_of"}, "sliding": {"winograd_row_of"},
}  # fmt: skip
"""Which kernels compute a class of convolutions where they have the workspace."""


@pytest.mark.skipif(not NATIVE, reason="classes are of the native kernels, which are not here")
def test_classes_of_convolutions_are_those_of_the_kernels() -> None:
    """The classes are told from sizes alone; the kernels are what the plan of the built-in layers really calls."""
    met: set[str] = set()
    for one in sample_models():
        plan = csdfgen.plan(one.network, fuse=one.fuse, rows=4, goal="speed")
        program = lower(plan, choose_backend(plan.options))
        for (actor, _), numbers in zip(plan.order, program.code, strict=True):
            layer = plan.conversion.actor[actor].layer
            if layer is None or layer.op_type != "Conv":
                continue
            first = kernel_classes(layer)[0]
            met.add(first)
            called = {program.instructions[number].kernel for number in numbers}
            assert called & KERNELS[first], (layer_key(layer), first, called)
    assert met == KERNELS.keys()


# Synthetic times --------------------------------------------------------------------------------


def seconds_of(layer: Layer, work: object, cached: bool) -> float:
    """Times of a machine that the test knows."""
    price = {"Conv": 2e-11, "Gemm": 5e-11, "MatMul": 3e-11}.get(layer.op_type, 0.0)
    launch = 1e-7 if cached else 2e-6
    amounts = work.amounts  # type: ignore[attr-defined]
    moved = 1e-11 * work.moved + 2e-11 * work.weights  # type: ignore[attr-defined]
    return float(launch + price * amounts["lane"] + 4e-10 * amounts["element"] + moved)


def synthetic(heights: tuple[int | str, ...] = (1, 2, 4, "whole")) -> Iterator[Measurements]:
    """What measuring the built-in layers would give there."""
    for one in sample_models():
        points: dict[str, list[Point]] = {}
        layers: dict[str, Layer | None] = {}
        for rows in heights:
            plan = csdfgen.plan(one.network, fuse=one.fuse, rows=rows, backend="numpy")
            for actor in plan.conversion.actors:
                if actor.layer is None or actor.name in plan.sharing.silent:
                    continue
                works = list(phase_works(actor))
                spent = sum(seconds_of(actor.layer, work, one.cached) for work in works)
                counts, amounts = measure.phase_work(actor)
                point = Point(
                    len(works), sum(counts), max(counts), spent, spent, spent, sum(amounts),
                    moved=sum(work.moved for work in works), weights=sum(work.weights for work in works),
                )  # fmt: skip
                points.setdefault(actor_key(actor), []).append(point)
                layers[actor_key(actor)] = actor.layer
        yield Measurements(
            MappingProxyType({key: tuple(at) for key, at in points.items()}),
            MappingProxyType(layers),
            (1e-6,),
            1,
            cached=one.cached,
            products="lane",
        )


@pytest.fixture(scope="module")
def synthetic_profile() -> DeviceProfile:
    found, machine = list(synthetic()), facts.machine()
    made = measure.make_profile(found, "host", "a known machine", *machine, {})
    return replace(made, layers=MappingProxyType({}))


@pytest.mark.parametrize("name", ["zoo:resnet18", "zoo:mobilenet_v2"])
def test_a_machine_is_predicted(name: str, synthetic_profile: DeviceProfile) -> None:
    plan = csdfgen.plan(csdfgen.load(name), backend="numpy", fuse="none")
    wanted = sum(
        seconds_of(actor.layer, work, cached=False)
        for actor in plan.conversion.actors
        if actor.layer is not None and actor.name not in plan.sharing.silent
        for work in phase_works(actor)
    )
    assert estimate(plan, synthetic_profile).seconds == pytest.approx(wanted, rel=0.1)


def test_costs_in_the_cache_are_of_small_networks_alone(synthetic_profile: DeviceProfile) -> None:
    layer = next(one for one in csdfgen.load("zoo:resnet8").layers if one.op_type == "Conv")
    cache = measure.parse_quantity(1024, "KiB", "system")
    profile = replace(synthetic_profile, memory=replace(synthetic_profile.memory, cache=cache))
    small, large = (find_rule(profile.within(size), layer) for size in (2**20, 2**20 + 1))
    assert small is not None and small.cached and large is not None and not large.cached
    unknown = replace(profile, memory=replace(profile.memory, cache=None))
    assert not any(one.cached for one in unknown.within(1).operators)


def test_a_plan_that_ctrl_c_cut_short_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches end with the best plan so far; measuring it would take the seconds that the user does not want to wait."""

    def cut(*given: object) -> Plan:
        return replace(plan_phased(*given), interrupted=True)  # type: ignore[arg-type]

    monkeypatch.setattr(measure, "plan_phased", cut)
    with pytest.raises(KeyboardInterrupt):
        measure.sample_network(csdfgen.load("zoo:lenet5"), (1,), 1)


# Keeping ----------------------------------------------------------------------------------------


@pytest.fixture
def measured_times(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, synthetic_profile: DeviceProfile
) -> list[str]:
    """The backends that were measured, in an empty cache."""
    asked: list[str] = []

    def measured(backend: str, code: str) -> DeviceProfile:
        asked.append(backend)
        return replace(synthetic_profile, title=f"measured {len(asked)} times")

    monkeypatch.setattr(host, "_measured", measured)
    monkeypatch.setattr(host, "get_folder", lambda kind: tmp_path)
    host.host_profile.cache_clear()
    yield asked
    host.host_profile.cache_clear()


def again() -> DeviceProfile:
    host.host_profile.cache_clear()
    return host.host_profile()


@pytest.mark.skipif(not NATIVE, reason="there are no native kernels to measure")
def test_a_machine_is_measured_once(measured_times: list[str], tmp_path: Path) -> None:
    assert again().title == again().title == "measured 1 times"
    (path,) = tmp_path.glob("*.toml")
    assert path.stat().st_mode & 0o077 == 0
    path.write_text(path.read_text().replace("csdfgen-device", "else"))
    assert again().title == "measured 2 times" and len(measured_times) == 2


@pytest.mark.skipif(not NATIVE, reason="there are no native kernels to measure")
def test_others_are_measured(measured_times: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    again()
    monkeypatch.setattr(facts, "cpu_name", lambda: "another one")
    assert again().title == "measured 2 times"
    assert again().title == "measured 2 times"


@pytest.mark.skipif(not NATIVE, reason="there are no native kernels to measure")
def test_plans_are_chosen_as_everywhere_and_shown_as_here(measured_times: list[str]) -> None:
    plain = PlanOptions(backend=find_backend("emits"))
    assert load_profile(plain).name == "native-core" and not measured_times
    assert choose_shown_profile(plain).title == "measured 1 times"
    assert choose_shown_profile(replace(plain, device="jetson-tx2")).name == "jetson-tx2"
    assert choose_shown_profile(replace(plain, backend="numpy")).name == "numpy-core"
    assert device("host").title == "measured 1 times"
