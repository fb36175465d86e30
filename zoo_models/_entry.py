"""What is known of a network of the zoo: how it is built, what its source publishes, what is counted?

Counted are learned float32 arrays (initializers, or zeros that stand for them), and the
multiply-accumulates of convolutions and fully connected layers, which is what the sources of the
zoo count.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import onnx
from onnx import TensorProto, numpy_helper

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from zoo_models._builder import Builder, SizeError, Value

Origin = Literal["exact", "rounded", "derived", "recalled"]
"""Of a published number: printed in full; printed with few digits; printed nowhere, but counted
from published shapes; printed with few digits in a publication that was not at hand when all others
were read again (November 2026).
"""

Comparison = Literal["graph", "outputs", "shapes", "text"]
"""How a network was compared with a public definition of it: operation by operation with a published
file; by the same outputs for the same weights; layer by layer (windows, strides, padding, channels)
with a published file or a listing of one; by the text, table or figure that it was built from, as
there is nothing else."""


_TABLE = Path(__file__).with_name("published.toml")

_ROUNDING = 0.005
"""A published figure of few digits is the same as one that is nearer than this part of it."""


@dataclass(frozen=True, slots=True)
class Published:
    """Parameters and multiply-accumulates of a network as a source gives them, for an image of
    `size` (rows, columns).

    parameters: learned values, with BatchNormalization's running means and variances where
        `statistics` is set.
    macs: multiply-accumulates of convolutions and fully connected layers, but for `uncounted_macs`,
        which the source leaves out. parameters_are, macs_are: how the source gives them.
    source: where they are from. notes: what is counted otherwise, and how the derived ones were
        found.
    compared: how the network was compared with a public definition, which is the source unless
        `definition` names another.
    """

    parameters: int
    macs: int
    source: str
    notes: str = ""
    size: tuple[int, int] = (224, 224)
    parameters_are: Origin = "exact"
    macs_are: Origin = "rounded"
    statistics: bool = False
    uncounted_macs: int = 0
    compared: Comparison = "outputs"
    definition: str = ""

    def differences(self, counts: Counts, size: tuple[int, int]) -> Iterator[str]:
        """What the source gives that is not what is counted at an image size (rows, columns), and why."""
        if not _same(counts.parameters, self.parameters, self.parameters_are):
            statistics = "with running means and variances"
            said = statistics if self.statistics else "by another size of the image"
            yield f"{self.parameters:,} parameters {said}"
        if not _same(counts.macs, self.macs, self.macs_are):
            at = "" if size == self.size else " at {}x{}".format(*self.size)
            uncounted = self.uncounted_macs
            without = f" without {uncounted:,} of its layers" if uncounted else ""
            yield f"{self.macs:,} MACs{at}{without}"

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        values = {
            **asdict(self),
            "size": list(self.size),
            "definition": self.definition or self.source,
        }
        return {**values, "with_running_statistics": values.pop("statistics")}


def _read_published() -> Iterator[tuple[str, Published]]:
    tables: dict[str, dict[str, Any]] = tomllib.loads(_TABLE.read_text("utf-8"))
    for name, fields in tables.items():
        yield name, Published(**fields | {"size": tuple(fields.get("size", (224, 224)))})


@dataclass(frozen=True, slots=True)
class ZooEntry:
    """One network of the zoo; its name is that of `write`.

    write: takes a Builder and the input's value, and returns the output, or all outputs. task: what
    it computes. size: rows and columns of its image unless others are asked for (by default the
    published ones). multiple: both have to be multiples of it. pixels: the range that its input
    values are meant to have. channels: of its image, or channels and frames of a video.
    """

    write: Callable[..., Value | tuple[Value, ...]]
    family: str
    published: Published
    task: str = "classification"
    size: tuple[int, int] | None = None
    multiple: int = 1
    pixels: tuple[float, float] = (-1.0, 1.0)
    channels: tuple[int, ...] = (3,)
    input_name: str = "image"

    @property
    def name(self) -> str:
        return self.write.__name__

    @property
    def height(self) -> int:
        return (self.size or self.published.size)[0]

    @property
    def width(self) -> int:
        return (self.size or self.published.size)[1]

    def build(
        self,
        height: int | None = None,
        width: int | None = None,
        *,
        seed: int = 0,
        weights: bool = True,
        **options: Any,
    ) -> onnx.ModelProto:
        """The network as ONNX for an image of so many rows and columns, by default `height` and
        `width` (a width that is not given follows the height where the image is square).

        weights=False leaves the values of the weights out, for shapes and counts alone. options: of
        `write`. Raises SizeError for an image that is too small.
        """
        rows = self.height if height is None else height
        columns = width or (rows if self.height == self.width else self.width)
        builder = Builder(self.name, seed=seed, weights=weights)
        image = builder.input(*self.channels, rows, columns, name=self.input_name)
        outputs = self.write(builder, image, **options)
        return builder.model(*(outputs if isinstance(outputs, tuple) else (outputs,)))

    __call__ = build

    def works(self, height: int, width: int) -> bool:
        """Whether an image of this size goes through the network."""
        return self.obstacle(height, width) is None

    def obstacle(self, height: int, width: int) -> str | None:
        """Why an image of this size does not go through the network, or None."""
        if height % self.multiple or width % self.multiple:
            return f"rows and columns have to be multiples of {self.multiple}"
        try:
            self.build(height, width, weights=False)
        except SizeError as error:
            return str(error)
        return None

    def counted(self, height: int, width: int) -> tuple[tuple[int, ...], Counts]:
        """The shape of the input at an image size, and what is counted there, without the values of weights."""
        model = self.build(height, width, weights=False)
        dims = model.graph.input[0].type.tensor_type.shape.dim
        return tuple(dim.dim_value for dim in dims), count(model)

    def to_json(self, shape: tuple[int, ...], counts: Counts) -> dict[str, Any]:
        """With what is counted, as JSON values."""
        return {
            "name": self.name, "family": self.family, "task": self.task, "input": list(shape),
            "pixels": list(self.pixels), "multiple": self.multiple, "parameters": counts.parameters,
            "running_statistics": counts.statistics, "macs": counts.macs, "activations": counts.activations,
            "nodes": counts.nodes, "published": self.published.to_json(),
        }  # fmt: skip

    def smallest(self) -> tuple[int, int]:
        """The smallest height, and the smallest width, that work."""
        return (
            _first(lambda rows: self.works(rows, self.width), self.height, self.multiple),
            _first(lambda columns: self.works(self.height, columns), self.width, self.multiple),
        )


def _same(found: int, printed: int, how: Origin) -> bool:
    """Whether a count is the published one; one of few digits is the same as what is nearer than a part of it."""
    few_digits = how in ("rounded", "recalled")
    return abs(found - printed) <= (_ROUNDING * printed if few_digits else 0)


def _first(works: Callable[[int], bool], known: int, step: int) -> int:
    """The smallest multiple of step that works, by bisection; `known` does, and so does every
    larger one.
    """
    sizes = range(step, known, step)
    return step * (1 + bisect_left(sizes, True, key=works))


_Write = Callable[..., Value | tuple[Value, ...]]

_PUBLISHED = dict(_read_published())
"""What the sources publish, by the names of the networks."""


def network(family: str, **facts: Any) -> Callable[[_Write], ZooEntry]:
    """Makes an entry of the function below it, whose figures are in `published.toml`. facts: the other fields of a `ZooEntry`."""
    return lambda write: ZooEntry(write, family, _PUBLISHED[write.__name__], **facts)


# What is counted ----------------------------------------------------------------------------------

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Counts:
    """parameters: learned values. statistics: running means and variances. macs:
    multiply-accumulates.

    activations: elements of all tensors that are computed, network inputs excluded. nodes:
        operations.
    """

    parameters: int
    statistics: int
    macs: int
    activations: int
    nodes: int


def count(model: onnx.ModelProto) -> Counts:
    """The counts of a network that this zoo has built, with or without the values of its weights. Of
    the two branches of an If the larger one counts, for multiply-accumulates and for activations.
    """
    weights = _weights(model.graph)
    operations = list(_operations(model.graph))
    measured = {
        name
        for node in operations
        if node.op_type == "BatchNormalization"
        for name in node.input[3:5]
    }
    macs, activations = _computed(model.graph, weights)
    return Counts(
        parameters=sum(prod(shape) for name, shape in weights.items() if name not in measured),
        statistics=sum(prod(shape) for name, shape in weights.items() if name in measured),
        macs=macs,
        activations=activations,
        nodes=len(operations),
    )


def _operations(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """What computes, in branches too."""
    for node in graph.node:
        if node.op_type not in ("Constant", "ConstantOfShape"):
            yield node
            for branch in _branches(node):
                yield from _operations(branch)


def _branches(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    return (one.g for one in node.attribute if one.type == onnx.AttributeProto.GRAPH)


def _computed(graph: onnx.GraphProto, around: Shapes) -> tuple[int, int]:
    """Multiply-accumulates, and elements of activations. around: shapes of the values outside."""
    shapes = {
        **around,
        **{v.name: _dims(v) for v in (*graph.input, *graph.value_info, *graph.output)},
    }
    macs = activations = 0
    for node in graph.node:
        if node.op_type in ("Constant", "ConstantOfShape"):
            continue
        inside = [_computed(branch, shapes) for branch in _branches(node)]
        macs += max((one for one, _ in inside), default=0)
        activations += max((one for _, one in inside), default=0)
        macs += MACS[node.op_type](node, shapes) if node.op_type in MACS else 0
        activations += sum(prod(shapes[name]) for name in node.output)
    return macs, activations


def _weights(graph: onnx.GraphProto) -> Shapes:
    """Shapes of float32 initializers, and of the zeros in their place."""
    found = {t.name: tuple(t.dims) for t in graph.initializer if t.data_type == TensorProto.FLOAT}
    sizes = {t.name: t for t in graph.initializer if t.data_type == TensorProto.INT64}
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            found[node.output[0]] = tuple(
                int(n) for n in numpy_helper.to_array(sizes[node.input[0]])
            )
    return found


def _dims(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(d.dim_value for d in value.type.tensor_type.shape.dim)


def _convolution(node: onnx.NodeProto, shapes: Shapes) -> int:
    """Every output element is a sum over the weights of its channel."""
    return prod(shapes[node.output[0]]) * prod(shapes[node.input[1]][1:])


def _transposed(node: onnx.NodeProto, shapes: Shapes) -> int:
    """Every input element is multiplied with the weights of its channel."""
    return prod(shapes[node.input[0]]) * prod(shapes[node.input[1]][1:])


def _product(node: onnx.NodeProto, shapes: Shapes) -> int:
    """A fully connected layer uses every weight once."""
    return prod(shapes[node.input[1]])


MACS: Mapping[str, Callable[[onnx.NodeProto, Shapes], int]] = MappingProxyType(
    {"Conv": _convolution, "ConvTranspose": _transposed, "Gemm": _product, "MatMul": _product}
)
