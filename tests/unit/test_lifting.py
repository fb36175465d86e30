"""Files that fix one image: they run batches image by image, where no layer mixes the images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.cli import main
from csdfgen.errors import ModelError
from csdfgen.model.formats import Format
from csdfgen.model.network import Network, Node, Tensor
from csdfgen.reading.batching import lift_node
from csdfgen.reading.folding import Folder
from csdfgen.reading.network_builder import build_network, fold_constants
from csdfgen.reading.onnx_file import from_proto
from csdfgen.reading.onnx_graph import read_graph
from runtime.images import random_inputs
from runtime.reference import Reference
from runtime.verify import check_layers, check_outputs
from tests.models import model, onnxruntime_outputs
from tests.simple_executor import execute

RNG = np.random.default_rng(11)
WEIGHTS = {
    "flat": np.array([1, 60]),
    "grouped": np.array([1, 3, 1, 4, 5]),
    "ungrouped": np.array([1, 3, 4, 5]),
    "larger": np.array([1, 3, 8, 10]),
    "none": np.array([], np.float32),
    "starts": np.array([1, 0]),
    "ends": np.array([3, 1]),
    "axes": np.array([1, 0]),
    "backward": np.array([1, -4]),
    "last": np.array([-1]),
    "least": np.array([-9]),
    "first": np.array([0]),
    "one": np.array([1]),
    "grid_shape": np.array([1, 2, 4, 5]),
    "one_grid": RNG.normal(size=(1, 1, 4, 5)).astype(np.float32),
    "thin": np.array([3, 20]),
    "columns": RNG.normal(size=(60, 7)).astype(np.float32),
    "rows": np.array([-1, 20]),
    "back": np.array([1, 3, 4, 5]),
}


def network_of(nodes: str, leading: int | str = 1, opset: int = 17) -> onnx.ModelProto:
    """`nodes` make y from x of shape (leading, 3, 4, 5)."""
    read = {w.strip(" ,()") for w in nodes.replace("(", " ").replace(",", " ").split()}
    used = {name: array for name, array in WEIGHTS.items() if name in read}
    return model(f"g (float[{leading},3,4,5] x) => (float[1,k] y) {{ {nodes} }}", used, opset=opset)


def images_of(proto: onnx.ModelProto, images: int) -> tuple[np.ndarray, np.ndarray]:
    """A batch, and onnxruntime's y of every image, one by one, of the file as it is."""
    x = RNG.normal(size=(images, 3, 4, 5)).astype(np.float32)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return x, np.concatenate([onnxruntime_outputs(proto, {"x": i[None]})["y"] for i in x])


FIXED = {
    "reshape": "f = Reshape(x, flat)  y = MatMul(f, columns)",
    "reshape, sizes unknown": "f = Reshape(x, minus)  y = MatMul(f, columns)",
    "channel shuffle": (
        "a = Reshape(x, grouped)  t = Transpose <perm = [0,2,1,3,4]> (a)  y = Reshape(t, ungrouped)"
    ),
    "softmax behind a reshape": "f = Reshape(x, flat)  y = Softmax <axis = 1> (f)",
    "resize": 'y = Resize <mode = "linear"> (x, , , larger)',
    "resize, nearest": 'y = Resize <mode = "nearest"> (x, none, , larger)',
    "slice": "y = Slice(x, starts, ends, axes)",
    "concat": "y = Concat <axis = 1> (one_grid, x)",
    "concat, axis from the end": "y = Concat <axis = -3> (x, one_grid)",
    "constant of a shape": (
        "c = ConstantOfShape <value = float[1] {0.5}> (grid_shape)  y = Concat <axis = 1> (x, c)"
    ),
    "expanded constant": "c = Expand(one_grid, grid_shape)  y = Concat <axis = 1> (c, x)",
    "all": (
        "c = Concat <axis = 2> (x, x)  s = Slice(c, starts, ends, axes)  l = Relu(s)"
        "  r = Reshape(x, flat)  y = Softmax <axis = -1> (r)"
    ),
}
WEIGHTS["minus"] = np.array([1, -1])


