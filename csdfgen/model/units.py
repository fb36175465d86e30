"""Sizes, times and energies with units, such as "512KiB" or "20ms".

`512KB` is 512,000 bytes and `512KiB` 524,288; a number without a unit is bytes, or seconds. Units are case-sensitive: `Mb`
could be a megabit and `M` a metre, and both are refused.

>>> parse_size("512KB"), parse_size("512KiB"), parse_size(4096)
(512000, 524288, 4096)
>>> parse_time("20ms"), parse_time("300us"), parse_time(0.5)
(0.02, 0.0003, 0.5)
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType

from csdfgen.errors import InputError, option
from csdfgen.files import quote

SIZES: Mapping[str, float] = MappingProxyType(
    {"B": 1, "KB": 1e3, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
)
"""Unit of a size -> bytes. KB is common usage for the standard's kB."""

TIMES: Mapping[str, float] = MappingProxyType({"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9})
"""Unit of a time -> seconds."""

ENERGIES: Mapping[str, float] = MappingProxyType({"J": 1.0, "mJ": 1e-3, "uJ": 1e-6})
"""Unit of an energy -> joules."""

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(?:e([+-]?\d{1,3}))?\s*([A-Za-z]*)", re.ASCII)
_LONGEST = 64
_MOST_BYTES = 2**62
_MOST_SECONDS = 1e9
_MOST_JOULES = 1e12


def parse_size(value: object, name: str = "memory") -> int:
    """Bytes of a size: a whole number, or a text with a unit; fractions of a byte are dropped.

    name: the option that has this value. Raises InputError for anything else than a size above 0.
    """
    return int(_amount(value, name, SIZES, "B", "bytes", 1, _MOST_BYTES))


def parse_time(value: object, name: str = "latency") -> float:
    """Seconds of a time: a number, or a text with a unit. Raises InputError for anything else than a time above 0."""
    return _amount(value, name, TIMES, "s", "seconds", 0, _MOST_SECONDS)


def parse_energy(value: object, name: str = "energy") -> float:
    """Joules of an energy: a number, or a text with a unit. Raises InputError for anything else than an energy above 0.

    >>> parse_energy("250mJ")
    0.25
    """
    return _amount(value, name, ENERGIES, "J", "joules", 0, _MOST_JOULES)


def _amount(
    value: object, name: str, units: Mapping[str, float], plain: str, of: str, low: int, high: float
) -> float:
    """A number of base units, above 0, at least `low` and at most `high`. Raises InputError."""
    accepted = f"a number above 0 with one of {', '.join(units)}, alone a number of {of}, is needed"
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{option(name)} is not a finite number; {accepted}")
    shown = option(name, _cut(value))
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value.strip()) if len(value) <= _LONGEST else None
        if match is None:
            raise InputError(f"{shown} is not understood; {accepted}")
        digits, power, unit = match.groups()
        factor = units.get(unit or plain)
        if factor is None:
            raise InputError(f"{shown}: '{unit}' is no unit that is known; {accepted}")
        amount = float(f"{digits}e{power or 0}") * factor
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        amount = float(value) if abs(value) <= high else math.inf
    else:
        raise InputError(f"{shown} is not understood; {accepted}")
    if not math.isfinite(amount) or amount <= 0 or amount < low:
        raise InputError(f"{shown}: {accepted}")
    if amount > high:
        raise InputError(f"{shown} is more than {high:.3g} {of}; {accepted}")
    return amount


def _cut(value: object) -> object:
    """A value as errors show it, cut if it is long."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..."
    return value if isinstance(value, float) else quote(value)


def pluralize(count: int, what: str, plural: str = "") -> str:
    """A number with its noun.

    >>> pluralize(1, "phase"), pluralize(1200, "phase")
    ('1 phase', '1,200 phases')
    """
    return f"{count:,} {what if count == 1 else plural or what + 's'}"


def format_size(size: int) -> str:
    """A size in KiB, rounded up, as `parse_size` reads it.

    >>> format_size(524_288), format_size(524_289), format_size(100)
    ('512KiB', '513KiB', '1KiB')
    """
    return f"{-(-size // 2**10)}KiB"


def format_time(seconds: float) -> str:
    """A time in ms, rounded up to three digits, as `parse_time` reads it.

    >>> format_time(0.0123456), format_time(2e-6), format_time(2.5)
    ('12.4ms', '0.00200ms', '2500ms')
    """
    return f"{_raised(1e3 * seconds)}ms"


def format_energy(joules: float) -> str:
    """An energy in mJ, rounded up to three digits, as `parse_energy` reads it.

    >>> format_energy(0.0123456)
    '12.4mJ'
    """
    return f"{_raised(1e3 * joules)}mJ"


def _raised(number: float) -> str:
    """A number rounded up to three digits."""
    digits = max(0, 2 - math.floor(math.log10(number))) if number > 0 else 0
    rounded = math.ceil(number * 10**digits - 1e-6) / 10**digits
    return f"{rounded:.{digits}f}"
