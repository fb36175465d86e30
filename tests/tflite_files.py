"""Files of TensorFlow Lite for tests: tensors and operators, written with the builder of flatbuffers, and executed by
ai-edge-litert, the interpreter of the format's makers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Array = np.ndarray
NO_SCHEMA = "tflite is not installed (csdfgen[tflite])"
TYPES = {
    "bool": 6, "float16": 1, "float32": 0, "int16": 7, "int32": 2, "int4": 17, "int64": 4, "int8": 9, "resource": 13,
    "uint8": 3,
}  # fmt: skip


@dataclass
class Tensor:
    name: str
    shape: Sequence[int]
    dtype: str = "float32"
    data: bytes | None = None
    scale: Sequence[float] = ()
    zero: Sequence[int] = ()
    axis: int = 0
    variable: bool = False
    signature: Sequence[int] = ()
    sparse: Sequence[Any] | None = None
    """Order of the levels, axes that are cut into blocks, and of each level its size or (segments, indices)."""


@dataclass
class Operator:
    kind: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: Mapping[str, Any] = field(default_factory=dict)
    table: str = ""
    custom: bytes = b""
    intermediates: Sequence[int] = ()


@dataclass
class Graph:
    """A subgraph; tensors are referred to by their index."""

    tensors: list[Tensor] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def tensor(
        self, shape: Sequence[int], dtype: str = "float32", name: str = "", **more: Any
    ) -> int:
        self.tensors.append(Tensor(name or f"t{len(self.tensors)}", list(shape), dtype, **more))
        return len(self.tensors) - 1

    def constant(self, array: Any, dtype: str = "int32", **more: Any) -> int:
        array = np.asarray(array, dtype)
        return self.tensor(array.shape, dtype, data=array.tobytes(), **more)

    def input(self, shape: Sequence[int], dtype: str = "float32", **more: Any) -> int:
        self.inputs.append(self.tensor(shape, dtype, **more))
        return self.inputs[-1]

    def operator(self, kind: str, inputs: Sequence[int], outputs: Sequence[int], table: str = "", custom: bytes = b"",
                 **options: Any) -> None:  # fmt: skip
        self.operators.append(Operator(kind, inputs, outputs, options, table, custom))


def write(path: Path, *graphs: Graph) -> Path:
    """The file with these subgraphs."""
    path.write_bytes(_Writing().file(graphs))
    return path


class _Writing:
    def __init__(self) -> None:
        import flatbuffers
        import tflite

        self.schema, self.b = tflite, flatbuffers.Builder(1024)
        self.codes: list[str] = []
        self.buffers: list[bytes] = [b""]

    def table(self, name: str, **fields: Any) -> int:
        getattr(self.schema, f"{name}Start")(self.b)
        for key, value in fields.items():
            if value is not None:
                getattr(self.schema, f"{name}Add{key}")(self.b, value)
        return int(getattr(self.schema, f"{name}End")(self.b))

    def offsets(self, found: Sequence[int]) -> int:
        self.b.StartVector(4, len(found), 4)
        for one in reversed(found):
            self.b.PrependUOffsetTRelative(one)
        return int(self.b.EndVector())

    def numbers(self, values: Any, dtype: str) -> int:
        return int(self.b.CreateNumpyVector(np.asarray(values, dtype)))

    def file(self, graphs: Sequence[Graph]) -> bytes:
        subgraphs = [self.subgraph(graph) for graph in graphs]
        codes = [self.code(kind) for kind in self.codes]
        buffers = []
        for data in self.buffers:
            at = self.b.CreateByteVector(data) if data else None
            buffers.append(self.table("Buffer", Data=at))
        parts = [self.offsets(part) for part in (codes, subgraphs, buffers)]
        root = self.table(
            "Model", Version=3, OperatorCodes=parts[0], Subgraphs=parts[1], Buffers=parts[2]
        )
        self.b.Finish(root, b"TFL3")
        return bytes(self.b.Output())

    def code(self, kind: str) -> int:
        names = {name: number for number, name in self.schema.utils.BUILTIN_OPCODE2NAME.items()}
        number = names.get(kind, 32)
        custom = None if kind in names else self.b.CreateString(kind)
        return self.table(
            "OperatorCode",
            DeprecatedBuiltinCode=min(number, 127),
            BuiltinCode=number,
            CustomCode=custom,
            Version=VERSION.get(kind, 1),
        )

    def subgraph(self, graph: Graph) -> int:
        tensors = self.offsets([self.tensor(one) for one in graph.tensors])
        operators = self.offsets([self.operator(one) for one in graph.operators])
        ends = [self.numbers(end, "int32") for end in (graph.inputs, graph.outputs)]
        return self.table(
            "SubGraph", Tensors=tensors, Operators=operators, Inputs=ends[0], Outputs=ends[1]
        )

    def tensor(self, one: Tensor) -> int:
        quantization = None
        if len(one.scale):
            scale, zero = self.numbers(one.scale, "float32"), self.numbers(one.zero, "int64")
            quantization = self.table(
                "QuantizationParameters", Scale=scale, ZeroPoint=zero, QuantizedDimension=one.axis
            )
        shape, name = self.numbers(one.shape, "int32"), self.b.CreateString(one.name)
        sparsity = self.sparsity(*one.sparse) if one.sparse else None
        if one.data is not None:
            self.buffers.append(one.data)
        return self.table(
            "Tensor", Shape=shape, Type=TYPES[one.dtype], Buffer=0 if one.data is None else len(self.buffers) - 1, Name=name,
            Quantization=quantization, IsVariable=one.variable,
            Sparsity=sparsity, ShapeSignature=self.numbers(one.signature, "int32") if one.signature else None,
        )  # fmt: skip

    def sparsity(self, order: Sequence[int], blocks: Sequence[int], levels: Sequence[Any]) -> int:
        tables = []
        for level in levels:
            fields = {"DenseSize": level}
            if not isinstance(level, int):
                vectors = [self.numbers(part, "uint8") for part in level]
                parts = [self.table("Uint8Vector", Values=vector) for vector in vectors]
                fields = {"Format": 1, "ArraySegmentsType": 3, "ArraySegments": parts[0]}
                fields |= {"ArrayIndicesType": 3, "ArrayIndices": parts[1]}
            tables.append(self.table("DimensionMetadata", **fields))
        found = self.offsets(tables)
        ends = [self.numbers(part, "int32") for part in (order, blocks)]
        return self.table(
            "SparsityParameters", TraversalOrder=ends[0], BlockMap=ends[1], DimMetadata=found
        )

    def operator(self, one: Operator) -> int:
        if one.kind not in self.codes:
            self.codes.append(one.kind)
        options = None
        if one.table:
            fields = {
                k: self.b.CreateString(v) if isinstance(v, str) else v
                for k, v in one.options.items()
            }
            options = self.table(one.table, **fields)
        custom = self.b.CreateByteVector(one.custom) if one.custom else None
        inputs, outputs = (self.numbers(end, "int32") for end in (one.inputs, one.outputs))
        between = self.numbers(one.intermediates, "int32") if one.intermediates else None
        kind = getattr(self.schema.BuiltinOptions, one.table) if one.table else 0
        return self.table(
            "Operator", OpcodeIndex=self.codes.index(one.kind), Intermediates=between, Inputs=inputs, Outputs=outputs,
            BuiltinOptionsType=kind,
            BuiltinOptions=options, CustomOptions=custom,
        )  # fmt: skip


VERSION = {"BROADCAST_TO": 2, "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 4}


def interpreter(path: Path, delegates: bool = False) -> Any:
    """The interpreter of the file. delegates: with XNNPACK, which rounds sums of bytes once, kernels without it twice."""
    litert = pytest.importorskip(
        "ai_edge_litert.interpreter", reason="ai-edge-litert is not installed"
    )
    kinds = litert.OpResolverType
    kind = kinds.BUILTIN if delegates else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    found = litert.Interpreter(str(path), experimental_op_resolver_type=kind)
    found.allocate_tensors()
    return found


def execute(path: Path, feeds: Sequence[Array], runner: Any = None) -> list[Array]:
    """What the interpreter computes."""
    runner = interpreter(path) if runner is None else runner
    for given, array in zip(runner.get_input_details(), feeds, strict=True):
        runner.set_tensor(given["index"], array)
    runner.invoke()
    return [runner.get_tensor(one["index"]).copy() for one in runner.get_output_details()]


def settle(path: Path, graph: Graph) -> Path:
    """The file with the shapes of results that the interpreter finds."""
    write(path, graph)
    for one in interpreter(path).get_tensor_details():
        if one["index"] < len(graph.tensors):
            graph.tensors[one["index"]].shape = [int(n) for n in one["shape"]]
    return write(path, graph)
