"""Which graph is written of a network, and which networks does a graph fit?

A graph has the origin of its conversion (`Origin`), with a digest of the phases. It fits every network with the same
tensors, in the same rows, that phases of the same actors read and write: no schedule depends on the weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.dataflow.origin import Origin, Values
from csdfgen.errors import InputError, option
from csdfgen.files import split_model
from csdfgen.model.network import Network, Tensor
from csdfgen.model.options import PlanOptions
from csdfgen.model.several import is_several, replace_sources
from csdfgen.phases.algorithm1 import algorithm1
from csdfgen.phases.conversion import ActorWork, Conversion, csdf_graph, describe_function

_DIGITS = 16
"""Hexadecimal digits of a digest."""


def build_graph(
    conversion: Conversion,
    options: PlanOptions,
    *,
    tokens: str = "elements",
    rates: str = "exact",
    overlap: bool = True,
) -> CsdfGraph:
    """The CSDF graph of a conversion with its origin (`graph.origin`), without serial self-loops.

    options: those of the conversion. tokens: "elements" or "rows". rates: "exact" by the row rule, or "paper" by
    Algorithm 1. overlap: whether it has self-loops for the rows that a reader keeps. Raises InputError.
    """
    if rates not in ("exact", "paper"):
        raise InputError(f"{option('rates', rates)}: neither 'exact' nor 'paper'")
    if rates == "paper":
        graph = algorithm1(conversion, tokens=tokens)
        if not overlap:
            kept = tuple(channel for channel in graph.channels if channel.kind != "overlap")
            graph = replace(graph, channels=kept)
    else:
        graph = csdf_graph(conversion, tokens=tokens, overlap=overlap)
    network = conversion.network
    origin = Origin(
        model=model_file_name(network),
        batch=network.batch,
        inputs=tuple((tensor.name, network.whole_shape(tensor)) for tensor in network.inputs),
        plan_options=options,
        tokens=tokens,
        rates=rates,
        digest=digest_conversion(conversion),
        fixed=fixed_inputs_json(network),
    )
    return replace(graph, origin=origin)


def fixed_inputs_json(network: Network) -> dict[str, Values]:
    """The inputs of a network that were made constants, as JSON values."""
    return {name: array.tolist() for name, array in network.fixed.items()}


def model_file_name(network: Network) -> str:
    """The name of the file of a network (of both files of Caffe's); that of the network if it has no file."""
    if is_several(network.source):
        return replace_sources(network.source, _file_name)
    return _file_name(network.source) or network.name


def _file_name(source: str) -> str:
    return ",".join(Path(part).name for part in split_model(source))


def digest_conversion(conversion: Conversion) -> str:
    """16 hexadecimal digits of all that orders of firings and buffers depend on: the rows that each phase reads and
    writes.
    """
    found = hashlib.sha256()
    for work in conversion.actors:
        for part in _described(work):
            found.update(repr(part).encode("utf-8", "surrogatepass") + b"\n")
    return found.hexdigest()[:_DIGITS]


def _described(work: ActorWork) -> Iterator[object]:
    yield work.name, describe_function(work), len(work.phases)
    for read in work.reads:
        yield "reads", _tensor(read.tensor), read.need, read.release
    for write in work.writes:
        yield "writes", _tensor(write.tensor), write.complete, write.claimed


def _tensor(tensor: Tensor) -> tuple[object, ...]:
    return tensor.name, tensor.shape, tensor.dtype, tensor.row_axis
