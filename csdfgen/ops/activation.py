"""The numpy calls of functions of one tensor: activations, rounding, transcendental functions.

Formulas are those of https://onnx.ai/onnx/operators/, rearranged so that no intermediate value
overflows where the result does not, and so that a slab takes few passes: slabs are in the cache, and
a numpy call takes about 0.5 us plus, per thousand float32, 0.1 us for arithmetic and clip and 0.4 us
for tanh and exp (measured with AVX-512). Hence functions of sigmoid shape are computed with tanh, and
the maximum of a tensor and a scalar with `ndarray.clip`: np.maximum takes three times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import pi, prod, sqrt
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.formats import accumulator_type
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.ops._operands import check_word
from csdfgen.ops.arithmetic import OPERATORS as ARITHMETIC
from csdfgen.ops.base import Call, Operator, require_constant
from csdfgen.ops.elementwise import (
    BOOL,
    EVERY,
    NUMERIC,
    SIGNED,
    Task,
    elementwise,
    first_operand_alias,
    same_types,
    single_call,
)
from csdfgen.ops.primitives import maximum, minimum, negative
from csdfgen.ops.reducing import FLOATS, INTEGERS

_CLIP = np.ndarray.clip

ERF_COEFFICIENTS = (
    1.12837927430,
    0.102769055846,
    -1.91830922277e-4,
    -6.19784555572e-4,
    8.76372884850e-5,
    -5.66846925415e-6,
    1.41851859745e-7,
)
"""p, lowest power first, with |erf(x) - tanh(x * p(x^2))| <= 1e-7 |erf(x)| for |x| <= 3.9; beyond,
erf is 1 within 4e-8.

Fitted for this program to least relative error of erf (iteratively reweighted least squares).
"""
_ERF_LIMIT = 3.9


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Smallest and largest value of a type, infinities included, as scalars of that type."""
    if dtype.kind == "f":
        return dtype.type(-np.inf), dtype.type(np.inf)
    return dtype.type(np.iinfo(dtype).min), dtype.type(np.iinfo(dtype).max)


def _positive_part(x: np.ndarray, out: np.ndarray) -> Call:
    return _CLIP, (x, out.dtype.type(0), _limits(out.dtype)[1], out)


def _negative_part(x: np.ndarray, out: np.ndarray) -> Call:
    return _CLIP, (x, _limits(out.dtype)[0], out.dtype.type(0), out)


def _polynomial(coefficients: Sequence[float], t: np.ndarray, out: np.ndarray) -> list[Call]:
    """out = c0 + t * (c1 + t * (c2 + ...)); at least two coefficients, the lowest power first."""
    scalar = out.dtype.type
    *lower, highest = coefficients
    calls: list[Call] = [
        (np.multiply, (t, scalar(highest), out)),
        (np.add, (out, scalar(lower.pop()), out)),
    ]
    for c in reversed(lower):
        calls += [(np.multiply, (out, t, out)), (np.add, (out, scalar(c), out))]
    return calls


# Piecewise linear --------------------------------------------------------------------------------


def _relu(task: Task) -> list[Call]:
    return [_positive_part(task.x, task.out)]


_BOUNDS = {1: "min", 2: "max"}
"""Clip's bounds by input position."""

_AT_BOUND: Mapping[str, Callable[..., Any]] = {"min": maximum, "max": minimum}


def _clip(task: Task) -> list[Call]:
    if "bounds" not in task.layer.attributes:
        low, high = (task.scalar(task.attribute(name)) for name in _BOUNDS.values())
        return [(_CLIP, (task.x, low, high, task.out))]
    x, *bounds = task.operands
    # the last bound may be the memory of `out`
    steps = [task.temporary() for _ in bounds[1:]] + [task.out]
    names = task.attribute("bounds")
    return [
        (_AT_BOUND[n], (a, b, c))
        for n, a, b, c in zip(names, (x, *steps), bounds, steps, strict=False)
    ]


def _larger_of_x_and(slope: Any, task: Task, larger: Callable[..., Any]) -> list[Call]:
    """max(x, slope * x), which is the leaky ReLU for slopes up to 1; the minimum for slopes from 1."""
    scaled = task.temporary()
    return [(np.multiply, (task.x, slope, scaled)), (larger, (task.x, scaled, task.out))]


