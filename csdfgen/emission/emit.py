"""How does a plan become a folder of C? All files are written to a temporary folder first, then moved.

A folder that does not exist yet appears complete or not at all. Files are moved into an existing folder after all of them
have been written.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.registry import choose_backend, find_backend, replace_backend
from csdfgen.emission import board, project
from csdfgen.emission.account import Account, Demand, account_memory
from csdfgen.emission.check import check_source
from csdfgen.emission.kernels import collect_sources, list_shared
from csdfgen.emission.layouts import SOURCES, check_layout, list_files
from csdfgen.emission.names import PARAMETERS, identifiers, network_name
from csdfgen.emission.order import (
    Lowered,
    ProgramTables,
    Templates,
    list_arguments,
    lower_plans,
)
from csdfgen.emission.sharing import NAMES, name_kernels
from csdfgen.emission.source import Unit, header, source, weights
from csdfgen.emission.streams import lower_passes
from csdfgen.emission.tables import Blob
from csdfgen.emission.targets import TARGETS, Target, get_target
from csdfgen.emission.used import list_used
from csdfgen.errors import InputError, ModelError, PlanError, option
from csdfgen.planning.plan import Plan
from csdfgen.planning.streams import StreamPlan
from csdfgen.program.steps import Backend

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
    with translate_file_errors(folder):
        if folder.exists() and not folder.is_dir():
            raise InputError("is a file; a folder is to be written", where=str(folder))
        if folder.suffix in (".c", ".h", ".cpp") and not folder.exists():
            raise InputError(
                f"names a file; a folder of several is written, such as {folder.with_suffix('')}",
                where=str(folder),
            )
        if not force and folder.is_dir() and any(folder.iterdir()):
            raise InputError(
                "is not empty; --force replaces the files that have the names of ours",
                where=str(folder),
            )


def emit(
    plan: Plan | StreamPlan,
    title: str,
    folder: Path,
    *,
    target: str = "host",
    layout: str = "make",
    check: Mapping[str, np.ndarray] | None = None,
    force: bool = False,
    oversize: bool = False,
    kernels: Backend | None = None,
    literals: int = LITERALS,
    maker: str = "csdfgen",
    report: Report = lambda what: None,
) -> Emitted:
    """Write a plan as C. title: of the network, which is named `network_name(title)` in C. kernels: a backend that emits C,
    by default the first on this machine. literals: see `LITERALS`. maker: the program that writes, with its version.
    layout: one of `LAYOUTS`. check: the outputs for `times.make_inputs`, for a self-test.
    oversize: also what the target has no memory for.

    Raises InputError for a folder that is not empty, or cannot be written, or an unknown target or layout;
    PlanError for a step without a native kernel, and for what does not fit; ToolError without a compiler.
    """
    machine = get_target(target)
    check_layout(layout)
    check_folder(folder, force)
    report("binding")
    unit = whole_unit(plan, title, maker, kernels)
    report("writing")
    with translate_file_errors(folder), scratch_folder(folder) as scratch:
        made = fill(
            scratch, unit, machine, literals=literals, oversize=oversize, layout=layout, check=check
        )
        stale = [*_list_stale(scratch, folder, made.name)]
        _place(scratch, folder)
        for path in stale:
            path.unlink()
    return made


def whole_unit(
    plan: Plan | StreamPlan, title: str, maker: str, kernels: Backend | None = None
) -> Unit:
    """The unit of a plan with constants of its own; see `emit`."""
    kernels = kernels or choose_backend(replace_backend(plan.options, find_backend("emits")))
    if isinstance(kernels, NativeKernels):
        kernels = kernels.anywhere()
    if not isinstance(plan, StreamPlan):
        (program,) = lower_plans([plan], kernels)
        return make_unit(program, title, maker, Blob(program.program.constants))
    *earlier, (last, templates) = lower_passes(plan, kernels)
    blob, name = Blob(last.program.constants), network_name(title)
    passes = tuple(
        make_unit(one, title, maker, blob, f"{name}_pass{number}", templates=some, owner=name)
        for number, (one, some) in enumerate(earlier, 1)
    )
    return make_unit(last, title, maker, blob, templates=templates, earlier=passes)


def emitted_account(plan: Plan, stack: int) -> Account:
    """The memory of a plan as C on a machine without an operating system. stack: bytes of it there. Raises as `emit`."""
    return account_memory(plan, whole_unit(plan, plan.network.name, "").tables, stack)


def _account(unit: Unit, stack: int) -> Account:
    """The memory of all passes, of which one has the arena at a time; what they find is kept."""
    found, *others = (account_memory(one.plan, one.tables, stack) for one in (unit, *unit.earlier))
    program = found.program + sum(one.program for one in others)
    arena = max(found.arena, *(one.arena for one in others)) if others else found.arena
    kept = sum(one.inputs + 2 * one.outputs for one in others)
    return replace(found, program=program, arena=arena, inputs=found.inputs + kept)


def _check_memory(unit: Unit, machine: Target) -> None:
    """Raises PlanError for a program that a board has no memory for, code excluded."""
    if machine.board is None:
        return
    there = {name: size for name, _, size in machine.board.memory}
    found = _account(unit, machine.board.stack)
    working, read = found.demands(there["RAM"], there["CODE"])
    needs = {"RAM": working, "CODE": read}
    if "CONSTANTS" in there:
        needs["CONSTANTS"] = Demand("constants", found.constants, there["CONSTANTS"])
        needs["CODE"] = Demand("program", found.program, there["CODE"])
    target = next(name for name, one in TARGETS.items() if one is machine)
    for memory, need in needs.items():
        if not need.fits:
            raise PlanError(
                f"{need.what} take {need.needed:,} bytes ({found}), more than the {need.there:,} of {memory} that "
                f"{option('target', target)} ({machine.board.title}) has; plan for {option('goal', 'memory')}, quantize the "
                f"model, take another target, or write it all the same with {option('oversize')}"
            )


def make_unit(
    made: Lowered,
    title: str,
    maker: str,
    blob: Blob,
    name: str = "",
    timed: str = "",
    templates: Templates | None = None,
    owner: str = "",
    earlier: tuple[Unit, ...] = (),
) -> Unit:
    """The unit of C for a program. blob: contains its constants. name: in C, by default derived from the title. timed, owner,
    earlier: see `Unit`. templates: of a stream. Raises ModelError for a network without outputs.
    """
    network = made.plan.network
    if not network.outputs:
        raise ModelError("has no outputs", where=title)
    name = name or network_name(title)
    count = len(earlier[0].inputs) if earlier else len(network.inputs)
    inputs, outputs = ([one.name for one in some] for some in (network.inputs, network.outputs))
    ends = [*inputs[:count], *outputs, *inputs[count:]]
    words = identifiers(ends, without=[timed or name, *PARAMETERS])
    behind = count + len(outputs)
    words = [*words[:count], *words[behind:], *words[count:behind]]
    constants = {
        output.name: word
        for output, word in zip(network.outputs, words[len(inputs) :], strict=True)
        if output.constant is not None
    }
    tables = ProgramTables(made, list_arguments(network, words), blob, templates)
    return Unit(name, title, made.plan, tables, constants, maker, timed, owner, earlier)


def fill(
    scratch: Path,
    unit: Unit,
    machine: Target,
    more: Sequence[Unit] = (),
    literals: int = LITERALS,
    *,
    oversize: bool = False,
    layout: str = "make",
    check: Mapping[str, np.ndarray] | None = None,
) -> Emitted:
    """Write all files of a unit into an empty folder. more: units that are to be timed. oversize: also what the machine has no
    memory for. layout: of the files around the network. check: see `emit`. Raises OSError, ToolError, and
    PlanError, also for what does not fit.
    """
    for one in () if oversize else (unit, *more):
        _check_memory(one, machine)
    units = unit, *unit.earlier, *more
    name, constants = unit.name, unit.tables.blob
    called = {"csdf_enter"}.union(*(one.tables.called() for one in units))
    files = collect_sources(called, machine.lanes)
    large = constants.size >= literals and layout in ("make", "cmake")
    home = scratch / SOURCES.get(layout, "")
    inner = home / project.KERNELS
    inner.mkdir(parents=True)
    programs = [one.tables.program for one in units]
    used = list_used(files.values(), programs, list_shared(files))
    if "used.h" in files:
        files["used.h"] = "\n".join(used)
    for file, text in name_kernels(files, "-DCSDF_SCALAR" in machine.flags).items():
        write(inner / file, text.splitlines())
    parts = [f"{one.name}.c" for one in (unit, *unit.earlier)]
    parts += [f"{name}_weights.{'S' if large else 'c'}"]
    parts += [f"{project.KERNELS}/{file}" for file in files if file.endswith(".c")]
    parts += ["functions.c"] if unit.tables.functions else []
    for one in (unit, *unit.earlier):
        write(home / f"{one.name}.h", header(one, check is not None))
        write(home / f"{one.name}.c", source(one))
    if large:
        write(home / f"{name}_weights.S", project.assembly(unit))
        with (home / f"{name}_weights.bin").open("wb") as blob:
            blob.writelines(constants.parts())
    else:
        write(home / f"{name}_weights.c", weights(unit))
    if check is not None:
        parts.append(f"{name}_check.c")
        write(home / parts[-1], check_source(unit, check))
    if layout == "make":
        _write_program(scratch, unit, machine, parts, more)
    for place, lines in list_files(layout, unit, machine, parts):
        (scratch / place).parent.mkdir(exist_ok=True)
        write(scratch / place, lines)
    made = sorted(path.relative_to(scratch) for path in scratch.rglob("*") if path.is_file())
    size = (home / f"{name}.c").stat().st_size
    return Emitted(name, tuple(map(str, made)), size, constants.size, unit.arena_bytes)


def _write_program(
    scratch: Path, unit: Unit, machine: Target, parts: Sequence[str], more: Sequence[Unit]
) -> None:
    """Write a program that runs a network on files, and what builds it. Raises OSError."""
    write(scratch / "main.c", project.main(unit, machine.board))
    if machine.board is not None:
        for path in board.FILES:
            shutil.copyfile(path, scratch / path.name)
        write(scratch / "board.ld", board.linker_script(unit, machine.board))
    for one in more:
        write(scratch / f"{one.name}.c", source(one))
    write(scratch / "Makefile", project.makefile(unit, machine, parts, [one.name for one in more]))
    write(scratch / "CMakeLists.txt", project.cmake(unit, machine, parts))


# Files --------------------------------------------------------------------------------------------


def write(path: Path, lines: Iterable[str]) -> None:
    """A text file of these lines. Raises OSError."""
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


@contextmanager
def translate_file_errors(folder: Path) -> Iterator[None]:
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


def _list_stale(scratch: Path, folder: Path, name: str) -> Iterator[Path]:
    """Files of an earlier network of this name in a folder, which would be built with the new ones, or instead of them."""
    (source,) = scratch.rglob(f"{name}.c")
    there = folder / source.parent.relative_to(scratch)
    found = [there / f"{name}_check.c", *there.glob(f"{name}_weights.*")]
    if (there / project.KERNELS / NAMES).exists():
        found += (there / project.KERNELS).glob("*.[ch]")
    for path in found:
        if path.exists() and not (scratch / path.relative_to(folder)).exists():
            yield path


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
