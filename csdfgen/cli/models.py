"""From what the user typed to a network, a plan or a graph.

A plan file names the model that it was made for; that is looked for beside the file, then in the
working directory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING

from csdfgen.backends.registry import choose_backend
from csdfgen.cli.options import Asked, Source, list_stream_refusals, refuse
from csdfgen.cli.terminal import Progress
from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import CsdfgenError, InputError, PlanError, prefix_errors
from csdfgen.files import split_model
from csdfgen.goals.choice import choose_plan, plan_options, run_options
from csdfgen.model.formats import Format
from csdfgen.model.network import Network
from csdfgen.model.options import DEFAULTS, PlanOptions
from csdfgen.model.several import is_several, name_networks, replace_sources, use_sources
from csdfgen.model.units import pluralize
from csdfgen.phases.graphs import build_graph
from csdfgen.planning.plan import Plan
from csdfgen.planning.prepared import convert_network
from csdfgen.reading.fronts import find_model_files
from csdfgen.reading.loader import load_frames
from csdfgen.reading.zoo import is_zoo_name

if TYPE_CHECKING:
    import numpy as np
    import onnx

    from csdfgen.planning.saved import SavedPlan
    from csdfgen.planning.streams import StreamPlan
    from csdfgen.precision.run_as import Precision


DEFAULT_PRECISION = "float32"
"""A model as it is."""


def load_network(model: str | onnx.ModelProto, asked: Asked, *, endless: bool = False) -> Network:
    """The network of an ONNX file, or of a name of the zoo, or of a model in memory; for one image, as a batch of
    `--frames` where that is given. endless: see `load`. Raises ModelError.
    """
    return load_frames(
        model,
        asked.given.get("frames", 1),
        shapes=dict(asked.shapes),
        fix=asked.fixed,
        batch=asked.batch,
        example=asked.example or None,
        endless=endless,
        apart="batching" in asked.given,
        weights=asked.given.get("weights", DEFAULTS.weights),
    )


def input_formats(model: str) -> Mapping[str, Format]:
    """How values become the integers that inputs take, of a model that `csdfgen quantize --integer-io`
    wrote; nothing of others. Raises ModelError.
    """
    from csdfgen.precision.ends import read_ends
    from csdfgen.reading.onnx_file import read_file

    if is_zoo_name(model) or is_several(model) or find_model_files(model) is not None:
        return {}
    with prefix_errors(model):
        return read_ends(read_file(Path(model)).model).inputs


def resolve_run_options(asked: Asked, progress: Progress, *, movable: bool = False) -> PlanOptions:
    """The options of a plan that is to be run (see `goals.choice.run_options`), its backend ready: native code is
    built by now. Raises InputError.
    """
    progress("preparing the backend; its kernels are compiled the first time")
    options = run_options(asked.given, movable=movable)
    choose_backend(options)
    return options


def plan_network(
    network: Network, asked: Asked, progress: Progress, *, movable: bool = False
) -> Plan:
    """The plan with the options given, and the defaults. movable: see `goals.choice.run_options`. Errors name the
    model.
    """
    with prefix_errors(network.source or network.name):
        options = resolve_run_options(asked, progress, movable=movable)
        progress("planning")
        return choose_plan(network, options, progress=progress)


def convert_precision(used: str, network: Network, model: str, asked: Asked) -> Network:
    """The network of a model as it is ("float32"), or stored in bfloat16. Raises CsdfgenError."""
    from csdfgen.precision.run_as import convert_precision

    bare = replace(asked, shapes={}, fixed={})  # which the stored model has
    with prefix_errors(model):
        return convert_precision(
            used, network, model, lambda one: load_network(one, bare), asked.shapes or None
        )


def plan_with_precision(
    precision: str,
    model: str,
    asked: Asked,
    check: Callable[[Network], None],
    feeds: Callable[[Network], Mapping[str, np.ndarray]],
    threads: int,
    progress: Progress,
) -> tuple[Plan, Network, Precision | None]:
    """The plan of a model in a precision, its network, and how that was chosen, unless the model runs as it is. check: raises
    what is wrong with a network before it is planned; feeds: inputs of one, on which frames are timed. Raises CsdfgenError.
    """
    network = load_network(model, asked)
    check(network)
    if precision == DEFAULT_PRECISION:
        return plan_network(network, asked, progress), network, None
    from csdfgen.precision.run_as import choose_precision

    networks: dict[str, Network] = {}

    def planned(used: str) -> Plan:
        networks[used] = convert_precision(used, network, model, asked)
        return plan_network(networks[used], asked, progress)

    plan, found = choose_precision(precision, planned, lambda: feeds(network), threads)
    return plan, networks[found.used], found


def network_graph(
    network: Network, asked: Asked, *, tokens: str, rates: str = "exact", overlap: bool = True
) -> CsdfGraph:
    """The CSDF graph with the options given, and the defaults, as `phases.graphs.build_graph` makes it.
    Errors name the model.
    """
    with prefix_errors(network.source or network.name):
        options = plan_options(asked.given)
        conversion = convert_network(network, options)
        return build_graph(conversion, options, tokens=tokens, rates=rates, overlap=overlap)


# Plans ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, the model that it is of (a file, or a name of the zoo), and that as it was loaded. of_table: whether it was chosen
    of a table of plans.
    """

    plan: Plan
    model: str
    source: Source
    network: Network
    of_table: bool = False

    @property
    def title(self) -> str:
        """The model's name for people."""
        return name_model(self.model)


