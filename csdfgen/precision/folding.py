"""Factors and offsets of a float model that weights can take in, and HardSwish functions that are spelled
out, before the model is quantized.

Each layer of a quantized network rounds its result: a scale and an offset between a Conv and what follows
round twice more, and keep two more tensors in memory. Weights take them in before they are integers:

    f (w x + b) + o     = (f w) x + (f b + o)       behind a Conv, ConvTranspose, Gemm or MatMul
    w (f x + o) + b     = (w f) (x + o / f) + b     before one; o / f goes into b where nothing is padded

Source: paper 004, section 3.5 (BatchNormalization as such a pair); formulas are those of `ops.formulas`. Names of
what is left stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from csdfgen.ops.folded_weights import batch_factors
from csdfgen.ops.formulas import FUNCTIONS, Operation, Search
from csdfgen.precision.products import Products, number
from csdfgen.reading.onnx_file import get_opset

_SCALES = ("Mul", "Div")
_OFFSETS = ("Add", "Sub")

_HARD_SWISH = 14
"""The first operator set that has a HardSwish."""

_HARD = tuple(one for one in FUNCTIONS if one.kind in ("HardSwish", "HardSigmoid"))
"""Functions that `precision.writer` quantizes, in operator sets that are in use."""


def fold_constants(model: onnx.ModelProto) -> None:
    """Change a model in place, until nothing more can be taken in."""
    rules = [_normalised, _behind, _before]
    if get_opset(model) >= _HARD_SWISH:
        rules.insert(0, _spelled_out)
    work = Products(model.graph)
    while any(rule(work, node) for rule in rules for node in model.graph.node):
        work.look_again()
    _drop_unread(model.graph)


# Rules: each changes the graph and says so, or leaves it ----------------------------------------------


def _normalised(work: Products, node: onnx.NodeProto) -> bool:
    """A BatchNormalization goes into the weights of what it normalises: a factor of gamma /
    sqrt(variance + epsilon), and an offset.
    """
    if node.op_type != "BatchNormalization" or len([o for o in node.output if o]) != 1:
        return False
    maker = work.maker(node.input[0])
    if maker is None or maker.op_type not in ("Conv", "ConvTranspose"):
        return False
    if work.only_reader(node.input[0]) is None:
        return False
    if any(name not in work.constants for name in node.input[1:]):
        return False
    parameters = [work.constants[name] for name in node.input[1:5]]
    _take_in(work, maker, node, *batch_factors(parameters, number(node, "epsilon", 1e-5)))
    return True


def _behind(work: Products, node: onnx.NodeProto) -> bool:
    """A scale or an offset goes into the weights of what makes its tensor."""
    found = _with_constant(work, node)
    if found is None or work.only_reader(found[0]) is None:
        return False
    maker = work.maker(found[0])
    if maker is None:
        return False
    scale = node.op_type in _SCALES
    count = work.made_channels(maker)
    values = work.by_channel(found[1], maker, count)
    if values is None or (maker.op_type == "MatMul" and not scale):
        return False
    factor, offset = (values, np.zeros(count)) if scale else (np.ones(count), values)
    _take_in(work, maker, node, factor, offset)
    return True


def _take_in(
    work: Products, maker: onnx.NodeProto, node: onnx.NodeProto, factor: np.ndarray, offset: np.ndarray
) -> None:  # fmt: skip
    """A product makes what a node made of its result."""
    maker.output[0] = node.output[0]
    work.change_made(maker, factor, offset)
    work.graph.node.remove(node)


def _before(work: Products, node: onnx.NodeProto) -> bool:
    """A scale, or an offset where nothing is padded, goes into the weights of all that read it."""
    found = _with_constant(work, node)
    if found is None or node.output[0] in work.ends:
        return False
    made, scale = node.output[0], node.op_type in _SCALES
    readers = work.readers.get(made, [])
    if scale and len(readers) == 1 and readers[0].op_type in _OFFSETS:
        return _swapped(work, node, readers[0])
    take = work.scaled_input if scale else work.moved_input
    changes = [take(reader, made, found[1]) for reader in readers]
    if not changes or None in changes:
        return False
    for change, reader in zip(changes, readers, strict=True):
        assert change is not None
        change()
        reader.input[0] = found[0]
    work.graph.node.remove(node)
    return True


def _swapped(work: Products, scale: onnx.NodeProto, offset: onnx.NodeProto) -> bool:
    """f x + o becomes f (x + o / f), where products that read it can take in f."""
    before, behind = _with_constant(work, scale), _with_constant(work, offset)
    made = offset.output[0]
    readers = work.readers.get(made, [])
    if before is None or behind is None or made in work.ends or not readers:
        return False
    (x, factor), added = before, behind[1]
    if not np.all(factor):
        return False
    if any(work.scaled_input(reader, made, factor) is None for reader in readers):
        return False
    between = f"{made}_before"
    quotient = work.constant(f"{made}_offset", added / factor)
    nodes = [
        helper.make_node("Add", [x, quotient], [between], name=offset.name),
        helper.make_node(
            "Mul", [between, work.constant(f"{made}_factor", factor)], [made], name=scale.name
        ),
    ]
    work.put(nodes, [scale, offset])
    return True


def _spelled_out(work: Products, node: onnx.NodeProto) -> bool:
    """x HardSigmoid(x), and what those two are when spelled out, becomes one node."""
    match = Search(_Nodes(work), _HARD).spelled_out(node.output[0])
    if match is None:
        return False
    taken = {id(operation.origin) for operation in match.taken}
    parts = [one for one in work.graph.node if id(one) in taken]
    new = helper.make_node(
        match.function.kind,
        [match.values["x"]],
        [node.output[0]],
        name=parts[0].name,
        **match.settings,
    )
    work.put([new], parts)
    return True


@dataclass(frozen=True)
class _Nodes:
    """A graph as formulas see it."""

    work: Products

    def made(self, name: str) -> Operation | None:
        node = self.work.makers.get(name)
        if node is None or node.domain or len(node.output) > 1:
            return None
        operands = (self.work.constants.get(one, one) for one in node.input)
        settings = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        return Operation(node.op_type, tuple(operands), settings, node)

    def readers(self, name: str) -> Sequence[onnx.NodeProto] | None:
        return None if name in self.work.ends else self.work.readers.get(name, [])


def _with_constant(work: Products, node: onnx.NodeProto) -> tuple[str, np.ndarray] | None:
    """(tensor, constant) of a scale or an offset, as what it is multiplied by, or what is added."""
    if node.op_type not in (*_SCALES, *_OFFSETS) or node.domain:
        return None
    for k, name in enumerate(node.input):
        other = node.input[1 - k]
        turned = k == 0 and node.op_type in ("Div", "Sub")  # a constant over a tensor is neither
        if name not in work.constants or other in work.constants or turned:
            continue
        value = work.constants[name].astype(np.float64)
        if node.op_type == "Div":
            return (other, 1 / value) if np.all(value) else None
        return other, -value if node.op_type == "Sub" else value
    return None


def _drop_unread(graph: onnx.GraphProto) -> None:
    """Remove constants that nothing reads any more."""
    read = {name for node in graph.node for name in node.input}
    read.update(one.name for one in graph.output)
    unread = {one.name for one in graph.initializer} - read
    # models of old name constants among their inputs, too
    for field in (graph.initializer, graph.input):
        kept = [one for one in field if one.name not in unread]
        del field[:]
        field.extend(kept)
