"""The table of operators: one record per ONNX operator, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from csdfgen.model.network import Layer
from csdfgen.ops import (
    activation,
    arithmetic,
    convolution,
    joining,
    linear,
    normalization,
    padding,
    pooling,
    quantized_maps,
    quantized_pools,
    quantized_products,
    quantized_softmax,
    quantizing,
    reduction,
    resampling,
    reshaping,
)
from csdfgen.ops.base import Operator
from csdfgen.ops.stored_functions import by_table
from csdfgen.ops.stored_products import summed
from csdfgen.ops.widened import widened

__all__ = ["OPERATORS", "operator_of"]

_FAMILIES = (
    convolution,
    pooling,
    activation,
    arithmetic,
    normalization,
    reduction,
    linear,
    reshaping,
    joining,
    padding,
    resampling,
    quantizing,
    quantized_products,
    quantized_maps,
    quantized_pools,
    quantized_softmax,
)

OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {operator.op_type: operator for family in _FAMILIES for operator in family.OPERATORS}
)


_WIDENED: Mapping[str, Operator] = MappingProxyType(
    {
        name: by_table(summed(widened(operator, OPERATORS)), OPERATORS)
        for name, operator in OPERATORS.items()
    }
)
"""The same on integers: sums of them where they are products, tables where they are functions of one
byte, else widened and narrowed in the slab.
"""


def operator_of(layer: Layer) -> Operator:
    """The record of a layer's operator, as the layer stores what it reads and writes."""
    return (OPERATORS if layer.stored is None else _WIDENED)[layer.op_type]
