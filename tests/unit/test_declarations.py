"""What kernels declare as workspace is asked once for all steps that are alike, in whatever plan they stand."""

from __future__ import annotations

import numpy as np
import pytest

import csdfgen
from csdfgen.backends.numpy import backend as numpy_set
from csdfgen.model.options import PlanOptions
from csdfgen.planning import workspaces
from csdfgen.planning.prepared import Prepared
from csdfgen.planning.workspaces import Scratch
from tests.planning import prepared

LIMITS = (0, 1 << 11, 1 << 13, 1 << 16, None)


def levels(prepared: Prepared, options: PlanOptions) -> list[Scratch]:
    declared = prepared.phased(options).declared
    return [declared.sizes(limit) for limit in LIMITS]


@pytest.mark.parametrize(
    "name", ["googlenet@64x64", "shufflenet_v1@64x64", "mobilenet_v3_small@64x64"]
)
def test_steps_that_are_alike_take_as_much(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found for others is what every step would have been found to take on its own."""
    one = prepared(csdfgen.load(f"zoo:{name}"), PlanOptions())
    wishes = [(one, PlanOptions(rows)) for rows in ("1", "3", "auto", "whole")]
    wishes.append((one.for_images(5), PlanOptions("whole", frames=5, batches="all")))
    found = [levels(*wish) for wish in wishes]
    monkeypatch.setattr(numpy_set, "_workspaces", lambda layer: {})
    monkeypatch.setattr(workspaces, "_known", lambda layer: {})
    monkeypatch.setattr(workspaces, "demands", lambda layer, phases: range(len(phases)))
    for wish, known in zip(wishes, found, strict=True):
        for mine, alone in zip(known, levels(*wish), strict=True):
            assert mine.keys() == alone.keys()
            for actor, sizes in alone.items():
                assert np.array_equal(mine[actor], sizes), actor
