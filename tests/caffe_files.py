"""Files of Caffe for tests: a .prototxt from its text, and a .caffemodel from arrays, in both versions of the format."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

Blobs = Mapping[str, Sequence[np.ndarray]]
PARAMETERS = {
    "Normalize": "Norm",
    **dict.fromkeys(("Deconvolution", "DepthwiseConvolution"), "Convolution"),
}
"""Types of layers whose settings have another name."""


def varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def field(number: int, content: bytes | int) -> bytes:
    """A field with a number, or of a length."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def blob(
    array: np.ndarray, *, old: bool = False, loose: bool = False, double: bool = False
) -> bytes:
    """A BlobProto. old: with four sizes; loose: numbers with a tag each; double: in float64."""
    flat = [float(value) for value in array.flat]
    if loose:
        data = b"".join(varint(5 << 3 | 5) + struct.pack("<f", value) for value in flat)
    elif double:
        data = field(8, struct.pack(f"<{len(flat)}d", *flat))
    else:
        data = field(5, struct.pack(f"<{len(flat)}f", *flat))
    if old:
        sizes = (1,) * (4 - array.ndim) + array.shape
        return b"".join(field(k + 1, size) for k, size in enumerate(sizes)) + data
    return data + field(7, field(1, b"".join(map(varint, array.shape))))


def caffemodel(blobs: Blobs, *, version: int = 2, **form: bool) -> bytes:
    """A NetParameter with names and blobs, of version 1 or 2 of the format."""
    net, name_field, blob_field = (100, 1, 7) if version == 2 else (2, 4, 6)
    found = field(1, b"net")
    for name, arrays in blobs.items():
        layer = field(name_field, name.encode())
        layer += b"".join(field(blob_field, blob(np.asarray(one), **form)) for one in arrays)
        found += field(net, layer)
    return found


def write(folder: Path, text: str, blobs: Blobs, **form: bool | int) -> Path:
    """The pair of files; the path of the .prototxt."""
    path = folder / "net.prototxt"
    path.write_text(text)
    path.with_suffix(".caffemodel").write_bytes(caffemodel(blobs, **form))  # type: ignore[arg-type]
    return path


def layer(text: str) -> str:
    """A layer of a .prototxt, named after its first top.

    >>> layer("y = InnerProduct(data) num_output: 3")
    'name: "y" type: "InnerProduct" bottom: "data" top: "y" inner_product_param { num_output: 3 }'
    """
    found = re.fullmatch(r"([\w, ]*) = (\w+)\((.*?)\)(.*)", text)
    assert found
    tops, kind, bottoms, settings = found.groups()
    ends = [
        f'{end}: "{one}"'
        for end, names in (("bottom", bottoms), ("top", tops))
        for one in re.findall(r"\w+", names)
    ]
    own = kind if tops in bottoms else re.findall(r"\w+", tops)[0]
    group = re.sub("([a-z]{2,})([A-Z])", r"\1_\2", PARAMETERS.get(kind, kind)).lower()
    given = f" {group}_param {{{settings} }}" if settings.strip() else ""
    return f'name: "{own}" type: "{kind}" {" ".join(ends)}{given}'


def net(shape: Sequence[int], *layers: str) -> str:
    """A text with one input `data`, and layers whose braces are written here."""
    dims = " ".join(f"dim: {size}" for size in shape)
    head = f'name: "net"\nlayer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ {dims} }} }} }}\n'
    return head + "".join(f"layer {{ {layer} }}\n" for layer in layers)
