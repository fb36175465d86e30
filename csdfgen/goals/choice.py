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
from functools import partial
from typing import Any

from csdfgen.backends.registry import AUTO, kernels_for, settled
from csdfgen.devices.costs import Cost
from csdfgen.devices.model import estimate
from csdfgen.devices.profile import DeviceProfile
from csdfgen.errors import InputError, PlanError, option
from csdfgen.goals import search as explored
from csdfgen.goals.batching.choice import of_requests, plan_for_request
from csdfgen.goals.batching.tables import tabled
from csdfgen.goals.facts import holders_said
from csdfgen.goals.heights import Predicted, few_phases, predicting, raised
from csdfgen.goals.search import Planner, Point, Progress, Search
from csdfgen.model.network import Network
from csdfgen.model.options import DEFAULTS, PlanOptions, keywords
from csdfgen.model.units import shown_size, shown_time, size_of
from csdfgen.planning.lifetimes import whole_layer_live
from csdfgen.planning.plan import Plan
from csdfgen.planning.plan_table import PlanTable
from csdfgen.planning.planner import planned
from csdfgen.planning.prepared import Prepared, prepare, recomputing
from csdfgen.planning.replacing import in_memories
from csdfgen.program.steps import Backend
from csdfgen.tuning.use import tuned

__all__ = [
    "check_together",
    "chosen",
    "finished",
    "front",
    "pareto",
    "plan",
    "plan_table",
    "profile_for",
    "table_of",
    "usual",
    "with_result",
]

_LOG = logging.getLogger(__name__)

_LARGE = 1 / 64
"""Part of what whole layers take from which on outputs are large: plans take a tenth of whole layers
or less, of which that is a sixth.
"""

_INTERRUPTED = "interrupted"
"""How a note of a search that was broken off begins."""


@keywords()
def plan(
    network: Network,
    *,
    cost: Cost | None = None,
    kernels: Backend | None = None,
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
    return chosen(network, options, planned, progress, kernels, cost)


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
    return table_of(network, options, requests, [size_of(one) for one in memory] or [0], progress)


def table_of(
    network: Network,
    options: PlanOptions,
    requests: Sequence[int],
    budgets: Sequence[int],
    progress: Progress | None = None,
) -> PlanTable:
    """Plans for several numbers of images in several budgets (bytes, 0 for any). Raises as `plan_table`."""
    one_image = partial(finished, progress=progress)
    return tabled(_prepared(network, options), requests, budgets, one_image, progress)


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
    kernels: Backend | None = None,
    progress: Progress | None = None,
    **given: Any,
) -> tuple[Point, ...]:
    """Plans of a network that nothing dominates, from the smallest to the fastest: each a `plan`, its
    `bytes`, and the `seconds` that a frame is predicted to take on `device`.

    Every plan is checked, and runs. Raises InputError.
    """
    return front(network, _options(given), planned, progress, kernels)


def chosen(
    network: Network,
    options: PlanOptions,
    planner: Planner = planned,
    progress: Progress | None = None,
    kernels: Backend | None = None,
    cost: Cost | None = None,
) -> Plan:
    """The plan that the options ask for. planner: makes a plan of given heights; kernels: the backend, that of the
    options by default; cost: of a request. Raises as `plan`.
    """
    check_together(options)
    prepared = _prepared(network, options, kernels)
    if options.batching:
        one_image = partial(finished, planner=planner, progress=progress)
        return plan_for_request(prepared, one_image, progress, cost)
    made = _of_one_order(prepared, planner, progress)
    for note in made.notes:
        if made.interrupted and note.startswith(_INTERRUPTED):
            _LOG.warning("%s", note)
    return made


def _prepared(network: Network, options: PlanOptions, kernels: Backend | None = None) -> Prepared:
    """The network, for all plans that are tried."""
    options = with_result(network, options)
    prepared = recomputing(prepare(network, options, kernels or kernels_for(options)))
    if not options.tuning:
        return prepared
    asked = tuned(prepared)
    return replace(prepared, options=asked, kernels=kernels or kernels_for(asked))


def finished(
    prepared: Prepared, planner: Planner = planned, progress: Progress | None = None
) -> Plan:
    """The plan of one image among others that are still to be made: Ctrl-C ends them all. Raises
    KeyboardInterrupt, and as `plan`.
    """
    made = _of_one_order(prepared, planner, progress)
    if made.interrupted:
        raise KeyboardInterrupt
    return made


def _of_one_order(prepared: Prepared, planner: Planner, progress: Progress | None) -> Plan:
    options = prepared.options
    if not options.fast:
        return _chosen(prepared, planner, progress)
    # memories hold what an order keeps alive: the choice among plans is the same without them
    one = replace(prepared, options=replace(options, fast=0, slow=0))
    made = in_memories(_chosen(one, planner, progress), options.fast, options.slow)
    # shared out to two memories, a plan may take more than it was chosen for
    return _as_asked(made, options) if options.memory else made


