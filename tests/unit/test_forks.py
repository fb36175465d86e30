"""A program that was compiled before a fork runs in the child, on as many threads as in its parent."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable

import numpy as np
import pytest

import csdfgen
import runtime
from runtime.session import Executable
from tests.builder import Graph

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

PATIENCE = 60
"""Seconds after which a child that does not answer hangs."""


@pytest.fixture(scope="module", params=[("auto", 1), ("auto", 2), ("numpy", 2)])
def program(request: pytest.FixtureRequest) -> Executable:
    """Whose convolution is large enough to be shared among threads."""
    backend, threads = request.param
    graph = Graph()
    x = graph.conv(graph.conv(graph.input("x", (1, 8, 64, 64)), 32), 32)
    plan = csdfgen.plan(csdfgen.load(graph.model(x)), rows="whole", backend=backend)
    return runtime.compile(plan, threads=threads)


def image(program: Executable) -> np.ndarray:
    (x,) = program.plan.network.inputs
    return np.random.default_rng(0).uniform(-1, 1, x.shape).astype(np.float32)


def in_child(frame: Callable[[], float]) -> float:
    """What a frame gives in a forked child."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=lambda: theirs.send(frame()))
    child.start()
    theirs.close()  # so that a child that fails is noticed at once
    try:
        assert ours.poll(PATIENCE), "a frame in the child hangs"
        return float(ours.recv())
    finally:
        child.join(PATIENCE)
        stuck = child.is_alive()
        child.kill()
        assert not stuck, "the child does not end"


def test_a_frame_in_the_child_gives_what_it_gives_in_the_parent(program: Executable) -> None:
    x = image(program)

    def frame() -> float:
        return float(sum(value.astype(np.float64).sum() for value in program(x).values()))

    want = frame()
    assert in_child(frame) == want
    assert in_child(lambda: frame() + frame()) == 2 * want
    assert frame() == want, "the parent's threads are still there"


def test_a_fork_while_another_thread_is_in_a_frame(program: Executable) -> None:
    """That thread is not in the child, and will not end its frame there."""
    x, inside, leave = image(program), threading.Event(), threading.Event()

    def wait(*rows: object) -> None:
        inside.set()
        assert leave.wait(PATIENCE)

    other = threading.Thread(target=lambda: program(x, on_rows=wait))
    other.start()
    try:
        assert inside.wait(PATIENCE)
        got = in_child(lambda: float(len(program(x))))
    finally:
        leave.set()
        other.join()
    assert got == 1.0
