"""How is the state of a stream kept outside of it? Arrays and numbers as bytes, with a checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from csdfgen.errors import InputError
from csdfgen.program.instructions import type_name, view_bytes

_MAGIC = b"csdfgen stream 1\n"
_SUM = 32
"""Bytes of a checksum."""


def pack_state(facts: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> bytes:
    """Facts, for JSON, and arrays in one piece."""
    forms = [(type_name(one.dtype), one.shape) for one in arrays]
    head = json.dumps({**facts, "arrays": forms}).encode() + b"\n"
    content = head + b"".join(bytes(view_bytes(one)) for one in arrays)
    return _MAGIC + hashlib.sha256(content).digest() + content


def unpack_state(state: bytes) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The facts and the arrays of a state. Raises InputError for bytes that are none, or are damaged."""
    start = len(_MAGIC) + _SUM
    if state[: len(_MAGIC)] != _MAGIC:
        raise InputError("these bytes are no saved state of a stream")
    content = state[start:]
    if hashlib.sha256(content).digest() != state[len(_MAGIC) : start]:
        raise InputError("the saved state of a stream is damaged")
    head, _, rest = content.partition(b"\n")
    facts, arrays, at = json.loads(head), [], 0
    for dtype, shape in facts.pop("arrays"):
        form = np.dtype(dtype)
        size = int(np.prod(shape, dtype=object)) * form.itemsize
        arrays.append(
            np.frombuffer(rest[at : at + size], np.uint8).view(form).reshape(shape).copy()
        )
        at += size
    return facts, arrays
