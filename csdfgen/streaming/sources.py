"""Which rows does a file have? A source reads some of them at a time, from any row on.

A source is chosen by the suffix of its file. Libraries that read formats are extras of the package; an error names the one
that is missing.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np

from csdfgen.errors import InputError, first_line
from csdfgen.files import release_pages
from csdfgen.model.network import Tensor
from runtime.images import ImageOptions, convert_pixels

STDIN = "-"
"""What stands for standard input, and for standard output."""

MICROPHONE = "mic:"
"""What the name of a microphone stands behind."""


_LOGGER = logging.getLogger(__name__)

_RATE = 16_000
"""Samples a second, where the source does not tell."""

_NOWHERE: Mapping[int, Any] = MappingProxyType({})


ALL = slice(None)
"""All columns."""


class Source(Protocol):
    """Rows of an input of a network. tensor: the input, with as many columns as there are. rows: how many; None if nobody
    knows. rate: samples a second, of sounds. tags: by number, those of TIFF that say where an image is on earth.
    """

    tensor: Tensor
    rows: int | None
    rate: int
    tags: Mapping[int, Any]

    def read(self, start: int, count: int, columns: slice = ALL) -> np.ndarray:
        """Rows from `start` on, at most so many, with the axes of the input; none behind the last. Raises InputError."""


def import_extra(module: str, extra: str) -> Any:
    """A library that is an extra of the package. Raises InputError."""
    try:
        return import_module(module)
    except (ImportError, OSError) as error:
        raise InputError(
            f"needs {module} ({first_line(error)}); pip install 'csdfgen[{extra}]'"
        ) from None


def release_array(array: Any) -> None:
    """Take pages of an array of numpy's or tifffile's that is mapped out of memory, see `release_pages`."""
    release_pages([getattr(array, "_mmap", None)])


def _fit(tensor: Tensor, shape: tuple[int, ...], what: str) -> Tensor:
    """The input for rows of such a shape, whose columns may be any where it has 0. Raises InputError for others."""
    axis = tensor.row_axis or 0
    fitting = tuple(n or size for n, size in zip(tensor.shape, shape, strict=False))
    if len(shape) != len(tensor.shape) or _row(shape, axis) != _row(fitting, axis):
        any_ = ["any" if k == axis or not n else n for k, n in enumerate(tensor.shape)]
        takes = ", ".join(map(str, any_))
        raise InputError(f"has {what} {shape}, input '{tensor.name}' takes ({takes}); set --shape")
    return replace(tensor, shape=fitting)


def _row(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


class ArraySource:
    """Rows of a .npy file, which is mapped."""

    rate, tags = _RATE, _NOWHERE

    def __init__(self, path: Path, tensor: Tensor, options: ImageOptions) -> None:
        try:
            self._array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise InputError(f"is no array: {first_line(error)}") from None
        self.tensor = _fit(tensor, self._array.shape, "shape")
        if not np.can_cast(self._array.dtype, tensor.dtype, "same_kind"):
            raise InputError(f"has {self._array.dtype}, input '{tensor.name}' takes {tensor.dtype}")
        self._stored = tensor.to_storage(self._array)
        self.rows: int | None = len(self._stored)

    def read(self, start: int, count: int, columns: slice = ALL) -> np.ndarray:
        """See `Source.read`."""
        rows = self._stored[start : start + count]
        found = np.array(rows[:, columns] if rows.ndim > 1 else rows)
        release_array(self._array)
        return self.tensor.to_onnx(found)


class RawSource:
    """Numbers of the input's type without a header, row by row: interleaved samples, or pixels. From a file or a pipe."""

    rate, tags = _RATE, _NOWHERE

    def __init__(self, path: Path, tensor: Tensor, options: ImageOptions) -> None:
        self._file: BinaryIO = sys.stdin.buffer if str(path) == STDIN else path.open("rb")
        self.tensor, self._at = tensor, 0
        self.rows: int | None = None
        if str(path) != STDIN and path.is_file():
            size = path.stat().st_size
            if size % tensor.row_bytes:
                raise InputError(
                    f"has {size:,} bytes, no whole number of rows of {tensor.row_bytes:,} ({tensor.dtype})"
                )
            self.rows = size // tensor.row_bytes

    def read(self, start: int, count: int, columns: slice = ALL) -> np.ndarray:
        """See `Source.read`."""
        if self._file.seekable():
            self._file.seek(start * self.tensor.row_bytes)
        else:
            while self._at < start:  # what a stream that goes on has seen before
                skipped = len(self._rows(min(count, start - self._at)))
                if not skipped:
                    break
                self._at += skipped
        found = self._rows(count)
        self._at = start + len(found)
        return self.tensor.to_onnx(found if columns == ALL else found[:, columns])

    def _rows(self, count: int) -> np.ndarray:
        tensor = self.tensor
        data = self._file.read(count * tensor.row_bytes)
        if len(data) % tensor.row_bytes:
            raise InputError(f"ends within a row of {tensor.row_bytes:,} bytes ({tensor.dtype})")
        return np.frombuffer(data, tensor.dtype).reshape(-1, *tensor.row_shape)


