"""How do several networks become one, with one arena, one order of firings and one proof?

    csdfgen schedule detector.onnx reader.onnx --rates 1,4 --connect detector.boxes,detector.x=reader.x:crop

Layers, inputs and outputs keep their names behind that of their network: `detector.x`. A network with a rate runs up to so many
times a frame, as copies that share their weights, with inputs and outputs of their own: `reader.1.x`. An input that is connected
is a tensor of another network, or what `crop` makes of two: for each run the region of an image that a row of the other tensor
says. A run whose region has no area is left out, as a branch of an If is; its outputs are zeros. Functions that are registered
(`csdfgen.register_function`) make inputs, or regions: `detector.map:find,detector.x=reader.x:crop`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import InputError, name_inputs_behind, option
from csdfgen.model.describe import sizes
from csdfgen.model.network import (
    Connection,
    Guard,
    Layer,
    Member,
    Network,
    Node,
    Output,
    Shape,
    Tensor,
)
from csdfgen.model.several import CROP, Several
from csdfgen.ops import OPERATORS
from csdfgen.ops.functions import FUNCTION, check_name


def load_several(
    asked: Several,
    load: Callable[..., Network],
    shapes: Mapping[str, Any],
    fixed: Mapping[str, Any],
) -> Network:
    """The networks as one. load: reads one of them. shapes, fixed: of inputs by their names, each behind that of its network.
    Raises InputError, and as `load`.
    """
    typed = {name: size for name, _, size in (one.rpartition("=") for one in asked.shapes)}
    shapes = {**typed, **shapes}
    of, values = _by_network(shapes, asked.sources), _by_network(fixed, asked.sources)
    members = []
    for (name, one), rate in zip(asked.sources.items(), asked.rates, strict=True):
        with name_inputs_behind(name):
            read = one if isinstance(one, Network) else load(one, of[name], values[name])
        members.append(Member(name, read, one, rate))
    texts = (
        f"{name}={one if isinstance(one, str) else sizes(one)}" for name, one in shapes.items()
    )
    return _Union(members, asked).network(str(replace(asked, shapes=tuple(texts))))


def _by_network(given: Mapping[str, Any], names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """By network what is given of its inputs."""
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    for name, value in given.items():
        network, _, inner = name.partition(".")
        if network not in found:
            raise InputError(
                f"'{name}' is an input of none of the networks {', '.join(found)}; write NETWORK.INPUT"
            )
        found[network][inner] = value
    return found


class _Union:
    """The layers of all networks."""

    def __init__(self, members: Sequence[Member], asked: Several) -> None:
        if len(members) < 2:
            raise InputError(f"two or more networks share a memory; {len(members)} is given")
        self._members = {one.name: one for one in members}
        wrong = next((one for one in members if one.network.batch > 1), None)
        if wrong is not None:
            raise InputError(
                f"'{wrong.name}' is for {wrong.network.batch} images; several networks take one image each"
            )
        self._layers: list[Layer] = []
        self._inputs: list[Tensor] = []
        self._outputs: list[Output] = []
        self._bounded: dict[str, int] = {}
        self._ends: dict[str, Tensor] = {}
        self._connections = self._parse_connections(asked.connect)
        self._after = self._parse_after(asked.after)
        for member in self._sorted():
            for prefix in member.prefixes:
                self._add(member, prefix)

    def network(self, source: str) -> Network:
        """All of it, ends in the order of the networks."""
        members = tuple(
            replace(
                one,
                feeds=tuple(
                    feed for feed in self._connections.values() if feed.network == one.name
                ),
                after=tuple(sorted(self._after[one.name])),
            )
            for one in self._sorted()
        )
        fixed = {
            f"{one.name}.{name}": value
            for one in members
            for name, value in one.network.fixed.items()
        }
        places = [*self._members]

        def place(end: Tensor | Output) -> int:
            return places.index(end.name.partition(".")[0])

        return Network(
            "_and_".join(self._members),
            tuple(sorted(self._inputs, key=place)),
            tuple(sorted(self._outputs, key=place)),
            tuple(self._layers),
            source=source,
            fixed=MappingProxyType(fixed),
            bounded=MappingProxyType(self._bounded),
            members=members,
        )

    # What is asked for ----------------------------------------------------------------------------

    def _parse_after(self, given: Iterable[str]) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {name: set() for name in self._members}
        for text in given:
            late, _, early = text.partition("=")
            for name in (late, early):
                if name not in found:
                    raise InputError(
                        f"{option('after', text)}: '{name}' is none of the networks {', '.join(found)}"
                    )
            found[late].add(early)
        return found

    def _parse_connections(self, given: Iterable[str]) -> dict[str, Connection]:
        """By input."""
        runs = [(prefix, one) for one in self._members.values() for prefix in one.prefixes]
        ends = {
            f"{one.name}.{t.name}": (one.name, t.name)
            for one in self._members.values()
            for t in one.network.inputs
        }
        starts = [f"{prefix}{end.name}" for prefix, one in runs for end in one.network.outputs]
        starts += [f"{prefix}{end.name}" for prefix, one in runs for end in one.network.inputs]
        found: dict[str, Connection] = {}
        for text in given:
            where = option("connect", text)
            sides = ((text[:k], text[k + 1 :]) for k, letter in enumerate(text) if letter == "=")
            both = (
                (left, end, right[len(end) + 1 :])
                for left, right in sides
                for end in ends
                if f"{right}:".startswith(f"{end}:")
            )
            left, target, function = next(both, ("", "", ""))
            if not target:
                raise InputError(
                    f"{where}: A.OUTPUT=B.INPUT is needed; the inputs are {', '.join(ends)}"
                )
            sources, functions = _split_sources(left, starts, where)
            if target in found:
                raise InputError(f"{where}: '{target}' is connected twice")
            if any(one and at != len(sources) - 2 for at, one in enumerate(functions)) or (
                any(functions) and function != CROP
            ):
                raise InputError(
                    f"{where}: a function makes regions of what is before it; write A.MAP:FUNCTION,A.IMAGE=B.INPUT:{CROP}"
                )
            for name in filter(None, (*functions, function)):
                check_name(name, where)
            found[target] = Connection(sources, *ends[target], function, "".join(functions))
        return found

    def _sorted(self) -> list[Member]:
        """The networks, each behind those that it waits for. Raises InputError for a cycle."""
        waits = {name: set(early) for name, early in self._after.items()}
        for one in self._connections.values():
            waits[one.network] |= {source.partition(".")[0] for source in one.sources}
        try:
            return [self._members[name] for name in TopologicalSorter(waits).static_order()]
        except CycleError as error:
            raise InputError(
                f"networks wait for each other: {' after '.join(error.args[1])}"
            ) from None

    # Layers ---------------------------------------------------------------------------------------

    def _add(self, member: Member, prefix: str) -> None:
        """The layers of a run."""
        feeds = {one.input: one for one in self._connections.values() if one.network == member.name}
        crops = [one for one in feeds.values() if one.function == CROP]
        number = member.prefixes.index(prefix)
        regions = {one.input: self._region(one, member, number) for one in crops}
        condition = self._condition([*regions.values()], prefix)
        guards: tuple[Guard, ...] = () if condition is None else (Guard(f"{prefix}runs", True),)
        known: dict[str, Tensor] = {}
        for tensor in member.network.inputs:
            mine = replace(tensor, name=f"{prefix}{tensor.name}")
            feed = feeds.get(tensor.name)
            if feed is None:
                self._inputs.append(mine)
            elif feed.function == CROP:
                mine = self._with_rows(self._crop(feed, regions[tensor.name], mine, guards), tensor)
            elif feed.function:
                mine = self._with_rows(self._share(feed, member, number, mine), tensor)
            else:
                mine = self._with_rows(self._same(feed, mine), tensor)
            known[tensor.name] = self._ends[f"{prefix}{tensor.name}"] = mine
        for layer in member.network.layers:
            one = _rename(layer, prefix, known)
            self._layers.append(replace(one, guards=guards + one.guards))
        self._bounded |= {f"{prefix}{name}": axis for name, axis in member.network.bounded.items()}
        for output in member.network.outputs:
            name = f"{prefix}{output.name}"
            made = None if output.tensor is None else known[output.tensor.name]
            if made is not None and condition is not None:
                made = self._or_zeros(name, condition, made, guards[0])
            self._outputs.append(Output(name, made, output.constant))
            if made is not None:
                self._ends[name] = made

    def _find(self, feed: Connection, number: int) -> Tensor:
        """What a connection reads."""
        found = self._ends.get(feed.sources[number])
        if found is None:
            raise InputError(
                f"{option('connect', feed)}: '{feed.sources[number]}' is a constant; connect what is computed"
            )
        return found

    def _same(self, feed: Connection, wanted: Tensor) -> Tensor:
        """A tensor of another network as it is."""
        found = self._find(feed, 0)
        if len(feed.sources) > 1 or (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
            raise InputError(
                f"{option('connect', feed)}: '{feed.sources[0]}' is {found.dtype} {sizes(found.shape)}, '{wanted.name}' is "
                f"{wanted.dtype} {sizes(wanted.shape)}; connect tensors of one shape, or take regions of an image with :{CROP}"
            )
        return found

    def _with_rows(self, found: Tensor, wanted: Tensor) -> Tensor:
        """A tensor with the rows that a network's input has."""
        if found.row_axis == wanted.row_axis:
            return found
        made = self._make(
            "Identity", f"{found.name} as rows", replace(found, row_axis=wanted.row_axis)
        )
        self._layers[-1] = replace(self._layers[-1], inputs=(found,))
        return made

    def _called(
        self, feed: Connection, function: str, count: int, shape: Shape, dtype: str
    ) -> Tensor:
        """What a function makes of `count` sources, once for all runs."""
        name = f"{function} of {','.join(feed.sources[:count])}"
        if name not in self._ends:
            given = [self._find(feed, k) for k in range(count)]
            settings: dict[str, Any] = {"function": function, "shape": shape, "dtype": dtype}
            self._ends[name] = self._make(FUNCTION.op_type, name, *given, **settings)
        return self._ends[name]

    def _share(self, feed: Connection, member: Member, number: int, wanted: Tensor) -> Tensor:
        """The part of a run of what a function makes for all of them, one behind the other."""
        count, runs = wanted.shape[0], member.rate
        shape = (runs * count, *wanted.shape[1:])
        whole = self._called(feed, feed.function, len(feed.sources), shape, wanted.dtype)
        if runs == 1:
            return whole
        part = [np.array([at]) for at in (count * number, count * (number + 1), 0)]
        return self._make("Slice", wanted.name, whole, *part)

    def _region(self, feed: Connection, member: Member, number: int) -> Tensor:
        """The corners of the region of a run."""
        if feed.finder:
            count = len(feed.sources) - 1
            boxes = self._called(feed, feed.finder, count, (member.rate, 4), "float32")
        else:
            boxes = self._find(feed, 0)
        if (
            len(boxes.shape) != 2
            or boxes.shape[0] <= number
            or boxes.shape[1] < 4
            or boxes.dtype != "float32"
        ):
            raise InputError(
                f"{option('connect', feed)}: '{feed.sources[0]}' is {boxes.dtype} {sizes(boxes.shape)}, {CROP} takes float32 "
                f"{number + 1}x4 or more: the corners x, y, x, y of the region of each run"
            )
        starts, ends, axes = np.array([number, 0]), np.array([number + 1, 4]), np.array([0, 1])
        name = f"{member.prefixes[number]}{feed.input} region"
        return self._make("Slice", name, boxes, starts, ends, axes)

    def _condition(self, regions: Sequence[Tensor], prefix: str) -> Tensor | None:
        """Whether all regions of a run have an area; None without any."""
        there: Tensor | None = None
        for number, region in enumerate(regions):
            low, high = (
                self._make(
                    "Slice",
                    f"{prefix}corner {number}.{k}",
                    region,
                    *(np.array([at]) for at in (k, k + 2, 1)),
                )
                for k in (0, 2)
            )
            sides = self._make("Sub", f"{prefix}sides {number}", high, low)
            least = self._make("ReduceMin", f"{prefix}least {number}", sides, keepdims=0)
            one = self._make("Greater", f"{prefix}there {number}", least, np.array(0, np.float32))
            there = (
                one
                if there is None
                else self._make("And", f"{prefix}all there {number}", there, one)
            )
        return there

    def _crop(
        self, feed: Connection, region: Tensor, wanted: Tensor, guards: tuple[Guard, ...]
    ) -> Tensor:
        """A region of an image, in the size of an input."""
        if len(feed.sources) != 2 and not feed.finder:
            raise InputError(
                f"{option('connect', feed)}: {CROP} takes regions and an image; write A.BOXES,A.IMAGE=B.INPUT:{CROP}"
            )
        image, shape = self._find(feed, len(feed.sources) - 1), wanted.shape
        fits = (
            len(image.shape) == len(shape) == 4 and image.shape[:2] == shape[:2] and shape[0] == 1
        )
        if not fits or {image.dtype, wanted.dtype} != {"float32"}:
            raise InputError(
                f"{option('connect', feed)}: '{feed.sources[-1]}' is {image.dtype} {sizes(image.shape)}, '{wanted.name}' is "
                f"{wanted.dtype} {sizes(shape)}; {CROP} takes one float32 image with the channels of the input"
            )
        size = {"output_height": shape[2], "output_width": shape[3], "sampling_ratio": 1}
        return self._make(
            "RoiAlign", wanted.name, image, region, np.zeros(1, np.int64), guards=guards, **size
        )

    def _or_zeros(self, name: str, condition: Tensor, made: Tensor, guard: Guard) -> Tensor:
        """An output of a run, or zeros if that is left out."""
        zero = np.zeros((1,) * len(made.shape), made.dtype)
        found = self._make("Where", f"{name} or zeros", condition, made, zero)
        attributes = MappingProxyType({**self._layers[-1].attributes, "branch": guard.branch})
        self._layers[-1] = replace(self._layers[-1], attributes=attributes)
        return found

    def _make(
        self,
        op_type: str,
        name: str,
        *operands: Tensor | np.ndarray,
        guards: tuple[Guard, ...] = (),
        **attributes: Any,
    ) -> Tensor:
        """What a layer of ours makes."""
        made = OPERATORS[op_type].layers(Node(name, op_type, 17, attributes, operands, (name,)))
        self._layers += (replace(one, guards=guards) for one in made)
        return self._layers[-1].output


