"""From an ONNX model to a Network: the only place where models are read.

Source: https://onnx.ai/onnx/repo-docs/IR.html. A file is read (`onnx_file`), its graph put in order
(`onnx_graph`), its input shapes fixed, and then every operation is visited once: what has only
constants for operands is evaluated (`folding`), everything else is built by the operator of the
table. Our own shapes are authoritative; the inference of the onnx package is not needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

from csdfgen.errors import CsdfgenError, InputError, ModelError, option, prefix_errors
from csdfgen.model.formats import Format
from csdfgen.model.network import HEIGHTS, AtHeight, Network, Shape, Tensor, is_bracketed
from csdfgen.model.options import OPTIONS
from csdfgen.model.several import Several, list_networks, parse_several
from csdfgen.ops.base import TABLES
from csdfgen.reading.batching import obstacle, repeat_images
from csdfgen.reading.dequantized import STORING, fuse_dequantized
from csdfgen.reading.fixed import AskedValues, fixed_inputs
from csdfgen.reading.folding import Folder
from csdfgen.reading.four_bits import fuse_four_bits
from csdfgen.reading.fronts import convert_foreign
from csdfgen.reading.image_axes import Outside
from csdfgen.reading.input_shapes import (
    AskedShapes,
    find_row_axis,
    input_shapes,
    resolve_wanted_shapes,
)
from csdfgen.reading.network_builder import (
    build_network,
    fold_constants,
    refuse_unknown,
    refuse_unsupported,
)
from csdfgen.reading.onnx_file import ModelFile, Weight, from_bytes, from_proto, label, read_file
from csdfgen.reading.onnx_graph import Graph, read_graph
from csdfgen.reading.pytorch import export_module, is_torch
from csdfgen.reading.words import number_words

TorchModel: TypeAlias = Any
"""torch.nn.Module or torch.export.ExportedProgram; torch is not imported for their names."""


def load(
    source: str | os.PathLike[str] | onnx.ModelProto | bytes | TorchModel,
    example: Any = None,
    *,
    shapes: AskedShapes | None = None,
    batch: int | None = None,
    fix: AskedValues | None = None,
    weights: str = "auto",
    rates: str | Iterable[int] | None = None,
    after: str | Iterable[str] | Mapping[str, str] | None = None,
    connect: str | Iterable[str] | Mapping[str, str] | None = None,
    endless: bool = False,
) -> Network:
    """Read a model, or a list of them as one network: a file (ONNX, .pt2 of torch.export, Caffe's .prototxt, .tflite), a
    name of the zoo ("zoo:NAME" or "zoo:NAME@HEIGHTxWIDTH"), or a model in memory: ONNX (as bytes too), a module of torch, or
    an exported program.

    example: of a module of torch, an input (a tensor) or its inputs (a tuple); sets their shapes. Of other models an array or
        arrays by input name, whose sizes are taken where the file leaves them free.
    shapes: input name -> its whole shape, (1, 3, 224, 224) or "1x3x224x224", for free sizes or
        instead of the declared ones; of a network with one input the shape alone will do.
    batch: leading size of every input of rank 2 or more; a free leading size is 1 without it. Also
        of a model whose constants fix one image, if its images do not touch each other.
    fix: input name -> its value, a number, numbers or a text such as "16000": the input becomes a constant, and
        what depends on it alone is folded (the branch of an If that a sample rate selects).
    weights: "mapped": read in the file where they are, which must not be written meanwhile (it may be replaced); "copied"
        into memory; "auto": mapped where the system is POSIX.
    rates, after, connect: of a list of models, which become one network (docs/several.md): runs of each in a frame, such as
        [1, 4]; {"b": "a"}: b starts behind a; {"a.OUTPUT": "b.INPUT"}.
    endless: for a stream, whose plan does not depend on how many rows an input has: any number where the file leaves that free,
        and constants that fix the file's number follow another one.
    Raises ModelError, UnsupportedOperatorError that lists all operators which are not known, or InputError
    where torch or an example is missing.
    """
    if isinstance(source, list | tuple | Several) or is_bracketed(source):
        listed: Any = source
        if not isinstance(listed, Several):
            listed = (
                parse_several(listed)
                if isinstance(listed, str)
                else list_networks(listed, rates, after, connect)
            )
        return _load_several(listed, shapes, fix, weights, batch)
    for name, value in (("rates", rates), ("after", after), ("connect", connect)):
        if value is not None:
            raise InputError(
                f"{option(name, value)} is for several networks; give a list of models"
            )
    if isinstance(source, bytes | bytearray | memoryview):
        source = from_bytes(bytes(source))
    known = isinstance(source, str | os.PathLike | onnx.ModelProto)
    if not known and (example is not None or is_torch(source)):
        with prefix_errors(type(source).__name__):
            source = export_module(source, example)
    where = (
        label(source.graph.name) or "model"
        if isinstance(source, onnx.ModelProto)
        else label(os.fspath(source), 1000)
    )
    if isinstance(shapes, Mapping) and list(shapes) == [""]:  # as typed without a name
        shapes = shapes[""]
    try:
        file = _read(source, shapes, batch)
        if OPTIONS["weights"].kind.read(weights, "weights") == "mapped" or (
            weights == "auto" and os.name == "posix"
        ):
            file = replace(file, weights=tuple(replace(w, mapped=True) for w in file.weights))
        given = shapes if isinstance(shapes, Mapping) else {}
        fixed = fixed_inputs(file, fix, given) if fix else {}
        if fixed:
            values = (Weight(numpy_helper.from_array(a, name)) for name, a in fixed.items())
            file = replace(file, weights=(*file.weights, *values))
        if isinstance(shapes, Mapping):
            shapes = {name: sizes for name, sizes in shapes.items() if name not in fixed}
        graph = _graph(file)
        folder = Folder(file.directory, graph.constants)
        try:
            graph = fold_constants(graph, folder, but=frozenset({"DequantizeLinear"}))
            if any(one.op_type in STORING for one in graph.operations):
                graph = fold_constants(fuse_dequantized(fuse_four_bits(graph)), folder)
            asked = {} if shapes is None else shapes
            examples = {} if example is None else _shapes_of(example)
            sizes = input_shapes(graph, asked, batch, examples, HEIGHTS[0] if endless else None)
        except ModelError:
            refuse_unsupported(graph, graph.inputs, folder)
            raise
        written = _written(graph, sizes)
        found = replace(
            _as_rows(file, graph, folder, sizes, written if endless else sizes),
            fixed=MappingProxyType(fixed),
            sized=bool(examples) and not _is_same(sizes, graph, asked, batch),
        )
        if not isinstance(source, str | os.PathLike):
            return found
        endless = endless or written == sizes
        return replace(found, at_height=read_heights(source, found, weights, endless=endless))
    except MemoryError as error:
        raise ModelError("there is not enough memory to load it", where=where) from error
    except CsdfgenError as error:
        raise error.at(where) from error


def _shapes_of(example: Any) -> dict[str, Shape]:
    """Shapes of arrays by input name, "" for the only input."""
    arrays = example if isinstance(example, Mapping) else {"": example}
    return {name: np.shape(array) for name, array in arrays.items()}


def _written(graph: Graph, sizes: Mapping[str, Shape]) -> dict[str, Shape]:
    """The shapes of inputs at the height that the file declares; `sizes` elsewhere."""
    found = dict(sizes)
    for one in graph.inputs:
        shape = sizes[one.name]
        axis = find_row_axis(graph, one.name, len(shape))
        rows = one.dims[axis] if one.dims and axis is not None else None
        if rows is not None and axis is not None:
            found[one.name] = (*shape[:axis], rows, *shape[axis + 1 :])
    return found


def _is_same(
    sizes: Mapping[str, Shape], graph: Graph, asked: AskedShapes, batch: int | None
) -> bool:
    """Whether inputs have these sizes without an example."""
    with suppress(ModelError):
        return sizes == input_shapes(graph, asked, batch)
    return False


def _load_several(
    asked: Several,
    shapes: AskedShapes | None,
    fix: AskedValues | None,
    weights: str,
    batch: int | None,
) -> Network:
    if batch not in (None, 1):
        raise InputError(
            f"{option('batch', batch)}: several networks take one image; give {option('rates')}"
        )
    if shapes is not None and not isinstance(shapes, Mapping):
        raise InputError(
            f"{option('shapes', shapes)}: several networks take shapes by name, NETWORK.INPUT"
        )

    def load_one(source: Any, shapes: AskedShapes, fix: AskedValues) -> Network:
        return load(source, shapes=shapes or None, fix=fix or None, weights=weights)

    from csdfgen.reading.several import load_several

    return load_several(asked, load_one, shapes or {}, fix or {})


def read_heights(
    source: Any,
    network: Network,
    weights: str = "auto",
    *,
    across: int = 0,
    endless: bool = True,
) -> AtHeight:
    """The network that was read from a source, by the rows of its first input. Other inputs have rows in proportion. What is
    returned raises ModelError for a network whose first input has no rows.

    across: axes behind that of rows, 1 for columns instead. endless: see `load`.
    """
    fixed = dict(network.fixed) or None
    return partial(_read_height, source, network.inputs, fixed, weights, across, endless)


def _read_height(
    source: Any,
    inputs: Sequence[Tensor],
    fix: AskedValues | None,
    weights: str,
    across: int,
    endless: bool,
    rows: int,
) -> Network:
    first = inputs[0] if inputs else None
    if first is None or first.row_axis is None or first.row_axis + across >= len(first.shape):
        what = "columns" if across else "rows"
        raise ModelError(f"no image streams: the first input has no {what}", where=str(source))
    of = first.shape[first.row_axis + across]
    shapes = {tensor.name: _scaled(tensor, rows, of, across) for tensor in inputs}
    return load(source, shapes=shapes, fix=fix, weights=weights, endless=endless)


def _scaled(tensor: Tensor, rows: int, of: int, across: int) -> Shape:
    if tensor.row_axis is None:
        return tensor.shape
    axis = tensor.row_axis + across
    if tensor.shape[axis] == 1:
        return tensor.shape
    scaled, rest = divmod(tensor.shape[axis] * rows, of)
    if rest:
        raise InputError(f"an image of {rows} rows has no whole number of rows in '{tensor.name}'")
    return (*tensor.shape[:axis], scaled, *tensor.shape[axis + 1 :])


def load_frames(
    source: str | os.PathLike[str] | onnx.ModelProto,
    frames: int,
    *,
    shapes: AskedShapes | None = None,
    batch: int | None = None,
    example: Any = None,
    endless: bool = False,
    apart: bool = False,
    fix: AskedValues | None = None,
    weights: str = "auto",
) -> Network:
    """A model of one image as a batch of `frames`, if nothing else says how many images it takes.

    apart: they are those of a request. Raises as `load`; InputError for a network that takes one image at a time.
    """
    network = load(
        source, example, shapes=shapes, batch=batch, fix=fix, weights=weights, endless=endless
    )
    if frames == 1 or network.batch > 1 or batch is not None:
        return network
    several = (t for t in network.inputs if len(t.shape) > 1 and t.shape[0] != 1)
    found = next((f"input '{label(t.name)}' has {t.shape[0]} along axis 0" for t in several), None)
    if found is None:
        try:
            whole = load(source, example, shapes=shapes, batch=frames, fix=fix, weights=weights)
        except _OneImageError as error:
            found = error.why
        else:
            if whole.batch > 1:
                return whole
            found = obstacle(whole, network, frames)
    raise InputError(
        f"{option('requests' if apart else 'frames', frames)} are images that do not touch each other; in this network "
        f"{found}",
        where=network.source or network.name,
    )


def _read(
    source: str | os.PathLike[str] | onnx.ModelProto, shapes: AskedShapes | None, batch: int | None
) -> ModelFile:
    if isinstance(source, onnx.ModelProto):
        return from_proto(source)
    if not os.fspath(source):
        raise ModelError(
            "the name of the model is empty; give a file, or a name of the zoo as zoo:NAME"
        )
    model = convert_foreign(source, resolve_wanted_shapes(shapes, batch))
    if model is not None:
        return replace(from_proto(model), source=os.fspath(source))
    return read_file(Path(source))


def _graph(file: ModelFile) -> Graph:
    """The graph of the file. Operators that are not known are reported before any other error: they
    need another model, whatever else is wrong with this one.
    """
    try:
        graph = read_graph(file)
        has_words = any(one.domain == TABLES for one in graph.operations)
        return number_words(graph) if has_words or graph.constants.list_strings() else graph
    except ModelError:
        refuse_unknown(file)
        raise


def _as_rows(
    file: ModelFile,
    graph: Graph,
    folder: Folder,
    sizes: Mapping[str, Shape],
    written: Mapping[str, Shape],
) -> Network:
    """The network for these input shapes. Scans are layers whose rows are turns, unless images run one at a time only where
    all turns are written out. written: the shapes that constants of the file fix.
    """
    scans = any(one.op_type == "Scan" for one in graph.operations)
    images = {shape[:1] for shape in sizes.values()} - {(1,), ()}
    try:
        found = _network(file, graph, folder, sizes, written)
    except ModelError:
        if not (scans and images):
            raise
        return _network(file, graph, folder, sizes, written, as_rows=False)
    along = [k for one in found.layers for k in one.attributes.get("scan_axes", ())]
    if found.batch > 1 or not images or not along or 0 in along:  # turns are no images
        return found
    try:
        written_out = _network(file, graph, folder, sizes, written, as_rows=False)
    except ModelError:
        return found
    return written_out if written_out.batch > 1 else found


def _network(
    file: ModelFile,
    graph: Graph,
    folder: Folder,
    sizes: Mapping[str, Shape],
    written: Mapping[str, Shape],
    as_rows: bool = True,
) -> Network:
    """The network for these input shapes; for one image at a time where its images do not touch
    each other.

    A model that runs for N images as it stands means what it then does with them. Its constants
    are lifted to N where it does not run, and where its inputs are declared for one image: a file
    that says so says nothing of N images, and would blend them in a Resize to one.
    """

    def build(
        shapes: Mapping[str, Shape],
        lift_to: int | None = None,
        lower_from: tuple[int, Outside] | None = None,
    ) -> Network:
        def inputs(shapes: Mapping[str, Shape]) -> list[Tensor]:
            return [
                Tensor(
                    i.name,
                    shapes[i.name],
                    Format(i.dtype),
                    find_row_axis(graph, i.name, len(shapes[i.name])),
                )
                for i in graph.inputs
            ]

        found = build_network(
            graph,
            inputs(shapes),
            folder,
            name=file.name,
            source=file.source,
            lift_to=lift_to,
            lower_from=lower_from,
            apart=batch == 1,
            as_rows=as_rows,
            written=inputs(written) if batch == 1 and written != sizes else None,
        )
        first = inputs(written)[:1]
        return replace(found, written=first[0].rows) if batch == 1 and found.lifted else found

    batches = {shape[:1] for shape in sizes.values()}
    batch = batches.pop()[0] if len(batches) == 1 and () not in batches else 1
    if batch == 1:
        return build(sizes)
    one = {name: (1, *shape[1:]) for name, shape in sizes.items()}
    declared = {i.dims[0] if i.dims else None for i in graph.inputs}
    try:
        whole = build(sizes)
    except ModelError as error:
        try:
            single = build(one)
        except ModelError:
            # the batch is not to blame, and shapes of one image may be wrong elsewhere
            raise error from None
        if batch in declared:
            raise _one_image_only(batch, str(error)) from error
        found = _lifted(lambda: build(sizes, batch), single, batch)
        assert found is not None, "what failed to build builds only if something was lifted"
        return found
    alone: Network | None = None
    for lower_from in (None, (batch, Outside(whole))):  # constants may be those of this batch alone
        with suppress(ModelError):
            found = build(one, lower_from=lower_from)
            if obstacle(whole, found, batch) is None:
                return repeat_images(found, batch)
            alone = alone or found
    if alone is None:
        return _with_one_choice(whole, batch)
    repeated = _lifted(lambda: build(sizes, batch), alone, batch) if declared == {1} else None
    return repeated or _with_one_choice(whole, batch)


def _with_one_choice(whole: Network, batch: int) -> Network:
    """A network of several images that are computed together, where all take the same branches. Raises ModelError."""
    for branch, condition in whole.conditions.items():
        if condition.elements > 1:
            why = f"layer '{branch}' (If) has a condition for each image, and other layers mix them"
            raise _one_image_only(batch, why)
    return whole


def _lifted(build: Callable[[], Network], single: Network, batch: int) -> Network | None:
    """`single` for every image, if that is what the model lifted to the batch does; None where
    nothing fixes one image. Raises ModelError naming what does not go, or mixes images.
    """
    try:
        whole = build()
    except ModelError as error:
        raise _one_image_only(batch, str(error)) from error
    if not whole.lifted:
        return None
    found = obstacle(whole, single, batch)
    if found is not None:
        raise _one_image_only(batch, found)
    return repeat_images(single, batch, lifted=True)


class _OneImageError(ModelError):
    """A network that takes one image at a time, asked for more. why: what keeps them from running one after another."""

    def __init__(self, message: str, *, where: str = "", why: str = "") -> None:
        super().__init__(message, where=where)
        self.why = why


def _one_image_only(batch: int, why: str) -> ModelError:
    said = f"takes one image at a time, not {batch}; run it without {option('batch')}: {why}"
    return _OneImageError(said, why=why)
