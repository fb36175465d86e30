"""From the name of a graph file to a graph; nothing of networks is imported."""

from __future__ import annotations

from pathlib import Path

from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import InputError

__all__ = ["read_graph_file"]


def read_graph_file(path: str, options: list[str], capacities: Path | None = None) -> CsdfGraph:
    """The CSDF graph in a .json or .xml file; `options` are those given that only a model takes.

    capacities: the file whose buffer sizes are used; if it is this one, they are not reported as
        dropped.
    """
    if options:
        raise InputError(f"is a graph; {options[0]} is for models", where=path)
    if path.lower().endswith(".json"):
        from csdfgen.dataflow.graph_json import read_graph

        return read_graph(path)
    from sdf3_bridge import sdf3xml

    return sdf3xml.read_file(path).graph if capacities == Path(path) else sdf3xml.read(path)
