"""In how many bytes is each tensor to be stored, and how is that typed? Options of `schedule` and `quantize`."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from csdfgen.cli import run_options

if TYPE_CHECKING:
    from csdfgen.cli.quantize import Formats

__all__ = ["FormatsGroup", "IntegerIoOption", "Stored"]

_PANEL = "Number formats"
"""Heading in the help."""


class Stored(str, enum.Enum):
    """What `csdfgen.precision.quantize` makes."""

    float16 = "float16"
    int16 = "int16"
    int8 = "int8"
    mixed = "mixed"


IntegerIoOption = Annotated[
    bool,
    typer.Option(
        "--integer-io",
        rich_help_panel=_PANEL,
        help="Inputs and outputs stay integers, by a scale and zero point that are said, and kept in the model's metadata.",
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
