"""Which points does a SPEC.toml list? All combinations of its values, grid by grid, in its order.

Keys are the options of `csdfgen schedule`, with one value or a list; keys above the first [[grid]] apply to every grid.
The first key varies slowest. Unknown keys and invalid values are refused with their place.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from csdfgen.devices.toml_table import TomlTable
from csdfgen.errors import CsdfgenError, InputError
from csdfgen.files import quote, read_bytes
from csdfgen.model.formats import ARITHMETIC
from csdfgen.sweeps.axes import AXES, Value, parse_value

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


_GRID, _CALIBRATION = "grid", "calibration"

_MOST_POINTS = 100_000


@dataclass(frozen=True, slots=True)
class Calibration:
    """The inputs that a float model is calibrated with. files: names as in the spec; the others as in
    `runtime.images.ImageOptions`.
    """

    files: tuple[str, ...] = ()
    integer_io: bool = False
    resize: bool = False
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    layout: str | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """One requested plan: the value of every axis, None where it is not given."""

    values: Mapping[str, Value]
    calibration: Calibration

    @property
    def images(self) -> int:
        """Images of one order of firings, as requested."""
        return int(self.values["requests"] or self.values["frames"] or 1)


@dataclass(frozen=True, slots=True)
class Spec:
    """The content of a file. folder: the folder of the file, to which the names of other files are relative."""

    points: tuple[Point, ...]
    title: str
    folder: Path


def read_spec(path: str | os.PathLike[str]) -> Spec:
    """The points of a file. Raises InputError with file, key and value."""
    where = str(path)
    try:
        parsed = tomllib.loads(read_bytes(path).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not TOML: {error}", where=where) from None
    root = TomlTable(parsed, where, "", {})
    title = root.text("title", Path(path).stem)
    shared = {name: value for name, value in parsed.items() if name not in ("title", _GRID)}
    _check_keys(TomlTable(shared, where, "", {}))
    grids = list(root.tables(_GRID)) or [TomlTable({}, where, "", {})]
    points: list[Point] = []
    for grid in grids:
        _check_keys(grid)
        asked = TomlTable({**shared, **grid.value}, where, grid.path, {})
        points += _points(asked, _MOST_POINTS - len(points))
    return Spec(tuple(points), title, Path(path).resolve().parent)


def _check_keys(table: TomlTable) -> None:
    """Raise InputError for an unknown key."""
    for name in (*AXES, _CALIBRATION):
        table.get(name)
    table.finish()


def _points(grid: TomlTable, most: int) -> Iterator[Point]:
    """The combinations of one grid; the first key varies slowest."""
    given = {name: _values(grid, name) for name in grid.value if name != _CALIBRATION}
    if None in given.setdefault("model", [None]):
        raise grid.fault("model", 'is missing; an ONNX file or "zoo:NAME" is needed')
    count = math.prod(map(len, given.values()))
    if count > most:
        raise InputError(
            f"asks for {count:,} points more, where {most:,} are left of {_MOST_POINTS:,}; share them out to several files",
            where=f"{grid.where}: {grid.path}" if grid.path else grid.where,
        )
    calibration = _calibration(grid)
    nothing: dict[str, Value] = dict.fromkeys(AXES)
    for combination in product(*given.values()):
        point = Point({**nothing, **dict(zip(given, combination, strict=True))}, calibration)
        _check(point, grid)
        yield point


def _values(grid: TomlTable, name: str) -> Sequence[Value]:
    """The values of an axis: one or more, all different."""
    found = grid.value[name]
    asked = found if isinstance(found, list) else [found]
    if not asked:
        raise grid.fault(name, "is an empty list; a value is needed")
    try:
        values = [parse_value(name, value) for value in asked]
    except CsdfgenError as error:
        raise grid.fault(name, error.message) from None
    twice = next((a for a, v in zip(asked, values, strict=True) if values.count(v) > 1), None)
    if twice is not None:
        raise grid.fault(name, f"has {quote(twice)} twice")
    return values


def _calibration(grid: TomlTable) -> Calibration:
    table = grid.table(_CALIBRATION, needed=False)
    found = Calibration(
        table.texts("files"),
        table.flag("integer_io"),
        table.flag("resize"),
        _numbers(table, "mean"),
        _numbers(table, "std"),
        table.text("layout", "") or None,
    )
    table.finish()
    return found


def _numbers(table: TomlTable, name: str) -> tuple[float, ...] | None:
    """One number for every channel, or one for all channels."""
    value: Any = table.get(name)
    if value is None:
        return None
    found = value if isinstance(value, list) else [value]
    if not found or any(isinstance(one, bool) or not _is_finite(one) for one in found):
        raise table.fault(name, f"is {quote(value)}; finite numbers are needed")
    if name == "std" and 0 in found:
        raise table.fault(name, "has a 0, by which nothing can be divided")
    return tuple(float(one) for one in found)


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and abs(value) < 1e30


def _check(point: Point, grid: TomlTable) -> None:
    """Raise InputError for combinations that no plan can have. Refusals that depend on the model or budget become rows."""
    values = point.values
    if values["batching"] and not values["requests"]:
        raise grid.fault("batching", "needs images to share out; say how many with requests")
    if values["requests"]:
        both = next((name for name in ("frames", "batches") if values[name]), None)
        if both is not None:
            raise grid.fault("requests", f"chooses what {both} gives; leave one of them out")
    if values["batches"] and not values["frames"]:
        raise grid.fault("batches", "is of several images; say how many with frames")
    if not values["formats"]:
        return
    if values["formats"] not in ARITHMETIC and not point.calibration.files:
        raise grid.fault(
            "formats",
            f"'{values['formats']}' is chosen by what inputs show; give calibration = {{ files = [...] }}",
        )
    if max(point.images, int(values["batch"] or 1)) > 1:
        raise grid.fault(
            "formats", "plans one image at a time; leave batch, frames and requests out"
        )
