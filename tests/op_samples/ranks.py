"""Samples at every rank from 1 to 5 (elementwise ones also scalars) and along every axis, of every type that an operator
takes, for the laws of `tests.constness`.

Shapes are drawn once: sizes differ from each other, so that axes cannot be mistaken for one another, and about every other
one begins with an axis of one position, as the images of most networks do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any
from zlib import crc32

import numpy as np
import onnx
from onnx import helper

from csdfgen.errors import ModelError
from tests.op_harness import Arg, Sample

__all__ = ["RANKED", "Fixed"]

RANKS = range(1, 6)
KNOWN = (
    *("float32", "float16", "float64", "int64", "int32", "int8", "uint8", "bool"),
    *("int16", "uint16", "uint32", "uint64"),
)
"""Types of operands, the usual ones first."""

Shape = tuple[int, ...]


class Draw:
    """Shapes, types and numbers for the samples of one operator, the same ones each time."""

    def __init__(self, op_type: str, opset: int = 18) -> None:
        self.op_type, self.opset = op_type, opset
        self.rng = np.random.default_rng(crc32(op_type.encode()))
        self._turn = 0

    def shape(self, rank: int, least: int = 1) -> Shape:
        sizes = list(self.rng.permutation([2, 3, 4, 5, 6])[:rank])
        if rank and least == 1 and self.rng.random() < 0.5:
            sizes[0] = 1
        if rank > 2 and least == 1 and self.rng.random() < 0.2:
            sizes[int(self.rng.integers(rank))] = 1
        return tuple(int(size) for size in sizes)

    def broadcast(self, shape: Shape) -> Shape:
        """A shape that is broadcast to another one: some axes of 1, maybe fewer axes, down to none."""
        kept = [size if self.rng.random() < 0.6 else 1 for size in shape]
        return tuple(kept[int(self.rng.integers(0, len(shape) + 1)) :])

    def axis(self, axis: int, rank: int) -> int:
        """The axis, counted from the front or from the back."""
        return axis - rank if self.rng.random() < 0.5 else axis

    def kind(self, known: tuple[str, ...]) -> str:
        """One type after the other."""
        self._turn += 1
        return known[self._turn % len(known)]

    def sample(self, *inputs: Any, outputs: int = 1, opset: int = 0, **attributes: Any) -> Sample:
        attributes = {k.rstrip("_"): v for k, v in attributes.items() if v is not None}
        return Sample(self.op_type, inputs, attributes, opset or self.opset, outputs, "ranked-")

    def any(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def chance(self) -> bool:
        return bool(self.rng.random() < 0.5)

    def places(self, size: int, shape: Shape, axis: int | None = None) -> np.ndarray:
        """Indices of positions, some counted from the back; along an axis no position twice."""
        if axis is None:
            return self.rng.integers(-size, size, shape)
        behind = (1,) * (len(shape) - 1 - axis)
        some = self.rng.permutation(size)[: shape[axis]]
        some = np.where(self.rng.random(len(some)) < 0.3, some - size, some)
        return np.broadcast_to(some.reshape(-1, *behind), shape).copy()


def types_of(op_type: str, position: int = 0, opset: int = 18) -> tuple[str, ...]:
    """The types that ONNX's schema allows for an operand, as far as csdfgen knows them."""
    schema = onnx.defs.get_schema(op_type, opset, "")
    name = schema.inputs[position].type_str
    allowed = next(
        (c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == name), [name]
    )
    codes = onnx.TensorProto.DataType
    names = {
        str(helper.tensor_dtype_to_np_dtype(codes.Value(one[7:-1].upper())))
        for one in allowed
        if one.startswith("tensor(") and one[7:-1].upper() in codes.keys()  # noqa: SIM118
        if one != "tensor(string)"
    }
    names |= {"float32"} if "tensor(float)" in allowed else set()
    names |= {"float64"} if "tensor(double)" in allowed else set()
    return tuple(one for one in KNOWN if one in names)


def arg(shape: Shape, dtype: str, low: float = -2.0, high: float = 2.0) -> Arg:
    return Arg(shape, None, dtype, low, high)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


# Elementwise --------------------------------------------------------------------------------------

LIMITS: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("Acos", "Asin", "Atanh", "Tan"), (-0.9, 0.9)),
    "Acosh": (1.0, 3.0),
    **dict.fromkeys(("Log", "Sqrt", "Reciprocal"), (1, 3.0)),
}

