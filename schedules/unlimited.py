"""Why does nothing limit the throughput of a graph, and what would?"""

from __future__ import annotations

from csdfgen.dataflow.graph import CsdfGraph

__all__ = ["why_unlimited"]


def why_unlimited(graph: CsdfGraph) -> tuple[str, str]:
    """The reason why no cycle of a graph takes time, and the way out, as parts of a sentence.

    An actor that takes time and has a serial self-loop is such a cycle, so that actors which take
    time have none.

    >>> from csdfgen.dataflow.graph import Actor
    >>> why_unlimited(CsdfGraph("g", (Actor("A", (0, 0)),), ()))
    ('no actor takes any time', 'give its actors execution times')
    >>> why_unlimited(CsdfGraph("g", (Actor("A", (0, 2)),), ()))
    ('no cycle of actors takes time', 'give its actors serial self-loops')
    """
    if not any(any(actor.execution_times) for actor in graph.actors):
        return "no actor takes any time", "give its actors execution times"
    return "no cycle of actors takes time", "give its actors serial self-loops"
