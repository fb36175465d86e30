"""How long do the kernels of a convolution take, and in how much workspace? Estimates, not measurements.

They count multiply-adds, what taking values to points and back costs beside them, and weights that come from
behind the second-level cache. They depend on sizes alone, so that the same plan is always computed in the same
way on every machine. Workspaces are those of csdfgen/backends/native/c, to the byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from csdfgen.backends.native.families.common import FLOAT
from csdfgen.backends.native.structures import PANEL
from csdfgen.backends.native.ways import CONV, ROWS, TILES

POINTS, SUMS, LEAST_AT_A_TIME, POINTERS, KEPT = 6, 64, 64, 512, 32
"""Of csdf_winograd_row: points of a tile, output channels at a time, least input channels at a time,
pointers of a table, input channels whose weights are kept at points.
"""

WIDE, AT_A_TIME = 4, 128
"""Of csdf_winograd: columns of a tile, tiles at a time."""

MOVED, MOVED_TWICE = 12.0, 20.0
"""Multiply-adds that take as long as taking a value to a point or back, along rows, down and along them."""

TAKEN, TAKEN_TWICE = 3.5, 5.0
"""The same of a weight."""

READ = ((128 * 1024, 1.0), (512 * 1024, 2.0), (2 * 1024 * 1024, 5.0), (1 << 62, 8.0))
"""(most weights of a layer, multiply-adds that take as long as reading one of them), of what comes from a
second-level cache, partly from there, from the third level, from where others are, too.
"""

GAIN = 1.05
"""How much faster it must be by the estimate."""


@dataclass(frozen=True)
class Way:
    """A kernel and what it takes: bytes of workspace, rows of a tile where it has such, how many input
    channels it works on at a time (weights of a filter, where it sums up products; 0: as suits most), whether its weights
    are those at points, which are more, and whether they are those of runs (`families.runs`), of pairs across taps.
    """

    kernel: str
    workspace: int = 0
    tile: int = 0
    some: int = 0
    at_points: bool = False
    runs: bool = False


PLAIN = Way(CONV)

Shape = tuple[int, int, int, int, int]
"""Inputs and outputs of a group, height, stride and dilation down."""

Size = tuple[int, int, int]
"""Images, and rows and columns of the output of each of them."""


def row_bytes(shape: Shape, rows: int, tiles: int, channels: int) -> int:
    """csdf_winograd_row_bytes."""
    values = _height(shape, rows) * _padded(channels) + rows * min(SUMS, _padded(shape[1]))
    return POINTS * tiles * values * FLOAT


def tile_bytes(shape: Shape, tile: int, tiles: int, channels: int) -> int:
    """csdf_winograd_bytes."""
    values = _padded(channels) + min(SUMS, _padded(shape[1]))
    return (tile + 2) * POINTS * tiles * values * FLOAT


def kept_bytes(outs: int, points: int, high: int = 1) -> int:
    """csdf_winograd_kept and csdf_winograd_row_kept: weights at so many points, in so many rows, for the outputs of a group."""
    return FLOAT * points * (high * KEPT * min(SUMS, _padded(outs)) + PANEL)


def _padded(channels: int) -> int:
    return -(-channels // PANEL) * PANEL


def _height(shape: Shape, rows: int) -> int:
    """Input rows that so many output rows read."""
    _, _, high, stride, dilation = shape
    return (rows - 1) * stride + (high - 1) * dilation + 1


@lru_cache(maxsize=4096)
def choose_way(shape: Shape, wide: int, alone: bool, size: Size, room: int) -> Way:
    """alone: of one group."""
    _, _, high, stride, dilation = shape
    best, least = PLAIN, direct_cost(shape, wide, size) / GAIN
    ways = [row_winograd_cost(shape, wide, size, room)]
    if alone and (high, wide, stride, dilation) == (3, 3, 1, 1):
        ways += [tile_winograd_cost(shape, tile, size, room) for tile in (2, 4)]
    for cost, way in ways:
        if way.workspace and cost < least:
            best, least = way, cost
    return best


def direct_cost(shape: Shape, wide: int, size: Size) -> float:
    """What sums of products cost, in multiply-adds."""
    ins, outs, high, *_ = shape
    weights, pixels = high * wide * ins * outs, prod(size)
    turns = -(-pixels // (POINTERS // (high * wide + 1)))
    return float(pixels * weights) + turns * weights * _reading(weights)


def row_winograd_cost(
    shape: Shape, wide: int, size: Size, room: int, at_points: bool = False
) -> tuple[float, Way]:
    """What csdf_winograd_row costs, in multiply-adds; without a workspace where there is no room."""
    ins, outs, high, *_ = shape
    images, rows, columns = size
    across = -(-columns // (POINTS + 1 - wide))
    kept = 0 if at_points else kept_bytes(outs, POINTS, high)
    many, some, tiles, channels = _divided(shape, across, images, rows, room - kept)
    if tiles < 1:
        return 0.0, PLAIN
    weights = high * ins * outs
    passes = -(-rows // some)
    turns = -(-images // many) * passes * -(-across // tiles)
    cost = images * rows * across * POINTS * (weights + MOVED * outs * -(-ins // channels))
    cost += images * passes * _height(shape, some) * across * POINTS * MOVED * ins
    cost += turns * _weights(POINTS * weights, wide * weights, at_points, TAKEN)
    taken = kept + many * row_bytes(shape, some, tiles, channels)
    return cost, Way(ROWS, taken, some=channels, at_points=at_points)


def tile_winograd_cost(
    shape: Shape, tile: int, size: Size, room: int, at_points: bool = False
) -> tuple[float, Way]:
    """The same of csdf_winograd."""
    ins, outs, *_ = shape
    images, rows, columns = size
    tiles = images * -(-rows // tile) * -(-columns // WIDE)
    limit, parts = _shared_out(tiles, AT_A_TIME), 1
    points, weights = (tile + 2) * POINTS, ins * outs
    kept = 0 if at_points else kept_bytes(outs, points)
    while True:
        channels = min(ins, _padded(-(-ins // parts)))
        some = min(limit, (room - kept) // tile_bytes(shape, tile, 1, channels))
        if some == limit or channels <= LEAST_AT_A_TIME:
            break
        parts += 1
    if some < 1:
        return 0.0, PLAIN
    some = _shared_out(tiles, some)
    cost = tiles * points * (weights + MOVED_TWICE * (ins + outs * -(-ins // channels)))
    cost += -(-tiles // some) * _weights(points * weights, 9 * weights, at_points, TAKEN_TWICE)
    return cost, Way(
        TILES, kept + tile_bytes(shape, tile, some, channels), tile, channels, at_points
    )


def _weights(points: int, weights: int, at_points: bool, taken: float) -> float:
    """What weights at so many points cost: to be read, or to be read as they are and taken there."""
    return points * _reading(points) if at_points else weights * _reading(weights) + taken * points


def row_stages(shape: Shape, wide: int, size: Size, room: int, some: int) -> int:
    """How many stages csdf_winograd_row_share has for a group: no fewer than there are."""
    ins, outs, *_ = shape
    images, rows, columns = size
    across = -(-columns // (POINTS + 1 - wide))
    many, high, tiles, channels = _divided(shape, across, images, rows, room, some)
    if tiles < 1:
        return 0
    turns = -(-images // many) * -(-rows // high) * -(-across // tiles)
    return turns * -(-ins // channels) * (1 + 2 * -(-outs // SUMS))


def tile_stages(shape: Shape, tile: int, size: Size, room: int, some: int) -> int:
    """The same of csdf_winograd_share."""
    ins, outs, *_ = shape
    images, rows, columns = size
    tiles = images * -(-rows // tile) * -(-columns // WIDE)
    most = min(tiles, AT_A_TIME, room // tile_bytes(shape, tile, 1, some))
    return -(-tiles // most) * -(-ins // some) * (1 + 2 * -(-outs // SUMS)) if most else 0


def _divided(
    shape: Shape, across: int, images: int, rows: int, room: int, given: int = 0
) -> tuple[int, int, int, int]:
    """Images, rows of them, tiles of a row and input channels that csdf_winograd_row computes at a time. given: these
    channels, where they are not to be chosen.
    """
    ins, _, high, *_ = shape
    many, some = images, rows
    while True:
        limit = _shared_out(across, POINTERS // (high + 1) // (many * some))
        parts = 1
        while True:
            channels = min(ins, given or _padded(-(-ins // parts)))
            tiles = min(limit, room // (many * row_bytes(shape, some, 1, channels)))
            if tiles == limit or channels <= LEAST_AT_A_TIME or given:
                break
            parts += 1
        if many == some == 1 or tiles >= min(across, 2):
            return many, some, _shared_out(across, tiles), channels
        if many > 1:
            many = (many + 1) // 2
        else:
            some = (some + 1) // 2


def _shared_out(tiles: int, most: int) -> int:
    """Tiles at a time, at most so many: kernels take equally many in each of as few rounds as they can."""
    return -(-tiles // -(-tiles // most)) if most > 0 else 0


def _reading(weights: int) -> float:
    return next(cost for most, cost in READ if weights <= most)
