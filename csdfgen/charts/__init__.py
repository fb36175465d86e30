"""What happens when, and what do the channels hold meanwhile? Pictures of executions, as SVG.

timeline = self_timed(graph, capacities)
write_bytes("gantt.svg", gantt_chart(timeline))
write_bytes("occupancy.svg", occupancy_chart(timeline, "bytes"))

No drawing library is needed, and the same timeline gives the same bytes.
"""

from __future__ import annotations

from csdfgen.charts.critical import critical_dot
from csdfgen.charts.gantt import gantt_chart
from csdfgen.charts.occupancy import occupancy_chart
from csdfgen.charts.replay import Replay, replay
from csdfgen.charts.timeline import Timeline, trace_periodic, trace_schedule, trace_self_timed

__all__ = [
    "Replay",
    "Timeline",
    "critical_dot",
    "gantt_chart",
    "occupancy_chart",
    "replay",
    "trace_periodic",
    "trace_schedule",
    "trace_self_timed",
]
