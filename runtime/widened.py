"""What does onnxruntime compare a network in bfloat16 with? The same network in float32, with the same weights: its CPU
kernels are for float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, external_data_helper, numpy_helper

from csdfgen.model.formats import BFLOAT16
from csdfgen.reading.onnx_file import list_graphs


def widen_array(array: np.ndarray) -> np.ndarray:
    """An array of bfloat16 as float32, any other as it is."""
    return array.astype(np.float32) if array.dtype.name == BFLOAT16.dtype else array


def widen_model(model: onnx.ModelProto, folder: Path | None) -> None:
    """Make every bfloat16 of a model float32, in place. folder: of its external data."""
    graphs = list(_graphs(model.graph))
    tensors = [tensor for graph in graphs for tensor in _tensors(graph)]
    for tensor in tensors:
        if tensor.data_type == TensorProto.BFLOAT16:
            if tensor.data_location == TensorProto.EXTERNAL and folder is not None:
                external_data_helper.load_external_data_for_tensor(tensor, str(folder))
                tensor.data_location = TensorProto.DEFAULT
                del tensor.external_data[:]
            tensor.CopyFrom(
                numpy_helper.from_array(widen_array(numpy_helper.to_array(tensor)), tensor.name)
            )
    for graph in graphs:
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type == TensorProto.BFLOAT16:
                value.type.tensor_type.elem_type = TensorProto.FLOAT
        for node in graph.node:
            for attribute in node.attribute:
                if (
                    attribute.name in ("to", "dtype", "output_dtype")
                    and attribute.i == TensorProto.BFLOAT16
                ):
                    attribute.i = TensorProto.FLOAT


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for inner in list_graphs(node):
            yield from _graphs(inner)


def _tensors(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
