"""Which options does `run` have beside those of every command?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "CheckOption",
    "InputOption",
    "JsonOption",
    "LabelsOption",
    "LayoutOption",
    "MeanOption",
    "OutputOption",
    "PlanOption",
    "RepeatOption",
    "ResizeOption",
    "SeedOption",
    "StdOption",
    "ThreadsOption",
]

_FILES, _RESULTS = "Inputs and outputs", "Check and measure"
"""Headings in the help."""

PlanOption = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        metavar="FILE",
        help="Run the firings and buffers of this file (csdfgen schedule -o).",
    ),
]
InputOption = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="FILE|NAME=FILE",
        rich_help_panel=_FILES,
        help=".npy, .npz (arrays by input name), .png or .jpg; NAME= where there are several inputs; repeatable. Without it "
        "uniform random values from -1 to 1, for a network of the zoo in the range of its pixels.",
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        rich_help_panel=_FILES,
        help="Outputs as .npz (by output name) or .npy (a single output).",
    ),
]
SeedOption = Annotated[
    int,
    typer.Option(
        "--seed", metavar="N", min=0, rich_help_panel=_FILES, help="Seed of the random inputs."
    ),
]
ResizeOption = Annotated[
    bool,
    typer.Option(
        "--resize", rich_help_panel=_FILES, help="Scale images to the size that the network takes."
    ),
]
MeanOption = Annotated[
    str | None,
    typer.Option(
        "--mean",
        metavar="V[,V,V]",
        rich_help_panel=_FILES,
        help="Subtracted from pixels (0 to 255), one value or one a channel.",
    ),
]
StdOption = Annotated[
    str | None,
    typer.Option(
        "--std",
        metavar="V[,V,V]",
        rich_help_panel=_FILES,
        help="Pixels are divided by it, after --mean; --std 255 gives values from 0 to 1.",
    ),
]
LayoutOption = Annotated[
    str | None,
    typer.Option(
        "--layout",
        metavar="nchw|nhwc[-bgr]",
        rich_help_panel=_FILES,
        help="How the network takes images, '-bgr' with blue first; nchw or nhwc are seen from the input's shape.",
    ),
]
LabelsOption = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        metavar="FILE",
        rich_help_panel=_FILES,
        help="Class names for the top 5, one a line.",
    ),
]
CheckOption = Annotated[
    str | None,
    typer.Option(
        "--check",
        metavar="[layers]",
        rich_help_panel=_RESULTS,
        help="Compare the outputs with onnxruntime's; 'layers': the output of every layer. Exit 1 if they differ.",
    ),
]
TraceOption = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE.json",
        rich_help_panel=_RESULTS,
        help="Write when every firing of a frame began and ended, for chrome://tracing and ui.perfetto.dev.",
    ),
]
LayersOption = Annotated[
    bool,
    typer.Option(
        "--layers",
        rich_help_panel=_RESULTS,
        help="List the time of every layer, its share, GFLOP/s and bytes moved.",
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json", rich_help_panel=_RESULTS, help="Print one JSON object instead of the report."
    ),
]
ThreadsOption = Annotated[
    int,
    typer.Option(
        "--threads",
        metavar="N",
        min=1,
        max=1024,
        rich_help_panel=_RESULTS,
        help="Threads of linear algebra, and of onnxruntime; 1 keeps figures comparable.",
    ),
]
RepeatOption = Annotated[
    int,
    typer.Option(
        "--repeat",
        metavar="N",
        min=1,
        max=100_000,
        rich_help_panel=_RESULTS,
        help="Timed frames; the median is the latency.",
    ),
]
