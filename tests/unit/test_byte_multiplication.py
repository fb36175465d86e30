"""A product of two activations of bytes is numpy's and onnxruntime's, whatever types, zero points, batches, tails, slab
heights and instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

import csdfgen
import runtime
from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.native.families import match_family
from csdfgen.backends.native.families.byte_multiplication import byte_multiplication
from csdfgen.backends.native.library import load
from csdfgen.backends.native.structures import get_record
from csdfgen.backends.native.threads import divide_among_threads
from csdfgen.backends.registry import choose_backend
from csdfgen.lowering.program import lower
from csdfgen.model.network import Network
from csdfgen.rewriting.fuse import fuse
from runtime.session import Executable
from tests.native_steps import MACHINES, compiler_missing, on_each_machine
from tests.unit.test_attention import Nodes
from tests.unit.test_multiplication import PATTERNS, TOKENS
from tests.unit.test_native_bytes import TYPES, Case

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

SHAPES = (
    ((1, 3, 33, 37), (1, 3, 37, 41)),
    ((5, 40), (40, 16)),
    ((2, 3, 9, 64), (3, 64, 48)),
    ((3, 8, 6), (2, 1, 6, 20)),
    ((17, 1201), (1201, 5)),
)
"""Batches that broadcast, tails of terms and of columns, terms that need a workspace."""

TYPED = [*product(("int8", "uint8"), repeat=2)]

ZEROS = ((3, 5), (0, 0), (127, 126))

Pair = tuple[str, str]
Shape = tuple[int, ...]


def layers(types: Pair, a: Shape, b: Shape, zeros: tuple[int, int]) -> list[Network]:
    """QLinearMatMul and MatMulInteger of two inputs."""
    case = Case()
    points = [case.constant(np.array(zero, of)) for zero, of in zip(zeros, types, strict=True)]
    left, right = (["a", case.scale(0.02), points[0]], ["b", case.scale(0.013), points[1]])
    into = [case.scale(0.11 * a[-1] ** 0.5), case.constant(np.array(7, types[0]))]
    found = []
    for node, dtype in (
        (helper.make_node("QLinearMatMul", [*left, *right, *into], ["y"]), types[0]),
        (helper.make_node("MatMulInteger", ["a", "b", *points], ["y"]), "int32"),
    ):
        inputs = [
            helper.make_tensor_value_info(name, TYPES[of], shape)
            for name, of, shape in zip("ab", types, (a, b), strict=True)
        ]
        made = np.matmul(np.zeros(a), np.zeros(b)).shape
        output = helper.make_tensor_value_info("y", TYPES[dtype], made)
        graph = helper.make_graph([node], "layer", inputs, [output], case.weights)
        imports = [helper.make_opsetid("", 17)]
        found.append(csdfgen.load(helper.make_model(graph, opset_imports=imports, ir_version=9)))
    return found


def operands(types: Pair, a: Shape, b: Shape) -> list[dict[str, np.ndarray]]:
    """Any bytes, and those with the largest sums."""
    case = Case()
    given = {
        name: case.bytes_of(of, shape) for name, of, shape in zip("ab", types, (a, b), strict=True)
    }
    return [given, {name: np.full_like(x, np.iinfo(x.dtype).min) for name, x in given.items()}]


@pytest.mark.parametrize("types", TYPED, ids=" ".join)
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_products(types: Pair, a: Shape, b: Shape) -> None:
    zeros = ZEROS[(SHAPES.index((a, b)) + TYPED.index(types)) % len(ZEROS)]
    for network in layers(types, a, b, zeros):
        assert byte_multiplication(network.layers[0]) is not None
        numpy = runtime.compile(csdfgen.plan(network, rows="whole", backend="numpy"))
        native = [
            runtime.compile(csdfgen.plan(network, rows=rows, backend="native"))
            for rows in (1, 2, "whole")
        ]
        for x in operands(types, a, b):
            for frame in native:
                np.testing.assert_array_equal(frame(x)["y"], numpy(x)["y"])


@pytest.mark.networks
@on_each_machine
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_other_machines(machine: str, a: Shape, b: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts have some of the columns and their share of the workspace; bytes by integers alone, too."""
    monkeypatch.setattr("csdfgen.backends.native.threads._WORTH", 1)
    kernels = NativeKernels(load(MACHINES[machine]))
    for types, requantize in zip(TYPED, ("float", "integer", "integer", "float"), strict=True):
        for network in layers(types, a, b, (3, 5)):
            given = {"rows": "whole", "requantize": requantize}
            numpy = runtime.compile(csdfgen.plan(network, backend="numpy", **given))
            plan = csdfgen.plan(network, backend="native", **given)
            native = [Executable(plan, kernels=kernels, threads=n) for n in (1, 2, 3)]
            for x in operands(types, a, b):
                for frame in native:
                    np.testing.assert_array_equal(frame(x)["y"], numpy(x)["y"])


