"""Samples of LSTM, GRU and RNN."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_harness import Arg, Sample

STEPS, BATCH, VALUES, HIDDEN = 7, 2, 5, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
X = Arg((STEPS, BATCH, VALUES), 0)
STATE = Arg((1, BATCH, HIDDEN))


def _weights(
    op_type: str, seed: int = 3, hidden: int = HIDDEN, values: int = VALUES
) -> tuple[np.ndarray, ...]:
    """W, R and B of one direction."""
    rng, rows = np.random.default_rng(seed), GATES[op_type] * hidden
    shapes = (1, rows, values), (1, rows, hidden), (1, 2 * rows)
    w, r, b = (rng.uniform(-0.6, 0.6, shape).astype(np.float32) for shape in shapes)
    return w, r, b


def _sample(
    op_type: str,
    x: Arg = X,
    more: tuple[Any, ...] = (),
    *,
    hidden: int = HIDDEN,
    opset: int = 14,
    label: str = "",
    hides_nan: str = "",
    **attributes: Any,
) -> Sample:
    count = 3 if op_type == "LSTM" else 2
    weights = _weights(op_type, hidden=hidden, values=x.shape[-1])
    return Sample(
        op_type,
        (x, *weights, *more),
        {"hidden_size": hidden, **attributes},
        opset,
        count,
        label=label,
        hides_nan=hides_nan,
    )


def _of_kind(op_type: str) -> list[Sample]:
    lengths = np.array([3, STEPS], np.int32)
    known = np.full((1, BATCH, HIDDEN), 0.3, np.float32)
    states = (STATE, STATE) if op_type == "LSTM" else (STATE,)
    return [
        _sample(op_type),
        _sample(op_type, Arg(X.shape), (None, known), label="whole"),
        _sample(op_type, Arg((9, 1, 16), 0), hidden=20, opset=7, label="one"),
        _sample(op_type, X, (None, *states), label="states"),
        _sample(op_type, X, (lengths, known), label="lengths"),
        _sample(
            op_type,
            X,
            (Arg((BATCH,), None, "int32", 1, STEPS),),
            label="computed",
            hides_nan="sequences end before",
        ),
        _sample(op_type, X, (None, *states), direction="reverse"),
        _sample(op_type, X, (lengths, *states), direction="reverse", label="lengths"),
        _sample(op_type, clip=0.4),
    ]


PEEPHOLES = np.random.default_rng(4).uniform(-0.5, 0.5, (1, 3 * HIDDEN)).astype(np.float32)

SAMPLES = [
    *(sample for op_type in GATES for sample in _of_kind(op_type)),
    _sample("LSTM", X, (None, STATE, STATE, PEEPHOLES), label="peepholes"),
    _sample("LSTM", X, (None, None, None, PEEPHOLES), label="peepholes", clip=0.5, input_forget=1),
    _sample("LSTM", activations=["HardSigmoid", "Softsign", "Relu"], activation_alpha=[0.3]),
    _sample(
        "LSTM",
        activations=["Sigmoid", "LeakyRelu", "ScaledTanh"],
        activation_alpha=[0.2, 0.7],
        activation_beta=[0.9],
    ),
    _sample("GRU", linear_before_reset=1),
    _sample("GRU", X, (None, STATE), linear_before_reset=1, clip=0.5, label="states"),
    _sample(
        "GRU", activations=["Affine", "Elu"], activation_alpha=[0.4, 0.9], activation_beta=[0.2]
    ),
    _sample("GRU", activations=["Sigmoid", "Softplus"]),
    _sample("RNN", activations=["ThresholdedRelu"], activation_alpha=[0.3], hides_nan="compared"),
    _sample("RNN", activations=["Relu"]),
]
