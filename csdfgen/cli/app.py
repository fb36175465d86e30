"""Which commands are there, and what does each take? Declarations only; the work is in a module a
command.

Modules that load numpy, onnx or onnxruntime are imported when a command runs, so that `--help` is
at once there.
"""

from __future__ import annotations

import enum
import os
from pathlib import Path
from typing import Annotated

import typer

from csdfgen import __version__
from csdfgen.cli import (
    analyze_options,
    convert_options,
    emit_options,
    format_commands,
    format_options,
    goal_options,
    machine_commands,
    memory_options,
    page_options,
    picture_options,
    run_options,
    schedule_options,
    sweep_options,
)
from csdfgen.cli.capacities import parse_capacities
from csdfgen.cli.commands import CHECKS, Command, Commands, RunCommand
from csdfgen.cli.groups import grouped
from csdfgen.cli.options import (
    ModelArgument,
    ModelGroup,
    Rates,
    Tokens,
    is_graph_file,
)

__all__ = ["app"]


class Part(str, enum.Enum):
    """What `reproduce` can reproduce."""

    fig1 = "fig1"
    table2 = "table2"
    table3 = "table3"
    all = "all"
    findings = "findings"
    paper003 = "paper003"
    vbs = "vbs"


class Counting(str, enum.Enum):
    """How Table III is counted."""

    paper = "paper"
    schedule = "schedule"
    both = "both"


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run convolutional networks in a fraction of their activation memory.\n\n"
    "An ONNX model becomes a cyclo-static dataflow graph whose actors work on slabs of rows; csdfgen finds a firing order and "
    "buffers, exports the graph, runs it in those buffers, and compares with onnxruntime.",
    epilog="Without a command, [bold]csdfgen MODEL -o graph.xml[/bold] converts. [bold]csdfgen COMMAND --help[/bold] shows "
    "a command's options and examples.",
)

_OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Where to write; without it a summary is printed."
    ),
]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"csdfgen {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options before any command; all are eager, so nothing is left to do."""


@app.command(
    cls=Command,
    epilog="Examples:\n\n  csdfgen model.onnx -o graph.xml\n\n  csdfgen model.onnx -o graph.dot --rows 1 --tokens rows\n\n"
    "  csdfgen model.onnx --shape input=1x3x480x640\n\n  csdfgen graph.xml -o graph.json\n\n"
    "  csdfgen graph.xml -o bounded.xml --capacities schedule.json --gcd --no-overlap",
)
@grouped
def convert(
    model: ModelArgument,
    *,
    output: _OutputOption = None,
    rates: Annotated[
        Rates | None,
        typer.Option(
            "--rates",
            help="exact: by the row rule; paper: Algorithm 1 as printed, whatever --rows is. \\[default: exact]",
            show_default=False,
        ),
    ] = None,
    tokens: Annotated[
        Tokens | None,
        typer.Option(
            "--tokens",
            help="A token is an element of a tensor, or one of its rows. \\[default: elements]",
            show_default=False,
        ),
    ] = None,
    serial: convert_options.SerialOption = None,
    overlap: convert_options.OverlapOption = True,
    gcd: convert_options.GcdOption = False,
    capacities: convert_options.CapacitiesOption = None,
    capacities_as: convert_options.CapacitiesAsOption = None,
    network: ModelGroup,
    goals: goal_options.GoalGroup,
    device: goal_options.DeviceOption = None,
    memories: memory_options.MemoriesGroup,
) -> None:
    """Convert a model to a CSDF graph: SDF3 .xml, lossless .json, or .dot to draw; a summary
    without -o.

    The default command: `csdfgen model.onnx -o graph.xml` does it too.
    """
    from csdfgen.cli.convert import FormOptions, run_convert

    room = parse_capacities(capacities or ())
    run_convert(
        model,
        output,
        rates.value if rates else None,
        tokens.value if tokens else None,
        network.read({**goals.read(device), **memories.read()}),
        FormOptions(serial, overlap, gcd, room, capacities_as.value if capacities_as else None),
    )


