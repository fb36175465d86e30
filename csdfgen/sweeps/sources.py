"""What does a plan depend on besides its options? On files, the code of csdfgen, and the instructions of native kernels.

Each has a digest, which is part of the name of a kept point, and which a worker on another machine compares with its
own.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from csdfgen.backends.registry import load_backend
from csdfgen.devices.catalogue import HOST, HOST_FILE
from csdfgen.errors import InputError
from csdfgen.files import file_digest
from csdfgen.reading.digest import model_digest
from csdfgen.reading.zoo import is_zoo_name
from csdfgen.sweeps.spec import Point

_PACKAGES = ("csdfgen", "schedules", "runtime", "zoo_models")
_CODE = (".py", ".toml", ".c", ".h")


@cache
def program_digest() -> str:
    """Hexadecimal digits of a digest of the code of csdfgen, including its version."""
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
    """The instruction set that the kernels of a backend are built for, which determines their scratch; "" for kernels that
    are not built. Raises ToolError if they cannot be built.
    """
    kernels = load_backend(backend)
    return "" if kernels.code == kernels.name else kernels.code


def locate_model(folder: str, name: str) -> str:
    """A name in the file as this process uses it: names of the zoo are unchanged, and files are relative to the folder of
    the file.

    >>> locate_model("/home/a", "net.onnx"), locate_model("/home/a", "zoo:lenet5"), locate_model("/home/a", "x=y.npy")
    ('/home/a/net.onnx', 'zoo:lenet5', 'x=/home/a/y.npy')
    """
    if is_zoo_name(name):
        return name
    put, equals, file = name.partition("=")
    if equals and not Path(folder, name).exists():  # the input that reads the file
        return f"{put}={Path(folder, file)}"
    return str(Path(folder, name))


def locate_device(folder: str, name: str) -> str:
    """The name of a device as this process uses it: that of a profile that csdfgen ships, or a file."""
    if name == HOST:
        return locate_model(folder, str(HOST_FILE))
    return locate_model(folder, name) if name.endswith(".toml") else name


def digest_files(point: Point, folder: str) -> Mapping[str, str]:
    """Digests of the files of a point, by their names in the spec. Raises CsdfgenError for a missing file."""
    model = str(point.values["model"])
    found = {model: _model(locate_model(folder, model))}
    for name in _files_of(point, folder):
        found[name] = _content(locate_model(folder, str(HOST_FILE) if name == HOST else name))
    return found


def _files_of(point: Point, folder: str) -> Iterator[str]:
    """Names of the files other than the model."""
    device, tuning = point.values["device"], point.values["tuning"]
    if device and locate_device(folder, str(device)) != device:
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
    """The digest of a file, or of all files of a folder, with or without a leading NAME=."""
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
    """The digest of the content of files, which are read again only after they have changed."""
    found = hashlib.sha256()
    for name, _, _ in stamps:
        found.update(f"{Path(name).name}\n{file_digest(Path(name))}\n".encode())
    return found.hexdigest()
