"""Limits of a request that are neither memory nor time: energy, and whatever else adds up over phases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import csdfgen
from csdfgen.devices.costs import Cost, energy_limit, plan_cost
from csdfgen.devices.files import profile_to_toml, read_profile
from csdfgen.devices.model import estimate
from csdfgen.errors import InputError, PlanError
from csdfgen.goals.choice import load_profile
from csdfgen.model.network import Network
from csdfgen.planning.plan import Plan
from tests.builder import Graph

IMAGES = 4

BOARD = """
format = "csdfgen-device"
version = 1
name = "board"
title = "A board whose far memory is dear"

[sources]
sheet = "made up"

[memory]
total = { value = 8, unit = "GiB", origin = "modelled", source = "sheet" }
usable = { value = 8, unit = "GiB", origin = "modelled", source = "sheet" }
cache = { value = 64, unit = "MiB", origin = "modelled", source = "sheet" }

[processor]
cores = { value = 1, unit = "cores", origin = "modelled", source = "sheet" }
peak = { value = 1, unit = "GFLOP/s", origin = "modelled", source = "sheet" }
bandwidth = { value = 100, unit = "GB/s", origin = "modelled", source = "sheet" }
"""

POWER = 'power = { value = 2, unit = "W", origin = "modelled", source = "sheet" }\n'
BYTES = 'byte_energy = { value = 200, unit = "pJ/B", origin = "modelled", source = "sheet" }\n'
LAUNCH = 'launch = { value = 5, unit = "us", origin = "modelled", source = "sheet" }\n'


@pytest.fixture(scope="module")
def network() -> Network:
    """A classifier whose weights are read once an image, or once for all."""
    g = Graph()
    x = g.node("Relu", g.conv(g.input("x", (1, 3, 16, 16)), 8, 3, pads=[1] * 4))
    x = g.node("Flatten", x)
    weights = g.rng.standard_normal((2048, 64)).astype(np.float32) / 2048
    return csdfgen.load(g.model(g.node("Gemm", x, g.constant(weights))))


def board(folder: Path, *numbers: str) -> str:
    path = folder / "board.toml"
    path.write_text(BOARD + "".join(numbers))
    return str(path)


def planned(network: Network, device: str, **wishes: object) -> Plan:
    return csdfgen.plan(network, requests=IMAGES, device=device, backend="numpy", **wishes)  # type: ignore[arg-type]


def energy(plan: Plan, device: str) -> float:
    """J of all images, as the estimate has it."""
    found = estimate(plan, read_profile(device)).energy
    assert found is not None
    return found * (plan.network.batch // plan.conversion.frames)


def test_energy_is_power_times_time_and_bytes(network: Network, tmp_path: Path) -> None:
    device = board(tmp_path, POWER, LAUNCH)
    plan = planned(network, device)
    runs = IMAGES // plan.conversion.frames
    seconds = runs * estimate(plan, read_profile(device)).seconds
    assert energy(plan, device) == pytest.approx(2 * seconds)
    with_bytes = energy(plan, board(tmp_path, POWER, LAUNCH, BYTES))
    least = network.layers[-1].parameter_bytes + 4 * IMAGES * 2048  # read at least once
    assert with_bytes >= 2 * seconds + 200e-12 * least


def test_energy_from_time_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    energy_limit(read_profile(board(tmp_path, POWER, LAUNCH, BYTES)), 1.0)
    assert not caplog.messages
    energy_limit(read_profile(board(tmp_path, POWER, LAUNCH)), 1.0)
    (line,) = caplog.messages
    assert "only a power: energy is power times time" in line and "\n" not in line


def test_a_limit_of_energy_is_kept(network: Network, tmp_path: Path) -> None:
    """Joules of bytes, not of time: the roofline is bound by arithmetic, so that batches save no time, but
    the weights of the classifier are read once for all images.
    """
    device = board(tmp_path, BYTES, LAUNCH)
    memory = planned(network, device, batching="fbs").total_bytes
    alone = IMAGES * energy(csdfgen.plan(network, device=device, backend="numpy"), device)
    kept = planned(network, device, memory=memory, energy=0.6 * alone)
    assert energy(kept, device) <= 0.6 * alone
    assert kept.total_bytes <= memory


def test_what_cannot_be_kept_says_the_least(network: Network, tmp_path: Path) -> None:
    device = board(tmp_path, POWER, BYTES)
    with pytest.raises(PlanError, match=r"at least on board; allow energy='") as caught:
        planned(network, device, energy="1uJ")
    least = str(caught.value).split("allow energy='")[1].split("'")[0]
    assert energy(planned(network, device, energy=least), device) <= float(least[:-2]) * 1e-3


def test_any_cost_that_adds_up(network: Network) -> None:
    """Bytes of weights that are read, of the default device."""
    alone = csdfgen.plan(network, backend="numpy")
    weights = Cost("weights", "bytes", 1.0, lambda work, seconds: work.weights)
    profile = load_profile(alone.options)
    most = IMAGES * plan_cost(alone, profile, weights) / 2
    asked = Cost("weights", "bytes", most, lambda work, seconds: work.weights)
    made = csdfgen.plan(network, requests=IMAGES, backend="numpy", cost=asked)
    runs = IMAGES // made.conversion.frames
    assert runs * plan_cost(made, profile, asked) <= most
    none = Cost("weights", "bytes", 1.0, asked.of)
    with pytest.raises(PlanError, match="weights of 1 bytes is not kept"):
        csdfgen.plan(network, requests=IMAGES, backend="numpy", cost=none)


def test_energies_survive_their_file(tmp_path: Path) -> None:
    profile = read_profile(board(tmp_path, POWER, BYTES))
    again = tmp_path / "again.toml"
    again.write_text(profile_to_toml(profile))
    assert read_profile(again).processor == profile.processor
    assert profile.processor.has_energy


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"energy": "1J"}, "energy.* limits a request"),
        ({"energy": "1J", "requests": 2}, "energy is of a device"),
        ({"energy": "fast", "requests": 2}, "is not understood"),
        ({"energy": "0J", "requests": 2}, "more than 0|number above 0"),
        ({"cost": Cost("wear", "cycles", 1.0, lambda work, seconds: 0.0)}, "limits a request"),
    ],
)
def test_wishes_that_make_no_sense(network: Network, wishes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        csdfgen.plan(network, **wishes)  # type: ignore[arg-type]


def test_a_device_without_energies_is_refused(network: Network, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing is known of the energy"):
        planned(network, board(tmp_path), energy="1J")


def test_a_cost_has_a_limit() -> None:
    with pytest.raises(InputError, match="more than 0"):
        Cost("wear", "cycles", 0.0, lambda work, seconds: 1.0)
