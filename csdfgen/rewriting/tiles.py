"""Networks whose maps are computed a few columns at a time: cloned layers, slices, joins.

Rows of full width are the least that a row-phased layer can hold; less memory needs narrower rows. A
region of layers is cloned into tiles, each of which computes some columns of the region's output,
and what it reads for that, from its input columns on. Columns near an edge between tiles are computed
by both (a halo), so that memory is paid for in multiply-accumulates (patch-based execution is the
case of one region from the image on).

A tile reads its columns as a Slice, and joins what several tiles made with a Concat; padding stays
only where the map ends. A region may end in a global pool: every tile pools its own columns, and the
parts are weighted and added. Results of tiles are tensors of their own, so that those of one region
are gone as soon as the tiles of the next have read them.

A map that a gate multiplies (squeeze and excite) is whole until its mean is known. Its region may be computed twice: the
mean reads clones of the layers that make the map, whose rows are gone as soon as they are added up. That the clones
compute what the layers did is proved elsewhere, without this arithmetic (`tile_conditions`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from csdfgen.errors import InputError
from csdfgen.model.naming import number_unused_name
from csdfgen.model.network import Layer, Network, Node, Tensor
from csdfgen.model.rows import Rows
from csdfgen.ops import OPERATORS, get_operator
from csdfgen.ops.base import Mode
from csdfgen.ops.windows import list_windows
from csdfgen.rewriting.tile_conditions import SLIDING, check_tiles, is_pointwise

COLUMNS = 3
"""The axis that is cut: the width of NCHW."""

ROWS = 2

GLOBAL = MappingProxyType({"GlobalAveragePool": "Add", "GlobalMaxPool": "Max"})
"""Global pools, and what makes one of the pools of two parts."""

_OPSET = 13


@dataclass(frozen=True, slots=True)
class Region:
    """Layers [first, last] of a network, in its order, computed in `tiles` parts of the output's
    columns. One tile is the layers as they are; 0: what reductions over whole maps read is computed for them alone
    (`find_recomputed`).

    follows: its tiles run as soon as those of the region before it that they read have run;
        otherwise that region is complete before.
    """

    first: int
    last: int
    tiles: int
    follows: bool = False

    def __str__(self) -> str:
        return f"{self.first}-{self.last}:{self.tiles}"


def format_regions(regions: Iterable[Region]) -> str:
    """Regions as text; "&" stands before one that follows.

    >>> format_regions([Region(0, 5, 9), Region(6, 8, 9, True), Region(9, 12, 0)])
    '0-5:9&6-8:9,9-12:0'
    """
    text = "".join(f"{'&' if region.follows else ','}{region}" for region in regions)
    return text[1:]


_REGION = re.compile(r"([,&])(\d{1,6})-(\d{1,6}):(\d{1,6})")


def parse_regions(text: str) -> tuple[Region, ...]:
    """Regions from their text. Raises InputError.

    >>> parse_regions("0-5:9&6-8:9")[1]
    Region(first=6, last=8, tiles=9, follows=True)
    """
    marked = f",{text}" if text else ""
    found = tuple(
        Region(int(first), int(last), int(tiles), mark == "&")
        for mark, first, last, tiles in _REGION.findall(marked)
    )
    if format_regions(found) != text:
        raise InputError(f"tiles '{text}': not regions such as 0-5:9&6-8:9,9-12:3")
    return found


# What can be cut -----------------------------------------------------------------------------------


def _is_map(tensor: Tensor) -> bool:
    return len(tensor.shape) == 4 and tensor.row_axis == ROWS


def is_tileable(layer: Layer) -> bool:
    """Whether columns of the layer's output follow from columns of its inputs."""
    computed = [tensor for tensor in layer.inputs if tensor is not None]
    if not computed or len(layer.outputs) != 1 or not all(map(_is_map, [*computed, layer.output])):
        return False
    if any(axis != ROWS for k, axis in enumerate(layer.input_axes) if layer.inputs[k] is not None):
        return False
    if not all(map(is_pointwise, layer.epilogue)):
        return False
    return layer.op_type in SLIDING or is_pointwise(layer)


def _pools_all(layer: Layer) -> bool:
    """Whether the layer is a global pool whose parts can be joined."""
    source = layer.inputs[0] if layer.inputs else None
    is_map = source is not None and _is_map(source) and len(layer.outputs) == 1
    return layer.op_type in GLOBAL and is_map and not layer.epilogue and layer.stored is None


