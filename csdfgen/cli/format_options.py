"""In how many bytes is each tensor to be stored, and how is that typed? Options of `schedule` and `quantize`."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from csdfgen.cli import run_options

if TYPE_CHECKING:
    from csdfgen.cli.quantize import Formats

__all__ = [
    "ArenaFactorOption",
    "FilesOption",
    "FormatDeviceOption",
    "FormatLatencyOption",
    "FormatMemoryOption",
    "FormatOption",
    "FormatsGroup",
    "FrontFileOption",
    "HadWith",
    "HadWithOption",
    "IntegerIoOption",
    "Method",
    "MethodOption",
    "MinSqnrOption",
    "MoreFilesArgument",
    "OutputOption",
    "PercentileOption",
    "Stored",
]

_PANEL = "Number formats"
"""Heading in the help."""


class Stored(str, enum.Enum):
    """What `csdfgen.precision.quantize` makes."""

    float16 = "float16"
    int16 = "int16"
    int8 = "int8"
    mixed = "mixed"


class Method(str, enum.Enum):
    """Thresholds of `csdfgen.precision.thresholds`."""

    mse = "mse"
    minmax = "minmax"
    percentile = "percentile"
    kl = "kl"


class HadWith(str, enum.Enum):
    """What `csdfgen.precision.quantize` may have a quality with."""

    memory = "memory"
    speed = "speed"


IntegerIoOption = Annotated[
    bool,
    typer.Option(
        "--integer-io",
        rich_help_panel=_PANEL,
        help="Inputs and outputs stay integers, by a scale and zero point that are said, and kept in the model's metadata.",
    ),
]
MoreFilesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FILES]...", help="More files to calibrate on.", show_default=False),
]
FilesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--calibrate",
        metavar="FILES|X.npz",
        help="Pictures, arrays or a folder of them, as real as can be; repeatable. An array may hold several along axis 0.",
        show_default=False,
    ),
]
FormatOption = Annotated[
    Stored,
    typer.Option(
        "--format",
        help="float16: all in two bytes; int16: activations in two, weights in one; int8: all in one; "
        "mixed: int8, and int16 where that takes away most noise.",
    ),
]
OutputOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="OUT.onnx", help="The model in QDQ form.")
]
MethodOption = Annotated[
    Method,
    typer.Option(
        "--method",
        help="What part of the values seen int8 covers: of least squared error, all, a percentile, or of least "
        "relative entropy.",
    ),
]
PercentileOption = Annotated[
    float | None,
    typer.Option(
        "--percentile",
        metavar="P",
        help="With --method percentile. \\[default: 99.99]",
        show_default=False,
    ),
]
ArenaFactorOption = Annotated[
    float | None,
    typer.Option(
        "--arena-factor",
        metavar="F",
        help="mixed: the arena of int8 times this, at most. \\[default: 1]",
        show_default=False,
    ),
]
FormatMemoryOption = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="BYTES",
        help="mixed: an arena of 256KiB, 1MB, ..., at most.",
        show_default=False,
    ),
]
MinSqnrOption = Annotated[
    float | None,
    typer.Option(
        "--min-sqnr",
        metavar="DB",
        help="mixed: the least arena of this quality, or with --goal speed the fastest.",
        show_default=False,
    ),
]
FormatLatencyOption = Annotated[
    str | None,
    typer.Option(
        "--latency",
        metavar="TIME",
        help="mixed: a frame of 20ms, 0.5s, ... at most, as predicted on --device; alone, or with a limit of memory.",
        show_default=False,
    ),
]
HadWithOption = Annotated[
    HadWith,
    typer.Option(
        "--goal", help="With --min-sqnr: the least arena, or the shortest predicted frame."
    ),
]
FormatDeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME|FILE.toml",
        help="Where times are predicted, see csdfgen devices; host: measured by csdfgen profile MODEL --formats mixed. "
        "\\[default: a core of a server, in round numbers]",
        show_default=False,
    ),
]
FrontFileOption = Annotated[
    Path | None,
    typer.Option(
        "--front",
        metavar="FILE",
        help="mixed: write quality against arena (.csv, .json).",
        show_default=False,
    ),
]
FormatsOption = Annotated[
    Stored | None,
    typer.Option(
        "--formats",
        rich_help_panel=_PANEL,
        help="Plan the float model in fewer bytes, as csdfgen quantize makes it; the model is written beside the plan, "
        "plan.onnx beside plan.json. mixed with --memory: the formats of least noise for which some heights fit.",
    ),
]
CalibrateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--calibrate",
        metavar="FILES|X.npz",
        rich_help_panel=_PANEL,
        help="With --formats: pictures, arrays or a folder of them, as real as can be; repeatable.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class FormatsGroup:
    """These options as typed, with those that say how pictures become values."""

    formats: FormatsOption = None
    calibrate: CalibrateOption = None
    integer_io: IntegerIoOption = False
    resize: run_options.ResizeOption = False
    mean: run_options.MeanOption = None
    std: run_options.StdOption = None
    layout: run_options.LayoutOption = None

    def read(self) -> Formats | None:
        """What was asked for; None where nothing was. Raises InputError for what goes with --formats alone."""
        from csdfgen.errors import InputError

        if self.formats is None:
            given = {
                "--calibrate": self.calibrate, "--integer-io": self.integer_io, "--resize": self.resize,
                "--mean": self.mean, "--std": self.std, "--layout": self.layout,
            }  # fmt: skip
            alone = [flag for flag, value in given.items() if value]
            if alone:
                raise InputError(
                    f"{alone[0]} goes with --formats; name one, such as --formats int8"
                )
            return None
        from csdfgen.cli.quantize import Formats
        from runtime.images import ImageOptions, parse_channel_values

        images = ImageOptions(
            self.resize,
            parse_channel_values("--mean", self.mean),
            parse_channel_values("--std", self.std),
            self.layout,
        )
        return Formats(self.formats.value, tuple(self.calibrate or ()), images, self.integer_io)
