"""Emitted code for the vectors of this machine, for none, and for aarch64: outputs are onnxruntime's.

Where a processor, a compiler or an emulator lacks something, the test is skipped and says what.
"""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from tests.board_networks import NETWORKS, absent, plan_of, right
from tests.emitted import Program
from tests.native_steps import compiler_missing

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")


def flags_of_processor() -> set[str]:
    """What this machine's processor can do, as Linux tells it."""
    path = Path("/proc/cpuinfo")
    found = re.search(r"^flags\s*:(.*)$", path.read_text() if path.exists() else "", re.M)
    return set(found[1].split()) if found else set()


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    ("machine", "needs"),
    [
        ("-march=x86-64-v4", {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}),
        ("-march=x86-64-v3", {"avx2", "fma"}),
        ("-DCSDF_SCALAR", set()),
    ],
    ids=["avx512", "avx2", "scalar"],
)
def test_this_machine(name: str, machine: str, needs: set[str], tmp_path: Path) -> None:
    if needs:
        if platform.machine() not in ("x86_64", "AMD64"):
            pytest.skip(f"a processor of another kind: {platform.machine()}")
        lacking = needs - flags_of_processor()
        if lacking:
            pytest.skip(f"this processor has no {', '.join(sorted(lacking))}")
    right(Program(plan_of(name), tmp_path / "c", target="host", machine=machine), name)


@pytest.mark.parametrize("name", NETWORKS)
def test_aarch64(name: str, tmp_path: Path) -> None:
    absent("aarch64-linux-gnu-gcc", "qemu-aarch64")
    qemu = ["qemu-aarch64"]
    right(
        Program(plan_of(name), tmp_path / "c", target="aarch64", linked=["-static"], start=qemu),
        name,
    )
