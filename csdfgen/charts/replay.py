"""What does every channel hold while a timeline is executed? Followed token by token, which also
proves that it can be executed.

A firing takes its tokens and claims its output space when it starts; it produces and frees when it
ends; what ends at t is there for starts at t (docs/model.md). Firings of an actor that overlap
deliver in the order of their starts. Shares no code with what computes start times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count, groupby
from operator import itemgetter

from csdfgen.charts.timeline import Time, Timeline
from csdfgen.dataflow.graph import Channel
from csdfgen.errors import CapacityExceededError, ScheduleError


@dataclass(frozen=True, slots=True)
class Replay:
    """What the channels hold, space claimed for what is being produced included.

    From times[i] on channel number channels[i] holds levels[i] tokens, in the order of what
    happens; several entries at one time are what was held one after the other at that instant.
    initial: tokens of every channel at the beginning.
    """

    initial: tuple[int, ...]
    times: tuple[Time, ...]
    channels: tuple[int, ...]
    levels: tuple[int, ...]

    def peaks(self) -> tuple[int, ...]:
        """Most tokens of every channel."""
        found = list(self.initial)
        for channel, level in zip(self.channels, self.levels, strict=True):
            found[channel] = max(found[channel], level)
        return tuple(found)


_Event = tuple[Time, int, int, int, bool]
"""Time, a number that keeps events of one time in order, channel, tokens, whether they are freed
(else produced).
"""


class _Channels:
    """Tokens and claimed space of every channel, and tokens that are being produced."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        channels = timeline.graph.channels
        self.tokens = [channel.initial_tokens for channel in channels]
        self.held = list(self.tokens)
        self.capacities = [timeline.capacities.get(channel.name) for channel in channels]
        self.times: list[Time] = []
        self.changed: list[int] = []
        self.levels: list[int] = []
        self.arrived: dict[tuple[int, bool], Time] = {}
        self.events: list[_Event] = []
        self.number = count()
        index = {actor.name: number for number, actor in enumerate(timeline.graph.actors)}
        self.inputs: list[list[tuple[int, Channel]]] = [[] for _ in index]
        self.outputs: list[list[tuple[int, Channel]]] = [[] for _ in index]
        for place, channel in enumerate(channels):
            self.outputs[index[channel.source]].append((place, channel))
            self.inputs[index[channel.target]].append((place, channel))

    def lack(self, actor: int, phase: int) -> ScheduleError | None:
        """Why the phase cannot start now."""
        for place, channel in self.inputs[actor]:
            there, needed = self.tokens[place], channel.consumption[phase]
            if there < needed:
                return ScheduleError(
                    f"channel '{channel.name}' holds {there} of the {needed} tokens it takes"
                )
        for place, channel in self.outputs[actor]:
            claimed, limit = self.held[place] + channel.production[phase], self.capacities[place]
            if limit is not None and claimed > limit:
                return CapacityExceededError(
                    f"channel '{channel.name}' would hold {claimed} tokens; its capacity is {limit}"
                )
        return None

    def start(self, actor: int, phase: int, now: Time) -> None:
        end = now + self.timeline.durations(actor)[phase]
        for place, channel in self.inputs[actor]:
            if channel.consumption[phase]:
                self.tokens[place] -= channel.consumption[phase]
                self._under_way(place, channel.consumption[phase], end, True)
        for place, channel in self.outputs[actor]:
            if channel.production[phase]:
                self._hold(place, channel.production[phase], now)
                self._under_way(place, channel.production[phase], end, False)

    def _under_way(self, place: int, tokens: int, end: Time, freed: bool) -> None:
        due = self.arrived[place, freed] = max(self.arrived.get((place, freed), end), end)
        heappush(self.events, (due, next(self.number), place, tokens, freed))

    def _hold(self, place: int, change: int, now: Time) -> None:
        self.held[place] += change
        self.times.append(now)
        self.changed.append(place)
        self.levels.append(self.held[place])

    def settle(self, now: Time) -> None:
        """Let everything arrive that is due."""
        while self.events and self.events[0][0] <= now:
            due, _, place, tokens, freed = heappop(self.events)
            if freed:
                self._hold(place, -tokens, due)
            else:
                self.tokens[place] += tokens


def replay(timeline: Timeline) -> Replay:
    """Execute a timeline. Raises ScheduleError or CapacityExceededError for the first firing that
    could not start at its time: the firing, the channel, both counts."""
    channels = _Channels(timeline)
    for now, group in groupby(_in_order(timeline.starts), key=itemgetter(0)):
        _instant(timeline, channels, now, [(actor, firing) for _, actor, firing in group])
    channels.settle(timeline.end)
    initial = tuple(channel.initial_tokens for channel in timeline.graph.channels)
    return Replay(initial, tuple(channels.times), tuple(channels.changed), tuple(channels.levels))


def _in_order(starts: Sequence[Sequence[Time]]) -> Iterator[tuple[Time, int, int]]:
    """(start, actor, firing) by start; those of one actor as they follow each other."""
    heap = [(row[0], actor, 0) for actor, row in enumerate(starts) if row]
    heapify(heap)
    while heap:
        start, actor, firing = heappop(heap)
        yield start, actor, firing
        row = starts[actor]
        if firing + 1 < len(row):
            heappush(heap, (row[firing + 1], actor, firing + 1))


def _instant(
    timeline: Timeline, channels: _Channels, now: Time, waiting: list[tuple[int, int]]
) -> None:
    """Start all firings of one instant; one that takes no time may be what another waits for."""
    graph = timeline.graph
    while waiting:
        channels.settle(now)
        left = []
        blocked: set[int] = set()
        for actor, firing in waiting:
            phase = firing % graph.actors[actor].phases
            if actor in blocked or channels.lack(actor, phase) is not None:
                blocked.add(actor)
                left.append((actor, firing))
            else:
                channels.start(actor, phase, now)
                channels.settle(now)
        if len(left) == len(waiting):
            actor, firing = left[0]
            phase = firing % graph.actors[actor].phases
            fault = channels.lack(actor, phase)
            assert fault is not None
            where = f"firing {firing + 1} of '{graph.actors[actor].name}' (phase {phase + 1}) at time {now}"
            raise fault.at(where)
        waiting = left
