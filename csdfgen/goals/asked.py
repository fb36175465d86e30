"""What does a plan get that is asked for by name? The options given, the defaults, and what these mean together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from csdfgen.backends.registry import AUTO, settled
from csdfgen.model.options import DEFAULTS, PlanOptions

__all__ = ["plan_options", "wished"]


def plan_options(given: Mapping[str, Any]) -> PlanOptions:
    """The options of these names, and the defaults; several images enter one after the other, unless
    layers work on several at once. Raises InputError.
    """
    policy = given.get("policy", DEFAULTS.policy)
    if policy == DEFAULTS.policy and given.get("frames", 1) > 1:
        policy = "demand" if "batches" in given else "overlap"
    return PlanOptions.asked({**given, "policy": policy})


def wished(given: Mapping[str, Any], *, movable: bool = False) -> PlanOptions:
    """The options of a plan that is to be run, by the fastest backend that there is unless one is
    named. movable: every row is to be placed by another packer, so that outputs are not in the
    arena unless that is asked for. Raises InputError.
    """
    result = given.get("result", DEFAULTS.result if movable else "auto")
    backend = settled(given.get("backend", AUTO))
    return plan_options({**given, "result": result, "backend": backend})