@pytest.mark.parametrize(
    ("groups", "sizes"), [(3, [(1, 70), (2, 70)]), (1, [(1, 32), (1, 38)])], ids=["pairs", "panels"]
)
def test_what_threads_share(groups: int, sizes: list[tuple[int, int]]) -> None:
    """Pairs of matrices or, of one, columns in panels of sixteen, each part in a workspace of its own."""
    network, _ = layers(("uint8", "uint8"), (1, groups, 64, 64), (1, groups, 64, 70), (3, 5))
    plan = csdfgen.plan(network, backend="native", rows="whole")
    code = lower(plan, choose_backend(plan.options))
    (made,) = (one for one in code.instructions if one.kernel == "multiply_bytes_of")
    whole = get_record(made)
    (parts,) = divide_among_threads(made, 2, code.constants)
    records = [get_record(one) for one in parts]
    assert [(one.groups, one.columns) for one in records] == sizes
    ends = [one.workspace.offset + one.workspace_bytes for one in records]
    assert whole.workspace.offset == records[0].workspace.offset
    assert ends[0] <= records[1].workspace.offset
    assert ends[1] <= whole.workspace.offset + whole.workspace_bytes


def test_sums_that_are_too_large_have_no_kernel() -> None:
    """Of 32 bits: then other code computes."""
    network, _ = layers(("int8", "int8"), (2, 18725), (18725, 2), (0, 0))
    assert byte_multiplication(network.layers[0]) is None


class Quantized(Nodes):
    """Products of two activations are of bytes."""

    def one(self, op_type: str, *inputs: str | np.ndarray, **attributes: object) -> str:
        if op_type != "MatMul" or not all(isinstance(one, str) for one in inputs):
            return super().one(op_type, *inputs, **attributes)
        forms = [(np.float32(0.031), np.uint8(131)), (np.float32(0.027), np.uint8(118))]
        given: list[str | np.ndarray] = []
        for one, form in zip(inputs, forms, strict=True):
            arrays = [np.asarray(x) for x in form]
            given += [super().one("QuantizeLinear", one, *arrays), *arrays]
        into = [np.asarray(np.float32(0.09)), np.asarray(np.uint8(125))]
        return super().one("DequantizeLinear", super().one("QLinearMatMul", *given, *into), *into)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.__name__)
def test_wherever_rows_and_columns_lie(pattern: Callable[[Nodes], str]) -> None:
    g = Quantized()
    model = g.model((1, TOKENS, 24), pattern(g))
    network = csdfgen.load(model)
    products = [one for one in fuse(network).layers if one.op_type == "QLinearMatMul"]
    found = [match_family(one) for one in products if 1 not in one.constants]
    assert found and all(found)
    x = np.random.default_rng(0).normal(0, 1, (1, TOKENS, 24)).astype(np.float32)
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    for given in ({"rows": "1"}, {"rows": "7"}, {"rows": "whole"}, {"goal": "memory"}):
        plan = csdfgen.plan(network, backend="native", **given)
        kernels = {one.kernel for one in lower(plan, choose_backend(plan.options)).instructions}
        assert "multiply_bytes_of" in kernels
        (made,) = runtime.compile(plan)({"x": x}).values()
        # scales of two layers in a row: a value at the border of two bytes may be on either side
        assert np.mean(made == wanted) > 0.99
        np.testing.assert_allclose(made, wanted, atol=0.19)


@pytest.mark.parametrize("types", TYPED)
@pytest.mark.parametrize(("a", "b"), [*SHAPES[:3], ((1, 1, 1), (1, 1, 1)), ((4, 3), (3, 2))])
def test_results_that_nothing_quantizes_are_values(types: Pair, a: Shape, b: Shape) -> None:
    """As scores of attention are in front of a Softmax of floats."""
    nodes, constants = [], [numpy_helper.from_array(np.float32(1 / 16), "scale")]
    for name, of in zip("ab", types, strict=True):
        constants.append(numpy_helper.from_array(np.array(3, of), f"{name}_zero"))
        form = ["scale", f"{name}_zero"]
        nodes.append(helper.make_node("QuantizeLinear", [name, *form], [f"{name}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *form], [f"{name}_d"]))
    nodes.append(helper.make_node("MatMul", ["a_d", "b_d"], ["y"]))
    inputs = [helper.make_tensor_value_info(n, 1, s) for n, s in (("a", a), ("b", b))]
    output = helper.make_tensor_value_info("y", 1, None)
    graph = helper.make_graph(nodes, "g", inputs, [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    rng = np.random.default_rng(a[-1])
    feeds = {n: rng.uniform(-2, 2, s).astype(np.float32) for n, s in (("a", a), ("b", b))}
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, feeds)
    for rows in ("1", "auto"):
        plan = csdfgen.plan(csdfgen.load(model), rows=rows, backend="native")
        np.testing.assert_allclose(runtime.compile(plan)(feeds)["y"], wanted, 1e-4, 1e-3)
