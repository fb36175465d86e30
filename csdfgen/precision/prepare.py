"""What is it that gets quantized? The float model in an operator set of today, constants and
normalisations folded.

onnxruntime's basic optimisations fold what is constant, and BatchNormalization into Conv; that into
ConvTranspose is folded here. Names of tensors stay: they are what formats are chosen for.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference, version_converter

from csdfgen.errors import ModelError, first_line
from csdfgen.reading.onnx_file import from_proto, read_file
from csdfgen.reading.zoo import build, is_zoo_name

__all__ = ["OPSET", "float_model", "prepared"]

OPSET = 21
"""The first operator set whose QuantizeLinear makes integers of 16 bits; models of older ones are lifted."""

_LEAST_OPSET = 13
"""The first one whose QuantizeLinear takes a scale for each filter."""


def float_model(source: str | os.PathLike[str] | onnx.ModelProto) -> tuple[onnx.ModelProto, str]:
    """(model with its weights, where it is from) of a file, a name of the zoo, or a model as it is.
    Raises InputError, ModelError.
    """
    if isinstance(source, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(source)
        return copy, from_proto(source).source
    if is_zoo_name(source):
        return build(source), str(source)
    path = Path(source)
    read_file(path)  # refuses what is none, in a line
    return onnx.load(path), str(path)


def prepared(model: onnx.ModelProto) -> onnx.ModelProto:
    """A float model as it is quantized. Raises ModelError where it is quantized already, or cannot be
    lifted to an operator set that has what integers need.
    """
    for node in model.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear") or node.op_type.startswith(
            "QLinear"
        ):
            raise ModelError(f"is quantized already: it has a {node.op_type}; give the float model")
    lifted = _lifted(model)
    optimised = _optimised(lifted)
    _fold_batch_normalization(optimised)
    _add_two(optimised)
    return shape_inference.infer_shapes(optimised)


def _opset(model: onnx.ModelProto) -> int:
    return max(
        (one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), default=1
    )


def _lifted(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in OPSET, or as it is where the converter fails and its own is new enough."""
    if _opset(model) >= OPSET:
        return model
    for target in (OPSET, _LEAST_OPSET):
        if _opset(model) >= target:
            return model
        try:
            return version_converter.convert_version(model, target)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            why = first_line(error)
    if _opset(model) >= _LEAST_OPSET:
        return model
    raise ModelError(
        f"operator set {_opset(model)} cannot be lifted to {_LEAST_OPSET}, which quantized models need ({why}); "
        f"export it with operator set {_LEAST_OPSET} or later"
    )


def _optimised(model: onnx.ModelProto) -> onnx.ModelProto:
    """What onnxruntime's basic level leaves, which is ONNX still."""
    import onnxruntime as ort

    from runtime.reference import REFUSALS, reason_of

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        options.optimized_model_filepath = str(path)
        try:
            ort.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except REFUSALS as error:
            raise ModelError(f"onnxruntime refuses it: {reason_of(error)}") from error
        found = onnx.load(path)
    # domains that nothing of the model is from are only confusing
    used = {node.domain for node in found.graph.node} | {""}
    kept = [one for one in found.opset_import if one.domain in used]
    del found.opset_import[:]
    found.opset_import.extend(kept)
    return found


def _add_two(model: onnx.ModelProto) -> None:
    """A Sum of two is an Add, which there are integers for, and which an activation behind it joins."""
    for node in model.graph.node:
        if node.op_type == "Sum" and not node.domain and len(node.input) == 2:
            node.op_type = "Add"


# BatchNormalization behind ConvTranspose ---------------------------------------------------------


def _fold_batch_normalization(model: onnx.ModelProto) -> None:
    """w' = w * s, b' = (b - mean) * s + shift, s = gamma / sqrt(variance + epsilon) (paper 004, section 3.5),
    where nobody else reads what is normalised.
    """
    graph = model.graph
    constants = {one.name: one for one in graph.initializer}
    makers = {name: node for node in graph.node for name in node.output}
    readers = Counter(one.name for one in graph.output)
    readers.update(name for node in graph.node for name in node.input)
    for node in list(graph.node):
        if node.op_type != "BatchNormalization" or len([o for o in node.output if o]) != 1:
            continue
        maker = makers.get(node.input[0])
        if maker is None or maker.op_type != "ConvTranspose" or readers[node.input[0]] != 1:
            continue
        if any(name not in constants for name in (*node.input[1:], *maker.input[1:])):
            continue
        _fold(graph, maker, node, constants)


def _fold(
    graph: onnx.GraphProto,
    conv: onnx.NodeProto,
    norm: onnx.NodeProto,
    constants: dict[str, onnx.TensorProto],
) -> None:
    gamma, beta, mean, variance = (
        numpy_helper.to_array(constants[name]).astype(np.float64) for name in norm.input[1:5]
    )
    epsilon = next((a.f for a in norm.attribute if a.name == "epsilon"), 1e-5)
    factor = gamma / np.sqrt(variance + epsilon)
    weights = numpy_helper.to_array(constants[conv.input[1]]).astype(np.float64)
    bias = np.zeros(len(factor))
    if len(conv.input) > 2 and conv.input[2]:
        bias = numpy_helper.to_array(constants[conv.input[2]]).astype(np.float64)
    groups = next((a.i for a in conv.attribute if a.name == "group"), 1)
    # weights of a ConvTranspose: (inputs, outputs of a group, *kernel), inputs in groups
    per_input = (
        factor.reshape(groups, 1, -1).repeat(len(weights) // groups, 1).reshape(len(weights), -1)
    )
    scaled = weights * per_input.reshape(*per_input.shape, *(1,) * (weights.ndim - 2))
    names = [f"{norm.output[0]}_{what}" for what in ("weights", "bias")]
    for name, array in zip(names, (scaled, (bias - mean) * factor + beta), strict=True):
        graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    del conv.input[1:]
    conv.input.extend(names)
    conv.output[0] = norm.output[0]
    graph.node.remove(norm)
