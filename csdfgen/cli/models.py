"""From what the user typed to a network, a plan or a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from csdfgen.backends.registry import kernels_for
from csdfgen.cli.options import ModelOptions
from csdfgen.cli.terminal import Stage
from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import CsdfgenError, ModelError
from csdfgen.goals import asked
from csdfgen.goals.choice import chosen
from csdfgen.model.formats import Format
from csdfgen.model.network import Network
from csdfgen.model.options import CONVERSION, DEFAULTS, PlanOptions
from csdfgen.phases.graphs import graph_of
from csdfgen.planning.plan import Plan
from csdfgen.planning.prepared import converted
from csdfgen.reading.zoo import is_zoo_name, look_up

__all__ = [
    "built",
    "input_formats",
    "input_span",
    "load_network",
    "network_graph",
    "plan_network",
    "plan_options",
    "wished",
]


def _untold(what: str, done: int = 0, total: int | None = None) -> None:
    """Nobody looks."""


def load_network(model: str, options: ModelOptions) -> Network:
    """The network of an ONNX file, or of a name of the zoo; for one image, as a batch of `--frames`
    where that is given. Raises ModelError.
    """
    from csdfgen.reading.loader import load_frames

    return load_frames(
        model,
        options.wishes.get("frames", 1),
        shapes=dict(options.shapes),
        batch=options.batch,
        apart="batching" in options.wishes,
    )


def input_span(model: str) -> tuple[float, float]:
    """Lowest and highest random value of an input: what a network of the zoo was made for, -1 to 1
    for any other.

    Some take pixels as they are, up to 255; with smaller values their biases drown the image, with
    larger ones they saturate.
    """
    return look_up(model)[0].pixels if is_zoo_name(model) else (-1.0, 1.0)


def input_formats(model: str) -> Mapping[str, Format]:
    """How values become the integers that inputs take, of a model that `csdfgen quantize --integer-io`
    wrote; nothing of others. Raises ModelError.
    """
    import onnx

    from csdfgen.precision.ends import ends_of

    if is_zoo_name(model):
        return {}
    try:
        return ends_of(onnx.load(model, load_external_data=False)).inputs
    except ModelError as error:
        raise error.at(model) from None


def plan_options(options: ModelOptions, policy: str = DEFAULTS.policy) -> PlanOptions:
    """The options given, and the defaults. Raises InputError."""
    return asked.plan_options(_given(options), policy)


def wished(
    options: ModelOptions, policy: str = DEFAULTS.policy, *, movable: bool = False
) -> PlanOptions:
    """The options of a plan that is to be run, see `goals.asked.wished`. Raises InputError."""
    return asked.wished(_given(options), policy, movable=movable)


def _given(options: ModelOptions) -> Mapping[str, Any]:
    """What the user gave, by the name in `PlanOptions`."""
    given = {name: getattr(options, name) for name in CONVERSION}
    return {**{name: value for name, value in given.items() if value is not None}, **options.wishes}


def built(
    options: ModelOptions,
    stage: Stage,
    policy: str = DEFAULTS.policy,
    *,
    movable: bool = False,
) -> PlanOptions:
    """What is wished (see `wished`), its backend ready to run: native code is built by now."""
    stage("preparing the backend")  # native code is built once on this machine
    wish = wished(options, policy, movable=movable)
    kernels_for(wish)
    return wish


def plan_network(
    network: Network,
    options: ModelOptions,
    policy: str = DEFAULTS.policy,
    stage: Stage = _untold,
    *,
    movable: bool = False,
) -> Plan:
    """The plan with the options given, and the defaults; policy as in `planner.plan`. stage: told how
    far a search has come. movable: see `wished`. Errors name the model.
    """
    try:
        wish = built(options, stage, policy, movable=movable)
        stage("planning")
        return chosen(network, wish, progress=stage)
    except CsdfgenError as error:
        raise error.at(network.source or network.name) from None


def network_graph(
    network: Network,
    options: ModelOptions,
    *,
    tokens: str,
    rates: str = "exact",
    overlap: bool = True,
) -> CsdfGraph:
    """The CSDF graph with the options given, and the defaults, as `phases.graphs.graph_of` makes it.
    Errors name the model.
    """
    try:
        chosen = plan_options(options)
        conversion = converted(network, chosen)
        return graph_of(conversion, chosen, tokens=tokens, rates=rates, overlap=overlap)
    except CsdfgenError as error:
        raise error.at(network.source or network.name) from None
