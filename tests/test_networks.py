"""Whole networks in slabs of rows: every output is onnxruntime's, measured memory is as planned,
and little of it is needed.

Each network runs at default heights, and at one of the other combinations of slab heights and fuse levels.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from benchmarks.demo.centerface import INPUT, model_file
from csdfgen.errors import InputError
from csdfgen.model.network import Network
from tests.builder import reference
from tests.native_steps import compiler_missing
from tests.networks import LIGHT, TRAINED, feeds, light, trained, with_last_scores

pytestmark = pytest.mark.networks

WAYS = (("1", "full"), ("3", "none"))
DEFAULT = ("auto", "full")
"""(rows, fuse)"""

MB = 10**6
MIB = 2**20

PEAK_LIVE = {
    "squeezenet": 0.37,
    "densenet121": 1.66,
    "resnet50": 1.66,
    "vgg19": 1.71,
    "inception_v1": 1.09,
    "bvlc_alexnet": 0.33,
}
"""MB (10^6 bytes) alive at one row a phase, computed once by another program (docs/model.md)."""


def wrong(
    network: Network,
    rows: str,
    level: str,
    x: dict[str, np.ndarray],
    expected: dict[str, np.ndarray],
) -> list[str]:
    """What is wrong with one way to run a network; nothing, it is hoped."""
    # searched orders are tried where heights are the default's; elsewhere they would take minutes
    searched = (rows, level) == DEFAULT
    policy, effort = ("best", "low") if searched else ("demand", "0.5")
    plan = csdfgen.plan(network, rows=rows, fuse=level, policy=policy, effort=effort)
    got, measured = runtime.compile(plan).measure(x)
    found = []
    ran = {"numpy": got}
    if searched and not compiler_missing():
        ran["native"] = runtime.compile(plan, backend="native")(x)
    for (backend, outputs), (name, want) in product(ran.items(), expected.items()):
        scale = float(np.max(np.abs(want), initial=0.0))
        if not np.allclose(outputs[name], want, rtol=1e-3, atol=1e-4 + 1e-5 * scale):
            furthest = np.max(np.abs(outputs[name] - want))
            found.append(
                f"{backend}, rows {rows}, fuse {level}: '{name}' differs by up to {furthest:.3g}"
            )
    if measured.touched_bytes != plan.planned_bytes:
        found.append(
            f"rows {rows}, fuse {level}: planned {plan.planned_bytes} bytes, touched {measured.touched_bytes}"
        )
    return found


def check(model: onnx.ModelProto, network: Network, number: int) -> None:
    """number: of the network in its table, which has them family by family."""
    x = feeds(model)
    expected = reference(model, x)
    failures = [
        line
        for rows, level in (DEFAULT, WAYS[number % 2])
        for line in wrong(network, rows, level, x, expected)
    ]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("name", LIGHT)
def test_light_networks_with_random_weights(name: str) -> None:
    model = with_last_scores(light(name))
    network = csdfgen.load(model)
    check(model, network, LIGHT.index(name))
    plan = csdfgen.plan(network, rows="1", goal="memory", effort="0.5")
    figures, rows = plan.figures, plan.lifetimes  # the latter without scratch
    assert rows.peak_live <= 1.05 * PEAK_LIVE.get(name, math.inf) * MB
    if name == "shufflenet":
        assert 8 * figures["peak_live"] < figures["sum_of_tensors"]


SIZES = [(name, size) for name, entry in TRAINED.items() for size in entry.sizes]


@pytest.mark.parametrize(("name", "size"), SIZES)
def test_trained_networks_of_other_packages(name: str, size: tuple[int, int]) -> None:
    try:
        model = with_last_scores(trained(name, size))
    except InputError as error:
        pytest.skip(str(error))
    check(model, csdfgen.load(model), SIZES.index((name, size)))


def test_a_large_picture_needs_20_mib() -> None:
    try:
        network = csdfgen.load(model_file(), shapes={INPUT: (1, 3, 1088, 1920)})
    except InputError as error:
        pytest.skip(str(error))
    figures = csdfgen.plan(network, rows="1", fuse="full").figures
    assert figures["peak_live"] <= 20 * MIB
