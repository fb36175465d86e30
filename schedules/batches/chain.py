"""What does a network look like to who chooses batches? Layers one after another, each with what a call on
b images costs and takes.

Paper 000 (variable batch size), section III and Table I. Costs and workspaces are tables, never a fit: what
a library takes for b images need not lie on any line. Images are whole maps: b of them are b times the bytes
of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

from csdfgen.errors import InputError

__all__ = ["Chain", "ChainLayer"]


@dataclass(frozen=True, slots=True)
class ChainLayer:
    """One layer. costs[b - 1]: of one call on b images, not per image: seconds, or whatever adds up, such as
    joules. workspace[b - 1]: bytes beside input and output during that call; weights, if they count.
    input_bytes, output_bytes: of one image.

    branches: chains between this layer's input and its output, run one after another on all images of a
    call before the call itself (which joins them, and may cost nothing). Input and output of the call stay
    throughout. A branch reads the layer's input and writes into its output where its own first input and
    last output are 0 bytes, as the paper has it; what it needs beside is their size.

    >>> conv = ChainLayer("conv", costs=(4, 6), workspace=(1, 2), input_bytes=1, output_bytes=1)
    >>> conv.held(2), conv.most_images
    (6, 2)
    """

    name: str
    costs: tuple[float, ...]
    workspace: tuple[int, ...]
    input_bytes: int
    output_bytes: int
    branches: tuple[Chain, ...] = ()

    def __post_init__(self) -> None:
        """Raises InputError for tables that do not fit each other, and for what cannot be."""
        if len(self.costs) != len(self.workspace) or not self.costs:
            raise InputError(
                f"has {len(self.costs)} costs and {len(self.workspace)} workspaces; one of each for every batch is needed",
                where=self.name,
            )
        sizes = (*self.workspace, self.input_bytes, self.output_bytes)
        wrong = [size for size in sizes if not isinstance(size, int) or size < 0]
        if wrong:
            raise InputError(f"has a size of {wrong[0]} bytes; whole numbers from 0 on are needed", where=self.name)  # fmt: skip
        bad = [cost for cost in self.costs if not isfinite(cost) or cost < 0]
        if bad:
            raise InputError(
                f"has a cost of {bad[0]}; finite numbers from 0 on are needed", where=self.name
            )

    @property
    def most_images(self) -> int:
        """The largest batch that the tables know."""
        return len(self.costs)

    def held(self, images: int) -> int:
        """Bytes of a call by itself: in(i,b) + ws(i,b) + out(i,b)."""
        return images * (self.input_bytes + self.output_bytes) + self.workspace[images - 1]


@dataclass(frozen=True, slots=True)
class Chain:
    """Layers, each of which reads what the one before it writes; at least one."""

    layers: tuple[ChainLayer, ...]

    def __post_init__(self) -> None:
        """Raises InputError where two neighbours disagree about the image between them."""
        if not self.layers:
            raise InputError("a chain without layers; at least one is needed")
        for before, after in pairwise(self.layers):
            if before.output_bytes != after.input_bytes:
                raise InputError(
                    f"reads {after.input_bytes} bytes an image, '{before.name}' before it writes {before.output_bytes}",
                    where=after.name,
                )

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def images(self) -> Sequence[int]:
        """Bytes of an image in front of each layer, and behind the last."""
        return (*(layer.input_bytes for layer in self.layers), self.layers[-1].output_bytes)
