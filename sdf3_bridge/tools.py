"""Where are SDF3 and Kiter on this machine, and which release are they?

Named by an option, else by CSDFGEN_SDF3 or CSDFGEN_KITER (the program, or a folder of the release),
else looked for on the PATH. Whoever names a place and is wrong is told so; nothing else is tried
then.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from csdfgen.errors import ToolError
from sdf3_bridge.process import Finished, run_program

_VERSION_SECONDS = 10.0
_NOT_TOLD = "not told"


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of tool: its name, its place in a release, and how it prints its version.

    folders: below a folder that is named, where its program may be, wildcards allowed. version:
    from what `flag` prints, None if that is no tool of this family.
    """

    title: str
    program: str
    option: str
    variable: str
    folders: tuple[str, ...]
    flag: str
    version: Callable[[str], str | None]

    @property
    def way_out(self) -> str:
        """How to say where the tool is."""
        places = f"the folder that holds {self.program}, or the program"
        return (
            f"point to it with {self.option} or {self.variable} ({places}), or put it on the PATH"
        )


def _sdf3_version(text: str) -> str | None:
    """Of "SDF3 sdf3analysis-csdf (version 1.0)"; another program of SDF3 is not the one."""
    found = re.search(r"sdf3analysis-csdf(?: \(version ([^)\s]{1,40})\))?", text)
    return (found[1] or _NOT_TOLD) if found else None


def _kiter_version(text: str) -> str | None:
    """Kiter prints no version; its help names the algorithm that we call."""
    return _NOT_TOLD if "KPeriodicThroughput" in text else None


SDF3 = Family(
    title="SDF3",
    program="sdf3analysis-csdf",
    option="--sdf3",
    variable="CSDFGEN_SDF3",
    folders=(".", "bin", "build/release/*/bin", "sdf3/build/release/*/bin"),
    flag="--help",
    version=_sdf3_version,
)
KITER = Family(
    title="Kiter",
    program="kiter",
    option="--kiter",
    variable="CSDFGEN_KITER",
    folders=(".", "bin", "Release/bin", "build/bin"),
    flag="-h",
    version=_kiter_version,
)


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that was found. said_by: what named it, "PATH" if it was looked for."""

    family: Family
    path: Path
    said_by: str

    def run(
        self,
        arguments: Sequence[str],
        files: Mapping[str, bytes] | None = None,
        timeout: float = 60.0,
    ) -> Finished:
        """Run it in a temporary folder that holds `files`. Raises ToolError, see `run_program`."""
        with tempfile.TemporaryDirectory(prefix="csdfgen-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            for file, content in (files or {}).items():
                (folder / file).write_bytes(content)
            return run_program([str(self.path), *arguments], folder, timeout)

    def version(self) -> str:
        """The version that it prints. Raises ToolError if it cannot be run, or is another program."""
        done = self.run([self.family.flag], timeout=_VERSION_SECONDS)
        version = self.family.version(done.stdout + done.stderr)
        if version is None:
            said = f"'{self.family.flag}' does not print what that prints"
            raise ToolError(f"is not {self.family.program}: {said}", where=str(self.path))
        return version


def find_tool(family: Family, option: str | os.PathLike[str] | None = None) -> Tool | None:
    """A tool of a family, None if it is not installed. Raises ToolError if it is not where it should be."""
    for said_by, place in (
        (family.option, option),
        (family.variable, os.environ.get(family.variable)),
    ):
        if place is not None and str(place):
            return Tool(family, _in_place(family, Path(place).expanduser(), said_by), said_by)
    found = shutil.which(family.program)
    return Tool(family, _absolute(found), "PATH") if found else None


def need(family: Family, option: str | os.PathLike[str] | None = None) -> Tool:
    """The tool, which must be there. Raises ToolError: how to point to it."""
    found = find_tool(family, option)
    if found is None:
        raise ToolError(
            f"{family.title} is not installed: {family.way_out}; --engine native needs no tool"
        )
    return found


def _in_place(family: Family, place: Path, said_by: str) -> Path:
    """The program at a place that somebody named."""
    where = f"{said_by}={place}"
    if place.is_dir():
        candidates = [
            path
            for folder in family.folders
            for path in sorted(place.glob(f"{folder}/{family.program}"))
        ]
        usable = [path for path in candidates if path.is_file()]
        if not usable:
            raise ToolError(
                f"holds no {family.program}, neither itself nor in {', '.join(family.folders[1:])}",
                where=where,
            )
        place = usable[0]
    elif not place.exists():
        raise ToolError(f"is not there; {family.title} is looked for at it", where=where)
    if not os.access(place, os.X_OK) or not place.is_file():
        raise ToolError(f"'{place.name}' is not a program that can be run", where=where)
    return _absolute(place)


def _absolute(path: str | os.PathLike[str]) -> Path:
    """As the program may look at the name it is called by, links are kept."""
    return Path.cwd() / path
