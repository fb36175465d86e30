"""Small operators that are layers of others: parts of matrices, activations and sums of onnxruntime's own domain,
normalizations behind sums, rotary embeddings.

Sources: https://onnx.ai/onnx/operators/ and, for the domain com.microsoft,
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.network import Node, Tensor
from csdfgen.ops._operands import check_word, normalize_axis, read_integers
from csdfgen.ops.base import MICROSOFT, REQUIRED, Operator, require_constant, require_tensor
from csdfgen.ops.composing import OPSET, Composition, Operand, composed_operator, require
from csdfgen.ops.computed_weights import compose_convolution
from csdfgen.ops.convolution import CONV

Results = Iterable[Operand | None]

TWINS = frozenset({"Attention", "RotaryEmbedding", "SwiGLU"})
"""Operators of onnxruntime's domain of which ONNX has one of the same name and another meaning."""


# Parts of matrices, the largest element -----------------------------------------------------------


def _triangle(make: Composition, node: Node) -> Results:
    """Trilu: a choice between the matrix and zeros by a constant."""
    x = require_tensor(node, 0)
    if len(x.shape) < 2:
        raise ModelError(f"input of shape {list(x.shape)}; it takes matrices, of 2 axes or more")
    given = node.operand(1)
    diagonals = (0,) if given is None else read_integers(require_constant(node, 1), "k")
    if len(diagonals) != 1:
        raise ModelError(f"k has {len(diagonals)} numbers, one diagonal is needed")
    ones = np.ones(x.shape[-2:], bool)
    # beyond its corners a matrix has no diagonals
    k = min(max(diagonals[0], -x.shape[-2]), x.shape[-1])
    upper = node.attributes.get("upper", 1)
    kept = np.triu(ones, k) if upper else np.tril(ones, k)
    return [make("Where", kept, x, np.zeros((), x.dtype))]


def _hardmax(make: Composition, node: Node) -> Results:
    """1 at the first of the largest elements along an axis, 0 elsewhere. Before opset 13 all axes from `axis` on are
    one.
    """
    x = require_tensor(node, 0)
    rank, one = len(x.shape), node.opset >= 13
    axis = normalize_axis(int(node.attributes.get("axis", -1 if one else 1)), rank)
    source: Operand = x
    if not one:
        source = make.reshaped(x, (*x.shape[:axis], prod(x.shape[axis:])))
    best = make("ArgMax", source, axis=axis, keepdims=0)
    values = np.array([0, 1], x.dtype)
    found = make("OneHot", best, np.array(source.shape[axis], np.int64), values, axis=axis)
    return [make.reshaped(found, x.shape)]


# Activations --------------------------------------------------------------------------------------


def _biased_gelu(make: Composition, node: Node) -> Results:
    """BiasGelu and FastGelu: Gelu of the sum with a bias, FastGelu with tanh."""
    x, bias = require_tensor(node, 0), node.operand(1)
    total = x if bias is None else make("Add", x, bias)
    kind = "tanh" if node.op_type == "FastGelu" else "none"
    return [make("Gelu", total, approximate=kind)]


def _quick_gelu(make: Composition, node: Node) -> Results:
    alpha = float(node.attributes.get("alpha", _QUICK))
    return [make("Swish", require_tensor(node, 0), alpha=alpha)]


_QUICK = 1.702
"""The default of QuickGelu's `alpha`."""


def _gated(make: Composition, node: Node) -> Results:
    """SwiGLU: the activation of a gate times another tensor of its shape."""
    x, other = require(node, 0), require(node, 1)
    if tuple(x.shape) != tuple(other.shape):
        raise ModelError(f"A of shape {list(x.shape)} and B of shape {list(other.shape)} differ")
    alpha = float(node.attributes.get("alpha", 1.0))
    return [make("Mul", make("Swish", x, alpha=alpha), other)]


