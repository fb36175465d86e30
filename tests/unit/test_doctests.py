"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("csdfgen", "runtime", "schedules", "sdf3_bridge", "zoo_models", "tests")
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if re.search(r"^ *>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.attempted
    assert not outcome.failed
