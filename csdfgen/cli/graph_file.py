"""From the name of a graph file to a graph; nothing of networks is imported."""

from __future__ import annotations

from csdfgen.errors import InputError
from csdfgen.graph import CsdfGraph

__all__ = ["read_graph_file"]


def read_graph_file(path: str, options: list[str]) -> CsdfGraph:
    """The CSDF graph in a .json or .xml file; `options` are those given that only a model takes."""
    if options:
        raise InputError(f"is a graph; {options[0]} is for models", where=path)
    if path.lower().endswith(".json"):
        from csdfgen.graph_json import read_graph

        return read_graph(path)
    from sdf3_bridge import sdf3xml

    return sdf3xml.read(path)
