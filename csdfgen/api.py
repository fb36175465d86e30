"""Everything that the command line does, in one line of Python each, with values instead of files.

    net = csdfgen.load("model.onnx")
    graph = csdfgen.convert(net, rows=2)             # csdfgen MODEL --rows 2 -o graph.xml
    csdfgen.save_graph(graph, "graph.xml")
    order = csdfgen.schedule(graph)                  # csdfgen schedule graph.xml
    found = csdfgen.analyze(graph, buffers="live")   # csdfgen analyze graph.xml --buffers
    plan = csdfgen.plan(net)
    csdfgen.save_plan(plan, "plan.json")             # csdfgen schedule MODEL -o plan.json
    report = csdfgen.report(plan)                    # csdfgen run MODEL --check
    csdfgen.serve("model.onnx", port=8000)           # csdfgen serve model.onnx

Each function calls what the command of the same purpose calls. Functions of graphs alone import nothing of
networks. `csdfgen` exports all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import CsdfgenError, InputError, ModelError, PlanError, option, prefix_errors
from csdfgen.model.describe import sizes
from csdfgen.model.options import DEFAULTS, STREAM_OPTIONS, PlanOptions, keywords

if TYPE_CHECKING:
    import numpy as np
    import onnx

    from csdfgen.dataflow.origin import Values
    from csdfgen.model.network import Network
    from csdfgen.phases.heights import AskedRows
    from csdfgen.planning.plan import Plan
    from csdfgen.planning.plan_table import PlanTable
    from csdfgen.planning.streams import StreamPlan
    from csdfgen.reading.fixed import AskedValues
    from csdfgen.reading.input_shapes import AskedShapes
    from csdfgen.streaming.columns import Cut
    from runtime.report import Report
    from schedules.analysis import Analysis, Buffers
    from schedules.schedule import Schedule
    from schedules.sizing import Unit
    from schedules.throughput import Method

    Model = Network | str | os.PathLike[str] | onnx.ModelProto
    """A network, or a source from which `csdfgen.load` reads one."""


_ROWS, _FUSE, _IMAGE, _TOKENS = DEFAULTS.rows, DEFAULTS.fuse, DEFAULTS.image, "elements"


# Graphs -----------------------------------------------------------------------------------------


def convert(
    network: Model,
    *,
    rows: AskedRows = _ROWS,
    fuse: str = _FUSE,
    image: str = _IMAGE,
    tokens: str = _TOKENS,
    rates: str = "exact",
    overlap: bool = True,
    serial: bool = True,
) -> CsdfGraph:
    """The CSDF graph of a network: `csdfgen MODEL -o graph.xml`.

    network: a network, or a model that is loaded first.
    rows: rows of its output that a layer computes in a phase: a number, "auto", "whole", "paper",
        "LAYER=N,...", or {"LAYER": N, "*": N}.
    fuse: "none", "fold" or "full". image: "streamed" or "resident". tokens: the unit of rates,
    "elements" or "rows". rates: "exact" by the row rule, or "paper" by Algorithm 1 of the base paper.
    overlap: add a self-loop for the rows that a reader keeps between phases. serial: add a self-loop
    with one token to every actor, so that no actor overlaps with itself.
    Raises InputError for an unknown option, ModelError for a model that is not supported.
    """
    from csdfgen.phases.graphs import build_graph
    from csdfgen.phases.heights import parse_rows
    from csdfgen.planning.prepared import convert_network
    from sdf3_bridge.variants import WriteOptions, variant

    net = _network(network)
    try:
        options = PlanOptions(str(parse_rows(rows)), fuse, image)
        conversion = convert_network(net, options)
        graph = build_graph(conversion, options, tokens=tokens, rates=rates, overlap=overlap)
    except CsdfgenError as error:
        raise error.at(_name(net)) from None
    return variant(graph, WriteOptions(serial="add" if serial else "keep"))[0]


def schedule(
    graph: CsdfGraph | Model,
    capacities: Mapping[str, int] | None = None,
    *,
    policy: str = "demand",
    iterations: int = 1,
    rows: AskedRows | None = None,
    fuse: str | None = None,
    image: str | None = None,
    tokens: str | None = None,
) -> Schedule:
    """A checked order of firings of a graph on one processor, with the capacity that every channel
    needs for it: `csdfgen schedule GRAPH`. (`csdfgen.plan` makes the plan that executes a network.)

    graph: a graph, or a network, which is converted with `rows`, `fuse`, `image` and `tokens` as in
        `convert`. capacities: channel name -> the most tokens that it may contain.
    policy: "demand", "eager", "layers", "bounded" or "self-timed".
    iterations: number of graph iterations (images) in the order.
    Raises InconsistentError, DeadlockError; GraphError for capacities or a policy that do not fit
    the graph; InputError for options of a network if a graph is given.
    """
    from schedules.check import check
    from schedules.static import static_schedule

    options = {"rows": rows, "fuse": fuse, "image": image, "tokens": tokens}
    subject = _graph(graph, options, {})
    made = static_schedule(subject, capacities, iterations, policy)
    check(subject, made)
    return made


def analyze(
    graph: CsdfGraph | Model,
    capacities: Mapping[str, int] | None = None,
    *,
    with_throughput: bool = True,
    with_latency: bool = False,
    buffers: Buffers = "none",
    unit: Unit | None = None,
    method: Method = "auto",
    seconds: float = 10.0,
    rows: AskedRows | None = None,
    fuse: str | None = None,
    image: str | None = None,
    tokens: str | None = None,
    overlap: bool | None = None,
) -> Analysis:
    """Consistency, liveness, throughput, latency and storage of a graph: `csdfgen analyze`.

    graph: a graph, or a network, which is converted as in `convert`; the defaults for a network are
        rows "paper", tokens "rows" and no overlap self-loops, as in the command.
    capacities: channel name -> tokens, which limit throughput and latency.
    buffers: "none", "live" (the least storage without deadlock), "maximal" (with the highest
        throughput) or "front" (the Pareto front of storage and throughput).
    unit: what is minimised, "tokens" or "bytes"; by default bytes for a network, tokens for a graph.
    seconds: how long the least storage is searched for before bounds are returned.
    Raises GraphError for an invalid graph or invalid capacities; InputError for options of a network
    if a graph is given. That a graph is inconsistent or deadlocks is a result, not an error.
    """
    from schedules import analysis

    options = {"rows": rows, "fuse": fuse, "image": image, "tokens": tokens, "overlap": overlap}
    return analysis.analyze(
        _graph(graph, options, {"rows": "paper", "tokens": "rows", "overlap": False}),
        capacities,
        method=method,
        with_throughput=with_throughput,
        with_latency=with_latency,
        buffers=buffers,
        unit=unit or ("tokens" if isinstance(graph, CsdfGraph) else "bytes"),
        seconds=seconds,
    )


def save_graph(graph: CsdfGraph, path: str | os.PathLike[str]) -> None:
    """Write a graph as .xml for the SDF3 tools, .json lossless, or .dot to draw. Equal graphs give
    equal bytes.

    Raises InputError for another suffix or a file that cannot be written; GraphError for a malformed
    graph.
    """
    suffix = _suffix(path, (".xml", ".json", ".dot"), "written")
    if suffix == ".xml":
        from sdf3_bridge import sdf3xml

        # what is read back is what was saved: no self-loop is added
        sdf3xml.write(path, graph, sdf3xml.WriteOptions(serial="keep"))
    elif suffix == ".json":
        from csdfgen.dataflow.graph_json import write_graph

        write_graph(path, graph)
    else:
        from csdfgen.dataflow.dot import to_dot
        from csdfgen.files import write_bytes

        write_bytes(path, to_dot(graph).encode())


def read_graph(path: str | os.PathLike[str]) -> CsdfGraph:
    """Read a graph from .xml (of SDF3, Kiter or csdfgen) or .json. Raises InputError for a file that
    cannot be read, GraphError for an invalid graph.
    """
    if _suffix(path, (".xml", ".json"), "read") == ".xml":
        from sdf3_bridge import sdf3xml

        return sdf3xml.read(path)
    from csdfgen.dataflow import graph_json

    return graph_json.read_graph(path)


# Plans ------------------------------------------------------------------------------------------


def save_plan(plan: Plan | PlanTable | StreamPlan, path: str | os.PathLike[str]) -> None:
    """Write a plan as JSON, for `read_plan` and `csdfgen run MODEL --plan`; or a table of plans, for
    `read_plan_table`, or a plan of images of any height, for `read_stream`. Raises InputError for a file that cannot
    be written.
    """
    from csdfgen.planning.plan_file import write_plan
    from csdfgen.planning.plan_table import PlanTable, write_table
    from csdfgen.planning.stream_file import write_stream
    from csdfgen.planning.streams import StreamPlan

    if isinstance(plan, PlanTable):
        write_table(path, plan)
    elif isinstance(plan, StreamPlan):
        write_stream(path, plan)
    else:
        write_plan(path, plan)


@keywords(*STREAM_OPTIONS)
def plan_stream(
    network: Model | Cut,
    *,
    shapes: AskedShapes | None = None,
    fix: AskedValues | None = None,
    passes: int = 1,
    stateful: Mapping[str, str] | None = None,
    count: str = DEFAULTS.count,
    spread: bool = False,
    **given: Any,
) -> StreamPlan:
    """The plan of a network for images of any height, in one arena: an order of firings that repeats.

    network: a file or a model in memory, as `csdfgen.load` takes, a network that was read from a file, or an image in strips.
    shapes: of inputs at any height. fix: see `csdfgen.load`. passes: how often rows may be read, so that layers can depend on
    means and other results of all rows. stateful: input -> output of a model of one step, a state that the next step takes; rows
    are steps then, each an input of the model. count: "flash" for a microcontroller, whose phases have fewer rows. spread: spread
    the work evenly over rows, for a source that does not wait; costs memory and latency, which `facts` has of both orders.
    Raises PlanError for a network that needs all rows at once, and as `load`.
    """
    from csdfgen.backends.registry import choose_backend, resolve_backend
    from csdfgen.model.network import Network
    from csdfgen.planning.planner import return_freed_memory
    from csdfgen.planning.streams import find_passes, spread_stream
    from csdfgen.reading.loader import load, read_heights
    from csdfgen.reading.steps import repeat_steps
    from csdfgen.streaming.columns import Cut

    network, pixels = (
        (network.network, network.pixels) if isinstance(network, Cut) else (network, None)
    )
    source = network.source if isinstance(network, Network) else network
    if stateful:
        source = network = repeat_steps(source, stateful, shapes, fix or ())
        given, shapes = {"rows": "1", **given}, None
    one = (
        network
        if isinstance(network, Network)
        else load(network, shapes=shapes, fix=fix, endless=True)
    )
    given = {**given, "backend": resolve_backend(given.get("backend", "auto"))}
    options = PlanOptions.asked({"policy": "loop", "result": "streamed", "count": count, **given})
    with prefix_errors(_name(one)):
        at_height = read_heights(source, one)
        made = find_passes(at_height, options, choose_backend(options), passes, pixels)
        made = spread_stream(made) if spread else made
    return_freed_memory()
    return made


def read_stream(path: str | os.PathLike[str], network: Model | Cut) -> StreamPlan:
    """The plan of images of any height in a file. network: the model, a network that was read from a file, or an image in strips.
    Raises as `read_plan`.
    """
    from csdfgen.backends.registry import choose_backend
    from csdfgen.model.network import Network
    from csdfgen.planning import stream_file
    from csdfgen.reading.loader import load, read_heights
    from csdfgen.streaming.columns import Cut

    saved = stream_file.read_stream(path)
    network = network.network if isinstance(network, Cut) else network
    source = network.source if isinstance(network, Network) else network
    try:
        one = load(source, shapes=saved.inputs, fix=saved.fixed, endless=True)
    except ModelError as error:
        why = f"is for {_listed(saved.inputs)}, which the network does not take"
        raise PlanError(f"{why}: {error}", where=saved.where) from error
    return saved.stream(one, read_heights(source, one), choose_backend(saved.options))


def read_plan_table(path: str | os.PathLike[str], network: Model) -> PlanTable:
    """The table of plans in a file, for `csdfgen.compile_table`. Each plan is checked.

    network: the network of one image. Raises as `read_plan`.
    """
    from csdfgen.backends.registry import choose_backend
    from csdfgen.planning.plan_table import read_table

    file = read_table(path)
    return file.table(_network(network, file.inputs, file.fixed), choose_backend(file.planned_with))


def read_plan(path: str | os.PathLike[str], network: Model) -> Plan:
    """The plan in a file, checked with its network. The weights come from the network; a plan file has
    none.

    path: a plan, or a schedule of the network's graph. network: loaded with the shapes and the batch
        of the plan; a model that is not loaded yet is loaded with them.
    Raises PlanError if the plan is for another network or other shapes; ScheduleError or
    CapacityExceededError for a plan that cannot be executed; InputError for a file that cannot be
    read.
    """
    from csdfgen.backends.registry import choose_backend
    from csdfgen.model.several import is_several, use_sources
    from csdfgen.planning.saved import read_saved

    saved = read_saved(path)
    if is_several(saved.model) and is_several(network):
        listed: Any = use_sources(saved.model, network)
        net = _network(listed, fixed=saved.fixed)
    else:
        net = _network(network, saved.inputs, saved.fixed)
    shapes = {tensor.name: net.whole_shape(tensor) for tensor in net.inputs}
    if shapes != saved.inputs or net.batch != saved.batch:
        raise PlanError(
            f"is for {_listed(saved.inputs)}, batch {saved.batch}; '{net.name}' has {_listed(shapes)}, "
            f"batch {net.batch}; load it with the shapes of the plan",
            where=saved.where,
        )
    return saved.plan(net, choose_backend(saved.planned_with))


def report(
    model: Plan | Model,
    inputs: np.ndarray | Mapping[str, np.ndarray] | None = None,
    *,
    rows: AskedRows | None = None,
    fuse: str | None = None,
    image: str | None = None,
    check: str | None = "outputs",
    reference: str | os.PathLike[str] | onnx.ModelProto | None = None,
    threads: int = 1,
    repeat: int = 1,
    seed: int = 0,
    result: str | None = None,
    precision: str = "float32",
) -> Report:
    """Execute a model, measure its memory and its time, and compare its outputs with onnxruntime's:
    `csdfgen run MODEL --check`.

    model: a plan, or a model or network, which is planned with `rows`, `fuse` and `image` as in
        `csdfgen.plan`. inputs: an array, or arrays by input name; without it, random arrays of this
        `seed`. check: "outputs", "layers" (every layer), or None (onnxruntime is not called).
    reference: what onnxruntime executes, by default the file (or zoo name) from which the network was
        loaded. threads: threads of matrix products, on both sides. repeat: number of frames that are
        timed; the median is reported. result: where outputs are stored, as in `csdfgen.plan`; with
        "streamed" rows are compared as they are computed, and not stored. precision: of a float32 model that is not
        loaded yet, "float32" (as it is), "bfloat16" (stored as `csdfgen.quantize` stores it), or "auto": bfloat16 where a
        frame of it is measured to be shorter.
    `report(...).ok` states whether the outputs are equal and could have differed (`Report.inconclusive`); a difference is not
    an error.
    `runtime.report.to_json` converts the report to JSON values. Raises InputError for inputs or options
    that do not fit, ModelError for a model that is not supported.
    """
    from threadpoolctl import threadpool_limits

    from csdfgen.goals.choice import plan as planned
    from csdfgen.model.given import name_arrays
    from csdfgen.model.network import Network
    from csdfgen.planning.plan import Plan
    from csdfgen.reading.zoo import input_span
    from runtime.images import SYMMETRIC, random_inputs
    from runtime.report import measure_and_compare

    def given(network: Network) -> Mapping[str, np.ndarray]:
        if inputs is None:
            return random_inputs(network, seed, input_span(network.source) or SYMMETRIC)
        return name_arrays(inputs, [tensor.name for tensor in network.inputs])

    options = {"rows": rows, "fuse": fuse, "image": image}
    of_model = {"precision": None if precision == "float32" else precision}
    with threadpool_limits(limits=threads, user_api="blas"):
        if isinstance(model, Plan):
            _refuse({**options, **of_model}, "a plan")
            plan = model
        else:
            plan = _planned_in(
                precision,
                model,
                given,
                threads,
                lambda one: planned(one, **_given({**options, "result": result})),
            )
        source = reference if reference is not None else plan.network.source
        if reference is None and not isinstance(model, Plan | Network):
            source = model
        return measure_and_compare(
            plan, given(plan.network), source, check=check, threads=threads, repeat=repeat,
            result=result or "stored",
        )  # fmt: skip


def _planned_in(
    precision: str,
    model: Model,
    feeds: Callable[[Network], Mapping[str, np.ndarray]],
    threads: int,
    plan: Callable[[Network], Plan],
) -> Plan:
    """The plan of a model in a precision, see `report`."""
    from csdfgen.model.network import Network

    network = _network(model)
    if precision == "float32":
        return plan(network)
    from csdfgen.precision.run_as import choose_precision, convert_precision
    from csdfgen.reading.loader import load

    if isinstance(model, Network):
        raise InputError(
            f"{option('precision', precision)} is for models; a network has its formats already"
        )

    def plan_in(used: str) -> Plan:
        return plan(convert_precision(used, network, model, load))

    return choose_precision(precision, plan_in, lambda: feeds(network), threads)[0]


# Arguments --------------------------------------------------------------------------------------


def _network(
    model: Model,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    fixed: Mapping[str, Values] | None = None,
) -> Network:
    """The given network, or the network of the model, which is loaded."""
    from csdfgen.model.network import Network
    from csdfgen.reading.loader import load

    return model if isinstance(model, Network) else load(model, shapes=shapes, fix=fixed)


def _graph(
    given: CsdfGraph | Model, options: Mapping[str, Any], defaults: Mapping[str, Any]
) -> CsdfGraph:
    """The given graph, or the graph of the network, which is converted."""
    if isinstance(given, CsdfGraph):
        _refuse(options, "a graph")
        return given
    return convert(given, **{**defaults, **_given(options)})


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _refuse(options: Mapping[str, Any], what: str) -> None:
    """Raises InputError for options that divide a network into phases: `what` is divided already."""
    for name, value in _given(options).items():
        raise InputError(f"{option(name, value)} is for networks; {what} is cut already")


def _name(network: Network) -> str:
    return network.source or network.name


def _listed(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {sizes(shape)}" for name, shape in shapes.items()) or "no input"


def _suffix(path: str | os.PathLike[str], known: tuple[str, ...], done: str) -> str:
    suffix = Path(path).suffix.lower()
    if suffix not in known:
        raise InputError(f"a graph is {done} as {', '.join(known)}", where=str(path))
    return suffix


def serve(
    models: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    names: Iterable[str] = (),
    policy: str = "adaptive",
    deadline: float | None = None,
    max_batch: int = 8,
    memory: int | str | None = None,
    workers: int = 1,
    threads: int = 1,
    backend: str = "auto",
    host: str = "127.0.0.1",
    port: int = 8000,
    on_ready: Callable[[int], None] | None = None,
) -> None:
    """Serve models over HTTP by KServe's protocol, version 2, until SIGTERM or Ctrl-C: `csdfgen serve MODEL ...`.

    models: a file, a name of the zoo, or a folder, or several of them. names: their names, by default those of the files.
    policy: how requests join batches: "adaptive", "greedy", "window:m=10,delay=50ms", ... deadline: seconds in which requests
        want an answer that do not say so themselves. max_batch: most images of a batch.
    memory: bytes of all models together, a number or "64MiB". workers, threads: of each model, and of each worker.
    port: 0 is a free one. on_ready: is called with the port when it is open.
    `csdfgen.serving.Engine` serves within a program. Raises InputError for options that do not fit, and without the
    packages of csdfgen[serve]; CsdfgenError for a model that cannot be loaded or planned.
    """
    from csdfgen import __version__
    from csdfgen.serving.policies import parse_policy
    from csdfgen.serving.repository import Repository, name_models
    from csdfgen.serving.served import serve_models

    parse_policy(policy)
    listed = [models] if isinstance(models, str | os.PathLike) else models
    sources, folder = name_models([os.fspath(one) for one in listed], [*names])
    plans = {"max_batch": max_batch, "workers": workers, "backend": backend}
    repository = Repository(sources, folder, memory, plans, {"policy": policy, "threads": threads})
    limits, ready = {"deadline": deadline}, on_ready or (lambda port: None)
    serve_models(repository, limits, (host, port), ready, __version__, repository.start)
