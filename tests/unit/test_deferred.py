"""Constants that are computed when they are read: what numpy does with them, and who keeps them."""

from __future__ import annotations

import gc
import pickle
import weakref
from pathlib import Path

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.model.deferred import Deferred, compute_array, defer, sources
from csdfgen.ops.folded_weights import scale_weights
from tests.builder import reference
from tests.models import model
from tests.native_steps import compiler_missing

RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(32, 16, 3, 3)).astype(np.float32)
FACTORS = RNG.normal(size=(32, 1, 1, 1))
WANTED = scale_weights(WEIGHTS, FACTORS)


def deferred() -> Deferred:
    found = defer(scale_weights, WEIGHTS, FACTORS)
    assert isinstance(found, Deferred)
    return found


def test_it_has_the_form_of_what_it_stands_for() -> None:
    one = deferred()
    for name in ("shape", "dtype", "size", "ndim", "nbytes"):
        assert getattr(one, name) == getattr(WANTED, name), name
    assert len(one) == len(WANTED) and list(map(id, sources(one))) == [id(WEIGHTS), id(FACTORS)]
    assert (
        defer(scale_weights, WEIGHTS[:1], FACTORS[:1]).base is None
    )  # a small one is computed at once


@pytest.mark.parametrize(
    "use",
    [
        np.asarray, compute_array, np.sum, lambda a: a + 1, lambda a: 2 * a, lambda a: a.T,
        lambda a: np.transpose(a, (1, 0, 3, 2)),
        lambda a: a.astype(np.float64), lambda a: a.reshape(32, -1), lambda a: a.reshape((8, 4, 16, 9)).swapaxes(0, 1),
        lambda a: a.swapaxes(1, 2)[:, :, ::-1][..., [2, 0]], lambda a: a[3:7, ..., 1:],
        lambda a: a[a > 0], lambda a: a[2, 1, 0, 1],
        lambda a: np.multiply(a, a), lambda a: np.concatenate([a, a]), lambda a: [row.sum() for row in a],
    ],
)  # fmt: skip
def test_numpy_computes_with_its_elements(use) -> None:  # type: ignore[no-untyped-def]
    found, wanted = use(deferred()), use(WANTED)
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_array_equal(np.asarray(found), wanted)


def test_views_stay_deferred() -> None:
    one = deferred()
    view = one.reshape(2, 16, 16, 9).swapaxes(1, 2)[:, :, 4:]
    assert isinstance(view, Deferred) and view.shape == (2, 16, 12, 9)
    again = pickle.loads(pickle.dumps(view))
    np.testing.assert_array_equal(again, WANTED.reshape(2, 16, 16, 9).swapaxes(1, 2)[:, :, 4:])


BACKENDS = ["numpy", *(["native"] if not compiler_missing() else [])]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_folded_weights_are_there_to_be_packed(tmp_path: Path, backend: str, kind: str) -> None:
    shape = (64, 32, 3, 3) if kind == "Conv" else (32, 64, 3, 3)
    arrays = {"w": RNG.normal(size=shape).astype(np.float32) / 8}
    for name in ("scale", "bias", "mean", "variance"):
        arrays[name] = RNG.uniform(0.5, 1.5, 64).astype(np.float32)
    made = model(
        f"g (float[1,32,9,9] x) => (z) {{ y = {kind} <strides=[2,2]> (x, w)  "
        "z = BatchNormalization (y, scale, bias, mean, variance) }",
        arrays,
    )
    onnx.save_model(made, path := tmp_path / "net.onnx")
    network = csdfgen.load(path, weights="mapped")
    plan = csdfgen.plan(network, backend=backend, weights="mapped")
    (layer,) = plan.network.layers
    assert isinstance(layer.constants[1], Deferred)
    frame = runtime.compile(plan)
    x = RNG.normal(size=(1, 32, 9, 9)).astype(np.float32)
    found, wanted = frame(x)["z"], reference(made, {"x": x})["z"]
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
    kept = [weakref.ref(one) for one in sources(layer.constants[1])]
    del network, plan, layer, frame, found
    gc.collect()
    assert not any(one() for one in kept)
