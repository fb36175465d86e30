"""Averages of windows of bytes: the kernel's bits are numpy's, whatever the windows, the type and the heights,
and it needs no workspace.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import csdfgen
import runtime
from csdfgen.backends.registry import resolve_backend
from tests.native_steps import compiler_missing
from tests.networks import check_touched

WINDOWS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "ends": ((1, 5, 9, 7), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "padding counts": (
        (1, 19, 9, 7),
        {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2], "count_include_pad": 1},
    ),
    "strides": ((1, 16, 9, 7), {"kernel_shape": [2, 3], "strides": [2, 2]}),
    "ceil": ((1, 35, 9, 8), {"kernel_shape": [3, 2], "strides": [2, 3], "ceil_mode": 1}),
    "all": ((1, 37, 4, 3), {"kernel_shape": [4, 3]}),
    "one axis": ((1, 6, 13), {"kernel_shape": [4], "pads": [2, 1]}),
    "images": ((3, 4, 6, 5), {"kernel_shape": [2, 2]}),
}


def pool(shape: tuple[int, ...], dtype: str, attributes: dict[str, Any]) -> onnx.ModelProto:
    """Scales whose products are no short numbers, so that each rounding shows."""
    zero = 3 if dtype == "int8" else 131
    arrays = (
        np.float32(0.0371),
        np.array(zero, dtype),
        np.float32(0.0137),
        np.array(zero - 9, dtype),
    )
    names = ["scale", "zero", "out_scale", "out_zero"]
    node = helper.make_node(
        "QLinearAveragePool", ["x", *names], ["y"], "pool", domain="com.microsoft", **attributes
    )
    kind = TensorProto.INT8 if dtype == "int8" else TensorProto.UINT8
    graph = helper.make_graph(
        [node],
        "pool",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.asarray(a), n) for a, n in zip(arrays, names, strict=True)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", sorted(WINDOWS))
def test_bits_of_numpy(name: str, dtype: str) -> None:
    shape, attributes = WINDOWS[name]
    network = csdfgen.load(pool(shape, dtype, attributes))
    info = np.iinfo(dtype)
    x = np.random.default_rng(8).integers(info.min, info.max + 1, shape).astype(dtype)
    (want,) = runtime.compile(csdfgen.plan(network, backend="numpy"))({"x": x}).values()
    assert np.ptp(want.astype(int)) > 100
    for rows in (1, 2, "whole"):
        plan = csdfgen.plan(network, rows=rows, backend=resolve_backend("native"))
        assert plan.figures["workspace"] == 0, "left to loops"
        found, measured = runtime.compile(plan).measure({"x": x})
        check_touched(plan, measured.touched_bytes)
        np.testing.assert_array_equal(found["y"], want, f"{rows} rows")


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
def test_channels_are_shared_out() -> None:
    """Several threads give the same bits."""
    shape, attributes = (1, 200, 40, 40), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    network = csdfgen.load(pool(shape, "uint8", attributes))
    x = {"x": np.random.default_rng(9).integers(0, 256, shape).astype(np.uint8)}
    plan = csdfgen.plan(network, rows=8, backend=resolve_backend("native"))
    (want,) = runtime.compile(plan)(x).values()
    (got,) = runtime.compile(plan, threads=2)(x).values()
    np.testing.assert_array_equal(got, want)