@app.command(
    cls=Command,
    epilog="Examples:\n\n  csdfgen schedule model.onnx -o plan.json --rows 4\n\n"
    "  csdfgen schedule model.onnx --chart memory -o memory.svg\n\n"
    "  csdfgen schedule model.onnx --memory 512KiB -o plan.json\n\n"
    "  csdfgen schedule model.onnx --requests 16 --memory 2MiB -o plan.json\n\n"
    "  csdfgen schedule model.onnx --memory 256KiB --formats mixed --calibrate x.npz -o plan.json\n\n"
    "  csdfgen schedule model.onnx --fast 256KiB --slow 8MiB\n\n"
    "  csdfgen schedule model.onnx --pareto --device host -o plans\n\n  csdfgen schedule graph.xml",
)
@grouped
def schedule(
    model: ModelArgument,
    *,
    output: _OutputOption = None,
    network: ModelGroup,
    goals: goal_options.GoalGroup,
    device: goal_options.DeviceOption = None,
    pareto: goal_options.ParetoOption = False,
    as_json: goal_options.JsonOption = False,
    memories: memory_options.MemoriesGroup,
    formats: format_options.FormatsGroup,
    items: memory_options.ItemsOption = None,
    offsets: memory_options.OffsetsOption = None,
    policy: schedule_options.PolicyOption = None,
    periodic: schedule_options.PeriodicOption = False,
    capacities: schedule_options.CapacitiesOption = None,
    gantt: picture_options.GanttOption = None,
    chart: picture_options.ChartOption = None,
) -> None:
    """Find a firing order and buffers: of a model with offsets in one arena, of any CSDF graph with
    capacities.

    The file holds the firings as loops, capacities, offsets and memory figures; `run --plan`
    executes it, that of a graph too if the graph was made from a model. With --periodic it holds
    start times that repeat, of the highest throughput.
    """
    from csdfgen.cli.capacities import parse_capacities
    from csdfgen.cli.schedule import ScheduleRequest, run_schedule
    from csdfgen.cli.schedule_graph import GraphScheduling

    options = network.read({**goals.read(device), **memories.read()})
    asked = GraphScheduling(periodic, parse_capacities(capacities or ()), gantt)
    order = policy.value if policy else None
    run_schedule(
        ScheduleRequest(
            model,
            output,
            options,
            order,
            asked,
            pareto,
            as_json,
            chart,
            items,
            offsets,
            formats.read(),
            memories.table(),
        )
    )


@app.command(
    cls=RunCommand,
    epilog="Examples:\n\n  csdfgen run model.onnx --check\n\n  csdfgen run model.onnx --rows 1 --check layers\n\n"
    "  csdfgen run model.onnx --input photo.jpg --resize --mean 123.7,116.3,103.5 --std 58.4,57.1,57.4 --labels classes.txt\n\n"
    "  csdfgen run model.onnx --input left=a.npy --input right=b.npy --output y.npz\n\n"
    "  csdfgen schedule model.onnx -o plan.json && csdfgen run model.onnx --plan plan.json --check",
)
@grouped
def run(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="ONNX model, or zoo:NAME\\[@HEIGHTxWIDTH].", show_default=False
        ),
    ],
    *,
    plan: run_options.PlanOption = None,
    network: ModelGroup,
    goals: goal_options.GoalGroup,
    device: goal_options.DeviceOption = None,
    pareto: goal_options.ParetoOption = False,
    memories: memory_options.MemoriesGroup,
    inputs: run_options.InputOption = None,
    output: run_options.OutputOption = None,
    seed: run_options.SeedOption = 0,
    resize: run_options.ResizeOption = False,
    mean: run_options.MeanOption = None,
    std: run_options.StdOption = None,
    layout: run_options.LayoutOption = None,
    labels: run_options.LabelsOption = None,
    check: run_options.CheckOption = None,
    trace: run_options.TraceOption = None,
    layers: run_options.LayersOption = False,
    as_json: run_options.JsonOption = False,
    threads: run_options.ThreadsOption = 1,
    repeat: run_options.RepeatOption = 1,
) -> None:
    """Execute a model in row slabs, in one arena, and measure it; --check compares with
    onnxruntime.
    """
    if check not in (None, *CHECKS):
        raise typer.BadParameter(f"'{check}' is not 'layers'", param_hint="--check")
    from csdfgen.cli.run import RunRequest, run_model
    from runtime.images import ImageOptions, parse_channel_values

    run_model(
        RunRequest(
            model=model,
            plan=plan,
            options=network.read({**goals.read(device), **memories.read()}),
            inputs=tuple(inputs or ()),
            output=output,
            result=goals.result.value if goals.result is not None else "stored",
            check=check,
            as_json=as_json,
            seed=seed,
            images=ImageOptions(
                resize,
                parse_channel_values("--mean", mean),
                parse_channel_values("--std", std),
                layout,
            ),
            labels=labels,
            threads=threads,
            repeat=repeat,
            pareto=pareto,
            trace=trace,
            layers=layers,
        )
    )


