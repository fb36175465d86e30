"""What does a plan depend on beside its options? Files, csdfgen's own code, the instructions of native kernels.

Each has a digest: points that are kept are found by it, and a worker on another machine holds its own against it.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from csdfgen.backends.registry import kernels_of
from csdfgen.devices.catalogue import HOST, HOST_FILE
from csdfgen.errors import InputError
from csdfgen.reading.digest import file_digest, model_digest
from csdfgen.reading.zoo import is_zoo_name
from csdfgen.sweeps.spec import Point

__all__ = ["digests_of", "instructions", "located", "program_digest"]

_PACKAGES = ("csdfgen", "schedules", "runtime", "zoo_models")
_CODE = (".py", ".toml", ".c", ".h")


@cache
def program_digest() -> str:
    """Hexadecimal digits of csdfgen's own code, its version among it."""
    found = hashlib.sha256()
    for package in _PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.submodule_search_locations
        root = Path(spec.submodule_search_locations[0])
        for path in sorted(one for one in root.rglob("*") if one.suffix in _CODE):
            found.update(f"{package}/{path.relative_to(root).as_posix()}\n".encode())
            found.update(path.read_bytes())
    return found.hexdigest()


@cache
def instructions(backend: str) -> str:
    """The instruction set that the kernels of a backend are built for, on which their scratch depends; "" where they are
    built for none. Raises ToolError where they cannot be built.
    """
    kernels = kernels_of(backend)
    return "" if kernels.code == kernels.name else kernels.code


def located(folder: str, name: str) -> str:
    """A name in the file as this process finds it: a model of the zoo and a device that is built in stand for
    themselves, files are looked for from the file's folder on.

    >>> located("/home/a", "net.onnx"), located("/home/a", "zoo:lenet5"), located("/home/a", "x=y.npy")
    ('/home/a/net.onnx', 'zoo:lenet5', 'x=/home/a/y.npy')
    """
    if is_zoo_name(name):
        return name
    put, equals, file = name.partition("=")
    if equals and not Path(folder, name).exists():  # the input that a file is for
        return f"{put}={Path(folder, file)}"
    return str(Path(folder, name))


def device_located(folder: str, name: str) -> str:
    """The same of a device: the name of a profile that is built in, or a file."""
    if name == HOST:
        return located(folder, str(HOST_FILE))
    return located(folder, name) if name.endswith(".toml") else name


def digests_of(point: Point, folder: str) -> Mapping[str, str]:
    """Digests of what a point reads, by the names in the file. Raises CsdfgenError for what is not there."""
    model = str(point.values["model"])
    found = {model: _model(located(folder, model))}
    for name in _files_of(point, folder):
        found[name] = _content(located(folder, str(HOST_FILE) if name == HOST else name))
    return found


def _files_of(point: Point, folder: str) -> Iterator[str]:
    """Names of what is no model."""
    device, tuning = point.values["device"], point.values["tuning"]
    if device and device_located(folder, str(device)) != device:
        yield str(device)
    if tuning:
        yield str(tuning)
    if point.values["formats"]:
        yield from point.calibration.files


def _model(source: str) -> str:
    if is_zoo_name(source) or not Path(source).is_file():
        return model_digest(source)
    stamp = Path(source).stat()
    return _model_now(source, stamp.st_mtime_ns, stamp.st_size)


@cache
def _model_now(source: str, changed: int, size: int) -> str:
    return model_digest(source)


def _content(source: str) -> str:
    """Of a file, or of all files of a folder; with NAME= before it or without."""
    path = Path(source)
    if not path.exists():
        path = Path(source.partition("=")[2] or source)
    try:
        files = sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else [path]
        parts = [(one, one.stat()) for one in files]
        return _content_now(tuple((str(one), s.st_mtime_ns, s.st_size) for one, s in parts))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=str(path)) from None


@cache
def _content_now(stamps: tuple[tuple[str, int, int], ...]) -> str:
    """What files hold; the same content is not read again as long as they are not written."""
    found = hashlib.sha256()
    for name, _, _ in stamps:
        found.update(f"{Path(name).name}\n{file_digest(Path(name))}\n".encode())
    return found.hexdigest()
