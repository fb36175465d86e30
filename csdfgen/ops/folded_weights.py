"""Which weights compute a product and then a factor and an offset for each channel?

`f (w x + b) + o = (f w) x + (f b + o)`: BatchNormalization and constant arithmetic behind a Conv,
ConvTranspose, Gemm or MatMul need no layer, and a factor in front of one needs none either. Every
rewriting that folds them computes the new weights here, in float64, and rounds them once.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from csdfgen.model.network import Shape


def batch_factors(
    parameters: Iterable[np.ndarray], epsilon: float
) -> tuple[np.ndarray, np.ndarray]:
    """Factor and offset, float64 (channels,), of a BatchNormalization with constant parameters:
    scale, bias, mean and variance, (channels,) each.
    """
    scale, bias, mean, variance = (array.astype(np.float64) for array in parameters)
    factor = scale / np.sqrt(variance + epsilon)
    return factor, bias - mean * factor


def channel_values(value: np.ndarray, rank: int, axis: int, channels: int) -> np.ndarray | None:
    """A constant that is combined with a tensor of a rank as one number for each channel, float64
    (channels,); None if it varies along another axis than that of the channels.

    >>> channel_values(np.array([[[2.0]], [[3.0]]]), rank=4, axis=1, channels=2)
    array([2., 3.])
    """
    if value.ndim > rank or value.size not in (1, channels):
        return None
    shape = (1,) * (rank - value.ndim) + value.shape
    if shape[axis] != value.size:
        return None
    return np.broadcast_to(value.reshape(-1), (channels,)).astype(np.float64)


def output_factors(
    factors: np.ndarray, op_type: str, shape: Shape, groups: int = 1, transposed: bool = False
) -> np.ndarray:
    """Factors of the channels that a product makes, broadcastable against its weights.

    factors: (channels,). op_type: Conv, ConvTranspose, Gemm or MatMul, with weights of this shape.
    transposed: whether the outputs are the first axis of the weights of a Gemm (transB).
    """
    if op_type == "ConvTranspose":
        return _of_groups(factors, shape, groups)
    if op_type == "Conv":
        return factors.reshape(-1, *(1,) * (len(shape) - 1))
    return factors[:, None] if transposed else factors


def input_factors(
    factors: np.ndarray, op_type: str, shape: Shape, groups: int = 1, transposed: bool = False
) -> np.ndarray:
    """Factors of the channels that a Conv, Gemm or MatMul reads, as `output_factors`."""
    if op_type == "Conv":
        return _of_groups(factors, shape, groups)
    return factors if transposed else factors[:, None]


def _of_groups(factors: np.ndarray, shape: Shape, groups: int) -> np.ndarray:
    """Factors of all channels for weights whose second axis counts the channels of one group."""
    repeated = factors.reshape(groups, 1, -1).repeat(shape[0] // groups, axis=1)
    return repeated.reshape(*shape[:2], *(1,) * (len(shape) - 2))


def scale_weights(weights: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Weights times factors that broadcast against them, in the type and memory order of the weights."""
    # rounded once from float64, in numpy's own buffers instead of arrays of that type
    made = np.empty_like(weights)
    np.multiply(weights, factors, out=made, dtype=np.float64, casting="unsafe")
    return made
