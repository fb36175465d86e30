"""Which operations does an ONNX graph hold, once names are settled and functions are opened?

Source: https://onnx.ai/onnx/repo-docs/IR.html (graphs, names and scopes, functions).
The graph of a file becomes a list of operations in an order in which every tensor is made before
it is used, without those that no output needs. Model-local functions are opened in place; the
branches of an If stay closed until its condition is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper

from csdfgen.errors import ModelError
from csdfgen.limits import OPERATIONS, STORED, Budget
from csdfgen.model.formats import Stored
from csdfgen.model.naming import make_unused_name
from csdfgen.model.sorting import sort_topologically
from csdfgen.reading.onnx_file import ModelFile, Weight, label, list_graphs, opsets, text
from csdfgen.reading.onnx_schema import resolve_operator
from csdfgen.reading.onnx_tensor import MAX_RANK, decode, densify, dtype_name, file_bytes

_FunctionKey = tuple[str, str, str]
"""Domain, name, overload."""

Place = tuple[int | str, ...]
"""Where an operation is: the position of its node, behind the place of the body that it is in and what of it this is
("then", "else", the number of a turn). Names say nothing of that: a file may repeat them, or leave them out.
"""


@dataclass(frozen=True, slots=True)
class GraphInput:
    """A network input as declared: free sizes are None; dims is None if not even the rank is known."""

    name: str
    dtype: str
    dims: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class _Scope:
    """What the names inside a function or a branch stand for outside of it.

    place: of the operation, and which of its bodies this is.
    names: inner name -> name in the whole network. Other names are those of `outer`, if there is
        one.
    arguments: attributes at the call, for those that the inner operations refer to.
    calls: functions that are being opened.
    """

    prefix: str
    place: Place
    names: Mapping[str, str]
    opsets: Mapping[str, int]
    arguments: Mapping[str, AttributeProto]
    outer: _Scope | None = None
    calls: frozenset[_FunctionKey] = frozenset()

    def resolve(self, name: str) -> str:
        """The name in the whole network; "" stays "" (an absent operand)."""
        if not name or name in self.names:
            return self.names.get(name, "")
        return self.outer.resolve(name) if self.outer is not None else self.prefix + name


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One node, its names valid in the whole network.

    place: no other operation of the network has it.
    outputs: "" where nothing reads the result.
    captured: names of the surrounding graphs that its sub-graphs read: operands like its inputs.
    stored: of an operator on values, which operands and results are integers.
    """

    name: str
    op_type: str
    domain: str
    opset: int
    attributes: Mapping[str, AttributeProto]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    captured: tuple[str, ...]
    scope: _Scope
    place: Place
    stored: Stored | None = None

    def other(
        self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], **more: Any
    ) -> Operation:
        """Another operation where this one is, of ONNX's own domain and without attributes unless `more` has these."""
        more = {"domain": "", "attributes": {}, "captured": (), **more}
        return replace(self, op_type=op_type, inputs=tuple(inputs), outputs=tuple(outputs), **more)

    def proto(self, inputs: Sequence[str]) -> onnx.NodeProto:
        """The node alone, with other names of what it reads; its results are o0, o1, ..."""
        made = helper.make_node(self.op_type, inputs, [f"o{k}" for k in range(len(self.outputs))])
        for name, attribute in self.attributes.items():
            made.attribute.add().CopyFrom(attribute)
            made.attribute[-1].name = name
            made.attribute[-1].ref_attr_name = ""
        return made


