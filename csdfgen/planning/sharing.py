"""Which tensors share memory? Concat and Split as views, elementwise results in place.

A *buffer* holds rows. Every tensor is stored in one buffer, at an element offset and with one stride per dimension of its
row. The result of a Concat that computes nothing may also be spread over several buffers, with a piece of each row in
each. Without sharing each tensor has its own buffer. Row i of a tensor is always stored in row i of its buffers.

Sharing is a forest: each tensor has at most one parent from which its place is derived.
 - VIEW: an output is part of its input (Split, Slice, Reshape, Flatten, Transpose of unit axes).
 - MERGE: an input is part of the output (Concat): the layer that writes the input writes it there.
 - INPLACE: the operand has the place of the output, if no other layer reads the operand.
 - CHOICE: the results of two branches of an If have the place of the output: only one of them is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from types import MappingProxyType

import numpy as np

from csdfgen.model.frozen import Pickled
from csdfgen.model.network import Guard, Layer, Network, Tensor, are_exclusive
from csdfgen.model.rows import Rows
from csdfgen.ops import get_operator
from csdfgen.ops.base import Alias, AliasKind, Takes


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor is stored: buffer, offset in its row and strides of the row's dimensions, in elements."""

    buffer: str
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """A tensor whose rows are in several buffers: `sizes[k]` consecutive positions of dimension `along` of its row at
    `places[k]`.
    """

    along: int
    sizes: tuple[int, ...]
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Sharing(Pickled):
    """Places of all tensors, `spread` for those in several buffers; buffers by name as the tensor whose rows they have.

    silent: layers whose outputs need no computation, because every element is already stored in its place.
    """

    places: Mapping[str, Place]
    buffers: Mapping[str, Tensor]
    silent: frozenset[str]
    spread: Mapping[str, Spread] = field(default_factory=lambda: MappingProxyType({}))

    def homes(self, name: str) -> tuple[Place, ...]:
        """The place of a tensor, or those of its pieces."""
        spread = self.spread.get(name)
        return (self.places[name],) if spread is None else spread.places

    def piece(self, tensor: Tensor, buffer: str) -> tuple[Place, tuple[int, ...]]:
        """Place and row shape of a tensor, or of its piece, in one of its buffers."""
        spread = self.spread.get(tensor.name)
        if spread is None:
            return self.places[tensor.name], tensor.row_shape
        at = next(k for k, place in enumerate(spread.places) if place.buffer == buffer)
        shape = list(tensor.row_shape)
        shape[spread.along] = spread.sizes[at]
        return spread.places[at], tuple(shape)

    @cached_property
    def members(self) -> Mapping[str, tuple[str, ...]]:
        """Buffer name -> names of the tensors in it."""
        out: dict[str, list[str]] = {name: [] for name in self.buffers}
        for tensor in (*self.places, *self.spread):
            for where in self.homes(tensor):
                out[where.buffer].append(tensor)
        return MappingProxyType({name: tuple(tensors) for name, tensors in out.items()})


def contiguous_strides(shape: tuple[int, ...], size: int = 1) -> tuple[int, ...]:
    """Strides of a contiguous row of elements of `size` units."""
    return tuple(size * prod(shape[axis + 1 :]) for axis in range(len(shape)))


_RESHAPES_WITHOUT_COPY = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
"""Older versions refuse to copy only when the shape of a view is set, which is deprecated from numpy 2.5 on."""