@pytest.mark.parametrize("nodes", FIXED.values(), ids=FIXED)
@pytest.mark.parametrize("images", [2, 3])
def test_images_of_a_file_for_one_run_one_after_another(nodes: str, images: int) -> None:
    proto = network_of(nodes)
    x, want = images_of(proto, images)
    network = csdfgen.load(proto, batch=images)
    assert (network.batch, network.lifted) == (images, True)
    plan = csdfgen.plan(network, rows=1)
    got = runtime.run(plan, x)
    np.testing.assert_allclose(got["y"], want, rtol=1e-4, atol=1e-5)
    reference = Reference(proto, network)({"x": x})
    np.testing.assert_allclose(reference["y"], want, rtol=1e-4, atol=1e-5)
    assert reference["y"].shape == want.shape
    assert all(one.ok for one in check_outputs(proto, plan, {"x": x}, got))
    layers = check_layers(proto, plan, {"x": x})
    assert layers and all(entry.comparison.ok for entry in layers)


@pytest.mark.parametrize("nodes", FIXED.values(), ids=FIXED)
def test_the_lifted_network_does_to_a_batch_what_the_file_does_to_an_image(nodes: str) -> None:
    """What the proof is about: all images at once, through the layers that were lifted."""
    proto = network_of(nodes)
    x, want = images_of(proto, 3)
    folder = Folder(None)
    graph = fold_constants(read_graph(from_proto(proto)), folder)
    inputs = [Tensor("x", x.shape, row_axis=2)]
    whole = build_network(graph, inputs, folder, name="g", source="g", lift_to=3)
    assert whole.lifted and whole.batch == 1
    np.testing.assert_allclose(execute(whole, {"x": x})["y"], want, rtol=1e-4, atol=1e-5)


def test_a_slice_of_an_early_opset_is_lifted() -> None:
    proto = network_of("y = Slice <starts = [1,0], ends = [3,1], axes = [1,0]> (x)", opset=9)
    x, want = images_of(proto, 3)
    network = csdfgen.load(proto, batch=3)
    assert network.lifted and np.array_equal(runtime.run(csdfgen.plan(network), x)["y"], want)


@pytest.mark.parametrize(
    "nodes",
    [
        "y = Expand(x, ungrouped)",
        "y = Mul(x, one_grid)",
        "c = Expand(one_grid, grid_shape)  s = ReduceSum(c, one)  y = Add(x, s)",
        "y = Flatten(x)",
    ],
)
def test_a_one_that_stretches_by_itself_is_not_lifted(nodes: str) -> None:
    proto = network_of(nodes)
    x, want = images_of(proto, 3)
    network = csdfgen.load(proto, batch=3)
    assert (network.batch, network.lifted) == (3, False)
    np.testing.assert_allclose(runtime.run(csdfgen.plan(network), x)["y"], want, rtol=1e-5)
    assert Reference(proto, network)({"x": x})["y"].shape == want.shape


