"""How are the bytes of an ONNX file read without trusting them, and the weights without a second
copy?

Source: https://onnx.ai/onnx/repo-docs/IR.html and https://protobuf.dev/programming-guides/encoding.
An ONNX file is one protobuf message. Its wire format is walked here first: every length that the
file claims is compared with the bytes that are there, and the raw data of initializers stay in the
file. The rest is small and goes to the protobuf parser; `onnx_tensor` later reads each
weight that is needed straight into its array, from this file or from an external one alike.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from csdfgen.errors import ModelError
from csdfgen.files import record
from csdfgen.reading.wire import LENGTH_PREFIXED, Field, fields
from csdfgen.reading.zoo import PREFIX, look_up

MAX_FILE_BYTES = 2**31 - 1
"""Protobuf's own limit on one message."""

OLDEST_OPSET = 7
NEWEST_OPSET = 28
"""The newest in signatures.tsv."""

_MODEL_GRAPH = 7
_GRAPH_INITIALIZER = 5
_TENSOR_RAW_DATA = 9


@dataclass(frozen=True, slots=True)
class Stored:
    """Where the bytes of a tensor are stored: `length` bytes of a file from byte `offset` on."""

    path: Path
    offset: int
    length: int


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """An initializer: its message, and where its raw data are if they were left in the file. mapped: they are read where
    they are, and never copied.
    """

    tensor: onnx.TensorProto
    stored: Stored | None = None
    mapped: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ModelFile:
    """A model as read: its message, its graph, and its initializers, whose raw data are not read
    yet.

    directory: where external data may be; None if the model did not come from a file.
    """

    model: onnx.ModelProto
    graph: onnx.GraphProto
    weights: tuple[Weight, ...]
    directory: Path | None
    source: str
    name: str


def text(value: str | bytes) -> str:
    """A string of the file; bytes that are not UTF-8 are written as escapes."""
    return value if isinstance(value, str) else value.decode("utf-8", "backslashreplace")


def label(name: str | bytes, limit: int = 80) -> str:
    """A name of the file as it may stand in a message: printable, on one line, not too long.

    >>> label("conv\\n1"), label("x" * 9, 6)
    ('conv 1', 'xxxxx…')
    """
    clean = "".join(c if c.isprintable() else " " for c in text(name))
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


DAMAGED = (ArithmeticError, LookupError, TypeError, ValueError)
"""What a damaged model can make raise what does not expect it: a file can hold any combination of attributes and operands."""

_IN_PYTHON = (
    "in Python, csdfgen.load(module, example) takes the module (pip install 'csdfgen[torch]')"
)
_OTHER_FORMATS = {
    ".pt": f"is a checkpoint of PyTorch; {_IN_PYTHON}",
    ".pth": f"is a checkpoint of PyTorch; {_IN_PYTHON}",
    ".safetensors": f"holds weights without a network; {_IN_PYTHON}",
    ".pb": "is a graph of TensorFlow; convert it: python -m tf2onnx.convert --graphdef FILE --inputs x:0 --outputs y:0 "
    "--output model.onnx",
    ".h5": "is a model of Keras; convert it: in Python, keras.models.load_model(FILE).export('model.onnx', format='onnx')",
    ".keras": "is a model of Keras; convert it: in Python, keras.models.load_model(FILE).export('model.onnx', format='onnx')",
}
"""Suffix -> what such a file is if it is no ONNX file, and how to get to one."""


def read_file(path: Path) -> ModelFile:
    """Read a model file, all but the raw data of its initializers.

    Raises ModelError for what is no ONNX file: missing, a directory, empty, cut short, too large, of another
    framework.
    """
    check_file(path)
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _parse(data, path)
    except OSError as error:
        raise ModelError(f"cannot be read: {error.strerror or error}") from error
    except ModelError as error:
        # by its content, because suffixes such as .pb were used for ONNX too
        other = _OTHER_FORMATS.get(path.suffix.lower())
        raise (error if other is None else ModelError(other)) from error.__cause__


def _missing(path: Path) -> str:
    """What is said of a file that does not exist, which may be meant to be a network of the zoo."""
    try:
        look_up(f"{PREFIX}{path}")
    except ModelError:
        return "does not exist"
    return f"does not exist; the network of the zoo is {PREFIX}{path}"


