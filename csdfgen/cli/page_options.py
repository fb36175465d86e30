"""What do `report` and `compare` take?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from csdfgen.cli.schedule_options import Policy

__all__ = [
    "DeviceOption",
    "MeasureOption",
    "ModelOption",
    "PageOption",
    "PlanArgument",
    "PolicyOption",
    "RepeatOption",
    "SideArgument",
]

PlanArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL|PLAN",
        help="ONNX model, zoo:NAME\\[@HEIGHTxWIDTH], or a plan (.json).",
        show_default=False,
    ),
]
SideArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL[+OPTION=VALUE...]|PLAN",
        help="A plan (.json), or a model with options: model.onnx+rows=1+policy=demand; rows, fuse, image, batch, shape, policy.",
        show_default=False,
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="Of a plan: the model that it was made for, where it lies neither beside it nor here.",
        show_default=False,
    ),
]
PolicyOption = Annotated[
    Policy | None,
    typer.Option(
        "--policy",
        help="Order of firings, as csdfgen schedule has it. \\[default: that of least memory that is found]",
        show_default=False,
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME|FILE.toml",
        help="Modelled time of every layer there; see csdfgen devices.",
    ),
]
MeasureOption = Annotated[
    bool,
    typer.Option(
        "--measure/--no-measure", help="Run frames here and in onnxruntime; or only plan."
    ),
]
RepeatOption = Annotated[
    int,
    typer.Option("--repeat", metavar="N", min=1, max=100_000, help="Timed frames of each."),
]
PageOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE.html", help="Write a page."),
]
