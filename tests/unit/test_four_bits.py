"""Weights of four bits: products with them, in every form that exporters write, against onnxruntime; where they stay packed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import csdfgen
import runtime
from csdfgen.errors import CsdfgenError
from tests.emitted import Program, differences
from tests.ways import some

BLOCKS = (2, 3, 8, 16, 32)


def packed(array: np.ndarray) -> np.ndarray:
    """Two elements a byte, as a file has them."""
    flat = np.append(array.reshape(-1) & 15, 0)
    return (flat[:-1:2] | flat[1::2][: flat.size // 2] << 4).astype(np.uint8)


def in_file(name: str, array: np.ndarray, code: int) -> TensorProto:
    return TensorProto(
        name=name, data_type=code, dims=array.shape, raw_data=packed(array).tobytes()
    )


def floats(name: str, array: np.ndarray) -> TensorProto:
    return numpy_helper.from_array(np.asarray(array, np.float32), name)


def dequantized(
    rng: np.random.Generator, shape: tuple[int, int]
) -> tuple[list[onnx.NodeProto], list[TensorProto]]:
    """Nodes and constants that make the weights `w` of such a shape."""
    turned, kind = rng.random() < 0.25, str(rng.choice(["INT4", "UINT4"]))
    own = shape[::-1] if turned else shape
    code, low = getattr(TensorProto, kind), -8 if kind == "INT4" else 0
    style, axis = rng.choice(["tensor", "axis", "block"]), int(rng.integers(0, 2))
    settings, scaled = {}, ()
    if style == "axis":
        settings, scaled = {"axis": axis - 2 * int(rng.integers(0, 2))}, (own[axis],)
    elif style == "block":
        block = int(rng.choice(BLOCKS))
        settings = {"axis": axis, "block_size": block}
        scaled = tuple(-(-n // block) if k == axis else n for k, n in enumerate(own))
    constants = [
        in_file("q", rng.integers(low, low + 16, own), code),
        floats("s", rng.uniform(0.01, 0.1, scaled)),
    ]
    if rng.random() < 0.5:
        constants.append(in_file("z", np.asarray(rng.integers(low, low + 16, scaled)), code))
    names = [one.name for one in constants]
    nodes = [helper.make_node("DequantizeLinear", names, ["w0" if turned else "w"], **settings)]
    return nodes + [helper.make_node("Transpose", ["w0"], ["w"])] * turned, constants


def product(seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """MatMul, Gemm or MatMulNBits between other layers, or alone."""
    rng = np.random.default_rng(seed)
    outs, ins = int(rng.integers(1, 40)), int(rng.integers(1, 100))
    front = [int(n) for n in rng.integers(1, 5, rng.integers(0, 3))]
    style = rng.choice(["MatMul", "Gemm", "MatMulNBits"])
    if style == "MatMulNBits":
        block = int(rng.choice([16, 32, 64, 128]))
        blocks = -(-ins // block)
        nodes, constants, operands = [], [], ["x", "q", "s"]
        constants.append(
            numpy_helper.from_array(rng.integers(0, 256, (outs, blocks, block // 2), np.uint8), "q")
        )
        constants.append(floats("s", rng.uniform(-0.1, 0.1, outs * blocks)))
        if rng.random() < 0.5:
            operands.append("z")
            constants.append(
                numpy_helper.from_array(
                    rng.integers(0, 256, outs * ((blocks + 1) // 2), np.uint8), "z"
                )
            )
        if rng.random() < 0.4:
            operands += [""] * (5 - len(operands)) + ["b"]
            constants.append(floats("b", rng.normal(size=outs)))
        given = {"K": ins, "N": outs, "bits": 4, "block_size": block, "domain": "com.microsoft"}
    else:
        transposed, given, operands = int(style == "Gemm" and rng.random() < 0.5), {}, ["x", "w"]
        nodes, constants = dequantized(rng, (outs, ins) if transposed else (ins, outs))
        if style == "Gemm":
            front, given = (
                (front or [3])[:1],
                {"transB": transposed, "alpha": float(rng.choice([1, 0.5]))},
            )
            if rng.random() < 0.4:
                operands.append("b")
                constants.append(floats("b", rng.normal(size=rng.choice([1, outs]))))
    nodes.append(helper.make_node(style, operands, ["p"], **given))
    first, last = rng.random(2) < 0.5
    nodes = [helper.make_node("Tanh", ["image"], ["x"])] * bool(first) + nodes
    nodes += [helper.make_node(str(rng.choice(["Relu", "Sigmoid"])), ["p"], ["y"])] * bool(last)
    name, end = "image" if first else "x", "y" if last else "p"
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [*front, ins])],
        [helper.make_tensor_value_info(end, TensorProto.FLOAT, None)],
        constants,
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return model, {name: rng.normal(size=[*front, ins]).astype(np.float32)}


def plainly(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """onnxruntime's result without its optimisations, which make bytes of what is multiplied."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options)
    (result,) = session.run(None, feeds)
    return result


@pytest.mark.parametrize("seed", range(some(40, 2000)))
def test_products_with_weights_of_four_bits_are_onnxruntimes(seed: int) -> None:
    model, feeds = product(seed)
    wanted, network = plainly(model, feeds), csdfgen.load(model)
    for rows in ("1", "auto", "whole"):
        for backend in ("native", "numpy"):
            (found,) = runtime.compile(csdfgen.plan(network, rows=rows, backend=backend))(
                feeds
            ).values()
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, 2e-5, 2e-5, err_msg=f"{rows} {backend}")


def perceptron(block: int = 32) -> onnx.ModelProto:
    """Two layers of 256 x 128 and 128 x 64 weights."""
    rng, nodes, constants = np.random.default_rng(1), [], []
    for k, (ins, outs) in enumerate(((256, 128), (128, 64))):
        constants.append(in_file(f"q{k}", rng.integers(-8, 8, (ins, outs)), TensorProto.INT4))
        constants.append(floats(f"s{k}", rng.uniform(0.01, 0.1, (ins // block, outs))))
        nodes += [
            helper.make_node(
                "DequantizeLinear", [f"q{k}", f"s{k}"], [f"w{k}"], axis=0, block_size=block
            ),
            helper.make_node("MatMul", [f"x{k}", f"w{k}"], [f"x{k + 1}"]),
        ]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x0", [1, 6, 256]), ("x2", None))
    ]
    graph = helper.make_graph(nodes, "perceptron", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_their_constants_take_half_a_byte_each(tmp_path: Path) -> None:
    """In a network, in what a compiled one packs, and in emitted C, which gives the same: weights, and a float32 a block."""
    model = perceptron()
    network, weights = csdfgen.load(model), 256 * 128 + 128 * 64
    least = weights // 2 + 4 * weights // 32
    assert network.parameter_bytes == least
    plan = csdfgen.plan(network, backend="native")
    program = Program(plan, tmp_path / "c", title="perceptron")
    assert least <= program.emitted.weights_bytes < 1.1 * least
    feeds = {"x0": np.random.default_rng(2).normal(size=(1, 6, 256)).astype(np.float32)}
    assert max(differences(program(feeds), {"x2": plainly(model, feeds)})) < 1e-5


def test_a_damaged_scale_or_zero_point_is_refused() -> None:
    for name, array in (("s0", np.ones((9, 128))), ("s0", np.ones((8, 127))), ("s0", np.ones(7))):
        model = perceptron()
        for k, one in enumerate(model.graph.initializer):
            if one.name == name:
                model.graph.initializer[k].CopyFrom(floats(name, array))
        with pytest.raises(CsdfgenError, match=r"the scale has|do not broadcast"):
            csdfgen.load(model)
