"""How many bytes of heap does a piece of Python have alive at most? Counted by a hook under malloc.

The hook (heap_hook.c) is compiled by the system's C compiler and preloaded into a process of its
own, which asks it (`counted`) around what is to be measured. Python's own objects are blocks of
malloc there too (PYTHONMALLOC), so that none hides in a pool that was there before.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.pages import ROOT

__all__ = ["Counted", "HeapError", "NoCompilerError", "asked", "compiled_hook", "counted"]

SOURCE = Path(__file__).with_name("heap_hook.c")

COMPILERS = ("cc", "gcc", "clang")

SHOWN = 300
"""Characters of another program's message that are repeated."""

Value = TypeVar("Value")


class HeapError(Exception):
    """A measurement that failed, or that cannot be trusted; one line."""


class NoCompilerError(HeapError):
    """The hook cannot be made on this system."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Bytes above what was alive before: the most at one time, and those still alive afterwards."""

    most: int
    after: int


def compiled_hook(folder: Path) -> Path:
    """The hook as a shared library in this folder. Raises NoCompilerError."""
    if not sys.platform.startswith("linux"):
        raise NoCompilerError(f"the heap is counted on Linux only, this is {sys.platform}")
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC", ""), *COMPILERS))), None)
    if compiler is None:
        raise NoCompilerError(
            f"no C compiler ({', '.join(COMPILERS)}) to make the hook with that counts the heap; install one"
        )
    hook = folder / "heap_hook.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(hook), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoCompilerError(f"{compiler} cannot make the hook: {_last_line(done.stderr)}")
    return hook


def asked(hook: Path, module: str, arguments: Sequence[str]) -> dict[str, Any]:
    """What `python -m MODULE ARGUMENTS` prints as JSON on its last line, run with the hook preloaded
    and one thread. Raises HeapError with the last line of its complaints.
    """
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {**os.environ, **one, "LD_PRELOAD": str(hook), "PYTHONMALLOC": "malloc"}
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode or not done.stdout:
        raise HeapError(_last_line(done.stderr) or f"{module}: exit code {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def counted(function: Callable[[], Value]) -> tuple[Value, Counted]:
    """Call a function under the hook: its value, which is kept alive meanwhile, and its bytes.

    Raises HeapError where the hook is not preloaded or has lost count.
    """
    hook = _hook()
    hook["heap_start"]()
    value = function()
    most, after = hook["heap_most"](), hook["heap_alive"]()
    if hook["heap_lost"]():
        raise HeapError("the hook has lost count: there are more mappings than it can keep")
    return value, Counted(most, after)


def _hook() -> Mapping[str, Any]:
    """The hook's functions by name, once it has been seen to count."""
    try:
        library = ctypes.CDLL(None)
        found = {
            name: getattr(library, name)
            for name in ("heap_start", "heap_most", "heap_alive", "heap_lost")
        }
    except AttributeError:
        raise HeapError("the hook is not preloaded in this process") from None
    for name in ("heap_most", "heap_alive"):
        found[name].restype = ctypes.c_long
    probe = 1 << 20
    found["heap_start"]()
    block = bytearray(probe)
    seen = found["heap_most"]()
    if seen < len(block):
        raise HeapError(f"the hook saw {seen:,} bytes where {probe:,} were allocated")
    return found


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:SHOWN] if lines else ""
