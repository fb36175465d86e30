"""Networks of control flow: Ifs, Loops and Scans in each other's bodies and in functions, on small tensors.

A file may give one name to many things, and none to others: nodes are named apart, in every body alike, or not at all; values,
weights and formal inputs of different bodies have the same few names; a weight of a body may have the name of a value
around it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.patterns.growing import Growing

__all__ = ["controlled"]

DEPTH = 3
"""How deep bodies are in bodies."""

MOST_NODES = 60

WIDE, NARROW, FLAG = (5, 3), (3,), ()
"""Shapes of values; flags are bools."""

_OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]

_POOL = ("a", "b", "v", "w", "y")
"""Names that many things have."""


@dataclass
class _Model:
    """What all bodies of a model share."""

    net: Growing
    node_name: str
    functions: list[onnx.FunctionProto] = field(default_factory=list)
    numbers: Any = field(default_factory=count)
    nodes: int = 0


@dataclass
class _Body:
    """A graph under construction. values: visible names by their shape, the newest last. around: names of the bodies that
    it is in. own: what it makes itself; deeper: what its bodies make. counts: integers that are constants in a turn of a loop.
    """

    model: _Model
    values: dict[tuple[int, ...], list[str]]
    around: set[str]
    depth: int = 0
    is_function: bool = False
    counts: list[str] = field(default_factory=list)
    own: set[str] = field(default_factory=set)
    deeper: set[str] = field(default_factory=set)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    # Names and nodes

    def name(self, shadowing: bool = False) -> str:
        """A name that this body has not given yet. shadowing: one of the bodies around may have."""
        net = self.model.net
        taken = self.own | self.deeper | (set() if shadowing else self.around)
        free = [n for n in _POOL if n not in taken]
        found = net.pick(*free) if free and net.number(0, 2) else f"v{next(self.model.numbers)}"
        self.own.add(found)
        return found

    def node(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        names = [self.name() for _ in range(outputs)]
        style = self.model.node_name
        style = self.model.net.pick("", "alike", "apart") if style == "mixed" else style
        number = len(self.nodes) if style == "alike" else next(self.model.numbers)
        called = f"n{number}" if style else ""
        self.nodes.append(helper.make_node(op_type, inputs, names, name=called, **attributes))
        self.model.nodes += 1
        return names

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        return self.node(op_type, *inputs, **attributes)[0]

    def constant(self, array: np.ndarray) -> str:
        """A weight: an initializer of this body, or a node."""
        if self.is_function or self.model.net.number(0, 3) == 0:
            return self.op("Constant", value=numpy_helper.from_array(array))
        name = self.name(shadowing=array.shape == NARROW and self.depth > 0)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape: int) -> str:
        rng = self.model.net.graph.rng
        return self.constant(rng.uniform(-0.8, 0.8, shape).astype(np.float32))

    # Values

    def value(self, shape: tuple[int, ...]) -> str:
        there = self.values[shape]
        if not there:  # what is around is hidden
            there.append(self.constant(np.array(True)) if shape == FLAG else self.weight(*shape))
        return self.model.net.pick(*there[-2:], *there)

    def add(self, shape: tuple[int, ...], name: str) -> str:
        self.values[shape].append(name)
        return name

    def inside(self, formals: list[tuple[str, Any]] = [], **more: Any) -> _Body:  # noqa: B006
        """A body of this one; formals: names and shapes, which hide what is called so around it."""
        hidden = {name for name, _ in formals}
        values = {k: [n for n in some if n not in hidden] for k, some in self.values.items()}
        for name, shape in formals:
            if shape in values:
                values[shape].append(name)
        counts = [n for n in self.counts if n not in hidden]
        return _Body(
            self.model,
            values,
            self.around | self.own,
            self.depth + 1,
            counts=counts + [name for name, shape in formals if shape == "count"],
            own=set(hidden),
        )

    def result(self, shape: tuple[int, ...], given: set[str]) -> str:
        """What a body gives: what it makes, a constant of its own, or what is around it as it is."""
        net = self.model.net
        if net.number(0, 5) == 0 and shape != FLAG:
            name = self.weight(*shape)
        else:
            name = self.value(shape)
        if name not in self.own or name in given:  # onnxruntime wants a node there
            name = self.op("Identity", name)
        given.add(name)
        return name

    def results(self, shapes: list[tuple[int, ...]], formals: Iterable[str] = ()) -> list[str]:
        """formals: those that onnxruntime (1.32, of a Scan) gives wrongly as they are."""
        given = set(formals)
        return [self.result(shape, given) for shape in shapes]

    def graph(
        self,
        formals: list[tuple[str, Any]],
        results: list[tuple[str, Any]],
        outer: _Body | None = None,
    ) -> Any:
        if outer:
            outer.deeper |= self.own | self.deeper
        return helper.make_graph(
            self.nodes, "g", *(list(map(_info, some)) for some in (formals, results)), self.weights
        )  # fmt: skip


def _info(entry: tuple[str, Any]) -> onnx.ValueInfoProto:
    name, shape = entry
    kind = {"count": TensorProto.INT64, FLAG: TensorProto.BOOL}.get(shape, TensorProto.FLOAT)
    return helper.make_tensor_value_info(name, kind, () if shape == "count" else shape)


def _grow(body: _Body, steps: int) -> None:
    net = body.model.net
    kinds = [_plain, _plain, _flag]
    if body.depth < DEPTH and body.model.nodes < MOST_NODES:
        kinds += [_if, _if, _if, _loop, _scan, _call]
    for _ in range(steps):
        net.pick(*kinds)(body)


def _plain(body: _Body) -> None:
    net, x = body.model.net, body.value(WIDE)
    kind = net.number(0, 5)
    if kind == 0:
        body.add(NARROW, body.op("ReduceSum", x, body.constant(np.array([0])), keepdims=0))
    elif kind == 1:
        body.add(WIDE, body.op("MatMul", x, body.weight(3, 3)))
    elif kind == 2:
        other = body.value(net.pick(WIDE, NARROW))
        body.add(WIDE, body.op(net.pick("Add", "Mul", "Sub"), x, other))
    elif kind == 3:
        body.add(NARROW, body.op("Tanh", body.op("Add", body.value(NARROW), body.weight(3))))
    elif kind == 4 and body.counts:
        table = body.weight(4, 3)
        body.add(NARROW, body.op("Gather", table, net.pick(*body.counts)))
    else:
        body.add(WIDE, body.op(net.pick("Relu", "Neg", "Tanh", "Abs"), x))


def _flag(body: _Body) -> None:
    net = body.model.net
    kind = net.number(0, 3)
    if kind == 0:
        body.add(FLAG, body.op("Not", body.value(FLAG)))
    elif kind == 1:
        some = net.pick("And", "Or", "Xor")
        body.add(FLAG, body.op(some, body.value(FLAG), body.value(FLAG)))
    elif kind == 2 and body.counts:
        limit = body.constant(np.array(net.number(0, 2)))
        body.add(FLAG, body.op("Less", net.pick(*body.counts), limit))
    else:
        total = body.op("ReduceSum", body.value(net.pick(WIDE, NARROW)), keepdims=0)
        body.add(FLAG, body.op("Greater", total, body.constant(np.array(0, np.float32))))


def _if(body: _Body) -> None:
    net = body.model.net
    condition = body.value(FLAG)
    shapes = net.pick([WIDE], [WIDE], [WIDE, NARROW], [FLAG], [WIDE, FLAG], [NARROW])
    branches = {}
    for which in ("then_branch", "else_branch"):
        inner = body.inside()
        _grow(inner, net.number(0, 2))
        names = inner.results(shapes)
        branches[which] = inner.graph([], list(zip(names, shapes, strict=True)), body)
    for shape, name in zip(
        shapes, body.node("If", condition, outputs=len(shapes), **branches), strict=True
    ):
        body.add(shape, name)


def _formals(body: _Body, shapes: list[Any]) -> list[tuple[str, Any]]:
    """Formal inputs, which may be called as anything around is."""
    net, names = body.model.net, list[str]()
    for _ in shapes:
        free = [n for n in (*_POOL, "i", "c") if n not in names]
        names.append(net.pick(*free) if net.chance() else f"f{next(body.model.numbers)}")
    return list(zip(names, shapes, strict=True))


def _loop(body: _Body) -> None:
    net = body.model.net
    states = net.pick([WIDE], [WIDE, NARROW], [NARROW], [WIDE, FLAG])
    scans = net.pick([], [], [NARROW])
    turns = body.constant(np.array(net.number(1, 3)))
    going = net.pick("", body.constant(np.array(True))) if net.chance() else ""
    formals = _formals(body, ["count", FLAG, *states])
    inner = body.inside(formals)
    _grow(inner, net.number(0, 2))
    kind = net.number(0, 3)
    if kind == 0:
        on = formals[1][0]
    elif kind == 1:
        on = inner.op("Identity", formals[1][0])
    elif kind == 2:
        on = inner.constant(np.array(True))
    else:
        on = inner.op("Less", formals[0][0], inner.constant(np.array(net.number(1, 2))))
    given = {on}
    names = [on, *(inner.result(shape, given) for shape in (*states, *scans))]
    graph = inner.graph(formals, list(zip(names, [FLAG, *states, *scans], strict=True)), body)
    begun = [body.value(shape) for shape in states]
    outputs = len(states) + len(scans)
    found = body.node("Loop", turns, going, *begun, outputs=outputs, body=graph)
    for shape, name in zip(states, found, strict=False):
        body.add(shape, name)
    for name in found[len(states) :]:
        body.add(NARROW, body.op("ReduceSum", name, body.constant(np.array([0])), keepdims=0))


def _scan(body: _Body) -> None:
    net = body.model.net
    states = net.pick([], [NARROW], [NARROW])
    formals = _formals(body, [*states, NARROW])
    inner = body.inside(formals)
    _grow(inner, net.number(0, 2))
    shapes = [*states, NARROW]
    names = inner.results(shapes, [name for name, _ in formals])
    graph = inner.graph(formals, list(zip(names, shapes, strict=True)), body)
    begun = [body.value(shape) for shape in states]
    more = {"scan_input_directions": [1]} if net.number(0, 3) == 0 else {}
    found = body.node(
        "Scan", *begun, body.value(WIDE), outputs=len(shapes), num_scan_inputs=1, body=graph, **more
    )
    for name in found[:-1]:
        body.add(NARROW, name)
    body.add(WIDE, found[-1])


def _call(body: _Body) -> None:
    """A call of a function of the model, which may have been called before."""
    net, known = body.model.net, body.model.functions
    if not known or (len(known) < 2 and net.chance()):
        formals = _formals(body, [WIDE, NARROW, FLAG])
        values = {shape: [name] for name, shape in formals}
        inner = _Body(body.model, values, set(), body.depth + 1, True, own={n for n, _ in formals})
        inner.depth = max(inner.depth, DEPTH - 1)
        _grow(inner, net.number(1, 2))
        name = inner.op("Identity", inner.value(WIDE))
        known.append(
            helper.make_function(
                "local", f"f{len(known)}", [n for n, _ in formals], [name], inner.nodes, _OPSETS
            )
        )  # fmt: skip
    function = net.pick(*known)
    operands = [body.value(shape) for shape in (WIDE, NARROW, FLAG)]
    body.add(WIDE, body.op(function.name, *operands, domain="local"))


def controlled(net: Growing) -> onnx.ModelProto:
    """A network with an If, a Loop, a Scan or a function at least."""
    model = _Model(net, net.pick("", "alike", "apart", "mixed"))
    inputs: list[tuple[str, Any]] = [("x", WIDE), ("k", NARROW)]
    inputs += [(f"choice{k}", FLAG) for k in range(net.number(1, 3))]
    values: dict[tuple[int, ...], list[str]] = {WIDE: [], NARROW: [], FLAG: []}
    for name, shape in inputs:
        values[shape].append(name)
    body = _Body(model, values, set(), own={name for name, _ in inputs})
    net.pick(_if, _if, _loop, _scan, _call)(body)
    _grow(body, net.number(0, 4))
    outputs = [body.op("Identity", body.values[WIDE][-1])]
    if net.chance():
        outputs.append(body.op("Neg", body.values[NARROW][-1]))
    results = [(name, shape) for name, shape in zip(outputs, (WIDE, NARROW), strict=False)]
    graph = body.graph(inputs, results)
    graph.name = "controlled"
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=model.functions)
