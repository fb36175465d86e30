"""A frame takes nothing that is not planned: no memory of numpy's own for copies within a storage,
no second thread, no setting of numpy.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Hashable

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

import csdfgen
import runtime
from csdfgen.lowering.program import make_blocks
from csdfgen.model.formats import Format
from csdfgen.ops import get_operator
from csdfgen.ops.base import phases
from csdfgen.planning.plan import Plan
from csdfgen.program.steps import Scratchpad, Step, View
from tests.builder import Graph, reference
from tests.small_models import residual_classifier


@pytest.mark.parametrize("shape", [(1, 64, 16, 32), (64, 512)], ids=["rows", "without rows"])
def test_copies_between_parts_of_a_concat_go_through_the_workspace(shape: tuple[int, ...]) -> None:
    graph = Graph()
    x = graph.node("Relu", graph.input("x", shape))
    half = graph.node(
        "Slice", x, *(graph.constant(np.array([value])) for value in (0, shape[1] // 2, 1))
    )
    model = graph.model(graph.node("Tanh", graph.node("Concat", x, half, axis=1)))
    plan = csdfgen.plan(csdfgen.load(model), rows="whole")
    outputs, measured = runtime.compile(plan).measure(graph.feeds())
    for name, want in reference(model, graph.feeds()).items():
        np.testing.assert_allclose(outputs[name], want, rtol=1e-5, atol=1e-6)
    assert measured.touched_bytes == plan.planned_bytes
    assert measured.python_peak_bytes < np.prod(shape)


def test_every_other_column_of_an_input_is_taken() -> None:
    """By a layer: what is taken from the caller's rows as they come is without gaps."""
    graph = Graph()
    numbers = (graph.constant(np.array([value])) for value in (1, 9, 3, 2))
    model = graph.model(graph.node("Slice", graph.input("x", (1, 2, 4, 9)), *numbers))
    (got,) = runtime.run(csdfgen.plan(csdfgen.load(model)), graph.feeds()).values()
    np.testing.assert_array_equal(got, graph.feeds()["x"][..., 1::2])


def test_what_is_applied_to_a_part_of_an_input_is_computed() -> None:
    graph = Graph()
    bounds = (graph.constant(np.array(values)) for values in ((1, 2), (3, 7), (1, 3)))
    part = graph.node("Slice", graph.input("x", (1, 4, 5, 9)), *bounds)
    model = graph.model(graph.node("Relu", part))
    plan = csdfgen.plan(csdfgen.load(model))
    (layer,) = plan.network.layers
    assert layer.epilogue
    (got,) = runtime.run(plan, graph.feeds()).values()
    np.testing.assert_array_equal(got, np.maximum(graph.feeds()["x"][:, 1:3, :, 2:7], 0))


def test_runs_of_many_rows_are_found_once() -> None:
    """Symptom: a Gather of 9,216 rows in each of 96 phases was planned for half a minute, most of it in finding the same
    runs.
    """
    view = View("x", tuple(range(0, 12 * 9216, 12)), (3,), (4,), Format("float32"))
    assert view.part(0, 9216).runs is view.runs
    assert view.part(1, 9216).runs == [(0, 9215)]


def test_a_row_that_another_tap_reads_is_not_computed_alike() -> None:
    """Both rows read the row of the same number alone, but the first one by its third tap, the other by its second."""
    graph = Graph()
    taps = graph.constant(np.array([1, 2, 4], np.float32).reshape(1, 1, 3, 1))
    window = {"pads": [4, 0, 3, 0], "strides": [3, 1], "dilations": [2, 1]}
    model = graph.model(graph.node("Conv", graph.input("x", (1, 1, 2, 1)), taps, **window))
    plan = csdfgen.plan(csdfgen.load(model), rows=1, backend="numpy")
    (got,) = runtime.run(plan, np.array([[[[1], [10]]]], np.float32)).values()
    assert got.ravel().tolist() == [4, 20]


