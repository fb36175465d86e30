"""What does `emit-c` take?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["FolderOption", "ForceOption", "TargetOption"]

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
