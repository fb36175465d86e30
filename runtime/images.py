"""Inputs from arrays and images in files, and outputs to files.

Arrays are read from .npy and .npz files, images from .png and .jpg files through Pillow. The header of an array and the size
of an image are compared with the network's input before any element is read; an image of another size is refused unless
`--resize` is given.
"""

from __future__ import annotations

import io
import logging
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import numpy as np

from csdfgen.errors import InputError
from csdfgen.files import read_bytes, write_bytes
from csdfgen.model.formats import Format
from csdfgen.model.network import Network, Tensor
from runtime.drawing import SYMMETRIC, Span, random_inputs

__all__ = [
    "SYMMETRIC",
    "ImageOptions",
    "check_labels",
    "check_output_path",
    "parse_channel_values",
    "random_inputs",
    "read_frames",
    "read_inputs",
    "read_labels",
    "read_sizes",
    "top_classes",
    "write_outputs",
]

ARRAY_SUFFIXES = (".npy", ".npz")
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg")
LAYOUTS = ("nchw", "nhwc", "nchw-bgr", "nhwc-bgr")

TOP = 5
"""Classes shown for a classifier; an output with fewer classes is not treated as one, unless labels name them."""

_LOG = logging.getLogger(__name__)

_UNREADABLE = (OSError, EOFError, zipfile.BadZipFile, zlib.error, struct.error, RuntimeError)
"""What reading a damaged file raises."""

