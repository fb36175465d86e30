"""`csdfgen compare`: two plans and their differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

from csdfgen.cli.command import Argument, Command
from csdfgen.cli.options import JSON, parse_source
from csdfgen.cli.report import PageOption, check_page
from csdfgen.cli.terminal import escape, say, say_json, show_progress, table
from csdfgen.errors import name_options_as_suffixes
from csdfgen.files import write_bytes
from csdfgen.model.options import declare
from csdfgen.model.units import pluralize

if TYPE_CHECKING:
    from csdfgen.pages.comparison import Comparison, LayerPair


_SHOWN = 24
"""Layers that are listed on a terminal, those first whose bytes differ most."""

_STYLES = {"better": "bold green", "worse": "bold red", "": ""}

_Side = Annotated[
    str,
    Argument(
        "MODEL[+OPTION=VALUE...]|PLAN",
        "A plan (.json), or a model with options: model.onnx+rows=1+policy=demand; those of planning, and batch and "
        "shape.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Compare(Command):
    """Compare two plans: figures, order, and the layers that differ."""

    examples = (
        "csdfgen compare before.json after.json",
        "csdfgen compare model.onnx model.onnx+rows=1",
        "csdfgen compare zoo:resnet18+policy=demand zoo:resnet18+policy=eager -o page.html",
    )

    a: _Side
    b: _Side
    output: PageOption = None
    as_json: bool = declare("Print one JSON object instead of text.", False, names=JSON)

    def run(self) -> None:
        """Print the comparison, or write it as a page. Raises CsdfgenError."""
        from csdfgen.cli.models import load_or_plan
        from csdfgen.pages.comparison import compare_plans, comparison_page, to_json

        sides = parse_source(self.a), parse_source(self.b)
        names = self.a, self.b if self.a != self.b else f"{self.b} (again)"
        check_page(self.output)
        with name_options_as_suffixes(), show_progress() as progress:
            found = compare_plans(names, [load_or_plan(side, progress).plan for side in sides])
            page = comparison_page(found) if self.output is not None else b""
        if self.output is not None:
            write_bytes(self.output, page)
        if self.as_json:
            say_json(to_json(found))
        elif self.output is not None:
            say(f"{escape(self.output)}: {' and '.join(map(escape, names))}", wrap=False)
        else:
            _show(found)


def _show(found: Comparison) -> None:
    from csdfgen.pages.comparison import FACTS

    rows: list[tuple[str | Text, ...]] = []
    for pair in found.figures:
        ratio, style = "" if pair.ratio is None else f"{pair.ratio:.3f}", _STYLES[pair.verdict]
        rows.append((pair.name, _number(pair.a), Text(_number(pair.b), style), Text(ratio, style)))
    left, right = found.a.facts(), found.b.facts()
    for name in FACTS:
        style = "" if left[name] == right[name] else "bold yellow"
        rows.append((name, _number(left[name]), Text(escape(_number(right[name])), style)))
    same = (
        "the same phases in the same order" if found.same_order else "the orders of firings differ"
    )
    differing = sorted((one for one in found.layers if one.differs), key=_bytes_apart)
    say(f"A  {escape(found.a.name)}\nB  {escape(found.b.name)}\n", wrap=False)
    say(
        table("", "> A", "> B", "> B/A", rows=rows),
        f"\n{same}; {len(differing):,} of {pluralize(len(found.layers), 'layer')} differ",
    )
    if not differing:
        return
    layers = [(one.name, *(_pair(a, b) for _, a, b in one.values())) for one in differing[:_SHOWN]]
    rest = pluralize(len(differing) - _SHOWN, "other")
    more = [(f"and {rest}, all with --json or -o page.html",)]
    columns = ("> phases", "> rows a phase", "> holds rows", "> holds bytes", "> workspace")
    say(table("layer", *columns, rows=[*layers, *more * (len(differing) > _SHOWN)]))


def _bytes_apart(pair: LayerPair) -> int:
    """A key that puts those first whose bytes, scratch too, differ most."""
    sizes = [(b or 0) - (a or 0) for name, a, b in pair.values() if name in ("held", "workspace")]
    return -abs(sum(sizes))


def _pair(a: int | None, b: int | None) -> Text:
    changed = f"{_number(a)} > {_number(b)}"
    return Text(_number(a), "dim") if a == b else Text(changed, "bold yellow")


def _number(value: object) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
