"""What does the choice of batches know of a network? A chain of layers with the cost and the bytes of a call on b
images.

Paper 000 (variable batch size), section III and Table I. Costs and workspaces are tables instead of fits, as those of a
library need not be linear in b. Images are whole maps: b of them have b times the bytes of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite

from csdfgen.errors import InputError


@dataclass(frozen=True, slots=True)
class ChainLayer:
    """One layer. costs[b - 1]: cost of one call on b images (not per image), in seconds or any unit that adds up, such as
    joules. workspace[b - 1]: bytes besides input and output during that call, with the weights if they count.
    input_bytes, output_bytes: of one image.

    branches: chains between the input and the output of this layer, which run one after another on all images of a
    call before the call itself (which joins them, and may cost nothing). Input and output of the call stay in memory
    throughout. A branch whose first input and last output have 0 bytes reads the input of the layer and writes into its
    output, as in the paper; other sizes are in addition.

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
        """Raises InputError for tables of different lengths, and for values that are impossible."""
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
        """The largest batch in the tables."""
        return len(self.costs)

    def held(self, images: int) -> int:
        """Bytes of a call alone: in(i,b) + ws(i,b) + out(i,b)."""
        return images * (self.input_bytes + self.output_bytes) + self.workspace[images - 1]


@dataclass(frozen=True, slots=True)
class Chain:
    """One or more layers, each of which reads the output of the one before."""

    layers: tuple[ChainLayer, ...]

    def __post_init__(self) -> None:
        """Raises InputError if the output of a layer and the input of the next differ in size."""
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
        """Bytes of an image before each layer, and after the last."""
        return (*(layer.input_bytes for layer in self.layers), self.layers[-1].output_bytes)