def _reshaped(
    shape: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Strides of a strided row with another shape; None if numpy needs a copy for that."""
    dummy = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), shape, strides)
    try:
        if _RESHAPES_WITHOUT_COPY:
            return np.reshape(dummy, new, copy=False).strides
        view = dummy.view()
        view.shape = new
    except (AttributeError, ValueError):
        return None
    return view.strides


@dataclass(frozen=True, slots=True)
class _Link:
    """A child tensor is part of its parent: from position `start` of dimension `dim` of its row on, or for None the whole
    row in another shape.
    """

    parent: str
    dim: int | None
    start: int


class _Forest:
    """The links so far, and the places that follow from them."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.links: dict[str, _Link] = {}
        self.children: dict[str, list[str]] = {}

    def root(self, name: str) -> str:
        while name in self.links:
            name = self.links[name].parent
        return name

    def place(self, name: str) -> Place | None:
        """The place that follows from the links; None if another shape of a strided row needs a copy."""
        tensors = self.network.tensors
        tensor = tensors[name]
        link = self.links.get(name)
        if link is None:
            return Place(name, 0, contiguous_strides(tensor.row_shape))
        parent = tensors[link.parent]
        outer = self.place(link.parent)
        if outer is None:
            return None
        if link.dim is not None:
            return Place(
                outer.buffer, outer.offset + link.start * outer.strides[link.dim], outer.strides
            )
        if tensor.row_shape == parent.row_shape:
            return Place(outer.buffer, outer.offset, outer.strides)
        strides = _reshaped(parent.row_shape, outer.strides, tensor.row_shape)
        return None if strides is None else Place(outer.buffer, outer.offset, strides)

    def try_link(self, child: str, link: _Link) -> bool:
        """Add a link unless it contradicts the others (a second parent, a cycle, a place that needs a copy, or one that the
        result of another branch has at the same time).
        """
        if child in self.links or self.root(link.parent) == child:
            return False
        before, after = self.network.tensors[child], self.network.tensors[link.parent]
        if before.rows != after.rows:
            return False
        self.links[child] = link
        if any(self.place(name) is None for name in self.below(child)) or self._is_taken(child):
            del self.links[child]
            return False
        self.children.setdefault(link.parent, []).append(child)
        return True

    def _is_taken(self, child: str) -> bool:
        """Whether what another branch makes may be in the new place of a tensor, or of what is stored there before it, when
        that is written: it is made for the same images, and not in place of it.
        """
        guards, parent, mine = self._guards, self.links[child].parent, self.below(child)
        for other in set(self.below(self.root(parent))).difference(mine):
            if are_exclusive(guards(other), guards(parent)):
                maker = self.network.producer[other]
                aliases = (a for a in get_operator(maker).aliases(maker) if a.dim is None)
                read = {t.name for a in aliases if (t := maker.inputs[a.position]) is not None}
                late = (n for n in mine if not are_exclusive(guards(other), guards(n)))
                if child not in read and not read.issuperset(late):
                    return True
        return False

    def _guards(self, name: str) -> tuple[Guard, ...]:
        maker = self.network.producer.get(name)
        return maker.guards if maker is not None else ()

    def unlink(self, child: str) -> None:
        """Take a link back."""
        self.children[self.links.pop(child).parent].remove(child)

    def below(self, name: str) -> list[str]:
        """The tensor and all tensors whose places are derived from it."""
        found = [name]
        for parent in found:
            found.extend(self.children.get(parent, ()))
        return found


def _sole_reader(network: Network, name: str, layer: Layer) -> bool:
    pairs = network.readers[name]
    return len(pairs) == 1 and pairs[0][0] is layer and name not in network.output_tensors


def _reads_alone(forest: _Forest, name: str, layer: Layer) -> bool:
    """Whether nobody else reads a tensor, or needs it for the images for which a layer of a branch is computed."""
    return _sole_reader(forest.network, name, layer) or _is_alternative(forest, name, layer)


def _is_alternative(forest: _Forest, name: str, layer: Layer) -> bool:
    """Whether a layer of a branch is the only one of its branch that reads a tensor, and those of other branches write in
    place of it what is joined with the layer's result.
    """
    network = forest.network
    readers = [one for one, _ in network.readers[name]]
    if len(readers) < 2 or readers.count(layer) > 1 or name in network.output_tensors:
        return False
    place = forest.place(layer.output.name)
    return all(
        one is layer
        or (
            are_exclusive(one.guards, layer.guards)
            and forest.place(one.output.name) == place
            and any(
                source is not None and source.name == name and alias.dim is None
                for alias in get_operator(one).aliases(one)
                for source in (one.inputs[alias.position],)
            )
        )
        for one in readers
    )


def _may_overwrite(forest: _Forest, name: str, layer: Layer) -> bool:
    """Whether `layer` may overwrite a tensor: it is the only reader of the tensor (but for layers of other branches), of its
    parts, and of the tensors that it is a view of.
    """
    network = forest.network
    if not _reads_alone(forest, name, layer):
        return False
    while _parts_are_free(forest, name):
        if name not in forest.links:
            return True
        parent = forest.links[name].parent
        producer = network.producer.get(name)
        if producer is None or all(t is None or t.name != parent for t in producer.inputs):
            return False  # merged into a tensor that another layer writes
        if not _sole_reader(network, parent, producer):
            return False
        name = parent
    return False


def _parts_are_free(forest: _Forest, name: str) -> bool:
    """Whether every operand that is merged into a tensor is read only by the layer that joins it.

    Another reader may come later, and the rows must then stay unchanged (an image that is joined with its own
    convolution, whose window still needs rows above the newest).
    """
    network = forest.network
    for part in forest.below(name)[1:]:
        joins = network.producer.get(forest.links[part].parent)
        merged = joins is not None and any(t is not None and t.name == part for t in joins.inputs)
        if merged and joins is not None and not _reads_alone(forest, part, joins):
            return False
    return True


def _link(forest: _Forest, layer: Layer, alias: Alias) -> None:
    """The link of a view, or of an operand that is merged, unless one of the two tensors is a network output: it is
    stored to the end, and must not keep more than its own rows.
    """
    source, output = layer.inputs[alias.position], layer.outputs[alias.output]
    outputs = forest.network.output_tensors
    if source is not None and (output.name in outputs) == (source.name in outputs):
        child, parent = output.name, source.name
        if alias.kind in (AliasKind.MERGE, AliasKind.CHOICE):
            child, parent = parent, child
        forest.try_link(child, _Link(parent, alias.dim, alias.start))


def _link_choices(forest: _Forest, layer: Layer, choices: list[Alias]) -> None:
    """The results of both branches have the place of the output, or none has."""
    network = forest.network
    guard = layer.attributes["branch"]
    for alias in choices:
        source = layer.inputs[alias.position]
        maker = network.producer.get(source.name) if source is not None else None
        own = (*layer.guards, Guard(guard, alias.position == 1))
        if source is None or maker is None or maker.guards != own:
            return
        if not _sole_reader(network, source.name, layer):
            return
    for alias in choices:
        _link(forest, layer, alias)
    made = [alias for alias in choices if _is_linked(forest, layer, alias)]
    for alias in made if len(made) < len(choices) else ():
        source = layer.computed(alias.position)
        forest.unlink(source.name)


def _is_linked(forest: _Forest, layer: Layer, alias: Alias) -> bool:
    source = layer.inputs[alias.position]
    link = forest.links.get(source.name) if source is not None else None
    return link == _Link(layer.outputs[alias.output].name, alias.dim, alias.start)


def _link_shared_prefix(forest: _Forest, layer: Layer, merges: list[Alias]) -> None:
    """A Concat whose operands are already contiguous in a larger one is a part of that one (DenseNet)."""
    output = layer.outputs[0]
    if output.name in forest.links or output.name in forest.network.output_tensors:
        return
    links = []
    for alias in merges:
        source = layer.inputs[alias.position]
        link = forest.links.get(source.name) if source is not None else None
        if link is None or link.dim != alias.dim or link.dim is None:
            return
        links.append((link, alias))
    parents = {link.parent for link, _ in links}
    offsets = {link.start - alias.start for link, alias in links}
    if len(links) > 1 and len(parents) == 1 and len(offsets) == 1 and min(offsets) >= 0:
        forest.try_link(output.name, _Link(parents.pop(), merges[0].dim, offsets.pop()))


def _link_inplace(forest: _Forest, layer: Layer, alias: Alias) -> bool:
    source = layer.inputs[alias.position]
    output = layer.outputs[alias.output]
    if source is None or not _may_overwrite(forest, source.name, layer):
        return False
    if forest.try_link(source.name, _Link(output.name, None, 0)):
        return True
    return forest.try_link(output.name, _Link(source.name, None, 0))


def _link_result(forest: _Forest, layer: Layer, alias: Alias) -> None:
    """What a branch only hands on has the place of the result of both branches, if it may be overwritten there."""
    source, output = layer.inputs[alias.position], layer.outputs[alias.output]
    handed_on = layer.guards and alias.dim is None and source is not None
    if source is None or not handed_on or output.name not in forest.links:
        return
    if source.name not in forest.links and _may_overwrite(forest, source.name, layer):
        _link(forest, layer, replace(alias, kind=AliasKind.MERGE))


def _aliases(
    network: Network, *kinds: AliasKind, fed: frozenset[str]
) -> list[tuple[Layer, list[Alias]]]:
    found = []
    for layer in network.layers:
        if (not layer.epilogue or AliasKind.INPLACE in kinds) and layer.name not in fed:
            of_kind = [a for a in get_operator(layer).aliases(layer) if a.kind in kinds]
            if of_kind:
                found.append((layer, of_kind))
    return found


def share(
    network: Network,
    *,
    together: bool = True,
    apart: bool = False,
    kept: bool = False,
    fed: frozenset[str] = frozenset(),
) -> Sharing:
    """Places of all tensors of a network; every tensor has its own buffer unless `together`.

    apart: operands of a Concat that computes nothing keep separate buffers, over which its result is spread; otherwise
    they are contiguous in its rows. kept: outputs stay in their buffers, and each in one. fed: Slices of an input that is
    not in the arena (`phases.conversion.find_fed_slices`), which are no views.
    """
    forest = _Forest(network)
    if together:
        joins = _aliases(network, AliasKind.MERGE, AliasKind.CHOICE, fed=fed)
        for layer, merges in reversed(joins):
            if "branch" in layer.attributes:
                _link_choices(forest, layer, merges)
                continue
            for alias in merges:
                _link(forest, layer, alias)
            _link_shared_prefix(forest, layer, merges)
        for layer, views in _aliases(network, AliasKind.VIEW, fed=fed):
            for alias in views:
                _link(forest, layer, alias)
        for layer, views in _aliases(network, AliasKind.VIEW, fed=fed):
            for alias in views:
                _link_result(forest, layer, alias)
        for layer, inplace in _aliases(network, AliasKind.INPLACE, fed=fed):
            there = [forest.place(t.name) for t in layer.inputs if t is not None]
            if forest.place(layer.output.name) not in there:  # no branch has put one there
                any(_link_inplace(forest, layer, alias) for alias in inplace)
    places: dict[str, Place] = {}
    for name in network.tensors:
        where = forest.place(name)
        assert where is not None
        places[name] = where
    buffers = {w.buffer: network.tensors[w.buffer] for w in places.values()}
    silent = frozenset(
        layer.name
        for layer in network.layers
        if layer.name not in fed and _is_silent(layer, places, network)
    )
    whole = Sharing(MappingProxyType(places), MappingProxyType(buffers), silent)
    return _taken_apart(network, whole, kept=kept) if apart else whole


# Pieces ------------------------------------------------------------------------------------------


def _taken_apart(network: Network, whole: Sharing, *, kept: bool) -> Sharing:
    """The same sharing with every buffer divided into the pieces that different layers write, except buffers of outputs
    that are kept.
    """
    places, buffers = dict(whole.places), dict(whole.buffers)
    spread: dict[str, Spread] = {}
    for home, names in whole.members.items():
        axis = _axis_of_pieces(network, whole, home)
        if axis is None or (kept and not network.output_tensors.isdisjoint(names)):
            continue
        pieces = _pieces(network, whole, home, axis)
        if len(pieces) < 2 or any(_is_gathered(network, name) for name in names):
            continue
        del buffers[home]
        buffers.update((name, network.tensors[name]) for name, _, _ in pieces)
        for name in names:
            found = _pieces_of(network, whole, name, axis, pieces)
            if len(found.places) == 1:
                places[name] = found.places[0]
            else:
                del places[name]
                spread[name] = found
    return Sharing(
        MappingProxyType(places), MappingProxyType(buffers), whole.silent, MappingProxyType(spread)
    )


def _is_gathered(network: Network, name: str) -> bool:
    """Whether a product that reads all rows of an operand at once would gather a tensor from pieces in the workspace."""
    return any(
        get_operator(layer).multiplies
        and get_operator(layer).takes(layer, position) is Takes.EVEN
        and any(
            rows is not None and t is not None and len(rows) == t.rows > 1
            for t, rows in zip(
                layer.inputs, get_operator(layer).input_rows(layer, Rows(0, 1)), strict=True
            )
        )
        for layer, position in network.readers[name]
    )


def _axis_of_pieces(network: Network, whole: Sharing, home: str) -> int | None:
    """The dimension along which all tensors of a buffer are ranges of its rows; None if there is none."""
    names, root = whole.members[home], whole.buffers[home]
    if len(names) < 3 or not root.row_elements:
        return None
    steps = contiguous_strides(root.row_shape)
    for axis in reversed(range(len(root.row_shape))):
        others = [size for dim, size in enumerate(root.row_shape) if dim != axis]
        for name in names:
            place, shape = whole.places[name], network.tensors[name].row_shape
            same = len(shape) == len(steps) and place.strides == steps
            if not same or [size for dim, size in enumerate(shape) if dim != axis] != others:
                break
            start, rest = divmod(place.offset, steps[axis])
            if rest or start + shape[axis] > root.row_shape[axis]:
                break
        else:
            return axis
    return None


def _range(network: Network, whole: Sharing, name: str, axis: int) -> tuple[int, int]:
    place = whole.places[name]
    start = place.offset // place.strides[axis]
    return start, start + network.tensors[name].row_shape[axis]


def _pieces(network: Network, whole: Sharing, home: str, axis: int) -> list[tuple[str, int, int]]:
    """(tensor, start, stop) of the ranges that are written separately and together are the row; empty if they are not."""
    ranges: dict[tuple[int, int], str] = {}
    for name in whole.members[home]:
        layer = network.producer.get(name)
        written = layer is None or layer.name not in whole.silent
        if written and not _is_over_others(network, whole, name):
            ranges.setdefault(_range(network, whole, name, axis), name)
    joined: list[list[int]] = []
    for start, stop in sorted(ranges):
        if joined and start < joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], stop)
        else:
            joined.append([start, stop])
    ends = [0, *(stop for _, stop in joined)]
    covers = [start for start, _ in joined] == ends[:-1]
    if not covers or ends[-1] != whole.buffers[home].row_shape[axis]:
        return []
    if any((start, stop) not in ranges for start, stop in joined):
        return []
    return [(ranges[start, stop], start, stop) for start, stop in joined]


