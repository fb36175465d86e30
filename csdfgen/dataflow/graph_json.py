"""How does csdfgen store a CSDF graph in a file? As JSON, lossless, with rate lists by runs.

{"format": "csdfgen-graph", "version": 1, "name": "cnn5",
 "actors": [{"name": "n3", "execution_times": "4*1", "function": "Conv 5x5"}],
 "channels": [{"name": "e23", "source": "n2", "target": "n3", "production": "16*64",
               "consumption": "1*384,2*192,1*256", "initial_tokens": 0, "token_bytes": 1, "kind":
               "data"}]}

A graph that was made from a network has "origin" (see `origin`).
"""

from __future__ import annotations

import os
from typing import Any

from csdfgen.dataflow import origin
from csdfgen.dataflow.graph import (
    KINDS,
    MAX_RATES,
    Actor,
    Channel,
    CsdfGraph,
    format_runs,
    parse_short_form,
    validate,
)
from csdfgen.errors import GraphError
from csdfgen.files import Fields, load_json, quote, write_json

FORMAT = "csdfgen-graph"
VERSION = 1


def to_json(graph: CsdfGraph) -> dict[str, Any]:
    """The graph as JSON values; `from_json` is the inverse."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": graph.name,
        **({"origin": origin.to_json(graph.origin)} if graph.origin is not None else {}),
        "actors": [
            {"name": a.name, "execution_times": format_runs(a.execution_times), "function": a.function}
            for a in graph.actors
        ],
        "channels": [
            {
                "name": c.name, "source": c.source, "target": c.target,
                "production": format_runs(c.production), "consumption": format_runs(c.consumption),
                "initial_tokens": c.initial_tokens, "token_bytes": c.token_bytes, "kind": c.kind,
            }
            for c in graph.channels
        ],
    }  # fmt: skip


class _Lists:
    """Reads rate lists, with one limit for the whole graph."""

    def __init__(self) -> None:
        self.left = MAX_RATES

    def read(self, fields: Fields, key: str) -> tuple[int, ...]:
        text = fields.text(key)
        try:
            values = parse_short_form(text, self.left, what=key.replace("_", " "))
        except GraphError as error:
            raise error.at(f"{fields.where}: {key}") from None
        self.left -= len(values)
        return values


def from_json(data: object, where: str = "graph") -> CsdfGraph:
    """The graph in JSON values, validated. Raises GraphError with the place, the key and both numbers."""
    fields = Fields(data, where, GraphError)
    fields.check_header(FORMAT, VERSION)
    lists = _Lists()
    actors = tuple(
        Actor(item.text("name"), lists.read(item, "execution_times"), item.text("function", ""))
        for item in fields.children("actors")
    )
    channels = []
    for item in fields.children("channels"):
        kind = item.text("kind", "data")
        if kind not in KINDS:
            raise item.fault(f"'kind' is {quote(kind)}; one of {', '.join(KINDS)} is needed")
        channels.append(
            Channel(
                item.text("name"),
                item.text("source"),
                item.text("target"),
                lists.read(item, "production"),
                lists.read(item, "consumption"),
                item.integer("initial_tokens", default=0),
                item.integer("token_bytes", default=1),
                next(known for known in KINDS if known == kind),
            )
        )
    made = origin.from_fields(fields.child("origin")) if "origin" in fields else None
    graph = CsdfGraph(fields.text("name"), actors, tuple(channels), made)
    try:
        validate(graph)
    except GraphError as error:
        raise error.at(where) from None
    return graph


def read_graph(path: str | os.PathLike[str]) -> CsdfGraph:
    """Read a graph file. Raises InputError or GraphError."""
    return from_json(load_json(path), str(path))


def write_graph(path: str | os.PathLike[str], graph: CsdfGraph) -> None:
    """Write a graph file; equal graphs give equal bytes."""
    write_json(path, to_json(graph))
