"""Files that can be made again: compiled kernels, their binaries on devices, packed weights and compiled programs.

Folders and files are the user's alone. What another user owns or can write is not loaded: a library runs with all rights of
the process. The least recently used files are removed once all take more than a limit, but for those that a process uses:
it holds a shared lock on each, and the time of the last use is the file's time of access.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from csdfgen.errors import InputError, ToolError
from csdfgen.files import cache_folder
from csdfgen.model.units import parse_size

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


_LOG = logging.getLogger(__name__)

_LIMIT = "2GiB"
_STALE = 3600
"""Seconds after which a file that is not complete was left by a process that has ended."""

_HELD: dict[Path, int] = {}
"""Files that this process uses, with their descriptors."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, or the folder of a build that has not ended. kind: the folder that it is in. used: seconds since the epoch."""

    path: Path
    kind: str
    nbytes: int
    used: float


def get_folder(kind: str) -> Path:
    """The folder of a kind of files, made for the user alone; another one where the user's own cannot be made, or cannot be
    trusted, which is said. Raises ToolError.
    """
    folder, why = cache_folder(kind), ""
    try:
        with suppress(OSError):  # no home, or one that cannot be written
            why = _make(folder)
            if not why:
                return folder
        other = _temporary()
        if _make(other / kind):
            other = _own_folder()
            _make(other / kind)
    except OSError as error:
        said = f"{error.strerror or error}; XDG_CACHE_HOME names another place"
        raise ToolError(said, where=str(error.filename or folder)) from None
    if why:
        _LOG.warning("%s; until then %s is used", why, other)
    return other / kind


def _temporary() -> Path:
    """The user's folder among temporary files, for those who have no other."""
    return Path(tempfile.gettempdir()) / f"csdfgen-{getattr(os, 'getuid', int)()}"


def places() -> list[Path]:
    """Where files of all kinds can be: the user's folder, and the one among temporary files, if they are the user's alone."""
    found = []
    for one in (cache_folder(""), _temporary()):
        with suppress(OSError):
            if not _distrust(one):
                found.append(one)
    return found


def _make(folder: Path) -> str:
    """Make a folder and the one of all kinds; why it cannot be trusted, "" if it can. Raises OSError."""
    for one in (*reversed(folder.parents), folder):
        if not one.is_dir():
            with suppress(FileExistsError):  # of another process
                one.mkdir(mode=0o700)
    for one in (folder.parent, folder):  # made by an older version, or with another umask
        if hasattr(os, "getuid") and one.stat().st_uid == os.getuid():
            one.chmod(0o700)
    return _distrust(folder)


@cache
def _own_folder() -> Path:
    """A folder that is gone with this process."""
    found = Path(tempfile.mkdtemp(prefix="csdfgen-"))
    atexit.register(shutil.rmtree, found, ignore_errors=True)
    return found


def _distrust(path: Path) -> str:
    """Why a file or folder may not be used, as a sentence; "" if it may. Folders above must be such that others cannot
    replace what is in them. Raises OSError.
    """
    if not hasattr(os, "getuid"):
        return ""
    whole = path.resolve()
    for one in (whole, *whole.parents):
        found = one.stat()
        shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH if one == whole else stat.S_IWOTH)
        if found.st_uid not in (os.getuid(), 0):
            return (
                f"{one} belongs to user {found.st_uid}, not to {os.getuid()}, and nothing is loaded from it; remove it, or set "
                "XDG_CACHE_HOME to another folder"
            )
        if shared and (one == whole or not found.st_mode & stat.S_ISVTX):
            return (
                f"{one} can be written by others, and nothing is loaded from it; chmod go-w {one}"
            )
    return ""


def use(path: Path) -> bool:
    """Whether a file may be loaded: it is there, and nobody else can have written it. It is then not removed while this
    process runs. What may not be loaded is said, and removed if possible.
    """
    try:
        why = _distrust(path)
        if why:
            _LOG.warning("%s", why)
            path.unlink()
            return False
        if path in _HELD and not os.path.samestat(os.fstat(_HELD[path]), path.stat()):
            release(path)  # another file has its place
        if path not in _HELD:
            _HELD[path] = os.open(path, os.O_RDONLY)
            if fcntl is not None:
                with suppress(OSError):  # not on all file systems
                    fcntl.flock(_HELD[path], fcntl.LOCK_SH)
        found = path.stat()  # it may have been removed before it was locked
        with suppress(OSError):
            os.utime(path, ns=(time.time_ns(), found.st_mtime_ns))
    except OSError:
        release(path)
        return False
    return True


def release(path: Path) -> None:
    """End the use of a file."""
    if path in _HELD:
        os.close(_HELD.pop(path))


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Other processes wait here while one builds, so that none builds the same again. Not on all file systems."""
    if fcntl is None:
        yield
        return
    held = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


# What is there -----------------------------------------------------------------------------------


def limit() -> int:
    """Bytes that the cache may take. Raises InputError for a value of CSDFGEN_CACHE_LIMIT that is no size."""
    asked = os.environ.get("CSDFGEN_CACHE_LIMIT") or _LIMIT
    try:
        return parse_size(asked)
    except InputError:
        raise InputError(
            f"CSDFGEN_CACHE_LIMIT is {asked!r}; a size such as {_LIMIT} is needed"
        ) from None


def list_entries() -> list[Entry]:
    """Everything in the cache, the least recently used first."""
    found = []
    for place in places():
        for path in place.glob("*/*"):
            with suppress(OSError):
                parts = [one.lstat() for one in (path, *path.glob("*"))]
                size = sum(one.st_size for one in parts if stat.S_ISREG(one.st_mode))
                used = max(max(one.st_atime, one.st_mtime) for one in parts)
                found.append(Entry(path, path.parent.name, size, used))
    return sorted(found, key=lambda one: (one.used, one.path))


def prune() -> None:
    """Remove what was not used for longest, until the rest is within the limit. Raises InputError as `limit`."""
    left = list_entries()
    total, most = sum(one.nbytes for one in left), limit()
    for one in left:
        if total <= most:
            break
        total -= one.nbytes if remove(one) else 0


def remove(entry: Entry) -> bool:
    """Remove an entry, unless a process uses it or makes it. Returns whether it is gone."""
    path = entry.path
    making = path.is_dir() or path.name.startswith(".")
    if making and time.time() - entry.used < _STALE:
        return False
    try:
        held = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return not path.exists()
    try:
        if fcntl is not None:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    except OSError:
        return False
    finally:
        os.close(held)
    return True
