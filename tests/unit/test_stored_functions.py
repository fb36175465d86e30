"""A function of one byte is a table of 256: the bytes are those of the slab that would have been widened,
in both backends and in emitted code, without workspace in native code.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import csdfgen
import runtime
from csdfgen.backends.native.families import match_family
from csdfgen.backends.registry import resolve_backend
from csdfgen.model.network import Layer, Network
from csdfgen.ops import OPERATORS, get_operator, stored
from csdfgen.ops.stored import byte_position, byte_table
from csdfgen.rewriting.fuse import fuse
from tests.emitted import Program, differences
from tests.native_steps import compiler_missing
from tests.networks import check_touched

SHAPE = (1, 4, 16, 8)
"""Every byte twice."""

READ = (0.031, -7), (0.047, 131)
WRITTEN = (0.013, -20), (0.017, 9)
"""Scale and zero point of int8 and uint8."""

TYPES = ("int8", "uint8")

OF_ONNXRUNTIME = ("Relu", "Sigmoid")
"""Those that are operators on bytes of one type already."""

Body = Callable[["Values", str], str]


class Values:
    """A function of values between integers of two types."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name, **attributes))
        return name

    def model(self, body: Body, read: str, written: str) -> onnx.ModelProto:
        values = self._pair("DequantizeLinear", "x", READ, read)
        made = self._pair("QuantizeLinear", body(self, values), WRITTEN, written)
        info = helper.make_tensor_value_info
        kinds = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}
        graph = helper.make_graph(
            self.nodes,
            "function",
            [info("x", kinds[read], SHAPE)],
            [info(made, kinds[written], None)],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
        model.ir_version = 9
        return model

    def _pair(self, op_type: str, x: str, forms: Any, dtype: str) -> str:
        scale, zero = forms[TYPES.index(dtype)]
        numbers = self.constant(np.float32(scale)), self.constant(np.array(zero, dtype))
        return self.node(op_type, x, *numbers)


def one(op_type: str, **attributes: Any) -> Body:
    return lambda v, x: v.node(op_type, x, **attributes)


def number(op_type: str, value: float, *, first: bool = False) -> Body:
    def make(v: Values, x: str) -> str:
        both = [x, v.constant(np.full((1, 1, 1), value, np.float32))]
        return v.node(op_type, *(both[::-1] if first else both))

    return make


CASES: dict[str, Body] = {
    **{
        name: one(name)
        for name in (
            *("Abs", "Ceil", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "Mish"),
            *("Neg", "Reciprocal", "Relu", "Selu", "Sigmoid", "Sin", "Softplus", "Softsign"),
            *("Sqrt", "Tanh", "ThresholdedRelu"),
        )
    },
    "Div": number("Div", 3),
    "of a number": number("Sub", 1.5, first=True),
    "Pow": number("Pow", 2),
    "PRelu": number("PRelu", 0.2),
    "chain": lambda v, x: v.node("Tanh", v.node("Elu", v.node("Neg", x))),
    "chain with numbers": lambda v, x: number("Add", 0.3)(v, v.node("Softplus", x)),
}


def network_of(name: str, read: str, written: str) -> Network:
    return csdfgen.load(Values().model(CASES[name], read, written))


def every_byte(dtype: str) -> np.ndarray:
    """Each of them, at places that say nothing."""
    integers = np.random.default_rng(4).permutation(np.repeat(np.arange(256), 2))
    return integers.astype(np.uint8).view(dtype).reshape(SHAPE)


def computed(network: Network, backend: str, rows: Any) -> tuple[np.ndarray, dict[str, int]]:
    """The output, and the figures of its plan, which is touched as planned."""
    (entry,) = network.inputs
    plan = csdfgen.plan(network, rows=rows, backend=backend)
    found, measured = runtime.compile(plan).measure({"x": every_byte(entry.dtype)})
    check_touched(plan, measured.touched_bytes)
    (array,) = found.values()
    return array, dict(plan.figures)


def without_tables(monkeypatch: pytest.MonkeyPatch, network: Network) -> np.ndarray:
    """What slabs of float32 give."""
    with monkeypatch.context() as patch:
        patch.setattr(stored, "byte_position", lambda layer, operators: None)
        return computed(network, "numpy", 3)[0]


@pytest.mark.parametrize("types", [(a, b) for a in TYPES for b in TYPES], ids="-".join)
@pytest.mark.parametrize("name", sorted(CASES))
def test_bytes_of_the_widened_slab(
    name: str, types: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, at any height; native code has no workspace, and one table."""
    want = without_tables(monkeypatch, network_of(name, *types))
    network = network_of(name, *types)
    (layer,) = fuse(network).layers
    if name not in OF_ONNXRUNTIME or types[0] != types[1]:
        assert byte_position(layer, OPERATORS) is not None
        assert match_family(layer) is not None
    for backend, rows in (("numpy", 1), ("numpy", "whole"), ("native", 1), ("native", "whole")):
        got, figures = computed(network, resolve_backend(backend), rows)
        np.testing.assert_array_equal(got, want, f"{backend}, {rows}")
        assert resolve_backend(backend) != "native" or figures["workspace"] == 0


@pytest.mark.parametrize("types", [("int8", "int8"), ("uint8", "int8")], ids="-".join)
def test_in_place_where_types_agree(types: tuple[str, str]) -> None:
    """The result lies on its operand where both are of a type."""
    (layer,) = fuse(network_of("Tanh", *types)).layers
    operator = get_operator(layer)
    assert [alias.position for alias in operator.aliases(layer)] == [0] * (types[0] == types[1])


def test_no_warning_of_what_no_slab_may_hold(recwarn: pytest.WarningsRecorder) -> None:
    """A table has roots below 0 and quotients by 0 too, though rows may never read them."""
    for name in ("Sqrt", "Reciprocal"):
        (layer,) = fuse(network_of(name, "int8", "uint8")).layers
        table = byte_table(layer, OPERATORS)
        assert (table.shape, table.dtype) == ((256,), np.uint8)
    assert not recwarn.list


def channels(v: Values, x: str) -> str:
    return v.node("PRelu", x, v.constant(np.full((4, 1, 1), 0.2, np.float32)))


@pytest.mark.parametrize("body", [channels, one("Softmax", axis=1), one("LRN", size=3)])
def test_others_are_no_table(body: Body) -> None:
    """A slope for each channel, and what looks at its neighbours."""
    network = fuse(csdfgen.load(Values().model(body, "int8", "int8")))
    stored: list[Layer] = [one for one in network.layers if one.stored is not None]
    assert not any(byte_position(one, OPERATORS) is not None for one in stored)


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
def test_emitted_code(tmp_path: Path) -> None:
    """C source of a chain: the same bytes."""
    network = network_of("chain", "int8", "uint8")
    plan = csdfgen.plan(network, rows=2, backend="native")
    x = {"x": every_byte("int8")}
    want = runtime.compile(plan)(x)
    assert differences(Program(plan, tmp_path)(x), want) == [0.0]
