"""`csdfgen run`: execute a model in row slabs, measure it, compare it, say what was gained, if
anything was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.text import Text
from threadpoolctl import threadpool_limits

from csdfgen.backends.numpy.backend import NUMPY
from csdfgen.backends.registry import AUTO, kernels_for, kernels_of
from csdfgen.cli.frames import frames_facts, show_frames
from csdfgen.cli.front import points_of, show_front, write_front
from csdfgen.cli.goal_options import front_folder
from csdfgen.cli.models import built, input_formats, input_span, load_network, plan_network
from csdfgen.cli.options import ModelOptions, is_graph_file
from csdfgen.cli.terminal import (
    Stage,
    console,
    counted,
    figures_table,
    mebibytes,
    plain,
    show_memories,
    stages,
    table,
)
from csdfgen.devices.model import estimate
from csdfgen.errors import CsdfgenError, InputError, PlanError, option
from csdfgen.files import write_json
from csdfgen.goals.choice import profile_for
from csdfgen.goals.facts import memories_facts
from csdfgen.model.network import Network
from csdfgen.model.options import CONVERSION, DEFAULTS
from csdfgen.pages.trace import FiringTime, LayerTime, by_layer, chrome_trace, timed
from csdfgen.phases.heights import parse_rows
from csdfgen.planning.memories import memories_of
from csdfgen.planning.plan import Plan
from csdfgen.planning.saved import SavedPlan, read_saved
from runtime.images import (
    ImageOptions,
    check_output_path,
    read_frames,
    read_inputs,
    read_labels,
    top_classes,
    write_outputs,
)
from runtime.report import Report, compare_with_reference, kept_whole, measure, to_json
from runtime.steps import saturating

__all__ = ["RunRequest", "run_model"]

_SHOWN_WHOLE = 8
_SHOWN_IMAGES = 4

_COMPUTED_BY = frozenset({"backend", "fallback"})
"""Options that say who computes a plan, not what it is."""

_PREDICTED_BY = frozenset({"device", "tuning"})
"""Options that say by what its time is predicted."""

_OF_TABLES = frozenset({"memory", "frames", "batching"})
"""Options that say which plan of a table is run."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What the user asked for; `check` is None, "outputs" or "layers"."""

    model: str
    plan: Path | None
    options: ModelOptions
    inputs: tuple[str, ...]
    output: Path | None
    result: str
    check: str | None
    as_json: bool
    seed: int
    images: ImageOptions
    labels: Path | None
    threads: int
    repeat: int
    pareto: bool = False
    trace: Path | None = None
    layers: bool = False


def run_model(request: RunRequest) -> None:
    """Run a model as asked, print the report. Raises CsdfgenError; MismatchError after the report."""
    if is_graph_file(request.model):
        raise InputError(
            "is a graph, which has no weights to run with; give the model", where=request.model
        )
    _check_stored(request)
    if request.pareto:
        run_front(request)
        return
    labels = read_labels(request.labels) if request.labels is not None else None
    with stages() as stage, threadpool_limits(limits=request.threads, user_api="blas"):
        stage("loading")
        plan, network = _plan_of(request, stage)
        if request.output is not None:
            check_output_path(request.output, network)
        feeds = read_inputs(
            request.inputs, network, _images(request), request.seed, input_span(request.model)
        )
        report, outputs = _measured(request, plan, feeds, stage)
        if request.output is not None:
            write_outputs(request.output, outputs)
        firings: tuple[FiringTime, ...] = ()
        if request.trace is not None or request.layers:
            stage("timing the firings")
            firings = timed(plan, feeds, threads=request.threads)
        peak = _peak(plan) if request.layers else None
        if request.trace is not None:
            write_json(request.trace, chrome_trace(plan, firings))
        error = None
        if request.check is not None:
            report, error = compare_with_reference(
                report, request.model, feeds, outputs, request.check, stage=stage
            )
        # a plan of one image runs without the files by which its times were predicted
        asked = _PREDICTED_BY & request.options.wishes.keys()
        timed_by = plan.options if asked or plan.conversion.frames > 1 else DEFAULTS
        profile = profile_for(timed_by)
        predicted = 1e3 * estimate(plan, profile).seconds if asked else None
        told = frames_facts(network, plan, profile)
    spent = by_layer(firings)
    if request.as_json:
        memories = memories_facts(plan)
        values = {**to_json(report), **({"memories": memories} if memories else {})}
        values |= {"frames": told.to_json()} if told is not None else {}
        values |= {"predicted_ms": predicted} if predicted is not None else {}
        if request.layers:
            values |= {"layer_times": [asdict(one) for one in spent], "peak_flops": peak}
        print(json.dumps(values, indent=2, allow_nan=False))
    else:
        _print_report(report, request)
        if predicted is not None:
            console().print(f"predicted  {predicted:,.3f} ms on {profile.name}")
        show_frames(told, profile)
        if request.layers:
            _print_layers(spent, peak and peak * request.threads)
        if request.trace is not None:
            console().print(
                f"\n{plain(str(request.trace))}: {counted(len(firings), 'firing')} of one frame"
            )
        _print_classes(outputs, labels)
    if error is not None:
        raise error