class SoundSource:
    """Samples of a file that libsndfile reads: a row has those of all channels, from -1 to 1."""

    tags = _NOWHERE

    def __init__(self, path: Path, tensor: Tensor, options: ImageOptions) -> None:
        library = import_extra("soundfile", "audio")
        try:
            self._file = library.SoundFile(path)
        except library.LibsndfileError as error:
            raise InputError(f"is no sound: {first_line(error)}") from None
        channels: int = self._file.channels
        self.rows: int | None = self._file.frames
        self.rate: int = self._file.samplerate
        if channels != tensor.row_elements:
            raise InputError(
                f"has {channels} channel{'s' * (channels != 1)}, a row of input '{tensor.name}' {tensor.row_elements} numbers"
            )
        self.tensor = tensor

    def read(self, start: int, count: int, columns: slice = ALL) -> np.ndarray:
        """See `Source.read`."""
        self._file.seek(min(start, self._file.frames))
        samples = self._file.read(count, dtype="float32", always_2d=True)
        return self.tensor.to_onnx(samples.reshape(-1, *self.tensor.row_shape))


class MicrophoneSource:
    """What a microphone records, until the run is interrupted: `mic:`, `mic:NAME`, or `mic:NAME@48000` for samples a second."""

    rows: int | None = None
    tags = _NOWHERE

    def __init__(self, path: Path, tensor: Tensor, options: ImageOptions) -> None:
        library = import_extra("sounddevice", "audio")
        name, _, rate = str(path).removeprefix(MICROPHONE).partition("@")
        if rate and not rate.isdecimal():
            raise InputError(
                f"'{rate}' is no number of samples a second; give {MICROPHONE}NAME@48000"
            )
        self.tensor, self.rate = tensor, int(rate or _RATE)
        self._file = library.InputStream(
            self.rate,
            device=int(name) if name.isdecimal() else name or None,
            channels=tensor.row_elements,
            dtype="float32",
        )
        self._file.start()

    def read(self, start: int, count: int, columns: slice = ALL) -> np.ndarray:
        """See `Source.read`; whatever comes next."""
        samples, lost = self._file.read(count)
        if lost:
            _LOGGER.warning("samples were lost: they came faster than they were computed")
        return self.tensor.to_onnx(samples.reshape(-1, *self.tensor.row_shape))


class Picture(NamedTuple):
    """A file of pixels. read: (first row, the one behind the last, columns) -> pixels (rows, columns, channels). tags: see
    `Source`.
    """

    rows: int
    columns: int
    channels: int
    read: Callable[[int, int, slice], np.ndarray]
    tags: Mapping[int, Any] = _NOWHERE


class PictureSource:
    """Pixels of an image, converted as those of `--input`."""

    rate = _RATE

    def __init__(self, picture: Picture, tensor: Tensor, options: ImageOptions) -> None:
        blank = np.zeros((1, picture.columns, picture.channels), np.uint8)
        self.tensor = _fit(tensor, convert_pixels(blank, tensor, options).shape, "rows of shape")
        self.rows: int | None = picture.rows
        self.tags = picture.tags
        self._read, self._options = picture.read, options

    def read(self, start: int, count: int, columns: slice = ALL) -> np.ndarray:
        """See `Source.read`."""
        stop = min(self.rows or 0, start + count)
        pixels = self._read(min(start, stop), stop, columns)
        return convert_pixels(pixels, self.tensor, self._options)


def _map_pixels(array: Any, axes: str = "yxc", tags: Mapping[int, Any] = _NOWHERE) -> Picture:
    """Pixels of an array on a disk. axes: a letter for each; of others than x, y and c the first position is read."""
    sizes = dict(zip(axes, array.shape, strict=False))
    order = [one for one in axes if one in "yxc" and one in sizes]

    def read(start: int, stop: int, columns: slice) -> np.ndarray:
        places: dict[str, Any] = {"y": slice(start, stop), "x": columns, "c": ALL}
        found = np.array(array[tuple(places.get(one, 0) for one in axes[: array.ndim])])
        release_array(array)
        found = found.transpose([order.index(one) for one in "yxc" if one in order])
        return found.reshape(*found.shape[:2], sizes.get("c", 1))

    return Picture(sizes["y"], sizes["x"], sizes.get("c", 1), read, tags)


