"""`--pareto`: all plans that are worth having, listed, written, drawn, and with `run` measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from csdfgen.charts.front import Dot, front_chart
from csdfgen.cli.models import wished
from csdfgen.cli.options import ModelOptions
from csdfgen.cli.terminal import Stage, console, counted, mebibytes, plain, table
from csdfgen.devices.profile import DeviceProfile
from csdfgen.errors import CsdfgenError, InputError
from csdfgen.files import write_bytes, write_json
from csdfgen.goals.choice import front
from csdfgen.goals.facts import heights_used, schedule_facts
from csdfgen.goals.search import Point
from csdfgen.model.network import Network
from csdfgen.planning.plan_file import write_plan

__all__ = ["facts_of", "plan_name", "points_of", "show_front", "write_front"]

INDEX, PICTURE = "front.json", "front.svg"
"""Files of a front's folder beside its plans; the index is written last."""


def points_of(network: Network, options: ModelOptions, stage: Stage) -> tuple[Point, ...]:
    """The plans of a network that nothing dominates. Raises InputError, with the model's name."""
    try:
        return front(network, wished(options), progress=stage)
    except CsdfgenError as error:
        raise error.at(network.source or network.name) from None


def plan_name(number: int, count: int) -> str:
    """File of a plan of a front, numbered from the smallest on.

    >>> plan_name(0, 12)
    'plan-01.json'
    """
    return f"plan-{number + 1:0{len(str(count))}d}.json"


def facts_of(
    points: Sequence[Point], profile: DeviceProfile, measured: Sequence[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """What is to be said of every plan, as `schedule --json` does; measured: more of each."""
    more = measured or [{} for _ in points]
    return [
        {"plan": plan_name(at, len(points)), **schedule_facts(point.plan, profile), **one}
        for at, (point, one) in enumerate(zip(points, more, strict=True))
    ]


def write_front(
    output: Path | None,
    points: Sequence[Point],
    profile: DeviceProfile,
    measured: Sequence[dict[str, Any]] = (),
) -> None:
    """Write a folder of plans with picture and index, or only the picture. Every file appears whole,
    the index last: where it is, nothing is missing. Raises InputError.
    """
    if output is None:
        return
    first = points[0].plan
    times = [one["measured_ms"] / 1e3 for one in measured] if measured else [None] * len(points)
    picture = front_chart(
        [Dot(p.bytes, p.seconds, time) for p, time in zip(points, times, strict=True)],
        name=first.network.name,
        device=profile.name,
        whole_layers=first.figures["whole_layer_live"],
        bound=min((p.plan.figures.get("lower_bound", 0) for p in points), default=0) or None,
    )
    if output.suffix:
        write_bytes(output, picture)
        return
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror}", where=str(output)) from None
    for at, point in enumerate(points):
        write_plan(output / plan_name(at, len(points)), point.plan)
    write_bytes(output / PICTURE, picture)
    write_json(output / INDEX, {"plans": facts_of(points, profile, measured)})


def show_front(
    points: Sequence[Point],
    profile: DeviceProfile,
    output: Path | None,
    *,
    as_json: bool,
    measured: Sequence[dict[str, Any]] = (),
) -> None:
    """Print a front as a table, or as JSON."""
    if as_json:
        values = {"device": profile.name, "plans": facts_of(points, profile, measured)}
        print(json.dumps(values, indent=2, allow_nan=False))
        return
    out = console()
    right = ("plan", "bytes", "MiB", "firings", "predicted ms", "measured ms")
    names = ["plan", "bytes", "MiB", "firings", "predicted ms"]
    names += ["measured ms", "outputs"] if measured else []
    made = table(*names, "rows", right=right)
    for at, point in enumerate(points):
        cells = [
            str(at + 1),
            f"{point.bytes:,}",
            mebibytes(point.bytes),
            f"{len(point.plan.order):,}",
            f"{1e3 * point.seconds:,.4g}",
        ]
        if measured:
            ok = measured[at]["ok"]
            verdict = "not checked" if ok is None else "equal" if ok else "different"
            cells += [f"{measured[at]['measured_ms']:,.4g}", verdict]
        made.add_row(*cells, _heights_said(point))
    out.print(made)
    first = points[0].plan
    whole = first.figures["whole_layer_live"]
    out.print(
        f"\n{plain(first.network.name)}: {counted(len(points), 'plan')} that no other beats in memory and in time, "
        f"predicted on {plain(profile.name)}; whole layers take {whole:,} bytes ({mebibytes(whole)} MiB)"
    )
    if output is not None:
        what = "drawn" if output.suffix else f"{counted(len(points), 'plan')}, {PICTURE}, {INDEX}"
        out.print(f"{output}: {what}")


def _heights_said(point: Point) -> str:
    """How tall the slabs are, in a few words."""
    used = sorted(heights_used(point.plan).values())
    if not used:
        return ""
    low, middle, high = used[0], used[len(used) // 2], used[-1]
    return str(low) if low == high else f"{low} to {high}, half of the layers up to {middle}"
