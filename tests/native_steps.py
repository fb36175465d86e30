"""How does a test call a kernel? Maps with rows anywhere between canaries, steps over them, and the
same layers in plain numpy.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from csdfgen.backends.native import packing
from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.native.build import FLAGS, NATIVE, STANDARD, Compiler, find_compiler
from csdfgen.backends.native.library import load
from csdfgen.backends.native.structures import CLIP, LEAKY, NONE, ctype
from csdfgen.backends.numpy.backend import NUMPY
from csdfgen.errors import ToolError
from csdfgen.program.steps import Backend

Activation, ConvStep, Layer = (
    ctype(f"csdf_{name}") for name in ("activation", "conv_step", "layer")
)
Source, Target = ctype("csdf_source"), ctype("csdf_target")

__all__ = [
    "CANARY",
    "COMPUTED_BY",
    "MACHINES",
    "Convolution",
    "Map",
    "activated",
    "backends",
    "compiler_missing",
    "convolved",
    "layer_of",
    "on_each_machine",
    "pointers",
    "run",
    "script",
    "step_of",
    "workspace_bytes",
]

MACHINES = {
    "host": FLAGS,
    "scalar": (*STANDARD, "-O1", NATIVE, "-DCSDF_SCALAR"),
    "avx2": (*STANDARD, "-O1", "-march=x86-64-v3"),
    "pairs": (*STANDARD, "-O1", NATIVE, "-UCSDF_NO_HALVES"),
}
"""Flags of the kernel libraries that tests execute. Each is built once, and in half the time with -O1."""

on_each_machine = pytest.mark.parametrize(
    "machine",
    [
        "host",
        "scalar",
        pytest.param(
            "avx2",
            marks=[  # the quick tests leave half a minute of compiling to the rest
                pytest.mark.networks,
                pytest.mark.skipif(
                    platform.machine() not in ("x86_64", "AMD64"),
                    reason=f"a processor of another kind: {platform.machine()}",
                ),
            ],
        ),
    ],
)
"""Run a test with each of `MACHINES`."""

CANARY = np.float32(-7.25e11)
_GUARD = 32
"""Floats between two rows that nobody may write."""


def script(path: Path, text: str) -> Compiler:
    """A compiler that is a few lines of shell."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return Compiler((str(path),))


@cache
def backends(*, fallback: bool = False) -> Mapping[str, Backend]:
    """numpy, and native code where there is a compiler. fallback: see `NativeKernels`."""
    native = {} if compiler_missing() else {"native": NativeKernels(load(), fallback=fallback)}
    return {"numpy": NUMPY} | native


@cache
def compiler_missing() -> str:
    """Why native code cannot be tested here; "" if it can."""
    try:
        find_compiler()
    except ToolError as error:
        return str(error)
    return ""


COMPUTED_BY = ("numpy",) if compiler_missing() else ("numpy", "native")
"""Names of `backends`."""


def pointers(addresses: Sequence[int]) -> np.ndarray:
    """A table of addresses."""
    return np.array(addresses, np.uintp)


@dataclass
class Map:
    """Rows of a map (height, width, channels), each somewhere in memory, pixels `stride` floats apart."""

    memory: np.ndarray
    starts: tuple[int, ...]
    width: int
    channels: int
    stride: int

    @classmethod
    def empty(
        cls, shape: tuple[int, int, int], order: Sequence[int] | None = None, gap: int = 0
    ) -> Map:
        """Rows of canaries: the k-th place is that of row order[k]; `gap` floats between pixels."""
        height, width, channels = shape
        stride = channels + gap
        size = width * stride + _GUARD
        starts = [0] * height
        for place, row in enumerate(range(height) if order is None else order):
            starts[row] = _GUARD + place * size
        memory = packing.aligned(np.full(_GUARD + height * size, CANARY))
        return cls(memory, tuple(starts), width, channels, stride)

    @classmethod
    def of(cls, array: np.ndarray, order: Sequence[int] | None = None, gap: int = 0) -> Map:
        """A map with these values."""
        found = cls.empty(array.shape, order, gap)
        for row, values in enumerate(array):
            found.row(row)[...] = values
        return found

    def row(self, row: int) -> np.ndarray:
        """(width, channels), a view."""
        flat = self.memory[self.starts[row] :][: self.width * self.stride]
        return flat.reshape(self.width, self.stride)[:, : self.channels]

    @property
    def array(self) -> np.ndarray:
        """A copy of its values."""
        return np.array([self.row(row) for row in range(len(self.starts))])

    @property
    def intact(self) -> bool:
        """Whether nothing was written between rows and pixels."""
        kept = self.memory.copy()
        Map(kept, self.starts, self.width, self.channels, self.stride)._clear()
        return bool(np.all(kept == CANARY))

    def _clear(self) -> None:
        for row in range(len(self.starts)):
            self.row(row)[...] = CANARY

    def address(self, row: int) -> int:
        """Of a row; 0 for one outside the map."""
        inside = 0 <= row < len(self.starts)
        return self.memory.ctypes.data + 4 * self.starts[row] if inside else 0


