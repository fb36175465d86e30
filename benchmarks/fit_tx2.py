"""What do the published TX2 figures carry? Fits the sweep, holds both TX2 profiles against measured
layers, writes the page.

`python -m benchmarks.fit_tx2` reads `../shared/tx2` (not part of this repository), rewrites
`csdfgen/devices/data/jetson-tx2-sweep.toml`, the tables between markers in `docs/devices.md`, and
its two pictures.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from benchmarks.pages import ROOT, write_between
from benchmarks.tx2_layers import COPY, DATA, NETWORKS, Row, Work, rows, sweep
from benchmarks.tx2_plot import Dot, layers_chart
from csdfgen.devices import units
from csdfgen.devices.catalogue import device
from csdfgen.devices.files import write_profile
from csdfgen.devices.fitting import LineFit, fit_line
from csdfgen.devices.profile import DeviceProfile, OperatorCost, Quantity
from csdfgen.files import write_bytes

PAGE = ROOT / "docs" / "devices.md"
PROFILE = ROOT / "csdfgen" / "devices" / "data" / "jetson-tx2-sweep.toml"
SWEEP_PLOT, LAYERS_PLOT = ROOT / "docs" / "devices-sweep.svg", ROOT / "docs" / "devices-layers.svg"

PUBLISHED, SWEPT = "jetson-tx2", "jetson-tx2-sweep"

_TYPES = {
    "pool": "MaxPool",
    "BN": "BatchNormalization",
    "LRN": "LRN",
    "FC": "Gemm",
    "softmax": "Softmax",
}
"""Kinds of measured rows without a window -> the operator whose cost they take."""


@dataclass(frozen=True)
class Compared:
    """A measured row with what each profile says; ms."""

    row: Row
    published: float
    swept: float


# The fit ----------------------------------------------------------------------------------------


def fits() -> dict[str, LineFit]:
    """Launch (ms) and slope (ms a MAC) of each kernel size of the sweep."""
    return {
        kernel: fit_line(*zip(*points, strict=True)) for kernel, points in sorted(sweep().items())
    }


def swept_profile(found: dict[str, LineFit]) -> DeviceProfile:
    """The published profile with the convolutions of the sweep in place of its own."""
    published = device(PUBLISHED)
    counts = {kernel: len(points) for kernel, points in sweep().items()}
    costs = [_swept_cost(kernel, fit) for kernel, fit in found.items()]
    others = [
        cost
        for cost in published.operators
        if not (cost.types == ("Conv",) and cost.kernel in found)
    ]
    return replace(
        published,
        name=SWEPT,
        title="NVIDIA Jetson TX2, GPU, convolutions fitted to a published sweep",
        operators=(*costs, *others),
        sources=MappingProxyType(
            {
                **published.sources,
                "sweep": "least squares of relative distances (benchmarks/fit_tx2.py), S. Minakova's espamAI, commit ead19f1, "
                "Jetson_2020-03-02_vectors.json: GPU times of "
                + ", ".join(
                    f"{count} convolutions {kernel}" for kernel, count in sorted(counts.items())
                ),
            }
        ),
        notes=(
            "Whole convolutions were swept, none of less than 0.2 ms: the launch is where their line meets zero work, and is no "
            "measurement of a short phase. With many phases it dominates, and the figures are an upper bound at best.",
            "Kinds other than 1x1, 3x3, 5x5 and 7x7 convolutions are those of the jetson-tx2 profile.",
            "The sweep's conditions (clocks, library, channel counts) are not recorded; docs/devices.md compares it with layers.",
        ),
    )


def _swept_cost(kernel: str, fit: LineFit) -> OperatorCost:
    def number(written: float, unit: str, factor: float) -> Quantity:
        return Quantity(written, unit, written * factor, "modelled", "sweep")

    return OperatorCost(
        types=("Conv",),
        kernel=kernel,
        work="MAC",
        time=number(fit.slope, "ms/MAC", units.TIMES_OF_WORK["ms/MAC"]),
        launch=number(fit.launch, "ms", units.TIMES["ms"]),
        error=number(100 * fit.median, "%", units.FRACTIONS["%"]),
    )


# The comparison ---------------------------------------------------------------------------------


def predicted(profile: DeviceProfile, works: Sequence[Work]) -> float:
    """ms of a row: one launch, the slopes of all its works."""
    costs = [_cost(profile, work) for work in works]
    slopes = sum(cost.time.value * work.operations for cost, work in zip(costs, works, strict=True))
    launch = costs[0].launch or profile.processor.launch
    return 1e3 * (slopes + (launch.value if launch is not None else 0.0))


def _cost(profile: DeviceProfile, work: Work) -> OperatorCost:
    types = _TYPES.get(work.kind, "Conv")
    kernels = (work.kind, "") if types == "Conv" else ("",)
    return next(
        c
        for kernel in kernels
        for c in profile.operators
        if types in c.types and c.kernel == kernel
    )


def compared(profiles: tuple[DeviceProfile, DeviceProfile]) -> list[Compared]:
    """Every measured row that computes something, beside both profiles."""
    return [
        Compared(row, *(predicted(profile, row.works) for profile in profiles))
        for network in NETWORKS
        for row in rows(network)
        if row.kind != COPY
    ]


def _table(
    found: Iterable[Compared],
    key: Callable[[Compared], str],
    name: str,
    order: Sequence[str] | None = None,
) -> list[str]:
    """Sums and median distances of groups of rows."""
    groups: dict[str, list[Compared]] = {}
    for one in found:
        groups.setdefault(key(one), []).append(one)
    lines = [
        f"| {name} (rows) | measured, ms | {PUBLISHED}, ms (of measured; median distance) | {SWEPT} |",
        "|---|---:|---:|---:|",
    ]
    for group in order or sorted(groups):
        members = groups[group]
        measured = sum(one.row.ms for one in members)
        cells = [f"{group} ({len(members)})", f"{measured:.2f}"]
        for profile in ("published", "swept"):
            total = sum(getattr(one, profile) for one in members)
            distance = statistics.median(
                abs(getattr(one, profile) / one.row.ms - 1) for one in members
            )
            cells.append(f"{total:.2f} ({total / measured:.2f}; {distance:.0%})")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def fit_table(found: dict[str, LineFit]) -> list[str]:
    """Launch, slope and residuals of the sweep's fit."""
    lines = [
        "| kernel | points | launch, ms | slope, ns/MAC | published slope, ns/MAC | median residual | largest residual |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    published = device(PUBLISHED)
    for kernel, fit in found.items():
        theirs = _cost(published, Work(kernel, 0)).time.value * 1e9
        lines.append(
            f"| {kernel} | {len(fit.residuals)} | {fit.launch:.3f} | {fit.slope * 1e6:.5f} | {theirs:.5f} | {fit.median:.1%} | "
            f"{fit.largest:.0%} |"
        )
    return lines


def copies() -> str:
    """What the comparison leaves out."""
    left = [row for network in NETWORKS for row in rows(network) if row.kind == COPY]
    total = sum(row.ms for network in NETWORKS for row in rows(network))
    share = sum(row.ms for row in left) / total
    return f"{len(left)} rows that only copy ({share:.1%} of the measured time) have no layer and are left out."


# The pictures -----------------------------------------------------------------------------------

_MARKS = {
    "1x1": ("o", "#0b5394"),
    "3x3": ("s", "#cc4125"),
    "5x5": ("^", "#38761d"),
    "7x7": ("D", "#741b47"),
    "11x11": ("P", "#000000"),
    "FC": ("X", "#b45f06"),
    "pool": ("v", "#666666"),
    "BN": ("+", "#999999"),
    "LRN": ("x", "#000000"),
    "softmax": ("*", "#444444"),
}
"""Kind -> marker and colour; the markers tell the kinds apart on grey paper."""


def plot_sweep(found: dict[str, LineFit], path: Path) -> None:
    """The swept times with their lines, a panel a kernel size."""
    figure, panels = _figure(2, 2, (8.4, 6.4))
    for panel, (kernel, points) in zip(
        [p for line in panels for p in line], sorted(sweep().items()), strict=True
    ):
        fit, (_, colour) = found[kernel], _MARKS[kernel]
        macs, times = zip(*points, strict=True)
        panel.plot(
            [m / 1e9 for m in macs],
            times,
            ".",
            color=colour,
            markersize=4,
            label=f"{len(points)} measured (published)",
        )
        ends = [0.0, max(macs)]
        panel.plot(
            [m / 1e9 for m in ends],
            [fit.launch + fit.slope * m for m in ends],
            "k-",
            linewidth=1.2,
            label="launch + slope",
        )
        theirs = _cost(device(PUBLISHED), Work(kernel, 0)).time.value * 1e3
        panel.plot(
            [m / 1e9 for m in ends],
            [theirs * m for m in ends],
            "k:",
            label="published operator model",
        )
        panel.set(
            title=f"{kernel} convolution",
            xlabel="multiply-accumulates, 10⁹",
            ylabel="time, ms",
            xlim=(0, None),
            ylim=(0, None),
        )
        panel.legend(fontsize=7.5, frameon=False)
        panel.grid(alpha=0.25)
    _save(figure, path)


def layers_picture(found: Sequence[Compared]) -> bytes:
    """Predicted against measured, a panel a kind of layer, as an SVG file."""
    dots = [Dot(one.row.kind, one.row.ms, one.published, one.swept) for one in found]
    title = "What the published model of the Jetson TX2 gets right, and what not"
    facts = f"{len(dots)} layers of {len(NETWORKS)} networks, measured by others with TensorRT; above a panel: its sums"
    return layers_chart(dots, title, facts)


def _figure(down: int, across: int, size: tuple[float, float]):  # type: ignore[no-untyped-def]
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    mpl.rcParams["svg.hashsalt"] = "csdfgen"  # the same picture is the same file
    return pyplot.subplots(down, across, figsize=size, layout="constrained", squeeze=False)


def _save(figure, path: Path) -> None:  # type: ignore[no-untyped-def]
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


# The page ---------------------------------------------------------------------------------------


def main() -> int:
    if not DATA.exists():
        print(
            f"there is no {DATA}: the figures of others are not part of this repository",
            file=sys.stderr,
        )
        return 1
    found = fits()
    profile = swept_profile(found)
    write_profile(PROFILE, profile)
    layers = compared((device(PUBLISHED), profile))
    write_between(PAGE, "sweep", fit_table(found))
    write_between(PAGE, "networks", _table(layers, lambda one: one.row.network, "network"))
    kinds = [*_MARKS, *sorted({one.row.kind for one in layers} - set(_MARKS))]
    write_between(
        PAGE, "kinds", [*_table(layers, lambda one: one.row.kind, "kind", kinds), "", copies()]
    )
    for path in (
        (SWEEP_PLOT, SWEEP_PLOT.with_suffix(".png")) if "--png" in sys.argv else (SWEEP_PLOT,)
    ):
        plot_sweep(found, path)
    write_bytes(LAYERS_PLOT, layers_picture(layers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
