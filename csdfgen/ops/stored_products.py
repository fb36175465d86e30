"""Which products of values are sums of integers? Those of a Conv, Gemm or MatMul whose two operands are
stored as integers.

`sum (x - x0) (w - w0)` times both scales is the same, so that nothing is widened: panels are filled
from the rows as they lie, sums are exact in any order (`_integers.exact_type`), and are rounded once, to
values or to integers of one or two bytes. Results do not depend on heights or processors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, remembered
from csdfgen.ops import quantized_products
from csdfgen.ops._operands import normal_axis
from csdfgen.ops.base import Emit, Operator, Takes
from csdfgen.ops.widened import values_of

__all__ = ["integer_twin", "summed"]

_TWINS = {"Conv": "QLinearConv", "Gemm": "QGemm", "MatMul": "QLinearMatMul"}
"""Operator on values -> the one that sums up integers."""

_OPERATORS: Mapping[str, Operator] = {one.op_type: one for one in quantized_products.OPERATORS}

_OFF, _PART, _OF_A_STEP = 0.01, 1e-6, 0.02
"""By how much a bias may miss an integer: in units of the product of both scales, as a part of the
largest of them (which is what it was rounded by when it became a value), and in steps of the output.
"""


@remembered
def integer_twin(layer: Layer) -> Layer | None:
    """The layer on integers that does the same; None where there is none."""
    stored = layer.stored
    x, w = (None, None) if stored is None else (stored.read(0), stored.read(1))
    if layer.op_type not in _TWINS or stored is None or x is None or w is None:
        return None
    if stored.applied or layer.inputs[0] is None or _scales_mix(layer, w):
        return None
    given = layer.attributes
    if given.get("alpha", 1) != 1 or (given.get("beta", 1) != 1 and 2 in layer.constants):
        return None
    constants = {k: array for k, array in layer.constants.items() if k == 1}
    if 2 in layer.constants:
        bias = _integers(layer, x, w, stored.written(0))
        if bias is None:
            return None
        constants[2] = bias
    elif len(layer.inputs) > 2 and layer.inputs[2] is not None:
        return None
    forms = (
        {"x": x, "w": w} if stored.written(0) is None else {"x": x, "w": w, "y": stored.written(0)}
    )
    return replace(
        layer,
        op_type=_TWINS[layer.op_type],
        attributes=MappingProxyType({**given, **forms}),
        constants=MappingProxyType(constants),
        stored=None,
        epilogue=(),
    )


def _scales_mix(layer: Layer, w: Format) -> bool:
    """Whether a sum has products of several scales."""
    if 1 not in layer.constants:
        return w.axis is not None or layer.op_type == "Conv"
    rank = layer.constants[1].ndim
    if w.axis is None:
        return False
    outputs = 0 if layer.op_type == "Conv" or layer.attributes.get("transB") else rank - 1
    return normal_axis(w.axis, rank) != outputs or (layer.op_type == "MatMul" and rank < 2)


def _integers(layer: Layer, x: Format, w: Format, y: Format | None) -> np.ndarray | None:
    """The addend in units of the sums; None where it is too far from integers."""
    assert x.scale is not None and w.scale is not None and layer.stored is not None
    form = layer.stored.read(2)
    values = layer.constants[2] if form is None else values_of(layer.constants[2], form)
    unit = x.scale[0] * np.array(w.scale, np.float64)
    unit = unit if unit.size > 1 else unit.reshape(())
    quotients = values.astype(np.float64) / unit
    found = np.rint(quotients)
    off = np.abs(quotients - found)
    allowed = np.maximum(_OFF, _PART * np.abs(quotients).max(initial=0))
    if y is not None and y.scale is not None:
        allowed = np.maximum(allowed, _OF_A_STEP * y.scale[0] / unit)
    if np.any(off > allowed) or np.abs(found).max(initial=0) >= 2**52:
        return None
    integers: np.ndarray = found.astype(np.int64)
    return integers


def summed(wide: Operator) -> Operator:
    """An operator on stored integers (`widened`), which sums integers up where it can."""
    if wide.op_type not in _TWINS:
        return wide
    own = _OPERATORS[_TWINS[wide.op_type]]

    def kernel(layer: Layer) -> Emit:
        twin = integer_twin(layer)
        return wide.kernel(layer) if twin is None else own.kernel(twin)

    def state(layer: Layer) -> Format:
        twin = integer_twin(layer)
        return wide.state(layer) if twin is None else own.state(twin)

    def takes(layer: Layer, position: int) -> Takes:
        twin = integer_twin(layer)
        return wide.takes(layer, position) if twin is None else own.takes(twin, position)

    def joins(layer: Layer, images: int) -> bool:
        twin = integer_twin(layer)
        return twin is not None and own.joins(twin, images)

    return replace(wide, kernel=kernel, state=state, takes=takes, joins=joins)
