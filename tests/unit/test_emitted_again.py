"""A network that is emitted into the folder of an earlier one of its name: nothing of that one is built."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from csdfgen.emission.emit import emit
from tests.board_networks import absent, plan_of
from tests.native_steps import compiler_missing

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")


@pytest.mark.parametrize("suffix", [".c", ".S"])
def test_constants_are_those_of_the_later_one(suffix: str, tmp_path: Path) -> None:
    """make builds NAME_weights.o of .c or of .S, whichever is there; files of others are kept."""
    absent("make")
    for name, large in (("everything", suffix == ".c"), ("residual", suffix == ".S")):
        literals = 1 if large else 2**30
        emit(plan_of(name), "net", tmp_path, target="generic", literals=literals, force=True)
        (tmp_path / "notes.c").touch()
    command = ["make", "-n", "net_weights.o"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert f"net_weights{suffix}" in said and (tmp_path / "notes.c").exists()


def test_a_folder_has_no_source_of_the_earlier_one(tmp_path: Path) -> None:
    """PlatformIO and Arduino build all that is below src/."""
    plan = plan_of("integers")
    check = {one.name: np.zeros((1, 10), np.float32) for one in plan.network.outputs}
    emit(plan, "net", tmp_path, target="generic", layout="platformio", check=check)
    made = emit(
        plan_of("residual"), "net", tmp_path, target="generic", layout="platformio", force=True
    )
    found = {str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*") if one.is_file()}
    assert found == {*made.files}