_MAX_LABEL_BYTES = 2**24
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Channels of the network's input -> Pillow's mode."""


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """How pixels become values: (pixel - mean) / std, with pixels from 0 to 255. layout: one of LAYOUTS. formats: input name ->
    format that values are quantized to; an input of integers without a format takes the pixels unchanged.
    """

    resize: bool = False
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    layout: str | None = None
    formats: Mapping[str, Format] = field(default_factory=lambda: MappingProxyType({}))


def parse_channel_values(option: str, text: str | None) -> tuple[float, ...] | None:
    """A number for all channels, or one for each, such as "123.7,116.3,103.5". Raises InputError.

    >>> parse_channel_values("--mean", "0.5, 2")
    (0.5, 2.0)
    """
    if text is None:
        return None
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"{option} {text}: numbers with commas between them are needed, such as 123.7,116.3,103.5"
        ) from None
    if not np.all(np.isfinite(values)) or (option == "--std" and 0.0 in values):
        raise InputError(
            f"{option} {text}: finite numbers are needed{', none of them 0' if option == '--std' else ''}"
        )
    return values


# Inputs -----------------------------------------------------------------------------------------


def read_inputs(
    files: Sequence[str],
    network: Network,
    options: ImageOptions,
    seed: int = 0,
    span: Span = SYMMETRIC,
) -> dict[str, np.ndarray]:
    """The network's inputs by name from `--input` arguments FILE or NAME=FILE; without arguments, random values in the span.

    A .npz file provides every input that it names. Files with one image each are joined to a batch.
    Raises InputError with the file, both shapes or sizes, and a remedy.
    """
    if not files:
        return random_inputs(network, seed, span)
    reader = _Reader(network, options)
    found: dict[str, list[np.ndarray]] = {}
    for argument in files:
        for key, array in reader.read(*reader.named(argument)).items():
            found.setdefault(key, []).append(array)
    missing = [name for name in reader.tensors if name not in found]
    if missing:
        raise InputError(
            f"no file for input '{missing[0]}'; give it as --input {missing[0]}=FILE, or in an .npz file"
        )
    return {name: _joined(arrays, reader.tensors[name], network) for name, arrays in found.items()}


def read_sizes(files: Sequence[str]) -> dict[str, np.ndarray]:
    """Input name ("" where none is given) -> an array of the shape of what `--input` arguments hold, without its values; of a
    picture (rows, columns). Nothing of files that cannot be read. Raises InputError for one that does not exist.
    """
    found: dict[str, np.ndarray] = {}
    for argument in files:
        name, _, path = ("", "", argument) if Path(argument).exists() else argument.rpartition("=")
        if not name and not Path(path).exists():
            raise InputError("does not exist", where=path)
        with suppress(*_UNREADABLE, InputError, ValueError, TypeError, SyntaxError):
            for key, shape in _shapes(Path(path), name):
                found[key] = np.broadcast_to(np.float32(), shape)
    return found


def _shapes(path: Path, name: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    suffix = path.suffix.lower()
    if suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
            for one in members:
                with archive.open(one) as file:
                    shape = _read_header(file)[0]
                yield one.removesuffix(".npy"), shape
            if len(members) == 1:  # of the only input, whatever its name
                yield "", shape
    elif suffix == ".npy":
        with path.open("rb") as file:
            yield name, _read_header(file)[0]
    elif suffix in IMAGE_SUFFIXES:
        from PIL import Image

        with Image.open(path) as image:
            yield name, image.size[::-1]


def read_frames(
    files: Sequence[str], network: Network, options: ImageOptions
) -> list[dict[str, np.ndarray]]:
    """The inputs of many frames: arrays by input name, each with the inputs of one or several frames along axis 0.

    files: FILE or NAME=FILE; a folder stands for the pictures and arrays in it. A file has one frame or several; for a network
    with several inputs each .npz file has all of them. Raises InputError.
    """
    reader = _Reader(network, options, several=True)
    found = []
    for argument in files:
        path, name = reader.named(argument)
        paths = [path]
        if path.is_dir():
            known = (*ARRAY_SUFFIXES, *IMAGE_SUFFIXES)
            paths = sorted(one for one in path.iterdir() if one.suffix.lower() in known)
            if not paths:
                raise InputError(f"has no file of {', '.join(known)}", where=str(path))
        for one in paths:
            frames = reader.read(one, name)
            missing = [key for key in reader.tensors if key not in frames]
            if missing:
                raise InputError(
                    f"has no array for input '{missing[0]}'; frames of several inputs are .npz files",
                    where=str(one),
                )
            found.append(frames)
    return found


def _listed(names: Iterable[str], limit: int = 8) -> str:
    shown = [f"'{name}'" for name in names]
    return ", ".join([*shown[:limit], *(["..."] if len(shown) > limit else [])]) or "none"


@dataclass(frozen=True)
class _Reader:
    """Reads the inputs of a network from files. several: arrays may have several frames along axis 0."""

    network: Network
    options: ImageOptions
    several: bool = False

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """The inputs by name."""
        return {tensor.name: tensor for tensor in self.network.inputs}

    def named(self, argument: str) -> tuple[Path, str | None]:
        """(file, input name or None) of FILE, or of NAME=FILE if NAME is an input of the network."""
        for name in self.tensors:
            if argument.startswith(f"{name}="):
                return Path(argument[len(name) + 1 :]), name
        path = Path(argument)
        if "=" in argument and not path.exists():
            raise InputError(
                f"--input {argument}: neither a file nor NAME=FILE with one of the inputs {_listed(self.tensors)}"
            )
        return path, None

    def read(self, path: Path, name: str | None) -> dict[str, np.ndarray]:
        """The arrays of a file by input name. Raises InputError."""
        suffix = path.suffix.lower()
        if suffix not in (*ARRAY_SUFFIXES, *IMAGE_SUFFIXES):
            raise InputError(
                f"is none of {', '.join((*ARRAY_SUFFIXES, *IMAGE_SUFFIXES))}", where=str(path)
            )
        if not path.is_file():
            raise InputError(
                "is not a file" if path.exists() else "does not exist", where=str(path)
            )
        try:
            if suffix == ".npz" and name is None:
                return self._npz(path)
            tensor = self.tensors[name] if name is not None else self._only()
            if suffix == ".npz":
                raise InputError(
                    f"holds arrays by name; give it without '{name}=', or save one array as .npy"
                )
            if suffix == ".npy":
                with path.open("rb") as file:
                    return {tensor.name: self._array(file, tensor, path.stat().st_size)}
            return {tensor.name: _read_image(path, tensor, self.options)}
        except InputError as error:
            raise error.at(str(path)) from None
        except _UNREADABLE as error:
            raise InputError(
                f"cannot be read: {getattr(error, 'strerror', None) or error}", where=str(path)
            ) from None

    def _only(self) -> Tensor:
        if len(self.tensors) != 1:
            raise InputError(
                f"one array for {len(self.tensors)} inputs; name one as NAME=FILE: {_listed(self.tensors)}"
            )
        return next(iter(self.tensors.values()))

    def _npz(self, path: Path) -> dict[str, np.ndarray]:
        """Arrays of an .npz file by input name; arrays of other names are ignored if one is known. One array is that of the
        only input, whatever its name.
        """
        with zipfile.ZipFile(path) as archive:
            members = {name.removesuffix(".npy"): name for name in archive.namelist()}
            if len(members) == len(self.tensors) == 1 and members.keys() != self.tensors.keys():
                (called,), (name,) = members, self.tensors
                _LOG.warning("%s: its only array '%s' is taken for input '%s'", path, called, name)
                members = {name: members[called]}
            known = [name for name in self.tensors if name in members]
            if not known:
                raise InputError(
                    f"holds {_listed(members)}, the network's inputs are {_listed(self.tensors)}"
                )
            found = {}
            for name in known:
                size = archive.getinfo(members[name]).file_size
                with archive.open(members[name]) as file:
                    found[name] = self._array(file, self.tensors[name], size)
            return found

    def _array(self, file: IO[bytes], tensor: Tensor, size: int) -> np.ndarray:
        """An array of the input's shape, with all images of the batch or with one. The header is checked before data is read.
        size: bytes of the file.
        """
        into = self.options.formats.get(tensor.name)
        start, wanted = file.tell(), self.network.whole_shape(tensor)
        try:
            shape, dtype = _read_header(file)
            fits = shape in (wanted, tensor.shape)
            if self.several and not fits and shape[1:] == tensor.shape[1:] and shape:
                fits = shape[0] > 0 and shape[0] % wanted[0] == 0
                if fits and np.prod(shape, dtype=object) * dtype.itemsize > size:
                    raise ValueError(f"{shape} of {dtype} are more than its {size} bytes")
            if not fits:
                raise InputError(
                    f"has shape {shape}, input '{tensor.name}' takes {wanted}; "
                    "set the network's with --shape if it is free"
                )
            values = into is not None and dtype.kind == "f"
            if not values and not np.can_cast(dtype, tensor.dtype, "same_kind"):
                raise InputError(f"holds {dtype}, input '{tensor.name}' takes {tensor.dtype}")
            file.seek(start)
            array = np.lib.format.read_array(file, allow_pickle=False)
            if values:
                array = _integers(array, tensor, into)
            return np.ascontiguousarray(array, tensor.dtype).reshape(shape)
        except (ValueError, SyntaxError, TypeError, KeyError) as error:
            raise InputError(f"is damaged or not a valid .npy file: {error}") from None


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of a .npy file. Raises InputError, or ValueError."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise InputError(
            f"is a .npy file of version {version[0]}.{version[1]}, versions 1.0 and 2.0 are read"
        )
    headers = np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0
    shape, _, dtype = headers[version[0] - 1](file)
    return shape, dtype


def _integers(values: np.ndarray, tensor: Tensor, form: Format | None) -> np.ndarray:
    """The integers that values are stored as. Raises InputError for NaN or a wrong format."""
    assert form is not None
    if form.dtype != tensor.dtype:
        raise InputError(
            f"values become {form.dtype} as the model states, input '{tensor.name}' takes {tensor.dtype}"
        )
    if np.isnan(values).any():
        raise InputError(f"has values that are no numbers; input '{tensor.name}' takes integers")
    from csdfgen.ops.stored import quantize_values

    return quantize_values(values, form)


def _joined(arrays: Sequence[np.ndarray], tensor: Tensor, network: Network) -> np.ndarray:
    """The arrays given for an input, joined to its batch."""
    wanted = network.whole_shape(tensor)
    if len(arrays) == 1 and arrays[0].shape == wanted:
        return arrays[0]
    if any(array.shape != tensor.shape for array in arrays) or len(arrays) != network.batch:
        raise InputError(
            f"input '{tensor.name}' is given {len(arrays)} time{'s' if len(arrays) != 1 else ''}, the batch has {network.batch}"
        )
    return np.concatenate(arrays)


# Images -----------------------------------------------------------------------------------------


def _layout(tensor: Tensor, options: ImageOptions) -> tuple[bool, bool]:
    """(channels last?, blue first?) of an image input; from the option, or from the position of an axis of 1, 3 or 4."""
    if options.layout is not None and options.layout not in LAYOUTS:
        raise InputError(f"--layout {options.layout}: not one of {', '.join(LAYOUTS)}")
    if len(tensor.shape) != 4:
        raise InputError(
            f"is an image, input '{tensor.name}' has {len(tensor.shape)} dimensions; give it as .npy"
        )
    first, last = tensor.shape[1] in _MODES, tensor.shape[3] in _MODES
    if options.layout is None:
        if first == last:
            raise InputError(
                f"is an image, channels are not seen from the input's shape {tensor.shape}; give --layout nchw or nhwc"
            )
        return last, False
    channels_last = options.layout.startswith("nhwc")
    channels = tensor.shape[3 if channels_last else 1]
    if channels not in _MODES:
        raise InputError(
            f"--layout {options.layout}: input '{tensor.name}' has {channels} channels there, an image has 1, 3 or 4"
        )
    return channels_last, options.layout.endswith("bgr")


def _read_image(path: Path, tensor: Tensor, options: ImageOptions) -> np.ndarray:
    """An image as an array of the tensor's shape and dtype. Raises InputError for another size, unless `resize` is set."""
    channels_last, _ = _layout(tensor, options)
    height, width = tensor.shape[1:3] if channels_last else tensor.shape[2:4]
    channels = tensor.shape[3 if channels_last else 1]
    pixels = _pixels(path, (width, height), _MODES[channels], options.resize)
    return convert_pixels(pixels.reshape(height, width, channels), tensor, options)


