"""How is a device profile written down? TOML that anyone can write, read strictly: no number without unit and origin.

A number is `{ value = 8, unit = "GiB", origin = "published", source = "datasheet" }`, its source a key of the table
`[sources]`. What is missing, negative, of another unit or unknown is refused with file, key and value.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from csdfgen.devices.profile import (
    BANDWIDTHS,
    BYTES,
    CORES,
    FRACTIONS,
    ORIGINS,
    POWERS,
    RATES,
    TIMES,
    TIMES_A_BYTE,
    TIMES_A_ROW,
    TIMES_OF_WORK,
    DeviceProfile,
    LayerCost,
    Memory,
    OperatorCost,
    Processor,
    Quantity,
    Series,
    Units,
)
from csdfgen.errors import InputError
from csdfgen.files import quoted, read_bytes, write_bytes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["FORMAT", "profile_from_toml", "profile_to_toml", "read_profile", "write_profile"]

FORMAT = "csdfgen-device"
VERSION = 1

_NUMBER_KEYS = ("value", "unit", "origin", "source")
_EXAMPLE = '{ value = ..., unit = "...", origin = "...", source = "..." }'

_MEMORY: Mapping[str, Units] = {"total": BYTES, "usable": BYTES, "parameters": BYTES, "cache": BYTES}
_PROCESSOR: Mapping[str, Units] = {
    "cores": CORES,
    "peak": RATES,
    "bandwidth": BANDWIDTHS,
    "launch": TIMES,
    "frame": TIMES,
    "power": POWERS,
}
_MAY_BE_ZERO = ("launch", "frame", "time", "access", "slope", "error", "times", "spread")


class _Table:
    """One table of the file, read key by key; whatever is not read in the end was not known."""

    def __init__(self, value: object, where: str, path: str, sources: Mapping[str, str]) -> None:
        self.where, self.path, self.sources = where, path, sources
        if not isinstance(value, Mapping):
            raise InputError(f"'{path}' is {quoted(value)}; a table is needed", where=where)
        self.value: Mapping[str, Any] = value
        self._read: set[str] = set()

    def key(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def fault(self, name: str, message: str) -> InputError:
        return InputError(f"'{self.key(name)}' {message}", where=self.where)

    def get(self, name: str, wanted: str | None = None) -> Any:
        """The value of a key; None if it is absent, an error if `wanted` says what was needed."""
        self._read.add(name)
        if name not in self.value and wanted is not None:
            raise self.fault(name, f"is missing; {wanted} is needed")
        return self.value.get(name)

    def text(self, name: str, default: str | None = None) -> str:
        value = self.get(name, "a string" if default is None else None)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not value:
            raise self.fault(name, f"is {quoted(value)}; a string is needed")
        return value

    def texts(self, name: str, needed: bool = False) -> tuple[str, ...]:
        value = self.get(name, "a list of strings" if needed else None)
        if value is None:
            return ()
        if not isinstance(value, list) or (needed and not value) or not all(isinstance(item, str) and item for item in value):
            raise self.fault(name, f"is {quoted(value)}; a list of strings is needed")
        return tuple(value)

    def table(self, name: str, needed: bool = True) -> _Table:
        value = self.get(name, "a table" if needed else None)
        return _Table({} if value is None else value, self.where, self.key(name), self.sources)

    def tables(self, name: str) -> Iterator[_Table]:
        value = self.get(name)
        if not isinstance(value, (list, type(None))):
            raise self.fault(name, f"is {quoted(value)}; a list of tables [[{name}]] is needed")
        for number, item in enumerate(value or (), 1):
            yield _Table(item, self.where, f"{self.key(name)}[{number}]", self.sources)

    def quantity(self, name: str, units: Units) -> Quantity:
        """A number with unit and origin."""
        table, unit = self._number(name, units)
        value = _checked(table, "value", table.get("value", f"a number of {unit}"), unit, name in _MAY_BE_ZERO)
        return Quantity(value, unit, value * units[unit], *_origin(table))

    def optional(self, name: str, units: Units) -> Quantity | None:
        return self.quantity(name, units) if name in self.value else None

    def series(self, name: str, units: Units) -> Series:
        """Numbers that share unit and origin."""
        table, unit = self._number(name, units)
        values = table.get("value", f"a list of numbers of {unit}")
        if not isinstance(values, list) or not values:
            raise table.fault("value", f"is {quoted(values)}; a list of numbers of {unit} is needed")
        found = tuple(_checked(table, "value", value, unit, name in _MAY_BE_ZERO) for value in values)
        return Series(found, unit, tuple(value * units[unit] for value in found), *_origin(table))

    def _number(self, name: str, units: Units) -> tuple[_Table, str]:
        value = self.get(name, _EXAMPLE)
        if isinstance(value, (int, float)):
            raise self.fault(name, f"is {value} without unit and origin; write {_EXAMPLE}")
        table = _Table(value, self.where, self.key(name), self.sources)
        allowed = f"one of {', '.join(units)}"
        unit = table.get("unit", allowed)
        if not isinstance(unit, str) or unit not in units:
            raise table.fault("unit", f"is {quoted(unit)}; {allowed} is needed")
        for key in _NUMBER_KEYS:
            table.get(key)
        table.finish()
        return table, unit

    def finish(self) -> None:
        """Refuse keys that nothing has read: a misspelt one must not be ignored."""
        unknown = sorted(set(self.value) - self._read)
        if unknown:
            known = ", ".join(sorted(self._read))
            raise self.fault(unknown[0], f"is {quoted(self.value[unknown[0]])}, a key that is not known here; known: {known}")


def _checked(table: _Table, name: str, value: object, unit: str, zero: bool) -> float:
    """A finite number above 0, or from 0 on where that has a meaning."""
    wanted = f"a number {'from 0 on' if zero else 'above 0'}"
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise table.fault(name, f"is {quoted(value)}; {wanted} is needed")
    if value < 0 or (value == 0 and not zero):
        raise table.fault(name, f"is {value} {unit}; {wanted} is needed")
    return float(value)


def _origin(table: _Table) -> tuple[str, str]:
    origin, source = table.text("origin"), table.text("source")
    if origin not in ORIGINS:
        raise table.fault("origin", f"is {quoted(origin)}; one of {', '.join(ORIGINS)} is needed")
    if source not in table.sources:
        known = ", ".join(table.sources) or "nothing"
        raise table.fault("source", f"is {quoted(source)}, which [sources] does not explain; it has {known}")
    return origin, source


# Reading ----------------------------------------------------------------------------------------


def read_profile(path: str | os.PathLike[str]) -> DeviceProfile:
    """The profile in a TOML file. Raises InputError with file, key and value."""
    return profile_from_toml(read_bytes(path), str(path))


def profile_from_toml(data: bytes, where: str) -> DeviceProfile:
    """The profile in TOML text; `where` names it in errors. Raises InputError."""
    try:
        parsed = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is not TOML: {error}", where=where) from None
    sources = _texts_by_name(_Table(parsed, where, "", {}).table("sources"))
    root = _Table(parsed, where, "", sources)
    _check_header(root)
    root.table("sources")
    layers = tuple(_layer(table) for table in root.tables("layer"))
    profile = DeviceProfile(
        name=root.text("name"),
        title=root.text("title"),
        memory=_memory(root.table("memory")),
        processor=_processor(root.table("processor")),
        operators=tuple(_operator(table) for table in root.tables("operator")),
        layers=MappingProxyType({layer.key: layer for layer in layers}),
        sources=sources,
        notes=root.texts("notes"),
        conditions=_texts_by_name(root.table("conditions", needed=False)),
        where=where,
    )
    root.finish()
    if not profile.operators and (profile.processor.peak is None or profile.processor.bandwidth is None):
        raise InputError("has no [[operator]] costs, and no processor.peak and processor.bandwidth for a roofline", where=where)
    return profile


def _check_header(root: _Table) -> None:
    form, version = root.text("format"), root.get("version", f"{VERSION}")
    if form != FORMAT:
        raise root.fault("format", f"is {quoted(form)}; '{FORMAT}' is needed")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise root.fault("version", f"is {quoted(version)}; this program reads up to {VERSION}")


def _texts_by_name(table: _Table) -> Mapping[str, str]:
    return MappingProxyType({name: table.text(name) for name in table.value})


def _memory(table: _Table) -> Memory:
    found = {name: table.optional(name, units) for name, units in _MEMORY.items()}
    total, usable = table.quantity("total", BYTES), table.quantity("usable", BYTES)
    table.finish()
    if usable.value > total.value:
        raise table.fault("usable", f"is {usable}, more than the total of {total}")
    return Memory(total, usable, found["parameters"], found["cache"])


def _processor(table: _Table) -> Processor:
    cores = table.quantity("cores", CORES)
    if cores.value != int(cores.value):
        raise table.fault("cores", f"is {cores}; a whole number is needed")
    found = {name: table.optional(name, units) for name, units in _PROCESSOR.items() if name != "cores"}
    table.finish()
    return Processor(cores, **found)


def _operator(table: _Table) -> OperatorCost:
    types, kernel = table.texts("types", needed=True), table.text("kernel", "*")
    time = table.quantity("time", TIMES_OF_WORK)
    found = OperatorCost(
        types=types,
        kernel="" if kernel == "*" else kernel,
        work=time.unit.partition("/")[2],
        time=time,
        launch=table.optional("launch", TIMES),
        access=table.optional("access", TIMES_A_BYTE),
        error=table.optional("error", FRACTIONS),
    )
    table.finish()
    return found


def _layer(table: _Table) -> LayerCost:
    rows = table.get("rows", "a list of rows a phase")
    if not isinstance(rows, list) or not all(type(row) is int and row > 0 for row in rows):
        raise table.fault("rows", f"is {quoted(rows)}; a list of whole numbers above 0 is needed")
    found = LayerCost(
        key=table.text("key"),
        launch=table.quantity("launch", TIMES),
        slope=table.quantity("slope", TIMES_A_ROW),
        error=table.quantity("error", FRACTIONS),
        rows=tuple(rows),
        times=table.series("times", TIMES),
        spread=table.series("spread", FRACTIONS),
    )
    table.finish()
    for name, series in (("times", found.times), ("spread", found.spread)):
        if len(series.values) != len(rows):
            raise table.fault(name, f"has {len(series.values)} values for {len(rows)} slab heights")
    return found


# Writing ----------------------------------------------------------------------------------------


def write_profile(path: str | os.PathLike[str], profile: DeviceProfile) -> None:
    """Write a profile as TOML. Raises InputError."""
    write_bytes(path, profile_to_toml(profile).encode("utf-8"))


def profile_to_toml(profile: DeviceProfile) -> str:
    """The profile as TOML text; reading it gives the profile again."""
    return "\n".join(_lines(profile)) + "\n"


def _lines(profile: DeviceProfile) -> Iterator[str]:
    yield from (f'format = "{FORMAT}"', f"version = {VERSION}", f"name = {_string(profile.name)}")
    yield f"title = {_string(profile.title)}"
    if profile.notes:
        yield from ("notes = [", *(f"  {_string(note)}," for note in profile.notes), "]")
    for name, texts in (("sources", profile.sources), ("conditions", profile.conditions)):
        if texts:
            yield from ("", f"[{name}]", *(f"{_string(key)} = {_string(text)}" for key, text in texts.items()))
    yield from ("", "[memory]", *_numbers(profile.memory, _MEMORY))
    yield from ("", "[processor]", *_numbers(profile.processor, _PROCESSOR))
    for cost in profile.operators:
        yield from ("", "[[operator]]", f"types = {_list(map(_string, cost.types))}")
        if cost.kernel:
            yield f"kernel = {_string(cost.kernel)}"
        yield from _numbers(cost, ("time", "launch", "access", "error"))
    for layer in profile.layers.values():
        yield from ("", "[[layer]]", f"key = {_string(layer.key)}", f"rows = {_list(map(str, layer.rows))}")
        yield from _numbers(layer, ("launch", "slope", "error", "times", "spread"))


def _numbers(owner: object, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        number: Quantity | Series | None = getattr(owner, name)
        if number is not None:
            written = number.written
            value = _list(f"{v:.6g}" for v in written) if isinstance(written, tuple) else f"{written:.9g}"
            texts = ", ".join(f"{key} = {_string(getattr(number, key))}" for key in _NUMBER_KEYS[1:])
            yield f"{name} = {{ value = {value}, {texts} }}"


def _list(items: Iterable[str]) -> str:
    return f"[{', '.join(items)}]"


def _string(text: str) -> str:
    """A basic string: TOML's escapes are those of JSON, and DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
