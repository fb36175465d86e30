"""Images that a network moves from axis 0 are followed there: it is split if no layer mixes them, and only then."""

from __future__ import annotations

import random
from math import prod

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.errors import ModelError
from csdfgen.reading.loader import load
from tests.builder import Graph, reference
from tests.simple_executor import execute

IMAGES = 3
SIZES = (4, 6)


def shaped(g: Graph, x: str, *sizes: int) -> str:
    return g.node("Reshape", x, g.constant(np.array(sizes)))


def weighted(g: Graph, x: str, rows: int, columns: int) -> str:
    return g.node("MatMul", x, g.constant(g.rng.normal(0, 0.3, (rows, columns)).astype(np.float32)))


def thirds(g: Graph, x: str) -> list[str]:
    return [g.node("Gather", x, g.constant(np.array(i)), axis=0) for i in range(3)]


def attention(g: Graph, q: str, k: str, v: str, perm: list[int], bias: np.ndarray) -> str:
    scores = g.node("MatMul", q, g.node("Transpose", k, perm=perm))
    return g.node("MatMul", g.node("Softmax", g.node("Add", scores, g.constant(bias))), v)


def windows(g: Graph) -> str:
    """Attention of heads within windows of a map, which a Reshape joins with the images, as in a Swin transformer."""
    x = g.node("Transpose", g.input("x", (IMAGES, 8, 4, 6)), perm=[0, 2, 3, 1])
    cut = g.node("Transpose", shaped(g, x, -1, 2, 2, 3, 2, 8), perm=[0, 1, 3, 2, 4, 5])
    heads = shaped(g, weighted(g, shaped(g, cut, -1, 4, 8), 8, 24), -1, 4, 3, 2, 4)
    parts = thirds(g, g.node("Transpose", heads, perm=[2, 0, 3, 1, 4]))
    bias = g.rng.normal(size=(1, 2, 4, 4)).astype(np.float32)
    mixed = g.node("Transpose", attention(g, *parts, [0, 1, 3, 2], bias), perm=[0, 2, 1, 3])
    back = shaped(g, weighted(g, shaped(g, mixed, -1, 4, 8), 8, 8), -1, 2, 3, 2, 2, 8)
    y = shaped(g, g.node("Transpose", back, perm=[0, 1, 3, 2, 4, 5]), -1, 4, 6, 8)
    return g.node("ReduceMean", g.node("Add", x, y), axes=[1, 2], keepdims=0)


def tokens_first(g: Graph) -> str:
    """Images behind tokens, then joined with heads, then with tokens, as torch writes MultiheadAttention."""
    x = g.input("x", (IMAGES, 5, 8))
    turned = weighted(g, g.node("Transpose", x, perm=[1, 0, 2]), 8, 24)
    parts = thirds(g, g.node("Transpose", shaped(g, turned, 5, -1, 3, 8), perm=[2, 0, 1, 3]))
    heads = [g.node("Transpose", shaped(g, one, 5, -1, 4), perm=[1, 0, 2]) for one in parts]
    bias = g.rng.normal(size=(5, 5)).astype(np.float32)
    mixed = g.node("Transpose", attention(g, *heads, [0, 2, 1], bias), perm=[1, 0, 2])
    matrices = (g.constant(g.rng.normal(0, 0.3, s).astype(np.float32)) for s in ((8, 8), (8,)))
    y = g.node("Gemm", shaped(g, mixed, -1, 8), *matrices, transB=1)
    return g.node("Add", x, g.node("Transpose", shaped(g, y, 5, -1, 8), perm=[1, 0, 2]))


def frames(g: Graph) -> str:
    """Convolutions of the frames of each image."""
    x = shaped(g, g.input("x", (IMAGES, 4, 2, 5, 6)), -1, 2, 5, 6)
    g.channels[x] = 2
    pooled = g.node("GlobalAveragePool", g.node("Relu", g.conv(x, 3)))
    return g.node("ReduceMax", shaped(g, pooled, -1, 4, 3), axes=[1], keepdims=0)


