"""Which numbers and graphs are written without a fault, but read wrongly by the tools?

SDF3 keeps rates and tokens in 32 bits and cuts larger ones without a word; a time of 2^32 - 1 or
more counts as deadlock; an actor without ports has no phase, so that its times do not fit; a
channel that never carries a token makes a graph inconsistent; firings of several phases that
overlap are counted wrongly; and SDF3's iteration, which may be many minimal ones, must fit its
counters (`iteration`). Each is said once, with both numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import GraphError, InconsistentError
from sdf3_bridge.iteration import beyond_counters, sdf3_iteration

__all__ = ["caveats", "warn_of_caveats"]

_LOG = logging.getLogger(__name__)

MAX_TOKENS = 2**32 - 1
"""Largest rate or number of tokens that SDF3 keeps."""

MAX_TIME = 2**32 - 2
"""Longest execution time that SDF3 does not take for a deadlock."""


def warn_of_caveats(graph: CsdfGraph) -> None:
    """Log what SDF3 or Kiter would read wrongly, a line for each kind."""
    for what in caveats(graph):
        _LOG.warning("%s", what)


def caveats(graph: CsdfGraph) -> list[str]:
    """What SDF3 or Kiter would read wrongly in a valid graph, a sentence for each kind."""
    connected = {name for channel in graph.channels for name in (channel.source, channel.target)}
    serial = {channel.source for channel in graph.channels if channel.is_serial}
    kinds = (
        (
            _large_tokens(graph),
            f"SDF3 keeps 32 bits, at most {MAX_TOKENS}, and cuts more without a word",
        ),
        (_large_times(graph), f"SDF3 takes more than {MAX_TIME} for a deadlock"),
        (
            [
                f"channel '{channel.name}' never carries a token"
                for channel in graph.channels
                if not any(channel.production)
            ],
            "SDF3 calls a graph with such a channel inconsistent",
        ),
        (
            [
                f"actor '{actor.name}' is on no channel"
                for actor in graph.actors
                if actor.name not in connected
            ],
            "SDF3 and Kiter refuse such an actor; give it a serial self-loop",
        ),
        (
            [
                f"actor '{actor.name}' has {actor.phases} phases and no serial self-loop"
                for actor in graph.actors
                if actor.phases > 1 and actor.name in connected - serial
            ],
            "SDF3 counts overlapping firings of several phases wrongly",
        ),
    )
    said = [_first(list(found), reason) for found, reason in kinds if found]
    return said if kinds[0][0] else said + _uncounted(graph)


def _uncounted(graph: CsdfGraph) -> list[str]:
    """What SDF3 cannot count in an iteration, or that there is none."""
    try:
        found = beyond_counters(graph, sdf3_iteration(graph))
    except InconsistentError as error:
        return [f"{error}; SDF3 does not end on an inconsistent graph"]
    except GraphError as error:  # numbers so long that they are not even computed here
        return [f"{error}; SDF3 counts in 32 bits"]
    return (
        [f"graph '{graph.name}': SDF3 would count it wrongly, csdfgen does not: {found}"]
        if found
        else []
    )


def _first(found: list[str], reason: str) -> str:
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{found[0]}{more}; {reason}"


def _large_tokens(graph: CsdfGraph) -> list[str]:
    return [f"{what} is {value}" for what, value in _token_counts(graph) if value > MAX_TOKENS]


def _token_counts(graph: CsdfGraph) -> Iterator[tuple[str, int]]:
    for channel in graph.channels:
        yield f"a rate of channel '{channel.name}'", max(*channel.production, *channel.consumption)
        yield f"the number of initial tokens of channel '{channel.name}'", channel.initial_tokens


def _large_times(graph: CsdfGraph) -> list[str]:
    times = ((actor.name, max(actor.execution_times)) for actor in graph.actors)
    return [f"a time of actor '{name}' is {time}" for name, time in times if time > MAX_TIME]
