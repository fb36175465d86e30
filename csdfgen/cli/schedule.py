"""`csdfgen schedule`: firings and buffers, of a model in one arena, of any CSDF graph by channels."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from rich.table import Table as RichTable

from csdfgen.backends.registry import kernels_for
from csdfgen.cli.frames import frames_facts, show_frames
from csdfgen.cli.front import points_of, show_front, write_front
from csdfgen.cli.goal_options import front_folder
from csdfgen.cli.graph_file import read_graph_file
from csdfgen.cli.memory_options import Table
from csdfgen.cli.models import built, load_network, plan_network
from csdfgen.cli.options import ModelOptions, is_graph_file
from csdfgen.cli.picture_options import check_picture
from csdfgen.cli.quantize import (
    Formats,
    ends_facts,
    formats_facts,
    quantized,
    say_formats,
    say_quality,
    written_beside,
)
from csdfgen.cli.schedule_graph import GraphScheduling, print_loops, schedule_graph
from csdfgen.cli.terminal import (
    Stage,
    console,
    counted,
    figures_table,
    mebibytes,
    plain,
    show_memories,
    stages,
    table,
)
from csdfgen.devices.model import estimate
from csdfgen.devices.profile import DeviceProfile
from csdfgen.errors import InputError, about
from csdfgen.files import check_writable, write_bytes
from csdfgen.goals.choice import profile_for, table_of
from csdfgen.goals.facts import given_up, placement_said, schedule_facts
from csdfgen.model.network import Network
from csdfgen.planning.memories import memories_of
from csdfgen.planning.plan import Plan
from csdfgen.planning.plan_file import write_plan
from csdfgen.planning.plan_table import PlanTable, write_table
from csdfgen.planning.replacing import with_offsets, write_plan_items
from csdfgen.precision.quantize import Quantized
from schedules.demand import POLICIES
from schedules.schedule import Firing

__all__ = ["CHARTS", "ScheduleRequest", "run_schedule"]

CHARTS = ("memory", "arena", "phases")
"""Pictures of a model's plan."""


@dataclass(frozen=True, slots=True)
class ScheduleRequest:
    """What the user asked for; None where nothing was said. graph: what only a graph takes."""

    model: str
    output: Path | None
    options: ModelOptions
    policy: str | None = None
    graph: GraphScheduling = field(default_factory=GraphScheduling)
    pareto: bool = False
    as_json: bool = False
    chart: str | None = None
    items: Path | None = None
    offsets: Path | None = None
    formats: Formats | None = None
    table: Table | None = None

    @property
    def quantized(self) -> Path | None:
        """Where the model in other formats is written, None where it is not."""
        if self.formats is None or self.output is None or self.chart is not None:
            return None
        return self.output.with_suffix(".onnx")

    def check_formats(self) -> None:
        """Raise InputError where formats make no sense here."""
        if self.formats is None:
            return
        if is_graph_file(self.model):
            raise InputError(
                "is a graph, which has no values; --formats is for models", where=self.model
            )
        if self.pareto:
            raise InputError(
                "--pareto lists the plans of a network as it is; quantize it first (csdfgen quantize), "
                "or leave --formats out"
            )
        counts = {"batch": self.options.batch, "frames": self.options.wishes.get("frames")}
        several = [name for name, count in counts.items() if (count or 1) > 1]
        if several:
            raise InputError(
                f"--formats plans one image at a time; quantize the model first (csdfgen quantize), or leave --{several[0]} out"
            )
        path = self.quantized
        if path is None:
            return
        if path.exists() and Path(self.model).exists() and path.samefile(self.model):
            raise InputError(
                "the model in other formats would be written over the one it is made of; "
                "give the plan another name (-o)",
                where=str(path),
            )
        check_writable(path)

    def check_files(self) -> None:
        """Raise InputError where items or offsets make no sense here."""
        for flag, path in (("--items", self.items), ("--offsets", self.offsets)):
            if path is None:
                continue
            if is_graph_file(self.model):
                raise InputError(f"is a graph; {flag} is for models", where=self.model)
            if path.suffix.lower() != ".csv":
                raise InputError("items are written and read as .csv", where=str(path))
            if self.pareto:
                raise InputError(f"--pareto makes many plans; {flag} is of one, leave one out")
        if self.offsets is not None and "fast" in self.options.wishes:
            raise InputError(
                "--offsets places a plan in one memory, --fast in two; leave one of them out"
            )
        if self.items is not None:
            check_writable(self.items)


