"""How is a sweep stored? As a table with one row per point in the order of the spec, and the same columns for all sweeps.

pyarrow writes `.parquet`; `.csv` and `.json` need no further package. Equal rows give equal bytes.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from csdfgen.errors import InputError
from csdfgen.sweeps.axes import AXES, Value
from csdfgen.sweeps.point import FIGURES, Outcome
from csdfgen.sweeps.spec import Point

Row = Mapping[str, Value]
"""Column -> value, None for a missing one."""

PLAN_SECONDS = "plan_seconds"
"""A column that is written only on request, as it differs from run to run."""

COLUMNS: Mapping[str, str] = MappingProxyType(
    {**{axis.column: axis.kind for axis in AXES.values()}, **FIGURES, PLAN_SECONDS: "number"}
)
"""Column -> kind (`axes.Axis`)."""


def make_row(point: Point, outcome: Outcome, *, timed: bool) -> Row:
    """The row of a point. timed: whether it has the seconds of planning."""
    given = {axis.column: point.values[name] for name, axis in AXES.items()}
    row = {**given, **{name: outcome[name] for name in FIGURES}}
    return {**row, PLAN_SECONDS: outcome[PLAN_SECONDS]} if timed else row


def check_table(path: Path) -> None:
    """Raise InputError for an unknown suffix, and if pyarrow is needed and missing."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"a sweep is written as {', '.join(SUFFIXES)}", where=str(path))
    if path.suffix.lower() == ".parquet":
        _pyarrow(str(path))


def table_bytes(rows: Sequence[Row], path: Path) -> bytes:
    """The content of the file of a table, in the format of its suffix. Raises InputError."""
    return _WRITERS[path.suffix.lower()](rows)


def _csv(rows: Sequence[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue().encode("utf-8", "backslashreplace")


def _cell(value: Value) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _json(rows: Sequence[Row]) -> bytes:
    lines = ",\n".join(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)
    return f"[\n{lines}\n]\n".encode("utf-8", "backslashreplace")


def _parquet(rows: Sequence[Row]) -> bytes:
    pyarrow, parquet = _pyarrow("")
    types = {
        "text": pyarrow.string(),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
        "flag": pyarrow.bool_(),
    }
    schema = pyarrow.schema([(name, types[COLUMNS[name]]) for name in rows[0]])
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.Table.from_pylist(list(rows), schema), sink)
    return sink.getvalue().to_pybytes()


def _pyarrow(where: str) -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(
            f".parquet needs pyarrow, which cannot be imported ({error}); pip install 'csdfgen[sweep]', or write .csv",
            where=where,
        ) from None
    return pyarrow, parquet


_WRITERS: Mapping[str, Callable[[Sequence[Row]], bytes]] = MappingProxyType(
    {".parquet": _parquet, ".csv": _csv, ".json": _json}
)

SUFFIXES = tuple(_WRITERS)