@app.command(
    cls=Command,
    epilog="Examples:\n\n  csdfgen report model.onnx -o report.html\n\n"
    "  csdfgen report zoo:squeezenet1_1 --rows 1 --device cortex-m7\n\n"
    "  csdfgen report plan.json --model model.onnx --no-measure",
)
@grouped
def report(
    model: page_options.PlanArgument,
    *,
    output: page_options.PageOption = None,
    of: page_options.ModelOption = None,
    network: ModelGroup,
    goals: goal_options.GoalGroup,
    memories: memory_options.MemoriesGroup,
    policy: page_options.PolicyOption = None,
    device: page_options.DeviceOption = None,
    measure: page_options.MeasureOption = True,
    repeat: page_options.RepeatOption = 5,
) -> None:
    """Write one page to look at: memory over the firings of a frame, the arena, phases, layers, what
    causes the peak, and the comparison with onnxruntime, measured here.

    The page is report.html without -o. It loads nothing, and can be printed.
    """
    from csdfgen.cli.plans import Asked
    from csdfgen.cli.report import ReportRequest, run_report

    wishes = goals.read() if is_graph_file(model) else goals.read(device)
    wishes = {**wishes, **memories.read()}
    asked = Asked(model, network.read(wishes), policy.value if policy else None, of)
    run_report(ReportRequest(asked, output or Path("report.html"), device, measure, repeat))


@app.command(
    "emit-c",
    cls=Command,
    epilog="Examples:\n\n  csdfgen emit-c model.onnx -o model && make -C model\n\n"
    "  csdfgen emit-c zoo:resnet8 -o resnet8 --target cortex-m7 --goal memory\n\n"
    "  csdfgen emit-c plan.json --model model.onnx -o model --force",
)
@grouped
def emit_c(
    model: page_options.PlanArgument,
    *,
    output: emit_options.FolderOption,
    target: emit_options.TargetOption = "host",
    force: emit_options.ForceOption = False,
    of: page_options.ModelOption = None,
    network: ModelGroup,
    goals: goal_options.GoalGroup,
    memories: memory_options.MemoriesGroup,
    policy: page_options.PolicyOption = None,
    device: goal_options.DeviceOption = None,
) -> None:
    """Write a plan as C that needs nothing but a compiler: tables, the kernels that they name, a
    program that runs it on files, a Makefile and a CMakeLists.txt.

    NAME.h says what is called: NAME_run with whole arrays, NAME_push_row with rows as they come.
    """
    from csdfgen.cli.emit import EmitRequest, run_emit
    from csdfgen.cli.plans import Asked

    wishes = {**goals.read(device), **memories.read()}
    asked = Asked(model, network.read(wishes), policy.value if policy else None, of)
    run_emit(EmitRequest(asked, output, target, force))


@app.command(
    cls=Command,
    epilog="Examples:\n\n  csdfgen bundle model.onnx                      # on the board: tar xmzf, make result.json\n\n"
    "  csdfgen bundle zoo:resnet8 -o resnet8.tar.gz --target cortex-m7 --heights 1,2,4\n\n"
    "  csdfgen profile --import result.json -o board.toml",
)
@grouped
def bundle(
    model: page_options.PlanArgument,
    *,
    output: emit_options.ArchiveOption = None,
    target: emit_options.TargetOption = "host",
    heights: emit_options.HeightsOption = "",
    of: page_options.ModelOption = None,
    network: ModelGroup,
    goals: goal_options.GoalGroup,
    memories: memory_options.MemoriesGroup,
    policy: page_options.PolicyOption = None,
    device: goal_options.DeviceOption = None,
) -> None:
    """Pack a plan as C and a program that times the network's layers, for a board that has a compiler
    and make, but no Python.

    Its result becomes a device profile: csdfgen profile --import result.json.
    """
    from csdfgen.cli.bundle import BundleRequest, run_bundle
    from csdfgen.cli.plans import Asked

    wishes = {**goals.read(device), **memories.read()}
    asked = Asked(model, network.read(wishes), policy.value if policy else None, of)
    run_bundle(BundleRequest(asked, output, target, heights))


@app.command(
    cls=Command,
    epilog="Examples:\n\n  csdfgen compare before.json after.json\n\n  csdfgen compare model.onnx model.onnx+rows=1\n\n"
    "  csdfgen compare zoo:resnet18+policy=demand zoo:resnet18+policy=eager -o page.html",
)
def compare(
    a: page_options.SideArgument,
    b: page_options.SideArgument,
    output: page_options.PageOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of the tables.")
    ] = False,
) -> None:
    """Show two plans beside each other: figures, order, and the layers that differ."""
    from csdfgen.cli.compare import CompareRequest, names_of, run_compare
    from csdfgen.cli.plans import parse_asked

    sides = parse_asked(a), parse_asked(b)
    run_compare(CompareRequest(names_of((a, b)), sides, output, as_json))


