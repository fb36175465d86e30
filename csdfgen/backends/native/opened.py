"""What does it take to run a compiled program? The kernels and its file: no model, no plan, no compiler.

`csdfgen_open` of csdfgen/backends/native/c/program.c maps the file, checks it, and puts addresses in. Weights are pages of
the file, which all processes share that run it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from contextlib import suppress
from math import prod
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np

from csdfgen.backends.native.prebuilt import list_suitable_libraries
from csdfgen.cache import get_folder, use
from csdfgen.errors import InputError
from csdfgen.files import MAX_INTEGER, Fields, parse_json
from csdfgen.model.given import name_arrays


class _Tensor(ctypes.Structure):
    """csdfgen_tensor"""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_char_p),
        ("output", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("bytes", ctypes.c_size_t),
    )


_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "about": (ctypes.c_char_p,), "tensors": (ctypes.c_int32,), "tensor_at": (_Tensor, ctypes.c_int32),
    "arena_bytes": (ctypes.c_size_t,), "constant_bytes": (ctypes.c_size_t,), "run": (None, ctypes.c_void_p), "close": (None,),
    "counts": (ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int32)),
}  # fmt: skip
"""Functions of csdfgen.h on a program -> type of the result, and of the other arguments."""

_STRINGS, _ABOUT = slice(80, 88), slice(40, 48)
"""Where the head has the first byte of all words, and that of the one that describes the program behind it."""


class _Form(NamedTuple):
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    output: bool


class CompiledProgram:
    """A compiled program: call it with inputs, get the outputs of a frame. Threads that share it wait for each other.

    about: what it was made of, and its figures. arena_bytes, constants_bytes: what it computes in, and what it reads.
    inputs, outputs: shape and type by name. Raises InputError for a file that is none, is damaged, or was compiled for
    another processor; ToolError if there are no kernels.
    """

    def __init__(self, path: str | Path) -> None:
        _check_file(Path(path))
        library = ctypes.CDLL(str(_library(Path(path))))
        for name, (result, *others) in _FUNCTIONS.items():
            function = getattr(library, f"csdfgen_{name}")
            function.restype, function.argtypes = result, [ctypes.c_void_p, *others]
        why = ctypes.create_string_buffer(512)
        library.csdfgen_open.restype = ctypes.c_void_p
        opened = library.csdfgen_open(bytes(Path(path)), why, len(why))
        if not opened:
            raise InputError(why.value.decode("utf-8", "replace"), where=str(path))
        self._program = ctypes.c_void_p(opened)
        finalize(self, library.csdfgen_close, self._program)
        self._run, self._turn = library.csdfgen_run, Lock()
        self.arena_bytes: int = library.csdfgen_arena_bytes(self._program)
        self.constants_bytes: int = library.csdfgen_constant_bytes(self._program)
        number = ctypes.c_int32()
        self._counts = library.csdfgen_counts(self._program, number)
        self.about = _described(library.csdfgen_about(self._program), str(path), number.value)
        try:
            count = library.csdfgen_tensors(self._program)
            tensors = [library.csdfgen_tensor_at(self._program, number) for number in range(count)]
            self._forms = [_form(one) for one in tensors]
        except (TypeError, ValueError):
            raise InputError("its tensors are none of this version", where=str(path)) from None
        self.inputs, self.outputs = (
            {one.name: (one.shape, one.dtype) for one in self._forms if one.output is written}
            for written in (False, True)
        )

    def __call__(self, x: np.ndarray | Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Execute a frame; the outputs by name. x: one array, or arrays by input name. Raises InputError if they do not fit, and
        for a NaN that a condition depends on.
        """
        given, arrays = name_arrays(x, [*self.inputs]), []
        for name, shape, dtype, output in self._forms:
            if output:
                arrays.append(np.empty(shape, dtype))
                continue
            array = given[name]
            if array.shape != shape or not np.can_cast(array.dtype, dtype, "same_kind"):
                raise InputError(
                    f"input '{name}' is {array.dtype} {array.shape}, the program takes {dtype} {shape}"
                )
            arrays.append(np.ascontiguousarray(array, dtype))
        places = (ctypes.c_void_p * len(arrays))(*(one.ctypes.data for one in arrays))
        with self._turn:
            before = self._nans()
            self._run(self._program, places)
            for why, count in self._nans().items():
                if count != before[why]:
                    raise InputError(why)
        return {one.name: a for one, a in zip(self._forms, arrays, strict=True) if one.output}

    def _nans(self) -> dict[str, int]:
        return {why: self._counts[k] for why, k in self.about["nans"].items()}

    @property
    def branches(self) -> dict[str, tuple[int, int]]:
        """Name of an If -> for how many images its condition was true, and false, in all frames so far."""
        places = self.about["branches"].items()
        found = {name: (self._counts[k + 1], self._counts[k]) for name, k in places}
        return {name: both for name, both in found.items() if any(both)}


def _described(text: bytes, where: str, counters: int) -> dict[str, Any]:
    """What a program tells of itself. Raises InputError for a key that is missing, or of another type."""
    found = Fields(parse_json(text, where), where)
    for key in ("network", "library"):
        found.text(key)
    found.integer("batch", low=1)
    found.integer("firings")
    found.child("inputs")
    found.integer("threads", low=1)
    for key, high in (("memory", MAX_INTEGER), ("branches", counters - 2), ("nans", counters - 1)):
        inner = found.child(key)
        for name in inner.value:
            inner.integer(name, high=high)
    return dict(found.value)


def _library(path: Path) -> Path:
    """The kernels that a program was compiled with, if they are in the wheel or in the cache: that is found without a
    compiler. Else those of this machine, which tell whether they can run it.
    """
    with suppress(InputError):
        name = Path(read_description(path).text("library")).name
        for _, _, found in list_suitable_libraries():
            if found.name == name:
                return found
        found = get_folder("native") / name
        if found.suffix == ".so" and use(found):
            return found
    from csdfgen.backends.native.library import load

    return load().path


def read_description(path: Path) -> Fields:
    """What a file tells of itself, before anything of it is checked. Raises InputError if that cannot be read."""
    _check_file(path)
    try:
        with path.open("rb") as file:
            head = file.read(_STRINGS.stop)
            file.seek(sum(int.from_bytes(head[one], "little") for one in (_STRINGS, _ABOUT)))
            text = file.read(_LONGEST).partition(b"\0")[0]
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", where=str(path)) from None
    return Fields(parse_json(text, str(path)), str(path))


def _check_file(path: Path) -> None:
    """Raise InputError for what is no file: a pipe would wait for a writer."""
    if not path.is_file():
        raise InputError("it cannot be read: there is no such file", where=str(path))


_LONGEST = 1 << 20
"""Bytes of a description that are read before the file is checked."""


def _form(tensor: _Tensor) -> _Form:
    """Name, shape and type of an input or output. Raises TypeError or ValueError for a type that there is not."""
    kind = tensor.type.decode()
    if kind.startswith(("bfloat", "float8")):
        import ml_dtypes  # noqa: F401 - makes the types known to numpy
    name, shape = tensor.name.decode("utf-8", "replace"), tuple(tensor.sizes[: tensor.rank])
    dtype = np.dtype(kind)
    if dtype.hasobject or prod(shape) * dtype.itemsize != tensor.bytes:
        raise ValueError(kind)
    return _Form(name, shape, dtype, bool(tensor.output))
