"""Why is a recorded value not ours? Every difference with the fault that explains it, held to what
the fault needs in a graph.

Sections are those of the README of the data, which names each fault with the graph that shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, inf
from types import MappingProxyType

from csdfgen.dataflow.graph import Actor, Channel, add_serial_loops
from schedules.order import strongly_connected_components
from schedules.storage import size_storage
from schedules.throughput import throughput
from sdf3_bridge.iteration import sdf3_iteration
from tests.conformance.comparison import Compared, capacities_of, front, value
from tests.conformance.executed import Execution, execute, time_of
from tests.conformance.recorded import graph_of, rows

__all__ = ["DIFFERENCES", "NO_ANSWER", "REASONS", "Reason", "path_of", "proof"]


@dataclass(frozen=True, slots=True)
class Reason:
    """A fault of a tool. section: where it is described; applies: whether a graph (by its path) has
    what it needs.
    """

    text: str
    section: str
    applies: Callable[[str], bool]


def _overlapping(path: str) -> Iterator[Actor]:
    """Actors of several phases that nothing keeps from overlapping with themselves."""
    graph = graph_of(path)
    serial = {channel.source for channel in graph.channels if channel.is_serial}
    return (actor for actor in graph.actors if actor.phases > 1 and actor.name not in serial)


def _own_loops(path: str) -> Iterator[Channel]:
    """Self-loops that are more than serial."""
    return (
        channel
        for channel in graph_of(path).channels
        if channel.source == channel.target and not channel.is_serial
    )


def _sdf3_bound(channel: Channel) -> int:
    """What SDF3 and Kiter take for the least capacity of a channel between two actors."""
    pairs = gcd(len(channel.production), len(channel.consumption))
    tokens = channel.initial_tokens
    found = []
    for produced, consumed in list(zip(channel.production, channel.consumption, strict=False))[
        :pairs
    ]:
        step = gcd(produced, consumed)
        found.append(max(produced + consumed - step + (tokens % step if step else 0), tokens))
    return min(found)


def _below_bound(path: str) -> bool:
    """Whether a capacity of ours is below what SDF3 takes for the least."""
    bounds = {c.name: _sdf3_bound(c) for c in graph_of(path).channels if c.source != c.target}
    return any(
        point.capacities[name] < bound for point in front(path) for name, bound in bounds.items()
    )


def _serial(path: str) -> bool:
    graph = graph_of(path)
    return {channel.source for channel in graph.channels if channel.is_serial} >= {
        actor.name for actor in graph.actors
    }


REASONS = MappingProxyType(
    {
        "overtaking": Reason(
            "SDF3 tracks only the oldest firing of an actor; the remaining time of a shorter later one wraps below zero",
            "5.5",
            lambda path: any(len(set(actor.execution_times)) > 1 for actor in _overlapping(path)),
        ),
        "phase index": Reason(
            "SDF3 computes the phase of overlapping firings modulo 2^64, which is wrong unless the number of "
            "phases is a power of two",
            "5.5",
            lambda path: any(actor.phases & (actor.phases - 1) for actor in _overlapping(path)),
        ),
        "largest number": Reason(
            "the throughput is unlimited; SDF3 prints its largest integer instead of infinity",
            "5.7",
            lambda path: value(path) == inf,
        ),
        "long time": Reason(
            "SDF3 reports execution times of 2^32 - 1 and more as a deadlock",
            "5.6",
            lambda path: any(
                max(actor.execution_times) >= 2**32 - 1 for actor in graph_of(path).actors
            ),
        ),
        "16 bits": Reason(
            "SDF3 counts the firings of an iteration in 16 bits",
            "5.3",
            lambda path: min(sdf3_iteration(graph_of(path)).firings.values()) >= 2**16,
        ),
        "32 bits": Reason(
            "SDF3's repetition vector and the factor that scales its throughput have 32 bits",
            "5.3",
            lambda path: max(sdf3_iteration(graph_of(path)).firings.values()) >= 2**32,
        ),
        "self-loop": Reason(
            "SDF3's buffersize never enlarges a self-loop beyond its bound, which is too small for rates that differ by phase",
            "5.10",
            lambda path: any(len(set(channel.production)) > 1 for channel in _own_loops(path)),
        ),
        "bound": Reason(
            "the search starts at capacities that are not a lower bound for cyclo-static rates; smaller ones suffice",
            "5.10",
            _below_bound,
        ),
        "search": Reason(
            "SDF3 enlarges one channel at a time along storage dependencies and misses a smaller distribution",
            "5.10",
            lambda path: not _below_bound(path),
        ),
        "overlapping firings": Reason(
            "Kiter's K-periodic throughput can be too high where actors overlap with themselves",
            "6",
            lambda path: not _serial(path),
        ),
        "unfilled self-loop": Reason(
            "Kiter's SymbExec prints 0 where a self-loop without tokens is filled by early phases for later ones",
            "6",
            lambda path: any(not channel.initial_tokens for channel in _own_loops(path)),
        ),
    }
)

_OVERLAP_GRAPHS = (
    "c01_conv1_r8", "c01_conv1_r8_open", "c02_conv2_r8", "c02_conv2_r8_open", "c03_conv_pool_r8", "c03_conv_pool_r8_open",
    "c04_conv_pool_conv_r16", "c05_lenet_r16", "c06_vgg5_r16", "c07_vgg8_r32", "c08_stride_r32", "c09_valid_r10", "c10_elem_r8",
    "c11_elem_r16", "c12_dw_pw_r16", "c13_vgg10_r28", "c14_chain20_r16", "c15_mobile_r56", "c16_conv2_r224", "c20_resnet1_r8",
    "c21_resnet2_r16", "c22_resnet4_r32", "c23_incep1_r8", "c24_incep2_r16", "c25_dense3_r8", "c26_dense5_r16", "t37_overlap",
    "t56_overlap_capped", "t57_selfloop_phase", "t58_selfloop_phase_ser", "t76_negative",
)  # fmt: skip

_THROUGHPUT, _TRADE_OFF, _POINTS = (
    "SDF3: throughput",
    "SDF3: trade-off (buffersize)",
    "SDF3: throughput of its distributions",
)
_KITER = (
    "Kiter: K-periodic throughput",
    "Kiter: K-periodic period",
    "Kiter: trade-off",
    "Kiter: throughput of its distributions",
)

NO_ANSWER = MappingProxyType(
    {("t59_autoconc_hang", _THROUGHPUT): "phase index", ("t67_r16_hang", _THROUGHPUT): "16 bits"}
)
"""(graph, question) -> why SDF3 did not end with a throughput."""

DIFFERENCES: MappingProxyType[tuple[str, str], str] = MappingProxyType(
    {
        ("t07_fifo_overtake", _THROUGHPUT): "overtaking",
        ("t08_fifo_overtake_rev", _THROUGHPUT): "overtaking",
        ("t57_selfloop_phase", _THROUGHPUT): "overtaking",
        **{
            ("t60_autoconc_high", question): "phase index"
            for question in (_THROUGHPUT, _TRADE_OFF, _POINTS)
        },
        **{("t61_autoconc_low", question): "phase index" for question in (_THROUGHPUT, _TRADE_OFF)},
        ("t14_open_nolooops", _THROUGHPUT): "largest number",
        ("t62_open_nolooops_ph2", _THROUGHPUT): "largest number",
        **{("t26_big_time_over", question): "long time" for question in (_THROUGHPUT, _TRADE_OFF)},
        **{
            ("t65_r16_over", question): "16 bits" for question in (_THROUGHPUT, _TRADE_OFF, _POINTS)
        },
        ("t66_r16_over2", _THROUGHPUT): "16 bits",
        ("t76_negative", "SDF3: repetition vector"): "32 bits",
        ("t76_negative", _THROUGHPUT): "32 bits",
        **{
            (name, _TRADE_OFF): "self-loop"
            for name in (
                "c01_conv1_r8_open",
                "c02_conv2_r8_open",
                "c03_conv_pool_r8_open",
                "t37_overlap",
                "t76_negative",
            )
        },
        **{
            (name, question): "bound"
            for name in ("t49_lb_too_big", "t53_lb_cap6", "t53_lb_cap7", "t53_lb_cap8")
            for question in (_TRADE_OFF, "Kiter: trade-off")
        },
        ("t73_bs_not_minimal", _TRADE_OFF): "search",
        **{
            (name, question): "overlapping firings"
            for name in ("t71_kiter_inf", "t72_kiter_high")
            for question in _KITER
        },
        **{(name, "Kiter: symbolic execution"): "unfilled self-loop" for name in _OVERLAP_GRAPHS},
    }
)
"""(graph, question) -> why the recorded value is not ours."""


def path_of(name: str) -> str:
    """The graph's file in the collection."""
    return next(row.graph for row in rows() if row.name == name)


