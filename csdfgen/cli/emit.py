"""`csdfgen emit-c`: a plan as a folder of C."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from csdfgen import __version__
from csdfgen.cli.plans import Asked, planned
from csdfgen.cli.terminal import console, counted, plain, stages
from csdfgen.emission.emit import check_folder, emit
from csdfgen.emission.targets import target_of
from csdfgen.errors import about

__all__ = ["EmitRequest", "for_native", "run_emit"]


@dataclass(frozen=True, slots=True)
class EmitRequest:
    """What the user asked for."""

    asked: Asked
    folder: Path
    target: str = "host"
    force: bool = False


def run_emit(request: EmitRequest) -> None:
    """Write the folder. Raises CsdfgenError."""
    target_of(request.target)
    check_folder(request.folder, request.force)
    with stages() as stage:
        found = planned(for_native(request.asked), stage)
        with about(found.model, if_silent=True):
            made = emit(
                found.plan,
                found.title,
                request.folder,
                target=request.target,
                force=request.force,
                maker=f"csdfgen {__version__}",
                report=stage,
            )
    console().print(
        f"{request.folder}: {plain(made.name)}, {counted(len(made.files), 'file')}, {made.name}.c of "
        f"{made.source_bytes:,} bytes, constants of {made.weights_bytes:,}, arena of {made.arena_bytes:,}",
        soft_wrap=True,
    )


def for_native(asked: Asked) -> Asked:
    """A model planned with the scratch that native kernels take, unless another is named."""
    if asked.is_plan or "backend" in asked.options.wishes:
        return asked
    wishes = {**asked.options.wishes, "backend": "native"}
    return replace(asked, options=replace(asked.options, wishes=wishes))
