"""silero-vad detects voices at two sample rates, in two branches of an If: equal to onnxruntime in both."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import csdfgen
import runtime
from csdfgen.errors import InputError, ModelError
from csdfgen.files import packaged_file
from tests.native_steps import compiler_missing

SAMPLES = {16000: 512 + 64, 8000: 256 + 32}
"""Sample rate -> samples of a window with its context."""


def detector(file: str) -> onnx.ModelProto:
    try:
        return onnx.load(packaged_file("silero-vad", file))
    except InputError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("rate", SAMPLES)
@pytest.mark.parametrize(
    "file", ["silero_vad.onnx", "silero_vad_op18_ifless.onnx", "silero_vad_16k_op15.onnx"]
)
def test_voices_are_found_in_the_branch_of_the_sample_rate(
    file: str, rate: int, backend: str
) -> None:
    if backend == "native" and (missing := compiler_missing()):
        pytest.skip(missing)
    model = detector(file)
    load = partial(csdfgen.load, model, shapes={"input": (1, SAMPLES[rate]), "state": (2, 1, 128)})
    if (file, rate) == ("silero_vad.onnx", 16000):
        with pytest.raises(ModelError, match="else_branch of 'If_0': if that is never taken, make"):
            load()  # the windows of the other rate have other sizes
        load = partial(load, fix={"sr": rate})
    network = load()
    theirs = ort.InferenceSession(model.SerializeToString())
    frame = runtime.compile(csdfgen.plan(network, backend=backend))
    rng, state = np.random.default_rng(rate), np.zeros((2, 1, 128), np.float32)
    for _ in range(4):
        window = rng.normal(0, 0.1, (1, SAMPLES[rate])).astype(np.float32)
        feeds = {"input": window, "state": state, "sr": np.array(rate)}
        output, state = theirs.run(["output", "stateN"], feeds)
        found = frame({one.name: feeds[one.name] for one in network.inputs})
        np.testing.assert_allclose(found["output"], output, atol=1e-5)
        np.testing.assert_allclose(found["stateN"], state, atol=1e-4)
    branches = {taken for taken, _ in frame.branches.values()}
    assert len(frame.branches) == len(network.conditions) and len(branches) <= 1
