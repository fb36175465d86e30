"""What do requests and answers look like on the wire? KServe's protocol, version 2 (Open Inference Protocol).

A body is JSON, or JSON followed by the bytes of tensors, with the length of the JSON in the header
`Inference-Header-Content-Length` (the binary tensor extension). Source:
https://kserve.github.io/website/latest/modelserving/data_plane/v2_protocol/ and Triton's extension_binary_data.md and
extension_classification.md.

Numbers in JSON go piece by piece into the array of their tensor, and never become a list of Python: a list takes up to twenty
times the bytes of its text, and reading it in one step would hold Python's lock for seconds.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from csdfgen.errors import InputError
from csdfgen.files import Fields, parse_json, quote
from csdfgen.model.network import Network, Tensor
from csdfgen.program.instructions import view_bytes

DATATYPES: Mapping[str, str] = {
    "bool": "BOOL",
    "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64",
    "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64",
    "float16": "FP16", "bfloat16": "BF16", "float32": "FP32", "float64": "FP64",
}  # fmt: skip
"""numpy's name of a type -> the protocol's."""

_MOST_JSON = 256 * 2**10
"""Bytes of JSON besides numbers under "data"."""

_PIECE = 16 * 2**10
"""Bytes of numbers that are read in one step, and bytes of a tensor that are written in one: a step holds Python's lock."""

_SPARE = 4 * 2**20
"""Bytes that a tensor from JSON may always have; beyond, twice the bytes of its text."""

_MOST_TEXTS = 65_536  # classes of all images of an answer; Python takes 200 bytes for each
_LONGEST_ID = 256
_PRIORITIES = 1_000


@dataclass(frozen=True, slots=True)
class Inference:
    """A request. outputs: the wanted ones, each with whether it is wanted in binary, and of how many classes of the highest
    scores instead of the tensor, or 0; empty: all, as `binary` says. deadline: seconds, None for none.
    """

    id: str
    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, tuple[bool, int]]
    binary: bool
    deadline: float | None
    priority: int


def parse_inference(
    body: bytes | bytearray,
    json_length: str | None,
    network: Network,
    admit: Callable[[int], None] = lambda images: None,
) -> Inference:
    """The request in a body for a network. json_length: of the header, None where all is JSON. admit: called with the number of
    images before arrays are made for them; it raises what it has against them. Raises InputError.
    """
    end = len(body)
    if json_length is not None:
        if not (json_length.isascii() and json_length.isdigit() and len(json_length) < 12):
            raise InputError(
                f"Inference-Header-Content-Length is {quote(json_length)}; a number is needed"
            )
        end = int(json_length)
        if end > len(body):
            raise InputError(
                f"Inference-Header-Content-Length is {end:,}; the body has {len(body):,} bytes"
            )
    text, numbers = _set_numbers_apart(body, end)
    left = iter(numbers)

    def place(constant: str) -> slice:
        for found in left:
            return found
        raise ValueError(f"{constant} is not a JSON number")

    fields = Fields(parse_json(text, "request", place), "request")
    parameters = _parameters(fields)
    known = {tensor.name: tensor for tensor in network.inputs}
    inputs: dict[str, np.ndarray] = {}
    at = end
    for item in fields.children("inputs"):
        name = item.text("name")
        if name in inputs:
            raise item.fault(f"{quote(name)} is there twice")
        if name not in known:
            raise item.fault(f"{quote(name)} is no input of the model; it has {', '.join(known)}")
        shape = _shape(item, known[name])
        admit(shape[0])
        inputs[name], at = _tensor(item, known[name], shape, body, at)
    if at != len(body):
        raise InputError(f"request: {len(body) - at:,} bytes follow the last tensor")
    outputs: dict[str, tuple[bool, int]] = {}
    binary = _flag(fields, parameters, "binary_data_output", False)
    images, texts = max(map(len, inputs.values()), default=1), 0
    sizes = {one.name: math.prod(network.whole_form(one)[0]) for one in network.outputs}
    for item in fields.children("outputs") if "outputs" in fields else ():
        own = _parameters(item)
        classes = own.get("classification", 0)
        if type(classes) is not int or not 0 <= classes < 2**31:
            raise item.fault(f"'classification' is {quote(classes)}; a number of classes is needed")
        name = item.text("name")
        texts += images * min(classes, sizes.get(name, 0))
        if texts > _MOST_TEXTS:
            raise item.fault(
                f"'classification' asks for {texts:,} classes of {images:,} images; at most {_MOST_TEXTS:,} are written at once"
            )
        outputs[name] = _flag(item, own, "binary_data", binary), classes
    name = fields.text("id", "")
    if len(name) > _LONGEST_ID:
        raise fields.fault(f"'id' has {len(name):,} characters; at most {_LONGEST_ID} are taken")
    return Inference(
        name, inputs, outputs, binary, _deadline(fields, parameters), _priority(fields, parameters)
    )


