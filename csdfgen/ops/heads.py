"""Attention with what surrounds it: kept keys and values, masks of every kind, projections, windows.

Sources: https://onnx.ai/onnx/operators/onnx__Attention.html and, for Attention and MultiHeadAttention of com.microsoft,
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. The products and the softmax are one layer
(`ops.attention`), unless the scores are read or an operand is a constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import sqrt
from types import MappingProxyType

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.network import Node, Tensor
from csdfgen.ops.attention import ATTENTION, MASKS
from csdfgen.ops.base import MICROSOFT, REQUIRED, Operator, require_tensor
from csdfgen.ops.composing import Composition, Operand, composed_operator

Results = Iterable[Operand | None]

_CODES = {"float16": 10, "float32": 1, "float64": 11}
"""Element types, as Cast names them."""


@dataclass
class _Attended:
    """Operands of an attention, each (images, positions, heads * channels) or (images, heads, positions, channels).

    heads, few: of the queries, of keys and values. allowed: which keys a query sees, broadcastable to (images, heads,
    queries, keys); None: all. bias: what is added to the scores, broadcastable likewise.
    """

    make: Composition
    q: Operand
    k: Operand
    v: Operand
    heads: int
    few: int
    scale: float
    cap: float = 0.0
    causal: bool = False
    allowed: Operand | None = None
    bias: Operand | None = None

    @property
    def images(self) -> int:
        return self.q.shape[0]

    @property
    def queries(self) -> int:
        return self.q.shape[-2]

    @property
    def keys(self) -> int:
        return self.k.shape[-2]

    def apart(self, x: Operand, heads: int) -> Operand:
        """Heads in front of positions."""
        if len(x.shape) == 4:
            return x
        split = self.make.reshaped(x, (*x.shape[:2], heads, x.shape[2] // heads))
        return self.make.turned(split, (0, 2, 1, 3))

    def keep(self, past_k: Operand | None, past_v: Operand | None) -> int:
        """Put keys and values of before in front, if there are any. Returns how many."""
        if past_k is None or past_v is None:
            return 0
        self.k = self.make("Concat", past_k, self.apart(self.k, self.few), axis=2)
        self.v = self.make("Concat", past_v, self.apart(self.v, self.few), axis=2)
        return past_k.shape[2]

    def kept(self, names: Sequence[str]) -> list[Operand | None]:
        """Keys and values, as far as they have names."""
        pairs = zip(names, (self.k, self.v), strict=True)
        return [self.apart(x, self.few) if name else None for name, x in pairs]

    def allow(self, these: Operand) -> None:
        """See these keys alone, of those that were seen before."""
        if self.allowed is None:
            self.allowed = these
        elif isinstance(self.allowed, np.ndarray) and isinstance(these, np.ndarray):
            self.allowed = self.allowed & these
        else:
            self.allowed = self.make("And", self.allowed, these)

    def add(self, bias: Operand) -> None:
        self.bias = bias if self.bias is None else self.make("Add", self.bias, bias)

    def done(self, mode: int | None = None) -> tuple[Operand, Operand | None]:
        """The output, of the queries' form, and the scores: raw (0), behind the cap (1), with masks (2), behind the
        softmax (3), if they are asked for.
        """
        mask, seen = self._mask()
        found, scores = None, None
        if mode is None and all(isinstance(x, Tensor) for x in (self.q, self.k, self.v)):
            found = self._as_layer(mask)
        if found is None:
            found, scores = self._spelled_out(mask, seen, mode)
        return (found if seen is None else self._where(seen, found)), scores

    def _mask(self) -> tuple[Operand | None, Operand | None]:
        """What is added to the scores, and which queries see any key; None: nothing, all of them. What a query that
        sees none would compute is finite.
        """
        dtype, bias = self.q.dtype, self.bias
        zero = np.zeros((), dtype)
        if isinstance(bias, np.ndarray) and np.isneginf(bias).any():
            self.allow(~np.isneginf(bias))
            bias = np.where(np.isneginf(bias), zero, bias)
        if self.allowed is not None and self.causal:  # one mask says both
            self.allow(np.tri(self.queries, self.keys, dtype=bool))
            self.causal = False
        allowed = self.allowed
        if allowed is None:
            return bias, None
        if isinstance(allowed, Tensor):
            lowest = np.array(np.finfo(dtype).min, dtype)
            mask = self.make("Where", allowed, zero if bias is None else bias, lowest)
            truth = self.make("Cast", allowed, to=_CODES[str(dtype)])
            last = np.array([len(allowed.shape) - 1], np.int64)
            most = self.make("ReduceMax", truth, last, keepdims=1)
            return mask, self.make("Greater", most, zero)
        seen = np.asarray(allowed.any(-1, keepdims=True))
        mask = np.where(allowed | ~seen, zero, -np.inf).astype(dtype)
        if bias is not None:
            mask = self.make("Add", bias, mask)
        return mask, None if seen.all() else seen

    def _as_layer(self, mask: Operand | None) -> Operand | None:
        """The output of one layer; None where operands are stored so that one layer cannot read them."""
        make = self.make
        try:
            found = make(
                "Attention",
                *(self.q, self.k, self.v, mask if isinstance(mask, np.ndarray) else None),
                q_num_heads=self.heads if len(self.q.shape) == 3 else 0,
                kv_num_heads=self.few if 3 in (len(self.k.shape), len(self.v.shape)) else 0,
                scale=self.scale,
                softcap=self.cap,
                is_causal=int(self.causal),
            )
        except ModelError:
            return None
        if isinstance(mask, Tensor):
            layer = make.layers.pop()
            mask = self._by_group(mask)
            assert isinstance(mask, Tensor)
            inputs, axes = list(layer.inputs), list(layer.input_axes)
            inputs[MASKS], axes[MASKS] = mask, mask.row_axis
            make.layers.append(replace(layer, inputs=tuple(inputs), input_axes=tuple(axes)))
        return found

    def _by_group(self, mask: Operand) -> Operand:
        """A mask whose axis of heads is divided as that of the queries is in the layer: by the heads of keys."""
        sizes = (*(1,) * (4 - len(mask.shape)), *mask.shape)
        divided = (1, 1) if sizes[1] == 1 else (self.few, self.heads // self.few)
        return self.make.reshaped(mask, (sizes[0], *divided, *sizes[2:]))

    def _spelled_out(
        self, mask: Operand | None, seen: Operand | None, mode: int | None
    ) -> tuple[Operand, Operand | None]:
        make, share = self.make, self.heads // self.few
        dtype = self.q.dtype
        q, k, v = (
            self.apart(x, count)
            for x, count in ((self.q, self.heads), (self.k, self.few), (self.v, self.few))
        )
        keys = make.turned(k, (0, 1, 3, 2))

        def grouped(x: Operand, count: int) -> Operand:
            return make.reshaped(x, (x.shape[0], self.few, count, *x.shape[-2:]))

        if share > 1:
            q, keys, v = grouped(q, share), grouped(keys, 1), grouped(v, 1)
        scores = make("Mul", make("MatMul", q, keys), np.array(self.scale, dtype))
        scores = make.reshaped(scores, (self.images, self.heads, self.queries, self.keys))
        stages = [scores]
        if self.cap:
            limit = np.array(self.cap, dtype)
            scores = make("Mul", make("Tanh", make("Div", scores, limit)), limit)
        stages.append(scores)
        if self.causal:
            first = np.tri(self.queries, self.keys, dtype=bool)
            scores = make("Add", scores, np.where(first, 0, -np.inf).astype(dtype))
        if mask is not None:
            scores = make("Add", scores, mask)
        stages.append(scores)
        weights = make("Softmax", scores, axis=-1)
        if seen is not None and mode == 3:
            weights = make("Where", seen, weights, np.zeros((), dtype))
        stages.append(weights)
        each = grouped(weights, share) if share > 1 else weights
        found = make("MatMul", each, v)
        found = make.reshaped(found, (self.images, self.heads, self.queries, v.shape[-1]))
        if len(self.q.shape) == 3:
            found = make.turned(found, (0, 2, 1, 3))
            found = make.reshaped(found, (*found.shape[:2], self.heads * v.shape[-1]))
        return found, None if mode is None else stages[mode]

    def _where(self, seen: Operand, found: Operand) -> Operand:
        """Zeros for queries that see no key."""
        make, zero = self.make, np.zeros((), self.q.dtype)
        seen = make.reshaped(seen, (*(1,) * (4 - len(seen.shape)), *seen.shape))
        if len(found.shape) == 4:
            return make("Where", seen, found, zero)
        split = make.reshaped(found, (*found.shape[:2], self.heads, found.shape[2] // self.heads))
        chosen = make("Where", make.turned(seen, (0, 2, 1, 3)), split, zero)
        return make.reshaped(chosen, found.shape)


# ONNX's own ---------------------------------------------------------------------------------------


def _attention(make: Composition, node: Node) -> Results:
    q, k, v = (node.operand(position) for position in range(3))
    if q is None or k is None or v is None:
        raise ModelError("Q, K or V is absent")
    flat = len(q.shape) == 3
    if any(len(x.shape) not in (3, 4) for x in (q, k, v)):
        raise ModelError("Q, K or V has not 3 or 4 axes")
    heads, few = (int(node.attributes.get(name, 0)) for name in ("q_num_heads", "kv_num_heads"))
    if not flat:
        heads, few = q.shape[1], k.shape[1]
    if heads < 1 or few < 1 or heads % few or (flat and q.shape[2] % heads):
        shapes = ", ".join(str(list(x.shape)) for x in (q, k, v))
        raise ModelError(f"Q, K and V of shapes {shapes} with {heads} and {few} heads do not fit")
    for x in (k, v):
        if len(x.shape) == 3 and x.shape[2] % few:
            raise ModelError(f"{x.shape[2]} channels cannot be divided into {few} heads")
    given = node.attributes.get("scale", 0.0)
    size = q.shape[-1] // (heads if flat else 1)
    found = _Attended(make, q, k, v, heads, few, float(given) if given else 1 / sqrt(size))
    found.cap = float(node.attributes.get("softcap", 0.0))
    past_k, past_v, lengths = (node.operand(position) for position in (4, 5, 6))
    if (past_k is None) != (past_v is None):
        raise ModelError("of past_key and past_value one is given alone")
    _masked(found, node, found.keep(past_k, past_v), lengths)
    mode = int(node.attributes.get("qk_matmul_output_mode", 0))
    asked = [*node.outputs, "", "", ""][:4]
    if mode not in range(4):
        raise ModelError(f"qk_matmul_output_mode={mode} is not 0 to 3")
    output, scores = found.done(mode if asked[3] else None)
    return [output, *found.kept(asked[1:3]), scores]


def _masked(found: _Attended, node: Node, before: int, lengths: Operand | None) -> None:
    """Keys that a query sees: by `attn_mask`, up to it (`is_causal`), near it, none of padding."""
    make, queries, keys = found.make, found.queries, found.keys
    mask = node.operand(3)
    if mask is not None:
        missing = keys - mask.shape[-1] if mask.shape else 0
        if missing and mask.shape[-1] > 1:  # keys behind it are not seen
            found.allow(np.arange(keys) < mask.shape[-1])
            pads = np.zeros(2 * len(mask.shape), np.int64)
            pads[-1] = missing
            fill = np.zeros((), mask.dtype)
            mask = (
                np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)])
                if isinstance(mask, np.ndarray)
                else make("Pad", mask, pads, fill)
            )
        if str(mask.dtype) == "bool":
            found.allow(mask)
        else:
            found.add(mask)
    causal = bool(node.attributes.get("is_causal", 0))
    left, right = (
        int(node.attributes.get(f"{side}_window_size", -1)) for side in ("left", "right")
    )
    ahead = np.arange(keys)[None] - np.arange(queries)[:, None]  # of its own position
    if causal and lengths is None and not before:
        found.causal = True
        causal = False
    limits = [(True, -left)] if left >= 0 else []
    limits += [(False, right)] if right >= 0 else []
    limits += [(False, 0)] if causal else []
    if lengths is None:
        for least, limit in limits:
            found.allow(ahead - before >= limit if least else ahead - before <= limit)
        return
    ends = make.reshaped(lengths, (found.images, 1, 1, 1))
    found.allow(make("Less", np.arange(keys)[None, None, None], ends))
    for least, limit in limits:
        edge = make("Add", ends, np.array(limit - queries))
        found.allow(make("GreaterOrEqual" if least else "LessOrEqual", ahead[None, None], edge))


# onnxruntime's ------------------------------------------------------------------------------------

_FILTER = -10000.0
"""What is added to the scores of keys that are masked, by default."""


def _padding(found: _Attended, mask: Operand, value: float, *, starts: bool) -> None:
    """A mask of integers: (images,) the number of keys of each, or behind it (starts) the number of the first; (images,
    keys) or (images, queries, keys), 0 for those that are masked.
    """
    make, images, keys = found.make, found.images, found.keys
    shape = tuple(mask.shape)
    numbers = np.arange(keys, dtype=np.int32)[None]
    if shape == (images,):
        allowed = make("Less", numbers, make.reshaped(mask, (images, 1)))
    elif starts and shape == (2 * images,):
        ends, firsts = (
            make.reshaped(make.part(mask, 0, k, k + images), (images, 1)) for k in (0, images)
        )
        allowed = make("And", make("Less", numbers, ends), make("GreaterOrEqual", numbers, firsts))
    elif shape in ((images, keys), (images, found.queries, keys)):
        allowed = make("Greater", mask, np.zeros((), np.int32))
    else:
        raise ModelError(
            f"a mask of shape {list(shape)} for {images} images, {found.queries} queries and {keys} keys is not "
            "supported"
        )
    dtype = found.q.dtype
    bias = make("Where", allowed, np.zeros((), dtype), np.array(value, dtype))
    found.add(make.reshaped(bias, (images, 1, *(bias.shape[1:] if len(shape) > 2 else (1, keys)))))


def _multi_head(make: Composition, node: Node) -> Results:
    """MultiHeadAttention: projected queries, keys and values, whose biases are added first."""
    heads = int(node.attributes["num_heads"])
    q, k, v = _operands(make, node, heads)
    bias = node.operand(3)
    if bias is not None:
        if len(k.shape) == 4 or len(v.shape) == 4:
            raise ModelError("a bias of keys and values that have heads in front is not supported")
        starts = accumulate((x.shape[-1] for x in (q, k)), initial=0)
        q, k, v = (
            make("Add", x, make.part(bias, 0, at, at + x.shape[-1]))
            for at, x in zip(starts, (q, k, v), strict=True)
        )
    size = q.shape[-1] // heads
    scale = float(node.attributes.get("scale", 0.0)) or 1 / sqrt(size)
    found = _Attended(make, q, k, v, heads, heads, scale)
    before = found.keep(node.operand(6), node.operand(7))
    if node.operand(8) is not None or node.operand(9) is not None:
        raise ModelError("buffers that past and present keys share are not supported")
    _further(found, node, 4, 5, before, starts=False)
    output, _ = found.done()
    return [output, *found.kept([*node.outputs, "", ""][1:3])]


def _operands(make: Composition, node: Node, heads: int) -> list[Operand]:
    """Queries, keys, values of a MultiHeadAttention; packed: (images, positions, heads, 3 or 2, channels)."""
    first, k, v = require_tensor(node, 0), node.operand(1), node.operand(2)
    operands: list[Operand] = []
    packed: Operand | None = first
    if len(first.shape) != 5:
        operands.append(first)
        packed = k
    if packed is not None and len(packed.shape) == 5:
        images, positions, many, count, size = packed.shape
        for number in range(count):
            part = make.part(packed, 3, number, number + 1)
            operands.append(make.reshaped(part, (images, positions, many * size)))
    elif k is not None and v is not None:
        operands += [k, v]
    if len(operands) != 3 or heads < 1:
        raise ModelError(f"{len(operands)} of query, key and value are given for {heads} heads")
    q, k, v = operands
    sizes = [x.shape[1] * x.shape[3] if len(x.shape) == 4 else x.shape[-1] for x in operands]
    if len(q.shape) != 3 or sizes[0] != sizes[1] or any(size % heads for size in sizes):
        shapes = ", ".join(str(list(x.shape)) for x in operands)
        raise ModelError(f"query, key and value of shapes {shapes} with {heads} heads do not fit")
    return operands


def _further(
    found: _Attended, node: Node, mask_at: int, bias_at: int, before: int, *, starts: bool
) -> None:
    """Masks of padding, what is added to the scores, and of each query the keys up to its own."""
    mask, bias = node.operand(mask_at), node.operand(bias_at)
    if mask is not None:
        _padding(
            found, mask, float(node.attributes.get("mask_filter_value", _FILTER)), starts=starts
        )
    if bias is not None:
        found.add(bias)
    if node.attributes.get("unidirectional", 0):
        if before:
            ahead = np.arange(found.keys)[None] - np.arange(found.queries)[:, None]
            found.allow(ahead <= before)
        else:
            found.causal = True


def _projected(make: Composition, node: Node) -> Results:
    """Attention of com.microsoft: one product gives queries, keys and values."""
    x, weights, bias = require_tensor(node, 0), node.operand(1), node.operand(2)
    heads = int(node.attributes["num_heads"])
    if node.attributes.get("do_rotary", 0) or node.attributes.get("past_present_share_buffer", 0):
        raise ModelError("do_rotary and past_present_share_buffer are not supported")
    if node.operand(6) is not None:
        raise ModelError("past_sequence_length is not supported: past keys are a part of their own")
    if weights is None or len(x.shape) != 3 or len(weights.shape) != 2:
        raise ModelError("input and weights of 3 and 2 axes are needed")
    wide = weights.shape[1]
    sizes = tuple(map(int, node.attributes.get("qkv_hidden_sizes") or (wide // 3,) * 3))
    if len(sizes) != 3 or sum(sizes) != wide or sizes[0] != sizes[1] or heads < 1:
        raise ModelError(f"weights of {wide} columns are not queries, keys and values of {sizes}")
    if any(size % heads for size in sizes):
        raise ModelError(f"{sizes} channels cannot be divided into {heads} heads")
    product = make("MatMul", x, weights)
    if bias is not None:
        product = make("Add", product, bias)
    q, k, v = make.several("Split", product, np.array(sizes, np.int64), outputs=3, axis=2)
    scale = float(node.attributes.get("scale", 0.0)) or 1 / sqrt(sizes[0] // heads)
    found = _Attended(make, q, k, v, heads, heads, scale)
    past, before = node.operand(4), 0
    if past is not None:
        each = (make.reshaped(make.part(past, 0, n, n + 1), past.shape[1:]) for n in (0, 1))
        before = found.keep(*each)
    _further(found, node, 3, 5, before, starts=True)
    output, _ = found.done()
    if not any(node.outputs[1:]):
        return [output]
    kept = [found.apart(one, heads) for one in (found.k, found.v)]
    return [output, make("Concat", *(make.reshaped(one, (1, *one.shape)) for one in kept), axis=0)]


_NOTES = (
    "Query rows need all keys and values. Past keys and values are concatenated with the new ones."
)

_PADDED = {"mask_filter_value": _FILTER, "num_heads": REQUIRED, "scale": 0.0, "unidirectional": 0}
"""Attributes of both operators of onnxruntime."""

OPERATORS: tuple[Operator, ...] = (
    replace(
        ATTENTION,
        parts=composed_operator("Attention", _attention).parts,
        constant_inputs=frozenset(),
        attributes=MappingProxyType(
            {**ATTENTION.attributes, "left_window_size": -1, "right_window_size": -1}
        ),
        notes=_NOTES,
    ),
    composed_operator(
        f"{MICROSOFT}.Attention",
        _projected,
        domain=MICROSOFT,
        attributes={
            **_PADDED,
            "do_rotary": 0,
            "past_present_share_buffer": 0,
            "qkv_hidden_sizes": None,
            "rotary_embedding_dim": 0,
        },
        structure=ATTENTION.structure,
        notes=_NOTES,
        multiplies=True,
    ),
    composed_operator(
        "MultiHeadAttention",
        _multi_head,
        domain=MICROSOFT,
        attributes=_PADDED,
        structure=ATTENTION.structure,
        notes=_NOTES,
        multiplies=True,
    ),
)
