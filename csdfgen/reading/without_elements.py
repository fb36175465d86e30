"""Which results of operations have no elements? Such a tensor is a constant, whatever it is computed from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.checker import ValidationError
from onnx.defs import SchemaError
from onnx.shape_inference import InferenceError, infer_node_outputs

from csdfgen.model.network import Tensor
from csdfgen.reading.onnx_graph import Operation
from csdfgen.reading.onnx_tensor import DTYPES, MAX_RANK

_CODES = {name: code for code, name in DTYPES.items()}

_FEW = 1024
"""Elements of a constant up to which they may say what shape a result has."""


def make_empty_results(
    operation: Operation, operands: Sequence[Tensor | np.ndarray | None]
) -> dict[str, np.ndarray]:
    """The results of an operation of ONNX that have no elements, by name; {} where shapes do not follow."""
    if operation.domain or any(o is not None and str(o.dtype) not in _CODES for o in operands):
        return {}
    proto = operation.proto([f"i{k}" if o is not None else "" for k, o in enumerate(operands)])
    given = {f"i{k}": o for k, o in enumerate(operands) if o is not None}
    types = {
        n: helper.make_tensor_type_proto(_CODES[str(o.dtype)], o.shape) for n, o in given.items()
    }
    constants = ((n, o) for n, o in given.items() if isinstance(o, np.ndarray) and o.size <= _FEW)
    data = {n: numpy_helper.from_array(o, n) for n, o in constants}
    opset = [helper.make_opsetid("", operation.opset)]
    try:
        schema = onnx.defs.get_schema(operation.op_type, operation.opset, "")
        made = infer_node_outputs(schema, proto, types, data, opset_imports=opset)
    except (InferenceError, ValidationError, SchemaError, RuntimeError, TypeError, ValueError):
        return {}
    found = {}
    for name, result in zip(operation.outputs, proto.output, strict=True):
        tensor = made[result].tensor_type if result in made else onnx.TypeProto.Tensor()
        known = all(d.HasField("dim_value") for d in tensor.shape.dim)
        shape = tuple(d.dim_value for d in tensor.shape.dim)
        usual = known and tensor.elem_type in DTYPES and len(shape) <= MAX_RANK
        if name and usual and min(shape, default=1) == 0:
            found[name] = np.zeros(shape, DTYPES[tensor.elem_type])
    return found
