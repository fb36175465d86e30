"""The table of operators: one record for each ONNX operator, by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
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


@cache
def _on_integers(name: str) -> Operator:
    """The same operator for layers that store integers."""
    return make_integer_operator(OPERATORS[name], OPERATORS)


def get_operator(layer: Layer) -> Operator:
    """The record of a layer's operator, as the layer stores what it reads and writes."""
    return OPERATORS[layer.op_type] if layer.stored is None else _on_integers(layer.op_type)
