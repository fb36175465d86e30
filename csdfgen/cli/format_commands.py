"""Commands on number formats: quantize. Declarations only, as in `app`."""

from __future__ import annotations

from pathlib import Path

import typer

from csdfgen.cli import format_options, goal_options, run_options
from csdfgen.cli.commands import Command
from csdfgen.cli.options import ModelArgument, ModelGroup, ShapeOption

__all__ = ["add_to"]


def quantize(
    model: ModelArgument,
    more: format_options.MoreFilesArgument = None,
    output: format_options.OutputOption = Path("quantized.onnx"),
    calibrate: format_options.FilesOption = None,
    stored: format_options.FormatOption = format_options.Stored.int8,
    method: format_options.MethodOption = format_options.Method.mse,
    percentile: format_options.PercentileOption = None,
    arena_factor: format_options.ArenaFactorOption = None,
    memory: format_options.FormatMemoryOption = None,
    min_sqnr: format_options.MinSqnrOption = None,
    latency: format_options.FormatLatencyOption = None,
    goal: format_options.HadWithOption = format_options.HadWith.memory,
    device: format_options.FormatDeviceOption = None,
    integer_io: format_options.IntegerIoOption = False,
    front: format_options.FrontFileOption = None,
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

    if percentile is not None and method is not format_options.Method.percentile:
        raise typer.BadParameter("goes with --method percentile", param_hint="--percentile")
    wishes = {
        "format": stored.value, "method": method.value, "percentile": percentile,
        "arena_factor": arena_factor, "memory": memory, "min_sqnr": min_sqnr,
        "latency": latency, "goal": goal.value, "device": device, "integer_io": integer_io or None,
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
        "  csdfgen quantize model.onnx -o mixed.onnx --calibrate x.npz --format mixed --latency 20ms --device host\n\n"
        "  csdfgen quantize model.onnx -o half.onnx --format float16",
    )(quantize)