MIXED = [
    (
        "f = Reshape(x, flat)  y = Softmax <axis = 0> (f)",
        r"layer 'Softmax_1' \(Softmax\) mixes them: it looks along axis 0, where there are 3 images "
        r"instead of 1$",
    ),
    (
        "f = Reshape(x, flat)  y = ReduceMean <axes = [0]> (f)",
        r"layer 'ReduceMean_1' \(ReduceMean\) mixes them: 'y' is 1x60 for 3 images, 1x60 for one, "
        r"not 3 and 1 along axis 0$",
    ),
    (
        "f = Reshape(x, flat)  y = ReduceMean <keepdims = 0> (f)",
        r"layer 'ReduceMean_1' \(ReduceMean\) mixes them: 'y' is a scalar for 3 images, a scalar ",
    ),
    (
        "r = Reshape(x, rows)  f = Relu(r)  s = Reshape(x, flat)  y = Concat <axis = 0> (f, f)"
        "  z = MatMul(s, columns)",
        r"layer 'Concat_3' \(Concat\) mixes them: 'f' is 9x20 for 3 images, 3x20 for one",
    ),
    (
        "t = Reshape(x, thin)  y = Relu(t)",
        r"layer 'Reshape_0' \(Reshape\): 180 elements .* do not fit shape \(3, 20\) \(60\)",
    ),
    (
        "t = Transpose <perm = [1,0,2,3]> (x)  f = Reshape(x, flat)  y = Concat <axis=1> (f, f)"
        "  z = Relu(t)",
        r"output 'z' is 3x3x4x5 for 3 images, 3x1x4x5 for",
    ),
    (
        "f = Reshape(x, flat)  y = Concat <axis = 0> (f, f)",
        r"layer 'Concat_1' \(Concat\) mixes them: 'y' is 6x60 for 3 images, 2x60 for one",
    ),
    (
        "f = Reshape(x, flat)  y = Slice(f, last, least, first, last)",
        r"layer 'Slice_1' \(Slice\) mixes them: it looks along axis 0",
    ),
    (
        "f = Reshape(x, flat)  y = CumSum(f, zero)",
        r"layer 'CumSum_1' \(CumSum\) mixes them: it looks along axis 0",
    ),
]
WEIGHTS["zero"] = np.array(0)


@pytest.mark.parametrize(("nodes", "why"), MIXED)
def test_a_file_for_one_that_mixes_images_is_refused(nodes: str, why: str) -> None:
    proto = network_of(nodes)
    if "z = " in nodes:
        proto.graph.output.append(onnx.ValueInfoProto(name="z"))
    csdfgen.load(proto)
    match = rf"^g: takes one image at a time, not 3; run it without batch: {why}"
    with pytest.raises(ModelError, match=match) as caught:
        csdfgen.load(proto, batch=3)
    assert "\n" not in str(caught.value)


NUMBERED = (
    "s = Shape <end = 1> (x)  n = Squeeze(s)  r = Range(zero, n, step)  f = Cast <to = 1> (r)"
    "  w = Reshape(f, column)  y = Add(x, w)"
)
"""To each image its number is added."""
WEIGHTS |= {"step": np.array(1), "column": np.array([-1, 1, 1, 1])}


@pytest.mark.parametrize(
    "nodes",
    [
        "y = Softmax <axis = 0> (x)",
        "y = ReduceMean <axes = [0]> (x)",
        "s = Sign(x)  i = Cast <to = 7> (s)  y = GatherElements <axis = 0> (x, i)",
        NUMBERED,
    ],
)
def test_mixing_without_a_fixed_one_keeps_the_images_together(nodes: str) -> None:
    """Such a file runs for three images as it stands, and onnxruntime says what it then does."""
    proto = network_of(nodes)
    network = csdfgen.load(proto, batch=3)
    assert (network.batch, network.lifted) == (1, False)
    x = random_inputs(network, 0)
    got = runtime.run(csdfgen.plan(network), x)
    np.testing.assert_allclose(got["y"], Reference(proto, network)(x)["y"], rtol=1e-5)


def test_a_free_batch_means_what_the_file_does_with_it() -> None:
    """Reshape to 1x-1 runs for any number of images: only a file for one image is lifted."""
    free = csdfgen.load(network_of("y = Reshape(x, minus)", leading="N"), batch=2)
    fixed = csdfgen.load(network_of("y = Reshape(x, minus)"), batch=2)
    assert (free.lifted, free.outputs[0].tensor.shape) == (False, (1, 120))
    assert (fixed.lifted, fixed.batch, fixed.outputs[0].tensor.shape) == (True, 2, (1, 60))


def test_a_free_batch_is_lifted_where_the_file_cannot_run_it() -> None:
    proto = network_of("y = Reshape(x, flat)", leading="N")
    assert csdfgen.load(proto, batch=2).lifted
    assert not csdfgen.load(proto).lifted


