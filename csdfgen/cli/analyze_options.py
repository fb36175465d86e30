"""What can `analyze` be asked about dataflow, and how is that typed? Options with their values,
read into one request.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from csdfgen.cli.capacities import CAPACITIES, Capacities, parse_capacities
from csdfgen.cli.options import Tokens
from csdfgen.cli.picture_options import Pictures

__all__ = [
    "AnswerGroup",
    "Engine",
    "GraphQuestions",
    "QuestionGroup",
    "Storage",
    "ThroughputMethod",
    "Unit",
    "graph_questions",
]

_QUESTIONS, _HOW = "Questions about dataflow", "How they are answered"
"""Headings in the help."""

_RATIO = re.compile(r"[0-9]{1,60}(?:/(?P<divisor>[0-9]{1,60})|\.[0-9]{1,60})?")


class Engine(str, enum.Enum):
    """Who computes."""

    auto = "auto"
    native = "native"
    sdf3 = "sdf3"
    kiter = "kiter"


class Unit(str, enum.Enum):
    """What the size of storage is counted in."""

    tokens = "tokens"
    bytes = "bytes"


class Storage(str, enum.Enum):
    """Which storage distributions are looked for."""

    live = "live"
    maximal = "maximal"
    front = "front"


class ThroughputMethod(str, enum.Enum):
    """How throughput is computed; values of `schedules.throughput.METHODS`."""

    auto = "auto"
    cycle_ratio = "cycle-ratio"
    self_timed = "self-timed"
    one_periodic = "1-periodic"


@dataclass(frozen=True, slots=True)
class QuestionGroup:
    """What is asked, as typed."""

    throughput: Annotated[
        bool,
        typer.Option(
            "--throughput",
            rich_help_panel=_QUESTIONS,
            help="Iterations per time unit, exact, and what limits them.",
        ),
    ] = False
    buffers: Annotated[
        bool,
        typer.Option(
            "--buffers",
            rich_help_panel=_QUESTIONS,
            help="Capacities of least total size against throughput, proven or with the gap.",
        ),
    ] = False
    latency: Annotated[
        bool,
        typer.Option(
            "--latency",
            rich_help_panel=_QUESTIONS,
            help="Time of one iteration, and the most tokens each channel then holds.",
        ),
    ] = False
    deadlock: Annotated[
        bool,
        typer.Option(
            "--deadlock",
            rich_help_panel=_QUESTIONS,
            help="Who waits for whom, and how many tokens each lacks.",
        ),
    ] = False
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.json",
            rich_help_panel=_QUESTIONS,
            help="With --buffers: write the least storage with a firing order that keeps it, for csdfgen run --plan.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class AnswerGroup:
    """How it is answered, as typed; None where nothing was said."""

    engine: Annotated[
        Engine | None,
        typer.Option(
            "--engine",
            rich_help_panel=_HOW,
            help="native: our own, exact; sdf3, kiter: these tools where they are installed (csdfgen doctor shows it), checked "
            "by our own; Kiter for throughput only. \\[default: auto, native]",
            show_default=False,
        ),
    ] = None
    sdf3: Annotated[
        Path | None,
        typer.Option(
            "--sdf3",
            metavar="PATH",
            rich_help_panel=_HOW,
            help="With --engine sdf3: its folder, or sdf3analysis-csdf itself. \\[default: $CSDFGEN_SDF3, then the PATH]",
            show_default=False,
        ),
    ] = None
    kiter: Annotated[
        Path | None,
        typer.Option(
            "--kiter",
            metavar="PATH",
            rich_help_panel=_HOW,
            help="With --engine kiter: its folder, or kiter itself. \\[default: $CSDFGEN_KITER, then the PATH]",
            show_default=False,
        ),
    ] = None
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="N",
            min=0.1,
            max=1e6,
            rich_help_panel=_HOW,
            help="With --engine sdf3 or kiter: seconds that each run of the tool may take. \\[default: 60]",
            show_default=False,
        ),
    ] = None
    storage: Annotated[
        Storage | None,
        typer.Option(
            "--storage",
            rich_help_panel=_HOW,
            help="Buffers: the least storage without deadlock, that for the highest throughput, or all between. "
            "\\[default: front]",
            show_default=False,
        ),
    ] = None
    at_throughput: Annotated[
        str | None,
        typer.Option(
            "--at-throughput",
            metavar="P/Q",
            rich_help_panel=_HOW,
            help="Buffers: the least storage for this throughput.",
        ),
    ] = None
    unit: Annotated[
        Unit | None,
        typer.Option(
            "--unit",
            rich_help_panel=_HOW,
            help="With --buffers: what is least, tokens or bytes; --occupancy draws it. \\[default: of a graph tokens, of a "
            "model bytes, as its rows differ in width]",
            show_default=False,
        ),
    ] = None
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            metavar="N",
            min=0.0,
            max=1e6,
            rich_help_panel=_HOW,
            help="With --buffers: how long the least storage is looked for before bounds are given. \\[default: 10]",
            show_default=False,
        ),
    ] = None
    method: Annotated[
        ThroughputMethod | None,
        typer.Option(
            "--method",
            rich_help_panel=_HOW,
            help="Throughput by the maximum cycle ratio, by self-timed execution (with transient and period), or a 1-periodic "
            "bound. \\[default: auto]",
            show_default=False,
        ),
    ] = None
    capacities: Annotated[
        list[str] | None,
        typer.Option(
            "--capacities",
            metavar=CAPACITIES,
            rich_help_panel=_HOW,
            help="Room in tokens that limits throughput, latency and liveness, by channel, as in a schedule (.json), or by the "
            "buffer sizes of a graph (.xml); other channels are unbounded; repeatable.",
        ),
    ] = None
    overlap: Annotated[
        bool | None,
        typer.Option(
            "--overlap/--no-overlap",
            rich_help_panel=_HOW,
            help="With or without self-loops for the rows that a layer keeps between phases. \\[default: a graph file as it is, "
            "a model without]",
            show_default=False,
        ),
    ] = None
    tokens: Annotated[
        Tokens | None,
        typer.Option(
            "--tokens",
            rich_help_panel=_HOW,
            help="A token of a model's graph is an element or a row. \\[default: rows]",
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class GraphQuestions:
    """What is asked about a graph, and how; None where the user said nothing.

    target: the throughput to be reached. output: where the least storage is written with its
        schedule.
    place: of the tool that is the engine; timeout: seconds it gets.
    """

    throughput: bool = False
    buffers: bool = False
    latency: bool = False
    deadlock: bool = False
    engine: str | None = None
    storage: str | None = None
    target: Fraction | None = None
    unit: str | None = None
    seconds: float | None = None
    method: str | None = None
    capacities: Capacities = field(default_factory=Capacities)
    overlap: bool | None = None
    tokens: str | None = None
    output: Path | None = None
    pictures: Pictures = field(default_factory=Pictures)
    place: Path | None = None
    timeout: float | None = None

    @property
    def asked(self) -> bool:
        """Whether there is a question at all; pictures are one."""
        return (
            self.throughput or self.buffers or self.latency or self.deadlock or self.pictures.asked
        )

    def conditions(self) -> list[str]:
        """The options given that say how a question is answered."""
        names = ("engine", "method", "overlap", "tokens")
        found = [f"--{name}" for name in names if getattr(self, name) is not None]
        return found + ["--capacities"] * bool(self.capacities)


def graph_questions(asked: QuestionGroup, how: AnswerGroup, pictures: Pictures) -> GraphQuestions:
    """The options as one value. Raises typer.BadParameter for values that are none and options that
    contradict each other.
    """
    if how.storage is not None and how.at_throughput is not None:
        raise typer.BadParameter(
            "asks for other storage than --at-throughput; give one of them", param_hint="--storage"
        )
    buffers = asked.buffers or how.storage is not None or how.at_throughput is not None
    _check_buffers(asked, how, buffers, pictures)
    _check_engine(how)
    return GraphQuestions(
        throughput=asked.throughput,
        buffers=buffers,
        latency=asked.latency,
        deadlock=asked.deadlock,
        engine=how.engine.value if how.engine else None,
        storage=how.storage.value if how.storage else None,
        target=None if how.at_throughput is None else _ratio(how.at_throughput),
        unit=how.unit.value if how.unit else None,
        seconds=how.seconds,
        method=how.method.value if how.method else None,
        capacities=parse_capacities(how.capacities or ()),
        overlap=how.overlap,
        tokens=how.tokens.value if how.tokens else None,
        output=asked.output,
        pictures=pictures,
        place=how.sdf3 or how.kiter,
        timeout=how.timeout,
    )


def _check_buffers(
    asked: QuestionGroup, how: AnswerGroup, buffers: bool, pictures: Pictures
) -> None:
    """Refuse what says how buffers are sized where none are."""
    given = {"--unit": how.unit, "--seconds": how.seconds, "--output": asked.output}
    for option, value in given.items():
        if value is not None and not buffers and not (option == "--unit" and pictures.occupancy):
            raise typer.BadParameter("is about buffers; add --buffers", param_hint=option)


def _check_engine(how: AnswerGroup) -> None:
    """Refuse what is about a tool without it, and about the engine here with one."""
    name = how.engine.value if how.engine else None
    tools = ("sdf3", "kiter")
    for option, given, engines in (
        ("--sdf3", how.sdf3, tools[:1]),
        ("--kiter", how.kiter, tools[1:]),
        ("--timeout", how.timeout, tools),
    ):
        if given is not None and name not in engines:
            raise typer.BadParameter(
                f"is about a tool; add --engine {' or '.join(engines)}", param_hint=option
            )
    for option, value in (("--method", how.method), ("--seconds", how.seconds)):
        if value is not None and name in tools:
            raise typer.BadParameter(
                f"is about the engine here; --engine {name} has none", param_hint=option
            )


def _ratio(text: str) -> Fraction:
    """A throughput above 0 from "1/5", "0.2" or "3"."""
    match = _RATIO.fullmatch(text)
    value = Fraction(text) if match is not None and int(match["divisor"] or 1) else Fraction(0)
    if not value:
        raise typer.BadParameter(
            f"'{text}' is not a throughput above 0, such as 1/5", param_hint="--at-throughput"
        )
    return value