def _leaky_relu(task: Task) -> list[Call]:
    alpha = task.attribute("alpha")
    return _larger_of_x_and(task.scalar(alpha), task, maximum if alpha <= 1 else minimum)


def _prelu(task: Task) -> list[Call]:
    x, slope = task.operands
    if 1 in task.layer.constants and task.out.dtype.kind == "f":
        if np.all(slope <= 1):
            return _larger_of_x_and(slope, task, maximum)
        if np.all(slope >= 1):
            return _larger_of_x_and(slope, task, minimum)
    scaled, out = task.temporary(), task.out
    return [
        _negative_part(x, scaled),
        (np.multiply, (scaled, slope, scaled)),
        _positive_part(x, out),
        (np.add, (out, scaled, out)),
    ]


def _hard_sigmoid(task: Task) -> list[Call]:
    out = task.out
    return [
        (np.multiply, (task.x, task.scalar(task.attribute("alpha")), out)),
        (np.add, (out, task.scalar(task.attribute("beta")), out)),
        (_CLIP, (out, task.scalar(0), task.scalar(1), out)),
    ]


def _hard_swish(task: Task) -> list[Call]:
    gate = task.temporary()
    return [
        (np.multiply, (task.x, task.scalar(1 / 6), gate)),
        (np.add, (gate, task.scalar(0.5), gate)),
        (_CLIP, (gate, task.scalar(0), task.scalar(1), gate)),
        (np.multiply, (task.x, gate, task.out)),
    ]


def _thresholded_relu(task: Task) -> list[Call]:
    below = task.temporary(np.bool_)
    return [
        (np.greater, (task.x, task.scalar(task.attribute("alpha")), below)),
        (np.logical_not, (below, below)),
        (np.copyto, (task.out, task.x)),
        (np.copyto, (task.out, task.scalar(0), "same_kind", below)),
    ]


def _shrink(task: Task) -> list[Call]:
    """x moved towards 0 by bias where |x| > lambd, else 0."""
    moved, near, out = task.temporary(), task.temporary(np.bool_), task.out
    return [
        (np.sign, (task.x, moved)),
        (np.multiply, (moved, task.scalar(task.attribute("bias")), moved)),
        (np.subtract, (task.x, moved, moved)),
        (np.absolute, (task.x, out)),
        (np.less_equal, (out, task.scalar(task.attribute("lambd")), near)),
        (np.copyto, (out, moved)),
        (np.copyto, (out, task.scalar(0), "same_kind", near)),
    ]


# Exponential below zero --------------------------------------------------------------------------


def _exponential(task: Task) -> list[Call]:
    """Elu, Selu, Celu: gain * (max(x, 0) + alpha * (exp(inner * min(x, 0)) - 1)); 1 costs no call."""
    below, out, alpha = task.temporary(), task.out, task.attribute("alpha")
    gain = task.layer.attributes.get("gamma", 1.0)

    def scaled(array: np.ndarray, factor: float) -> list[Call]:
        return [] if factor == 1 else [(np.multiply, (array, task.scalar(factor), array))]

    return [
        _negative_part(task.x, below),
        *(scaled(below, 1 / alpha) if task.layer.op_type == "Celu" else []),
        (np.expm1, (below, below)),
        *scaled(below, alpha * gain),
        _positive_part(task.x, out),
        *scaled(out, gain),
        (np.add, (out, below, out)),
    ]


# Smooth ------------------------------------------------------------------------------------------


def _sigmoid(task: Task) -> list[Call]:
    """1 / (1 + exp(-x)) = (tanh(x / 2) + 1) / 2, which cannot overflow."""
    out, half = task.out, task.scalar(0.5)
    return [
        (np.multiply, (task.x, half, out)),
        (np.tanh, (out, out)),
        (np.multiply, (out, half, out)),
        (np.add, (out, half, out)),
    ]


