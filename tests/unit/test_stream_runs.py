"""Streams: any number of rows, computed by the instructions of an image."""

from __future__ import annotations

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.backends.registry import load_backend
from csdfgen.lowering.program import Feed
from runtime.bound import BoundProgram
from tests.native_steps import COMPUTED_BY
from tests.opencl_device import device_missing
from tests.unit.test_loops import strided

EVERYWHERE = [
    *COMPUTED_BY,
    pytest.param("opencl", marks=pytest.mark.skipif(bool(device_missing()), reason="no device")),
]
"""Backends that there are here."""


@pytest.mark.parametrize("backend", EVERYWHERE)
def test_arrays_may_have_some_rows_of_a_port(backend: str) -> None:
    """An image in two parts, with each an array of its own of inputs and outputs."""
    plan = csdfgen.plan(strided(60), backend=backend, rows=2)
    program = BoundProgram(plan, load_backend(backend))
    rng, shape = np.random.default_rng(0), plan.network.inputs[0].shape
    x = rng.standard_normal(shape).astype(np.float32)
    (wanted,) = runtime.compile(plan)(x).values()
    firings = program.program.firings
    cut, fed = next(
        (n, f.rows.start)
        for n, f in enumerate(firings)
        if isinstance(f, Feed) and f.rows.start > 40
    )
    made = max(one.rows.stop for some in program.program.deliveries[:cut] for one in some)
    found = np.zeros_like(wanted)
    for start, stop, rows, outputs in (
        (0, cut, slice(0, fed), slice(0, made)),
        (cut, len(firings), slice(fed, None), slice(made, None)),
    ):
        program.open("x", 0, False, x[:, :, rows], rows.start)
        part = np.zeros_like(found[:, :, outputs])
        program.open(plan.network.outputs[0].name, 0, True, part, outputs.start)
        for run in program.between(start, stop):
            run()
        program.wait()
        found[:, :, outputs] = part
    np.testing.assert_array_equal(found, wanted)
