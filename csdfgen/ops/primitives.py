"""Functions of prepared calls that numpy does not offer with positional arguments alone.

A prepared call is a function and its arguments. Beside these, kernels name numpy's own: `copyto`,
ufuncs with their `reduce`, `accumulate` and `at`, `matmul`, `take`, `argmax`, `argmin`, `ndarray.clip` and
`ndarray.fill`. A backend that translates prepared calls instead of calling them
(`csdfgen.backends.native`) knows all of these.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

BLOCK = 4096
"""Elements that are looked at together where what is found is of unknown size."""

MOST_PLACES = 2**30
"""Of a bin of a region along an axis."""


def maximum(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """`numpy.maximum` into `out` (numpy wants its `out` by name here)."""
    np.maximum(a, b, out=out)


def minimum(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """`numpy.minimum` into `out` (numpy wants its `out` by name here)."""
    np.minimum(a, b, out=out)


def negative(a: np.ndarray, out: np.ndarray) -> None:
    """`numpy.negative` into `out`, which may be `a`. Numpy's own negates some elements twice in place
    where these are 16 or 64 bytes apart (numpy 2.4, of four and of eight bytes).
    """
    np.multiply(a, -1, out=out)


def einsum(subscripts: str, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """`numpy.einsum` of two operands into `out`; subscripts are letters, a comma and an arrow."""
    np.einsum(subscripts, a, b, out=out)


def look_up(table: np.ndarray, index: np.ndarray, out: np.ndarray) -> None:
    """out = table[index]. table: of one dimension; index: intp within it, of the output's shape."""
    np.take(table, index, None, out, "clip")  # any other mode goes through memory of numpy's own


def pick_elements(table: np.ndarray, index: np.ndarray, out: np.ndarray) -> None:
    """out[i] = table[index[i]]. table, out: contiguous, of two dimensions; index: intp, contiguous, each
    within the table.
    """
    np.take(table, index, 0, out, "clip")


