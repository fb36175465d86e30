"""How is a quantized model written? onnxruntime's own tool writes it in QDQ form; formats of single
tensors are then exchanged in what it wrote.

Source: onnxruntime.quantization (QDQQuantizer, TensorQuantOverrides). The tool knows which tensors of which
operators are quantized, which share a scale, and what becomes of weights and biases. It writes activations in
uint8, with which onnxruntime and openvino are fast on x86, and weights in int8; a tensor of 16 bits has the same
two nodes with another zero point and scale, so that formats can be tried in no time.
"""

from __future__ import annotations

import contextlib
import logging
import math
import sys
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from csdfgen.errors import ModelError, first_line
from csdfgen.model.formats import Format
from csdfgen.model.network import Network
from csdfgen.precision.prepare import OPSET
from csdfgen.precision.products import number
from csdfgen.precision.ranges import EVERYTHING, Range
from csdfgen.reading.onnx_file import get_opset, list_graphs

_ALONE_NAMES = """
    Celu Elu Gelu GlobalMaxPool HardSigmoid HardSwish LRN Mish Selu Softplus Softsign Tanh ThresholdedRelu
"""
_ALONE = frozenset(_ALONE_NAMES.split())
"""Operators on one tensor, without constants, that the tool knows nothing of: what they read and make is
quantized as that of any other. Left in float they would set the peak: LRN stands behind AlexNet's first layer.
"""

WIDE = (onnx.TensorProto.INT16, onnx.TensorProto.UINT16)
"""Types of 16 bits."""

_ENDS = "_QuantizeLinear_Input"
"""What the tool appends to the name of a graph output that is quantized."""

_ENDING = ("Relu", "Clip")


@dataclass(frozen=True, slots=True)
class Skeleton:
    """What a quantized model consists of. tensors: quantized activation -> the one whose scale it has
    (itself, where it has its own). bounds: leader -> what a Relu or Clip leaves that is not in the model
    any more, since the integers end there.
    """

    tensors: Mapping[str, str]
    bounds: Mapping[str, Range]

    @property
    def leaders(self) -> tuple[str, ...]:
        """Tensors that scales are named after, in the order of the model."""
        return tuple(dict.fromkeys(self.tensors.values()))

    def members(self, leader: str) -> tuple[str, ...]:
        """Tensors that have a scale in common."""
        return tuple(name for name, one in self.tensors.items() if one == leader)


def convert_to_int8(model: onnx.ModelProto, formats: Mapping[str, Format]) -> onnx.ModelProto:
    """A prepared float model (`prepare.prepare_model`) with activations in uint8, weights in int8 for each
    filter. formats: by tensor; those that have none are quantized from -1 to 1. Raises ModelError.
    """
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization.calibrate import CalibrationMethod, TensorsData
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    copy = deepcopy(model)
    graph = copy.graph
    names = [one.name for one in (*graph.input, *graph.output, *graph.value_info)]
    names += [name for node in graph.node for name in node.output if name]
    ranges = {name: (np.float32(-1), np.float32(1)) for name in dict.fromkeys(names)}
    overrides = {
        name: [
            {
                "quant_type": QuantType.QUInt8,
                "scale": np.array(form.scale[0], np.float32),
                "zero_point": np.array(form.zero_point[0], form.dtype),
            }
        ]
        for name, form in formats.items()
        if form.scale is not None and form.zero_point is not None
    }
    # a Clip that zero is outside of cannot be what the ends of the integers do
    kept = any(low > 0 or high < 0 for low, high in _removed(model, onnx.ModelProto()).values())
    kinds = {node.op_type for node in graph.node} & {*QDQRegistry, *QLinearOpsRegistry, *_ALONE}
    with silence_warnings():
        try:
            tool = QDQQuantizer(
                copy, True, False, QuantType.QInt8, QuantType.QUInt8,
                TensorsData(CalibrationMethod.MinMax, ranges), [], [], sorted(kinds),
                {"TensorQuantOverrides": overrides, "QDQKeepRemovableActivations": kept},
            )  # fmt: skip
            tool.quantize_model()
        except (ValueError, TypeError, KeyError, RuntimeError, AssertionError) as error:
            for one in model.graph.initializer:
                if one.data_type == onnx.TensorProto.FLOAT:
                    wrong = int(np.count_nonzero(~np.isfinite(numpy_helper.to_array(one))))
                    if wrong:
                        raise ModelError(
                            f"constant '{one.name}' holds {wrong} values that are no numbers or without end, "
                            "which integers cannot represent; export the model again"
                        ) from error
            raise ModelError(
                f"onnxruntime's tool cannot quantize it: {first_line(error)}"
            ) from error
    found: onnx.ModelProto = tool.model.model
    return found


