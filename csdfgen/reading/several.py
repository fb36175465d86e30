"""How do several networks become one, with one arena, one order of firings and one proof?

    csdfgen schedule detector.onnx reader.onnx --rates 1,4 --connect detector.boxes,detector.x=reader.x:crop

Layers, inputs and outputs keep their names behind that of their network: `detector.x`. A network with a rate runs up to so many
times a frame, as copies that share their weights; its inputs and outputs have those of all runs along axis 0. An input that is
connected is a tensor of another network, or what a connection makes of some: `crop` cuts a region out of an image for each run,
and a run without a region is left out, as a branch of an If is; its outputs are zeros.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import InputError, option
from csdfgen.model.describe import sizes
from csdfgen.model.naming import number_unused_name
from csdfgen.model.network import Connection, Guard, Layer, Member, Network, Node, Output, Tensor
from csdfgen.ops import OPERATORS
from csdfgen.ops.base import build_with_tensors
from csdfgen.ops.joining import constant_layer

CROP = "crop"
"""The connection that is built in."""

_MOST_RUNS = 64


@dataclass(frozen=True)
class Several:
    """Networks that are to be one. sources: files, names of the zoo, or models in memory, by the names of their networks. rates:
    runs of each in a frame. after: (network, the one that it runs after). connect: as typed. shapes: of inputs, as typed.
    """

    sources: Mapping[str, Any]
    rates: tuple[int, ...] = ()
    after: tuple[str, ...] = ()
    connect: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As one text, which names a model wherever one is named: [a.onnx b.onnx --rates 1,4]."""
        words = [_source_text(name, one) for name, one in self.sources.items()]
        words += ["--rates", ",".join(map(str, self.rates))] if set(self.rates) - {1} else []
        for flag in ("after", "connect", "shape"):
            given = getattr(self, "shapes" if flag == "shape" else flag)
            words += chain.from_iterable((f"--{flag}", one) for one in given)
        return f"[{shlex.join(words)}]"


def _source_text(name: str, source: Any) -> str:
    text = source if isinstance(source, str) else _stem(source)
    return text if name == _stem(text) else f"{name}={text}"


def _stem(source: Any) -> str:
    """What a network is called: as its file, or as it calls itself."""
    if not isinstance(source, str):
        source = getattr(getattr(source, "graph", source), "name", "") or "network"
    elif not source.startswith("zoo:"):
        source = Path(source).stem
    return re.sub(r"\W", "_", source.removeprefix("zoo:"))


def is_several(source: Any) -> bool:
    """Whether a model that is named, or given, is several networks."""
    text = isinstance(source, str) and source.startswith("[") and source.endswith("]")
    return text or isinstance(source, list | tuple)


def list_networks(
    sources: Iterable[Any],
    rates: str | Iterable[int] | None = None,
    after: str | Iterable[str] | Mapping[str, str] | None = None,
    connect: str | Iterable[str] | Mapping[str, str] | None = None,
    shapes: Iterable[str] = (),
) -> Several:
    """Networks that are to be one. Raises InputError."""
    named: dict[str, Any] = {}
    taken: set[str] = set()
    for one in sources:
        source = os.fspath(one) if isinstance(one, os.PathLike) else one
        known = isinstance(source, str | bytes | Network) or hasattr(source, "SerializeToString")
        if not known and not hasattr(source, "state_dict"):
            raise InputError(
                f"a list of models has {type(source).__name__}; files, names of the zoo, or models are needed"
            )
        given = re.fullmatch(r"(\w+)=(.+)", one) if isinstance(one, str) else None
        if given and not Path(one).exists():
            name, source = given.groups()
        named[number_unused_name(name if given else _stem(source), taken)] = source
    return Several(named, _rates(rates, len(named)), *map(_texts, (after, connect, shapes)))


def _texts(given: str | Iterable[str] | Mapping[str, str] | None) -> tuple[str, ...]:
    if isinstance(given, str):
        return (given,)
    pairs = given.items() if isinstance(given, Mapping) else ()
    return tuple(f"{left}={right}" for left, right in pairs) or tuple(given or ())


