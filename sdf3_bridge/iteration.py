"""What is an iteration of a cyclo-static graph for SDF3, does it fit its counters, and what else would SDF3 or Kiter read
wrongly?

SDF3's repetition vector is R = L * v: L is the least common multiple of the lengths of all rate lists, v the smallest whole
numbers in proportion to the firings. So R is k times the minimal vector, with k = L / gcd(minimal firings), and SDF3 prints
1/k of the throughput per minimal iteration. It counts the firings of an iteration in 16 bits, R and what goes into it in
32: beyond that it prints wrong numbers silently, or does not end.

It also keeps rates and tokens in 32 bits and truncates larger ones silently; it takes a time of 2^32 - 1 or more for a
deadlock; an actor without ports has no phase, so that its times do not fit; a channel that never carries a token makes a
graph inconsistent; and overlapping firings of several phases are counted wrongly.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd, lcm, log10

from csdfgen.dataflow.graph import CsdfGraph, repetition_vector
from csdfgen.errors import GraphError, InconsistentError
from sdf3_bridge.names import describe_name

_LOG = logging.getLogger(__name__)

MAX_FIRINGS = 2**16
"""Below it the smallest entry of R must be."""

MAX_COUNT = 2**31
"""Below it every number must be that SDF3 keeps in 32 bits."""

_LONG = 10**15
"""From here on the digits of a number tell a reader nothing."""

MAX_TOKENS = 2**32 - 1
"""Largest rate or number of tokens that SDF3 keeps."""

MAX_TIME = 2**32 - 1
"""Below it an execution time must be; this long is the same as a deadlock."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """An iteration of SDF3: `factor` (k) minimal ones; firings: R, actor -> firings; length: L."""

    factor: int
    firings: Mapping[str, int]
    length: int


def sdf3_iteration(graph: CsdfGraph) -> Iteration:
    """The iteration of a valid graph whose parts are all connected. Raises InconsistentError.

    >>> from csdfgen.dataflow.graph import Actor, Channel
    >>> a, b = Actor("A", (1, 1)), Actor("B", (1, 1, 1))
    >>> sdf3_iteration(CsdfGraph("g", (a, b), (Channel("ab", "A", "B", (1, 1), (1, 1, 0)),)))
    Iteration(factor=6, firings={'A': 12, 'B': 18}, length=6)
    """
    minimal = repetition_vector(graph)
    length = lcm(*graph.phases.values())
    factor = length // gcd(*minimal.values())
    return Iteration(factor, {actor: factor * count for actor, count in minimal.items()}, length)


def describe_overflow(graph: CsdfGraph, iteration: Iteration) -> str:
    """What SDF3 cannot count of a graph's iteration, with both numbers; empty if it can."""
    actor, least = min(iteration.firings.items(), key=lambda item: item[1])
    if least >= MAX_FIRINGS:
        counts = (
            f"every actor fires {_readable(least)} times or more in an iteration ('{actor}' the fewest), "
            f"and SDF3's counters hold only if one fires fewer than {_readable(MAX_FIRINGS)} times"
        )
        if iteration.factor == 1:
            return counts
        return f"SDF3 takes {_readable(iteration.factor)} iterations of the graph for one, so that {counts}"
    for what, value in _counted(graph, iteration):
        if value >= MAX_COUNT:
            return f"{what} is {_readable(value)}; SDF3 counts right below {_readable(MAX_COUNT)}"
    return ""


def _readable(number: int) -> str:
    """A positive number as people read it: in groups of three, or its size.

    >>> _readable(870501150), _readable(7**99)
    ('870,501,150', 'about 10^83')
    """
    return f"{number:,}" if number < _LONG else f"about 10^{int(log10(number))}"


def check_limits(graph: CsdfGraph, iteration: Iteration) -> None:
    """Refuse a graph whose iteration SDF3 cannot count. Raises GraphError: what, both numbers, what
    would help.
    """
    found = describe_overflow(graph, iteration)
    if found:
        raise GraphError(f"{found}{_way_out(graph, iteration)}", where=describe_name(graph))


