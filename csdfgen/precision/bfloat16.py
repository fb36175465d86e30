"""How does a float model become one of bfloat16? Every operator whose schema allows it reads and makes bfloat16; inputs and
outputs of the model stay float32, between casts.

Operands that a schema wants in float32 (the scales of Resize) stay so, as do operators of which bfloat16 would spoil the
result: with 8 bits of fraction there are no integers above 256, so that positions, ranks and running sums get lost.
Source: type constraints of https://onnx.ai/onnx/operators, which allow bfloat16 to nearly all of them from opset 22 on.
"""

from __future__ import annotations

import contextlib
from copy import deepcopy

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, version_converter

from csdfgen.errors import ModelError
from csdfgen.model.formats import BFLOAT16
from csdfgen.model.naming import make_unused_name
from csdfgen.precision.writer import convert_to_float16
from csdfgen.reading.onnx_file import get_opset, list_graphs
from csdfgen.reading.onnx_schema import Signature, signature

OPSET = 22
"""The first operator set in which Conv, pooling and other operators take bfloat16."""

_IN_FLOAT32_NAMES = """
    ArgMax ArgMin CumSum DFT DynamicQuantizeLinear GridSample Hardmax MaxRoiPool NonMaxSuppression QuantizeLinear Range RoiAlign
    STFT TopK
"""
_IN_FLOAT32 = frozenset(_IN_FLOAT32_NAMES.split())


def convert_to_halves(
    model: onnx.ModelProto, form: str, kept: frozenset[str] = frozenset()
) -> onnx.ModelProto:
    """A prepared float model in "float16" or "bfloat16". kept: names of nodes that stay in float32. Raises ModelError."""
    return (
        convert_to_float16(model, kept) if form == "float16" else convert_to_bfloat16(model, kept)
    )


def convert_to_bfloat16(
    model: onnx.ModelProto, kept: frozenset[str] = frozenset()
) -> onnx.ModelProto:
    """A prepared float model (`prepare.prepare_model`) whose weights and activations are bfloat16. kept: names of nodes that
    stay in float32. Raises ModelError.
    """
    found = deepcopy(model)
    if get_opset(found) < OPSET:
        with contextlib.suppress(RuntimeError, ValueError, TypeError, IndexError):
            # where it cannot be lifted, what older schemas do not allow stays float32
            found = version_converter.convert_version(found, OPSET)
        found = onnx.shape_inference.infer_shapes(found)
    found.ir_version = max(found.ir_version, 10)
    _Conversion(found, kept).done()
    return found


class _Conversion:
    """One walk over the nodes. Each float32 tensor exists in float32, in bfloat16, or in both, joined by a Cast."""

    def __init__(self, model: onnx.ModelProto, kept: frozenset[str]) -> None:
        self._graph, self._opset, self._kept = model.graph, get_opset(model), kept
        graph = self._graph
        values = [*graph.input, *graph.value_info, *graph.output]
        self._constants = {one.name: one for one in graph.initializer}
        self._floats = {
            one.name for one in values if one.type.tensor_type.elem_type == TensorProto.FLOAT
        }
        self._floats |= {
            n for n, one in self._constants.items() if one.data_type == TensorProto.FLOAT
        }
        self._taken = {one.name for one in (*values, *graph.initializer)}
        self._taken |= {name for node in graph.node for name in (*node.input, *node.output)}
        self._wide = {one.name: one.name for one in (*graph.input, *graph.initializer)}
        self._narrow: dict[str, str] = {}
        self._nodes: list[onnx.NodeProto] = []
        self._added: list[TensorProto] = []

    def done(self) -> None:
        """Change the graph."""
        graph = self._graph
        for node in graph.node:
            self._convert(node)
        for output in graph.output:
            if output.name in self._floats:
                self._in_float32(output.name)
        read = {name for node in self._nodes for name in node.input}
        read |= {one.name for one in graph.output}
        constants = [one for one in (*graph.initializer, *self._added) if one.name in read]
        made = onnx.GraphProto(node=self._nodes, initializer=constants)
        del graph.node[:], graph.initializer[:], graph.value_info[:]
        graph.node.extend(made.node)
        graph.initializer.extend(made.initializer)

    def _convert(self, node: onnx.NodeProto) -> None:
        """A node on bfloat16 as far as its schema has it."""
        allowed = None if node.domain else signature(node.op_type, self._opset)
        stays = allowed is None or node.op_type in _IN_FLOAT32 or node.name in self._kept
        stays = stays or bool(list_graphs(node))
        inputs, bound = self._inputs(node, None if stays else allowed)
        made = deepcopy(node)
        variables = () if allowed is None else allowed.outputs
        if node.op_type == "Cast" and not stays and node.output[0] in self._floats:
            del made.attribute[:]
            made.attribute.append(helper.make_attribute("to", TensorProto.BFLOAT16))
            bound = {*bound, variables[0]}
        made.input[:] = inputs
        self._nodes.append(made)
        for k, name in enumerate(node.output):
            if name not in self._floats:
                continue
            if variables and variables[min(k, len(variables) - 1)] in bound:
                made.output[k] = self._narrow[name] = self._fresh(name)
            else:
                self._wide[name] = name

    def _inputs(
        self, node: onnx.NodeProto, allowed: Signature | None
    ) -> tuple[list[str], set[str]]:
        """What a node reads, and the type variables that are bfloat16. allowed: None where it stays in float32."""
        found, bound = [], set()
        for k, name in enumerate(node.input):
            if name not in self._floats:
                found.append(name)
            elif allowed is not None and BFLOAT16.dtype in allowed.dtypes(k):
                found.append(self._in_bfloat16(name))
                bound.add(allowed.variable(k))
            else:
                found.append(self._in_float32(name))
        return found, bound

    def _in_bfloat16(self, name: str) -> str:
        if name not in self._narrow:
            self._narrow[name] = self._fresh(name)
            if name in self._constants:
                self._added.append(_rounded(self._constants[name], self._narrow[name]))
            else:
                self._cast(name, self._narrow[name], TensorProto.BFLOAT16)
        return self._narrow[name]

    def _in_float32(self, name: str) -> str:
        if name not in self._wide:
            self._wide[name] = name
            self._cast(self._narrow[name], name, TensorProto.FLOAT)
        return self._wide[name]

    def _cast(self, name: str, made: str, to: int) -> None:
        self._nodes.append(helper.make_node("Cast", [name], [made], name=f"{made}_cast", to=to))

    def _fresh(self, name: str) -> str:
        return make_unused_name(f"{name}_bfloat16", self._taken)


def _rounded(tensor: TensorProto, name: str) -> TensorProto:
    """A constant in bfloat16. Raises ModelError for values that bfloat16 does not have."""
    values = numpy_helper.to_array(tensor)
    with np.errstate(all="ignore"):
        rounded = values.astype(BFLOAT16.dtype)
    if not np.array_equal(np.isfinite(values), np.isfinite(rounded.astype(np.float32))):
        raise ModelError(
            f"constant '{tensor.name}' holds values above 3.39e38, the largest of bfloat16"
        )
    return helper.make_tensor(name, TensorProto.BFLOAT16, values.shape, rounded.tobytes(), raw=True)
