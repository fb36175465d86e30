"""How many images does a phase of each layer work on? Of those that one order of firings covers.

A layer works on rows of one image in a phase (`phases.heights`), or on whole images, as many at a time as are
asked for here (paper 000: the batch of a layer).
"""

from __future__ import annotations

from dataclasses import dataclass

from csdfgen.model.by_layer import BATCHES, ByLayer, Spec
from csdfgen.model.network import Network

__all__ = ["AskedBatches", "BatchSpec", "parse_batches"]


@dataclass(frozen=True)
class BatchSpec(Spec):
    """Images a phase as asked for: `general` is a number or "all"."""

    wording = BATCHES
    general: int | str = 1

    def groups(self, name: str, frames: int) -> tuple[int, ...]:
        """Images of each group of a layer, of `frames` in all: the last group has what is left.

        >>> parse_batches("2,fc=all,conv=3+1").groups("fc", 5), parse_batches("2").groups("fc", 5)
        ((5,), (2, 2, 1))
        >>> parse_batches("conv=3+1").groups("conv", 6)
        (3, 1, 1, 1)
        """
        asked = self.layers.get(name, self.general)
        sizes = asked if isinstance(asked, tuple) else (frames if asked == "all" else int(asked),)
        found: list[int] = []
        left = frames
        while left:
            found.append(min(left, sizes[min(len(found), len(sizes) - 1)]))
            left -= found[-1]
        return tuple(found)

    @property
    def is_single(self) -> bool:
        """Whether every phase is of one image."""
        return all(asked in (1, (1,)) for asked in (self.general, *self.layers.values()))

    def check_names(self, network: Network) -> None:
        """Refuse names that are no layer of the network. Raises InputError."""
        BATCHES.check_names(self.layers, [layer.name for layer in network.layers])


AskedBatches = ByLayer | BatchSpec
"""What `parse_batches` reads."""


def parse_batches(batches: AskedBatches) -> BatchSpec:
    """A specification from `4`, `"all"`, `"1,fc6=16,conv5=6+2"`, or a mapping `{"fc6": 16, "*": 1}`, in which "*" is
    all other layers (1 without it). Raises InputError.

    >>> str(parse_batches({"fc6": "all", "conv5": (6, 2)}))
    '1,conv5=6+2,fc6=all'
    """
    return batches if isinstance(batches, BatchSpec) else BatchSpec(*BATCHES.read(batches))
