"""How does Python call the kernels? By their addresses in a library that was built.

Steps contain addresses: their owner keeps the arrays alive.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from ctypes import c_char_p, c_double, c_float, c_int32, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from csdfgen.backends.native.build import FLAGS, LEVELS, NATIVE, build
from csdfgen.backends.native.structures import constant, structure, structures
from csdfgen.errors import ToolError

__all__ = ["Library", "load"]

_PEAK_ROUNDS, _PEAK_TIMES = 200_000, 5
"""Of the loop on registers: about a millisecond; and how often it is timed."""


class Library:
    """The kernels of a library that was built; it stays loaded until the process ends.

    instructions: the instruction set that it uses. compiler: the compiler that made it. functions: name without
    `csdf_` -> function of the address of a step.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._library = ctypes.CDLL(str(path))
            self._library.csdf_instructions.restype = c_char_p
            self._library.csdf_compiler.restype = c_char_p
            self._library.csdf_size_of.restype = c_size_t
            sizes = [self._library.csdf_size_of(k) for k, _ in enumerate(structures())]
            version = self._library.csdf_version()
        except (OSError, AttributeError) as error:
            raise ToolError(f"is not a library of kernels: {error}", where=str(path)) from None
        wanted = [structure(name).size for name in structures()]
        known = constant("CSDF_VERSION")
        if (version, sizes) != (known, wanted):
            raise ToolError(
                f"has version {version} and structures of {sizes} bytes; {known} and {wanted} are needed",
                where=str(path),
            )
        self.path = path
        self.instructions: str = self._library.csdf_instructions().decode()
        self.compiler: str = self._library.csdf_compiler().decode()
        self._library.csdf_lacking.restype = c_char_p
        lacking: bytes | None = self._library.csdf_lacking()
        self.lacking = lacking.decode() if lacking else ""
        self.functions: dict[str, Any] = {}
        for name in ("conv", "depthwise", "winograd", "winograd_row", "gemm"):
            function = getattr(self._library, f"csdf_{name}")
            function.restype, function.argtypes = None, (c_void_p,)
            self.functions[name] = function
        self._addresses: dict[str, int] = {}
        self.run = self._library.csdf_run
        self.run.restype, self.run.argtypes = None, (c_void_p, c_int32)
        self.team_new = self._library.csdf_team_new
        self.team_new.restype, self.team_new.argtypes = c_void_p, (c_int32,)
        self.team_end, self.team_run = self._library.csdf_team_end, self._library.csdf_team_run
        self.team_end.restype, self.team_end.argtypes = None, (c_void_p,)
        self.team_run.restype, self.team_run.argtypes = None, (c_void_p, c_void_p, c_int32)
        self._peak = self._library.csdf_peak
        self._peak.restype, self._peak.argtypes = c_double, (c_int32, c_void_p)
        self._winograd_bytes = self._library.csdf_winograd_bytes
        self._winograd_bytes.restype = c_size_t
        self._winograd_bytes.argtypes = (c_void_p, c_int32, c_int32, c_int32)
        self._winograd_row_bytes = self._library.csdf_winograd_row_bytes
        self._winograd_row_bytes.restype = c_size_t
        self._winograd_row_bytes.argtypes = (c_void_p, c_int32, c_int32, c_int32)

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

    def winograd_bytes(self, layer: Any, tile: int, tiles: int, channels: int) -> int:
        """Bytes of workspace with which `csdf_winograd` computes `tiles` tiles of `tile` rows at a time, from
        `channels` input channels at a time.
        """
        return int(self._winograd_bytes(ctypes.byref(layer), tile, tiles, channels))

    def winograd_row_bytes(self, layer: Any, rows: int, tiles: int, channels: int) -> int:
        """Bytes of workspace with which `csdf_winograd_row` computes `rows` rows of `tiles` tiles at a time, from
        `channels` input channels of a group at a time.
        """
        return int(self._winograd_row_bytes(ctypes.byref(layer), rows, tiles, channels))


@cache
def load(flags: Sequence[str] = FLAGS) -> Library:
    """The kernel library of this machine, built if necessary. Raises ToolError.

    With -march=native the compiler uses the instruction set of the processor that it runs on. Where this processor
    has a smaller one, as in an emulator that starts compilers outside of it, a library for a smaller one is built.
    """
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
