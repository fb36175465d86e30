"""`csdfgen analyze MODEL --device NAME`: does it fit, how long does each layer take, how many
frames per second?
"""

from __future__ import annotations

from typing import Any

from rich.text import Text

from csdfgen.cli.models import load_network
from csdfgen.cli.options import ModelOptions
from csdfgen.cli.sections import Section
from csdfgen.cli.terminal import Stage, console, counted, mebibytes, plain, table
from csdfgen.devices.memory import Demand, FittingHeight, demands, tallest_height
from csdfgen.devices.model import Estimate, LayerTime, estimate
from csdfgen.devices.profile import DeviceProfile
from csdfgen.planning.plan import Plan

__all__ = ["COLUMNS", "device_section"]

COLUMNS = ("layer", "operator", "phases", "rows", "time_ms", "share", "phase_us", "origin", "how")
"""Of the CSV file, and of the layers in the JSON."""


def device_section(
    plan: Plan, profile: DeviceProfile, model: str, options: ModelOptions, stage: Stage
) -> Section:
    """What a plan needs and takes on a device. Raises CsdfgenError."""
    found = estimate(plan, profile)
    needs = demands(plan, profile)
    height = None
    if not needs[0].fits:
        stage("looking for a slab height that fits")
        # the plan's own network is fused already; heights are tried on the network as it was loaded
        height = tallest_height(load_network(model, options), profile, plan.options)
    rows = tuple(_row(layer, found) for layer in found.layers)
    values = {
        "name": profile.name,
        "title": profile.title,
        "memory": [
            {"what": n.what, "needed": n.needed, "usable": n.there, "fits": n.fits} for n in needs
        ],
        "fits": all(demand.fits for demand in needs),
        "rows_that_fit": height.rows if height is not None else str(plan.conversion.rows),
        "sequential": {"latency_ms": 1e3 * found.seconds, "fps": _rate(found.seconds)},
        "pipelined": {
            "cores": len(found.stages),
            "fps": _rate(found.pipelined),
            "limit": found.limit,
            "stages_ms": [1e3 * part for part in found.stages],
        },
        "energy_mj_at_most": None if found.energy is None else 1e3 * found.energy,
        "origins": _origins(found),
        "layers": [dict(zip(COLUMNS, row, strict=True)) for row in rows],
        "notes": list(profile.notes),
    }
    return Section(
        "device", values, lambda: _show_device(plan, profile, found, needs, height), rows
    )


def _row(layer: LayerTime, found: Estimate) -> tuple[Any, ...]:
    """The cells of `COLUMNS`."""
    share = layer.seconds / found.seconds if found.seconds else 0.0
    times = 1e3 * layer.seconds, round(share, 6), 1e6 * layer.phase
    return (
        layer.name,
        layer.function,
        layer.phases,
        layer.rows,
        *times,
        layer.origin or "modelled",
        layer.how,
    )


def _rate(seconds: float) -> float | None:
    return 1 / seconds if seconds else None


def _origins(found: Estimate) -> dict[str, float]:
    """Share of the frame's time by the origin of the numbers behind it."""
    total = found.seconds
    shares: dict[str, float] = {}
    for layer in found.layers:
        for origin, seconds in (
            (layer.origin, layer.seconds - layer.launch),
            (layer.launch_origin, layer.launch),
        ):
            if seconds > 0:
                shares[origin] = shares.get(origin, 0.0) + seconds / total
    if found.frame:
        shares[found.frame_origin] = shares.get(found.frame_origin, 0.0) + found.frame / total
    return shares


