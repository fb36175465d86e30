"""Commands on number formats: quantize. Declarations only, as in `app`."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from csdfgen.cli import goal_options, run_options
from csdfgen.cli.commands import Command
from csdfgen.cli.format_options import IntegerIoOption, Stored
from csdfgen.cli.options import ModelArgument, ModelGroup, ShapeOption

__all__ = ["add_to"]


class Method(str, enum.Enum):
    """Thresholds of `csdfgen.precision.thresholds`."""

    mse = "mse"
    minmax = "minmax"
    percentile = "percentile"
    kl = "kl"


def quantize(
    model: ModelArgument,
    more: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILES]...", help="More files to calibrate on.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="OUT.onnx", help="The model in QDQ form.")
    ] = Path("quantized.onnx"),
    calibrate: Annotated[
        list[str] | None,
        typer.Option(
            "--calibrate",
            metavar="FILES|X.npz",
            help="Pictures, arrays or a folder of them, as real as can be; repeatable. An array may hold several along axis 0.",
            show_default=False,
        ),
    ] = None,
    stored: Annotated[
        Stored,
        typer.Option(
            "--format",
            help="float16: all in two bytes; int16: activations in two, weights in one; int8: all in one; "
            "mixed: int8, and int16 where that takes away most noise.",
        ),
    ] = Stored.int8,
    method: Annotated[
        Method,
        typer.Option(
            "--method",
            help="What part of the values seen int8 covers: of least squared error, all, a percentile, or of least "
            "relative entropy.",
        ),
    ] = Method.mse,
    percentile: Annotated[
        float | None,
        typer.Option(
            "--percentile",
            metavar="P",
            help="With --method percentile. \\[default: 99.99]",
            show_default=False,
        ),
    ] = None,
    arena_factor: Annotated[
        float | None,
        typer.Option(
            "--arena-factor",
            metavar="F",
            help="mixed: the arena of int8 times this, at most. \\[default: 1]",
            show_default=False,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="BYTES",
            help="mixed: an arena of 256KiB, 1MB, ..., at most.",
            show_default=False,
        ),
    ] = None,
    min_sqnr: Annotated[
        float | None,
        typer.Option(
            "--min-sqnr",
            metavar="DB",
            help="mixed: the least arena of this quality.",
            show_default=False,
        ),
    ] = None,
    integer_io: IntegerIoOption = False,
    front: Annotated[
        Path | None,
        typer.Option(
            "--front",
            metavar="FILE",
            help="mixed: write quality against arena (.csv, .json).",
            show_default=False,
        ),
    ] = None,
    resize: run_options.ResizeOption = False,
    mean: run_options.MeanOption = None,
    std: run_options.StdOption = None,
    layout: run_options.LayoutOption = None,
    shape: ShapeOption = None,
    as_json: goal_options.JsonOption = False,
) -> None:
    """Store a float model in fewer bytes, calibrated on inputs: int8, int16, float16, or mixed by what each
    tensor costs in memory and quality.
    """
    from csdfgen.cli.quantize import QuantizeRequest, run_quantize
    from runtime.images import ImageOptions, parse_channel_values

    if percentile is not None and method is not Method.percentile:
        raise typer.BadParameter("goes with --method percentile", param_hint="--percentile")
    wishes = {
        "format": stored.value, "method": method.value, "percentile": percentile,
        "arena_factor": arena_factor, "memory": memory, "min_sqnr": min_sqnr,
        "integer_io": integer_io or None,
    }  # fmt: skip
    run_quantize(
        QuantizeRequest(
            model,
            output,
            [*(calibrate or ()), *(more or ())],
            ModelGroup(shape=shape).read(),
            ImageOptions(
                resize,
                parse_channel_values("--mean", mean),
                parse_channel_values("--std", std),
                layout,
            ),
            front,
            as_json,
            {name: value for name, value in wishes.items() if value is not None},
        )
    )


def add_to(app: typer.Typer) -> None:
    """Make these commands of an application's."""
    app.command(
        cls=Command,
        epilog="Examples:\n\n  csdfgen quantize model.onnx -o int8.onnx --calibrate pictures/*.jpg --resize\n\n"
        "  csdfgen quantize model.onnx -o mixed.onnx --calibrate x.npz --format mixed --arena-factor 1.25\n\n"
        "  csdfgen quantize model.onnx -o half.onnx --format float16",
    )(quantize)
