"""Where do the rows of an output go? A sink takes them one after the other, and goes on with a file that is there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from csdfgen.errors import InputError
from csdfgen.model.network import Tensor
from csdfgen.streaming.sources import ALL, SOUNDS, STDIN, Source, import_extra, release_array


def check_paths(path: Path, names: list[str]) -> dict[str, Path]:
    """The file of each output: the one that is named, or for several with their names in it. Raises InputError for files that
    are not written.
    """
    if str(path) != STDIN and path.suffix.lower() not in SINKS:
        raise InputError(
            f"rows are written as {', '.join(SINKS)}, or to {STDIN} as raw rows", where=str(path)
        )
    if len(names) == 1:
        return {names[0]: path}
    if str(path) == STDIN:
        raise InputError(f"{len(names)} outputs cannot go to standard output; name a file")
    return {
        name: path.with_name(f"{path.stem}.{name.replace('/', '_')}{path.suffix}") for name in names
    }


class Wanted(NamedTuple):
    """What a sink is to take. tensor: rows of it; rows: how many there will be, None if nobody knows; done: how many of them the
    file has already; source: where the rows come from.
    """

    tensor: Tensor
    rows: int | None
    done: int
    source: Source


class Sink(Protocol):
    """Rows of an output of a network."""

    def write(self, start: int, rows: np.ndarray, columns: slice = ALL) -> None:
        """Rows from number `start` on, with the axes of the output; some columns of them."""

    def flush(self) -> None:
        """Everything that was written is in the file."""

    def close(self) -> None:
        """All rows are written."""


class _Mapped:
    """Rows of a file that is mapped. array: in the order of the file; axis: of rows in it."""

    def __init__(self, array: Any, tensor: Tensor, *, stored: bool) -> None:
        self._array, self._tensor = array, tensor
        self._rows = array if stored else tensor.to_storage(array)

    def write(self, start: int, rows: np.ndarray, columns: slice = ALL) -> None:
        """See `Sink.write`."""
        stored = self._tensor.to_storage(rows)
        there = self._rows[start : start + len(stored)]
        place = there if columns == ALL else there[:, columns]
        place[...] = stored.reshape(place.shape)
        release_array(self._array)

    def flush(self) -> None:
        """See `Sink.flush`."""
        self._array.flush()

    close = flush


def _array(path: Path, wanted: Wanted) -> Sink:
    """A .npy file of the output's shape."""
    tensor, shape = wanted.tensor, [*wanted.tensor.shape]
    if tensor.row_axis is not None:
        shape[tensor.row_axis] = _rows_of(wanted)
    mode: Any = "r+" if wanted.done else "w+"
    array = np.lib.format.open_memmap(path, mode, np.dtype(tensor.dtype), tuple(shape))
    return _Mapped(array, tensor, stored=False)


def _picture(path: Path, wanted: Wanted) -> Sink:
    """A TIFF file without compression, whose pixels have the channels of the output."""
    library, tensor = import_extra("tifffile", "tiff"), wanted.tensor
    shape = _rows_of(wanted), *(n for n in tensor.row_shape if n > 1)
    if len(shape) not in (2, 3):
        raise InputError(
            f"is an image, output '{tensor.name}' has rows of shape {tensor.row_shape}"
        )
    if wanted.done:
        return _Mapped(library.memmap(path, mode="r+"), tensor, stored=True)
    color = "rgb" if shape[2:] == (3,) and tensor.dtype == "uint8" else "minisblack"
    array = library.memmap(
        path,
        shape=shape,
        dtype=tensor.dtype,
        photometric=color,
        planarconfig="contig",
        bigtiff=True,
        extratags=_place(wanted, *shape[:2]),
    )
    return _Mapped(array, tensor, stored=True)


def _place(wanted: Wanted, rows: int, columns: int) -> list[tuple[Any, ...]]:
    """Tags that say where on earth an image is, of the size of its pixels."""
    source = wanted.source
    down, across = (source.rows or rows) / rows, source.tensor.row_shape[0] / columns
    scales = {
        33550: (across, down, 1),
        33922: (1 / across, 1 / down, 1, 1, 1, 1),
        34264: (across, down, 1, 1) * 4,
    }
    return [
        (
            code,
            tag.dtype,
            tag.count,
            _scaled(tag.value, scales[code]) if code in scales else tag.value,
            True,
        )
        for code, tag in source.tags.items()
    ]


