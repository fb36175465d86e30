"""How do the times of the exact analysis grow? A picture for docs/sdf3.md, drawn with matplotlib.

Lines differ in marks and dashes as well as in brightness, so that they do in grey print.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.recorded_times import SDF3_BY_CAPACITY, STORAGE_BY_LAYERS

if TYPE_CHECKING:
    from benchmarks.bench_analysis import Measured

__all__ = ["draw"]

DARK, LIGHT = "#08306b", "#e6862b"
_STYLES: Mapping[str, tuple[str, str, str]] = {
    "chain": ("o", "-", DARK),
    "residual": ("s", "--", "#2171b5"),
    "inception": ("^", "-.", "#41ab5d"),
    "dense": ("D", ":", LIGHT),
}
"""Shape -> mark, dashes, colour."""


def draw(
    rows: Sequence[Measured], by_capacity: Mapping[str, Mapping[int, float]], path: Path
) -> None:
    """Two panels: storage for the highest throughput by layers, throughput by capacity; seconds on
    logarithmic scales.
    """
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    with mpl.rc_context({"svg.hashsalt": "csdfgen", "svg.fonttype": "none"}):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 5), layout="constrained")
        _storage(left, rows)
        _capacity(right, by_capacity)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)
        pyplot.close(figure)


def _storage(axes: Any, rows: Sequence[Measured]) -> None:
    for shape, (mark, dashes, colour) in _STYLES.items():
        layers = sorted({one.group[1] for one in rows if one.group[0] == shape})
        slowest = [
            max(one.maximal.seconds for one in rows if one.group == (shape, count))
            for count in layers
        ]
        axes.plot(
            layers,
            slowest,
            marker=mark,
            linestyle=dashes,
            color=colour,
            markersize=6,
            label=f"{shape}, ours",
        )
    for (tool, seconds), mark in zip(STORAGE_BY_LAYERS.items(), "x+", strict=True):
        label = f"{tool}, chain, no overlap loops, recorded"
        axes.plot(
            list(seconds),
            list(seconds.values()),
            mark,
            color="black",
            markersize=10,
            markeredgewidth=2,
            label=label,
        )
    axes.axhline(20, color="grey", linewidth=1)
    axes.text(5, 23, "20 s: all runs were ended here", fontsize=8)
    axes.set(xscale="log", yscale="log", xlabel="layers", ylabel="seconds", ylim=(None, 60))
    axes.set_title(
        "Storage for the highest throughput\n(slowest of 16 to 224 rows, with and without overlap loops)",
        fontsize=10,
    )
    axes.set_xticks([5, 10, 20, 50], ["5", "10", "20", "50"])
    axes.minorticks_off()
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)


def _capacity(axes: Any, by_capacity: Mapping[str, Mapping[int, float]]) -> None:
    marks = {"cycle-ratio": ("o", "-", DARK), "self-timed": ("^", "--", LIGHT)}
    for method, seconds in by_capacity.items():
        mark, dashes, colour = marks[method]
        axes.plot(
            list(seconds),
            list(seconds.values()),
            marker=mark,
            linestyle=dashes,
            color=colour,
            label=f"ours, {method}",
        )
    recorded = list(SDF3_BY_CAPACITY), list(SDF3_BY_CAPACITY.values())
    axes.plot(
        *recorded, "x:", color="black", markersize=9, markeredgewidth=2, label="SDF3, recorded"
    )
    axes.set(xscale="log", yscale="log", xlabel="capacity of the channel, tokens", ylabel="seconds")
    axes.set_title("Throughput of two actors\n(times 2 and 3)", fontsize=10)
    ticks = [1_000, 3_000, 10_000, 30_000]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
