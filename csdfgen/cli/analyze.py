"""`csdfgen analyze`: what does a model need, and what would it do on a device? Questions about dataflow, of any
graph, are answered in `analyze_graph`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from csdfgen.cli.command import Command
from csdfgen.cli.options import (
    CAPACITIES,
    JSON,
    OUTPUT,
    Cut,
    ModelArgument,
    Tokens,
    check_picture,
    is_graph_file,
)
from csdfgen.cli.schedule import PICTURES, Gantt
from csdfgen.cli.terminal import (
    Progress,
    csv_text,
    dim_text,
    escape,
    figures_table,
    say,
    say_json,
    show_progress,
    table,
)
from csdfgen.errors import InputError
from csdfgen.files import write_bytes
from csdfgen.model.options import CONVERSION, DEFAULTS, declare
from csdfgen.model.units import pluralize

if TYPE_CHECKING:
    from csdfgen.cli.options import Asked
    from csdfgen.devices.memory import FittingHeight
    from csdfgen.devices.model import Estimate
    from csdfgen.devices.profile import DeviceProfile
    from csdfgen.emission.account import Account, Demand
    from csdfgen.planning.plan import Plan


_QUESTIONS, _HOW = "Questions about dataflow", "Methods and limits"

_RATIO = re.compile(r"[0-9]{1,60}(?:/(?P<divisor>[0-9]{1,60})|\.[0-9]{1,60})?")

Part = str | Table | Text
"""What is printed of an answer."""


@dataclass(frozen=True, slots=True)
class Section:
    """An answer: members of the JSON object, and what is printed, made when it is."""

    values: dict[str, Any]
    parts: Iterable[Part]


Report = tuple[str, list[Section], list[tuple[Any, ...]]]
"""A line that says what was analysed, the answers, and the rows of the CSV file."""


@dataclass(frozen=True, kw_only=True)
class Analyze(Command):
    """Report the memory of a model and its predicted time on a device, or the throughput and buffers of any CSDF graph.

    For a model: its memory, and with --device the time of each layer and phase and the frames per second. For a graph:
    consistency, liveness, throughput. For questions about dataflow, a model is first converted, with a row as the token
    and without auto-concurrency.
    """

    examples = (
        "csdfgen analyze model.onnx --device jetson-tx2",
        "csdfgen analyze model.onnx --device cortex-m7 --rows 1 --json",
        "csdfgen profile model.onnx -o host.toml && csdfgen analyze model.onnx --device host --csv layers.csv",
        "csdfgen analyze graph.xml --throughput --latency",
        "csdfgen analyze zoo:cnn5 --buffers",
        "csdfgen analyze graph.xml --throughput --capacities ab=4,bc=2",
        "csdfgen analyze graph.xml --buffers --at-throughput 1/5 --unit bytes --json",
        "csdfgen analyze graph.xml --throughput --buffers --engine sdf3 --sdf3 ~/sdf3",
        "csdfgen analyze graph.xml --buffers --gantt gantt.svg --occupancy occupancy.svg --dot graph.dot",
    )

    model: ModelArgument
    device: str | None = declare(
        "Predict memory, time and frames per second on this device; see csdfgen devices.",
        None,
        "NAME|FILE.toml",
    )
    throughput: bool = declare(
        "The exact throughput in iterations per time unit, and what limits it.",
        False,
        panel=_QUESTIONS,
    )
    buffers: bool = declare(
        "The least total buffer size for each throughput, proven or with a gap.",
        False, panel=_QUESTIONS,
    )  # fmt: skip
    latency: bool = declare(
        "The time of one iteration, and the maximum occupancy of each channel.",
        False, panel=_QUESTIONS,
    )  # fmt: skip
    deadlock: bool = declare(
        "Which actors wait for each other, and how many tokens each lacks.", False, panel=_QUESTIONS
    )
    output: Path | None = declare(
        "With --buffers: write the least storage and a firing order within it, for csdfgen run --plan.",
        None, "FILE.json", _QUESTIONS, names=OUTPUT,
    )  # fmt: skip
    engine: Literal["auto", "native", "sdf3", "kiter"] | None = declare(
        "native: exact, built in; sdf3, kiter: these tools if they are installed (see csdfgen doctor), checked by "
        "the built-in analysis; Kiter computes throughput only.",
        None, panel=_HOW, shown="auto, native",
    )  # fmt: skip
    sdf3: Path | None = declare(
        "With --engine sdf3: its folder, or the sdf3analysis-csdf binary.",
        None, "PATH", _HOW, shown="$CSDFGEN_SDF3, then the PATH",
    )  # fmt: skip
    kiter: Path | None = declare(
        "With --engine kiter: its folder, or the kiter binary.",
        None, "PATH", _HOW, shown="$CSDFGEN_KITER, then the PATH",
    )  # fmt: skip
    timeout: float | None = declare(
        "With --engine sdf3 or kiter: time limit of each run, in seconds.",
        None, "N", _HOW, low=0.1, high=1e6, shown="60",
    )  # fmt: skip
    storage: Literal["live", "maximal", "front"] | None = declare(
        "Buffers: the least storage without deadlock, with maximal throughput, or the whole Pareto front.",
        None, panel=_HOW, shown="front",
    )  # fmt: skip
    at_throughput: str | None = declare(
        "Buffers: the least storage for this throughput.", None, "P/Q", _HOW
    )
    unit: Literal["tokens", "bytes"] | None = declare(
        "With --buffers and --occupancy: the unit of storage.",
        None, panel=_HOW, shown="tokens for a graph, bytes for a model",
    )  # fmt: skip
    seconds: float | None = declare(
        "With --buffers: time limit of the search, after which bounds are reported.",
        None, "N", _HOW, low=0.0, high=1e6, shown="10",
    )  # fmt: skip
    method: Literal["auto", "cycle-ratio", "self-timed", "1-periodic"] | None = declare(
        "Throughput by maximum cycle ratio, by self-timed execution (with transient and period), or a 1-periodic "
        "bound.",
        None, panel=_HOW, shown="auto",
    )  # fmt: skip
    capacities: list[str] | None = declare(
        "Channel capacities in tokens: by channel, from a schedule (.json), or the buffer sizes of a graph (.xml); "
        "other channels are unbounded; repeatable.",
        None, CAPACITIES, _HOW,
    )  # fmt: skip
    overlap: bool | None = declare(
        "Include self-loops for the rows that a layer keeps between phases.",
        None, panel=_HOW, names=("--overlap/--no-overlap",),
        shown="a graph file unchanged, a model without",
    )  # fmt: skip
    tokens: Tokens | None = declare(
        "The token of a model's graph: an element or a row.", None, panel=_HOW, shown="rows"
    )
    gantt: Gantt = None
    occupancy: Path | None = declare(
        "The tokens of every channel over time, with capacities marked.", None, "FILE.svg", PICTURES
    )
    dot: Path | None = declare(
        "The graph for Graphviz, with capacities and the critical cycle.",
        None,
        "FILE.dot",
        PICTURES,
    )
    draw: Literal["self-timed", "static", "periodic"] | None = declare(
        "The execution that the charts show: self-timed, the static order of one processor, or periodic; within the "
        "least storage found by --buffers, else within --capacities.",
        None, panel=PICTURES, shown="self-timed",
    )  # fmt: skip
    cut: Cut
    as_json: bool = declare("Print one JSON object instead of text.", False, names=JSON)
    csv: Path | None = declare("Write the layer times as a table.", None, "FILE")

    def run(self) -> None:
        """Answer what was asked about a model or a graph. Raises CsdfgenError."""
        asked = self.cut.read()
        self._check()
        with show_progress() as progress:
            title, sections, rows = self._report(asked, progress)
        if self.csv is not None:
            from csdfgen.devices.model import COLUMNS

            write_bytes(self.csv, csv_text([COLUMNS, *rows]))
        if self.as_json:
            say_json({name: value for one in sections for name, value in one.values.items()})
            return
        say(f"{title}\n")
        for section in sections:
            for part in section.parts:
                say(part, wrap=False)

    # What is asked ------------------------------------------------------------------------------

    @property
    def pictures(self) -> dict[str, Path]:
        """Option (without dashes) -> file to be drawn."""
        names = ("gantt", "occupancy", "dot")
        return {name: path for name in names if (path := getattr(self, name)) is not None}

    @property
    def wanted(self) -> Literal["none", "live", "maximal", "front"]:
        """Which storage is looked for."""
        asked = self.buffers or self.storage is not None or self.at_throughput is not None
        return (self.storage or "front") if asked else "none"

    @property
    def target(self) -> Fraction | None:
        """The throughput to be reached, above 0. Raises typer.BadParameter."""
        text = self.at_throughput
        if text is None:
            return None
        match = _RATIO.fullmatch(text)
        value = Fraction(text) if match is not None and int(match["divisor"] or 1) else Fraction(0)
        if not value:
            raise typer.BadParameter(
                f"'{text}' is not a throughput above 0, such as 1/5", param_hint="--at-throughput"
            )
        return value

    @property
    def asked(self) -> bool:
        """Whether there is a question about dataflow; pictures are one."""
        sized = self.wanted != "none"
        questions = self.throughput, sized, self.latency, self.deadlock, self.pictures
        return any(questions)

    def _check(self) -> None:
        """Raise typer.BadParameter for options that contradict each other, InputError for files."""
        engine, target = self.engine or "auto", self.target
        tool = engine in ("sdf3", "kiter")
        ours = f"is about the engine here; --engine {engine} has none"
        charts = self.gantt is not None or self.occupancy is not None
        no_buffers, about_buffers = self.wanted == "none", "is about buffers; add --buffers"
        for option, wrong, said in (
            ("storage", target is not None, "asks for other storage than --at-throughput; give one of them"),
            ("unit", no_buffers and self.occupancy is None, about_buffers),
            ("seconds", no_buffers, about_buffers),
            ("output", no_buffers, about_buffers),
            ("sdf3", engine != "sdf3", "is about a tool; add --engine sdf3"),
            ("kiter", engine != "kiter", "is about a tool; add --engine kiter"),
            ("timeout", not tool, "is about a tool; add --engine sdf3 or kiter"),
            ("method", tool, ours),
            ("seconds", tool, ours),
            ("occupancy", self.gantt == self.occupancy, f"'{self.gantt}' is given twice; two charts are two files"),
            ("draw", not charts, "says what charts show; add --gantt FILE.svg or --occupancy FILE.svg"),
        ):  # fmt: skip
            if wrong and getattr(self, option) is not None:
                raise typer.BadParameter(said, param_hint=f"--{option}")
        for name, path in self.pictures.items():
            check_picture(f"--{name}", path, ".dot" if name == "dot" else ".svg")
        if self.csv is not None and self.device is None:
            raise InputError(
                "--csv writes the layers' times; give --device NAME (csdfgen devices lists them)"
            )
        if self.output is not None and self.output.suffix.lower() != ".json":
            raise InputError(
                "a schedule with its buffers is written as .json", where=str(self.output)
            )

    # Models -------------------------------------------------------------------------------------

    def _report(self, asked: Asked, progress: Progress) -> Report:
        if is_graph_file(self.model):
            from csdfgen.cli.analyze_graph import answer_graph

            return answer_graph(self, [flag for flag, *_ in asked.typed()], progress)
        names = ("engine", "method", "overlap", "tokens")
        how = [name for name in names if getattr(self, name) is not None]
        how += ["capacities"] * bool(self.capacities)
        if not self.asked and how:
            raise InputError(
                f"--{how[0]} says how a question about dataflow is answered; add --throughput, --buffers, --latency or "
                "--deadlock"
            )
        return self._about_model(asked, progress)

    def _about_model(self, asked: Asked, progress: Progress) -> Report:
        """Answer what was asked about a model: its memory if nothing was. Raises CsdfgenError."""
        from csdfgen.cli.models import load_network, network_graph, plan_network
        from csdfgen.devices.catalogue import device
        from csdfgen.devices.memory import account_device_memory

        if self.asked:  # a phase for every output row, where nothing else is said
            asked = replace(asked, given={"rows": "paper", **asked.given})
        profile = device(self.device) if self.device is not None else None
        if profile is not None and profile.memory.parameters:  # in flash
            asked = replace(asked, given={"count": "activations", **asked.given})
        progress("loading")
        network = load_network(self.model, asked)
        titles: list[str] = []
        sections: list[Section] = []
        rows: list[tuple[Any, ...]] = []
        if profile is not None or not self.asked:
            progress("planning")
            plan = plan_network(network, asked, progress)
            layers = pluralize(len(plan.network.layers), "layer")
            titles.append(f"{layers} in {pluralize(plan.firings, 'firing')}")
            account = account_device_memory(plan, profile)
            values = {"memory": dict(plan.figures), "account": account.to_json()}
            shown = figures_table(plan.figures), f"\naccount    {account}"
            sections.append(Section(values, shown))
            if profile is not None:
                section, rows = _device_section(plan, account, profile, self.model, asked, progress)
                sections.append(section)
        if self.asked:
            from csdfgen.cli.analyze_graph import graph_sections, remove_overlap
            from csdfgen.cli.graphs import graph_sizes
            from csdfgen.dataflow.graph import add_serial_loops

            progress("converting")
            graph = add_serial_loops(network_graph(network, asked, tokens=self.tokens or "rows"))
            subject, left_out = (graph, ()) if self.overlap else remove_overlap(graph)
            titles.append(graph_sizes(subject))
            # rows of tensors of different widths do not add up
            command = replace(self, unit=self.unit or "bytes")
            sections += graph_sections(command, subject, left_out, progress)
        settings = {name: asked.given.get(name, getattr(DEFAULTS, name)) for name in CONVERSION}
        given = " ".join(f"--{name} {value}" for name, value in settings.items())
        title = f"{escape(self.model)}: {'; '.join(titles)}, {given}"
        return title, [Section({"model": self.model, **settings}, ()), *sections], rows


# Devices ----------------------------------------------------------------------------------------


def _device_section(
    plan: Plan,
    account: Account,
    profile: DeviceProfile,
    model: str,
    asked: Asked,
    progress: Progress,
) -> tuple[Section, list[tuple[Any, ...]]]:
    """What a plan needs and takes on a device, and a row of `COLUMNS` for each layer. Raises CsdfgenError."""
    from csdfgen.cli.models import load_network
    from csdfgen.devices.memory import demands, tallest_height
    from csdfgen.devices.model import estimate

    found, needs, height = estimate(plan, profile), demands(account, profile), None
    if not needs[0].fits:
        progress("looking for a slab height that fits")
        # the plan's own network is fused already; heights are tried on the network as it was loaded
        height = tallest_height(load_network(model, asked), profile, plan.options)
    values = {
        "name": profile.name,
        "title": profile.title,
        "memory": [
            {"what": n.what, "needed": n.needed, "usable": n.there, "fits": n.fits} for n in needs
        ],
        "fits": all(demand.fits for demand in needs),
        "rows_that_fit": height.rows if height is not None else str(plan.conversion.rows),
        **found.to_json(),
        "notes": list(profile.notes),
    }
    shown = _of_device(profile, found, needs, height)
    return Section({"device": values}, shown), found.rows()


def _of_device(
    profile: DeviceProfile, found: Estimate, needs: tuple[Demand, ...], height: FittingHeight | None
) -> Iterator[Part]:
    yield f"\n{escape(profile.name)}: {escape(profile.title)}\n"
    rows = (
        (
            one.name, one.function, str(one.phases), str(one.rows), f"{1e3 * one.seconds:,.3f}",
            f"{one.seconds / found.seconds:.1%}" if found.seconds else "", f"{1e6 * one.phase:,.1f}",
            dim_text(f"{one.origin}: {one.how}"),
        )
        for one in found.layers if one.phases
    )  # fmt: skip
    numbers = ("> phases", "> rows", "> ms", "> share", "> us a phase")
    yield table("layer", "operator", *numbers, "origin", rows=rows)
    views = sum(not layer.phases for layer in found.layers)
    if views:
        yield f"and {pluralize(views, 'layer that computes', 'layers that compute')} nothing (views)"
    yield ""
    yield from _of_memory(needs, height)
    yield from _of_times(profile, found)
    for note in profile.notes:
        yield f"note       {escape(note)}"


def _of_memory(needs: tuple[Demand, ...], height: FittingHeight | None) -> Iterator[str]:
    from csdfgen.cli.show import fit_said

    yield from map(fit_said, needs)
    if not all(need.fits for need in needs[1:]):
        yield "           slab heights hardly change the constants; quantize the model"
    if height is not None and height.rows is not None:
        yield (
            f"           --rows {height.rows} would fit, the tallest of 1, 2, 4, ..., whole: {needs[0].what} take "
            f"{height.least_needed:,} bytes"
        )
    elif height is not None:
        yield (
            f"           no height of 1, 2, 4, ..., whole fits: the least, --rows {height.least_rows}, takes "
            f"{height.least_needed:,} bytes"
        )


def _of_times(profile: DeviceProfile, found: Estimate) -> Iterator[str]:
    by_share = sorted(found.origins.items(), key=lambda item: -item[1])
    shares = ", ".join(f"{share:.0%} {origin}" for origin, share in by_share) or "none"
    launches = sum(layer.launch for layer in found.layers)
    yield (
        f"sequential {1e3 * found.seconds:,.3f} ms a frame, {_fps(found.seconds)}, "
        f"{1e3 * launches:,.3f} ms of it for phase launches; origin of the numbers: {shares}"
    )
    cores = int(profile.processor.cores.value)
    if cores > 1:
        yield (
            f"pipelined  {_fps(found.pipelined)}, limited by {found.limit}: layers in their order dealt out to "
            f"{pluralize(cores, 'core')} of equal speed, several frames in flight, whose buffers are not in the arena; "
            "modelled"
        )
    else:
        yield f"pipelined  {_fps(found.seconds)}: the profile has one core, nothing to pipeline over"
    if found.energy is None:
        yield "energy     no source gives it"
    else:
        at_most, said = _energy_said(profile)
        yield f"energy     {at_most}{1e3 * found.energy:,.1f} mJ a frame: {said}"


def _energy_said(profile: DeviceProfile) -> tuple[str, str]:
    """Whether an energy is a bound, and what it is made of."""
    processor, power = profile.processor, profile.processor.power
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
