"""Where may a network be cut into stages? Between any two layers, at the price of the maps that cross the cut.

Images are independent, so that the layers before a cut may compute all of them before the layers after it begin. The
maps that cross the cut are stored whole for every image that waits there, in the buffers that tensors share. Good cuts
are those that few bytes cross.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from csdfgen.planning.buffers import Buffer
from csdfgen.planning.prepared import Phased

_HEAVY = 4
"""A layer is worth a cut before it if its weights are more than so many times the bytes that cross the cut."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut before layer number `at`. tensors: those that cross it; bytes: of one image, in their buffers."""

    at: int
    tensors: tuple[str, ...]
    bytes: int


@dataclass(frozen=True, eq=False)
class Ranks:
    """Positions of a network's actors: layers by their number, inputs with their first reader, outputs with their
    producer. phased: the network, cut into phases for one image.
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
        producers = {name: number[layer.name] for name, layer in network.producer.items()}
        found = {}
        for work in conversion.actors:
            if work.name in number:
                found[work.name] = number[work.name]
            elif work.kind == "input":
                readers = network.readers[work.writes[0].tensor.name]
                found[work.name] = min((number[layer.name] for layer, _ in readers), default=0)
            else:
                found[work.name] = producers.get(work.reads[0].tensor.name, 0)
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
        """Every tensor with the ranks of its producer and of its last reader."""
        network = self.phased.conversion.network
        number = {layer.name: at for at, layer in enumerate(network.layers)}
        for name, readers in network.readers.items():
            ranks = [number[layer.name] for layer, _ in readers]
            if ranks:
                producer = network.producer.get(name)
                yield name, min(ranks) if producer is None else number[producer.name], max(ranks)

    def single(self) -> tuple[Cut, ...]:
        """The cuts that one tensor crosses: they separate the layers of the paper's main path."""
        return tuple(cut for cut in self.cuts if len(cut.tensors) == 1)

    def worth(self, most: int) -> tuple[Cut, ...]:
        """At most so many cuts, those that the fewest bytes cross: of cuts that no more bytes cross than their
        neighbours, and of those before layers that read mostly weights, which the images of a batch share.
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
