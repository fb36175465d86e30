"""How does a graph of operations become layers, given the shapes of its inputs?

Every operation is visited once, in order. An operation whose operands are all constants is evaluated;
the operator of any other operation builds a layer. The visit continues behind an operation that cannot
be built, so that one error names every operator that is not supported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from enum import Enum, auto
from functools import partial
from itertools import islice
from types import MappingProxyType

import numpy as np

from csdfgen.errors import CsdfgenError, ModelError, option
from csdfgen.limits import ELEMENTS, ROWS, WIDTH, Budget
from csdfgen.model.formats import FLOAT32, Stored
from csdfgen.model.network import Guard, Layer, Network, Node, Output, Tensor, filter_needed
from csdfgen.ops import OPERATORS
from csdfgen.ops.base import (
    MICROSOFT,
    ComputedOperandError,
    build_with_tensors,
    require_constant,
)
from csdfgen.ops.joining import constant_layer
from csdfgen.ops.stored import quantize_values, read_values
from csdfgen.reading.batching import lift_node, lower_node, repeat_constant
from csdfgen.reading.bfloat16 import may_be_several, round_ends, widen_operation
from csdfgen.reading.bounded import Bounded
from csdfgen.reading.folding import DESCRIPTION_ONLY, Folder, is_foldable, placeholder
from csdfgen.reading.groups import OF_MAPS, group_normalization, split_normalization
from csdfgen.reading.heights import LIFTED, lift_height
from csdfgen.reading.image_axes import Outside
from csdfgen.reading.last_steps import use_last_states
from csdfgen.reading.onnx_file import DAMAGED, ModelFile, label
from csdfgen.reading.onnx_graph import (
    Graph,
    GraphInput,
    Operation,
    Place,
    list_operators,
    replace_operations,
)
from csdfgen.reading.onnx_schema import (
    Signature,
    attribute_values,
    check_attributes,
    check_operands,
    signature,
)
from csdfgen.reading.onnx_tensor import DTYPES, MAX_ELEMENTS, MAX_ROW_ELEMENTS
from csdfgen.reading.scanned import loop_layer, scan_layer
from csdfgen.reading.sequences import SEQUENCES, Listed, resolve
from csdfgen.reading.stored_layers import store_integers
from csdfgen.reading.unrolling import UNROLLED, Writing, is_short, passes_condition, unroll
from csdfgen.reading.unsupported import unsupported_error
from csdfgen.reading.without_elements import make_empty_results


class _Unknown(Enum):
    """What stands for the result of an operation that could not be built."""

    COMPUTED = auto()
    CONSTANT = auto()


_Known = Tensor | np.ndarray | None
_Value = Tensor | np.ndarray | Listed | _Unknown | None


def fold_constants(graph: Graph, folder: Folder, but: frozenset[str] = frozenset()) -> Graph:
    """The graph without the operations that need no network input; their results are among its constants, and an If
    whose condition is one is replaced by its branch. but: operators that are left alone.
    """
    rest, opened = [], False
    waiting = list(reversed(graph.operations))
    while waiting:
        operation = waiting.pop()
        if _is_if(operation) and operation.inputs and operation.inputs[0] in graph.constants:
            condition = graph.constants[operation.inputs[0]]
            if condition.size == 1:
                taken = bool(condition.item())
                waiting += reversed(graph.branch(operation, taken, operation.outputs))
                opened = True
                continue
        if (
            operation.op_type in but
            or not _can_fold(operation)
            or any(n and n not in graph.constants for n in operation.inputs)
        ):
            rest.append(operation)
            continue
        operands = [graph.constants[n] if n else None for n in operation.inputs]
        operation = _on_values(operation, operands)
        try:
            node = _node(operation, operation.name, _values(operation, operands))
            results = _integers(operation, folder.fold(operation, node))
        except ModelError as error:
            raise error.at(_where(operation)) from error
        for name, array in zip(operation.outputs, results, strict=False):
            graph.constants[name] = array
    if opened:  # what only the other branch read is not needed
        return replace_operations(graph, rest)
    return replace(graph, operations=tuple(rest))


def build_network(
    graph: Graph,
    inputs: Sequence[Tensor],
    folder: Folder,
    *,
    name: str,
    source: str,
    lift_to: int | None = None,
    lower_from: tuple[int, Outside] | None = None,
    apart: bool = True,
    as_rows: bool = True,
    written: Sequence[Tensor] | None = None,
) -> Network:
    """The network for inputs of these shapes, constants folded. Raises ModelError, see
    `loader.load`.

    lift_to: a number of images; constants that fix a single one are lifted to it (`lifting`), and
        the network says whether there were any. apart: normalizations of one image may be taken apart; they are not
        where the network is compared with one of several images. as_rows: Scans may become layers, whose rows are turns.
    written: inputs of the height that constants of the file fix, which are lifted to that of `inputs` (`heights`).
    """
    named = {t.name: t for t in inputs}
    visit = _Visit(graph, named, folder, lift_to, lower_from, apart, as_rows)
    if written is not None:
        of_file = {t.name: t for t in written}
        visit.written = _Visit(graph, of_file, folder, apart=apart, as_rows=as_rows)
    for tensor in inputs:
        visit.check_size(tensor, f"input '{label(tensor.name)}' has")
    for operation in graph.operations:
        visit.operation(operation)
    visit.raise_what_was_found()
    outputs = tuple(visit.output(wanted) for wanted in graph.outputs)
    given = {output.tensor.name for output in outputs if output.tensor is not None}
    layers = filter_needed(visit.layers, given)
    if any("sequence" in layer.attributes for layer in layers):
        layers = use_last_states(layers, given)
    return Network(
        name,
        tuple(inputs),
        outputs,
        tuple(layers),
        source=source,
        lifted=visit.lifted,
        bounded=visit.bounded,
        places=MappingProxyType(visit.places),
        labels=graph.labels,
    )


def refuse_unsupported(graph: Graph, inputs: Sequence[GraphInput], folder: Folder) -> None:
    """UnsupportedOperatorError for operators that are not known, as far as they are found without any
    shapes.
    """
    visit = _Visit(graph, {i.name: _Unknown.COMPUTED for i in inputs}, folder)
    for operation in graph.operations:
        visit.operation(operation)
    if visit.unsupported:
        raise unsupported_error(visit.unsupported)


def refuse_unknown(file: ModelFile) -> None:
    """UnsupportedOperatorError for operators that are not known by their mere names, of a graph
    that cannot be read.
    """
    found: dict[str, list[str]] = {}
    for domain, op_type, name in list_operators(file):
        if not _is_named(domain, op_type):
            found.setdefault(f"{domain}::{op_type}" if domain else op_type, []).append(name)
    if found:
        raise unsupported_error(found)


def _where(operation: Operation) -> str:
    return f"layer '{operation.name}' ({label(operation.op_type)})"


def _is_named(domain: str, op_type: str) -> bool:
    """Whether an operator of that name and domain may be one that is known."""
    if op_type in OPERATORS:
        return OPERATORS[op_type].domain == domain
    return not domain and (op_type in _OPENED or is_foldable(op_type))


def _signature(operation: Operation) -> Signature | None:
    """What the schema of its operator says; None where there is none."""
    if operation.domain == MICROSOFT:
        return signature(operation.op_type, 1, MICROSOFT)
    if operation.domain:
        return signature(operation.op_type, operation.opset, operation.domain)
    # onnxruntime writes some of its operators into ONNX's own domain
    own = signature(operation.op_type, operation.opset)
    return own or signature(operation.op_type, 1, MICROSOFT)


def _is_known(operation: Operation) -> bool:
    return _is_named(operation.domain, operation.op_type) and _signature(operation) is not None


def _can_fold(operation: Operation) -> bool:
    return (
        _is_known(operation)
        and is_foldable(operation.op_type)
        and operation.op_type not in UNROLLED
    )


_OPENED = frozenset({"If", *UNROLLED, *SEQUENCES})
"""Operators that others take the place of."""


def _is_if(operation: Operation) -> bool:
    """Whether a branch takes its place once the condition is a constant."""
    return _is_known(operation) and operation.op_type == "If"


def _on_values(operation: Operation, operands: Sequence[_Value]) -> Operation:
    """The operation as its operator has it: on float32, where operands are bfloat16."""
    if operation.stored is None and any(
        str(getattr(o, "dtype", "")) == "bfloat16" for o in operands
    ):
        return widen_operation(operation, operands, _signature(operation))
    return operation


def _node(operation: Operation, name: str, operands: Sequence[_Known]) -> Node:
    """The node with its operands; ModelError if it is not what its operator's schema says."""
    allowed = _signature(operation)
    assert allowed is not None
    check_attributes(allowed, operation.attributes)
    check_operands(allowed, operands, len(operation.outputs))
    values = attribute_values(operation.attributes)
    return Node(
        name, operation.op_type, operation.opset, values, tuple(operands), operation.outputs
    )