def proof(found: Compared) -> str:
    """Execute our answer token by token; what came out, in words. AssertionError if it is not what
    we say.
    """
    path = path_of(found.graph)
    graph = graph_of(path)
    if "trade-off" in found.question or "distributions" in found.question:
        return _distributions(path, found.question.partition(":")[0])
    if "repetition" in found.question:
        return "balance equations, in whole numbers"
    if value(path) == inf:
        assert time_of(graph, 1) == time_of(graph, 100)
        return f"100 iterations take {time_of(graph, 100)} time units, as long as one"
    if "symbolic" in found.question:
        graph = add_serial_loops(graph)
    expected = throughput(graph).value
    if len(set(strongly_connected_components(graph))) == 1:
        done = execute(graph)
        assert done is not None and done.throughput == expected
        return f"{_rate(done)}, as soon as possible"
    # what nothing feeds back would run ahead for ever; within these capacities it keeps the pace
    room = size_storage(graph, "maximal")
    done = execute(graph, room.capacities)
    assert done is not None and done.throughput == room.throughput == expected
    return f"{_rate(done)}, within {room.size} tokens"


def _rate(done: Execution) -> str:
    made = "1 iteration" if done.iterations == 1 else f"{done.iterations} iterations"
    return f"{made} every {done.period:,}"


def _distributions(path: str, tool: str) -> str:
    """Execute every point of our front, and what the tool lists: it has the throughput that we say,
    and no point beats ours.
    """
    graph, ours = graph_of(path), front(path)
    for point in ours:
        done = execute(graph, point.capacities)
        assert done is not None and done.throughput == point.throughput
    listed = [
        row
        for row in rows()
        if row.graph == path and row.metric == "pareto_distribution" and "size=0;" not in row.value
    ]
    theirs = [row for row in listed if (row.tool == "kiter") == (tool == "Kiter")]
    for row in theirs:
        capacities = capacities_of(row)
        done = execute(graph, capacities)
        rate = Fraction(0) if done is None else done.throughput
        assert rate == throughput(graph, capacities).value
        size = sum(capacities[name] for name in ours[0].capacities)
        assert any(point.size <= size and point.throughput >= rate for point in ours) or not rate
    least = f"{ours[0].throughput} in {ours[0].size} tokens"
    return f"{least}; {len(ours)} distributions of csdfgen, {len(theirs)} of the tool"
