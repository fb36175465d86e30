"""A Gantt chart of firings: one row for each actor, one bar for each firing.

If there are too many firings to distinguish, neighbours are drawn as one bar, and the chart has a note about it. Its size is
bounded for any number of firings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from csdfgen.charts.svg import (
    DARK,
    GREY,
    INK,
    LIGHT,
    MARK,
    ROW_LABEL,
    TOP,
    WIDTH,
    Drawing,
    cut,
    format_count,
    label_interval,
    quantity,
    sentence,
    text_width,
)
from csdfgen.charts.timeline import Timeline
from csdfgen.dataflow.graph import repetition_vector

MAX_BARS = 20_000
"""Bars in one picture, about 12 bytes each."""

_LONGEST_NAME = 30
_MOST_LANES = 4
"""Firings of an actor at one time that are drawn next to each other."""

_TALLEST, _LOWEST, _HEIGHT = 20.0, 3.0, 1100.0
_NARROWEST = 0.8
_WIDE = 3.0
"""Bars from this width on are kept apart, in pixels, if not too many."""

_NUMBERED_FIRINGS = 400
_SHADED = 8.0
"""Pixels an iteration must have for iterations to be distinguished."""


@dataclass(frozen=True, slots=True)
class _Bar:
    """Firings drawn as one: from x to x in pixels, of odd iterations (or of either kind), the phase
    of a single one.
    """

    start: float
    stop: float
    odd: bool
    phase: int = -1


@dataclass(frozen=True, slots=True)
class _Row:
    """An actor's bars by lanes, and how many of its firings run at one time at most."""

    lanes: tuple[tuple[_Bar, ...], ...]
    overlap: int


def gantt_chart(timeline: Timeline, max_bars: int = MAX_BARS) -> bytes:
    """The chart as an SVG file, of not many more than `max_bars` bars. Raises InconsistentError."""
    drawing = Drawing()
    actors = timeline.graph.actors
    names = [cut(actor.name, _LONGEST_NAME) for actor in actors]
    height = min(_TALLEST, max(_LOWEST, _HEIGHT / max(1, len(actors))))
    left, right = (
        20 + max((text_width(name, ROW_LABEL) for name in names), default=0.0),
        WIDTH - 24.0,
    )
    bottom = TOP + height * len(actors)
    scale = (right - left) / float(timeline.end or 1)
    shaded = _iterations_apart(timeline, scale)
    rows, merged = _rows(timeline, left, scale, shaded, max_bars)
    title = f"{timeline.graph.name}: {timeline.title}"
    drawing.heading(title, _facts(timeline))
    _background(drawing, timeline, left, scale, bottom)
    drawing.time_axis(left, right, bottom, TOP, float(timeline.end), timeline.axis)
    every = label_interval(height)
    numbered = 0
    for place, (actor, name, row) in enumerate(zip(actors, names, rows, strict=True)):
        middle = TOP + height * (place + 0.5)
        if place % every == 0:
            color = INK if row.overlap else GREY
            drawing.text(left - 6, middle + 3.5, name, ROW_LABEL, "end", color=color)
            drawing.line(left - 3, middle, right, middle, "#eeeeee", 0.6)
        tip = f"{actor.name}: {len(timeline.starts[place])} firings"
        _draw_row(drawing, row, middle, height, tip)
        if timeline.firings <= _NUMBERED_FIRINGS and actor.phases > 1:
            numbered += _number_phases(drawing, row, middle, height)
    _period_lines(drawing, timeline, left, scale, bottom)
    drawing.notes(12, bottom + 48, _notes(timeline, merged, shaded, numbered > 0, every, rows))
    return drawing.to_bytes(title)


def _facts(timeline: Timeline) -> str:
    """One line below the title: what is shown."""
    parts = [
        f"{quantity(timeline.firings, 'firings')} of {quantity(len(timeline.graph.actors), 'actors')}"
    ]
    if timeline.periodic is not None:
        span = timeline.periodic
        rate = span.iterations / span.length
        made = "1 iteration" if span.iterations == 1 else f"{span.iterations} iterations"
        rest = (
            f"transient {format_count(span.start)}, period {format_count(span.length)} for {made}"
        )
        parts.append(f"{rest}: throughput {rate} iterations a time unit")
    return "; ".join(parts)


def _iterations_apart(timeline: Timeline, scale: float) -> bool:
    """Whether iterations are wide enough to be drawn in two shades."""
    quota = repetition_vector(timeline.graph)
    rows = zip(timeline.graph.actors, timeline.starts, strict=True)
    rounds = max((len(row) / quota[actor.name] for actor, row in rows), default=0)
    return rounds > 1 and float(timeline.end) * scale / rounds >= _SHADED


def _rows(
    timeline: Timeline, left: float, scale: float, shaded: bool, most: int
) -> tuple[list[_Row], float]:
    """The bars of all actors, `most` of them if they can be joined, and the largest pause that is
    not seen, in pixels.
    """
    quota = repetition_vector(timeline.graph)
    lanes = []
    for number, actor in enumerate(timeline.graph.actors):
        firings = _firings(timeline, number, left, scale, quota[actor.name] if shaded else 0)
        lanes.append(_lanes(firings))
    gap, apart = 0.4, _WIDE
    while True:
        rows = [
            _Row(
                tuple(tuple(_merged(lane, gap, apart)) for lane in found),
                overlap if any(found) else 0,
            )
            for found, overlap in lanes
        ]
        bars = sum(len(lane) for row in rows for lane in row.lanes)
        if bars <= most or gap > WIDTH:
            break
        gap, apart = gap * 2, apart * 2
    return rows, gap if bars < timeline.firings else 0.0