class Names:
    """The names that are taken, and those that were given to what has none of its own."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._given: dict[Hashable, str] = {}

    def fresh(self, name: str) -> str:
        """A name that nothing has, like this one."""
        return make_unused_name(name, self._taken, "'")

    def given(self, key: Hashable, name: str) -> str:
        """The name of what a key stands for, the same one whenever it is asked for: a fresh one like this."""
        if key not in self._given:
            self._given[key] = self.fresh(name)
        return self._given[key]


class Constants:
    """Constants by name: initializers, each read when it is first asked for, and what was folded since. budget: of all that
    is made of the model.
    """

    def __init__(self, directory: Path | None, budget: Budget) -> None:
        self.directory, self.budget = directory, budget
        self._waiting: dict[str, Weight | onnx.SparseTensorProto] = {}
        self._arrays: dict[str, np.ndarray] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._arrays or name in self._waiting

    @property
    def names(self) -> set[str]:
        """Of all constants."""
        return self._arrays.keys() | self._waiting.keys()

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            waiting = self._waiting[name]
            if isinstance(waiting, Weight):
                if not waiting.mapped:
                    held = file_bytes(waiting, self.directory)
                    self.budget.take(STORED, held, f"tensor '{label(name)}'")
                self._arrays[name] = decode(waiting, self.directory)
            else:
                self._arrays[name] = densify(waiting, self.directory)
        return self._arrays[name]

    def __setitem__(self, name: str, array: np.ndarray) -> None:
        self._arrays[name] = array

    def list_strings(self) -> list[tuple[str, Weight]]:
        """The initializers of strings."""
        weights = [(name, one) for name, one in self._waiting.items() if isinstance(one, Weight)]
        return [one for one in weights if one[1].tensor.data_type == TensorProto.STRING]

    def number_strings(self) -> dict[str, tuple[str, ...]]:
        """Make numbers of initializers of strings; returns the words that they count."""
        found = {}
        for name, one in self.list_strings():
            strings = [text(word) for word in one.tensor.string_data]
            numbers = {word: k for k, word in enumerate(dict.fromkeys(strings))}
            found[name] = tuple(numbers)
            codes = np.array([numbers[word] for word in strings], np.int64)
            self[name] = codes.reshape(tuple(one.tensor.dims))
        return found

    def file_bytes(self) -> int:
        """Bytes that files hold of all initializers."""
        weights = (one for one in self._waiting.values() if isinstance(one, Weight))
        return sum(file_bytes(one, self.directory) for one in weights)

    def expect(self, name: str, source: Weight | onnx.SparseTensorProto) -> None:
        """An initializer that can be read when it is needed."""
        if name in self:
            raise ModelError(f"initializer '{label(name)}' is there twice")
        self._waiting[name] = source


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """The operations of a model in an order in which they can run, and everything they start from.

    branch: (If operation, condition, names of its results) -> the operations of that branch.
    turn: (Loop or Scan operation, number of the turn, what the body reads, names of its results) -> its operations.
    labels: output -> what its integers, or its columns, stand for; see `reading.words`.
    """

    inputs: tuple[GraphInput, ...]
    outputs: tuple[str, ...]
    operations: tuple[Operation, ...]
    constants: Constants
    names: Names
    branch: Callable[[Operation, bool, tuple[str, ...]], tuple[Operation, ...]]
    turn: Callable[[Operation, int, tuple[str, ...], tuple[str, ...]], tuple[Operation, ...]]
    labels: Mapping[str, tuple[str | int, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )


def read_graph(file: ModelFile) -> Graph:
    """The graph of a model file. Raises ModelError where it contradicts itself."""
    reader, graph = _Reader(file), file.graph
    own = not graph.node or any(not _domain(node.domain) for node in graph.node)
    root = _Scope("", (), {}, opsets(file.model.opset_import, required=own), {})
    inputs = tuple(_graph_input(i) for i in graph.input if text(i.name) not in reader.constants)
    reader.take(graph.node, "its graph")
    operations = reader.flatten(graph.node, root)
    made = [i.name for i in inputs] + [o for op in operations for o in op.outputs if o]
    _refuse_twice(made, reader.constants)
    outputs = tuple(dict.fromkeys(text(o.name) for o in graph.output))
    if not outputs:
        raise ModelError("declares no outputs")
    found = Graph(inputs, outputs, (), reader.constants, reader.names, reader.branch, reader.turn)
    return replace_operations(found, operations)


def replace_operations(graph: Graph, operations: Sequence[Operation]) -> Graph:
    """The graph with these operations instead of its own, without those that no output needs."""
    known = graph.constants.names | {i.name for i in graph.inputs}
    return replace(graph, operations=_in_order(operations, graph.outputs, known))


def list_operators(file: ModelFile) -> Iterator[tuple[str, str, str]]:
    """(domain, operator, node name) of every node that calls no function of the model, of a graph
    that need not hold together.
    """
    functions = {(_domain(f.domain), text(f.name)) for f in file.model.functions}
    for index, node in enumerate(file.graph.node):
        domain, op_type = _domain(node.domain), text(node.op_type)
        if (domain, op_type) not in functions:
            yield *resolve_operator(domain, op_type, 0)[:2], node_name(node, index)


def _graph_input(info: onnx.ValueInfoProto) -> GraphInput:
    name = text(info.name)
    where = f"input '{label(name)}'"
    if not name:
        raise ModelError("an input has no name")
    if not info.type.HasField("tensor_type"):
        raise ModelError("is not a tensor, only tensors are supported", where=where)
    tensor = info.type.tensor_type
    try:
        dtype = dtype_name(tensor.elem_type)
    except ModelError as error:
        raise error.at(where) from error
    if not tensor.HasField("shape"):
        return GraphInput(name, dtype, None)
    dims = tuple(d.dim_value if d.dim_value > 0 else None for d in tensor.shape.dim)
    if len(dims) > MAX_RANK:
        raise ModelError(
            f"has {len(dims)} dimensions, at most {MAX_RANK} are supported", where=where
        )
    return GraphInput(name, dtype, dims)


def _refuse_twice(names: Iterable[str], others: Container[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen or name in others:
            raise ModelError(f"tensor '{label(name)}' is made twice")
        seen.add(name)


class _Reader:
    """Flattens nodes into operations; knows the functions and gives names to what is inside of bodies."""

    def __init__(self, file: ModelFile) -> None:
        graph = file.graph
        self.constants = Constants(file.directory, Budget())
        known = self._add_initializers(graph, file.weights, str)
        inputs = (text(i.name) for i in graph.input)
        self.names = Names({*known, *inputs, *(text(o) for n in graph.node for o in n.output)})
        self._functions = {
            (_domain(f.domain), text(f.name), text(f.overload)): f for f in file.model.functions
        }
        self._opened: dict[Hashable, tuple[Operation, ...]] = {}
        self._weights: dict[int, tuple[onnx.GraphProto, Mapping[str, str]]] = {}
        """Of each body, by its identity, the initializers by their inner names."""
        self._sizes: dict[_FunctionKey, int] = {}

    def _add_initializers(
        self, graph: onnx.GraphProto, weights: Iterable[Weight], rename: Callable[[str], str]
    ) -> Mapping[str, str]:
        """Their names, by those in the file."""
        found: dict[str, str] = {}
        sources = [
            *((w.tensor.name, w) for w in weights),
            *((one.values.name, one) for one in graph.sparse_initializer),
        ]
        for name, source in sources:
            if text(name) in found:
                raise ModelError(f"initializer '{label(name)}' is there twice")
            found[text(name)] = rename(text(name))
            self.constants.expect(found[text(name)], source)
        return found

    def take(self, nodes: Iterable[onnx.NodeProto], why: str) -> None:
        """Ask the budget for nodes, before functions that call functions are opened. Raises ModelError."""
        self.constants.budget.take(OPERATIONS, sum(map(self._size, nodes)), why)

    def _size(self, node: onnx.NodeProto) -> int:
        """Of how many operations a node is, once functions are opened; one for a function that calls itself."""
        key = (
            *resolve_operator(_domain(node.domain), text(node.op_type), 0)[:2],
            text(node.overload),
        )
        if key not in self._functions:
            return 1
        if key not in self._sizes:
            self._sizes[key] = 1
            self._sizes[key] = sum(map(self._size, self._functions[key].node))
        return self._sizes[key]

    def flatten(self, nodes: Sequence[onnx.NodeProto], scope: _Scope) -> list[Operation]:
        """Operations of the nodes in their order, functions opened."""
        operations: list[Operation] = []
        for index, node in enumerate(nodes):
            operation = _operation(node, index, scope)
            key = (operation.domain, operation.op_type, text(node.overload))
            if key in self._functions:
                operations += self._open(operation, key)
            else:
                operations.append(operation)
        return operations

    def _open(self, call: Operation, key: _FunctionKey) -> list[Operation]:
        """The operations of a model-local function in place of its call."""
        function = self._functions[key]
        if key in call.scope.calls:
            raise ModelError(
                f"function '{label(key[1])}' calls itself", where=f"layer '{call.name}'"
            )
        formals = [text(i) for i in function.input]
        if len(call.inputs) > len(formals) or len(call.outputs) > len(function.output):
            raise ModelError(
                f"gives {len(call.inputs)} inputs and takes {len(call.outputs)} outputs of function '{label(key[1])}', "
                f"which has {len(formals)} and {len(function.output)}",
                where=f"layer '{call.name}'",
            )
        names = dict.fromkeys(formals, "")
        names.update(zip(formals, call.inputs, strict=False))
        arguments = {text(a.name): a for a in function.attribute_proto}
        arguments.update(call.attributes)
        imports = {**call.scope.opsets, **opsets(function.opset_import, required=False)}
        calls = call.scope.calls | {key}
        scope = _Scope(f"{call.name}/", call.place, names, imports, arguments, None, calls)
        return self._inside(function.node, scope, names, [text(o) for o in function.output], call)

    def branch(
        self, operation: Operation, condition: bool, results: tuple[str, ...]
    ) -> tuple[Operation, ...]:
        """The operations of one branch of an If. results: names of what it makes. Raises ModelError if it has none."""
        part = "then" if condition else "else"
        which = f"{part}_branch"
        if which not in operation.attributes or not operation.attributes[which].HasField("g"):
            raise ModelError(f"has no {which}")
        graph = operation.attributes[which].g
        if len(graph.output) < len(results):
            raise ModelError(
                f"takes {len(results)} outputs of its {which}, which has {len(graph.output)}"
            )
        return self._body(operation, graph, part, {}, results)

    def turn(
        self, operation: Operation, number: int, given: tuple[str, ...], results: tuple[str, ...]
    ) -> tuple[Operation, ...]:
        """The operations of one turn of a loop. given: names in the whole network of what the body reads, by the position
        of its inputs; results: of what it makes. Raises ModelError.
        """
        graph = operation.attributes["body"].g
        formals = [text(i.name) for i in graph.input]
        if len(formals) != len(given) or len(graph.output) != len(results):
            raise ModelError(
                f"gives {len(given)} inputs and takes {len(results)} outputs of its body, which has {len(formals)} and "
                f"{len(graph.output)}"
            )
        read = dict(zip(formals, given, strict=True))
        return self._body(operation, graph, number, read, results)

    def _body(
        self,
        operation: Operation,
        graph: onnx.GraphProto,
        part: int | str,
        given: Mapping[str, str],
        results: tuple[str, ...],
    ) -> tuple[Operation, ...]:
        """The operations of a sub-graph. part: which one of its operation, or which turn of it."""
        key = (operation.place, part, tuple(given.values()), results)
        if key in self._opened:
            return self._opened[key]
        prefix, why = f"{operation.name}/", f"its {part} part"
        if id(graph) not in self._weights:
            own = (Weight(t) for t in graph.initializer)
            weights = self._add_initializers(graph, own, lambda n: self.names.fresh(prefix + n))
            self._weights[id(graph)] = graph, weights  # with it, so that no other has its id
        outer, weights = operation.scope, self._weights[id(graph)][1]
        # What the other branch reads by that name is handed to both, and nodes of both read it in runtimes.
        names = {n: w for n, w in weights.items() if outer.resolve(n) not in operation.captured}
        names.update(given)
        if isinstance(part, int):
            prefix, why = f"{prefix}{part}/", f"its turn {part + 1}"
        place = (*operation.place, part)
        scope = replace(outer, prefix=prefix, place=place, names=names, outer=outer)
        self.take(graph.node, why)
        call, outputs = replace(operation, outputs=results), [text(o.name) for o in graph.output]
        inner = self._inside(graph.node, scope, names, outputs, call, weights)
        outside = {n for op in inner for n in (*op.inputs, *op.captured) if n}
        outside -= {n for op in inner for n in op.outputs}
        self._opened[key] = _in_order(inner, [o for o in results if o], outside)
        return self._opened[key]

    def _inside(
        self,
        nodes: Sequence[onnx.NodeProto],
        scope: _Scope,
        names: dict[str, str],
        results: Sequence[str],
        call: Operation,
        weights: Mapping[str, str] = MappingProxyType({}),
    ) -> list[Operation]:
        """Operations of a body whose `results` become the outputs of `call`; fills `names`, the
        scope's. weights: what names of results are that no node makes.
        """
        made = [text(o) for node in nodes for o in node.output if o]
        _refuse_twice(made, names)
        pairs = [
            (inner, outer) for inner, outer in zip(results, call.outputs, strict=False) if outer
        ]
        renamed = {inner: outer for inner, outer in reversed(pairs) if inner in made}
        names.update(
            (n, renamed.get(n) or self.names.given((scope.place, n), scope.prefix + n))
            for n in made
        )
        operations = self.flatten(nodes, scope)
        # A result that the body does not make itself, or hands out twice, is passed on.
        for inner, outer in pairs:
            if renamed.get(inner) != outer:
                source = renamed.get(inner) or weights.get(inner) or scope.resolve(inner)
                operations.append(call.other("Identity", (source,), (outer,)))
        return operations


def _domain(domain: str | bytes) -> str:
    name = text(domain)
    return "" if name == "ai.onnx" else name


def find_node(model: onnx.ModelProto, place: Place) -> tuple[Place, Any]:
    """The place in the file of the node of an operation, and the nodes among which it is the last number of that: turns of a
    loop, and calls of a function, have the same nodes. Raises LookupError where there is none.
    """
    functions = {(_domain(f.domain), text(f.name), text(f.overload)): f for f in model.functions}
    nodes, found, rest = model.graph.node, Place(), list(place)
    while True:
        at = int(rest.pop(0))
        node, found = nodes[at], (*found, at)
        if not rest:
            return found, nodes
        key = _domain(node.domain), text(node.op_type), text(node.overload)
        if key in functions:
            nodes, found = functions[key].node, key
            continue
        part = rest.pop(0)
        which = f"{part}_branch" if isinstance(part, str) else "body"
        graphs = {text(one.name): one.g for one in node.attribute}
        nodes, found = graphs[which].node, (*found, which)


def node_name(node: onnx.NodeProto, index: int) -> str:
    """What a node is called; one without a name after its operator and place; behind its module, where torch says that."""
    scopes = [text(p.value) for p in node.metadata_props if text(p.key) == _SCOPES]
    *_, module, _ = ["", "", *re.findall("'([^']*)'", "".join(scopes))]
    name = " ".join(label(node.name).split()) or f"{label(node.op_type, 40)}_{index}"
    return " ".join(label(f"{module}/{name}").split()) if module else name


_SCOPES = "pkg.torch.onnx.name_scopes"
"""Key of a node's metadata of torch.onnx.export(dynamo=True): Python's list of the modules around an operation, from the
outside, each by its whole path, and of the operation.
"""


def _operation(node: onnx.NodeProto, index: int, scope: _Scope) -> Operation:
    op_type, domain = text(node.op_type), _domain(node.domain)
    newest = scope.opsets.get("", 0)
    domain, op_type, opset = resolve_operator(domain, op_type, scope.opsets.get(domain, 0), newest)
    name = scope.prefix + node_name(node, index)
    attributes: dict[str, AttributeProto] = {}
    for attribute in node.attribute:
        key = text(attribute.name)
        if key in attributes:
            raise ModelError(f"has attribute '{label(key)}' twice", where=f"layer '{name}'")
        referred = text(attribute.ref_attr_name)
        if not referred:
            attributes[key] = attribute
        elif referred in scope.arguments:
            attributes[key] = scope.arguments[referred]
    graphs = list_graphs(node)
    return Operation(
        name=name,
        op_type=op_type,
        domain=domain,
        opset=opset,
        attributes=attributes,
        inputs=tuple(scope.resolve(text(i)) for i in node.input),
        outputs=tuple(scope.resolve(text(o)) for o in node.output),
        captured=tuple(dict.fromkeys(scope.resolve(n) for g in graphs for n in _captured(g))),
        scope=scope,
        place=(*scope.place, index),
    )


def _captured(graph: onnx.GraphProto) -> Iterator[str]:
    """The names that a sub-graph reads and does not make."""
    made = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    made |= {t.values.name for t in graph.sparse_initializer}
    made |= {o for node in graph.node for o in node.output}
    read = [o.name for o in graph.output]
    for node in graph.node:
        read += [*node.input, *(n for inner in list_graphs(node) for n in _captured(inner))]
    yield from (text(n) for n in read if n and n not in made)


def _in_order(
    operations: Sequence[Operation], wanted: Sequence[str], known: Container[str]
) -> tuple[Operation, ...]:
    """The operations that `wanted` needs, each behind those it reads from; otherwise in their given
    order.

    known: names that need no operation. Raises ModelError for a name that nothing makes, and for a
        cycle.
    """
    maker = {name: k for k, op in enumerate(operations) for name in op.outputs if name}
    missing = [n for n in wanted if n not in maker and n not in known]
    if missing:
        raise ModelError(f"output '{label(missing[0])}' is made by no node")
    sources: dict[int, set[int]] = {}
    waiting = [maker[n] for n in wanted if n in maker]
    while waiting:
        k = waiting.pop()
        if k in sources:
            continue
        op = operations[k]
        lost = [n for n in op.inputs if n and n not in maker and n not in known]
        if lost:
            raise ModelError(
                f"reads '{label(lost[0])}', which nothing makes",
                where=f"layer '{op.name}' ({label(op.op_type)})",
            )
        sources[k] = {maker[n] for n in (*op.inputs, *op.captured) if n in maker}
        waiting += sources[k]
    used = {n for k in sources for n in (*operations[k].inputs, *operations[k].captured)} | set(
        wanted
    )
    return tuple(
        replace(operations[k], outputs=tuple(o if o in used else "" for o in operations[k].outputs))
        for k in _sorted(operations, sources)
    )


def _sorted(operations: Sequence[Operation], sources: Mapping[int, set[int]]) -> list[int]:
    """Topological order that keeps the given one where it can."""
    order = sort_topologically(sources)
    if len(order) < len(sources):
        waiting = sources.keys() - order
        k = next(k for k in sources if k in waiting)
        seen: set[int] = set()
        while k not in seen:  # walking back from a node that waits ends on the cycle
            seen.add(k)
            k = next(b for b in sources[k] if b in waiting)
        op = operations[k]
        raise ModelError(
            "lies on a cycle, its input depends on its output",
            where=f"layer '{op.name}' ({label(op.op_type)})",
        )
    return order