def check_times(graph: CsdfGraph) -> None:
    """Refuse a graph with times that SDF3 takes for a deadlock. Raises GraphError."""
    for actor in graph.actors:
        longest = max(actor.execution_times)
        if longest >= MAX_TIME:
            way_out = "a coarser unit of time would help, or --engine native"
            message = f"has an execution time of {longest}; SDF3 computes right below {MAX_TIME}; {way_out}"
            raise GraphError(message, where=f"{describe_name(graph)}: actor '{actor.name}'")


def _counted(graph: CsdfGraph, iteration: Iteration) -> Iterator[tuple[str, int]]:
    """Everything that SDF3 keeps in 32 bits, with its name."""
    yield "the least common multiple of the phase counts", iteration.length
    for actor, count in iteration.firings.items():
        yield f"the number of firings of actor '{actor}' in an iteration of SDF3", count
    for channel in graph.channels:
        yield f"the number of initial tokens of channel '{channel.name}'", channel.initial_tokens
        for rates, end in (
            (channel.production, "produced on"),
            (channel.consumption, "consumed from"),
        ):
            total = sum(rates) * (iteration.length // len(rates))
            yield (
                f"the number of tokens {end} channel '{channel.name}' in {_readable(iteration.length)} firings",
                total,
            )


def _way_out(graph: CsdfGraph, iteration: Iteration) -> str:
    """What would help."""
    phases = {actor.phases for actor in graph.actors}
    parts = []
    if len(phases) > 1:
        rounds = min(
            count // graph.phases[actor] for actor, count in repetition_vector(graph).items()
        )
        most = max(phases)
        count = most * rounds
        listed = ", ".join(map(str, sorted(phases)[:6])) + (", ..." if len(phases) > 6 else "")
        parts.append(
            f"equal phase counts (they are {listed}): lists padded to {most:,} entries with rates and times "
            f"of 0 make it {_readable(count)}"
        )
    if any(gcd(*channel.production, *channel.consumption) > 1 for channel in graph.channels):
        parts.append("rows as tokens, or rates divided by their gcd")
    return f". What would help: {'; '.join([*parts, '--engine native, which has no such limit'])}"


# What is written without a fault, but read wrongly ---------------------------------------------


def warn_of_caveats(graph: CsdfGraph) -> None:
    """Log what SDF3 or Kiter would read wrongly, a line for each kind."""
    for what in caveats(graph):
        _LOG.warning("%s", what)


def caveats(graph: CsdfGraph) -> list[str]:
    """What SDF3 or Kiter would read wrongly in a valid graph, a sentence for each kind."""
    connected = {name for channel in graph.channels for name in (channel.source, channel.target)}
    serial = {channel.source for channel in graph.channels if channel.is_serial}
    kinds = (
        ([f"{what} is {value}" for what, value in _token_counts(graph) if value > MAX_TOKENS],
         f"SDF3 keeps 32 bits, at most {MAX_TOKENS}, and cuts more without a word"),
        (_large_times(graph), f"SDF3 takes more than {MAX_TIME - 1} for a deadlock"),
        ([f"channel '{one.name}' never carries a token" for one in graph.channels if not any(one.production)],
         "SDF3 calls a graph with such a channel inconsistent"),
        ([f"actor '{one.name}' is on no channel" for one in graph.actors if one.name not in connected],
         "SDF3 and Kiter refuse such an actor; give it a serial self-loop"),
        ([f"actor '{one.name}' has {one.phases} phases and no serial self-loop" for one in graph.actors
          if one.phases > 1 and one.name in connected - serial],
         "SDF3 counts overlapping firings of several phases wrongly"),
    )  # fmt: skip
    said = [_first(list(found), reason) for found, reason in kinds if found]
    return said if kinds[0][0] else said + _uncounted(graph)


def _uncounted(graph: CsdfGraph) -> list[str]:
    """What SDF3 cannot count in an iteration, or that there is none."""
    try:
        found = describe_overflow(graph, sdf3_iteration(graph))
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


def _token_counts(graph: CsdfGraph) -> Iterator[tuple[str, int]]:
    for channel in graph.channels:
        yield f"a rate of channel '{channel.name}'", max(*channel.production, *channel.consumption)
        yield f"the number of initial tokens of channel '{channel.name}'", channel.initial_tokens


def _large_times(graph: CsdfGraph) -> list[str]:
    times = ((actor.name, max(actor.execution_times)) for actor in graph.actors)
    return [f"a time of actor '{name}' is {time}" for name, time in times if time >= MAX_TIME]
