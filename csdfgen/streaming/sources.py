"""Which rows does a file have? A source reads some of them at a time, from any row on.

A source is chosen by the suffix of its file. Libraries that read formats are extras of the package; an error names the one
that is missing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from csdfgen.errors import InputError, first_line
from csdfgen.model.network import Tensor
from runtime.images import ImageOptions, convert_pixels

STDIN = "-"
"""What stands for standard input, and for standard output."""


_RATE = 16_000
"""Samples a second, where the source does not tell."""


class Source(Protocol):
    """Rows of an input of a network. rows: how many; None if nobody knows. rate: samples a second, of sounds."""

    rows: int | None
    rate: int

    def read(self, start: int, count: int) -> np.ndarray:
        """Rows from `start` on, at most so many, with the axes of the input; none behind the last. Raises InputError."""


def import_extra(module: str, extra: str) -> Any:
    """A library that is an extra of the package. Raises InputError."""
    try:
        return import_module(module)
    except (ImportError, OSError) as error:
        raise InputError(
            f"needs {module} ({first_line(error)}); pip install 'csdfgen[{extra}]'"
        ) from None


def _check_row(shape: tuple[int, ...], tensor: Tensor, what: str) -> None:
    """Raise InputError unless rows have the shape that the network takes."""
    wanted = tensor.shape[: tensor.row_axis], tensor.shape[(tensor.row_axis or 0) + 1 :]
    if (shape[: tensor.row_axis], shape[(tensor.row_axis or 0) + 1 :]) != wanted:
        any_ = ["any" if k == tensor.row_axis else n for k, n in enumerate(tensor.shape)]
        raise InputError(
            f"has {what} {shape}, input '{tensor.name}' takes ({', '.join(map(str, any_))}); set --shape"
        )


class ArraySource:
    """Rows of a .npy file, which is mapped."""

    rate = _RATE

    def __init__(self, path: Path, tensor: Tensor, options: ImageOptions) -> None:
        try:
            self._array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise InputError(f"is no array: {first_line(error)}") from None
        if self._array.ndim != len(tensor.shape):
            raise InputError(
                f"has shape {self._array.shape}, input '{tensor.name}' has {len(tensor.shape)} dimensions"
            )
        _check_row(self._array.shape, tensor, "shape")
        if not np.can_cast(self._array.dtype, tensor.dtype, "same_kind"):
            raise InputError(f"has {self._array.dtype}, input '{tensor.name}' takes {tensor.dtype}")
        self._stored = tensor.to_storage(self._array)
        self.rows: int | None = len(self._stored)
        self._tensor = tensor

    def read(self, start: int, count: int) -> np.ndarray:
        """See `Source.read`."""
        return self._tensor.to_onnx(np.array(self._stored[start : start + count]))


class RawSource:
    """Numbers of the input's type without a header, row by row: interleaved samples, or pixels. From a file or a pipe."""

    rate = _RATE

    def __init__(self, path: Path, tensor: Tensor, options: ImageOptions) -> None:
        self._file: BinaryIO = sys.stdin.buffer if str(path) == STDIN else path.open("rb")
        self._tensor, self._at = tensor, 0
        self.rows: int | None = None
        if str(path) != STDIN and path.is_file():
            size = path.stat().st_size
            if size % tensor.row_bytes:
                raise InputError(
                    f"has {size:,} bytes, no whole number of rows of {tensor.row_bytes:,} ({tensor.dtype})"
                )
            self.rows = size // tensor.row_bytes

    def read(self, start: int, count: int) -> np.ndarray:
        """See `Source.read`."""
        if self._file.seekable():
            self._file.seek(start * self._tensor.row_bytes)
        else:
            while self._at < start:  # what a stream that goes on has seen before
                skipped = len(self._rows(min(count, start - self._at)))
                if not skipped:
                    break
                self._at += skipped
        found = self._rows(count)
        self._at = start + len(found)
        return self._tensor.to_onnx(found)

    def _rows(self, count: int) -> np.ndarray:
        tensor = self._tensor
        data = self._file.read(count * tensor.row_bytes)
        if len(data) % tensor.row_bytes:
            raise InputError(f"ends within a row of {tensor.row_bytes:,} bytes ({tensor.dtype})")
        return np.frombuffer(data, tensor.dtype).reshape(-1, *tensor.row_shape)


