"""What do tests of the command share? A call of it within the process, in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from csdfgen.cli import main
from tests.command import Call, Result


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
