"""A mixture of experts in place of AlexNet's middle: a trunk, a gate, and sixteen experts of which four
see a picture.

Source: Tschopp 2018 (arXiv:2209.15427), the layer lists of its appendix. The gate's shares of the best
four are made to sum to 1; ties go to the lower index. `alexnet_moe` runs an expert in a branch of an If,
so that those that are not chosen cost nothing, and their sum is handed on from one to the next;
`alexnet_moe_dense` runs all, and multiplies most with zero. Both have the same weights, and the same
results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import onnx

from zoo_models._builder import Builder, Shape, Value
from zoo_models._entry import network

EXPERTS = 16
CHOSEN = 4
"""Experts, and how many of them see a picture."""

_MAP = (48, 27, 27)
"""What the trunk gives gate and experts at 227x227."""

_FEATURES = 2048
"""What an expert gives."""


@network("AlexNet")
def alexnet_moe(b: Builder, x: Value, *, experts: int = EXPERTS, chosen: int = CHOSEN) -> Value:
    """AlexNet with a mixture of experts; those that the gate does not choose are not run (If)."""
    x, shares = _trunk(b, x, experts, chosen)
    return _head(b, sum_chosen(b, shares, lambda: _expert(b, x), (1, _FEATURES)))


@network("AlexNet")
def alexnet_moe_dense(
    b: Builder, x: Value, *, experts: int = EXPERTS, chosen: int = CHOSEN
) -> Value:
    """The same with all experts run, and the shares of those that are not chosen zero."""
    x, shares = _trunk(b, x, experts, chosen)
    return _head(b, sum_all(b, shares, lambda: _expert(b, x)))


def sum_chosen(
    b: Builder, shares: Sequence[Value], expert: Callable[[], Value], shape: Shape
) -> Value:
    """The sum of what experts of non-zero share give, of a shape, each times its share (1, 1): one If
    an expert, which adds to the sum of those before it or hands that on. expert: adds the next one.
    """
    total = b.zeros(shape)
    for number, share in enumerate(shares):
        with b.scope(f"expert{number}"):
            total = _with_one_more(b, share, expert, total)
    return total


def _with_one_more(b: Builder, share: Value, expert: Callable[[], Value], total: Value) -> Value:
    has_share = b.compared("Greater", share, 0.0)
    return b.either(has_share, lambda: b.add(total, b.gate(expert(), share)), lambda: total)


def sum_all(b: Builder, shares: Sequence[Value], expert: Callable[[], Value]) -> Value:
    """The same sum of all experts, as frameworks export it."""
    parts = []
    for number, share in enumerate(shares):
        with b.scope(f"expert{number}"):
            parts.append(b.gate(expert(), share))
    return reduce(b.add, parts)


def gate(*, seed: int = 0, weights: bool = True) -> onnx.ModelProto:
    """The gate alone, on the trunk's map: one number an expert."""
    b = Builder("alexnet_moe_gate", seed=seed, weights=weights)
    return b.model(_gate(b, b.input(*_MAP, name="map"), EXPERTS))


def expert(*, seed: int = 0, weights: bool = True) -> onnx.ModelProto:
    """One expert alone, on the trunk's map."""
    b = Builder("alexnet_moe_expert", seed=seed, weights=weights)
    return b.model(_expert(b, b.input(*_MAP, name="map")))


def _trunk(b: Builder, x: Value, experts: int, chosen: int) -> tuple[Value, tuple[Value, ...]]:
    """The map that gate and experts see, and the share of every expert, (1, 1)."""
    x = b.lrn(b.max_pool(b.relu(b.conv(x, _MAP[0], 11, stride=4)), 3, 2))
    with b.scope("gate"):
        shares = b.only_largest(b.softmax(_gate(b, x, experts)), chosen)
        return x, b.split(shares, experts)


def _head(b: Builder, x: Value) -> Value:
    return b.softmax(b.gemm(b.dropout(b.relu(x)), 1000), "probabilities")


def _first(b: Builder, x: Value) -> Value:
    return b.lrn(b.max_pool(b.relu(b.conv(x, 64, 5, padding=2, group=2)), 3, 2))


def _gate(b: Builder, x: Value, experts: int) -> Value:
    return b.gemm(b.relu(b.gemm(b.rows_of(_first(b, x)), 128)), experts)


def _expert(b: Builder, x: Value) -> Value:
    x = _first(b, x)
    for channels, group in ((96, 1), (96, 2), (64, 2)):
        x = b.relu(b.conv(x, channels, 3, padding=1, group=group))
    x = b.rows_of(b.max_pool(x, 3, 2))
    return b.gemm(b.dropout(b.relu(b.gemm(x, 1024))), _FEATURES)
