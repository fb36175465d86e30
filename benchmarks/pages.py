"""Where do the results of benchmarks go? Between markers of a page, with the machine that they come
from.
"""

from __future__ import annotations

import datetime
import io
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from csdfgen.devices import facts

__all__ = ["ROOT", "between", "machine", "picture", "write_between"]

ROOT = Path(__file__).resolve().parent.parent


def machine(*packages: str) -> str:
    """Processor, versions of Python, numpy and those of the packages that are there, and day."""
    told = facts.board_facts()["cpu"]
    processor = platform.processor() or platform.machine() if told == facts.NOT_TOLD else told
    there = [name for name in ("numpy", *packages) if find_spec(name) is not None]
    versions = ", ".join(f"{name} {version(name)}" for name in there)
    return f"{processor}; Python {platform.python_version()}, {versions}; {datetime.date.today().isoformat()}"


def _markers(name: str) -> tuple[str, str]:
    return f"<!-- {name}: start -->", f"<!-- {name}: end -->"


def between(page: Path, name: str) -> str:
    """What stands between the markers `name: start` and `name: end` of a page; "" where there are
    none.
    """
    start, end = _markers(name)
    return page.read_text().partition(start)[2].partition(end)[0]


def write_between(page: Path, name: str, lines: Sequence[str]) -> None:
    """Replace what stands between the markers of a page by lines."""
    start, end = _markers(name)
    before, found, rest = page.read_text().partition(start)
    _, ended, after = rest.partition(end)
    if not (found and ended):
        raise SystemExit(f"{page} has no '{start}' and '{end}' to write between")
    page.write_text(f"{before}{start}\n" + "\n".join(lines) + f"\n{end}{after}")


@contextmanager
def picture(width: float, height: float) -> Iterator[tuple[Any, io.BytesIO]]:
    """Axes of matplotlib, in inches, and where they are written to in the end: an SVG that is the same whenever it is drawn."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    out = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "csdfgen", "svg.fonttype": "none"}):
        figure, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
        yield axes, out
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(out, format="svg", metadata={"Date": None})
        pyplot.close(figure)
