"""What was asked of `analyze`, and what is a part of its report? JSON values, a way to print them,
rows for a table in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from csdfgen.cli.analyze_options import GraphQuestions
from csdfgen.cli.options import ModelOptions

__all__ = ["AnalyzeRequest", "Report", "Section"]


@dataclass(frozen=True, slots=True)
class AnalyzeRequest:
    """What the user asked for; a section whose option is None is left out."""

    model: str
    options: ModelOptions
    device: str | None
    as_json: bool
    csv: Path | None
    questions: GraphQuestions


@dataclass(frozen=True, slots=True)
class Section:
    """An answer: values under `name` in the JSON (in the outer object if it is empty); `show`
    prints it; rows of the CSV file.
    """

    name: str
    values: dict[str, Any]
    show: Callable[[], None]
    rows: tuple[tuple[Any, ...], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The values as members of the report's one object."""
        return {self.name: self.values} if self.name else self.values


@dataclass(frozen=True, slots=True)
class Report:
    """JSON members and a line that say what was analysed, and the answers."""

    head: dict[str, Any]
    title: str
    sections: Sequence[Section]