def boundaries(network: Network) -> tuple[int, ...]:
    """Positions p such that all layers from p on read one map of those before alone; 0 where the network
    has one image. A region extends from one of them to another.
    """
    last_read = {
        tensor.name: at
        for at, layer in enumerate(network.layers)
        for tensor in layer.inputs
        if tensor is not None
    }
    for name in network.output_tensors:
        last_read[name] = len(network.layers)
    alive = {tensor.name for tensor in network.inputs if tensor.name in last_read}
    if len(alive) != 1 or not all(_is_map(t) for t in network.inputs if t.name in alive):
        return ()
    found = [0]
    for at, layer in enumerate(network.layers):
        alive |= {tensor.name for tensor in layer.outputs if tensor.name in last_read}
        alive = {name for name in alive if last_read[name] > at}
        if alive == {layer.output.name} and _is_map(layer.output):
            found.append(at + 1)
    return tuple(found)


def max_tiles(layers: Sequence[Layer]) -> int:
    """Tiles that a region of these layers can have: a column each, or 1 where one of them mixes
    columns (a global pool is the last one then, or there is none), or is in a branch.
    """
    *body, last = layers
    if (
        any(layer.guards for layer in layers)
        or not all(map(is_tileable, body))
        or not (_pools_all(last) or is_tileable(last))
    ):
        return 1
    return tile_target(last).shape[COLUMNS]


def input_columns(layer: Layer, tensor: Tensor, out: Rows) -> Rows:
    """Columns of an input that columns `out` of the output are computed from; at least one."""
    if layer.op_type not in SLIDING:
        return out
    width = tensor.shape[COLUMNS]
    read = list_windows(layer.attributes)[1].input_rows(out, width)
    if read:
        return read
    start = min(read.start, width - 1)  # a window inside the padding
    return Rows(start, start + 1)


def find_recomputed(layers: Sequence[Layer]) -> list[tuple[Layer, tuple[Layer, ...]]]:
    """Of a region the layers that sum up a whole map of it which others read later on, each with the layers that make the
    map from rows of what the region reads, or of a gate.
    """
    found = []
    if any(layer.guards for layer in layers):
        return []
    for at, layer in enumerate(layers):
        source = layer.inputs[0] if layer.inputs else None
        if source is None or get_operator(layer).mode(layer) is not Mode.ACCUMULATE:
            continue
        wanted, makers = {source.name}, list[Layer]()
        for maker in reversed(layers[:at]):
            if maker.output.name in wanted and maker.output.rows > 1 and is_tileable(maker):
                makers.insert(0, maker)
                wanted |= {tensor.name for tensor in maker.inputs if tensor is not None}
        made = {maker.output.name for maker in makers}
        alone = {id(layer), *map(id, makers)}
        others = (one for one in layers if id(one) not in alone)
        if source.name in made and any(
            tensor.name in made for one in others for tensor in one.inputs if tensor is not None
        ):
            found.append((layer, tuple(makers)))
    return found


# The rewriting -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tiled:
    """network: the one that computes in tiles. sinks: layers in the order in which each is to be
    complete: the last one of every tile in the order in which tiles run. tile_of: clone -> the layer it
    is a clone of, by name.
    """

    network: Network
    sinks: tuple[str, ...]
    tile_of: Mapping[str, str]


def tile_network(network: Network, regions: Sequence[Region]) -> Tiled:
    """The network with regions of its layers computed in tiles of columns; the same outputs up to
    rounding.

    Raises InputError for regions that do not extend from one of the `boundaries` to another, one behind the other, or
    that have more tiles than columns; BrokenRewritingError if a clone does not compute what it should.
    """
    _check_regions(network, regions)
    made = _Tiling(network)
    for region in regions:
        made.add_region(region)
    made.add_layers(len(network.layers))
    rewritten = replace(network, layers=tuple(made.layers), original=network)
    known = check_tiles(network, rewritten, made.tile_of)
    parts = {
        name: (columns.tensor, columns.start, columns.stop)
        for name, columns in known.items()
        if columns.tensor != name and not columns.part
    }
    rewritten = replace(rewritten, parts=MappingProxyType(parts))
    return Tiled(rewritten, tuple(made.sinks()), MappingProxyType(dict(made.tile_of)))


