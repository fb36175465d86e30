"""How is one table of a device profile checked? Key by key; every number needs a unit, an origin and a source.

Missing and unknown keys, numbers out of bounds and other units are refused with file, key and value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from csdfgen.devices.profile import ORIGINS, Quantity, Series
from csdfgen.devices.units import Units
from csdfgen.errors import InputError
from csdfgen.files import quote

NUMBER_KEYS = ("value", "unit", "origin", "source")
_EXAMPLE = '{ value = ..., unit = "...", origin = "...", source = "..." }'

_MAY_BE_ZERO = ("launch", "frame", "time", "access", "weights", "slope", "error", "times", "spread")

_LEAST, _MOST = 1e-24, 1e24
"""Bounds of numbers, in base units: wider than any device needs, and such that sums and quotients stay finite."""


class TomlTable:
    """One table of the file, read key by key; `finish` refuses the keys that were not read."""

    def __init__(self, value: object, where: str, path: str, sources: Mapping[str, str]) -> None:
        self.where, self.path, self.sources = where, path, sources
        if not isinstance(value, Mapping):
            raise InputError(f"'{path}' is {quote(value)}; a table is needed", where=where)
        self.value: Mapping[str, Any] = value
        self._read: set[str] = set()

    def explained_by(self, sources: Mapping[str, str]) -> TomlTable:
        """The same table, with the same keys read, and the sources that its numbers may name."""
        again = TomlTable(self.value, self.where, self.path, sources)
        again._read = set(self._read)
        return again

    def key(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def fault(self, name: str, message: str) -> InputError:
        return InputError(f"'{self.key(name)}' {message}", where=self.where)

    def get(self, name: str, wanted: str | None = None) -> Any:
        """The value of a key. If it is absent: None, or an error that names what is `wanted`."""
        self._read.add(name)
        if name not in self.value and wanted is not None:
            raise self.fault(name, f"is missing; {wanted} is needed")
        return self.value.get(name)

    def text(self, name: str, default: str | None = None) -> str:
        value = self.get(name, "a string" if default is None else None)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not value:
            raise self.fault(name, f"is {quote(value)}; a string is needed")
        return value

    def flag(self, name: str) -> bool:
        """Whether a key is true; it may be absent."""
        value = self.get(name)
        if not isinstance(value, (bool, type(None))):
            raise self.fault(name, f"is {quote(value)}; true or false is needed")
        return bool(value)

    def texts(self, name: str, needed: bool = False) -> tuple[str, ...]:
        value = self.get(name, "a list of strings" if needed else None)
        if value is None:
            return ()
        if (
            not isinstance(value, list)
            or (needed and not value)
            or not all(isinstance(item, str) and item for item in value)
        ):
            raise self.fault(name, f"is {quote(value)}; a list of strings is needed")
        return tuple(value)

    def table(self, name: str, needed: bool = True) -> TomlTable:
        value = self.get(name, "a table" if needed else None)
        return TomlTable({} if value is None else value, self.where, self.key(name), self.sources)

    def tables(self, name: str) -> Iterator[TomlTable]:
        value = self.get(name)
        if not isinstance(value, (list, type(None))):
            raise self.fault(name, f"is {quote(value)}; a list of tables [[{name}]] is needed")
        for number, item in enumerate(value or (), 1):
            yield TomlTable(item, self.where, f"{self.key(name)}[{number}]", self.sources)

    def quantity(self, name: str, known: Units) -> Quantity:
        """A number with unit and origin."""
        table, unit = self._number(name, known)
        value = _checked(
            table,
            table.get("value", f"a number of {unit}"),
            unit,
            known[unit],
            name in _MAY_BE_ZERO,
        )
        return Quantity(value, unit, value * known[unit], *_origin(table))

    def optional(self, name: str, known: Units) -> Quantity | None:
        return self.quantity(name, known) if name in self.value else None

    def series(self, name: str, known: Units) -> Series:
        """Numbers that share unit and origin."""
        table, unit = self._number(name, known)
        values = table.get("value", f"a list of numbers of {unit}")
        if not isinstance(values, list) or not values:
            raise table.fault("value", f"is {quote(values)}; a list of numbers of {unit} is needed")
        found = tuple(
            _checked(table, value, unit, known[unit], name in _MAY_BE_ZERO) for value in values
        )
        return Series(found, unit, tuple(value * known[unit] for value in found), *_origin(table))

    def _number(self, name: str, known: Units) -> tuple[TomlTable, str]:
        value = self.get(name, _EXAMPLE)
        if isinstance(value, (int, float)):
            raise self.fault(name, f"is {quote(value)} without unit and origin; write {_EXAMPLE}")
        table = TomlTable(value, self.where, self.key(name), self.sources)
        allowed = f"one of {', '.join(known)}"
        unit = table.get("unit", allowed)
        if not isinstance(unit, str) or unit not in known:
            raise table.fault("unit", f"is {quote(unit)}; {allowed} is needed")
        for key in NUMBER_KEYS:
            table.get(key)
        table.finish()
        return table, unit

    def finish(self) -> None:
        """Refuse keys that were not read, so that a misspelt key is not ignored."""
        unknown = sorted(set(self.value) - self._read)
        if unknown:
            known = ", ".join(sorted(self._read))
            raise self.fault(
                unknown[0],
                f"is {quote(self.value[unknown[0]])}, a key that is not known here; known: {known}",
            )


def _checked(table: TomlTable, value: object, unit: str, factor: float, zero: bool) -> float:
    """A number above 0, or from 0 on where 0 has a meaning, within the bounds of this module."""
    wanted = f"a number {'from 0 on' if zero else 'above 0'}"
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or value in (math.inf, -math.inf)
        or value != value
    ):
        raise table.fault("value", f"is {quote(value)}; {wanted} is needed")
    if value < 0 or (value == 0 and not zero):
        raise table.fault("value", f"is {quote(value)} {unit}; {wanted} is needed")
    least, most = 0 if zero else _LEAST / factor, _MOST / factor
    if (
        not least <= value <= most
    ):  # without conversion: an integer of hundreds of digits is no float
        raise table.fault(
            "value", f"is {quote(value)} {unit}; a number from {least:.3g} to {most:.3g} is needed"
        )
    return float(value)


def _origin(table: TomlTable) -> tuple[str, str]:
    origin, source = table.text("origin"), table.text("source")
    if origin not in ORIGINS:
        raise table.fault("origin", f"is {quote(origin)}; one of {', '.join(ORIGINS)} is needed")
    if source not in table.sources:
        known = ", ".join(table.sources) or "nothing"
        raise table.fault(
            "source", f"is {quote(source)}, which [sources] does not explain; it has {known}"
        )
    return origin, source
