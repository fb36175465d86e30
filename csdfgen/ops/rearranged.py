"""Operators that choose, cut or put elements elsewhere, and are layers of others: Compress, ReverseSequence, Scatter,
TensorScatter, CenterCropPad, Col2Im; and small sums of products: AffineGrid, Det.

Source: https://onnx.ai/onnx/operators/.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from math import prod

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.model.network import Node
from csdfgen.ops._operands import check_word, normalize_axes, normalize_axis, read_integers
from csdfgen.ops.base import Operator, require_constant, require_tensor
from csdfgen.ops.composing import Composition, Operand, composed_operator, require
from csdfgen.ops.reducing import FLOATS

Results = Iterable[Operand | None]


# Choosing and cutting -----------------------------------------------------------------------------


def _compressed(make: Composition, node: Node) -> Results:
    """Compress: a Gather at the places that are set; how many a computed condition sets is found at run time."""
    x, condition = require_tensor(node, 0), require(node, 1)
    given = node.attributes.get("axis")
    source = make.reshaped(x, (prod(x.shape),)) if given is None else x
    axis = normalize_axis(int(given or 0), len(source.shape))
    if len(condition.shape) != 1 or condition.shape[0] > source.shape[axis]:
        raise ModelError(
            f"condition of shape {list(condition.shape)} for {source.shape[axis]} positions of axis {axis}"
        )
    if isinstance(condition, np.ndarray):
        if not condition.any():
            raise ModelError("the condition sets nothing, so that the output would be empty")
        return [make("Gather", source, np.flatnonzero(condition), axis=axis)]
    places = make.reshaped(make("NonZero", condition), condition.shape)
    return [make("Gather", source, places, axis=axis)]


def _reversed(make: Composition, node: Node) -> Results:
    """ReverseSequence: of each sequence of a batch the first elements in reverse order, the others as they are."""
    x, lengths = require_tensor(node, 0), require(node, 1)
    batch, time = (int(node.attributes.get(k, d)) for k, d in (("batch_axis", 1), ("time_axis", 0)))
    rank = len(x.shape)
    if sorted((batch, time)) != [0, 1] or rank < 2 or tuple(lengths.shape) != (x.shape[batch],):
        raise ModelError(
            f"batch_axis={batch} and time_axis={time} are not 0 and 1, or {list(lengths.shape)} lengths do not fit "
            "an input "
            f"of shape {list(x.shape)}"
        )
    order = (batch, time, *range(2, rank))
    source = make.turned(x, order)
    steps = np.arange(x.shape[time], dtype=np.int64)
    column = make.reshaped(make("Cast", lengths, to=7), (x.shape[batch], 1))
    back = make("Sub", make("Sub", column, np.array(1, np.int64)), steps)
    places = make("Where", make("Less", steps, column), back, steps)
    found = make("GatherND", source, make.reshaped(places, (*places.shape, 1)), batch_dims=1)
    return [make.turned(found, order)]


def _scattered(make: Composition, node: Node) -> Results:
    """ScatterElements by its name before opset 11."""
    x, indices, updates = (require(node, k) for k in range(3))
    return [make("ScatterElements", x, indices, updates, axis=int(node.attributes.get("axis", 0)))]


def _written(make: Composition, node: Node) -> Results:
    """TensorScatter: a cache with new positions of an axis, from a place on that each image has of its own."""
    cache, update, first = require(node, 0), require(node, 1), node.operand(2)
    rank, shape = len(cache.shape), tuple(update.shape)
    axis = normalize_axis(int(node.attributes.get("axis", -2)), rank)
    circular = check_word(node.attributes.get("mode", "linear"), "mode", ("linear", "circular"))
    if (
        axis == 0
        or len(shape) != rank
        or shape[axis] > cache.shape[axis]
        or any(a != b for k, (a, b) in enumerate(zip(shape, cache.shape, strict=True)) if k != axis)
    ):
        raise ModelError(
            f"a cache of shape {list(cache.shape)} and an update of shape {list(shape)} along axis {axis}; they may "
            "differ "
            "along that axis only, which is not the first, and the update is no longer there"
        )
    if first is not None and tuple(first.shape) != shape[:1]:
        raise ModelError(f"{list(first.shape)} write indices for {shape[0]} images")
    *others, steps = np.indices(shape[: axis + 1])
    places: Operand = steps[..., None]
    if first is not None:
        by_image = make.reshaped(first, (shape[0], *(1,) * (axis + 1)))
        places = make("Add", by_image, places)
        if circular == "circular":
            places = make("Mod", places, np.array(cache.shape[axis], np.int64))
    indices = make("Concat", np.stack(others, -1), places, axis=-1)
    return [make("ScatterND", cache, indices, update)]


def _centred(make: Composition, node: Node) -> Results:
    """CenterCropPad: what is too long is cut on both sides, what is too short padded with zeros."""
    x = require_tensor(node, 0)
    rank, sizes = len(x.shape), read_integers(require_constant(node, 1), "shape")
    axes = normalize_axes(node.attributes.get("axes") or range(rank), rank)
    if len(axes) != len(sizes) or min(sizes, default=1) < 1:
        raise ModelError(f"shape {list(sizes)} for axes {list(axes)}")
    wanted = dict(zip(axes, sizes, strict=True))
    found: Operand = x
    pads = np.zeros((2, rank), np.int64)
    for axis, size in wanted.items():
        missing = size - x.shape[axis]
        if missing < 0:
            found = make.part(found, axis, -missing // 2, -missing // 2 + size)
        else:
            pads[:, axis] = missing // 2, missing - missing // 2
    return [make("Pad", found, pads.reshape(-1), np.zeros((), x.dtype)) if pads.any() else found]


def _joined_blocks(make: Composition, node: Node) -> Results:
    """Col2Im: the sum of blocks at their places, a ConvTranspose with a tap for each element of a block."""
    x = require_tensor(node, 0)
    image, block = (
        read_integers(require_constant(node, k), n)
        for k, n in ((1, "image_shape"), (2, "block_shape"))
    )
    rank = len(image)
    dilations, strides = (
        tuple(map(int, node.attributes.get(k) or (1,) * rank)) for k in ("dilations", "strides")
    )
    pads = tuple(map(int, node.attributes.get("pads") or (0,) * 2 * rank))
    if (
        not rank == len(block) == len(dilations) == len(strides) == len(pads) / 2
        or len(x.shape) != 3
    ):
        raise ModelError(f"input of shape {list(x.shape)} and {rank} axes of images do not fit")
    extents = [(n - 1) * d + 1 for n, d in zip(block, dilations, strict=True)]
    room = [
        n + a + b - e for n, a, b, e in zip(image, pads[:rank], pads[rank:], extents, strict=True)
    ]
    counts = [n // s + 1 for n, s in zip(room, strides, strict=True)]
    taps = prod(block)
    if min(room) < 0 or x.shape[2] != prod(counts) or x.shape[1] % taps:
        raise ModelError(
            f"input of shape {list(x.shape)}; {prod(counts)} blocks of {taps} elements fit an image of {list(image)}"
        )
    channels = x.shape[1] // taps
    weights = np.tile(
        np.eye(taps, dtype=x.dtype).reshape(taps, 1, *block), (channels, *(1,) * (rank + 1))
    )
    return [
        make(
            "ConvTranspose",
            make.reshaped(x, (*x.shape[:2], *counts)),
            weights,
            group=channels,
            dilations=dilations,
            strides=strides,
            pads=pads,
            output_padding=tuple(n % s for n, s in zip(room, strides, strict=True)),
        )
    ]


# Sums of products ---------------------------------------------------------------------------------


def _grid(make: Composition, node: Node) -> Results:
    """AffineGrid: a matrix for each image times the coordinates of each place of an image, from -1 to 1."""
    matrices = require_tensor(node, 0)
    images, _, *sizes = read_integers(require_constant(node, 1), "size")
    rank = len(sizes)
    if rank not in (2, 3) or tuple(matrices.shape) != (images, rank, rank + 1):
        raise ModelError(
            f"matrices of shape {list(matrices.shape)} for {images} images of {rank} spatial axes; 2 or 3 axes, and "
            "a matrix "
            "with a column more for each image are needed"
        )
    aligned = bool(node.attributes.get("align_corners", 0))
    along = [np.linspace(-1, 1, n) if aligned else (np.arange(n) * 2 + 1) / n - 1 for n in sizes]
    places = np.meshgrid(*along, indexing="ij")
    base = np.stack([*places[::-1], np.ones(sizes)], -1).astype(matrices.dtype)
    turned = make.turned(matrices, (0, 2, 1))
    by_image = make.reshaped(turned, (images, *(1,) * (rank - 1), rank + 1, rank))
    return [make("MatMul", base[None], by_image)]


LARGEST = 5
"""Rows of a matrix whose determinant is computed: each further one doubles the layers."""


def _determinant(make: Composition, node: Node) -> Results:
    """Det, by its first row: of the rows below, the determinants of all choices of columns are computed once."""
    x = require_tensor(node, 0)
    size = x.shape[-1] if x.shape else 0
    if len(x.shape) < 2 or x.shape[-2] != size or size > LARGEST or x.dtype not in FLOATS:
        raise ModelError(
            f"input of shape {list(x.shape)}, {x.dtype}; square matrices of floats with at most {LARGEST} rows are "
            "supported"
        )
    flat = make.reshaped(x, (prod(x.shape[:-2]), size * size))

    def element(row: int, column: int) -> Operand:
        at = row * size + column
        return make.part(flat, 1, at, at + 1)

    below: dict[tuple[int, ...], Operand] = {
        (column,): element(size - 1, column) for column in range(size)
    }
    for row in range(size - 2, -1, -1):
        own = [element(row, column) for column in range(size)]
        found = {}
        for columns in combinations(range(size), size - row):
            terms = [
                make("Mul", own[c], below[columns[:k] + columns[k + 1 :]])
                for k, c in enumerate(columns)
            ]
            total = terms[0]
            for k, term in enumerate(terms[1:], 1):
                total = make("Sub" if k % 2 else "Add", total, term)
            found[columns] = total
        below = found
    (whole,) = below.values()
    return [make.reshaped(whole, x.shape[:-2])]


# The table ----------------------------------------------------------------------------------------

OPERATORS: tuple[Operator, ...] = (
    composed_operator(
        "Compress",
        _compressed,
        since=9,
        attributes={"axis": None},
        structure="row-phased; whole along the row axis",
        notes="With a computed condition the output has one position per condition; unused positions are -1.",
    ),
    composed_operator(
        "ReverseSequence",
        _reversed,
        since=10,
        attributes={"batch_axis": 1, "time_axis": 0},
        structure="whole",
    ),
    composed_operator(
        "Scatter",
        _scattered,
        since=9,
        attributes={"axis": 0},
        structure="whole",
        notes="The former name of ScatterElements.",
    ),
    composed_operator(
        "TensorScatter",
        _written,
        since=24,
        attributes={"axis": -2, "mode": "linear"},
        structure="whole",
    ),
    composed_operator(
        "CenterCropPad", _centred, since=18, attributes={"axes": None}, constant_inputs=(1,)
    ),
    composed_operator(
        "Col2Im",
        _joined_blocks,
        since=18,
        attributes={"dilations": None, "pads": None, "strides": None},
        constant_inputs=(1, 2),
        notes="Lowered to ConvTranspose.",
    ),
    composed_operator(
        "AffineGrid",
        _grid,
        since=20,
        attributes={"align_corners": 0},
        constant_inputs=(1,),
        structure="whole",
    ),
    composed_operator("Det", _determinant, since=11, notes=f"Matrices of up to {LARGEST} rows."),
)
