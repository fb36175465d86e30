"""In which formats is a layer to be timed, before anything is calibrated? In all that a choice of formats may
give it.

Times do not depend on values, so that scales are made up here. In "mixed" a layer reads int8 or int16, and makes
int8 or int16: the network in int8, in int16, and twice with both in turn, along the way from input to output,
have every layer of a chain in all four.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import onnx

from csdfgen.errors import InputError
from csdfgen.model.formats import ARITHMETIC, Format
from csdfgen.precision.bfloat16 import convert_to_halves
from csdfgen.precision.prepare import prepare_model
from csdfgen.precision.ranges import Range, choose_format
from csdfgen.precision.writer import (
    Skeleton,
    convert_to_int8,
    join_ranges,
    replace_formats,
    skeleton,
)
from csdfgen.reading.fronts import load_as_onnx


def variants(
    source: str | os.PathLike[str] | onnx.ModelProto, form: str
) -> Iterator[onnx.ModelProto]:
    """Models to be timed for a format of `csdfgen.quantize`: one, of "mixed" four. They compute nothing that
    means anything. Raises InputError, ModelError.
    """
    model = prepare_model(load_as_onnx(source)[0])
    if form in ARITHMETIC:
        yield convert_to_halves(model, form)
        return
    found = skeleton(model, convert_to_int8(model, {}))
    if not found.tensors:
        raise InputError("has no operator whose tensors could be integers")
    ranges = join_ranges(model, found, {name: _range(found, name) for name in found.leaders})
    narrow, wide = (
        {name: choose_format(one, dtype) for name, one in ranges.items()}
        for dtype in ("uint8", "int16")
    )
    written = convert_to_int8(model, narrow)
    if form in ("int8", "mixed"):
        yield written
    if form in ("int16", "mixed"):
        yield replace_formats(written, wide)
    if form == "mixed":
        depth = _depths(model, found)
        for turn in (0, 1):
            yield replace_formats(written, _in_turn(narrow, wide, depth, turn))


def _range(found: Skeleton, name: str) -> Range:
    """From -1 to 1, as far as a Relu or Clip leaves it."""
    low, high = found.bounds.get(name, (-1.0, 1.0))
    return max(low, -1.0), min(high, 1.0)


def _depths(model: onnx.ModelProto, found: Skeleton) -> dict[str, int]:
    """How many quantized tensors lead to each, along the longest way."""
    depth: dict[str, int] = {}
    for node in model.graph.node:
        before = max((depth.get(name, 0) for name in node.input), default=0)
        depth.update((name, before + (name in found.tensors)) for name in node.output)
    return {name: depth.get(name, 0) for name in found.leaders}


def _in_turn(
    narrow: Mapping[str, Format], wide: Mapping[str, Format], depth: Mapping[str, int], turn: int
) -> dict[str, Format]:
    return {name: wide[name] if depth[name] % 2 == turn else narrow[name] for name in narrow}