def name_model(model: str) -> str:
    """The name of a file, or of a model of the zoo, or of several, for people."""
    if is_several(model):
        return name_networks(model)
    name = model.removeprefix("zoo:")
    return name if is_zoo_name(model) else PurePath(split_model(name)[0]).stem


def repeat_model(
    model: str, stateful: Sequence[str], asked: Asked
) -> tuple[str | onnx.ModelProto, Asked]:
    """The model of all steps, if it is one with states, IN=OUT each, and what is asked of it. Raises InputError."""
    from csdfgen.reading.steps import repeat_steps

    pairs = [one.partition("=") for one in stateful]
    if not all(start and end for start, _, end in pairs):
        raise InputError("--stateful needs IN=OUT, an input of the model and an output")
    if not pairs:
        return model, asked
    states = {start: end for start, _, end in pairs}
    found = repeat_steps(model, states, asked.shapes, asked.fixed)
    return found, replace(asked, shapes={}, given={"rows": "1", **asked.given})


def load_stream(
    source: Source, progress: Progress, stateful: Sequence[str] = (), passes: int = 1, **usual: str
) -> StreamPlan:
    """The plan of a stream. stateful: see `repeat_model`; passes: see `plan_stream`; usual: as in `load_or_plan`. Raises
    CsdfgenError.
    """
    from csdfgen.api import plan_stream, read_stream

    asked, name = source.asked, source.name
    if source.is_plan:
        if source.model is None:
            raise InputError("is a plan; name its model with --model FILE", where=name)
        refuse([(stateful, f"{name}: is a plan, which has its states; leave --stateful out")])
        refuse(
            [(passes > 1, f"{name}: is a plan of one pass; give the model, or leave --passes out")]
        )
        progress("reading the plan")
        return read_stream(name, source.model)
    refuse(list_stream_refusals(asked))
    progress("loading")
    model, asked = repeat_model(name, stateful, asked)
    network = model if stateful else load_network(model, asked, endless=True)
    progress("planning")
    given = {**usual, **asked.given}
    return plan_stream(network, fix=asked.fixed, passes=passes, **given)


def load_or_plan(source: Source, progress: Progress, **usual: str) -> Planned:
    """Read or make the plan. usual: options of one that is made, unless others are given. Raises CsdfgenError."""
    asked, name = source.asked, source.name
    if not source.is_plan:
        progress("loading")
        asked = replace(asked, given={**usual, **asked.given})
        network = load_network(name, asked)
        return Planned(plan_network(network, asked, progress), name, source, network)
    for flag, *_ in asked.typed():
        if flag != "--device":  # where its times are predicted
            raise InputError(f"is a plan, which says how it was made; leave {flag} out", where=name)
    if PurePath(name).suffix.lower() == ".xml":
        raise InputError(
            "is a graph; give a model, or a plan (csdfgen schedule MODEL -o plan.json)", where=name
        )
    progress("reading the plan")
    from csdfgen.planning.saved import read_saved

    saved = read_saved(name)
    model = source.model or _model_of(saved, Path(name))
    network = load_plan_network(saved, model)
    plan = saved.plan(network, choose_backend(saved.planned_with))
    return Planned(plan, model, source, network, saved.of_table)


def load_plan_network(saved: SavedPlan, model: str, weights: str = DEFAULTS.weights) -> Network:
    """A model with the shapes of a plan. Raises PlanError."""
    try:
        shapes = saved.inputs
        if is_several(saved.model):  # which says the shapes
            model, shapes = str(use_sources(saved.model, model)), MappingProxyType({})
        asked = Asked({"weights": weights}, shapes, fixed=saved.fixed)
        network = load_network(model, asked)
    except CsdfgenError as error:
        message = f"made for '{saved.model}', cannot be loaded with the plan's shapes: {error}"
        raise PlanError(message, where=saved.where) from None
    if network.batch != saved.batch:
        images = pluralize(saved.batch, "image")
        raise PlanError(f"is for {images} in inputs of {network.batch}", where=saved.where)
    return network


def _model_of(saved: SavedPlan, file: Path) -> str:
    """Where the model is that a plan was made for."""
    if is_several(saved.model):
        return replace_sources(saved.model, lambda one: _model_of(replace(saved, model=one), file))
    if is_zoo_name(saved.model):
        return saved.model
    names = [PurePath(part).name for part in split_model(saved.model)]
    for folder in (file.parent, Path()):
        places = [folder / name for name in names]
        if all(names) and all(place.is_file() for place in places):
            return ",".join(map(str, places))
    raise PlanError(
        f"made for '{saved.model}', which is neither in its folder nor in this one; name it with --model FILE",
        where=saved.where,
    )
