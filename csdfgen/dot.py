"""What does a CSDF graph look like? As text that Graphviz draws.

dot -Tsvg graph.dot -o graph.svg
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from csdfgen.graph import CsdfGraph, short_form

__all__ = ["to_dot"]

_MAX_LABEL = 60
_STYLES = {"data": "solid", "overlap": "dashed", "serial": "dotted"}


def to_dot(graph: CsdfGraph, capacities: Mapping[str, int] | None = None) -> str:
    """The graph in the DOT language: actors with phases and function, channels with rates in short form.

    capacities: channel name -> tokens, written at the channel. Channels that are no data are dashed
    (overlap) or dotted (serial). The same graph gives the same text.
    """
    capacities = capacities or {}
    ids = {actor.name: f"a{i}" for i, actor in enumerate(graph.actors)}
    lines = [
        f"digraph {_quote(graph.name)} {{",
        '  node [shape=box, style=rounded, fontname="Helvetica,Arial,sans-serif", fontsize=11];',
        '  edge [fontname="Helvetica,Arial,sans-serif", fontsize=9];',
    ]
    for actor in graph.actors:
        phases = f"{actor.phases} phase{'s' if actor.phases != 1 else ''}"
        label = [actor.name, *([actor.function] if actor.function else []), phases]
        lines.append(f"  {ids[actor.name]} [label={_label(label)}];")
    for channel in graph.channels:
        label = [f"{_cut(short_form(channel.production))} -> {_cut(short_form(channel.consumption))}"]
        if channel.initial_tokens:
            label.append(f"{channel.initial_tokens} initial")
        if channel.name in capacities:
            label.append(f"capacity {capacities[channel.name]}")
        style = _STYLES[channel.kind]
        lines.append(
            f"  {ids[channel.source]} -> {ids[channel.target]} "
            f"[label={_label(label)}, style={style}, tooltip={_label([channel.name])}];"
        )
    return "\n".join([*lines, "}"]) + "\n"


def _cut(text: str) -> str:
    """A rate list short enough to be drawn."""
    if len(text) <= _MAX_LABEL:
        return text
    return f"{text[: text.rindex(',', 0, _MAX_LABEL)]},..."


def _quote(text: str) -> str:
    """A DOT string; inside it only the quote and a backslash at its end are special."""
    return '"' + _visible(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _label(lines: list[str]) -> str:
    """A DOT label of several lines; Graphviz also reads backslashes and HTML entities in it."""
    escaped = (_quote(line.replace("&", "&amp;"))[1:-1] for line in lines)
    return '"' + "\\n".join(escaped) + '"'


def _visible(text: str) -> str:
    """Control characters and lone surrogates, which no drawing can show, as their code."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]", lambda m: f"<{ord(m[0]):x}>", text)
