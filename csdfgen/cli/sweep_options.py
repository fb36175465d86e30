"""What does `sweep` take?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["JobsOption", "OnOption", "SpecArgument", "TableOption", "TimingsOption"]

SpecArgument = Annotated[
    Path,
    typer.Argument(metavar="SPEC.toml", help="What to vary; docs/sweeps.md.", show_default=False),
]
TableOption = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="The table: .parquet (pip install 'csdfgen\\[sweep]'), .csv or .json; beside it the picture, .svg, and a folder "
        "of finished points, .points, from where the same command goes on.",
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        min=1,
        max=1024,
        help="Points that are planned at a time here. \\[default: one a processor]",
        show_default=False,
    ),
]
OnOption = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="dask://HOST:PORT",
        help="Plan on the workers of this Dask scheduler (pip install 'csdfgen\\[dask]') instead of here.",
        show_default=False,
    ),
]
TimingsOption = Annotated[
    bool,
    typer.Option(
        "--timings",
        help="A column more: seconds that planning took. Without it the same points give the same bytes.",
    ),
]