def _scaled(values: Sequence[float], by: Sequence[float]) -> tuple[float, ...]:
    return tuple(value * by[k % len(by)] for k, value in enumerate(values))


class _Pyramid:
    """A TIFF file of tiles with smaller images of the same, made of a plain one at the end."""

    def __init__(self, path: Path, wanted: Wanted) -> None:
        self._library, self._path = import_extra("pyvips", "vips"), path
        self._plain = path.with_name(f"{path.name}.tif")
        self._sink = _picture(self._plain, wanted)
        self.write, self.flush = self._sink.write, self._sink.flush

    def close(self) -> None:
        """See `Sink.close`."""
        self._sink.close()
        image = self._library.Image.new_from_file(str(self._plain), access="sequential")
        image.tiffsave(
            str(self._path),
            tile=True,
            pyramid=True,
            subifd=True,
            bigtiff=True,
            compression="deflate",
        )
        self._plain.unlink()


class _Zarr:
    """An array (rows, columns, channels) of zarr."""

    def __init__(self, path: Path, wanted: Wanted) -> None:
        library, tensor = import_extra("zarr", "zarr"), wanted.tensor
        shape = _rows_of(wanted), *(n for n in tensor.row_shape if n > 1)
        chunks = tuple(map(min, shape, (256, 1024, *shape[2:])))
        given = {} if wanted.done else {"shape": shape, "chunks": chunks, "dtype": tensor.dtype}
        self._array = library.open_array(str(path), mode="r+" if wanted.done else "w", **given)
        self._tensor = tensor

    def write(self, start: int, rows: np.ndarray, columns: slice = ALL) -> None:
        """See `Sink.write`."""
        stored = self._tensor.to_storage(rows)
        place = (slice(start, start + len(stored)), columns)[: self._array.ndim]
        width = stored.shape[1:2] if self._array.ndim > 1 else ()
        self._array[place] = stored.reshape(-1, *width, *self._array.shape[2:])

    def flush(self) -> None:
        """Every chunk is in its file."""

    close = flush