def _gated_of_microsoft(make: Composition, node: Node) -> Results:
    """SwiGLU of halves of the last axis, or two tensors, kept within limits before."""
    gate, up = require(node, 0), node.operand(1)
    if up is None:
        gate, up = _halves(make, gate)
    limit, alpha, beta = (
        float(node.attributes.get(name, default))
        for name, default in (("limit", 0.0), ("activation_alpha", 1.0), ("activation_beta", 0.0))
    )
    if limit > 0:
        low, high = (np.array(value, gate.dtype) for value in (-limit, limit))
        gate, up = make("Clip", gate, None, high), make("Clip", up, low, high)
    if beta:
        up = make("Add", up, np.array(beta, gate.dtype))
    return [make("Mul", make("Swish", gate, alpha=alpha), up)]


def _biased_split_gelu(make: Composition, node: Node) -> Results:
    """The first half of the channels of a sum times Gelu of the second."""
    first, second = _halves(make, make("Add", require(node, 0), require(node, 1)))
    return [make("Mul", first, make("Gelu", second))]


def _halves(make: Composition, x: Operand) -> tuple[Operand, Operand]:
    """Of the last axis."""
    axis, size = len(x.shape) - 1, x.shape[-1]
    if size % 2:
        raise ModelError(f"input of shape {list(x.shape)}; the last axis must have two halves")
    return make.part(x, axis, 0, size // 2), make.part(x, axis, size // 2, size)


def _biased_sum(make: Composition, node: Node) -> Results:
    """BiasAdd."""
    x, bias, skip = (require(node, k) for k in range(3))
    return [make("Add", make("Add", x, bias), skip)]


_ACTIVATIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Relu": (),
        "Tanh": (),
        "Sigmoid": (),
        "LeakyRelu": ("alpha",),
        "HardSigmoid": ("alpha", "beta"),
        "Clip": ("min", "max"),
    }
)
"""Activation of a fused operator -> its parameters, in the order of `activation_params`."""


def _activated(make: Composition, node: Node, x: Operand, parameters: Sequence[float]) -> Operand:
    """The activation that a fused operator names, with what it has of parameters."""
    name = node.attributes.get("activation", "")
    if not name:
        return x
    name = check_word(name, "activation", tuple(_ACTIVATIONS))
    given: dict[str, Any] = dict(zip(_ACTIVATIONS[name], map(float, parameters), strict=False))
    if name != "Clip":
        return make(name, x, **given)
    bounds = (np.array(given[k], x.dtype) if k in given else None for k in ("min", "max"))
    return make("Clip", x, *bounds)


def _plain(node: Node, names: Sequence[str]) -> dict[str, Any]:
    """The attributes of a node that the operator which it is fused of has."""
    return {k: node.attributes[k] for k in names if k in node.attributes}


_GEMM = ("alpha", "beta", "transA", "transB")


def _fused_conv(make: Composition, node: Node) -> Results:
    """Conv, plus a tensor, activated."""
    x, weights, bias, other = (node.operand(k) for k in range(4))
    total = compose_convolution(make, replace(node, opset=OPSET), x, weights, bias)
    if other is not None:
        total = make("Add", total, other)
    return [_activated(make, node, total, node.attributes.get("activation_params") or ())]


def _fused_gemm(make: Composition, node: Node) -> Results:
    total = make("Gemm", *node.inputs, **_plain(node, _GEMM))
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    parameters = [node.attributes[k] for k in names if k in node.attributes]
    return [_activated(make, node, total, parameters)]


def _fused_matmul(make: Composition, node: Node) -> Results:
    """alpha * A B, of operands of which the last axis, or the first, is elsewhere."""
    alpha = float(node.attributes.get("alpha", 1.0))
    operands = []
    for position, which in ((0, "A"), (1, "B")):
        x = require(node, position)
        order = list(range(len(x.shape)))
        if len(order) > 1:
            if node.attributes.get(f"transBatch{which}", 0):
                order = [*order[1:-1], order[0], order[-1]]
            if node.attributes.get(f"trans{which}", 0):
                order[-2:] = order[:-3:-1]
        operands.append(make.turned(x, order))
    dtype = operands[0].dtype
    for k, operand in enumerate(operands):
        if alpha != 1 and isinstance(operand, np.ndarray):
            operands[k], alpha = (operand * alpha).astype(operand.dtype), 1.0
    product = make("MatMul", *operands)
    return [product if alpha == 1 else make("Mul", product, np.array(alpha, dtype))]


