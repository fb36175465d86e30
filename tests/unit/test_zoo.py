"""The zoo: published counts hold, topologies are those of published files, and every network runs
as in onnxruntime.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import csdfgen
import runtime
from csdfgen.errors import ModelError
from csdfgen.model.rows import Rows
from csdfgen.ops import get_operator
from tests.networks import with_last_scores
from zoo_models import ALIASES, ZOO, ZooError, count, parse
from zoo_models.yolo import tiny_yolo_v2

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators whose cost is counted in multiply-accumulates."""

# --- published counts ---------------------------------------------------------------------------


def holds(found: int, printed: int, how: str) -> bool:
    """Whether a count is the printed one: exactly, but where the source rounds, or was remembered
    and not read again.
    """
    return (
        abs(found - printed) <= 0.005 * printed
        if how in ("rounded", "recalled")
        else found == printed
    )


@pytest.mark.parametrize("name", ZOO)
def test_parameters_and_multiply_accumulates_are_the_published_ones(name: str) -> None:
    entry = ZOO[name]
    published = entry.published
    model = entry.build(*published.size, weights=False)
    counts = count(model)
    parameters = counts.parameters + (counts.statistics if published.statistics else 0)
    assert holds(parameters, published.parameters, published.parameters_are)
    network = csdfgen.load(model)
    macs = sum(
        get_operator(layer).cost(layer, Rows(0, layer.output.rows))
        for layer in network.layers
        if layer.op_type in PRODUCTS
    )
    assert holds(macs - published.uncounted_macs, published.macs, published.macs_are)
    assert macs == counts.macs
    if published.parameters_are != "exact" or published.macs_are != "rounded":
        assert published.notes, "it has to be said how"
    if "recalled" in (published.parameters_are, published.macs_are):
        assert "not at hand again" in published.notes, (
            "who reads the figure has to be told that nobody has read it twice"
        )


def test_a_network_has_its_functions_name_and_is_built_by_calling_it() -> None:
    entry = ZOO["tiny_yolo_v2"]
    assert entry is tiny_yolo_v2
    assert entry(64, weights=False) == entry.build(64, 64, weights=False)
    assert entry(64, weights=False).graph.name == "tiny_yolo_v2"
    assert shapes(ZOO["ds_cnn"](20, weights=False))["features"] == (1, 1, 20, 10)


@pytest.mark.parametrize("name", ZOO)
def test_shapes_are_those_that_onnx_infers(name: str) -> None:
    model = ZOO[name].build(weights=False)
    declared = shapes(model)
    assert tuple(
        model.graph.input[0].type.tensor_type.shape.dim[k].dim_value for k in (-2, -1)
    ) == (ZOO[name].height, ZOO[name].width)
    onnx.checker.check_model(model)
    del model.graph.value_info[:]
    inferred = shapes(onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True))
    assert {tensor: inferred[tensor] for tensor in declared} == declared


def shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """Shapes of all activations."""
    graph = model.graph
    values = (*graph.input, *graph.value_info, *graph.output)
    found = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in values}
    return {tensor: shape for tensor, shape in found.items() if not tensor.endswith(".shape")}


def test_channels_are_shuffled_behind_every_unit() -> None:
    """As Ma et al. 2018 have it (figure 3): behind each of the 16 units, by a transpose."""
    nodes = [node.op_type for node in ZOO["shufflenet_v2"].build(weights=False).graph.node]
    assert nodes.count("Transpose") == 16


# --- topologies ---------------------------------------------------------------------------------

PUBLISHED_FILES = {
    "bvlc_alexnet": "alexnet",
    "densenet121": "densenet121",
    "inception_v1": "inception_v1",
    "inception_v2": "inception_v2",
    "resnet50": "resnet50",
    "shufflenet": "shufflenet_v1",
    "squeezenet": "squeezenet1_1",
    "vgg19": "vgg19",
    "zfnet512": "zfnet512",
}
"""Light file of the onnx package -> the network of the zoo that has its topology."""


@pytest.mark.parametrize(("file", "name"), PUBLISHED_FILES.items())
def test_topologies_are_those_of_published_files(file: str, name: str) -> None:
    """Operations in the same order, reading one another in the same way, with the same attributes
    and sizes of weights.
    """
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    assert topology(ZOO[name].build(weights=False)) == topology(
        onnx.load(folder / f"light_{file}.onnx")
    )
    assert ZOO[name].published.compared == "graph"


def test_networks_say_how_they_were_held_against_a_definition() -> None:
    """None claims to equal a published file but those that the test above compares."""
    assert {entry.name for entry in ZOO.values() if entry.published.compared == "graph"} == set(
        PUBLISHED_FILES.values()
    )
    unnamed = {
        entry.name
        for entry in ZOO.values()
        if not entry.published.definition and entry.published.compared != "text"
    }
    assert all(ZOO[name].published.source.startswith("torchvision ") for name in unnamed)


