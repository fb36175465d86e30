"""A trace tells of every firing, in order; layers sum up to it; what cannot be written is said."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import csdfgen
from csdfgen.pages.trace import chrome_trace, sum_by_layer, time_firings
from csdfgen.planning.plan import Plan
from tests.command import Call, refused


@pytest.fixture(scope="module")
def plan() -> Plan:
    return csdfgen.plan(csdfgen.load("zoo:lenet5"))


def test_every_firing_has_its_time(plan: Plan) -> None:
    (tensor,) = plan.network.inputs
    firings = time_firings(plan, {tensor.name: np.zeros(tensor.shape, np.float32)}, repeats=2)
    assert [(one.actor, one.phase) for one in firings] == list(plan.order)
    assert firings[0].start == 0
    for before, after in pairwise(firings):
        assert before.start <= before.end == after.start
    assert max(one.alive for one in firings) == plan.lifetimes.peak_live
    layers = sum_by_layer(firings)
    assert sum(one.firings for one in layers) == len(firings)
    assert sum(one.seconds for one in layers) == pytest.approx(firings[-1].end / 1e9)
    assert [one.seconds for one in layers] == sorted((o.seconds for o in layers), reverse=True)
    # multiply-accumulates that the zoo counts, two operations each, and a few of activations
    assert sum(one.operations for one in layers) == pytest.approx(2 * 416_520, rel=0.05)

    found = chrome_trace(plan, firings)
    slices = [event for event in found["traceEvents"] if event["ph"] == "X"]
    assert [event["name"] for event in slices] == [one.actor for one in firings]
    assert all(event["dur"] >= 0 for event in slices)
    json.dumps(found, allow_nan=False)


def test_run_writes_it(call: Call, tmp_path: Path) -> None:
    out = call("run", "zoo:lenet5", "--trace", "t.json", "--layers").out
    assert "time by layer" in out and "GFLOP/s" in out and "t.json: " in out
    found = json.loads((tmp_path / "t.json").read_text())
    assert found["otherData"]["network"] == "lenet5"
    told = call("run", "zoo:lenet5", "--layers", "--json").json
    assert {"name", "seconds", "operations"} <= told["layer_times"][0].keys()


def test_what_cannot_be_done_is_said(call: Call) -> None:
    said = refused(call("run", "zoo:lenet5", "--trace", "missing/t.json"))
    assert "missing/t.json: cannot be written" in said
    assert "leave --layers out" in refused(call("run", "zoo:lenet5", "--pareto", "--layers"))
