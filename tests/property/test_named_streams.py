"""Networks of users stream: values at heights of one to three periods with every remainder."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from benchmarks.demo.centerface import model_file
from csdfgen.errors import InputError
from runtime.stream import StreamProgram
from tests.builder import reference
from tests.named_streams import STREAMS
from tests.native_steps import COMPUTED_BY
from tests.quantized_models import prepared, quantized
from tests.unit.test_stream_runs import check
from tests.ways import ALL, some

SMALL = ("cnn5", "TCN", "keyword spotter")

CASES = [
    (name, kind, backend)
    for number, name in enumerate(STREAMS)
    for place, (kind, backend) in enumerate(product(("float32", "int8"), COMPUTED_BY))
    if ALL or name in SMALL or place == number % (2 * len(COMPUTED_BY))
]
"""Every network in one type on one backend; small ones, and all where everything is tested, in both on each."""

COLUMNS = 32
"""Of an image: a multiple of all strides."""


def network(name: str, kind: str, rows: int) -> onnx.ModelProto:
    """The model at a height."""
    model = STREAMS[name].make(rows, COLUMNS)
    return quantized(prepared(model), "QDQ") if kind == "int8" else model


@cache
def program(name: str, kind: str, backend: str) -> StreamProgram:
    if name == "CenterFace":
        try:
            model_file()
        except InputError as error:
            pytest.skip(str(error))
    brief = {} if name in SMALL else {"effort": "0.001s"}  # searches for fewer bytes take long
    return runtime.compile(csdfgen.plan_stream(network(name, kind, 64), backend=backend, **brief))


def heights(frame: StreamProgram, step: int, seed: int) -> list[int]:
    """One to three periods and every remainder; some of them, and all of short periods where everything is tested."""
    period, first = frame.plan.period, max(frame.plan.period, 64)
    each = [row // step * step + step for row in range(first, first + 3 * period, step)]
    rng, count = np.random.default_rng(seed), len(each) if ALL and period <= 16 else some(1, 8)
    return sorted(rng.choice(each, min(count, len(each)), replace=False).tolist())


@pytest.mark.networks
@pytest.mark.parametrize(("name", "kind", "backend"), CASES)
def test_streams_are_images_in_parts(name: str, kind: str, backend: str) -> None:
    """Bit for bit what the image's own plan computes, which is what onnxruntime does."""
    frame = program(name, kind, backend)
    for rows in heights(frame, STREAMS[name].step, len(name)):
        feeds, found = check(frame, rows, rows)
        if kind == "float32":
            for output, want in reference(STREAMS[name].make(rows, COLUMNS), feeds).items():
                close = 1e-3 * max(1.0, float(np.abs(want).max()))
                np.testing.assert_allclose(found[output], want, rtol=1e-3, atol=close)
