"""What is it that gets quantized? The float model in an operator set of today, constants and
normalisations folded.

onnxruntime's basic optimisations fold what is constant, and BatchNormalization into Conv; what else weights
can take in is folded here (`folding`). Names of tensors stay: they are what formats are chosen for.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx
from onnx import shape_inference, version_converter

from csdfgen.errors import ModelError, first_line
from csdfgen.precision.folding import fold_constants
from csdfgen.reading.onnx_file import get_opset

OPSET = 21
"""The first operator set whose QuantizeLinear makes integers of 16 bits; models of older ones are lifted."""

_LEAST_OPSET = 13
"""The first one whose QuantizeLinear takes a scale for each filter."""


def prepare_model(model: onnx.ModelProto) -> onnx.ModelProto:
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
    _add_two(optimised)
    fold_constants(optimised)
    return shape_inference.infer_shapes(optimised)


def _lifted(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in OPSET, or as it is where the converter fails and its own is new enough."""
    if get_opset(model) >= OPSET:
        return model
    for target in (OPSET, _LEAST_OPSET):
        if get_opset(model) >= target:
            return model
        try:
            return version_converter.convert_version(model, target)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            why = first_line(error)
    if get_opset(model) >= _LEAST_OPSET:
        return model
    raise ModelError(
        f"operator set {get_opset(model)} cannot be lifted to {_LEAST_OPSET}, which quantized models need ({why}); "
        f"export it with operator set {_LEAST_OPSET} or later"
    )


def _optimised(model: onnx.ModelProto) -> onnx.ModelProto:
    """What onnxruntime's basic level leaves, which is ONNX still."""
    import onnxruntime as ort

    from runtime.reference import format_reason, refusals

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
        except refusals() as error:
            raise ModelError(f"onnxruntime refuses it: {format_reason(error)}") from error
        found = onnx.load(path)
    _drop_unused(found)
    # domains that nothing of the model is from are only confusing
    used = {node.domain for node in found.graph.node} | {""}
    kept = [one for one in found.opset_import if one.domain in used]
    del found.opset_import[:]
    found.opset_import.extend(kept)
    return found


def _drop_unused(model: onnx.ModelProto) -> None:
    """Remove nodes that no output needs: those that only the other branch of an If read."""
    needed = {entry.name for entry in model.graph.output}
    nodes = model.graph.node
    for place in reversed(range(len(nodes))):
        node = nodes[place]
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
            return  # its graphs read what its inputs do not list
        if needed.isdisjoint(node.output):
            del nodes[place]
        else:
            needed.update(node.input)


def _add_two(model: onnx.ModelProto) -> None:
    """A Sum of two is an Add, which there are integers for, and which an activation behind it joins."""
    for node in model.graph.node:
        if node.op_type == "Sum" and not node.domain and len(node.input) == 2:
            node.op_type = "Add"
