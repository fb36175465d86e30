"""Which layers have kernels of their own, and what are those handed?

A family says which steps it takes, as their rows lie, and makes of such a step a structure of the
kernel library: tables of row addresses, packed weights, sizes. Weights are packed once a layer, when
its first step is bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from csdfgen.backends.native.families.attention import attention
from csdfgen.backends.native.families.byte_maps import BYTE_MAPS, table_function
from csdfgen.backends.native.families.byte_pools import BYTE_POOLS
from csdfgen.backends.native.families.byte_products import BYTE_PRODUCTS, ByteConvolution
from csdfgen.backends.native.families.common import Family
from csdfgen.backends.native.families.contraction import contraction
from csdfgen.backends.native.families.convolution import (
    Convolution,
    convolution,
    transposed_convolution,
    volume_convolution,
)
from csdfgen.backends.native.families.maps import MAPS
from csdfgen.backends.native.families.multiplication import multiplication
from csdfgen.backends.native.families.normalization import normalization, standardization
from csdfgen.backends.native.families.pools import POOLS
from csdfgen.backends.native.families.presented import Presented, view_as_rows
from csdfgen.backends.native.families.product import Product, four_bit_product, product
from csdfgen.backends.native.families.recurrent import recurrent
from csdfgen.backends.native.families.softmax import byte_softmax, softmax
from csdfgen.backends.native.families.widened import Widened
from csdfgen.backends.native.ways import Variant, Ways
from csdfgen.model.formats import BFLOAT16, FLOAT16, Stored
from csdfgen.model.network import Layer, memoize_layer
from csdfgen.ops import get_operator
from csdfgen.ops.base import Mode
from csdfgen.ops.integers import BYTES, uses_shifts
from csdfgen.ops.micro import has_formula
from csdfgen.ops.stored import float_twin, integer_twin

__all__ = ["KERNELS", "Family", "list_variants", "match_family"]

AS_ESTIMATED = Ways()

TWO_BYTES = BFLOAT16, FLOAT16
"""What a layer of one type of two bytes reads and writes."""


def match_family(layer: Layer, ways: Ways = AS_ESTIMATED) -> Family | None:
    """The family that a layer is of, if there is one. ways: how convolutions are computed; all ways of
    a layer share its packed weights.
    """
    family = _made(layer)
    if (
        not isinstance(family, (Convolution, ByteConvolution, Widened, Presented))
        or ways == AS_ESTIMATED
    ):
        return family
    known = _chosen(layer)
    if ways not in known:
        known[ways] = family.computed(ways, layer.name)
    return known[ways]


def list_variants(layer: Layer, rows: int) -> tuple[Variant, ...]:
    """The ways to compute slabs of so many rows of a layer that differ; () where there is one alone."""
    family = _made(layer)
    return family.variants(rows) if isinstance(family, Convolution) else ()


@memoize_layer
def _chosen(layer: Layer) -> dict[Ways, Family]:
    """The layer's family as it was computed before."""
    return {}


@memoize_layer
def _made(layer: Layer) -> Family | None:
    if layer.stored is not None or _is_float16(layer):
        widened = _of_float16(layer) if layer.stored is None else _widened(layer)
        # of a tensor without rows, those that a part reads are widened
        return (isinstance(widened, Widened) and _by_other_rows(layer)) or widened
    floats = all(t is None or t.dtype == "float32" for t in (*layer.inputs, *layer.outputs))
    make = (_FAMILIES if floats else BYTE_FAMILIES).get(layer.op_type)
    found = None if make is None else make(layer)
    if found is None and floats and layer.op_type in NORMALIZATIONS:
        return standardization(layer)
    return found or _by_other_rows(layer)


def _by_other_rows(layer: Layer) -> Family | None:
    """The family of a layer that reads rows along another axis than its input is stored by."""
    twin = view_as_rows(layer) if get_operator(layer).mode(layer) is Mode.ROWS else None
    family = None if twin is None else _made(twin)
    return None if twin is None or family is None else Presented(family, twin)