def _swish(task: Task) -> list[Call]:
    """x * sigmoid(alpha * x) = x / 2 * (tanh(alpha * x / 2) + 1); `out` needs only x / 2 later on."""
    out, gate, alpha = task.out, task.temporary(), task.attribute("alpha")
    scaled: list[Call] = [(np.multiply, (out, task.scalar(alpha), gate)), (np.tanh, (gate, gate))]
    return [
        (np.multiply, (task.x, task.scalar(0.5), out)),
        *(scaled if alpha != 1 else [(np.tanh, (out, gate))]),
        (np.add, (gate, task.scalar(1), gate)),
        (np.multiply, (out, gate, out)),
    ]


def _mish(task: Task) -> list[Call]:
    """x * tanh(log(1 + e^x)) = x * n / (n + 2), n = e^x (e^x + 2); the fraction is 1 above x = 20."""
    n, other = task.temporary(), task.temporary()
    return [
        (_CLIP, (task.x, _limits(n.dtype)[0], task.scalar(20), n)),
        (np.exp, (n, n)),
        (np.add, (n, task.scalar(2), other)),
        (np.multiply, (n, other, n)),
        (np.add, (n, task.scalar(2), other)),
        (np.divide, (n, other, n)),
        (np.multiply, (task.x, n, task.out)),
    ]


def _softplus(task: Task) -> list[Call]:
    """log(1 + e^x) = max(x, 0) + log(1 + e^-|x|)."""
    tail, out = task.temporary(), task.out
    return [
        (np.absolute, (task.x, tail)),
        (negative, (tail, tail)),
        (np.exp, (tail, tail)),
        (np.log1p, (tail, tail)),
        _positive_part(task.x, out),
        (np.add, (out, tail, out)),
    ]


def _softsign(task: Task) -> list[Call]:
    denominator = task.temporary()
    return [
        (np.absolute, (task.x, denominator)),
        (np.add, (denominator, task.scalar(1), denominator)),
        (np.divide, (task.x, denominator, task.out)),
    ]


def _odd_polynomial(
    task: Task, coefficients: Sequence[float], limit: float
) -> tuple[list[Call], np.ndarray]:
    """Calls for x * p(min(x^2, limit^2)) and the temporary they fill; no square overflows."""
    square, value = task.temporary(), task.temporary()
    calls: list[Call] = [
        (_CLIP, (task.x, task.scalar(-limit), task.scalar(limit), square)),
        (np.multiply, (square, square, square)),
        *_polynomial(coefficients, square, value),
        (np.multiply, (value, task.x, value)),
    ]
    return calls, value


def _erf(task: Task) -> list[Call]:
    calls, value = _odd_polynomial(task, ERF_COEFFICIENTS, _ERF_LIMIT)
    return [*calls, (np.tanh, (value, task.out))]


_GELU_INNER: Mapping[str, tuple[tuple[float, ...], float]] = {
    "none": (
        tuple(c / sqrt(2) / 2**k for k, c in enumerate(ERF_COEFFICIENTS)),
        _ERF_LIMIT * sqrt(2),
    ),
    "tanh": ((sqrt(2 / pi), sqrt(2 / pi) * 0.044715), 10.0),
}
"""`approximate` -> (p, limit) with Gelu(x) = x / 2 * (1 + tanh(x * p(x^2))): erf(x / sqrt(2)), or
ONNX's cubic.

At the limit tanh is 1 already.
"""


def _gelu(task: Task) -> list[Call]:
    calls, gate = _odd_polynomial(task, *_GELU_INNER[task.attribute("approximate")])
    half = task.scalar(0.5)
    return [
        *calls,
        (np.tanh, (gate, gate)),
        (np.multiply, (gate, half, gate)),
        (np.add, (gate, half, gate)),
        (np.multiply, (task.x, gate, task.out)),
    ]


def _copy(task: Task) -> list[Call]:
    return [(np.copyto, (task.out, task.x))]


# What is not a number, or infinite ---------------------------------------------------------------


def _is_nan(task: Task) -> list[Call]:
    return [(np.not_equal, (task.x, task.x, task.out))]


