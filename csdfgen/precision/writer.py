"""How is a quantized model written? onnxruntime's own tool writes it in QDQ form; formats of single
tensors are then exchanged in what it wrote.

Source: onnxruntime.quantization (QDQQuantizer, TensorQuantOverrides). The tool knows which tensors of which
operators are quantized, which share a scale, and what becomes of weights and biases. It writes all in
int8; a tensor of 16 bits has the same two nodes with another zero point and scale, so that formats can be
tried in no time.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from csdfgen.errors import ModelError
from csdfgen.model.formats import Format
from csdfgen.precision.prepare import OPSET

__all__ = ["Skeleton", "in_float16", "in_int8", "joined_ranges", "skeleton", "with_formats"]

_ENDS = "_QuantizeLinear_Input"
"""What the tool appends to the name of a graph output that is quantized."""

_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True, slots=True)
class Skeleton:
    """What a quantized model consists of. tensors: quantized activation -> the one whose scale it has
    (itself, where it has its own). weights: quantized weight -> the output of the layer that has it.
    """

    tensors: Mapping[str, str]
    weights: Mapping[str, str]

    @property
    def leaders(self) -> tuple[str, ...]:
        """Tensors with a scale of their own, in the order of the model."""
        return tuple(dict.fromkeys(self.tensors.values()))

    def members(self, leader: str) -> tuple[str, ...]:
        """Tensors that have a scale in common."""
        return tuple(name for name, one in self.tensors.items() if one == leader)


def in_int8(model: onnx.ModelProto, formats: Mapping[str, Format]) -> onnx.ModelProto:
    """A prepared float model (`prepare.prepared`) with activations in int8, weights in int8 for each
    filter. formats: by tensor; those that have none are quantized from -1 to 1. Raises ModelError.
    """
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization.calibrate import CalibrationMethod, TensorsData
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    names = [one.name for one in (*graph.input, *graph.output, *graph.value_info)]
    names += [name for node in graph.node for name in node.output if name]
    ranges = {name: (np.float32(-1), np.float32(1)) for name in dict.fromkeys(names)}
    overrides = {
        name: [
            {
                "quant_type": QuantType.QInt8,
                "scale": np.array(form.scale[0], np.float32),
                "zero_point": np.array(form.zero_point[0], form.dtype),
            }
        ]
        for name, form in formats.items()
        if form.scale is not None and form.zero_point is not None
    }
    kinds = {node.op_type for node in graph.node} & {*QDQRegistry, *QLinearOpsRegistry}
    with _silent():
        try:
            tool = QDQQuantizer(
                copy, True, False, QuantType.QInt8, QuantType.QInt8,
                TensorsData(CalibrationMethod.MinMax, ranges), [], [], sorted(kinds),
                {"TensorQuantOverrides": overrides},
            )  # fmt: skip
            tool.quantize_model()
        except (ValueError, TypeError, KeyError, RuntimeError, AssertionError) as error:
            why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ModelError(f"onnxruntime's tool cannot quantize it: {why}") from error
    found: onnx.ModelProto = tool.model.model
    return found


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """The tool's warnings are about what is settled here."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def skeleton(model: onnx.ModelProto) -> Skeleton:
    """What the tool has quantized in a model."""
    constants = {one.name for one in model.graph.initializer}
    leaders: dict[str, str] = {}
    tensors: dict[str, str] = {}
    dequantized: dict[str, str] = {}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and node.input[0] not in constants:
            tensors[_tensor(node)] = leaders.setdefault(node.input[1], _tensor(node))
        elif node.op_type == "DequantizeLinear" and node.input[0] in constants:
            dequantized[node.output[0]] = node.input[0]
    # the tensor that a scale is named after leads, whoever comes first
    named = {f"{name}_scale": name for name in tensors}
    lead = {leaders[scale]: named.get(scale, leaders[scale]) for scale in leaders}
    weights = {}
    for node in model.graph.node:
        if node.op_type in _WEIGHTED:
            for name in node.input[:2]:
                if name in dequantized:
                    weights[dequantized[name]] = node.output[0].removesuffix(_ENDS)
    return Skeleton({name: lead[one] for name, one in tensors.items()}, weights)


def _tensor(quantize: onnx.NodeProto) -> str:
    return str(quantize.input[0]).removesuffix(_ENDS)


def joined_ranges(model: onnx.ModelProto, found: Skeleton) -> list[tuple[str, ...]]:
    """Leaders that should have one scale: what a Concat joins, and its result, are then one buffer."""
    groups: list[set[str]] = []
    for node in model.graph.node:
        if node.op_type != "Concat":
            continue
        names = {
            found.tensors[name] for name in (*node.input, *node.output) if name in found.tensors
        }
        touching = [group for group in groups if group & names]
        groups = [group for group in groups if not group & names]
        groups.append(names.union(*touching))
    order = {name: k for k, name in enumerate(found.leaders)}
    return [tuple(sorted(group, key=order.__getitem__)) for group in groups if len(group) > 1]


def with_formats(model: onnx.ModelProto, formats: Mapping[str, Format]) -> onnx.ModelProto:
    """A model that the tool has written, with other formats for tensors that lead. Biases stay: between
    tensors of 16 bits they are only values.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    new = {}
    for name, form in formats.items():
        assert form.scale is not None and form.zero_point is not None
        new[f"{name}_scale"] = np.array(form.scale[0], np.float32)
        new[f"{name}_zero_point"] = np.array(form.zero_point[0], form.dtype)
    wide = {f"{name}_zero_point" for name, form in formats.items() if form.itemsize > 1}
    for tensor in copy.graph.initializer:
        if tensor.name in new:
            tensor.CopyFrom(numpy_helper.from_array(new[tensor.name], tensor.name))
    opset = max(one.version for one in copy.opset_import if one.domain in ("", "ai.onnx"))
    if wide and opset < OPSET:
        for node in copy.graph.node:
            if node.op_type in ("QuantizeLinear", "DequantizeLinear") and node.input[2] in wide:
                node.domain = "com.microsoft"
        if not any(one.domain == "com.microsoft" for one in copy.opset_import):
            copy.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return copy


def in_float16(model: onnx.ModelProto) -> onnx.ModelProto:
    """A float model whose weights and activations are float16, inputs and outputs as they were. Raises
    ModelError.
    """
    import warnings

    from onnxconverter_common import float16

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that values were cut to what float16 holds
        try:
            found: onnx.ModelProto = float16.convert_float_to_float16(model, keep_io_types=True)
        except (ValueError, TypeError, KeyError, RuntimeError) as error:
            why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ModelError(f"cannot be converted to float16: {why}") from error
    return found
