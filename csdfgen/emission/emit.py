"""How does a plan become a folder of C? All files are written beside it first, then take their places.

A folder that does not exist appears complete or not at all; into one that does, files are moved when
all of them are there.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from csdfgen.emission import board, project
from csdfgen.emission.kernels import needed
from csdfgen.emission.names import identifier, identifiers
from csdfgen.emission.order import frame_of
from csdfgen.emission.ports import ports_of
from csdfgen.emission.source import Unit, header, source, weights
from csdfgen.emission.targets import target_of
from csdfgen.errors import InputError, ModelError
from csdfgen.kernels.steps import KernelSet
from csdfgen.native.backends import kernels_of
from csdfgen.planning.plan import Plan

__all__ = ["LITERALS", "Emitted", "check_folder", "emit"]

LITERALS = 2**20
"""Bytes of constants from which they are a file of their own instead of source."""

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Emitted:
    """name: of the network in C. source_bytes: of NAME.c. weights_bytes, arena_bytes: of memory."""

    name: str
    files: tuple[str, ...]
    source_bytes: int
    weights_bytes: int
    arena_bytes: int


def check_folder(folder: Path, force: bool) -> None:
    """Raise InputError where a folder may not be written to."""
    with _told(folder):
        if folder.exists() and not folder.is_dir():
            raise InputError("is a file; a folder is to be written", where=str(folder))
        if not force and folder.is_dir() and any(folder.iterdir()):
            raise InputError(
                "is not empty; --force replaces the files that have the names of ours",
                where=str(folder),
            )


def emit(
    plan: Plan,
    title: str,
    folder: Path,
    *,
    target: str = "host",
    force: bool = False,
    kernels: KernelSet | None = None,
    literals: int = LITERALS,
    maker: str = "csdfgen",
    report: Report = lambda what: None,
) -> Emitted:
    """Write a plan as C. title: of the network; in C it is called by `identifier(title)`. kernels: native
    ones, of this machine's library by default. literals: bytes of constants that are still
    source. maker: the program that writes, with its version.

    Raises InputError for a folder that is not empty, or cannot be written, or an unknown target;
    PlanError for a step without a native kernel; ToolError without a compiler.
    """
    machine = target_of(target)
    check_folder(folder, force)
    report("binding")
    unit = _unit(plan, title, kernels or kernels_of("native"), maker)
    frame, name = unit.frame, unit.name
    copies = {f"csdf_copy_{port.tensor.itemsize}" for port in frame.ports}
    moved = {"csdf_move"} if frame.ports else set()
    files = needed(frame.kernels | copies | moved | {"csdf_run"}, machine.lanes)
    report("writing")
    large = frame.blob.size >= literals
    with _told(folder), _scratch(folder) as scratch:
        inner = scratch / project.KERNELS
        inner.mkdir()
        for path in files:
            shutil.copyfile(path, inner / path.name)
        parts = [f"{name}.c", f"{name}_weights.{'S' if large else 'c'}"]
        parts += [f"{project.KERNELS}/{path.name}" for path in files if path.suffix == ".c"]
        _write(scratch / f"{name}.h", header(unit))
        _write(scratch / f"{name}.c", source(unit))
        if large:
            _write(scratch / f"{name}_weights.S", project.assembly(unit))
            with (scratch / f"{name}_weights.bin").open("wb") as blob:
                blob.writelines(frame.blob.parts())
        else:
            _write(scratch / f"{name}_weights.c", weights(unit))
        if machine.board is None:
            _write(scratch / "main.c", project.main(unit))
        else:
            for path in board.FILES:
                shutil.copyfile(path, scratch / path.name)
            _write(scratch / "board.ld", board.linker_script(unit, machine.board))
            _write(scratch / "main.c", board.main(unit))
        _write(scratch / "Makefile", project.makefile(unit, machine, parts))
        _write(scratch / "CMakeLists.txt", project.cmake(unit, machine, parts))
        made = sorted(path.relative_to(scratch) for path in scratch.rglob("*") if path.is_file())
        size = (scratch / f"{name}.c").stat().st_size
        _place(scratch, folder)
    return Emitted(name, tuple(map(str, made)), size, frame.blob.size, plan.planned_bytes)


def _unit(plan: Plan, title: str, kernels: KernelSet, maker: str) -> Unit:
    network = plan.network
    if not network.outputs:
        raise ModelError("has no outputs", where=title)
    keys = [f"in:{tensor.name}" for tensor in network.inputs]
    keys += [f"out:{output.name}" for output in network.outputs]
    name = identifier(title)
    names = (key.partition(":")[2] for key in keys)
    words = dict(zip(keys, identifiers(names, without=[name, "arena"]), strict=True))
    constants = {
        output.name: words[f"out:{output.name}"]
        for output in network.outputs
        if output.constant is not None
    }
    return Unit(
        name, title, plan, frame_of(plan, kernels, ports_of(network, words)), constants, maker
    )


# Files --------------------------------------------------------------------------------------------


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """What the file system refuses becomes one line."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot be written: {getattr(error, 'strerror', None) or error}", where=str(folder)
        ) from None


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder on the same disk, gone in the end."""
    home = folder if folder.is_dir() else folder.resolve().parent
    home.mkdir(parents=True, exist_ok=True)
    outer = Path(tempfile.mkdtemp(prefix=f".{folder.name or 'csdfgen'}.", suffix=".part", dir=home))
    try:
        scratch = outer / "new"
        scratch.mkdir()
        yield scratch
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def _place(scratch: Path, folder: Path) -> None:
    """Move what is complete to its place."""
    if not folder.is_dir():
        scratch.rename(folder)
        return
    for path in sorted(scratch.rglob("*")):
        target = folder / path.relative_to(scratch)
        if path.is_dir():
            target.mkdir(exist_ok=True)
        else:
            path.replace(target)
