"""How many bytes are "512KiB", how many seconds "20ms"? Sizes and times as people type them.

`512KB` is 512,000 bytes and `512KiB` 524,288; a plain number is bytes, or seconds. Units are written
as they are defined: `Mb` could be a megabit, `M` a metre, and both are refused.

>>> size_of("512KB"), size_of("512KiB"), size_of(4096)
(512000, 524288, 4096)
>>> time_of("20ms"), time_of("300us"), time_of(0.5)
(0.02, 0.0003, 0.5)
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType

from csdfgen.errors import InputError, option
from csdfgen.files import quoted

__all__ = [
    "ENERGIES",
    "SIZES",
    "TIMES",
    "counted",
    "energy_of",
    "memories_of",
    "shown_energy",
    "shown_size",
    "shown_time",
    "size_of",
    "time_of",
]

SIZES: Mapping[str, float] = MappingProxyType(
    {
        "B": 1,
        "KB": 1e3,
        "kB": 1e3,
        "MB": 1e6,
        "GB": 1e9,
        "KiB": 2**10,
        "MiB": 2**20,
        "GiB": 2**30,
    }
)
"""Unit of a size -> bytes. KB and kB are the same: the first is typed, the second is the standard's."""

TIMES: Mapping[str, float] = MappingProxyType({"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9})
"""Unit of a time -> seconds."""

ENERGIES: Mapping[str, float] = MappingProxyType({"J": 1.0, "mJ": 1e-3, "uJ": 1e-6})
"""Unit of an energy -> joules."""

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(?:e([+-]?\d{1,3}))?\s*([A-Za-z]*)", re.ASCII)
_LONGEST = 64
_MOST_BYTES = 2**62
_MOST_SECONDS = 1e9
_MOST_JOULES = 1e12


def size_of(value: object, name: str = "memory") -> int:
    """Bytes of a size: a whole number, or a text with a unit; parts of a byte are dropped.

    name: the option that it is of. Raises InputError for what is no size above 0.
    """
    return int(_amount(value, name, SIZES, "B", "bytes", 1, _MOST_BYTES))


def time_of(value: object, name: str = "latency") -> float:
    """Seconds of a time: a number, or a text with a unit. Raises InputError for what is no time
    above 0.
    """
    return _amount(value, name, TIMES, "s", "seconds", 0, _MOST_SECONDS)


def energy_of(value: object, name: str = "energy") -> float:
    """Joules of an energy: a number, or a text with a unit. Raises InputError for what is none above 0.

    >>> energy_of("250mJ")
    0.25
    """
    return _amount(value, name, ENERGIES, "J", "joules", 0, _MOST_JOULES)


def memories_of(fast: object, slow: object) -> tuple[int, int]:
    """Bytes of a fast and of a slow memory, the fast one no larger. Raises InputError.

    >>> memories_of("256KiB", "8MiB")
    (262144, 8388608)
    """
    sizes = size_of(fast, "fast"), size_of(slow, "slow")
    if sizes[0] > sizes[1]:
        raise InputError(
            f"{option('fast')} of {sizes[0]:,} bytes is larger than {option('slow')} of {sizes[1]:,}; "
            "exchange them, or plan for the fast memory alone"
        )
    return sizes


def _amount(
    value: object, name: str, units: Mapping[str, float], plain: str, of: str, low: int, high: float
) -> float:
    """A number of base units, more than 0 and at least `low`."""
    accepted = f"a number above 0 with one of {', '.join(units)}, alone a number of {of}, is needed"
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{option(name)} is not a finite number; {accepted}")
    said = option(name, _cut(value))
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value.strip()) if len(value) <= _LONGEST else None
        if match is None:
            raise InputError(f"{said} is not understood; {accepted}")
        digits, power, unit = match.groups()
        factor = units.get(unit or plain)
        if factor is None:
            raise InputError(f"{said}: '{unit}' is no unit that is known; {accepted}")
        amount = float(f"{digits}e{power or 0}") * factor
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        amount = float(value) if abs(value) <= high else math.inf
    else:
        raise InputError(f"{said} is not understood; {accepted}")
    if not math.isfinite(amount) or amount <= 0 or amount < low:
        raise InputError(f"{said}: {accepted}")
    if amount > high:
        raise InputError(f"{said} is more than {high:.3g} {of}; {accepted}")
    return amount


def _cut(value: object) -> object:
    """A value as an error may show it, cut where it is long."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..."
    return value if isinstance(value, float) else quoted(value)


def counted(count: int, what: str, plural: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "phase"), counted(1200, "phase")
    ('1 phase', '1,200 phases')
    """
    return f"{count:,} {what if count == 1 else plural or what + 's'}"


def shown_size(size: int) -> str:
    """A size that `size_of` reads, no smaller: whole KiB, rounded up.

    >>> shown_size(524_288), shown_size(524_289), shown_size(100)
    ('512KiB', '513KiB', '1KiB')
    """
    return f"{-(-size // 2**10)}KiB"


def shown_time(seconds: float) -> str:
    """A time that `time_of` reads, no shorter: three digits, rounded up.

    >>> shown_time(0.0123456), shown_time(2e-6), shown_time(2.5)
    ('12.4ms', '0.00200ms', '2500ms')
    """
    return f"{_raised(1e3 * seconds)}ms"


def shown_energy(joules: float) -> str:
    """An energy that `energy_of` reads, no smaller: three digits, rounded up.

    >>> shown_energy(0.0123456)
    '12.4mJ'
    """
    return f"{_raised(1e3 * joules)}mJ"


def _raised(number: float) -> str:
    """Three digits, rounded up."""
    digits = max(0, 2 - math.floor(math.log10(number))) if number > 0 else 0
    rounded = math.ceil(number * 10**digits - 1e-6) / 10**digits
    return f"{rounded:.{digits}f}"
