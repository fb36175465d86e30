"""Power from counters of the kernel, in a tree of files as machines have them; published energies, and what they change."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import csdfgen
from csdfgen.devices import energy
from csdfgen.devices.catalogue import device
from csdfgen.devices.costs import energy_limit
from csdfgen.devices.energy import Meter, add_power
from csdfgen.devices.files import profile_from_toml, profile_to_toml, read_profile
from csdfgen.devices.model import estimate
from tests.builder import Graph
from tests.command import Call


class Machine:
    """Files of a system, and its clock."""

    def __init__(self, root: Path) -> None:
        self.root, self.now = root, 0.0

    def write(self, path: str, value: object) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")

    def domain(self, place: str, name: str, value: int, most: int = 10**9) -> None:
        for key, what in (("name", name), ("energy_uj", value), ("max_energy_range_uj", most)):
            self.write(f"sys/class/powercap/{place}/{key}", what)

    def meter(self) -> Meter:
        return Meter(self.root, lambda: self.now)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_domains_are_added_up_and_begin_again(machine: Machine) -> None:
    machine.domain("intel-rapl:0", "package-0", 999_000_000)
    machine.domain("intel-rapl:0:0", "core", 5)  # a part of the package
    machine.domain("intel-rapl:0:1", "dram", 1_000)
    machine.domain("intel-rapl:1", "psys", 77)  # all of the machine, these as well
    meter = machine.meter()
    assert not meter.why and meter.watts is None
    machine.domain("intel-rapl:0", "package-0", 999_500_000)  # before it begins
    meter.begin()
    machine.now = 2.0
    machine.domain("intel-rapl:0", "package-0", 29_500_000)  # 30 J and a new beginning
    machine.domain("intel-rapl:0:1", "dram", 10_001_000)
    machine.domain("intel-rapl:0:0", "core", 9_000_000)
    meter.read()
    assert meter.watts == pytest.approx(20)
    machine.now = 4.0
    meter.read()  # two seconds of nothing
    assert meter.watts == pytest.approx(10)
    machine.now = 100.0
    machine.domain("intel-rapl:0", "package-0", 400_000_000)
    meter.begin()  # what was between does not count
    machine.now = 101.0
    meter.read()
    assert meter.watts == pytest.approx(8)
    assert meter.names == "RAPL package-0, RAPL dram"


@pytest.mark.parametrize("whole", [True, False])
def test_rails_of_older_jetsons(machine: Machine, whole: bool) -> None:
    folder = "sys/bus/i2c/drivers/ina3221x/0-0041/iio:device0"
    for number, name in enumerate(("VDD_IN" if whole else "VDD_SYS_SOC", "VDD_SYS_GPU")):
        machine.write(f"{folder}/rail_name_{number}", name)
        machine.write(f"{folder}/in_power{number}_input", 4000 + 1000 * number)
    meter = machine.meter()
    meter.begin()
    machine.write(f"{folder}/in_power0_input", 6000)
    machine.now = 3.0
    meter.read()
    assert meter.watts == pytest.approx(5 if whole else 10)
    assert ("GPU" in meter.names) is not whole


def test_rails_of_newer_jetsons_and_other_boards(machine: Machine) -> None:
    folder = "sys/class/hwmon/hwmon3"
    machine.write(f"{folder}/name", "ina3221")
    for number, name in enumerate(("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"), 1):
        machine.write(f"{folder}/in{number}_label", name)
        machine.write(f"{folder}/in{number}_input", 5000)
        machine.write(f"{folder}/curr{number}_input", 1200)
    machine.write(f"{folder}/curr4_input", 9999)  # the sum of shunts, no rail
    machine.write("sys/class/hwmon/hwmon0/name", "coretemp")
    meter = machine.meter()
    meter.begin()
    machine.now = 1.0
    meter.read()
    assert (meter.watts, meter.names) == (pytest.approx(6), "VDD_IN")
    for path in (machine.root / folder).iterdir():
        path.unlink()
    machine.write(f"{folder}/name", "ina226")
    machine.write(f"{folder}/power1_input", 2_500_000)
    meter = machine.meter()
    meter.begin()
    machine.now = 2.0
    meter.read()
    assert (meter.watts, meter.names) == (pytest.approx(2.5), "ina226")


def test_why_nothing_is_measured(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = device("native-core")
    meter = machine.meter()
    meter.begin()
    machine.now = 1.0
    meter.read()
    assert meter.watts is None
    found = add_power(profile, meter)
    assert found.processor == profile.processor
    assert found.conditions["power"].startswith("not measured: this system shows no counter")
    machine.domain("intel-rapl:0", "package-0", 1)
    read = Path.read_text

    def by_root(path: Path) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_text", by_root)
    assert "energy_uj may be read by root alone" in machine.meter().why
    monkeypatch.undo()
    # and a counter that goes away
    meter = machine.meter()
    meter.begin()
    (machine.root / "sys/class/powercap/intel-rapl:0/energy_uj").unlink()
    meter.read()
    assert meter.watts is None and "any more" in meter.why
    machine.domain("intel-rapl:0", "package-0", 1)
    machine.write("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "unknown")
    assert "cannot be read: could not convert" in machine.meter().why


def test_profile_measures_power(
    machine: Machine, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, model = tmp_path / "mine.toml", tmp_path / "net.onnx"
    g = Graph()
    model.write_bytes(g.model(g.conv(g.input("x", (1, 3, 16, 16)), 8, 3)).SerializeToString())
    machine.domain("intel-rapl:0", "package-0", 0)

    class Counted(Meter):
        """Each reading is a second and 12 J later."""

        def __init__(self) -> None:
            super().__init__(machine.root, lambda: machine.now)

        def read(self) -> None:
            machine.now += 1
            machine.domain("intel-rapl:0", "package-0", int(12e6 * machine.now))
            super().read()

    monkeypatch.setattr(energy, "Meter", Counted)
    arguments = "profile", str(model), "-o", str(path), "--heights", "1", "--repeats", "3"
    first = call(*arguments)
    assert first.code == 0, first.err
    found = read_profile(path)
    power = found.processor.power
    assert power is not None
    assert (power.value, power.origin) == (pytest.approx(12), "measured")
    assert "RAPL package-0" in found.sources[power.source]
    assert found.conditions["power"] == "12 W by RAPL package-0"
    monkeypatch.setattr(energy, "Meter", lambda: Meter(tmp_path / "nothing"))
    told = call(*arguments)
    assert "not measured: this system shows no counter" in told.out
    assert read_profile(path).processor.power is None


@pytest.mark.parametrize("name", ["native-core", "numpy-core", "raspberry-pi-4", "cortex-m7"])
def test_shipped_energies_say_where_they_are_from(name: str) -> None:
    profile = device(name)
    for one in (profile.processor.operation_energy, profile.processor.byte_energy):
        assert one is not None and "2014" in profile.sources[one.source]
        assert "45 nm" in profile.sources[one.source]
    again = profile_from_toml(profile_to_toml(profile).encode(), name)
    assert again.processor == profile.processor


def test_energy_ranks_plans_otherwise_than_time(caplog: pytest.LogCaptureFixture) -> None:
    """Low slabs take longer; a classifier that works on one image at a time reads its weights from memory for each."""
    profile = device("native-core")
    with caplog.at_level(logging.WARNING):
        energy_limit(profile, 1.0)
    assert not caplog.records
    g = Graph()
    x = g.node("Relu", g.conv(g.input("x", (1, 3, 32, 32)), 64, 3, pads=[1] * 4))
    x = g.node("Relu", g.conv(x, 64, 3, pads=[1] * 4))
    weights = g.rng.standard_normal((64 * 32 * 32, 32)).astype("float32") / 99
    network = csdfgen.load(g.model(g.node("Gemm", g.node("Flatten", x), g.constant(weights))), batch=8)  # fmt: skip
    joint = f"1,{network.layers[-1].name}=all"
    fast, frugal = (
        estimate(
            csdfgen.plan(network, frames=8, rows=rows, batches=batches, policy="demand", backend="numpy"),
            profile,
        )
        for rows, batches in (("whole", "1"), ("1", joint))
    )  # fmt: skip
    assert fast.energy is not None and frugal.energy is not None
    assert fast.seconds < frugal.seconds and fast.energy > 1.2 * frugal.energy
    within = csdfgen.plan(
        network, requests=8, device="native-core", backend="numpy", energy=f"{frugal.energy}J"
    )
    found = estimate(within, profile)
    assert found.energy is not None and found.energy <= frugal.energy
