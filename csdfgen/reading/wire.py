"""How is a protobuf message walked without trusting its lengths?

Source: https://protobuf.dev/programming-guides/encoding. Every length that a file claims is compared with
the bytes that are there before anything is read.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass

from csdfgen.errors import ModelError

LENGTH_PREFIXED = 2

_FIXED_SIZES = {1: 8, 5: 4}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message: [start, stop) with its tag, [body, stop) without tag and length."""

    number: int
    wire_type: int
    start: int
    body: int
    stop: int


def varint(data: mmap.mmap, at: int, stop: int, what: str = "ONNX file") -> tuple[int, int]:
    """(value, position behind it) of the varint at a position. what: the file should be one of. Raises ModelError."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= stop:
            raise ModelError(
                f"is cut short or not a valid {what}: it ends within a number at byte {at}"
            )
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ModelError(f"is damaged or not a valid {what}: the number before byte {at} does not end")


def fields(data: mmap.mmap, start: int, stop: int, what: str = "ONNX file") -> Iterator[Field]:
    """The fields of the message that fills bytes [start, stop). Raises ModelError."""
    at = start
    while at < stop:
        tag, body = varint(data, at, stop, what)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            end = varint(data, body, stop, what)[1]
        elif wire_type == LENGTH_PREFIXED:
            length, body = varint(data, body, stop, what)
            end = body + length
        elif wire_type in _FIXED_SIZES:
            end = body + _FIXED_SIZES[wire_type]
        else:
            raise ModelError(
                f"is damaged or not a valid {what}: unknown wire type {wire_type} at byte {at}"
            )
        if end > stop:
            raise ModelError(
                f"is cut short or not a valid {what}: the field at byte {at} claims {end - body} bytes, {stop - body} are left"
            )
        yield Field(number, wire_type, at, body, end)
        at = end