_PLACES = (33550, 33922, 34264, 34735, 34736, 34737)
"""Tags of GeoTIFF: scale, points, matrix, keys and their values."""


def _open_tiff(path: Path) -> Picture:
    """The first page of a TIFF file: mapped, or decoded strip by strip or tile by tile."""
    library = import_extra("tifffile", "tiff")
    try:
        file = library.TiffFile(path)
        page = file.pages[0]
    except (library.TiffFileError, IndexError) as error:
        raise InputError(f"is no TIFF file: {first_line(error)}") from None
    if page.imagedepth != 1 or (page.samplesperpixel > 1 and page.planarconfig != 1):
        raise InputError("has planes or a depth; an image with its channels together is needed")
    tags = {code: page.tags[code] for code in _PLACES if code in page.tags}
    if page.is_memmappable:
        return _map_pixels(library.memmap(path, page=0, mode="r"), tags=tags)
    size = page.imagelength, page.imagewidth, page.samplesperpixel
    return Picture(*size, _Decoded(file, page).read, tags)


def _open_zarr(path: Path) -> Picture:
    """An array (rows, columns, channels) of zarr, or the largest of those of a microscope (OME)."""
    found = import_extra("zarr", "zarr").open(str(path), mode="r")
    facts = dict(found.attrs)
    scales = (facts.get("ome") or facts).get("multiscales")
    if scales:
        (scale, *_) = scales
        axes = "".join(one["name"] for one in scale.get("axes", [{"name": one} for one in "tczyx"]))
        return _map_pixels(found[scale["datasets"][0]["path"]], axes)
    if not hasattr(found, "shape") or found.ndim not in (2, 3):
        raise InputError("is no array of rows, columns and channels")
    return _map_pixels(found)


def _open_vips(path: Path) -> Picture:
    """What libvips reads; it decodes what it needs, and keeps large images that it has to decode whole on the disk."""
    library = import_extra("pyvips", "vips")
    image = library.Image.new_from_file(str(path))

    def read(start: int, stop: int, columns: slice) -> np.ndarray:
        first, end, _ = columns.indices(image.width)
        if start == stop:
            return np.empty((0, end - first, image.bands), np.uint8)
        return (
            image.crop(first, start, end - first, stop - start)
            .numpy()
            .reshape(stop - start, -1, image.bands)
        )

    return Picture(image.height, image.width, image.bands, read)


def _open_raster(path: Path) -> Picture:
    """What GDAL reads, by blocks."""
    file = import_extra("rasterio", "geo").open(path)

    def read(start: int, stop: int, columns: slice) -> np.ndarray:
        first, end, _ = columns.indices(file.width)
        return file.read(window=((start, stop), (first, end))).transpose(1, 2, 0)

    return Picture(file.height, file.width, file.count, read)


class _Video:
    """Frames one below the other: the rows of a line camera."""

    def __init__(self, path: Path) -> None:
        self._open = partial(import_extra("av", "video").open, str(path))
        with self._open() as file:
            (stream, *_) = file.streams.video
            self.count = stream.frames or sum(packet.size > 0 for packet in file.demux(stream))
            self.high, self.wide = stream.height, stream.width
        self._frames, self._at = iter(()), self.count
        self._pixels = np.empty(0)

    def read(self, start: int, stop: int, columns: slice) -> np.ndarray:
        """See `Picture`."""
        parts = [np.empty((0, self.wide, 3), np.uint8)[:, columns]]
        while start < stop:
            number, row = divmod(start, self.high)
            parts.append(self._decode(number)[row : row + stop - start, columns])
            start += len(parts[-1])
        return np.concatenate(parts)

    def _decode(self, number: int) -> np.ndarray:
        """A frame, which is kept; frames are decoded in their order."""
        if number < self._at:
            self._frames, self._at = self._open().decode(video=0), -1
        while self._at < number:
            self._pixels = next(self._frames).to_ndarray(format="rgb24")
            self._at += 1
        return self._pixels


def _open_video(path: Path) -> Picture:
    video = _Video(path)
    return Picture(video.count * video.high, video.wide, 3, video.read)