@contextlib.contextmanager
def silence_warnings() -> Iterator[None]:
    """The tool's warnings are about what is settled here."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def skeleton(source: onnx.ModelProto, model: onnx.ModelProto) -> Skeleton:
    """What the tool has quantized in a model. source: the float one."""
    constants = {one.name for one in model.graph.initializer}
    leaders: dict[str, str] = {}
    tensors: dict[str, str] = {}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and node.input[0] not in constants:
            tensors[_tensor(node)] = leaders.setdefault(node.input[1], _tensor(node))
    # the tensor that a scale is named after leads, whoever comes first
    named = {f"{name}_scale": name for name in tensors}
    lead = {leaders[scale]: named.get(scale, leaders[scale]) for scale in leaders}
    found = {name: lead[one] for name, one in tensors.items()}
    bounds: dict[str, Range] = {}
    for name, (low, high) in _removed(source, model).items():
        if name in found:
            before = bounds.get(found[name], EVERYTHING)
            bounds[found[name]] = max(low, before[0]), min(high, before[1])
    return Skeleton(found, bounds)


def _removed(source: onnx.ModelProto, model: onnx.ModelProto) -> dict[str, Range]:
    """Outputs of Relu and Clip that the tool has taken out, with what they leave."""
    constants = {one.name: one for one in source.graph.initializer}
    kept = {
        o.removesuffix(_ENDS)
        for node in model.graph.node
        for o in node.output
        if node.op_type in _ENDING
    }
    found = {}
    for node in source.graph.node:
        if node.op_type not in _ENDING or node.output[0] in kept:
            continue
        low, high = (0.0, math.inf) if node.op_type == "Relu" else EVERYTHING
        if node.op_type == "Clip":
            ends = [
                float(numpy_helper.to_array(constants[name]).reshape(-1)[0])
                if name in constants
                else None
                for name in (*node.input[1:], "", "")[:2]
            ]
            low, high = (d if v is None else v for v, d in zip(ends, (low, high), strict=True))
        found[node.output[0]] = (low, high)
    return found


def _tensor(quantize: onnx.NodeProto) -> str:
    return str(quantize.input[0]).removesuffix(_ENDS)


def join_ranges(
    model: onnx.ModelProto, found: Skeleton, ranges: Mapping[str, Range]
) -> dict[str, Range]:
    """The ranges of leaders, one for those that a Concat joins, and its result: they are then one buffer.

    A tensor whose integers end where a Relu or Clip would have cut keeps its own range if the joint one
    goes beyond; its copy into the result is then one of other integers.
    """
    groups: list[set[str]] = []
    for node in model.graph.node:
        if node.op_type == "Concat":
            names = {
                found.tensors[name] for name in (*node.input, *node.output) if name in found.tensors
            }
            touching = [group for group in groups if group & names]
            groups = [group for group in groups if not group & names]
            groups.append(names.union(*touching))
    joined = dict(ranges)
    for group in groups:
        while True:
            low = min((ranges[name][0] for name in group), default=0.0)
            high = max((ranges[name][1] for name in group), default=0.0)
            beyond = {name for name in group if not _within((low, high), found.bounds.get(name))}
            if not beyond:
                break
            group -= beyond
        joined.update(dict.fromkeys(group, (low, high)))
    return joined


def find_softmax_ranges(model: onnx.ModelProto, network: Network) -> dict[str, float]:
    """How far the integers of each Softmax must reach. network: the float one, for shapes.

    QLinearSoftmax multiplies powers of up to float32's largest / (terms * e^5) by 1 / scale, and what goes
    beyond float32 becomes the largest integer: the scale is to be at least 1 / (terms * e^5).
    """
    found = {}
    for node in model.graph.node:
        tensor = network.tensors.get(node.output[0])
        if node.op_type == "Softmax" and tensor is not None:
            axis = int(number(node, "axis", -1))
            found[node.output[0]] = 256 / (tensor.shape[axis] * math.exp(5))
    return found


def _within(found: Range, bounds: Range | None) -> bool:
    return bounds is None or (bounds[0] <= min(found[0], 0) and max(found[1], 0) <= bounds[1])


def replace_formats(model: onnx.ModelProto, formats: Mapping[str, Format]) -> onnx.ModelProto:
    """A model that the tool has written, with other formats for tensors that lead. Biases stay: between
    tensors of 16 bits they are only values.
    """
    new = {}
    for name, form in formats.items():
        assert form.scale is not None and form.zero_point is not None
        new[f"{name}_scale"] = np.array(form.scale[0], np.float32)
        new[f"{name}_zero_point"] = np.array(form.zero_point[0], form.dtype)
    return use_known_domains(replace_arrays(model, new))


def use_known_domains(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model whose Q/DQ nodes of 16 bits are from the domain that has them in its operator set. Changed in
    place.
    """
    wide = {c.name for c in model.graph.initializer if c.data_type in WIDE}
    if wide and get_opset(model) < OPSET:
        for node in model.graph.node:
            if node.op_type in ("QuantizeLinear", "DequantizeLinear") and node.input[2] in wide:
                node.domain = "com.microsoft"
        if not any(one.domain == "com.microsoft" for one in model.opset_import):
            model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return model