def scatter(index: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    """out[index[i]] = values[i], in order. All contiguous, of one dimension; index: intp, each within `out`."""
    out[index] = values


def rank_elements(
    x: np.ndarray, largest: bool, keys: np.ndarray, numbers: np.ndarray, places: np.ndarray
) -> None:
    """Positions of the largest (or smallest) elements of each line, the best one first, of equal ones the
    first one first; what is not a number is the worst.

    x: (lines, n). places: int64 (lines, k). keys: complex128, more than k or n of them, overwritten. numbers:
    0, 1, 2 ... as many. Integers beyond 2^53 are compared as float64.
    """
    wanted = places.shape[1]
    for line, found in zip(x, places, strict=True):
        kept = at = 0
        while at < len(line):
            taken = min(len(keys) - kept, len(line) - at)
            part = keys[kept : kept + taken]
            np.copyto(part.real, line[at : at + taken])
            if largest:
                np.negative(part.real, part.real)
            np.add(numbers[:taken], at, part.imag)
            keys[: kept + taken].sort()  # by the value, then by the position
            at += taken
            kept = min(wanted, kept + taken)
        np.copyto(found, keys[:wanted].imag, "unsafe")


def nonzero(flags: np.ndarray, out: np.ndarray) -> None:
    """The coordinates of elements that are set, in their order; -1 in all rows of `out` behind them.

    flags: bool, contiguous. out: int64 (elements, dimensions), contiguous.
    """
    flat, filled = flags.reshape(-1), 0
    steps = [s // flags.itemsize for s in flags.strides]
    for start in range(0, flat.size, BLOCK):
        found = np.flatnonzero(flat[start : start + BLOCK]) + start
        rows = out[filled : filled + len(found)]
        for k, (step, size) in enumerate(zip(steps, flags.shape, strict=True)):
            rows[:, k] = found // step % size
        filled += len(found)
    out[filled:] = -1


def suppress_boxes(
    scores: np.ndarray,
    boxes: np.ndarray,
    limit: int,
    overlap: float,
    least: float | None,
    centre: bool,
    order: np.ndarray,
    out: np.ndarray,
) -> None:
    """(image, class, box) of the boxes that remain, by image and class, the best first: a box goes where one that remains
    overlaps it in more than `overlap` of their union. -1 in all rows of `out` behind them.

    scores: float32 (images, classes, n). boxes: float32 (images, n, 4), two corners (y, x), or (centre) x, y of the centre,
    width and height. limit: boxes of a class. least: scores must be above it. order: int64 (n,), overwritten. out: int64
    (images * classes * limit, 3). All are contiguous.
    """
    filled = 0
    for image, lines in enumerate(scores):
        first, last = boxes[image, :, :2], boxes[image, :, 2:]
        if centre:
            half = last / np.float32(2)
            first, last = first - half, first + half
        low, high = np.minimum(first, last), np.maximum(first, last)
        area = (high - low).prod(1)
        for number, line in enumerate(lines):
            order[:] = np.argsort(-line, kind="stable")
            found = order if least is None else order[line[order] > np.float32(least)]
            for row in out[filled : filled + limit]:
                if not len(found):
                    break
                best, found = found[0], found[1:]
                row[:] = image, number, best
                filled += 1
                sides = np.minimum(high[best], high[found]) - np.maximum(low[best], low[found])
                common = sides.prod(1)
                union = area[best] + area[found] - common
                meet = (sides > 0).all(1) & (common > 0) & (area[found] > 0) & (union > 0)
                share = np.divide(common, union, where=meet, out=np.zeros_like(common))
                found = found[(share <= np.float32(overlap)) | (area[best] <= 0)]
    out[filled:] = -1


WAYS = {"LT": 1, "EQ": 2, "GT": 4, "LEQ": 3, "GTE": 6, "NEQ": 13, "missing": 16, "all": 32}
"""Sets of what a feature may be beside a node's value, as bits: less, equal, greater, none of these, not a number."""


def walk_trees(
    x: np.ndarray,
    nodes: np.ndarray,
    roots: np.ndarray,
    targets: np.ndarray,
    values: np.ndarray,
    weights: np.ndarray,
    joined: int,
    out: np.ndarray,
) -> None:
    """The sums (joined=0), least (1) or largest (2) of the weights of the leaves that samples come to, in the order of trees.

    x: (samples, features). nodes: int32 (nodes, 4), feature * 32 + the ways (`WAYS`) that lead to the third number, others lead
    to the second; a leaf has no ways, follows itself, and has the range of its weights. roots: int32. targets: int32, one of
    each weight. values: what features are compared with. out: (samples, targets), 0 where there are no weights.
    """
    out[...] = np.nan if joined else 0
    join = (np.add, np.fmin, np.fmax)[joined]
    samples = np.arange(len(x))
    for root in roots:
        at = np.full(len(x), root)
        while nodes[at, 0].any():
            feature, ways = np.divmod(nodes[at, 0], WAYS["all"])
            found, value = x[samples, feature], values[at]
            less, equal, more = found < value, found == value, found > value
            seen = (
                less * 1 | equal * 2 | more * 4 | ~(less | equal | more) * 8 | np.isnan(found) * 16
            )
            at = nodes[at, 1 + ((ways & seen) != 0)]
        for sample, leaf in enumerate(at):
            for k in range(nodes[leaf, 2], nodes[leaf, 3]):
                out[sample, targets[k]] = join(out[sample, targets[k]], weights[k])
    if joined:
        out[np.isnan(out)] = 0


def align_regions(
    x: np.ndarray,
    regions: np.ndarray,
    images: np.ndarray,
    bins: tuple[int, int],
    first: int,
    samples: int,
    maxima: bool,
    half: bool,
    scale: float,
    out: np.ndarray,
) -> None:
    """Means, or maxima, of places spread evenly over each bin of regions of maps; a place is the sum of the four elements
    around it by their distance, 0 from one element beyond the map on.

    x: (images, channels, rows, columns). regions: corners (regions, 4) as x, y, x, y, contiguous, multiplied by scale. images:
    int64 (regions,), contiguous. bins: of a region. samples: places of a bin along each axis, 0: the size of the bin, rounded
    up. half: elements are at halves, and regions may be smaller than an element. out: (regions, channels, rows, columns), rows
    of bins from `first` on.
    """
    wide = x.dtype if x.itemsize > 2 else np.dtype(np.float32)
    corners = regions.astype(wide) * wide.type(scale) - wide.type(half / 2)
    parts = (first, first + out.shape[2]), (0, bins[1])
    for corner, image, target in zip(corners, images, out, strict=True):
        source = x[min(max(image, 0), len(x) - 1)]
        places = [
            _places(
                corner[1 - k :: 2], bins[k], np.arange(*parts[k]), x.shape[2 + k], samples, half
            )
            for k in range(2)
        ]
        whole = places[0].number * places[1].number
        all_there = whole == len(places[0].taps) * len(places[1].taps)
        total = np.full(target.shape, -np.inf if maxima and whole and all_there else 0, wide)
        for row_taps, column_taps in product(places[0].taps, places[1].taps):
            for (row, down), (column, across) in product(row_taps, column_taps):
                part = source[:, row[:, None], column] * (down[:, None] * across)
                (np.maximum if maxima else np.add)(total, part, out=total)
        target[...] = total if maxima else total / max(whole, 1)


class _Places(NamedTuple):
    """Of bins along an axis. number: places of a bin. taps: of each place that may be on the map both (elements, weights)."""

    number: float
    taps: list[tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]]


def _places(
    ends: np.ndarray, bins: int, which: np.ndarray, length: int, samples: int, half: bool
) -> _Places:
    start, stop = ends
    wide = start.dtype.type
    size = (stop - start if half else max(stop - start, wide(1))) / wide(bins)
    number = float(samples or np.nan_to_num(np.clip(np.ceil(size), 0, MOST_PLACES)))
    if not number:
        return _Places(0, [])
    apart = size / wide(number)
    begin, before, count = start + size * which.astype(wide), np.zeros(len(which)), number
    if not samples:  # those far beyond the map are left out
        before = np.nan_to_num(np.clip(np.floor((-1 - begin) / apart) - 1, 0, number))
        count = min(number, np.nan_to_num(np.floor((length + 1) / apart)) + 4)
    taps = []
    for k in range(int(count)):
        number_of = (before + k).astype(wide)
        at = begin + (number_of + wide(0.5)) * apart
        inside = (at >= -1) & (at <= length) & (number_of < number)
        near = np.where(inside, np.clip(at, 0, length - 1), 0)
        low = near.astype(np.intp)
        share = near - low.astype(wide)
        both = (low, 1 - share), (np.minimum(low + 1, length - 1), share)
        taps.append(tuple((place, np.where(inside, weight, 0)) for place, weight in both))
    return _Places(number, taps)  # type: ignore[arg-type]
