"""What does SDF3 call an iteration of a cyclo-static graph, and does it fit its counters?

SDF3's repetition vector is R = L * v: L is the least common multiple of the lengths of all rate
lists, v the smallest whole numbers in proportion to the firings. So R is k times the minimal
vector, with k = L / gcd(minimal firings), and what SDF3 prints is 1/k of the throughput per minimal
iteration. The firings of an iteration are counted in 16 bits, R and what goes
into it in 32: beyond that SDF3 prints wrong numbers without a word, or does not end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd, lcm, log10

from csdfgen.dataflow.graph import CsdfGraph, repetition_vector
from csdfgen.errors import GraphError

__all__ = ["Iteration", "beyond_counters", "check_limits", "check_times", "sdf3_iteration"]

MAX_FIRINGS = 2**16
"""Below it the smallest entry of R must be."""

MAX_COUNT = 2**31
"""Below it every number must be that SDF3 keeps in 32 bits."""

_LONG = 10**15
"""From here on the digits of a number tell a reader nothing."""

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


def beyond_counters(graph: CsdfGraph, iteration: Iteration) -> str:
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
    found = beyond_counters(graph, iteration)
    if found:
        raise GraphError(f"{found}{_way_out(graph, iteration)}", where=_name(graph))


def check_times(graph: CsdfGraph) -> None:
    """Refuse a graph with times that SDF3 takes for a deadlock. Raises GraphError."""
    for actor in graph.actors:
        longest = max(actor.execution_times)
        if longest >= MAX_TIME:
            way_out = "a coarser unit of time would help, or --engine native"
            message = f"has an execution time of {longest}; SDF3 computes right below {MAX_TIME}; {way_out}"
            raise GraphError(message, where=f"{_name(graph)}: actor '{actor.name}'")


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


def _name(graph: CsdfGraph) -> str:
    return f"graph '{graph.name}'"