# Normalizations -----------------------------------------------------------------------------------

_STATISTICS = ("mean", "inv_std_var")


def _simplified(make: Composition, node: Node) -> Results:
    """RMSNormalization by its name before ONNX had it."""
    x, scale = require_tensor(node, 0), require(node, 1)
    return [make("RMSNormalization", x, scale, **_plain(node, ("axis", "epsilon")))]


def _skipped(make: Composition, node: Node) -> Results:
    """The normalized sum of an input, what skips to it, and a bias; and the sum itself."""
    simple = node.op_type == "SkipSimplifiedLayerNormalization"
    x, skip, scale = (require(node, k) for k in range(3))
    shift, bias = (None, node.operand(3)) if simple else (node.operand(3), node.operand(4))
    total = make("Add", x, skip)
    if bias is not None:
        total = make("Add", total, bias)
    kind = "RMSNormalization" if simple else "LayerNormalization"
    operands = [scale] if shift is None else [scale, shift]
    epsilon = float(node.attributes.get("epsilon", _SKIP_EPSILON))
    return [make(kind, total, *operands, axis=-1, epsilon=epsilon), None, None, total]


_SKIP_EPSILON = 1e-12


def _embedded(make: Composition, node: Node) -> Results:
    """EmbedLayerNormalization: the normalized sum of the embeddings of words, places and segments; how many words there
    are; and the sum itself.
    """
    words, places, scale, shift = (require(node, k) for k in (2, 3, 5, 6))
    ids, segments, mask, at = require(node, 0), node.operand(1), node.operand(7), node.operand(8)
    own = make.part(places, 0, 0, ids.shape[1]) if at is None else make("Gather", places, at)
    total = make("Add", make("Gather", words, ids), own)
    if segments is not None:
        total = make("Add", total, make("Gather", require(node, 4), segments))
    epsilon = float(node.attributes.get("epsilon", _SKIP_EPSILON))
    found = make("LayerNormalization", total, scale, shift, axis=-1, epsilon=epsilon)
    counted = mask is not None and any(node.outputs[1:2])
    return [found, make.summed(mask, [1]) if counted and mask is not None else None, total]


def _group_norm(make: Composition, node: Node) -> Results:
    """GroupNorm."""
    return [_grouped(make, node, require(node, 0))]


def _skipped_group_norm(make: Composition, node: Node) -> Results:
    """SkipGroupNorm: of the sum of an input, what skips to it, and a bias; and the sum itself."""
    x, skip, bias = require(node, 0), require(node, 3), node.operand(4)
    if len(skip.shape) == 2:
        skip = make.reshaped(skip, (skip.shape[0], *(1,) * (len(x.shape) - 2), skip.shape[1]))
    total = make("Add", x, skip)
    if bias is not None:
        total = make("Add", total, bias)
    return [_grouped(make, node, total), total]


def _grouped(make: Composition, node: Node, x: Operand) -> Operand:
    """GroupNormalization of channels that may be last, and SiLU behind it."""
    scale, shift = require(node, 1), require(node, 2)
    rank, last = len(x.shape), bool(node.attributes.get("channels_last", 1))
    if rank < 3:
        raise ModelError(f"input of shape {list(x.shape)}; it takes 3 axes or more")
    first = make.turned(x, (0, rank - 1, *range(1, rank - 1))) if last else x
    # weights are float32 beside float16, too
    weights = [
        one.astype(x.dtype) if isinstance(one, np.ndarray) else one for one in (scale, shift)
    ]
    groups = int(node.attributes["groups"])
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    found = make("GroupNormalization", first, *weights, num_groups=groups, epsilon=epsilon)
    if last:
        found = make.turned(found, (0, *range(2, rank), 1))
    activation = int(node.attributes["activation"])
    if activation not in (0, 1):
        raise ModelError(f"activation={activation} is not 0 (none) or 1 (SiLU)")
    return make("Swish", found) if activation else found


# Rotary embeddings --------------------------------------------------------------------------------


