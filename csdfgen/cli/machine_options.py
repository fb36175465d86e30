"""What do devices, profile, tune and zoo take?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from csdfgen.cli.format_options import Stored

__all__ = [
    "DeviceArgument",
    "DevicesJsonOption",
    "DiffJsonOption",
    "DiffOption",
    "HeightsOption",
    "ImagesOption",
    "ImportOption",
    "MeasuredArgument",
    "MeasuredFormatsOption",
    "ProfileFileOption",
    "RepeatsOption",
    "SecondsOption",
    "ThreadsOption",
    "TuningFileOption",
    "WeightsSeedOption",
    "ZooArgument",
    "ZooFileOption",
    "ZooJsonOption",
]

DeviceArgument = Annotated[
    str | None,
    typer.Argument(metavar="[NAME|FILE.toml]", help="Show this one.", show_default=False),
]
DevicesJsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
MeasuredArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODEL]", help="ONNX model; without it built-in layers.", show_default=False
    ),
]
ProfileFileOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The profile.")
]
HeightsOption = Annotated[
    str, typer.Option("--heights", metavar="N,N,...", help="Slab heights to measure.")
]
ImagesOption = Annotated[
    str | None,
    typer.Option(
        "--batches",
        metavar="N,N,...",
        help="Measure layers as a whole on so many images at once, too; times are then read from tables, not from the fit.",
    ),
]
RepeatsOption = Annotated[
    int | None,
    typer.Option(
        "--repeats",
        metavar="N",
        min=1,
        max=10_000,
        help="Timed frames a height. \\[default: 11, and on for a second]",
        show_default=False,
    ),
]
ThreadsOption = Annotated[
    int,
    typer.Option("--threads", metavar="N", min=1, max=1024, help="Threads of linear algebra."),
]
MeasuredFormatsOption = Annotated[
    Stored | None,
    typer.Option(
        "--formats",
        help="Measure MODEL also as csdfgen quantize would store it; mixed: layers in int8, in int16, and from each "
        "to the other.",
        show_default=False,
    ),
]
DiffOption = Annotated[
    tuple[Path, Path] | None,
    typer.Option("--diff", metavar="A B", help="Measure nothing; compare two profiles."),
]
ImportOption = Annotated[
    Path | None,
    typer.Option(
        "--import",
        metavar="RESULT",
        help="Measure nothing; read what a board with a bundle has measured.",
        show_default=False,
    ),
]
DiffJsonOption = Annotated[
    bool, typer.Option("--json", help="Print the comparison of --diff as JSON.")
]
TuningFileOption = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.json",
        help="What was found; one that is there is continued.",
    ),
]
SecondsOption = Annotated[
    float,
    typer.Option("--seconds", metavar="S", min=1, max=86_400, help="How long to measure, about."),
]
ZooArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME[@HEIGHTxWIDTH]",
        help="One network, at another image size.",
        show_default=False,
    ),
]
ZooFileOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE.onnx", help="Write the network as an ONNX file."),
]
WeightsSeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        min=0,
        help="Seed of the weights in the file. \\[default: 0]",
        show_default=False,
    ),
]
ZooJsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON: a list, or one object for one network.")
]
