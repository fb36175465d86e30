"""Where are the weights of a program if not in memory of its process? In a file that is mapped, packed as kernels read them.

Processes that run one program share the pages of its file, and the system reads a page when a kernel does and may take it
back at any time: weights of experts that are not chosen are never read, and a network may have more weights than the machine
has memory. Each array is written as soon as it is packed. It is found again by what it was made of: the code that packed
it, numbers, and arrays of weights, which are known by their bytes, or by file and place where they are mapped themselves.

The file is a cache (`csdfgen.cache`). It appears complete or not at all, and is written again if it is damaged,
was changed (its time is part of it), or lacks an array.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import mmap
import os
import struct
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary, finalize

import numpy as np

from csdfgen.cache import release, use
from csdfgen.errors import InputError, option
from csdfgen.files import MappedFile, file_digest, find_mapped_file, map_file, release_pages
from csdfgen.model.deferred import Deferred, compute_array
from csdfgen.program.instructions import CUT, KEEPER, get_address, view_bytes

LEAST = mmap.PAGESIZE
"""Bytes of an array below which it stays in memory."""

_FEW = LEAST + 64
"""Bytes of memory that an array below that may take, with those that align it."""

_SEGMENT = 1 << 28
"""Bytes of a file that is being written that are mapped at a time; those that stay empty take no space."""

_PIECE = 1 << 24
"""Bytes of weights that are packed at a time, if they may be cut."""

_END = struct.Struct("<16sQQ32s")
"""What a file ends with: a word, where its index starts, the bytes of the index and their digest."""

_WORD = b"csdfgen-weights1"

_MAPPED: WeakValueDictionary[str, np.ndarray] = WeakValueDictionary()
"""Arrays that programs of this process have: plans for several batches share them, whichever file they are in."""


class WeightFile:
    """Packed weights, of a file that exists or is being written. path: of the file. build: what packs them."""

    def __init__(self, path: Path, build: str) -> None:
        self.path, self._build = path, build
        self._arrays: dict[str, np.ndarray] = {}
        self._old: MappedFile | None = None
        self._index: dict[str, tuple[int, str, list[int]]] = {}
        self._new: dict[str, tuple[int, str, list[int]]] = {}
        self._fd, self._part, self._end = -1, "", 0
        self._segments: list[tuple[int, MappedFile]] = []
        self._sources: dict[int, MappedFile] = {}
        with suppress(OSError, ValueError, KeyError, TypeError, struct.error):
            self._open()

    def _open(self) -> None:
        """Read the index of the file that is there. Raises anything if it is damaged."""
        if not use(self.path):
            return
        file = map_file(self.path)
        finalize(file, release, self.path)
        word, start, size, digest = _END.unpack(file[-_END.size :])
        text = file[start : start + size]
        if word != _WORD or start + size + _END.size != len(file):
            raise ValueError("is no such file")
        if hashlib.sha256(text).digest() != digest:
            raise ValueError("is damaged")
        found = json.loads(text)
        if found["written"] != self.path.stat().st_mtime:
            raise ValueError("was changed")
        self._index, self._old = found["arrays"], file

    # Arrays --------------------------------------------------------------------------------------

    def kept(
        self, pack: Callable[..., np.ndarray], given: tuple[Any, ...], axis: int | None = None
    ) -> np.ndarray:
        """See `Keeper.kept`."""
        parts = [self._build, _code_of(pack), *map(self._named, given)]
        key = hashlib.sha256("|".join(parts).encode()).hexdigest()[:32]
        found = self._found(key)
        if found is None:
            token = KEEPER.set(None)
            try:
                pieces = _pieces(given, axis)
                found = pack(*map(compute_array, pieces[0]))
                if found.nbytes >= LEAST:
                    rest = (pack(*map(compute_array, one)) for one in pieces[1:])
                    found = self._write(key, found, rest, len(pieces))
            finally:
                KEEPER.reset(token)
            release_pages(self._sources.values())
        return found

    def moved(self, values: np.ndarray) -> np.ndarray:
        """The bytes of an array: where they are in a file, in this one, or in memory if they are few."""
        source = find_mapped_file(values)
        if source is not None:
            self._sources[id(source)] = source
        if values.nbytes < _FEW or source is not None:
            return values
        key = hashlib.sha256(view_bytes(values)).hexdigest()[:32]
        found = self._found(key)
        return self._write(key, values) if found is None else found

    def _found(self, key: str) -> np.ndarray | None:
        found = self._arrays.get(key)
        if found is None:
            found = _MAPPED.get(key)
            if found is None and key in self._index:
                at, dtype, shape = self._index[key]
                found = _MAPPED[key] = np.ndarray(shape, dtype, self._old, at)
            if found is not None:
                self._arrays[key] = found
        return found

    def _named(self, array: Any) -> str:
        """What tells an array from all others, or another operand."""
        if isinstance(array, Deferred):
            return f"{_code_of(array.make)}({'|'.join(map(self._named, array.given))})"
        if not isinstance(array, np.ndarray):
            return repr(array)
        form = f"{array.dtype.str}{array.dtype.name}{array.shape}"
        file = find_mapped_file(array)
        if file is None:
            return f"{form}{hashlib.sha256(view_bytes(array)).hexdigest()}"
        self._sources[id(file)] = file
        at = get_address(array) - get_address(np.frombuffer(file, np.uint8))
        return f"{form}{array.strides}{at}:{file.identity}"

    def _write(
        self, key: str, values: np.ndarray, rest: Iterable[np.ndarray] = (), pieces: int = 1
    ) -> np.ndarray:
        """Put an array into the file that is being written. rest: behind it along its first axis, in all at most so many
        pieces, none larger than the first. Raises InputError where there is no space.
        """
        shape, dtype = values.shape, values.dtype
        try:
            if self._fd < 0:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._fd, self._part = tempfile.mkstemp(".part", ".", self.path.parent)
            at, rows = self._room(pieces * values.nbytes), 0
            self._end = at
            for one in chain([values], rest):
                data = view_bytes(one)
                while data:
                    written = os.pwrite(self._fd, data, self._end)
                    data, self._end = data[written:], self._end + written
                rows += one.shape[0]
                release_pages(self._sources.values())
        except OSError as error:
            raise self._failed(error) from None
        shape = rows, *shape[1:]
        self._new[key] = at, dtype.name, list(shape)
        start, segment = self._segments[-1]
        found = np.ndarray(shape, dtype, segment, at - start)
        self._arrays[key] = _MAPPED[key] = found
        return found

    def _room(self, size: int) -> int:
        """Where so many bytes go, in pages of their own. Raises OSError."""
        at = self._end + -self._end % mmap.ALLOCATIONGRANULARITY
        if not self._segments or at + size > self._segments[-1][0] + len(self._segments[-1][1]):
            length = max(size, _SEGMENT)
            os.ftruncate(self._fd, at + length)
            made = MappedFile(self._fd, length, access=mmap.ACCESS_READ, offset=at)
            made.identity = f"{self._part}:{at}"
            self._segments.append((at, made))
        self._end = at + size
        return at

    def _failed(self, error: OSError) -> InputError:
        way = option("weights", "copied")
        return InputError(
            f"packed weights cannot be written: {error.strerror or error}; make room there, set XDG_CACHE_HOME to another "
            f"folder, or use {way}, which writes none",
            where=str(self.path.parent),
        )

    # The end -------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Give the file its name, with all arrays that were asked for, and give back the pages that were read. Raises
        InputError.
        """
        if self._new:
            for key, values in list(self._arrays.items()):
                if key not in self._new:
                    self._write(key, values)
            written = int(time.time())
            text = json.dumps({"written": written, "arrays": self._new}).encode()
            end = _END.pack(_WORD, self._end, len(text), hashlib.sha256(text).digest())
            try:
                os.pwrite(self._fd, text + end, self._end)
                os.ftruncate(self._fd, self._end + len(text) + len(end))
                os.utime(self._part, (written, written))
                Path(self._part).replace(self.path)
                use(self.path)
            except OSError as error:
                raise self._failed(error) from None
        release_pages([*self._sources.values(), *(one for _, one in self._segments), self._old])

    def close(self) -> None:
        """Nothing is written from now on; what was not finished is gone."""
        if self._fd >= 0:
            os.close(self._fd)
            Path(self._part).unlink(missing_ok=True)
            self._fd = -1


