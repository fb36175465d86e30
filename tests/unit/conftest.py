"""What do tests share? A call of the command within the process, in a folder of its own; and a wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from csdfgen.cli import main
from csdfgen.cli.doctor import IMPORT_NAMES
from tests.command import ROOT, Call, Result


@pytest.fixture
def call(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Call:
    """The command, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> Result:
        capfd.readouterr()
        code = main(arguments)
        return Result(code, *capfd.readouterr())

    return command


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


@pytest.fixture(scope="session")
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
