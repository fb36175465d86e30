"""How many work items has a kernel of a family? As many as its blocks, along two axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from csdfgen.backends.native.structures import PANEL, record_of
from csdfgen.program.instructions import Constants, Instruction

__all__ = ["FILES", "Blocks", "items_of"]

Items = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Blocks:
    """What a work item of a family computes at a time, and how many are a group. lanes: channels of a vector, a divisor of
    `PANEL`. pixels: beside each other. span: elements of a line of arrays. local: items of a group along both axes.
    """

    lanes: int = 4
    pixels: int = 4
    span: int = 1
    local: tuple[int, int] = (16, 4)

    @classmethod
    def of(cls, kind: str, lanes: int) -> Blocks:
        """For a device of a kind that prefers vectors of so many floats: processors keep wide blocks in their registers,
        others get their speed from many items.
        """
        return cls(min(PANEL, lanes), 8, 64, (8, 1)) if kind == "CPU" else cls()

    def vectors(self, channels: int) -> int:
        """Vectors that have so many channels."""
        return -(-channels // self.lanes)

    def strips(self, pixels: int) -> int:
        """Blocks that have so many pixels."""
        return -(-pixels // self.pixels)


def _conv(step: Any, constants: Constants, blocks: Blocks) -> Items:
    (layer,) = constants.rows_of(step.layer)
    panels = -(-(layer.out_channels // layer.groups) // PANEL)
    pixels = step.out.count * step.out.columns
    return layer.groups * panels * (PANEL // blocks.lanes), blocks.strips(pixels)


def _depthwise(step: Any, constants: Constants, blocks: Blocks) -> Items:
    (layer,) = constants.rows_of(step.layer)
    return blocks.vectors(layer.out_channels), step.out.count * blocks.strips(step.out.columns)


def _gemm(step: Any, constants: Constants, blocks: Blocks) -> Items:
    return blocks.vectors(step.channels), blocks.strips(step.count)


def _map(step: Any, constants: Constants, blocks: Blocks) -> Items:
    return step.columns * blocks.vectors(step.channels), step.count


def _pool(step: Any, constants: Constants, blocks: Blocks) -> Items:
    return blocks.vectors(step.source.channels), step.count * step.columns


def _normalize(step: Any, constants: Constants, blocks: Blocks) -> Items:
    return step.count * step.lines, 1


def _attention(step: Any, constants: Constants, blocks: Blocks) -> Items:
    return step.count, step.groups


def _contract(step: Any, constants: Constants, blocks: Blocks) -> Items:
    return step.groups * step.height * step.width, 1


def _depthwise_bytes(step: Any, constants: Constants, blocks: Blocks) -> Items:
    (layer,) = constants.rows_of(step.layer)
    return blocks.vectors(layer.out_channels), step.out.count * step.out.columns


def _sum_bytes(step: Any, constants: Constants, blocks: Blocks) -> Items:
    return blocks.vectors(step.source.channels), 1


def _multiply(step: Any, constants: Constants, blocks: Blocks) -> Items:
    return step.columns, step.groups * step.count


_SHAPES: Mapping[str, tuple[str, Callable[[Any, Constants, Blocks], Items]]] = MappingProxyType(
    {
        "conv_of": ("conv.cl", _conv),
        "depthwise_of": ("depthwise.cl", _depthwise),
        "gemm_of": ("gemm.cl", _gemm),
        "map_of": ("map.cl", _map),
        "maps_of": ("map.cl", _map),
        "pool_of": ("pool.cl", _pool),
        "normalize_of": ("normalize.cl", _normalize),
        "attention_of": ("attention.cl", _attention),
        "contract_of": ("contract.cl", _contract),
        "conv_bytes_of": ("conv_bytes.cl", _conv),
        "depthwise_bytes_of": ("depthwise_bytes.cl", _depthwise_bytes),
        "map_bytes_of": ("map_bytes.cl", _map),
        "pool_bytes_of": ("pool_bytes.cl", _pool),
        "average_bytes_of": ("average_bytes.cl", _pool),
        "sum_bytes_of": ("sum_bytes.cl", _sum_bytes),
        "multiply_of": ("multiply.cl", _multiply),
    }
)

FILES = MappingProxyType({kernel: file for kernel, (file, _) in _SHAPES.items()})
"""Kernel of a family -> its file in `text`."""


def items_of(one: Instruction, constants: Constants, blocks: Blocks) -> Items:
    """Work items of an instruction. Raises KeyError for a kernel that no family of the device has."""
    return _SHAPES[one.kernel][1](record_of(one), constants, blocks)