def topology(model: onnx.ModelProto) -> list[tuple[Any, ...]]:
    """Of each layer: operator, numbers of the layers it reads, shapes of its constants and outputs,
    attributes.
    """
    network = csdfgen.load(model)
    number = {tensor.name: -1 for tensor in network.inputs}
    found = []
    for k, layer in enumerate(network.layers):
        number.update((tensor.name, k) for tensor in layer.outputs)
        sources = [number[tensor.name] for tensor in layer.inputs if tensor is not None]
        constants = {position: array.shape for position, array in layer.constants.items()}
        attributes = {
            key: pytest.approx(value) if isinstance(value, float) else value
            for key, value in layer.attributes.items()
        }
        if (
            layer.op_type == "Softmax"
        ):  # before opset 13 it runs over all axes from one on: the same where they have one element
            attributes["axes"] = tuple(
                axis for axis in attributes["axes"] if layer.output.shape[axis] > 1
            )
        found.append((layer.op_type, sources, constants, layer.output.shape, attributes))
    return found


# --- values -------------------------------------------------------------------------------------

SMALL = {
    "alexnet": (64, 51),
    "alexnet_moe": (67, 80),
    "alexnet_moe_dense": (67, 80),
    "b_alexnet": (24, 27),
    "c3d": (32, 24),
    "caffenet": (64, 51),
    "cnn5": (32, 35),
    "ds_cnn": (49, 10),
    "fcn_resnet50": (40, 32),
    "inception_v1": (64, 61),
    "inception_v2": (64, 32),
    "inception_v3": (107, 75),
    "lenet5": (32, 28),
    "mnist": (28, 34),
    "resnet8": (32, 24),
    "yolov3_tiny": (96, 64),
    "zfnet512": (64, 59),
}
"""Sizes that are quick and still have several rows where networks are deep; (64, 48) where nothing
is said.
"""


@pytest.mark.parametrize("name", ZOO)
def test_runs_by_rows_as_in_onnxruntime(name: str) -> None:
    entry = ZOO[name]
    model = with_last_scores(entry.build(*SMALL.get(name, (64, 48))))
    network = csdfgen.load(model)
    rng = np.random.default_rng(7)
    images = rng.uniform(*entry.pixels, (2, *network.inputs[0].shape)).astype(np.float32)
    expected, other = onnxruntime_outputs(model, images)
    for rows in (1, "auto"):
        got = runtime.run(csdfgen.plan(network, rows=rows, policy="demand"), images[0])
        for output, want in expected.items():
            np.testing.assert_allclose(
                got[output], want, rtol=1e-3, atol=1e-4, err_msg=f"{output}, rows {rows}"
            )
    if "probabilities" in expected:
        del expected["probabilities"]  # what enters the Softmax is there too
    assert all(0.03 < np.std(scores) < 30 for scores in expected.values()), (
        "activations fade or explode"
    )
    change = max(
        np.max(np.abs(scores - other[output])) / np.std(scores)
        for output, scores in expected.items()
    )
    assert change > 0.05, "the image does not matter"


