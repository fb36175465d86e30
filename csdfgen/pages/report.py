"""What does a plan do with memory and time? One page with charts, tables and how to repeat it.

The page is complete without its script, which adds what is under the pointer. It loads nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from csdfgen.charts.arena import draw_arena
from csdfgen.charts.footprint import COLUMNS, Footprint, binary_size, ramp
from csdfgen.charts.memory import draw_memory
from csdfgen.charts.phases import draw_phases
from csdfgen.charts.plan_axes import IN_PAGE
from csdfgen.charts.plans import footprint
from csdfgen.devices.model import Estimate
from csdfgen.model.describe import FIGURES_OF_SEVERAL
from csdfgen.pages.html import (
    Markup,
    chart,
    data,
    document,
    element,
    join,
    make_note,
    section,
    table,
)
from csdfgen.pages.layers import LayerLine, layer_lines
from csdfgen.pages.measured import Measured
from csdfgen.planning.memories import list_memories
from csdfgen.planning.plan import Plan
from runtime.reference import Comparison
from runtime.report import list_whole_tensors

_MOST_ROWS = 40_000
"""Stretches of rows that the script knows, the largest first; about 30 bytes each."""

_HOLDERS, _KEPT = 12, 12
"""Lines of the tables about the peak."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a page shows in addition to the plan. model: its name for the reader. commands: (what it does,
    command line). versions: of what ran. measured: on this machine, None if nothing was. estimate: of the
    device of that title. frames: facts about several images in one order, (fact, value). account: the memory in all.
    """

    model: str
    commands: Sequence[tuple[str, str]] = ()
    versions: Sequence[str] = ()
    measured: Measured | None = None
    estimate: Estimate | None = None
    device: str = ""
    frames: Sequence[tuple[str, str]] = ()
    account: str = ""


def report_page(plan: Plan, facts: Facts) -> bytes:
    """The page of a plan, in UTF-8."""
    shown = footprint(plan)
    colors = ramp(len(shown.layers))
    sections = [
        _header(plan, shown, facts),
        _charts(shown),
        _peak(plan, shown, colors),
        _comparison(plan, facts.measured),
        _layers(plan, shown, colors, facts),
        _formats(plan),
        _figures(plan, facts),
        _repeat(facts),
        data("footprint", _for_script(shown)),
    ]
    return document(f"{facts.model}: memory of a frame", *sections)


# What comes first ---------------------------------------------------------------------------------


def _header(plan: Plan, shown: Footprint, facts: Facts) -> Markup:
    figures, options = plan.figures, plan.options
    whole = figures.get("whole_layer_live", 0)
    shapes = ", ".join("x".join(map(str, t.shape)) for t in plan.network.inputs)
    line = (
        f"{len(plan.network.layers):,} layers in {plan.firings:,} firings of {len(shown.layers):,} actors; "
        f"input {shapes}; --rows {plan.conversion.rows.brief} --fuse {options.fuse} --image {options.image}; "
        f"order '{plan.policy}'"
    )
    if plan.network.batch > 1:
        line += f"; {plan.network.batch} images"
    return element(
        "header",
        element("h1", facts.model),
        element("p", _headline(shown, figures.get("outputs", 0), whole), class_="headline"),
        make_note(line),
        *(element("p", note) for note in _notes(plan)),
        element("div", *_tiles(plan, shown, facts.measured), class_="tiles"),
    )


def _headline(shown: Footprint, outputs: int, whole: int) -> str:
    """How much less memory a frame takes; whole layers count outputs, so that they count here too."""
    frame = shown.arena + outputs
    takes = f"{shown.frame} take{'s' if shown.images == 1 else ''} {binary_size(frame)}"
    takes = f"{takes[:1].upper()}{takes[1:]}"
    if outputs:
        takes += f" (arena {binary_size(shown.arena)}, outputs {binary_size(outputs)})"
    if not frame or not whole:
        return f"{takes}."
    if frame < whole:
        gain = f"{whole / frame:.1f} times less than whole layers"
        return f"{takes} instead of {binary_size(whole)}: {gain}."
    more = f"{frame / whole:.2f} times that"
    return f"{takes}; whole layers take {binary_size(whole)}: this is {more}."


def _notes(plan: Plan) -> Iterator[str]:
    """Notes on the choice of the plan, if it was not the usual one."""
    if plan.interrupted:
        yield "The search for this plan was interrupted; it is the best plan found until then."
    yield from plan.notes
    if plan.part:
        yield f"Charts, and rows and firings by number, are of {plan.part}."
    for name, text in plan.network.found_outputs.items():
        yield f"Output '{name}' has {text}."


def _tiles(plan: Plan, shown: Footprint, measured: Measured | None) -> Iterator[Markup]:
    figures, arena = plan.figures, plan.planned_bytes
    how = "planned"
    if measured is not None:
        same = measured.touched == arena
        how = "measured, as planned" if same else f"{binary_size(measured.touched)} measured"
    yield _tile("Arena", binary_size(arena), how)
    alive = shown.most
    ratio = f"the arena is {arena / alive:.2f} times that" if alive else ""
    yield _tile("Most alive at one time", binary_size(alive), ratio)
    bound = figures.get("lower_bound")
    if bound:
        text = "reached: no order of these phases needs less"
        if not plan.optimal:
            text = f"the peak is {alive / bound:.3g} times that"
        yield _tile("Proven bound", binary_size(bound), text)
    yield _tile(
        "Whole layers", binary_size(figures.get("whole_layer_live", 0)), "most alive at one time"
    )
    if measured is not None:
        if measured.equal is None:
            yield _tile("Outputs", "not compared", "onnxruntime did not run")
        else:
            worst = measured.max_abs_error
            text = f"to onnxruntime's, largest difference {worst:.2g}"
            if not measured.equal:
                text = f"from onnxruntime's, by up to {worst:.2g}"
            word = "equal" if measured.equal else "different"
            yield _tile("Outputs", word, text, bad=not measured.equal)
        theirs = f"onnxruntime {_ms(measured.theirs)}" if measured.theirs is not None else "median"
        yield _tile(f"Time of {_call(plan)}", _ms(measured.ours), theirs)


def _call(plan: Plan) -> str:
    """What one call of the program computes."""
    return "a frame" if plan.network.batch == 1 else f"{plan.network.batch:,} images"


def _tile(title: str, value: str, more: str, bad: bool = False) -> Markup:
    return element(
        "div",
        element("span", title, class_="title"),
        element("strong", value),
        element("span", more, class_="soft"),
        class_="tile bad" if bad else "tile",
    )


# Charts -------------------------------------------------------------------------------------------


def _charts(shown: Footprint) -> Markup:
    return join(
        section(
            title,
            _legend() if kind == "memory" else "",
            chart(f"{shown.title}: {title.lower()}", partial(draw, footprint=shown, look=IN_PAGE, top=top), kind),
            note=text,
            class_=f"figure {kind}",
        )
        for kind, draw, top, title, text in (
            ("memory", draw_memory, 12, f"Memory over {shown.span}",
             "The bytes that are alive in each firing, by the layer that wrote them, the first layer at the bottom; "
             "grey on top is the workspace that the firing needs. A column shows the firing of it in which most is alive."),
            ("arena", draw_arena, 24, "The arena",
             "Every row at its address for as long as it is alive. Grey is workspace, which may be larger than a kernel "
             "needs where the arena has free bytes; blank is free. Outputs that are stored in the arena grow from the "
             "bottom; other rows may reuse the bytes of output rows that come later."),
            ("phases", draw_phases, 10, "Phases",
             "A line for each layer, a mark for each firing, which is its next phase. Time runs from left to right."),
        )
    )  # fmt: skip


def _legend() -> Markup:
    colors = ", ".join(ramp(13)[::2])
    bar = element("span", class_="ramp", style=f"background:linear-gradient(90deg, {colors})")
    return element("p", "input", bar, "output", class_="legend")


def _for_script(shown: Footprint) -> dict[str, object]:
    """Rows and firings as lists of numbers."""
    joined = shown.joined()
    area = (joined.high - joined.low) * (joined.last - joined.first)
    kept = np.sort(np.argsort(-area, kind="stable")[:_MOST_ROWS])
    order = shown.order
    starts = (
        np.flatnonzero(np.concatenate([[True], order[1:] != order[:-1]])) if len(order) else order
    )
    lengths = np.diff(np.append(starts, len(order)))
    return {
        "layers": [layer.name for layer in shown.layers],
        "functions": [layer.function for layer in shown.layers],
        "owners": [
            [owner.layer, owner.name, owner.kind, int(owner.pool == shown.arena_pool)]
            for owner in shown.owners
        ],
        "columns": [getattr(joined, name)[kept].tolist() for name in COLUMNS],
        "left_out": len(area) - len(kept),
        "runs": [[int(order[at]), int(n)] for at, n in zip(starts, lengths, strict=True)],
        "needed": shown.needed.tolist(),
        "firings": shown.firings,
        "arena": shown.arena,
    }


# Tables -------------------------------------------------------------------------------------------


def _peak(plan: Plan, shown: Footprint, colors: Sequence[str]) -> Markup:
    """Which layers hold most at the peak, which bound is proven, and which tensors are kept whole."""
    if not shown.firings:
        return Markup("")
    at, figures = shown.peak, plan.figures
    held, total = shown.held[:, at].copy(), shown.most
    held[-1] = min(held[-1], shown.needed[at])
    actor, phase = plan.order[at]
    order = [line for line in np.argsort(-held, kind="stable").tolist() if held[line]]
    rows: list[list[object]] = []
    for line in order[:_HOLDERS]:
        scratch = line == len(shown.layers)
        name = actor if scratch else shown.layers[line].name
        color = "var(--scratch)" if scratch else colors[line]
        what = "workspace that it needs" if scratch else _rows_alive(shown, line, at)
        rows.append([_swatch(color, name), what, f"{held[line]:,}", f"{held[line] / total:.1%}"])
    if len(order) > _HOLDERS:
        rest = int(held[order[_HOLDERS:]].sum())
        rows.append([f"{len(order) - _HOLDERS} others", "", f"{rest:,}", f"{rest / total:.1%}"])
    rows.append([element("b", "together"), "", f"{total:,}", "100%"])
    bound = figures.get("lower_bound")
    if bound:
        text = f"No order of these phases needs less than {binary_size(bound)} ({bound:,} bytes)"
        more = "no more" if plan.optimal else f"{shown.most / bound:.3g} times that"
        text += f"; this one needs {more}."
    else:
        text = (
            "This plan comes without a proven bound; no arena for this order is smaller than what is "
            "alive in the fullest firing."
        )
    return section(
        "The peak, and what causes it",
        element(
            "p",
            f"Most is alive in firing {at + 1:,} of {shown.firings:,}, phase {phase + 1:,} of ",
            element("b", actor),
            f". {text}",
        ),
        table(["layer", "rows", "bytes", "share"], rows, 2),
        _kept_whole(plan),
    )


def _rows_alive(shown: Footprint, line: int, at: int) -> str:
    mine = (shown.layer == line) & ~shown.scratch & (shown.first <= at) & (at < shown.last)
    parts = []
    for owner in np.unique(shown.owner[mine]).tolist():
        here = mine & (shown.owner == owner)
        low, high = int(shown.row[here].min()), int(shown.end[here].max())
        count = int((shown.end - shown.row)[here].sum())
        span = f"row {low + 1:,}" if count == 1 else f"{count:,} rows, {low + 1:,} to {high:,}"
        parts.append("sums" if shown.owners[owner].kind == "state" else span)
    return "; ".join(dict.fromkeys(parts))


def _kept_whole(plan: Plan) -> Markup:
    whole = list_whole_tensors(plan)
    if not whole:
        return make_note("No tensor is ever in memory as a whole.")
    rows: list[list[object]] = [
        [e.tensor, e.why, f"{e.rows:,}", f"{e.nbytes:,}"] for e in whole[:_KEPT]
    ]
    if len(whole) > _KEPT:
        rest = sum(entry.nbytes for entry in whole[_KEPT:])
        rows.append([f"{len(whole) - _KEPT} smaller ones", "", "", f"{rest:,}"])
    title = element("h3", "Tensors of which all rows are in memory at one time")
    return join([title, table(["tensor", "why", "rows", "bytes"], rows, 2)])


def _comparison(plan: Plan, measured: Measured | None) -> Markup:
    title = "Compared with onnxruntime"
    if measured is None:
        return section(title, element("p", "Nothing was measured for this page (--no-measure)."))
    grown, theirs = measured.their_bytes, measured.theirs
    process = "-" if measured.refused else "not reported by the system"
    rows = [
        ["arena that a frame writes, workspace included", binary_size(measured.touched), ""],
        [
            "allocated outside it in the whole call, outputs included",
            binary_size(measured.call),
            "",
        ],
        [
            "in all; of onnxruntime the growth of its process in a frame, every dead tensor freed",
            binary_size(measured.touched + measured.call),
            process if grown is None else binary_size(grown),
        ],
        [
            f"time of {_call(plan)}, one thread",
            _ms(measured.ours),
            "-" if theirs is None else _ms(theirs),
        ],
    ]
    if (driven := measured.driven) is not None:
        launches, copied = f"{driven.launches:,}", binary_size(driven.copied)
        rows += [
            [f"launches on {driven.device}", launches, ""],
            ["copied between host and device", copied, ""],
        ]
    if measured.refused:
        compared = element("p", f"onnxruntime did not run: {measured.refused}", class_="bad")
    else:
        outputs = [
            [one.name, _verdict(one), f"{one.values:,}", f"{one.max_abs_error:.3g}"]
            for one in measured.comparisons
        ]
        compared = table(["output", "is", "values", "largest difference"], outputs, 2)
    note = (
        f"Times are medians of {measured.repeat} alternating frames on this machine. Weights "
        f"({binary_size(plan.figures.get('parameters', 0))}) and the caller's input count on neither side. "
        "A process grows by whole pages, and reuses what it has freed before."
    )
    head = ["measured here", "csdfgen", "onnxruntime"]
    return section(title, table(head, rows), compared, make_note(note))


def _verdict(one: Comparison) -> Markup:
    if one.ok:
        return element("span", "equal")
    return element("span", f"{one.wrong:,} wrong", class_="bad")


def _layers(plan: Plan, shown: Footprint, colors: Sequence[str], facts: Facts) -> Markup:
    estimate = facts.estimate
    seconds = None if estimate is None else {one.name: one.seconds for one in estimate.layers}
    lines = layer_lines(plan, shown, seconds)
    place = {layer.name: at for at, layer in enumerate(shown.layers)}
    total = max(1, sum(line.work for line in lines))
    text = (
        "Rows a phase: of its output, or of its input where it adds up. Needs: the most rows that a phase reads of one "
        "input. Holds: the most rows and bytes of its own alive at one time. Work: its part of the modelled time, in "
        "multiply-accumulates, or in elements where a layer has none."
    )
    if estimate is not None:
        text += f" Time: modelled for {facts.device}; {_ms(estimate.seconds)} a frame."
    columns: dict[str, Callable[[LayerLine], object]] = {
        "layer": lambda line: _swatch(colors[place[line.name]], line.name),
        "computes": lambda line: line.function,
        "phases": lambda line: f"{line.phases:,}",
        "rows a phase": lambda line: f"{line.height:,} of {line.of:,}",
        "needs rows": lambda line: _counted(line.need),
        "holds rows": lambda line: _counted(line.held_rows),
        "holds bytes": lambda line: _counted(line.held),
        "workspace": lambda line: _counted(line.workspace),
        "MACs": lambda line: _counted(line.macs),
        "work": lambda line: f"{line.work / total:.1%}" if line.work else "",
        "time": lambda line: _ms(line.seconds or 0.0),
    }
    if estimate is None:
        del columns["time"]
    rows = [[cell(line) for cell in columns.values()] for line in lines]
    return section("Layers", table(columns, rows, 2, "layers"), note=text)


def _counted(value: int) -> str:
    return f"{value:,}" if value else ""


def _formats(plan: Plan) -> Markup:
    """In which types tensors and weights are stored: how many, and what they take as a whole."""
    network = plan.network
    tensors: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for tensor in network.tensors.values():
        tensors[tensor.dtype] += 1
        whole[tensor.dtype] += tensor.nbytes
    weights = network.parameter_formats
    rows = [
        [kind, f"{tensors[kind]:,}", f"{whole[kind]:,}", f"{weights.get(kind, 0):,}"]
        for kind in dict.fromkeys([*(kind for kind, _ in tensors.most_common()), *weights])
    ]
    total = sum(whole.values()), sum(weights.values())
    rows.append(["all", f"{tensors.total():,}", *(f"{size:,}" for size in total)])
    text = "Tensors between layers, with the bytes that all would take as a whole, and weights and biases."
    head = ["stored in", "tensors", "their bytes", "bytes of weights"]
    return section("Number formats", table(head, rows, 1, "figures"), note=text)


def _figures(plan: Plan, facts: Facts) -> Markup:
    frames = facts.frames
    rows = [
        [name, FIGURES_OF_SEVERAL.get(name, ""), f"{size:,}", binary_size(size)]
        for name, size in plan.figures.items()
    ]
    return section(
        "Figures",
        table(["figure", "meaning", "bytes", ""], rows, 2, "figures meant"),
        make_note(facts.account) if facts.account else "",
        *_memories(plan),
        table(["several images in one order", ""], frames, 2) if frames else "",
    )


def _memories(plan: Plan) -> Iterator[Markup]:
    """Bytes and traffic of a fast and a slow memory, where a plan has two."""
    memories = list_memories(plan)
    if not memories:
        return
    total = max(1, sum(one.moved for one in memories))
    yield make_note(
        "The fast memory has the rows that are moved most for the bytes and firings that they take. "
        f"In the arena it ends below address {plan.border:,}, where the slow one begins."
    )
    rows = [
        [one.name, *(f"{n:,}" for n in (one.size, one.used, one.read, one.written)),
         f"{100 * one.moved / total:.1f} %"]
        for one in memories
    ]  # fmt: skip
    head = ["memory", "bytes", "used", "read a frame", "written a frame", "of all moved"]
    yield table(head, rows, 1, "figures")


def _repeat(facts: Facts) -> Markup:
    commands = [
        join([element("p", what), element("pre", element("code", line), tabindex="0")])
        for what, line in facts.commands
    ]
    return section("To repeat it", *commands, make_note("; ".join(facts.versions)))


def _swatch(color: str, name: str) -> Markup:
    return element(
        "span", element("i", style=f"background:{color}"), element("span", name), class_="of"
    )


def _ms(seconds: float) -> str:
    """
    >>> _ms(0.01234), _ms(0.2), _ms(12e-6), _ms(3.5)
    ('12.3 ms', '200 ms', '0.012 ms', '3,500 ms')
    """
    value = 1e3 * seconds
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3}f} ms"
