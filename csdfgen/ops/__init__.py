"""The table of operators: one record for each ONNX operator, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from csdfgen.model.network import Layer
from csdfgen.ops import (
    activation,
    arithmetic,
    block_quantized,
    composed,
    computed_weights,
    convolution,
    dynamic,
    einsum,
    functions,
    heads,
    indexing,
    joining,
    linear,
    maxima,
    normalization,
    padding,
    pooling,
    quantized_maps,
    quantized_pools,
    quantized_products,
    quantizing,
    ranking,
    rearranged,
    recurrent,
    reduction,
    resampling,
    reshaping,
    sampling,
    scan,
    selection,
    signals,
    tables,
)
from csdfgen.ops.base import Operator
from csdfgen.ops.stored import make_integer_operator

__all__ = ["OPERATORS", "get_operator"]

_FAMILIES = (
    convolution, pooling, activation, arithmetic, normalization, reduction, linear, reshaping, joining, indexing, ranking,
    selection, padding, resampling, quantizing, quantized_products, quantized_maps, quantized_pools, recurrent, composed,
    block_quantized, einsum, heads, maxima, sampling, computed_weights, rearranged, signals, dynamic, tables, scan,
    functions,
)  # fmt: skip
"""Of operators that two families have, the later one's stands."""

OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {operator.op_type: operator for family in _FAMILIES for operator in family.OPERATORS}
)


_ON_INTEGERS: Mapping[str, Operator] = MappingProxyType(
    {name: make_integer_operator(operator, OPERATORS) for name, operator in OPERATORS.items()}
)
"""The same operators for layers that store integers."""


def get_operator(layer: Layer) -> Operator:
    """The record of a layer's operator, as the layer stores what it reads and writes."""
    return (OPERATORS if layer.stored is None else _ON_INTEGERS)[layer.op_type]
