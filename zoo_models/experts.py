"""Which mixture of experts does the OpenCL Caffe paper of 2018 train? A trunk, a gate, and sixteen experts
of which four see a sample.

Source: the layer lists of its appendix. It is no part of the zoo: the paper picks four experts by sorting
the gate's numbers, sample by sample; here all sixteen run and every one has its share, which is how the
paper's own large GPUs are timed, and what its parameters and its memory are counted with.
"""

from __future__ import annotations

import onnx

from zoo_models._builder import Builder, Value

__all__ = ["CHOSEN", "EXPERTS", "expert", "gate", "mixture"]

EXPERTS = 16
CHOSEN = 4
"""Experts, and how many of them see a sample."""

_SIZE = 227
_MAP = (48, 27, 27)
"""What the trunk gives gate and experts."""


def mixture(*, seed: int = 0, weights: bool = True) -> onnx.ModelProto:
    """The whole network at 227x227, with all experts."""
    b = Builder("imagenet_moe", seed=seed, weights=weights)
    x = b.input(3, _SIZE, _SIZE)
    x = b.lrn(b.max_pool(b.relu(b.conv(x, _MAP[0], 11, stride=4)), 3, 2))
    with b.scope("gate"):
        shares = b.split(b.softmax(_gate(b, x)), EXPERTS)
    parts = []
    for number, share in enumerate(shares):
        with b.scope(f"expert{number}"):
            parts.append(b.gate(_expert(b, x), share))
    total = parts[0]
    for part in parts[1:]:
        total = b.add(total, part)
    return b.model(b.softmax(b.gemm(b.dropout(b.relu(total)), 1000)))


def gate(*, seed: int = 0, weights: bool = True) -> onnx.ModelProto:
    """The gate alone, on the trunk's map: one number an expert."""
    b = Builder("imagenet_moe_gate", seed=seed, weights=weights)
    return b.model(_gate(b, b.input(*_MAP, name="map")))


def expert(*, seed: int = 0, weights: bool = True) -> onnx.ModelProto:
    """One expert alone, on the trunk's map."""
    b = Builder("imagenet_moe_expert", seed=seed, weights=weights)
    return b.model(_expert(b, b.input(*_MAP, name="map")))


def _first(b: Builder, x: Value) -> Value:
    return b.lrn(b.max_pool(b.relu(b.conv(x, 64, 5, padding=2, group=2)), 3, 2))


def _gate(b: Builder, x: Value) -> Value:
    return b.gemm(b.relu(b.gemm(b.rows_of(_first(b, x)), 128)), EXPERTS)


def _expert(b: Builder, x: Value) -> Value:
    x = _first(b, x)
    for channels, group in ((96, 1), (96, 2), (64, 2)):
        x = b.relu(b.conv(x, channels, 3, padding=1, group=group))
    x = b.rows_of(b.max_pool(x, 3, 2))
    return b.gemm(b.dropout(b.relu(b.gemm(x, 1024))), 2048)
