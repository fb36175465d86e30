"""How many images does a phase of each layer work on? Of those that one order of firings covers.

A layer works on rows of one image in a phase (`phases.heights`), or on whole images, as many at a time as are
asked for here (paper 000: the batch of a layer).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from csdfgen.model.frozen import Pickled
from csdfgen.model.network import Network
from csdfgen.phases.by_layer import Asked, ByLayer, Wording

__all__ = ["AskedBatches", "BatchSpec", "parse_batches"]

_ALL = "all"

_BATCHES = Wording("batches", "images", (_ALL,), 1)


@dataclass(frozen=True)
class BatchSpec(Pickled):
    """Images a phase as asked for: `general` is a number or "all"; `layers` overrides by layer name, also with
    the images of the first phases, of the second, ...; the last number is repeated.
    """

    general: int | str = 1
    layers: Mapping[str, Asked] = field(default_factory=lambda: MappingProxyType({}))

    def groups(self, name: str, frames: int) -> tuple[int, ...]:
        """Images of each group of a layer, of `frames` in all: the last group has what is left.

        >>> parse_batches("2,fc=all,conv=3+1").groups("fc", 5), parse_batches("2").groups("fc", 5)
        ((5,), (2, 2, 1))
        >>> parse_batches("conv=3+1").groups("conv", 6)
        (3, 1, 1, 1)
        """
        asked = self.layers.get(name, self.general)
        sizes = asked if isinstance(asked, tuple) else (frames if asked == _ALL else int(asked),)
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
        _BATCHES.check_names(self.layers, [layer.name for layer in network.layers])

    def __str__(self) -> str:
        return _BATCHES.written(self.general, self.layers)


AskedBatches = ByLayer | BatchSpec
"""What `parse_batches` reads."""


def parse_batches(batches: AskedBatches) -> BatchSpec:
    """A specification from `4`, `"all"`, `"1,fc6=16,conv5=6+2"`, or a mapping `{"fc6": 16, "*": 1}`, in which "*" is
    all other layers (1 without it). Raises InputError.

    >>> str(parse_batches({"fc6": "all", "conv5": (6, 2)}))
    '1,conv5=6+2,fc6=all'
    """
    if isinstance(batches, BatchSpec):
        return batches
    return BatchSpec(*_BATCHES.read(batches))