def onnxruntime_outputs(model: onnx.ModelProto, images: np.ndarray) -> list[dict[str, np.ndarray]]:
    """Outputs by name for each image."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in session.get_outputs()]
    return [
        dict(zip(names, session.run(None, {session.get_inputs()[0].name: image}), strict=True))
        for image in images
    ]


def weights(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def test_weights_follow_from_the_seed_alone() -> None:
    build = ZOO["squeezenet1_1"].build
    one, same, other, larger = (
        weights(build(size, seed=seed)) for size, seed in ((64, 0), (64, 0), (64, 1), (96, 0))
    )
    assert all(np.array_equal(one[name], array) for name, array in same.items())
    assert all(np.array_equal(one[name], array) for name, array in larger.items())
    assert not any(np.array_equal(one[name], array) for name, array in other.items())


def test_no_two_channels_have_the_same_weights() -> None:
    for name, array in weights(ZOO["mobilenet_v2"].build(32)).items():
        if name.endswith(".weight"):
            assert len(np.unique(array.reshape(len(array), -1), axis=0)) == len(array), name


def test_the_pool_without_stride_of_tiny_yolo_may_be_unpadded() -> None:
    model = tiny_yolo_v2(weights=False, last_pool_pads=False)
    assert shapes(model)["grid"] == (1, 125, 12, 12)
    assert shapes(tiny_yolo_v2(weights=False))["grid"] == (1, 125, 13, 13)


def test_layers_of_c3d_are_those_of_its_definition() -> None:
    """At 224x224 the last pool has 8x8 pixels a channel, and fc6 the more weights."""
    model = ZOO["c3d"].build(weights=False)
    pools = {name: shape for name, shape in shapes(model).items() if name.startswith("pool")}
    assert pools == {
        "pool1": (1, 64, 16, 56, 56),
        "pool2": (1, 128, 8, 28, 28),
        "pool3": (1, 256, 4, 14, 14),
        "pool4": (1, 512, 2, 7, 7),
        "pool5": (1, 512, 1, 4, 4),
    }
    convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
    assert len(convolutions) == 8
    for node in convolutions:
        given = {attribute.name: list(attribute.ints) for attribute in node.attribute}
        assert given["kernel_shape"] == [3, 3, 3] and given["pads"] == [1] * 6
    entry, *size = parse("zoo:c3d@224x224")
    large = count(entry.build(*size, weights=False))
    assert large.parameters - 78_409_573 == 512 * (8 * 8 - 4 * 4) * 4096


# --- names and sizes ----------------------------------------------------------------------------


def test_there_are_networks_of_many_kinds() -> None:
    assert len(ZOO) >= 30
    assert {entry.task for entry in ZOO.values()} > {
        "classification",
        "detection",
        "segmentation",
        "super-resolution",
    }
    assert all(target in ZOO and alias not in ZOO for alias, target in ALIASES.items())


@pytest.mark.parametrize(
    ("text", "name", "size"),
    [
        ("vgg19", "vgg19", (224, 224)),
        ("zoo:ds_cnn", "ds_cnn", (49, 10)),
        ("zoo:resnet18@160x96", "resnet18", (160, 96)),
        ("SqueezeNet-1.1", "squeezenet1_1", (224, 224)),
        ("bvlc_alexnet", "alexnet", (224, 224)),
        ("TinyYOLOv2", "tiny_yolo_v2", (416, 416)),
        ("unet@32X64", "unet", (32, 64)),
    ],
)
def test_names_and_sizes_are_understood(text: str, name: str, size: tuple[int, int]) -> None:
    entry, *found = parse(text)
    assert (entry.name, tuple(found)) == (name, size)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vgg19@16x16", "vgg19 does not work at 16x16; the smallest size is 32x32"),
        ("inception_v3@299x40", "inception_v3 does not work at 299x40; the smallest size is 75x75"),
        ("unet@8x8", "unet does not work at 8x8; the smallest size is 16x16"),
        ("unet@40x64", "unet does not work at 40x64: rows and columns have to be multiples of 16"),
        (
            "vgg16@9000x9000",
            "vgg16 does not work at 9000x9000: its weights need more than the .* bytes that an ONNX file holds",
        ),
        ("vgg19@0x16", "vgg19: an image has 1 to 65536 rows and columns, not 0x16"),
        ("vgg19@99999999999x1", "vgg19: an image has at most 65536 rows and columns"),
        ("vgg", "the zoo has no network of that name; the nearest are vgg19, vgg16"),
        ("resnet19", "the zoo has no network of that name; the nearest are resnet18, .*"),
        ("", "the zoo has no network of that name; it has .*"),
        (
            "qqqqqqqq",
            f"the zoo has no network of that name; it has {len(ZOO)}, from alexnet to zfnet512",
        ),
        (
            "vgg19@16",
            "this is not how a network of the zoo is written; NAME or NAME@HEIGHTxWIDTH is, such as vgg19@224x224",
        ),
        ("vgg19@-1x16", "this is not how a network of the zoo is written; .*"),
    ],
)
def test_what_the_zoo_does_not_have_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ZooError) as caught:
        parse(text)
    assert re.fullmatch(message, str(caught.value))


@pytest.mark.parametrize("name", ["c3d", "vgg16", "googlenet", "squeezenet1_0", "zfnet512"])
def test_the_smallest_size_works_and_no_smaller_one(name: str) -> None:
    entry = ZOO[name]
    rows, columns = entry.smallest()
    assert entry.works(rows, columns)
    assert not entry.works(rows - 1, columns)
    assert not entry.works(rows, columns - 1)


def test_models_of_the_zoo_are_loaded_by_name() -> None:
    network = csdfgen.load("zoo:mnist@28x40")
    assert (network.name, network.source, network.inputs[0].shape) == (
        "mnist",
        "zoo:mnist@28x40",
        (1, 1, 28, 40),
    )
    with pytest.raises(
        ModelError,
        match=r"^zoo:vgg19@16x16: vgg19 does not work at 16x16; the smallest size is 32x32$",
    ):
        csdfgen.load("zoo:vgg19@16x16")
