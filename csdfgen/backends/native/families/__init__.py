"""Which layers have kernels of their own, and what are those handed?

A family says which steps it takes, as their rows lie, and makes of such a step a structure of the
kernel library: tables of row addresses, packed weights, sizes. Weights are packed once a layer, when
its first step is bound.
"""

from __future__ import annotations

from collections.abc import Callable

from csdfgen.backends.native.families.attention import attention
from csdfgen.backends.native.families.byte_maps import BYTE_MAPS, stored_function
from csdfgen.backends.native.families.byte_pools import BYTE_POOLS
from csdfgen.backends.native.families.byte_products import BYTE_PRODUCTS, ByteConvolution
from csdfgen.backends.native.families.common import Family
from csdfgen.backends.native.families.contraction import contraction
from csdfgen.backends.native.families.convolution import (
    Convolution,
    convolution,
    plane_by_plane,
    transposed,
)
from csdfgen.backends.native.families.maps import MAPS
from csdfgen.backends.native.families.multiplication import multiplication
from csdfgen.backends.native.families.normalization import normalization
from csdfgen.backends.native.families.pools import POOLS
from csdfgen.backends.native.families.product import product
from csdfgen.backends.native.families.recurrent import recurrent
from csdfgen.backends.native.families.softmax import softmax
from csdfgen.backends.native.families.widened import Widened
from csdfgen.backends.native.ways import Variant, Ways
from csdfgen.model.network import Layer, remembered
from csdfgen.ops import operator_of
from csdfgen.ops.base import Mode
from csdfgen.ops.integers import BYTES
from csdfgen.ops.stored import float_twin, integer_twin

__all__ = ["KERNELS", "Family", "family_of", "variants_of"]

AS_ESTIMATED = Ways()


def family_of(layer: Layer, ways: Ways = AS_ESTIMATED) -> Family | None:
    """The family that a layer is of, if there is one. ways: how convolutions are computed; all ways of
    a layer share its packed weights.
    """
    family = _made(layer)
    if not isinstance(family, (Convolution, ByteConvolution, Widened)) or ways == AS_ESTIMATED:
        return family
    known = _chosen(layer)
    if ways not in known:
        known[ways] = family.computed(ways, layer.name)
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
    if layer.stored is not None:
        return _widened(layer)
    floats = all(t is None or t.dtype == "float32" for t in (*layer.inputs, *layer.outputs))
    make = (_FAMILIES if floats else BYTE_FAMILIES).get(layer.op_type)
    return None if make is None else make(layer)


def _widened(layer: Layer) -> Family | None:
    """A table, if the layer is a function of one byte; else the family of its twin on bytes, if there
    is one that makes bytes or values; else of its twin on values, which has to compute all that is
    done before they are stored. Sums over phases are left to loops.
    """
    assert layer.stored is not None
    function = stored_function(layer)
    if function is not None:
        return function
    integers = integer_twin(layer)
    if integers is not None and integers.op_type in BYTE_FAMILIES:
        types = {integers.attributes["x"].dtype, integers.attributes["w"].dtype}
        made = integers.output.dtype
        family = BYTE_FAMILIES[integers.op_type](integers)
        if types <= set(BYTES) and made in (*BYTES, "float32") and family is not None:
            return family
    if layer.op_type not in _FAMILIES or operator_of(layer).mode(layer) is Mode.ACCUMULATE:
        return None
    twin = float_twin(layer)
    family = _made(twin)
    if family is None or family.follows(twin) != layer.stored.applied:
        return None
    return Widened(family, twin)


def _matmul(layer: Layer) -> Family | None:
    return product(layer) or contraction(layer) or multiplication(layer)


def _convolution(layer: Layer) -> Family | None:
    return plane_by_plane(layer) or convolution(layer)


_FAMILIES: dict[str, Callable[[Layer], Family | None]] = {
    "Conv": _convolution,
    "ConvTranspose": transposed,
    "Attention": attention,
    "Gemm": product,
    "MatMul": _matmul,
    **dict.fromkeys(("GRU", "LSTM", "RNN"), recurrent),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), normalization),
    "Softmax": softmax,
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
