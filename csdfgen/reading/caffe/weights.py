"""Which numbers has each layer in a .caffemodel?

Source: caffe.proto of BVLC/caffe (NetParameter, LayerParameter, V1LayerParameter, BlobProto). Only names and
blobs are read, since everything else comes from the .prototxt, as in Caffe. The numbers stay in the mapped
file until they are copied into the model.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.reading.onnx_file import check_file, text
from csdfgen.reading.onnx_tensor import MAX_RANK
from csdfgen.reading.wire import LENGTH_PREFIXED, Field, fields, varint

Blobs = dict[str, list[np.ndarray]]
"""Layer -> its blobs in order."""

_WHAT = "Caffe weights"
_NET_LAYERS = {100: (1, 7), 2: (4, 6)}
"""Field of a net with a layer, of today and of version 1 -> its fields with the name and with a blob."""
_SHAPE, _DATA, _DOUBLES = 7, 5, 8
_OLD_SHAPE = (1, 2, 3, 4)
_SIZES: Mapping[int, tuple[int, np.dtype[Any]]] = {
    _DATA: (5, np.dtype("<f4")),
    _DOUBLES: (1, np.dtype("<f8")),
}
"""Field with numbers -> wire type of a single one, and its type."""


def read_weights(path: Path) -> Blobs:
    """The blobs of all layers that have some. Raises ModelError for a file that is damaged or none."""
    check_file(path)
    found: Blobs = {}
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for field in fields(data, 0, len(data), _WHAT):
            if field.number in _NET_LAYERS and field.wire_type == LENGTH_PREFIXED:
                name, blobs = _layer(data, field, *_NET_LAYERS[field.number])
                if blobs:
                    found[name] = blobs
    except OSError as error:
        raise ModelError(f"cannot be read: {error.strerror or error}") from error
    if not found:
        raise ModelError("holds no layer with weights; is it a .caffemodel?")
    return found


def _layer(
    data: mmap.mmap, layer: Field, name_field: int, blob_field: int
) -> tuple[str, list[np.ndarray]]:
    name, blobs = "", []
    for field in fields(data, layer.body, layer.stop, _WHAT):
        if field.wire_type != LENGTH_PREFIXED:
            continue
        if field.number == name_field:
            name = text(data[field.body : field.stop])
        elif field.number == blob_field:
            blobs.append(_blob(data, field))
    return name, blobs


def _blob(data: mmap.mmap, blob: Field) -> np.ndarray:
    """The numbers of a blob in its shape, as float32."""
    shape: list[int] | None = None
    old: dict[int, int] = {}
    parts: list[np.ndarray] = []
    # numbers with a tag each, as old writers stored them
    loose = {number: bytearray() for number in _SIZES}
    for field in fields(data, blob.body, blob.stop, _WHAT):
        if field.number == _SHAPE and field.wire_type == LENGTH_PREFIXED:
            shape = _dims(data, field)
        elif field.number in _OLD_SHAPE and field.wire_type == 0:
            old[field.number] = varint(data, field.body, field.stop)[0]
        elif field.number in _SIZES:
            single, dtype = _SIZES[field.number]
            count, rest = divmod(field.stop - field.body, dtype.itemsize)
            if field.wire_type not in (LENGTH_PREFIXED, single) or rest:
                raise ModelError(f"is damaged: the numbers at byte {field.start} are cut short")
            if field.wire_type == single:
                loose[field.number] += data[field.body : field.stop]
            elif count:
                parts.append(np.frombuffer(data, dtype, count, field.body))
    for number, found in loose.items():
        parts += [np.frombuffer(found, _SIZES[number][1])] if found else []
    flat = parts[0] if len(parts) == 1 else np.concatenate(parts or [np.empty(0, np.float32)])
    sizes = [old.get(number, 0) for number in _OLD_SHAPE] if old and shape is None else shape
    sizes = [flat.size] if sizes is None else sizes
    if prod(sizes) != flat.size:
        shown = "x".join(map(str, sizes))
        raise ModelError(
            f"is damaged: the blob at byte {blob.start} has {flat.size} numbers in a shape of {shown}"
        )
    return flat.astype(np.float32, copy=False).reshape(sizes)


def _dims(data: mmap.mmap, shape: Field) -> list[int]:
    found: list[int] = []
    for field in fields(data, shape.body, shape.stop, _WHAT):
        if field.number != 1 or field.wire_type not in (0, LENGTH_PREFIXED):
            continue
        at = field.body
        while at < field.stop:
            size, at = varint(data, at, field.stop, _WHAT)
            found.append(size)
            if len(found) > MAX_RANK:
                raise ModelError(
                    f"is damaged: the shape at byte {shape.start} has more than {MAX_RANK} sizes"
                )
    return found
