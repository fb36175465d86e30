"""`csdfgen run MODEL --map ...`: frames on processors of several kinds at the same time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from csdfgen.backends.registry import AUTO, choose_backend
from csdfgen.cli.models import load_network, plan_network
from csdfgen.cli.options import Asked, check_suffix, refuse
from csdfgen.cli.terminal import escape, say, say_json, show_progress, table
from csdfgen.errors import CsdfgenError, PlanError, option
from csdfgen.goals.mapping import parse_mapping, parse_processors, planning_options, predict
from csdfgen.model.units import pluralize

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np

    from csdfgen.cli.run import Run
    from csdfgen.cli.terminal import Progress
    from csdfgen.model.network import Network
    from csdfgen.model.options import PlanOptions
    from csdfgen.planning.mapped import MappedPlan
    from csdfgen.planning.plan import Plan
    from runtime.mapped import MappedProgram

_OTHERS = ("plan", "pareto", "labels", "trace", "layers", "compiled_of")
"""Fields of the command that are of one processor."""

_TAKEN = frozenset(
    {"goal", "rows", "fuse", "effort", "weights", "exact", "fallback", "memory", "tuning"}
)
"""Options of planning that parts take."""

_GOALS = "throughput", "latency"

_ROUNDS = 3
"""Rounds of turns alone and frames of a filled pipeline: a busy machine slows both."""

_LEAST_FRAMES = 6
"""Frames that are timed at least in a round, behind those that fill the pipeline."""


def run_mapped(run: Run, asked: Asked) -> None:
    """Execute frames on several processors as asked, and print what they took. Raises CsdfgenError."""
    from csdfgen.errors import prefix_errors
    from runtime.images import check_output_path, write_outputs
    from runtime.mapped import MappedProgram, join_images, split_images

    refuse(_refusals(run, asked))
    check_suffix(run.graph, "a mapped graph", ".xml")
    assert run.map is not None
    with show_progress() as progress, prefix_errors(run.model):
        progress("loading")
        network = load_network(run.model, asked)
        if run.output is not None:
            check_output_path(run.output, network)
        feeds = run._feeds(network)
        images = split_images(network, feeds)
        plan, search = _plan(run.map, network, asked, images[0], progress)
        progress("compiling")
        program = MappedProgram(plan, run.threads)
        progress("measuring")
        outputs = join_images(network, program.run(images).outputs)
        values = {"model": run.model, **_measure(run, program, images), **search}
        if run.graph is not None:
            _write_graph(run.graph, program, images[0])
        if run.output is not None:
            write_outputs(run.output, outputs)
        error = None
        if run.check is not None:
            progress("running onnxruntime")
            whole = plan_network(network, replace(asked, given={}), progress)
            values["check"], error = _compare(run, whole, feeds, outputs)
    if run.as_json:
        say_json(values)
    else:
        _show(values)
    if error is not None:
        raise error


def _refusals(run: Run, asked: Asked) -> list[tuple[object, str]]:
    """What `--map` does not go with."""
    parts, goal = "--map runs parts of a model; leave", asked.given.get("goal", "throughput")
    each = "--map plans a part for each processor; leave"
    return [
        *((getattr(run, name), f"{parts} {option(name)} out") for name in _OTHERS),
        (run.precision != "float32", "--map runs a model as it is; leave --precision out"),
        *((True, f"{each} {asked.flag(one)} out") for one in sorted(asked.given.keys() - _TAKEN)),
        (goal not in _GOALS, f"--map has the goals {' and '.join(_GOALS)}, not {goal}"),
    ]


def _measure(
    run: Run, program: MappedProgram, images: Sequence[Mapping[str, np.ndarray]]
) -> dict[str, Any]:
    """What frames take, and what is predicted from turns that are measured between them."""
    plan, feeds = program.plan, images[0]
    touched, copied, launches = program.touched_bytes(feeds), 0, 0
    count = max(-(-run.repeat * len(images) // _ROUNDS), _LEAST_FRAMES) + plan.lag + 1
    frames = [images[k % len(images)] for k in range(count)]
    turns, periods, latencies = [], [], []
    for _ in range(_ROUNDS):
        turns.append(program.time_turns(feeds, repeats=2))
        latencies.append(program.run([feeds], same=True).ended_after)
        before = program.driven
        periods.append(program.run(frames, same=True).period(plan.lag + 1))
        if before is not None and program.driven is not None:
            driven = program.driven.since(before)
            copied, launches = driven.copied, driven.launches
    predicted = predict(plan, {one: median(each[one] for each in turns) for one in turns[0]})
    return {
        "processors": [
            {
                "name": name, "planned_bytes": planned, "measured_bytes": touched.get(name, 0), "load_ms": 1e3 * load,
                "parts": [
                    [layer.name for layer in part.plan.network.layers]
                    for part in plan.parts if plan.processors[part.processor] == name
                ],
            }
            for name, planned, load in zip(plan.processors, plan.arenas(), predicted.loads, strict=True)
        ],
        "slots_bytes": plan.pool, "crossing_bytes": plan.copied_bytes,
        "copied_bytes": copied // count, "launches": launches // count,
        "predicted": {"period_ms": 1e3 * predicted.period, "latency_ms": 1e3 * predicted.latency},
        "measured": {"period_ms": 1e3 * median(periods), "latency_ms": 1e3 * median(latencies)},
        "frames": _ROUNDS * count, "batch": len(images), "threads": run.threads,
    }  # fmt: skip


def _plan(
    text: str, network: Network, asked: Asked, feeds: Mapping[str, np.ndarray], progress: Progress
) -> tuple[MappedPlan, dict[str, Any]]:
    """The plan of a mapping that is given, or found, and what is reported of the search. Raises CsdfgenError."""
    from csdfgen.goals.mapping_search import Search
    from csdfgen.tuning.processors import measure_processors

    if text.partition(":")[0] != AUTO:
        processors, mapping = parse_mapping(text, network)
        progress("planning")
        return plan_parts(network, processors, mapping, asked), {}
    processors, limits = parse_processors(text)
    pipelined = asked.given.get("goal") == "throughput"
    progress("measuring layers on each processor")
    kernels = [choose_backend(one) for one in _options(processors, asked)]
    make = partial(plan_parts, network, processors, asked=asked)
    times = measure_processors(network, kernels, make, feeds)
    progress("searching")
    found = Search.of_network(network, times, pipelined, limits).find()
    plan = make(found.mapping)
    for name, needed, limit in zip(processors, plan.arenas(), limits, strict=True):
        if limit is not None and needed + plan.parameter_bytes(name) > limit:
            raise PlanError(
                f"{option('map', text)}: the best mapping takes {needed:,} bytes of arena on {name}; give it more"
            )
    alone = [1e3 * (sum(one) + turn) for one, turn in zip(times.seconds, times.turn, strict=True)]
    return plan, {
        "map": {name: processors[k] for name, k in found.mapping.items()},
        "search": {"seconds": found.seconds, "bound": found.bound},
        "alone_ms": dict(zip(processors, alone, strict=True)),
    }


def plan_parts(
    network: Network, processors: tuple[str, ...], mapping: Mapping[str, int], asked: Asked
) -> MappedPlan:
    """The mapped plan with the options given. Raises CsdfgenError."""
    from csdfgen.goals.choice import choose_plan
    from csdfgen.planning.mapped import plan_mapped

    options = _options(processors, asked)
    return plan_mapped(
        network,
        processors,
        mapping,
        lambda part, number: choose_plan(part, options[number]),
        pipelined=asked.given.get("goal") == "throughput",
        streamed=[choose_backend(one).shares_memory for one in options],
    )


def _options(processors: Sequence[str], asked: Asked) -> list[PlanOptions]:
    """The options of the parts of each processor; a tuning file is for those whose kernels were measured. Raises CsdfgenError."""
    from csdfgen.goals.choice import run_options
    from csdfgen.tuning.file import describe_machine, read_tuning

    given = {name: one for name, one in asked.given.items() if name not in ("goal", "tuning")}
    found = [
        run_options({"result": "stored", **given, **planning_options(one)}) for one in processors
    ]
    tuning = asked.given.get("tuning", "")
    if not tuning:
        return found
    machines = [describe_machine(choose_backend(one)) for one in found]
    measured = read_tuning(tuning, words=".*").machine
    if measured not in machines:
        read_tuning(tuning, machines[0], ".*")  # reports why
    return [
        replace(one, tuning=tuning) if machine == measured else one
        for one, machine in zip(found, machines, strict=True)
    ]


def _write_graph(path: Path, program: MappedProgram, feeds: Mapping[str, np.ndarray]) -> None:
    """The graph for SDF3. Raises InputError."""
    from csdfgen.planning.mapped_graph import build_mapped_graph
    from sdf3_bridge import sdf3xml

    plan = program.plan
    graph, processors = build_mapped_graph(plan, program.time_actors(feeds))
    memories = dict(zip(plan.processors, plan.arenas(), strict=True))
    sdf3xml.write(path, graph, sdf3xml.WriteOptions(processors=processors, memories=memories))


def _compare(
    run: Run, whole: Plan, feeds: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]
) -> tuple[list[dict[str, Any]], CsdfgenError | None]:
    """The comparison with onnxruntime, and the error if an output differs, or if it proves nothing."""
    from runtime.verify import check_outputs, mismatch, tolerance_types

    error: CsdfgenError | None = None
    values = []
    for one in check_outputs(run.model, whole, feeds, outputs, run.threads):
        values.append({"output": one.name, "equal": one.ok, "max_abs_error": one.max_abs_error})
        if not one.ok:
            error = error or mismatch(one, tolerance_types(whole)[one.name], (), run.model)
        elif one.inconclusive:
            text = f"outputs equal onnxruntime's, which proves nothing; '{one.name}': {one.inconclusive}"
            error = error or CsdfgenError(text, where=run.model)
    return values, error


def _show(values: Mapping[str, Any]) -> None:
    rows = [
        (
            one["name"], len(one["parts"]), sum(map(len, one["parts"])), one["planned_bytes"], one["measured_bytes"],
            f"{one['load_ms']:,.3f}",
        )
        for one in values["processors"]
    ]  # fmt: skip
    columns = "> parts", "> layers", "> arena planned", "> touched", "> ms a frame"
    predicted, measured = values["predicted"], values["measured"]
    launches = pluralize(values["launches"], "launch", "launches")
    say(
        f"{escape(values['model'])}: {pluralize(len(rows), 'processor')}, {pluralize(values['frames'], 'frame')}\n",
        table("processor", *columns, rows=rows),
        f"\ncrossing   {values['crossing_bytes']:,} bytes a frame, in slots of {values['slots_bytes']:,} bytes; "
        f"{values['copied_bytes']:,} bytes copied between host and device, {launches}",
        *(
            f"{name:<11}{measured[f'{name}_ms']:,.3f} ms measured, {predicted[f'{name}_ms']:,.3f} ms predicted"
            for name in ("period", "latency")
        ),
    )
    if "search" in values:
        seconds, bound = values["search"]["seconds"], values["search"]["bound"]
        alone = (f"{ms:,.3f} ms on {name} alone" for name, ms in values["alone_ms"].items())
        say(
            f"search     {1e3 * seconds:,.3f} ms from measured layers, no mapping takes less than {1e3 * bound:,.3f}; "
            f"{', '.join(alone)}"
        )
    for one in values.get("check", ()):
        verdict = "equal" if one["equal"] else "wrong"
        say(
            f"check      '{escape(one['output'])}': {verdict}, largest difference from onnxruntime {one['max_abs_error']:.3g}"
        )