def _rates(given: str | Iterable[int] | None, count: int) -> tuple[int, ...]:
    parts = given.split(",") if isinstance(given, str) else [str(one) for one in given or ()]
    text = option("rates", ",".join(parts))
    if any(
        not re.fullmatch(r"\s*0*[1-9]\d{0,3}\s*", one) or int(one) > _MOST_RUNS for one in parts
    ):
        raise InputError(
            f"{text}: runs in a frame are needed, each from 1 to {_MOST_RUNS}, such as 1,4"
        )
    if parts and len(parts) != count:
        raise InputError(f"{text}: {len(parts)} rates for {count} networks; one each is needed")
    return tuple(map(int, parts)) or (1,) * count


def parse_several(text: str) -> Several:
    """The networks of a text such as [a.onnx b.onnx --rates 1,4]. Raises InputError."""
    found: dict[str, list[str]] = {
        "": [],
        "--rates": [],
        "--after": [],
        "--connect": [],
        "--shape": [],
    }
    try:
        words = iter(shlex.split(text[1:-1]))
        for word in words:
            found[word if word.startswith("--") else ""].append(
                next(words) if word.startswith("--") else word
            )
    except (ValueError, KeyError, StopIteration) as error:
        raise InputError(
            f"is no list of networks, such as [a.onnx b.onnx --rates 1,4]: {error}", where=text
        ) from None
    rates = found["--rates"][-1] if found["--rates"] else None
    return list_networks(found[""], rates, found["--after"], found["--connect"], found["--shape"])


def replace_sources(text: str, change: Callable[[str], str]) -> str:
    """The text with other files."""
    one = parse_several(text)
    return str(replace(one, sources={name: change(source) for name, source in one.sources.items()}))


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
    members = [
        Member(
            name,
            source if isinstance(source, Network) else load(source, of[name], values[name]),
            source,
            rate,
        )
        for (name, source), rate in zip(asked.sources.items(), asked.rates, strict=True)
    ]
    as_typed = tuple(
        f"{name}={size if isinstance(size, str) else sizes(size)}" for name, size in shapes.items()
    )
    found = _Union(members, asked)
    return found.network(str(replace(asked, shapes=as_typed)))