def _check_regions(network: Network, regions: Sequence[Region]) -> None:
    known, before = boundaries(network), 0
    for region in regions:
        where = f"tiles '{region}' of '{network.name}'"
        if not before <= region.first <= region.last < len(network.layers):
            raise InputError(f"{where}: layers {before} to {len(network.layers) - 1} are left")
        if region.first not in known or region.last + 1 not in known:
            raise InputError(f"{where}: regions lie between layers {_listed(known)}")
        layers = network.layers[region.first : region.last + 1]
        most = max_tiles(layers)
        if not region.tiles and not find_recomputed(layers):
            raise InputError(f"{where}: no map is summed up and read again, so 1 to {most} tiles")
        if not 0 <= region.tiles <= most:
            raise InputError(f"{where}: {most} columns can be computed apart, so 1 to {most} tiles")
        before = region.last + 1


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "(none can be cut)"


def tile_target(layer: Layer) -> Tensor:
    """The map whose columns the tiles of a region share among them: its output, or what a global
    pool at its end reads.
    """
    if layer.op_type in GLOBAL:
        assert layer.inputs[0] is not None
        return layer.inputs[0]
    return layer.output


@dataclass(frozen=True, slots=True)
class _Piece:
    """Columns of a map, as a tensor; the layer that completes it, and the region and tile it is of."""

    columns: Rows
    tensor: Tensor


@dataclass(slots=True)
class _Run:
    """What a region's tiles need to be put in order: their last layers, and for each the pieces of the
    region before that it reads.
    """

    region: Region
    ends: list[str] = field(default_factory=list)
    reads: list[Rows] = field(default_factory=list)
    pieces: list[Rows] = field(default_factory=list)


