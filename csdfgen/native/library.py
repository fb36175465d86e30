"""How does Python call the kernels? The structures of `csdf.h`, and a library that was built.

Structures hold addresses: who fills them keeps the arrays alive.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_float,
    c_int32,
    c_size_t,
    c_ssize_t,
    c_void_p,
)
from functools import cache
from pathlib import Path
from typing import Any

from csdfgen.errors import ToolError
from csdfgen.native.build import FLAGS, LEVELS, NATIVE, build

__all__ = [
    "ADD",
    "CLIP",
    "COPY",
    "DIVIDE",
    "HARD_SIGMOID",
    "HARD_SWISH",
    "LEAK",
    "LEAKY",
    "MULTIPLY",
    "NONE",
    "PANEL",
    "RANK",
    "SCALE",
    "SIGMOID",
    "SUBTRACT",
    "SWISH",
    "TO_BYTES",
    "TO_INTEGERS",
    "TO_VALUES",
    "Activation",
    "ByteAverageStep",
    "ByteConvStep",
    "ByteLayer",
    "ByteMapStep",
    "BytePoolStep",
    "ByteSource",
    "ByteSumStep",
    "ByteTarget",
    "ConvStep",
    "Dim",
    "GemmStep",
    "Layer",
    "Library",
    "MapStep",
    "PoolStep",
    "Port",
    "Record",
    "Rescaling",
    "Source",
    "Stage",
    "Strided",
    "Target",
    "Transfer",
    "load",
]

NONE, CLIP, LEAKY, SIGMOID, SWISH, HARD_SIGMOID, HARD_SWISH = range(7)
COPY, ADD, SUBTRACT, MULTIPLY, DIVIDE, SCALE, LEAK = range(7)
TO_BYTES, TO_INTEGERS, TO_VALUES = range(3)
TABLE, ADD_BYTES, MULTIPLY_BYTES, QUANTIZE, DEQUANTIZE = range(5)
PANEL = 16
RANK = 10
"""Most dimensions of a strided kernel: CSDF_RANK."""

_VERSION = 9


class Activation(Structure):
    """csdf_activation."""

    _fields_ = (("kind", c_int32), ("a", c_float), ("b", c_float))


class Source(Structure):
    """csdf_source."""

    _fields_ = (("rows", c_void_p), ("stride", c_int32), ("channels", c_int32))


class Target(Structure):
    """csdf_target."""

    _fields_ = (
        ("rows", c_void_p),
        ("stride", c_int32),
        ("count", c_int32),
        ("column", c_int32),
        ("columns", c_int32),
        ("channel", c_int32),
        ("channels", c_int32),
    )


class Layer(Structure):
    """csdf_layer."""

    _fields_ = (
        ("in_channels", c_int32),
        ("out_channels", c_int32),
        ("groups", c_int32),
        ("kernel_h", c_int32),
        ("kernel_w", c_int32),
        ("stride_h", c_int32),
        ("stride_w", c_int32),
        ("dilation_h", c_int32),
        ("dilation_w", c_int32),
        ("pad_left", c_int32),
        ("activation", Activation),
        ("weights", c_void_p),
        ("bias", c_void_p),
    )


class ConvStep(Structure):
    """csdf_conv_step."""

    _fields_ = (
        ("layer", POINTER(Layer)),
        ("pieces", POINTER(Source)),
        ("piece_count", c_int32),
        ("width", c_int32),
        ("out", Target),
        ("residual", POINTER(Source)),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
        ("tile", c_int32),
        ("some", c_int32),
        ("each", c_int32),
        ("apart", c_int32),
    )


class GemmStep(Structure):
    """csdf_gemm_step."""

    _fields_ = (
        ("inputs", c_int32),
        ("outputs", c_int32),
        ("first", c_int32),
        ("parts", c_int32),
        ("count", c_int32),
        ("channel", c_int32),
        ("channels", c_int32),
        ("begin", c_int32),
        ("end", c_int32),
        ("activation", Activation),
        ("weights", c_void_p),
        ("bias", c_void_p),
        ("sizes", c_void_p),
        ("rows", c_void_p),
        ("out", c_void_p),
    )


class MapStep(Structure):
    """csdf_map_step."""

    _fields_ = (
        ("operation", c_int32),
        ("count", c_int32),
        ("columns", c_int32),
        ("channels", c_int32),
        ("operands", Source * 3),
        ("out", c_void_p),
        ("stride", c_int32),
        ("activation", Activation),
    )


class PoolStep(Structure):
    """csdf_pool_step."""

    _fields_ = (
        ("average", c_int32),
        ("kernel_h", c_int32),
        ("kernel_w", c_int32),
        ("stride_h", c_int32),
        ("stride_w", c_int32),
        ("dilation_h", c_int32),
        ("dilation_w", c_int32),
        ("pad_left", c_int32),
        ("width", c_int32),
        ("begin", c_int32),
        ("end", c_int32),
        ("count", c_int32),
        ("columns", c_int32),
        ("stride", c_int32),
        ("source", Source),
        ("out", c_void_p),
        ("rows_seen", c_void_p),
        ("columns_seen", c_void_p),
        ("activation", Activation),
    )


class ByteSource(Structure):
    """csdf_byte_source."""

    _fields_ = (("rows", c_void_p), ("stride", c_int32), ("channels", c_int32))


class ByteTarget(Structure):
    """csdf_byte_target."""

    _fields_ = Target._fields_


class Rescaling(Structure):
    """csdf_rescaling."""

    _fields_ = (
        ("kind", c_int32),
        ("zero", c_int32),
        ("low", c_int32),
        ("high", c_int32),
        ("factors", c_void_p),
    )


class ByteLayer(Structure):
    """csdf_byte_layer."""

    _fields_ = (
        ("in_channels", c_int32),
        ("out_channels", c_int32),
        ("groups", c_int32),
        ("kernel_h", c_int32),
        ("kernel_w", c_int32),
        ("stride_h", c_int32),
        ("stride_w", c_int32),
        ("dilation_h", c_int32),
        ("dilation_w", c_int32),
        ("pad_left", c_int32),
        ("flip", c_int32),
        ("padding", c_int32),
        ("pace", c_int32),
        ("into", Rescaling),
        ("weights", c_void_p),
        ("bias", c_void_p),
        ("zeros", c_void_p),
    )


class ByteConvStep(Structure):
    """csdf_byte_conv_step."""

    _fields_ = (
        ("layer", POINTER(ByteLayer)),
        ("pieces", POINTER(ByteSource)),
        ("piece_count", c_int32),
        ("width", c_int32),
        ("out", ByteTarget),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
        ("each", c_int32),
        ("apart", c_int32),
    )


class ByteMapStep(Structure):
    """csdf_byte_map_step."""

    _fields_ = (
        ("operation", c_int32),
        ("count", c_int32),
        ("columns", c_int32),
        ("channels", c_int32),
        ("low", c_int32),
        ("high", c_int32),
        ("flip", c_int32 * 2),
        ("zeros", c_int32 * 2),
        ("set", c_float * 3),
        ("table", c_void_p),
        ("operands", ByteSource * 2),
        ("out", c_void_p),
        ("stride", c_int32),
    )


class BytePoolStep(Structure):
    """csdf_byte_pool_step."""

    _fields_ = (
        ("flip", c_int32),
        ("kernel_h", c_int32),
        ("kernel_w", c_int32),
        ("stride_h", c_int32),
        ("stride_w", c_int32),
        ("dilation_h", c_int32),
        ("dilation_w", c_int32),
        ("pad_left", c_int32),
        ("width", c_int32),
        ("begin", c_int32),
        ("count", c_int32),
        ("columns", c_int32),
        ("stride", c_int32),
        ("source", ByteSource),
        ("out", c_void_p),
    )


class ByteAverageStep(Structure):
    """csdf_byte_average_step."""

    _fields_ = (
        ("flip", c_int32),
        ("kernel_h", c_int32),
        ("kernel_w", c_int32),
        ("stride_h", c_int32),
        ("stride_w", c_int32),
        ("dilation_h", c_int32),
        ("dilation_w", c_int32),
        ("pad_left", c_int32),
        ("width", c_int32),
        ("count", c_int32),
        ("columns", c_int32),
        ("stride", c_int32),
        ("source_zero", c_int32),
        ("zero", c_int32),
        ("low", c_int32),
        ("high", c_int32),
        ("scale", c_float),
        ("out_scale", c_float),
        ("source", ByteSource),
        ("out", c_void_p),
        ("rows_seen", c_void_p),
        ("columns_seen", c_void_p),
    )


class ByteSumStep(Structure):
    """csdf_byte_sum_step."""

    _fields_ = (
        ("flip", c_int32),
        ("begin", c_int32),
        ("end", c_int32),
        ("count", c_int32),
        ("width", c_int32),
        ("rest", c_int32),
        ("zero", c_int32),
        ("low", c_int32),
        ("high", c_int32),
        ("factor", c_float),
        ("source", ByteSource),
        ("sums", c_void_p),
        ("out", c_void_p),
    )


class Dim(Structure):
    """csdf_dim."""

    _fields_ = tuple((name, c_ssize_t) for name in ("size", "a", "b", "c", "out"))


class Strided(Structure):
    """csdf_strided."""

    _fields_ = (
        ("dims", c_void_p),
        ("rank", c_int32),
        ("count", c_int32),
        ("a", c_void_p),
        ("b", c_void_p),
        ("c", c_void_p),
        ("out", c_void_p),
        ("index", c_void_p),
        ("along", c_ssize_t),
        ("out_along", c_ssize_t),
    )


class Record(Structure):
    """csdf_record."""

    _fields_ = (("kernel", c_void_p), ("step", c_void_p))


class Port(Structure):
    """csdf_port."""

    _fields_ = (("base", c_void_p), ("copy", c_void_p), ("strides", c_ssize_t * RANK))


class Transfer(Structure):
    """csdf_transfer."""

    _fields_ = (
        ("port", POINTER(Port)),
        ("dims", c_void_p),
        ("axes", c_void_p),
        ("starts", c_void_p),
        ("rank", c_int32),
        ("port_rank", c_int32),
        ("into_port", c_int32),
        ("memory", c_void_p),
    )


class Stage(Structure):
    """csdf_stage."""

    _fields_ = (("records", c_void_p), ("first", c_void_p), ("parts", c_int32))


_KNOWN = (
    Layer,
    ConvStep,
    GemmStep,
    Strided,
    Dim,
    Record,
    Port,
    Transfer,
    Stage,
    MapStep,
    PoolStep,
    ByteLayer,
    ByteConvStep,
    ByteMapStep,
    BytePoolStep,
    ByteSumStep,
    ByteAverageStep,
)
"""Structures in the order of csdf_size_of."""


_PEAK_ROUNDS, _PEAK_TIMES = 200_000, 5
"""Of the loop on registers: about a millisecond; and how often it is timed."""


class Library:
    """The kernels of a library that was built; it stays loaded as long as the process.

    instructions: the instruction set that it uses. compiler: what made it. functions: name without `csdf_` -> function of
    the address of a step.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._library = ctypes.CDLL(str(path))
            self._library.csdf_instructions.restype = c_char_p
            self._library.csdf_compiler.restype = c_char_p
            self._library.csdf_size_of.restype = c_size_t
            sizes = [self._library.csdf_size_of(k) for k in range(len(_KNOWN))]
            version = self._library.csdf_version()
        except (OSError, AttributeError) as error:
            raise ToolError(f"is no library of kernels: {error}", where=str(path)) from None
        wanted = [ctypes.sizeof(kind) for kind in _KNOWN]
        if (version, sizes) != (_VERSION, wanted):
            raise ToolError(
                f"has version {version} and structures of {sizes} bytes; {_VERSION} and {wanted} are needed",
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
        self._winograd_bytes.argtypes = (POINTER(Layer), c_int32, c_int32, c_int32)
        self._winograd_row_bytes = self._library.csdf_winograd_row_bytes
        self._winograd_row_bytes.restype = c_size_t
        self._winograd_row_bytes.argtypes = (POINTER(Layer), c_int32, c_int32, c_int32)

    def address(self, kernel: str) -> int:
        """Of a kernel `csdf_...` as a `Record` names it. Raises KeyError."""
        found = self._addresses.get(kernel)
        if found is None:
            try:
                function = getattr(self._library, f"csdf_{kernel}")
            except AttributeError:
                raise KeyError(kernel) from None
            found = self._addresses[kernel] = ctypes.cast(function, c_void_p).value or 0
        return found

    def peak(self) -> float:
        """Floating point operations a second that a core does on registers: measured now, in a few
        hundredths of a second, the fastest of several times.
        """
        kept = ctypes.c_float(1.0)
        self._peak(_PEAK_ROUNDS, ctypes.byref(kept))  # the clock rises
        best = 0.0
        for _ in range(_PEAK_TIMES):
            start = time.thread_time()
            operations = self._peak(_PEAK_ROUNDS, ctypes.byref(kept))
            best = max(best, operations / max(time.thread_time() - start, 1e-9))
        return float(best)

    def winograd_bytes(self, layer: Layer, tile: int, tiles: int, channels: int) -> int:
        """Workspace with which `csdf_winograd` computes so many tiles of `tile` rows at a time, from so
        many input channels at a time.
        """
        return int(self._winograd_bytes(layer, tile, tiles, channels))

    def winograd_row_bytes(self, layer: Layer, rows: int, tiles: int, channels: int) -> int:
        """Workspace with which `csdf_winograd_row` computes so many rows of tiles at a time, from so
        many input channels of a group at a time.
        """
        return int(self._winograd_row_bytes(layer, rows, tiles, channels))


@cache
def load(flags: Sequence[str] = FLAGS) -> Library:
    """The kernel library of this machine, built if need be. Raises ToolError.

    The compiler says what the processor can that it runs on. Where that is more than this one can, as in
    an emulator, which starts compilers outside of it, a library is built for less.
    """
    found = Library(build(flags=tuple(flags)))
    for level in LEVELS if found.lacking and NATIVE in flags else ():
        found = Library(build(flags=tuple(level if flag == NATIVE else flag for flag in flags)))
        if not found.lacking:
            break
    if found.lacking:
        raise ToolError(
            f"is for processors with {found.lacking}, which this one has not; set CC to a compiler for it",
            where=str(found.path),
        )
    return found
