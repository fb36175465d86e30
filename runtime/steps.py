"""By how many steps may a quantized tensor differ from onnxruntime's, and where is onnxruntime wrong?

Integers of layers on integers alone are the same to the last bit. Where layers compute on values in
between, sums in another order meet ties: a step there grows on the way, in onnxruntime's own runs with
and without optimisation too. Such a tensor may differ by a hundredth of its range, as the root of the
mean square; any single value by more.

onnxruntime adds two products of unsigned and signed bytes in 16 bits where the processor has AVX2 and
no VNNI: they saturate, and its sums are wrong there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Network
from csdfgen.ops._integers import limits
from csdfgen.ops.stored_products import integer_twin

__all__ = ["Step", "Steps", "counted", "saturating", "steps_of"]

ALLOWED = 0.01
"""Root of the mean square of differences, as a part of the range of the type, where layers compute on
values in between.
"""

_MOVING = frozenset(
    ["Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Identity", "Split"]
)
"""Operators whose values are those of what they read."""

_QUANTIZING = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")

_PRODUCTS = ("QLinearConv", "QLinearMatMul", "QGemm", "ConvInteger", "MatMulInteger")

_CPU = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Step:
    """What a tensor's values are multiples of. range: steps from the lowest to the highest; exact:
    whether every layer before it computes on integers.
    """

    size: float
    range: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Steps:
    """How a tensor differs from onnxruntime's in its steps.

    differing: values that do, by half a step or more; squares: the sum of all squared differences.
    """

    step: Step
    values: int
    differing: int
    largest: float
    squares: float

    @property
    def share(self) -> float:
        """Of values that differ."""
        return self.differing / max(1, self.values)

    @property
    def root(self) -> float:
        """Of the mean square of the differences."""
        return float(np.sqrt(self.squares / max(1, self.values)))

    @property
    def ok(self) -> bool:
        return self.root <= (0.0 if self.step.exact else ALLOWED * self.step.range)

    def __str__(self) -> str:
        return (
            f"up to {self.largest:.3g} steps of {self.step.size:.3g} in {100 * self.share:.3g} % of "
            f"{self.values:,} values"
        )

    def joined(self, other: Steps) -> Steps:
        """Of two parts of a tensor together."""
        return Steps(
            self.step,
            self.values + other.values,
            self.differing + other.differing,
            max(self.largest, other.largest),
            self.squares + other.squares,
        )


def counted(ours: np.ndarray, reference: np.ndarray, step: Step) -> Steps:
    """The differences of two arrays of equal shape."""
    with np.errstate(all="ignore"):
        off = np.abs(ours.astype(np.float64) - reference.astype(np.float64)) / step.size
    off = np.where(np.isnan(off), np.inf, off)
    return Steps(
        step,
        off.size,
        int(np.count_nonzero(off >= 0.5)),
        float(off.max(initial=0.0)),
        float(np.square(off).sum()),
    )


def steps_of(network: Network) -> Mapping[str, Step]:
    """The step of every tensor that is quantized, or was just dequantized, by its name."""
    found: dict[str, Step] = {}
    inexact: set[str] = set()
    for layer in network.layers:
        read = [tensor.name for tensor in layer.inputs if tensor is not None]
        values = _on_values(layer)
        exact = not values and not inexact.intersection(read)
        for k, tensor in enumerate(layer.outputs):
            if not exact:
                inexact.add(tensor.name)
            form = _format(layer, k)
            if form is not None and form.scale is not None and len(form.scale) == 1:
                size = form.scale[0] if tensor.dtype == "float32" else 1.0
                found[tensor.name] = Step(size, _range(form.dtype), exact)
            elif read and read[0] in found and (not values or layer.op_type in _MOVING):
                before = found[read[0]]
                found[tensor.name] = Step(before.size, before.range, exact)
    return found


def _range(dtype: str) -> int:
    low, high = limits(dtype)
    return high - low


def _format(layer: Layer, output: int) -> Format | None:
    """The integers that an output is, or was."""
    if layer.stored is not None and layer.stored.written(output) is not None:
        return layer.stored.written(output)
    form = layer.attributes.get("y") or layer.attributes.get("format")
    return form if isinstance(form, Format) else None


def _on_values(layer: Layer) -> bool:
    """Whether a layer computes on float values, which depends on the order of sums."""
    if layer.op_type in _QUANTIZING and layer.stored is None:
        return False
    tensors = (*layer.inputs, *layer.outputs)
    return layer.stored is not None or any(
        t is not None and t.dtype[:5] == "float" for t in tensors
    )


# Where onnxruntime saturates ---------------------------------------------------------------------


def saturating(network: Network, flags: frozenset[str] | None = None) -> tuple[str, ...]:
    """Layers whose sums onnxruntime may cut off on this processor. flags: of the processor; None: read
    from the system, none where it does not tell.
    """
    known = _flags() if flags is None else flags
    if "avx2" not in known or any("vnni" in flag for flag in known):
        return ()
    return tuple(layer.name for layer in network.layers if _may_saturate(layer))


def _flags() -> frozenset[str]:
    try:
        lines = _CPU.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    said = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(said.partition(":")[2].split())


def _may_saturate(layer: Layer) -> bool:
    """Two products of an unsigned byte and weights, where these are large enough: 255 * (a + b) past
    16 bits.
    """
    twin = layer if layer.stored is None else integer_twin(layer)
    if twin is None or twin.op_type not in _PRODUCTS:
        return False
    if (twin.attributes["x"].dtype, twin.attributes["w"].dtype) != ("uint8", "int8"):
        return False
    weights = twin.constants.get(1)
    if weights is None:
        return True
    largest = np.sort(np.abs(weights.astype(np.int32)).reshape(-1))[-2:]
    return bool(255 * int(largest.sum()) > np.iinfo(np.int16).max)
