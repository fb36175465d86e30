"""Which files of the kernel library does a program need? Those that define the functions that it calls, directly or not.

Names of kernels are made by macros, so that the compiler has to expand every file. The functions that a file defines and uses
are read from its own expanded lines (headers only declare functions).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from csdfgen.backends.native.build import STANDARD, Compiler, find_compiler, sources
from csdfgen.backends.native.generate import read_source, write
from csdfgen.errors import PlanError, ToolError

_NESTED = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*"
_FUNCTION = re.compile(rf"\b(csdf_\w+)\s*\({_NESTED}\)\s*\{{")
_VALUES = re.compile(r"\b(csdf_\w+)\s*\[[^\]]*\]\s*=")
_USED = re.compile(r"\bcsdf_\w+")
_MARKER = re.compile(r'#\s*(?:line\s+)?\d+\s+"(.*?)"')
_INCLUDED = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
_BLOCKS = re.compile(r"(?:blocks|lines)_(\d+)\.h")


def collect_sources(kernels: Iterable[str], lanes: Iterable[int] | None = None) -> dict[str, str]:
    """Name -> text of the files that define these functions and everything that they call, with headers. lanes: numbers of
    vector lanes that the target may have, None: all.

    Raises ToolError without a compiler, or if it fails; PlanError for a kernel that no file defines.
    """
    files = _library(find_compiler())
    home = {name: file for file, (defined, _) in files.items() for name in defined}
    found: set[str] = set()
    waiting = list(kernels)
    while waiting:
        name = waiting.pop()
        if name not in home:
            raise PlanError(f"no file of the kernel library defines {name}")
        if home[name] not in found:
            found.add(home[name])
            waiting += files[home[name]][1] & home.keys()
    found |= _headers(found, None if lanes is None else set(lanes))
    return {name: read_source(name) for name in sorted(found)}


def list_shared(files: Iterable[str]) -> set[str]:
    """Functions that one of these files defines and another one calls."""
    return set().union(*(used for _, used in list_functions(files).values()))


def list_functions(files: Iterable[str]) -> dict[str, tuple[set[str], set[str]]]:
    """File -> the functions that it defines, and others that it uses, of those files that define some."""
    library = _library(find_compiler())
    return {name: library[name] for name in files if name in library}


def list_headers(text: str) -> list[str]:
    """The headers of kernels that a text includes."""
    return _INCLUDED.findall(text)


def _headers(files: Iterable[str], lanes: set[int] | None) -> set[str]:
    """The headers that files include, directly or through other headers."""
    found: set[str] = set()
    waiting = list(files)
    while waiting:
        for name in _INCLUDED.findall(read_source(waiting.pop())):
            blocks = _BLOCKS.fullmatch(name)
            if name not in found and (lanes is None or blocks is None or int(blocks[1]) in lanes):
                found.add(name)
                waiting.append(name)
    return found


@cache
def _library(compiler: Compiler) -> dict[str, tuple[set[str], set[str]]]:
    """File -> the functions that it defines, and others that it uses."""
    files = sources()
    with tempfile.TemporaryDirectory(prefix="csdfgen-") as folder:
        write(Path(folder))
        flags = [*STANDARD, "-E", "-DCSDF_SCALAR", f"-I{folder}"]
        expanded = compiler.run_all([*flags, path] for path in files)
    readers: dict[str, set[str]] = {}
    for path in files:
        for header in _INCLUDED.findall(path.read_text()):
            readers.setdefault(header, set()).add(path.stem)
    # such as depthwise.h, which is the code of depthwise.c and depthwise_bf16.c
    shared = [
        header
        for header, some in readers.items()
        if all(one.startswith(Path(header).stem) for one in some)
    ]
    found = {}
    for path, (code, text, errors) in zip(files, expanded, strict=True):
        if code:
            raise ToolError(f"fails: {errors.strip().splitlines()[0]}", where=compiler.name)
        own = _own(text, {path.name, *(one for one in shared if path.stem in readers[one])})
        defined = set(_FUNCTION.findall(own)) | set(_VALUES.findall(own))
        found[path.name] = defined, set(_USED.findall(own)) - defined
    return found


def _own(text: str, names: set[str]) -> str:
    """The lines of an expanded file that come from files of these names, and not from other headers."""
    found: list[str] = []
    ours = False
    for line in text.splitlines():
        marker = _MARKER.match(line) if line.startswith("#") else None  # a million lines are not
        if marker is not None:
            ours = Path(marker[1]).name in names
        elif ours:
            found.append(line)
    return "\n".join(found)