UNARY = """
    Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity
    IsInf IsNaN LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan
    Swish Tanh ThresholdedRelu Dropout
"""


def _opset(op_type: str) -> int:
    return {"Swish": 24, "Gelu": 20, "IsInf": 20, "IsNaN": 20}.get(op_type, 18)


def unary(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, _opset(op_type))
    low, high = LIMITS.get(op_type, (-2.0, 2.0))
    known = types_of(op_type, 0, draw.opset)
    for rank in range(6):
        for dtype in known[:4] if rank in (2, 4) else (draw.kind(known),):
            yield draw.sample(arg(draw.shape(rank), dtype, low, high))


BINARY = """
    Add Sub Mul Div Pow Mod And Or Xor Equal Greater GreaterOrEqual Less LessOrEqual BitwiseAnd BitwiseOr BitwiseXor BitShift
    PRelu
"""


def binary(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type)
    known = types_of(op_type, 0)
    for rank in RANKS:
        for number in range(max(4, len(known) // 2)):
            one = draw.shape(rank)
            other = draw.broadcast(one)
            if op_type != "PRelu" and number % 2:
                one, other = other, one
            if op_type != "PRelu" and number == 3:  # both are broadcast
                one, other = (1, *one[1:]) if one else (), (*other[:-1], 1) if other else ()
            dtype = draw.kind(known)
            floats = dtype.startswith("float")
            low, high = (-2.0, 2.0) if floats else (-9, 9)
            right = (1, 5) if op_type in ("Div", "Mod") else (low, high)
            more: dict[str, Any] = {}
            if op_type == "Pow":
                (low, high), right = (0.5, 2.0) if floats else (1, 3), (0, 3)
            if op_type == "Mod":
                more["fmod"] = 1 if floats else number % 2
            if op_type == "BitShift":
                more["direction"], (low, high), right = (
                    ("LEFT", "RIGHT")[number % 2],
                    (0, 9),
                    (0, 7),
                )
            yield draw.sample(arg(one, dtype, low, high), arg(other, dtype, *right), **more)


def variadic(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type)
    known = types_of(op_type, 0)
    for rank, count in product(RANKS, (1, 2, 3)):
        whole, dtype = draw.shape(rank), draw.kind(known)
        yield draw.sample(*(arg(draw.broadcast(whole), dtype, -9, 9) for _ in range(count)))


def where(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type)
    known = types_of(op_type, 1)
    for rank in (*RANKS, *RANKS):
        shapes = [draw.broadcast(draw.shape(rank))] * 3
        whole = draw.shape(rank)
        shapes = [whole if draw.chance() else draw.broadcast(whole) for _ in range(3)]
        dtype = draw.kind(known)
        yield draw.sample(
            arg(shapes[0], "bool"), arg(shapes[1], dtype, -9, 9), arg(shapes[2], dtype, -9, 9)
        )


def clip(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    known = types_of(op_type, 0)
    for rank in range(6):
        for which in ((1, 1), (0, 1), (1, 0), (0, 0)):
            dtype = draw.kind(known)
            bounds = (arg((), dtype, -1, 0), arg((), dtype, 1, 1.5))
            operands = [b if given else None for b, given in zip(bounds, which, strict=True)]
            yield draw.sample(arg(draw.shape(rank), dtype), *operands)


def cast(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type)
    for rank, dtype in product(RANKS, KNOWN):
        to = draw.kind(KNOWN)
        x = arg(draw.shape(rank), dtype, 0 if "u" in to else -9, 9)
        if op_type == "CastLike":
            yield draw.sample(x, arg(draw.shape(draw.any(0, 3)), to))
        else:
            yield draw.sample(x, to=int(helper.np_dtype_to_tensor_dtype(np.dtype(to))))


# Along axes ---------------------------------------------------------------------------------------


def reductions(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type)
    # onnx's reference, which stands in for onnxruntime, sums unsigned integers in a type of its own
    known = tuple(one for one in types_of(op_type, 0) if one not in ("uint32", "uint64"))
    limits = (0.1, 2.0) if op_type == "ReduceLogSum" else (-2.0, 2.0)
    for rank in RANKS:
        single = [(axis,) for axis in range(rank)]
        pairs = list(combinations(range(rank), 2))[:3]
        for axes in (*single, *pairs, None):
            x = arg(draw.shape(rank), draw.kind(known), *limits)
            named = axes and [draw.axis(axis, rank) for axis in axes]
            keep = draw.any(0, 2)
            if draw.chance():
                operand = [] if named is None else [ints(*named)]
                yield draw.sample(x, *operand, keepdims=keep, opset=20)
            elif x.dtype in types_of(op_type, 0, 12):
                yield draw.sample(x, axes=named, keepdims=keep, opset=12)


def arguments(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    known = types_of(op_type, 0, 13)
    for rank in RANKS:
        for axis in range(rank):
            x = arg(draw.shape(rank), draw.kind(known), -9, 9)
            yield draw.sample(
                x,
                axis=draw.axis(axis, rank),
                keepdims=draw.any(0, 2),
                select_last_index=draw.any(0, 2),
            )


def one_axis(op_type: str) -> Iterator[Sample]:
    """Softmax and others; before opset 13 all axes from the one on are one."""
    opsets = {"LpNormalization": (18,), "LRN": (18,)}.get(op_type, (13, 11))
    draw = Draw(op_type)
    known = types_of(op_type, 0)
    for rank, opset in product(RANKS, opsets):
        for axis in range(rank):
            # onnx's reference, which stands in for the other types, knows the later meaning alone
            dtype = draw.kind(known) if opset > 11 else "float32"
            yield draw.sample(arg(draw.shape(rank), dtype), axis=draw.axis(axis, rank), opset=opset)


def cumulative(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 26 if op_type == "CumProd" else 18)
    known = types_of(op_type, 0, draw.opset)
    for rank in RANKS:
        for axis in range(rank):
            x = arg(draw.shape(rank), draw.kind(known))
            at = np.array(draw.axis(axis, rank), ("int32", "int64")[axis % 2])
            yield draw.sample(x, at, exclusive=draw.any(0, 2), reverse=draw.any(0, 2))


def layer_normalization(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 23 if op_type == "RMSNormalization" else 17)
    known = types_of(op_type, 0, draw.opset)
    for rank in RANKS:
        for axis in range(rank):
            shape, dtype = draw.shape(rank), draw.kind(known)
            behind = shape[axis:]
            shift = [arg(behind, dtype)] if op_type != "RMSNormalization" and draw.chance() else []
            yield draw.sample(
                arg(shape, dtype), arg(behind, dtype), *shift, axis=draw.axis(axis, rank)
            )


def concat(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    for rank in RANKS:
        for axis in range(rank):
            shape, dtype = draw.shape(rank), draw.kind(KNOWN)
            sizes = [draw.any(1, 4) for _ in range(draw.any(1, 5))]
            yield draw.sample(
                *(arg((*shape[:axis], size, *shape[axis + 1 :]), dtype, -9, 9) for size in sizes),
                axis=draw.axis(axis, rank),
            )


def split(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type)
    for rank in RANKS:
        for axis, opset in product(range(rank), (11, 13, 18)):
            shape, dtype = draw.shape(rank, 2), draw.kind(KNOWN)
            sizes = [1, shape[axis] - 1]
            x, named = arg(shape, dtype, -9, 9), draw.axis(axis, rank)
            if opset == 11:
                yield draw.sample(x, axis=named, split=sizes, outputs=2, opset=11)
            elif opset == 13 or shape[axis] < 3:
                yield draw.sample(x, ints(*sizes), axis=named, outputs=2, opset=opset)
            else:
                count = 2 if shape[axis] == 4 else 3  # four positions are no three parts
                yield draw.sample(x, axis=named, num_outputs=count, outputs=count)


def slices(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    for rank in RANKS:
        for axis in range(rank):
            shape = draw.shape(rank, 2)
            n = shape[axis]
            for start, end, step in ((1, n, 1), (-1, -n - 1, -1), (0, 2**63 - 1, 2), (-n, -1, 1)):
                x = arg(shape, draw.kind(KNOWN), -9, 9)
                lists = [ints(start), ints(end), ints(draw.axis(axis, rank)), ints(step)]
                if axis == 0 and step == 1:
                    yield draw.sample(x, *lists[:2])
                elif axis == 0 and rank == 1:
                    yield draw.sample(x, *lists[:2], None, lists[3])
                elif step == 1 and end > 0:
                    yield draw.sample(x, starts=[start], ends=[end], axes=[axis], opset=9)
                else:
                    yield draw.sample(x, *lists)


def gather(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    for rank in RANKS:
        for axis, count in product(range(rank), range(3)):
            shape = draw.shape(rank)
            wanted = draw.shape(count)
            indices = Arg(
                wanted, None, draw.kind(("int64", "int32")), -shape[axis], shape[axis] - 1
            )
            x = arg(shape, draw.kind(KNOWN), -9, 9)
            yield draw.sample(x, indices, axis=draw.axis(axis, rank))


def gather_elements(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    for rank in RANKS:
        for axis, fewer in product(range(rank), (0, 1, 2)):
            shape = draw.shape(rank)
            wanted = list(shape)
            wanted[axis] = draw.any(1, 7)
            if fewer:
                wanted = [
                    w if k == axis or draw.chance() else draw.any(1, w + 1)
                    for k, w in enumerate(wanted)
                ]
            n = shape[axis]
            indices = Arg(tuple(wanted), None, draw.kind(("int64", "int32")), -n, n - 1)
            yield draw.sample(
                arg(shape, draw.kind(KNOWN), -9, 9), indices, axis=draw.axis(axis, rank)
            )


def gather_nd(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    for rank in RANKS:
        for batch in range(min(3, rank)):
            for count in range(1, rank - batch + 1):
                shape = draw.shape(rank)
                least = min(shape[batch : batch + count])
                wanted = (*shape[:batch], *draw.shape(draw.any(0 if batch else 1, 3)), count)
                indices = Arg(wanted, None, "int64", -least, least - 1)
                yield draw.sample(
                    arg(shape, draw.kind(KNOWN), -9, 9), indices, batch_dims=batch or None
                )


def scatter_elements(op_type: str) -> Iterator[Sample]:
    old = op_type == "Scatter"
    draw = Draw(op_type, 10 if old else 18)
    for rank in RANKS:
        for axis, number in product(range(rank), range(2 if old else 5)):
            reduction = ("none", "add", "mul", "min", "max")[number]
            shape = draw.shape(rank)
            wanted = [draw.any(1, size + 1) for size in shape]
            if draw.chance():
                wanted = [
                    w if k == axis else n
                    for k, (w, n) in enumerate(zip(wanted, shape, strict=True))
                ]
            indices = draw.places(shape[axis], tuple(wanted), axis)
            dtype = draw.kind(KNOWN if reduction == "none" or old else SUMMED)
            yield draw.sample(
                arg(shape, dtype, -3, 3),
                Fixed.of(indices.astype(draw.kind(("int64", "int32")))),
                arg(tuple(wanted), dtype, -3, 3),
                axis=draw.axis(axis, rank),
                reduction=None if old or reduction == "none" else reduction,
            )


SUMMED = ("float32", "float64", "int32", "int64", "float16")
"""Types that onnxruntime or its reference adds and compares."""


@dataclass(frozen=True)
class Fixed(Arg):
    """An operand of these values, whether it is constant or computed."""

    value: np.ndarray = field(default_factory=lambda: np.zeros(0), compare=False)

    @classmethod
    def of(cls, value: np.ndarray) -> Fixed:
        return cls(value.shape, None, value.dtype.name, value=value)

    def values(self, rng: np.random.Generator) -> np.ndarray:
        return self.value


def scatter_nd(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type)
    for rank in RANKS:
        for count, reduction in product(range(1, rank + 1), ("none", "add", "mul", "min", "max")):
            shape = draw.shape(rank)
            every = np.stack(np.unravel_index(np.arange(np.prod(shape[:count])), shape[:count]), -1)
            many = draw.any(1, len(every) + 1)
            some = draw.rng.permutation(every)[:many].astype(np.int64)
            some -= (draw.rng.random(some.shape) < 0.3) * np.array(shape[:count])
            if many % 2 == 0 and draw.chance():
                some = some.reshape(2, -1, count)
            dtype = draw.kind(KNOWN if reduction == "none" else SUMMED)
            updates = (*some.shape[:-1], *shape[count:])
            yield draw.sample(
                arg(shape, dtype, -3, 3),
                Fixed.of(some),
                arg(updates, dtype, -3, 3),
                reduction=None if reduction == "none" else reduction,
            )


def one_hot(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 11)
    for rank in RANKS:
        for axis in range(rank + 1):
            shape, depth = draw.shape(rank), draw.any(2, 6)
            indices = Arg(shape, None, "int64", -depth, depth)
            count = np.array(depth) if draw.chance() else np.array([depth])
            values = arg((2,), draw.kind(("float32", "int64", "int32")), -9, 9)
            yield draw.sample(indices, count, values, axis=draw.axis(axis, rank + 1))


def top_k(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 11)
    for rank in RANKS:
        for axis in range(rank):
            shape = draw.shape(rank)
            x = arg(shape, draw.kind(("float32", "float64", "int64", "int32")), -9, 9)
            yield draw.sample(
                x,
                ints(draw.any(1, shape[axis] + 1)),
                axis=draw.axis(axis, rank),
                largest=draw.any(0, 2),
                outputs=2,
            )


def compress(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 11)
    for rank in RANKS:
        for axis in (*range(rank), None):
            shape = draw.shape(rank, 2)
            size = shape[axis] if axis is not None else int(np.prod(shape))
            chosen = draw.rng.random(size) < 0.5
            chosen[0] = True
            named = None if axis is None else draw.axis(axis, rank)
            yield draw.sample(arg(shape, draw.kind(KNOWN), -9, 9), chosen, axis=named)


def reverse_sequence(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 10)
    for rank in range(2, 6):
        for batch in (0, 1):
            shape = draw.shape(rank)
            most = shape[1 - batch]
            lengths = Arg((shape[batch],), None, "int64", 1, most)
            x = arg(shape, draw.kind(KNOWN), -9, 9)
            yield draw.sample(x, lengths, batch_axis=batch, time_axis=1 - batch)


# Shapes -------------------------------------------------------------------------------------------


def transpose(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    for rank in RANKS:
        for _ in range(4):
            perm = [int(k) for k in draw.rng.permutation(rank)]
            yield draw.sample(arg(draw.shape(rank), draw.kind(KNOWN), -9, 9), perm=perm)
        yield draw.sample(arg(draw.shape(rank), draw.kind(KNOWN), -9, 9))


def reshape(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 14)
    for rank in range(6):
        shape = draw.shape(rank)
        targets = {(*shape, 1), (1, *shape), (-1,), shape}
        if rank > 1:
            targets |= {(0, -1), (-1, shape[-1]), (*shape[:-2], shape[-1], shape[-2])}
        for target in sorted(targets):
            x = arg(shape, draw.kind(KNOWN), -9, 9)
            yield draw.sample(x, ints(*target), allowzero=None if 0 in target else draw.any(0, 2))


def flatten(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    for rank in RANKS:
        for axis in range(rank + 1):
            named = axis - rank if axis < rank and draw.chance() else axis
            yield draw.sample(arg(draw.shape(rank), draw.kind(KNOWN), -9, 9), axis=named)


def squeeze(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type)
    back = op_type == "Squeeze"
    for rank in range(0 if op_type == "Unsqueeze" else 1, 5):
        for axis, opset in product(range(rank + 1), (11, 13)):
            shape = draw.shape(rank)
            whole = (*shape[:axis], 1, *shape[axis:])
            named = draw.axis(axis, rank + 1)
            x = arg(whole if back else shape, draw.kind(KNOWN), -9, 9)
            if opset == 11:
                yield draw.sample(x, axes=[named], opset=11)
            else:
                yield draw.sample(x, ints(named), opset=13)
        if back:
            yield draw.sample(arg((1, *draw.shape(rank), 1), draw.kind(KNOWN)), opset=13)


def expand(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    for rank in (*RANKS, *RANKS):
        whole = draw.shape(rank)
        part = draw.broadcast(whole)
        yield draw.sample(arg(part, draw.kind(KNOWN), -9, 9), ints(*whole))


def tile(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    for rank in RANKS:
        for axis in range(rank):
            times = [1] * rank
            times[axis] = draw.any(2, 4)
            times[-1] += draw.any(0, 2)
            yield draw.sample(arg(draw.shape(rank), draw.kind(KNOWN), -9, 9), ints(*times))


def pad(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type)
    for rank in RANKS:
        for axis, mode in product(range(rank), ("constant", "reflect", "edge", "wrap")):
            shape = draw.shape(rank, 2)
            before, after = [0] * rank, [0] * rank
            before[axis], after[axis] = 1, draw.any(0, 2)
            dtype = draw.kind(KNOWN if mode != "wrap" else ("float32",))
            x = arg(shape, dtype, -9, 9)
            value = [np.ones((), dtype)] if mode == "constant" and draw.chance() else []
            number = draw.any(0, 3)
            opset = 19 if mode == "wrap" else 18
            if number == 0 and dtype in ("float32", "float64") and mode != "wrap":
                held = {"value": 1.5} if mode == "constant" else {}
                yield draw.sample(x, mode=mode, pads=[*before, *after], opset=10, **held)
            elif number == 1:
                named = ints(draw.axis(axis, rank))
                few = ints(before[axis], after[axis])
                yield draw.sample(
                    x, few, value[0] if value else None, named, mode=mode, opset=opset
                )
            else:
                yield draw.sample(x, ints(*before, *after), *value, mode=mode, opset=opset)


def trilu(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 14)
    for rank in range(2, 6):
        for upper, k in product((0, 1), (None, 0, 1, -1)):
            more = [] if k is None else [np.array(k)]
            x = arg(draw.shape(rank), draw.kind(KNOWN), -9, 9)
            yield draw.sample(x, *more, upper=upper)


def blocks(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    for number in range(4):
        lead, dtype = draw.any(1, 3), draw.kind(KNOWN)
        shape = (lead, 8, 3, 5) if op_type == "DepthToSpace" else (lead, 3, 4, 6)
        mode = ("DCR", "CRD")[number % 2] if op_type == "DepthToSpace" else None
        yield draw.sample(arg(shape, dtype, -9, 9), blocksize=2, mode=mode)


# Products, maps, normalizations -------------------------------------------------------------------


def matmul(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type)
    integer = op_type == "MatMulInteger"
    known = ("uint8", "int8") if integer else types_of(op_type, 0)
    for left, right in product(RANKS, RANKS):
        m, k, n = draw.shape(3)
        batch = draw.shape(3)
        one = (*draw_end(draw, batch, left - 2), m, k)[-left:] if left > 1 else (k,)
        other = (*draw_end(draw, batch, right - 2), k, n)[-right:] if right > 1 else (k,)
        dtype = draw.kind(known)
        yield draw.sample(
            arg(one, dtype, -9, 9), arg(other, draw.kind(known) if integer else dtype, -9, 9)
        )


def draw_end(draw: Draw, batch: Shape, count: int) -> Shape:
    """The last axes of a batch, some of them broadcast."""
    if count <= 0:
        return ()
    return tuple(size if draw.chance() else 1 for size in batch[-count:])


def gemm(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    for ta, tb, number in product((0, 1), (0, 1), range(5)):
        m, k, n = draw.shape(3)
        dtype = draw.kind(("float32", "float64", "float16"))
        a, b = (k, m) if ta else (m, k), (n, k) if tb else (k, n)
        c = [None, (n,), (m, 1), (1, n), (m, n), ()][number + (number > 0 and draw.chance())]
        more = [] if c is None else [arg(c, dtype)]
        factors = {"alpha": 0.5, "beta": 0.25} if draw.chance() else {}
        yield draw.sample(
            arg(a, dtype), arg(b, dtype), *more, transA=ta or None, transB=tb or None, **factors
        )


EQUATIONS = (
    ("ij->ji", (3, 4)),
    ("i,i->i", (4,), (4,)),
    ("i,j->ij", (3,), (4,)),
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bij,jk->bik", (2, 3, 4), (4, 5)),
    ("jk,bij->bik", (4, 5), (2, 3, 4)),
    ("bhid,bhjd->bhij", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bhij,bhjd->bihd", (2, 3, 4, 6), (2, 3, 6, 5)),
    ("abcde,e->abcd", (2, 1, 3, 2, 4), (4,)),
    ("...i,i->...", (2, 3, 4), (4,)),
    ("ii->i", (4, 4)),
    ("ij->", (3, 4)),
    ("bc,bcd,d->b", (2, 3), (2, 3, 4), (4,)),
)


def einsum(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    for equation, *shapes in EQUATIONS:
        dtype = draw.kind(("float32", "float64"))
        yield draw.sample(*(arg(shape, dtype) for shape in shapes), equation=equation)


def convolutions(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type)
    for sides, lead, groups, bias in product((1, 2, 3), (1, 2), (1, 2), (0, 1)):
        size = (6, 7, 5)[:sides]
        kernel = (3, 2, 1)[:sides]
        dtype = draw.kind(("float32", "float32", "float16"))
        weights = (4, 4 // groups, *kernel)
        more = [arg((4 if op_type == "Conv" else weights[1] * groups,), dtype)] if bias else []
        yield draw.sample(
            arg((lead, 4, *size), dtype),
            arg(weights, dtype),
            *more,
            pads=[1] * sides + [0] * sides,
            strides=[2] + [1] * (sides - 1),
            group=groups,
            opset=22 if dtype == "float16" else 11,
        )


def pools(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type)
    for sides, lead in product((1, 2, 3), (1, 2, 3)):
        x = arg((lead, 3, *(6, 7, 5)[:sides]), "float32")
        if op_type.startswith("Global"):
            yield draw.sample(x)
        else:
            yield draw.sample(x, kernel_shape=[2] * sides, strides=[2] + [1] * (sides - 1))


def of_channels(op_type: str) -> Iterator[Sample]:
    """BatchNormalization, InstanceNormalization, GroupNormalization."""
    draw = Draw(op_type, 21 if op_type == "GroupNormalization" else 15)
    count = 4 if op_type == "BatchNormalization" else 2
    ranks = range(2, 6) if op_type == "BatchNormalization" else range(3, 6)
    for rank, lead in product(ranks, (1, 2, 3)):
        shape = (lead, 4, *draw.shape(5)[: rank - 2])
        # the statistics of groups are of float32, whatever the type
        wide = "float32" if op_type == "GroupNormalization" else "float64"
        dtype = draw.kind(("float32", "float32", wide))
        each = [arg((4,), dtype, 0.5, 1.5) for _ in range(count)]
        more = {"num_groups": 2} if op_type == "GroupNormalization" else {}
        yield draw.sample(arg(shape, dtype), *each, **more)


def mean_variance(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    for rank in RANKS:
        for axes in (*combinations(range(rank), 1), *combinations(range(rank), 2)):
            yield draw.sample(arg(draw.shape(rank, 2), "float32"), axes=list(axes))


def resize(op_type: str) -> Iterator[Sample]:
    old = op_type == "Upsample"
    draw = Draw(op_type, 9 if old else 13)
    for rank in RANKS:
        for axis in range(rank):
            shape, dtype = draw.shape(rank, 2), draw.kind(("float32", "uint8"))
            factors = [1.0] * rank
            factors[axis] = (2.0, 1.5, 0.5)[draw.any(0, 1 if old else 3)]
            x, scales = arg(shape, dtype, 0, 9), np.array(factors, np.float32)
            sizes = [*shape]
            sizes[axis] += 3
            if old:
                yield draw.sample(x, scales, mode="nearest")
            elif draw.chance():
                yield draw.sample(x, None, scales, mode="nearest")
            else:
                yield draw.sample(x, None, None, ints(*sizes), mode="nearest")


def quantized(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    back = op_type == "DequantizeLinear"
    for rank in range(6):
        for axis in (*range(rank), None):
            shape, kind = draw.shape(rank), draw.kind(("uint8", "int8"))
            each = () if axis is None else (shape[axis],)
            scale = draw.rng.uniform(0.02, 0.05, each).astype(np.float32)
            zero = draw.rng.integers(0, 5, each).astype(kind)
            x = arg(shape, kind, -90, 90) if back else arg(shape, "float32")
            more = [] if draw.chance() and (back or kind == "uint8") else [np.asarray(zero)]
            named = {} if axis is None else {"axis": draw.axis(axis, rank)}
            if back and not more and axis is None and draw.chance():
                x = arg(shape, "int32", -900, 900)
            yield draw.sample(x, np.asarray(scale), *more, **named)


def of_bytes(op_type: str) -> Iterator[Sample]:
    """Operators of onnxruntime on quantized tensors: each operand with its scale and zero point, the result's behind or, of
    a QLinearConcat, in front.
    """
    draw = Draw(op_type)
    for rank in RANKS:
        for axis, kind in product(range(rank), ("uint8", "int8")):
            shape = draw.shape(rank)
            shapes = {
                "QLinearAdd": (shape, draw.broadcast(shape)),
                "QLinearMul": (draw.broadcast(shape), shape),
                "QLinearConcat": (shape, (*shape[:axis], 2, *shape[axis + 1 :])),
            }.get(op_type, (shape,))
            low, high = (0, 250) if kind == "uint8" else (-120, 120)
            form = (np.array(0.03, np.float32), np.array(3, kind))
            operands = [[arg(one, kind, low, high), *form] for one in shapes]
            flat = [one for some in operands for one in some]
            wide = (np.array(0.05, np.float32), np.array(5, kind))
            more: dict[str, Any] = {}
            if op_type in ("QLinearConcat", "QLinearSoftmax"):
                more["axis"] = draw.axis(axis, rank)
            if op_type == "QLinearSoftmax":
                more["opset"] = 13
                yield Sample(op_type, (*flat, *wide), more, 18, 1, "ranked-")
            elif op_type == "QLinearConcat":
                yield draw.sample(*wide, *flat, **more)
            else:
                yield draw.sample(*flat, *wide, **more)


def of_tokens(op_type: str) -> Iterator[Sample]:
    """Functions of onnxruntime on the last axis: one or two maps, then values for each of its positions."""
    draw = Draw(op_type)
    maps = 2 if op_type.startswith("Skip") else 1
    vectors = {"QuickGelu": 0, "SkipLayerNormalization": 2}.get(op_type, 1)
    for rank in (3, 3) if maps == 2 else RANKS:
        shape = draw.shape(rank)
        every = [arg(shape, "float32") for _ in range(maps)]
        yield draw.sample(*every, *(arg(shape[-1:], "float32") for _ in range(vectors)))


def bit_casts(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 26)
    for rank, (one, other) in product(RANKS, (("float32", "int32"), ("int8", "uint8"))):
        code = int(helper.np_dtype_to_tensor_dtype(np.dtype(other)))
        yield draw.sample(arg(draw.shape(rank), one, -9, 9), to=code)


def selections(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    for rank in RANKS:
        dtype = draw.kind(("int64", "bool", "float32", "int32", "uint8"))
        yield draw.sample(arg(draw.shape(rank), dtype, 0, 1 if dtype != "float32" else 2))


def scaled_rows(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    for rank in range(2, 6):
        shape = draw.shape(rank)
        yield draw.sample(arg(shape, "float32"), size=3)


def determinants(op_type: str) -> Iterator[Sample]:
    draw = Draw(op_type, 13)
    for rank in range(2, 6):
        n = draw.any(1, 5)
        yield draw.sample(arg((*draw.shape(rank - 2), n, n), "float32"))


def _table() -> Mapping[str, list[Sample]]:
    rules: dict[Callable[[str], Iterator[Sample]], str] = {
        unary: UNARY,
        binary: BINARY,
        variadic: "Max Min Sum Mean",
        where: "Where",
        clip: "Clip",
        cast: "Cast CastLike",
        reductions: "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
        "ReduceSumSquare",
        arguments: "ArgMax ArgMin",
        one_axis: "Softmax LogSoftmax Hardmax LpNormalization",
        cumulative: "CumSum CumProd",
        layer_normalization: "LayerNormalization RMSNormalization",
        concat: "Concat",
        split: "Split",
        slices: "Slice",
        gather: "Gather",
        gather_elements: "GatherElements",
        gather_nd: "GatherND",
        scatter_elements: "Scatter ScatterElements",
        scatter_nd: "ScatterND",
        one_hot: "OneHot",
        top_k: "TopK",
        compress: "Compress",
        reverse_sequence: "ReverseSequence",
        transpose: "Transpose",
        reshape: "Reshape",
        flatten: "Flatten",
        squeeze: "Squeeze Unsqueeze",
        expand: "Expand",
        tile: "Tile",
        pad: "Pad",
        trilu: "Trilu",
        blocks: "DepthToSpace SpaceToDepth",
        matmul: "MatMul MatMulInteger",
        gemm: "Gemm",
        einsum: "Einsum",
        convolutions: "Conv ConvTranspose",
        pools: "MaxPool AveragePool LpPool GlobalAveragePool GlobalMaxPool GlobalLpPool",
        of_channels: "BatchNormalization InstanceNormalization GroupNormalization",
        mean_variance: "MeanVarianceNormalization",
        resize: "Resize Upsample",
        quantized: "QuantizeLinear DequantizeLinear",
        selections: "NonZero",
        scaled_rows: "LRN",
        determinants: "Det",
        of_bytes: "QLinearAdd QLinearMul QLinearConcat QLinearSigmoid QLinearLeakyRelu QLinearSoftmax",
        of_tokens: "BiasGelu FastGelu QuickGelu SimplifiedLayerNormalization SkipLayerNormalization "
        "SkipSimplifiedLayerNormalization",
        bit_casts: "BitCast",
    }
    return {
        name: [_taken(sample) for sample in rule(name)]
        for rule, names in rules.items()
        for name in names.split()
    }


def _taken(sample: Sample) -> Sample:
    """The sample; of float32 where the operator does not take its type."""
    try:
        sample.operator.layers(sample.node())
    except ModelError as error:
        if "insert a Cast" not in str(error):
            raise
        operands = (
            replace(i, dtype="float32") if isinstance(i, Arg) and i.dtype != "bool" else i
            for i in sample.inputs
        )
        return replace(sample, inputs=tuple(operands))
    return sample


RANKED: Mapping[str, list[Sample]] = _table()
"""Operator -> its samples at every rank."""
