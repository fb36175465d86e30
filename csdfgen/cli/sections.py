"""What is a part of a report? Values for JSON, a way to print them, rows for a table in a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Section"]


@dataclass(frozen=True, slots=True)
class Section:
    """An answer: values under `name` in the JSON (in the outer object if it is empty); `show` prints it; rows of the CSV file."""

    name: str
    values: dict[str, Any]
    show: Callable[[], None]
    rows: tuple[tuple[Any, ...], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The values as members of the report's one object."""
        return {self.name: self.values} if self.name else self.values
