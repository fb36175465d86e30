"""To which integers are weights rounded? Not each to the nearest, but all of a filter so that its sums come
out nearest, on inputs like those that it will see.

A filter that is rounded up here is rounded down there: weights are fixed one after the other, and what each
lost is made good by those still free, as far as their inputs go together (E[x x^T] of the layer's windows,
from calibration). Source: Frantar et al., "GPTQ" (2023), section 3, after "Optimal Brain Compression" (2022);
with the mean of what remains taken off the bias (Nagel et al., "Data-free quantization" (2019), section 4.2).
Scales, and so the memory and the arithmetic of the integers, stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from csdfgen.model.network import Layer

_DAMPING = 0.01
"""Share of the mean square of an input that is added to every one: inputs that were never seen apart may
come apart.
"""

_MOST_TERMS = 4608
"""Terms of a sum up to which their products in pairs are kept; above, weights go to the nearest."""

_WINDOWS = 2048
"""Windows that are looked at in each frame, evenly taken."""

_BLOCK = 64
"""Terms after which what was lost is spread over those that are still free."""


@dataclass(eq=False, slots=True)
class Moments:
    """What a layer's windows were: sums over windows of products in pairs, and of single terms.

    products: (groups, terms, terms), or None for layers with too many terms; terms: (groups, terms).
    """

    products: np.ndarray | None
    terms: np.ndarray
    windows: int = 0

    @classmethod
    def of(cls, weights: np.ndarray, groups: int) -> Moments:
        """None seen yet, for weights (outputs, terms)."""
        count = weights.shape[1]
        kept = count <= _MOST_TERMS
        products = np.zeros((groups, count, count), np.float32) if kept else None
        return cls(products, np.zeros((groups, count)))

    def see(self, windows: np.ndarray) -> None:
        """Take in windows (windows, groups, terms)."""
        self.windows += len(windows)
        self.terms += windows.sum(0, dtype=np.float64)
        if self.products is not None:
            by_group = windows.transpose(1, 0, 2).astype(np.float32)
            self.products += by_group.transpose(0, 2, 1) @ by_group

    @property
    def mean(self) -> np.ndarray:
        """Mean of each term, (groups, terms)."""
        return self.terms / max(1, self.windows)


def collect_windows(layer: Layer, x: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """(windows (windows, groups, terms), weights (outputs, terms)) of a layer that sums products with
    constant weights, on its input in ONNX order; None for others.
    """
    weights = layer.constants.get(1)
    if weights is None or not x.size:
        return None
    if layer.op_type == "Conv" and x.ndim == 4:
        return _conv_windows(layer, x, weights), weights.reshape(len(weights), -1)
    if (
        layer.op_type in ("Gemm", "MatMul")
        and weights.ndim == 2
        and not layer.attributes.get("transA")
    ):
        matrix = weights if layer.attributes.get("transB") else weights.T
        rows = x.reshape(-1, x.shape[-1]) if layer.op_type == "MatMul" else x.reshape(len(x), -1)
        if rows.shape[1] == matrix.shape[1]:
            return _thinned(rows)[:, None, :], matrix
    return None


def _thinned(rows: np.ndarray) -> np.ndarray:
    step = max(1, len(rows) // _WINDOWS)
    return rows[::step]


def _conv_windows(layer: Layer, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Windows of a 2-D convolution of one image, as its filters see them."""
    groups = int(layer.attributes["group"])
    _, _, height, width = layer.output.shape
    kernel = weights.shape[2:]
    strides, holes, pads = (layer.attributes[k] for k in ("strides", "dilations", "pads"))
    count = height * width
    at = np.arange(0, count, max(1, count // _WINDOWS))
    # padding is zeros: one row and one column of them serve for all
    padded = np.pad(x[0], ((0, 0), (1, 1), (1, 1)))
    ends = x.shape[2] + 1, x.shape[3] + 1
    places = []
    for axis, index in ((0, at // width), (1, at % width)):
        first = index * strides[axis] - pads[axis]
        inside = first[:, None] + np.arange(kernel[axis]) * holes[axis] + 1
        places.append(np.clip(inside, 0, ends[axis]))
    rows, columns = places
    found = padded[:, rows[:, :, None], columns[:, None, :]]
    channels = x.shape[1] // groups
    by_window = found.reshape(groups, channels, len(at), -1).transpose(2, 0, 1, 3)
    return np.ascontiguousarray(by_window).reshape(len(at), groups, -1)


def round_weights(
    weights: np.ndarray, scales: np.ndarray, seen: Moments, top: int = 127
) -> np.ndarray:
    """Integers (outputs, terms) from -top to top, of weights (outputs, terms) and a scale for each output.

    Where too much is lost because inputs depend on each other, they are those nearest to the weights.
    """
    nearest = np.clip(np.rint(weights / scales[:, None]), -top, top)
    if seen.products is None or not seen.windows:
        return nearest.astype(np.int8)
    groups, terms = seen.terms.shape
    products = seen.products.astype(np.float64) / seen.windows
    diagonal = np.einsum("gii->gi", products)
    alone = diagonal.mean(1)
    live = alone > 0
    damped = products + (_DAMPING * np.where(live, alone, 1.0))[:, None, None] * np.eye(terms)
    # what is read most is fixed first, as long as much is free to make good what it loses
    order = np.argsort(-diagonal, axis=1, kind="stable")
    each = np.arange(groups)[:, None]
    damped = damped[each[:, :, None], order[:, :, None], order[:, None, :]]
    inverse = np.linalg.inv(damped)
    upper = np.linalg.cholesky((inverse + inverse.transpose(0, 2, 1)) / 2).transpose(0, 2, 1)
    free = weights.reshape(groups, -1, terms).astype(np.float64)
    free = np.take_along_axis(free, np.broadcast_to(order[:, None, :], free.shape), 2)
    by_group = scales.reshape(groups, -1).astype(np.float64)
    fixed = np.empty_like(free)
    for start in range(0, terms, _BLOCK):
        stop = min(terms, start + _BLOCK)
        lost = np.empty((groups, free.shape[1], stop - start))
        for k in range(start, stop):
            fixed[:, :, k] = np.clip(np.rint(free[:, :, k] / by_group), -top, top)
            error = (free[:, :, k] - fixed[:, :, k] * by_group) / upper[:, k, k, None]
            free[:, :, k + 1 : stop] -= error[:, :, None] * upper[:, None, k, k + 1 : stop]
            lost[:, :, k - start] = error
        free[:, :, stop:] -= lost @ upper[:, start:stop, stop:]
    back = np.empty_like(fixed)
    np.put_along_axis(back, np.broadcast_to(order[:, None, :], fixed.shape), fixed, 2)
    found = back.reshape(weights.shape)
    better = _loss(weights, found, scales, products) < _loss(weights, nearest, scales, products)
    return np.where(better[:, None], found, nearest).astype(np.int8)


def _loss(
    weights: np.ndarray, integers: np.ndarray, scales: np.ndarray, products: np.ndarray
) -> np.ndarray:
    """Mean squared error of each output's sums."""
    groups, terms, _ = products.shape
    error = (weights - integers * scales[:, None]).reshape(groups, -1, terms)
    return np.asarray(((error @ products) * error).sum(2).reshape(-1))


def bias_correction(weights: np.ndarray, rounded: np.ndarray, seen: Moments) -> np.ndarray:
    """What to add to the bias of each output so that its mean is as it was. rounded: values, not integers."""
    groups, terms = seen.terms.shape
    error = (weights - rounded).reshape(groups, -1, terms)
    return np.asarray((error @ seen.mean[:, :, None]).reshape(-1))