def _split_sources(
    text: str, starts: Sequence[str], where: str
) -> tuple[tuple[str, ...], list[str]]:
    """Tensors with commas between them, and the function behind each, "" for none. starts: all tensors that there are."""
    names, functions = list[str](), list[str]()
    for piece in text.split(","):
        name, _, function = (piece, "", "") if piece in starts else piece.rpartition(":")
        if name not in starts:
            raise InputError(
                f"{where}: '{name or piece}' is no output; there are {', '.join(starts)}"
            )
        names.append(name)
        functions.append(function)
    return tuple(names), functions


def _rename(layer: Layer, prefix: str, known: dict[str, Tensor]) -> Layer:
    """A layer with names behind a prefix. known: tensors by their names in the network."""

    def named(tensor: Tensor) -> Tensor:
        return known.setdefault(tensor.name, replace(tensor, name=f"{prefix}{tensor.name}"))

    attributes = layer.attributes
    if "branch" in attributes:
        attributes = MappingProxyType({**attributes, "branch": f"{prefix}{attributes['branch']}"})
    return replace(
        layer,
        name=f"{prefix}{layer.name}",
        inputs=tuple(t and named(t) for t in layer.inputs),
        outputs=tuple(map(named, layer.outputs)),
        attributes=attributes,
        epilogue=tuple(_rename(one, prefix, known) for one in layer.epilogue),
        onnx_nodes=tuple(f"{prefix}{one}" for one in layer.onnx_nodes),
        guards=tuple(Guard(f"{prefix}{one.branch}", one.taken) for one in layer.guards),
    )