@app.command(
    cls=Command,
    epilog="Examples:\n\n  csdfgen reproduce table2\n\n  csdfgen reproduce all --json out.json\n\n"
    "  csdfgen reproduce findings\n\n  csdfgen reproduce paper003\n\n  csdfgen reproduce vbs",
)
def reproduce(
    part: Annotated[
        Part,
        typer.Argument(metavar="fig1|table2|table3|all|findings|paper003|vbs", show_default=False),
    ],
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all cells as JSON.")
    ] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write all cells as CSV.")
    ] = None,
    counting: Annotated[
        Counting,
        typer.Option(
            "--counting",
            help="Table III as its authors counted, as our schedules need it (executed), or both.",
        ),
    ] = Counting.both,
) -> None:
    """Compute the figure and tables of the base paper (Minakova and Stefanov 2020) beside what it
    prints.

    `findings` shows what that turned up about its algorithm, its capacities and its counting;
    docs/paper.md explains it. `paper003` computes the tables, claims and examples of the OpenCL Caffe
    paper of 2018 (number formats, blob reuse, experts); docs/paper003.md explains them. `vbs` computes
    what the paper of 2020 on variable batch sizes across layers prints, and models what it measured;
    docs/batches.md explains it.
    """
    from csdfgen.cli.reproduce import run_reproduce

    run_reproduce(part.value, json_file, csv_file, counting.value)


@app.command(
    cls=Command,
    epilog="Examples:\n\n  csdfgen analyze model.onnx --device jetson-tx2\n\n"
    "  csdfgen analyze model.onnx --device cortex-m7 --rows 1 --json\n\n"
    "  csdfgen profile model.onnx -o host.toml && csdfgen analyze model.onnx --device host --csv layers.csv\n\n"
    "  csdfgen analyze graph.xml --throughput --latency\n\n  csdfgen analyze zoo:cnn5 --buffers\n\n"
    "  csdfgen analyze graph.xml --throughput --capacities ab=4,bc=2\n\n"
    "  csdfgen analyze graph.xml --buffers --at-throughput 1/5 --unit bytes --json\n\n"
    "  csdfgen analyze graph.xml --throughput --buffers --engine sdf3 --sdf3 ~/sdf3\n\n"
    "  csdfgen analyze graph.xml --buffers --gantt gantt.svg --occupancy occupancy.svg --dot graph.dot",
)
@grouped
def analyze(
    model: ModelArgument,
    *,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="NAME|FILE.toml",
            help="Memory, time and frames per second there; see csdfgen devices.",
        ),
    ] = None,
    asked: analyze_options.QuestionGroup,
    how: analyze_options.AnswerGroup,
    pictures: picture_options.PictureGroup,
    network: ModelGroup,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of the report.")
    ] = False,
    csv: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Write the times of the layers as a table."),
    ] = None,
) -> None:
    """Say what a model needs and what it would do on a device, and how fast any CSDF graph is in
    which buffers.

    A model alone: its memory; with --device time a layer and a phase, frames per second. A graph
    alone: consistency, liveness, throughput. Asked about dataflow, a model is converted first: a
        token a row, no actor overlaps with itself.
    """
    from csdfgen.cli.analyze import run_analyze
    from csdfgen.cli.sections import AnalyzeRequest

    questions = analyze_options.graph_questions(asked, how, pictures.read())
    run_analyze(AnalyzeRequest(model, network.read(), device, as_json, csv, questions))


@app.command(
    cls=Command,
    epilog="Examples:\n\n  csdfgen sweep spec.toml -o results.parquet\n\n  csdfgen sweep spec.toml -o results.csv --jobs 4\n\n"
    "  csdfgen sweep spec.toml -o results.parquet --on dask://scheduler:8786",
)
def sweep(
    spec: sweep_options.SpecArgument,
    *,
    output: sweep_options.TableOption,
    jobs: sweep_options.JobsOption = None,
    on: sweep_options.OnOption = None,
    timings: sweep_options.TimingsOption = False,
) -> None:
    """Plan models in many ways, into one table and one picture: budgets, devices, batchings, formats, whatever
    `schedule` takes.

    Finished points are kept: broken off, however that was, the same command goes on and gives the same table.
    """
    if jobs is not None and on is not None:
        raise typer.BadParameter(
            "is of this machine; leave --jobs or --on out", param_hint="--jobs"
        )
    from csdfgen.cli.sweep import SweepRequest, run_sweep

    run_sweep(SweepRequest(spec, output, jobs or os.cpu_count() or 1, on, timings))


machine_commands.add_to(app)
format_commands.add_to(app)


@app.command(
    cls=Command,
    epilog="Examples:\n\n  csdfgen operators\n\n  csdfgen operators Conv\n\n  csdfgen operators --json",
)
def operators(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Show this one.", show_default=False),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: a list, or one object for one operator.")
    ] = False,
) -> None:
    """List the ONNX operators that are supported, or show what is accepted of one: attributes and
    their defaults, its phases, notes.
    """
    from csdfgen.cli.operators import run_operators

    run_operators(name, as_json)


@app.command(cls=Command)
def doctor() -> None:
    """Show versions, threads, and what could be in the way; exit 1 if something is."""
    from csdfgen.cli.doctor import run_doctor

    run_doctor()
