"""Where may a network be cut into stages? Between any two layers, at the price of what crosses the cut.

Images do not touch each other, so that the layers before a cut may have worked on all of them before those
behind it begin. What crosses lies in memory for every image that waits there: whole maps, in the buffers that
tensors share. Cuts that few bytes cross are worth it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from csdfgen.planning.buffers import Buffer
from csdfgen.planning.prepared import Phased

__all__ = ["Cut", "Ranks"]

_HEAVY = 4
"""Weights of a layer, in bytes of what it reads, from which it is worth a cut of its own."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut in front of layer number `at`. tensors: that cross it; bytes: of one image, in the buffers that
    hold them.
    """

    at: int
    tensors: tuple[str, ...]
    bytes: int


@dataclass(frozen=True, eq=False)
class Ranks:
    """Where the actors of a network stand: layers by their number, inputs with their first reader, outputs
    with their maker. phased: the network, as it is cut for one image.
    """

    phased: Phased

    @cached_property
    def count(self) -> int:
        """Number of layers."""
        return len(self.phased.conversion.network.layers)

    @cached_property
    def of(self) -> Mapping[str, int]:
        """Actor -> its rank."""
        conversion = self.phased.conversion
        network = conversion.network
        number = {layer.name: at for at, layer in enumerate(network.layers)}
        makers = {name: number[layer.name] for name, layer in network.producer.items()}
        found = {}
        for work in conversion.actors:
            if work.name in number:
                found[work.name] = number[work.name]
            elif work.kind == "input":
                readers = network.readers[work.writes[0].tensor.name]
                found[work.name] = min((number[layer.name] for layer, _ in readers), default=0)
            else:
                found[work.name] = makers.get(work.reads[0].tensor.name, 0)
        return found

    def span(self, buffer: Buffer) -> tuple[int, int]:
        """Ranks of the first and of the last actor that touches a buffer."""
        touching = [self.of[access.actor] for access in (*buffer.writers, *buffer.readers)]
        return min(touching), max(touching)

    @cached_property
    def cuts(self) -> tuple[Cut, ...]:
        """Every cut, from the first layer to the last."""
        held = [(b.rows * b.row_bytes, *self.span(b)) for b in self.phased.buffers]
        tensors = list(self._tensors())
        return tuple(
            Cut(
                at,
                tuple(name for name, first, last in tensors if first < at <= last),
                sum(size for size, first, last in held if first < at <= last),
            )
            for at in range(1, self.count)
        )

    def _tensors(self) -> Iterator[tuple[str, int, int]]:
        """Every tensor with the ranks of its maker and of its last reader."""
        network = self.phased.conversion.network
        number = {layer.name: at for at, layer in enumerate(network.layers)}
        for name, readers in network.readers.items():
            ranks = [number[layer.name] for layer, _ in readers]
            if ranks:
                maker = network.producer.get(name)
                yield name, min(ranks) if maker is None else number[maker.name], max(ranks)

    def single(self) -> tuple[Cut, ...]:
        """The cuts that one tensor crosses: between them lie the layers of the paper's main path."""
        return tuple(cut for cut in self.cuts if len(cut.tensors) == 1)

    def worth(self, most: int) -> tuple[Cut, ...]:
        """At most so many cuts, those that the fewest bytes cross: no more than cross the cuts beside them, or
        in front of layers that read more weights than anything else, which many images share.
        """
        known = self.single() or self.cuts
        layers = self.phased.conversion.network.layers
        low = [
            cut
            for number, cut in enumerate(known)
            if cut.bytes <= min(one.bytes for one in known[max(0, number - 1) : number + 2])
            or layers[cut.at].parameter_bytes > _HEAVY * cut.bytes
        ]
        chosen = sorted(low, key=lambda cut: (cut.bytes, cut.at))[:most]
        return tuple(sorted(chosen, key=lambda cut: cut.at))
