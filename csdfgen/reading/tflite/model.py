"""Which model of ONNX is the main subgraph of a .tflite file? Variables become an input and an output each."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from csdfgen.errors import ModelError, first_line, prefix_errors
from csdfgen.model.describe import sizes
from csdfgen.model.naming import make_unused_name
from csdfgen.reading.onnx_file import label, text
from csdfgen.reading.tflite.detection import detect
from csdfgen.reading.tflite.file import BROKEN, Operator, Subgraph, read_subgraphs
from csdfgen.reading.tflite.layers import MOVES, RECIPES
from csdfgen.reading.tflite.recurrent import filter_sequence, run_sequence
from csdfgen.reading.tflite.values import Layer, Nodes, Value, natural
from csdfgen.reading.unsupported import unsupported_error

_ELEMENTS = frozenset(
    {
        "bool",
        "float32",
        "float64",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
    }
)
_OPSET, _IR_VERSION = 21, 10

_RECIPES = {
    **RECIPES,
    "SVDF": filter_sequence,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": run_sequence,
    "TFLite_Detection_PostProcess": detect,
}
_OWN = frozenset({"ASSIGN_VARIABLE", "CALL_ONCE", "IF", "READ_VARIABLE", "VAR_HANDLE"})
"""Operators that are methods of the model: they concern variables or other subgraphs."""


def read_model(path: Path) -> onnx.ModelProto:
    """The model as ONNX, opset 21. Raises InputError, ModelError, UnsupportedOperatorError."""
    subgraphs = read_subgraphs(path)
    try:
        return _Model(subgraphs).built(path.stem)
    except ModelError as error:
        tensors = [subgraphs[0].tensors[k] for k in subgraphs[0].inputs]
        if left := ", ".join(f"'{label(t.name)}' ({sizes(t.shape)})" for t in tensors if t.open):
            error.message += f"; sizes of {left} are left open: convert with fixed ones"
        raise
    except BROKEN as error:
        raise ModelError(f"is damaged, it is no network: {first_line(error)}") from error


@dataclass(frozen=True, slots=True)
class State:
    """A variable of a .tflite file, which is an input of the network: the output with its next value, and its first one."""

    output: str
    initial: np.ndarray


def read_states(source: str | os.PathLike[str]) -> dict[str, State]:
    """The variables of a .tflite file by the names of their inputs. Raises InputError, ModelError."""
    with prefix_errors(os.fspath(source)):
        model = _Model(read_subgraphs(Path(source)))
        model.built("")
    return model.kept


class _Model:
    """The model as it is built, operator by operator. index: of its subgraph. around: the nodes around a branch."""

    def __init__(
        self, subgraphs: list[Subgraph], index: int = 0, around: Nodes | None = None
    ) -> None:
        self.subgraphs, self.graph, self.index = subgraphs, subgraphs[index], index
        self.made = Nodes()
        if around is not None:  # a name of a branch hides that of what is around it
            self.made.tensors, self.made.names = around.tensors, around.names
        self.values = [Value(tensor, tensor.data) for tensor in self.graph.tensors]
        self.assigned: set[str] = set()
        """Names of variables that the graph assigns."""
        self.initial: dict[str, np.ndarray] = {}
        self.states: dict[str, list[Value]] = {}
        """Variable -> the input that it is, and the tensor that it is now."""
        self.inputs: list[Value] = []
        self.kept: dict[str, State] = {}

    def built(self, name: str) -> onnx.ModelProto:
        outputs = list(dict.fromkeys(self.graph.outputs))
        for k in outputs:  # nothing else gets their names
            self.made.tensors.add(self.values[k].tensor.name)
        for k in dict.fromkeys(self.graph.inputs):
            self._input(self.values[k], self.values[k].tensor.name)
        self._convert()
        return self._model(outputs, name)

    def _convert(self) -> None:
        unknown: dict[str, list[str]] = {}
        for op in self.graph.operators:
            if op.kind not in _RECIPES and op.kind not in _OWN:
                unknown.setdefault(label(op.kind), []).append(self._name(op))
        if unknown:
            raise unsupported_error(unknown)
        self.assigned = {
            self._variable(op) for op in self.graph.operators if op.kind == "ASSIGN_VARIABLE"
        }
        for op in self.graph.operators:
            try:
                self._add(op)
            except ModelError as error:
                raise error.at(self._where(op)) from error
            except BROKEN as error:
                raise ModelError(
                    f"is damaged: {first_line(error)}", where=self._where(op)
                ) from error

    def _name(self, op: Operator) -> str:
        """An operator has no name of its own: that of its first output."""
        return self.graph.tensors[op.outputs[0]].name if op.outputs else op.kind

    def _where(self, op: Operator) -> str:
        return f"layer '{label(self._name(op))}' ({label(op.kind)})"

    def _input(self, value: Value, name: str) -> None:
        if value.tensor.dtype not in _ELEMENTS:
            raise ModelError(
                f"input '{label(name)}' has elements of type {value.tensor.dtype}, which are not supported"
            )
        value.array = None
        value.names = {natural(len(value.shape)): make_unused_name(name, self.made.tensors, "'")}
        self.inputs.append(value)

    def _add(self, op: Operator) -> None:
        if op.kind in _OWN:
            getattr(self, f"_{op.kind.lower()}")(op)
            return
        inputs = [None if k < 0 else self.values[k] for k in op.inputs]
        outputs = [self.values[k] for k in op.outputs]
        for k, value in zip(op.inputs, inputs, strict=True):
            if value is not None and value.tensor.variable and not value.names:
                self._input(value, value.tensor.name)
                self._state(self._key(k), value, _zeros(value))
        operands = [v for v in inputs if v is not None and (v.quantized or v.array is None)]
        raw = op.kind in MOVES and all(
            v.alike(outputs[0]) for v in (*operands, *outputs) if v.quantized
        )
        since = len(self.made.nodes)
        layer = Layer(op, self._name(op), inputs, outputs, self.made, raw, since)
        _RECIPES[op.kind](layer)
        for k, value in layer.kept.items():
            self.values[op.inputs[k]] = value
            self.states[self._key(op.inputs[k])][1] = value

    # Branches -----------------------------------------------------------------------------------

    def _if(self, op: Operator) -> None:
        condition, *operands = (self.values[k] for k in op.inputs)
        branches = {}
        for key in ("Then", "Else"):
            branch = self._branch(op.option(f"{key}SubgraphIndex"), operands)
            if len(branch.graph.outputs) != len(op.outputs):
                raise ModelError(f"has {len(op.outputs)} outputs, a branch of it has others")
            branches[f"{key.lower()}_branch"] = branch.body()
        outputs, since = [self.values[k] for k in op.outputs], len(self.made.nodes)
        layer = Layer(op, self._name(op), [condition], outputs, self.made, raw=True, since=since)
        names = self.made.node("If", [layer.x()], layer.name, len(outputs), **branches)
        for k, name in enumerate(names):
            layer.give(name, k)

    def _branch(self, index: int, operands: list[Value]) -> _Model:
        if not self.index < index < len(self.subgraphs):
            raise ModelError(f"calls subgraph {index} of {len(self.subgraphs)}")
        branch = _Model(self.subgraphs, index, self.made)
        if len(branch.graph.inputs) != len(operands):
            raise ModelError(f"gives {len(operands)} operands to {len(branch.graph.inputs)}")
        for k, operand in zip(branch.graph.inputs, operands, strict=True):
            value = branch.values[k]
            if value.shape != operand.shape or not value.alike(operand):
                raise ModelError(f"gives {operand.shape} to an input of shape {value.shape}")
            value.array = operand.array
            if value.array is None:
                self.made.stored(operand)
                value.names = dict(operand.names)
        branch._convert()
        if branch.inputs or branch.states:
            raise ModelError("has variables in a branch, which is not supported")
        return branch

    def body(self) -> onnx.GraphProto:
        """The subgraph, whose inputs are tensors around it."""
        ends = []
        for k in self.graph.outputs:
            value = self.values[k]
            (name,) = self.made.node("Identity", [self.made.stored(value)], value.tensor.name)
            ends.append(_described(value, name))
        return helper.make_graph(self.made.nodes, "branch", [], ends, self.made.constants)

    # Variables ----------------------------------------------------------------------------------

    @staticmethod
    def _key(tensor: int) -> str:
        return f"\n{tensor}"  # no name of a variable of the other kind

    def _state(self, key: str, value: Value, initial: np.ndarray) -> None:
        self.states[key] = [value, value]
        self.initial[key] = initial

    @cached_property
    def _handles(self) -> dict[int, str]:
        """Tensor that stands for a variable -> name of the variable."""
        handles = [one for one in self.graph.operators if one.kind == "VAR_HANDLE"]
        return {one.outputs[0]: _variable_name(one) for one in handles if one.outputs}

    def _variable(self, op: Operator) -> str:
        name = self._handles.get(op.inputs[0]) if op.inputs else None
        if name is None:
            raise ModelError("reads or writes no variable", where=self._where(op))
        return name

    def _var_handle(self, op: Operator) -> None:
        pass

    def _call_once(self, op: Operator) -> None:
        """Initial values of variables: the constants that the subgraph assigns."""
        index = op.option("InitSubgraphIndex")
        if not 0 < index < len(self.subgraphs):
            raise ModelError(f"calls subgraph {index} of {len(self.subgraphs)}")
        graph = self.subgraphs[index]
        handles = {}
        for one in graph.operators:
            if one.kind == "VAR_HANDLE":
                handles[one.outputs[0]] = _variable_name(one)
            elif one.kind == "ASSIGN_VARIABLE" and graph.tensors[one.inputs[1]].data is not None:
                self.initial[handles[one.inputs[0]]] = graph.tensors[one.inputs[1]].data
            else:
                raise ModelError(
                    f"initializes variables by {label(one.kind)}, which is not supported; constants are"
                )

    def _read_variable(self, op: Operator) -> None:
        name, value = self._variable(op), self.values[op.outputs[0]]
        if name not in self.states:
            initial = self.initial.get(name)
            if initial is not None and (
                initial.shape != value.shape or initial.dtype != value.tensor.dtype
            ):
                raise ModelError(
                    f"variable '{label(name)}' has another shape or type than its initial value"
                )
            if name in self.assigned:
                self._input(value, name)
            elif initial is None:
                raise ModelError(f"variable '{label(name)}' has no value")
            else:
                value.array = initial
            self._state(name, value, _zeros(value) if initial is None else initial)
            return
        now = self.states[name][1]
        if now.shape != value.shape or not now.alike(value):
            raise ModelError(
                f"variable '{label(name)}' has another shape or scale than what was assigned to it"
            )
        value.array, value.names = now.array, now.names

    def _assign_variable(self, op: Operator) -> None:
        name, value = self._variable(op), self.values[op.inputs[1]]
        if name in self.states:
            self.states[name][1] = value

    # The model ----------------------------------------------------------------------------------

    def _model(self, outputs: list[int], name: str) -> onnx.ModelProto:
        given = {v.names[natural(len(v.shape))] for v in self.inputs}
        ends = []
        for k in outputs:
            ends.append(self._output(self.values[k], self.values[k].tensor.name, given))
        for key, (value, now) in self.states.items():
            if value is now and key.startswith("\n"):
                continue
            if value in self.inputs:
                start = value.names[natural(len(value.shape))]
                following = make_unused_name(f"{start}_next", self.made.tensors, "'")
                ends.append(self._output(now, following, given))
                self.kept[start] = State(following, np.array(self.initial[key], now.tensor.dtype))
        inputs = [_described(v, v.names[natural(len(v.shape))]) for v in self.inputs]
        graph = helper.make_graph(self.made.nodes, name, inputs, ends, self.made.constants)
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
        )

    def _output(self, value: Value, name: str, given: set[str]) -> onnx.ValueInfoProto:
        if value.tensor.dtype not in _ELEMENTS:
            raise ModelError(
                f"output '{label(name)}' has elements of type {value.tensor.dtype}, which are not supported"
            )
        found = self.made.stored(value)
        if found in given or not any(found in node.output for node in self.made.nodes):
            (found,) = self.made.node("Identity", [found], name)
        self.made.tensors.discard(name)
        self.made.rename(found, name, 0)
        given.add(name)
        return _described(value, name)


def _zeros(value: Value) -> np.ndarray:
    """Integers that stand for 0, or zeros."""
    zero = value.tensor.zero if value.tensor.zero.size else 0
    return np.broadcast_to(zero, value.shape)


def _variable_name(op: Operator) -> str:
    parts = (text(op.option(part, b"") or b"") for part in ("Container", "SharedName"))
    return "/".join(part for part in parts if part) or "variable"


def _described(value: Value, name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(value.tensor.dtype)), value.shape
    )