def test_steps_that_look_alike_lie_alike_and_have_as_much_scratch() -> None:
    graph = Graph()
    network = csdfgen.load(graph.model(graph.node("Relu", graph.input("x", (1, 1, 2, 4)))))
    (layer,) = network.layers
    (phase,) = phases(get_operator(layer), layer, 2)

    def alike(read: int, written: int, scratch: int) -> Hashable:
        views = (
            View("m", (at, at + 16), (4, 1), (4, 4), Format("float32")) for at in (read, written)
        )
        source, target = views
        pad = Scratchpad("m", 4096, scratch)
        return make_blocks(Step(0, "Relu", layer, phase, (source,), (target,), (), pad)).alike

    assert alike(0, 0, 64) == alike(128, 128, 64)
    assert alike(0, 256, 64) == alike(128, 512, 64)
    others = [alike(0, 0, 128), alike(0, 16, 64), alike(16, 0, 64), alike(0, 256, 64)]
    assert len({alike(0, 0, 64), *others}) == 1 + len(others)


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def small(backend: str) -> Plan:
    return csdfgen.plan(csdfgen.load(residual_classifier()), backend=backend)


def zeros(plan: Plan) -> np.ndarray:
    (image,) = plan.network.inputs
    return np.zeros(image.shape, image.dtype)


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_memory_of_a_program_is_free_when_it_is_gone(backend: str) -> None:
    """Not only when Python collects cycles."""
    frame = runtime.compile(plan := small(backend))
    frame(zeros(plan))
    bound = weakref.ref(frame._bound._bound)
    gc.disable()
    try:
        del frame
        assert bound() is None
    finally:
        gc.enable()


def test_a_numpy_frame_has_the_threads_that_it_was_compiled_for() -> None:
    """Also in turn with programs of another number; the process has its own again when they are gone."""
    plan, before = small("numpy"), blas_threads()
    programs = {threads: runtime.compile(plan, threads=threads) for threads in (1, 2)}
    seen: set[int] = set()
    for threads in (1, 2, 2, 1):
        programs[threads](zeros(plan), progress=lambda done, total: seen.update(blas_threads()))
        assert seen == {threads}
        seen.clear()
    with threadpool_limits(3, user_api="blas"):
        programs[1](zeros(plan))
        assert blas_threads() == {3}, "a number that the caller sets between frames holds"
    programs.clear()
    assert blas_threads() == before
    with threadpool_limits(3, user_api="blas"):
        programs[2] = runtime.compile(
            plan, threads=max(before) + 1
        )  # which the caller does not restore
        programs[2](zeros(plan))
    programs.clear()
    assert blas_threads() == before, "what the caller has restored stays"


def test_frames_set_neither_blas_threads_nor_error_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """A numpy program sets them once, native code never."""
    plans = [small("numpy"), small("auto")]
    programs = [runtime.compile(plan) for plan in plans]
    for plan, program in zip(plans, programs, strict=True):
        program(zeros(plan))

    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError(f"set in a frame: {arguments}, {named}")

    for owner, name in [
        (np, "seterr"), (np, "setbufsize"), (np, "errstate"), (ThreadpoolController, "select"),
    ]:  # fmt: skip
        monkeypatch.setattr(owner, name, refuse)
    for plan, program in zip(plans, programs, strict=True):
        program(zeros(plan))
        program(zeros(plan), on_rows=lambda *rows: None)
        program.time_firings(zeros(plan))


@pytest.mark.parametrize("backend", ["numpy", "auto"])
def test_frames_warn_of_nothing_and_leave_the_callers_error_state(backend: str) -> None:
    graph = Graph()
    x = graph.node("Exp", graph.input("x", (1, 2, 8, 8)))
    plan = csdfgen.plan(csdfgen.load(graph.model(graph.node("Mul", x, x))), backend=backend)
    before = np.geterr(), np.getbufsize()
    with np.errstate(all="raise"):
        (y,) = runtime.run(plan, np.full((1, 2, 8, 8), 100, np.float32)).values()
    assert np.isinf(y).all() and (np.geterr(), np.getbufsize()) == before
