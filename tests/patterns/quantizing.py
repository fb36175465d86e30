"""A network with QuantizeLinear and DequantizeLinear around every tensor, as exporters of quantized networks write it.

Scales are powers of two and zero points integers: products and sums of such values are exact in float32, so that
both sides round the same numbers, and every difference is an error. Means and activations of other kinds may meet a
tie; see `tests.fuzz`.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.patterns.growing import Growing

__all__ = ["is_quantized", "quantized"]

WEIGHTED = {"Conv": 0, "ConvTranspose": 1, "Gemm": 0, "MatMul": 1}
"""Operators with constant weights, and the axis of their outputs."""


DIVISORS = frozenset({"Sqrt", "Reciprocal", "Log", "ReduceL2", "Pow", "Div"})
"""What divides, or is divided by, stays as it is: a small divisor would be rounded to 0."""


def is_quantized(model: onnx.ModelProto) -> bool:
    return any(node.op_type == "QuantizeLinear" for node in model.graph.node)


def quantized(net: Growing, model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in int8 or uint8; a tensor that only an activation reads may stay as it is."""
    graph = model.graph
    kind = net.pick("int8", "uint8")
    bits, alone = net.number(3, 5), net.chance()
    per_channel = net.chance()
    zero = np.array(0 if kind == "int8" else 128, kind)
    scale = np.float32(2.0**-bits)
    constants = [numpy_helper.from_array(scale, "q_scale"), numpy_helper.from_array(zero, "q_zero")]
    float_type = onnx.TensorProto.FLOAT
    inferred = onnx.shape_inference.infer_shapes(model)
    floats = {
        value.name
        for value in (*inferred.graph.value_info, *graph.output, *graph.input)
        if value.type.tensor_type.elem_type == float_type
    }
    arrays = {tensor.name: tensor for tensor in graph.initializer}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    outputs = {value.name for value in graph.output}
    nodes: list[onnx.NodeProto] = []
    renamed: dict[str, str] = {}

    def around(source: str, target: str) -> None:
        made = f"{target}_q"
        nodes.append(helper.make_node("QuantizeLinear", [source, "q_scale", "q_zero"], [made]))
        nodes.append(helper.make_node("DequantizeLinear", [made, "q_scale", "q_zero"], [target]))

    def small(name: str, axis: int) -> tuple[str, np.ndarray]:
        """Constant weights as int8, and their scales."""
        array = numpy_helper.to_array(arrays[name])
        axis = min(axis, array.ndim - 1)
        each = per_channel and array.ndim > 1
        others = tuple(k for k in range(array.ndim) if k != axis) if each else None
        high = np.abs(array).max(axis=others)
        scales = (2.0 ** np.ceil(np.log2(np.maximum(high, 1e-3) / 127))).astype(np.float32)
        shape = [-1 if k == axis else 1 for k in range(array.ndim)] if each else ()
        values = np.rint(array / scales.reshape(shape)).astype(np.int8)
        return stored(f"{name}_w", values, scales, axis), scales

    def stored(made: str, values: np.ndarray, scales: np.ndarray, axis: int) -> str:
        """Integers and what makes numbers of them."""
        names = [f"{made}_q", f"{made}_s", f"{made}_z"]
        for part, array in zip(
            names, (values, scales, np.zeros(scales.shape, values.dtype)), strict=True
        ):
            constants.append(numpy_helper.from_array(np.asarray(array), part))
        attributes = {"axis": axis} if scales.ndim else {}
        nodes.append(helper.make_node("DequantizeLinear", names, [made], **attributes))
        return made

    def bias(node: onnx.NodeProto, scales: np.ndarray) -> None:
        """The bias of a layer in steps of its products, as int32."""
        array, steps = numpy_helper.to_array(arrays[node.input[2]]), scales * scale
        if scales.ndim and scales.size != array.size:
            return  # of grouped transposed convolutions, whose weights have other axes
        values = np.rint(array / steps).astype(np.int32)
        node.input[2] = stored(f"{node.output[0]}_b", values, steps.astype(np.float32), 0)

    for value in graph.input:
        renamed[value.name] = f"{value.name}_d"
        around(value.name, f"{value.name}_d")
    weights: dict[str, tuple[str, np.ndarray]] = {}
    for node in graph.node:
        for k, name in enumerate(node.input):
            if name in renamed:
                node.input[k] = renamed[name]
            elif k == 1 and node.op_type in WEIGHTED and name in arrays:
                if name not in weights:
                    weights[name] = small(name, WEIGHTED[node.op_type])
                node.input[1] = weights[name][0]
                if len(node.input) > 2 and node.input[2] in arrays:
                    bias(node, weights[name][1])
        nodes.append(node)
        for k, name in enumerate(node.output):
            behind = readers.get(name, [])
            kinds = {reader.op_type for reader in behind}
            into_one = alone and len(behind) == 1 and kinds <= {"Relu", "Clip", "LeakyRelu"}
            divides = node.op_type in DIVISORS or kinds & DIVISORS
            bare = name not in outputs and (into_one or divides)
            if name in floats and not bare:
                node.output[k] = f"{name}_f"
                around(f"{name}_f", name)
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.extend(constants)
    del graph.value_info[:]
    return model