class SoundSource:
    """Samples of a file that libsndfile reads: a row has those of all channels, from -1 to 1."""

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
        self._tensor = tensor

    def read(self, start: int, count: int) -> np.ndarray:
        """See `Source.read`."""
        self._file.seek(min(start, self._file.frames))
        samples = self._file.read(count, dtype="float32", always_2d=True)
        return self._tensor.to_onnx(samples.reshape(-1, *self._tensor.row_shape))


class TiffSource:
    """Pixels of the first page of a TIFF file, decoded strip by strip or tile by tile."""

    rate = _RATE

    def __init__(self, path: Path, tensor: Tensor, options: ImageOptions) -> None:
        library = import_extra("tifffile", "tiff")
        try:
            self._file = library.TiffFile(path)
            self._page = self._file.pages[0]
        except (library.TiffFileError, IndexError) as error:
            raise InputError(f"is no TIFF file: {first_line(error)}") from None
        page = self._page
        if page.imagedepth != 1 or (page.samplesperpixel > 1 and page.planarconfig != 1):
            raise InputError("has planes or a depth; an image with its channels together is needed")
        self._tensor, self._options = tensor, options
        self.rows: int | None = page.imagelength
        shape = convert_pixels(
            np.zeros((1, page.imagewidth, page.samplesperpixel), np.uint8), tensor, options
        ).shape
        _check_row(shape, tensor, "rows of shape")
        self._high = page.tilelength if page.is_tiled else page.rowsperstrip
        self._across = -(-page.imagewidth // page.tilewidth) if page.is_tiled else 1
        self._band: tuple[int, np.ndarray] = -1, np.empty(0)

    def read(self, start: int, count: int) -> np.ndarray:
        """See `Source.read`."""
        stop = min(self._page.imagelength, start + count)
        parts = []
        while start < stop:
            band, first = start // self._high, start % self._high
            rows = self._decoded(band)[first : first + stop - start]
            parts.append(rows)
            start += len(rows)
        page = self._page
        empty = np.empty((0, page.imagewidth, page.samplesperpixel), page.dtype)
        pixels = np.concatenate(parts or [empty])
        return convert_pixels(pixels, self._tensor, self._options)

    def _decoded(self, band: int) -> np.ndarray:
        """The pixels of a row of strips or tiles, the last one of which is kept."""
        if self._band[0] != band:
            page = self._page
            rows = min(self._high, page.imagelength - band * self._high)
            pixels = np.zeros((rows, page.imagewidth, page.samplesperpixel), page.dtype)
            for index in range(band * self._across, (band + 1) * self._across):
                self._file.filehandle.seek(page.dataoffsets[index])
                data = self._file.filehandle.read(page.databytecounts[index])
                tile, (*_, column, _), _ = page.decode(data, index)
                if tile is not None:
                    width = min(tile.shape[2], page.imagewidth - column)
                    pixels[:, column : column + width] = tile[0, :rows, :width]
            self._band = band, pixels
        return self._band[1]


SOUNDS = (".wav", ".flac", ".ogg", ".aif", ".aiff", ".w64", ".mp3")

SOURCES: dict[str, Callable[[Path, Tensor, ImageOptions], Source]] = {
    ".npy": ArraySource,
    ".raw": RawSource,
    ".pcm": RawSource,
    ".tif": TiffSource,
    ".tiff": TiffSource,
    **dict.fromkeys(SOUNDS, SoundSource),
}
"""Suffix -> what reads the file."""


def open_source(path: Path, tensor: Tensor, options: ImageOptions) -> Source:
    """The rows of a file. Raises InputError."""
    make = RawSource if str(path) == STDIN else SOURCES.get(path.suffix.lower())
    if make is None:
        raise InputError(
            f"is no stream that is known; {', '.join(SOURCES)} are, and {STDIN} for raw rows",
            where=str(path),
        )
    try:
        return make(path, tensor, options)
    except InputError as error:
        raise error.at(str(path)) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=str(path)) from None
