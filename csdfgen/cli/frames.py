"""What is told of several images in one order?"""

from __future__ import annotations

from csdfgen.backends.registry import kernels_for
from csdfgen.cli.terminal import console
from csdfgen.devices.profile import DeviceProfile
from csdfgen.errors import CsdfgenError
from csdfgen.goals.frames import Frames, frames_of
from csdfgen.model.network import Network
from csdfgen.model.options import CONVERSION, PlanOptions
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import plan_of

__all__ = ["frames_facts", "show_frames", "told_of_frames"]


def frames_facts(network: Network, plan: Plan, profile: DeviceProfile) -> Frames | None:
    """What several images in one order cost and bring; None for one. Errors name the model."""
    if plan.conversion.frames == 1:
        return None
    kept = {
        name: getattr(plan.options, name)
        for name in (
            *CONVERSION,
            "effort",
            "goal",
            "recompute",
            "tiles",
            "backend",
            "exact",
            "fallback",
            "tuning",
            "ways",
        )
    }
    try:
        options = PlanOptions(**kept)
        return frames_of(plan, plan_of(network, options, kernels_for(options)), profile)
    except CsdfgenError as error:
        raise error.at(network.source or network.name) from None


def told_of_frames(found: Frames, profile: DeviceProfile) -> list[tuple[str, str]]:
    """(what, in words), for a terminal and for a page."""

    def rate(value: float | None, exact: bool = True) -> str:
        return (
            "no work" if value is None else f"{'' if exact else 'at least '}{value:,.4g} frames/s"
        )

    many, one = found.pipeline, found.pipeline_of_one
    times = found.arena / max(1, found.arena_of_one)
    return [
        (
            "frames",
            f"{found.frames} in one order, at most {found.in_flight} in flight; arena of {found.arena:,} "
            f"bytes, {times:.2f} times that of one ({found.arena_of_one:,})",
        ),
        (
            "rate",
            f"{rate(found.rate)} on one processor; predicted on {profile.name}",
        ),
        (
            "pipeline",
            f"{rate(many.rate, many.exact)} with a processor an actor, in rooms of {many.bytes:,} bytes "
            f"instead of the arena; in those of one image ({one.bytes:,} bytes) {rate(one.rate, one.exact)}",
        ),
    ]


def show_frames(found: Frames | None, profile: DeviceProfile) -> None:
    """The same on a terminal."""
    if found is not None:
        console().print()
        for what, said in told_of_frames(found, profile):
            console().print(f"{what:<11}{said}")
