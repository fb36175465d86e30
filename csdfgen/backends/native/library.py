"""How does Python call the kernels? By their addresses in a library that was built.

Steps contain addresses: their owner keeps the arrays alive.
"""

from __future__ import annotations

import ctypes
import logging
import time
from collections.abc import Sequence
from ctypes import c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from csdfgen.backends.native import prebuilt
from csdfgen.backends.native.build import FLAGS, LEVELS, NATIVE, NO_HALVES, build, sources_digest
from csdfgen.backends.native.structures import constant, structure, structures
from csdfgen.errors import ToolError
from schedules.peak import flow

_LOG = logging.getLogger(__name__)

_PEAK_ROUNDS, _PEAK_TIMES = 200_000, 5
"""Of the loop on registers: about a millisecond; and how often it is timed."""


class Library:
    """The kernels of a library that was built; it stays loaded until the process ends.

    instructions: the instruction set that it uses. compiler: the compiler that made it. lacking: what it uses of a
    processor that this one does not have, "" for nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._library = ctypes.CDLL(str(path))
            size_of = self.function("size_of", c_size_t, c_int32)
            sizes = [size_of(k) for k, _ in enumerate(structures())]
            version = self.function("version", c_int32)()
            self.pairs_suit = bool(self.function("pairs_suit", c_int32)())
            self.bf16_suits: int = self.function("bf16_suits", c_int32)()
            self.f16_suits: int = self.function("f16_suits", c_int32)()
            words = [
                (self.function(name, c_char_p)() or b"").decode()
                for name in ("instructions", "compiler", "lacking")
            ]
        except (OSError, AttributeError) as error:
            raise ToolError(f"is not a library of kernels: {error}", where=str(path)) from None
        wanted = [structure(name).size for name in structures()]
        known = constant("CSDF_VERSION")
        if (version, sizes) != (known, wanted):
            raise ToolError(
                f"has version {version} and structures of {sizes} bytes; {known} and {wanted} are needed",
                where=str(path),
            )
        self.instructions, self.compiler, self.lacking = words
        self._addresses: dict[str, int] = {}
        self.run = self.function("run", None, c_void_p, c_int32)
        self.team_new = self.function("team_new", c_void_p, c_int32)
        self.team_end = self.function("team_end", None, c_void_p)
        self.team_run = self.function("team_run", None, c_void_p, c_void_p, c_int32)
        self._peak = self.function("peak", c_double, c_int32, c_void_p)
        self._least_cut = self.function("least_cut", c_int64, c_int32, *[c_void_p] * 4)

    def function(self, name: str, result: Any, *arguments: Any) -> Any:
        """The function `csdf_...` with these types of its result and its arguments. Raises AttributeError."""
        found = getattr(self._library, f"csdf_{name}")
        found.restype, found.argtypes = result, arguments
        return found

    def address(self, kernel: str) -> int:
        """The address of a kernel `csdf_...` in a record. Raises KeyError."""
        found = self._addresses.get(kernel)
        if found is None:
            try:
                function = getattr(self._library, f"csdf_{kernel}")
            except AttributeError:
                raise KeyError(kernel) from None
            found = self._addresses[kernel] = ctypes.cast(function, c_void_p).value or 0
        return found

    def has(self, kernel: str) -> bool:
        """Whether the library has a kernel."""
        try:
            self.address(kernel)
        except KeyError:
            return False
        return True

    def peak(self) -> float:
        """Floating point operations per second of a core on registers: measured now, in a few hundredths of
        a second, the fastest of several runs.
        """
        kept = c_float(1.0)
        self._peak(_PEAK_ROUNDS, ctypes.byref(kept))  # the clock rises
        best = 0.0
        for _ in range(_PEAK_TIMES):
            start = time.thread_time()
            operations = self._peak(_PEAK_ROUNDS, ctypes.byref(kept))
            best = max(best, operations / max(time.thread_time() - start, 1e-9))
        return float(best)

    def least_cut(
        self, capacity: np.ndarray, columns: np.ndarray, rows: np.ndarray
    ) -> tuple[int, np.ndarray]:
        """See `schedules.peak.flow.least_cut`; all arrays in 32 bits."""
        nodes, room = len(rows) - 1, capacity.copy()
        work = np.empty(3 * nodes + len(columns), np.int32)
        flow = self._least_cut(nodes, *(one.ctypes.data for one in (rows, columns, room, work)))
        return flow, work[:nodes] >= 0


@cache
def load(flags: Sequence[str] = FLAGS) -> Library:
    """The kernel library of this machine: of the wheel, or with other flags or in a checkout one that is built if necessary.
    Raises ToolError.
    """
    found = (prebuilt_library() if flags == FLAGS else None) or _built(flags)
    flow.use_compiled(found.least_cut)
    return found


def prebuilt_library() -> Library | None:
    """The best library of the wheel for this processor, of the sources that are there. In an emulator the system may list
    instructions that there are not; files may be on a file system from which nothing is executed.
    """
    for level, sources, path in prebuilt.list_suitable_libraries():
        if sources != sources_digest():
            continue
        try:
            found = Library(path)
        except ToolError as error:
            _LOG.warning("%s", error)
            continue
        if not found.lacking:
            found.compiler += f", {level.name}"
            return found
    return None


def _built(flags: Sequence[str]) -> Library:
    """A library that is built if necessary. Raises ToolError.

    With -march=native the compiler uses the instruction set of the processor that it runs on. Where this processor
    has a smaller one, as in an emulator that starts compilers outside of it, a library for a smaller one is built.
    """
    if NATIVE in flags and prebuilt.has_slow_pairs():
        flags = (NO_HALVES, *flags)
    found = Library(build(flags=tuple(flags)))
    for level in LEVELS if found.lacking and NATIVE in flags else ():
        found = Library(build(flags=tuple(level if flag == NATIVE else flag for flag in flags)))
        if not found.lacking:
            break
    if found.lacking:
        raise ToolError(
            f"is for processors with {found.lacking}, which this one does not have; set CC to a compiler for it",
            where=str(found.path),
        )
    return found
