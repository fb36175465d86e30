"""Samples of the normalization family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.op_harness import Arg, Sample

NCHW = Arg((1, 6, 5, 4), 2)
PAIR = Arg((2, 6, 5, 4), 2)
NHWC = Arg((2, 5, 4, 6), 1)
NCL = Arg((2, 6, 5), 2)
NCDHW = Arg((1, 4, 3, 2, 3), 2)
PLAIN = Arg((2, 3, 4))
TABLE = Arg((2, 7))


def _values(
    seed: int, *shape: int, dtype: str = "float32", low: float = 0.5, high: float = 1.5
) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def _with(
    op_type: str,
    arg: Arg,
    parameters: Sequence[np.ndarray | Arg],
    opset: int,
    label: str = "",
    **attributes: Any,
) -> Sample:
    return Sample(op_type, (arg, *parameters), attributes, opset, label=label)


def _constants(count: int, *shape: int, dtype: str = "float32") -> list[np.ndarray]:
    return [_values(seed, *shape, dtype=dtype) for seed in range(count)]


def _computed(count: int, *shape: int, dtype: str = "float32") -> list[Arg]:
    return [Arg(shape, None, dtype, 0.5, 1.5) for _ in range(count)]


BATCH = [
    _with("BatchNormalization", NCHW, _constants(4, 6), 7),
    _with("BatchNormalization", PAIR, _constants(4, 6), 9, epsilon=0.1, momentum=0.5),
    _with("BatchNormalization", NHWC, _constants(4, 5), 14, label="channels-are-rows-"),
    _with("BatchNormalization", NCL, _constants(4, 6), 15),
    _with("BatchNormalization", NCDHW, _constants(4, 4), 15),
    _with("BatchNormalization", PLAIN, _constants(4, 3), 15),
    _with("BatchNormalization", TABLE, _constants(4, 7), 15),
    _with("BatchNormalization", TABLE, _constants(4, 7), 7, spatial=0),
    _with("BatchNormalization", Arg((5,)), _constants(4, 1), 15),
    _with("BatchNormalization", Arg((1, 3, 1, 1), 2), _constants(4, 3), 15),
    _with("BatchNormalization", NCHW, _computed(4, 6), 15, label="computed-"),
    _with("BatchNormalization", NHWC, _computed(4, 5), 15, label="computed-"),
    _with(
        "BatchNormalization",
        NCHW,
        [*_constants(2, 6), *_computed(2, 6)],
        15,
        label="half-computed-",
    ),
    _with(
        "BatchNormalization", Arg((1, 6, 5, 4), 2, "float64"), _constants(4, 6, dtype="float64"), 15
    ),
    _with(
        "BatchNormalization", Arg((1, 6, 5, 4), 2, "float16"), _constants(4, 6, dtype="float16"), 14
    ),
    _with("BatchNormalization", Arg((1, 6, 5, 4), 2, "float16"), _constants(4, 6), 15),
]

LOCAL = [
    _with("LRN", arg, (), 13, label=label, size=size, **settings)
    for arg, size, settings, label in (
        (NCHW, 5, {}, ""),
        (NCHW, 3, {"alpha": 0.5, "beta": 0.75, "bias": 2.0}, ""),
        (NCHW, 3, {"alpha": 0.5, "beta": 0.6}, ""),
        (NCHW, 1, {"alpha": 0.5}, ""),
        (NCHW, 21, {"alpha": 0.5}, "wider-than-channels-"),
        (PAIR, 5, {"alpha": 0.5}, ""),
        (Arg((2, 3, 5, 4)), 3, {"alpha": 0.5}, "no-rows-"),
        (NHWC, 3, {"alpha": 0.5}, "channels-are-rows-"),
        (Arg((1, 1, 1, 1), 2), 5, {"alpha": 0.5}, ""),
        (Arg((1, 6, 5, 4), 2, "float16"), 5, {"alpha": 0.5}, ""),
        # onnxruntime has no float64 kernel, and onnx's reference takes the batch's size for the
        # number of channels.
        (Arg((6, 6, 3, 2), 2, "float64"), 5, {"alpha": 0.5}, ""),
    )
]

WHOLE_MAPS = [
    _with("InstanceNormalization", NCHW, _constants(2, 6), 7),
    _with("InstanceNormalization", PAIR, _constants(2, 6), 22, epsilon=0.1),
    _with("InstanceNormalization", NCL, _computed(2, 6), 7),
    _with("InstanceNormalization", NCDHW, _constants(2, 4), 7),
    _with("InstanceNormalization", PLAIN, _constants(2, 3), 7),
    _with("InstanceNormalization", Arg((1, 3, 1, 1), 2), _constants(2, 3), 7),
    _with(
        "InstanceNormalization",
        Arg((1, 6, 5, 4), 2, "float16"),
        _constants(2, 6, dtype="float16"),
        7,
    ),
    *(
        _with(
            "GroupNormalization",
            arg,
            make(2, arg.shape[1] if opset > 18 else groups),
            opset,
            num_groups=groups,
        )
        for arg, groups in (
            (NCHW, 3),
            (PAIR, 2),
            (NCL, 6),
            (NCDHW, 1),
            (PLAIN, 3),
            (Arg((1, 6, 5, 4), 1), 2),
        )
        for opset, make in ((18, _constants), (21, _constants), (21, _computed))
    ),
    _with(
        "GroupNormalization",
        Arg((1, 6, 5, 4), 2, "float16"),
        _constants(2, 6, dtype="float16"),
        21,
        num_groups=2,
        epsilon=0.1,
    ),
    *(
        _with("MeanVarianceNormalization", arg, (), opset, **settings)
        for arg, opset, settings in (
            (NCHW, 9, {}),
            (PAIR, 13, {}),
            (NCHW, 13, {"axes": [1]}),
            (NHWC, 13, {"axes": [-1, 2]}),
            (PLAIN, 13, {"axes": [0, 1, 2]}),
        )
    ),
]

BY_AXES = [
    *(
        _with(op_type, arg, make(operands, *arg.shape[axis % len(arg.shape) :]), opset, axis=axis)
        for op_type, operands, opset in (
            ("LayerNormalization", 1, 17),
            ("LayerNormalization", 2, 17),
            ("RMSNormalization", 1, 23),
        )
        for arg, axis, make in (
            (NHWC, -1, _constants),
            (NHWC, 2, _constants),
            (NHWC, 1, _constants),
            (NHWC, 3, _computed),
            (NCHW, -1, _constants),
            (NCHW, 1, _constants),
            (PLAIN, 2, _constants),
            (PLAIN, 0, _computed),
            (TABLE, -1, _constants),
        )
    ),
    _with("LayerNormalization", NHWC, _constants(2, 6), 17, epsilon=0.1, stash_type=1),
    _with("LayerNormalization", NHWC, _constants(2, 1), 17, axis=2),
    *(
        Sample(
            "LayerNormalization",
            (arg, *_constants(2, *arg.shape[axis:])),
            {"axis": axis},
            17,
            outputs=outputs,
            label="statistics-",
        )
        for arg, axis in ((NHWC, -1), (NHWC, -2), (NHWC, -3), (NCHW, -1), (NCHW, -3), (PLAIN, -1))
        for outputs in (2, 3)
    ),
    _with(
        "LayerNormalization", Arg((1, 5, 4, 6), 1, "float16"), _constants(2, 6, dtype="float16"), 17
    ),
    _with(
        "LayerNormalization", Arg((1, 5, 4, 6), 1, "float64"), _constants(2, 6, dtype="float64"), 17
    ),
    *(
        _with("LpNormalization", arg, (), opset, p=p, axis=axis)
        for p in (1, 2)
        for arg, axis, opset in (
            (NCHW, 1, 7),
            (NCHW, 2, 22),
            (NHWC, -1, 7),
            (PLAIN, 0, 7),
            (Arg((1, 4, 3, 2), 2, low=0, high=0), 1, 7),
        )
    ),
    *(
        _with(op_type, arg, (), opset, **settings)
        for op_type in ("Softmax", "LogSoftmax")
        for arg, opset, settings in (
            (NCHW, 13, {"axis": 1}),
            (NCHW, 13, {}),
            (NCHW, 13, {"axis": 2}),
            (NCHW, 11, {}),
            (NCHW, 11, {"axis": 3}),
            (NCHW, 7, {"axis": 2}),
            (PAIR, 11, {"axis": 0}),
            (NHWC, 13, {"axis": -1}),
            (NHWC, 11, {"axis": -1}),
            (NCL, 13, {"axis": 1}),
            (PLAIN, 13, {"axis": 1}),
            (PLAIN, 11, {}),
            (TABLE, 13, {}),
            (TABLE, 7, {}),
            (Arg((1, 8, 1, 1), 2), 11, {}),
            (Arg((1, 8, 1, 1), 2), 13, {"axis": 2}),
            (Arg((1, 5, 4, 3), 2, low=-500, high=500), 13, {"axis": 1}),
            (Arg((1, 5, 4, 3), 2, "float16"), 13, {"axis": 1}),
            (Arg((1, 5, 4, 3), 2, "float64"), 13, {"axis": 1}),
        )
    ),
]

SAMPLES: list[Sample] = [*BATCH, *LOCAL, *WHOLE_MAPS, *BY_AXES]
