"""`csdfgen schedule`: firings and buffers, of a model in one arena, of any CSDF graph by channels
(`schedule_graph`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from csdfgen.cli.command import Command
from csdfgen.cli.options import (
    CAPACITIES,
    JSON,
    OUTPUT,
    ModelArgument,
    Networks,
    Pareto,
    Planning,
    Spread,
    check_front_output,
    check_picture,
    is_graph_file,
    list_stream_refusals,
    refuse,
)
from csdfgen.cli.quantize import Formats, say_formats, say_quality, write_quantized
from csdfgen.cli.terminal import (
    escape,
    figures_table,
    format_bytes,
    say,
    say_json,
    show_progress,
    table,
)
from csdfgen.errors import prefix_errors
from csdfgen.files import check_writable, write_bytes
from csdfgen.model.options import GOALS, MEMORIES, Option, declare
from csdfgen.model.units import pluralize
from csdfgen.stopping import heed_interrupts, keep

if TYPE_CHECKING:
    from csdfgen.cli.options import Asked, Table
    from csdfgen.cli.terminal import Progress
    from csdfgen.devices.profile import DeviceProfile
    from csdfgen.model.network import Network
    from csdfgen.planning.plan import Plan
    from csdfgen.precision.quantize import Quantized


PICTURES = "Charts"
"""A heading in the help."""

Gantt = Annotated[
    Path | None,
    Option("A Gantt chart of the firings, with transient and period marked.", "FILE.svg", PICTURES),
]


@dataclass(frozen=True, kw_only=True)
class Schedule(Command):
    """Find a firing order and buffers: offsets in one arena for a model, capacities for any CSDF graph.

    The file contains the firings as loops, capacities, offsets and memory figures; `run --plan` executes it, also for a
    graph that was converted from a model. With --periodic it contains periodic start times of the highest throughput.
    """

    examples = (
        "csdfgen schedule model.onnx -o plan.json --rows 4",
        "csdfgen schedule model.onnx --chart memory -o memory.svg",
        "csdfgen schedule model.onnx --memory 512KiB -o plan.json",
        "csdfgen schedule model.onnx --requests 16 --memory 2MiB -o plan.json",
        "csdfgen schedule model.onnx --memory 256KiB --formats mixed --calibrate x.npz -o plan.json",
        "csdfgen schedule model.onnx --fast 256KiB --slow 8MiB",
        "csdfgen schedule model.onnx --pareto --device host -o plans",
        "csdfgen schedule model.onnx --goal throughput --threads 2 --frames 8 -o plan.json",
        "csdfgen schedule model.onnx --stream -o plan.json",
        "csdfgen schedule graph.xml",
    )

    model: ModelArgument
    networks: Networks
    output: Path | None = declare(
        "The output file; without it, a summary is printed.", None, "FILE", names=OUTPUT
    )
    planning: Planning
    pareto: Pareto = False
    threads: int | None = declare(
        "With --goal throughput: the number of processors.",
        None, "N", GOALS, low=1, high=1024, shown="those of the device",
    )  # fmt: skip
    as_json: bool = declare("Print one JSON object instead of text.", False, names=JSON)
    formats: Formats
    items: Path | None = declare(
        "Write the buffers (rows and scratch, with lifetimes and sizes) as minimalloc CSV, for an external allocator.",
        None, "FILE.csv", MEMORIES,
    )  # fmt: skip
    offsets: Path | None = declare(
        "Use the offsets of an external allocator's solution of --items; repeat the other options of that command.",
        None, "FILE.csv", MEMORIES,
    )  # fmt: skip
    policy: Literal["demand", "eager", "layers", "bounded", "loop", "self-timed"] | None = declare(
        "The order of firings. demand: as late as the consumer allows; eager: as deep as possible; layers: layer by "
        "layer; bounded: as far ahead as the capacities of demand allow; loop (models only): one period of a tall image, "
        "repeated, as its offsets are; self-timed (graphs only): each actor fires as soon as it can.",
        None, shown="demand; for a model, the smallest order that is found",
    )  # fmt: skip
    stream: bool = declare(
        "Plan images of any height, and of none that is known, in one arena: an order of firings that repeats.",
        False, panel=MEMORIES,
    )  # fmt: skip
    spread: Spread = False
    periodic: bool = declare(
        "For a graph: start times with the shortest period, instead of an order.", False
    )
    capacities: list[str] | None = declare(
        "For a graph: channel capacities in tokens, by channel, from a schedule (.json), or the buffer sizes of a "
        "graph (.xml); repeatable.",
        None, CAPACITIES,
    )  # fmt: skip
    gantt: Gantt = None
    chart: str | None = declare(
        "For a model: live bytes by layer, the arena layout, or a Gantt chart; written to the .svg of -o.",
        None, "memory|arena|phases", PICTURES,
    )  # fmt: skip

    def run(self) -> None:
        """Write the plan of a model, or the schedule of a graph, or print a summary. Raises CsdfgenError."""
        with heed_interrupts():
            self._run()

    def _run(self) -> None:
        asked, graph = self.planning.read(), is_graph_file(self.model)
        self.formats.check()
        refuse(self._refusals(asked, graph))
        if self.pareto:
            check_front_output(self.output)
        check_picture("--gantt", self.gantt)
        for path in (self.items, self._quantized, self.output if self.chart else None):
            if path is not None:
                check_writable(path)
        if self.threads is not None:
            asked = replace(asked, given={**asked.given, "threads": self.threads})
        if asked.table is not None:
            self._schedule_table(asked, asked.table)
        elif self.stream:
            self._schedule_stream(asked)
        elif graph:
            from csdfgen.cli.schedule_graph import schedule_graph

            schedule_graph(self, [flag for flag, *_ in asked.typed()])
        else:
            if self.policy is not None:
                asked = replace(asked, given={**asked.given, "policy": self.policy})
            (self._schedule_front if self.pareto else self._schedule_model)(asked)

    def _refusals(self, asked: Asked, graph: bool) -> Iterator[tuple[object, str]]:
        """What makes no sense together: whether it is so, and what is wrong."""
        model, output, chart, pareto = self.model, self.output, self.chart, self.pareto
        is_graph, is_model = f"{model}: is a graph", f"{model}: is a model"
        suffix = "" if output is None else output.suffix.lower()
        known = ("memory", "arena", "phases")
        yield chart not in (None, *known), f"--chart {chart} is not one of {', '.join(known)}"
        yield graph and self.policy == "loop", f"{is_graph}; --policy loop is for models"
        yield chart and graph, f"{is_graph}; --chart is for models, --gantt draws it"
        yield chart and output is None, f"--chart {chart} writes .svg; say where with -o FILE.svg"
        yield chart and suffix != ".svg", f"{output}: a chart is written as .svg"
        wrong = output is not None and not chart and not pareto and suffix != ".json"
        yield wrong, f"{output}: a plan is written as .json"
        for flag, path in (("--items", self.items), ("--offsets", self.offsets)):
            if path is not None:
                yield graph, f"{is_graph}; {flag} is for models"
                yield path.suffix.lower() != ".csv", f"{path}: items are written and read as .csv"
                yield pareto, f"--pareto makes many plans; {flag} is of one, leave one out"
        yield (
            self.spread and not self.stream,
            "--spread is of streams; add --stream, or leave it out",
        )
        if self.stream:
            yield graph, f"{is_graph}; --stream is for models"
            names = ("pareto", "chart", "items", "offsets", "policy", "threads")
            given = [name for name in names if getattr(self, name)]
            given += ["formats"] * (self.formats.formats is not None)
            given += ["requests"] * (asked.table is not None)
            for name in given:
                yield True, f"--stream plans images of any height; leave --{name} out"
            yield from list_stream_refusals(asked)
        two = self.offsets is not None and "fast" in asked.given
        yield two, "--offsets places a plan in one memory, --fast in two; leave one of them out"
        if self.formats.formats is not None:
            yield graph, f"{is_graph}, which has no values; --formats is for models"
            first = "quantize it first (csdfgen quantize), or leave"
            yield pareto, f"--pareto lists the plans of a network as it is; {first} --formats out"
            for name, count in (("batch", asked.batch), ("frames", asked.given.get("frames"))):
                wrong = (count or 1) > 1
                yield wrong, f"--formats plans one image at a time; {first} --{name} out"
            path = self._quantized
            there = path is not None and path.exists() and Path(model).exists()
            over = "the model in other formats would be written over the one it is made of"
            same = there and path is not None and path.samefile(model)
            yield same, f"{path}: {over}; give the plan another name (-o)"
        if asked.table is not None:
            given = [name for name in ("memory", "latency", "energy") if name in asked.given]
            given += [
                name for name in ("pareto", "chart", "items", "policy") if getattr(self, name)
            ]
            given += ["formats"] * (self.formats.formats is not None)
            for name in given:
                out = "leave it out (--budgets has several memories)"
                yield True, f"a table has many plans; --{name} is of one, {out}"
            yield graph, f"{is_graph}; --requests is for models"
        elif not graph:
            make = "is for graphs, make one with csdfgen MODEL -o graph.xml"
            for name in ("periodic", "capacities", "gantt"):
                yield getattr(self, name), f"{is_model}; --{name} {make}"
            timed, orders = self.policy == "self-timed", "demand, eager, layers, bounded, loop"
            yield timed, f"{is_model}; --policy is one of {orders} for it"

    @property
    def _quantized(self) -> Path | None:
        """Where the model in other formats is written, None where it is not."""
        if self.formats.formats is None or self.output is None or self.chart is not None:
            return None
        return self.output.with_suffix(".onnx")

    # Models -------------------------------------------------------------------------------------

    def _schedule_front(self, asked: Asked) -> None:
        """All plans that are worth having."""
        from csdfgen.cli.models import load_network, resolve_run_options
        from csdfgen.cli.show import Front, find_points
        from csdfgen.goals.choice import load_profile

        with show_progress() as progress:
            profile = load_profile(resolve_run_options(asked, progress))
            progress("loading")
            network = load_network(self.model, asked)
            progress("planning")
            points = find_points(network, asked, progress)
            keep()
        Front(points, profile).show(self.output, as_json=self.as_json)

    def _schedule_model(self, asked: Asked) -> None:
        from csdfgen.backends.registry import choose_backend
        from csdfgen.cli.models import resolve_run_options
        from csdfgen.cli.show import describe_mapping, overlap_facts, show_mapped, show_overlap
        from csdfgen.goals.choice import choose_shown_profile
        from csdfgen.goals.facts import describe_tradeoff, schedule_facts
        from csdfgen.planning.plan_file import write_plan
        from csdfgen.planning.replacing import replace_offsets, write_plan_items

        output, lines = self.output, []
        with show_progress() as progress:
            profile = choose_shown_profile(resolve_run_options(asked, progress))
            network, plan, made = self._planned(asked, progress)
            keep()
            if self.items is not None or self.offsets is not None:
                plan = plan.unrolled
            if self.items is not None:
                count, bound = write_plan_items(self.items, plan)
                lines = [
                    f"{self.items}: {pluralize(count, 'item')}, no placement of them is below {bound:,} bytes"
                ]
            if self.offsets is not None:
                plan = replace_offsets(plan, self.offsets, choose_backend(plan.options))
            frames, mapped = overlap_facts(network, plan, profile), describe_mapping(plan)
            said = "" if output is not None or self.as_json else describe_tradeoff(plan, profile)
        if output is not None and self.chart is not None:
            _draw(plan, self.chart, output)
        elif output is not None:
            if made is not None and self._quantized is not None:
                plan = write_quantized(self._quantized, made, plan)
            write_plan(output, plan)
        if self.as_json:
            facts = {"model": self.model, **schedule_facts(plan, profile)}
            facts |= {"frames": frames.to_json()} if frames is not None else {}
            facts |= {"processors": mapped.to_json()} if mapped is not None else {}
            if made is not None:
                path = None if self._quantized is None else str(self._quantized)
                facts |= {"quantized": path, **made.facts(), "ends": made.end_facts()}
            say_json(facts)
            return
        say(*lines)
        if output is not None:
            what = "" if self.chart is None else f"{self.chart}, "
            firings = pluralize(plan.firings, "firing")
            say(
                f"{escape(output)}: {what}{firings}, arena of {format_bytes(plan.planned_bytes)}",
                wrap=False,
            )
        else:
            _summary(plan, profile)
            show_overlap(frames, profile)
            show_mapped(plan, mapped)
            say(*[f"\n{said}"] * bool(said))
        self._say_formats(made, plan, profile)

    def _schedule_stream(self, asked: Asked) -> None:
        """The plan of images of any height."""
        from csdfgen.api import plan_stream
        from csdfgen.planning.stream_file import write_stream

        with show_progress() as progress:
            progress("planning")
            stream = plan_stream(
                self.model,
                shapes=dict(asked.shapes),
                fix=asked.fixed,
                spread=self.spread,
                **asked.given,
            )
            keep()
        if self.output is not None:
            write_stream(self.output, stream)
        facts = stream.facts()
        if self.as_json:
            say_json({"model": self.model, **facts})
            return
        if self.output is not None:
            size = format_bytes(stream.planned_bytes)
            say(f"{escape(self.output)}: images of any height, arena of {size}", wrap=False)
        say(*(f"{name.replace('_', ' '):<15}{value:>11,}" for name, value in facts.items()))

    def _planned(self, asked: Asked, progress: Progress) -> tuple[Network, Plan, Quantized | None]:
        """The network and its plan; what was made of the model, where other formats are asked for."""
        from csdfgen.cli.models import load_network, plan_network, resolve_run_options

        movable = self.items is not None or self.offsets is not None
        if self.formats.formats is not None:
            options = resolve_run_options(asked, progress, movable=movable)
            made = self.formats.quantized(self.model, asked, options, progress)
            return made.network, made.plan, made
        progress("loading")
        network = load_network(self.model, asked)
        return network, plan_network(network, asked, progress, movable=movable), None

    def _say_formats(self, made: Quantized | None, plan: Plan, profile: DeviceProfile) -> None:
        """What was made of a float model, its quality, and its time where a device is named."""
        if made is None:
            return
        from csdfgen.devices.model import estimate

        say_formats(self._quantized, made)
        say_quality(made)
        if plan.options.device or plan.options.tuning:
            seconds = estimate(plan, profile).seconds
            say(f"predicted {1e3 * seconds:.4g} ms a frame on {profile.name}")

    # Tables -------------------------------------------------------------------------------------

    def _schedule_table(self, asked: Asked, numbers: Table) -> None:
        """Write the plans for several numbers of images and memories."""
        from csdfgen.cli.models import load_network, resolve_run_options
        from csdfgen.goals.choice import make_plan_table
        from csdfgen.planning.plan_table import write_table

        with show_progress() as progress:
            options = resolve_run_options(asked, progress)
            progress("loading")
            network = load_network(self.model, asked)
            progress("planning")
            with prefix_errors(self.model):
                made = make_plan_table(
                    network, options, numbers.requests, numbers.budgets or (0,), progress
                )
        if self.output is not None:
            write_table(self.output, made)
        if self.as_json:
            plans = [
                {"images": one.images, "bytes": one.bytes, "arena": one.plan.planned_bytes, "predicted_ms": 1e3 * one.seconds}
                for one in made.entries
            ]  # fmt: skip
            say_json({"model": self.model, "device": made.device, "plans": plans})
            return
        shown = table(
            "> images", "> bytes", "> ms an image",
            rows=((str(one.images), one.bytes, f"{1e3 * one.seconds / one.images:.4g}") for one in made.entries),
        )  # fmt: skip
        shown.caption = f"predicted on {made.device}"
        say(shown)
        if self.output is not None:
            say(f"{escape(self.output)}: {pluralize(len(made.entries), 'plan')}", wrap=False)


def _draw(plan: Plan, chart: str, output: Path) -> None:
    from csdfgen.charts.arena import arena_chart
    from csdfgen.charts.memory import memory_chart
    from csdfgen.charts.phases import phases_chart
    from csdfgen.charts.plans import footprint

    makers = {"memory": memory_chart, "arena": arena_chart, "phases": phases_chart}
    write_bytes(output, makers[chart](footprint(plan)))


def _summary(plan: Plan, profile: DeviceProfile) -> None:
    from csdfgen.cli.schedule_graph import render_loops
    from csdfgen.cli.show import fit_said, show_memories
    from csdfgen.devices.memory import account_device_memory, demands
    from csdfgen.goals.facts import describe_placement
    from schedules.schedule import Firing

    def row(at: int) -> tuple[str | int, ...]:
        buffer, (first, end) = plan.rolling[at], plan.lifetimes.each[at].span
        region = plan.regions[buffer.name]
        in_use = f"firings {first + 1} to {end}"
        rows, of = str(region.capacity), str(buffer.rows)
        return buffer.name, rows, of, region.size, min(region.table), in_use

    say(
        table(
            "buffer", "> rows", "> of", "> bytes", "> offset", "in use",
            rows=map(row, range(len(plan.rolling))),
        ),
        f"\nfirings ({pluralize(plan.firings, 'firing')}, order '{plan.policy}')",
        *[f"rows and firings by number are of {plan.part}"] * bool(plan.part),
        render_loops([Firing(actor, phase) for actor, phase in plan.order]),
        "",
        figures_table(plan.figures),
    )  # fmt: skip
    account = account_device_memory(plan, profile)
    say(f"\naccount    {account}")
    if plan.options.device:
        say(*map(fit_said, demands(account, profile)))
    say(*[f"\nplacement  {describe_placement(plan)}"] * bool(plan.arena_bound))
    show_memories(plan)
