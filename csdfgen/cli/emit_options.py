"""What does `emit-c` take?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["ArchiveOption", "FolderOption", "ForceOption", "HeightsOption", "TargetOption"]

FolderOption = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="DIR", help="The folder to write.", show_default=False),
]
TargetOption = Annotated[
    str,
    typer.Option(
        "--target",
        metavar="host|aarch64|cortex-m7|cortex-m55|generic",
        help="The machine that compiler and flags in the Makefile are for.",
    ),
]
ForceOption = Annotated[
    bool,
    typer.Option("--force", help="Write into a folder that is not empty; other files stay."),
]
ArchiveOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.tar.gz",
        help="The archive. \\[default: MODEL.tar.gz]",
        show_default=False,
    ),
]
HeightsOption = Annotated[
    str,
    typer.Option(
        "--heights",
        metavar="N,N,...",
        help="Slab heights to time. \\[default: as csdfgen profile]",
        show_default=False,
    ),
]
