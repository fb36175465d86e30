"""What do the buffers hold over time, and what does memory buy? Pictures for docs/paper.md and
docs/batches.md, drawn with matplotlib (extra `plots`).

python -m benchmarks.paper_pictures DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from csdfgen.backends import ALWAYS
from csdfgen.dataflow.graph import format_runs
from csdfgen.goals.choice import plan
from csdfgen.paper.batches.memory import BATCHES, MB
from csdfgen.paper.batches.modelled import model_tables, plan_request
from csdfgen.paper.figure1 import figure1_graph
from csdfgen.paper.printed import TABLE_2
from csdfgen.paper.table2 import plan_example
from csdfgen.paper.table3 import load_network
from schedules.batches.baselines import plan_fixed
from schedules.batches.planning import PRINTED_UNIT, plan_cheapest
from schedules.batches.plans import ChainPlan
from schedules.batches.replay import replay

DARK, LIGHT = "#08306b", "#e6862b"
"""Two colours that differ in brightness too, so that they do in grey print."""

_BYTES = 4


def figure1(path: Path) -> None:
    """The graph of Algorithm 1: actors in a row, self-loops above them, rates at the ends of
    channels.
    """
    graph = figure1_graph()
    place = {actor.name: number for number, actor in enumerate(graph.actors)}
    figure, axes = plt.subplots(figsize=(11, 2.6))
    boxes = []
    for actor, x in zip(graph.actors, range(len(place)), strict=True):
        text = f"{actor.name}\n{actor.phases} phase{'s' if actor.phases > 1 else ''}"
        shape = {"boxstyle": "round,pad=0.5", "facecolor": "white"}
        boxes.append(axes.text(x, 0, text, ha="center", va="center", bbox=shape).get_bbox_patch())
    for channel in graph.channels:
        start, stop = place[channel.source], place[channel.target]
        made, taken = format_runs(channel.production), format_runs(channel.consumption)
        if start == stop:
            arrow = {
                "arrowstyle": "->",
                "connectionstyle": "arc3,rad=-1.6",
                "linestyle": "--",
                "color": DARK,
            }
            axes.annotate("", (start + 0.12, 0.14), (start - 0.12, 0.14), arrowprops=arrow)
            axes.text(start, 0.5, f"U: {made}\nV: {taken}", ha="center", fontsize=8)
        else:
            ends = {"patchA": boxes[start], "patchB": boxes[stop], "shrinkA": 0, "shrinkB": 0}
            axes.annotate(
                "", (stop, 0), (start, 0), arrowprops={"arrowstyle": "->", "color": DARK, **ends}
            )
            axes.text(
                (start + stop) / 2,
                -0.3,
                f"U: {made}\nV: {taken}",
                ha="center",
                va="top",
                fontsize=8,
            )
    axes.set(xlim=(-0.4, len(place) - 0.6), ylim=(-0.8, 0.9))
    axes.axis("off")
    _save(figure, path)


def plot_cnn5_buffers(path: Path) -> None:
    """Elements alive during every firing of Ex1 to Ex4, one panel each."""
    figure, panels = plt.subplots(2, 2, figsize=(9, 5.2), sharey=True, layout="constrained")
    for example, axes in zip(TABLE_2, panels.flat, strict=True):
        planned = plan_example(example)
        live = [size // _BYTES for size in planned.lifetimes.live.tolist()]
        axes.stairs(live, range(1, len(live) + 2), fill=True, color=DARK, alpha=0.85)
        axes.axhline(example.total, color=LIGHT, linestyle="--", linewidth=1.8)
        axes.set_title(
            f"{example.name}: {len(live)} firings, buffers of {example.total} bytes (dashed)",
            fontsize=10,
        )
        axes.set_xlim(1, len(live) + 1)
    figure.supxlabel("firing (number in the order of execution)")
    figure.supylabel("alive, bytes (one a value, as the paper counts)")
    _save(figure, path)


def plot_densenet_buffers(path: Path) -> None:
    """Megabytes alive during every firing of densenet121, layers whole and by rows."""
    network = load_network("densenet121", weights=True)
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    for rows, label, colour, style in (
        ("whole", "layers whole", LIGHT, "-"),
        (1, "one row a phase", DARK, "-"),
    ):
        live = plan(network, rows=rows, backend=ALWAYS).lifetimes.live.tolist()
        done = [100 * number / len(live) for number in range(len(live))]
        axes.step(done, [size / 1e6 for size in live], where="post", color=colour, linestyle=style, linewidth=1.2,
                  label=f"{label}: {len(live):,} firings, at most {max(live) / 1e6:.2f} MB")  # fmt: skip
    axes.set(
        xlabel="firings done, %",
        ylabel="activations alive, MB (10⁶ bytes)",
        xlim=(0, 100),
        ylim=(0, None),
    )
    axes.legend(frameon=False)
    _save(figure, path)


def plot_batches_over_memory(path: Path) -> None:
    """GoogleNet's time per image against memory: the largest uniform batch, Algorithm 1, ours."""
    tables = model_tables("GoogleNet", "gathering")
    coarse = model_tables("GoogleNet", "printed", PRINTED_UNIT)
    sizes = [step / 4 for step in range(4 * 10, 4 * 40 + 1)]
    rules: dict[str, list[float | None]] = {"fixed": [], "printed": [], "ours": []}
    for size in sizes:
        memory = int(size * MB)
        ours = plan_cheapest(tables.chain, BATCHES, memory, searched=0, tables=tables)
        cost = coarse.cost(BATCHES, memory)
        rules["fixed"].append(_ms(plan_fixed(tables.chain, BATCHES, memory)))
        rules["printed"].append(None if cost == float("inf") else 1e3 * cost / BATCHES)
        rules["ours"].append(_ms(ours))
    figure, axes = plt.subplots(figsize=(9, 3.8), layout="constrained")
    looks = {
        "fixed": ("the largest batch that all layers can take", LIGHT, "-", 1.8),
        "printed": (
            "Algorithm 1 as printed: steps of 2 MB, 12 images at once",
            "#888888",
            "--",
            1.5,
        ),
        "ours": ("corrected: exact memory, images that gather, rounds", DARK, "-", 1.8),
    }
    for name, (label, color, style, width) in looks.items():
        times = [float("nan") if time is None else time for time in rules[name]]
        axes.step(sizes, times, where="post", color=color, linestyle=style, linewidth=width, label=label)  # fmt: skip
    axes.set(
        xlabel="memory, MB (2\u00b2\u2070 bytes)",
        ylabel="ms an image, modelled on a K80",
        xlim=(10, 40),
        ylim=(0, None),
    )
    axes.legend(frameon=False, loc="lower left")
    _save(figure, path)


