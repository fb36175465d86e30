"""Tests outside of the tier that is asked for (`tests.tiers`) are left out."""

from __future__ import annotations

import pytest

from tests.tiers import TIER, in_sample


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