_LIST = re.compile(rb"\s*:\s*\[")
_NO_NUMBER = re.compile(rb'["{}]')


def _set_numbers_apart(body: bytes | bytearray, end: int) -> tuple[bytes, list[slice]]:
    """The JSON in front of `end` with NaN, which is no JSON, in place of lists of numbers under "data"; and where those are.
    Raises InputError.
    """
    kept, found, start, at = bytearray(), list[slice](), 0, 0
    while True:
        limit = min(end, start + _MOST_JSON - len(kept) + 1)
        opening = body.find(b'"', at, limit)
        at = _end_of_string(body, opening + 1, limit) if opening >= 0 else limit
        if at >= limit:
            kept += body[start:limit]
            if len(kept) > _MOST_JSON:
                raise InputError(
                    f"request: more than {_MOST_JSON:,} bytes of JSON besides numbers under 'data'"
                )
            return bytes(kept), found
        if body[opening:at] == b'"data"' and (there := _LIST.match(body, at, limit)):
            first = there.end() - 1
            stop = body.rfind(b"]", first, _end_of_numbers(body, first, end)) + 1
            if stop:
                kept += body[start:first] + b"NaN"
                found.append(slice(first, stop))
                start = at = stop


def _end_of_string(body: bytes | bytearray, at: int, limit: int) -> int:
    """What follows the string that `at` is in; the limit if it has no end in front of that."""
    while (quote := body.find(b'"', at, limit)) >= 0:
        escapes = quote
        while body[escapes - 1] == ord("\\"):
            escapes -= 1
        at = quote + 1
        if (quote - escapes) % 2 == 0:
            return at
    return limit


def _end_of_numbers(body: bytes | bytearray, at: int, end: int) -> int:
    """Where a string, an object or its end follows."""
    while at < end:
        if there := _NO_NUMBER.search(body, at, min(end, at + _MOST_JSON)):
            return there.start()
        at += _MOST_JSON
    return end


def _parameters(item: Fields) -> Mapping[str, Any]:
    found = item.value.get("parameters", {})
    if not isinstance(found, Mapping):
        raise item.fault(f"'parameters' is {quote(found)}; an object is needed")
    return found


def _flag(item: Fields, parameters: Mapping[str, Any], name: str, default: bool) -> bool:
    found = parameters.get(name, default)
    if not isinstance(found, bool):
        raise item.fault(f"'{name}' is {quote(found)}; true or false is needed")
    return found


def _deadline(item: Fields, parameters: Mapping[str, Any]) -> float | None:
    """Seconds of the parameter `timeout`, in microseconds; 0 is none."""
    found = parameters.get("timeout", 0)
    if type(found) not in (int, float) or not 0 <= found < 1e15:
        raise item.fault(f"'timeout' is {quote(found)}; microseconds from 0 on are needed")
    return found / 1e6 or None


def _priority(item: Fields, parameters: Mapping[str, Any]) -> int:
    """The parameter `priority` as Triton has it: 1 is the highest, 0 none of its own, which is below all others."""
    found = parameters.get("priority", 0)
    if type(found) is not int or not 0 <= found <= _PRIORITIES:
        raise item.fault(
            f"'priority' is {quote(found)}; a whole number from 0 to {_PRIORITIES} is needed"
        )
    return _PRIORITIES + 1 - found if found else 0


def _shape(item: Fields, known: Tensor) -> list[int]:
    """The shape of an input. Raises InputError for a shape or a type that is not the model's."""
    kind, wanted = item.text("datatype"), DATATYPES[known.dtype]
    if kind != wanted:
        raise item.fault(f"'datatype' is {quote(kind)}; input {quote(known.name)} takes {wanted}")
    shape = item.required("shape", "a list of sizes")
    if not isinstance(shape, list) or any(type(size) is not int for size in shape):
        raise item.fault(f"'shape' is {quote(shape)}; a list of sizes is needed")
    if shape[1:] != list(known.shape[1:]) or not shape or not 0 < shape[0] < 2**31:
        needed = ", ".join(["N", *map(str, known.shape[1:])])
        said = str(shape[:32])[:200]
        raise item.fault(f"'shape' is {said}; [{needed}] is needed, N images from 1 on")
    return shape


