"""How much does an instruction compute, and what does a device lose where one of its units computes all of it?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

from csdfgen.backends.native.structures import get_record
from csdfgen.program.instructions import Constants, Instruction

LAUNCH = 5e-6
"""Seconds of a launch. A frame on PoCL loses 3 to 6 us less for each launch that it does not have; drivers of GPUs take 5 to
10 us.
"""

_LANES = 16
"""Multiply-accumulates of a unit in a cycle where the device does not say it, with loads between them."""

_CLOCK = 5e8
"""Hz of a device that does not say it."""

_ITEMS = 256
"""Of a group that computes a series."""


@dataclass(frozen=True, slots=True)
class Load:
    """What an instruction is for a device. terms: multiply-accumulates, or elements. groups: of work items."""

    terms: float
    groups: int


@dataclass(frozen=True, slots=True)
class Units:
    """The units of a device, each of which computes a group at a time. count: of them. terms: that one computes in the time
    of a launch. items: of a group that computes a series.
    """

    count: int
    terms: float
    items: int

    @classmethod
    def of(cls, kind: str, count: int, clock: float, lanes: int, most: int) -> Units:
        """For a device of a kind. clock: Hz, 0 if it is not known. lanes: floats of a vector that it prefers. most: items of a
        group. A processor's group is computed by one thread, which needs no items beside each other.
        """
        clock = clock or _CLOCK
        if kind == "CPU":
            return cls(count, LAUNCH * clock * lanes, 1)
        return cls(count, LAUNCH * clock * max(lanes, _LANES), min(most, _ITEMS))

    def loss(self, loads: list[Load]) -> float:
        """How many launches longer one unit computes than those that would share the work."""
        terms, groups = sum(one.terms for one in loads), sum(one.groups for one in loads)
        return terms / self.terms * (1 - 1 / max(1, min(self.count, groups)))


Terms = Callable[[Any, Constants], float]


def _conv(step: Any, constants: Constants) -> float:
    (layer,) = constants.rows_of(step.layer)
    taps = layer.kernel_h * layer.kernel_w * (layer.in_channels // layer.groups)
    return step.out.count * step.out.columns * layer.out_channels * taps


def _pool(step: Any, constants: Constants) -> float:
    return step.count * step.columns * step.source.channels * step.kernel_h * step.kernel_w


def _map(step: Any, constants: Constants) -> float:
    return step.count * step.columns * step.channels


_TERMS: Mapping[str, Terms] = MappingProxyType(
    {
        **dict.fromkeys(("conv_of", "conv_bytes_of", "byte_winograd_of"), _conv),
        **dict.fromkeys(("depthwise_of", "depthwise_bytes_of"), _conv),
        "gemm_of": lambda step, _: step.count * step.channels * step.inputs,
        **dict.fromkeys(("map_of", "maps_of", "map_bytes_of"), _map),
        **dict.fromkeys(("pool_of", "pool_bytes_of", "average_bytes_of"), _pool),
        "sum_bytes_of": lambda step, _: step.count * step.width * step.source.channels,
        "normalize_of": lambda step, _: 3 * step.count * step.lines * step.size,
        "attention_of": lambda step, _: step.groups * step.count * step.keys * (step.channels + step.values),
        "contract_of": lambda step, _: step.count * step.groups * step.height * step.width,
        "multiply_of": lambda step, _: step.groups * step.count * step.depth * step.columns,
    }
)  # fmt: skip


def count_terms(one: Instruction, constants: Constants) -> float:
    """Multiply-accumulates, or elements, of an instruction of a family or on arrays with strides."""
    step, known = get_record(one), _TERMS.get(one.kernel)
    if known is not None:
        return known(step, constants)
    dims = constants.rows_of(step.dims)[: step.rank] if step.rank else ()
    return max(1, step.count) * prod(int(dim[0]) for dim in dims)
