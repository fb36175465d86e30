"""How do numbers, tables and long work look on a terminal?"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import logging
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from csdfgen.model.describe import FIGURES_OF_SEVERAL

Progress = Callable[..., None]
"""Called as progress("what is done now") or progress("what", done, total)."""

Cell = str | int | Text | None

_WIDTH_OF_A_PIPE = 200


def say(*parts: str | Table | Text, wrap: bool = True) -> None:
    """Print lines and tables, names as they are; a pipe gets long lines rather than cut ones."""
    wide = max(_WIDTH_OF_A_PIPE, shutil.get_terminal_size().columns)
    width = None if sys.stdout.isatty() else wide
    out = Console(markup=False, highlight=False, emoji=False, width=width)
    for part in parts:
        out.print(part, soft_wrap=not wrap and not isinstance(part, Table))


def say_json(values: Any) -> None:
    """Print a JSON value."""
    print(json.dumps(values, indent=2, allow_nan=False))


def csv_text(rows: Iterable[Sequence[Any]]) -> bytes:
    """Rows as a file of values between commas."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "backslashreplace")


def escape(name: object) -> str:
    """A name from a model, or a path, as a terminal may show it.

    >>> escape("conv\\x1b[2J")
    'conv\N{REPLACEMENT CHARACTER}[2J'
    """
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(name))


def dim_text(text: str) -> Text:
    """What matters less."""
    return Text(escape(text), style="dim")


def cut(text: str, most: int) -> str:
    """A text of no more characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def mebibytes(size: int) -> str:
    """MiB is 2^20 bytes."""
    return f"{size / 2**20:,.3f}"


def format_bytes(size: int) -> str:
    """A size, exact and as people remember it.

    >>> format_bytes(524288)
    '524,288 bytes (0.500 MiB)'
    """
    return f"{size:,} bytes ({mebibytes(size)} MiB)"


def table(*columns: str, rows: Iterable[Sequence[Any]] = ()) -> Table:
    """A table of rows, whose names and whole numbers are shown as here. A column that is called "> NAME" holds
    numbers.
    """
    made = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        right = name.startswith("> ")
        made.add_column(
            name[2:] if right else name, justify="right" if right else "left", overflow="fold"
        )
    for row in rows:
        made.add_row(*map(_cell, row))
    return made


def figures_table(figures: Mapping[str, int]) -> Table:
    """The memory figures of a plan, in bytes, MB (10^6 bytes) and MiB, with their meaning."""
    return table(
        "memory", "> bytes", "> MB", "> MiB", "meaning",
        rows=(
            (name, size := figures[name], f"{size / 1e6:,.3f}", mebibytes(size), dim_text(meaning))
            for name, meaning in FIGURES_OF_SEVERAL.items()
            if name in figures
        ),
    )  # fmt: skip


def _cell(value: Cell) -> str | Text:
    if value is None or isinstance(value, Text):
        return value or ""
    return f"{value:,}" if isinstance(value, int) else escape(value)


@contextlib.contextmanager
def show_progress() -> Iterator[Progress]:
    """A progress bar on stderr while the block runs, if stderr is a terminal, which shows long waits, too; it is erased at
    the end.
    """
    if not sys.stderr.isatty():
        yield lambda what, done=0, total=None: None
        return
    from rich import progress as bars

    text = bars.TextColumn("{task.description}", markup=False)
    columns = bars.SpinnerColumn(), text, bars.BarColumn(), bars.TimeElapsedColumn()
    # lines that are printed meanwhile go above the bar, but not those of a pipe
    above = sys.stdout.isatty()
    with bars.Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=above
    ) as shown:
        task = shown.add_task("", total=None)

        def progress(what: str, done: int = 0, total: int | None = None) -> None:
            shown.update(task, description=what, completed=done, total=total)

        def show_wait(record: logging.LogRecord) -> bool:
            progress(record.getMessage(), vars(record).get("done", 0), vars(record).get("total"))
            return False

        waits = logging.getLogger("csdfgen.waits")
        waits.addFilter(show_wait)
        try:
            yield progress
        finally:
            waits.removeFilter(show_wait)