class _Microscope:
    """OME-Zarr: planes of channels, of which smaller images are made at the end."""

    def __init__(self, path: Path, wanted: Wanted) -> None:
        library, tensor = import_extra("zarr", "zarr"), wanted.tensor
        self._group = library.open_group(str(path), mode="r+" if wanted.done else "w")
        self._is_new = library.__version__ >= "3"
        columns = (*tensor.row_shape, 1)[0]
        self._tensor, self._channels = tensor, tensor.row_elements // columns
        self._axes = "cyx"[self._channels == 1 :]
        shape = (self._channels, _rows_of(wanted), columns)[-len(self._axes) :]
        self._array = self._group["0"] if wanted.done else self._add("0", shape)

    def _add(self, name: str, shape: tuple[int, ...]) -> Any:
        make = self._group.create_array if self._is_new else self._group.create_dataset
        chunks = tuple(map(min, shape, (1, 256, 1024)[-len(shape) :]))
        return make(name, shape=shape, chunks=chunks, dtype=self._tensor.dtype)

    def write(self, start: int, rows: np.ndarray, columns: slice = ALL) -> None:
        """See `Sink.write`."""
        stored = self._tensor.to_storage(rows)
        pixels = stored.reshape(len(stored), -1, self._channels).transpose(2, 0, 1)
        place = ..., slice(start, start + pixels.shape[1]), columns
        self._array[place] = pixels if len(self._axes) > 2 else pixels[0]

    def flush(self) -> None:
        """Every chunk is in its file."""

    def close(self) -> None:
        """See `Sink.close`."""
        arrays = [self._array]
        while max(arrays[-1].shape[-2:]) > _SMALL and min(arrays[-1].shape[-2:]) > 1:
            arrays.append(self._shrink(arrays[-1], str(len(arrays))))
        types = {"c": "channel", "y": "space", "x": "space"}
        axes = [{"name": one, "type": types[one]} for one in self._axes]
        datasets = [
            {
                "path": str(k),
                "coordinateTransformations": [
                    {
                        "type": "scale",
                        "scale": [1.0 if one == "c" else 2.0**k for one in self._axes],
                    }
                ],
            }
            for k in range(len(arrays))
        ]
        scales = [{"axes": axes, "datasets": datasets, "version": "0.4"}]
        new = {"ome": {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}}
        self._group.attrs.update(new if self._is_new else {"multiscales": scales})

    def _shrink(self, array: Any, name: str) -> Any:
        """An image of half the size: means of pixels; of classes, which are integers of one channel, every other one."""
        rows, columns = (n // 2 for n in array.shape[-2:])
        half = self._add(name, (*array.shape[:-2], rows, columns))
        whole = array.dtype.kind in "iu"
        for row in range(0, rows, 256):
            band = array[..., 2 * row : 2 * min(rows, row + 256), : 2 * columns]
            pixels = band.reshape(*band.shape[:-2], -1, 2, columns, 2)
            are_classes = whole and array.ndim == 2
            means = pixels[..., 0, :, 0] if are_classes else pixels.mean((-3, -1))
            half[..., row : row + 256, :] = np.rint(means) if whole else means
        return half


def _rows_of(wanted: Wanted) -> int:
    if wanted.rows is None:
        raise InputError(
            "needs the number of rows, which the source does not tell; write .raw, or .wav"
        )
    return wanted.rows


def _raw(path: Path, wanted: Wanted) -> Sink:
    """Numbers of the output's type without a header, row by row."""
    if str(path) == STDIN or wanted.rows is None:
        return _Raw(path, wanted)
    tensor = wanted.tensor
    mode: Any = "r+" if wanted.done else "w+"
    shape = wanted.rows, *tensor.row_shape
    return _Mapped(np.memmap(path, np.dtype(tensor.dtype), mode, shape=shape), tensor, stored=True)


class _Raw:
    """Such rows, of which nobody knows how many there will be."""

    def __init__(self, path: Path, wanted: Wanted) -> None:
        self._tensor = wanted.tensor
        if str(path) == STDIN:
            self._file: Any = sys.stdout.buffer
            return
        self._file = path.open("r+b" if wanted.done else "wb")
        self._file.truncate(wanted.done * wanted.tensor.row_bytes)
        self._file.seek(0, 2)

    def write(self, start: int, rows: np.ndarray, columns: slice = ALL) -> None:
        """See `Sink.write`."""
        self._file.write(np.ascontiguousarray(self._tensor.to_storage(rows)).tobytes())

    def flush(self) -> None:
        """See `Sink.flush`."""
        self._file.flush()

    close = flush


class _Sound:
    """Samples of a sound in float32, or what its format has instead."""

    def __init__(self, path: Path, wanted: Wanted) -> None:
        library, tensor = import_extra("soundfile", "audio"), wanted.tensor
        self._tensor = tensor
        if wanted.done:
            self._file = library.SoundFile(path, "r+")
            self._file.seek(wanted.done)
            return
        subtype = "FLOAT" if path.suffix.lower() in (".wav", ".w64", ".aiff", ".aif") else None
        self._file = library.SoundFile(path, "w", wanted.source.rate, tensor.row_elements, subtype)

    def write(self, start: int, rows: np.ndarray, columns: slice = ALL) -> None:
        """See `Sink.write`."""
        self._file.write(self._tensor.to_storage(rows).reshape(-1, self._tensor.row_elements))

    def flush(self) -> None:
        """See `Sink.flush`."""
        self._file.flush()

    def close(self) -> None:
        """See `Sink.close`."""
        self._file.close()


_SMALL = 256
"""Rows and columns of an image of which no smaller ones are made."""

SINKS: dict[str, Callable[[Path, Wanted], Sink]] = {
    ".npy": _array,
    ".raw": _raw,
    ".pcm": _raw,
    ".tif": _picture,
    ".tiff": _picture,
    ".ptif": _Pyramid,
    ".zarr": _Zarr,
    **dict.fromkeys(SOUNDS, _Sound),
}
"""Suffix -> what writes the file."""


def open_sink(path: Path, wanted: Wanted) -> Sink:
    """A file for rows. Raises InputError."""
    make = _raw if str(path) == STDIN else SINKS[path.suffix.lower()]
    make = _Microscope if path.name.lower().endswith(".ome.zarr") else make
    try:
        return make(path, wanted)
    except InputError as error:
        raise error.at(str(path)) from None
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"cannot be written: {error}", where=str(path)) from None