def run_schedule(request: ScheduleRequest) -> None:
    """Write the plan of a model, or the schedule of a graph, or print a summary; draw what a
    graph's schedule does.

    Raises CsdfgenError.
    """
    if request.chart is not None:
        _check_chart(request)
    elif request.pareto:
        front_folder(request.output)
    elif request.output is not None and request.output.suffix.lower() != ".json":
        raise InputError("a plan is written as .json", where=str(request.output))
    if request.graph.gantt is not None:
        check_picture("gantt", request.graph.gantt)
    request.check_files()
    request.check_formats()
    if request.table is not None:
        _schedule_table(request, request.table)
        return
    if is_graph_file(request.model):
        graph = read_graph_file(
            request.model, request.options.given(), request.graph.capacities.file
        )
        if request.pareto or request.as_json:
            flag = "--pareto" if request.pareto else "--json"
            raise InputError(f"is a graph; {flag} is for models", where=request.model)
        schedule_graph(graph, request.model, request.output, request.policy, request.graph)
        return
    given = request.graph.given()
    if given:
        raise InputError(
            f"is a model; {given[0]} is for graphs, make one with csdfgen MODEL -o graph.xml",
            where=request.model,
        )
    if request.policy not in (None, *POLICIES):
        raise InputError(
            f"is a model; --policy is one of {', '.join(POLICIES)} for it", where=request.model
        )
    _schedule_model(request)


def _check_chart(request: ScheduleRequest) -> None:
    """Raise InputError for a chart that is not known, is of a graph, or is to be no .svg."""
    if request.chart not in CHARTS:
        raise InputError(f"--chart {request.chart} is not one of {', '.join(CHARTS)}")
    if is_graph_file(request.model):
        raise InputError("is a graph; --chart is for models, --gantt draws it", where=request.model)
    if request.output is None:
        raise InputError(f"--chart {request.chart} writes .svg; say where with -o FILE.svg")
    if request.output.suffix.lower() != ".svg":
        raise InputError("a chart is written as .svg", where=str(request.output))
    check_writable(request.output)


def _schedule_model(request: ScheduleRequest) -> None:
    output = request.output
    with stages() as stage:
        profile = profile_for(built(request.options, stage))
        made: Quantized | None = None
        if request.pareto:
            stage("loading")
            network = load_network(request.model, request.options)
            stage("planning")
            points = points_of(network, request.options, stage)
        else:
            network, plan, made = _planned(request, stage)
            if request.items is not None:
                count, bound = write_plan_items(request.items, plan)
            if request.offsets is not None:
                plan = with_offsets(plan, request.offsets, kernels_for(plan.options))
            told = frames_facts(network, plan, profile)
            said = "" if output is not None or request.as_json else given_up(plan, profile)
    if request.pareto:
        write_front(output, points, profile)
        show_front(points, profile, output, as_json=request.as_json)
        return
    if request.items is not None and not request.as_json:
        console().print(
            f"{request.items}: {counted(count, 'item')}, no placement of them is below {bound:,} bytes"
        )
    if output is not None and request.chart is not None:
        _draw(plan, request.chart, output)
    elif output is not None:
        if made is not None and request.quantized is not None:
            plan = written_beside(request.quantized, made, plan)
        write_plan(output, plan)
    if request.as_json:
        facts = {"model": request.model, **schedule_facts(plan, profile)}
        facts |= {"frames": told.to_json()} if told is not None else {}
        if made is not None:
            path = request.quantized
            facts |= {"quantized": None if path is None else str(path), **formats_facts(made)}
            facts["ends"] = ends_facts(made)
        print(json.dumps(facts, indent=2, allow_nan=False))
    elif output is not None:
        out, sizes = console(), plan.planned_bytes
        what = "" if request.chart is None else f"{request.chart}, "
        out.print(
            f"{output}: {what}{counted(len(plan.order), 'firing')}, arena of {sizes:,} bytes ({mebibytes(sizes)} MiB)",
            soft_wrap=True,
        )
        _say_formats(request, made, plan, profile)
    else:
        _plan_summary(plan)
        show_frames(told, profile)
        if said:
            console().print(f"\n{said}")
        _say_formats(request, made, plan, profile)