class _Tiling:
    """A rewriting under way: layers so far, and which columns of which map are to be had where."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.layers: list[Layer] = []
        self.tile_of: dict[str, str] = {}
        self.runs: list[_Run] = []
        self._done = 0
        self._pieces: dict[str, list[_Piece]] = {}
        self._taken = set(network.tensors)
        self._layers_taken = {layer.name for layer in network.layers}

    # Layers as they are ------------------------------------------------------------------------

    def add_layers(self, stop: int) -> None:
        """Layers before `stop` as they are, with whole maps of what tiles have made."""
        for layer in self.network.layers[self._done : stop]:
            for tensor in layer.inputs:
                self._whole(tensor)
            self.layers.append(layer)
        self._done = stop
        if stop == len(self.network.layers):
            for output in self.network.outputs:
                self._whole(output.tensor)

    def _whole(self, tensor: Tensor | None) -> None:
        """Join the pieces of a map that is wanted whole."""
        pieces = self._pieces.pop(tensor.name, None) if tensor is not None else None
        if pieces is not None and tensor is not None:
            self._join(tensor.name, [piece.tensor for piece in pieces])

    # Tiles -------------------------------------------------------------------------------------

    def add_region(self, region: Region) -> None:
        """All tiles of a region."""
        self.add_layers(region.first)
        run = _Run(region)
        layers = self.network.layers[region.first : region.last + 1]
        target = tile_target(layers[-1])
        if region.tiles < 2:
            twice = () if region.tiles else find_recomputed(layers)
            for layer, makers in twice:
                self.add_layers(self.network.layers.index(layer))
                self._add_once_more(layer, makers)
            self.add_layers(region.last + 1)
            width = Rows(0, target.shape[COLUMNS])
            run.ends, run.pieces, run.reads = [layers[-1].name], [width], [Rows(0, 1 << 30)]
            self.runs.append(run)
            return
        self._done = region.last + 1
        parts = list(split_columns(target, region.tiles))
        results: list[Tensor] = []
        for number, part in enumerate(parts):
            results.append(self._tile(layers, number, part, run, results))
        run.pieces = parts
        self.runs.append(run)
        if not _pools_all(layers[-1]):
            self._pieces[target.name] = [
                _Piece(part, tensor) for part, tensor in zip(parts, results, strict=True)
            ]

    def _add_once_more(self, layer: Layer, makers: Sequence[Layer]) -> None:
        """A layer that reads clones of the layers which make its source."""
        held: dict[str, Tensor] = {}
        for maker in makers:
            for tensor in maker.inputs:
                self._whole(tensor)
            clone = _clone(
                maker,
                self._layer_named(f"{maker.name}/again"),
                tuple(None if t is None else held.get(t.name, t) for t in maker.inputs),
                Rows(0, maker.output.shape[COLUMNS]),
                self._named(f"{maker.output.name}/again"),
            )
            self._add(clone, maker.name)
            held[maker.output.name] = clone.output
        inputs = tuple(None if t is None else held.get(t.name, t) for t in layer.inputs)
        self.layers.append(replace(layer, inputs=inputs))
        self._done += 1

    def _tile(
        self, layers: Sequence[Layer], number: int, part: Rows, run: _Run, done: Sequence[Tensor]
    ) -> Tensor:
        """One tile's clones; what it makes, of a pool with what the tiles before it have."""
        pools = layers[-1] if _pools_all(layers[-1]) else None
        body = layers[:-1] if pools is not None else layers
        wanted = required_columns(layers, part)
        own = {layer.output.name for layer in body}
        entry = next(name for name in wanted if name not in own)
        run.reads.append(wanted[entry])
        held = {entry: _Piece(wanted[entry], self._columns(entry, wanted[entry], number))}
        for layer in body:
            columns = wanted[layer.output.name]
            inputs = tuple(
                None
                if tensor is None
                else self._within(held[tensor.name], input_columns(layer, tensor, columns))
                for tensor in layer.inputs
            )
            name = self._layer_named(f"{layer.name}/tile{number}")
            output = self._named(f"{layer.output.name}/tile{number}")
            clone = _clone(layer, name, inputs, columns, output)
            self._add(clone, layer.name)
            held[layer.output.name] = _Piece(columns, clone.output)
        end = held[tile_target(layers[-1]).name].tensor
        if pools is not None:
            end = self._pooled(pools, end, number, part, done[-1] if done else None)
        run.ends.append(self.layers[-1].name)
        return end

    def _pooled(
        self, pool: Layer, source: Tensor, number: int, part: Rows, before: Tensor | None
    ) -> Tensor:
        """The pool of a tile's columns, added to that of the tiles before it."""
        width = tile_target(pool).shape[COLUMNS]
        output = replace(pool.output, name=self._named(f"{pool.output.name}/tile{number}"))
        clone = replace(
            pool,
            name=self._layer_named(f"{pool.name}/tile{number}"),
            inputs=(source,),
            outputs=(output,),
            attributes=MappingProxyType({**pool.attributes, "kernel_shape": source.shape[2:]}),
            onnx_nodes=pool.onnx_nodes or (pool.name,),
        )
        self._add(clone, pool.name)
        result = output
        if pool.op_type == "GlobalAveragePool":
            share = np.array(len(part) / width, result.dtype)
            shared = self._named(f"{pool.output.name}/share{number}")
            result = self._node("Mul", (result, share), shared)
        if before is None:
            return result
        last = part.stop == width
        total = pool.output.name if last else self._named(f"{pool.output.name}/sum{number}")
        return self._node(GLOBAL[pool.op_type], (before, result), total)

    def _columns(self, name: str, columns: Rows, number: int) -> Tensor:
        """Columns of a map as they enter a tile."""
        tensor = self.network.tensors[name]
        pieces = self._pieces.get(name)
        if pieces is None:
            width = Rows(0, tensor.shape[COLUMNS])
            return self._within(_Piece(width, tensor), columns)
        read = [
            p for p in pieces if p.columns.start < columns.stop and p.columns.stop > columns.start
        ]
        if len(read) == 1:
            return self._within(read[0], columns)
        parts = []
        for piece in read:
            start, stop = (
                max(piece.columns.start, columns.start),
                min(piece.columns.stop, columns.stop),
            )
            # always copied: a tensor that is stored in a join lives as long as the join
            parts.append(self._slice(piece, Rows(start, stop)))
        return self._join(self._named(f"{name}/for{number}"), parts)

    def _within(self, piece: _Piece, columns: Rows) -> Tensor:
        return piece.tensor if piece.columns == columns else self._slice(piece, columns)

    def _slice(self, piece: _Piece, columns: Rows) -> Tensor:
        start, stop = columns.start - piece.columns.start, columns.stop - piece.columns.start
        name = self._named(f"{piece.tensor.name}[{start}:{stop}]")
        bounds = (np.array([one], np.int64) for one in (start, stop, COLUMNS))
        return self._node("Slice", (piece.tensor, *bounds), name)

    def _join(self, name: str, parts: Sequence[Tensor]) -> Tensor:
        return self._node("Concat", tuple(parts), name, axis=COLUMNS)

    # Names and layers --------------------------------------------------------------------------

    def _node(
        self,
        op_type: str,
        operands: tuple[Tensor | np.ndarray, ...],
        output: str,
        **attributes: int,
    ) -> Tensor:
        """A layer that is no clone, and its output."""
        name = self._named(f"{output}/join") if output in self.network.tensors else output
        node = Node(name, op_type, _OPSET, attributes, operands, (output,))
        layer = OPERATORS[op_type].build(node)
        self.layers.append(layer)
        return layer.output

    def _add(self, clone: Layer, original: str) -> None:
        self.tile_of[clone.name] = original
        self.layers.append(clone)

    def _named(self, wanted: str) -> str:
        """A name for a tensor; layers that are no clones share it with their output."""
        return number_unused_name(wanted, self._taken, self._layers_taken)

    def _layer_named(self, wanted: str) -> str:
        return number_unused_name(wanted, self._layers_taken)

    # Order -------------------------------------------------------------------------------------

    def sinks(self) -> Iterator[str]:
        """The last layer of every tile, in the order in which tiles run."""
        cascades: list[list[_Run]] = []
        for run in self.runs:
            if run.region.follows and cascades:
                cascades[-1].append(run)
            else:
                cascades.append([run])
        for cascade in cascades:
            yield from _in_turn(cascade)


