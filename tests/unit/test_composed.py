"""Operators that are layers of others: what is refused, and which layers they become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.errors import ModelError
from csdfgen.model.formats import FLOAT32, Format
from csdfgen.model.network import Layer, Node, Tensor
from csdfgen.ops import OPERATORS
from tests.builder import Graph, reference

MAP = Tensor("x", (1, 4, 6, 5), FLOAT32, 2)
SIZES = np.array([5, 6]), np.array([2, 2])
TOKENS = Tensor("x", (1, 6, 8), FLOAT32, 1)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def layers(
    op_type: str, *inputs: Any, opset: int = 23, outputs: tuple[str, ...] = ("y",), **more: Any
) -> tuple[Layer, ...]:
    return OPERATORS[op_type].layers(Node("n", op_type, opset, more, inputs, outputs))


BYTES, PRODUCT = np.zeros((2, 1, 8), np.uint8), {"K": 5, "N": 2, "block_size": 16}


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "what"),
    [
        ("Einsum", (MAP,), {"equation": "ij->ji"}, "names 2 axes of an operand of 4"),
        ("Einsum", (MAP,), {"equation": "abcd,ab->ab"}, "has 2 operands, the node has 1"),
        ("Einsum", (MAP,), {"equation": "abcd->aa"}, "names an axis of its result twice"),
        ("Einsum", (MAP,), {"equation": "abcd->e"}, "or nowhere before"),
        ("Einsum", (MAP,), {"equation": "...d->d"}, "sums over '...'"),
        ("Einsum", (MAP,), {"equation": "ab1d->a"}, "other signs than letters"),
        ("Einsum", (MAP,), {"equation": "aacd->a"}, "axis 'a' has sizes"),
        ("Einsum", (MAP, ones(3, 2)), {"equation": "abcd,ba->a"}, "axis 'b' has sizes 4 and 3"),
        ("Einsum", (MAP, None), {"equation": "abcd,ba->a"}, "input 1 is absent"),
        ("Trilu", (Tensor("x", (3,)),), {}, "it takes matrices"),
        ("Trilu", (MAP, np.array([1, 2])), {}, "k has 2 numbers"),
        ("Hardmax", (MAP,), {"axis": 4}, "axis 4"),
        ("FusedConv", (MAP, ones(2, 4, 1, 1)), {"activation": "Gelu"}, "activation='Gelu' is not"),
        ("RotaryEmbedding", (TOKENS, ones(6, 2), ones(6, 2)), {"num_heads": 3}, "with 3 heads"),
        ("RotaryEmbedding", (TOKENS, ones(1, 5, 4), ones(1, 5, 4)), {}, "is needed"),
        ("MaxUnpool", (MAP, ones(1, 4, 6, 4)), {"kernel_shape": (2, 2)}, "both need the same one"),
        ("GridSample", (MAP, ones(2, 3, 3, 2)), {}, "as many coordinates for each place"),
        ("GridSample", (MAP, ones(1, 3, 3, 2)), {"mode": "area"}, "mode='area' is not one of"),
        (
            "GridSample",
            (Tensor("x", (1, 1, 2, 3, 4), FLOAT32, 2), ones(1, 2, 2, 2, 3)),
            {"mode": "cubic"},
            "of maps of 3 axes",
        ),
        ("DeformConv", (MAP, ones(2, 4, 1, 1), ones(1, 2, 5, 5)), {}, "offset of shape"),
        ("DeformConv", (MAP, ones(2, 3, 1, 1), ones(1, 2, 6, 5)), {}, "for 4 channels"),
        ("RoiAlign", (MAP, ones(2, 5), np.array([0, 0])), {}, "4 numbers a region"),
        ("RoiAlign", (MAP, ones(2, 4), np.array([0])), {}, "numbers of images for 2 regions"),
        ("MaxRoiPool", (MAP, ones(2, 4)), {"pooled_shape": (1, 1)}, "5 numbers a region"),
        ("MaxRoiPool", (MAP, ones(2, 5)), {"pooled_shape": (0, 1)}, "two numbers above 0"),
        ("DFT", (MAP,), {}, "last axis of 1 .real. or 2 .complex."),
        ("DFT", (Tensor("x", (1, 8, 2)),), {"onesided": 1}, "onesided=1 is for"),
        ("DFT", (Tensor("x", (1, 10000, 1)),), {"axis": 1}, "at most 16777216 are supported"),
        ("STFT", (Tensor("x", (1, 8, 1)), np.array(2)), {}, "frames of None samples"),
        ("STFT", (Tensor("x", (1, 8, 1)), np.array(2), ones(9)), {}, "do not fit 8"),
        ("Compress", (MAP, np.zeros(4, bool)), {"axis": 1}, "sets nothing"),
        ("Compress", (MAP, np.ones(9, bool)), {"axis": 1}, "condition of shape"),
        ("ReverseSequence", (MAP, np.array([1])), {"batch_axis": 2}, "are not 0 and 1"),
        ("CenterCropPad", (MAP, np.array([4, 4])), {"axes": (1,)}, "for axes"),
        ("Col2Im", (Tensor("x", (1, 12, 9)), *SIZES), {}, "20 blocks of 4 elements fit"),
        ("AffineGrid", (Tensor("x", (1, 2, 3)), np.array([2, 1, 4, 4])), {}, "for 2 images"),
        ("Det", (Tensor("x", (6, 6)),), {}, "with at most 5 rows"),
        ("Conv", (MAP, Tensor("w", (3, 3, 1, 1))), {}, "do not fit 4 channels"),
        ("Conv", (MAP, Tensor("w", (3, 4, 1, 1)), ones(4)), {}, "bias of shape"),
        ("Conv", (MAP, Tensor("w", (3, 4, 9, 1))), {}, "the output would be"),
        ("MaxUnpool", (MAP, MAP), {"kernel_shape": (2,)}, "do not fit 2 spatial axes"),
        (
            "MaxUnpool",
            (MAP, MAP, np.array([1, 4, 6, 6])),
            {"kernel_shape": (2, 2)},
            "output_shape .* does not hold",
        ),
        ("GroupNorm", (MAP, ones(5), ones(5)), {"groups": 5, "activation": 2}, "activation=2"),
        ("SwiGLU", (MAP, ones(5)), {}, "differ"),
        ("BiasSplitGelu", (MAP, ones(5)), {}, "must have two halves"),
        ("TensorScatter", (MAP, MAP), {"axis": 0}, "which is not the first"),
        ("TensorScatter", (MAP, MAP, np.array([0, 0])), {}, "2] write indices for 1 images"),
        ("MatMulNBits", (MAP, BYTES, ones(2, 1)), {**PRODUCT, "bits": 3}, "2, 4 or 8 are"),
        ("MatMulNBits", (MAP, BYTES, ones(2, 1)), {**PRODUCT, "block_size": 0}, "an even number"),
        ("MatMulNBits", (MAP, BYTES, ones(2, 1), BYTES[:, :0]), PRODUCT, "zero points of shape"),
        ("MatMulNBits", (MAP, BYTES, ones(2, 2)), PRODUCT, "2 x 8 bytes and 2 x 1 scales"),
        (
            "MatMulNBits",
            (MAP, BYTES, ones(2, 1)),
            {**PRODUCT, "weight_prepacked": 1},
            "one machine",
        ),
        ("GatherBlockQuantized", (BYTES[0], Tensor("x", (2,)), ones(2, 1)), {}, "and 1 of them"),
        ("BitCast", (Tensor("x", (2,)),), {"to": 7}, "has 8 bytes, the input's float32 has 4"),
    ],
)
def test_what_does_not_fit_is_refused(
    op_type: str, inputs: tuple[Any, ...], attributes: dict[str, Any], what: str
) -> None:
    if op_type == "Einsum" and attributes["equation"] == "aacd->a":
        inputs = (Tensor("x", (3, 4, 6, 5), FLOAT32, 2),)
    with pytest.raises(ModelError, match=what.replace("(", r"\(")):
        layers(op_type, *inputs, **attributes)


def test_statistics_of_a_skip_are_refused_where_somebody_reads_them() -> None:
    with pytest.raises(ModelError, match=r"output 1 \('mean'\) is not computed"):
        layers("SkipLayerNormalization", TOKENS, TOKENS, ones(8), outputs=("y", "mean"))


def test_a_contraction_with_a_constant_keeps_the_rows() -> None:
    """A transpose with the channels last, one product: no reshape merges rows."""
    made = layers("Einsum", MAP, ones(7, 4), equation="bchw,oc->bohw")
    assert [one.op_type for one in made] == [
        "Reshape",
        "Transpose",
        "MatMul",
        "Transpose",
        "Reshape",
    ]
    assert all(one.output.rows == 6 for one in made)


def test_the_last_layers_make_the_outputs_and_all_are_of_the_node() -> None:
    made = layers("SkipLayerNormalization", TOKENS, TOKENS, ones(8), outputs=("y", "", "", "sum"))
    assert [one.output.name for one in made] == ["sum", "y"]
    assert made[1].inputs[0] == made[0].output
    assert {one.onnx_nodes for one in made} == {("n",)}


def test_what_is_known_is_no_layer() -> None:
    places = np.array([[0, 2, 4, 1, 3, 5]])
    made = layers("RotaryEmbedding", TOKENS, ones(9, 4), ones(9, 4), places)
    assert "Gather" not in {one.op_type for one in made}


def test_half_precision_is_kept() -> None:
    x = Tensor("x", (1, 4, 6, 5), Format("float16"), 2)
    assert layers("Trilu", x)[-1].output.dtype == "float16"


def _lstm(steps: int = 4, **more: Any) -> tuple[Layer, ...]:
    """DynamicQuantizeLSTM of 8 numbers to 5. more: attributes, or operands by their position (`at5`)."""
    at = {int(k[2:]): v for k, v in more.items() if k.startswith("at")}
    byte, one = (np.zeros((1, n, 20), np.int8) for n in (8, 5)), np.ones(1, np.float32)
    operands = [Tensor("x", (steps, 1, 8), FLOAT32, 0), *byte, *[None] * 5]
    operands += [one, np.zeros(1, np.int8), one, np.zeros(1, np.int8)]
    given = [at.get(k, operand) for k, operand in enumerate(operands)]
    attributes = {k: v for k, v in more.items() if not k.startswith("at")}
    return layers("DynamicQuantizeLSTM", *given, opset=1, outputs=("y", "h", "c"), **attributes)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"at1": np.zeros((1, 7, 20), np.int8)}, "do not fit together"),
        ({"at4": np.array([3], np.int32)}, "sequences of several lengths"),
        ({"activations": ["Relu", "Tanh", "Tanh"]}, "Sigmoid, Tanh, Tanh"),
    ],
)
def test_quantized_recurrent_layers_that_are_refused(more: dict[str, Any], what: str) -> None:
    assert len(_lstm(3)) == len(_lstm(100_000))
    with pytest.raises(ModelError, match=what):
        _lstm(**more)


@pytest.mark.parametrize("window", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_a_front_end_of_speech_is_part_of_the_network(window: str) -> None:
    """Spectra of windows of a signal, by the bands of hearing: windows and bands are constants, frames come one by one."""
    g = Graph(opset=17)
    step, length = (g.constant(np.array(n)) for n in (16, 64))
    signal = g.input("signal", (1, 640, 1))
    spectra = g.node("STFT", signal, step, g.node(window, length), length, onesided=1)
    squares = g.node("Mul", spectra, spectra)
    power = g.node("ReduceSum", squares, g.constant(np.array([3])), keepdims=0)
    numbers = [np.array(v) for v in (10, 64, 8000)]
    ends = [np.array(v, np.float32) for v in (0, 4000)]
    bands = g.node("MelWeightMatrix", *(g.constant(a) for a in (*numbers, *ends)))
    bands_of = g.node("MatMul", power, bands)
    model = g.model(
        g.node("Log", g.node("Add", bands_of, g.constant(np.float32(1e-3)))), checked=False
    )
    network = csdfgen.load(model)
    assert not {layer.op_type for layer in network.layers} & {window, "MelWeightMatrix"}
    x = np.random.default_rng(0).uniform(-1, 1, (1, 640, 1)).astype(np.float32)
    plan = csdfgen.plan(network, rows=1)
    (found,) = runtime.run(plan, x).values()
    (wanted,) = reference(model, {"signal": x}).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_indices_of_many_taps_are_refused() -> None:
    x = Tensor("x", (1, 1, 40, 40), FLOAT32, 2)
    with pytest.raises(ModelError, match="windows of 400 elements, at most 256"):
        layers("MaxPool", x, kernel_shape=(20, 20), outputs=("y", "i"))
    assert len(layers("MaxPool", x, kernel_shape=(20, 20))) == 1


def test_packed_operands_of_attention_are_cut_out() -> None:
    """onnxruntime has no kernel for them on a CPU."""
    q = Tensor("q", (2, 6, 8), FLOAT32, 1)
    packed = Tensor("x", (2, 6, 2, 3, 4), FLOAT32, 1)
    made = layers("MultiHeadAttention", packed, num_heads=2)
    assert [one.op_type for one in made].count("Slice") == 3 and made[-1].op_type == "Attention"
    made = layers("MultiHeadAttention", q, Tensor("k", (2, 5, 2, 2, 4), FLOAT32, 1), num_heads=2)
    assert [one.op_type for one in made].count("Slice") == 2
    assert made[-1].inputs[0] == q


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "what"),
    [
        ("MultiHeadAttention", (TOKENS, TOKENS), {"num_heads": 2}, "1 of query, key and value"),
        ("MultiHeadAttention", (TOKENS,) * 3, {"num_heads": 3}, "with 3 heads do not fit"),
        (
            "com.microsoft.Attention",
            (TOKENS, ones(8, 25)),
            {"num_heads": 2},
            "weights of 25 columns",
        ),
        (
            "com.microsoft.Attention",
            (TOKENS, ones(8, 24), None, np.ones(7, np.int32)),
            {"num_heads": 2},
            "a mask of shape",
        ),
        ("Attention", (TOKENS,) * 3, {"q_num_heads": 3, "kv_num_heads": 3}, "do not fit"),
    ],
)
def test_heads_that_do_not_fit_are_refused(
    op_type: str, inputs: tuple[Any, ...], attributes: dict[str, Any], what: str
) -> None:
    with pytest.raises(ModelError, match=what):
        layers(op_type, *inputs, **attributes)


def test_a_convolution_by_computed_weights_keeps_its_rows() -> None:
    made = layers("Conv", MAP, Tensor("w", (3, 4, 3, 3)), pads=(1, 1, 1, 1))
    product = next(one for one in made if one.op_type == "MatMul")
    assert product.output.rows == made[-1].output.rows == 6
    assert [one.op_type for one in layers("Conv", MAP, ones(3, 4, 1, 1))] == ["Conv"]
