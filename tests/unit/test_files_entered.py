"""How many files does a reader pass who follows one convolution from its model to its first rows?"""

from __future__ import annotations

import pytest

from tests.entered import entered
from tests.native_steps import compiler_missing

MOST = 85
"""It only goes down; eight came with weights that are computed when they are packed, limits in total, checked arguments, searches
that can be stopped, weights of four bits and tensors without elements, two with an account of all memory;
seven before with models of other frameworks,
convolutions with computed weights, tensors of unknown size, attention in parts and lower slabs at the peak.
"""


@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
def test_one_convolution_passes_few_files() -> None:
    passed = entered()
    assert {"csdfgen/planning/planner.py"} <= passed["plan"] and all(passed.values())
    assert len(set().union(*passed.values())) <= MOST, "\n".join(
        f"{step}: {', '.join(sorted(files))}" for step, files in passed.items()
    )