def test_a_file_that_contradicts_its_own_batch_is_refused() -> None:
    proto = network_of("y = Reshape(x, flat)", leading=3)
    with pytest.raises(ModelError, match=r"takes one image at a time, not 3; .*layer 'Reshape_0'"):
        csdfgen.load(proto)
    assert csdfgen.load(proto, batch=2).batch == 2


def test_the_only_output_may_not_be_a_constant() -> None:
    proto = network_of("y = Reshape(x, flat)  z = Identity(one_grid)")
    proto.graph.output.append(onnx.ValueInfoProto(name="z"))
    with pytest.raises(ModelError, match=r"output 'z' is a constant, of no image$"):
        csdfgen.load(proto, batch=3)


X = Tensor("x", (2, 3, 4, 5))


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("Reshape", (X, np.array([2, 60])), {}),
        ("Reshape", (X, np.array([[1]])), {}),
        ("Reshape", (Tensor("p", (6, 20)), np.array([1, 120])), {}),
        ("Reshape", (X, Tensor("shape", (2,), Format("int64"))), {}),
        ("Resize", (X, None, None, np.array([8, 10])), {"axes": [2, 3]}),
        ("Resize", (X, None, np.array([1, 1, 2, 2], np.float32)), {}),
        ("Slice", (X, np.array([1]), np.array([2]), np.array([0])), {}),
        ("Slice", (X, np.array([0]), np.array([1]), np.array([1])), {}),
        ("Slice", (X, np.array([0, 0]), np.array([1])), {}),
        ("Concat", (X, np.zeros((1, 3, 4, 5), np.float32)), {"axis": 0}),
        ("Concat", (X, np.zeros((1, 3, 4, 5), np.float32)), {"axis": -4}),
        ("Concat", (X, X), {"axis": 1}),
        ("Add", (X, np.zeros((1, 3, 4, 5), np.float32)), {}),
    ],
)
def test_what_does_not_fix_one_image_stays(op_type: str, inputs: Any, attributes: Any) -> None:
    node = Node("n", op_type, 18, attributes, inputs, ("y",))
    assert lift_node(node, 2) is node


def test_only_the_leading_size_is_lifted() -> None:
    def operand(op_type: str, position: int, *inputs: Any, **attributes: Any) -> Any:
        return lift_node(Node("n", op_type, 18, attributes, inputs, ("y",)), 2).inputs[position]

    assert operand("Reshape", 1, X, np.array([1, 1, -1])).tolist() == [2, 1, -1]
    sizes = np.array([9, 1])
    assert operand("Resize", 3, X, None, None, sizes, axes=[2, -4]).tolist() == [9, 2]
    ends = operand("Slice", 2, X, np.array([0, 0]), np.array([1, 1]), np.array([2, 0]))
    assert ends.tolist() == [1, 2]
    joined = operand("Concat", 0, np.ones((1, 1, 4, 5), np.float32), X, axis=1)
    assert joined.shape == (2, 1, 4, 5) and joined.strides[0] == 0, "no copy is made"


def test_the_command_runs_batches(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, plan = str(tmp_path / "one.onnx"), str(tmp_path / "plan.json")
    onnx.save(network_of(FIXED["reshape"]), path)
    assert main(("run", path, "--batch", "3", "--check", "layers")) == 0
    assert "'y': equal, 21 values" in capfd.readouterr().out
    assert main(("schedule", path, "--batch", "2", "-o", plan)) == 0
    assert main(("run", path, "--plan", plan, "--check")) == 0
    assert "'y': equal, 14 values" in capfd.readouterr().out


def test_a_wrong_image_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference of a lifted network is of every image, not of the first repeated."""
    proto = network_of(FIXED["reshape"])
    network: Network = csdfgen.load(proto, batch=3)
    x, want = images_of(proto, 3)
    swapped = {"y": want[[0, 2, 1]]}
    (found,) = check_outputs(proto, csdfgen.plan(network), {"x": x}, swapped)
    assert not found.ok and 0 < found.wrong <= 14
