"""The cache is the user's alone, and keeps within its limit what was used last."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from csdfgen import cache
from csdfgen.backends.native.build import build
from csdfgen.cache import get_folder, prune, use
from csdfgen.files import cache_folder
from tests.command import Call
from tests.native_steps import compiler_missing

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners of files")
needs_root = pytest.mark.skipif(
    getattr(os, "getuid", int)() != 0, reason="only root gives files away"
)
OTHER = 12345


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and an empty folder for temporary files."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "cache" / "csdfgen"


def kept(kind: str, name: str, size: int, used: int) -> Path:
    path = get_folder(kind) / name
    path.write_bytes(bytes(size))
    path.chmod(0o600)
    os.utime(path, (used, used))
    return path


@pytest.mark.skipif(bool(compiler_missing()), reason="no C compiler")
def test_what_is_made_is_the_users_alone(tmp_path: Path, root: Path) -> None:
    source = tmp_path / "small.c"
    source.write_text("int csdf_small(void) { return 1; }\n")
    before = os.umask(0)
    try:
        library = build([source])
    finally:
        os.umask(before)
    assert library.parent == root / "native"
    modes = {path.stat().st_mode & 0o777 for path in (root, root / "native")}
    assert (modes, library.stat().st_mode & 0o777) == ({0o700}, 0o600)
    first = library.stat().st_mtime_ns
    assert build([source]).stat().st_mtime_ns == first
    library.chmod(0o606)
    assert build([source]) == library and library.stat().st_mode & 0o777 == 0o600
    assert library.stat().st_mtime_ns != first


def given_away(path: Path) -> None:
    os.chown(path, OTHER, OTHER)


def open_to_all(path: Path) -> None:
    path.chmod(0o777)


@pytest.mark.parametrize(
    ("make_bad", "said"),
    [
        pytest.param(given_away, f"belongs to user {OTHER}", marks=needs_root),
        (open_to_all, "can be written by others"),
    ],
)
def test_files_that_others_may_have_written_are_not_loaded(
    make_bad: Callable[[Path], None], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = kept("native", "a.so", 1, 1)
    assert use(path)
    cache.release(path)
    make_bad(path)
    with caplog.at_level(logging.WARNING):
        assert not use(path)
    assert said in caplog.text and not path.exists()


@pytest.mark.parametrize(
    ("place", "make_bad"),
    [
        pytest.param("", given_away, marks=needs_root),
        pytest.param("native", given_away, marks=needs_root),
        ("..", open_to_all),
    ],
)
def test_folders_of_others_are_left_for_one_of_the_users_own(
    root: Path, place: str, make_bad: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    planted = kept("native", "a.so", 1, 1)
    make_bad(root / place)
    with caplog.at_level(logging.WARNING):
        other = get_folder("native")
    assert other == Path(tempfile.gettempdir()) / f"csdfgen-{os.getuid()}" / "native"
    assert "nothing is loaded from it" in caplog.text
    assert not (other / planted.name).exists() and other.stat().st_mode & 0o777 == 0o700


def test_without_a_home_another_folder_is_used_and_kept_within_the_limit(
    root: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.parent.write_text("a file where the folder would be")
    path = kept("native", "a.so", 1000, 1)
    other = Path(tempfile.gettempdir()) / f"csdfgen-{os.getuid()}"
    assert path.parent.parent == other
    found = call("cache", "--json").json
    assert (found["path"], found["bytes"]) == (str(other), 1000)
    monkeypatch.setenv("CSDFGEN_CACHE_LIMIT", "1")
    prune()
    assert not path.exists()


def test_a_user_that_the_system_does_not_know_has_an_absolute_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Path, "home", raise_unknown)
    for environment in ({}, {"XDG_CACHE_HOME": "relative"}):
        assert cache_folder("native", environment).is_absolute()


def raise_unknown() -> Path:
    raise RuntimeError("Could not determine home directory.")


@needs_root
def test_a_folder_in_the_temporary_files_may_be_anothers_too(root: Path) -> None:
    kept("native", "a.so", 1, 1)
    given_away(root)
    taken = Path(tempfile.gettempdir()) / f"csdfgen-{os.getuid()}"
    taken.mkdir()
    given_away(taken)
    assert get_folder("native").parent not in (root, taken)


def test_what_was_used_last_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    old, held, new = (
        kept(kind, f"{k}.x", 1000, k + 1) for k, kind in enumerate(("native", "weights", "opencl"))
    )
    code = (
        "import sys; from pathlib import Path; from csdfgen.cache import use\n"
        "print(use(Path(sys.argv[1])), flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(held)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert process.stdout and process.stdout.readline() == "True\n"
    os.utime(held, (1, 1))
    monkeypatch.setenv("CSDFGEN_CACHE_LIMIT", "3KiB")
    prune()
    assert all(path.exists() for path in (old, held, new))
    monkeypatch.setenv("CSDFGEN_CACHE_LIMIT", "2000")
    prune()
    assert [path.exists() for path in (old, held, new)] == [False, True, True]
    monkeypatch.setenv("CSDFGEN_CACHE_LIMIT", "1")
    prune()
    assert [path.exists() for path in (held, new)] == [True, False]
    process.communicate("")
    prune()
    assert not held.exists()


def test_it_is_shown_and_emptied(root: Path, call: Call) -> None:
    kept("native", "a.so", 3000, 1)
    kept("weights", "b.weights", 500, 1)
    (root / "native" / "build-now").mkdir()  # of a process that is building
    found = call("cache", "--json").json
    assert (found["path"], found["files"], found["bytes"]) == (str(root), 3, 3500)
    assert found["kinds"]["weights"] == {"files": 1, "bytes": 500}
    assert "weights  1      500 bytes" in call("cache").out
    assert call("cache", "--clear").out.startswith("removed 2 files, 3,500 bytes")
    assert [path.name for path in root.glob("*/*")] == ["build-now"]
