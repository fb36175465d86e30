"""A wheel holds our five import packages and nothing else, and works from any folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from csdfgen import __version__
from csdfgen.cli.doctor import IMPORT_NAMES

ROOT = Path(__file__).resolve().parents[2]

SETUPTOOLS = 77
"""First version that reads `license = "MIT"`."""


def run(*command: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without the network from a copy of what is packaged."""
    try:
        version = int(metadata.version("setuptools").partition(".")[0])
    except metadata.PackageNotFoundError:
        version = 0
    if version < SETUPTOOLS:
        pytest.skip(
            f"setuptools {SETUPTOOLS} is needed to build without the network, {version or 'none'} is installed"
        )
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in (*IMPORT_NAMES, "tests", "benchmarks"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    built = tmp_path_factory.mktemp("wheel")
    run(
        "-m",
        "pip",
        "wheel",
        "-qq",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(built),
        str(source),
        folder=built,
    )
    (found,) = built.glob("*.whl")
    return found


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
