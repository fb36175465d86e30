"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = (
    "csdfgen.charts.footprint",
    "csdfgen.charts.plan_axes",
    "csdfgen.cli.analyze_graph",
    "csdfgen.cli.options",
    "csdfgen.cli.terminal",
    "csdfgen.errors",
    "csdfgen.files",
    "csdfgen.dataflow.graph",
    "csdfgen.paper.formulas.experts",
    "csdfgen.paper.formulas.integers",
    "csdfgen.paper.formulas.quantizers",
    "csdfgen.paper.formulas.reuse",
    "csdfgen.model.by_layer",
    "csdfgen.model.describe",
    "csdfgen.model.kinds",
    "csdfgen.model.naming",
    "csdfgen.model.network",
    "csdfgen.model.options",
    "csdfgen.model.rows",
    "csdfgen.model.sorting",
    "csdfgen.ops.page",
    "csdfgen.pages.html",
    "csdfgen.pages.report",
    "schedules.loops",
    "schedules.peak.problem",
    "schedules.periodic",
    "schedules.schedule",
    "sdf3_bridge.iteration",
    "sdf3_bridge.names",
    "tests.ways",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.attempted
    assert not outcome.failed
