"""How does a plan become a folder of C? All files are written to a temporary folder first, then moved.

A folder that does not exist yet appears complete or not at all. Files are moved into an existing folder after all of them
have been written.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.registry import backend_that, computed_by, kernels_for
from csdfgen.emission import board, project
from csdfgen.emission.kernels import needed
from csdfgen.emission.names import identifiers, network_name
from csdfgen.emission.order import Lowered, ProgramTables, arguments_of, lowered
from csdfgen.emission.source import Unit, header, source, weights
from csdfgen.emission.tables import Blob
from csdfgen.emission.targets import Board, Target, target_of
from csdfgen.errors import InputError, ModelError, PlanError, option
from csdfgen.planning.plan import Plan
from csdfgen.program.steps import Backend

__all__ = [
    "LITERALS",
    "Emitted",
    "check_folder",
    "emit",
    "fill",
    "scratch_folder",
    "unit_of",
    "write",
    "writing",
]

LITERALS = 2**20
"""From this number of bytes on, constants are written to a binary file instead of source."""

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Emitted:
    """What was written. name: of the network in C. source_bytes: size of NAME.c. weights_bytes, arena_bytes: memory."""

    name: str
    files: tuple[str, ...]
    source_bytes: int
    weights_bytes: int
    arena_bytes: int


def check_folder(folder: Path, force: bool) -> None:
    """Raise InputError if a folder may not be written to."""
    with writing(folder):
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
    oversize: bool = False,
    kernels: Backend | None = None,
    literals: int = LITERALS,
    maker: str = "csdfgen",
    report: Report = lambda what: None,
) -> Emitted:
    """Write a plan as C. title: of the network, which is named `network_name(title)` in C. kernels: a backend that emits C,
    by default the first on this machine. literals: see `LITERALS`. maker: the program that writes, with its version.
    oversize: also what the target has no memory for.

    Raises InputError for a folder that is not empty, or cannot be written, or an unknown target;
    PlanError for a step without a native kernel, and for what does not fit; ToolError without a compiler.
    """
    machine = target_of(target)
    check_folder(folder, force)
    report("binding")
    kernels = kernels or kernels_for(computed_by(plan.options, backend_that("emits")))
    if isinstance(kernels, NativeKernels):
        kernels = kernels.anywhere()
    (program,) = lowered([plan], kernels)
    unit = unit_of(program, title, maker, Blob(program.program.constants))
    if machine.board is not None and not oversize:
        check_room(unit, machine.board, target)
    report("writing")
    with writing(folder), scratch_folder(folder) as scratch:
        made = fill(scratch, unit, machine, literals=literals)
        _place(scratch, folder)
    return made


def check_room(unit: Unit, machine: Board, target: str) -> None:
    """Raises PlanError for constants, or an arena with the arrays and the stack of the program, that a board has no room
    for. Code comes on top of the constants.
    """
    network, there = unit.plan.network, {name: size for name, _, size in machine.memory}
    arrays = network.output_bytes + sum(
        prod(network.whole_shape(one)) * np.dtype(one.dtype).itemsize for one in network.inputs
    )
    ram = unit.plan.planned_bytes + arrays + machine.stack
    flash = "CONSTANTS" if "CONSTANTS" in there else "CODE"
    said = f"arena of {unit.plan.planned_bytes:,} bytes, inputs and outputs of {arrays:,} and a stack of {machine.stack:,}"
    for what, size, memory in (
        (f"constants of {unit.tables.blob.size:,} bytes are", unit.tables.blob.size, flash),
        (f"an {said} are {ram:,},", ram, "RAM"),
    ):
        if size > there[memory]:
            raise PlanError(
                f"{what} more than the {there[memory]:,} of {memory} that {option('target', target)} ({machine.title}) has; "
                f"plan for {option('goal', 'memory')}, quantize the model, take another target, or write it all the same "
                f"with {option('oversize')}"
            )


def unit_of(
    made: Lowered, title: str, maker: str, blob: Blob, name: str = "", timed: str = ""
) -> Unit:
    """The unit of C for a program. blob: contains its constants. name: in C, by default derived from the title. timed: see
    `Unit`. Raises ModelError for a network without outputs.
    """
    network = made.plan.network
    if not network.outputs:
        raise ModelError("has no outputs", where=title)
    name = name or network_name(title)
    ends = [*(one.name for one in network.inputs), *(one.name for one in network.outputs)]
    words = identifiers(ends, without=[timed or name, "arena"])
    constants = {
        output.name: word
        for output, word in zip(network.outputs, words[len(network.inputs) :], strict=True)
        if output.constant is not None
    }
    tables = ProgramTables(made, arguments_of(network, words), blob)
    return Unit(name, title, made.plan, tables, constants, maker, timed)


def fill(
    scratch: Path, unit: Unit, machine: Target, more: Sequence[Unit] = (), literals: int = LITERALS
) -> Emitted:
    """Write all files of a unit into an empty folder. more: units that are to be timed. Raises OSError, PlanError,
    ToolError.
    """
    name, constants = unit.name, unit.tables.blob
    called = {"csdf_run"}.union(*(one.tables.called() for one in (unit, *more)))
    files = needed(called, machine.lanes)
    large = constants.size >= literals
    inner = scratch / project.KERNELS
    inner.mkdir()
    for file, text in files.items():
        write(inner / file, text.splitlines())
    parts = [f"{name}.c", f"{name}_weights.{'S' if large else 'c'}"]
    parts += [f"{project.KERNELS}/{file}" for file in files if file.endswith(".c")]
    write(scratch / f"{name}.h", header(unit))
    write(scratch / f"{name}.c", source(unit))
    if large:
        write(scratch / f"{name}_weights.S", project.assembly(unit))
        with (scratch / f"{name}_weights.bin").open("wb") as blob:
            blob.writelines(constants.parts())
    else:
        write(scratch / f"{name}_weights.c", weights(unit))
    if machine.board is None:
        write(scratch / "main.c", project.main(unit))
    else:
        for path in board.FILES:
            shutil.copyfile(path, scratch / path.name)
        write(scratch / "board.ld", board.linker_script(unit, machine.board))
        write(scratch / "main.c", board.main(unit))
    for one in more:
        write(scratch / f"{one.name}.c", source(one))
    write(scratch / "Makefile", project.makefile(unit, machine, parts, [one.name for one in more]))
    write(scratch / "CMakeLists.txt", project.cmake(unit, machine, parts))
    made = sorted(path.relative_to(scratch) for path in scratch.rglob("*") if path.is_file())
    size = (scratch / f"{name}.c").stat().st_size
    return Emitted(name, tuple(map(str, made)), size, constants.size, unit.plan.planned_bytes)


# Files --------------------------------------------------------------------------------------------


def write(path: Path, lines: Iterable[str]) -> None:
    """A text file of these lines. Raises OSError."""
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn an error of the file system into an InputError."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot be written: {getattr(error, 'strerror', None) or error}", where=str(folder)
        ) from None


@contextmanager
def scratch_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder on the same disk."""
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
    """Move the complete files to the folder."""
    if not folder.is_dir():
        scratch.rename(folder)
        return
    for path in sorted(scratch.rglob("*")):
        target = folder / path.relative_to(scratch)
        if path.is_dir():
            target.mkdir(exist_ok=True)
        else:
            path.replace(target)