def check_file(path: Path) -> None:
    """Raise ModelError for what cannot be a model file: missing, a directory, empty, too large."""
    try:
        if path.is_dir():
            raise ModelError("is a directory, not a file of a model")
        if not path.is_file():
            raise ModelError("is not a regular file" if path.exists() else _missing(path))
        record(path)
        size = path.stat().st_size
    except OSError as error:
        raise ModelError(f"cannot be read: {error.strerror or error}") from error
    if size == 0:
        raise ModelError("is empty")
    if size > MAX_FILE_BYTES:
        raise ModelError(
            f"has {size} bytes, an ONNX file holds at most {MAX_FILE_BYTES}; save its weights as external data"
        )


def from_bytes(data: bytes) -> onnx.ModelProto:
    """A model that is in memory as the bytes of a file. Raises ModelError."""
    try:
        return onnx.ModelProto.FromString(data)
    except DecodeError as error:
        raise ModelError("the bytes are no ONNX model: they do not parse") from error


def from_proto(model: onnx.ModelProto) -> ModelFile:
    """A model that is in memory already; its external data cannot be found."""
    if not model.HasField("graph"):
        raise ModelError("holds no graph")
    name = label(model.graph.name) or "model"
    return ModelFile(
        model, model.graph, tuple(Weight(t) for t in model.graph.initializer), None, name, name
    )


def opsets(imports: Iterable[onnx.OperatorSetIdProto], *, required: bool = True) -> dict[str, int]:
    """Operator set versions by domain, "" for ONNX's own; ModelError if that one is unknown here,
    or absent though required.
    """
    found: dict[str, int] = {}
    for entry in imports:
        domain = text(entry.domain)
        domain = "" if domain == "ai.onnx" else domain
        if found.setdefault(domain, entry.version) != entry.version:
            raise ModelError(
                f"imports opset {found[domain]} and opset {entry.version} of domain '{label(domain)}'"
            )
    if "" not in found and not required:
        return found
    if "" not in found:
        raise ModelError(
            f"imports no ONNX operator set (opset_import); opsets {OLDEST_OPSET} to {NEWEST_OPSET} are supported"
        )
    if found[""] < OLDEST_OPSET:
        raise ModelError(
            f"uses opset {found['']}, the oldest supported is {OLDEST_OPSET}; convert it with onnx.version_converter"
        )
    if found[""] > NEWEST_OPSET:
        raise ModelError(
            f"uses opset {found['']}, the newest supported is {NEWEST_OPSET}; upgrade csdfgen, or export for that opset"
        )
    return found


def list_graphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs that a node has as attributes: branches and bodies."""
    return [
        graph
        for one in node.attribute
        for graph in (*([one.g] if one.HasField("g") else []), *one.graphs)
    ]


def get_opset(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operator set that a model imports, whatever it is; 1 where it names none."""
    own = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    return max(own, default=1)


def _split(data: mmap.mmap, start: int, stop: int, number: int) -> tuple[bytes, list[Field]]:
    """A message without its length-prefixed fields of that number, and those fields.

    Messages that stand one behind the other are merged by the parser, so dropping fields needs no
    re-encoding.
    """
    rest, taken, kept_from = bytearray(), [], start
    for field in fields(data, start, stop):
        if field.number == number and field.wire_type == LENGTH_PREFIXED:
            rest += data[kept_from : field.start]
            kept_from = field.stop
            taken.append(field)
    rest += data[kept_from:stop]
    return bytes(rest), taken


def _parse(data: mmap.mmap, path: Path) -> ModelFile:
    head, graphs = _split(data, 0, len(data), _MODEL_GRAPH)
    if not graphs:
        raise ModelError("holds no graph, it is no ONNX model")
    body = b""
    initializers: list[Field] = []
    for graph in graphs:
        rest, found = _split(data, graph.body, graph.stop, _GRAPH_INITIALIZER)
        body += rest
        initializers += found
    try:
        return ModelFile(
            model=onnx.ModelProto.FromString(head),
            graph=onnx.GraphProto.FromString(body),
            weights=tuple(_weight(data, field, path) for field in initializers),
            directory=path.parent,
            source=os.fspath(path),
            name=path.stem,
        )
    except DecodeError as error:
        raise ModelError("is damaged or not a valid ONNX file: it does not parse") from error


def _weight(data: mmap.mmap, field: Field, path: Path) -> Weight:
    head, raw = _split(data, field.body, field.stop, _TENSOR_RAW_DATA)
    stored = Stored(path, raw[-1].body, raw[-1].stop - raw[-1].body) if raw else None
    return Weight(onnx.TensorProto.FromString(head), stored)
