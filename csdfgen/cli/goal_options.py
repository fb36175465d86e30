"""What is a plan to be good for, and how is that typed? Options of every command that plans."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["DeviceOption", "GoalGroup", "JsonOption", "ParetoOption", "front_folder"]

_PANEL = "Goals and budgets"
"""Heading in the help."""


class Goal(str, enum.Enum):
    """`PlanOptions.goal`."""

    balanced = "balanced"
    memory = "memory"
    speed = "speed"


class Pack(str, enum.Enum):
    """`PlanOptions.pack`."""

    fast = "fast"
    exact = "exact"


class Result(str, enum.Enum):
    """`PlanOptions.result`."""

    stored = "stored"
    arena = "arena"
    streamed = "streamed"


class Backend(str, enum.Enum):
    """`csdfgen.backends.registry.BACKENDS`."""

    auto = "auto"
    native = "native"
    numpy = "numpy"


GoalOption = Annotated[
    Goal | None,
    typer.Option(
        "--goal",
        rich_help_panel=_PANEL,
        help="What slab heights are chosen for, where --rows does not give them. balanced: about 64 output pixels a phase, never "
        "more memory than whole layers; memory: the least; speed: the least time. \\[default: balanced]",
        show_default=False,
    ),
]
MemoryOption = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        rich_help_panel=_PANEL,
        help="The fastest plan that takes no more: 512KiB (524,288 bytes), 512KB (512,000), 1.5MiB, a number of bytes.",
    ),
]
LatencyOption = Annotated[
    str | None,
    typer.Option(
        "--latency",
        metavar="TIME",
        rich_help_panel=_PANEL,
        help="The smallest plan that takes no longer on --device: 20ms, 0.5s, 300us.",
    ),
]
EnergyOption = Annotated[
    str | None,
    typer.Option(
        "--energy",
        metavar="ENERGY",
        rich_help_panel=_PANEL,
        help="With --requests: all images take no more on --device: 2J, 500mJ. Power times time, and what the device's "
        "operations and bytes cost.",
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME|FILE.toml",
        rich_help_panel=_PANEL,
        help="Where times are predicted, see csdfgen devices. \\[default: a core of a server, in round numbers]",
        show_default=False,
    ),
]
EffortOption = Annotated[
    str | None,
    typer.Option(
        "--effort",
        metavar="low|normal|high|SECONDS",
        rich_help_panel=_PANEL,
        help="How long to search; Ctrl-C ends it with the best plan so far. \\[default: low]",
        show_default=False,
    ),
]
RecomputeOption = Annotated[
    str | None,
    typer.Option(
        "--recompute",
        metavar="F",
        rich_help_panel=_PANEL,
        help="Rows may be computed again instead of kept, up to F times the multiply-accumulates. \\[default: 1]",
        show_default=False,
    ),
]
PackOption = Annotated[
    Pack | None,
    typer.Option(
        "--pack",
        rich_help_panel=_PANEL,
        help="How rows get their places: fast; or exact, which proves the smallest arena or gives a bound. \\[default: fast]",
        show_default=False,
    ),
]
ResultOption = Annotated[
    Result | None,
    typer.Option(
        "--result",
        rich_help_panel=_PANEL,
        help="stored: outputs lie beside the arena; arena: in it, until the next frame; "
        "streamed: their rows are handed on as they are made. \\[default: stored]",
        show_default=False,
    ),
]
BackendOption = Annotated[
    Backend | None,
    typer.Option(
        "--backend",
        rich_help_panel=_PANEL,
        help="Whose kernels compute, so whose scratch is planned: numpy; native: C, which is built once on this machine, faster "
        "and with less scratch; auto: native where there is a C compiler. \\[default: auto, or a plan's own]",
        show_default=False,
    ),
]
ExactOption = Annotated[
    bool,
    typer.Option(
        "--exact",
        rich_help_panel=_PANEL,
        help="Native code without Winograd's form of 3x3 convolutions, whose sums round otherwise (about 1e-5, relative).",
    ),
]
FallbackOption = Annotated[
    bool,
    typer.Option(
        "--fallback",
        rich_help_panel=_PANEL,
        help="What native code lacks is computed by numpy; without it such a layer is refused by name.",
    ),
]
TuningOption = Annotated[
    str | None,
    typer.Option(
        "--tuning",
        metavar="FILE.json",
        rich_help_panel=_PANEL,
        help="Compute each layer by the variant that csdfgen tune found to be the fastest here, and predict times by it.",
    ),
]
ParetoOption = Annotated[
    bool,
    typer.Option(
        "--pareto",
        rich_help_panel=_PANEL,
        help="All plans that no other beats in memory and time, from the smallest to the fastest.",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object instead of the summary.")
]


@dataclass(frozen=True, slots=True)
class GoalGroup:
    """These options as typed; `--device` is a command's own."""

    goal: GoalOption = None
    memory: MemoryOption = None
    latency: LatencyOption = None
    energy: EnergyOption = None
    effort: EffortOption = None
    recompute: RecomputeOption = None
    pack: PackOption = None
    result: ResultOption = None
    backend: BackendOption = None
    exact: ExactOption = False
    fallback: FallbackOption = False
    tuning: TuningOption = None

    def read(self, device: str | None = None) -> Mapping[str, Any]:
        """What was given, by the name in `PlanOptions`. Raises InputError for a value that is none."""
        from csdfgen.model.options import PlanOptions
        from csdfgen.model.units import energy_of, size_of, time_of

        given = {field.name: getattr(self, field.name) for field in fields(self)}
        wishes = {
            name: value.value if isinstance(value, enum.Enum) else value
            for name, value in {**given, "device": device}.items()
            if value is not None and value is not False
        }
        for name, read in (("memory", size_of), ("latency", time_of), ("energy", energy_of)):
            if name in wishes:
                wishes[name] = read(wishes[name])
        if wishes.get("backend") == "auto":
            from csdfgen.backends.registry import settled

            wishes["backend"] = settled("auto")
        PlanOptions(**wishes)
        return wishes


def front_folder(output: Path | None) -> None:
    """What `-o` of `--pareto` may name: a folder, or a picture. Raises InputError."""
    from csdfgen.errors import InputError

    if output is not None and output.suffix.lower() not in ("", ".svg"):
        raise InputError(
            "a front is written as a folder of plans (a name without a suffix), or as .svg",
            where=str(output),
        )
    if output is not None and not output.suffix and output.exists() and not output.is_dir():
        raise InputError("is a file; a folder of plans is to be written", where=str(output))
