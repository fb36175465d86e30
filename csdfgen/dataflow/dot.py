"""How is a CSDF graph drawn? As text in the language of Graphviz.

dot -Tsvg graph.dot -o graph.svg

A critical cycle is drawn in colour and three times as thick, so that it is visible in grey print too. Where an actor
waits for space in a channel, the cycle has a separate arrow in the opposite direction of the channel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from csdfgen.dataflow.graph import CsdfGraph, format_runs

_MAX_LABEL = 60
_FONT = "Helvetica"
_STYLES = {"data": "solid", "overlap": "dashed", "serial": "dotted", "space": "dotted"}
_CRITICAL = 'color="#c0392b", penwidth=3'


class CriticalArrow(NamedTuple):
    """Part of a critical cycle: `target` waits for `source`, for tokens of a channel or for space in it; channel "" is
    the order of the firings of one actor.
    """

    source: str
    target: str
    channel: str
    space: bool


def to_dot(
    graph: CsdfGraph,
    capacities: Mapping[str, int] | None = None,
    critical: Iterable[CriticalArrow] = (),
    caption: str = "",
) -> str:
    """The graph in the DOT language: actors with phases and function, channels with rates in short
    form.

    capacities: channel name -> tokens, written at the channel. critical: the cycle that limits the
    throughput. Overlap channels are dashed, serial ones dotted. caption: text below the graph. Equal graphs give equal
    texts.
    """
    capacities = capacities or {}
    critical = tuple(critical)
    limiting = {arrow.channel for arrow in critical if not arrow.space}
    in_order = {arrow.source for arrow in critical if not arrow.channel}
    limiting.update(
        channel.name
        for channel in graph.channels
        if channel.is_serial and channel.source in in_order
    )
    on_cycle = {name for arrow in critical for name in (arrow.source, arrow.target)}
    ids = {actor.name: f"a{i}" for i, actor in enumerate(graph.actors)}
    lines = [
        f"digraph {_quote(graph.name)} {{",
        f"  node [shape=box, style=rounded, fontname={_quote(_FONT)}, fontsize=11];",
        f"  edge [fontname={_quote(_FONT)}, fontsize=9];",
    ]
    if caption:
        lines.append(
            f"  graph [label={_label([caption])}, labelloc=b, fontname={_quote(_FONT)}, fontsize=11];"
        )
    for actor in graph.actors:
        phases = f"{actor.phases} phase{'s' if actor.phases != 1 else ''}"
        label = [actor.name, *([actor.function] if actor.function else []), phases]
        more = f", {_CRITICAL}" if actor.name in on_cycle else ""
        lines.append(f"  {ids[actor.name]} [label={_label(label)}{more}];")
    for channel in graph.channels:
        label = [
            " -> ".join(
                _cut(format_runs(rates, ones=False))
                for rates in (channel.production, channel.consumption)
            )
        ]
        if channel.is_serial:
            label = ["1 token"]
        elif channel.initial_tokens:
            label.append(f"{channel.initial_tokens} initial")
        if channel.name in capacities:
            label.append(f"capacity {capacities[channel.name]}")
        # the ports separate it from other self-loops
        more = ", tailport=w, headport=w" if channel.is_serial else ""
        more += f", {_CRITICAL}" if channel.name in limiting else ""
        lines.append(
            f"  {ids[channel.source]} -> {ids[channel.target]} "
            f"[label={_label(label, apart=True)}, style={_STYLES[channel.kind]}, tooltip={_label([channel.name])}{more}];"
        )
    for arrow in critical:
        if arrow.space:
            text = _label([f"space in {_cut_name(arrow.channel)}"], apart=True)
            lines.append(
                f"  {ids[arrow.source]} -> {ids[arrow.target]} [label={text}, constraint=false, {_CRITICAL}];"
            )
    return "\n".join([*lines, "}"]) + "\n"


def _cut(text: str) -> str:
    """A rate list short enough to be drawn."""
    if len(text) <= _MAX_LABEL:
        return text
    return f"{text[: text.rindex(',', 0, _MAX_LABEL)]},..."


def _cut_name(name: str) -> str:
    return name if len(name) <= _MAX_LABEL else f"{name[:_MAX_LABEL]}..."


def _quote(text: str) -> str:
    """A DOT string; inside it only the quote and a backslash at its end are special."""
    return '"' + escape_text(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _label(lines: list[str], *, apart: bool = False) -> str:
    """A DOT label of several lines, in which Graphviz interprets backslashes and HTML entities. apart: with blanks on
    both sides, which separate it from its arrow.
    """
    escaped = (_quote(line.replace("&", "&amp;"))[1:-1] for line in lines)
    return '"' + "\\n".join(f"  {line}  " if apart else line for line in escaped) + '"'


def escape_text(text: str) -> str:
    """The text with control characters and lone surrogates, which cannot be drawn, as their codes."""
    return re.sub(
        r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]",
        lambda m: f"<{ord(m[0]):x}>",
        text,
    )
