"""How much power does this machine take while something runs? Counters that the Linux kernel shows as files.

Sources: Documentation/power/powercap/powercap.rst (RAPL of Intel and AMD: microjoules since the start, up to a range),
Documentation/hwmon/ina3221.rst and ina2xx.rst (millivolts and milliamperes, or microwatts, of a rail), and NVIDIA's Jetson Linux
Developer Guide (rails of the modules; milliwatts under iio in its older kernels).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from csdfgen.devices.profile import DeviceProfile, parse_quantity

SOURCE = "counters"
"""Key of the source of a power that was measured."""

_RAPL = "sys/class/powercap"
_WHOLE = ("package", "dram")
"""Beginnings of the names of RAPL's domains that together are the processor and its memory: others are parts of these."""

_RAILS = ("sys/bus/i2c/drivers/ina3221*/*/iio:device*", "sys/class/hwmon/hwmon*")
_INPUTS = ("VDD_IN", "POM_5V_IN", "5V_IN")
"""Rails that feed a whole module."""


@dataclass
class _Counter:
    """A counter of energy. unit: joules of one. range: where it begins again."""

    name: str
    path: Path
    unit: float
    range: int

    def __post_init__(self) -> None:
        self.last = _number(self.path)

    def since(self) -> float:
        """Joules since the last reading."""
        before, self.last = self.last, _number(self.path)
        passed = self.last - before
        return self.unit * (passed if passed >= 0 else passed + self.range)


@dataclass
class _Rail:
    """A power now: the product of files. unit: watts of one. clock: seconds."""

    name: str
    paths: tuple[Path, ...]
    unit: float
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self.last = self._now()

    def _now(self) -> tuple[float, float]:
        found = self.unit
        for path in self.paths:
            found *= _number(path)
        return self.clock(), found

    def since(self) -> float:
        """Joules since the last reading, as if power changed evenly between the two."""
        (start, before), self.last = self.last, self._now()
        end, after = self.last
        return (end - start) * (before + after) / 2


class Meter:
    """The power of this machine between readings, which are to be more frequent than counters begin again (a minute).

    root: where files of the system are. why: a sentence that says why there is no counter; "" if there is one.
    """

    def __init__(self, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        self._root, self._clock = root, clock
        self._joules, self._seconds, self._start = 0.0, 0.0, 0.0
        self.why = "this system shows no counter of energy (RAPL, or an INA sensor of a board)"
        self._meters: list[_Counter | _Rail] = []
        for find in (self._domains, self._rails):
            try:
                self._meters = list(find())
            except PermissionError as error:
                where = Path(error.filename).relative_to(root)
                self.why = f"/{where} may be read by root alone (sudo chmod a+r allows it to all)"
                return
            except (OSError, ValueError) as error:
                self.why = f"a counter of energy cannot be read: {error}"
            if self._meters:
                self.why = ""
                return

    def begin(self) -> None:
        """What is taken from now on counts."""
        self._start = self._clock()
        self._since()

    def read(self) -> None:
        """What was taken since the last reading counts."""
        now = self._clock()
        self._seconds, self._start = self._seconds + now - self._start, now
        self._joules += self._since()

    @property
    def watts(self) -> float | None:
        """The mean power of the time that counts; None where there is no counter, or no time."""
        return self._joules / self._seconds if self._meters and self._seconds > 0 else None

    @property
    def names(self) -> str:
        """What was measured."""
        return ", ".join(one.name for one in self._meters)

    def _since(self) -> float:
        try:
            return sum(one.since() for one in self._meters)
        except (OSError, ValueError) as error:
            self._meters, self.why = [], f"a counter of energy cannot be read any more: {error}"
            return 0.0

    def _domains(self) -> Iterator[_Counter]:
        for path in sorted(self._root.glob(f"{_RAPL}/*-rapl:*")):
            name = _text(path / "name")
            if name.startswith(_WHOLE):
                most = int(_number(path / "max_energy_range_uj"))
                yield _Counter(f"RAPL {name}", path / "energy_uj", 1e-6, most)

    def _rails(self) -> Iterator[_Rail]:
        found: list[_Rail] = []
        for folder in sorted(one for pattern in _RAILS for one in self._root.glob(pattern)):
            for path in sorted(folder.glob("in_power*_input")):  # iio, milliwatts
                number = path.name.removeprefix("in_power").removesuffix("_input")
                name = _text(folder / f"rail_name_{number}")
                found.append(_Rail(name, (path,), 1e-3, self._clock))
            chip = _text(folder / "name") if (folder / "name").exists() else ""
            if chip == "ina3221":
                for path in sorted(folder.glob("curr[123]_input")):
                    number = path.name.removeprefix("curr").removesuffix("_input")
                    volts = folder / f"in{number}_input"
                    label = folder / f"in{number}_label"
                    if volts.exists() and label.exists():
                        found.append(_Rail(_text(label), (path, volts), 1e-6, self._clock))
            elif chip.startswith("ina2"):
                label = folder / "power1_label"
                name = _text(label) if label.exists() else chip
                found.append(_Rail(name, (folder / "power1_input",), 1e-6, self._clock))
        whole = [one for one in found if one.name in _INPUTS]
        yield from whole or found


def add_power(profile: DeviceProfile, meter: Meter) -> DeviceProfile:
    """The profile with the power that was measured while its frames ran, or with the reason why none was."""
    watts = meter.watts
    if watts is None:
        said = meter.why or "frames were too short for a second reading; more repeats measure it"
        conditions = {**profile.conditions, "power": f"not measured: {said}"}
        return replace(profile, conditions=MappingProxyType(conditions))
    power = parse_quantity(float(f"{watts:.4g}"), "W", SOURCE)
    said = f"counters of this machine ({meter.names}) while frames ran, idle parts and other programs included"
    return replace(
        profile,
        processor=replace(profile.processor, power=power),
        sources=MappingProxyType({**profile.sources, SOURCE: said}),
        conditions=MappingProxyType({**profile.conditions, "power": f"{power} by {meter.names}"}),
    )


def _number(path: Path) -> float:
    return float(_text(path))


def _text(path: Path) -> str:
    return path.read_text().strip()