def _by_network(given: Mapping[str, Any], names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """By network what is given of its inputs."""
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    for name, value in given.items():
        network = next((one for one in found if name.startswith(f"{one}.")), None)
        if network is None:
            raise InputError(
                f"'{name}' is an input of none of the networks {', '.join(found)}; write {next(iter(found))}.INPUT"
            )
        found[network][name[len(network) + 1 :]] = value
    return found


@dataclass
class _Run:
    """A run of a network. tensors: for its inputs. guard: whether it is one, None where it always is."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    guard: Tensor | None = None

    def guards(self, prefix: str) -> tuple[Guard, ...]:
        """Those of its layers. prefix: of their names."""
        return () if self.guard is None else (Guard(f"{prefix}runs", True),)


class _Union:
    """The layers of all networks."""

    def __init__(self, members: Sequence[Member], asked: Several) -> None:
        if len(members) < 2:
            raise InputError(f"two or more networks share a memory; {len(members)} is given")
        self._members = {one.name: one for one in members}
        wrong = next((one for one in members if one.network.batch > 1), None)
        if wrong is not None:
            raise InputError(
                f"'{wrong.name}' takes {wrong.network.batch} images; several networks take one each, give rates"
            )
        self._layers: list[Layer] = []
        self._inputs: list[Tensor] = []
        self._outputs: list[Output] = []
        self._bounded: dict[str, int] = {}
        self._ends: dict[str, Tensor] = {}
        self._connections = self._parse_connections(asked.connect)
        self._after = self._parse_after(asked.after)
        for member in self._sorted():
            self._add(member)

    def network(self, source: str) -> Network:
        """All of it."""
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
        places = {one.name: at for at, one in enumerate(self._members.values())}

        def at(one: Any) -> int:
            return max(
                (place for name, place in places.items() if one.name.startswith(f"{name}.")),
                default=0,
            )

        return Network(
            "_and_".join(self._members),
            tuple(sorted(self._inputs, key=at)),
            tuple(sorted(self._outputs, key=at)),
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
        """By input, `network.input`."""
        starts = {
            f"{one.name}.{o.name}" for one in self._members.values() for o in one.network.outputs
        }
        ends = {
            f"{one.name}.{t.name}" for one in self._members.values() for t in one.network.inputs
        }
        found: dict[str, Connection] = {}
        for text in given:
            where = option("connect", text)
            cut = [k for k, letter in enumerate(text) if letter == "="]
            sides = [(text[:k], text[k + 1 :]) for k in cut]
            target, left = next(
                (
                    (end, left)
                    for left, right in sides
                    for end in ends
                    if f"{right}:".startswith(f"{end}:")
                ),
                (None, ""),
            )
            if target is None:
                raise InputError(
                    f"{where}: names no input; A.OUTPUT=B.INPUT is needed, inputs are {', '.join(sorted(ends))}"
                )
            sources = tuple(left.split(","))
            unknown = next((one for one in sources if one not in starts | ends), None)
            if unknown is not None:
                raise InputError(
                    f"{where}: '{unknown}' is no output; outputs are {', '.join(sorted(starts))}"
                )
            if target in found:
                raise InputError(f"{where}: '{target}' is connected twice")
            function = text[len(left) + 1 + len(target) + 1 :]
            network = next(name for name in self._members if target.startswith(f"{name}."))
            found[target] = Connection(sources, network, target[len(network) + 1 :], function)
        return found

    def _sorted(self) -> list[Member]:
        """The networks, each behind those that it waits for. Raises InputError for a cycle."""
        waits = {name: set(early) for name, early in self._after.items()}
        for one in self._connections.values():
            waits[one.network] |= {
                name for name in waits for s in one.sources if s.startswith(f"{name}.")
            }
        try:
            return [self._members[name] for name in TopologicalSorter(waits).static_order()]
        except CycleError as error:
            raise InputError(
                f"networks wait for each other: {' after '.join(error.args[1])}"
            ) from None

    # Layers ---------------------------------------------------------------------------------------

    def _add(self, member: Member) -> None:
        """All runs of a network."""
        runs = [_Run() for _ in range(member.rate)]
        regions = {
            feed.input: self._regions(feed, member, runs)
            for feed in self._connections.values()
            if feed.network == member.name and feed.function == CROP
        }
        for tensor in member.network.inputs:
            parts = (
                self._crop(regions[tensor.name], member, tensor, runs)
                if tensor.name in regions
                else self._feed(member, tensor)
            )
            for run, part in zip(runs, parts, strict=True):
                run.tensors[tensor.name] = self._with_rows(part, tensor)
        results = [self._add_run(member, number, run) for number, run in enumerate(runs)]
        for output, *of_runs in zip(member.network.outputs, *results, strict=True):
            self._end(f"{member.name}.{output.name}", of_runs)

    def _feed(self, member: Member, tensor: Tensor) -> list[Tensor]:
        """What the runs of a network read as an input: one of all networks, or a tensor of another one."""
        name, count = f"{member.name}.{tensor.name}", member.rate
        whole = replace(tensor, name=name)
        if count > 1:
            whole = replace(
                whole, shape=_stacked(tensor.shape, count), row_axis=_moved_axis(tensor)
            )
        connection = self._connections.get(name)
        if connection is None:
            self._inputs.append(whole)
        else:
            if connection.function:
                raise InputError(
                    f"{option('connect', connection)}: there is no connection '{connection.function}'; {CROP} is one"
                )
            of = [self._find(source, connection) for source in connection.sources]
            if [(one.shape, one.dtype) for one in of] != [(whole.shape, whole.dtype)]:
                found = " and ".join(f"{one.dtype} {sizes(one.shape)}" for one in of)
                raise InputError(
                    f"{option('connect', connection)}: gives {found}, '{name}' takes {whole.dtype} {sizes(whole.shape)}; make "
                    f"it fit with a connection, such as {CROP}"
                )
            whole = of[0]
        self._ends[name] = whole
        return (
            [whole]
            if count == 1
            else [self._part(whole, tensor, k, f"{name}:{k}") for k in range(count)]
        )

    def _find(self, source: str, connection: Connection) -> Tensor:
        found = self._ends.get(source)
        if found is None:
            raise InputError(
                f"{option('connect', connection)}: '{source}' is a constant, or connected itself; name what it is of"
            )
        return found

    def _part(self, whole: Tensor, one: Tensor, number: int, name: str) -> Tensor:
        """The tensor of a run out of that of all."""
        ends = (np.array([at]) for at in (number, number + 1, 0))
        part = self._make("Slice", name, whole, *ends)
        return (
            part
            if part.shape == one.shape
            else self._make("Reshape", f"{name} reshaped", part, np.array(one.shape, np.int64))
        )

    def _with_rows(self, found: Tensor, wanted: Tensor) -> Tensor:
        """A tensor with the rows that a network's input has."""
        if found.row_axis == wanted.row_axis:
            return found
        made = self._make(
            "Identity", f"{found.name} as rows", replace(found, row_axis=wanted.row_axis)
        )
        self._layers[-1] = replace(self._layers[-1], inputs=(found,))
        return made

    def _regions(
        self, connection: Connection, member: Member, runs: Sequence[_Run]
    ) -> tuple[Connection, list[Tensor]]:
        """The region of each run, whose guard it is that the region has an area."""
        boxes = self._find(connection.sources[0], connection)
        if (
            len(boxes.shape) != 2
            or boxes.shape[0] < len(runs)
            or boxes.shape[1] < 4
            or boxes.dtype != "float32"
        ):
            raise InputError(
                f"{option('connect', connection)}: '{connection.sources[0]}' is {boxes.dtype} {sizes(boxes.shape)}, {CROP} takes "
                f"float32 {len(runs)}x4 or more: the corners x, y, x, y of the region of each run"
            )
        found = []
        for number, run in enumerate(runs):
            name = f"{member.prefixes[number]}{connection.input}"
            ends = (np.array(one) for one in ([number, 0], [number + 1, 4], [0, 1]))
            found.append(self._make("Slice", f"{name} region", boxes, *ends))
            low, high = (
                self._make(
                    "Slice",
                    f"{name} corner {k}",
                    found[-1],
                    *(np.array([at]) for at in (k, k + 2, 1)),
                )
                for k in (0, 2)
            )
            side = self._make(
                "ReduceMin",
                f"{name} side",
                self._make("Sub", f"{name} sides", high, low),
                keepdims=0,
            )
            there = self._make("Greater", f"{name} there", side, np.array(0, np.float32))
            run.guard = (
                there
                if run.guard is None
                else self._make("And", f"{name} and others", run.guard, there)
            )
        return connection, found

    def _crop(
        self,
        regions: tuple[Connection, list[Tensor]],
        member: Member,
        tensor: Tensor,
        runs: Sequence[_Run],
    ) -> list[Tensor]:
        """For each run a region of an image, in the size of the input."""
        connection, boxes = regions
        where = option("connect", connection)
        if len(connection.sources) != 2:
            raise InputError(
                f"{where}: {CROP} takes regions and an image; write A.BOXES,A.IMAGE=B.INPUT:{CROP}"
            )
        image = self._find(connection.sources[1], connection)
        fits = len(image.shape) == len(tensor.shape) == 4 and image.shape[:2] == tensor.shape[
            :2
        ] == (1, image.shape[1])
        if not fits or {image.dtype, tensor.dtype} != {"float32"}:
            raise InputError(
                f"{where}: '{connection.sources[1]}' is {image.dtype} {sizes(image.shape)}, '{member.name}.{tensor.name}' "
                f"{tensor.dtype} {sizes(tensor.shape)}; {CROP} takes float32 images with equal channels"
            )
        rows, columns = tensor.shape[2:]
        size = {"output_height": rows, "output_width": columns, "sampling_ratio": 1}
        return [
            self._make(
                "RoiAlign", f"{member.prefixes[k]}{tensor.name}", image, box, np.zeros(1, np.int64),
                guards=run.guards(member.prefixes[k]), **size,
            )
            for k, (box, run) in enumerate(zip(boxes, runs, strict=True))
        ]  # fmt: skip

    def _make(
        self,
        op_type: str,
        name: str,
        *operands: Tensor | np.ndarray,
        guards: tuple[Guard, ...] = (),
        **attributes: Any,
    ) -> Tensor:
        """What a layer of ours makes, with a name of its own."""
        node = Node(name, op_type, 17, attributes, operands, (name,))

        def written(name: str, value: np.ndarray) -> Tensor:
            self._layers.append(constant_layer(name, name, value))
            return self._layers[-1].output

        made = build_with_tensors(OPERATORS[op_type].layers, node, written)
        self._layers += (replace(one, guards=guards) for one in made)
        return self._layers[-1].output

    def _add_run(self, member: Member, number: int, run: _Run) -> list[Tensor | np.ndarray]:
        """The layers of a run; its outputs."""
        prefix, known = member.prefixes[number], dict(run.tensors)
        for layer in member.network.layers:
            one = _renamed(layer, prefix, known)
            self._layers.append(replace(one, guards=run.guards(prefix) + one.guards))
        self._bounded |= {f"{prefix}{name}": axis for name, axis in member.network.bounded.items()}
        found: list[Tensor | np.ndarray] = []
        for output in member.network.outputs:
            value = known[output.tensor.name] if output.tensor is not None else output.constant
            assert value is not None
            if run.guard is not None and isinstance(value, Tensor):
                zero = np.zeros((1,) * len(value.shape), value.dtype)
                value = self._make(
                    "Where", f"{prefix}{output.name} or none", run.guard, value, zero
                )
                joined = self._layers[-1]
                attributes = MappingProxyType(
                    {**joined.attributes, "branch": run.guards(prefix)[0].branch}
                )
                self._layers[-1] = replace(joined, attributes=attributes)
            found.append(value)
        return found

    def _end(self, name: str, of_runs: Sequence[Tensor | np.ndarray]) -> None:
        """An output of a network, of all its runs."""
        first = of_runs[0]
        if isinstance(first, np.ndarray):
            whole = (
                first
                if len(of_runs) == 1
                else np.broadcast_to(first, _stacked(first.shape, 1)).repeat(len(of_runs), 0)
            )
            self._outputs.append(Output(name, None, whole))
            return
        if len(of_runs) == 1:
            made = first
        else:
            shape = np.array(_stacked(first.shape, 1), np.int64)
            parts = [
                one if one.shape[:1] == (1,) else self._make("Reshape", f"{name}:{k}", one, shape)
                for k, one in enumerate(of_runs)
                if isinstance(one, Tensor)
            ]
            made = self._make("Concat", name, *parts, axis=0)
        self._ends[name] = made
        self._outputs.append(Output(name, made))


def _stacked(shape: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The shape of so many tensors along axis 0, which is theirs if it is 1."""
    return (count, *(shape[1:] if shape[:1] == (1,) else shape))


def _moved_axis(tensor: Tensor) -> int | None:
    """The row axis of tensors of this one's shape that are stacked."""
    if tensor.row_axis is None:
        return None
    return tensor.row_axis + (tensor.shape[:1] != (1,))


def _renamed(layer: Layer, prefix: str, known: dict[str, Tensor]) -> Layer:
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
        epilogue=tuple(_renamed(one, prefix, known) for one in layer.epilogue),
        onnx_nodes=tuple(f"{prefix}{one}" for one in layer.onnx_nodes),
        guards=tuple(Guard(f"{prefix}{one.branch}", one.taken) for one in layer.guards),
    )
