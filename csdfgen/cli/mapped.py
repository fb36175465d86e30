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
    from csdfgen.goals.mapping import Predicted
    from csdfgen.model.network import Network
    from csdfgen.model.options import PlanOptions
    from csdfgen.planning.mapped import MappedPlan
    from csdfgen.planning.plan import Plan
    from runtime.mapped import Frames, MappedProgram

_OTHERS = ("plan", "pareto", "labels", "trace", "layers", "compiled_of")
"""Fields of the command that are of one processor."""

_TAKEN = frozenset({"goal", "rows", "fuse", "effort", "weights", "exact", "fallback", "memory"})
"""Options of planning that parts take."""

_ALONE = 5
"""Frames that are timed alone, for the latency."""

_LEAST_FRAMES = 10
"""Frames that are timed at least: the first ones fill the pipeline."""


def run_mapped(run: Run, asked: Asked) -> None:
    """Execute frames on several processors as asked, and print what they took. Raises CsdfgenError."""
    from csdfgen.errors import prefix_errors
    from runtime.images import check_output_path, write_outputs
    from runtime.mapped import MappedProgram

    refuse(_refusals(run, asked))
    check_suffix(run.graph, "a mapped graph", ".xml")
    assert run.map is not None
    with show_progress() as progress, prefix_errors(run.model):
        progress("loading")
        network = load_network(run.model, asked)
        if run.output is not None:
            check_output_path(run.output, network)
        feeds = run._feeds(network)
        plan, search = _plan(run.map, network, asked, feeds, progress)
        progress("compiling")
        program = MappedProgram(plan, run.threads)
        progress("measuring")
        touched = program.touched_bytes(feeds)
        predicted = predict(plan, program.time_turns(feeds))
        if run.graph is not None:
            _write_graph(run.graph, program, feeds)
        latency = median(program.run([feeds], same=True).ended_after for _ in range(_ALONE))
        before = program.driven
        frames = program.run([feeds] * (max(run.repeat, _LEAST_FRAMES) + plan.lag), same=True)
        outputs = frames.outputs[-1]
        if run.output is not None:
            write_outputs(run.output, outputs)
        values = {**_to_json(run, program, frames, latency, predicted, touched), **search}
        if before is not None and program.driven is not None:
            driven, count = program.driven.since(before), len(frames.outputs)
            values |= {"launches": driven.launches // count, "copied_bytes": driven.copied // count}
        error = None
        if run.check is not None:
            progress("running onnxruntime")
            bare = replace(asked, given={})
            whole = plan_network(network, bare, progress)
            values["check"], error = _compare(run, whole, feeds, outputs)
    if run.as_json:
        say_json(values)
    else:
        _show(values)
    if error is not None:
        raise error


def _refusals(run: Run, asked: Asked) -> list[tuple[object, str]]:
    """What `--map` does not go with."""
    found: list[tuple[object, str]] = [
        (getattr(run, name), f"--map runs parts of a model; leave {option(name)} out")
        for name in _OTHERS
    ]
    found += [(run.precision != "float32", "--map runs a model as it is; leave --precision out")]
    for name in sorted(asked.given.keys() - _TAKEN):
        found.append((True, f"--map plans a part for each processor; leave {asked.flag(name)} out"))
    goal = asked.given.get("goal", "throughput")
    return [
        *found,
        (
            goal not in ("throughput", "latency"),
            f"--map has the goals throughput and latency, not {goal}",
        ),
    ]


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
    found = Search(network, times, pipelined, limits).find()
    plan = make(found.mapping)
    for name, needed, limit in zip(processors, plan.arenas(), limits, strict=True):
        if limit is not None and needed + plan.parameter_bytes(name) > limit:
            raise PlanError(
                f"{option('map', text)}: the best mapping takes {needed:,} bytes of arena on {name}; give it more"
            )
    alone = [1e3 * (sum(one) + turn) for one, turn in zip(times.seconds, times.turn, strict=True)]
    searched = {"seconds": found.seconds, "bound": found.bound}
    mapped = {name: processors[k] for name, k in found.mapping.items()}
    each = dict(zip(processors, alone, strict=True))
    return plan, {"map": mapped, "search": searched, "alone_ms": each}


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
    """The options of the parts of each processor. Raises CsdfgenError."""
    from csdfgen.goals.choice import run_options

    given = {name: one for name, one in asked.given.items() if name != "goal"}
    return [
        run_options({"result": "stored", **given, **planning_options(one)}) for one in processors
    ]


def _to_json(
    run: Run,
    program: MappedProgram,
    frames: Frames,
    latency: float,
    predicted: Predicted,
    touched: Mapping[str, int],
) -> dict[str, Any]:
    plan = program.plan
    each = zip(plan.processors, plan.arenas(), predicted.loads, strict=True)
    return {
        "model": run.model,
        "processors": [
            {
                "name": name, "planned_bytes": planned, "measured_bytes": touched.get(name, 0), "load_ms": 1e3 * load,
                "parts": [
                    [layer.name for layer in part.plan.network.layers]
                    for part in plan.parts if plan.processors[part.processor] == name
                ],
            }
            for name, planned, load in each
        ],
        "slots_bytes": plan.pool, "crossing_bytes": plan.copied_bytes, "copied_bytes": 0, "launches": 0,
        "predicted": {"period_ms": 1e3 * predicted.period, "latency_ms": 1e3 * predicted.latency},
        "measured": {"period_ms": 1e3 * frames.period(plan.lag + 1), "latency_ms": 1e3 * latency},
        "frames": len(frames.outputs), "threads": run.threads,
    }  # fmt: skip


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
    """The comparison with onnxruntime, and the error if an output differs."""
    from runtime.verify import check_outputs, mismatch, tolerance_types

    found = check_outputs(run.model, whole, feeds, outputs, run.threads)
    wrong = next((one for one in found if not one.ok), None)
    values = [
        {"output": one.name, "equal": one.ok, "max_abs_error": one.max_abs_error} for one in found
    ]
    if wrong is None:
        why = next((f"'{one.name}': {one.inconclusive}" for one in found if one.inconclusive), "")
        text = f"outputs equal onnxruntime's, which proves nothing; {why}"
        return values, CsdfgenError(text, where=run.model) if why else None
    return values, mismatch(wrong, tolerance_types(whole)[wrong.name], (), run.model)


def _show(values: Mapping[str, Any]) -> None:
    rows = [
        (
            one["name"], str(len(one["parts"])), str(sum(map(len, one["parts"]))), f"{one['planned_bytes']:,}",
            f"{one['measured_bytes']:,}", f"{one['load_ms']:,.3f}",
        )
        for one in values["processors"]
    ]  # fmt: skip
    predicted, measured = values["predicted"], values["measured"]
    say(
        f"{escape(values['model'])}: {pluralize(len(rows), 'processor')}, {pluralize(values['frames'], 'frame')}\n",
        table(
            "processor",
            "> parts",
            "> layers",
            "> arena planned",
            "> touched",
            "> ms a frame",
            rows=rows,
        ),
        f"\ncrossing   {values['crossing_bytes']:,} bytes a frame, in slots of {values['slots_bytes']:,} bytes; "
        f"{values['copied_bytes']:,} bytes copied between host and device, {pluralize(values['launches'], 'launch', 'launches')}",
        *(
            f"{name:<11}{measured[f'{name}_ms']:,.3f} ms measured, {predicted[f'{name}_ms']:,.3f} ms predicted"
            for name in ("period", "latency")
        ),
    )
    if "search" in values:
        alone = ", ".join(
            f"{ms:,.3f} ms on {name} alone" for name, ms in values["alone_ms"].items()
        )
        best = "no mapping is better" if values["search"]["bound"] else "best that was found"
        say(
            f"search     {1e3 * values['search']['seconds']:,.3f} ms from measured layers, {best}; {alone}"
        )
    for one in values.get("check", ()):
        verdict = "equal" if one["equal"] else "wrong"
        say(
            f"check      '{escape(one['output'])}': {verdict}, largest difference from onnxruntime {one['max_abs_error']:.3g}"
        )
