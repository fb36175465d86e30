"""The signatures of operators, beside the schemas of the onnx package that they were written from."""

from __future__ import annotations

import onnx
import pytest

from csdfgen.reading.onnx_file import NEWEST_OPSET
from csdfgen.reading.onnx_schema import SIGNATURES_FILE, signature
from tests.onnx_signatures import signature_lines


def test_signatures_are_those_of_the_onnx_package() -> None:
    known = onnx.defs.onnx_opset_version()
    if known != NEWEST_OPSET:
        pytest.skip(
            f"onnx {onnx.__version__} has operator set {known}, the file has {NEWEST_OPSET}"
        )
    assert SIGNATURES_FILE.read_text().splitlines() == signature_lines()


@pytest.mark.parametrize(
    ("opset", "wide"), [(7, False), (21, False), (22, True), (NEWEST_OPSET, True)]
)
def test_a_signature_is_that_of_the_newest_version_up_to_an_opset(opset: int, wide: bool) -> None:
    conv = signature("Conv", opset)
    assert conv is not None
    assert ("bfloat16" in conv.dtypes(0)) == wide
    assert (conv.min_inputs, conv.max_inputs, conv.variable(2)) == (2, 3, "T")
    assert conv.attributes["kernel_shape"] == ("INTS", False)


def test_operators_that_an_opset_does_not_have() -> None:
    assert signature("Gelu", 19) is None
    assert signature("Gelu", 20) is not None
    assert signature("Nowhere", 20) is None
