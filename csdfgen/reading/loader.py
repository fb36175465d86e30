"""From an ONNX model to a Network: the only place where models are read.

Source: https://onnx.ai/onnx/repo-docs/IR.html. A file is read (`onnx_file`), its graph put in order
(`onnx_graph`), its input shapes fixed, and then every operation is visited once: what has only
constants for operands is evaluated (`folding`), everything else is built by the operator of the
table. Our own shapes are authoritative; the inference of the onnx package is not needed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import onnx

from csdfgen.errors import CsdfgenError, ModelError
from csdfgen.model.network import Network, Shape, Tensor
from csdfgen.reading.batching import split_batch
from csdfgen.reading.folding import Folder
from csdfgen.reading.input_axes import row_axis_of_input
from csdfgen.reading.input_shapes import input_shapes
from csdfgen.reading.network_builder import (
    build_network,
    fold_constants,
    refuse_unknown,
    refuse_unsupported,
)
from csdfgen.reading.onnx_file import ModelFile, from_proto, label, read_file
from csdfgen.reading.onnx_graph import Graph, read_graph
from csdfgen.reading.zoo import build as build_zoo_model
from csdfgen.reading.zoo import is_zoo_name

__all__ = ["load"]


def load(
    source: str | os.PathLike[str] | onnx.ModelProto,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    batch: int | None = None,
) -> Network:
    """Read a model: a file, a name of the zoo ("zoo:NAME" or "zoo:NAME@HEIGHTxWIDTH"), or a model
    in memory.

    shapes: input name -> its whole shape, for free sizes or instead of the declared ones.
    batch: leading size of every input of rank 2 or more; a free leading size is 1 without it.
    Raises ModelError, or UnsupportedOperatorError that lists all operators which are not known.
    """
    where = (
        label(source.graph.name) or "model"
        if isinstance(source, onnx.ModelProto)
        else label(os.fspath(source), 1000)
    )
    try:
        file = _read(source)
        graph = _graph(file)
        folder = Folder(file.directory)
        try:
            graph = fold_constants(graph, folder)
            sizes = input_shapes(graph, shapes or {}, batch)
        except ModelError:
            refuse_unsupported(graph, graph.inputs, folder)
            raise
        return _network(file, graph, folder, sizes)
    except MemoryError as error:
        raise ModelError("there is not enough memory to load it", where=where) from error
    except CsdfgenError as error:
        raise error.at(where) from error


def _read(source: str | os.PathLike[str] | onnx.ModelProto) -> ModelFile:
    if isinstance(source, onnx.ModelProto):
        return from_proto(source)
    if is_zoo_name(source):
        return replace(from_proto(build_zoo_model(source)), source=source)
    return read_file(Path(source))


def _graph(file: ModelFile) -> Graph:
    """The graph of the file. Operators that are not known are told before anything else: they need
    another model, whatever else is wrong with this one.
    """
    try:
        return read_graph(file)
    except ModelError:
        refuse_unknown(file)
        raise


def _network(file: ModelFile, graph: Graph, folder: Folder, sizes: Mapping[str, Shape]) -> Network:
    """The network for these input shapes; for one image at a time where its images do not touch
    each other.
    """

    def build(shapes: Mapping[str, Shape]) -> Network:
        inputs = [
            Tensor(
                i.name,
                shapes[i.name],
                i.dtype,
                row_axis_of_input(graph, i.name, len(shapes[i.name])),
            )
            for i in graph.inputs
        ]
        return build_network(graph, inputs, folder, name=file.name, source=file.source)

    batches = {shape[:1] for shape in sizes.values()}
    batch = batches.pop()[0] if len(batches) == 1 and () not in batches else 1
    if batch == 1:
        return build(sizes)
    one = {name: (1, *shape[1:]) for name, shape in sizes.items()}
    try:
        whole = build(sizes)
    except ModelError as error:
        build(one)  # if this fails too, the batch is not to blame
        raise ModelError(
            f"takes one image at a time, not {batch}; run it without --batch: {error}"
        ) from error
    try:
        single = build(one)
    except ModelError:  # it holds for this batch alone, such as a Reshape to a fixed one
        return whole
    return split_batch(whole, single, batch) or whole
