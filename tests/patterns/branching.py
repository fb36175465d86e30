"""Branches that data choose: an If in a network, with another one in a branch of it, as exporters write experts, early
exits, and whatever depends on a flag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx
from onnx import helper

from tests.patterns.growing import Growing, Pattern, Value

__all__ = ["MOST", "branched"]

MOST = 3
"""Ifs of a network."""


def branched(net: Growing, x: Value, patterns: Sequence[Pattern]) -> Value:
    """An If on an input of the network whose branches make tensors of the shape of x, or x as it is otherwise."""
    if net.conditions == MOST:
        return replace(x, name=net.op("Relu", x.name))
    condition = net.graph.input(f"choice{net.conditions}", net.pick((), (1,)), "bool")
    net.conditions += 1
    if net.number(0, 3) == 0:
        condition = net.op("Not", condition)
    also = net.number(0, 3) == 0  # a second result
    axes = range(len(x.shape) - net.number(1, 2), len(x.shape))
    bodies = [_body(net, x, patterns, axes if also else ()) for _ in range(2)]
    branches = {"then_branch": bodies[0], "else_branch": bodies[1]}
    found = (
        net.parts("If", 2, condition, **branches) if also else [net.op("If", condition, **branches)]
    )
    return replace(x, name=net.op("Mul", *found) if also else found[0])


def _body(
    net: Growing, x: Value, patterns: Sequence[Pattern], also: Sequence[int]
) -> onnx.GraphProto:
    """A branch: patterns behind x, x itself, or a constant. also: axes that a second result is the mean along."""
    before = len(net.graph.nodes)
    kind = net.pick("grown", "grown", "grown", "handed on", "added", "constant")
    name = x.name
    if kind == "handed on":
        name = net.op("Identity", x.name)
    elif kind == "added":
        name = net.op("Add", x.name, net.uniform(x.shape[-1:]))
    elif kind == "constant":
        name = net.op("Identity", net.uniform(x.shape))
    else:
        y: Value = x
        for _ in range(net.number(1, 2)):
            if net.number(0, 3) == 0 and type(y) is type(x):
                y = branched(net, y, patterns)
            elif type(y) is type(x):
                y = net.pick(*patterns)(net, y)
        name = y.name
        if y.shape != x.shape or name == x.name:
            mean = net.reduced("ReduceMean", name, range(len(y.shape)))
            flat = net.op("Reshape", mean, net.ints(1))
            name = net.op("Mul", x.name, flat)
    names = [name]
    if also:
        names.append(net.reduced("ReduceMean", name, also))
    nodes = net.graph.nodes[before:]
    del net.graph.nodes[before:]
    values = [helper.make_tensor_value_info(one, onnx.TensorProto.FLOAT, None) for one in names]
    return helper.make_graph(nodes, f"branch{before}", [], values)
