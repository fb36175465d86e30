"""Ctrl-C ends every search at its next question, with a plan that is right, or with none."""

from __future__ import annotations

import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import csdfgen
from csdfgen import stopping
from csdfgen.planning.checker import check
from tests.beaten import network
from tests.command import start
from tests.small_models import residual_classifier
from tests.ways import some

SEARCHES: tuple[dict[str, Any], ...] = (
    {},
    {"goal": "memory", "effort": "normal"},
    {"goal": "speed"},
    {"memory": "64KiB"},
    {"latency": "1s", "device": "numpy-core"},
    {"recompute": 1.3},
    {"requests": 3},
    {"fast": "16KiB", "slow": "1MiB"},
    {"goal": "throughput", "threads": 2, "frames": 2},
    {"rows": 1, "pack": "exact"},
)


class Request:
    """Asked for the n-th time, it says that the user wants the end."""

    kept = False

    def __init__(self, last: float) -> None:
        self.last, self.asked = last, 0

    @property
    def stopped(self) -> bool:
        self.asked += 1
        return self.asked >= self.last

    @stopped.setter
    def stopped(self, value: bool) -> None:
        """The end of a block of `heeding`."""


def test_the_next_command_is_not_asked_to_end() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored
    try:
        with stopping.heed_interrupts():
            signal.raise_signal(signal.SIGINT)
            stopping.keep()
            assert stopping.is_stopped()
    finally:
        signal.signal(signal.SIGINT, before)
    assert not stopping.is_stopped()


@pytest.mark.parametrize("given", SEARCHES, ids=str)
def test_every_search_can_end(monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]) -> None:
    """However often it has asked before: it asks a few times more, and its plan, if it has one, is right."""
    if "pack" in given:
        pytest.importorskip("ortools")
    net = csdfgen.load(residual_classifier(), batch=given.get("frames"))
    given = {"backend": "numpy", **given}
    never = Request(float("inf"))
    monkeypatch.setattr(stopping, "_request", never)
    whole = csdfgen.plan(net, **given)
    assert never.asked > 3 and not whole.interrupted
    moments = random.Random(0).sample(range(1, never.asked + 1), min(never.asked, some(6, 200)))
    for moment in (1, never.asked, *moments):
        request = Request(moment)
        monkeypatch.setattr(stopping, "_request", request)
        try:
            made = csdfgen.plan(net, **given)
        except KeyboardInterrupt:
            continue
        check(made)
        assert made.interrupted and made.notes[-1].startswith("interrupted: the best "), moment
        assert made.total_bytes <= 1.5 * whole.total_bytes or moment < never.asked / 2


def test_a_front_ends_at_any_question(monkeypatch: pytest.MonkeyPatch) -> None:
    net = csdfgen.load(network(3))
    for moment in range(1, 4000, 400):
        monkeypatch.setattr(stopping, "_request", Request(moment))
        try:
            points = csdfgen.pareto(net, backend="numpy")
        except KeyboardInterrupt:
            continue
        assert points
        for point in points:
            check(point.plan)


@pytest.mark.networks
def test_a_second_ctrl_c_loses_nothing(tmp_path: Path) -> None:
    """A real process in the search of a large network; it has all the time to write its plan."""
    path = tmp_path / "plan.json"
    process = start(
        "schedule", "zoo:inception_v1", "--goal", "memory", "--effort", "600", "-o", str(path)
    )
    with process:
        time.sleep(6)
        began = time.monotonic()
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        _, said = process.communicate(timeout=200)
        taken = time.monotonic() - began
    if process.returncode == 130:  # a busy machine: it was not yet at the search
        assert said == "interrupted\n" and not path.exists()
    else:
        assert process.returncode == 0
        assert said == "" or said.startswith("warning: interrupted: the best ")  # "": it was done
        csdfgen.read_plan(path, "zoo:inception_v1")
    assert taken < 120, "without questions it goes on for minutes"


def test_waits_end_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Symptom: Ctrl-C was heard when all kernels were compiled, up to 40 s later."""
    found, compiler, begun = shutil.which("cc"), tmp_path / "slow-cc", tmp_path / "begun"
    if found is None:
        pytest.skip("no compiler")
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *-dM*) exec {found} "$@";; esac\ntouch {begun}\nexec sleep 600\n'
    )
    compiler.chmod(0o700)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with start("schedule", "zoo:lenet5", "-o", str(tmp_path / "plan.json")) as process:
        while not begun.exists():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    assert process.returncode == 130 and said.endswith("interrupted\n")
    assert list((tmp_path / "csdfgen/native").iterdir()) == []
