"""How is a device profile stored? As TOML, in which every number has a unit and an origin.

A number is `{ value = 8, unit = "GiB", origin = "published", source = "datasheet" }`; its source is a key of the
table `[sources]`. Missing and unknown keys, negative numbers and other units are refused with file, key and value.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from csdfgen.devices import units
from csdfgen.devices.profile import (
    DeviceProfile,
    LayerCost,
    Memory,
    OperatorCost,
    Processor,
    Quantity,
    Series,
)
from csdfgen.devices.toml_table import NUMBER_KEYS, TomlTable
from csdfgen.devices.units import Units
from csdfgen.devices.work import FORMATS
from csdfgen.errors import InputError
from csdfgen.files import quote, read_bytes, write_bytes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


FORMAT = "csdfgen-device"
VERSION = 1

_MEMORY: Mapping[str, Units] = {
    "total": units.BYTES,
    "usable": units.BYTES,
    "parameters": units.BYTES,
    "cache": units.BYTES,
}
_PROCESSOR: Mapping[str, Units] = {
    "cores": units.CORES, "peak": units.RATES, "bandwidth": units.BANDWIDTHS, "launch": units.TIMES,
    "frame": units.TIMES, "power": units.POWERS, "peak_int8": units.RATES, "peak_int16": units.RATES,
    "peak_float16": units.RATES, "multiprocessors": units.COUNTS, "tile": units.PIXELS,
    "operation_energy": units.ENERGIES_OF_WORK, "byte_energy": units.ENERGIES_A_BYTE,
}  # fmt: skip


# Reading ----------------------------------------------------------------------------------------


def read_profile(path: str | os.PathLike[str]) -> DeviceProfile:
    """The profile in a TOML file. Raises InputError with file, key and value."""
    return profile_from_toml(read_bytes(path), str(path))


def profile_from_toml(data: bytes, where: str) -> DeviceProfile:
    """The profile in TOML text; `where` names it in errors. Raises InputError."""
    try:
        parsed = tomllib.loads(data.decode("utf-8"))
    except (
        ValueError,
        RecursionError,
    ) as error:  # not UTF-8, not TOML, a number of thousands of digits
        raise InputError(f"is not TOML: {error}", where=where) from None
    head = TomlTable(parsed, where, "", {})
    _check_header(head)
    root = head.explained_by(_texts_by_name(head.table("sources")))
    layers = tuple(_layer(table) for table in root.tables("layer"))
    profile = DeviceProfile(
        name=root.text("name"),
        title=root.text("title"),
        memory=_memory(root.table("memory")),
        processor=_processor(root.table("processor")),
        operators=tuple(_operator(table) for table in root.tables("operator")),
        layers=MappingProxyType({layer.key: layer for layer in layers}),
        sources=root.sources,
        notes=root.texts("notes"),
        conditions=_texts_by_name(root.table("conditions", needed=False)),
        where=where,
    )
    root.finish()
    if not profile.operators and (
        profile.processor.peak is None or profile.processor.bandwidth is None
    ):
        raise InputError(
            "has no [[operator]] costs, and no processor.peak and processor.bandwidth for a roofline",
            where=where,
        )
    return profile


def _check_header(root: TomlTable) -> None:
    form, version = root.text("format"), root.get("version", f"{VERSION}")
    if form != FORMAT:
        raise root.fault("format", f"is {quote(form)}; '{FORMAT}' is needed")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise root.fault("version", f"is {quote(version)}; this program reads up to {VERSION}")


def _texts_by_name(table: TomlTable) -> Mapping[str, str]:
    return MappingProxyType({name: table.text(name) for name in table.value})


def _memory(table: TomlTable) -> Memory:
    found = {name: table.optional(name, known) for name, known in _MEMORY.items()}
    total, usable = table.quantity("total", units.BYTES), table.quantity("usable", units.BYTES)
    table.finish()
    if usable.value > total.value:
        raise table.fault("usable", f"is {usable}, more than the total of {total}")
    return Memory(total, usable, found["parameters"], found["cache"])


def _processor(table: TomlTable) -> Processor:
    cores = table.quantity("cores", units.CORES)
    if cores.value != int(cores.value):
        raise table.fault("cores", f"is {cores}; a whole number is needed")
    found = {
        name: table.optional(name, known) for name, known in _PROCESSOR.items() if name != "cores"
    }
    table.finish()
    if (found["multiprocessors"] is None) != (found["tile"] is None):
        raise table.fault("tile", "and 'multiprocessors' describe waves together; one is missing")
    return Processor(cores, **found)


def _operator(table: TomlTable) -> OperatorCost:
    types, kernel = table.texts("types", needed=True), table.text("kernel", "*")
    time = table.quantity("time", units.TIMES_OF_WORK)
    found = OperatorCost(
        types=types,
        kernel="" if kernel == "*" else kernel,
        work=time.unit.partition("/")[2],
        time=time,
        launch=table.optional("launch", units.TIMES),
        access=table.optional("access", units.TIMES_A_BYTE),
        weights=table.optional("weights", units.TIMES_A_BYTE),
        error=table.optional("error", units.FRACTIONS),
        formats=_formats(table),
        cached=table.flag("cached"),
    )
    table.finish()
    return found


def _formats(table: TomlTable) -> str:
    """The formats of an operator cost; "" for float32."""
    text = table.text("formats", "float32")
    read, _, written = text.partition("->")
    wrong = not {read, written or read} <= set(FORMATS) or read == written
    if wrong or text.endswith("->"):
        known = ", ".join(FORMATS)
        raise table.fault(
            "formats",
            f"is {quote(text)}; one of {known} is needed, or 'int8->int16' of what is read and written",
        )
    return "" if text == FORMATS[-1] else text


def _layer(table: TomlTable) -> LayerCost:
    rows = _counts(table, "rows")
    images = _counts(table, "images") if "images" in table.value else ()
    found = LayerCost(
        key=table.text("key").replace(":uint", ":int"),
        launch=table.quantity("launch", units.TIMES),
        slope=table.quantity("slope", units.TIMES_A_ROW),
        error=table.quantity("error", units.FRACTIONS),
        rows=rows,
        times=table.series("times", units.TIMES),
        spread=table.series("spread", units.FRACTIONS),
        images=images,
        calls=table.series("calls", units.TIMES) if images else None,
    )
    table.finish()
    for name, series in (("times", found.times), ("spread", found.spread)):
        if len(series.values) != len(rows):
            raise table.fault(name, f"has {len(series.values)} values for {len(rows)} slab heights")
    if found.calls is not None and len(found.calls.values) != len(images):
        raise table.fault(
            "calls", f"has {len(found.calls.values)} values for {len(images)} numbers of images"
        )
    return found


def _counts(table: TomlTable, name: str) -> tuple[int, ...]:
    """A list of whole numbers above 0."""
    found = table.get(name, f"a list of {name} a phase")
    if (
        not isinstance(found, list)
        or not found
        or not all(type(one) is int and one > 0 for one in found)
    ):
        raise table.fault(name, f"is {quote(found)}; a list of whole numbers above 0 is needed")
    if name == "images" and sorted(set(found)) != found:
        raise table.fault(name, f"is {quote(found)}; every number is needed once, in rising order")
    return tuple(found)


# Writing ----------------------------------------------------------------------------------------


def write_profile(path: str | os.PathLike[str], profile: DeviceProfile) -> None:
    """Write a profile as TOML. Raises InputError."""
    write_bytes(path, profile_to_toml(profile).encode("utf-8"))


def profile_to_json(profile: DeviceProfile) -> dict[str, Any]:
    """The profile as JSON values, each number with its unit and origin."""
    of_operators = ("types", "kernel", "formats", "cached")
    return {
        "name": profile.name,
        "title": profile.title,
        "times": profile.kind,
        "memory": _as_values(profile.memory),
        "processor": _as_values(profile.processor),
        "operators": [_as_values(cost, of_operators) for cost in profile.operators],
        "layers": [_as_values(one, ("key", "rows")) for one in profile.layers.values()],
        "sources": dict(profile.sources),
        "conditions": dict(profile.conditions),
        "notes": list(profile.notes),
    }


def _as_values(owner: Any, others: Iterable[str] = ()) -> dict[str, Any]:
    """The numbers of a part of the profile and its `others`, formats and the cache only if there are any."""
    rare = ("formats", "cached")
    found = {
        name: getattr(owner, name) for name in others if name not in rare or getattr(owner, name)
    }
    for field in fields(owner):
        number = getattr(owner, field.name)
        if isinstance(number, (Quantity, Series)):
            rest = {key: getattr(number, key) for key in NUMBER_KEYS[1:]}
            found[field.name] = {"value": number.written, **rest}
    return found


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
            yield from (
                "",
                f"[{name}]",
                *(f"{_string(key)} = {_string(text)}" for key, text in texts.items()),
            )
    yield from ("", "[memory]", *_numbers(profile.memory, _MEMORY))
    yield from ("", "[processor]", *_numbers(profile.processor, _PROCESSOR))
    for cost in profile.operators:
        yield from ("", "[[operator]]", f"types = {_list(map(_string, cost.types))}")
        if cost.kernel:
            yield f"kernel = {_string(cost.kernel)}"
        if cost.formats:
            yield f"formats = {_string(cost.formats)}"
        if cost.cached:
            yield "cached = true"
        yield from _numbers(cost, ("time", "launch", "access", "weights", "error"))
    for layer in profile.layers.values():
        yield from (
            "",
            "[[layer]]",
            f"key = {_string(layer.key)}",
            f"rows = {_list(map(str, layer.rows))}",
        )
        if layer.images:
            yield f"images = {_list(map(str, layer.images))}"
        yield from _numbers(layer, ("launch", "slope", "error", "times", "spread", "calls"))


def _numbers(owner: object, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        number: Quantity | Series | None = getattr(owner, name)
        if number is not None:
            written = number.written
            value = (
                _list(f"{v:.6g}" for v in written)
                if isinstance(written, tuple)
                else f"{written:.9g}"
            )
            texts = ", ".join(f"{key} = {_string(getattr(number, key))}" for key in NUMBER_KEYS[1:])
            yield f"{name} = {{ value = {value}, {texts} }}"


def _list(items: Iterable[str]) -> str:
    return f"[{', '.join(items)}]"


def _string(text: str) -> str:
    """A basic string of TOML, whose escapes are those of JSON and one for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
