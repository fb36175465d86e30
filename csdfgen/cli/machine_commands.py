"""Commands on machines and on the networks that are built in: devices, profile, tune, zoo. Declarations
only, as in `app`.
"""

from __future__ import annotations

from pathlib import Path

import typer

from csdfgen.cli import goal_options, machine_options
from csdfgen.cli.commands import Command
from csdfgen.cli.options import (
    BatchOption,
    FuseOption,
    ModelArgument,
    ModelGroup,
    ShapeOption,
)

__all__ = ["add_to"]


def devices(
    name: machine_options.DeviceArgument = None,
    as_json: machine_options.DevicesJsonOption = False,
) -> None:
    """List the devices that are known, or show every number of one with its unit and origin."""
    from csdfgen.cli.devices import run_devices

    run_devices(name, as_json)


def profile(
    model: machine_options.MeasuredArgument = None,
    output: machine_options.ProfileFileOption = Path("host.toml"),
    heights: machine_options.HeightsOption = "1,2,3,6,12",
    batches: machine_options.ImagesOption = None,
    repeats: machine_options.RepeatsOption = None,
    threads: machine_options.ThreadsOption = 1,
    backend: goal_options.BackendOption = None,
    formats: machine_options.MeasuredFormatsOption = None,
    fuse: FuseOption = None,
    shape: ShapeOption = None,
    batch: BatchOption = None,
    diff: machine_options.DiffOption = None,
    result: machine_options.ImportOption = None,
    as_json: machine_options.DiffJsonOption = False,
) -> None:
    """Measure the phases of a model's layers on this machine, and fit launch + rows * slope to each
    layer shape.
    """
    if diff is not None:
        if model is not None:
            raise typer.BadParameter(
                "compares two profiles and takes no MODEL", param_hint="--diff"
            )
        from csdfgen.cli.profile import run_difference

        run_difference(*diff, as_json)
        return
    if as_json:
        raise typer.BadParameter("prints the comparison of --diff", param_hint="--json")
    if result is not None:
        if model is not None:
            raise typer.BadParameter("reads a result and takes no MODEL", param_hint="--import")
        from csdfgen.cli.profile import run_import

        run_import(result, output)
        return
    from csdfgen.cli.profile import ProfileRequest, parse_counts, run_profile

    options = ModelGroup(fuse=fuse, shape=shape, batch=batch).read()
    run_profile(
        ProfileRequest(
            model, output, options, parse_counts(heights, "heights", "rows"), repeats, threads,
            backend="auto" if backend is None else backend.value,
            formats="" if formats is None else formats.value,
            batches=() if batches is None else parse_counts(batches, "batches", "images"),
        )
    )  # fmt: skip


def tune(
    model: ModelArgument,
    output: machine_options.TuningFileOption = Path("tuned.json"),
    seconds: machine_options.SecondsOption = 60.0,
    fuse: FuseOption = None,
    shape: ShapeOption = None,
    batch: BatchOption = None,
    as_json: goal_options.JsonOption = False,
) -> None:
    """Measure on this machine which variant of each layer's kernel is the fastest at which slab height.

    Run it again to go on where it ended, or with another model to add its layers.
    """
    from csdfgen.cli.tune import TuneRequest, run_tune

    options = ModelGroup(fuse=fuse, shape=shape, batch=batch).read()
    run_tune(TuneRequest(model, output, options, seconds, as_json))


def zoo(
    name: machine_options.ZooArgument = None,
    output: machine_options.ZooFileOption = None,
    seed: machine_options.WeightsSeedOption = None,
    as_json: machine_options.ZooJsonOption = False,
) -> None:
    """List the networks that are built in, show one with its sources, or write one as ONNX.

    zoo:NAME[@HEIGHTxWIDTH] stands for it wherever a model file can: csdfgen run zoo:squeezenet1_1
    --check.
    """
    if name is None and output is not None:
        raise typer.BadParameter(
            "which network? csdfgen zoo NAME -o FILE.onnx writes one", param_hint="--output"
        )
    if output is None and seed is not None:
        raise typer.BadParameter("seeds the weights that -o writes", param_hint="--seed")
    from csdfgen.cli.zoo import list_zoo, show_network

    if name is None:
        list_zoo(as_json)
    else:
        show_network(name, output, seed or 0, as_json)


def add_to(app: typer.Typer) -> None:
    """Make these commands of an application's."""
    app.command(
        cls=Command,
        epilog="Examples:\n\n  csdfgen devices\n\n  csdfgen devices jetson-tx2\n\n  csdfgen devices my-board.toml --json",
    )(devices)
    app.command(
        cls=Command,
        epilog="Examples:\n\n  csdfgen profile model.onnx -o host.toml\n\n  csdfgen profile --heights 1,4,16 --repeats 31\n\n"
        "  csdfgen profile --diff before.toml after.toml\n\n  csdfgen profile --import result.json -o board.toml",
    )(profile)
    app.command(
        cls=Command,
        epilog="Examples:\n\n  csdfgen tune model.onnx --seconds 60 -o tuned.json\n\n"
        "  csdfgen run model.onnx --tuning tuned.json",
    )(tune)
    app.command(
        cls=Command,
        epilog="Examples:\n\n  csdfgen zoo\n\n  csdfgen zoo densenet121\n\n"
        "  csdfgen zoo resnet18@160x256 -o resnet18.onnx --seed 1",
    )(zoo)