def _is_infinite(task: Task) -> list[Call]:
    """Equal to one of the infinities that are to be found."""
    x, out = task.x, task.out
    infinity = x.dtype.type(np.inf)
    wanted = [
        sign * infinity
        for sign, name in ((1, "detect_positive"), (-1, "detect_negative"))
        if task.attribute(name)
    ]
    if not wanted:
        return [(np.copyto, (out, np.False_))]
    if len(wanted) == 2:
        other = task.temporary()
        calls: list[Call] = [
            (np.equal, (x, value, to)) for value, to in zip(wanted, (other, out), strict=True)
        ]
        return [*calls, (np.logical_or, (out, other, out))]
    return [(np.equal, (x, wanted[0], out))]


# Settings ----------------------------------------------------------------------------------------


def _clip_bounds(node: Node, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """min and max: attributes before opset 11, constants since; absent: the type's finite range."""
    data = node.inputs[0]
    assert data is not None
    dtype = np.dtype(data.dtype)
    info = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    lowest, highest = dtype.type(info.min).item(), dtype.type(info.max).item()
    bounds = {"min": lowest, "max": highest}
    for position, name in _BOUNDS.items():
        if node.opset < 11:
            if attributes[name] is not None:
                bounds[name] = min(max(attributes[name], lowest), highest)
        elif node.operand(position) is not None:
            constant = require_constant(node, position)
            if constant.size != 1:
                raise ModelError(
                    f"{name} has {constant.size} elements, Clip takes 1; use Min and Max instead"
                )
            bounds[name] = constant.item()
    return bounds


def _build_clip(node: Node) -> Layer:
    """Bounds of which one is computed are operands, as those of Max and Min; others attributes."""
    bounds = {k: bound for k in (1, 2) if (bound := node.operand(k)) is not None}
    if not any(isinstance(bound, Tensor) for bound in bounds.values()):
        return _CONSTANT_CLIP.build(node)
    for k, bound in bounds.items():
        if prod(bound.shape) != 1:
            raise ModelError(
                f"{_BOUNDS[k]} has {prod(bound.shape)} elements, Clip takes 1; use Min and Max instead"
            )
    built = _MAX.build(replace(node, op_type="Max", inputs=(node.inputs[0], *bounds.values())))
    places = (0, *bounds)  # of its operands among the inputs of the node
    found = dict(zip(places, zip(built.inputs, built.input_axes, strict=True), strict=True))
    inputs, axes = zip(*(found.get(k, (None, None)) for k in range(3)), strict=True)
    return replace(
        built,
        op_type="Clip",
        inputs=inputs,
        input_axes=axes,
        constants=MappingProxyType({places[k]: array for k, array in built.constants.items()}),
        attributes=MappingProxyType({"bounds": tuple(_BOUNDS[k] for k in bounds)}),
    )


def _gelu_kind(node: Node, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    check_word(attributes["approximate"], "approximate", tuple(_GELU_INNER))
    return attributes


def _celu_alpha(node: Node, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    if attributes["alpha"] == 0:
        raise ModelError("alpha=0 divides by zero; use Relu instead")
    return attributes


def _inference_only(node: Node, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Dropout drops nothing at inference, so that none of its settings matters."""
    if any(node.outputs[1:]):
        raise ModelError(
            f"output 1, the mask '{node.outputs[1]}', is used; export the model for inference"
        )
    if node.operand(2) is not None and bool(np.any(require_constant(node, 2))):
        raise ModelError("training_mode is true; export the model for inference")
    return {}


def _prelu_types(node: Node, dtypes: Sequence[str]) -> str:
    """The common type; ModelError also if the slope would widen the result."""
    x, slope = node.inputs
    assert x is not None and slope is not None
    if np.broadcast_shapes(x.shape, slope.shape) != x.shape:
        raise ModelError(
            f"slope of shape {slope.shape} does not broadcast to the input's {x.shape}"
        )
    return same_types(NUMERIC)(node, dtypes)


# The tables --------------------------------------------------------------------------------------

_ONE_CALL: tuple[tuple[str, Callable[..., Any], tuple[str, ...], int], ...] = (
    ("Abs", np.absolute, NUMERIC, 7),
    ("BitwiseNot", np.invert, INTEGERS, 18),
    ("Acos", np.arccos, FLOATS, 7),
    ("Acosh", np.arccosh, FLOATS, 9),
    ("Asin", np.arcsin, FLOATS, 7),
    ("Asinh", np.arcsinh, FLOATS, 9),
    ("Atan", np.arctan, FLOATS, 7),
    ("Atanh", np.arctanh, FLOATS, 9),
    ("Ceil", np.ceil, FLOATS, 7),
    ("Cos", np.cos, FLOATS, 7),
    ("Cosh", np.cosh, FLOATS, 9),
    ("Exp", np.exp, FLOATS, 7),
    ("Floor", np.floor, FLOATS, 7),
    ("Log", np.log, FLOATS, 7),
    ("Neg", negative, SIGNED, 7),
    ("Not", np.logical_not, BOOL, 7),
    ("Reciprocal", np.reciprocal, FLOATS, 7),
    ("Round", np.rint, FLOATS, 11),
    ("Sign", np.sign, NUMERIC, 9),
    ("Sin", np.sin, FLOATS, 7),
    ("Sinh", np.sinh, FLOATS, 9),
    ("Sqrt", np.sqrt, FLOATS, 7),
    ("Tan", np.tan, FLOATS, 7),
    ("Tanh", np.tanh, FLOATS, 7),
)
"""(operator, numpy function, element types, first opset); numpy rounds float16 once by itself."""

_MAX = next(operator for operator in ARITHMETIC if operator.op_type == "Max")

_CONSTANT_CLIP = elementwise(
    "Clip",
    _clip,
    same_types(NUMERIC),
    attributes={"min": None, "max": None},
    normalise=_clip_bounds,
)

_FLOAT = same_types(FLOATS)
_ERF_NOTE = "erf is accurate to 1e-7, in float64 too"

_wide = partial(elementwise, types=_FLOAT, compute_in=accumulator_type)
"""Of several calls, which would round float16 several times."""

OPERATORS: tuple[Operator, ...] = (
    *(
        elementwise(name, single_call(function), same_types(types), since=since)
        for name, function, types, since in _ONE_CALL
    ),
    _wide("Celu", _exponential, since=12, attributes={"alpha": 1.0}, normalise=_celu_alpha),
    replace(_CONSTANT_CLIP, build=_build_clip),
    elementwise(
        "Dropout",
        _copy,
        _FLOAT,
        attributes={"ratio": 0.5, "seed": 0},
        normalise=_inference_only,
        aliases=first_operand_alias,
        constant_inputs=frozenset({2}),
        notes="inference only; a view; no mask output",
    ),
    _wide("Elu", _exponential, attributes={"alpha": 1.0}),
    _wide("Erf", _erf, since=9, notes=_ERF_NOTE),
    _wide(
        "Gelu",
        _gelu,
        since=20,
        attributes={"approximate": "none"},
        normalise=_gelu_kind,
        notes=_ERF_NOTE,
    ),
    _wide("HardSigmoid", _hard_sigmoid, attributes={"alpha": 0.2, "beta": 0.5}),
    _wide("HardSwish", _hard_swish, since=14),
    elementwise(
        "IsInf",
        _is_infinite,
        same_types(FLOATS, "bool"),
        since=10,
        attributes={"detect_negative": 1, "detect_positive": 1},
    ),
    elementwise("IsNaN", _is_nan, same_types(FLOATS, "bool"), since=9),
    elementwise("Identity", _copy, same_types(EVERY), aliases=first_operand_alias, notes="a view"),
    _wide("LeakyRelu", _leaky_relu, attributes={"alpha": 0.01}),
    _wide("Mish", _mish, since=18),
    _wide("PRelu", _prelu, types=_prelu_types, operands=2),
    elementwise("Relu", _relu, same_types(SIGNED)),
    _wide(
        "Selu", _exponential, attributes={"alpha": 1.6732631921768188, "gamma": 1.0507010221481323}
    ),
    _wide("Shrink", _shrink, since=9, attributes={"bias": 0.0, "lambd": 0.5}),
    _wide("Sigmoid", _sigmoid),
    _wide("Softplus", _softplus),
    _wide("Softsign", _softsign),
    _wide("Swish", _swish, since=24, attributes={"alpha": 1.0}),
    _wide("ThresholdedRelu", _thresholded_relu, since=10, attributes={"alpha": 1.0}),
)
