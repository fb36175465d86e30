"""Native code under ASan and UBSan, all of the arena poisoned that a step has no business with."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest

from csdfgen.backends.native.build import build
from csdfgen.errors import ToolError
from tests import sanitized
from tests.command import python
from tests.native_steps import compiler_missing

pytestmark = [
    pytest.mark.networks,
    pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-"),
]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = sanitized.environment()
    if environment is None:
        pytest.skip("the compiler has no library of its sanitizer")
    try:
        build(flags=sanitized.FLAGS)
    except ToolError as error:
        pytest.skip(f"no sanitizers: {error}")
    return python(*command, env=environment)


@pytest.mark.networks
@pytest.mark.parametrize("arguments", [("6", "0"), ("6", "0", "1")], ids=["floats", "integers"])
def test_random_networks(arguments: Sequence[str]) -> None:
    done = run("-m", "tests.sanitized", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "6 networks\n"


@pytest.mark.networks
def test_one_float_too_few_is_noticed() -> None:
    """Of the guard itself: a row that ends four bytes earlier for it than for the kernel."""
    fault = (
        "from tests import sanitized as s; whole = s._touched;"
        "s._touched = lambda v, m: ((at, max(0, n - 4)) for at, n in whole(v, m)); s.main(4, 0)"
    )
    done = run("-c", fault)
    assert done.returncode != 0 and "use-after-poison" in done.stderr
