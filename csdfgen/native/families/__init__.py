"""Which layers have kernels of their own, and what are those handed?

A family says which steps it takes, as their rows lie, and makes of such a step a structure of the
kernel library: tables of row addresses, packed weights, sizes. Weights are packed once a layer, when
its first step is bound.
"""

from __future__ import annotations

from collections.abc import Callable

from csdfgen.model.network import Layer, remembered
from csdfgen.native.families.byte_maps import BYTE_MAPS
from csdfgen.native.families.byte_pools import BYTE_POOLS
from csdfgen.native.families.byte_products import BYTE_PRODUCTS
from csdfgen.native.families.common import Family
from csdfgen.native.families.convolution import Convolution, convolution, transposed
from csdfgen.native.families.maps import MAPS
from csdfgen.native.families.pools import POOLS
from csdfgen.native.families.product import product
from csdfgen.native.ways import Variant, Ways

__all__ = ["KERNELS", "Family", "family_of", "variants_of"]

AS_ESTIMATED = Ways()


def family_of(layer: Layer, ways: Ways = AS_ESTIMATED) -> Family | None:
    """The family that a layer is of, if there is one. ways: how convolutions are computed; all ways of
    a layer share its packed weights.
    """
    family = _made(layer)
    if not isinstance(family, Convolution) or ways == AS_ESTIMATED:
        return family
    known = _chosen(layer)
    if ways not in known:
        known[ways] = family.computed(ways.of(layer.name))
    return known[ways]


def variants_of(layer: Layer, rows: int) -> tuple[Variant, ...]:
    """The ways to compute slabs of so many rows of a layer that differ; () where there is one alone."""
    family = _made(layer)
    return family.variants(rows) if isinstance(family, Convolution) else ()


@remembered
def _chosen(layer: Layer) -> dict[Ways, Family]:
    """The layer's family as it was computed before."""
    return {}


@remembered
def _made(layer: Layer) -> Family | None:
    floats = all(t is None or t.dtype == "float32" for t in (*layer.inputs, *layer.outputs))
    if layer.stored is not None:
        return None
    make = (_FAMILIES if floats else BYTE_FAMILIES).get(layer.op_type)
    return None if make is None else make(layer)


_FAMILIES: dict[str, Callable[[Layer], Family | None]] = {
    "Conv": convolution,
    "ConvTranspose": transposed,
    "Gemm": product,
    "MatMul": product,
    **MAPS,
    **POOLS,
}

BYTE_FAMILIES: dict[str, Callable[[Layer], Family | None]] = {
    **BYTE_PRODUCTS,
    **BYTE_MAPS,
    **BYTE_POOLS,
}
"""The same of layers that read or make tensors of one byte an element."""

KERNELS = frozenset((*_FAMILIES, *BYTE_FAMILIES))
"""Operators that have kernels of their own."""
