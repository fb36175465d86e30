"""Which graph is written of a network? That of its conversion, and how it was made."""

from __future__ import annotations

from dataclasses import replace

from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import InputError, option
from csdfgen.model.options import PlanOptions
from csdfgen.phases.algorithm1 import algorithm1
from csdfgen.phases.conversion import Conversion, csdf_graph
from csdfgen.phases.provenance import origin_of

__all__ = ["graph_of"]


def graph_of(
    conversion: Conversion,
    options: PlanOptions,
    *,
    tokens: str = "elements",
    rates: str = "exact",
    overlap: bool = True,
) -> CsdfGraph:
    """The CSDF graph of a conversion, which knows how it was made (`graph.origin`), without serial
    self-loops.

    options: those with which the network was converted. tokens: "elements" or "rows". rates:
    "exact" by the row rule, or "paper" by Algorithm 1. overlap: with self-loops for the rows that a
    reader keeps. Raises InputError.
    """
    if rates not in ("exact", "paper"):
        raise InputError(f"{option('rates', rates)}: neither 'exact' nor 'paper'")
    if rates == "paper":
        graph = algorithm1(conversion, tokens=tokens)
        if not overlap:
            kept = tuple(channel for channel in graph.channels if channel.kind != "overlap")
            graph = replace(graph, channels=kept)
    else:
        graph = csdf_graph(conversion, tokens=tokens, overlap=overlap)
    return replace(graph, origin=origin_of(conversion, options, tokens, rates))
