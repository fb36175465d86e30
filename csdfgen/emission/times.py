"""C that times plans on a board without Python: plans of one network with different slab heights, actor by actor.

The plans share their constants, an arena, and an array for each input and output. `c/times.c` executes them and writes the
result; this module writes the tables that describe the network to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from csdfgen.backends.native.template import fill_template
from csdfgen.emission.board import FOLDER
from csdfgen.emission.source import TEXT, Unit
from csdfgen.model.network import Tensor

FILES = (FOLDER / "times.c", FOLDER / "times.h")
"""Files that are copied unchanged."""

SAMPLES = 32
"""Values of an output that are compared."""

_PIECE = 400
"""Characters of a string literal; a compiler of C must accept 4095."""

_STEP = 2654435761
"""Inputs are the upper 16 bits of its multiples modulo 2^32, so that neighbours differ much."""


@dataclass(frozen=True, eq=False)
class Timed:
    """A plan that is timed. about: values that are copied to the result, among them a list with one entry for each actor, in
    the order of `unit.actors`.
    """

    unit: Unit
    about: Mapping[str, Any]


def make_inputs(tensor: Tensor) -> np.ndarray:
    """The values of an input: between -1 and 1 for floats, any integers of 8 bits and signed ones of 16, else zeros."""
    count = prod(tensor.shape)
    if tensor.dtype in ("int8", "uint8", "int16"):
        width = np.dtype(tensor.dtype).itemsize
        words = (np.arange(count, dtype=np.uint64) * _STEP) % 2**32 >> np.uint64(32 - 8 * width)
        return words.astype(f"u{width}").view(tensor.dtype).reshape(tensor.shape)
    if tensor.dtype not in ("float32", "float64"):
        return np.zeros(tensor.shape, tensor.dtype)
    numbers = (np.arange(count, dtype=np.uint64) * _STEP) % 2**32 // 2**16
    values = numbers.astype(np.float32) / np.float32(32768) - np.float32(1)
    return values.reshape(tensor.shape).astype(tensor.dtype)


def sample_expected(
    unit: Unit, outputs: Mapping[str, np.ndarray]
) -> dict[str, tuple[int, list[float]]]:
    """Output of floats, by its name in C -> (stride of the values that are compared, these values)."""
    found = {}
    for word, kind, name in unit.results():
        if kind in ("float", "double") and name not in unit.constants:
            flat = outputs[name].ravel()
            step = max(1, -(-flat.size // SAMPLES))
            values = [float(value) for value in flat[::step]]
            if np.isfinite(values).all():
                found[word] = step, values
    return found


def header(unit: Unit, plans: Sequence[Timed]) -> Iterator[str]:
    """NAME_times.h: the declarations that the plans of a network share."""
    most = max(one.unit.plan.planned_bytes for one in plans)
    called = [{"called": one.unit.called()} for one in plans]
    return fill_template(TEXT / "net_times.h", **unit.words, bytes=max(64, most), plans=called)


def source(
    unit: Unit,
    plans: Sequence[Timed],
    about: Mapping[str, Any],
    expected: Mapping[str, tuple[int, list[float]]],
) -> Iterator[str]:
    """NAME_times.c: arrays, plans with their descriptions, and the expected outputs."""
    kinds = dict(unit.arrays())
    arguments = ", ".join([*([unit.passed()] if kinds else []), "ticks"])
    return fill_template(
        TEXT / "net_times.c",
        **unit.words,
        members=unit.members(),
        inputs=list_inputs(unit),
        expected=[_compared(word, kinds[word], *one) for word, one in expected.items()],
        plans=[
            {
                "number": number,
                "timed": one.unit.name,
                "arguments": arguments,
                "about": _strings(one.about),
                "actors": len(one.unit.actors),
            }
            for number, one in enumerate(plans)
        ],
        about=_strings(about),
        plan_count=len(plans),
        most_actors=max(len(one.unit.actors) for one in plans),
    )


def list_inputs(unit: Unit) -> list[dict[str, str]]:
    """The inputs as templates fill them, with the values of `make_inputs`."""
    kinds = dict(unit.arrays())
    return [
        {"word": one.word, "size": unit.size(one.word), "value": _value(kinds[one.word])}
        for one in unit.inputs
    ]


def _value(kind: str) -> str:
    """What an input of that type has at k."""
    if kind in ("int8_t", "uint8_t", "int16_t"):
        return f"({kind})((uint32_t)k * {_STEP}u >> {16 if kind == 'int16_t' else 24})"
    if kind not in ("float", "double"):
        return "0"
    return f"({kind})((float)((uint32_t)k * {_STEP}u >> 16) / 32768.0f - 1.0f)"


def _strings(about: Mapping[str, Any]) -> list[str]:
    """The members of a JSON object, cut into string literals."""
    text, found = json.dumps(about, ensure_ascii=True)[1:-1], []
    for at in range(0, len(text), _PIECE):
        piece = text[at : at + _PIECE].replace("\\", "\\\\").replace('"', '\\"')
        found.append(f'"{piece.replace("?", chr(92) + "?")}",')
    return found


def _compared(word: str, kind: str, step: int, values: Sequence[float]) -> dict[str, Any]:
    """An output whose largest difference from the expected values is found. step: from one of them to the next."""
    texts = [f"{value:.9e}{'f' if kind == 'float' else ''}" for value in values]
    return {
        "word": word,
        "type": kind,
        "count": len(values),
        "step": step,
        "largest": f"{max(map(abs, values), default=0.0) or 1.0:.9e}",
        "values": [f"{', '.join(texts[at : at + 4])}," for at in range(0, len(texts), 4)],
    }
