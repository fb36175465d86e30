"""`csdfgen compare`: two plans beside each other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from csdfgen.cli.plans import Asked, planned
from csdfgen.cli.report import check_page
from csdfgen.cli.terminal import console, counted, plain, stages, table
from csdfgen.files import write_bytes
from csdfgen.pages.comparison import (
    FACTS,
    Comparison,
    LayerPair,
    compared,
    comparison_page,
    to_json,
)

__all__ = ["CompareRequest", "names_of", "run_compare"]

_SHOWN = 24
"""Layers that are listed on a terminal, those first whose bytes differ most."""

_STYLES = {"better": "bold green", "worse": "bold red", "": ""}


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """What the user asked for; names: both sides as typed."""

    names: tuple[str, str]
    sides: tuple[Asked, Asked]
    output: Path | None
    as_json: bool


def run_compare(request: CompareRequest) -> None:
    """Print the comparison, or write it as a page. Raises CsdfgenError."""
    if request.output is not None:
        check_page(request.output)
    with stages() as stage:
        plans = [planned(side, stage).plan for side in request.sides]
        found = compared(request.names, plans)
        page = comparison_page(found) if request.output is not None else b""
    if request.output is not None:
        write_bytes(request.output, page)
    if request.as_json:
        print(json.dumps(to_json(found), indent=2, allow_nan=False))
    elif request.output is not None:
        console().print(
            f"{request.output}: {' and '.join(map(plain, request.names))}", soft_wrap=True
        )
    else:
        _print(found)


def _print(found: Comparison) -> None:
    out = console()
    out.print(f"A  {plain(found.a.name)}\nB  {plain(found.b.name)}\n", soft_wrap=True)
    rows = table("", "A", "B", "B/A", right=("A", "B", "B/A"))
    for pair in found.figures:
        ratio = "" if pair.ratio is None else f"{pair.ratio:.3f}"
        style = _STYLES[pair.verdict]
        rows.add_row(
            plain(pair.name), _number(pair.a), Text(_number(pair.b), style), Text(ratio, style)
        )
    left, right = found.a.facts(), found.b.facts()
    for name in FACTS:
        style = "" if left[name] == right[name] else "bold yellow"
        rows.add_row(name, plain(_number(left[name])), Text(plain(_number(right[name])), style), "")
    out.print(rows)
    same = (
        "the same phases in the same order" if found.same_order else "the orders of firings differ"
    )
    differing = sorted((one for one in found.layers if one.differs), key=_bytes_apart)
    out.print(f"\n{same}; {len(differing):,} of {counted(len(found.layers), 'layer')} differ")
    if not differing:
        return
    heads = ["phases", "rows a phase", "holds rows", "holds bytes", "workspace"]
    layers = table("layer", *heads, right=tuple(heads))
    for one in differing[:_SHOWN]:
        layers.add_row(plain(one.name), *(_pair(a, b) for _, a, b in one.values()))
    if len(differing) > _SHOWN:
        layers.add_row(f"and {len(differing) - _SHOWN} others, all with --json or -o page.html")
    out.print(layers)


def _bytes_apart(pair: LayerPair) -> int:
    """A key that puts those first whose bytes, scratch too, differ most."""
    sizes = [(b or 0) - (a or 0) for name, a, b in pair.values() if name in ("held", "workspace")]
    return -abs(sum(sizes))


def _pair(a: int | None, b: int | None) -> Text:
    if a == b:
        return Text(_number(a), "dim")
    return Text(f"{_number(a)} > {_number(b)}", "bold yellow")


def _number(value: object) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def names_of(arguments: Sequence[str]) -> tuple[str, str]:
    """Both sides as typed; told apart where they are typed alike."""
    a, b = arguments
    return (a, b) if a != b else (a, f"{b} (again)")
