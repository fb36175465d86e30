"""Tests outside of the tier that is asked for (`tests.tiers`) are left out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator

import pytest

from csdfgen.errors import ToolError
from tests.tiers import TIER, in_sample

_COMPILES = "CC" in os.environ or any(map(shutil.which, ("gcc", "clang", "cc")))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    return (yield from _skip_without_compiler())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    return (yield from _skip_without_compiler())


def _skip_without_compiler() -> Generator[None, object, object]:
    """What asks for native code is skipped where there is no compiler, and fails everywhere else."""
    try:
        return (yield)
    except ToolError as error:
        if _COMPILES or "no C compiler" not in str(error):
            raise
        pytest.skip(str(error))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if TIER not in ("sample", "rest"):
        return
    marks = ("networks", "every")
    chosen = in_sample(
        [
            (
                item.nodeid.partition("::")[0],  # its location takes a look into the source
                item.nodeid.partition("[")[0],
                next((mark for mark in marks if item.get_closest_marker(mark)), ""),
            )
            for item in items
        ]
    )
    kept = [item for item, one in zip(items, chosen, strict=True) if one == (TIER == "sample")]
    left = [item for item, one in zip(items, chosen, strict=True) if one != (TIER == "sample")]
    config.hook.pytest_deselected(items=left)
    items[:] = kept
