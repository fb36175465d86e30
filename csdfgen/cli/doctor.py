"""`csdfgen doctor`: is anything in the way? Versions, threads, and whether our import names are ours alone.

Five import packages come with csdfgen under their plain names; the package index has other packages
with some of these names, and pip overwrites files without a word.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from csdfgen import __version__
from csdfgen.cli.command import Command
from csdfgen.cli.options import JsonOption
from csdfgen.cli.terminal import say, say_json, table
from csdfgen.errors import InputError, ToolError
from csdfgen.model.units import pluralize

if TYPE_CHECKING:
    from sdf3_bridge.tools import Family


DISTRIBUTION = "csdfgen"
IMPORT_NAMES = ("csdfgen", "sdf3_bridge", "schedules", "runtime", "zoo_models")
DEPENDENCIES = (
    "numpy", "onnx", "onnxruntime", "lxml", "networkx", "pillow", "rich", "scipy", "threadpoolctl", "typer",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the diagnosis; `trouble` says what to do about it, if anything is wrong;
    `absent`: it is not needed.
    """

    what: str
    value: str
    trouble: str = ""
    absent: bool = False

    @property
    def verdict(self) -> Text:
        """In a word, or what to do."""
        if self.trouble:
            return Text(self.trouble, style="red")
        return Text("not needed", style="dim") if self.absent else Text("ok", style="green")


@dataclass(frozen=True, kw_only=True)
class Doctor(Command):
    """Show versions, threads and possible conflicts; exit 1 if there is a conflict."""

    as_json: JsonOption = False

    def run(self) -> None:
        """Print what was found. Raises ToolError with the first trouble, if any."""
        findings = diagnose()
        if self.as_json:
            say_json({"findings": [asdict(one) for one in findings]})
        else:
            rows = ((one.what, one.value, one.verdict) for one in findings)
            say(table("what", "found", "", rows=rows))
        troubles = [one for one in findings if one.trouble]
        if troubles:
            first = troubles[0]
            raise ToolError(
                f"{pluralize(len(troubles), 'trouble')}; {first.trouble}", where=first.what
            )


def second_owners(owners: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Import name -> other distributions that install it; owners: as
    `importlib.metadata.packages_distributions()` gives.

    >>> second_owners({"runtime": ["csdfgen", "runtime"], "csdfgen": ["csdfgen"]})
    {'runtime': ['runtime']}
    """
    found = {name: sorted(set(owners.get(name, ())) - {DISTRIBUTION}) for name in IMPORT_NAMES}
    return {name: others for name, others in found.items() if others}


def diagnose() -> list[Finding]:
    """Everything that `csdfgen doctor` shows."""
    from sdf3_bridge.tools import KITER, SDF3

    cores = pluralize(os.cpu_count() or 0, "core") if os.cpu_count() else "number of cores unknown"
    return [
        Finding("csdfgen", f"{__version__} ({Path(__file__).parents[1]})"),
        Finding("Python", f"{platform.python_version()} ({sys.executable})"),
        Finding("system", f"{platform.system()} {platform.machine()}, {cores}"),
        *map(_version, DEPENDENCIES),
        *_linear_algebra(),
        *_import_names(),
        *_kernels(),
        _compiler(),
        _opencl(),
        *map(_tool, (SDF3, KITER)),
    ]


def _kernels() -> Iterator[Finding]:
    """The library of the wheel that native code uses, if it has one."""
    from csdfgen.backends.native.library import prebuilt_library

    found = prebuilt_library()
    if found is not None:
        yield Finding("kernels", f"{found.compiler}, in the wheel ({found.path})")


def _compiler() -> Finding:
    """What builds native code where the wheel has none, and emitted C."""
    from csdfgen.backends.native.build import find_compiler
    from csdfgen.files import cache_folder

    try:
        compiler = find_compiler()
    except ToolError as error:
        return Finding("C compiler", error.message, absent=True)
    return Finding(
        "C compiler",
        f"{compiler.name}; native code is kept in {cache_folder('native')} (csdfgen cache)",
    )


def _opencl() -> Finding:
    """The device of `--backend opencl`."""
    from csdfgen.backends.opencl.devices import choose_device, devices

    try:
        there, first = devices(), choose_device()
    except ToolError as error:
        return Finding("OpenCL", error.message, absent=True)
    except InputError as error:
        return Finding("OpenCL", f"{pluralize(len(devices()), 'device')}", error.message)
    others = f"; csdfgen devices --opencl lists {len(there)}" if len(there) > 1 else ""
    return Finding("OpenCL", f"{first}{others}")


def _version(name: str) -> Finding:
    try:
        return Finding(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        return Finding(name, "not installed", f"install it: pip install {name}")


def _linear_algebra() -> Iterator[Finding]:
    """The BLAS that numpy uses, and its threads."""
    import numpy as np  # loads the library that is then looked for
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool.get("user_api") == "blas"]
    for pool in pools:
        version, threads = pool.get("version") or "", pool["num_threads"]
        yield Finding("BLAS", f"{pool['internal_api']} {version}, {threads} threads at start")
    if not pools:
        none = f"numpy {np.__version__} has none that is known; matrix products will be slow"
        yield Finding("BLAS", none)


def _tool(family: Family) -> Finding:
    """A tool that can be asked instead of our own engine."""
    from sdf3_bridge.tools import find_tool

    try:
        tool = find_tool(family)
        if tool is None:
            way = f"not installed; {family.variable} can point to it"
            return Finding(family.title, way, absent=True)
        return Finding(family.title, f"version {tool.version()} ({tool.path}, by {tool.said_by})")
    except ToolError as error:
        return Finding(family.title, "cannot be used", str(error))


def _import_names() -> Iterator[Finding]:
    others = second_owners(metadata.packages_distributions())
    home = Path(__file__).resolve().parents[2]
    for name in IMPORT_NAMES:
        spec = importlib.util.find_spec(name)
        place = Path(spec.origin).resolve().parent if spec is not None and spec.origin else None
        value, way_out = str(place), ""
        if name in others:
            way_out = f"also installed by {', '.join(others[name])}; install csdfgen in a separate environment"
        elif place != home / name:
            way_out = f"expected in {home}; another package hides it, remove that"
        else:
            value = "ours alone"
        yield Finding(f"import {name}", value, way_out)
