"""Which of several kernels computes a convolution? What was measured to be the fastest, where somebody
has measured, else what its family estimates.

A variant is a kernel and the size of its blocks, in a word:

    conv          sums of products; conv/640: with 640 weights of a filter at a time
    dots          the same, of few output channels, in vectors along the sums
    rows          Winograd's form along the rows, with weights that are stored at its points
    tiles2        the same in tiles of 2x4 pixels; tiles4: of 4x4
    rows-plain    with weights that are taken there in every firing, as `tiles2-plain` and `tiles4-plain`
    rows/65536    in at most so many bytes of workspace, as any but the first two

Variants are given by layer and slab height: each holds from its height up to the next one that is
given. A variant that a step has no room for, or that its layer does not have, is passed over.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from csdfgen.model.options import parse_ways

CONV, DOTS, ROWS, TILES = "conv", "conv_dots", "winograd_row", "winograd"
"""Kernels of variants."""

HALVES = {"bf16": "conv_bf16", "f16": "conv_f16"}
"""Those of sums of products of two bytes, by the kernels' name of the type."""

_WORDS = {
    "conv": (CONV, 0, False),
    "dots": (DOTS, 0, False),
    "rows": (ROWS, 0, True),
    "tiles2": (TILES, 2, True),
    "tiles4": (TILES, 4, True),
    "rows-plain": (ROWS, 0, False),
    "tiles2-plain": (TILES, 2, False),
    "tiles4-plain": (TILES, 4, False),
}
_BLOCK = "(?:/([1-9][0-9]{0,8}))?"
VARIANTS, SUMS = f"(conv|dots|(?:rows|tiles[24])(?:-plain)?){_BLOCK}", f"(conv){_BLOCK}"
"""Regular expressions of words for variants: of all, and of those that add up products."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel of `csdfgen.backends.native.c`, rows of its tiles where it has some, whether its weights are stored at
    points, and what limits its blocks: weights of a filter at a time (conv), or bytes of workspace; 0: as it is without.

    >>> Variant.read("tiles4/65536"), str(Variant("conv"))
    (Variant(kernel='winograd', tile=4, at_points=True, block=65536), 'conv')
    """

    kernel: str
    tile: int = 0
    at_points: bool = False
    block: int = 0

    @classmethod
    def read(cls, text: str) -> Variant:
        """The variant that a word stands for. Raises ValueError."""
        found = re.fullmatch(VARIANTS, text)
        if found is None:
            raise ValueError(text)
        return cls(*_WORDS[found[1]], int(found[2] or 0))

    def __str__(self) -> str:
        word = next(
            word for word, own in _WORDS.items() if own == (self.kernel, self.tile, self.at_points)
        )
        return f"{word}/{self.block}" if self.block else word


@dataclass(frozen=True, slots=True)
class Choice:
    """How one layer is computed. exact: by sums of products alone. heights, variants: each variant
    holds from its slab height on.
    """

    exact: bool = False
    heights: tuple[int, ...] = ()
    variants: tuple[Variant, ...] = ()

    @property
    def grows(self) -> bool:
        """Whether some variant's weights take more bytes than they have."""
        return not self.exact and any(one.at_points for one in self.variants)

    def at(self, rows: int) -> Variant | None:
        """The variant for slabs of so many rows; None: as estimated."""
        place = bisect_right(self.heights, rows) - 1
        if place < 0 or (self.exact and self.variants[place].kernel != CONV):
            return None
        return self.variants[place]


ESTIMATED = Choice()
"""As the family estimates."""


@dataclass(frozen=True, slots=True)
class Ways:
    """How the layers of a network are computed. exact: by sums of products alone. text: variants by
    layer and height, see `PlanOptions.ways`. pairs: whether convolutions of bytes may be by fewer products of 16 bits;
    fused: values are taken to points in registers, for every sixteen outputs again, instead of in workspace.
    bfloat16, float16: weights from which a layer in it is computed without slabs that are widened, although there is room for
    these; 0 where plans have no such room, because the processor multiplies it; -1: where there is no room alone.
    """

    exact: bool = False
    text: str = ""
    pairs: bool = False
    fused: bool = False
    bfloat16: int = -1
    float16: int = -1

    def of(self, layer: str) -> Choice:
        """How a layer is computed. Raises InputError for a text that says nothing sound."""
        heights = _parsed(self.text).get(layer, {})
        return Choice(self.exact, tuple(heights), tuple(heights.values()))


@lru_cache(maxsize=64)
def _parsed(text: str) -> Mapping[str, Mapping[int, Variant]]:
    """By layer and height, in rising order. Raises InputError."""
    return parse_ways(text, Variant.read, f"{', '.join(_WORDS)} are, or these with /N")
