"""Is this still the same model? A digest of the bytes that it is read from."""

from __future__ import annotations

import hashlib
from pathlib import Path

import onnx

from csdfgen.errors import ModelError
from csdfgen.files import file_digest
from csdfgen.reading.fronts import find_model_files
from csdfgen.reading.onnx_file import ModelFile, read_file, text
from csdfgen.reading.zoo import is_zoo_name, look_up


def model_digest(model: str) -> str:
    """Hexadecimal digits of a model file and of the files with its weights; of a network of the zoo those of
    its name and size, which it is built from. Raises ModelError.
    """
    if is_zoo_name(model):
        entry, height, width = look_up(model)
        return hashlib.sha256(f"{entry.name}@{height}x{width}".encode()).hexdigest()
    path = Path(model)
    try:
        paths = find_model_files(model) or (path, *_beside(read_file(path)))
        parts = [file_digest(one) for one in paths]
    except ModelError as error:
        raise error.at(model) from None
    except OSError as error:
        raise ModelError(f"cannot be read: {error.strerror or error}", where=model) from None
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def _beside(file: ModelFile) -> list[Path]:
    """The files with weights next to a model; errors in them are reported when they are read."""
    if file.directory is None:
        return []
    tensors = [weight.tensor for weight in file.weights]
    for node in file.graph.node:
        tensors += [attribute.t for attribute in node.attribute if attribute.HasField("t")]
    names = {
        text(entry.value)
        for tensor in tensors
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if text(entry.key) == "location"
    }
    paths = [file.directory / name for name in sorted(names)]
    return [path for path in paths if path.is_file()]
