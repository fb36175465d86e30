"""How is a sweep drawn? Its points form panels and lines; the options that vary, except memory and time, name the lines."""

from __future__ import annotations

from csdfgen.charts.fronts import Line, Panel, sweep_chart
from csdfgen.sweeps.axes import AXES
from csdfgen.sweeps.run import Swept
from csdfgen.sweeps.spec import Point

_PANEL = ("model", "device")
_WITHIN = ("memory", "latency", "energy")
"""Axes whose values are points of one line."""


def picture(swept: Swept, title: str) -> bytes:
    """Predicted time over memory, as SVG, with one panel for each model and device."""
    varying = [name for name in AXES if len({one.values[name] for one in swept.points}) > 1]
    apart = [name for name in varying if name not in (*_PANEL, *_WITHIN)]
    labels = [", ".join(_name(point, name) for name in apart) for point in swept.points]
    panels: dict[str, dict[str, set[tuple[int, float]]]] = {}
    for point, outcome, label in zip(swept.points, swept.outcomes, labels, strict=True):
        lines = panels.setdefault(_panel(point, "device" in varying), {})
        dots = lines.setdefault(label, set())
        if outcome["ok"]:
            size = int(outcome["planned_bytes"] or 0) + int(outcome["outputs_bytes"] or 0)
            dots.add((size, float(outcome["predicted_frame_ms"] or 0) / 1e3))
    refused = f", {swept.refused:,} of them without a plan" if swept.refused else ""
    on = sorted({str(outcome["predicted_on"]) for outcome in swept.outcomes if outcome["ok"]})
    facts = f"{len(swept.points):,} points{refused}"
    facts += f"; times predicted on {', '.join(on)}" if on else ""
    return sweep_chart(
        title,
        facts,
        [
            Panel(
                name, tuple(Line(one, tuple(sorted(dots))) for one, dots in lines.items() if dots)
            )
            for name, lines in panels.items()
            if any(lines.values())
        ],
    )


def _panel(point: Point, several_devices: bool) -> str:
    title = str(point.values["model"]).removeprefix("zoo:")
    on = point.values["device"] or "the default device"
    return f"{title} on {on}" if several_devices else title


def _name(point: Point, name: str) -> str:
    """A value as a part of the name of a line."""
    value = point.values[name]
    if value is None or value is False:
        return f"no {name}"
    if value is True:
        return name
    return value if isinstance(value, str) and name != "rows" else f"{name} {value}"
