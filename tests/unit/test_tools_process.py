"""Somebody else's program can do no harm: no shell, nothing to read, limits of time, memory and
output, no child left.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import sdf3_bridge.process as process
from csdfgen.dataflow.graph_json import write_graph
from csdfgen.errors import ToolError
from sdf3_bridge.process import run_program
from tests.command import start
from tests.graphs import ring

Write = Callable[[str], str]


@pytest.fixture
def program(tmp_path: Path) -> Write:
    """Makes a program of some lines of Python."""

    def write(lines: str) -> str:
        path = tmp_path / "some tool"
        path.write_text(f"#!{sys.executable} -IS\nimport os, signal, sys, time\n{lines}\n")
        path.chmod(0o755)
        return str(path)

    return write


def alive(pid: int) -> bool:
    """Whether a process is there and more than an entry that nobody has asked for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def gone(pid: int, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not alive(pid)


def read_pid(path: Path, seconds: float = 60.0) -> int:
    """The number that a program writes into a file."""
    end = time.monotonic() + seconds
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < end, f"nothing was written to {path}"
        time.sleep(0.01)
    return int(path.read_text())


PARENT = """
if os.fork() == 0:
    open({file!r}, "w").write(str(os.getpid()))
    time.sleep(600)
{rest}
"""


def test_surroundings(program: Write, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    lines = "print(sys.argv[1:], os.getcwd(), os.environ['LC_ALL'], repr(sys.stdin.read()), 'SECRET' in os.environ)\n"
    lines += "print(os.getsid(0) == os.getpid(), os.environ['HOME'])"
    os.environ["SECRET"] = "x"
    try:
        done = run_program([program(lines), "a b", "$HOME; `x` *"], tmp_path / "folder", 20)
    finally:
        del os.environ["SECRET"]
    folder = tmp_path / "folder"
    assert done.stdout == f"['a b', '$HOME; `x` *'] {folder} C '' False\nTrue {folder}\n"
    assert (done.exit_code, done.stderr, done.signal_name) == (0, "", "")


def test_exit_codes_signals_and_bytes_that_are_no_text(program: Write, tmp_path: Path) -> None:
    assert (
        run_program([program("sys.stderr.write('no\\n'); sys.exit(3)")], tmp_path, 20).exit_code
        == 3
    )
    done = run_program([program("os.kill(os.getpid(), signal.SIGSEGV)")], tmp_path, 20)
    assert (done.exit_code, done.signal_name) == (-signal.SIGSEGV, "SIGSEGV")
    assert run_program([program("os.write(1, b'\\xff\\n')")], tmp_path, 20).stdout == "\ufffd\n"


def test_what_cannot_be_started(tmp_path: Path) -> None:
    for name, content, reason in (
        ("none", None, "No such file"),
        ("text", "hello", "Exec format error"),
    ):
        path = tmp_path / name
        if content is not None:
            path.write_text(content)
            path.chmod(0o755)
        with pytest.raises(ToolError, match=f"{name}: cannot be started: {reason}"):
            run_program([str(path)], tmp_path, 20)


def test_timeout_kills_children_too(program: Write, tmp_path: Path) -> None:
    file = tmp_path / "child"
    start = time.monotonic()
    with pytest.raises(
        ToolError,
        match=r"some tool: gave no answer in 3 s and was stopped; --timeout gives it more",
    ):
        run_program([program(PARENT.format(file=str(file), rest="time.sleep(600)"))], tmp_path, 3)
    assert time.monotonic() - start < 300  # of the child's 600
    assert gone(read_pid(file))


def test_children_that_outlive_the_program_are_killed(program: Write, tmp_path: Path) -> None:
    file = tmp_path / "child"
    rest = f"while not (os.path.exists({str(file)!r}) and os.path.getsize({str(file)!r})): time.sleep(0.01)\nprint('done')"
    start = time.monotonic()
    done = run_program([program(PARENT.format(file=str(file), rest=rest))], tmp_path, 60)
    assert (done.exit_code, done.stdout) == (0, "done\n")
    assert time.monotonic() - start < 300
    assert gone(read_pid(file))


def test_endless_output(program: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MAX_OUTPUT", 2**20)
    for stream in ("stdout", "stderr"):
        with pytest.raises(
            ToolError, match="some tool: printed more than 1048576 bytes and was stopped"
        ):
            run_program([program(f"while True: sys.{stream}.write('x' * 4096)")], tmp_path, 60)


def test_large_output_arrives_whole(program: Write, tmp_path: Path) -> None:
    done = run_program(
        [program("sys.stdout.write('x' * 5_000_000); sys.stderr.write('y' * 3_000_000)")],
        tmp_path,
        60,
    )
    assert (len(done.stdout), len(done.stderr)) == (5_000_000, 3_000_000)


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux limits the memory of another process"
)
def test_memory_and_core(program: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MAX_MEMORY", 2**28)
    lines = "import resource\ntime.sleep(0.3)\nprint(resource.getrlimit(resource.RLIMIT_CORE)[1])\n"
    lines += "try: bytearray(2**29)\nexcept MemoryError: print('none left')"
    done = run_program([program(lines)], tmp_path, 20)
    assert done.stdout == "0\nnone left\n"


def test_interrupt_kills_the_tool_and_its_children(program: Write, tmp_path: Path) -> None:
    file = tmp_path / "child"
    lines = "if '--help' in sys.argv:\n    print('sdf3analysis-csdf (version 0)'); sys.exit(1)\n"
    tool = program(lines + PARENT.format(file=str(file), rest="time.sleep(600)"))
    write_graph(tmp_path / "ring.json", ring())
    user = start("analyze", str(tmp_path / "ring.json"), "--engine", "sdf3", "--sdf3", tool)
    try:
        child = read_pid(file, 30)
        user.send_signal(signal.SIGINT)
        out, err = user.communicate(timeout=30)
    finally:
        user.kill()
    assert (user.returncode, out, err) == (130, "", "interrupted\n")
    assert gone(child)
