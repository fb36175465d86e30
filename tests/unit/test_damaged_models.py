"""Damaged files either load or raise one CsdfgenError of one line: nothing else, no warnings, no
large memory.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from csdfgen.errors import CsdfgenError, ModelError
from csdfgen.model.network import Network
from csdfgen.reading.loader import load
from tests.models import model

MUTATIONS = 200


def small_convolutional() -> bytes:
    rng = np.random.default_rng(1)
    weights = {
        "w1": rng.normal(size=(6, 3, 3, 3)).astype(np.float32),
        "w2": rng.normal(size=(6, 1, 3, 3)).astype(np.float32),
        "b2": rng.normal(size=6).astype(np.float32),
        "scale": np.ones(6, np.float32),
        "target": np.array([1, 2, 3, -1]),
        "starts": np.array([0, 0]),
        "ends": np.array([9, 4]),
        "axes": np.array([2, 3]),
    }
    text = """g (float[1,3,12,10] x) => (y, z) {
        a = Conv <kernel_shape = [3,3], pads = [1,1,1,1], strides = [2,2]> (x, w1)
        n = BatchNormalization <epsilon = 0.001> (a, scale, b2, b2, scale)
        r = LeakyRelu <alpha = 0.2> (n)
        d = Conv <group = 6, dilations = [2,2], auto_pad = "SAME_UPPER"> (r, w2, b2)
        s = Add(d, r)
        p = MaxPool <kernel_shape = [2,2], strides = [2,2], ceil_mode = 1> (s)
        c = Concat <axis = 1> (p, p)
        y = Reshape(c, target)
        cut = Slice(s, starts, ends, axes)
        t = Transpose <perm = [0,2,3,1]> (cut)
        z = Softmax <axis = -1> (t)
    }"""
    return model(text, weights).SerializeToString()


def small_with_shapes() -> bytes:
    text = """g (float[N,4,8,8] x) => (y) {
        s = Shape(x)
        one = Constant <value = int64[1] {1}> ()
        last = Constant <value = int64[1] {-1}> ()
        c = Gather(s, one)
        flat = Concat <axis = 0> (one, c, last)
        r = Reshape(x, flat)
        m = ReduceMean <axes = [2], keepdims = 1> (r)
        shape = Shape(m)
        half = ConstantOfShape <value = float[1] {0.5}> (shape)
        h = Sub(r, half)
        low = Constant <value_float = -1.0> ()
        k = Clip(h, low)
        up = Resize <mode = "nearest"> (x, , scales)
        scales = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> ()
        pooled = GlobalAveragePool(up)
        flat_pool = Reshape(pooled, flat)
        k2 = Sub(k, m)
        y = Add(flat_pool, k2)
    }"""
    return model(text).SerializeToString()


def light_squeezenet() -> bytes:
    return (
        Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx"
    ).read_bytes()


SOURCES: dict[str, Callable[[], bytes]] = {
    "convolutional": small_convolutional,
    "shapes": small_with_shapes,
    "light_squeezenet": light_squeezenet,
}


# One function a kind of damage: bytes first, then the message
# -----------------------------------------


def overwrite(raw: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(raw)
    for _ in range(rng.choice([1, 8, 64])):
        damaged[rng.randrange(min(len(raw), rng.choice([200, 5000, len(raw)])))] = rng.choice(
            [0, rng.randrange(256)]
        )
    return bytes(damaged)


def cut(raw: bytes, rng: random.Random) -> bytes:
    return raw[: rng.randrange(len(raw))]


def another_operator(proto: onnx.ModelProto, rng: random.Random) -> None:
    names = [
        "Conv",
        "Relu",
        "Nope",
        "Loop",
        "If",
        "Concat",
        "",
        "Reshape",
        "Gather",
        "Resize",
        "Pad",
        "Constant",
        "Tile",
    ]
    rng.choice(proto.graph.node).op_type = rng.choice(names)


def another_attribute(proto: onnx.ModelProto, rng: random.Random) -> None:
    attributes = [a for node in proto.graph.node for a in node.attribute]
    attribute = rng.choice(attributes)
    if attribute.ints:
        attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice([-1, 0, 7, 2**40, -(2**63)])
    elif attribute.type == onnx.AttributeProto.STRING:
        attribute.s = rng.choice([b"", b"VALID", b"\xff\xfe"])
    else:
        attribute.i = rng.choice([-1, 0, 2**40])
        attribute.f = rng.choice([float("nan"), 0.0, 1e30])


def another_list_length(proto: onnx.ModelProto, rng: random.Random) -> None:
    lists = [a for node in proto.graph.node for a in node.attribute if a.ints]
    if lists:
        attribute = rng.choice(lists)
        attribute.ints.append(1) if rng.random() < 0.5 else attribute.ints.pop()


def another_dimension(proto: onnx.ModelProto, rng: random.Random) -> None:
    dims = proto.graph.input[0].type.tensor_type.shape.dim
    dims[rng.randrange(len(dims))].dim_value = rng.choice([0, -1, 1, 7, 2**33])


def another_rank(proto: onnx.ModelProto, rng: random.Random) -> None:
    dims = proto.graph.input[0].type.tensor_type.shape.dim
    dims.add(dim_value=3) if rng.random() < 0.5 else dims.pop()


def another_operand(proto: onnx.ModelProto, rng: random.Random) -> None:
    node = rng.choice([n for n in proto.graph.node if n.input])
    others = [o for n in proto.graph.node for o in n.output]
    node.input[rng.randrange(len(node.input))] = rng.choice(
        ["", "nowhere", node.output[0], rng.choice(others)]
    )


def another_type(proto: onnx.ModelProto, rng: random.Random) -> None:
    rng.choice(proto.graph.input).type.tensor_type.elem_type = rng.choice([0, 7, 8, 10, 11, 99])


def twice(proto: onnx.ModelProto, rng: random.Random) -> None:
    proto.graph.node.append(rng.choice(proto.graph.node))


def without_a_node(proto: onnx.ModelProto, rng: random.Random) -> None:
    del proto.graph.node[rng.randrange(len(proto.graph.node))]


def another_weight(proto: onnx.ModelProto, rng: random.Random) -> None:
    weights = [w for w in proto.graph.initializer if w.dims]
    if weights:
        dims = rng.choice(weights).dims
        dims[rng.randrange(len(dims))] = rng.choice([0, -5, 1, 2**31, 2**50])


def other_weight_values(proto: onnx.ModelProto, rng: random.Random) -> None:
    weights = [w for w in proto.graph.initializer if w.data_type == onnx.TensorProto.INT64]
    if weights:
        weight = rng.choice(weights)
        values = numpy_helper.to_array(weight).copy()
        values.flat[rng.randrange(values.size)] = rng.choice([-1, 0, 7, 2**40, -(2**63)])
        weight.CopyFrom(numpy_helper.from_array(values, weight.name))


BYTES = (overwrite, cut)
MESSAGE = (
    another_operator,
    another_attribute,
    another_list_length,
    another_dimension,
    another_rank,
    another_operand,
    another_type,
    twice,
    without_a_node,
    another_weight,
    other_weight_values,
)


def damaged(raw: bytes, rng: random.Random) -> tuple[str, bytes]:
    """One kind of damage, and what it leaves of the file."""
    change = rng.choice((*BYTES, *BYTES, *MESSAGE))
    if change in BYTES:
        return change.__name__, change(raw, rng)
    proto = onnx.ModelProto.FromString(raw)
    change(proto, rng)
    return change.__name__, proto.SerializeToString()


@pytest.mark.parametrize("name", SOURCES)
def test_the_undamaged_models_load(name: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(SOURCES[name]())
    assert load(path).layers


@pytest.mark.parametrize("seed", range(MUTATIONS))
def test_damage_is_one_line(seed: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(seed)
    kind, raw = damaged(SOURCES[rng.choice(sorted(SOURCES))](), rng)
    path = tmp_path / f"{kind}.onnx"
    path.write_bytes(raw)
    result: Network | str
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            result = load(path)
        except CsdfgenError as error:
            result = str(error)
    assert isinstance(result, Network) or (len(result.splitlines()) == 1 and len(result) < 1000)
    assert capfd.readouterr() == ("", "")


# Files that are no models
# -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "is empty"),
        (b"this is no model, but some text\n" * 9, "not a valid ONNX file"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "no ONNX model"),
        (b"\x08\x08", "holds no graph"),
        (b"\x3a\xff\xff\xff\xff\x07\x00", "claims 2147483647 bytes, 1 are left"),
        (b"\x3a" + b"\xff" * 12, "does not end"),
        (b"\x3a", "ends within a number"),
    ],
)
def test_files_that_are_no_models(content: bytes, match: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=match) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        load(tmp_path / "gone.onnx")
    with pytest.raises(ModelError, match="is a directory"):
        load(tmp_path)
    with pytest.raises(ModelError, match="is not a regular file"):
        load("/dev/null")
    with pytest.raises(ModelError, match="cannot be read"):
        load("x" * 5000)


def test_a_file_above_protobufs_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with path.open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(
        ModelError, match=r"has 2147483648 bytes, an ONNX file holds at most 2147483647"
    ):
        load(path)


@pytest.mark.parametrize(
    ("imports", "match"),
    [
        ([], "imports no ONNX operator set"),
        ([("", 6)], "uses opset 6, the oldest supported is 7"),
        ([("", 10**9)], r"uses opset 1000000000, the newest supported is \d+"),
        ([("", 13), ("ai.onnx", 14)], "imports opset 13 and opset 14"),
        ([("other", 13)], "imports no ONNX operator set"),
    ],
)
def test_operator_sets_that_are_not_known(imports: list[tuple[str, int]], match: str) -> None:
    proto = model("g (float[1] x) => (y) { y = Relu(x) }")
    del proto.opset_import[:]
    for domain, version in imports:
        proto.opset_import.add(domain=domain, version=version)
    with pytest.raises(ModelError, match=match):
        load(proto)