def _is_over_others(network: Network, whole: Sharing, name: str) -> bool:
    """Whether a tensor is written in place of an operand that is joined from pieces, and may have the same pieces."""
    layer = network.producer.get(name)
    if layer is None:
        return False
    for alias in get_operator(layer).aliases(layer):
        operand = layer.inputs[alias.position]
        if alias.kind is AliasKind.INPLACE and operand is not None:
            maker = network.producer.get(operand.name)
            together = maker is not None and maker.name in whole.silent
            if together and whole.places[operand.name] == whole.places[name]:
                return operand.row_shape == network.tensors[name].row_shape
    return False


def _pieces_of(
    network: Network, whole: Sharing, name: str, axis: int, pieces: list[tuple[str, int, int]]
) -> Spread:
    """The places of a tensor in the pieces that it overlaps."""
    start, stop = _range(network, whole, name, axis)
    sizes, places = [], []
    for buffer, low, high in pieces:
        first, last = max(start, low), min(stop, high)
        if first < last:
            steps = contiguous_strides(network.tensors[buffer].row_shape)
            sizes.append(last - first)
            places.append(Place(buffer, (first - low) * steps[axis], steps))
    return Spread(axis, tuple(sizes), tuple(places))


def _is_silent(layer: Layer, places: Mapping[str, Place], network: Network) -> bool:
    """Whether every element of every output is already stored where the layer would copy it."""
    if layer.epilogue:
        return False
    aliases = [a for a in get_operator(layer).aliases(layer) if a.kind is not AliasKind.INPLACE]
    for index, output in enumerate(layer.outputs):
        mine = [a for a in aliases if a.output == index]
        views = [a for a in mine if a.kind is AliasKind.VIEW]
        merges = [a for a in mine if a.kind is AliasKind.MERGE]
        choices = [a for a in mine if a.kind is AliasKind.CHOICE]
        if choices and all(
            _is_within(output, layer.inputs[a.position], a, places) for a in choices
        ):
            continue
        if views and _is_within(layer.inputs[views[0].position], output, views[0], places):
            continue
        operands = [t for t in layer.inputs if t is not None]
        complete = bool(merges) and len(merges) == len(operands) and not layer.constants
        if complete and all(
            _is_within(output, layer.inputs[a.position], a, places) for a in merges
        ):
            continue
        return False
    return True


def _is_within(
    outer: Tensor | None, inner: Tensor | None, alias: Alias, places: Mapping[str, Place]
) -> bool:
    """Whether `inner` is stored in `outer` at the place of the alias."""
    if outer is None or inner is None or outer.rows != inner.rows:
        return False
    big, small = places[outer.name], places[inner.name]
    if big.buffer != small.buffer:
        return False
    if alias.dim is not None:
        return small == Place(
            big.buffer, big.offset + alias.start * big.strides[alias.dim], big.strides
        )
    if outer.row_shape == inner.row_shape:
        return big == small
    strides = _reshaped(outer.row_shape, big.strides, inner.row_shape)
    return strides is not None and small == Place(big.buffer, big.offset, strides)
