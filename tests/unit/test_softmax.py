"""Softmax of lines that are stored one after the other or take turns, by kernels of native code, in float32 and in bytes."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from onnx import ModelProto, helper

import csdfgen
import runtime
from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.native.library import load
from csdfgen.backends.registry import choose_backend
from csdfgen.lowering.program import lower
from runtime.session import Executable
from tests.native_steps import MACHINES, on_each_machine
from tests.unit.test_attention import Nodes, sizes
from tests.unit.test_native_bytes import TYPES, Case


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("keys", [1, 5, 37])
@pytest.mark.parametrize("heads", [1, 3, 4, 16, 21])
def test_lines_of_heads(heads: int, keys: int, axis: int) -> None:
    """Scores whose heads are side by side; minus infinity is a weight of 0, what is no number stays so."""
    g = Nodes()
    y = g.one("Reshape", "x", sizes(1, 11, heads, keys))
    y = g.one("Softmax", g.one("Transpose", y, perm=[0, 2, 1, 3]), axis=axis)
    model = g.model((1, 11, heads * keys), y)
    network = csdfgen.load(model)
    x = np.random.default_rng(0).normal(0, 4, (1, 11, heads * keys)).astype(np.float32)
    x[0, 3, ::4], x[0, 7, 0] = -np.inf, np.nan
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    bits = set()
    for rows in ("1", "3", "whole"):
        plan = csdfgen.plan(network, backend="native", rows=rows)
        kernels = {one.kernel for one in lower(plan, choose_backend(plan.options)).instructions}
        assert "softmax_of" in kernels or network.layers[-1].output.row_axis in (axis, None)
        (found,) = runtime.compile(plan)({"x": x}).values()
        np.testing.assert_allclose(found, wanted, atol=1e-6)
        nothing = np.isneginf(x.reshape(1, 11, heads, keys).swapaxes(1, 2)) & ~np.isnan(found)
        assert not found[nothing].any()
        bits.add(np.asarray(found).tobytes())
    assert len(bits) == 1


@pytest.mark.parametrize("rows", ["1", "3", "whole"])
def test_what_no_kernel_computes_takes_none_from_the_softmax_behind_it(rows: str) -> None:
    """A mask that heads share, and a bias behind the softmax."""
    g = Nodes()
    y = g.one("Transpose", g.one("Reshape", "x", sizes(1, 11, 3, 5)), perm=[0, 2, 1, 3])
    y = g.one("Softmax", g.one("Add", y, g.values(1, 1, 11, 5)), axis=3)
    model = g.model((1, 11, 15), g.one("Mul", y, np.array(2, np.float32)))
    x = np.random.default_rng(0).normal(0, 4, (1, 11, 15)).astype(np.float32)
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    plan = csdfgen.plan(csdfgen.load(model), backend="native", rows=rows)
    kernels = {one.kernel for one in lower(plan, choose_backend(plan.options)).instructions}
    assert "softmax_of" in kernels
    (found,) = runtime.compile(plan)({"x": x}).values()
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("size", [1, 5, 16, 19, 32, 33])
def test_many_short_lines(size: int) -> None:
    """A lane each where they are many; the bits are those of one line alone."""
    g = Nodes()
    model = g.model((1, 53, size), g.one("Softmax", "x", axis=2))
    network = csdfgen.load(model)
    x = np.random.default_rng(0).normal(0, 4, (1, 53, size)).astype(np.float32)
    x[0, 3, ::4], x[0, 7, 0], x[0, 9] = -np.inf, np.nan, 100.0
    (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    bits = set()
    for rows in ("1", "3", "8", "whole"):
        plan = csdfgen.plan(network, backend="native", rows=rows)
        (found,) = runtime.compile(plan)({"x": x}).values()
        np.testing.assert_allclose(found, wanted, atol=1e-6)
        bits.add(np.asarray(found).tobytes())
    assert len(bits) == 1


def of_bytes(
    dtype: str, heads: int, keys: int, axis: int, scales: tuple[float, float]
) -> ModelProto:
    """Scores of bytes whose heads are side by side."""
    case, zero = Case(), 0 if dtype == "uint8" else -128
    given = case.scale(scales[0]), case.constant(np.array(3, dtype))
    into = case.scale(scales[1]), case.constant(np.array(zero, dtype))
    case.weights.append(helper.make_tensor("shape", 7, (4,), (1, 11, heads, keys)))
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["scores"]),
        helper.make_node("Transpose", ["scores"], ["turned"], perm=[0, 2, 1, 3]),
        helper.make_node(
            "QLinearSoftmax",
            ["turned", *given, *into],
            ["y"],
            domain="com.microsoft",
            axis=axis,
            opset=13,
        ),
    ]
    x = helper.make_tensor_value_info("x", TYPES[dtype], (1, 11, heads * keys))
    y = helper.make_tensor_value_info("y", TYPES[dtype], (1, heads, 11, keys))
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "scores", [x], [y], case.weights)
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


@on_each_machine
@pytest.mark.parametrize(("heads", "keys", "axis"), [(1, 1, 3), (6, 5, 3), (3, 300, 3), (6, 37, 1)])
def test_lines_of_bytes(
    heads: int, keys: int, axis: int, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal to numpy's, whatever instructions, threads, and scales: of some most shares are 0, of others powers times the largest
    integer are huge; lines have fewer terms than there are bytes, or more. A share between two bytes may be either of
    onnxruntime's.
    """
    monkeypatch.setattr("csdfgen.backends.native.threads._WORTH", 1)
    rng, kernels = np.random.default_rng(keys), NativeKernels(load(MACHINES[machine]))
    for dtype, scales in (
        ("uint8", (0.3, 1 / 256)),
        ("uint8", (0.01, 1 / 9)),
        ("int8", (0.02, 1 / 255)),
        ("int8", (0.1, 1e-30)),
    ):
        model = of_bytes(dtype, heads, keys, axis, scales)
        bounds = np.iinfo(dtype)
        x = rng.integers(bounds.min, bounds.max + 1, (1, 11, heads * keys)).astype(dtype)
        x[0, 4] = bounds.min
        (wanted,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
        network = csdfgen.load(model)
        (by_numpy,) = runtime.compile(csdfgen.plan(network))({"x": x}).values()
        apart = np.abs(by_numpy.astype(int) - wanted)
        assert apart.max() <= 1 and np.mean(apart) < 0.01 + np.mean(x == bounds.min)
        for rows, threads in (("3", 1), ("whole", 1), ("whole", 3)):
            plan = csdfgen.plan(network, backend="native", rows=rows)
            code = lower(plan, choose_backend(plan.options)).instructions
            assert axis == 1 or "softmax_bytes_of" in {one.kernel for one in code}
            found = Executable(plan, kernels=kernels, threads=threads)({"x": x})["y"]
            np.testing.assert_array_equal(found, by_numpy)


def test_one_byte_has_all() -> None:
    """A share of 1 is the largest integer, or what the scale makes of it."""
    for scale, wanted in ((1 / 256.5, 255), (1 / 200.5, 200), (1e-30, 255)):
        model = of_bytes("uint8", 3, 1, 3, (0.02, scale))
        x = np.arange(33, dtype=np.uint8).reshape(1, 11, 3)
        for backend in ("numpy", "native"):
            plan = csdfgen.plan(csdfgen.load(model), backend=backend)
            (found,) = runtime.compile(plan)({"x": x}).values()
            assert np.all(found == wanted)
