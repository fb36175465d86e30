"""Samples of operators that are layers of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from tests.op_harness import Arg, Sample

RNG = np.random.default_rng(7)
MAP = Arg((1, 3, 6, 5), 2)
TOKENS = Arg((1, 6, 8), 1)
IMAGES = Arg((2, 5, 8), 1)


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.asarray(RNG.uniform(-1, 1, shape)).astype(dtype)


def _sample(op_type: str, *inputs: Any, opset: int = 18, outputs: int = 1, **more: Any) -> Sample:
    return Sample(op_type, inputs, more, opset, outputs)


def _matrices() -> list[Sample]:
    samples = [
        _sample("Trilu", x, *([] if k is None else [np.array(k)]), upper=upper, opset=14)
        for upper in (0, 1)
        for x, k in ((MAP, None), (MAP, -2), (Arg((2, 7, 4), 1), 1), (Arg((4, 4)), 9))
    ]
    samples += [
        _sample("Trilu", Arg((1, 3, 6, 5), 2, dtype), opset=14)
        for dtype in ("float64", "int64", "bool")
    ]
    return samples + [
        _sample("Hardmax", Arg((1, 3, 6, 5), 2, low=-3, high=3), opset=opset, **axis)
        for opset, axis in (
            (13, {}),
            (13, {"axis": 1}),
            (13, {"axis": 2}),
            (11, {}),
            (11, {"axis": 2}),
        )
    ]


def _fused() -> list[Sample]:
    samples = [
        _sample("BiasGelu", TOKENS, numbers(8)),
        _sample("BiasGelu", IMAGES, Arg((8,))),
        _sample("FastGelu", TOKENS, numbers(8)),
        _sample("FastGelu", IMAGES),
        _sample("QuickGelu", TOKENS),
        _sample("QuickGelu", IMAGES, alpha=0.5),
        _sample("SwiGLU", IMAGES, IMAGES, opset=28, alpha=1.5),
    ]
    weights, bias = numbers(4, 3, 3, 3), numbers(4)
    for activation, parameters in (
        ("Relu", []),
        ("Tanh", []),
        ("Sigmoid", []),
        ("LeakyRelu", [0.2]),
        ("Clip", [-0.5, 0.75]),
        ("HardSigmoid", [0.3, 0.4]),
    ):
        more = {"activation_params": parameters} if parameters else {}
        pads = [1, 1, 1, 1]
        samples.append(
            _sample("FusedConv", MAP, weights, bias, activation=activation, pads=pads, **more)
        )
    samples += [
        _sample("FusedConv", MAP, weights, bias, Arg((1, 4, 4, 3), 2), activation="Relu"),
        _sample("FusedConv", MAP, weights, None, strides=[2, 1]),
        _sample("FusedConv", MAP, Arg((4, 3, 3, 3)), Arg((4,)), activation="Relu"),
        _sample("FusedGemm", Arg((6, 8), 0), numbers(8, 5), numbers(5), activation="Relu"),
        _sample(
            "FusedGemm",
            Arg((6, 8), 0),
            numbers(5, 8),
            alpha=0.5,
            transB=1,
            activation="LeakyRelu",
            activation_alpha=0.3,
        ),
        _sample("FusedMatMul", TOKENS, numbers(8, 4), alpha=0.5),
        _sample("FusedMatMul", TOKENS, numbers(4, 8), alpha=0.5, transB=1),
        _sample("FusedMatMul", Arg((2, 3, 6, 4), 2), Arg((2, 3, 5, 4), 2), alpha=2.0, transB=1),
        _sample("FusedMatMul", Arg((2, 3, 4, 6)), Arg((2, 3, 4, 5)), transA=1),
        _sample("FusedMatMul", Arg((6, 2, 3, 4)), Arg((2, 3, 4, 5)), transBatchA=1),
        _sample("TransposeMatMul", Arg((2, 6, 4)), Arg((2, 5, 4)), transB=1, alpha=0.25),
    ]
    return samples


def _packed() -> list[Sample]:
    """Weights of a few bits in blocks of 16; 40 inputs are two blocks and a half."""
    rng = np.random.default_rng(2)
    x = Arg((1, 6, 40), 1)

    def bytes_(*shape: int) -> np.ndarray:
        return rng.integers(0, 256, shape).astype(np.uint8)

    def scales(*shape: int) -> np.ndarray:
        return rng.uniform(0.01, 0.02, shape).astype(np.float32)

    products = [
        _sample(
            "MatMulNBits", x, bytes_(5, 3, 2 * bits), *more, K=40, N=5, bits=bits, block_size=16
        )
        for bits, more in (
            (4, [scales(5, 3)]),
            (4, [scales(15), bytes_(10)]),
            (4, [-scales(5, 3), bytes_(5, 2), None, numbers(5)]),
            (4, [scales(5, 3), scales(5, 3) * 500, None, numbers(5)]),
            (8, [scales(5, 3), bytes_(5, 3)]),
            (2, [scales(5, 3), bytes_(5, 1)]),
        )
    ]
    order = rng.integers(0, 3, 40).astype(np.int32)
    more = {"K": 40, "N": 5, "block_size": 16, "accuracy_level": 1}
    places = Arg((2, 6), None, "int64", 0, 8)
    odd = {"K": 37, "N": 33, "block_size": 32}
    return [
        *products,
        _sample("MatMulNBits", Arg((2, 7, 37), 1), bytes_(33, 2, 16), scales(33, 2), **odd),
        _sample("MatMulNBits", Arg((37,)), bytes_(33, 2, 16), scales(66), bytes_(33), **odd),
        _sample("MatMulNBits", x, bytes_(5, 3, 8), scales(5, 3), None, order, **more),
        _sample("GatherBlockQuantized", bytes_(9, 16), places, scales(9, 2), block_size=16),
        _sample(
            "GatherBlockQuantized",
            *(bytes_(9, 20), places, scales(9, 3), bytes_(9, 2)),
            block_size=16,
            quantize_axis=-1,
        ),
        _sample(
            "GatherBlockQuantized",
            *(bytes_(9, 20), Arg((6,), None, "int32", 0, 8), scales(9, 2), bytes_(9, 2)),
            block_size=16,
            bits=8,
        ),
    ]


def _normalized() -> list[Sample]:
    gain, shift = numbers(8), numbers(8)
    words, places, segments = numbers(9, 8), numbers(6, 8), numbers(2, 8)
    ids = Arg((2, 5), None, "int32", 0, 8)
    embedding = "EmbedLayerNormalization"
    which, at = Arg((2, 5), None, "int32", 0, 1), Arg((2, 5), None, "int32", 0, 5)
    return [
        _sample(embedding, ids, which, words, places, segments, gain, shift, mask_index_type=0),
        _sample(
            embedding,
            *(ids, None, words, places, None, gain, shift, Arg((2, 5), None, "int32", 0, 1), at),
            outputs=2,
        ),
        _sample("SimplifiedLayerNormalization", TOKENS, gain),
        _sample("SimplifiedLayerNormalization", IMAGES, gain, axis=-1, epsilon=1e-3),
        _sample("SkipLayerNormalization", TOKENS, TOKENS, gain),
        _sample("SkipLayerNormalization", TOKENS, TOKENS, gain, shift, epsilon=1e-5),
        _sample("SkipLayerNormalization", IMAGES, IMAGES, gain, shift, numbers(8)),
        _sample("SkipSimplifiedLayerNormalization", TOKENS, TOKENS, gain),
        _sample("SkipSimplifiedLayerNormalization", IMAGES, IMAGES, gain, numbers(8), epsilon=1e-5),
    ]


def _rotary() -> list[Sample]:
    name = "com.microsoft.RotaryEmbedding"
    tables = numbers(9, 4), numbers(9, 4)
    given = numbers(2, 6, 4), numbers(2, 6, 4)
    heads, flat = Arg((2, 3, 6, 8), 2), Arg((2, 6, 24), 1)
    places = RNG.integers(0, 9, (2, 6))
    computed = Arg((2, 6), None, "int64", 0, 8)
    few = numbers(9, 2), numbers(9, 2)
    samples = []
    for interleaved in (0, 1):
        more = {"interleaved": interleaved}
        samples += [
            _sample("RotaryEmbedding", heads, *given, opset=23, **more),
            _sample("RotaryEmbedding", flat, *tables, places, opset=23, num_heads=3, **more),
            _sample("RotaryEmbedding", heads, *tables, computed, opset=23, **more),
            _sample(
                "RotaryEmbedding", heads, *few, places, opset=23, rotary_embedding_dim=4, **more
            ),
            _sample(name, flat, places, *tables, **more),
            _sample(name, heads, computed, *tables, **more),
            _sample(name, Arg((1, 5, 16), 1), np.array([3]), *tables, **more),
            _sample(name, flat, places, *few, num_heads=3, rotary_embedding_dim=4, **more),
        ]
    return samples


def _einsum() -> list[Sample]:
    heads = Arg((1, 3, 6, 4), 2)
    return [
        _sample("Einsum", *operands, equation=equation)
        for equation, operands in (
            ("bij->bji", (Arg((2, 6, 4), 1),)),
            ("bhij->bi", (heads,)),
            ("...i->...", (heads,)),
            ("ii->i", (Arg((5, 5)),)),
            ("bii->b", (Arg((2, 5, 5), 1),)),
            ("iijj", (Arg((3, 3, 2, 2)),)),
            ("bchw,oc->bohw", (MAP, numbers(4, 3))),
            ("oc,bchw->bohw", (numbers(4, 3), MAP)),
            ("bchw,ocd->bohwd", (MAP, numbers(4, 3, 2))),
            ("bhqd,bhkd->bhqk", (heads, Arg((1, 3, 5, 4), 2))),
            ("bqhd,bkhd->bhqk", (Arg((1, 6, 3, 4), 1), Arg((1, 5, 3, 4), 1))),
            ("bhqk,bkhd->bqhd", (Arg((1, 3, 6, 5), 2), Arg((1, 5, 3, 4), 1))),
            ("bhqk,bkhd", (Arg((1, 3, 6, 5), 2), Arg((1, 5, 3, 4), 1))),
            ("i,j->ij", (Arg((4,)), Arg((3,)))),
            ("bij,bij->bij", (Arg((2, 6, 4), 1), Arg((2, 6, 4), 1))),
            ("bij,bij->", (Arg((2, 6, 4), 1), Arg((2, 6, 4), 1))),
            ("bid,bjd,jd->bi", (Arg((2, 6, 4), 1), Arg((2, 5, 4), 1), numbers(5, 4))),
            ("bij,bj->bi", (Arg((2, 6, 4), 1), Arg((1, 4)))),
            ("...ij,...jk->...ik", (Arg((2, 1, 6, 4), 2), Arg((2, 3, 4, 5)))),
            ("...a,...a->...", (Arg((2, 3, 4)), Arg((2, 3, 4)))),
            ("bchw,hkc->bkhw", (heads, numbers(6, 5, 3))),
            ("nctkv,kvw->nctw", (Arg((1, 2, 5, 3, 4), 2), numbers(3, 4, 4))),
        )
    ]


def _attention() -> list[Sample]:
    """Of ONNX: masks and keys that are computed, kept, near; queries that see none."""
    q, k = Arg((1, 2, 5, 4), 2), Arg((1, 2, 7, 4), 2)
    flat, few = Arg((2, 5, 16), 1), Arg((2, 7, 8), 1)
    grouped = {"q_num_heads": 4, "kv_num_heads": 2}
    past = Arg((1, 2, 3, 4), 2)
    empty = numbers(5, 7) > 0
    empty[2] = False
    return [
        _sample("Attention", *operands, opset=opset, **more)
        for operands, opset, more in (
            ((q, k, k, Arg((5, 7), None, "bool")), 23, {}),
            ((q, k, k, Arg((1, 1, 5, 7), 2)), 23, {}),
            ((q, k, k, Arg((1, 2, 5, 7), 2)), 23, {"is_causal": 1}),
            ((flat, few, few, Arg((2, 4, 5, 7))), 23, grouped),
            ((flat, few, few, Arg((2, 1, 5, 7), None, "bool")), 23, grouped),
            ((flat, few, few, numbers(2, 4, 5, 7)), 23, grouped),
            ((q, numbers(1, 2, 7, 4), k), 23, {}),
            ((q, k, k, empty), 24, {}),
        )
    ] + [
        _sample("Attention", q, q, q, None, past, past, opset=23, outputs=3),
        _sample(
            "Attention", flat, few, few, opset=23, outputs=4, qk_matmul_output_mode=3, **grouped
        ),
    ]


def _heads_of_microsoft() -> list[Sample]:
    name, many = "com.microsoft.Attention", "MultiHeadAttention"
    x, two = Arg((1, 6, 8), 1), Arg((2, 6, 8), 1)
    weights, bias = numbers(8, 24), numbers(24)
    lengths, padded = np.array([4, 6], np.int32), Arg((2, 6), None, "int32", 0, 1)
    masked = np.array([[1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1]], np.int32)
    keys = Arg((2, 5, 8), 1)
    return [
        _sample(name, x, weights, bias, num_heads=2),
        _sample(name, two, weights, bias, lengths, num_heads=2),
        _sample(name, two, weights, bias, masked, num_heads=2, unidirectional=1),
        _sample(name, two, weights, bias, padded, num_heads=2),
        _sample(name, two, weights, bias, Arg((2, 6, 6), None, "int32", 0, 1), num_heads=2),
        _sample(name, two, weights, bias, np.array([5, 6, 1, 0], np.int32), num_heads=2),
        _sample(name, x, weights, bias, num_heads=4, scale=0.3, unidirectional=1),
        _sample(name, x, numbers(8, 20), numbers(20), num_heads=2, qkv_hidden_sizes=[8, 8, 4]),
        _sample(name, x, weights, bias, None, None, Arg((1, 2, 6, 6)), num_heads=2),
        _sample(name, x, weights, bias, None, Arg((2, 1, 2, 3, 4)), num_heads=2, outputs=2),
        _sample(many, x, x, x, num_heads=2),
        _sample(many, two, keys, keys, bias, num_heads=2),
        _sample(many, two, keys, Arg((2, 5, 6), 1), num_heads=2, scale=0.4),
        _sample(many, two, two, two, None, masked, num_heads=2, mask_filter_value=-50.0),
        _sample(many, two, two, two, None, padded, num_heads=2),
        _sample(many, two, two, two, None, lengths, num_heads=2),
        _sample(many, x, x, x, None, None, Arg((1, 2, 6, 6)), num_heads=2, unidirectional=1),
        _sample(many, two, Arg((2, 2, 5, 4), 2), Arg((2, 2, 5, 4), 2), num_heads=2),
        _sample(
            many,
            *(x, x, x, None, None, None, Arg((1, 2, 3, 4), 2), Arg((1, 2, 3, 4), 2)),
            num_heads=2,
            outputs=3,
        ),
    ]


def _maxima() -> list[Sample]:
    two = Arg((2, 3, 8, 7), 2)
    bytes_ = Arg((1, 3, 6, 5), 2, "uint8", 0, 255)
    windows = {"kernel_shape": [2, 2], "strides": [2, 2]}
    x, places = Arg((2, 2, 3, 2), 2), Arg((2, 2, 3, 2), 2, "int64", 0, 95)
    return [
        *(
            _sample("MaxPool", x, opset=12, outputs=2, kernel_shape=kernel, **more)
            for x, kernel, more in (
                (MAP, [2, 2], {"strides": [2, 2]}),
                (two, [2, 2], {"strides": [2, 2]}),
                (two, [3, 3], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
                (two, [3, 2], {"dilations": [2, 1]}),
                (two, [3, 3], {"strides": [2, 2], "ceil_mode": 1}),
                (two, [2, 2], {"strides": [2, 2], "storage_order": 1}),
                (Arg((1, 3, 9), 2), [3], {"strides": [2]}),
                (Arg((1, 2, 4, 5, 6), 2), [2, 2, 2], {"strides": [2, 2, 2]}),
                (Arg((1, 2, 5, 4), 2, "float64"), [2, 2], {}),
                (bytes_, [2, 2], {"auto_pad": "SAME_UPPER"}),
            )
        ),
        _sample("MaxUnpool", x, places, opset=11, **windows),
        _sample("MaxUnpool", x, places, np.array([2, 2, 7, 5]), opset=11, **windows),
        _sample(
            "MaxUnpool",
            *(Arg((1, 2, 4), 2), np.array([[[0, 3, 5, 6], [9, 10, 12, 7]]])),
            opset=11,
            kernel_shape=[2],
            strides=[2],
            pads=[1, 0],
        ),
    ]


def _sampled() -> list[Sample]:
    two = Arg((2, 3, 6, 5), 2)
    grid = Arg((2, 4, 7, 2), 1, low=-1.7, high=1.7)
    cube = Arg((1, 2, 4, 3, 5), 2)
    of_cube = Arg((1, 3, 2, 6, 3), 1, low=-1.6, high=1.6)
    samples = [
        _sample("GridSample", two, grid, opset=20, mode=mode, padding_mode=outside, align_corners=a)
        for mode in ("linear", "nearest", "cubic")
        for outside in ("zeros", "border", "reflection")
        for a in (0, 1)
    ]
    samples += [
        _sample("GridSample", MAP, numbers(1, 4, 7, 2), opset=16, mode="bilinear"),
        _sample("GridSample", Arg((1, 3, 1, 5), 2), Arg((1, 4, 7, 2)), opset=16, mode="bicubic"),
        *(
            _sample("GridSample", cube, of_cube, opset=20, mode=mode, padding_mode=outside)
            for mode in ("linear", "nearest")
            for outside in ("zeros", "reflection")
        ),
    ]
    pixels = Arg((2, 4, 6, 5), 2)
    one = {"pads": [1, 1, 1, 1]}
    samples += [
        _sample("DeformConv", pixels, numbers(3, 4, 3, 3), Arg((2, 18, 6, 5), 2), opset=19, **one),
        _sample(
            "DeformConv",
            *(
                pixels,
                numbers(4, 2, 3, 3),
                Arg((2, 36, 3, 3), 2),
                numbers(4),
                Arg((2, 18, 3, 3), 2),
            ),
            opset=19,
            strides=[2, 2],
            group=2,
            offset_group=2,
            **one,
        ),
        _sample(
            "DeformConv",
            *(Arg((1, 4, 7, 6), 2), numbers(2, 4, 2, 2), numbers(1, 8, 5, 4)),
            opset=22,
            dilations=[2, 2],
        ),
    ]
    return samples


def _computed_weights() -> list[Sample]:
    x = Arg((1, 4, 7, 6), 2)
    one = {"pads": [1, 1, 1, 1]}
    return [
        _sample("Conv", *operands, **more)
        for operands, more in (
            ((x, Arg((3, 4, 3, 3))), one),
            ((x, Arg((3, 4, 3, 3)), numbers(3)), {"strides": [2, 1], "dilations": [2, 1]}),
            ((x, Arg((3, 4, 1, 1)), Arg((3,))), {}),
            ((x, numbers(3, 4, 3, 3), Arg((3,))), {"auto_pad": "SAME_UPPER"}),
            ((x, Arg((4, 1, 3, 3)), Arg((4,))), {"group": 4, **one}),
            ((x, Arg((8, 1, 3, 3))), {"group": 4}),
            ((x, Arg((6, 2, 3, 2)), Arg((6,))), {"group": 2, "pads": [1, 0, 1, 1]}),
            ((Arg((2, 4, 9), 2), Arg((3, 4, 3))), {"strides": [2]}),
            ((Arg((2, 4, 9), 2), Arg((6, 2, 3))), {"group": 2}),
            ((Arg((1, 2, 4, 5, 3), 2), Arg((3, 2, 2, 2, 2))), {}),
            ((Arg((1, 4, 4, 5, 3), 2), Arg((6, 2, 2, 2, 2))), {"group": 2}),
            ((numbers(1, 4, 7, 6), Arg((3, 4, 3, 3))), one),
        )
    ] + [
        _sample("ConvTranspose", *operands, **more)
        for operands, more in (
            ((x, Arg((4, 3, 3, 3))), {"strides": [2, 2], **one}),
            ((x, Arg((4, 3, 2, 2)), Arg((3,))), {"strides": [2, 2]}),
            ((x, numbers(4, 3, 2, 2), Arg((3,))), {"strides": [2, 1], "output_padding": [1, 0]}),
            (
                (x, Arg((4, 2, 3, 3)), numbers(4)),
                {"group": 2, "strides": [1, 2], "dilations": [2, 1]},
            ),
            ((x, Arg((4, 1, 3, 3))), {"group": 4, "strides": [2, 2], "output_shape": [14, 12]}),
            ((x, Arg((4, 2, 1, 1))), {"auto_pad": "SAME_LOWER", "strides": [3, 3]}),
            ((Arg((2, 4, 9), 2), Arg((4, 3, 4))), {"strides": [2], "pads": [1, 2]}),
            ((Arg((1, 2, 3, 4, 3), 2), Arg((2, 3, 2, 2, 2))), {"strides": [2, 1, 2]}),
            ((x, Arg((4, 3, 2, 2))), {"pads": [1, 1, 1, 1]}),
        )
    ]


def _signals() -> list[Sample]:
    real, parts = Arg((2, 12, 1), 1), Arg((2, 9, 2), 1)
    signal = Arg((1, 40, 1), 1)
    step, length = np.array(4), np.array(16)
    hann = np.hanning(16).astype(np.float32)
    return [
        _sample("DFT", real, opset=17),
        _sample("DFT", real, opset=17, axis=1, onesided=1),
        _sample("DFT", real, np.array(8), opset=17, onesided=1),
        _sample("DFT", parts, np.array(9), opset=17, inverse=1),
        _sample("DFT", parts, None, np.array(0), opset=20),
        _sample("DFT", Arg((1, 5, 6, 2), 1), None, np.array(-3), opset=20),
        _sample("DFT", Arg((1, 5, 7, 1), 2, "float64"), np.array(6), opset=20, onesided=1),
        _sample("DFT", Arg((2, 5, 2), 1), opset=20, inverse=1, onesided=1),
        _sample("STFT", signal, step, hann, length, opset=17),
        _sample("STFT", signal, step, None, length, opset=17, onesided=0),
        _sample("STFT", Arg((2, 40, 1), 1), step, Arg((16,)), opset=17),
        _sample("STFT", Arg((2, 30, 2), 1), step, None, np.array(9), opset=17, onesided=0),
        _sample("STFT", Arg((2, 40), 1), step, hann, length, opset=17),
    ]


def _rearranged() -> list[Sample]:
    chosen, few = np.array([True, False, True]), np.array([False, True, True, False, True])
    sequences = Arg((4, 3, 5), 0)
    matrices = Arg((2, 2, 3), 0)
    return [
        *(
            _sample("Compress", x, condition, opset=11, **axis)
            for x, condition, axis in (
                (MAP, chosen, {"axis": 1}),
                (MAP, chosen, {"axis": 2}),
                (MAP, few, {"axis": -1}),
                (MAP, few, {}),
            )
        ),
        _sample("ReverseSequence", sequences, np.array([1, 4, 3]), opset=10),
        _sample(
            "ReverseSequence",
            *(sequences, Arg((4,), None, "int64", 1, 3)),
            opset=10,
            batch_axis=0,
            time_axis=1,
        ),
        _sample("ReverseSequence", Arg((5, 2), 0, "int32"), np.array([5, 2]), opset=10),
        _sample(
            "Scatter", Arg((4, 5), 0), np.array([[0, 2], [3, 1]]), Arg((2, 2)), opset=9, axis=1
        ),
        *(
            _sample("TensorScatter", cache, update, *first, opset=24, **more)
            for cache, update, first, more in (
                (Arg((2, 3, 6, 4), 2), Arg((2, 3, 2, 4), 2), [], {}),
                (Arg((2, 3, 6, 4), 2), Arg((2, 3, 2, 4), 2), [np.array([4, 1])], {"axis": 2}),
                (Arg((2, 6, 4), 1), Arg((2, 2, 4), 1), [Arg((2,), None, "int64", 0, 4)], {}),
                (Arg((2, 6, 4), 1), numbers(2, 3, 4), [np.array([5, 2])], {"mode": "circular"}),
                (numbers(2, 4, 6), Arg((2, 4, 1)), [Arg((2,), None, "int64", 0, 5)], {"axis": -1}),
            )
        ),
        _sample("CenterCropPad", MAP, np.array([1, 3, 9, 2]), opset=18),
        _sample("CenterCropPad", MAP, np.array([3, 8]), opset=18, axes=[-2, -1]),
        _sample("Col2Im", Arg((2, 12, 20), 2), np.array([5, 6]), np.array([2, 2]), opset=18),
        _sample(
            "Col2Im",
            *(Arg((1, 18, 12), 2), np.array([7, 7]), np.array([3, 3])),
            opset=18,
            strides=[2, 2],
            pads=[1, 0, 1, 1],
        ),
        _sample(
            "Col2Im",
            *(Arg((1, 6, 9), 2), np.array([5, 5]), np.array([2, 3])),
            opset=18,
            dilations=[2, 1],
        ),
        *(
            _sample("AffineGrid", m, np.array(size), opset=20, align_corners=aligned)
            for m, size in ((matrices, [2, 3, 5, 4]), (Arg((1, 3, 4)), [1, 3, 3, 5, 4]))
            for aligned in (0, 1)
        ),
        *(
            _sample("Det", Arg((*many, n, n), 0), opset=11)
            for n in (1, 2, 3, 5)
            for many in ((), (4,))
        ),
        _sample("Det", Arg((2, 3, 4, 4), 1), opset=22),
        *(
            _sample("MaxRoiPool", x, regions, opset=8, pooled_shape=[2, 3], **more)
            for x, regions, more in (
                (
                    Arg((2, 3, 8, 9), 2),
                    np.array([[0, 0, 0, 8, 7], [1, 2, 3, 5, 4], [1, 6, 6, 14, 20]], np.float32),
                    {},
                ),
                (
                    Arg((1, 3, 8, 9), 2),
                    np.array([[0, 5, 1, 16, 12], [0, 3, 3, 3, 3], [0, -9, 0, -5, 4]], np.float32),
                    {"spatial_scale": 0.5},
                ),
            )
        ),
    ]


def _dynamic() -> list[Sample]:
    x, two, byte = Arg((2, 6, 8), 1), Arg((6, 8), 0), Arg((6, 8), 0, "uint8", 0, 255)
    rng = np.random.default_rng(3)

    def weights(*shape: int, dtype: str = "int8") -> np.ndarray:
        return rng.integers(-90, 90, shape).astype(dtype)

    scale, scales = np.array(0.01, np.float32), rng.uniform(0.005, 0.01, 5).astype(np.float32)
    zero = np.array(3, np.int8)
    lstm = []
    for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        own = weights(count, 8, 20), weights(count, 5, 20)
        bias = numbers(count, 40)
        of_w = np.full(count, 0.01, np.float32), np.zeros(count, np.int8)
        of_r, peepholes = of_w, None
        if direction == "reverse":
            own, peepholes = (own[0].view("u1"), own[1].view("u1")), numbers(1, 15)
            of_w = of_w[0], np.full(1, 120, "u1")
            of_r = rng.uniform(0.005, 0.01, (1, 20)).astype(np.float32), np.full((1, 20), 120, "u1")
        states = [Arg((count, 1, 5)), Arg((count, 1, 5))] if count == 1 else [None, None]
        lstm.append(
            _sample(
                "DynamicQuantizeLSTM",
                *(Arg((4, 1, 8), 0), *own, bias, None, *states, peepholes, *of_w, *of_r),
                outputs=3,
                direction=direction,
                hidden_size=5,
            )
        )
    return [
        *lstm,
        _sample("DequantizeLinear", byte, Arg((), None, low=0.1, high=0.2), np.array(9, np.uint8)),
        _sample("DequantizeLinear", byte, Arg((8,), None, low=0.1, high=0.2), axis=-1),
        _sample("DynamicQuantizeMatMul", two, weights(8, 5), scale),
        _sample("DynamicQuantizeMatMul", two, weights(8, 5), scales, np.zeros(5, np.int8)),
        _sample("DynamicQuantizeMatMul", x, weights(8, 5), scale, zero, numbers(5)),
        _sample(
            "MatMulIntegerToFloat",
            *(byte, weights(8, 5), scale, scales, np.array(9, np.uint8), np.zeros(5, np.int8)),
        ),
        _sample(
            "MatMulIntegerToFloat",
            *(byte, weights(8, 5), Arg((), None, low=0.1, high=0.2), scale, None, zero, numbers(5)),
        ),
    ]


def _tables() -> list[Sample]:
    x = Arg((3, 4), 0)
    nodes = {
        "nodes_falsenodeids": [2, 0, 0],
        "nodes_featureids": [1, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_nodeids": [0, 1, 2],
        "nodes_treeids": [0, 0, 0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_values": [0.25, 0.0, 0.0],
    }
    targets = {"ids": [0, 1], "nodeids": [1, 2], "treeids": [0, 0], "weights": [0.5, -1.5]}
    ensemble = {
        "leaf_targetids": [0, 1],
        "leaf_weights": onnx.numpy_helper.from_array(numbers(2)),
        "n_targets": 2,
        "nodes_falseleafs": [1],
        "nodes_falsenodeids": [1],
        "nodes_featureids": [2],
        "nodes_modes": onnx.numpy_helper.from_array(np.array([1], np.uint8)),
        "nodes_splits": onnx.numpy_helper.from_array(numbers(1)),
        "nodes_trueleafs": [1],
        "nodes_truenodeids": [0],
        "tree_roots": [0],
    }
    weights = numbers(8).tolist()
    own = {f"target_{k}": v for k, v in targets.items()}
    two = {f"class_{k}": [0, 0] if k == "ids" else v for k, v in targets.items()}
    labels = {"classlabels_int64s": [3, 5]}
    return [
        _sample("TreeEnsemble", x, **ensemble),
        _sample("TreeEnsembleRegressor", x, n_targets=2, **nodes, **own),
        _sample("TreeEnsembleClassifier", x, outputs=2, **nodes, **two, **labels),
        _sample("LinearRegressor", x, coefficients=weights, targets=2),
        _sample(
            "LinearClassifier",
            x,
            outputs=2,
            coefficients=weights,
            intercepts=[0.5, 0.25],
            classlabels_ints=[3, 5],
        ),
        _sample("Scaler", x, offset=weights[:4], scale=weights[4:]),
        _sample("Normalizer", x, norm="L2"),
        _sample("Imputer", x, imputed_value_floats=[1.0], replaced_value_float=0.0),
        _sample("Binarizer", x, threshold=0.5),
        _sample("ArrayFeatureExtractor", x, np.array([2, 0])),
        _sample("FeatureVectorizer", x, x, inputdimensions=[4, 4]),
    ]


WITHOUT_A_REFERENCE = frozenset(
    {
        *("BiasAdd", "BiasSplitGelu", "Constant", "GroupNorm", "Loop", "Scan", "SkipGroupNorm"),
        *("com.microsoft.SwiGLU", "csdfgen.Function", "ZipMap"),
    }
)
"""Operators that onnxruntime does not compute on a CPU, Constant, which has no operand, Loop and Scan, which have a body,
functions of the user, and ZipMap, which makes no tensor; they have tests of their own.
"""

SAMPLES: list[Sample] = [
    *_dynamic(),
    *_tables(),
    *_signals(),
    *_rearranged(),
    *_computed_weights(),
    *_sampled(),
    *_maxima(),
    *_attention(),
    *_heads_of_microsoft(),
    *_einsum(),
    *_matrices(),
    *_fused(),
    *_normalized(),
    *_packed(),
    *_rotary(),
]
