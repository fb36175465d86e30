"""Which models are not ONNX files, and what makes ONNX of them?

Every place that takes a model asks here first: names of the zoo, and files of other frameworks by their
suffix. Whatever is left is an ONNX file. The conversion is repeated where a model is needed again (the
comparison with onnxruntime), so that nobody has to keep the weights twice.
"""

from __future__ import annotations

import os
from copy import deepcopy
from pathlib import Path

import onnx

from csdfgen.errors import ModelError, prefix_errors
from csdfgen.files import CAFFE, CAFFE_WEIGHTS, split_model
from csdfgen.reading.input_shapes import AskedShapes, ShapeOf, resolve_wanted_shapes
from csdfgen.reading.onnx_file import from_proto, read_file
from csdfgen.reading.zoo import build, is_zoo_name


def _convert_pytorch(path: Path) -> onnx.ModelProto:
    from csdfgen.reading.pytorch import export_file

    return export_file(path)


def _convert_tflite(path: Path) -> onnx.ModelProto:
    # nine modules, which most models do not need
    from csdfgen.reading.tflite.model import read_model

    return read_model(path)


_CONVERTED = {".pt2": _convert_pytorch, ".tflite": _convert_tflite}
"""Suffix -> what makes ONNX of such a file."""


def convert_foreign(source: str | os.PathLike[str], sized: ShapeOf) -> onnx.ModelProto | None:
    """The model as ONNX, None if it is an ONNX file. sized: shapes of inputs, for a format whose operators need them
    (Caffe's pools). Raises InputError, ModelError.
    """
    if is_zoo_name(source):
        return build(source)
    files = find_model_files(os.fspath(source))
    if files is None:
        return None
    if len(files) == 1:
        return _CONVERTED[files[0].suffix.lower()](*files)
    from csdfgen.reading.caffe.net import read_net

    text, weights = files
    return read_net(text, weights, sized)


def find_model_files(source: str) -> tuple[Path, ...] | None:
    """The files that a model in another format consists of; None of an ONNX file or a name of the zoo. Raises
    ModelError where weights are missing.
    """
    if is_zoo_name(source):
        return None
    parts = [Path(part) for part in split_model(source)]
    suffix = parts[0].suffix.lower()
    if suffix == CAFFE_WEIGHTS:
        raise ModelError("has the weights of a network of Caffe; give its .prototxt")
    if suffix == CAFFE and len(parts) == 1 and parts[0].is_file():
        from csdfgen.reading.caffe.net import find_weights

        parts.append(find_weights(parts[0]))
    if suffix == CAFFE and len(parts) == 1:
        raise ModelError(
            "is a directory, not a file of a model" if parts[0].is_dir() else "does not exist"
        )
    return tuple(parts) if suffix == CAFFE or suffix in _CONVERTED else None


def load_as_onnx(
    source: str | os.PathLike[str] | onnx.ModelProto, shapes: AskedShapes | None = None
) -> tuple[onnx.ModelProto, str]:
    """(model with its weights, where it is from) of a file, a name of the zoo, or a model as it is.

    shapes: of inputs, for files that become ONNX for certain shapes. Raises InputError, ModelError.
    """
    if isinstance(source, onnx.ModelProto):
        return deepcopy(source), from_proto(source).source
    with prefix_errors(os.fspath(source)):
        other = convert_foreign(source, resolve_wanted_shapes(shapes, None))
        if other is not None:
            return other, str(source)
        path = Path(source)
        read_file(path)  # refuses what is none, in a line
    return onnx.load(path), str(path)
