"""From a goal and budgets to one plan, or to all that are worth having; what cannot be is refused in a
line.

    plan = csdfgen.plan(net, memory="512KiB")             # the fastest that fits
    plan = csdfgen.plan(net, latency="20ms", device="host")   # the smallest that is in time
    for point in csdfgen.pareto(net): print(point.bytes, point.seconds)

`balanced` is one plan at the heights of `auto`. Everything else tries several (`goals.search`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from csdfgen.devices.costs import Cost
from csdfgen.devices.model import estimate
from csdfgen.devices.profile import DeviceProfile
from csdfgen.errors import InputError, PlanError, option
from csdfgen.goals import search as explored
from csdfgen.goals.balance import few_phases, raised_rows
from csdfgen.goals.batching.choice import of_requests, plan_for_request
from csdfgen.goals.batching.tables import tabled
from csdfgen.goals.facts import holders_said
from csdfgen.goals.results import with_result
from csdfgen.goals.search import Found, Planner, Progress, Search, bytes_of
from csdfgen.kernels.numpy_set import NUMPY
from csdfgen.kernels.steps import KernelSet
from csdfgen.model.network import Network
from csdfgen.model.options import DEFAULTS, PlanOptions, keywords
from csdfgen.model.units import shown_size, shown_time, size_of
from csdfgen.native.backends import AUTO, settled
from csdfgen.planning.plan import Plan
from csdfgen.planning.plan_table import PlanTable
from csdfgen.planning.planner import plan_of
from csdfgen.planning.replacing import shared_out
from csdfgen.tuning.use import predicting, tuned

__all__ = [
    "check_together",
    "chosen",
    "finished",
    "front",
    "pareto",
    "plan",
    "plan_table",
    "profile_for",
    "usual",
]

_LOG = logging.getLogger(__name__)

_INTERRUPTED = "interrupted"
"""How a note of a search that was broken off begins."""


@keywords()
def plan(
    network: Network,
    *,
    cost: Cost | None = None,
    kernels: KernelSet | None = None,
    progress: Progress | None = None,
    **given: Any,
) -> Plan:
    """The plan of a network: firings, buffers and memory figures.

    Rows that are given are kept, whatever the goal; frames divide the network's batch. Ctrl-C ends a search,
    with the best plan so far if there is one. Budgets of a request (`requests`) are those of all its images.

    cost: that no plan of a request may exceed, of what adds up over phases (`devices.costs`). kernels: whose
    workspace is planned, in place of those of `backend`. progress: called as progress("what", done, total).
    Raises InputError for options that do not exist or contradict each other, and for what is no network;
    PlanError for a budget that no plan keeps, with what does.
    """
    tiles, recompute = given.get("tiles"), given.get("recompute", DEFAULTS.recompute)
    if tiles and recompute != DEFAULTS.recompute:
        raise InputError(f"{option('recompute', recompute)}: tiles '{tiles}' are given already")
    images = given.pop("requests", None)
    if images is not None:
        if given.get("frames", DEFAULTS.frames) != DEFAULTS.frames:
            raise InputError(
                f"{option('requests', images)} chooses what {option('frames', given['frames'])} gives; leave one of "
                "them out"
            )
        network = of_requests(network, images)
        given |= {
            "frames": images,
            "batching": given.get("batching") or ("" if "batches" in given else "joint"),
        }
    if "batches" in given and given.get("policy", DEFAULTS.policy) == DEFAULTS.policy:
        given["policy"] = "demand"
    options = _options(given)
    if cost is not None and not options.batching:
        raise InputError(
            f"a cost of {cost.name} limits a request; give {option('requests')}, 1 for one image"
        )
    return chosen(network, options, _planner(kernels), progress, kernels, cost)


@keywords("fuse", "image", "device", "effort", "backend", "exact", "fallback", "batching")
def plan_table(
    network: Network,
    *,
    requests: Sequence[int],
    memory: Sequence[str | int] = (),
    progress: Progress | None = None,
    **given: Any,
) -> PlanTable:
    """Plans for several numbers of images in several budgets, of which a program chooses by what is free
    (`runtime.compile_table`): `csdfgen schedule --requests 1,4,16 --budgets 1MiB,2MiB`.

    requests: numbers of images; one for 1 image is always there. memory: bytes, or "512KB" or "512KiB";
    none for any memory. Raises as `plan`.
    """
    options = _options({"batching": "joint", "result": DEFAULTS.result, **given})
    return tabled(
        network, options, requests, [size_of(one) for one in memory] or [0], finished, progress
    )


def usual() -> PlanOptions:
    """The options of `plan` where nothing is asked for."""
    return _options({})


def _options(given: Mapping[str, Any]) -> PlanOptions:
    """The options given by name; where outputs go, and whose kernels compute, is chosen where nothing is said."""
    backend = settled(given.get("backend", AUTO))
    return PlanOptions.asked({"result": "auto", **given, "backend": backend})


@keywords(
    "fuse", "image", "frames", "device", "effort", "recompute", "pack", "result", "backend", "exact",
    "fallback", "tuning",
)  # fmt: skip
def pareto(
    network: Network,
    *,
    kernels: KernelSet | None = None,
    progress: Progress | None = None,
    **given: Any,
) -> tuple[Found, ...]:
    """Plans of a network that nothing dominates, from the smallest to the fastest: each a `plan`, its
    `bytes`, and the `seconds` that a frame is predicted to take on `device`.

    Every plan is checked, and runs. Raises InputError.
    """
    return front(network, _options(given), _planner(kernels), progress)


def chosen(
    network: Network,
    options: PlanOptions,
    planner: Planner = plan_of,
    progress: Progress | None = None,
    kernels: KernelSet | None = None,
    cost: Cost | None = None,
) -> Plan:
    """The plan that the options ask for. planner: makes a plan of given heights; cost: of a request. Raises as
    `plan`.
    """
    if options.batching:
        check_together(options)

        def one_image(one: Network, asked: PlanOptions) -> Plan:
            return finished(one, asked, planner, progress, kernels)

        return plan_for_request(network, options, one_image, progress, kernels, cost)
    made = _of_one_order(network, options, planner, progress, kernels)
    for note in made.notes:
        if made.interrupted and note.startswith(_INTERRUPTED):
            _LOG.warning("%s", note)
    return made


def finished(
    network: Network,
    options: PlanOptions,
    planner: Planner = plan_of,
    progress: Progress | None = None,
    kernels: KernelSet | None = None,
) -> Plan:
    """The plan of one image among others that are still to be made: Ctrl-C ends them all. Raises
    KeyboardInterrupt, and as `plan`.
    """
    made = _of_one_order(network, options, planner, progress, kernels)
    if made.interrupted:
        raise KeyboardInterrupt
    return made


def _of_one_order(
    network: Network,
    options: PlanOptions,
    planner: Planner,
    progress: Progress | None,
    kernels: KernelSet | None,
) -> Plan:
    options = tuned(network, with_result(network, options))
    made = shared_out(options, lambda bare: _chosen(network, bare, planner, progress), kernels)
    # shared out to two memories, a plan may take more than it was chosen for
    return _as_asked(made, options) if options.fast and options.memory else made


def _chosen(
    network: Network, options: PlanOptions, planner: Planner, progress: Progress | None
) -> Plan:
    """The same, in one memory."""
    check_together(options)
    given = options.rows != DEFAULTS.rows
    wish, made = _wish_of(options), None
    if wish is None or given:
        raised = wish is None and not given and isinstance(network, Network)
        made = planner(network, _raised(network, options) if raised else options)
        made = _in_few_phases(network, made, planner) if raised else made
        fits = given or made.interrupted or not _above_whole_layers(made)
        if wish is None and not fits:
            wish = _Wish(explored.no_more_than_whole, explored.balanced)
        else:
            return _told(_as_asked(made, options), 1)
    elif not isinstance(network, Network):
        return planner(network, options)  # says what is wrong with it
    searched = Search(network, options, profile_for(options), planner, progress)
    if made is not None:
        searched.add(made)
    searched.run(wish.explore)
    taken = wish.take(searched.found)
    searched.polish(taken)
    taken = wish.take(searched.found)
    if taken is None:
        if searched.interrupted:
            raise KeyboardInterrupt  # what is not finished has not failed
        raise _refused(searched, options)
    return _noted(taken, searched)


def front(
    network: Network,
    options: PlanOptions,
    planner: Planner = plan_of,
    progress: Progress | None = None,
) -> tuple[Found, ...]:
    """All plans that are worth having, see `pareto`. Raises InputError for heights or budgets beside
    it.
    """
    wishes = {"memory": options.memory, "latency": options.latency}
    for name, value in wishes.items():
        if value:
            raise InputError(f"pareto lists all plans; {option(name)} asks for one, leave it out")
    if options.fast:
        raise InputError(
            f"pareto lists plans in one memory; {option('fast')} shares one plan out, leave it out"
        )
    if options.rows != DEFAULTS.rows or options.goal != DEFAULTS.goal:
        name = "goal" if options.goal != DEFAULTS.goal else "rows"
        raise InputError(f"pareto chooses heights itself; leave {option(name)} out")
    options = tuned(network, with_result(network, options))
    searched = Search(network, options, profile_for(options), planner, progress)
    searched.run(explored.front)
    points = explored.not_dominated(searched.found)
    if searched.interrupted:
        _LOG.warning("interrupted: the %d plans so far, of %d", len(points), len(searched.found))
    return points


def profile_for(options: PlanOptions) -> DeviceProfile:
    """Where times are predicted. Raises InputError for a device that is not known."""
    return predicting(options)


def _planner(kernels: KernelSet | None) -> Planner:
    if kernels is None:
        return plan_of
    return lambda network, options: plan_of(network, options, kernels)


# What is asked ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Wish:
    """How to look for a plan, and which of those found is it; None if none is."""

    explore: Callable[[Search], None]
    take: Callable[[list[Found]], Found | None]


def _wish_of(options: PlanOptions) -> _Wish | None:
    """None where one plan at the heights of `auto` is what is asked for."""
    if options.latency:
        fits = options.memory or None
        return _Wish(
            explored.under_seconds(options.latency) if fits is None else explored.under_bytes(fits),
            lambda found: (explored.smallest if fits is None else explored.fastest)(
                [one for one in found if _keeps(one, options)]
            ),
        )
    if options.memory:
        return _Wish(
            explored.under_bytes(options.memory),
            lambda found: explored.fastest([one for one in found if _keeps(one, options)]),
        )
    if options.goal == "memory":
        return _Wish(explored.least, explored.smallest)
    if options.goal == "speed":
        return _Wish(explored.quickest, explored.fastest)
    return None


def _keeps(found: Found, options: PlanOptions) -> bool:
    return (not options.memory or found.bytes <= options.memory) and (
        not options.latency or found.seconds <= options.latency
    )


def _raised(network: Network, options: PlanOptions) -> PlanOptions:
    """The options with taller layers where native code gains by them (`goals.balance`)."""
    if options.backend == NUMPY.name or not _cut_once(options):
        return options
    return replace(options, rows=raised_rows(network, options, profile_for(options)))


def _in_few_phases(network: Network, made: Plan, planner: Planner) -> Plan:
    """The plan, or one of few phases where that reads less from far away (`goals.balance`)."""
    options = made.options
    if options.backend == NUMPY.name or made.interrupted or options.seconds is not None:
        return made
    few = few_phases(network, made, profile_for(options)) if _cut_once(options) else None
    if few is None:
        return made
    other = planner(network, replace(options, rows=few.rows))
    return other if few.better(other, made) else made


def _cut_once(options: PlanOptions) -> bool:
    """Whether every layer computes each of its rows once, in the order that is found to be the best."""
    once = options.recompute == 1 and not options.tiles
    return once and options.policy == DEFAULTS.policy and options.frames == 1


def _above_whole_layers(made: Plan) -> bool:
    return bytes_of(made) > made.figures["whole_layer_live"]


def check_together(options: PlanOptions) -> None:
    """Raises InputError for wishes that contradict each other."""
    goal = option("goal", options.goal)
    if options.latency and not (options.device or options.tuning):
        raise InputError(
            f"{option('latency')} is the time on a device; name it with {option('device')} "
            f"(csdfgen devices lists them), or give this machine's {option('tuning')} (csdfgen tune)"
        )
    if options.energy and not options.batching:
        raise InputError(
            f"{option('energy')} limits a request of images; give {option('requests')}, 1 for one image"
        )
    if options.energy and not options.device:
        raise InputError(
            f"{option('energy')} is of a device; name it with {option('device')} (csdfgen devices lists them)"
        )
    if options.memory and options.goal == "memory":
        raise InputError(
            f"{goal} asks for the least memory, {option('memory')} for the fastest plan within it; "
            "leave one of them out"
        )
    if options.latency and options.goal == "speed":
        raise InputError(
            f"{goal} asks for the least time, {option('latency')} for the smallest plan within it; "
            "leave one of them out"
        )


def _as_asked(made: Plan, options: PlanOptions) -> Plan:
    """A plan at given heights, held against the budgets. Raises PlanError."""
    if options.memory and bytes_of(made) > options.memory:
        raise PlanError(
            f"{option('memory')} of {options.memory:,} bytes is less than the {bytes_of(made):,} that "
            f"{option('rows', options.rows)} takes; leave {option('rows')} out, or ask for "
            f"{option('memory', shown_size(bytes_of(made)))}",
        )
    if options.latency:
        profile = profile_for(options)
        seconds = estimate(made, profile).seconds
        if seconds > options.latency:
            raise PlanError(
                f"{option('latency')} of {1e3 * options.latency:.6g} ms is less than the "
                f"{1e3 * seconds:.4g} ms that {option('rows', options.rows)} is predicted to take on "
                f"{profile.name}; leave {option('rows')} out, or ask for "
                f"{option('latency', shown_time(seconds))}",
            )
    return made


# What is said -----------------------------------------------------------------------------------


def _noted(taken: Found, searched: Search) -> Plan:
    made = replace(taken.plan, interrupted=searched.interrupted)
    return _told(made, len(searched.found))


def _told(made: Plan, count: int) -> Plan:
    """A plan that says so if the search for it was broken off; count: of plans it is the best of."""
    if not made.interrupted:
        return made
    best = "order" if count == 1 else f"of {count} plans"
    said = f"{_INTERRUPTED}: the best {best} so far, not the end of the search"
    return replace(made, notes=(*made.notes, said))


def _refused(searched: Search, options: PlanOptions) -> PlanError:
    """No plan that was found keeps the budgets: both numbers, what causes it, the way out."""
    profile = searched.profile
    least = min(searched.found, key=lambda one: (one.bytes, one.seconds))
    if options.memory and least.bytes > options.memory:
        bound = explored.bound_of(least.plan)
        proved = f"bound of {bound:,} bytes, proved for one row a phase"
        found = f"least that was found, {least.bytes:,} bytes"
        if bound > options.memory:
            said = f"below the {proved} (least found {least.bytes:,})"
        else:
            said = f"below the {found}" + (f" (bound {bound:,})" if bound else "")
        return PlanError(
            f"{option('memory')} of {options.memory:,} bytes is {said}; at the peak "
            f"{holders_said(least.plan)}; ask for {option('memory', shown_size(least.bytes))} or more",
            least=least.bytes,
        )
    kept = [one for one in searched.found if not options.memory or one.bytes <= options.memory]
    quick = min(kept, key=lambda one: one.seconds)
    within = f" within {options.memory:,} bytes" if options.memory else ""
    return PlanError(
        f"{option('latency')} of {1e3 * options.latency:.6g} ms is not reached{within}: the fastest plan "
        f"is predicted to take {1e3 * quick.seconds:.4g} ms on {profile.name}; ask for "
        f"{option('latency', shown_time(quick.seconds))} or more, or another {option('device')}",
    )
