"""Every node case of onnx.backend.test passes in slabs of one row, of two, and whole, or is skipped
for a known reason.
"""

from __future__ import annotations

import pytest

from csdfgen.ops import OPERATORS
from tests.node_cases_report import cases, outcome


@pytest.mark.networks
@pytest.mark.parametrize("op_type", sorted({*OPERATORS, "If", "Loop", "Scan"}))
def test_node_cases_of_an_operator(op_type: str) -> None:
    failed = [o for o in map(outcome, cases().get(op_type, ())) if o.state == "failed"]
    assert not failed


@pytest.mark.networks
def test_functions_expanded_to_nodes() -> None:
    outcomes = [outcome(case) for case in cases()[""]]
    assert not [o for o in outcomes if o.state == "failed"]
    assert sum(o.state == "passed" for o in outcomes) > 100
