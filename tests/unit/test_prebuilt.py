"""Of the libraries in a wheel the best that the processor runs is loaded, and nothing is compiled; one that is damaged, or of
other sources, is not.
"""

from __future__ import annotations

import platform
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

import csdfgen
from csdfgen.backends.native import library, opened, prebuilt
from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.native.build import NATIVE, NO_HALVES, sources_digest
from csdfgen.backends.native.prebuilt import LEVELS, Level, library_name, list_suitable_libraries
from runtime.session import Executable
from tests.native_steps import compiler_missing

pytestmark = [
    pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-"),
    pytest.mark.skipif(platform.machine() not in LEVELS, reason="wheels have no kernels for it"),
]

HERE = LEVELS.get(platform.machine(), ())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a wheel has its libraries: here with this machine's own as the best and the smallest."""
    made = library.load().path
    monkeypatch.setattr(prebuilt, "FOLDER", tmp_path / "prebuilt")
    monkeypatch.setattr(prebuilt, "_CPUINFO", tmp_path / "cpuinfo")
    prebuilt.FOLDER.mkdir()
    say(tmp_path, HERE[0])
    for level in (HERE[0], HERE[-1]):
        shutil.copy(made, prebuilt.FOLDER / library_name(level, sources_digest(), made))
    return prebuilt.FOLDER


def say(folder: Path, level: Level) -> None:
    """Make the system say that the processor has the instructions of a level."""
    (folder / "cpuinfo").write_text(
        f"model name : any\nflags\t\t: sse2 {' '.join(level.features)}\n"
    )


def chosen(monkeypatch: pytest.MonkeyPatch) -> library.Library:
    """What is loaded where nothing may be compiled."""
    monkeypatch.setattr(library, "build", lambda **_: pytest.fail("it compiles"))
    return library.load.__wrapped__()


def of_level(level: Level, folder: Path) -> Path:
    (found,) = folder.glob(f"csdf-{level.name}-*.so")
    return found


@pytest.mark.parametrize("level", [HERE[0], HERE[-1]] if HERE else [], ids=lambda level: level.name)
def test_the_best_is_loaded(level: Level, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    say(folder.parent, level)
    found = chosen(monkeypatch)
    assert found.path == of_level(level, folder) and found.compiler.endswith(f", {level.name}")


@pytest.mark.skipif("avx512-bf16" not in {one.name for one in HERE}, reason="no such level")
@pytest.mark.parametrize(
    ("vendor", "more", "slow"),
    [
        ("GenuineIntel", "avx512_fp16", True),
        ("GenuineIntel", "", False),  # Cooper Lake
        ("AuthenticAMD", "avx512_fp16", False),
    ],
)
def test_slow_products_of_pairs_are_not_used(
    vendor: str, more: str, slow: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = " ".join(HERE[0].features)
    (folder.parent / "cpuinfo").write_text(f"vendor_id\t: {vendor}\nflags\t\t: {words} {more}\n")
    assert (chosen(monkeypatch).path == of_level(HERE[0], folder)) != slow
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(library, "build", lambda flags: asked.append(flags))
    monkeypatch.setattr(library, "Library", lambda _: SimpleNamespace(lacking=""))
    for flags in (("-O1", NATIVE), ("-O1",)):
        library._built(flags)
    assert [NO_HALVES in flags for flags in asked] == [slow, False]


def test_the_smallest_where_nothing_is_known(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.parent / "cpuinfo").unlink()
    assert chosen(monkeypatch).path == of_level(HERE[-1], folder)


def test_what_is_damaged_is_not_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_level(HERE[0], folder).write_bytes(b"nonsense")
    assert chosen(monkeypatch).path == of_level(HERE[-1], folder)
    other = of_level(HERE[-1], folder)
    other.rename(other.with_name(library_name(HERE[-1], "0" * 16, other)))
    assert [sources for _, sources, _ in list_suitable_libraries()] == ["0" * 16]
    assert library.prebuilt_library() is None


@pytest.mark.parametrize("kind", ["folder", "link", "text"])
def test_what_cannot_be_loaded_is_passed_over(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = of_level(HERE[0], folder)
    best.unlink()
    if kind == "folder":
        best.mkdir()
    elif kind == "link":
        best.symlink_to(folder / "nowhere")
    else:  # whole, but for another machine
        best.write_text("no library")
        best.rename(best.with_name(library_name(HERE[0], sources_digest(), best)))
    assert chosen(monkeypatch).path == of_level(HERE[-1], folder)


def test_other_flags_are_compiled() -> None:
    assert library._built(library.FLAGS).path.parent != prebuilt.FOLDER


def test_its_own_library(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Executable(
        csdfgen.plan(csdfgen.load("zoo:lenet5")), kernels=NativeKernels(chosen(monkeypatch))
    )
    program.save(tmp_path / "net.csdfgen")
    assert opened._library(tmp_path / "net.csdfgen") == of_level(HERE[0], folder)
    say(folder.parent, HERE[-1])  # another machine
    monkeypatch.setattr(library, "load", lambda: library.prebuilt_library())
    assert opened._library(tmp_path / "net.csdfgen") == of_level(HERE[-1], folder)


def test_levels_are_listed_best_first() -> None:
    for levels in LEVELS.values():
        assert not levels[-1].features
        for number, level in enumerate(levels):
            assert not [one.name for one in levels[:number] if one.features <= level.features]
