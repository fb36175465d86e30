"""Which network is this, and is it the one that a graph was made from? Its phases in a digest, its
making in an `Origin`.

A graph fits every network that has the same tensors, in the same rows, read and written by phases
of the same actors: other weights change nothing that a schedule depends on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from csdfgen.dataflow.origin import Origin
from csdfgen.model.network import Network, Tensor
from csdfgen.model.options import PlanOptions
from csdfgen.phases.conversion import ActorWork, Conversion, function_of

__all__ = ["digest_of", "file_of", "origin_of"]

_DIGITS = 16


def origin_of(conversion: Conversion, options: PlanOptions, tokens: str, rates: str) -> Origin:
    """How a graph of this conversion was made; the options as in `planner.prepare` and
    `conversion.csdf_graph`.
    """
    network = conversion.network
    return Origin(
        model=file_of(network),
        batch=network.batch,
        inputs=tuple((tensor.name, network.whole_shape(tensor)) for tensor in network.inputs),
        plan_options=options,
        tokens=tokens,
        rates=rates,
        digest=digest_of(conversion),
    )


def file_of(network: Network) -> str:
    """The name of the file that a network comes from; its own where it comes from none."""
    return Path(network.source).name or network.name


def digest_of(conversion: Conversion) -> str:
    """16 hexadecimal digits of all that orders of firings and buffers depend on: who reads and
    writes which rows when.
    """
    found = hashlib.sha256()
    for work in conversion.actors:
        for part in _described(work):
            found.update(repr(part).encode("utf-8", "surrogatepass") + b"\n")
    return found.hexdigest()[:_DIGITS]


def _described(work: ActorWork) -> Iterator[object]:
    yield work.name, function_of(work), len(work.phases)
    for read in work.reads:
        yield "reads", _tensor(read.tensor), read.need, read.release
    for write in work.writes:
        yield "writes", _tensor(write.tensor), write.complete, write.claimed


def _tensor(tensor: Tensor) -> tuple[object, ...]:
    return tensor.name, tensor.shape, tensor.dtype, tensor.row_axis