def _in_turn(cascade: Sequence[_Run]) -> Iterator[str]:
    """Tiles of regions that follow each other: those of the last one in turn, each behind the tiles
    that it waits for.
    """
    done = [0] * len(cascade)

    def up_to(at: int, count: int) -> Iterator[str]:
        run = cascade[at]
        while done[at] < count:
            number = done[at]
            if at:
                above = cascade[at - 1].pieces
                yield from up_to(at - 1, sum(p.start < run.reads[number].stop for p in above))
            done[at] += 1
            yield run.ends[number]

    for at in (len(cascade) - 1, *range(len(cascade))):
        yield from up_to(at, len(cascade[at].ends))


def split_columns(target: Tensor, tiles: int) -> tuple[Rows, ...]:
    """The columns of a map as they are shared among tiles, as equally as can be.

    >>> [len(part) for part in split_columns(Tensor("x", (1, 1, 4, 7), row_axis=2), 3)]
    [2, 2, 3]
    """
    width = target.shape[COLUMNS]
    return tuple(Rows(c * width // tiles, (c + 1) * width // tiles) for c in range(tiles))


def required_columns(layers: Sequence[Layer], part: Rows) -> dict[str, Rows]:
    """Columns of every map that a tile of a region with columns `part` of its target has to have."""
    found = {tile_target(layers[-1]).name: part}
    for layer in reversed(layers):
        if _pools_all(layer):
            continue
        columns = found[layer.output.name]
        for tensor in layer.inputs:
            if tensor is not None:
                read = input_columns(layer, tensor, columns)
                found[tensor.name] = found.get(tensor.name, read).union(read)
    return found


def _clone(
    layer: Layer, name: str, inputs: tuple[Tensor | None, ...], columns: Rows, made: str
) -> Layer:
    """A layer that makes columns of its output from those columns of its inputs that they need."""
    attributes = dict(layer.attributes)
    if layer.op_type in SLIDING:
        source, window = layer.computed(0), list_windows(layer.attributes)[1]
        read = input_columns(layer, source, columns)
        first = columns.start * window.stride - window.pad_top
        end = (columns.stop - 1) * window.stride - window.pad_top + window.extent
        top, _, bottom, right = attributes["pads"]
        attributes["pads"] = (top, read.start - first, bottom, min(right, end - read.stop))
    output = _cut(layer.output, columns, made)
    return replace(
        layer,
        name=name,
        inputs=inputs,
        outputs=(output,),
        attributes=MappingProxyType(attributes),
        epilogue=tuple(_applied(after, columns, output) for after in layer.epilogue),
        onnx_nodes=layer.onnx_nodes or (layer.name,),
    )


def _applied(after: Layer, columns: Rows, output: Tensor) -> Layer:
    """A layer of an epilogue on fewer columns."""
    inputs = tuple(None if t is None else _cut(t, columns, output.name) for t in after.inputs)
    return replace(after, inputs=inputs, outputs=(_cut(after.output, columns, output.name),))


def _cut(tensor: Tensor, columns: Rows, name: str) -> Tensor:
    return replace(tensor, name=name, shape=(*tensor.shape[:COLUMNS], len(columns)))