def _show_device(
    plan: Plan,
    profile: DeviceProfile,
    found: Estimate,
    needs: tuple[Demand, ...],
    height: FittingHeight | None,
) -> None:
    out = console()
    out.print(f"\n{plain(profile.name)}: {plain(profile.title)}\n")
    layers = table(
        "layer", "operator", "phases", "rows", "ms", "share", "us a phase", "origin", right=_RIGHT
    )
    for layer in found.layers:
        if not layer.phases:
            continue
        share = f"{layer.seconds / found.seconds:.1%}" if found.seconds else ""
        cells = (
            str(layer.phases),
            str(layer.rows),
            f"{1e3 * layer.seconds:,.3f}",
            share,
            f"{1e6 * layer.phase:,.1f}",
        )
        layers.add_row(
            plain(layer.name),
            layer.function,
            *cells,
            Text(f"{layer.origin}: {layer.how}", style="dim"),
        )
    out.print(layers)
    views = sum(not layer.phases for layer in found.layers)
    if views:
        out.print(f"and {counted(views, 'layer')} without work of their own (views)")
    out.print()
    _show_memory(plan, needs, height)
    _show_times(profile, found)
    for note in profile.notes:
        out.print(f"note       {plain(note)}")


_RIGHT = ("phases", "rows", "ms", "share", "us a phase")


def _show_memory(plan: Plan, needs: tuple[Demand, ...], height: FittingHeight | None) -> None:
    out = console()
    for need in needs:
        said = "fits" if need.fits else "does not fit"
        out.print(
            f"memory     {said}: {need.said} {need.needed:,} bytes ({mebibytes(need.needed)} MiB), usable are "
            f"{need.there:,} ({mebibytes(need.there)} MiB)"
        )
    if not all(need.fits for need in needs[1:]):
        out.print("           no slab height makes the parameters smaller")
    if height is not None and height.rows is not None:
        out.print(
            f"           --rows {height.rows} would fit, the tallest of 1, 2, 4, ..., whole: {needs[0].said} "
            f"{height.least_needed:,} bytes"
        )
    elif height is not None:
        out.print(
            f"           no height of 1, 2, 4, ..., whole fits: the least, --rows {height.least_rows}, takes "
            f"{height.least_needed:,} bytes; parameters are {plan.figures['parameters']:,} bytes"
        )


def _show_times(profile: DeviceProfile, found: Estimate) -> None:
    out = console()
    by_share = sorted(_origins(found).items(), key=lambda item: -item[1])
    shares = ", ".join(f"{share:.0%} {origin}" for origin, share in by_share) or "none"
    launches = sum(layer.launch for layer in found.layers)
    out.print(
        f"sequential {1e3 * found.seconds:,.3f} ms a frame, {_fps(found.seconds)}; launches of phases are "
        f"{1e3 * launches:,.3f} ms of it; numbers behind it: {shares}"
    )
    cores = int(profile.processor.cores.value)
    if cores > 1:
        out.print(
            f"pipelined  {_fps(found.pipelined)}, limited by {found.limit}: layers in their order dealt out to "
            f"{counted(cores, 'core')} of equal speed, several frames in flight, whose buffers are not in the arena; modelled"
        )
    else:
        out.print(
            f"pipelined  {_fps(found.seconds)}: the profile has one core, nothing to pipeline over"
        )
    if found.energy is None:
        out.print("energy     no source gives it")
    else:
        at_most, said = _energy_said(profile)
        out.print(f"energy     {at_most}{1e3 * found.energy:,.1f} mJ a frame: {said}")


def _energy_said(profile: DeviceProfile) -> tuple[str, str]:
    """Whether an energy is a bound, and what it is made of."""
    processor = profile.processor
    power = processor.power
    single = {"an operation": processor.operation_energy, "a byte": processor.byte_energy}
    parts = [
        f"{one} {of} ({one.origin}: {one.source})" for of, one in single.items() if one is not None
    ]
    if power is None:
        return "", ", ".join(parts)
    most = f"{power}, the most that the module's power mode allows ({power.origin}: {power.source}), times the latency"
    return "at most ", ", ".join([most, *parts])


def _fps(seconds: float) -> str:
    return f"{1 / seconds:,.2f} frames/s" if seconds else "no work"