def _ms(found: ChainPlan | None) -> float | None:
    return None if found is None else 1e3 * found.cost_per_image


def plot_batches_over_time(path: Path) -> None:
    """What GoogleNet's calls hold at 20 MB, over the time of 12 images: one by one, and by our plan."""
    chain = model_tables("GoogleNet", "gathering").chain
    memory = 20
    figure, panels = plt.subplots(2, 1, figsize=(9, 4.6), sharex=True, sharey=True, layout="constrained")  # fmt: skip
    plans = {
        "one image after another, the baseline": plan_fixed(chain, BATCHES, memory * MB),
        "each layer with a batch of its own": plan_request("GoogleNet", BATCHES, memory),
    }
    for axes, (title, found) in zip(panels, plans.items(), strict=True):
        assert found is not None
        calls = replay(chain, found).calls
        ends = [0.0]
        for call in calls:
            ends.append(ends[-1] + 1e3 * call.cost)
        axes.stairs([call.held / MB for call in calls], ends, fill=True, color=DARK, alpha=0.85)
        axes.axhline(memory, color=LIGHT, linestyle="--", linewidth=1.8)
        axes.set_title(f"{title}: {len(calls)} calls, {ends[-1]:.1f} ms", fontsize=10)
    panels[0].set(xlim=(0, None), ylim=(0, memory + 2))
    figure.supxlabel("ms since the first call, modelled on a K80")
    figure.supylabel("held during a call, MB")
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    """Without date and with fixed ids: the same figures give the same file."""
    with plt.rc_context({"svg.hashsalt": "csdfgen", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)
    plt.close(figure)


PICTURES = {
    "figure1": figure1,
    "cnn5": plot_cnn5_buffers,
    "densenet121": plot_densenet_buffers,
    "batches-memory": plot_batches_over_memory,
    "batches-time": plot_batches_over_time,
}
"""Name of the file -> who draws it."""


def draw_all(directory: Path, suffix: str = ".svg") -> None:
    """Draw every picture of docs/paper.md and docs/batches.md."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        draw(directory / f"paper-{name}{suffix}")


if __name__ == "__main__":
    draw_all(Path(sys.argv[1]), *sys.argv[2:])
