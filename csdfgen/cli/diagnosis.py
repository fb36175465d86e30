"""Is anything in the way? Versions, threads, and whether our import names are ours alone.

Five import packages come with csdfgen under their plain names; the package index has other packages
with some of these names, and pip overwrites files without a word.
"""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from csdfgen import __version__
from csdfgen.backends.native.build import cache_folder, find_compiler
from csdfgen.errors import ToolError
from sdf3_bridge.tools import KITER, SDF3, Family, find_tool

__all__ = ["IMPORT_NAMES", "Finding", "diagnose", "second_owners"]

DISTRIBUTION = "csdfgen"
IMPORT_NAMES = ("csdfgen", "sdf3_bridge", "schedules", "runtime", "zoo_models")
DEPENDENCIES = (
    "numpy",
    "onnx",
    "onnxruntime",
    "lxml",
    "networkx",
    "pillow",
    "rich",
    "scipy",
    "threadpoolctl",
    "typer",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the diagnosis; `trouble` says what to do about it, if anything is wrong;
    `absent`: it is not needed.
    """

    what: str
    value: str
    trouble: str = ""
    absent: bool = False


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
    return [
        Finding("csdfgen", f"{__version__} ({Path(__file__).parents[1]})"),
        Finding("Python", f"{platform.python_version()} ({sys.executable})"),
        Finding("system", f"{platform.system()} {platform.machine()}, {_cores()}"),
        *(_version(name) for name in DEPENDENCIES),
        *_linear_algebra(),
        *_import_names(),
        _compiler(),
        *(_tool(family) for family in (SDF3, KITER)),
    ]


def _compiler() -> Finding:
    """What builds native code."""
    try:
        compiler = find_compiler()
    except ToolError as error:
        return Finding("C compiler", error.message, absent=True)
    return Finding("C compiler", f"{compiler.name}; native code is kept in {cache_folder()}")


def _cores() -> str:
    import os

    count = os.cpu_count()
    return f"{count} cores" if count else "number of cores unknown"


def _version(name: str) -> Finding:
    try:
        return Finding(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        return Finding(name, "not installed", f"install it: pip install {name}")


def _linear_algebra() -> list[Finding]:
    """The BLAS that numpy uses, and its threads."""
    import numpy as np  # loads the library that is then looked for
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool.get("user_api") == "blas"]
    if not pools:
        return [
            Finding(
                "BLAS",
                f"numpy {np.__version__} has none that is known; matrix products will be slow",
            )
        ]
    return [
        Finding(
            "BLAS",
            f"{pool['internal_api']} {pool.get('version') or ''}, {pool['num_threads']} threads at start",
        )
        for pool in pools
    ]


def _tool(family: Family) -> Finding:
    """A tool that can be asked instead of our own engine."""
    try:
        tool = find_tool(family)
        if tool is None:
            return Finding(
                family.title, f"not installed; {family.variable} can point to it", absent=True
            )
        return Finding(family.title, f"version {tool.version()} ({tool.path}, by {tool.said_by})")
    except ToolError as error:
        return Finding(family.title, "cannot be used", str(error))


def _import_names() -> list[Finding]:
    others = second_owners(metadata.packages_distributions())
    home = Path(__file__).resolve().parents[2]
    found = []
    for name in IMPORT_NAMES:
        spec = importlib.util.find_spec(name)
        place = Path(spec.origin).resolve().parent if spec is not None and spec.origin else None
        if name in others:
            way_out = f"also installed by {', '.join(others[name])}; give csdfgen an environment of its own"
            found.append(Finding(f"import {name}", str(place), way_out))
        elif place != home / name:
            found.append(
                Finding(
                    f"import {name}",
                    str(place),
                    f"expected in {home}; another package hides it, remove that",
                )
            )
        else:
            found.append(Finding(f"import {name}", "ours alone"))
    return found