def _firings(timeline: Timeline, actor: int, left: float, scale: float, quota: int) -> list[_Bar]:
    durations = timeline.durations(actor)
    found = []
    for firing, start in enumerate(timeline.starts[actor]):
        phase = firing % len(durations)
        stop = min(start + durations[phase], timeline.end)
        odd = bool(quota and firing // quota % 2)
        found.append(_Bar(left + float(start) * scale, left + float(stop) * scale, odd, phase))
    return found


def _lanes(firings: Sequence[_Bar]) -> tuple[list[list[_Bar]], int]:
    """The firings such that those of a lane do not overlap, and the number of lanes; too many
    become one.
    """
    free: list[tuple[float, int]] = []
    found: list[list[_Bar]] = []
    for bar in firings:
        if free and free[0][0] <= bar.start:
            lane = heappop(free)[1]
        else:
            lane = len(found)
            found.append([])
        found[lane].append(bar)
        heappush(free, (bar.stop, lane))
    return (found, len(found)) if len(found) <= _MOST_LANES else ([list(firings)], len(found))


def _merged(bars: Sequence[_Bar], gap: float, apart: float) -> list[_Bar]:
    """Narrow bars joined with neighbours that are nearer than `gap` pixels."""
    found: list[_Bar] = []
    for bar in bars:
        stop = max(bar.stop, bar.start + _NARROWEST)
        last = found[-1] if found else None
        narrow = last is not None and min(last.stop - last.start, stop - bar.start) < apart
        if last is not None and narrow and last.odd == bar.odd and bar.start - last.stop < gap:
            found[-1] = _Bar(last.start, max(stop, last.stop), last.odd)
        else:
            found.append(_Bar(bar.start, stop, bar.odd, bar.phase))
    return found


def _background(
    drawing: Drawing, timeline: Timeline, left: float, scale: float, bottom: float
) -> None:
    """The first period, tinted, and what the parts are called."""
    span = timeline.periodic
    if span is None or span.start + span.length > timeline.end:
        return
    first, second, third = (left + float(span.start + k * span.length) * scale for k in range(3))
    drawing.box(first, TOP, second - first, bottom - TOP, "#fdf1e3")
    parts = ((left, first, "transient"), (first, second, "period"), (second, third, "period again"))
    for start, stop, name in parts:
        if stop - start > text_width(name, 10) + 4 and stop <= WIDTH:
            drawing.text((start + stop) / 2, TOP - 8, name, 10, "middle", color="#444444")


def _period_lines(
    drawing: Drawing, timeline: Timeline, left: float, scale: float, bottom: float
) -> None:
    span = timeline.periodic
    if span is None:
        return
    for k in range(2):
        at = span.start + k * span.length
        if at < timeline.end:
            x = left + float(at) * scale
            drawing.line(x, TOP - 18, x, bottom, MARK, 1.4, "5 3")


def _draw_row(drawing: Drawing, row: _Row, middle: float, height: float, title: str) -> None:
    for lane, y, space in _by_lane(row, middle, height):
        for odd, color in ((False, DARK), (True, LIGHT)):
            # a line is left between a bar and the next one
            ends = [
                (bar.start, bar.stop - 0.6 * (bar.stop - bar.start >= _WIDE))
                for bar in lane
                if bar.odd == odd
            ]
            drawing.bars(ends, y, space * 0.9, color, title)


def _number_phases(drawing: Drawing, row: _Row, middle: float, height: float) -> int:
    """Write the phases, counted from 1, into bars that are wide enough; how many are."""
    if height * 0.86 < 9 * max(1, len(row.lanes)) or not row.overlap:
        return 0
    room = max(text_width(str(bar.phase + 1), 9) for lane in row.lanes for bar in lane) + 2
    numbered = 0
    for lane, y, _ in _by_lane(row, middle, height):
        for bar in lane:
            if bar.phase >= 0 and bar.stop - bar.start > room:
                color, x = INK if bar.odd else "white", (bar.start + bar.stop) / 2
                drawing.text(x, y + 3.2, str(bar.phase + 1), 9, "middle", color=color)
                numbered += 1
    return numbered


def _by_lane(
    row: _Row, middle: float, height: float
) -> Iterator[tuple[tuple[_Bar, ...], float, float]]:
    """Every lane of a row, with its y and its height."""
    space = height * 0.86 / max(1, len(row.lanes))
    for place, lane in enumerate(row.lanes):
        yield lane, middle + space * (place + 0.5 - len(row.lanes) / 2), space


def _notes(
    timeline: Timeline,
    merged: float,
    shaded: bool,
    numbered: bool,
    every: int,
    rows: Sequence[_Row],
) -> list[str]:
    """What the picture does not show, and what its shades mean."""
    notes = [sentence(note) for note in timeline.notes]
    bars = sum(len(lane) for row in rows for lane in row.lanes)
    if shaded:
        notes.append("Iterations alternate between dark and light.")
    if numbered:
        notes.append("Numbers are phases.")
    if merged:
        pause = merged / (WIDTH - 44) * float(timeline.end)
        shown = f"{pause:,.0f}" if pause >= 10 else f"{pause:.2g}"
        notes.append(
            f"{timeline.firings:,} firings are drawn as {bars:,} bars: pauses shorter than about {shown} are not seen."
        )
    crowded = [f"'{actor.name}' up to {row.overlap:,}" for actor, row in zip(timeline.graph.actors, rows, strict=True)
               if row.overlap > _MOST_LANES]  # fmt: skip
    if crowded:
        more = f" and {len(crowded) - 3} others" if len(crowded) > 3 else ""
        notes.append(
            f"Firings that overlap themselves are drawn as one bar: {', '.join(crowded[:3])}{more} at one time."
        )
    if every > 1:
        notes.append(
            f"One in {every} actors is named; the others show their names under the pointer."
        )
    return notes
