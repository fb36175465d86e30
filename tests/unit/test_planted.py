"""The planted faults fit the product as it is now."""

from __future__ import annotations

import ast
from itertools import groupby

from tests.planted import ROOT, faults, found, summary


def test_every_fault_can_be_planted() -> None:
    every = faults()
    assert len(every) >= 150 and len({one.name for one in every}) == len(every)
    for file, some in groupby(every, key=lambda one: one.file):
        text = (ROOT / file).read_text()
        for one in some:
            assert one.planted(text) != text
            if file.endswith(".py"):
                ast.parse(one.planted(text))


def test_results_are_of_these_faults_and_on_the_page() -> None:
    assert found().keys() <= {one.name for one in faults()}
    assert summary() in (ROOT / "docs" / "contributing.md").read_text()
