"""By how many steps may a quantized tensor differ from onnxruntime's, and where is onnxruntime wrong?

If all layers before a tensor compute on integers, it must be equal bit for bit. If some compute on float
values, sums are added in another order, and a value next to a rounding tie may come out one step higher
or lower. Later layers amplify that; onnxruntime's own results with and without optimisation differ alike.
The root mean square difference of such a tensor may be 1 % of its range; single values may differ by more.

On processors with AVX2 and without VNNI, onnxruntime adds two products of unsigned and signed bytes in
16 bits. These sums saturate, and its results are wrong there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Network
from csdfgen.ops.integers import limits
from csdfgen.ops.stored import integer_twin

ALLOWED = 0.01
"""Root mean square difference that is accepted, as a fraction of the range of the type, for tensors that
layers on float values contribute to.
"""

_MOVING = frozenset(
    ["Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Identity", "Split"]
)
"""Operators that copy values without changing them."""

_QUANTIZING = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")

_PRODUCTS = ("QLinearConv", "QLinearMatMul", "QGemm", "ConvInteger", "MatMulInteger")

_CPU = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class StepSize:
    """The step that the values of a quantized tensor are multiples of. range: steps from the lowest value to
    the highest; exact: whether every layer before the tensor computes on integers.
    """

    size: float
    range: int
    exact: bool


@dataclass(frozen=True, slots=True)
class StepDifference:
    """The difference of a tensor from onnxruntime's, in steps.

    differing: number of values that differ by half a step or more; largest: the largest difference; squares:
    the sum of all squared differences.
    """

    step: StepSize
    values: int
    differing: int
    largest: float
    squares: float

    @property
    def share(self) -> float:
        """The fraction of values that differ."""
        return self.differing / max(1, self.values)

    @property
    def root(self) -> float:
        """The root mean square difference."""
        return float(np.sqrt(self.squares / max(1, self.values)))

    @property
    def ok(self) -> bool:
        return self.root <= (0.0 if self.step.exact else ALLOWED * self.step.range)

    def __str__(self) -> str:
        return (
            f"up to {self.largest:.3g} steps of {self.step.size:.3g} in {100 * self.share:.3g} % of "
            f"{self.values:,} values"
        )

    def joined(self, other: StepDifference) -> StepDifference:
        """The difference of two parts of a tensor taken together."""
        return StepDifference(
            self.step,
            self.values + other.values,
            self.differing + other.differing,
            max(self.largest, other.largest),
            self.squares + other.squares,
        )


def count_steps(ours: np.ndarray, reference: np.ndarray, step: StepSize) -> StepDifference:
    """The differences of two arrays of equal shape."""
    with np.errstate(all="ignore"):
        off = np.abs(ours.astype(np.float64) - reference.astype(np.float64)) / step.size
    off = np.where(np.isnan(off), np.inf, off)
    return StepDifference(
        step,
        off.size,
        int(np.count_nonzero(off >= 0.5)),
        float(off.max(initial=0.0)),
        float(np.square(off).sum()),
    )


def list_steps(network: Network) -> Mapping[str, StepSize]:
    """The step of every tensor that is quantized or has just been dequantized, by tensor name."""
    found: dict[str, StepSize] = {}
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
                found[tensor.name] = StepSize(size, _range(form.dtype), exact)
            elif read and read[0] in found and (not values or layer.op_type in _MOVING):
                before = found[read[0]]
                found[tensor.name] = StepSize(before.size, before.range, exact)
    return found


def _range(dtype: str) -> int:
    low, high = limits(dtype)
    return high - low


def _format(layer: Layer, output: int) -> Format | None:
    """The integer format of an output, or the one that it was dequantized from."""
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


def find_saturating(network: Network, flags: frozenset[str] | None = None) -> tuple[str, ...]:
    """Layers whose sums may saturate in onnxruntime on this processor. flags: of the processor; None reads
    them from the system.
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
    found = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(found.partition(":")[2].split())


def _may_saturate(layer: Layer) -> bool:
    """Whether the two largest weights times the largest unsigned byte exceed 16 bits: 255 * (a + b)."""
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