@dataclass(frozen=True)
class Convolution:
    """A convolution, weights (out, in / groups, h, w); pads: top, left, bottom, right."""

    weights: np.ndarray
    bias: np.ndarray | None = None
    groups: int = 1
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    activation: tuple[int, float, float] = (NONE, 0.0, 0.0)
    kind: str = "conv"
    tile: int = 0
    tiles: int = 16
    """Of a Winograd step: how many tiles its workspace is for (winograd_row: of `tile` rows)."""
    at_points: bool = False
    """Whether its weights are stored at points."""

    def out_shape(self, height: int, width: int) -> tuple[int, int, int]:
        """(height, width, channels) of what it makes of a map."""
        sizes = [
            (size + before + after - (k - 1) * d - 1) // s + 1
            for size, before, after, k, d, s in zip(
                (height, width),
                self.pads[:2],
                self.pads[2:],
                self.weights.shape[2:],
                self.dilations,
                self.strides,
                strict=True,
            )
        ]
        return sizes[0], sizes[1], self.weights.shape[0]


def convolved(layer: Convolution, x: np.ndarray, residual: np.ndarray | None = None) -> np.ndarray:
    """What a convolution makes of (height, width, channels), in float64."""
    (high, wide), out = layer.weights.shape[2:], layer.weights.shape[0]
    top, left, bottom, right = layer.pads
    rows, columns, _ = layer.out_shape(*x.shape[:2])
    padded = np.pad(
        x.astype(np.float64), [(max(0, top), max(0, bottom)), (max(0, left), max(0, right)), (0, 0)]
    )
    padded = padded[max(0, -top) :, max(0, -left) :]
    each = layer.weights.shape[1]
    sums = np.zeros((rows, columns, out))
    for ky in range(high):
        for kx in range(wide):
            y, z = ky * layer.dilations[0], kx * layer.dilations[1]
            seen = padded[y :: layer.strides[0], z :: layer.strides[1]][:rows, :columns]
            for group in range(layer.groups):
                mine = slice(group * out // layer.groups, (group + 1) * out // layer.groups)
                taps = layer.weights[mine, :, ky, kx].astype(np.float64)
                sums[..., mine] += seen[..., group * each : (group + 1) * each] @ taps.T
    if layer.bias is not None:
        sums += layer.bias
    if residual is not None:
        sums += residual
    return activated(sums, layer.activation)


def activated(x: np.ndarray, activation: tuple[int, float, float]) -> np.ndarray:
    kind, a, b = activation
    if kind == CLIP:
        return np.clip(x, a, b)
    return np.where(x < 0, a * x, x) if kind == LEAKY else x


@dataclass
class Bound:
    """A step, and what it points to."""

    step: Any
    kept: list[Any] = field(default_factory=list)

    @property
    def address(self) -> int:
        return ctypes.addressof(self.step)


def layer_of(layer: Convolution) -> tuple[Any, list[Any]]:
    """The structure of a layer with packed weights, and the arrays that it points to."""
    out, ins, *kernel = layer.weights.shape
    if layer.kind == "depthwise":
        weights = packing.depthwise_weights(layer.weights)
        bias = packing.depthwise_bias(layer.bias, out)
    elif layer.kind == "conv_dots":
        weights = packing.dot_weights(layer.weights)
        bias = packing.conv_bias(layer.bias, out)
    elif layer.kind == "winograd" and layer.at_points:
        weights = packing.winograd_weights(layer.weights, layer.tile)
        bias = packing.conv_bias(layer.bias, out)
    elif layer.kind == "winograd_row" and layer.at_points:
        weights = packing.winograd_row_weights(layer.weights, layer.groups)
        bias = packing.conv_bias(layer.bias, out, layer.groups)
    else:
        weights = packing.conv_weights(layer.weights, layer.groups)
        bias = packing.conv_bias(layer.bias, out, layer.groups)
    found = Layer(
        ins * layer.groups,
        out,
        layer.groups,
        *kernel,
        *layer.strides,
        *layer.dilations,
        layer.pads[1],
        Activation(*layer.activation),
        int(layer.at_points),
        weights.ctypes.data,
        bias.ctypes.data,
    )
    return found, [weights, bias]


def step_of(
    library: Any,
    layer: Convolution,
    pieces: Sequence[Map],
    out: Map,
    rows: tuple[int, int] | None = None,
    residual: Map | None = None,
    part: tuple[int, int, int, int] | None = None,
    packed: tuple[Any, list[Any]] | None = None,
    padding: Collection[int] = (),
) -> Bound:
    """A step that computes output rows [a, b); part: column, columns, channel, channels; padding: numbers
    of the pieces that have no table.
    """
    first, last = rows or (0, len(out.starts))
    struct, kept = packed or layer_of(layer)
    kept = [struct, *kept]
    top = first * layer.strides[0] - layer.pads[0]
    reach = (last - first - 1) * layer.strides[0]
    reach += (layer.weights.shape[2] - 1) * layer.dilations[0] + 1
    sources = (Source * len(pieces))()
    for k, piece in enumerate(pieces):
        table = pointers([piece.address(top + r) for r in range(reach)])
        kept.append(table)
        sources[k] = Source(
            None if k in padding else table.ctypes.data, piece.stride, piece.channels
        )
    targets = pointers([out.address(r) for r in range(first, last)])
    column, columns, channel, channels = part or (0, out.width, 0, out.channels)
    target = Target(
        targets.ctypes.data, out.stride, last - first, column, columns, channel, channels
    )
    places = ctypes.addressof(struct), ctypes.addressof(sources)
    step = ConvStep(*places, len(pieces), pieces[0].width, target)
    if residual is not None:
        table = pointers([residual.address(r) for r in range(first, last)])
        source = Source(table.ctypes.data, residual.stride, residual.channels)
        step.residual = ctypes.addressof(source)
        kept += [table, source]
    if layer.kind in ("winograd", "winograd_row"):
        channels = min(layer.weights.shape[1], 64)
        size = workspace_bytes(library, layer.kind, struct, layer.tile, layer.tiles, channels)
        size += kept_bytes(library, layer.kind, struct, layer.tile)
        workspace = packing.aligned(np.full(size // 4, np.nan))
        step.workspace, step.workspace_bytes = workspace.ctypes.data, size
        step.tile = layer.tile
        kept.append(workspace)
    return Bound(step, [*kept, sources, targets, *pieces, out])


def workspace_bytes(
    library: Any, kind: str, layer: Any, tile: int, tiles: int, channels: int
) -> int:
    """What a form of Winograd's takes to compute so many tiles of so many rows at a time, as the library has it."""
    types = ctypes.c_void_p, *(ctypes.c_int32,) * 3
    size = library.function(f"{kind}_bytes", ctypes.c_size_t, *types)
    return int(size(ctypes.byref(layer), tile, tiles, channels))


def kept_bytes(library: Any, kind: str, layer: Any, tile: int) -> int:
    """What weights that are taken to points take beside these."""
    size = library.function(f"{kind}_kept", ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int32)
    return int(size(ctypes.byref(layer), tile))


def run(library: Any, layer: Convolution, bound: Bound) -> None:
    """Call the layer's kernel."""
    library.function(layer.kind, None, ctypes.c_void_p)(bound.address)
