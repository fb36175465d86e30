"""Which points are already planned? The cache has a file for the outcome of every finished point, in a folder next to
the results.

A file is written as a whole or not at all. Its name is the digest of all that the outcome depends on. Damaged files
are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from csdfgen.errors import CsdfgenError, InputError
from csdfgen.files import Fields, load_json, write_json
from csdfgen.sweeps.point import FIGURES, Outcome

_FORM, _VERSION = "csdfgen-sweep-point", 1
_MOST_BYTES = 2**20

_TYPES: dict[str, tuple[type, ...]] = {
    "flag": (bool,),
    "integer": (int,),
    "number": (int, float),
    "text": (str,),
}


def cache_path(results: Path) -> Path:
    """The folder of the points of a table: the name of the table, for all its formats.

    >>> cache_path(Path("out/results.parquet")).name
    'results.points'
    """
    return results.with_suffix(".points")


@dataclass(frozen=True, slots=True)
class Cache:
    """Outcomes in a folder, by key."""

    folder: Path

    def get(self, key: str) -> Outcome | None:
        """The outcome of a point; None if it has to be planned."""
        path = self._path(key)
        try:
            return _read(path) if path.is_file() else None
        except CsdfgenError:
            return None

    def put(self, key: str, outcome: Outcome) -> None:
        """Keep an outcome, in a folder that is made if necessary. Raises InputError."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot be made: {error.strerror}", where=str(self.folder)) from None
        write_json(
            self._path(key), {"format": _FORM, "version": _VERSION, "outcome": dict(outcome)}
        )

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def _read(path: Path) -> Outcome:
    """The outcome in a file. Raises InputError for other files."""
    fields = Fields(load_json(path, _MOST_BYTES), str(path))
    fields.check_header(_FORM, _VERSION)
    child = fields.child("outcome")
    wanted = {**FIGURES, "plan_seconds": "number"}
    values: dict[str, Any] = dict(child.value)
    if values.keys() != wanted.keys():
        raise child.fault("has other figures than this program's")
    for name, kind in wanted.items():
        if values[name] is not None and not isinstance(values[name], _TYPES[kind]):
            raise child.fault(f"'{name}' is no {kind}")
    if not isinstance(values["ok"], bool):
        raise child.fault("does not say whether there is a plan")
    return values