def _chosen(prepared: Prepared, planner: Planner, progress: Progress | None) -> Plan:
    """The same, in one memory."""
    options, kernels = prepared.options, prepared.kernels
    target = _target_of(options, kernels)
    if options.rows != DEFAULTS.rows:
        return _told(_as_asked(planner(prepared, prepared.phased()), options), 1)
    made = predicted = None
    if target is None and kernels.tall_slabs and _cut_once(options):
        predicted = _predicted(prepared)
    if target is None:
        made = _balanced(prepared, planner, predicted)
        if made.interrupted or made.total_bytes <= made.figures["whole_layer_live"]:
            return _told(made, 1)
        target = _Target(explored.no_more_than_whole, explored.balanced)
    predicted = predicted or _predicted(prepared)
    searched = Search(predicted, planner, progress)
    if made is not None:
        searched.add(made)
    searched.run(target.explore)
    taken = target.take(searched.found)
    searched.polish(taken)
    taken = target.take(searched.found)
    if taken is None:
        if searched.interrupted:
            raise KeyboardInterrupt  # what is not finished has not failed
        raise _refused(searched, options)
    return _noted(taken, searched)


def front(
    network: Network,
    options: PlanOptions,
    planner: Planner = planned,
    progress: Progress | None = None,
    kernels: Backend | None = None,
) -> tuple[Point, ...]:
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
    prepared = _prepared(network, options, kernels)
    searched = Search(_predicted(prepared), planner, progress)
    searched.run(explored.front)
    points = explored.not_dominated(searched.found)
    if searched.interrupted:
        _LOG.warning("interrupted: the %d plans so far, of %d", len(points), len(searched.found))
    return points


def profile_for(options: PlanOptions) -> DeviceProfile:
    """Where times are predicted. Raises InputError for a device that is not known."""
    return predicting(options, kernels_for(options))


def with_result(network: Network, options: PlanOptions) -> PlanOptions:
    """The options with what becomes of outputs settled, which is in the arena where that saves much.

    Outputs that are in the arena need no array beside it, and until their rows come, others are stored there. The
    caller may keep them: they then stay as they are, and the program goes on with another arena. For the few
    scores of a classifier that is not worth it.
    """
    if options.result != "auto":
        return options
    large = isinstance(network, Network) and _are_large(network)
    fits = large and network.batch == options.frames == 1
    apart = options.fast or options.tiles or options.recompute > 1
    return replace(options, result="arena" if fits and not apart else "stored")


def _are_large(network: Network) -> bool:
    return network.output_bytes >= _LARGE * whole_layer_live(network)


# What is asked ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Target:
    """How to look for a plan, and which of those found is it; None if none is."""

    explore: Callable[[Search], None]
    take: Callable[[list[Point]], Point | None]


def _target_of(options: PlanOptions, kernels: Backend) -> _Target | None:
    """None where one plan at the heights of `auto` is what is asked for."""
    fastest = partial(explored.fastest, kernels=kernels)
    if options.latency:
        fits = options.memory or None
        return _Target(
            explored.under_seconds(options.latency) if fits is None else explored.under_bytes(fits),
            lambda found: (explored.smallest if fits is None else fastest)(
                [one for one in found if _keeps(one, options)]
            ),
        )
    if options.memory:
        return _Target(
            explored.under_bytes(options.memory),
            lambda found: fastest([one for one in found if _keeps(one, options)]),
        )
    if options.goal == "memory":
        return _Target(explored.least, explored.smallest)
    if options.goal == "speed":
        return _Target(explored.quickest, fastest)
    return None


def _keeps(found: Point, options: PlanOptions) -> bool:
    return (not options.memory or found.bytes <= options.memory) and (
        not options.latency or found.seconds <= options.latency
    )


def _predicted(prepared: Prepared) -> Predicted:
    return Predicted(prepared, predicting(prepared.options, prepared.kernels))


def _balanced(prepared: Prepared, planner: Planner, predicted: Predicted | None) -> Plan:
    """The plan at heights of `auto`; with some layers taller, or in few phases (`goals.balance`), where times are
    predicted for that.
    """
    if predicted is None:
        return planner(prepared, prepared.phased())
    made = planner(prepared, raised(predicted))
    if made.interrupted or prepared.options.seconds is not None:
        return made
    few = few_phases(made, predicted)
    if few is None:
        return made
    other = planner(prepared, few.phased)
    return other if few.better(other, made) else made


def _cut_once(options: PlanOptions) -> bool:
    """Whether every layer computes each of its rows once, in the order that is found to be the best."""
    once = options.recompute == 1 and not options.tiles
    return once and options.policy == DEFAULTS.policy and options.frames == 1


def check_together(options: PlanOptions) -> None:
    """Raises InputError for wishes that contradict each other."""
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
            f"{option('goal', options.goal)} asks for the least memory, {option('memory')} for the fastest plan within it; "
            "leave one of them out"
        )
    if options.latency and options.goal == "speed":
        raise InputError(
            f"{option('goal', options.goal)} asks for the least time, {option('latency')} for the smallest plan within it; "
            "leave one of them out"
        )


def _as_asked(made: Plan, options: PlanOptions) -> Plan:
    """A plan at given heights, held against the budgets. Raises PlanError."""
    if options.memory and made.total_bytes > options.memory:
        raise PlanError(
            f"{option('memory')} of {options.memory:,} bytes is less than the {made.total_bytes:,} that "
            f"{option('rows', options.rows)} takes; leave {option('rows')} out, or ask for "
            f"{option('memory', shown_size(made.total_bytes))}",
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


def _noted(taken: Point, searched: Search) -> Plan:
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
    profile = searched.predicted.profile
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
