"""Spectra: DFT and STFT are products with constant matrices of cosines and sines.

Sources: https://onnx.ai/onnx/operators/onnx__DFT.html, https://onnx.ai/onnx/operators/onnx__STFT.html. A transform of n
samples takes n times as many multiply-accumulates as samples, instead of log n: frames of speech have a few hundred.
An STFT is a convolution along time, so that it needs the samples of a few frames only.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.network import Node
from csdfgen.ops._operands import normalize_axis, read_integers
from csdfgen.ops.base import Operator, require_constant, require_tensor
from csdfgen.ops.composing import OPSET, Composition, Operand, composed_operator
from csdfgen.ops.computed_weights import compose_convolution
from csdfgen.ops.reducing import FLOATS

Results = Iterable[Operand | None]

MOST = 2**24
"""Elements of a matrix."""


def _integer(node: Node, position: int, what: str) -> int | None:
    """A constant of one number; None where it is absent. Raises ModelError."""
    if node.operand(position) is None:
        return None
    found = read_integers(require_constant(node, position), what)
    if len(found) != 1:
        raise ModelError(f"{what} has {len(found)} numbers, one is needed")
    return found[0]


def _matrix(
    samples: int, length: int, bins: int, parts: int, inverse: bool, dtype: str
) -> np.ndarray:
    """(samples, parts, bins, 2): what each part (real, imaginary) of each sample adds to both parts of each bin."""
    if length < 1 or samples * parts * bins * 2 > MOST:
        raise ModelError(
            f"a transform of {samples} samples into {bins} bins takes a matrix of {samples * parts * bins * 2} "
            "numbers, at "
            f"most {MOST} are supported"
        )
    # in integers, which stay exact, up to a turn
    turns = np.arange(samples)[:, None] * np.arange(bins) % length / length
    cos, sin = np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns) * (1 if inverse else -1)
    of_real, of_imaginary = np.stack([cos, sin], -1), np.stack([-sin, cos], -1)
    whole = np.stack([of_real, of_imaginary][:parts], 1) / (length if inverse else 1)
    return whole.astype(dtype)


def _parts(x: Operand) -> int:
    """1 for real numbers, 2 for complex ones. Raises ModelError."""
    if len(x.shape) < 3 or x.shape[-1] not in (1, 2) or str(x.dtype) not in FLOATS:
        raise ModelError(
            f"input of shape {list(x.shape)}, {x.dtype}; it takes floats, the last axis of 1 (real) or 2 (complex) "
            "numbers, "
            "and 3 axes or more"
        )
    return int(x.shape[-1])


def _transformed(make: Composition, node: Node) -> Results:
    x = require_tensor(node, 0)
    parts, rank = _parts(x), len(x.shape)
    given = _integer(node, 2, "axis")
    default = -2 if node.opset >= 20 else 1
    axis = normalize_axis(
        int(node.attributes.get("axis", default)) if given is None else given, rank
    )
    if axis == rank - 1:
        raise ModelError(f"axis {axis} is that of the parts of complex numbers")
    inverse, onesided = (bool(node.attributes.get(k, 0)) for k in ("inverse", "onesided"))
    if onesided and (parts == 2) != inverse:
        raise ModelError(
            "onesided=1 is for the transform of real numbers, or the inverse into them"
        )
    given_length, size = _integer(node, 1, "dft_length"), x.shape[axis]
    if onesided and inverse:
        length = given_length or 2 * (size - 1)
        samples, bins = min(length // 2 + 1, size), length
        matrix = _matrix(samples, length, bins, parts, inverse, x.dtype)[..., :1]
        # those of negative frequencies are the conjugates, which add the same real parts
        alone = np.arange(samples) * 2 % length == 0
        matrix = matrix * np.where(alone, 1, 2).astype(x.dtype).reshape(-1, 1, 1, 1)
    else:
        length = given_length or size
        samples, bins = min(length, size), length // 2 + 1 if onesided else length
        matrix = _matrix(samples, length, bins, parts, inverse, x.dtype)
    order = (*(k for k in range(rank) if k not in (axis, rank - 1)), axis, rank - 1)
    turned = make.turned(make.part(x, axis, 0, samples) if samples < size else x, order)
    flat = make.reshaped(turned, (*turned.shape[:-2], samples * parts))
    product = make("MatMul", flat, matrix.reshape(samples * parts, -1))
    found = make.reshaped(product, (*turned.shape[:-2], bins, matrix.shape[-1]))
    return [make.turned(found, [order.index(k) for k in range(rank)])]


def _frames(make: Composition, node: Node) -> Results:
    x: Operand = require_tensor(node, 0)
    if len(x.shape) == 2:  # real samples without an axis of parts, which torch exports
        x = make.reshaped(x, (*x.shape, 1))
    parts = _parts(x)
    if len(x.shape) != 3:
        raise ModelError(f"signal of shape {list(x.shape)}; (images, samples, 1 or 2) is needed")
    window, step = node.operand(2), _integer(node, 1, "frame_step")
    length = _integer(node, 3, "frame_length")
    if window is not None:
        if len(window.shape) != 1 or length not in (None, window.shape[0]):
            raise ModelError(
                f"a window of shape {list(window.shape)} for frames of {length} samples"
            )
        length = window.shape[0]
    if length is None or step is None or not 0 < length <= x.shape[1] or step < 1:
        raise ModelError(f"frames of {length} samples, each {step} on, do not fit {x.shape[1]}")
    onesided = bool(node.attributes.get("onesided", 1))
    if onesided and parts == 2:
        raise ModelError("onesided=1 is for the transform of real numbers")
    bins = length // 2 + 1 if onesided else length
    matrix = _matrix(length, length, bins, parts, False, str(x.dtype))
    weights: Operand = matrix.reshape(length, parts, bins * 2).transpose(2, 1, 0)
    if isinstance(window, np.ndarray):
        weights = np.ascontiguousarray(weights * window).astype(x.dtype)
    elif window is not None:
        weights = make("Mul", weights, window)
    conv = Node(node.name, "Conv", OPSET, {"strides": (step,)}, (), ())
    found = compose_convolution(make, conv, make.turned(x, (0, 2, 1)), weights, None)
    by_frames = make.turned(found, (0, 2, 1))
    return [make.reshaped(by_frames, (*by_frames.shape[:2], bins, 2))]


OPERATORS: tuple[Operator, ...] = (
    composed_operator(
        "DFT",
        _transformed,
        since=17,
        attributes={"axis": 1, "inverse": 0, "onesided": 0},
        constant_inputs=(1, 2),
        structure="row-phased; whole along the row axis",
        notes="Lowered to a product with a matrix of at most 2^24 elements.",
        multiplies=True,
    ),
    composed_operator(
        "STFT",
        _frames,
        since=17,
        attributes={"onesided": 1},
        constant_inputs=(1, 3),
        notes="Lowered to a convolution along time.",
        multiplies=True,
    ),
)
