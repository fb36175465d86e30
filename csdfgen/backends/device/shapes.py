"""How many work items has a kernel of a family? As many as its blocks, along two axes.

Other blocks than those of the device are said behind the name of a kernel, as a word: LANESxPIXELSxVECTORS/LOCALxLOCAL, with an r
behind VECTORS where pixels are of one row. "usual" is the word for those of the device.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from csdfgen.backends.native.structures import PANEL, get_record
from csdfgen.program.instructions import Constants, Instruction

Items = tuple[int, int]

USUAL = "usual"
_SIZE = "([1-9][0-9]?)"
WORDS = f"(?:{USUAL}|{_SIZE}x{_SIZE}x{_SIZE}(r?)/{_SIZE}x{_SIZE})"
"""A regular expression of words for blocks."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """What a work item of a family computes at a time, and how many are a group. lanes: channels of a vector, a divisor of
    `PANEL`. pixels: beside each other. span: elements of a line of arrays. local: items of a group along both axes.
    vectors, in_row: of convolutions, how many vectors of each pixel, and whether all pixels are of one row.
    """

    lanes: int = 4
    pixels: int = 4
    span: int = 1
    local: tuple[int, int] = (16, 4)
    vectors: int = 1
    in_row: bool = False

    @classmethod
    def of(cls, kind: str, lanes: int) -> Blocks:
        """For a device of a kind that prefers vectors of so many floats: processors keep wide blocks in their registers,
        others get their speed from many items.
        """
        return cls(min(PANEL, lanes), 8, 64, (8, 1)) if kind == "CPU" else cls()

    @classmethod
    def read(cls, word: str) -> Blocks:
        """The blocks that a word stands for. Raises ValueError.

        >>> str(Blocks.read("16x8x2r/1x4"))
        '16x8x2r/1x4'
        """
        found = re.fullmatch(WORDS, word)
        if found is None or word == USUAL:
            raise ValueError(word)
        lanes, pixels, vectors, row, *local = found.groups()
        if PANEL % int(lanes):
            raise ValueError(word)
        a, b = map(int, local)
        return cls(int(lanes), int(pixels), 1, (a, b), int(vectors), bool(row))

    def __str__(self) -> str:
        a, b = self.local
        return f"{self.lanes}x{self.pixels}x{self.vectors}{'r' * self.in_row}/{a}x{b}"

    def parts(self, channels: int) -> int:
        """Vectors that have so many channels."""
        return -(-channels // self.lanes)

    def strips(self, pixels: int) -> int:
        """Blocks that have so many pixels."""
        return -(-pixels // self.pixels)


def _conv(step: Any, constants: Constants, blocks: Blocks) -> Items:
    (layer,) = constants.rows_of(step.layer)
    parts = -(-(layer.out_channels // layer.groups) // (blocks.lanes * blocks.vectors))
    rows, columns = step.out.count, step.out.columns
    strips = rows * blocks.strips(columns) if blocks.in_row else blocks.strips(rows * columns)
    return layer.groups * parts, strips


def _conv_bytes(step: Any, constants: Constants, blocks: Blocks) -> Items:
    (layer,) = constants.rows_of(step.layer)
    panels = -(-(layer.out_channels // layer.groups) // PANEL)
    pixels = step.out.count * step.out.columns
    return layer.groups * panels * (PANEL // blocks.lanes), blocks.strips(pixels)


def _byte_winograd(step: Any, constants: Constants, blocks: Blocks) -> Items:
    """As text/byte_winograd.cl has them: four pixels are a tile."""
    (layer,) = constants.rows_of(step.layer)
    each = step.each or max(1, step.out.count)
    tiles = step.out.count // each * -(-each // 2) * -(-step.out.columns // 2)
    return blocks.parts(layer.out_channels), -(-tiles // -(-blocks.pixels // 4))


def _depthwise(step: Any, constants: Constants, blocks: Blocks) -> Items:
    (layer,) = constants.rows_of(step.layer)
    return blocks.parts(layer.out_channels), step.out.count * blocks.strips(step.out.columns)


def _map(step: Any, constants: Constants, blocks: Blocks) -> Items:
    return step.columns * blocks.parts(step.channels), step.count


def _pool(step: Any, constants: Constants, blocks: Blocks) -> Items:
    return blocks.parts(step.source.channels), step.count * step.columns


def _depthwise_bytes(step: Any, constants: Constants, blocks: Blocks) -> Items:
    (layer,) = constants.rows_of(step.layer)
    return blocks.parts(layer.out_channels), step.out.count * step.out.columns


_SHAPES: Mapping[str, tuple[str, Callable[[Any, Constants, Blocks], Items]]] = MappingProxyType(
    {
        "conv_of": ("conv.cl", _conv),
        "depthwise_of": ("depthwise.cl", _depthwise),
        "gemm_of": ("gemm.cl", lambda step, _, blocks: (blocks.parts(step.channels), blocks.strips(step.count))),
        "map_of": ("map.cl", _map),
        "maps_of": ("map.cl", _map),
        "pool_of": ("pool.cl", _pool),
        "normalize_of": ("normalize.cl", lambda step, *_: (step.count * step.lines, 1)),
        "attention_of": ("attention.cl", lambda step, *_: (step.count, step.groups)),
        "contract_of": ("contract.cl", lambda step, *_: (step.groups * step.height * step.width, 1)),
        "conv_bytes_of": ("conv_bytes.cl", _conv_bytes),
        "byte_winograd_of": ("byte_winograd.cl", _byte_winograd),
        "depthwise_bytes_of": ("depthwise_bytes.cl", _depthwise_bytes),
        "map_bytes_of": ("map_bytes.cl", _map),
        "pool_bytes_of": ("pool_bytes.cl", _pool),
        "average_bytes_of": ("average_bytes.cl", _pool),
        "sum_bytes_of": ("sum_bytes.cl", lambda step, _, blocks: (blocks.parts(step.source.channels), 1)),
        "multiply_of": ("multiply.cl", lambda step, *_: (step.columns, step.groups * step.count)),
    }
)  # fmt: skip

FILES = MappingProxyType({kernel: file for kernel, (file, _) in _SHAPES.items()})
"""Kernel of a family -> its file in `text`."""


def kernel_name(kernel: str, word: str) -> str:
    """The name of a kernel with the blocks of a word; "" or "usual": those of the device."""
    return kernel if word in ("", USUAL) else f"{kernel} {word}"


def parse_kernel_name(name: str, usual: Blocks) -> tuple[str, Blocks]:
    """A kernel without its word, and its blocks."""
    kernel, _, word = name.partition(" ")
    return (kernel, Blocks.read(word)) if word and kernel in FILES else (name, usual)


def candidates(kernels: Iterable[str], usual: Blocks) -> list[str]:
    """Words for blocks in which kernels of a family may be faster than in the usual ones, which come first; none for a family
    whose blocks make no difference. Sums of an item, `vectors` for each pixel, have to fit into its registers.
    """
    found: dict[Blocks, None] = {}
    many = usual.local[0] * usual.local[1] >= _MANY
    kinds = {kernel: _VARIED[kernel] for kernel in kernels if kernel in _VARIED}
    for grids in kinds.values():
        grid = grids[many]
        for vectors, pixels in grid.sums:
            for local in grid.locals:
                for lanes in grid.lanes or (usual.lanes,):
                    for in_row in (False, True)[: 1 + grid.rows]:
                        one = Blocks(lanes, pixels, 1, local, vectors, in_row)
                        if vectors * lanes <= _MOST_CHANNELS and str(one) != str(usual):
                            found[one] = None
    return [USUAL, *map(str, found)] if found else []


class _Grid(NamedTuple):
    """Sizes of blocks that are tried with each other. sums: (vectors, pixels). lanes: () for those that the device prefers.
    rows: whether also pixels of one row.
    """

    sums: Sequence[tuple[int, int]]
    locals: Sequence[tuple[int, int]]
    lanes: Sequence[int] = ()
    rows: bool = False


_MANY = 32
"""Items of a group from which on a device gets its speed from many of them."""

_MOST_CHANNELS = 4 * PANEL

_PROCESSOR, _GPU = ((1, 1), (2, 1), (1, 4)), ((16, 4), (8, 8), (32, 1), (4, 16), (64, 1))
_VARIED: Mapping[str, tuple[_Grid, _Grid]] = MappingProxyType(
    {
        "conv_of": (
            _Grid(((2, 7), (2, 8), (2, 12), (4, 4), (4, 7), (1, 14)), ((1, 1), (2, 1)), rows=True),
            _Grid(((1, 2), (1, 4), (1, 8), (2, 4)), _GPU, (1, 2, 4, 8)),
        ),
        "depthwise_of": (
            _Grid(((1, 2), (1, 4), (1, 7), (1, 14)), _PROCESSOR),
            _Grid(((1, 1), (1, 2), (1, 4), (1, 8)), _GPU, (1, 2, 4, 8)),
        ),
        "gemm_of": (
            _Grid(((1, 1), (1, 2), (1, 4), (1, 12)), _PROCESSOR),
            _Grid(((1, 1), (1, 2), (1, 4), (1, 8)), _GPU, (1, 2, 4, 8)),
        ),
        "conv_bytes_of": (
            _Grid(((1, 4), (1, 7), (1, 14)), _PROCESSOR),
            _Grid(((1, 2), (1, 4), (1, 8)), _GPU, (1, 2, 4, 8)),
        ),
    }
)
"""Kernel -> sizes for processors, and for devices that get their speed from many items."""


def count_work_items(one: Instruction, constants: Constants, blocks: Blocks) -> Items:
    """Work items of an instruction. Raises KeyError for a kernel that no family of the device has."""
    return _SHAPES[one.kernel][1](get_record(one), constants, blocks)


def max_padding(made: Iterable[Instruction], constants: Constants) -> int:
    """How many values outside a map a kernel reads one after the other, at most."""
    one_after_the_other = (
        constants.rows_of(get_record(one).layer)[0].in_channels
        if one.kernel == "conv_of"
        else PANEL
        for one in made
        if one.kernel in ("conv_of", "depthwise_of")
    )
    return max(one_after_the_other, default=0)
