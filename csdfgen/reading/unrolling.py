"""Loops whose number of turns is known are written out, one turn after the other: Loop and Scan.

Sources: https://onnx.ai/onnx/operators/onnx__Loop.html, https://onnx.ai/onnx/operators/onnx__Scan.html. A Scan has as many
turns as what it scans has positions. A Loop has as many as its constant count says, and ends before if its condition,
which must be a constant in each turn, says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from csdfgen.errors import ModelError, option
from csdfgen.limits import OPERATIONS
from csdfgen.model.network import Tensor
from csdfgen.reading.onnx_file import label
from csdfgen.reading.onnx_graph import Graph, Operation

UNROLLED = frozenset({"Loop", "Scan"})

MOST_OPERATIONS = 20_000
"""Of all turns of one loop, with those of loops inside of it."""

SHORT = 1_000
"""Operations up to which a Loop is written out where its turns are counted."""

_OPSET = 13
"""Of the operations around a body."""

Known = Tensor | np.ndarray | None


@dataclass(frozen=True, slots=True)
class Writing:
    """One operation that others take the place of. run: takes them. value: a name -> what it stands for; keep: a name for a
    constant; fresh: one that nothing has yet.
    """

    operation: Operation
    run: Callable[[Operation], None]
    value: Callable[[str], Any]
    keep: Callable[[str, np.ndarray], str]
    fresh: Callable[[str], str]

    def constant(self, value: Any, what: str) -> str:
        """The name of a new constant."""
        return self.keep(f"{self.operation.name}/{what}", np.asarray(value))

    def one(self, op_type: str, inputs: Sequence[str], *outputs: str, **attributes: Any) -> None:
        """Run an operation of ONNX."""
        given = {k: helper.make_attribute(k, v) for k, v in attributes.items()}
        more = {"name": f"{outputs[0]}/{op_type}", "opset": _OPSET, "attributes": given}
        self.run(self.operation.other(op_type, inputs, outputs, **more))

    def join(self, names: Sequence[str], axis: int, output: str) -> None:
        """Join tensors along an axis."""
        self.one("Concat", names, output, axis=axis)

    def stack(self, names: Sequence[str], axis: int, output: str) -> None:
        """Join tensors along a new axis."""
        apart = []
        for k, name in enumerate(names):
            rank = len(getattr(self.value(name), "shape", ()))  # of what failed, anything
            where = axis if axis >= 0 else axis + rank + 1
            apart.append(self.fresh(f"{output}/apart {k}"))
            self.one("Unsqueeze", [name, self.constant([where], f"{apart[-1]} axis")], apart[-1])
        self.join(apart, where, output)


@dataclass(frozen=True, slots=True)
class _Turns(Writing):
    """One loop that is written out. before: operations that were taken before it."""

    graph: Graph
    before: int

    def check_size(self, count: int, done: int, nodes: int) -> None:
        """Raise ModelError for too many operations before a turn. count: of turns, as far as is known; done: of turns that
        are written out. nodes: of a body, in which there may be loops.
        """
        made = self.graph.constants.budget.taken(OPERATIONS) - self.before
        each = max(nodes, made // done) if done else nodes
        if max(count * each, made + nodes) > MOST_OPERATIONS:
            raise ModelError(
                f"has {count} turns of {each} operations, at most {MOST_OPERATIONS} operations are written out; take shorter "
                "inputs"
            )

    def turn(self, number: int, given: Sequence[str], results: int) -> list[str]:
        """Run the body. given: what it reads, by the position of its inputs. Returns the names of its results."""
        names = [self.fresh(f"{self.operation.name}/{number}:{k}") for k in range(results)]
        for inner in self.graph.turn(self.operation, number, tuple(given), tuple(names)):
            self.run(inner)
        return names

    def finish(
        self, states: Sequence[str], scans: Sequence[tuple[Sequence[str], int, bool]]
    ) -> None:
        """The outputs: last states, and of each result of the turns all joined along a new axis."""
        outputs = [*self.operation.outputs, *[""] * (len(states) + len(scans))]
        for state, output in zip(states, outputs, strict=False):
            if output:
                self.one("Identity", [state], output)
        for (found, axis, backwards), output in zip(scans, outputs[len(states) :], strict=False):
            if not output:
                continue
            if not found:
                raise ModelError("has no turns, so that an output would be empty")
            self.stack(found[::-1] if backwards else found, axis, output)


def unroll(writing: Writing, operands: Sequence[Known], graph: Graph) -> None:
    """Run a Loop or a Scan, whose operands are known, turn by turn. Raises ModelError where their number is not known."""
    operation = writing.operation
    body = operation.attributes.get("body")
    if body is None or not body.HasField("g"):
        raise ModelError("has no body")
    before = graph.constants.budget.taken(OPERATIONS)
    made_of = writing.run, writing.value, writing.keep, writing.fresh
    turns = _Turns(operation, *made_of, graph, before)
    counts = len(body.g.node), len(body.g.input), len(body.g.output)
    (_scan if operation.op_type == "Scan" else _loop)(turns, operands, *counts)


def _loop(turns: _Turns, operands: Sequence[Known], nodes: int, inputs: int, outputs: int) -> None:
    operation = turns.operation
    count, condition = [*operands, None, None][:2]
    if any(isinstance(o, np.ndarray) and o.size == 1 and o.item() <= 0 for o in (count, condition)):
        count, condition = np.array(0), None  # whatever the other one says
    for what, operand in (("number of turns", count), ("condition", condition)):
        if isinstance(operand, Tensor) or (operand is not None and operand.size != 1):
            raise ModelError(
                f"its {what} is computed at run time ('{label(operand.name)}'), it must be a constant; give the inputs that it "
                f"depends on values with {option('fix')}, or export the model with loops unrolled"
                if isinstance(operand, Tensor)
                else f"its {what} has {operand.size} values, one is needed"
            )
    assert not isinstance(count, Tensor) and not isinstance(condition, Tensor)
    most = None if count is None else max(0, int(count.item()))
    going = condition is None or bool(condition.item())
    states = list(operation.inputs[2:])
    if inputs != 2 + len(states) or outputs < 1 + len(states):
        raise ModelError(f"gives {len(states)} states to a body of {inputs} inputs")
    found: list[list[str]] = [[] for _ in range(outputs - 1 - len(states))]
    exact = passes_condition(operation.attributes["body"].g)
    true, number = turns.constant(True, "condition"), 0
    while going and (most is None or number < most):
        turns.check_size(most if most and exact else number + 1, number, nodes)
        given = [turns.constant(np.int64(number), f"{number} number"), true, *states]
        on, *results = turns.turn(number, given, outputs)
        states = results[: len(states)]
        for one, name in zip(found, results[len(states) :], strict=True):
            one.append(name)
        going, number = _goes_on(turns.value(on)), number + 1
    turns.finish(states, [(one, 0, False) for one in found])


def is_short(operation: Operation, operands: Sequence[Known]) -> bool:
    """Whether a loop of a known number of turns is written out, since layers of few turns gain by what is known of each."""
    count, condition = [*operands, None, None][:2]
    if operation.op_type == "Scan" or not isinstance(count, np.ndarray) or count.size != 1:
        return False
    body = operation.attributes["body"].g
    known = not isinstance(condition, Tensor) and passes_condition(body)
    return known and int(count.item()) * len(body.node) <= SHORT


def passes_condition(body: onnx.GraphProto) -> bool:
    """Whether the body of a Loop hands its condition on, so that all turns are taken."""
    names = {
        node.output[0]: node.input[0]
        for node in body.node
        if node.op_type == "Identity" and node.input and node.output
    }
    end = body.output[0].name
    while end in names:
        end = names.pop(end)
    return bool(end == body.input[1].name)


def _goes_on(condition: Any) -> bool:
    if not isinstance(condition, np.ndarray) or condition.size != 1:
        raise ModelError(
            "whether it goes on is computed at run time; export the model with loops unrolled"
        )
    return bool(condition.item())


def _scan(turns: _Turns, operands: Sequence[Known], nodes: int, inputs: int, outputs: int) -> None:
    operation = turns.operation
    if operation.opset < 9:
        raise ModelError("is of opset 8, 9 is the oldest supported for this operator")

    def numbers(name: str, count: int) -> list[int]:
        given = operation.attributes.get(name)
        return [0] * count if given is None else [int(v) for v in given.ints]

    scanned = int(operation.attributes["num_scan_inputs"].i)
    first = len(operands) - scanned
    if scanned < 1 or first < 0 or inputs != len(operands) or outputs < first:
        raise ModelError(
            f"scans {scanned} of {len(operands)} operands with a body of {inputs} inputs"
        )
    axes, back = (numbers(f"scan_input_{k}", scanned) for k in ("axes", "directions"))
    made = outputs - first
    out_axes, out_back = (numbers(f"scan_output_{k}", made) for k in ("axes", "directions"))
    if not len(axes) == len(back) == scanned or not len(out_axes) == len(out_back) == made:
        raise ModelError("its axes and directions are not as many as what it scans and makes")
    sizes = set()
    for operand, axis in zip(operands[first:], axes, strict=True):
        if operand is None or not -len(operand.shape) <= axis < len(operand.shape):
            raise ModelError(f"scans an operand along axis {axis}, which it has not")
        sizes.add(operand.shape[axis])
    if len(sizes) != 1:
        raise ModelError(f"scans operands of {', '.join(map(str, sorted(sizes)))} positions")
    (count,) = sizes
    states = list(operation.inputs[:first])
    found: list[list[str]] = [[] for _ in range(made)]
    for number in range(count):
        turns.check_size(count, number, nodes)
        given = []
        for k, name in enumerate(operation.inputs[first:]):
            place = count - 1 - number if back[k] else number
            given.append(turns.fresh(f"{operation.name}/{number} of {k}"))
            index = turns.constant(np.int64(place), f"{number} place {k}")
            turns.one("Gather", [name, index], given[-1], axis=axes[k])
        results = turns.turn(number, [*states, *given], outputs)
        states = results[:first]
        for one, name in zip(found, results[first:], strict=True):
            one.append(name)
    turns.finish(states, list(zip(found, out_axes, map(bool, out_back), strict=True)))
