"""Which plan meets a goal and budgets, and which plans form the Pareto front of memory and time? A budget that no
plan meets is refused in one line.

    plan = csdfgen.plan(net, memory="512KiB")             # the fastest that fits
    plan = csdfgen.plan(net, latency="20ms", device="host")   # the smallest that is in time
    for point in csdfgen.pareto(net): print(point.bytes, point.seconds)

The goal `balanced` makes one plan, at the heights of `auto`. Every other goal compares several plans (`goals.search`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from csdfgen.backends.registry import AUTO, choose_backend, resolve_backend
from csdfgen.devices.catalogue import HOST, device
from csdfgen.devices.costs import Cost
from csdfgen.devices.model import estimate
from csdfgen.devices.profile import DeviceProfile
from csdfgen.emission.account import account_memory
from csdfgen.errors import CsdfgenError, InputError, PlanError, option
from csdfgen.goals import search as explored
from csdfgen.goals.constants import price_constants
from csdfgen.goals.facts import describe_holders
from csdfgen.goals.heights import (
    Predicted,
    choose_profile,
    load_devices,
    plan_few_phases,
    raise_heights,
)
from csdfgen.goals.peaks import lower, lower_peak
from csdfgen.goals.search import Planner, Progress, Search
from csdfgen.model.network import Network
from csdfgen.model.options import DEFAULTS, STREAM_OPTIONS, PlanOptions, keywords
from csdfgen.model.units import format_size, format_time, parse_size
from csdfgen.phases.heights import join_heights, least_auto_height
from csdfgen.phases.streaming import find_stream_obstacle
from csdfgen.planning.checker import annotate_plan
from csdfgen.planning.lifetimes import whole_layer_live
from csdfgen.planning.plan import Plan, Point
from csdfgen.planning.planner import choose_loop_heights, plan_phased, return_freed_memory
from csdfgen.planning.prepared import (
    Prepared,
    choose_recomputation,
    prepare,
    use_spare_workspace,
)
from csdfgen.program.steps import Backend
from csdfgen.reading.loader import load
from csdfgen.stopping import heed_interrupts, is_stopped

if TYPE_CHECKING:
    from csdfgen.planning.plan_table import PlanTable

_LOG = logging.getLogger(__name__)
_WAITS = logging.getLogger("csdfgen.waits")

_LARGE = 1 / 64
"""Outputs of at least this part of the memory of whole layers are large: plans take a tenth of whole layers or less,
of which that is a sixth.
"""

_TALL = 16_000
"""Firings, of a network before fusion, from which on a plan repeats some of them if it can."""

_LOOPED = {
    *STREAM_OPTIONS, "policy", "result", "count", "device", "probability", "memory", "constants", "latency",
}  # fmt: skip
"""Options of plans whose firings repeat."""

_INTERRUPTED = "interrupted"
"""First word of the note of a plan whose search was interrupted."""


@keywords()
def plan(
    network: Network | list[Network],
    *,
    cost: Cost | None = None,
    kernels: Backend | None = None,
    progress: Progress | None = None,
    **given: Any,
) -> Plan:
    """The plan of a network, or of several in one arena: firings, buffers and memory figures.

    Given rows are used whatever the goal; frames divide the network's batch. Ctrl-C ends a search with the best plan
    so far, if there is one. The budgets of a request (`requests`) cover all its images.

    cost: a limit on a cost of a request that adds up over phases (`devices.costs`). kernels: the backend whose
    workspace is planned, instead of `backend`. progress: called as progress("what", done, total).
    Raises InputError for options that do not exist or contradict each other, and for a value that is no network;
    PlanError for a budget that no plan meets; its message names a budget that a plan meets.
    """
    if isinstance(network, list):
        network = load(network)
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
        from csdfgen.goals.batching.choice import repeat_request

        network = repeat_request(network, images)
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
    return choose_plan(network, options, plan_phased, progress, kernels, cost)


@keywords(
    "fuse",
    "image",
    "device",
    "effort",
    "backend",
    "cl_device",
    "weights",
    "exact",
    "fallback",
    "batching",
)
def plan_table(
    network: Network,
    *,
    requests: Sequence[int],
    memory: Sequence[str | int] = (),
    progress: Progress | None = None,
    **given: Any,
) -> PlanTable:
    """Plans for several numbers of images in several budgets; a program chooses among them by the memory that is free
    (`csdfgen.compile_table`): `csdfgen schedule --requests 1,4,16 --budgets 1MiB,2MiB`.

    requests: numbers of images; the table always has a plan for 1 image. memory: budgets in bytes, or as "512KB" or
    "512KiB"; none for no limit. Raises as `plan`.
    """
    options = _options({"batching": "joint", "result": DEFAULTS.result, **given})
    return make_plan_table(
        network, options, requests, [parse_size(one) for one in memory] or [0], progress
    )


def make_plan_table(
    network: Network,
    options: PlanOptions,
    requests: Sequence[int],
    budgets: Sequence[int],
    progress: Progress | None = None,
) -> PlanTable:
    """The same as `plan_table` by options; budgets in bytes, 0 for no limit. Raises as `plan_table`."""
    from csdfgen.goals.batching.choice import make_table

    one_image = partial(finish_plan, progress=progress)
    return make_table(_prepared(network, options), requests, budgets, one_image, progress)


def default_options() -> PlanOptions:
    """The options of `plan` without any keyword, for programs of a few frames, whose arenas are compared."""
    return _options({"weights": "copied", "count": "activations"})


def plan_options(given: Mapping[str, Any]) -> PlanOptions:
    """The options given by name, and the defaults. By default several images are executed one after the other in one
    overlapping order, or on demand where the options set batches. Raises InputError.
    """
    return PlanOptions.asked(_with_policy(given))


def run_options(given: Mapping[str, Any], *, movable: bool = False) -> PlanOptions:
    """The options of a plan that is to be executed, by default by the fastest backend that is available. movable:
    another packer places the rows, so that outputs are in the arena only on request. Raises InputError.
    """
    return _options({**({"result": DEFAULTS.result} if movable else {}), **_with_policy(given)})


def _with_policy(given: Mapping[str, Any]) -> dict[str, Any]:
    policy = given.get("policy", DEFAULTS.policy)
    if policy == DEFAULTS.policy and given.get("frames", 1) > 1:
        policy = "demand" if "batches" in given else "overlap"
    return {**given, "policy": policy}


def _options(given: Mapping[str, Any]) -> PlanOptions:
    """The options given by name; without a request, where outputs are stored and which backend computes are chosen."""
    backend = resolve_backend(given.get("backend", AUTO))
    return PlanOptions.asked({"result": "auto", **given, "backend": backend})


@keywords(
    "fuse", "image", "frames", "count", "device", "effort", "recompute", "pack", "result", "backend", "cl_device",
    "weights", "exact", "fallback", "tuning",
)  # fmt: skip
def pareto(
    network: Network,
    *,
    kernels: Backend | None = None,
    progress: Progress | None = None,
    **given: Any,
) -> tuple[Point, ...]:
    """The Pareto front of memory and time of a network's plans, from the smallest to the fastest: each a `plan`, its
    `bytes`, and the `seconds` that a frame is predicted to take on `device`.

    Every plan has passed the checker and can be executed. Raises InputError.
    """
    return find_front(network, _options(given), plan_phased, progress, kernels)


def choose_plan(
    network: Network,
    options: PlanOptions,
    planner: Planner = plan_phased,
    progress: Progress | None = None,
    kernels: Backend | None = None,
    cost: Cost | None = None,
) -> Plan:
    """The plan that the options request. planner: makes a plan at given heights; kernels: the backend, by default that
    of the options; cost: limit for a request. Raises as `plan`.
    """
    check_together(options)
    planner = _counting(planner, options)
    tall = _plan_tall(network, options, kernels, progress)
    if tall is not None:
        return tall
    with heed_interrupts():
        prepared = _prepared(network, options, kernels)
        if options.batching:
            from csdfgen.goals.batching.choice import plan_for_request

            one_image = partial(finish_plan, planner=planner, progress=progress)
            made = plan_for_request(prepared, one_image, progress, cost)
        else:
            made = _of_one_order(prepared, planner, progress)
    del prepared
    return_freed_memory()
    if not any(note.startswith(_INTERRUPTED) for note in made.notes):
        made = _noted(made, 1)
    for note in made.notes:
        if made.interrupted and note.startswith(_INTERRUPTED):
            _LOG.warning("%s", note)
    return made


def _prepared(network: Network, options: PlanOptions, kernels: Backend | None = None) -> Prepared:
    """The network, prepared once for all plans that are compared."""
    options = resolve_result(network, options)
    used = kernels or choose_backend(options)
    options = _count_flash(options, used)
    prepared = choose_recomputation(prepare(network, options, used))
    if options.tuning:
        from csdfgen.tuning.file import apply_tuning

        asked = apply_tuning(prepared)
    else:
        asked = price_constants(prepared)
    return replace(prepared, options=asked, kernels=kernels or choose_backend(asked))


def _count_flash(options: PlanOptions, kernels: Backend) -> PlanOptions:
    """The options for a device whose constants have a memory of their own."""
    apart = options.device and any(one.memory.parameters for one in load_devices(options, kernels))
    return replace(options, count="flash") if apart else options


def _counting(planner: Planner, options: PlanOptions) -> Planner:
    """A planner whose plans have constants and program among their figures, if these are counted or limited."""
    return lambda prepared, phased: _counted(planner(prepared, phased), options, prepared.kernels)


def _counted(made: Plan, options: PlanOptions, kernels: Backend) -> Plan:
    if not (options.constants or options.count == "total"):
        return made
    account = account_memory(made, kernels=kernels)
    more = {"constants": account.constants, "program": account.program}
    return annotate_plan(made, figures=MappingProxyType({**made.figures, **more}))


def finish_plan(
    prepared: Prepared, planner: Planner = plan_phased, progress: Progress | None = None
) -> Plan:
    """The plan of one image, as one of several plans of a search: Ctrl-C ends the whole search. Raises
    KeyboardInterrupt, and as `plan`.
    """
    made = _of_one_order(prepared, planner, progress)
    if made.interrupted:
        raise KeyboardInterrupt
    return made


def _of_one_order(prepared: Prepared, planner: Planner, progress: Progress | None) -> Plan:
    options = prepared.options
    if options.goal == "throughput":
        from csdfgen.goals.throughput import plan_processors

        one_image = partial(_of_one_order, planner=planner, progress=progress)
        return plan_processors(prepared, one_image, load_profiles(options, prepared.kernels))
    if not options.fast:
        return _chosen(prepared, planner, progress)
    from csdfgen.planning.replacing import split_memories

    # the bytes that an order keeps alive do not depend on the memories, so the choice among plans does not either
    one = replace(prepared, options=replace(options, fast=0, slow=0))
    made = split_memories(_chosen(one, planner, progress), options.fast, options.slow)
    # distributed over two memories, a plan may take more bytes than the plan that was chosen
    return _within_budgets(made, options) if options.memory else made


def _chosen(prepared: Prepared, planner: Planner, progress: Progress | None) -> Plan:
    """The plan in one memory; of several networks without budgets, at the heights that each has alone."""
    options, members = prepared.options, prepared.network.members
    given = options.rows != DEFAULTS.rows or options.policy == "loop" or options.tiles
    if not members or given or options.memory or options.latency or options.constants:
        return _chosen_heights(prepared, planner, progress)
    alone = [
        finish_plan(_prepared(one.network, options, prepared.kernels), planner, progress)
        for one in members
    ]
    rows = join_heights(prepared.network, ((one.network, one.conversion.rows) for one in alone))
    made, sizes = planner(prepared, prepared.at(rows)), [one.planned_bytes for one in alone]
    more = {"largest_alone": max(sizes), "sum_alone": sum(sizes)}
    return _noted(annotate_plan(made, figures=MappingProxyType({**made.figures, **more})), 1)


def _chosen_heights(prepared: Prepared, planner: Planner, progress: Progress | None) -> Plan:
    """The plan in one memory at heights that suit the network as a whole."""
    options, kernels = prepared.options, prepared.kernels
    if options.policy == "loop" and options.rows == DEFAULTS.rows:
        phased = prepared.at(choose_loop_heights(prepared))
        return _noted(_within_budgets(planner(prepared, phased), options), 1)
    if options.rows != DEFAULTS.rows:
        return _noted(_within_budgets(planner(prepared, prepared.phased()), options), 1)
    stages, take = _target_of(options, kernels)
    if options.memory or options.latency:  # in the scratch of the default, whatever the goal
        usual = replace(options, memory=0, latency=0.0, goal=DEFAULTS.goal)
        prepared = replace(prepared, options=usual)
    predicted = _predicted(prepared) if explored.has_comparison(prepared) else None
    default = partial(_balanced, prepared, planner, predicted)
    if stages == (explored.search_default,):
        made = default()
        alone = predicted is None or options.seconds is not None
        if made.interrupted or (alone and made.total_bytes <= explored.whole_layer_bytes(made)):
            return _noted(made, 1)
        default = partial(replace, made)
    used = _spending(planner) if stages == (explored.search_default,) else planner
    searched = Search(predicted or _predicted(prepared), used, progress, default)
    searched.run(*stages)
    searched.polish(take(searched.found))
    taken = take(searched.found)
    if taken is None:
        if searched.interrupted:
            raise KeyboardInterrupt  # a search that is not finished has not failed
        raise _refused(searched.found, searched.predicted.profile, options)
    own = replace(taken.plan.options, memory=options.memory, latency=options.latency)
    made = annotate_plan(taken.plan, interrupted=searched.interrupted, options=own)
    return _noted(made, len(searched.found))


def find_front(
    network: Network,
    options: PlanOptions,
    planner: Planner = plan_phased,
    progress: Progress | None = None,
    kernels: Backend | None = None,
) -> tuple[Point, ...]:
    """The Pareto front, see `pareto`. Raises InputError for heights and budgets, which it varies itself."""
    for name in ("memory", "latency", "constants"):
        if getattr(options, name):
            raise InputError(f"pareto lists all plans; {option(name)} asks for one, leave it out")
    if options.fast:
        raise InputError(
            f"pareto lists plans in one memory; {option('fast')} shares one plan out, leave it out"
        )
    if options.rows != DEFAULTS.rows or options.goal != DEFAULTS.goal:
        name = "goal" if options.goal != DEFAULTS.goal else "rows"
        raise InputError(f"pareto chooses heights itself; leave {option(name)} out")
    planner = _counting(planner, options)
    with heed_interrupts():
        prepared = _prepared(network, options, kernels)
        predicted = _predicted(prepared)
        times = predicted if explored.has_comparison(prepared) else None
        default = partial(_balanced, prepared, planner, times)
        searched = Search(predicted, planner, progress, default)
        unbeaten = explored.search_unbeaten(lambda search: explored.pareto_optimal(search.found))
        searched.run(explored.search_shared, explored.search_front, unbeaten)
    points = explored.pareto_optimal(searched.found)
    if searched.interrupted:
        _LOG.warning("interrupted: the %d plans so far, of %d", len(points), len(searched.found))
    return points


def load_profile(options: PlanOptions) -> DeviceProfile:
    """The profile that times are predicted by. Raises InputError for an unknown device."""
    return choose_profile(options, choose_backend(options))


def choose_shown_profile(options: PlanOptions) -> DeviceProfile:
    """The profile that the times of one plan are shown by: this machine's, where native kernels compute and no device or times
    were named. Plans are chosen by `load_profile`, so that all machines choose the same. Raises InputError, ToolError.
    """
    kernels = choose_backend(options)
    named = options.device or options.tuning or options.goal == "throughput"
    return choose_profile(options, kernels) if named or not kernels.emits else device(HOST)


def load_profiles(options: PlanOptions, kernels: Backend | None = None) -> Sequence[DeviceProfile]:
    """The profiles of several processors, or the one of all. Raises InputError for an unknown device."""
    kernels = kernels or choose_backend(options)
    if options.tuning and not options.device:
        return (choose_profile(options, kernels),)
    return load_devices(options, kernels)


def resolve_result(network: Network, options: PlanOptions) -> PlanOptions:
    """The options with `result` settled: outputs stay in the arena where that saves much memory.

    Outputs in the arena need no separate array, and other rows use their bytes until they are written. If the caller
    holds them across frames, they are kept, and the program continues in another arena. For the few scores of a
    classifier that is not worth it.
    """
    if options.result != "auto":
        return options
    large = (
        isinstance(network, Network)
        and network.output_bytes >= _LARGE * whole_layer_live(network)
        and network.batch == options.frames == 1
    )
    apart = (
        options.policy == "loop"
        or options.fast
        or options.tiles
        or options.recompute > 1
        or options.goal == "throughput"
    )
    return replace(options, result="arena" if large and not apart else "stored")


# What the options request ------------------------------------------------------------------------

_Target = tuple[tuple[explored.Stage, ...], Callable[[list[Point]], Point | None]]
"""How to look for a plan, and which of the plans found is taken; None if none is."""


def _target_of(options: PlanOptions, kernels: Backend) -> _Target:
    stages, take = _target_in_memory(options, kernels)
    if not options.constants:
        return stages, take

    def take_within(found: Sequence[Point]) -> Point | None:
        kept = [one for one in found if one.plan.flash_bytes <= options.constants]
        return take(kept) if kept else None

    own = (one for one in stages if one not in (explored.search_default, explored.search_shared))
    return (explored.search_shared, *own), take_within


def _target_in_memory(options: PlanOptions, kernels: Backend) -> _Target:
    """The same whatever the constants take."""
    fastest = partial(explored.find_fastest, kernels=kernels)
    if options.memory or options.latency:

        def take(found: Sequence[Point]) -> Point | None:
            best = fastest if options.memory else explored.find_smallest
            return best([one for one in found if _keeps(one, options)])

        within = (
            explored.limit_bytes(options.memory)
            if options.memory
            else explored.limit_seconds(options.latency)
        )
        unbeaten = explored.search_unbeaten(lambda search: filter(None, [take(search.found)]))
        stages = explored.search_shared, within, unbeaten
        return (explored.stop_hopeless(options.memory), *stages) if options.memory else stages, take
    if options.goal == "memory":
        more = (explored.search_default,) if options.count == "total" else ()
        return (explored.search_least, *more), explored.find_smallest
    if options.goal == "speed":
        return (explored.search_quickest,), fastest
    return (explored.search_default,), explored.find_balanced


def _keeps(found: Point, options: PlanOptions) -> bool:
    return (not options.memory or found.bytes <= options.memory) and (
        not options.latency or found.seconds <= options.latency
    )


def _predicted(prepared: Prepared) -> Predicted:
    return Predicted(prepared, choose_profile(prepared.options, prepared.kernels))


def _spending(planner: Planner) -> Planner:
    """A planner of defaults, whose workspace may take some of all memory; budgets and fronts decide on that themselves."""
    return lambda prepared, phased: planner(prepared, use_spare_workspace(phased))


def _balanced(prepared: Prepared, planner: Planner, predicted: Predicted | None) -> Plan:
    """The plan at heights of `auto`; with predicted times, some layers are taller or all are cut into few phases
    (`goals.heights`), or some are lower (`goals.peaks`).
    """
    planner = _spending(planner)
    if predicted is None:
        return planner(prepared, prepared.phased())
    try:
        phased = raise_heights(predicted)
    except KeyboardInterrupt:
        if not is_stopped():
            raise
        phased = prepared.phased()
    made = planner(prepared, phased)
    if made.interrupted or prepared.options.seconds is not None:
        return made
    try:
        for other_heights in (lower_peak, plan_few_phases, lower):
            heights = other_heights(made, predicted)
            if heights is None or is_stopped():
                continue
            other = planner(prepared, heights.phased)
            made = other if heights.better(other, made) else made
    except KeyboardInterrupt:
        if not is_stopped():
            raise
    return annotate_plan(made, interrupted=made.interrupted or is_stopped())


def _plan_tall(
    network: Network, options: PlanOptions, kernels: Backend | None, progress: Progress | None
) -> Plan | None:
    """The plan of an image so tall that its firings repeat, if there would be many of them, or if it is requested; None for
    other images, networks and options, and it is said why those of a tall image take long. Raises PlanError for budgets that
    no plan meets that repeats.
    """
    tall = _is_tall(network, options)
    if not tall and options.policy != "loop":
        return None
    kernels = kernels or choose_backend(options)
    try:
        found, taken = _find_loops(network, options, kernels)
    except CsdfgenError as error:
        if tall:
            said = f"planning all firings of a tall image, which takes long: {error.message}"
            _WAITS.info(said)
            if progress is not None:
                progress(said)
        return None
    if taken is None:
        raise _refused(found, load_profile(options), options)
    own = replace(taken.plan.options, memory=options.memory, latency=options.latency)
    return annotate_plan(taken.plan, options=own)


def _find_loops(
    network: Network, options: PlanOptions, kernels: Backend
) -> tuple[list[Point], Point | None]:
    """Plans that repeat, and which of them is taken. Raises CsdfgenError if none is for the network, or these options."""
    other = [one.name for one in fields(options) if one.name not in _LOOPED]
    for name in (*other, *["result"] * (options.result == "arena")):
        if getattr(options, name) != getattr(DEFAULTS, name):
            raise PlanError(f"no plan with {option(name, getattr(options, name))} repeats")
    if network.at_height is None or network.batch > 1:
        raise PlanError("only the plan of one image of a model in a file repeats")
    goals: Sequence[str] = [options.goal]
    if options.memory or options.latency:
        goals = ("speed", "balanced", "memory")[:: 1 if options.memory else -1]
    asked = replace(
        _count_flash(options, kernels),
        policy="loop",
        result="stored" if options.result == "auto" else options.result,
        memory=0,
        latency=0.0,
        constants=0,
    )
    from csdfgen.planning.streams import find_stream

    # a network of many layers is no tall image if it needs all rows at once; images of other heights take long to read
    obstacle = None if options.policy == "loop" else find_stream_obstacle(network)
    if obstacle is not None:
        raise PlanError(str(obstacle))
    take, found = _target_of(options, kernels)[1], list[Point]()
    for goal in goals:
        stream = find_stream(network.at_height, replace(asked, goal=goal), kernels)
        made = _counted(stream.loop_at(network.inputs[0].rows), options, kernels)
        if not made.turns:
            raise PlanError("it is too low for turns that repeat")
        found.append(Point(made, estimate(made, load_profile(options)).seconds))
        if taken := take(found):
            return found, taken
    return found, None


def _is_tall(network: Network, options: PlanOptions) -> bool:
    """Whether a plan at heights of `auto` has very many firings."""
    tensors = (one for one in network.tensors.values() if one.row_axis is not None)
    usual = (options.policy, options.rows) == (DEFAULTS.policy, DEFAULTS.rows)
    return usual and sum(one.rows / least_auto_height(one) for one in tensors) > _TALL


def check_together(options: PlanOptions) -> None:
    """Raises InputError for requirements that contradict each other."""
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
    if options.threads and options.goal != "throughput":
        raise InputError(
            f"{option('threads', options.threads)} of a plan are processors of {option('goal', 'throughput')}; any plan "
            "is executed by several threads where it is run, or compiled"
        )
    counted = options.constants or options.count == "total"
    if counted and (options.batching or options.fast or options.goal == "throughput"):
        raise InputError(
            f"{option('count', 'total')} and {option('constants')} are of plans in one memory, for one processor; leave them "
            f"out, or {option('requests')}, {option('fast')} and {option('goal', 'throughput')}"
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


def _within_budgets(made: Plan, options: PlanOptions) -> Plan:
    """The plan at given heights, compared with the budgets. Raises PlanError."""
    if options.constants and made.flash_bytes > options.constants:
        raise _too_many_constants(made.flash_bytes, options)
    if options.memory and made.total_bytes > options.memory:
        raise PlanError(
            f"{option('memory')} of {options.memory:,} bytes is less than the {made.total_bytes:,} that "
            f"{option('rows', options.rows)} takes; leave {option('rows')} out, or ask for "
            f"{option('memory', format_size(made.total_bytes))}"
        )
    if options.latency:
        profile = load_profile(options)
        seconds = estimate(made, profile).seconds
        if seconds > options.latency:
            raise PlanError(
                f"{option('latency')} of {1e3 * options.latency:.6g} ms is less than the "
                f"{1e3 * seconds:.4g} ms that {option('rows', options.rows)} is predicted to take on "
                f"{profile.name}; leave {option('rows')} out, or ask for "
                f"{option('latency', format_time(seconds))}"
            )
    return made


# Notes and refusals ------------------------------------------------------------------------------


def _noted(made: Plan, count: int) -> Plan:
    """A plan with a note if its search was interrupted; count: plans that were compared."""
    if not made.interrupted:
        return made
    best = "order" if count == 1 else f"of {count} plans"
    note = f"{_INTERRUPTED}: the best {best} so far, not the end of the search"
    return annotate_plan(made, notes=(*made.notes, note))


def _refused(made: Sequence[Point], profile: DeviceProfile, options: PlanOptions) -> PlanError:
    """The error for budgets that no plan meets: both numbers, the cause, the way out."""
    flash = options.constants
    found = [one for one in made if not flash or one.plan.flash_bytes <= flash]
    if not found:
        return _too_many_constants(min(one.plan.flash_bytes for one in made), options)
    least = min(found, key=explored.size_key)
    if options.memory and least.bytes > options.memory:
        unbounded = flash or options.count == "total" or least.plan.turns
        bound = 0 if unbounded else explored.lower_bound(least.plan)
        proved = f"bound of {bound:,} bytes, proved for one row a phase"
        counted = (
            f", {least.plan.flash_bytes:,} of them only read" if options.count == "total" else ""
        )
        said = f"least that was found, {least.bytes:,} bytes{counted}"
        if bound > options.memory:
            below = f"{proved} (least found {least.bytes:,})"
        else:
            below = said + (f" (bound {bound:,})" if bound else "")
            outputs = least.plan.figures["outputs"]
            if least.plan.turns and outputs:
                below += (
                    f", {outputs:,} of them outputs, which {option('result', 'streamed')} hands on"
                )
        return PlanError(
            f"{option('memory')} of {options.memory:,} bytes is below the {below}; at the peak "
            f"{describe_holders(least.plan)}; ask for {option('memory', format_size(least.bytes))} or more",
            least=least.bytes,
        )
    kept = [one for one in found if not options.memory or one.bytes <= options.memory]
    quick = min(kept, key=lambda one: one.seconds)
    within = f" within {options.memory:,} bytes" if options.memory else ""
    return PlanError(
        f"{option('latency')} of {1e3 * options.latency:.6g} ms is not reached{within}: the fastest plan "
        f"is predicted to take {1e3 * quick.seconds:.4g} ms on {profile.name}; ask for "
        f"{option('latency', format_time(quick.seconds))} or more, or another {option('device')}"
    )


def _too_many_constants(least: int, options: PlanOptions) -> PlanError:
    return PlanError(
        f"{option('constants')} of {options.constants:,} bytes is below the least of constants and the program that was found, "
        f"{least:,} bytes; quantize the model (csdfgen quantize), or ask for {option('constants', format_size(least))} or more"
    )