def replace_arrays(model: onnx.ModelProto, arrays: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """A model with other values of constants."""
    copy = deepcopy(model)
    for tensor in copy.graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(numpy_helper.from_array(arrays[tensor.name], tensor.name))
    return copy


def convert_to_float16(model: onnx.ModelProto, kept: Collection[str] = ()) -> onnx.ModelProto:
    """A float model whose weights and activations are float16, inputs and outputs as they were; operators that
    onnxruntime has for float32 alone stay so, between casts, as do nodes with the names `kept`. Raises ModelError.
    """
    path = list(sys.path)
    import onnxruntime.quantization  # noqa: F401  # which imports from that folder, too
    from onnxruntime.transformers import float16

    sys.path[:] = path  # which the package adds its own folder to
    try:
        found: onnx.ModelProto = float16.convert_float_to_float16(
            deepcopy(model),
            keep_io_types=True,
            op_block_list=[*float16.DEFAULT_OP_BLOCK_LIST, *_FLOAT32],
            node_block_list=sorted(kept),
        )
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        raise ModelError(f"cannot be converted to float16: {first_line(error)}") from error
    _sort(found.graph)
    return found


_FLOAT32 = ("BitCast", "DynamicQuantizeLinear")
"""Operators that are about float32, which the tool does not know of."""


def _sort(graph: onnx.GraphProto) -> None:
    """Each node behind those that make what it reads: the tool appends its casts. Otherwise the order stays."""
    makers = {name: k for k, node in enumerate(graph.node) for name in node.output}
    order: dict[int, None] = {}

    def visit(k: int) -> None:
        if k not in order:
            for name in _read(graph.node[k]):
                if name in makers:
                    visit(makers[name])
            order[k] = None

    for k in range(len(graph.node)):
        visit(k)
    nodes = [graph.node[k] for k in order]
    copies = onnx.GraphProto(node=nodes)
    del graph.node[:]
    graph.node.extend(copies.node)


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """Names that a node reads, those in its own graphs too."""
    yield from node.input
    for graph in list_graphs(node):
        for inner in graph.node:
            yield from _read(inner)