class _Decoded:
    """Pixels of a page, the last row of whose strips or tiles is kept."""

    def __init__(self, file: Any, page: Any) -> None:
        self._handle, self._page = file.filehandle, page
        self._high = page.tilelength if page.is_tiled else page.rowsperstrip
        self._wide = page.tilewidth if page.is_tiled else page.imagewidth
        self._band: tuple[Any, np.ndarray] = None, np.empty(0)

    def read(self, start: int, stop: int, columns: slice) -> np.ndarray:
        """See `Picture`."""
        page = self._page
        first, end, _ = columns.indices(page.imagewidth)
        parts = [np.empty((0, end - first, page.samplesperpixel), page.dtype)]
        while start < stop:
            band, row = divmod(start, self._high)
            parts.append(self._decode(band, first, end)[row : row + stop - start])
            start += len(parts[-1])
        return np.concatenate(parts)

    def _decode(self, band: int, first: int, end: int) -> np.ndarray:
        """Columns of a row of strips or tiles."""
        if self._band[0] != (band, first, end):
            page = self._page
            rows = min(self._high, page.imagelength - band * self._high)
            tiles = range(first // self._wide, -(-end // self._wide))
            pixels = np.zeros((rows, len(tiles) * self._wide, page.samplesperpixel), page.dtype)
            across = -(-page.imagewidth // self._wide)
            for place, index in enumerate(tiles):
                self._handle.seek(page.dataoffsets[band * across + index])
                data = self._handle.read(page.databytecounts[band * across + index])
                tile = page.decode(data, band * across + index)[0]
                if tile is not None:
                    at, width = place * self._wide, tile.shape[2]
                    pixels[:, at : at + width] = tile[0, :rows]
            skipped = first - tiles.start * self._wide
            self._band = (band, first, end), pixels[:, skipped : skipped + end - first]
        return self._band[1]


SOUNDS = (".wav", ".flac", ".ogg", ".aif", ".aiff", ".w64", ".mp3")

PICTURES: dict[str, Callable[[Path], Picture]] = {
    **dict.fromkeys((".tif", ".tiff", ".ptif"), _open_tiff),
    ".zarr": _open_zarr,
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".webp", ".svs", ".ndpi", ".mrxs", ".scn", ".bif"), _open_vips),
    **dict.fromkeys((".vrt", ".img", ".jp2"), _open_raster),
    **dict.fromkeys((".mp4", ".mkv", ".avi", ".mov", ".webm"), _open_video),
}  # fmt: skip
"""Suffix -> what reads pixels."""

SOURCES: dict[str, Callable[[Path, Tensor, ImageOptions], Source]] = {
    ".npy": ArraySource,
    ".raw": RawSource,
    ".pcm": RawSource,
    **dict.fromkeys(SOUNDS, SoundSource),
}
"""Suffix -> what reads other rows."""


def read_size(path: Path) -> dict[str, np.ndarray]:
    """Under the name "" an array of the shape of what a file holds, without its values, of a picture (rows, columns). Nothing
    where only the network tells, or where opening it will say what is wrong.
    """
    suffix = path.suffix.lower()
    with suppress(Exception):
        if suffix == ".npy":
            return {"": np.load(path, mmap_mode="r", allow_pickle=False)}
        if suffix in PICTURES:
            picture = PICTURES[suffix](path)
            return {"": np.broadcast_to(np.uint8(), (picture.rows, picture.columns))}
    return {}


def open_source(path: Path, tensor: Tensor, options: ImageOptions, *, wide: bool = False) -> Source:
    """The rows of a file. wide: with as many columns as it has, which raw rows do not tell. Raises InputError."""
    suffix = path.suffix.lower()
    make, picture = SOURCES.get(suffix), PICTURES.get(suffix)
    if str(path) == STDIN:
        make = RawSource
    if str(path).startswith(MICROPHONE):
        make = MicrophoneSource
    axis = (tensor.row_axis or 0) + 1
    if wide and make is not RawSource and axis < len(tensor.shape):
        tensor = replace(tensor, shape=(*tensor.shape[:axis], 0, *tensor.shape[axis + 1 :]))
    try:
        if make is not None:
            return make(path, tensor, options)
        if picture is not None:
            return PictureSource(picture(path), tensor, options)
        known = ", ".join((*SOURCES, *PICTURES))
        raise InputError(
            f"is no stream that is known; {known} are, {STDIN} for raw rows, and {MICROPHONE} for a microphone; "
            "their libraries are csdfgen[streams]"
        )
    except InputError as error:
        raise error.at(str(path)) from None
    except Exception as error:  # libraries raise what they like
        raise InputError(f"cannot be read: {first_line(error)}", where=str(path)) from None
