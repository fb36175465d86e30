"""Einsum: sums of products along named axes, as transposes, products of matrices, products and sums.

Source: https://onnx.ai/onnx/operators/onnx__Einsum.html; the equation is numpy's. Operands are joined from left to
right. Axes that both have and nobody needs any more are contracted: a product of matrices, whose rows are the axes
of the one, whose columns are those of the other, and whose batch are the axes that both have and somebody needs. A
constant is the matrix on the right, so that the axes of the other operand stay apart and keep their rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.network import Node, Tensor
from csdfgen.ops.base import REQUIRED, Operator
from csdfgen.ops.composing import Composition, Operand, composed_operator, require

_ELLIPSIS = "..."


@dataclass(frozen=True, slots=True)
class Equation:
    """operands, result: an axis each; letters of the equation, and "...1", "...0" for those of an ellipsis, counted from
    behind.
    """

    operands: tuple[tuple[str, ...], ...]
    result: tuple[str, ...]


def parse_equation(equation: str, ranks: Sequence[int]) -> Equation:
    """An equation for operands of these numbers of axes. Raises ModelError.

    >>> parse_equation("...ij,jk->...ik", (4, 2))
    Equation(operands=(('...1', '...0', 'i', 'j'), ('j', 'k')), result=('...1', '...0', 'i', 'k'))
    >>> parse_equation("ij,jk", (2, 2)).result
    ('i', 'k')
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ModelError(
            f"equation '{equation}' has {len(terms)} operands, the node has {len(ranks)}"
        )
    operands = tuple(_axes(term, rank, equation) for term, rank in zip(terms, ranks, strict=True))
    every = [axis for axes in operands for axis in axes]
    apart = sorted({axis for axis in every if axis.startswith(_ELLIPSIS)}, key=_from_behind)[::-1]
    if arrow:
        before, dots, behind = right.partition(_ELLIPSIS)
        result = (*before, *(apart if dots else ()), *behind)
        if apart and not dots:
            raise ModelError(
                f"equation '{equation}' sums over '...'; name these axes, or keep them"
            )
    else:
        times = Counter(every)
        result = (*apart, *sorted(axis for axis in times if times[axis] == 1 and axis not in apart))
    if len(set(result)) < len(result) or not set(result) <= set(every):
        raise ModelError(
            f"equation '{equation}' names an axis of its result twice, or nowhere before"
        )
    return Equation(operands, result)


def _from_behind(axis: str) -> int:
    return int(axis[len(_ELLIPSIS) :])


def _axes(term: str, rank: int, equation: str) -> tuple[str, ...]:
    before, dots, behind = term.partition(_ELLIPSIS)
    more = rank - len(before) - len(behind)
    letters = before + behind
    if not all(letter.isalpha() and letter.isascii() for letter in letters):
        raise ModelError(f"equation '{equation}' has other signs than letters, ',', '...' and '->'")
    if more < 0 or (more and not dots):
        raise ModelError(f"equation '{equation}' names {len(letters)} axes of an operand of {rank}")
    return (*before, *(f"{_ELLIPSIS}{k}" for k in reversed(range(more))), *behind)


@dataclass(frozen=True, slots=True)
class _Part:
    """An operand, or what some of them were joined to, and the names of its axes."""

    value: Operand
    axes: tuple[str, ...]


def _einsum(make: Composition, node: Node) -> Iterable[Operand | None]:
    operands = [require(node, position) for position in range(len(node.inputs))]
    text = str(node.attributes["equation"])
    equation = parse_equation(text, [len(operand.shape) for operand in operands])
    sizes: dict[str, int] = {}
    for operand, axes in zip(operands, equation.operands, strict=True):
        for axis, size in zip(axes, operand.shape, strict=True):
            known = sizes.setdefault(axis, size)
            if known != size and 1 not in (known, size):
                raise ModelError(f"equation '{text}': axis '{axis}' has sizes {known} and {size}")
            sizes[axis] = max(known, size)
    parts = [
        _without_ones(make, _diagonal(make, _Part(x, axes)), sizes)
        for x, axes in zip(operands, equation.operands, strict=True)
    ]
    total = _summed(make, parts[0], {*equation.result, *_named(parts[1:])})
    for number, part in enumerate(parts[1:], 2):
        needed = {*equation.result, *_named(parts[number:])}
        total = _joined(make, total, _summed(make, part, {*needed, *total.axes}), needed)
    # axes that are one long wherever they are were dropped
    present = [axis for axis in equation.result if axis in total.axes]
    value = make.turned(total.value, [total.axes.index(axis) for axis in present])
    return [make.reshaped(value, tuple(sizes[axis] for axis in equation.result))]