def run_front(request: RunRequest) -> None:
    """Run every plan of the front: predicted beside measured time, outputs compared if asked for."""
    whole = {"plan": request.plan, "labels": request.labels, "trace": request.trace}
    for flag, given in {**whole, "layers": request.layers or None}.items():
        if given is not None:
            raise InputError(f"--pareto runs many plans of the model; leave --{flag} out")
    front_folder(request.output)
    measured: list[dict[str, Any]] = []
    with stages() as stage, threadpool_limits(limits=request.threads, user_api="blas"):
        profile = profile_for(built(request.options, stage))
        stage("loading")
        network = load_network(request.model, request.options)
        feeds = read_inputs(
            request.inputs, network, _images(request), request.seed, input_span(request.model)
        )
        points = points_of(network, request.options, stage)
        failed = None
        for at, point in enumerate(points):
            stage("running", at, len(points))
            report, outputs = _measured(request, point.plan, feeds, stage)
            if request.check is not None:
                report, error = compare_with_reference(
                    report, request.model, feeds, outputs, request.check, stage=stage
                )
                failed = failed or error
            measured.append(
                {
                    "measured_ms": report.latency_ms,
                    "measured_bytes": report.measured_bytes,
                    "ok": report.ok,
                }
            )
    write_front(request.output, points, profile, measured)
    show_front(points, profile, request.output, as_json=request.as_json, measured=measured)
    if failed is not None:
        raise failed


def _check_stored(request: RunRequest) -> None:
    """What is done with whole outputs needs them stored. Raises InputError."""
    if request.result == "streamed":
        for name, given in (("output", request.output), ("labels", request.labels)):
            if given is not None:
                raise InputError(
                    f"{option('result', request.result)} stores no output for {option(name, str(given))}; "
                    "leave one of them out"
                )


def _images(request: RunRequest) -> ImageOptions:
    """How files become inputs: as was typed, and as the model tells of inputs that are integers."""
    if not request.inputs:
        return request.images
    return replace(request.images, formats=input_formats(request.model))