def _tensor(
    item: Fields, known: Tensor, shape: list[int], body: bytes | bytearray, at: int
) -> tuple[np.ndarray, int]:
    """An input, from JSON or from the body at a place; and the place behind it. Raises InputError."""
    kind, dtype = DATATYPES[known.dtype], np.dtype(known.dtype)
    size = math.prod(shape) * dtype.itemsize
    stored = _parameters(item).get("binary_data_size")
    if stored is None:
        return _from_json(item, kind, dtype, math.prod(shape), body).reshape(shape), at
    if type(stored) is not int or stored != size:
        raise item.fault(
            f"'binary_data_size' is {quote(stored)}; {kind} of that shape has {size:,} bytes"
        )
    if "data" in item:
        raise item.fault("has both 'data' and 'binary_data_size'")
    if at + size > len(body):
        raise item.fault(f"{size:,} bytes are needed, the body has {max(0, len(body) - at):,} left")
    found = np.frombuffer(body, dtype, math.prod(shape), at).reshape(shape)
    if kind == "BOOL" and (found.view(np.uint8) > 1).any():
        raise item.fault("a BOOL is neither 0 nor 1")
    return (found if found.flags.aligned else found.copy()), at + size


_STRUCTURE = bytes(code if code in b"[]," else ord("x") for code in range(256))
_MISPLACED = b"x[", b"][", b"]x"
"""Brackets that open behind a number, or close in front of one."""

_NO_BRACKETS = bytes.maketrans(b"[]", b"  ")


def _from_json(
    item: Fields, kind: str, dtype: np.dtype, count: int, body: bytes | bytearray
) -> np.ndarray:
    """The elements of a tensor that are numbers in JSON, in a list or in nested ones, whose order counts."""
    data = item.required("data", "a list of elements")
    if not isinstance(data, slice):
        raise item.fault(f"'data' is {quote(data)}; a list of {kind} is needed")
    size = data.stop - data.start
    if size < 2 * count:
        raise item.fault(f"'data' has too few elements; the shape has {count:,}")
    if count * dtype.itemsize > 2 * size + _SPARE:
        raise item.fault(
            f"'data' is too short for {count:,} elements of {kind}; send them in binary"
        )
    found = np.empty(count, dtype)
    at, filled, depth = data.start + 1, 0, 1
    while at < data.stop:
        last = data.stop - at <= _PIECE
        end = data.stop if last else body.rfind(b",", at, at + _PIECE)
        if end < 0:
            raise item.fault(f"'data' has a number of more than {_PIECE:,} characters")
        piece = bytes(body[at:end])
        codes = np.frombuffer(piece, np.uint8)
        depths = np.cumsum(np.r_[depth, (codes == ord("[")).astype(int) - (codes == ord("]"))])
        depth = int(depths[-1])
        structure = piece.translate(_STRUCTURE, b" \t\r\n")
        misplaced = any(one in structure for one in _MISPLACED)
        if misplaced or (depths[:-1] < 1).any() or bool(depth) == last:
            raise item.fault("'data' is not JSON: brackets do not match")
        values = _values(item, kind, dtype, piece)
        if not len(values) and not (last and at == data.start + 1):
            raise item.fault("'data' is not JSON: nothing is in front of a comma or behind it")
        if len(values) > count - filled:
            raise item.fault(f"'data' has more elements than the shape, which has {count:,}")
        found[filled : filled + len(values)] = values
        filled += len(values)
        at = end + 1
    if filled != count:
        raise item.fault(f"'data' has {filled:,} elements; the shape has {count:,}")
    return found


_NUMBERS: Mapping[str, tuple[type, ...]] = {"b": (bool,), "i": (int,), "u": (int,)}
"""Python's types of elements by numpy's kind of a type; all others take whole numbers and fractions."""


def _values(item: Fields, kind: str, dtype: np.dtype, piece: bytes) -> np.ndarray:
    """The numbers of a piece of a list. Raises InputError for what is no number of the type."""
    numbers = parse_json(b"[%b]" % piece.translate(_NO_BRACKETS), f"{item.where}: data")
    allowed = _NUMBERS.get(dtype.kind, (int, float))
    if not set(map(type, numbers)).issubset(allowed):
        raise item.fault(f"'data' has elements that are no {kind}")
    if dtype.kind in "iu" and numbers:
        limits = np.iinfo(dtype)
        if min(numbers) < limits.min or max(numbers) > limits.max:
            raise item.fault(f"'data' has a number that is no {kind}")
    try:
        with np.errstate(over="ignore"):
            return np.array(numbers, dtype if dtype.kind in "biu" else np.float64).astype(dtype)
    except OverflowError:
        raise item.fault(f"'data' has a number that is no {kind}") from None