def _schedule_table(request: ScheduleRequest, asked: Table) -> None:
    """Write the plans for several numbers of images and memories."""
    flags = {
        "memory": "memory" in request.options.wishes,
        "latency": "latency" in request.options.wishes,
        "energy": "energy" in request.options.wishes,
        "formats": request.formats is not None,
        "pareto": request.pareto,
        "chart": request.chart is not None,
        "items": request.items is not None,
        "policy": request.policy is not None,
    }
    for name, given in flags.items():
        if given:
            raise InputError(
                f"a table has many plans; --{name} is of one, leave it out (--budgets has several memories)"
            )
    if is_graph_file(request.model):
        raise InputError("is a graph; --requests is for models", where=request.model)
    with stages() as stage:
        options = built(request.options, stage)
        stage("loading")
        network = load_network(request.model, request.options)
        stage("planning")
        with about(request.model):
            made = table_of(network, options, asked.requests, asked.budgets or (0,), stage)
    if request.output is not None:
        write_table(request.output, made)
    if request.as_json:
        entries = [
            {
                "images": entry.images,
                "bytes": entry.bytes,
                "arena": entry.plan.planned_bytes,
                "predicted_ms": 1e3 * entry.seconds,
            }
            for entry in made.entries
        ]
        print(
            json.dumps({"model": request.model, "device": made.device, "plans": entries}, indent=2)
        )
        return
    out = console()
    out.print(_of_plans(made))
    if request.output is not None:
        out.print(f"{request.output}: {counted(len(made.entries), 'plan')}", soft_wrap=True)


def _of_plans(found: PlanTable) -> RichTable:
    """A row for each plan."""
    rows = table("images", "bytes", "ms an image", right=("images", "bytes", "ms an image"))
    for entry in found.entries:
        each = 1e3 * entry.seconds / entry.images
        rows.add_row(str(entry.images), f"{entry.bytes:,}", f"{each:.4g}")
    rows.caption = f"predicted on {found.device}"
    return rows


def _say_formats(
    request: ScheduleRequest, made: Quantized | None, plan: Plan, profile: DeviceProfile
) -> None:
    """What was made of a float model, its quality, and its time where a device is named."""
    if made is None:
        return
    say_formats(request.quantized, made)
    say_quality(made)
    if plan.options.device or plan.options.tuning:
        seconds = estimate(plan, profile).seconds
        console().print(f"predicted {1e3 * seconds:.4g} ms a frame on {profile.name}")


def _planned(request: ScheduleRequest, stage: Stage) -> tuple[Network, Plan, Quantized | None]:
    """The network and its plan; what was made of the model, where other formats are asked for."""
    policy = request.policy or "best"
    movable = request.items is not None or request.offsets is not None
    if request.formats is not None:
        asked = built(request.options, stage, policy, movable=movable)
        made = quantized(request.model, request.formats, request.options, asked, stage)
        return made.network, made.plan, made
    stage("loading")
    network = load_network(request.model, request.options)
    stage("planning")
    plan = plan_network(network, request.options, policy, stage, movable=movable)
    return network, plan, None


def _draw(plan: Plan, chart: str, output: Path) -> None:
    from csdfgen.charts.arena import arena_chart
    from csdfgen.charts.memory import memory_chart
    from csdfgen.charts.phases import phases_chart
    from csdfgen.charts.plans import footprint

    makers = {"memory": memory_chart, "arena": arena_chart, "phases": phases_chart}
    write_bytes(output, makers[chart](footprint(plan)))


def _plan_summary(plan: Plan) -> None:
    out = console()
    buffers = table(
        "buffer", "rows", "of", "bytes", "offset", "in use", right=("rows", "of", "bytes", "offset")
    )
    for buffer, lifetime in zip(plan.rolling, plan.lifetimes.each, strict=True):
        region, (first, end) = plan.regions[buffer.name], lifetime.span
        buffers.add_row(
            plain(buffer.name),
            str(region.capacity),
            str(buffer.rows),
            f"{region.size:,}",
            f"{min(region.table):,}",
            f"firings {first + 1} to {end}",
        )
    out.print(buffers)
    out.print(f"\nfirings ({counted(len(plan.order), 'firing')}, order '{plan.policy}')")
    print_loops([Firing(actor, phase) for actor, phase in plan.order])
    out.print()
    out.print(figures_table(plan.figures))
    if plan.arena_bound:
        out.print(f"\nplacement  {placement_said(plan)}")
    show_memories(memories_of(plan))