def _plan_of(request: RunRequest, stage: Stage) -> tuple[Plan, Network]:
    """The plan asked for, from the plan file if there is one, and its network."""
    if request.plan is None:
        network = load_network(request.model, request.options)
        stage("planning")
        return plan_network(network, request.options, stage=stage), network
    wishes = request.options.wishes
    images = wishes.get("frames", 0) or request.options.batch or 0
    saved = read_saved(request.plan, wishes.get("memory", 0), images)
    _check_agreement(saved, request.options)
    network = _loaded(request.model, saved)
    if saved.of_table and not images and request.inputs:
        frames = read_frames(request.inputs, replace(network, batch=1), _images(request))
        images = sum(len(next(iter(arrays.values()))) for arrays in frames)
        saved = read_saved(request.plan, wishes.get("memory", 0), images)
        network = _loaded(request.model, saved)
    if network.batch != saved.batch:
        raise PlanError(
            f"is for {counted(saved.batch, 'image')} in inputs of {network.batch}",
            where=saved.where,
        )
    stage("reading the plan")
    of = saved.planned_with
    kernels = kernels_for(of) if of else kernels_of(wishes.get("backend", AUTO))
    plan = saved.plan(network, kernels)
    chosen = {name: wishes[name] for name in (_COMPUTED_BY | _PREDICTED_BY) & wishes.keys()}
    return replace(plan, options=replace(plan.options, **chosen)), network


def _loaded(model: str, saved: SavedPlan) -> Network:
    """The network as a plan needs it."""
    try:
        return load_network(model, ModelOptions(shapes=saved.inputs))
    except CsdfgenError as error:
        message = f"made for '{saved.model}', cannot be loaded with the plan's shapes: {error}"
        raise PlanError(message, where=saved.where) from None


def _check_agreement(saved: SavedPlan, options: ModelOptions) -> None:
    """What the user asks for is what the file was made with. Raises PlanError."""
    free = _COMPUTED_BY | _PREDICTED_BY | (_OF_TABLES if saved.of_table else frozenset())
    for name in (name for name in options.wishes if name not in free):
        raise PlanError(f"is a plan already; leave {options.flag(name)} out", where=saved.where)
    for name in CONVERSION:
        wanted, there = getattr(options, name), saved.options[name]
        if (
            wanted is not None
            and wanted != there
            and not (name == "rows" and str(parse_rows(wanted)) == there)
        ):
            raise PlanError(
                f"was made with --{name} {there}, not {wanted}; leave --{name} out",
                where=saved.where,
            )
    shapes = {**saved.inputs, **options.shapes}
    if shapes != saved.inputs or options.batch not in (None, saved.batch):
        raise PlanError(
            "was made for other shapes; leave --shape and --batch out, or make a plan for them",
            where=saved.where,
        )


def _measured(
    request: RunRequest, plan: Plan, feeds: Mapping[str, np.ndarray], stage: Stage
) -> tuple[Report, dict[str, np.ndarray]]:
    try:
        return measure(
            plan,
            feeds,
            model=request.model,
            threads=request.threads,
            repeat=request.repeat,
            result=request.result,
            stage=stage,
        )
    except CsdfgenError as error:
        if isinstance(error, PlanError) and request.plan and "backend" in request.options.wishes:
            way = f"{error.message}; leave {option('backend')} out, or make a plan for it"
            error = PlanError(way, where=error.where)
        raise error.at(str(request.plan or request.model)) from None


# The report on a terminal -----------------------------------------------------------------------


def _print_report(report: Report, request: RunRequest) -> None:
    out, plan = console(), report.plan
    network = plan.network
    out.print(
        f"{plain(report.model)}: {counted(len(network.layers), 'layer')} in {counted(report.firings, 'firing')}, "
        f"--rows {plan.conversion.rows.brief} "
        f"--fuse {plan.options.fuse} --image {plan.options.image}, {counted(network.batch, 'image')}\n"
    )
    out.print(figures_table(report.figures))
    arena, measured = plan.planned_bytes, report.measured_bytes
    same = "as planned" if arena == measured else f"{arena:,} were planned"
    out.print(
        f"\nmeasured   {measured:,} bytes touched in the arena, {same}\n"
        f"beside it  {report.python_peak_bytes:,} bytes allocated by Python while firing, "
        f"{report.call_peak_bytes:,} bytes in the whole call, "
        f"{'no output stored' if report.result == 'streamed' else 'outputs included'}"
    )
    outputs = report.figures["outputs"] // network.batch * plan.conversion.frames
    word, said = _against_whole_layers({**report.figures, "outputs": outputs})
    out.print(f"{word:<11}{said}")
    frames = f"median of {report.repeat} frames" if report.repeat > 1 else "one frame"
    if network.batch > 1:
        frames += f" of {network.batch} images"
    out.print(
        f"latency    {report.latency_ms:,.1f} ms, {frames}, {counted(report.threads, 'thread')}"
    )
    kernels = kernels_for(plan.options)
    instructions = f", kernels for {kernels.code}" if kernels.code != kernels.name else ""
    packed = report.parameters_packed
    if packed:
        instructions += f", weights packed into {packed:,} bytes"
    out.print(f"backend    {kernels.name}{instructions}")
    _print_check(report)
    show_memories(memories_of(plan))
    _print_kept_whole(plan)
    if request.output is not None:
        out.print(
            f"written    {request.output}: {', '.join(plain(name) for name in report.outputs)}"
        )


