"""The structures of the kernels are what the compiler makes of their headers."""

from __future__ import annotations

import ctypes

import pytest

from csdfgen.native.library import load
from csdfgen.native.structures import constant, ctype, kernel_structure, structure
from tests.native_steps import compiler_missing

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

STEPS = ("conv", "gemm", "map", "pool", "byte_conv", "byte_map", "byte_pool", "byte_sum")


@pytest.mark.parametrize("name", [f"csdf_{step}_step" for step in STEPS])
def test_records_are_laid_out_as_the_compiler_lays_them_out(name: str) -> None:
    found = structure(name)
    assert found.size == ctypes.sizeof(ctype(name))
    offsets = [getattr(ctype(name), field.name).offset for field in found.fields]
    first, at = [], 0
    for field in found.fields:
        first.append(found.slots[at].offset)
        at += max(1, field.count) * (1 if field.inner is None else len(field.inner.slots))
    assert first == offsets


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