def _in_a_branch(error: CsdfgenError) -> CsdfgenError:
    """An error of a layer in a branch, which may be there for other sizes than those that are planned."""
    hint = f"if no image takes this branch of an If, make its condition a constant with {option('fix')}"
    found = copy(error)
    found.message = f"{error.message}; {hint}"
    return found


class _Visit:
    """One walk over the operations of a graph: the value of every name, and what went wrong."""

    def __init__(
        self,
        graph: Graph,
        inputs: Mapping[str, Tensor | _Unknown],
        folder: Folder,
        lift_to: int | None = None,
        lower_from: tuple[int, Outside] | None = None,
        apart: bool = True,
        as_rows: bool = True,
    ) -> None:
        self.layers: list[Layer] = []
        self.lifted = False
        self.written: _Visit | None = None
        self._sizes: dict[tuple[int, int], set[int]] = {}
        """(axis from behind, size at the file's height) -> sizes there, of as many values as were compared."""
        self._compared = 0
        self.unsupported: dict[str, list[str]] = {}
        self.places: dict[str, Place] = {}
        self._graph = graph
        self._folder = folder
        self._lift_to = lift_to
        self._lower_from = lower_from
        self._apart = apart
        self._as_rows = as_rows
        self._inputs = inputs
        self._values: dict[str, _Value] = {"": None, **inputs}
        self._layer_names: dict[str, int] = {}
        self._asked: Counter[str] = Counter()
        self._first_error: CsdfgenError | None = None
        self._guards: tuple[Guard, ...] = ()
        self._bounded = Bounded(self._add_made)
        self._budget = Budget()

    @property
    def bounded(self) -> Mapping[str, int]:
        """Tensor -> the axis along which it has as many positions as are found at run time."""
        made = {tensor.name for layer in self.layers for tensor in layer.outputs}
        return MappingProxyType({n: k for n, k in self._bounded.axes.items() if n in made})

    def check_size(self, tensor: Tensor, what: str) -> None:
        """Refuse a tensor that is absurdly large: only rows of it are held, but one row is, and tables of all rows."""
        shape, take = "x".join(map(str, tensor.shape)), self._budget.take
        elements, rows, width = tensor.elements, tensor.rows, tensor.row_elements
        if elements > MAX_ELEMENTS:
            raise ModelError(f"{what} {elements} elements ({shape}), at most {MAX_ELEMENTS}")
        if max(width, rows) > MAX_ROW_ELEMENTS:
            raise ModelError(
                f"{what} {rows} rows of {width} elements ({shape}), at most {MAX_ROW_ELEMENTS} of either"
            )
        wider = max(0, width - self._budget.taken(WIDTH))
        take(WIDTH, wider, f"{what} rows of {width:,} elements ({shape})")
        take(ROWS, rows, f"{what} {rows:,} rows ({shape})")
        take(ELEMENTS, elements, f"{what} {elements:,} elements ({shape})")

    def raise_what_was_found(self) -> None:
        """Unsupported operators before any other error: those need another model, whatever else is
        wrong.
        """
        if self.unsupported:
            raise unsupported_error(self.unsupported)
        if self._first_error is not None:
            raise self._first_error

    def output(self, name: str) -> Output:
        """The network output of a name; an input that is an output as well passes through an
        Identity.
        """
        value = self._value(name)
        if isinstance(value, Listed):
            raise ModelError(
                f"output '{label(name)}' is {value}; join them by ConcatFromSequence, or take them out by SequenceAt"
            )
        if isinstance(value, np.ndarray):
            self._bounded.check_output(name)
            return Output(name, None, value)
        assert isinstance(value, Tensor)
        if name in self._inputs:
            return Output(name, self._of_own("Identity", "Identity", (value,), name))
        return Output(name, self._bounded.filled_output(value))

    def operation(self, operation: Operation) -> None:
        """Evaluate an operation or make a layer of it; what fails is noted, and its results are
        unknown.
        """
        result, operands, before = _Unknown.COMPUTED, list[_Value](), len(self.layers)
        try:
            if not _is_known(operation):
                self._note_unsupported(operation)  # whatever its operands are
            elif operation.op_type in UNROLLED:
                self._unrolled(operation)
                return
            else:
                operands = _as_read(operation, [self._value(n) for n in operation.inputs])
                if self._listed(operation, operands):
                    return
                operation = _on_values(operation, operands)
                if _is_if(operation) and operands and isinstance(operands[0], Tensor | _Unknown):
                    self._branches(operation, operands[0])
                    return
                if not any(isinstance(o, Tensor) or o is _Unknown.COMPUTED for o in operands):
                    result = _Unknown.CONSTANT
                if self._evaluated(operation, operands) or self._built(operation, operands):
                    return
        except ModelError as error:
            if self._empty(operation, operands):
                del self.layers[before:]
                return
            self._first_error = self._first_error or error.at(_where(operation))
        self._values.update((name, result) for name in operation.outputs if name)

    def _empty(
        self, operation: Operation, operands: Sequence[_Value], names: Iterable[str] | None = None
    ) -> bool:
        """Give results of an operation that were not computed, if these have no elements. names: theirs; None: all."""
        known = [o for o in operands if isinstance(o, Tensor | np.ndarray | None)]
        if len(known) < len(operation.inputs):
            return False
        made = dict(make_empty_results(operation, known))
        for k, name in enumerate(operation.outputs):
            form = None if operation.stored is None else operation.stored.written(k)
            if form is not None and name in made:
                made[name] = made[name].astype(form.dtype)
        if not set(operation.outputs if names is None else names) - {""} <= made.keys():
            return False
        self._values.update(made)
        return True

    def _value(self, name: str) -> _Value:
        if name in self._values:
            return self._values[name]
        if name in self._graph.constants:
            return self._graph.constants[name]
        raise ModelError(f"reads '{label(name)}', which nothing makes")

    def _evaluated(self, operation: Operation, operands: Sequence[_Value]) -> bool:
        """Fold the operation if its operands are constants, or open the branch of an If that is
        known.
        """
        if _is_if(operation) and operands and isinstance(operands[0], np.ndarray):
            if operands[0].size != 1:
                raise ModelError(f"its condition has {operands[0].size} elements, one is needed")
            taken = bool(operands[0].item())
            for inner in self._graph.branch(operation, taken, operation.outputs):
                self.operation(inner)
            return True
        constants = [o for o in operands if o is None or isinstance(o, np.ndarray)]
        if not is_foldable(operation.op_type) or len(constants) < len(operands):
            return False
        node = _node(operation, operation.name, _values(operation, constants))
        results = _integers(operation, self._folder.fold(operation, node))

        def fold(given: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
            return self._folder.fold(operation, replace(node, inputs=tuple(given)))

        self._bounded.folded(operation, constants, results, fold)
        self._values.update((n, a) for n, a in zip(operation.outputs, results, strict=False) if n)
        return True

    def _branches(self, operation: Operation, condition: Tensor | _Unknown) -> None:
        """Layers of both branches of an If whose condition is computed, each with its guard, and layers that join their
        results.
        """
        if isinstance(condition, Tensor):
            self._check_condition(condition)
        name, outer = self._layer_name(operation.name), self._guards
        self.places[name] = operation.place
        outputs = [n for n in operation.outputs if n]
        results: list[list[_Value]] = []
        before = len(self.layers)
        for taken in (True, False):
            ends = {n: self._fresh_tensor(f"{n}/{'then' if taken else 'else'}") for n in outputs}
            wanted = tuple(ends.get(n, "") for n in operation.outputs)
            inside = self._graph.branch(operation, taken, wanted)
            self._guards = (*outer, Guard(name, taken))
            failed = self._first_error
            try:
                with self._bounded.in_a_branch():
                    for one in inside:
                        self.operation(one)
            finally:
                self._guards = outer
            if failed is None and self._first_error is not None and not outer:
                self._first_error = _in_a_branch(self._first_error)
            results.append([self._value(ends[n]) for n in outputs])
        results = [
            [self._for_each(a, b) for a, b in zip(one, other, strict=True)]
            for one, other in (results, results[::-1])
        ]
        for output, yes, no in zip(outputs, *results, strict=True):
            if (
                isinstance(condition, _Unknown)
                or isinstance(yes, _Unknown)
                or isinstance(no, _Unknown)
            ):
                self._values[output] = _Unknown.COMPUTED
            elif isinstance(yes, Listed) or isinstance(no, Listed):
                raise ModelError(
                    f"output '{label(output)}' is a sequence, and its condition is computed; tensors can be chosen, one by one"
                )
            else:
                self._joined(name, output, condition, yes, no, before)

    def _for_each(self, result: _Value, other: _Value) -> _Value:
        """A result of a branch; a constant for one image, where the other branch makes one for each, is that for each."""
        if (
            self._lift_to is None
            or not isinstance(result, np.ndarray)
            or not isinstance(other, Tensor)
        ):
            return result
        found = repeat_constant(result, self._lift_to)
        self.lifted = self.lifted or found is not result
        return found

    def _check_condition(self, condition: Tensor) -> None:
        """A condition is one bool, or one for each image where the network is built for several. Raises ModelError."""
        images = {x.shape[:1] for x in self._inputs.values() if isinstance(x, Tensor)}
        each = condition.shape[:1] == (condition.elements,) and images == {condition.shape[:1]}
        if condition.dtype != "bool" or not (condition.elements == 1 or each):
            shape = "x".join(map(str, condition.shape)) or "scalar"
            raise ModelError(f"its condition is {condition.dtype} {shape}; one bool is needed")

    def _joined(
        self, name: str, output: str, condition: Tensor, yes: _Known, no: _Known, before: int
    ) -> None:
        """The layer that joins the results of two branches, whose layers are from `before` on."""
        forms = [
            f"{one.dtype} {'x'.join(map(str, one.shape)) or 'scalar'}"
            for one in (yes, no)
            if one is not None
        ]
        if len(forms) < 2 or forms[0] != forms[1]:
            raise ModelError(
                f"output '{label(output)}' is {forms[0]} in its then_branch, {forms[-1]} in its else_branch; they must be the "
                "same"
            )
        if isinstance(yes, np.ndarray) and not yes.size:
            self._values[output] = yes
            return
        rank = len(yes.shape) if yes is not None else 0
        form = (condition.elements, *(1,) * (rank - 1)) if rank else ()
        # with its axes it would be broadcast with the results
        if condition.shape not in ((), form):
            target = np.array([-1, *form[1:]] if form else [], np.int64)
            operands = (condition, target)
            condition = self._of_own(name, "Reshape", operands, f"{output}/condition")
            self.layers.insert(before, self.layers.pop())  # the branches wait for it
        node = Node(self._layer_name(name), "Where", 16, {}, (condition, yes, no), (output,))
        layer = OPERATORS["Where"].build(node)
        attributes = MappingProxyType({**layer.attributes, "branch": name})
        self._add(replace(layer, attributes=attributes))

    def _unrolled(self, operation: Operation) -> None:
        """The turns of a loop, as rows of one layer or written out, if its operands are known; else its results are
        unknown.
        """
        operands = [self._value(n) for n in operation.inputs]
        if any(isinstance(o, _Unknown) for o in operands):
            self._values.update((n, _Unknown.COMPUTED) for n in operation.outputs if n)
            return
        self._bounded.check_turns(operation.inputs)

        states = 2 if operation.op_type == "Loop" else 0  # those of a Loop may be sequences
        if any(isinstance(o, Listed) for o in operands[: states or None]):
            raise ModelError("reads a sequence; it needs tensors")
        known = [o if isinstance(o, Tensor | np.ndarray) else None for o in operands]
        why = self._looped(operation, known) if self._as_rows else ""
        if why is None:
            return
        try:
            unroll(self._writing(operation), known, self._graph)
        except ModelError as error:
            if not why or operation.op_type == "Scan":
                raise
            raise ModelError(f"{error.message}; it is no layer of its own either: {why}") from None

    def _writing(self, operation: Operation) -> Writing:
        """What other operations are written with in place of this one."""

        def keep(name: str, array: np.ndarray) -> str:
            fresh = self._fresh_tensor(name)
            self._values[fresh] = array
            return fresh

        return Writing(operation, self.operation, self._value, keep, self._fresh_tensor)

    def _listed(self, operation: Operation, operands: Sequence[_Value]) -> bool:
        """Resolve an operator of sequences, once its operands are known. Raises ModelError for another that reads one."""
        found = next((o for o in operands if isinstance(o, Listed)), None)
        if operation.op_type == "Identity" and found is not None:
            self._values[operation.outputs[0]] = found
            return True
        if operation.op_type not in SEQUENCES:
            if found is not None:
                raise ModelError(f"reads {found}; it needs tensors, one by one")
            return False
        allowed = _signature(operation)
        assert allowed is not None
        check_attributes(allowed, operation.attributes)
        if not allowed.min_inputs <= len(operands) <= allowed.max_inputs or "" in operation.outputs:
            raise ModelError(
                f"has {len(operands)} inputs, the operator takes {allowed.min_inputs} to {allowed.max_inputs}"
            )
        if any(isinstance(o, _Unknown) for o in operands):
            self._values[operation.outputs[0]] = _Unknown.COMPUTED
            return True
        made = resolve(self._writing(operation), operands)
        if made is not None:
            self._values[operation.outputs[0]] = made
        return True

    def _looped(self, operation: Operation, operands: Sequence[_Known]) -> str | None:
        """Make one layer of a Scan or a Loop, if its body consists of plain layers; else why not, "" if it was not tried."""
        if (
            self._lift_to is not None
            or not self._bounded.axes.keys().isdisjoint(operation.captured)
            or is_short(operation, operands)
        ):
            return ""
        before = len(self.layers)

        def turn(given: Sequence[Tensor], ends: Sequence[str]) -> list[Layer]:
            inside = _Visit(self._graph, self._inputs, self._folder, apart=self._apart)
            inside._values = {**self._values, **{t.name: t for t in given}}
            inside._asked = self._asked
            names = tuple(t.name for t in given)
            for one in self._graph.turn(operation, 0, names, tuple(ends)):
                inside.operation(one)
            inside.raise_what_was_found()
            if inside.bounded:
                raise ModelError("its body has axes of unknown sizes")
            constants = {name: inside._values[name] for name in ends}
            written = [
                constant_layer(name, name, value)
                for name, value in constants.items()
                if isinstance(value, np.ndarray)
            ]
            return [*inside.layers, *written]

        def make(op_type: str, *given: _Known) -> Tensor:
            return self._of_own(operation.name, op_type, given, f"{operation.name}/{op_type}")

        try:
            if operation.op_type == "Scan":
                layer = scan_layer(operation, operands, turn, self._fresh_tensor)
            else:
                passes = passes_condition(operation.attributes["body"].g)
                layer = loop_layer(operation, operands, turn, self._fresh_tensor, make, passes)
        except CsdfgenError as error:
            del self.layers[before:]
            return str(error)
        self._add(replace(layer, name=self._layer_name(layer.name)))
        return None

    def _built(self, operation: Operation, operands: Sequence[_Value]) -> bool:
        """Make a layer of the operation if its operands are known; note it if its operator is not."""
        computed = any(isinstance(o, Tensor) or o is _Unknown.COMPUTED for o in operands)
        if computed and operation.op_type not in OPERATORS:  # it is for constants
            self._note_unsupported(operation)
            return False
        known = [o for o in operands if isinstance(o, Tensor | np.ndarray | None)]
        if len(known) < len(operands):
            return False
        values = _values(operation, known)
        node = _node(operation, self._layer_name(operation.name), values)
        if self._lower_from is not None:
            images, outside = self._lower_from
            count = partial(outside.count, single=self._values)
            node = lower_node(replace(node, inputs=tuple(known)), images, count)
            known = list(node.inputs)
            values = _values(operation, known)
            node = replace(node, inputs=tuple(values))
        node = self._bounded.prepared(node, operation.inputs)
        try:
            alone = operation.stored is not None and not may_be_several(operation)
            layers = build_with_tensors(
                lambda one: _layers(self._lift(operation, one), alone=alone), node, self._written
            )
        except ComputedOperandError as error:
            raise self._not_constant(error) from error
        if operation.stored is not None:
            if alone or [layer.op_type for layer in layers] == [operation.op_type]:
                layers = (
                    store_integers(layers[0], operation.stored, operation.outputs, known, values),
                )
            else:
                layers = round_ends(layers, operation, known)
        for layer in self._with_own_names(self._normalized(self._grouped(layers)), node):
            self._add(layer)
            self._bounded.follow(layer)
        self._bounded.sized(node, operation.inputs, layers)
        missing = [n for n in operation.outputs if n and n not in self._values]
        if missing and not self._empty(operation, operands, missing):
            raise ModelError(f"output '{label(missing[0])}' is not computed; remove what reads it")
        return True

    def _of_own(self, name: str, op_type: str, operands: tuple[_Known, ...], output: str) -> Tensor:
        """What a layer makes that no node of the file stands for. name, output: what it and its tensor are called, unless
        something has that name.
        """
        outputs = (self._fresh_tensor(output),)
        node = Node(self._layer_name(name), op_type, 13, {}, operands, outputs)
        self._add(OPERATORS[op_type].build(node))
        return self.layers[-1].output

    def _written(self, name: str, value: np.ndarray) -> Tensor:
        """A tensor of this value, which a layer writes in every frame."""
        name = self._fresh_tensor(name)
        self._add(constant_layer(self._layer_name(name), name, value))
        return self.layers[-1].output

    def _grouped(self, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
        """The layers; a normalization of groups that ends with them takes the place of its layers."""
        last = (*self.layers[-2:], *layers)
        together = all(layer.guards == self._guards for layer in self.layers[-2:])
        merged = group_normalization(*last) if len(last) == 3 and together else None
        inside = [layer.output.name for layer in last[:2]]
        if merged is None or any(self._reads(name) != 1 for name in inside):
            return layers
        del self.layers[-2:]
        return (merged,)

    def _normalized(self, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
        """The layers; a normalization of a map that others read too is taken apart."""
        (layer, *others) = layers
        source = layer.inputs[0] if layer.inputs else None
        if others or layer.op_type not in OF_MAPS or source is None:
            return layers
        return (
            split_normalization(layer) if self._apart and self._reads(source.name) > 1 else layers
        )

    def _reads(self, name: str) -> int:
        """How often the graph reads a name, or gives it."""
        graph = self._graph
        read = ((*op.inputs, *op.captured) for op in graph.operations)
        return sum(names.count(name) for names in (*read, graph.outputs))

    def _lift(self, operation: Operation, node: Node) -> Node:
        """The node for all images, or for those of this height."""
        made = node
        if self._lift_to is not None:
            made = lift_node(node, self._lift_to)
        elif self.written is not None and node.op_type in LIFTED:
            made = self._lift_height(operation, node, self.written)
        self.lifted = self.lifted or made is not node
        return made

    def _lift_height(self, operation: Operation, node: Node, written: _Visit) -> Node:
        """The node with what the file fixes for images of another height; sizes that it computes are right. written: the walk for
        images of the file's height.
        """
        if not written.layers:
            for one in self._graph.operations:
                written.operation(one)
        for name, value in islice(self._values.items(), self._compared, None):
            other = written._values.get(name)
            if isinstance(value, Tensor) and isinstance(other, Tensor):
                for k, (now, was) in enumerate(zip(value.shape, other.shape, strict=False)):
                    if now != was:
                        self._sizes.setdefault((k - len(other.shape), was), set()).add(now)
        self._compared = len(self._values)
        for name in operation.inputs:
            value, other = self._values.get(name), written._values.get(name)
            if isinstance(value, np.ndarray) and not (
                isinstance(other, np.ndarray) and np.array_equal(value, other)
            ):
                return node
        sizes = {key: max(one) for key, one in self._sizes.items() if len(one) == 1}
        source = written._values.get(operation.inputs[0])
        return lift_height(node, source.shape, sizes) if isinstance(source, Tensor) else node

    def _note_unsupported(self, operation: Operation) -> None:
        op_type = (
            f"{operation.domain}::{operation.op_type}" if operation.domain else operation.op_type
        )
        self.unsupported.setdefault(op_type, []).append(operation.name)

    def _not_constant(self, error: ComputedOperandError) -> ModelError:
        """What the operand is computed from, and what can be done about it. Sizes and constants are
        settled by now, so that neither other shapes nor folding would change it.
        """
        name = label(error.name)
        if error.name in self._inputs:
            return ModelError(
                f"input {error.position} is the network input '{name}', it must be a constant; "
                f"give its values with {option('fix')}, or store them in the model as an initializer"
            )
        behind = ", ".join(f"'{label(n)}'" for n in self._inputs_behind(error.name))
        return ModelError(
            f"input {error.position} is computed at run time ('{name}', from network input {behind}), "
            "it must be a constant; export the model with a constant there, or cut it in front of this layer"
        )

    def _inputs_behind(self, name: str) -> list[str]:
        """The network inputs that a tensor depends on, in their order."""
        makers = {tensor.name: layer for layer in self.layers for tensor in layer.outputs}
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            tensor = waiting.pop()
            if tensor not in seen:
                seen.add(tensor)
                waiting += [t.name for t in makers[tensor].inputs if t] if tensor in makers else []
        return [n for n in self._inputs if n in seen]

    def _add(self, layer: Layer) -> None:
        for tensor in layer.outputs:
            what = f"output '{label(tensor.name)}' would"
            if tensor.dtype not in DTYPES.values():
                raise ModelError(f"{what} be of type {tensor.dtype}, which is not supported")
            if min(tensor.shape, default=1) < 1:
                shape = "x".join(map(str, tensor.shape))
                raise ModelError(f"{what} be empty, of shape {shape}; check the input shapes")
            self.check_size(tensor, f"{what} have")
            self._values[tensor.name] = tensor
        nodes = layer.onnx_nodes or (layer.name,)
        self.layers.append(replace(layer, onnx_nodes=nodes, guards=self._guards))

    def _add_made(self, layers: Sequence[Layer], node: Node) -> Tensor:
        """Add layers that no node of the file stands for, and return what the last one makes."""
        for layer in self._with_own_names(layers, node):
            self._add(layer)
        return self.layers[-1].output

    def _with_own_names(self, layers: Sequence[Layer], node: Node) -> Sequence[Layer]:
        """The layers of a node, in which what the file has no names for has names that nothing else has."""
        inner = (t.name for layer in layers for t in layer.outputs if t.name not in node.outputs)
        names = {name: self._fresh_tensor(name) for name in inner}

        def named(tensor: Tensor) -> Tensor:
            return replace(tensor, name=names.get(tensor.name, tensor.name))

        found = []
        for layer in layers:
            name = layer.name if layer.name == node.name else self._layer_name(layer.name)
            if name != layer.name or any(a != b for a, b in names.items()):
                inputs = tuple(t and named(t) for t in layer.inputs)
                outputs = tuple(map(named, layer.outputs))
                layer = replace(layer, name=name, inputs=inputs, outputs=outputs)
            found.append(layer)
        return found

    def _layer_name(self, name: str) -> str:
        unique = name
        while unique in self._layer_names:
            self._layer_names[name] += 1
            unique = f"{name}_{self._layer_names[name]}"
        self._layer_names[unique] = 1
        return unique

    def _fresh_tensor(self, name: str) -> str:
        """A name that no tensor of the file has, and none of this walk; other walks give the same ones."""
        self._asked[name] += 1
        return self._graph.names.given((name, self._asked[name]), name)


def _as_read(operation: Operation, operands: Sequence[_Value]) -> list[_Value]:
    """The operands; a computed one of which only shape and element type count is a constant for its
    reader.
    """
    described = DESCRIPTION_ONLY.get(operation.op_type, frozenset())
    read = list(operands)
    for position in described & set(range(len(operands))):
        operand = operands[position]
        if isinstance(operand, Tensor):
            read[position] = placeholder(operand)
        elif operand is _Unknown.COMPUTED:
            read[position] = _Unknown.CONSTANT
    return read


def _values(operation: Operation, operands: Sequence[_Known]) -> list[_Known]:
    """The operands as its operator is to see them: values, whatever they are stored as."""
    found = list(operands)
    for k, operand in enumerate(operands):
        form = None if operation.stored is None else operation.stored.read(k)
        if operand is None or form is None:
            continue
        if str(operand.dtype) != form.dtype:
            raise ModelError(
                f"input {k} is {operand.dtype}, its zero point {form.dtype}; they must be the same"
            )
        if isinstance(operand, Tensor):
            found[k] = replace(operand, format=FLOAT32)
        else:
            found[k] = read_values(operand, form)
    return found


def _integers(operation: Operation, results: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Results of constants as they are stored."""
    stored = operation.stored or Stored()
    forms = [stored.written(k) for k in range(len(results))]
    return [
        array if form is None else quantize_values(array, form)
        for array, form in zip(results, forms, strict=True)
    ]


def _layers(node: Node, *, alone: bool = False) -> tuple[Layer, ...]:
    """What the node's operator makes of it. alone: on integers, which are those of one layer."""
    operator = OPERATORS[node.op_type]
    if node.opset < operator.since:
        raise ModelError(
            f"is of opset {node.opset}, {operator.since} is the oldest supported for this operator"
        )
    for name in node.attributes:
        if name not in operator.attributes:
            raise ModelError(f"attribute '{name}' is not supported; export the model without it")
    for position in operator.constant_inputs:
        if node.operand(position) is not None:
            require_constant(node, position)
    try:
        return (operator.build(node),) if alone else operator.layers(node)
    except DAMAGED as error:
        raise ModelError(
            f"its attributes and operands do not fit together: {label(str(error), 120)}"
        ) from error
