"""`csdfgen bundle`: a plan as C, and what times it, in one archive."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import runtime
from csdfgen import __version__
from csdfgen.backends.registry import kernels_of
from csdfgen.cli.emit import for_native
from csdfgen.cli.plans import Asked, Planned, planned
from csdfgen.cli.profile import parse_counts
from csdfgen.cli.terminal import Stage, console, counted, plain, stages
from csdfgen.devices.boards import about_actors, about_network
from csdfgen.devices.measure import HEIGHTS
from csdfgen.emission.bundle import Part, bundle
from csdfgen.emission.emit import Emitted
from csdfgen.emission.names import network_name
from csdfgen.emission.targets import target_of
from csdfgen.emission.times import inputs_of
from csdfgen.errors import InputError, about
from csdfgen.files import check_writable
from csdfgen.model.options import PlanOptions
from csdfgen.planning.planner import plan_of

__all__ = ["BundleRequest", "run_bundle"]

_SUFFIXES = (".tar.gz", ".tgz")


@dataclass(frozen=True, slots=True)
class BundleRequest:
    """What the user asked for; file None: NAME.tar.gz here; heights: of the plans that are timed, "" for
    those of `csdfgen profile`.
    """

    asked: Asked
    file: Path | None
    target: str = "host"
    heights: str = ""


def run_bundle(request: BundleRequest) -> None:
    """Write the archive. Raises CsdfgenError."""
    target_of(request.target)
    heights = parse_counts(request.heights, "heights", "rows") if request.heights else HEIGHTS
    if request.file is not None:
        _check(request.file)
    with stages() as stage:
        found = planned(for_native(request.asked), stage)
        file = request.file or Path(f"{network_name(found.title)}.tar.gz")
        _check(file)
        with about(found.model, if_silent=True):
            made = _bundled(found, heights, file, request.target, stage)
    console().print(
        f"{file}: {plain(made.name)}, {counted(len(made.files), 'file')} and what times "
        f"{counted(len(heights), 'slab height')}, {file.stat().st_size:,} bytes; constants of "
        f"{made.weights_bytes:,}, arena of {made.arena_bytes:,}\n"
        f"there: tar xmzf {file.name} && make -C {made.name} result.json; "
        "here: csdfgen profile --import result.json -o board.toml",
        soft_wrap=True,
    )


def _check(file: Path) -> None:
    if not file.name.lower().endswith(_SUFFIXES):
        raise InputError("an archive is written as .tar.gz", where=str(file))
    check_writable(file)


def _bundled(
    found: Planned, heights: tuple[int, ...], file: Path, target: str, stage: Stage
) -> Emitted:
    network = found.network
    if network.batch > 1:
        raise InputError(
            f"is for {network.batch} images a call; times are of one image, leave --batch and --frames out"
        )
    kernels = kernels_of("native")
    parts = []
    for number, height in enumerate(heights):
        stage("planning what is timed", number, len(heights))
        timed = plan_of(network, PlanOptions(str(height)), kernels)
        parts.append(Part(timed, {"rows": str(height)}, about_actors(timed)))
    stage("computing outputs to compare with")
    feeds = {tensor.name: inputs_of(tensor) for tensor in network.inputs}
    outputs = runtime.compile(found.plan, backend="native")(feeds)
    maker = f"csdfgen {__version__}"
    about = about_network(found.title, target, __version__)
    return bundle(
        found.plan,
        found.title,
        file,
        parts,
        kernels,
        outputs,
        about,
        target=target,
        maker=maker,
        report=stage,
    )