def _against_whole_layers(figures: Mapping[str, int]) -> tuple[str, str]:
    """Whether anything is gained, in a word and in a sentence; figures: bytes, as those of a plan, its
    outputs those of the images that it covers.

    >>> sizes = {"arena": 2**19, "outputs": 2**19, "sum_of_tensors": 3 * 2**20}
    >>> _against_whole_layers({**sizes, "whole_layer_live": 2**21})[0]
    'gained'
    >>> _against_whole_layers({**sizes, "whole_layer_live": 2**19})
    ('larger', 'arena and outputs take 1.000 MiB; that is 2.00 times whole_layer_live, sum_of_tensors is 3.0 times that')
    """
    used = figures["arena"] + figures["outputs"]
    what = "arena and outputs take" if figures["outputs"] else "arena takes"
    whole = figures["whole_layer_live"]
    sizes = {name: figures[name] for name in ("whole_layer_live", "sum_of_tensors")}
    below = [f"{used / max(1, n):.2f} times {name}" for name, n in sizes.items() if n <= used]
    above = [
        f"{name} is {n / max(1, used):.1f} times that" for name, n in sizes.items() if n > used
    ]
    ratios = ["that is " + " and ".join(below)] * bool(below) + above
    word = "gained" if used < whole else "larger" if used > whole else "the same"
    return word, f"{what} {mebibytes(used)} MiB; {', '.join(ratios)}"


def _print_check(report: Report) -> None:
    out = console()
    for one in report.comparisons or ():
        classes = {None: "", True: ", same top 1 and top 5", False: ", other top 5"}[one.classes_ok]
        verdict = "equal" if one.ok else f"{one.wrong:,} wrong"
        out.print(
            f"check      '{plain(one.name)}': {verdict}, {counted(one.values, 'value')}, largest difference from onnxruntime "
            f"{one.max_abs_error:.3g}{f', {one.steps}' if one.steps is not None else ''}{classes}"
            f"{f', without optimisations it differs from itself by {one.noise:.3g}' if one.noise else ''}"
        )
    saturated = saturating(report.plan.network) if report.comparisons is not None else ()
    if saturated:
        out.print(
            f"check      onnxruntime may cut off sums of uint8 times int8 on this processor (AVX2 without VNNI): "
            f"{counted(len(saturated), 'layer')}, the first is '{plain(saturated[0])}'"
        )
    if report.layers:
        layers = table(
            "layer",
            "operator",
            "output",
            "rows",
            "max abs error",
            "",
            right=("rows", "max abs error"),
        )
        for entry in report.layers:
            one = entry.comparison
            said = (
                "ok"
                if one.ok
                else f"{one.wrong:,} of {one.values:,} wrong, first in row {one.first_wrong_row or 0}"
            )
            names = plain(entry.layer.name), entry.layer.op_type, plain(one.name)
            layers.add_row(*names, str(entry.rows), f"{one.max_abs_error:.3g}", said)
        out.print(
            f"\nlayers compared ({len(report.layers)} of {len(report.plan.network.layers)} have an output of ONNX's name)"
        )
        out.print(layers)


