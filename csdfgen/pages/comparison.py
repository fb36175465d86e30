"""Where do two plans differ? Their figures, orders and layers are compared, as values and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from csdfgen.charts.footprint import Footprint, binary_size
from csdfgen.charts.memory import draw_memory
from csdfgen.charts.plan_axes import IN_PAGE
from csdfgen.charts.plans import footprint
from csdfgen.model.describe import FIGURES_OF_SEVERAL
from csdfgen.pages.html import Markup, chart, document, element, make_note, section, table
from csdfgen.pages.layers import LayerLine, layer_lines
from csdfgen.planning.plan import Plan

FACTS = ("rows", "fuse", "image", "policy", "order", "frames", "firings", "buffers")
"""What is reported of each plan in addition to its figures; `policy` is the option, `order` the order that was chosen."""

_HIGHER_IS_BETTER = frozenset({"lower_bound"})
_INDIFFERENT = frozenset({"sum_of_tensors", "whole_layer_live", "parameters"})


@dataclass(frozen=True, eq=False)
class Side:
    """A plan under the name that the reader gave it."""

    name: str
    plan: Plan
    shown: Footprint
    lines: tuple[LayerLine, ...]

    def facts(self) -> dict[str, str | int]:
        """The values of `FACTS`."""
        plan, options = self.plan, self.plan.options
        return {
            "rows": plan.conversion.rows.brief, "fuse": options.fuse, "image": options.image,
            "policy": options.policy, "order": plan.policy, "frames": options.frames, "firings": plan.firings,
            "buffers": len(plan.buffers),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class FigurePair:
    """A figure of both plans, None where one has none."""

    name: str
    a: int | None
    b: int | None

    @property
    def differs(self) -> bool:
        return self.a != self.b

    @property
    def ratio(self) -> float | None:
        """b / a."""
        return self.b / self.a if self.a and self.b is not None else None

    @property
    def verdict(self) -> str:
        """Whether b is "better" or "worse"; "" where the figure has no better or worse."""
        if self.a is None or self.b is None or not self.differs or self.name in _INDIFFERENT:
            return ""
        return "better" if (self.b < self.a) != (self.name in _HIGHER_IS_BETTER) else "worse"


@dataclass(frozen=True, slots=True)
class LayerPair:
    """A layer in both plans, None where one has no such layer."""

    name: str
    a: LayerLine | None
    b: LayerLine | None

    def values(self) -> list[tuple[str, int | None, int | None]]:
        """(what, in a, in b)."""
        names = ("phases", "height", "held_rows", "held", "workspace")
        return [(name, getattr(self.a, name, None), getattr(self.b, name, None)) for name in names]

    @property
    def differs(self) -> bool:
        return any(a != b for _, a, b in self.values())


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two plans; same_order: whether the same phases fire in the same order."""

    a: Side
    b: Side
    figures: tuple[FigurePair, ...]
    layers: tuple[LayerPair, ...]
    same_order: bool


def compare_plans(names: Sequence[str], plans: Sequence[Plan]) -> Comparison:
    """Two plans of any two networks; layers are the same if their names are."""
    a, b = (_side(name, plan) for name, plan in zip(names, plans, strict=True))
    known = dict.fromkeys([*a.plan.figures, *b.plan.figures])
    figures = tuple(FigurePair(n, a.plan.figures.get(n), b.plan.figures.get(n)) for n in known)
    left, right = ({line.name: line for line in side.lines} for side in (a, b))
    pairs = tuple(LayerPair(n, left.get(n), right.get(n)) for n in dict.fromkeys([*left, *right]))
    return Comparison(a, b, figures, pairs, a.plan.order == b.plan.order)


def _side(name: str, plan: Plan) -> Side:
    shown = footprint(plan)
    return Side(name, plan, shown, layer_lines(plan, shown))


def to_json(found: Comparison) -> dict[str, Any]:
    """The comparison as JSON values; of the layers those that differ."""
    return {
        "a": {"name": found.a.name, "network": found.a.plan.network.name, **found.a.facts()},
        "b": {"name": found.b.name, "network": found.b.plan.network.name, **found.b.facts()},
        "same_order": found.same_order,
        "figures": {
            pair.name: {"a": pair.a, "b": pair.b, "ratio": pair.ratio} for pair in found.figures
        },
        "layers": [
            {"layer": pair.name, **{name: {"a": a, "b": b} for name, a, b in pair.values()}}
            for pair in found.layers
            if pair.differs
        ],
        "layers_compared": len(found.layers),
    }


# The page -----------------------------------------------------------------------------------------


def comparison_page(found: Comparison) -> bytes:
    """Both plans on one page, in UTF-8."""
    a, b = found.a, found.b
    arena = next(pair for pair in found.figures if pair.name == "arena")
    ratio = "" if not arena.ratio else f": {arena.ratio:.2f} times"
    sizes = " and ".join("-" if size is None else binary_size(size) for size in (arena.a, arena.b))
    return document(
        f"{a.name} and {b.name}: two plans",
        element(
            "header",
            element("h1", a.name, element("span", " and ", class_="soft"), b.name),
            element("p", f"Arena {sizes}{ratio}.", class_="headline"),
        ),
        section("Figures", _figures(found)),
        *_charts(found),
        section("How they are made", _facts(found)),
        section("Layers that differ", *_layers(found)),
        script=False,
    )


def _figures(found: Comparison) -> Markup:
    rows = []
    for pair in found.figures:
        ratio = "" if pair.ratio is None else f"{pair.ratio:.3f}"
        marked = element("span", ratio, class_=pair.verdict or None)
        rows.append(
            [
                pair.name,
                FIGURES_OF_SEVERAL.get(pair.name, ""),
                _shown(pair.a),
                _shown(pair.b),
                marked,
            ]
        )
    return table(
        ["figure", "meaning", found.a.name, found.b.name, "ratio"], rows, 2, "figures meant"
    )


def _facts(found: Comparison) -> Markup:
    left, right = found.a.facts(), found.b.facts()
    rows = [[name, _shown(left[name]), _changed(left[name], right[name])] for name in FACTS]
    same = "the same" if found.same_order else "different"
    rows.append(["firings in order", "", same])
    return table(["", found.a.name, found.b.name], rows, 3)


def _layers(found: Comparison) -> Iterator[Markup]:
    differing = [pair for pair in found.layers if pair.differs]
    yield make_note(f"{len(differing):,} of {len(found.layers):,} layers differ.")
    if not differing:
        return
    rows = [
        [pair.name, *(cell for _, a, b in pair.values() for cell in (_shown(a), _changed(a, b)))]
        for pair in differing
    ]
    named = ("phases", "rows a phase", "holds rows", "holds bytes", "workspace")
    head = [text for what in named for text in (f"{what}, first", "second")]
    yield table(["layer", *head], rows, 1, "layers")


def _charts(found: Comparison) -> Iterator[Markup]:
    """Both memories at one scale."""
    sides = (found.a, found.b)
    most = max(float(max(side.shown.arena, side.shown.alive.max(initial=0))) for side in sides)
    text = "The bytes that are alive in each firing, by layer; both plans have the same scale."
    for side in sides:
        draw = partial(draw_memory, footprint=side.shown, look=IN_PAGE, top=12, scale=most)
        picture = chart(f"{side.name}: memory over {side.shown.span}", draw)
        yield section(side.name, picture, note=text, class_="figure")


def _shown(value: object) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _changed(a: object, b: object) -> object:
    return _shown(b) if a == b else element("span", _shown(b), class_="changed")