def _rotary(make: Composition, node: Node) -> Results:
    """RotaryEmbedding of ONNX: its caches have a line a position, or are given for each image and position."""
    x, tables = require_tensor(node, 0), (require(node, 1), require(node, 2))
    return [_rotated(make, node, x, tables, node.operand(3))]


def _rotary_of_microsoft(make: Composition, node: Node) -> Results:
    """The positions are the second input: one for each, or that of the first."""
    if float(node.attributes.get("scale", 1.0)) != 1 or node.attributes.get(
        "is_packed_batching", 0
    ):
        raise ModelError("scale and is_packed_batching are not supported; export without them")
    x, tables = require_tensor(node, 0), (require(node, 2), require(node, 3))
    positions = require(node, 1)
    images, count = x.shape[0], x.shape[-2]
    if tuple(positions.shape) == (1,):
        steps = np.arange(count, dtype=np.int64)[None]
        positions = make("Add", make.reshaped(positions, (1, 1)), steps)
        positions = make("Expand", positions, np.array((images, count), np.int64))
    return [_rotated(make, node, x, tables, positions)]


def _rotated(
    make: Composition,
    node: Node,
    x: Tensor,
    tables: tuple[Operand, Operand],
    positions: Operand | None,
) -> Operand:
    """Pairs of channels turned by the angles of their positions.

    x: (images, positions, heads * channels) or (images, heads, positions, channels). tables: cosines and sines,
    (lines, pairs), of which `positions`, (images, positions), names one each; without it (images, positions, pairs).
    """
    interleaved = bool(node.attributes.get("interleaved", 0))
    given, heads = (int(node.attributes.get(k, 0)) for k in ("rotary_embedding_dim", "num_heads"))
    cos, sin = tables
    if positions is not None:
        cos, sin = (make("Gather", table, positions, axis=0) for table in tables)
    pairs = cos.shape[-1]
    flat = len(x.shape) == 3
    if flat and not heads:
        if given:
            raise ModelError("rotary_embedding_dim without num_heads; export with num_heads")
        heads = x.shape[-1] // (2 * pairs)
    if len(x.shape) not in (3, 4) or (flat and (not heads or x.shape[-1] % heads)):
        raise ModelError(
            f"input of shape {list(x.shape)} with {heads} heads; it takes 4 axes, or 3 of which the last is divisible "
            "by the number of heads"
        )
    apart = make.reshaped(x, (*x.shape[:2], heads, x.shape[2] // heads)) if flat else x
    size = apart.shape[-1]
    turned = given or size
    images, count = x.shape[0], x.shape[-2]
    wanted = (images, count, turned // 2)
    for table in (cos, sin):
        if tuple(table.shape) != wanted:
            raise ModelError(
                f"a cache gives angles of shape {list(table.shape)}, {list(wanted)} (images, positions, pairs) is "
                "needed"
            )
    side = (images, count, 1, pairs) if flat else (images, 1, count, pairs)
    cos, sin = (make.reshaped(table, side) for table in (cos, sin))
    half = turned // 2
    if interleaved:
        real, other = (make.part(apart, 3, k, turned, 2) for k in (0, 1))
    else:
        real, other = (make.part(apart, 3, k, k + half) for k in (0, half))
    parts = [
        make("Sub", make("Mul", cos, real), make("Mul", sin, other)),
        make("Add", make("Mul", sin, real), make("Mul", cos, other)),
    ]
    if interleaved:
        pairwise = [make.reshaped(part, (*part.shape, 1)) for part in parts]
        parts = [make.reshaped(make("Concat", *pairwise, axis=-1), (*apart.shape[:3], turned))]
    if turned < size:
        parts.append(make.part(apart, 3, turned, size))
    whole = parts[0] if len(parts) == 1 else make("Concat", *parts, axis=-1)
    return make.reshaped(whole, x.shape)


# The table ----------------------------------------------------------------------------------------

_BY_AXES = "row-phased; whole along the row axis"
_PRODUCT = "row-phased; whole if the product contracts the row axis"

OPERATORS: tuple[Operator, ...] = (
    composed_operator("Trilu", _triangle, since=14, attributes={"upper": 1}, constant_inputs=(1,)),
    composed_operator(
        "Hardmax",
        _hardmax,
        since=7,
        attributes={"axis": None},
        structure="row-phased; whole along the row axis",
        notes="Before opset 13, treats all axes from `axis` on as one.",
    ),
    composed_operator("BiasGelu", _biased_gelu, domain=MICROSOFT),
    composed_operator("FastGelu", _biased_gelu, domain=MICROSOFT),
    composed_operator("QuickGelu", _quick_gelu, domain=MICROSOFT, attributes={"alpha": _QUICK}),
    composed_operator("BiasAdd", _biased_sum, domain=MICROSOFT),
    composed_operator("BiasSplitGelu", _biased_split_gelu, domain=MICROSOFT),
    composed_operator("SwiGLU", _gated, since=28, attributes={"alpha": 1.0}),
    composed_operator(
        f"{MICROSOFT}.SwiGLU",
        _gated_of_microsoft,
        domain=MICROSOFT,
        attributes={
            "activation_alpha": 1.0,
            "activation_beta": 0.0,
            "limit": 0.0,
            "round_activation": 0,
        },
    ),
    composed_operator(
        "FusedConv",
        _fused_conv,
        domain=MICROSOFT,
        attributes={**CONV.attributes, "activation": "", "activation_params": None},
        notes="Conv, Add and an activation.",
        multiplies=True,
    ),
    composed_operator(
        "FusedGemm",
        _fused_gemm,
        domain=MICROSOFT,
        attributes={
            "activation": "",
            "activation_alpha": None,
            "activation_beta": None,
            "activation_gamma": None,
            "alpha": 1.0,
            "beta": 1.0,
            "transA": 0,
            "transB": 0,
        },
        structure=_PRODUCT,
        notes="Gemm and an activation.",
        multiplies=True,
    ),
    *(
        composed_operator(
            op_type,
            _fused_matmul,
            domain=MICROSOFT,
            attributes={"alpha": 1.0, "transA": 0, "transB": 0, **more},
            structure=_PRODUCT,
            multiplies=True,
        )
        for op_type, more in (
            ("FusedMatMul", {"transBatchA": 0, "transBatchB": 0}),
            ("TransposeMatMul", {}),
        )
    ),
    composed_operator(
        "SimplifiedLayerNormalization",
        _simplified,
        attributes={"axis": -1, "epsilon": 1e-5, "stash_type": 1},
        structure=_BY_AXES,
        notes="RMSNormalization as onnxruntime exports it, in the default domain.",
    ),
    *(
        composed_operator(
            op_type,
            _skipped,
            domain=MICROSOFT,
            attributes={"epsilon": _SKIP_EPSILON},
            structure=_BY_AXES,
            notes="Computes outputs 0 and 3 (the sum).",
        )
        for op_type in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
    ),
    composed_operator(
        "EmbedLayerNormalization",
        _embedded,
        domain=MICROSOFT,
        attributes={"epsilon": _SKIP_EPSILON, "mask_index_type": None},
    ),
    *(
        composed_operator(
            op_type,
            write,
            domain=MICROSOFT,
            attributes={
                "activation": REQUIRED,
                "channels_last": 1,
                "epsilon": 1e-5,
                "groups": REQUIRED,
            },
            structure="whole",
            notes="GroupNormalization and SiLU.",
        )
        for op_type, write in (("GroupNorm", _group_norm), ("SkipGroupNorm", _skipped_group_norm))
    ),
    composed_operator(
        "RotaryEmbedding",
        _rotary,
        since=23,
        attributes={"interleaved": 0, "num_heads": 0, "rotary_embedding_dim": 0},
    ),
    composed_operator(
        f"{MICROSOFT}.RotaryEmbedding",
        _rotary_of_microsoft,
        domain=MICROSOFT,
        attributes={
            "interleaved": 0,
            "is_packed_batching": 0,
            "num_heads": 0,
            "rotary_embedding_dim": 0,
            "scale": 1.0,
        },
    ),
)
