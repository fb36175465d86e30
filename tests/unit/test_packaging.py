"""A wheel holds our five import packages and nothing else, and works from any folder."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from csdfgen import __version__
from csdfgen.cli.doctor import IMPORT_NAMES
from tests.unit.conftest import run

ROOT = Path(__file__).resolve().parents[2]


def test_top_level_names_are_ours_alone(wheel: Path) -> None:
    names = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert names == {*IMPORT_NAMES, f"csdfgen-{__version__}.dist-info"}


def test_every_package_says_that_it_is_typed(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in IMPORT_NAMES if f"{name}/py.typed" not in names] == []


def test_every_module_is_packaged(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {
        str(path.relative_to(ROOT)) for name in IMPORT_NAMES for path in (ROOT / name).rglob("*.py")
    }
    assert modules - names == set()


def test_the_command_works_from_any_folder(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    run(
        "-m",
        "pip",
        "install",
        "-qq",
        "--no-deps",
        "--target",
        str(target),
        str(wheel),
        folder=tmp_path,
    )
    assert (
        run("-m", "csdfgen", "--version", folder=tmp_path, PYTHONPATH=str(target))
        == f"csdfgen {__version__}\n"
    )
    place = run(
        "-c", "import csdfgen; print(csdfgen.__file__)", folder=tmp_path, PYTHONPATH=str(target)
    )
    assert Path(place.strip()).is_relative_to(target)


def test_the_version_is_the_newest_of_the_changelog() -> None:
    newest = re.search(
        r"^## (\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)$",
        (ROOT / "CHANGELOG.md").read_text(),
        re.MULTILINE,
    )
    assert newest is not None and newest[1] == __version__


def test_the_citation_is_of_this_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