# Answers ----------------------------------------------------------------------------------------


def metadata(name: str, network: Network) -> dict[str, Any]:
    """A model's inputs and outputs; -1 is any number of images."""
    ends: dict[str, list[dict[str, Any]]] = {"inputs": [], "outputs": []}
    for tensor in network.inputs:
        sizes = [-1, *tensor.shape[1:]]
        ends["inputs"].append(
            {"name": tensor.name, "datatype": DATATYPES[tensor.dtype], "shape": sizes}
        )
    for output in network.outputs:
        shape, dtype = network.whole_form(output)
        of_images = [-1, *shape[1:]] if output.tensor is not None else list(shape)
        ends["outputs"].append(
            {"name": output.name, "datatype": DATATYPES[dtype], "shape": of_images}
        )
    return {"name": name, "versions": ["1"], "platform": "csdfgen", **ends}


def encode_answer(
    name: str, asked: Inference, found: Mapping[str, np.ndarray]
) -> tuple[Iterator[bytes | memoryview], dict[str, str]]:
    """An answer's body in parts, of which JSON is written when it is taken, and its headers. Raises InputError for an output
    that the model does not have.
    """
    wanted = asked.outputs or dict.fromkeys(found, (asked.binary, 0))
    items: list[tuple[dict[str, Any], np.ndarray | None]] = []
    tensors: list[memoryview] = []
    for output, (binary, classes) in wanted.items():
        if output not in found:
            raise InputError(f"output {quote(output)} is none of {', '.join(found)}")
        array = _classified(found[output], classes) if classes else found[output]
        kind = "BYTES" if classes else DATATYPES[array.dtype.name]
        item: dict[str, Any] = {"name": output, "datatype": kind, "shape": list(array.shape)}
        if binary:
            tensors.append(_bytes_of(array))
            item["parameters"] = {"binary_data_size": len(tensors[-1])}
        items.append((item, None if binary else array.reshape(-1)))
    answer = {"model_name": name, "model_version": "1", **({"id": asked.id} if asked.id else {})}
    text = _text(answer, items)
    if not tensors:
        return text, {"content-type": "application/json"}
    head = b"".join(text)
    return iter([head, *tensors]), {
        "content-type": "application/octet-stream",
        "content-length": str(len(head) + sum(map(len, tensors))),
        "inference-header-content-length": str(len(head)),
    }  # fmt: skip


def _text(
    answer: Mapping[str, str], items: list[tuple[dict[str, Any], np.ndarray | None]]
) -> Iterator[bytes]:
    """JSON of an answer. items: outputs, with elements that are written here."""
    yield json.dumps(answer, separators=(",", ":")).encode()[:-1] + b',"outputs":['
    for number, (item, elements) in enumerate(items):
        head = (b"," if number else b"") + json.dumps(item, separators=(",", ":")).encode()
        if elements is None:
            yield head
            continue
        yield head[:-1] + b',"data":['
        step = _PIECE // 8
        for at in range(0, len(elements), step):
            some = elements[at : at + step]
            values = (some.astype(np.float32) if some.dtype == "bfloat16" else some).tolist()
            # JSON knows no infinity and no NaN
            known = [v if not isinstance(v, float) or math.isfinite(v) else None for v in values]
            yield (b"," if at else b"") + json.dumps(known, separators=(",", ":")).encode()[1:-1]
        yield b"]}"
    yield b"]}"


def _bytes_of(array: np.ndarray) -> memoryview:
    """A tensor in binary; strings each behind the number of their bytes."""
    if array.dtype == object:
        texts = [one.encode() for one in array.reshape(-1)]
        return memoryview(b"".join(len(one).to_bytes(4, "little") + one for one in texts))
    return view_bytes(array)


def _classified(array: np.ndarray, classes: int) -> np.ndarray:
    """Of each image the indices of so many highest scores as texts VALUE:INDEX, as Triton's extension has them."""
    write = (lambda one: str(int(one))) if array.dtype.kind in "biu" else "{:f}".format
    texts = []
    for row in array.reshape(len(array) if array.ndim else 1, -1):
        # ascending from behind: of equal scores the first comes first
        best = row.size - 1 - np.argsort(row[::-1], kind="stable")[: -classes - 1 : -1]
        texts.append([f"{write(row[k])}:{k}" for k in best])
    return np.array(texts, object)
