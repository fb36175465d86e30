"""The structures of the kernels are what the compiler makes of their headers."""

from __future__ import annotations

import ctypes
import re

import pytest

from csdfgen.backends.native.build import SOURCES, build
from csdfgen.backends.native.library import load
from csdfgen.backends.native.structures import (
    Structure,
    constant,
    ctype,
    kernel_structure,
    structure,
)
from tests.native_steps import compiler_missing

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

HEADERS = ("strided.h", "csdf.h", "team.h")
TEXT = "\n".join((SOURCES / name).read_text() for name in HEADERS)
STRUCTURES = [
    name
    for body, name in re.findall(r"^typedef struct \w+ \{([^}]*)\} (csdf_\w+);", TEXT, re.M)
    if "uint16_t" not in body  # a number that no step has
]
CONSTANTS = re.findall(r"\b(CSDF_[A-Z_]+)(?: =)? \d+\b", TEXT)


def first_slots(found: Structure) -> list[int]:
    """Offset of every field: that of the first number or pointer in it."""
    offsets, at = [], 0
    for field in found.fields:
        offsets.append(found.slots[at].offset)
        at += max(1, field.count) * (1 if field.inner is None else len(field.inner.slots))
    return offsets


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """What the compiler knows of all structures and constants of the headers."""
    folder = tmp_path_factory.mktemp("structures")
    lines = ["#include <stddef.h>", *(f'#include "{name}"' for name in HEADERS)]
    for name in STRUCTURES:
        numbers = [f"sizeof({name})"]
        numbers += [f"offsetof({name}, {field.name})" for field in structure(name).fields]
        lines.append(f"const size_t of_{name}[] = {{{', '.join(numbers)}}};")
    lines += [f"const int of_{name} = {name};" for name in CONSTANTS]
    source = folder / "structures.c"
    source.write_text("\n".join(lines) + "\n")
    return ctypes.CDLL(str(build([source], ("-O1",), folder=folder)))


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_are_laid_out_as_in_c(name: str, compiled: ctypes.CDLL) -> None:
    found = structure(name)
    numbers = (ctypes.c_size_t * (1 + len(found.fields))).in_dll(compiled, f"of_{name}")
    assert [*numbers] == [found.size, *first_slots(found)]
    assert found.size == ctypes.sizeof(ctype(name))
    assert [getattr(ctype(name), field.name).offset for field in found.fields] == [*numbers][1:]


def test_constants_are_those_of_the_compiler(compiled: ctypes.CDLL) -> None:
    assert {"CSDF_PANEL", "CSDF_RANK", "CSDF_SWISH", "CSDF_DEQUANTIZE"} <= {*CONSTANTS}
    for name in CONSTANTS:
        assert constant(name) == ctypes.c_int.in_dll(compiled, f"of_{name}").value, name


def test_a_record_is_flat_and_nested_again() -> None:
    conv = structure("csdf_conv_step")
    record = conv.record(width=7, out=structure("csdf_target").record(count=3), tile=2)
    assert conv.nested(conv.flat(record)) == record
    maps = structure("csdf_map_step")
    source = structure("csdf_source").record(stride=4)
    flat = maps.flat(maps.record(operands=(source,)))
    assert len(flat) == len(maps.slots) and maps.nested(flat).operands[0] == source


def test_the_library_has_the_same_structures() -> None:
    assert load().instructions
    assert kernel_structure("conv_of").name == "csdf_conv_step"
    assert kernel_structure("add_f32").name == "csdf_strided"
    assert kernel_structure("move").name == "csdf_transfer"
    assert constant("CSDF_PANEL") == 16
