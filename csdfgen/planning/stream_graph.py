"""Which CSDF graph has one period of an order as its iteration, and how long does a stream wait? Answers from the phases in
the middle of an image.

Phases are counted from the start of a period, and the initial tokens of a channel are the rows that are there then: written
in periods before and not yet taken. Analyses of SDF3 and of `schedules` are then about the steady state of a stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING

from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph
from csdfgen.model.naming import number_unused_name
from csdfgen.phases.conversion import ActorWork, describe_function, token_unit

if TYPE_CHECKING:
    from csdfgen.planning.streams import StreamPlan

_LOAD = Fraction(9, 10)
"""Part of the time in which a stream that keeps up computes."""

_PERIODS = 20
"""Periods after which a queue at that load has been as long as it gets."""


class _Middle:
    """A period in the middle of an image. actor: the work. at: its first phase there, so many periods behind the first."""

    def __init__(self, work: ActorWork, before: int, share: int) -> None:
        turns = len(work.phases) // share // 2 - 1
        self.work, self.share = work, share
        self.at = before % share + turns * share
        self.periods = turns - before // share

    def counts(self, running: Sequence[int]) -> tuple[int, ...]:
        """The running counts in front of the period at 0 and after each of its phases, over all integers."""
        found = (0, *running)[self.at : self.at + self.share + 1]
        return tuple(count - self.periods * (found[-1] - found[0]) for count in found)

    def period(self, values: Sequence[int]) -> tuple[int, ...]:
        """The values of its phases."""
        return tuple(values[self.at : self.at + self.share])


def _find_middle(stream: StreamPlan) -> Mapping[str, _Middle]:
    """By name the actors that repeat."""
    shares, before = Counter(stream.loop.word), stream.loop.before
    return {
        work.name: _Middle(work, before[work.name], shares[work.name])
        for work in stream.conversion.actors
        if work.name in shares
    }


def build_period_graph(
    stream: StreamPlan, *, tokens: str = "elements", overlap: bool = True
) -> CsdfGraph:
    """The graph of a period, with initial tokens. tokens, overlap: see `phases.conversion.csdf_graph`."""
    middle = _find_middle(stream)
    writer = {w.tensor.name: (m, w) for m in middle.values() for w in m.work.writes}
    names: set[str] = set()
    channels = []
    for target in middle.values():
        for read in target.work.reads:
            if read.tensor.name not in writer:
                continue  # it is there from the start
            source, write = writer[read.tensor.name]
            unit, size = token_unit(read.tensor, tokens)
            name = number_unused_name(f"{read.tensor.name}->{target.work.name}", names)
            given, needed = source.counts(write.complete), target.counts(read.need)
            ends = source.work.name, target.work.name
            made, taken = (
                tuple(unit * (after - ahead) for ahead, after in pairwise(one))
                for one in (given, needed)
            )
            there = unit * (given[0] - needed[0])
            channels.append(Channel(name, *ends, made, taken, there, size, "data"))
            gone = target.counts(read.release)
            kept = tuple(unit * (n - m) for n, m in zip(needed, gone, strict=True))
            if overlap and any(kept):
                name = number_unused_name(f"overlap:{name}", names)
                loop = name, ends[1], ends[1], kept[1:], kept[:-1], kept[0]
                channels.append(Channel(*loop, size, "overlap"))
    actors = (
        Actor(name, one.period(one.work.times), describe_function(one.work))
        for name, one in middle.items()
    )
    return CsdfGraph(stream.network.name, tuple(actors), tuple(channels))


def measure_waits(stream: StreamPlan) -> dict[str, int | float]:
    """latency: rows of the first input that are fed from one on until the rows of outputs at its place are complete. burst: most
    work that a row of it causes, in that of a row on average. queue: rows that wait at most where they arrive evenly and
    computing takes 0.9 of the time.
    """
    middle, outputs = _find_middle(stream), stream.network.output_tensors
    feed = next(iter(middle.values()))
    (given,) = (write.complete for write in feed.work.writes[:1])
    fed = feed.counts(given)
    fired, work, latency = Counter[str](), [0] * feed.share, Fraction(0)
    for name in stream.loop.word:
        one, k = middle[name], fired[name]
        fired[name] += 1
        slab = fired[feed.work.name]
        work[slab - 1] += one.work.times[one.at + k]
        for write in one.work.writes:
            if write.tensor.name in outputs:
                done = one.counts(write.complete)
                behind = Fraction(done[k] * stream.period, done[-1] - done[0] or 1)
                latency = max(latency, fed[slab] - behind)
    rows = [after - ahead for ahead, after in pairwise(fed)]
    each = [n for height, n in zip(rows, work, strict=True) for n in (*(0,) * (height - 1), n)]
    mean = Fraction(sum(each), len(each))
    burst = round(float(max(each) / mean), 1) if mean else 1.0
    return {"latency": ceil(latency), "burst": burst, "queue": _queue(each * _PERIODS, mean)}


def _queue(work: Sequence[int], mean: Fraction) -> int:
    """Rows that have arrived and wait, at most."""
    every, free, longest = float(mean / _LOAD), 0.0, 1
    for row, takes in enumerate(work):
        starts = max(free, row * every)
        if every:
            longest = max(longest, int(starts / every) - row + 1)
        free = starts + takes
    return longest
