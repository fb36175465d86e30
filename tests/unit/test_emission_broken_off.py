"""Folders and archives of C that the system, or the user, breaks off: the command as a process."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import onnx
import pytest

from tests.command import start
from tests.native_steps import compiler_missing
from tests.small_models import residual_classifier

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")


@pytest.mark.parametrize("words", [("emit-c", "-o", "out"), ("bundle", "-o", "out.tar.gz")])
def test_files_may_not_grow(words: tuple[str, ...], tmp_path: Path) -> None:
    """The system itself refuses to write more: one line, nothing left."""
    resource = pytest.importorskip("resource")
    onnx.save(residual_classifier(), tmp_path / "net.onnx")
    process = start(
        words[0],
        "net.onnx",
        *words[1:],
        cwd=tmp_path,
        limited=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000)),
    )
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (1, "")
    assert err == f"{words[2]}: cannot be written: File too large\n"
    assert list(tmp_path.iterdir()) == [tmp_path / "net.onnx"]


@pytest.mark.networks
@pytest.mark.parametrize(
    "words", [("emit-c", "-o", "out"), ("bundle", "-o", "out.tar.gz", "--heights", "7")]
)
def test_ctrl_c_while_writing(words: tuple[str, ...], tmp_path: Path) -> None:
    """As soon as the first file of the result is there."""
    (tmp_path / "here").mkdir()
    process = start(words[0], "zoo:resnet18", *words[1:], cwd=tmp_path / "here")
    try:
        end = time.monotonic() + 120
        while not list((tmp_path / "here").rglob("*.h")) and time.monotonic() < end:
            assert process.poll() is None
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (130, "", "interrupted\n")
    assert not list((tmp_path / "here").iterdir())
