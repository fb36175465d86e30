"""`csdfgen run`: execute a model in row slabs, measure it, compare it, and report what was gained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from csdfgen.cli.command import Command, argument
from csdfgen.cli.options import (
    FILES,
    JSON,
    OUTPUT,
    SEVERAL,
    Asked,
    Networks,
    Pareto,
    Pixels,
    Planning,
    Spread,
    Stateful,
    check_front_output,
    refuse,
    refuse_graph,
)
from csdfgen.cli.terminal import (
    dim_text,
    escape,
    figures_table,
    say,
    say_json,
    show_progress,
    table,
)
from csdfgen.errors import CsdfgenError, InputError, PlanError, option
from csdfgen.files import is_compiled, record_files, write_json
from csdfgen.model.describe import compare_whole_layers
from csdfgen.model.options import CONVERSION, DEFAULTS, declare
from csdfgen.model.units import pluralize

if TYPE_CHECKING:
    import numpy as np

    from csdfgen.cli.terminal import Progress
    from csdfgen.model.network import Network
    from csdfgen.pages.trace import FiringTime, LayerTime
    from csdfgen.planning.plan import Plan
    from csdfgen.planning.saved import SavedPlan
    from csdfgen.precision.run_as import Precision
    from runtime.images import ImageOptions
    from runtime.reference import Comparison
    from runtime.report import Report


_RESULTS = "Check and measure"
"""A heading in the help."""

PROCESSORS = "Several processors"
"""A heading in the help."""

_CHECKS = ("outputs", "layers")

_SHOWN_WHOLE = 8
_SHOWN_IMAGES = 4
_LISTED = 40
"""Layers that are listed; the others take less time than these."""

_COMPUTED_BY = frozenset({"backend", "fallback", "cl_device", "weights"})
"""Options that say who computes a plan, not what it is."""

_PREDICTED_BY = frozenset({"device", "tuning"})
"""Options that say by what its time is predicted."""

_OF_TABLES = frozenset({"memory", "frames", "batching"})
"""Options that say which plan of a table is run."""


@dataclass(frozen=True, kw_only=True)
class Run(Command):
    """Execute a model in row slabs, in one arena, and measure it; --check compares with
    onnxruntime.
    """

    examples = (
        "csdfgen run model.onnx --check",
        "csdfgen run model.onnx --rows 1 --check layers",
        "csdfgen run model.onnx --input photo.jpg --resize --mean 123.7,116.3,103.5 --std 58.4,57.1,57.4 --labels "
        "classes.txt",
        "csdfgen run model.onnx --input left=a.npy --input right=b.npy --output y.npz",
        "csdfgen schedule model.onnx -o plan.json && csdfgen run model.onnx --plan plan.json --check",
        "csdfgen run model.onnx --goal throughput --threads 2 --frames 8",
        "csdfgen run model.onnx --map conv5=opencl --goal throughput --check",
        "csdfgen run denoiser.onnx --stream speech.wav --output clean.wav",
    )

    model: str = argument(
        "MODEL...",
        "Model (.onnx, .pt2, .prototxt, .tflite), zoo:NAME[@HEIGHTxWIDTH], or a compiled program (.csdfgen); "
        f"{SEVERAL}.",
        models=True,
    )
    networks: Networks
    compiled_of: str | None = declare(
        "The model of a compiled program, which is recompiled and replaced if it cannot run here.",
        None, "MODEL", names=("--model",),
    )  # fmt: skip
    precision: Literal["auto", "float32", "bfloat16"] = declare(
        "bfloat16: run a float32 model with weights and activations in bfloat16, compared with the original model; "
        "auto: if that is measured to be faster; float32: no change.",
        "float32",
    )  # fmt: skip
    plan: Path | None = declare("Execute this plan file (csdfgen schedule -o).", None, "FILE")
    planning: Planning
    pareto: Pareto = False
    input: list[str] | None = declare(
        ".npy, .npz (arrays by input name), .png or .jpg; NAME= if there are several inputs; repeatable. By default "
        "uniform random values from -1 to 1, or in the pixel range of a zoo network.",
        None, "FILE|NAME=FILE", FILES,
    )  # fmt: skip
    stream: Path | None = declare(
        "Run a stream: the rows of an array, a sound, an image or a film, as many as there are, - for raw rows from "
        "standard input, or mic:NAME for a microphone until Ctrl-C. --output takes its rows, in a file or -.",
        None, "FILE", FILES,
    )  # fmt: skip
    columns: int = declare(
        "Run --stream in strips of at most N columns, one after the other, overlaps included: an image that is wider than "
        "memory.", 0, "N", FILES, low=0, high=1 << 24,
    )  # fmt: skip
    passes: int = declare(
        "How often --stream may read all rows, so that they can depend on means and other results of all of them.",
        1, "N", FILES, low=1, high=100,
    )  # fmt: skip
    stateful: Stateful = None
    spread: Spread = False
    resume: bool = declare(
        "Continue an interrupted --stream; its state is in OUTPUT.stream.", False, panel=FILES
    )
    map: str | None = declare(
        "Compute layers by several processors at the same time (native, opencl, opencl:1, cuda): layers from LAYER on by "
        "DEVICE, up to the next one that is named, or a file of them (.json); auto, or auto:DEVICE[=BYTES],..., measures each "
        "layer on each of them and searches.",
        None, "LAYER=DEVICE,...|FILE|auto", PROCESSORS,
    )  # fmt: skip
    graph: Path | None = declare(
        "With --map: write the dataflow graph for SDF3, with measured times in nanoseconds, the actors that copy, the platform "
        "and the mapping.",
        None, "FILE.xml", PROCESSORS,
    )  # fmt: skip
    output: Path | None = declare(
        "Outputs as .npz (by output name) or .npy (a single output).",
        None, "FILE", FILES, names=OUTPUT,
    )  # fmt: skip
    seed: int = declare("Seed of the random inputs.", 0, "N", FILES, low=0)
    pixels: Pixels
    labels: Path | None = declare("Class names for the top 5, one per line.", None, "FILE", FILES)
    check: str | None = declare(
        "Compare the outputs with onnxruntime, or with 'layers' the output of every layer; exit 1 if they differ.",
        None, "[layers]", _RESULTS,
    )  # fmt: skip
    trace: Path | None = declare(
        "Write a trace of all firings of a frame, for chrome://tracing and ui.perfetto.dev.",
        None, "FILE.json", _RESULTS,
    )  # fmt: skip
    layers: bool = declare(
        "List each layer's time, share, GFLOP/s and bytes moved.", False, panel=_RESULTS
    )
    as_json: bool = declare(
        "Print one JSON object instead of text.", False, panel=_RESULTS, names=JSON
    )
    threads: int = declare(
        "Threads of native code, linear algebra and onnxruntime; with --goal throughput, the processors.",
        1, "N", _RESULTS, low=1, high=1024,
    )  # fmt: skip
    repeat: int = declare(
        "Timed frames; the latency is their median.", 1, "N", _RESULTS, low=1, high=100_000
    )

    @staticmethod
    def spelled(arguments: list[str]) -> list[str]:
        """`--check`, which may stand alone or before a word, with its value; what is behind `--` is left alone."""
        end = arguments.index("--") if "--" in arguments else len(arguments)
        found: list[str] = []
        words = iter(enumerate(arguments[:end], 1))
        for following, word in words:
            if word == "--check" and arguments[following:][:1] in ([check] for check in _CHECKS):
                word = f"--check={next(words)[1]}"
            found.append(f"--check={_CHECKS[0]}" if word == "--check" else word)
        return [*found, *arguments[end:]]

    def run(self) -> None:
        """Run a model as asked, print the report. Raises CsdfgenError; MismatchError after the report."""
        from csdfgen.cli.compiled import find_program_file, run_compiled, run_kept
        from runtime.images import read_sizes

        if self.check not in (None, *_CHECKS):
            raise typer.BadParameter(f"'{self.check}' is not 'layers'", param_hint="--check")
        asked = self.planning.read()
        if self.stream is not None:
            from csdfgen.cli.streams import run_stream_files

            run_stream_files(self, asked)
            return
        for name, asks in (
            ("resume", self.resume), ("columns", self.columns), ("passes", self.passes > 1),
            ("stateful", self.stateful), ("spread", self.spread),
        ):  # fmt: skip
            refuse([(asks, f"--{name} is of a --stream; give both")])
        asked = replace(asked, example=read_sizes(self.input or ()))
        if self.map is not None:
            from csdfgen.cli.mapped import run_mapped

            run_mapped(self, asked)
            return
        if asked.given.get("goal") == "throughput":
            asked = replace(asked, given={**asked.given, "threads": self.threads})
        refuse_graph(
            self.model, ", without weights to run with; give the model (and --plan PLAN.json)"
        )
        result = asked.given.get("result", DEFAULTS.result)
        stored, out = f"{option('result', result)} stores no output", "leave one of them out"
        for name in ("output", "labels"):
            given = getattr(self, name)
            both = result == "streamed" and given is not None
            refuse([(both, f"{stored} for {option(name, str(given))}; {out}")])
        of_model = f"{self.model} is no compiled program, which alone takes a model; leave {{}} out"
        refuse([(self.compiled_of and not is_compiled(self.model), of_model.format("--model"))])
        refuse([(self.graph, "--graph is of a --map; give both")])
        if is_compiled(self.model):
            labels = self._labels()
            outputs = run_compiled(self, asked)
            _show_classes({} if self.as_json else outputs, labels)
        elif self.pareto:
            self._run_front(asked)
        else:
            place = find_program_file(self, asked)
            kept = place and run_kept(self, place, asked)
            if not kept:
                self._run_plan(asked, place)
                return
            labels = self._labels()
            if self.as_json:
                say_json(kept[0])
            else:
                _check_labels(labels, kept[2])
                self._show(*kept[:2])
                self._show_end(kept[0])
                _show_classes(kept[2], labels)

    def _labels(self) -> tuple[str, ...] | None:
        from runtime.images import read_labels

        return read_labels(self.labels) if self.labels is not None else None

    def _run_plan(self, asked: Asked, place: Path | None) -> None:
        """Run one plan. place: of the cache, where its program goes."""
        from threadpoolctl import threadpool_limits

        import runtime
        from csdfgen.backends.registry import choose_backend
        from csdfgen.cli.compiled import example_sizes, keep
        from csdfgen.cli.models import input_formats
        from csdfgen.cli.show import (  # fmt: skip
            describe_mapping,
            overlap_facts,
            show_mapped,
            show_memories,
            show_overlap,
        )
        from csdfgen.devices.model import estimate
        from csdfgen.goals.choice import load_profile
        from csdfgen.goals.facts import memories_facts
        from csdfgen.pages.trace import chrome_trace, sum_by_layer, time_firings
        from csdfgen.reading.zoo import is_zoo_name
        from runtime.images import check_labels, check_output_path, write_outputs
        from runtime.report import compare_with_reference, to_json
        from runtime.resident import read_resident_bytes

        labels, libraries = self._labels(), read_resident_bytes()

        def check(network: Network) -> None:
            if self.output is not None:
                check_output_path(self.output, network)
            check_labels(labels, {one.name: network.whole_form(one) for one in network.outputs})

        limited = threadpool_limits(limits=self.threads, user_api="blas")
        with record_files() as files, show_progress() as progress, limited:
            progress("loading")
            plan, network, precision = self._plan_of(asked, check, progress)
            feeds = self._feeds(network)
            report, outputs = self._measured(plan, feeds, asked, progress, libraries)
            if self.output is not None:
                write_outputs(self.output, outputs)
            firings: tuple[FiringTime, ...] = ()
            if self.trace is not None or self.layers:
                progress("timing the firings")
                firings = time_firings(plan, feeds, threads=self.threads)
            peak = choose_backend(plan.options).peak() if self.layers else None
            if self.trace is not None:
                device = report.driven.device if report.driven is not None else None
                write_json(self.trace, chrome_trace(plan, firings, device))
            error = None
            if self.check is not None:
                report, error = compare_with_reference(
                    report, self.model, feeds, outputs, self.check, progress=progress
                )
            # a plan of one image runs without the files by which its times were predicted
            named = _PREDICTED_BY & asked.given.keys()
            profile = load_profile(
                plan.options if named or plan.conversion.frames > 1 else DEFAULTS
            )
            predicted = 1e3 * estimate(plan, profile).seconds if named else None
            frames, mapped = overlap_facts(network, plan, profile), describe_mapping(plan)
        spent, memories = sum_by_layer(firings), memories_facts(plan)
        alone, told = to_json(report), {**_told(plan), "account": str(report.account)}
        values = {**alone, **({"memories": memories} if memories else {})}
        values |= {"frames": frames.to_json()} if frames is not None else {}
        values |= {"processors": mapped.to_json()} if mapped is not None else {}
        values |= {"predicted_ms": predicted} if predicted is not None else {}
        values |= {"precision": precision.to_json()} if precision is not None else {}
        if self.layers:
            values |= {"layer_times": [asdict(one) for one in spent], "peak_flops": peak}
        if self.as_json:
            say_json(values)
        else:
            self._show(values, told)
            _show_check(report)
            show_memories(plan)
            self._show_end(values)
            if precision is not None:
                say(f"precision  {escape(precision)}")
            if predicted is not None:
                say(f"predicted  {predicted:,.3f} ms on {profile.name}")
            show_overlap(frames, profile)
            runs = network.batch // plan.conversion.frames
            show_mapped(plan, mapped, 1e-3 * report.latency_ms / runs, self.threads)
            if self.layers:
                _show_layers(spent, peak and peak * self.threads)
            if self.trace is not None:
                say(f"\n{escape(self.trace)}: {pluralize(len(firings), 'firing')} of one frame")
            _show_classes(outputs, labels)
        if error is not None:
            raise error
        settled = all(files.values()) and (files or is_zoo_name(self.model))
        if place and settled and values == alone and not plan.interrupted:
            integers = any("int" in tensor.dtype for tensor in network.inputs)
            known = input_formats(self.model) if integers else {}
            formats = {name: [one.dtype, one.scale, one.zero_point] for name, one in known.items()}
            sizes = example_sizes(asked) if network.sized else {}
            of_run = {
                "report": values,
                "told": told,
                "files": files,
                "formats": formats,
                "sizes": sizes,
            }
            keep(place, runtime.compile(plan, threads=self.threads), of_run)

    def _run_front(self, asked: Asked) -> None:
        """Run every plan of the front: predicted and measured time, outputs compared if asked for."""
        from threadpoolctl import threadpool_limits

        from csdfgen.cli.models import convert_precision, load_network, resolve_run_options
        from csdfgen.cli.show import Front, find_points
        from csdfgen.goals.choice import load_profile
        from runtime.report import compare_with_reference

        for name in ("plan", "labels", "trace", "layers"):
            if getattr(self, name):
                raise InputError(f"--pareto runs many plans of the model; leave --{name} out")
        if self.precision == "auto":
            raise InputError(
                "--pareto runs many plans of the model; give --precision bfloat16, or none"
            )
        check_front_output(self.output)
        measured: list[dict[str, Any]] = []
        with show_progress() as progress, threadpool_limits(limits=self.threads, user_api="blas"):
            profile = load_profile(resolve_run_options(asked, progress))
            progress("loading")
            network = convert_precision(
                self.precision, load_network(self.model, asked), self.model, asked
            )
            feeds = self._feeds(network)
            points = find_points(network, asked, progress)
            failed = None
            for at, point in enumerate(points):
                progress("running", at, len(points))
                report, outputs = self._measured(point.plan, feeds, asked, progress)
                if self.check is not None:
                    report, error = compare_with_reference(
                        report, self.model, feeds, outputs, self.check, progress=progress
                    )
                    failed = failed or error
                one = {"measured_ms": report.latency_ms, "measured_bytes": report.measured_bytes}
                measured.append({**one, "ok": report.ok})
        Front(points, profile, measured).show(self.output, as_json=self.as_json)
        if failed is not None:
            raise failed

    def _feeds(self, network: Network) -> dict[str, np.ndarray]:
        """The inputs, read from files or random."""
        from csdfgen.reading.zoo import input_span
        from runtime.images import SYMMETRIC, read_inputs

        span = input_span(self.model) or SYMMETRIC
        return read_inputs(tuple(self.input or ()), network, self._images(), self.seed, span)

    def _images(self) -> ImageOptions:
        """How files become inputs: by the options, and by the formats of integer inputs that the model stores."""
        from csdfgen.cli.models import input_formats

        return self.pixels.read(input_formats(self.model) if self.input else {})

    def _plan_of(
        self, asked: Asked, check: Callable[[Network], None], progress: Progress
    ) -> tuple[Plan, Network, Precision | None]:
        """The plan asked for, from the plan file if there is one, its network, and the precision if one was asked for. check:
        raises what is wrong with the network before it is planned.
        """
        from csdfgen.cli.models import DEFAULT_PRECISION, load_plan_network, plan_with_precision

        if self.plan is None:
            return plan_with_precision(
                self.precision, self.model, asked, check, self._feeds, self.threads, progress
            )
        from csdfgen.backends.registry import AUTO, choose_backend, load_backend, replace_backend
        from csdfgen.planning.saved import read_saved
        from runtime.images import read_frames

        if self.precision != DEFAULT_PRECISION:
            raise PlanError(
                "is a plan, whose formats are those of its model; leave --precision out",
                where=str(self.plan),
            )
        given = asked.given
        memory, images = given.get("memory", 0), given.get("frames", 0) or asked.batch or 0
        saved = read_saved(self.plan, memory, images)
        _check_agreement(saved, asked)
        weights = given.get("weights", DEFAULTS.weights)
        network = load_plan_network(saved, self.model, weights)
        if saved.of_table and not images and self.input:
            frames = read_frames(self.input, replace(network, batch=1), self._images())
            images = sum(len(next(iter(arrays.values()))) for arrays in frames)
            saved = read_saved(self.plan, memory, images)
            network = load_plan_network(saved, self.model, weights)
        check(network)
        progress("reading the plan")
        of = saved.planned_with
        backend, device = given.get("backend", ""), given.get("cl_device", "")
        kernels = choose_backend(of) if of else load_backend(backend or AUTO)
        plan = saved.plan(network, kernels)
        chosen = {name: given[name] for name in (_COMPUTED_BY | _PREDICTED_BY) & given.keys()}
        options = replace_backend(replace(plan.options, **chosen), backend, device)
        return replace(plan, options=options), network, None

    def _measured(
        self,
        plan: Plan,
        feeds: Mapping[str, np.ndarray],
        asked: Asked,
        progress: Progress,
        libraries: int = 0,
    ) -> tuple[Report, dict[str, np.ndarray]]:
        from runtime.report import measure

        try:
            return measure(
                plan,
                feeds,
                model=self.model,
                threads=self.threads,
                repeat=self.repeat,
                result=asked.given.get("result", DEFAULTS.result),
                libraries=libraries,
                progress=progress,
            )
        except CsdfgenError as error:
            if isinstance(error, PlanError) and self.plan and "backend" in asked.given:
                way = f"{error.message}; leave {option('backend')} out, or make a plan for it"
                error = PlanError(way, where=error.where)
            raise error.at(str(self.plan or self.model)) from None

    # The report on a terminal -------------------------------------------------------------------

    def _show(self, report: Mapping[str, Any], told: Mapping[str, Any]) -> None:
        """A report in JSON, and what is said besides (see `_told`)."""
        from csdfgen.cli.compiled import branch_lines, show_process

        arena, measured = report["planned_bytes"], report["measured_bytes"]
        figures, batch = report["figures"], report["batch"]
        outputs = figures["outputs"] // batch * told["frames"]
        compared = compare_whole_layers({**figures, "outputs": outputs}, report["account"]["total"])
        frames = f"median of {report['repeat']} frames" if report["repeat"] > 1 else "one frame"
        if batch > 1:
            frames += f" of {batch} images"
        name = told["backend"]
        code = f", kernels for {told['code']}" if told["code"] != name else ""
        say(
            f"{escape(report['model'])}: {pluralize(told['layers'], 'layer')} in {pluralize(report['firings'], 'firing')}, "
            f"--rows {told['rows']} --fuse {report['fuse']} --image {report['image']}, {pluralize(batch, 'image')}\n",
            figures_table(figures),
            f"\nmeasured   {_touched(measured, arena)}",
            f"outside    {report['python_peak_bytes']:,} bytes allocated by Python while firing, "
            f"{report['call_peak_bytes']:,} bytes in the whole call, "
            f"{'no output stored' if report['result'] == 'streamed' else 'outputs included'}",
            f"account    {told['account']}",
            *(f"{word:<11}{said}" for word, said in compared),
            f"latency    {report['latency_ms']:,.1f} ms, {frames}, {pluralize(report['threads'], 'thread')}",
            f"backend    {name}{code}",
        )
        show_process(report["process"])
        if told["mapped"]:
            there, resident = report["weights"]["bytes"], report["weights"]["resident_bytes"]
            known = "an unknown number" if resident is None else f"{resident:,}"
            say(f"weights    mapped, {there:,} bytes, {known} of them in memory of this process")
        if report["device"] is not None:
            say(
                f"device     {report['launches']:,} launches a frame, {report['copied_bytes']:,} bytes copied "
                "between host and "
                f"device, kernels built in {report['build_ms']:,.0f} ms"
            )
        say(*(f"branch     {line}" for line in branch_lines(report["branches"])))
        say(*(f"output     '{escape(n)}': {t}" for n, t in told["outputs"].items()))

    def _show_end(self, report: Mapping[str, Any]) -> None:
        """The tensors of which every row is in memory at one time (views and small ones at the end are only counted), and
        the file of outputs.
        """
        whole = report["whole_layers"]
        together = pluralize(sum(one["bytes"] for one in whole), "byte")
        shown, rest = whole[:_SHOWN_WHOLE], len(whole) - _SHOWN_WHOLE
        rows = [
            (one["tensor"], str(one["rows"]), one["bytes"], dim_text(one["why"])) for one in shown
        ]
        more = [(f"and {rest} smaller", "", "", dim_text("all of them with --json"))] * (rest > 0)
        if whole:
            say(
                f"\nkept whole ({pluralize(len(whole), 'tensor')}, {together} if all were alive together)",
                table("tensor", "> rows", "> bytes", "why", rows=[*rows, *more]),
            )
        if self.output is not None:
            say(f"written    {escape(self.output)}: {', '.join(map(escape, report['outputs']))}")


def _touched(measured: int | None, planned: int) -> str:
    """What is said of the bytes of the arena that were touched."""
    if measured is None:
        return "nothing: other branches were taken than in the run that measured this program"
    same = "as planned" if planned == measured else f"{planned:,} were planned"
    return f"{measured:,} bytes touched in the arena, {same}"


def _told(plan: Plan) -> dict[str, Any]:
    """What a report on a terminal says of a plan besides its JSON."""
    from csdfgen.backends.registry import choose_backend

    kernels = choose_backend(plan.options)
    return {
        "layers": len(plan.network.layers), "rows": plan.conversion.rows.brief, "frames": plan.conversion.frames,
        "backend": kernels.name, "code": kernels.code, "mapped": plan.options.weights == "mapped",
        "outputs": dict(plan.network.found_outputs),
    }  # fmt: skip


def _check_agreement(saved: SavedPlan, asked: Asked) -> None:
    """What the user asks for is what the file was made with. Raises PlanError."""
    from csdfgen.phases.heights import parse_rows

    free = {*_COMPUTED_BY, *_PREDICTED_BY, *CONVERSION, *(_OF_TABLES if saved.of_table else ())}
    for name in asked.given:
        if name not in free:
            raise PlanError(f"is a plan already; leave {asked.flag(name)} out", where=saved.where)
    refused = partial(PlanError, where=saved.where)
    for name in CONVERSION:
        wanted, there = asked.given.get(name), saved.options[name]
        same = wanted in (None, there) or (name == "rows" and str(parse_rows(wanted)) == there)
        if not same:
            raise refused(f"was made with --{name} {there}, not {wanted}; leave --{name} out")
    alone = next(iter(saved.inputs)) if len(saved.inputs) == 1 else ""
    shapes = {**saved.inputs, **{name or alone: shape for name, shape in asked.shapes.items()}}
    if shapes != saved.inputs or asked.batch not in (None, saved.batch):
        raise refused(
            "was made for other shapes; leave --shape and --batch out, or make a plan for them"
        )
    if asked.fixed:
        raise refused("has its constants; leave --fix out, or make a plan for others")


def _range(one: Comparison) -> str:
    """Of an output, what values it has in onnxruntime."""
    if one.spread is None or not one.values:
        return ""
    fixed = ", a constant of the network" if one.spread.fixed else ""
    return f" from {one.spread.low:.3g} to {one.spread.high:.3g}{fixed}"


def _show_check(report: Report) -> None:
    if report.comparisons is None:
        return
    from runtime.reference import SIGNED, signed_integers
    from runtime.steps import find_saturating

    for one in report.comparisons:
        classes = {None: "", True: ", same top 1 and top 5", False: ", other top 5"}[one.classes_ok]
        say(
            f"check      '{escape(one.name)}': {'equal' if one.ok else f'{one.wrong:,} wrong'}, "
            f"{pluralize(one.values, 'value')}{_range(one)}, largest difference from onnxruntime "
            f"{one.max_abs_error:.3g}{f', {one.steps}' if one.steps is not None else ''}"
            f"{f', {one.sqnr_db:.1f} dB signal to noise' if one.sqnr_db is not None else ''}"
            f"{f', which differs from itself by {one.noise:.3g} where sums are rounded otherwise' if one.noise else ''}{classes}"
            f"{f'; which proves nothing: {one.inconclusive}' if one.inconclusive else ''}"
        )
    for run in report.forced:
        verdict = f"not compared: {run.why}" if run.why else "equal" if run.ok else "wrong"
        say(
            f"check      with {escape(run)}, whatever the conditions are: {verdict}"
            + ("" if run.why else f", largest difference from onnxruntime {run.max_abs_error:.3g}")
        )
    if signed_integers(report.plan.network):
        say(
            f"check      onnxruntime is started with {SIGNED}, since this network has int8 tensors; by default it "
            "computes between them in float32 on x86"
        )
    cut = find_saturating(report.plan.network)
    if cut:
        say(
            f"check      onnxruntime may cut off sums of uint8 times int8 on this processor (AVX2 without VNNI): "
            f"{pluralize(len(cut), 'layer')}, the first is '{escape(cut[0])}'"
        )
    if not report.layers:
        return

    def rows() -> Iterator[tuple[str, ...]]:
        for entry in report.layers or ():
            one = entry.comparison
            said = f"{one.wrong:,} of {one.values:,} wrong, first in row {one.first_wrong_row or 0}"
            layer, error = entry.layer, f"{one.max_abs_error:.3g}"
            verdict = "ok" if one.ok else said
            yield layer.name, layer.op_type, one.name, str(entry.rows), error, verdict

    say(
        f"\nlayers compared ({len(report.layers)} of {len(report.plan.network.layers)} have an output of ONNX's name)",
        table("layer", "operator", "output", "> rows", "> max abs error", "", rows=rows()),
    )


def _show_layers(spent: Sequence[LayerTime], peak: float | None) -> None:
    """Where the time of a frame goes, the slowest layers first. peak: operations a second of multiply-adds
    on registers, None where that was not measured.
    """
    total = sum(one.seconds for one in spent)

    def row(one: LayerTime) -> tuple[str | int, ...]:
        rate = f"{one.rate / 1e9:,.1f}" if one.operations else ""
        of_peak = [f"{one.rate / peak:.0%}" if one.operations else ""] if peak else []
        share = f"{one.seconds / total:.1%}" if total else ""
        time, moved = f"{1e3 * one.seconds:,.3f}", f"{one.moved / 1e6:,.2f}"
        return one.name, one.function, one.firings, time, share, rate, *of_peak, moved

    measured = (
        f"; peak of {peak / 1e9:,.1f} GFLOP/s measured now, on registers (Winograd does fewer operations than are "
        "counted)"
        if peak
        else ""
    )
    of_peak = ("> of peak",) if peak else ()
    say(
        f"\ntime by layer, {1e3 * total:,.2f} ms in all, the clock included{measured}",
        table(
            "layer", "operator", "> firings", "> ms", "> share", "> GFLOP/s", *of_peak, "> MB moved",
            rows=map(row, spent[:_LISTED]),
        ),
    )  # fmt: skip
    rest = spent[_LISTED:]
    if rest:
        part = sum(one.seconds for one in rest)
        say(f"and {pluralize(len(rest), 'layer')} with {1e3 * part:,.3f} ms together")


def _check_labels(labels: tuple[str, ...] | None, outputs: Mapping[str, np.ndarray]) -> None:
    from runtime.images import check_labels

    check_labels(labels, {name: (one.shape, one.dtype.name) for name, one in outputs.items()})


def _show_classes(outputs: Mapping[str, np.ndarray], labels: tuple[str, ...] | None) -> None:
    """The five likeliest classes of every classifier output."""
    from runtime.images import TOP, top_classes

    for name, output in outputs.items():
        top = top_classes(output, min(TOP, len(labels or range(TOP))))
        if top is None or (labels and len(labels) != output.shape[1]):
            continue
        for image, classes in enumerate(top[:_SHOWN_IMAGES]):
            values = output[image].reshape(-1)
            of = f", image {image + 1} of {len(top)}" if len(top) > 1 else ""
            say(
                f"\ntop {len(classes)} of '{escape(name)}'{of}",
                table(
                    "> class", "> value", *(["label"] if labels else []),
                    rows=(
                        (str(k), f"{values[k]:.6g}", *([labels[k]] if labels else [])) for k in classes
                    ),
                ),
            )  # fmt: skip
