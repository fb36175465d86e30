"""Does Algorithm 1 give the sequences that Figure 1 of paper 002 prints?"""

from __future__ import annotations

from dataclasses import dataclass

from csdfgen.dataflow.graph import CsdfGraph, format_runs
from csdfgen.paper.printed import FIGURE_1, PrintedRates
from csdfgen.phases.algorithm1 import algorithm1
from csdfgen.phases.conversion import convert
from csdfgen.reading.loader import load
from csdfgen.rewriting.fuse import fuse


@dataclass(frozen=True, slots=True)
class RatesCheck:
    """A printed rate sequence and ours, in the paper's short form; ours is empty where there is no
    such channel.
    """

    printed: PrintedRates
    ours: str

    @property
    def match(self) -> bool:
        return self.ours == self.printed.rates


def figure1_graph() -> CsdfGraph:
    """The five-layer network by Algorithm 1, in elements. The crop before n3 is part of n3, as in
    the paper.
    """
    return algorithm1(convert(fuse(load("zoo:cnn5"), "full"), 1))


def check_figure1(graph: CsdfGraph) -> tuple[RatesCheck, ...]:
    """Every sequence of the figure that the text prints, with the graph's."""
    found = {(c.source, c.target): c for c in graph.channels}
    checks = []
    for printed in FIGURE_1:
        channel = found.get((printed.source, printed.target))
        rates = (
            ()
            if channel is None
            else channel.production
            if printed.side == "production"
            else channel.consumption
        )
        checks.append(RatesCheck(printed, format_runs(rates)))
    return tuple(checks)
