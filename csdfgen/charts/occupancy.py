"""What does every channel hold over time, and what do all of them together? A small chart for each channel,
below a chart of the total.

A channel holds tokens from the moment at which their producer claims space to the moment at which their
consumer has ended (docs/model.md), so that a chart reaches the capacity where it is used up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from csdfgen.charts.replay import Replay, replay
from csdfgen.charts.svg import (
    DARK,
    LIGHT,
    MARK,
    ROW_LABEL,
    TOP,
    WIDTH,
    Drawing,
    cut,
    quantity,
    sentence,
    text_width,
    ticks,
)
from csdfgen.charts.timeline import Timeline
from csdfgen.dataflow.graph import Channel
from schedules.sizing import Unit

Array = Any

MAX_CHANNELS = 40
"""Channels with a chart of their own: those that hold most."""

_LONGEST_NAME = 34
_TOTAL_HEIGHT = 150.0
_BETWEEN = 46.0


@dataclass(frozen=True, slots=True)
class _Strip:
    """One channel: its name, what it holds from which time on, its highest level and its capacity,
    in the unit shown.
    """

    name: str
    times: Array
    levels: Array
    peak: int
    capacity: int | None


def occupancy_chart(timeline: Timeline, unit: Unit = "tokens") -> bytes:
    """The chart as an SVG file. Left out are one-token serial self-loops, channels of free space,
    and those whose tokens have no bytes if the unit is bytes.

    Raises ScheduleError if the timeline cannot be executed.
    """
    found = replay(timeline)
    weights = [_weight(channel, unit) for channel in timeline.graph.channels]
    total = _total(timeline, found, weights)
    strips = _strips(timeline, found, weights)
    shown = sorted(sorted(range(len(strips)), key=lambda place: -strips[place].peak)[:MAX_CHANNELS])
    drawing = Drawing()
    names = [cut(strips[place].name, _LONGEST_NAME) for place in shown]
    left = 20 + max([54.0, *(text_width(name, ROW_LABEL) for name in names)])
    sides = [_filled(strips[place], unit) for place in shown]
    right = WIDTH - 20 - max([0.0, *(text_width(side, ROW_LABEL) for side in sides)])
    title = f"{timeline.graph.name}: {unit} held, {timeline.title}"
    drawing.heading(title, _facts(total, len(strips), unit))
    _draw_total(drawing, timeline, total, (left, right), unit)
    height = min(40.0, max(16.0, 900 / max(1, len(shown))))
    top = TOP + _TOTAL_HEIGHT + _BETWEEN
    bottom = top + height * len(shown)
    if shown:
        drawing.time_axis(left, right, bottom, top, float(timeline.end), timeline.axis)
    for row, (place, name, side) in enumerate(zip(shown, names, sides, strict=True)):
        base = top + height * (row + 1)
        drawing.text(left - 6, base - height / 2 + 3.5, name, ROW_LABEL, "end")
        drawing.text(right + 6, base - height / 2 + 3.5, side, ROW_LABEL)
        _draw_strip(drawing, strips[place], (left, right), base, height, float(timeline.end or 1))
    drawing.notes(12, bottom + 48, _notes(timeline, strips, shown, unit))
    return drawing.to_bytes(title)


def _weight(channel: Channel, unit: Unit) -> int:
    """What a token counts; free places of another channel are its capacity and count nothing."""
    if channel.is_serial or channel.kind == "space":
        return 0
    return channel.token_bytes if unit == "bytes" else 1


def _strips(timeline: Timeline, found: Replay, weights: Sequence[int]) -> list[_Strip]:
    times = np.array([float(time) for time in found.times])
    channels = np.array(found.channels, dtype=np.int64)
    levels = np.array(found.levels, dtype=object)
    order = np.argsort(channels, kind="stable")
    first = np.searchsorted(channels[order], np.arange(len(weights) + 1))
    strips = []
    for place, (channel, weight) in enumerate(zip(timeline.graph.channels, weights, strict=True)):
        if not weight:
            continue
        mine = order[first[place] : first[place + 1]]
        held = np.concatenate([[found.initial[place]], levels[mine]]) * weight
        limit = timeline.capacities.get(channel.name)
        capacity = None if limit is None else limit * weight
        starts = np.concatenate([[0.0], times[mine]])
        strips.append(_Strip(channel.name, starts, held, int(max(held)), capacity))
    return strips


def _total(timeline: Timeline, found: Replay, weights: Sequence[int]) -> _Strip:
    """All channels together, in the order of what happens."""
    held = list(found.initial)
    total = sum(map(int.__mul__, held, weights))
    levels = [total]
    for channel, level in zip(found.channels, found.levels, strict=True):
        total += (level - held[channel]) * weights[channel]
        held[channel] = level
        levels.append(total)
    counted = [
        (timeline.capacities.get(channel.name), weight)
        for channel, weight in zip(timeline.graph.channels, weights, strict=True)
        if weight
    ]
    limits = [limit * weight for limit, weight in counted if limit is not None]
    capacity = sum(limits) if limits and len(limits) == len(counted) else None
    times = np.array([0.0, *(float(time) for time in found.times)])
    return _Strip("total", times, np.array(levels, dtype=object), max(levels), capacity)


def _filled(strip: _Strip, unit: Unit) -> str:
    """The text right of a chart: the highest level and the capacity."""
    if strip.capacity is None:
        return f"{quantity(strip.peak, unit)}, unlimited"
    part = "" if strip.peak == strip.capacity else f"{strip.peak:,} of "
    return f"{part}{quantity(strip.capacity, unit)}"


def _facts(total: _Strip, channels: int, unit: Unit) -> str:
    held = f"at most {quantity(total.peak, unit)} at one time in {quantity(channels, 'channels')}"
    if total.capacity is None:
        return f"{held}; not all have a capacity"
    return f"{held}, with {quantity(total.capacity, unit)} of capacity in total"


def _steps(strip: _Strip, left: float, right: float, end: float) -> list[tuple[float, float]]:
    """(x, level) at each change of the level; if changes are denser than pixels, the highest level in
    each pixel.
    """
    places = left + strip.times * ((right - left) / end)
    levels = strip.levels.astype(float)
    if len(places) > right - left:
        columns = np.floor(places).astype(np.int64)
        firsts = np.flatnonzero(np.diff(columns, prepend=columns[0] - 1))
        highest = np.maximum.reduceat(levels, firsts)
        highest[1:] = np.maximum(highest[1:], levels[firsts[1:] - 1])  # what a pixel begins with
        lasts = levels[np.append(firsts[1:], len(levels)) - 1]
        at = columns[firsts].astype(float)
        # after a pixel its last level applies until the next change
        places = np.stack([at, at + 1], axis=1).ravel()
        levels = np.stack([highest, lasts], axis=1).ravel()
        kept = np.append(places[1:] > places[:-1], True)
        places, levels = places[kept], levels[kept]
    changed = np.flatnonzero(np.diff(levels, prepend=levels[0] - 1))
    return [(float(max(left, min(right, places[i]))), float(levels[i])) for i in changed]


def _draw_total(
    drawing: Drawing, timeline: Timeline, total: _Strip, sides: tuple[float, float], unit: Unit
) -> None:
    left, right = sides
    bottom, end = TOP + _TOTAL_HEIGHT, float(timeline.end or 1)
    top = float(max(total.peak, total.capacity or 0, 1))
    scale = (_TOTAL_HEIGHT - 12) / top
    drawing.time_axis(left, right, bottom, TOP, float(timeline.end), "")
    size, name = _scale(top, unit)
    for value in ticks(top, 5):
        y = bottom - value * scale
        drawing.line(left - 4, y, left, y, "#222222")
        drawing.text(left - 7, y + 3.5, f"{value / size:,.10g}", 10, "end")
    drawing.line(left, TOP, left, bottom, "#222222")
    label = f"total, {name}"
    drawing.text(left - 48, (TOP + bottom) / 2 + text_width(label, 11) / 2, label, 11, upright=True)
    corners = [(x, bottom - level * scale) for x, level in _steps(total, left, right, end)]
    drawing.area(corners, bottom, right, DARK, f"total: at most {quantity(total.peak, unit)}")
    if total.capacity is not None:
        y = bottom - total.capacity * scale
        drawing.line(left, y, right, y, MARK, 1.6, "6 3")
        drawing.text(right + 6, y + 3.5, "capacities", ROW_LABEL)


_SCALES: dict[Unit, tuple[tuple[float, float, str], ...]] = {
    "bytes": (
        (1e9, 1e9, "GB (10⁹ bytes)"),
        (1e6, 1e6, "MB (10⁶ bytes)"),
        (1e4, 1e3, "kB (10³ bytes)"),
    ),
    "tokens": ((1e12, 1e12, "10¹² tokens"), (1e9, 1e9, "10⁹ tokens"), (1e6, 1e6, "10⁶ tokens")),
}
"""From which largest value on ticks are shown in what, and what that is called."""


def _scale(top: float, unit: Unit) -> tuple[float, str]:
    """What the ticks of an axis up to `top` are multiples of, and its name."""
    return next(((size, name) for least, size, name in _SCALES[unit] if top >= least), (1.0, unit))


def _draw_strip(
    drawing: Drawing,
    strip: _Strip,
    sides: tuple[float, float],
    base: float,
    height: float,
    end: float,
) -> None:
    left, right = sides
    top = float(max(strip.peak, strip.capacity or 0, 1))
    scale = (height - 5) / top
    drawing.line(left, base, right, base, "#cccccc", 0.6)
    corners = [(x, base - level * scale) for x, level in _steps(strip, left, right, end)]
    drawing.area(corners, base, right, LIGHT if strip.capacity is None else DARK, strip.name)
    if strip.capacity is not None:
        y = base - strip.capacity * scale
        drawing.line(left, y, right, y, MARK, 1.2, "4 3")


def _notes(
    timeline: Timeline, strips: Sequence[_Strip], shown: Sequence[int], unit: Unit
) -> list[str]:
    notes = [sentence(note) for note in timeline.notes]
    if any(strip.capacity is not None for strip in strips):
        notes.append("Dashed: capacities. Every channel has a scale of its own.")
    if any(strip.capacity is None for strip in strips):
        notes.append("Light: channels without a capacity.")
    if len(shown) < len(strips):
        least = quantity(min(strips[place].peak for place in shown), unit)
        notes.append(
            f"Shown are the {len(shown)} of {len(strips):,} channels that hold most, at least {least}; the total counts all."
        )
    serial = sum(channel.is_serial for channel in timeline.graph.channels)
    if serial:
        notes.append(f"{serial:,} one-token serial self-loops hold no data and are left out.")
    return notes
