"""Small ONNX models for tests, written as text (https://onnx.ai/onnx/repo-docs/Syntax.html)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

__all__ = ["model", "onnxruntime_outputs"]


def model(
    text: str,
    weights: Mapping[str, np.ndarray] | None = None,
    *,
    opset: int = 17,
    imports: str = "",
    functions: str = "",
) -> onnx.ModelProto:
    """`name (inputs) => (outputs) { nodes }`, further opset imports and functions, with arrays as
    initializers.
    """
    header = f'<ir_version: 10, opset_import: ["": {opset}{imports}]>'
    parsed = onnx.parser.parse_model(f"{header} {text} {functions}")
    parsed.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in (weights or {}).items()
    )
    return parsed


def onnxruntime_outputs(
    proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """onnxruntime's outputs by name."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return dict(
        zip([o.name for o in proto.graph.output], session.run(None, dict(feeds)), strict=True)
    )
