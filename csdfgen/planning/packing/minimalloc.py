"""How are items given to other packers, and their solutions read? In the CSV format of minimalloc.

Each line is an item `id,lower,upper,size` that is alive during [lower, upper), with `alignment` if that is not 1, and
with `offset` in a solution (Moffitt: MiniMalloc, ASPLOS 2023; https://github.com/google/minimalloc). Columns may be in
any order, and older names (`buffer`, `start`, and `end` for the last firing itself) are also read. The format has no
quotes, so that commas, quotes, spaces and `%` in a name are written as `%2C` and so on.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from csdfgen.errors import InputError
from csdfgen.files import MAX_INTEGER, quote, read_bytes, write_bytes
from csdfgen.planning.packing.items import FREE, Items, clash

_COLUMNS = ("id", "lower", "upper", "size")
_OTHER_NAMES = {"buffer": "id", "buffer_id": "id", "begin": "lower", "start": "lower"}
_ESCAPED = re.compile(r"[^\w!#$&'()*+\-./:;<=>?@\[\]^`{|}~]")


def write_items(path: str | os.PathLike[str], items: Items) -> None:
    """Write items as a CSV file, without items of 0 bytes.

    Raises InputError if two items have the same name or the file cannot be written.
    """
    ids, aligned = _ids(items), [items.alignment] * (items.alignment != 1)
    lines: list[list[object]] = [[*_COLUMNS, *["alignment"] * len(aligned)]]
    lines += (
        [ids[i], items.born[i], items.gone[i], items.sizes[i], *aligned]
        for i in np.flatnonzero(items.sizes).tolist()
    )
    write_bytes(path, "".join(",".join(map(str, line)) + "\n" for line in lines).encode())


def read_offsets(path: str | os.PathLike[str], items: Items) -> np.ndarray:
    """The offset of every item in a solution file, in the order of the items.

    The file must have these items, each once with its lifetime and size, at aligned offsets at which no two items that are
    alive together share a byte. Raises InputError at the first fault.
    """
    table, ids = _read(path), _ids(items)
    if not table.solved:
        raise InputError("has no column 'offset'; give the solution of a packer", where=table.path)
    wanted = {ids[i]: i for i in np.flatnonzero(items.sizes).tolist()}
    most = int((-(-items.sizes // items.alignment) * items.alignment).sum())
    most += int(items.fixed.max(initial=0))
    offsets, seen = np.zeros(len(items), np.int64), set()
    for line in table.lines:
        where = f"{table.path}: line {line.number}"
        if line.id not in wanted:
            raise InputError(
                f"'{line.id}' is no item of this plan, which has {len(wanted)}", where=where
            )
        i = wanted[line.id]
        here = {"lower": items.born[i], "upper": items.gone[i], "size": items.sizes[i]}
        for name, value in here.items():
            if getattr(line, name) != value:
                raise InputError(
                    f"'{line.id}' has {name} {getattr(line, name)}, where the plan has {value}; pack its items again",
                    where=where,
                )
        _check_offset(line, items, i, most, where)
        offsets[i] = line.offset
        seen.add(line.id)
    missing = [name for name in wanted if name not in seen]
    if missing:
        raise InputError(
            f"has {len(seen)} of {len(wanted)} items; '{missing[0]}' is missing", where=table.path
        )
    found = clash(items, offsets)
    if found is not None:
        raise InputError(_overlap(items, ids, offsets, *found), where=table.path)
    return offsets


def _check_offset(line: _Line, items: Items, item: int, most: int, where: str) -> None:
    offset, fixed = line.offset, int(items.fixed[item])
    if fixed != FREE:
        if offset != fixed:
            raise InputError(f"'{line.id}' is at {offset}, but is fixed at {fixed}", where=where)
    elif offset % items.alignment:
        raise InputError(
            f"offset {offset} of '{line.id}' is no multiple of {items.alignment} bytes", where=where
        )
    elif offset + line.size > most:
        raise InputError(
            f"'{line.id}' ends at {offset + line.size}, beyond the {most} bytes of all items together",
            where=where,
        )


def _overlap(items: Items, ids: Sequence[str], offsets: np.ndarray, one: int, other: int) -> str:
    both = " and ".join(
        f"'{ids[i]}' in bytes [{offsets[i]}, {offsets[i] + items.sizes[i]})" for i in (one, other)
    )
    start = max(items.born[one], items.born[other])
    stop = min(items.gone[one], items.gone[other])
    return f"{both} overlap during firings [{start}, {stop})"


def _ids(items: Items) -> list[str]:
    """The ids of items in a file, all different. Raises InputError."""
    ids = [_ESCAPED.sub(_escape, items.name(i)) for i in range(len(items))]
    if len(set(ids)) < len(ids):
        known: set[str] = set()
        twice = next(one for one in ids if one in known or known.add(one))  # type: ignore[func-returns-value]
        raise InputError(f"two items are called '{twice}'; a file needs a name for each")
    return ids


def _escape(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found.group().encode("utf-8", "backslashreplace"))


# Reading -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    id: str
    lower: int
    upper: int
    size: int
    alignment: int
    offset: int


@dataclass(frozen=True, slots=True)
class _Table:
    path: str
    lines: tuple[_Line, ...]
    solved: bool


def _read(path: str | os.PathLike[str]) -> _Table:
    """The lines of a file with a header, each number in range and no id twice. Raises InputError."""
    data = read_bytes(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"is no CSV file: byte {error.start} is no UTF-8 text", where=str(path)
        ) from None
    rows = _rows(text, str(path))
    _, header = next(rows, (1, [""]))
    columns, last = _columns(header, str(path))
    lines: dict[str, _Line] = {}
    for number, row in rows:
        line = _line(row, columns, last, f"{path}: line {number}", number)
        if line.id in lines:
            raise InputError(
                f"'{line.id}' is there twice, in lines {lines[line.id].number} and {number}",
                where=str(path),
            )
        lines[line.id] = line
    return _Table(str(path), tuple(lines.values()), "offset" in columns)


def _rows(text: str, path: str) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields) of every line that is not empty."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if any(field.strip() for field in row):
                yield reader.line_num, [field.strip() for field in row]
    except csv.Error as error:
        raise InputError(
            f"is no CSV file: {error}", where=f"{path}: line {reader.line_num}"
        ) from None


def _columns(header: Sequence[str], path: str) -> tuple[dict[str, int], int]:
    """(index of each column by name, firings to add to `upper`)."""
    columns: dict[str, int] = {}
    last = 0
    for place, name in enumerate(header):
        key = _OTHER_NAMES.get(name, name)
        if key == "end":
            key, last = "upper", 1
        if key in columns:
            raise InputError(f"has two columns '{key}'", where=path)
        columns[key] = place
    for name in _COLUMNS:
        if name not in columns:
            raise InputError(
                f"is no table of items: its first line is {quote(','.join(header))}; 'id,lower,upper,size,offset' is needed",
                where=path,
            )
    return columns, last


def _line(
    row: Sequence[str], columns: Mapping[str, int], last: int, where: str, number: int
) -> _Line:
    if len(row) != len(columns):
        raise InputError(
            f"has {len(row)} fields, where the first line has {len(columns)}", where=where
        )
    if "gaps" in columns and row[columns["gaps"]]:
        raise InputError(
            f"gaps {quote(row[columns['gaps']])}; items are alive without gaps here", where=where
        )
    name = row[columns["id"]]
    if not name:
        raise InputError("has no id", where=where)

    def integer(column: str, low: int) -> int:
        text = row[columns[column]]
        # more digits are never in range, and slow to read
        value = int(text) if re.fullmatch(r"[+-]?[0-9]{1,19}", text, re.ASCII) else None
        if value is None or not low <= value <= MAX_INTEGER:
            raise InputError(
                f"{column} of '{name}' is {quote(text)}; a whole number from {low} to {MAX_INTEGER} is needed",
                where=where,
            )
        return value

    lower, upper = integer("lower", 0), integer("upper", 0) + last
    if lower >= upper:
        raise InputError(
            f"'{name}' is alive during [{lower}, {upper}), which is empty", where=where
        )
    return _Line(
        number,
        name,
        lower,
        upper,
        integer("size", 0),
        integer("alignment", 1) if "alignment" in columns else 1,
        integer("offset", 0) if "offset" in columns else 0,
    )