def convert_pixels(pixels: np.ndarray, tensor: Tensor, options: ImageOptions) -> np.ndarray:
    """Pixels (rows, columns, channels) as rows of an image input, in its layout and type. Raises InputError."""
    channels_last, blue_first = _layout(tensor, options)
    values, channels = pixels.astype(np.float32), pixels.shape[2]
    if blue_first:
        values[..., :3] = values[..., 2::-1].copy()
    for option, given, apply in (
        ("--mean", options.mean, np.subtract),
        ("--std", options.std, np.divide),
    ):
        if given is not None:
            if len(given) not in (1, channels):
                raise InputError(f"{option} has {len(given)} values, the image {channels} channels")
            apply(values, np.asarray(given, np.float32), out=values)
    if not channels_last:
        values = values.transpose(2, 0, 1)
    kind, form = np.dtype(tensor.dtype), options.formats.get(tensor.name)
    if form is not None:
        values = _integers(values, tensor, form)
    elif kind.kind in "iu":
        limits = np.iinfo(kind)
        values = np.clip(np.rint(values), limits.min, limits.max)
    return np.ascontiguousarray(values[None], kind)


def _pixels(path: Path, size: tuple[int, int], mode: str, resize: bool) -> np.ndarray:
    """Pixels of an image file, from 0 to 255. size: (width, height)."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                if image.size != size and not resize:
                    have, want = (f"{w}x{h} pixels" for w, h in (image.size, size))
                    raise InputError(
                        f"has {have}, the network takes {want} (width x height); add --resize, or set --shape"
                    )
                converted = image.convert(mode)
                if converted.size != size:
                    converted = converted.resize(size, Image.Resampling.BILINEAR)
                return np.asarray(converted)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise InputError(f"claims too many pixels: {error}") from None
    except (SyntaxError, ValueError, TypeError, IndexError, KeyError) as error:
        raise InputError(f"is a damaged image: {error}") from None


# Outputs ----------------------------------------------------------------------------------------


def check_output_path(path: Path, network: Network) -> None:
    """Refuse a file that could not be written after the run. Raises InputError."""
    suffix = path.suffix.lower()
    if suffix not in ARRAY_SUFFIXES:
        raise InputError(f"outputs are written as {' or '.join(ARRAY_SUFFIXES)}", where=str(path))
    if suffix == ".npy" and len(network.outputs) != 1:
        names = _listed([output.name for output in network.outputs])
        raise InputError(
            f".npy holds one array, the network has {len(network.outputs)} outputs ({names}); use .npz",
            where=str(path),
        )
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise InputError(
            "is a directory" if path.is_dir() else "its directory does not exist", where=str(path)
        )


def write_outputs(path: Path, outputs: Mapping[str, np.ndarray]) -> None:
    """Outputs as .npz by name, or as .npy; the same values give the same bytes. Raises InputError."""
    data = io.BytesIO()
    if path.suffix.lower() == ".npy":
        (array,) = outputs.values()
        np.lib.format.write_array(data, array, allow_pickle=False)
    else:
        # numpy's savez takes names as keywords, and not every ONNX name can be a keyword
        with zipfile.ZipFile(data, "w") as archive:
            for name, array in outputs.items():
                with archive.open(
                    zipfile.ZipInfo(f"{name}.npy", _ZIP_DATE), "w", force_zip64=True
                ) as file:
                    np.lib.format.write_array(file, array, allow_pickle=False)
    write_bytes(path, data.getvalue())


def read_labels(path: Path) -> tuple[str, ...]:
    """Class names, one a line. Raises InputError."""
    try:
        text = read_bytes(path, _MAX_LABEL_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text: byte {error.start}", where=str(path)) from None
    return tuple(line.strip() for line in text.rstrip().splitlines())


def check_labels(
    labels: Sequence[str] | None, outputs: Mapping[str, tuple[Sequence[int], str]]
) -> None:
    """Raise InputError if no output has a class for each label. outputs: shapes and dtypes, by name."""
    counts = {name: n for name, form in outputs.items() if (n := _count_classes(*form))}
    if labels is not None and len(labels) not in counts.values():
        found = ", ".join(f"output '{name}' has {n} classes" for name, n in counts.items())
        raise InputError(
            f"{len(labels)} labels, {found or 'no output is a classifier'}; give one line for each class",
            where="--labels",
        )


def _count_classes(shape: Sequence[int], dtype: str) -> int:
    """Of a classifier's output: (N, K) or (N, K, 1, 1) floating point values; 0 of others."""
    flat = len(shape) in (2, 4) and all(size == 1 for size in shape[2:])
    return shape[1] if flat and dtype in ("float16", "float32", "float64") else 0


def top_classes(output: np.ndarray, least: int = TOP) -> np.ndarray | None:
    """Indices of the TOP largest values of every image, largest first, shape (N, TOP); None for other outputs than a
    classifier's of `least` classes.
    """
    if _count_classes(output.shape, output.dtype.name) < least:
        return None
    return np.argsort(-output.reshape(output.shape[:2]), axis=1, kind="stable")[:, :TOP]
