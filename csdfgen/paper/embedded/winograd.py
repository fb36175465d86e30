"""How exact is Winograd's convolution, in floats and in the integers of paper 004 and here? It prints nothing of it.

Normal values, 64 to 32 channels, 32 x 32 results; signal to noise in dB against float64.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from csdfgen.paper.cells import Cell
from csdfgen.paper.formulas.winograd import (
    F2,
    F4,
    Form,
    convolve_directly,
    convolve_exactly,
    convolve_tiles,
    narrow,
    quantize_symmetric,
)

LAYERS = 200
"""Random layers on which integers are compared."""

_CHANNELS, _OUTPUTS, _SIZE = 64, 32, 34


def signal_to_noise(clean: np.ndarray, found: np.ndarray) -> float:
    """dB; arrays of one shape."""
    return float(10 * np.log10(np.square(clean).sum() / np.square(clean - found).sum()))


def random_layer(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Bytes of all values, uint8 or int8, and int8 weights."""
    ins, outs, high, wide = (int(n) for n in rng.integers((1, 1, 3, 3), (40, 24, 20, 20)))
    kind = np.iinfo(rng.choice(["uint8", "int8"]))
    x = rng.integers(kind.min, kind.max + 1, (ins, high, wide)).astype(kind.dtype)
    return x, rng.integers(-128, 128, (outs, ins, 3, 3)).astype(np.int8)


def errors() -> Iterator[Cell]:
    """Signal to noise of every form, and results of the exact form that differ."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(_CHANNELS, _SIZE, _SIZE))
    w = rng.normal(size=(_OUTPUTS, _CHANNELS, 3, 3))
    clean = convolve_directly(x, w)
    for name, form in (("F(2x2, 3x3)", F2), ("F(4x4, 3x3)", F4)):
        for kind in ("float32", "float16"):
            yield _decibels(
                f"{name} in {kind}", signal_to_noise(clean, _floats(x, w, form, kind)), ""
            )
    for name, values, largest in (("int8", x, 127), ("uint8 inputs", np.maximum(x, 0), 255)):
        wanted = convolve_directly(values, w)
        inputs, scale = quantize_symmetric(values, largest)
        weights, scales = quantize_symmetric(w, 127, (1, 2, 3))
        found = convolve_directly(inputs, weights) * scale.reshape(()) * scales.reshape(-1, 1, 1)
        yield _decibels(
            f"direct, {name}",
            signal_to_noise(wanted, found),
            "one input scale, per-filter weight scales",
        )
    for largest, bits in ((7, "6 and 4 bits"), (14, "6 bits, weights to 14")):
        note = (
            "transformed values fit a byte: the paper's form"
            if largest == 7
            else "9 times 14 also fits a byte"
        )
        yield _decibels(
            f"Winograd, {bits}", signal_to_noise(clean, narrow(x, w, (31, largest))), note
        )
    layers = [random_layer(rng) for _ in range(LAYERS)]
    wrong = sum(
        not np.array_equal(convolve_exactly(*one), convolve_directly(*one)) for one in layers
    )
    note = f"of {LAYERS} random layers: G doubled on both sides, 16-bit transformed values, 32-bit sums"
    yield Cell("Winograd", "exact, int8", "layers that differ", "", None, wrong, 0, note)


def _floats(x: np.ndarray, w: np.ndarray, form: Form, kind: str) -> np.ndarray:
    """Values, points and sums in a type."""

    def kept(values: np.ndarray) -> np.ndarray:
        return values.astype(kind)

    return convolve_tiles(kept(x), kept(w), form, points=kept, sums=kept).astype(np.float64)


def _decibels(row: str, ours: float, note: str) -> Cell:
    return Cell("Winograd", row, "signal to noise", "dB", None, ours, 0, note)
