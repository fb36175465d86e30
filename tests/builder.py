"""Small ONNX models in a few lines, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

__all__ = ["Graph", "reference"]


class Graph:
    """Collects nodes; every method returns the name of a tensor."""

    def __init__(self, seed: int = 0, opset: int = 17) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.made = 0
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.channels: dict[str, int] = {}

    def input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> str:
        code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, code, list(shape)))
        if len(shape) > 1:
            self.channels[name] = shape[1]
        return name

    def constant(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(
        self,
        op_type: str,
        *inputs: str,
        outputs: int = 1,
        channels: int | None = None,
        **attributes: Any,
    ) -> str:
        number, self.made = self.made, self.made + 1
        names = [
            f"{op_type.lower()}{number}" + (f"_{k}" if outputs > 1 else "") for k in range(outputs)
        ]
        self.nodes.append(
            helper.make_node(op_type, list(inputs), names, name=f"{op_type}_{number}", **attributes)
        )
        for name in names:
            self.channels[name] = (
                channels if channels is not None else self.channels.get(inputs[0], 0)
            )
        return names[0]

    def conv(
        self,
        x: str,
        out: int,
        kernel: int = 3,
        *,
        group: int = 1,
        bias: bool = True,
        **attributes: Any,
    ) -> str:
        """A convolution with He-scaled weights; same padding unless `pads` says otherwise."""
        per_group = self.channels[x] // group
        scale = np.sqrt(2 / (per_group * kernel * kernel))
        weight = self.rng.normal(0, scale, (out, per_group, kernel, kernel)).astype(np.float32)
        operands = [x, self.constant(weight)]
        if bias:
            operands.append(self.constant(self.rng.normal(0, 0.1, out).astype(np.float32)))
        attributes.setdefault("pads", [kernel // 2] * 4)
        return self.node(
            "Conv",
            *operands,
            channels=out,
            group=group,
            kernel_shape=[kernel, kernel],
            **attributes,
        )

    def batch_normalization(self, x: str) -> str:
        c = self.channels[x]
        scale, variance = self.rng.uniform(0.5, 1.5, (2, c)).astype(np.float32)
        bias, mean = self.rng.normal(0, 0.2, (2, c)).astype(np.float32)
        return self.node(
            "BatchNormalization", x, *(self.constant(a) for a in (scale, bias, mean, variance))
        )

    def per_channel(self, x: str, low: float = 0.5, high: float = 1.5) -> str:
        """A constant with one value per channel, shaped to broadcast over NCHW."""
        return self.constant(
            self.rng.uniform(low, high, (self.channels[x], 1, 1)).astype(np.float32)
        )

    def model(self, *outputs: str, checked: bool = True) -> onnx.ModelProto:
        """checked: by the checker of onnx, which wants to know the shape of every output."""
        half = onnx.TensorProto.FLOAT16
        kinds = {i.type.tensor_type.elem_type for i in self.inputs}
        kind = half if half in kinds else onnx.TensorProto.FLOAT
        values = [helper.make_tensor_value_info(name, kind, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "test", self.inputs, values, self.weights)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8
        )
        model = onnx.shape_inference.infer_shapes(model)
        if checked:
            onnx.checker.check_model(model)
        return model

    def feeds(self, seed: int = 1) -> dict[str, np.ndarray]:
        """Seeded inputs in [-1, 1)."""
        rng = np.random.default_rng(seed)
        return {
            i.name: rng.uniform(-1, 1, [d.dim_value for d in i.type.tensor_type.shape.dim]).astype(
                np.float32
            )
            for i in self.inputs
        }


def reference(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """onnxruntime's outputs by name."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))
