"""Factors and offsets of a float model that weights can take in, and HardSwish functions that are spelled
out, before the model is quantized.

Each layer of a quantized network rounds its result: a scale and an offset between a Conv and what follows
round twice more, and keep two more tensors in memory. Weights take them in before they are integers:

    f (w x + b) + o     = (f w) x + (f b + o)       behind a Conv, ConvTranspose, Gemm or MatMul
    w (f x + o) + b     = (w f) (x + o / f) + b     before one; o / f goes into b where nothing is padded

Source: paper 004, section 3.5 (BatchNormalization as such a pair), and the definition of HardSwish,
https://onnx.ai/onnx/operators/onnx__HardSwish.html. Names of what is left stay.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import helper

from csdfgen.ops.folded_weights import batch_factors
from csdfgen.precision.products import Products, number
from csdfgen.reading.onnx_file import opset_of

__all__ = ["fold_constants"]

_SCALES = ("Mul", "Div")
_OFFSETS = ("Add", "Sub")

_HARD_SWISH = 14
"""The first operator set that has a HardSwish."""

_SIXTH_AND_HALF = {"alpha": 1 / 6, "beta": 0.5}
"""The HardSigmoid that a HardSwish is made of."""

_CLOSE = 1e-6
"""How near a constant must be to the one that is meant, relative: a sixth has no last digit."""


def fold_constants(model: onnx.ModelProto) -> None:
    """Change a model in place, until nothing more can be taken in."""
    rules = [_normalised, _behind, _before]
    if opset_of(model) >= _HARD_SWISH:
        rules.insert(0, _hard)
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


def _hard(work: Products, node: onnx.NodeProto) -> bool:
    """x HardSigmoid(x), and what those two are when spelled out, becomes one node."""
    for kind, x, taken in _hard_ones(work, node):
        new = helper.make_node(kind, [x], [taken[-1].output[0]], name=node.name)
        if kind == "HardSigmoid":
            new.attribute.extend(helper.make_attribute(*one) for one in _SIXTH_AND_HALF.items())
        work.put([new], taken)
        return True
    return False


def _hard_ones(
    work: Products, node: onnx.NodeProto
) -> Iterator[tuple[str, str, list[onnx.NodeProto]]]:
    """(operator, of what, nodes that it stands for) where a node is the first of some."""
    if node.op_type == "HardSigmoid" and not node.domain:
        here = number(node, "alpha", 0.2), number(node, "beta", 0.5)
        last = work.only_reader(node.output[0])
        right = np.allclose(here, list(_SIXTH_AND_HALF.values()), _CLOSE, 0)
        if right and last is not None and _multiplies(last, node.input[0], node.output[0]):
            yield "HardSwish", node.input[0], [node, last]
        return
    found = _with_constant(work, node)
    if node.op_type != "Add" or found is None or not _is(found[1], 3):
        return
    x, cut = found[0], work.only_reader(node.output[0])
    if cut is None or cut.op_type != "Clip" or len(cut.input) != 3:
        return
    ends = [work.constants.get(name) for name in cut.input[1:]]
    if any(a is None or not _is(a, b) for a, b in zip(ends, (0, 6), strict=True)):
        return
    third = work.only_reader(cut.output[0])
    if third is None:
        return
    if _is_sixth(work, third):
        yield "HardSigmoid", x, [node, cut, third]
    fourth = work.only_reader(third.output[0])
    if fourth is not None and _multiplies(third, x, cut.output[0]) and _is_sixth(work, fourth):
        yield "HardSwish", x, [node, cut, third, fourth]


def _is_sixth(work: Products, node: onnx.NodeProto) -> bool:
    found = _with_constant(work, node)
    return node.op_type in _SCALES and found is not None and _is(found[1], 1 / 6)


def _is(array: np.ndarray, value: float) -> bool:
    return array.size == 1 and array.ndim <= 1 and bool(np.allclose(array, value, _CLOSE, 0))


def _multiplies(node: onnx.NodeProto, *names: str) -> bool:
    return node.op_type == "Mul" and not node.domain and sorted(node.input) == sorted(names)


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
