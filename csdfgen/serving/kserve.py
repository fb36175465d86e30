"""What do requests and answers look like on the wire? KServe's protocol, version 2 (Open Inference Protocol).

A body is JSON, or JSON followed by the bytes of tensors, with the length of the JSON in the header
`Inference-Header-Content-Length` (the binary tensor extension). Source:
https://kserve.github.io/website/latest/modelserving/data_plane/v2_protocol/ and Triton's extension_binary_data.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from csdfgen.errors import InputError
from csdfgen.files import Fields, parse_json, quoted
from csdfgen.model.network import Network

__all__ = ["DATATYPES", "Inference", "answered", "inference_of", "metadata"]

DATATYPES: Mapping[str, str] = {
    "bool": "BOOL",
    "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64",
    "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64",
    "float16": "FP16", "float32": "FP32", "float64": "FP64",
}  # fmt: skip
"""numpy's name of a type -> the protocol's."""

_DTYPES = {name: dtype for dtype, name in DATATYPES.items()}

_MOST_JSON = 16 * 2**20
"""Bytes of JSON in front of binary tensors."""

_MOST_TENSORS = 1_000
_LONGEST_ID = 256
_PRIORITIES = 1_000


@dataclass(frozen=True, slots=True)
class Inference:
    """A request. outputs: the wanted ones, each with whether it is wanted in binary; empty: all, as `binary` says. deadline:
    seconds, None for none.
    """

    id: str
    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, bool]
    binary: bool
    deadline: float | None
    priority: int


def inference_of(body: bytes, json_length: str | None) -> Inference:
    """The request in a body. json_length: of the header, None where all is JSON. Raises InputError."""
    end = len(body)
    if json_length is not None:
        if not (json_length.isascii() and json_length.isdigit() and len(json_length) < 12):
            raise InputError(
                f"Inference-Header-Content-Length is {quoted(json_length)}; a number is needed"
            )
        end = int(json_length)
        if end > min(len(body), _MOST_JSON):
            raise InputError(
                f"Inference-Header-Content-Length is {end:,}; the body has {len(body):,} bytes, and JSON at most {_MOST_JSON:,}"
            )
    fields = Fields(parse_json(body[:end], "request"), "request")
    parameters = _parameters(fields)
    inputs: dict[str, np.ndarray] = {}
    at = end
    for number, item in enumerate(fields.children("inputs")):
        if number >= _MOST_TENSORS:
            raise item.fault(f"more than {_MOST_TENSORS:,} tensors")
        name = item.text("name")
        if name in inputs:
            raise item.fault(f"'{quoted(name)}' is there twice")
        inputs[name], at = _tensor(item, body, at)
    if at != len(body):
        raise InputError(f"request: {len(body) - at:,} bytes follow the last tensor")
    outputs: dict[str, bool] = {}
    binary = _flag(fields, parameters, "binary_data_output", False)
    for item in fields.children("outputs") if "outputs" in fields else ():
        outputs[item.text("name")] = _flag(item, _parameters(item), "binary_data", binary)
    name = fields.text("id", "")
    if len(name) > _LONGEST_ID:
        raise fields.fault(f"'id' has {len(name):,} characters; at most {_LONGEST_ID} are taken")
    return Inference(
        name, inputs, outputs, binary, _deadline(fields, parameters), _priority(fields, parameters)
    )


def _parameters(item: Fields) -> Mapping[str, Any]:
    found = item.value.get("parameters", {})
    if not isinstance(found, Mapping):
        raise item.fault(f"'parameters' is {quoted(found)}; an object is needed")
    return found


def _flag(item: Fields, parameters: Mapping[str, Any], name: str, default: bool) -> bool:
    found = parameters.get(name, default)
    if not isinstance(found, bool):
        raise item.fault(f"'{name}' is {quoted(found)}; true or false is needed")
    return found


def _deadline(item: Fields, parameters: Mapping[str, Any]) -> float | None:
    """Seconds of the parameter `timeout`, in microseconds; 0 is none."""
    found = parameters.get("timeout", 0)
    numeric = isinstance(found, (int, float)) and not isinstance(found, bool)
    if not numeric or not math.isfinite(found) or not 0 <= found < 1e15:
        raise item.fault(f"'timeout' is {quoted(found)}; microseconds from 0 on are needed")
    return found / 1e6 or None


def _priority(item: Fields, parameters: Mapping[str, Any]) -> int:
    """The parameter `priority` as Triton has it: 1 is the highest, 0 none of its own, which is below all others."""
    found = parameters.get("priority", 0)
    if type(found) is not int or not 0 <= found <= _PRIORITIES:
        raise item.fault(
            f"'priority' is {quoted(found)}; a whole number from 0 to {_PRIORITIES} is needed"
        )
    return _PRIORITIES + 1 - found if found else 0


def _tensor(item: Fields, body: bytes, at: int) -> tuple[np.ndarray, int]:
    """An input, from JSON or from the body at a place; and the place behind it. Raises InputError."""
    kind = item.text("datatype")
    if kind not in _DTYPES:
        raise item.fault(f"'datatype' is {quoted(kind)}; {', '.join(_DTYPES)} are taken")
    dtype = np.dtype(_DTYPES[kind])
    shape = item.required("shape", "a list of sizes")
    if (
        not isinstance(shape, list)
        or len(shape) > 32
        or any(type(size) is not int or not 0 <= size < 2**31 for size in shape)
    ):
        raise item.fault(f"'shape' is {quoted(shape)}; a list of sizes from 0 on is needed")
    size = math.prod(shape) * dtype.itemsize
    stored = _parameters(item).get("binary_data_size")
    if stored is None:
        return _from_json(item, kind, dtype, shape), at
    if type(stored) is not int or stored != size:
        raise item.fault(
            f"'binary_data_size' is {quoted(stored)}; {kind} of that shape has {size:,} bytes"
        )
    if "data" in item:
        raise item.fault("has both 'data' and 'binary_data_size'")
    if at + size > len(body):
        raise item.fault(f"{size:,} bytes are needed, the body has {max(0, len(body) - at):,} left")
    found = np.frombuffer(body, dtype, math.prod(shape), at).reshape(shape)
    if kind == "BOOL" and (found.view(np.uint8) > 1).any():
        raise item.fault("a BOOL is neither 0 nor 1")
    return (found if found.flags.aligned else found.copy()), at + size


def _from_json(item: Fields, kind: str, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
    """A tensor whose elements are JSON, flat or nested."""
    data = item.required("data", "a list of elements")
    if not isinstance(data, list):
        raise item.fault(f"'data' is {quoted(data)}; a list of elements is needed")
    try:
        found = np.array(data)
    except (ValueError, OverflowError):
        raise item.fault("'data' is nested unevenly or has numbers that are too large") from None
    kinds = {"b": "b", "f": "fiu"}.get(dtype.kind, "iu")
    if found.size and found.dtype.kind not in kinds:
        raise item.fault(f"'data' has elements of type {found.dtype}; {kind} are needed")
    if found.size != math.prod(shape):
        raise item.fault(f"'data' has {found.size:,} elements; the shape has {math.prod(shape):,}")
    if dtype.kind in "iu" and found.size:
        limits = np.iinfo(dtype)
        if found.min() < limits.min or found.max() > limits.max:
            raise item.fault(f"'data' has a number that is no {kind}")
    with np.errstate(over="ignore"):
        return found.astype(dtype).reshape(shape)


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


def answered(
    name: str, asked: Inference, found: Mapping[str, np.ndarray]
) -> tuple[list[bytes], dict[str, str]]:
    """The parts of an answer's body, and its headers. Raises InputError for an output that the model does not have."""
    wanted = asked.outputs or dict.fromkeys(found, asked.binary)
    outputs, parts = [], []
    for output, binary in wanted.items():
        if output not in found:
            raise InputError(f"output {quoted(output)} is none of {', '.join(found)}")
        array = found[output]
        item: dict[str, Any] = {
            "name": output, "datatype": DATATYPES[array.dtype.name], "shape": list(array.shape)
        }  # fmt: skip
        if binary:
            parts.append(array.tobytes())
            item["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            flat = array.reshape(-1)
            # JSON knows no infinity and no NaN
            item["data"] = [
                one if not isinstance(one, float) or math.isfinite(one) else None
                for one in flat.tolist()
            ]
        outputs.append(item)
    answer: dict[str, Any] = {"model_name": name, "model_version": "1", "outputs": outputs}
    if asked.id:
        answer["id"] = asked.id
    head = json.dumps(answer, separators=(",", ":")).encode()
    if not parts:
        return [head], {"content-type": "application/json"}
    return [head, *parts], {
        "content-type": "application/octet-stream",
        "inference-header-content-length": str(len(head)),
    }