def _named(parts: Iterable[_Part]) -> set[str]:
    return {axis for part in parts for axis in part.axes}


def _diagonal(make: Composition, part: _Part) -> _Part:
    """A part whose axes have names of their own: of two of one name, the elements at equal positions."""
    twice = [axis for axis, count in Counter(part.axes).items() if count > 1]
    if not twice:
        return part
    name = twice[0]
    first, second = [k for k, axis in enumerate(part.axes) if axis == name][:2]
    shape = part.value.shape
    along = [np.arange(shape[k]).reshape(-1, *(1,) * (len(shape) - 1 - k)) for k in (first, second)]
    zero = np.zeros((), part.value.dtype)
    alone = make("Where", along[0] == along[1], part.value, zero)
    left = (*part.axes[:second], *part.axes[second + 1 :])
    return _diagonal(make, _Part(make.summed(alone, (second,)), left))


def _without_ones(make: Composition, part: _Part, sizes: dict[str, int]) -> _Part:
    """A part without axes that are one long in it: it is the same all along them."""
    kept = [k for k, size in enumerate(part.value.shape) if size > 1]
    if len(kept) == len(part.axes):
        return part
    shape = tuple(part.value.shape[k] for k in kept)
    return _Part(make.reshaped(part.value, shape), tuple(part.axes[k] for k in kept))


def _summed(make: Composition, part: _Part, needed: Collection[str]) -> _Part:
    """A part without axes that nobody needs."""
    gone = [k for k, axis in enumerate(part.axes) if axis not in needed]
    kept = tuple(axis for axis in part.axes if axis in needed)
    return _Part(make.summed(part.value, gone), kept)


def _joined(make: Composition, a: _Part, b: _Part, needed: Collection[str]) -> _Part:
    """The sum, over what is not needed any more, of products of two parts."""
    a = _summed(make, a, {*needed, *b.axes})
    if isinstance(a.value, np.ndarray) and isinstance(b.value, Tensor):
        a, b = b, a
    both = [axis for axis in a.axes if axis in b.axes]
    contracted = [axis for axis in both if axis not in needed]
    if not contracted:
        return _multiplied(make, a, b)
    batch = [axis for axis in both if axis in needed]
    rows = [axis for axis in a.axes if axis not in both]
    columns = [axis for axis in b.axes if axis not in both]
    # without a batch the rows stay apart: the other operand is one matrix
    many = rows if rows and not batch else [rows]
    one = _as_matrix(make, a, [*batch, *many, contracted])
    other = _as_matrix(make, b, [*batch, contracted, columns])
    product = make("MatMul", one, other)
    axes = (*batch, *rows, *columns)
    sizes = dict(zip((*a.axes, *b.axes), (*a.value.shape, *b.value.shape), strict=True))
    return _Part(make.reshaped(product, tuple(sizes[axis] for axis in axes)), axes)


def _as_matrix(make: Composition, part: _Part, groups: Sequence[str | list[str]]) -> Operand:
    """A part with its axes in an order, those of a list as one."""
    order = [axis for group in groups for axis in (group if isinstance(group, list) else [group])]
    value = make.turned(part.value, [part.axes.index(axis) for axis in order])
    sizes = dict(zip(part.axes, part.value.shape, strict=True))
    shape = (
        prod(sizes[axis] for axis in group) if isinstance(group, list) else sizes[group]
        for group in groups
    )
    return make.reshaped(value, tuple(shape))


def _multiplied(make: Composition, a: _Part, b: _Part) -> _Part:
    """The product, element by element, of two parts with their axes at the same places."""
    axes = (*a.axes, *(axis for axis in b.axes if axis not in a.axes))
    operands = []
    for part in (a, b):
        present = [axis for axis in axes if axis in part.axes]
        value = make.turned(part.value, [part.axes.index(axis) for axis in present])
        sizes = dict(zip(part.axes, part.value.shape, strict=True))
        operands.append(make.reshaped(value, tuple(sizes.get(axis, 1) for axis in axes)))
    return _Part(make("Mul", *operands), axes)


OPERATORS: tuple[Operator, ...] = (
    composed_operator(
        "Einsum",
        _einsum,
        since=12,
        attributes={"equation": REQUIRED},
        structure="row-phased; whole if the product contracts the row axis",
        notes="Lowered to transposes, matrix products, products and sums.",
        multiplies=True,
    ),
)