_LISTED = 40
"""Layers that are listed; the others take less time than these."""


def _peak(plan: Plan) -> float | None:
    """Operations a second of multiply-adds on a core's registers; None for a plan that native code does
    not compute.
    """
    if plan.options.backend == NUMPY.name:
        return None
    from csdfgen.backends.native.library import load

    return load().peak()


def _print_layers(spent: Sequence[LayerTime], peak: float | None) -> None:
    """Where the time of a frame goes, the slowest layers first. peak: operations a second of multiply-adds
    on registers, None where that was not measured.
    """
    out, total = console(), sum(one.seconds for one in spent)
    of_peak = ("of peak",) if peak else ()
    right = ("firings", "ms", "share", "GFLOP/s", *of_peak, "MB moved")
    made = table("layer", "operator", *right, right=right)
    for one in spent[:_LISTED]:
        made.add_row(
            plain(one.name),
            one.function,
            f"{one.firings:,}",
            f"{1e3 * one.seconds:,.3f}",
            f"{one.seconds / total:.1%}" if total else "",
            f"{one.rate / 1e9:,.1f}" if one.operations else "",
            *([f"{one.rate / peak:.0%}" if one.operations else ""] if peak else ()),
            f"{one.moved / 1e6:,.2f}",
        )
    measured = (
        f"; peak of {peak / 1e9:,.1f} GFLOP/s measured now, on registers (Winograd does fewer operations than are counted)"
        if peak
        else ""
    )
    out.print(f"\ntime by layer, {1e3 * total:,.2f} ms in all, the clock included{measured}")
    out.print(made)
    rest = spent[_LISTED:]
    if rest:
        part = sum(one.seconds for one in rest)
        out.print(f"and {counted(len(rest), 'layer')} with {1e3 * part:,.3f} ms together")


def _print_kept_whole(plan: Plan) -> None:
    """The tensors of which every row is in memory at one time; views and small ones at the end are
    only counted.
    """
    whole = kept_whole(plan)
    if not whole:
        return
    together = counted(sum(entry.nbytes for entry in whole), "byte")
    out = console()
    out.print(
        f"\nkept whole ({counted(len(whole), 'tensor')}, {together} if all were alive together)"
    )
    rows = table("tensor", "rows", "bytes", "why", right=("rows", "bytes"))
    for entry in whole[:_SHOWN_WHOLE]:
        rows.add_row(
            plain(entry.tensor),
            str(entry.rows),
            f"{entry.nbytes:,}",
            Text(plain(entry.why), style="dim"),
        )
    if len(whole) > _SHOWN_WHOLE:
        rows.add_row(
            f"and {len(whole) - _SHOWN_WHOLE} smaller",
            "",
            "",
            Text("all of them with --json", style="dim"),
        )
    out.print(rows)


def _print_classes(outputs: Mapping[str, np.ndarray], labels: tuple[str, ...] | None) -> None:
    """The five likeliest classes of every classifier output."""
    out = console()
    for name, output in outputs.items():
        top = top_classes(output)
        if top is None:
            continue
        if labels is not None and len(labels) != output.shape[1]:
            raise InputError(
                f"{len(labels)} labels, output '{name}' has {output.shape[1]} classes",
                where="--labels",
            )
        for image, classes in enumerate(top[:_SHOWN_IMAGES]):
            out.print(
                f"\ntop 5 of '{plain(name)}'"
                + (f", image {image + 1} of {len(top)}" if len(top) > 1 else "")
            )
            rows = table("class", "value", *(["label"] if labels else []), right=("class", "value"))
            values = output[image].reshape(-1)
            for index in classes:
                rows.add_row(
                    str(index), f"{values[index]:.6g}", *([plain(labels[index])] if labels else [])
                )
            out.print(rows)