def _widened(layer: Layer) -> Family | None:
    """A table, if the layer is a function of one byte; else the family of its twin on bytes, if there
    is one that makes bytes or values; else of its twin on values, which has to compute all that is
    done before they are stored. Sums over phases are left to loops.
    """
    assert layer.stored is not None
    function = table_function(layer)
    if function is not None:
        return function
    integers = integer_twin(layer)
    if integers is not None and integers.op_type in BYTE_FAMILIES:
        types = {integers.attributes[role].dtype for role in "xw" if role in integers.attributes}
        made = integers.output.dtype
        family = BYTE_FAMILIES[integers.op_type](integers)
        if types <= set(BYTES) and made in (*BYTES, "float32") and family is not None:
            return family
    exact = has_formula(layer) or (integers is not None and uses_shifts(layer))
    return None if exact else _on_values(layer, layer)


def _is_float16(layer: Layer) -> bool:
    tensors = (*layer.inputs, *layer.outputs)
    return all(t is None or t.dtype == "float16" for t in tensors)


def _of_float16(layer: Layer) -> Family | None:
    """The family of the twin on float32. A Relu or Clip that follows is applied before results are rounded, which keeps
    the order of values, so that no bit changes.
    """
    read = {k: FLOAT16 for k, array in layer.constants.items() if array.dtype == np.float16}
    read |= {k: FLOAT16 for k, tensor in enumerate(layer.inputs) if tensor is not None}
    forms = tuple(read.get(k) for k in range(max(read, default=-1) + 1))
    first = layer.epilogue[0] if layer.epilogue else None
    clips = first is not None and (first.op_type == "Relu" or _clips_to_float16(first))
    for applied in (1, 0) if clips else (0,):
        stored = Stored(forms, (FLOAT16,) * len(layer.outputs), applied)
        family = _on_values(layer, replace(layer, stored=stored))
        if family is not None:
            return family
    return None


def _clips_to_float16(layer: Layer) -> bool:
    if layer.op_type != "Clip" or "bounds" in layer.attributes or layer.constants:
        return False
    bounds = np.array([layer.attributes["min"], layer.attributes["max"]], np.float32)
    with np.errstate(over="ignore"):
        return np.array_equal(bounds.astype(np.float16).astype(np.float32), bounds)


def _on_values(layer: Layer, stored: Layer) -> Family | None:
    """The family of the twin on float32 of a layer. stored: the layer with its formats. Weights of two bytes that are packed
    once are not widened before that.
    """
    if layer.op_type not in KERNELS or get_operator(layer).mode(layer) is Mode.ACCUMULATE:
        return None
    weights, packed = stored.constants.get(1), frozenset[int]()
    if weights is not None and weights.dtype in (np.float16, BFLOAT16.dtype):
        packed = frozenset({1})
    for but in dict.fromkeys((packed, frozenset[int]())):
        twin, made = float_twin(stored, but=but), stored.stored
        family = _made(twin)
        if but and not isinstance(family, Convolution | Product):
            continue
        if family is not None and made is not None and family.follows(twin) == made.applied:
            followed = made.applied if layer.stored is None else 0
            forms = {made.read(k) for k, tensor in enumerate(layer.inputs) if tensor is not None}
            forms |= {made.written(k) for k, _ in enumerate(layer.outputs)}
            direct = next(
                (family.in_halves(twin, one.dtype) for one in TWO_BYTES if forms == {one}), None
            )
            return Widened(family, twin, made, followed, direct)
    return None


_FAMILIES: dict[str, Callable[[Layer], Family | None]] = {
    "Conv": lambda layer: volume_convolution(layer) or convolution(layer),
    "ConvTranspose": transposed_convolution,
    "Attention": attention,
    "Gemm": product,
    "MatMul": lambda layer: product(layer) or contraction(layer) or multiplication(layer),
    "MatMulNBits": four_bit_product,
    **dict.fromkeys(("GRU", "LSTM", "RNN"), recurrent),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), normalization),
    "Softmax": softmax,
    **MAPS,
    **POOLS,
}

NORMALIZATIONS = (
    "InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization",
    "LayerNormalization", "RMSNormalization",
)  # fmt: skip
"""Operators that may need all rows of a map for one."""

BYTE_FAMILIES: dict[str, Callable[[Layer], Family | None]] = {
    **BYTE_PRODUCTS,
    **BYTE_MAPS,
    **BYTE_POOLS,
    "QLinearSoftmax": byte_softmax,
}
"""The same of layers that read or make tensors of one byte an element."""

KERNELS = frozenset((*_FAMILIES, *NORMALIZATIONS, *BYTE_FAMILIES))
"""Operators that have kernels of their own."""
