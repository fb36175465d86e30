"""A network in memory: tensors, layers, and the connections between them.

Tensors keep their ONNX shape. They are stored *rows first*: the row axis, then the axes after it, then the axes before it.
For NCHW with row axis 2 that is [H, W, N, C]: a row is contiguous and channels are last (docs/model.md). A tensor without a
row axis is one row in ONNX order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, wraps
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from csdfgen.model.describe import (
    format_entries,
    format_repr,
    html_table,
    mebibytes,
    shorten_name,
    sizes,
)
from csdfgen.model.formats import FLOAT32, Format, Stored
from csdfgen.model.frozen import Pickled

_Value = TypeVar("_Value")


Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """An activation tensor: ONNX name and shape, stored format, row axis (or None).

    >>> t = Tensor("x", (1, 3, 8, 10), row_axis=2)
    >>> t.rows, t.row_shape, t.row_bytes
    (8, (10, 1, 3), 120)
    """

    name: str
    shape: Shape
    format: Format = FLOAT32
    row_axis: int | None = None

    @property
    def order(self) -> tuple[int, ...]:
        """Storage order as a permutation of the ONNX axes; the row axis comes first."""
        k, n = self.row_axis, len(self.shape)
        return tuple(range(n)) if k is None else (*range(k, n), *range(k))

    @property
    def rows(self) -> int:
        """Number of rows (the height H); 1 for a tensor without a row axis."""
        return 1 if self.row_axis is None else self.shape[self.row_axis]

    @property
    def row_shape(self) -> Shape:
        """Shape of one row in storage order."""
        k = self.row_axis
        return self.shape if k is None else (*self.shape[k + 1 :], *self.shape[:k])

    @property
    def storage_shape(self) -> Shape:
        """(rows, *row_shape): the shape of the whole tensor as it is stored."""
        return (self.rows, *self.row_shape)

    @property
    def row_elements(self) -> int:
        return prod(self.row_shape)

    @property
    def dtype(self) -> str:
        """Numpy's name of the stored elements' type."""
        return self.format.dtype

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.format.itemsize

    @property
    def row_bytes(self) -> int:
        return self.row_elements * self.itemsize

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.elements * self.itemsize

    def to_storage(self, array: np.ndarray) -> np.ndarray:
        """View of an array in ONNX axis order in storage order, shape (rows, *row_shape)."""
        if self.row_axis is None:
            return array[None]
        return array.transpose(self.order)

    def to_onnx(self, stored: np.ndarray) -> np.ndarray:
        """View of a stored array (any number of rows) with its axes in ONNX order."""
        if self.row_axis is None:
            return stored[0, ...]  # stored[0] would be a copy if the tensor is a scalar
        return stored.transpose(_rotation(self.row_axis, len(self.shape)))


@cache
def _rotation(axis: int, axes: int) -> tuple[int, ...]:
    """The axes of a stored array in ONNX order. Frames ask for it."""
    return tuple((i - axis) % axes for i in range(axes))


def _sized(tensor: Tensor, batch: int = 1) -> str:
    """Name and shape of a tensor, with all images of the batch."""
    shape = tensor.shape if batch == 1 else (batch, *tensor.shape[1:])
    return f"{shorten_name(tensor.name)} {sizes(shape)}"


@dataclass(frozen=True, slots=True, eq=False)
class Node(Pickled):
    """An ONNX node with everything that is known about its inputs, before its operator has processed it.

    inputs: by ONNX position a Tensor (an activation), an array (a constant), or None (absent).
    outputs: names by ONNX position, "" for an output that is not used.
    """

    name: str
    op_type: str
    opset: int
    attributes: Mapping[str, Any]
    inputs: tuple[Tensor | np.ndarray | None, ...]
    outputs: tuple[str, ...]

    def operand(self, position: int) -> Tensor | np.ndarray | None:
        """The input at an ONNX position, None if the node has fewer."""
        return self.inputs[position] if position < len(self.inputs) else None


class Guard(NamedTuple):
    """A layer of a branch of an If is computed only for images whose condition is `taken`. branch: name of the If
    (`Network.conditions`).
    """

    branch: str
    taken: bool


def are_exclusive(one: Iterable[Guard], other: Iterable[Guard]) -> bool:
    """Whether layers with these guards are never computed for the same image.

    >>> are_exclusive([Guard("a", True)], [Guard("a", False), Guard("b", True)])
    True
    """
    taken = dict(one)
    return any(taken.get(branch, chosen) is not chosen for branch, chosen in other)


@dataclass(frozen=True, eq=False)
class Layer(Pickled):
    """An operation of the network, with known shapes and with attributes normalised by its operator.

    inputs: by ONNX position, None for an operand that is a constant (then in `constants`) or absent. An operator on integers
        has its inputs in the positions of its float counterpart, without scales and zero points.
    input_axes: the row axis along which the operator reads each input; if that is not the tensor's own row axis, the input
        is read whole and transposed.
    epilogue: elementwise layers applied in place to every slab that this layer writes.
    stored: for an operator on values, which of its operands and results are integers in memory. It computes on float32 slabs
        that exist for the current phase only (`ops.widened`).
    onnx_nodes: names of the ONNX nodes that were merged into this layer.
    guards: the branches that the layer is in, the outermost first.
    """

    name: str
    op_type: str
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    attributes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    constants: Mapping[int, np.ndarray] = field(default_factory=lambda: MappingProxyType({}))
    input_axes: tuple[int | None, ...] = ()
    epilogue: tuple[Layer, ...] = ()
    onnx_nodes: tuple[str, ...] = ()
    stored: Stored | None = None
    guards: tuple[Guard, ...] = ()

    def __repr__(self) -> str:
        return format_repr(
            "Layer",
            self.name,
            operator="+".join([self.op_type, *(e.op_type for e in self.epilogue)]),
            inputs=format_entries([_sized(t) for t in self.inputs if t is not None]),
            outputs=format_entries([_sized(t) for t in self.outputs]),
            parameters=mebibytes(self.parameter_bytes),
        )

    def computed(self, position: int) -> Tensor:
        """The operand at a position that is no constant."""
        tensor = self.inputs[position]
        assert tensor is not None
        return tensor

    @cached_property
    def known(self) -> dict[object, Any]:
        """Results of functions of the layer, by a key of the function (see `memoize_layer`)."""
        return {}

    @cached_property
    def form(self) -> Hashable:
        """All that phases, costs and workspace of the layer depend on: layers with equal forms differ in names and in the
        elements of constants of several floats (weights) alone.
        """
        names: dict[str, str] = {}

        def unnamed(tensor: Tensor | None) -> Tensor | None:
            return tensor and replace(tensor, name=names.setdefault(tensor.name, str(len(names))))

        return (
            self.op_type,
            tuple(map(unnamed, (*self.inputs, None, *self.outputs))),
            _settled(self.attributes),
            tuple((at, _weights(one)) for at, one in sorted(self.constants.items())),
            self.input_axes,
            tuple(one.form for one in self.epilogue),
            self.stored,
        )

    @property
    def following(self) -> tuple[Layer, ...]:
        """Layers of the epilogue that work on the stored result of the layer."""
        return self.epilogue[self.stored.applied if self.stored else 0 :]

    @property
    def output(self) -> Tensor:
        """The first output."""
        return self.outputs[0]

    @property
    def parameter_bytes(self) -> int:
        """Bytes of weights and biases, those of the epilogue included."""
        own = sum(int(c.nbytes) for c in self.constants.values())
        return own + sum(e.parameter_bytes for e in self.epilogue)


def _settled(value: Any) -> Hashable:
    """A value of an attribute with its elements, as a key."""
    if isinstance(value, Mapping):
        return tuple((name, _settled(one)) for name, one in sorted(value.items()))
    if isinstance(value, tuple | list):
        return tuple(map(_settled, value))
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    known: Hashable = value.form if isinstance(value, Layer) else value
    return known


def _weights(constant: np.ndarray) -> Hashable:
    """A constant as a key: several floats without their elements."""
    if constant.dtype.kind == "f" and constant.size > 1:
        return constant.shape, constant.dtype.str
    return _settled(constant)


def memoize_layer(function: Callable[[Layer], _Value]) -> Callable[[Layer], _Value]:
    """A function of a layer with its result cached in the layer, because the settings of a layer never change.

    The function is called with a copy of the layer. Results often refer to the layer that they were computed for, and a layer
    that refers to itself would stay in memory with its weights until garbage is collected, or for ever in a mapping with
    weak keys.
    """
    key = object()

    @wraps(function)
    def asked(layer: Layer) -> _Value:
        known = layer.known
        if key not in known:
            known[key] = function(replace(layer))
        found: _Value = known[key]
        return found

    return asked


@dataclass(frozen=True, slots=True)
class Output:
    """A network output: its ONNX name, and its tensor or constant."""

    name: str
    tensor: Tensor | None
    constant: np.ndarray | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Connection:
    """What an input of a network among several is: made by a function of outputs and inputs of others, by their names behind
    those of their networks; "": one of them as it is. finder: the function that makes regions of all sources but the last, where
    `function` crops the last.
    """

    sources: tuple[str, ...]
    network: str
    input: str
    function: str = ""
    finder: str = ""

    def __str__(self) -> str:
        """As it is typed."""
        *first, last = self.sources
        found = [f"{','.join(first)}:{self.finder}", last] if self.finder else self.sources
        target = f"{','.join(found)}={self.network}.{self.input}"
        return f"{target}:{self.function}" if self.function else target


@dataclass(frozen=True, eq=False)
class Member(Pickled):
    """One of several networks that are one. source: what it was loaded from. rate: most runs of it in a frame. after: names of
    networks that it starts behind.
    """

    name: str
    network: Network
    source: Any
    rate: int = 1
    feeds: tuple[Connection, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def prefixes(self) -> tuple[str, ...]:
        """What names of each run begin with."""
        if self.rate == 1:
            return (f"{self.name}.",)
        return tuple(f"{self.name}.{number}." for number in range(1, self.rate + 1))


AtHeight: TypeAlias = "Callable[[int], Network]"
"""The network for images of so many rows of its first input."""

_SHOWN_LABELS = 8

HEIGHTS = tuple(960 << k for k in range(5))
"""Rows, or columns, of the images in which it is looked for what repeats: of many strides a multiple, and of many periods."""


def is_bracketed(source: Any) -> bool:
    """Whether it is a text as that of several networks, [a.onnx b.onnx]."""
    return isinstance(source, str) and source.startswith("[") and source.endswith("]")


@dataclass(frozen=True, eq=False)
class Network(Pickled):
    """A whole network for one image; `batch` images run one after another.

    layers: in an order in which every tensor is written before it is read.
    lifted: constants in the model's file fix the batch to one image (a Reshape to 1x9216), so that a reference runs the
        images one by one; or they fix another height, of `written` rows of the first input.
    fixed: inputs of the file that were made constants, with their values.
    original: the network before regions of it were cut into tiles of columns. parts: name of a tensor -> (name of a tensor of
        the original network, start, stop): it consists of the columns [start, stop) of that one.
    bounded: name of a tensor -> the axis along which it has as many positions as are found at run time, and others behind
        them.
    places: name of an If -> where its node is in the file (`reading.onnx_graph.Place`).
    labels: output -> the strings that its integers count, or what the columns of its scores are named by (ZipMap).
    members: the networks that it consists of, where these are several (`reading.several`).
    at_height: the network for images of so many rows of its first input, read from the same file; None if it is of no file.
    sized: whether inputs have sizes of an example, which the file leaves free.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Output, ...]
    layers: tuple[Layer, ...]
    batch: int = 1
    source: str = ""
    lifted: bool = False
    written: int = 0
    fixed: Mapping[str, np.ndarray] = field(default_factory=lambda: MappingProxyType({}))
    original: Network | None = None
    parts: Mapping[str, tuple[str, int, int]] = field(default_factory=lambda: MappingProxyType({}))
    bounded: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    places: Mapping[str, tuple[int | str, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    labels: Mapping[str, tuple[str | int, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    members: tuple[Member, ...] = ()
    at_height: AtHeight | None = field(default=None, repr=False)
    sized: bool = False

    def _facts(self) -> dict[str, object]:
        return {
            "inputs": format_entries([_sized(tensor, self.batch) for tensor in self.inputs]),
            "layers": len(self.layers),
            "parameters": mebibytes(self.parameter_bytes),
            "batch": self.batch if self.batch > 1 else None,
        }

    def __repr__(self) -> str:
        return format_repr("Network", self.name, **self._facts())

    def _repr_html_(self) -> str:
        outputs = [
            _sized(out.tensor, self.batch) if out.tensor is not None else out.name
            for out in self.outputs
        ]
        operators = Counter(layer.op_type for layer in self.layers).most_common()
        more = {
            "outputs": format_entries(outputs),
            "operators": format_entries([f"{count} {kind}" for kind, count in operators]),
            "source": self.source or None,
        }
        return html_table(f"Network {self.name}", [*self._facts().items(), *more.items()])

    def whole_shape(self, tensor: Tensor) -> Shape:
        """The shape of an input or an output with all images of the batch."""
        return tensor.shape if self.batch == 1 else (self.batch, *tensor.shape[1:])

    def whole_form(self, output: Output) -> tuple[Shape, str]:
        """The shape and the dtype of an output with all images of the batch."""
        if output.tensor is not None:
            return self.whole_shape(output.tensor), output.tensor.dtype
        assert output.constant is not None
        return output.constant.shape, output.constant.dtype.name

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """Every activation tensor by name: inputs first, then in layer order."""
        out = {t.name: t for t in self.inputs}
        out.update((t.name, t) for layer in self.layers for t in layer.outputs)
        return MappingProxyType(out)

    @cached_property
    def producer(self) -> Mapping[str, Layer]:
        """Tensor name -> the layer that writes it (network inputs have none)."""
        return MappingProxyType({t.name: layer for layer in self.layers for t in layer.outputs})

    @cached_property
    def readers(self) -> Mapping[str, tuple[tuple[Layer, int], ...]]:
        """Tensor name -> the (layer, input position) pairs that read it."""
        out: dict[str, list[tuple[Layer, int]]] = {name: [] for name in self.tensors}
        for layer in self.layers:
            for position, tensor in enumerate(layer.inputs):
                if tensor is not None:
                    out[tensor.name].append((layer, position))
        return MappingProxyType({name: tuple(pairs) for name, pairs in out.items()})

    @cached_property
    def reached(self) -> frozenset[str]:
        """Names of the tensors that depend on an input; the others are constants."""
        found = {tensor.name for tensor in self.inputs}
        for layer in self.layers:
            if any(tensor is not None and tensor.name in found for tensor in layer.inputs):
                found.update(tensor.name for tensor in layer.outputs)
        return frozenset(found)

    @cached_property
    def conditions(self) -> Mapping[str, Tensor]:
        """Name of an If -> its condition, one element. The results of its branches are joined by layers that read it: a
        Where with the attribute `branch`.
        """
        return MappingProxyType(
            {
                layer.attributes["branch"]: layer.inputs[0]
                for layer in self.layers
                if "branch" in layer.attributes and layer.inputs[0] is not None
            }
        )

    @cached_property
    def awaited(self) -> Mapping[str, tuple[Tensor, ...]]:
        """Name of a layer -> tensors that it does not read, and that are complete before it starts."""
        found = {}
        for late in (one for one in self.members if one.after):
            early = tuple(f"{name}." for name in late.after)
            ends = (o.tensor for o in self.outputs if o.tensor and o.name.startswith(early))
            tensors, own = tuple(dict.fromkeys(ends)), f"{late.name}."
            for layer in self.layers:
                before = [
                    self.producer[t.name].name
                    for t in layer.inputs
                    if t and t.name in self.producer
                ]
                if layer.name.startswith(own) and not any(n.startswith(own) for n in before):
                    found[layer.name] = tensors
        return MappingProxyType(found)

    @cached_property
    def output_tensors(self) -> frozenset[str]:
        """Names of the tensors that are network outputs."""
        return frozenset(o.tensor.name for o in self.outputs if o.tensor is not None)

    @property
    def found_outputs(self) -> Mapping[str, str]:
        """Output -> what to know of one that has as many positions as are found at run time, or has labels."""
        named = {
            name: ", ".join(f"{k}: {one}" for k, one in enumerate(labels[:_SHOWN_LABELS]))
            + (", ..." if len(labels) > _SHOWN_LABELS else "")
            for name, labels in self.labels.items()
            if list(labels) != list(range(len(labels)))
        }
        return named | {
            o.name: f"{o.tensor.shape[self.bounded[o.tensor.name]]} positions along axis {self.bounded[o.tensor.name]} at "
            f"most; behind those that a frame has, all elements are {-1 if o.tensor.dtype[0] in 'fi' else 0}"
            for o in self.outputs
            if o.tensor is not None and o.tensor.name in self.bounded
        }

    @property
    def output_bytes(self) -> int:
        """Bytes of the arrays of all outputs, with all images of the batch."""
        computed = sum(o.tensor.nbytes for o in self.outputs if o.tensor is not None)
        constant = sum(int(o.constant.nbytes) for o in self.outputs if o.constant is not None)
        return computed * self.batch + constant

    @property
    def parameter_bytes(self) -> int:
        """Bytes of weights and biases; an array that several layers share is counted once."""
        return sum(self.parameter_formats.values())

    @property
    def parameter_formats(self) -> dict[str, int]:
        """Bytes of weights and biases by their type, largest first; shared arrays are counted once."""
        seen: dict[int, np.ndarray] = {}
        again = tuple(prefix for one in self.members for prefix in one.prefixes[1:])
        stack = [layer for layer in self.layers if not layer.name.startswith(again)]
        while stack:
            layer = stack.pop()
            seen.update((id(c), c) for c in layer.constants.values())
            stack.extend(layer.epilogue)
        found: Counter[str] = Counter()
        for array in seen.values():
            found[str(array.dtype)] += int(array.nbytes)
        return dict(found.most_common())


def filter_needed(layers: Sequence[Layer], wanted: Iterable[str]) -> list[Layer]:
    """The layers that some tensors need."""
    names, found = set(wanted), []
    for layer in reversed(layers):
        if any(t.name in names for t in layer.outputs):
            names.update(t.name for t in layer.inputs if t is not None)
            found.append(layer)
    return found[::-1]
