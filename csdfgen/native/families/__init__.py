"""Which layers have kernels of their own, and what are those handed?

A family says which steps it takes, as their rows lie, and makes of such a step a structure of the
kernel library: tables of row addresses, packed weights, sizes. Weights are packed once a layer, when
its first step is bound.
"""

from __future__ import annotations

from collections.abc import Callable

from csdfgen.model.network import Layer, remembered
from csdfgen.native.families.common import Family
from csdfgen.native.families.convolution import convolution, transposed
from csdfgen.native.families.maps import MAPS
from csdfgen.native.families.pools import POOLS
from csdfgen.native.families.product import product

__all__ = ["KERNELS", "Family", "family_of"]


def family_of(layer: Layer, *, exact: bool = False) -> Family | None:
    """The family that a layer is of, if there is one. exact: none that computes otherwise than by
    sums of products.
    """
    return _exact(layer) if exact else _fast(layer)


@remembered
def _fast(layer: Layer) -> Family | None:
    return _made(layer, False)


@remembered
def _exact(layer: Layer) -> Family | None:
    return _made(layer, True)


def _made(layer: Layer, exact: bool) -> Family | None:
    floats = all(t is None or t.dtype == "float32" for t in (*layer.inputs, *layer.outputs))
    if not floats:
        return None
    if layer.op_type in _CONVOLUTIONS:
        return _CONVOLUTIONS[layer.op_type](layer, exact)
    make = _FAMILIES.get(layer.op_type)
    return None if make is None else make(layer)


_CONVOLUTIONS: dict[str, Callable[[Layer, bool], Family | None]] = {
    "Conv": convolution,
    "ConvTranspose": transposed,
}
_FAMILIES: dict[str, Callable[[Layer], Family | None]] = {
    "Gemm": product,
    "MatMul": product,
    **MAPS,
    **POOLS,
}

KERNELS = frozenset((*_CONVOLUTIONS, *_FAMILIES))
"""Operators that have kernels of their own."""