@contextmanager
def weight_file(path: Path, build: str) -> Iterator[WeightFile]:
    """A file that keeps what is packed meanwhile; it is finished in the end. Raises InputError if it cannot be written."""
    if not hasattr(os, "pwrite"):
        raise InputError(
            f"{option('weights', 'mapped')} needs a POSIX system; use {option('weights', 'copied')}"
        )
    file = WeightFile(path, build)
    token = KEEPER.set(file)
    try:
        yield file
        file.finish()
    finally:
        KEEPER.reset(token)
        file.close()


def _pieces(given: tuple[Any, ...], axis: int | None) -> list[tuple[Any, ...]]:
    """Arguments, the first cut along an axis into parts of some `_PIECE` bytes that may be packed one after the other."""
    whole, *more = given
    if axis is None or whole.nbytes <= _PIECE:
        return [given]
    axis, size = axis % whole.ndim, whole.shape[axis]
    each = max(CUT, _PIECE * size // whole.nbytes // CUT * CUT)
    cuts = (slice(at, at + each) for at in range(0, size, each))
    return [(whole[(slice(None),) * axis + (cut,)], *more) for cut in cuts]


@cache
def _code_of(pack: Callable[..., np.ndarray]) -> str:
    """What tells a function from its other versions."""
    return f"{pack.__qualname__}:{_module_digest(inspect.getfile(pack))}"


@cache
def _module_digest(path: str) -> str:
    return file_digest(Path(path))


_PRESENT = np.uint64(1 << 63)


def resident_bytes(arrays: Iterable[np.ndarray]) -> int | None:
    """How many bytes of arrays are in memory of this process; None where the system does not say.

    Source: the Linux kernel's Documentation/admin-guide/mm/pagemap.rst.
    """
    found, page = 0, mmap.PAGESIZE
    try:
        with Path("/proc/self/pagemap").open("rb", buffering=0) as pages:
            for array in arrays:
                start, end = get_address(array), get_address(array) + array.nbytes
                first, behind = start // page, -(-end // page)
                pages.seek(8 * first)
                there = np.frombuffer(pages.read(8 * (behind - first)), np.uint64) & _PRESENT != 0
                held = np.full(len(there), page)
                if len(held):
                    held[0] -= start % page
                    held[-1] -= -end % page
                found += int(held[there].sum())
    except OSError:
        return None
    return found