def bake_sizes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same network as exporters write it that know all sizes: no Reshape has a -1."""
    made = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    ends = [*made.graph.value_info, *made.graph.output]
    sizes = {one.name: [d.dim_value for d in one.type.tensor_type.shape.dim] for one in ends}
    for node in made.graph.node:
        if node.op_type == "Reshape" and all(sizes[node.output[0]]):
            node.input[1] = f"sizes of {node.output[0]}"
            array = np.array(sizes[node.output[0]], np.int64)
            made.graph.initializer.append(onnx.numpy_helper.from_array(array, node.input[1]))
    return made


@pytest.mark.parametrize("baked", [False, True])
@pytest.mark.parametrize("made", [windows, tokens_first, frames])
def test_images_are_followed(made: object, baked: bool) -> None:
    g = Graph(opset=13)
    proto = g.model(made(g))  # type: ignore[operator]
    proto = bake_sizes(proto) if baked else proto
    network, feeds = load(proto), g.feeds()
    assert network.batch == IMAGES
    (name,) = (o.name for o in network.outputs)
    want = reference(proto, feeds)[name]
    for got in (
        execute(network, feeds),
        runtime.run(csdfgen.plan(network), feeds),
        runtime.run(csdfgen.plan(network, frames=IMAGES, batches="all"), feeds),
    ):
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-6)


def test_what_exchanges_images_is_not_split() -> None:
    """Rows of all images are joined by a Reshape and turned round."""
    g = Graph(opset=13)
    joined = shaped(g, g.input("x", (IMAGES, *SIZES)), -1, SIZES[1])
    turned = g.node("Slice", joined, *(g.constant(np.array([v])) for v in (-1, -99, 0, -1)))
    network = load(g.model(shaped(g, turned, -1, *SIZES)))
    assert network.batch == 1
    np.testing.assert_array_equal(
        execute(network, g.feeds())[network.outputs[0].name], g.feeds()["x"][::-1, ::-1]
    )


@pytest.mark.parametrize("shape", [(IMAGES, 9), (IMAGES, IMAGES)])
def test_an_axis_in_front_that_is_as_long_as_the_batch_is_none_of_images(
    shape: tuple[int, ...],
) -> None:
    g = Graph(opset=13)
    target = g.constant(np.array([IMAGES, *shape], np.int64))
    network = load(g.model(g.node("Relu", g.node("Expand", g.input("x", shape), target))))
    found = execute(network, g.feeds())[network.outputs[0].name]
    want = np.broadcast_to(np.maximum(g.feeds()["x"], 0), (IMAGES, *shape))
    np.testing.assert_array_equal(found, want)


# Whatever is split means what the whole batch means ------------------------------------------------


def positions(rng: random.Random, size: int) -> np.ndarray:
    """Indices along an axis: the same ones for every image, if it can have them; seldom any."""
    if size % IMAGES or rng.random() < 0.2:
        return np.array([rng.randrange(size) for _ in range(3)])
    each = size // IMAGES
    one = np.array([rng.randrange(each) for _ in range(rng.randint(1, 3))])
    return (one + each * np.arange(IMAGES)[:, None]).reshape(-1)


def repeated(g: Graph, shape: list[int]) -> np.ndarray:
    """Values of a whole tensor, the same ones for every image if axis 0 can have these."""
    times = IMAGES if shape[0] % IMAGES == 0 else 1
    one = g.rng.normal(size=(shape[0] // times, *shape[1:])).astype(np.float32)
    return np.concatenate([one] * times)


def recurrent(g: Graph, x: str, shape: list[int]) -> str:
    """An LSTM of sequences along axis 1, whose first hidden values are the same ones for every image, if they can be."""
    state = repeated(g, [shape[1], 1, 2]).swapaxes(0, 1)
    arrays = (g.rng.normal(0, 0.3, (1, 8, size)) for size in (shape[2], 2))
    weights = [g.constant(array.astype(np.float32)) for array in arrays]
    made = g.node("LSTM", x, *weights, "", "", g.constant(state), hidden_size=2)
    return g.node("Squeeze", made, g.constant(np.array([1])))


def chain(seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Random layers on some images, most of which do not know them from other elements."""
    rng, g = random.Random(seed), Graph(seed, opset=13)
    x, shape = g.input("x", (IMAGES, *SIZES)), [IMAGES, *SIZES]
    for _ in range(rng.randint(3, 6)):
        kind, rank = rng.choice(["turn", "turn", "cut", "cut", "cut", "work"]), len(shape)
        if kind == "turn":
            perm = rng.sample(range(rank), rank)
            x, shape = g.node("Transpose", x, perm=perm), [shape[k] for k in perm]
        elif kind == "cut":
            whole, sizes = prod(shape), []
            for _ in range(rng.randint(1, 3)):
                sizes.append(rng.choice([d for d in (1, 2, 3, 4, 6) if whole % d == 0]))
                whole //= sizes[-1]
            at = rng.randint(0, len(sizes))
            x, shape = shaped(g, x, *sizes[:at], -1, *sizes[at:]), [*sizes[:at], whole, *sizes[at:]]
        else:
            axis = rng.randrange(rank)
            ops = ["Softmax", "Gather", "Slice", "Add", "MatMul", "ReduceMax", "Concat"]
            op = rng.choice([*ops, "front", "GatherND", "repeat", "Pad", "LSTM", "ArgMax"])
            if op == "Softmax":
                x = g.node(op, x, axis=axis)
            elif op == "ReduceMax":
                x, shape[axis] = g.node(op, x, axes=[axis]), 1
            elif op == "ArgMax":
                x, shape[axis] = g.node("Cast", g.node(op, x, axis=axis), to=1), 1
            elif op == "Pad":
                pads = np.eye(rank, dtype=np.int64)[axis] * np.array([[1], [0]])
                x, shape[axis] = g.node(op, x, g.constant(pads.reshape(-1))), shape[axis] + 1
            elif op == "LSTM":
                if rank == 3:
                    x, shape = recurrent(g, x, shape), [*shape[:2], 2]
            elif op == "Concat":
                x, shape[axis] = g.node(op, x, x, axis=axis), 2 * shape[axis]
            elif op == "Gather":
                x, shape[axis] = g.node(op, x, g.constant(np.array([0, 0])), axis=axis), 2
            elif op == "Slice":
                ends = (np.array([v]) for v in (0, max(1, shape[axis] - 1), axis))
                x, shape[axis] = g.node(op, x, *map(g.constant, ends)), max(1, shape[axis] - 1)
            elif op in ("front", "GatherND"):
                first = positions(rng, shape[0])
                if op == "front" or rank < 2:
                    x, shape[0] = g.node("Gather", x, g.constant(first), axis=0), len(first)
                else:
                    pairs = np.stack([first, rng.randrange(shape[1]) + 0 * first], axis=-1)
                    x, shape[:2] = g.node(op, x, g.constant(pairs)), [len(first)]
            elif op == "repeat":
                x = g.node("Add", x, g.constant(repeated(g, shape)))
            elif op == "Add":
                x = g.node(op, x, g.constant(g.rng.normal(size=shape[axis:]).astype(np.float32)))
            elif rank > 1:
                x, shape[-1] = weighted(g, x, shape[-1], 2), 2
    count = prod(shape)
    if count % IMAGES == 0:
        x = shaped(g, x, -1, count // IMAGES)
    return g.model(g.node("Relu", x), checked=False), g.feeds()


@pytest.mark.parametrize("baked", [False, True])
def test_random_chains_are_split_only_if_images_stay_apart(baked: bool) -> None:
    split = whole = 0
    for seed in range(300):
        proto, feeds = chain(seed)
        proto = bake_sizes(proto) if baked else proto
        try:
            network = load(proto)
        except ModelError:
            continue
        if network.batch == 1:
            whole += 1
            continue
        split += 1
        (name,) = (o.name for o in network.outputs)
        np.testing.assert_allclose(
            execute(network, feeds)[name],
            reference(proto, feeds)[name],
            rtol=1e-5,
            atol=1e-6,
            err_msg=str(seed),
        )
    assert split > 10 and whole > 10


@pytest.mark.parametrize(
    "made",
    [
        *("as_strided", "mask", "heads", "table", "Resize", "tokens", "Expand", "as many heads"),
        "states",
    ],
)
def test_constants_that_are_those_of_each_image_keep_them_apart(made: str) -> None:
    """Positions, repeated values and sizes that exporters write for the images that they saw."""
    g = Graph(opset=13)
    images = np.arange(IMAGES)
    if made == "Resize":
        x, empty = g.input("x", (IMAGES, 2, 4, 6)), g.constant(np.array([], np.float32))
        sizes = g.constant(np.array([IMAGES, 2, 8, 12]))
        y = g.node("Resize", g.conv(x, 2), empty, empty, sizes, mode="linear")
    elif made == "table":
        x = g.node("Cast", g.input("x", (IMAGES, 5)), to=onnx.TensorProto.INT64)
        table = g.constant(g.rng.normal(size=(7, 4)).astype(np.float32))
        y = g.node("Add", g.node("Gather", table, x), g.constant(repeated(g, [IMAGES, 5, 4])))
    else:
        x = g.input("x", (IMAGES, *SIZES))
        if made == "as_strided":
            at = np.arange(prod(SIZES) * IMAGES).reshape(IMAGES, *SIZES)
            y = g.node("Gather", shaped(g, x, -1), g.constant(at))
        elif made == "tokens":  # whose number is a multiple of that of images
            turned = shaped(g, g.node("Transpose", x, perm=[1, 0, 2]), -1, 6)
            turned = shaped(g, g.node("Concat", turned, turned, turned, axis=1), 4 * IMAGES, 3, 6)
            parts = shaped(g, turned, 4, IMAGES * 3, 6)
            y = shaped(g, g.node("Transpose", parts, perm=[1, 0, 2]), IMAGES, -1)
        elif made == "Expand":
            one = shaped(g, x, IMAGES * 2, 2, 6, 1)
            wide = g.node("Expand", one, g.constant(np.array([IMAGES * 2, 2, 6, 2])))
            y = shaped(g, wide, IMAGES, -1)
        elif made == "as many heads":  # joined with the images that are outside them
            heads = g.node("Transpose", shaped(g, x, IMAGES, 4, IMAGES, 2), perm=[0, 2, 1, 3])
            turned = g.node("Transpose", shaped(g, heads, -1, 4, 2), perm=[0, 2, 1])
            back = shaped(g, turned, IMAGES, IMAGES, 2, 4)
            y = shaped(g, g.node("MatMul", heads, back), IMAGES, -1)
        elif made == "states":
            turned = g.node("Transpose", x, perm=[1, 0, 2])
            padded = g.node("Pad", turned, g.constant(np.array([0, 0, 1, 0, 0, 1])))
            y = g.node("Transpose", recurrent(g, padded, [4, IMAGES, 8]), perm=[1, 0, 2])
        elif made == "mask":
            at = np.stack(np.broadcast_arrays(images[:, None, None], np.arange(4)[::-1]), axis=-1)
            y = g.node("GatherND", x, g.constant(at))
        else:
            heads = shaped(g, x, IMAGES * 2, 2, 6)
            y = g.node("MatMul", heads, g.constant(repeated(g, [IMAGES * 2, 6, 3])))
            at = np.broadcast_to(np.array([2, 0]), (IMAGES * 2, 2, 2))
            y = shaped(g, g.node("GatherElements", y, g.constant(at), axis=2), IMAGES, -1)
    proto, feeds = g.model(g.node("Relu", y)), g.feeds()
    network = load(proto)
    assert network.batch == IMAGES
    (name,) = (o.name for o in network.outputs)
    got = runtime.run(csdfgen.plan(network), feeds)[name]
    np.testing.assert_allclose(got, reference(proto, feeds)[name], rtol=1e-5, atol=1e-5)
