"""A bundle for a board without Python: an archive of emitted code, with a program that times it layer by layer.

Equal plans give equal archives: entries are sorted and have neither times nor owners.
"""

from __future__ import annotations

import gzip
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from csdfgen.backends.native.template import fill_template
from csdfgen.emission import times
from csdfgen.emission.emit import (
    LITERALS,
    Emitted,
    fill,
    make_unit,
    scratch_folder,
    translate_file_errors,
    write,
)
from csdfgen.emission.order import lower_plans
from csdfgen.emission.source import TEXT
from csdfgen.emission.tables import Blob
from csdfgen.emission.targets import get_target
from csdfgen.files import replace_file
from csdfgen.planning.plan import Plan
from csdfgen.program.steps import Backend

Report = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Part:
    """A plan that is timed. about: values that are copied to the result; actors: the same for each actor, by name."""

    plan: Plan
    about: Mapping[str, Any]
    actors: Mapping[str, Any]


def bundle(
    plan: Plan,
    title: str,
    file: Path,
    parts: Sequence[Part],
    kernels: Backend,
    outputs: Mapping[str, np.ndarray],
    about: Mapping[str, Any],
    *,
    target: str = "host",
    oversize: bool = False,
    literals: int = LITERALS,
    maker: str = "csdfgen",
    report: Report = lambda what: None,
) -> Emitted:
    """Write an archive of a plan as C, with parts to be timed. outputs: the expected ones for the inputs that
    `times.make_inputs` makes. about: values that describe the network and are copied to the result. oversize: see
    `emit`.

    Raises what `emit` raises; an incomplete archive is removed.
    """
    machine = get_target(target)
    report("binding")
    programs = lower_plans([plan, *(part.plan for part in parts)], kernels)
    blob = Blob(programs[0].program.constants)
    unit = make_unit(programs[0], title, maker, blob)
    timed = []
    for number, (part, program) in enumerate(zip(parts, programs[1:], strict=True)):
        name = f"{unit.name}_plan{number}"
        one = make_unit(program, title, maker, blob, name, unit.name)
        actors = [part.actors.get(actor) for actor in one.actors]
        firings = sum(map(bool, one.tables.ends))
        timed.append(times.Timed(one, {**part.about, "firings": firings, "actors": actors}))
    report("writing")
    with translate_file_errors(file), scratch_folder(file) as scratch:
        folder = scratch / unit.name
        folder.mkdir()
        more = [one.unit for one in timed]
        made = fill(folder, unit, machine, more, literals, oversize=oversize)
        for path in times.FILES:
            shutil.copyfile(path, folder / path.name)
        write(folder / f"{unit.name}_times.h", times.header(unit, timed))
        expected = times.sample_expected(unit, outputs)
        write(folder / f"{unit.name}_times.c", times.source(unit, timed, about, expected))
        write(
            folder / "README.txt",
            fill_template(TEXT / "README.txt", **unit.words, board=machine.board),
        )
        with replace_file(file) as archive:
            _packed(folder, archive)
    return made


def _packed(folder: Path, archive: IO[bytes]) -> None:
    """A folder as .tar.gz."""

    def plain(one: tarfile.TarInfo) -> tarfile.TarInfo:
        one.mtime = one.uid = one.gid = 0
        one.uname = one.gname = ""
        one.mode = 0o755 if one.isdir() else 0o644
        return one

    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=archive, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for path in sorted((folder, *folder.rglob("*"))):
            tar.add(path, str(path.relative_to(folder.parent)), recursive=False, filter=plain)
