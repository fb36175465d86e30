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

from csdfgen.emission.board import FOLDER
from csdfgen.emission.names import comment
from csdfgen.emission.source import Unit
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


def inputs_of(tensor: Tensor) -> np.ndarray:
    """The values of an input: between -1 and 1 for floats, else zeros."""
    count = prod(tensor.shape)
    if tensor.dtype not in ("float32", "float64"):
        return np.zeros(tensor.shape, tensor.dtype)
    numbers = (np.arange(count, dtype=np.uint64) * _STEP) % 2**32 // 2**16
    values = numbers.astype(np.float32) / np.float32(32768) - np.float32(1)
    return values.reshape(tensor.shape).astype(tensor.dtype)


def expected_of(
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
    yield "#ifndef NAME_TIMES_H".replace("NAME", unit.macro)
    yield "#define NAME_TIMES_H".replace("NAME", unit.macro)
    yield ""
    yield f'#include "{unit.name}.h"'
    yield '#include "times.h"'
    yield ""
    yield "/* The arena of the plan that runs. */"
    yield "typedef union times_arena {"
    yield f"    unsigned char bytes[{max(64, most)}];"
    yield "    float floats[1];"
    yield "    double doubles[1];"
    yield "    int64_t integers[1];"
    yield "} times_arena;"
    yield ""
    yield f"extern times_arena {unit.name}_times_arena;"
    yield ""
    for one in plans:
        yield f"{one.unit.called()};"
    yield ""
    yield "#endif"


def source(
    unit: Unit,
    plans: Sequence[Timed],
    about: Mapping[str, Any],
    expected: Mapping[str, tuple[int, list[float]]],
) -> Iterator[str]:
    """NAME_times.c: arrays, plans with their descriptions, and the expected outputs."""
    name = unit.name
    yield f"/* What is timed of {comment(unit.title)}. */"
    yield f'#include "{name}_times.h"'
    yield ""
    yield "#include <stddef.h>"
    yield ""
    yield "#ifdef __GNUC__"
    yield "__attribute__((aligned(64)))"
    yield "#endif"
    yield f"times_arena {name}_times_arena;"
    yield ""
    yield "static struct {"
    yield from unit.members()
    yield "} data;"
    yield ""
    yield "void times_inputs(void)"
    yield "{"
    for word, kind in unit.arrays()[: len(unit.inputs)]:
        value = "0"
        if kind in ("float", "double"):
            value = f"({kind})((float)((uint32_t)k * {_STEP}u >> 16) / 32768.0f - 1.0f)"
        yield f"    for (size_t k = 0; k < {unit.size(word)}; k++)"
        yield f"        data.{word}[k] = {value};"
    yield "}"
    yield ""
    yield from _compared(expected, dict(unit.arrays()))
    arguments = [unit.passed()] if unit.arrays() else []
    for number, one in enumerate(plans):
        yield f"static void frame_{number}(uint64_t *ticks)"
        yield "{"
        yield f"    {one.unit.name}_timed({', '.join([*arguments, 'ticks'])});"
        yield "}"
        yield ""
        yield from _strings(
            f"about_{number}", f"static const char *const about_{number}[]", one.about
        )
    yield from _strings("times_about", "const char *const times_about[]", about)
    yield f"uint64_t times_ticks[{max(len(one.unit.actors) for one in plans)}];"
    yield ""
    yield f"const int32_t times_plan_count = {len(plans)};"
    yield f"const times_plan times_plans[{len(plans)}] = {{"
    for number, one in enumerate(plans):
        yield f"    {{frame_{number}, about_{number}, {len(one.unit.actors)}}},"
    yield "};"


def _strings(name: str, declaration: str, about: Mapping[str, Any]) -> Iterator[str]:
    """The members of a JSON object, cut into string literals."""
    text = json.dumps(about, ensure_ascii=True)[1:-1]
    yield f"{declaration} = {{"
    for at in range(0, len(text), _PIECE):
        piece = text[at : at + _PIECE].replace("\\", "\\\\").replace('"', '\\"')
        yield f'    "{piece.replace("?", chr(92) + "?")}",'
    yield "    NULL,"
    yield "};"
    yield ""


def _compared(
    expected: Mapping[str, tuple[int, list[float]]], kinds: Mapping[str, str]
) -> Iterator[str]:
    """times_difference: the largest difference from the expected outputs."""
    yield "static double distance(double a, double b)"
    yield "{"
    yield "    return a < b ? b - a : a - b;"
    yield "}"
    yield ""
    yield "uint64_t times_difference(void)"
    yield "{"
    yield "    double most = distance(0, 0);"
    for word, (step, values) in expected.items():
        largest = max(map(abs, values), default=0.0) or 1.0
        yield "    {"
        yield f"        static const {kinds[word]} wanted[{len(values)}] = {{"
        suffix = "f" if kinds[word] == "float" else ""
        for at in range(0, len(values), 4):
            yield f"            {', '.join(f'{v:.9e}{suffix}' for v in values[at : at + 4])},"
        yield "        };"
        yield f"        for (size_t k = 0; k < {len(values)}; k++) {{"
        yield f"            const double here = distance((double)data.{word}[k * {step}], (double)wanted[k]) / {largest:.9e};"
        yield "            most = here <= most ? most : here;"
        yield "            if (!(here < 4e9))"
        yield "                return 4000000000u;"
        yield "        }"
        yield "    }"
    yield "    return most < 4e3 ? (uint64_t)(1e6 * most + 0.5) : 4000000000u;"
    yield "}"
    yield ""
