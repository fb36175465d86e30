"""How do numbers and long work look on a terminal?"""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from csdfgen.planning.memories import Memory

__all__ = [
    "Stage",
    "console",
    "counted",
    "figures_table",
    "mebibytes",
    "megabytes",
    "plain",
    "show_memories",
    "stages",
    "table",
]

Stage = Callable[..., None]
"""Called as stage("what is done now") or stage("what", done, total)."""

_WIDTH_OF_A_PIPE = 200


def console() -> Console:
    """Standard output, names printed as they are; a pipe gets long lines rather than cut ones."""
    width = (
        None if sys.stdout.isatty() else max(_WIDTH_OF_A_PIPE, shutil.get_terminal_size().columns)
    )
    return Console(markup=False, highlight=False, emoji=False, width=width)


def plain(name: str) -> str:
    """A name from a model as a terminal may show it.

    >>> plain("conv\\x1b[2J")
    'conv\N{REPLACEMENT CHARACTER}[2J'
    """
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)


def counted(count: int, what: str, plural: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "phase"), counted(1200, "phase")
    ('1 phase', '1,200 phases')
    """
    return f"{count:,} {what if count == 1 else plural or what + 's'}"


def megabytes(size: int) -> str:
    """MB is 10^6 bytes."""
    return f"{size / 1e6:,.3f}"


def mebibytes(size: int) -> str:
    """MiB is 2^20 bytes."""
    return f"{size / 2**20:,.3f}"


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table whose columns in `right` hold numbers."""
    made = Table(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return made


def figures_table(figures: Mapping[str, int]) -> Table:
    """The memory figures of a plan, in bytes, MB and MiB, with their meaning."""
    from csdfgen.planning.plan import (
        FIGURES,
    )  # brings all operators along, which commands on graphs do without

    made = table("memory", "bytes", "MB", "MiB", "meaning", right=("bytes", "MB", "MiB"))
    for name, meaning in FIGURES.items():
        size = figures[name]
        made.add_row(
            name, f"{size:,}", megabytes(size), mebibytes(size), Text(meaning, style="dim")
        )
    return made


def show_memories(memories: Sequence[Memory]) -> None:
    """Bytes and traffic of each memory of a plan; nothing where there is one alone."""
    if not memories:
        return
    columns = ("bytes", "used", "read a frame", "written a frame", "of all moved")
    made = table("memory", *columns, right=columns)
    total = max(1, sum(one.moved for one in memories))
    for one in memories:
        numbers = (one.size, one.used, one.read, one.written)
        made.add_row(one.name, *(f"{n:,}" for n in numbers), f"{100 * one.moved / total:.1f} %")
    out = console()
    out.print()
    out.print(made)


@contextlib.contextmanager
def stages() -> Iterator[Stage]:
    """A progress bar on stderr while the block runs, if stderr is a terminal; nothing is left of
    it.
    """
    if not sys.stderr.isatty():
        yield lambda what, done=0, total=None: None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)

        def stage(what: str, done: int = 0, total: int | None = None) -> None:
            progress.update(task, description=what, completed=done, total=total)

        yield stage
