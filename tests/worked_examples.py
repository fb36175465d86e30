"""The worked examples of docs/contributing.md, done in a copy of the tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["Tree", "example"]

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "contributing.md"
PACKAGES = ("csdfgen", "runtime", "schedules", "sdf3_bridge", "zoo_models", "tests")


def example(heading: str) -> str:
    """The changes that a section of the page shows, as `git diff` writes them."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
    return "".join(re.findall(r"^```diff\n(.*?)^```$", section, re.M | re.S))


class Tree:
    """A copy of the packages in a folder, changed by an example. files: those that it touches."""

    def __init__(self, folder: Path, changes: str) -> None:
        self.folder = folder
        for name in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        self.files = re.findall(r"^\+\+\+ b/(.*)$", changes, re.M)
        done = subprocess.run(
            ["git", "apply", "--recount", "-"],
            input=changes,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)},
        )
        assert done.returncode == 0, f"the page no longer fits the tree: {done.stderr}"

    def run(self, program: str, *arguments: str, **environment: str) -> str:
        """What a Python program prints that imports the copy. environment: more variables of it."""
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(self.folder), **environment},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
