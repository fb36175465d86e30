"""How are the structures of the kernels laid out? As the headers of csdfgen/backends/native/c declare them, once for everybody.

The headers keep to a small part of C: `typedef struct NAME { ... } NAME;` of integers, floats, pointers, arrays and
other structures, `enum { ... }` and `#define NAME NUMBER`. From them come the records that the families fill in, the
bytes that the host's kernels read, what emitted source declares, and the constants that Python and C share. An instruction
of the native backend is a kernel on such a record; records and constants of one family are in its own file.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from csdfgen.errors import PlanError
from csdfgen.program.instructions import Instruction

SOURCES = Path(__file__).parent / "c"
"""Where the C files are."""

_FORMATS = MappingProxyType(
    {"int32_t": "i", "float": "f", "double": "d", "ptrdiff_t": "n", "size_t": "N"}
)
"""Types of numbers in C -> their letters in `struct`."""

_CTYPES = MappingProxyType(
    {
        "int32_t": ctypes.c_int32,
        "float": ctypes.c_float,
        "double": ctypes.c_double,
        "ptrdiff_t": ctypes.c_ssize_t,
        "size_t": ctypes.c_size_t,
    }
)

POINTER = struct.calcsize("P")
"""Bytes of a pointer of this machine."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One number or pointer of a structure without its nesting. type: in C; of a pointer what it points to. offset: in
    bytes.
    """

    offset: int
    type: str
    pointer: bool


@dataclass(frozen=True, slots=True)
class Field:
    """A field as it is declared. type: in C; of a pointer what it points to. count: elements of an array, 0 for one that
    is none. inner: of a nested structure.
    """

    name: str
    type: str
    pointer: bool
    count: int
    inner: Structure | None

    def extent(self, pointer: int = POINTER) -> tuple[int, int]:
        """Bytes of one element, and what its place is a multiple of. pointer: bytes of a pointer."""
        if self.inner is not None:
            return self.inner.extent(pointer)
        letter = "P" if self.pointer else _FORMATS[self.type]
        size = pointer if letter in "nNP" else struct.calcsize(letter)
        return size, size


class Structure:
    """A structure of the kernels.

    name: in C. fields: as declared. size, alignment: in bytes, on this machine. slots: its numbers and pointers from
    the outside in. numbers, pointers: pick these out of the values of all slots; joined: puts numbers, and pointers
    behind them, in the order of the slots. record: a named tuple of the fields, whose pointers are None or a `Ref`,
    whose nested structures are records, and whose arrays are tuples that may be shorter; what is left out is zero.
    """

    def __init__(self, name: str, fields: Sequence[Field]) -> None:
        self.name, self.fields = name, tuple(fields)
        slots: list[Slot] = []
        end = 0
        for field in fields:
            size, alignment = field.extent()
            end += -end % alignment
            for _ in range(max(1, field.count)):
                if field.inner is None:
                    slots.append(Slot(end, field.type, field.pointer))
                else:
                    slots += [
                        Slot(end + one.offset, one.type, one.pointer) for one in field.inner.slots
                    ]
                end += size
        self.size, self.alignment = self.extent()
        self.slots: tuple[Slot, ...] = tuple(slots)
        order = sorted(range(len(slots)), key=lambda k: slots[k].pointer)
        count = sum(not slot.pointer for slot in slots)
        self.numbers, self.pointers = _picked(order[:count]), _picked(order[count:])
        self.joined = _picked(sorted(range(len(order)), key=order.__getitem__))
        self.record: Any = _record(name, fields)
        self._packer = struct.Struct(self._format())
        nested = [
            (at, field) for at, field in enumerate(fields) if field.inner is not None or field.count
        ]
        self._inner = tuple(reversed(nested))  # what is replaced moves what is behind it

    def __repr__(self) -> str:
        return f"Structure({self.name!r})"

    def extent(self, pointer: int = POINTER) -> tuple[int, int]:
        """Its bytes, and what its place is a multiple of. pointer: bytes of a pointer."""
        end, most = 0, 1
        for field in self.fields:
            size, alignment = field.extent(pointer)
            end += -end % alignment + size * max(1, field.count)
            most = max(most, alignment)
        return end + -end % most, most

    def _format(self) -> str:
        """Of `struct`, with the bytes between fields."""
        letters, end = ["="], 0
        for slot in self.slots:
            letter = "P" if slot.pointer else _FORMATS[slot.type]
            letters.append(f"{slot.offset - end}x{_plain(letter)}")
            end = slot.offset + struct.calcsize(letter)
        return "".join((*letters, f"{self.size - end}x"))

    def flat(self, record: Sequence[Any]) -> list[Any]:
        """The values of a record, one for each of the slots."""
        found = list(record)
        for at, field in self._inner:
            value, inner = found[at], field.inner
            if not field.count:
                assert inner is not None
                found[at : at + 1] = inner.flat(value)
                continue
            filled = (*value, *(_zero_of(field),) * (field.count - len(value)))
            found[at : at + 1] = filled if inner is None else chain(*map(inner.flat, filled))
        return found

    def nested(self, values: Sequence[Any]) -> Any:
        """The record with these values of its slots: the other way round."""
        rest = iter(values)

        def one(field: Field) -> Any:
            return next(rest) if field.inner is None else made(field.inner)

        def made(whole: Structure) -> Any:
            return whole.record(
                *(
                    tuple(one(field) for _ in range(field.count)) if field.count else one(field)
                    for field in whole.fields
                )
            )

        return made(self)

    def pack_into(self, memory: Any, offset: int, values: Sequence[Any]) -> None:
        """Write the values of all slots, pointers as addresses, NULL as 0."""
        self._packer.pack_into(memory, offset, *values)


def _record(name: str, fields: Sequence[Field]) -> Any:
    """The named tuple of a structure: `csdf_conv_step` is a `ConvStep`."""
    words = name.removeprefix("csdf_").split("_")
    names, zeros = [field.name for field in fields], [_zero(field) for field in fields]
    return namedtuple("".join(map(str.title, words)), names, defaults=zeros)


def _plain(letter: str) -> str:
    """The letter of equal size that `struct` knows in formats without an alignment of its own."""
    return (
        {"n": "q", "N": "Q", "P": "Q"}[letter]
        if letter in "nNP" and POINTER == 8
        else ({"n": "i", "N": "I", "P": "I"}.get(letter, letter))
    )


def _zero(field: Field) -> Any:
    return () if field.count else _zero_of(field)


def _zero_of(field: Field) -> Any:
    """Of one element, where the field is an array."""
    if field.inner is not None:
        return field.inner.record()
    return None if field.pointer else 0


# What the headers declare -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Declared:
    """structures: by name. constants: of `enum` and `#define`. takes: function without `csdf_` -> what its one argument
    points to.
    """

    structures: Mapping[str, Structure]
    constants: Mapping[str, int]
    takes: Mapping[str, str]


_STRUCT = re.compile(r"typedef struct \w+ \{([^{}]*)\} (\w+);")
_DECLARATOR = re.compile(r"(\**)(?:const\s*)?(\**)(\w+)(?:\[(\w+)\])?")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|\d+")


@cache
def _declared() -> _Declared:
    """All headers that declare structures."""
    texts = [re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S) for path in _read()]
    constants: dict[str, int] = {}
    for text in texts:
        for name, value in re.findall(r"^#define (CSDF_\w+) (\S+)$", text, re.M):
            if _NUMBER.fullmatch(value):
                constants[name] = int(value, 0)
        for body in re.findall(r"enum \{([^{}]*)\}", text):
            pairs = re.findall(r"(\w+) = (\w+)", body)
            constants |= {name: int(value, 0) for name, value in pairs if _NUMBER.fullmatch(value)}
    structures: dict[str, Structure] = {}
    for text in texts:
        for body, name in _STRUCT.findall(text):
            found = _fields(body, structures, constants)
            if found is not None:
                structures[name] = Structure(name, found)
    takes = {
        name: of
        for text in texts
        for name, of in re.findall(r"void csdf_(\w+)\(const (csdf_\w+) \*\w+\);", text)
    }
    return _Declared(structures, constants, takes)


def _read() -> list[Path]:
    """The headers, each behind those that it builds on."""
    return [SOURCES / name for name in ("strided.h", "csdf.h", "team.h", "program.h")]


def _fields(
    body: str, known: Mapping[str, Structure], constants: Mapping[str, int]
) -> list[Field] | None:
    """The fields of a structure; None of one that no step has, with types of its own."""
    found: list[Field] = []
    for line in body.split(";"):
        line = " ".join(line.split())
        if not line:
            continue
        function = re.fullmatch(r"void \(\*(\w+)\)\(.*\)", line)
        if function is not None:
            found.append(Field(function[1], "function", True, 0, None))
            continue
        words = re.fullmatch(r"((?:const )?\w+) ?(.*)", line)
        assert words is not None, line
        base, declarators = words[1], words[2]
        for one in declarators.split(","):
            parts = _DECLARATOR.fullmatch(one.strip().replace("* ", "*"))
            assert parts is not None, line
            outer, inner, name, size = parts.groups()
            count = 0 if size is None else constants[size] if size in constants else int(size)
            stars = len(outer) + len(inner)
            if stars:
                to = base if stars == 1 else f"{base} *{'const' if '*const' in one else ''}"
                found.append(Field(name, to, True, count, None))
            elif base in known:
                found.append(Field(name, base, False, count, known[base]))
            elif base in _FORMATS:
                found.append(Field(name, base, False, count, None))
            else:
                return None
    return found or None


def structures() -> Iterable[str]:
    """The names of all structures in C, in the order in which the headers declare them."""
    return _declared().structures


def structure(name: str) -> Structure:
    """A structure by its name in C. Raises KeyError."""
    return _declared().structures[name]


def type_size(name: str, pointer: int = POINTER) -> int:
    """Bytes of a type of C where a pointer has so many bytes. Raises KeyError."""
    if "*" in name or _FORMATS.get(name, "") in ("n", "N"):
        return pointer
    return (
        struct.calcsize(_FORMATS[name]) if name in _FORMATS else structure(name).extent(pointer)[0]
    )


def constant(name: str) -> int:
    """A constant of the headers by its name in C. Raises KeyError."""
    return _declared().constants[name]


def constants(*names: str) -> tuple[int, ...]:
    """Several constants, without `CSDF_`. Raises KeyError."""
    return tuple(constant(f"CSDF_{name}") for name in names)


def declared_constants() -> Mapping[str, int]:
    """All constants of the headers, by their names in C."""
    return _declared().constants


@cache
def kernel_structure(kernel: str) -> Structure:
    """What a kernel, named without `csdf_`, works on: what its header declares, or else arrays with strides."""
    if kernel == "move":
        return structure("csdf_transfer")
    return structure(_declared().takes.get(kernel.removesuffix("_of"), "csdf_strided"))


@cache
def ctype(name: str) -> type[ctypes.Structure]:
    """A structure as `ctypes` has it. Raises KeyError."""
    found = structure(name)

    def kind(field: Field) -> Any:
        one: Any = ctypes.c_void_p
        if field.inner is not None:
            one = ctype(field.inner.name)
        elif not field.pointer:
            one = _CTYPES[field.type]
        return one * field.count if field.count else one

    fields = [(field.name, kind(field)) for field in found.fields]
    return type(found.record.__name__, (ctypes.Structure,), {"_fields_": fields})


# Instructions: a kernel on a record of the structure that it takes ---------------------------------


def instruction(kernel: str, record: tuple[Any, ...]) -> Instruction:
    """A kernel, named without `csdf_`, on a record of its structure."""
    found = kernel_structure(kernel)
    flat = found.flat(record)
    return Instruction(kernel, found.numbers(flat), found.pointers(flat))


def get_record(made: Instruction) -> Any:
    """The record of an instruction."""
    found = kernel_structure(made.kernel)
    return found.nested(list_slots(made))


def list_slots(made: Instruction, refs: Sequence[Any] | None = None) -> Sequence[Any]:
    """Numbers and places of an instruction in the order of its structure. refs: what stands for its places."""
    places = made.refs if refs is None else refs
    return kernel_structure(made.kernel).joined((*made.fields, *places))


def _picked(at: Sequence[int]) -> Any:
    """What picks the values at these places of a sequence, as a tuple."""
    if len(at) > 1:
        return itemgetter(*at)
    return lambda flat: tuple(flat[k] for k in at)


# Types of elements --------------------------------------------------------------------------------


def type_suffix(dtype: np.dtype[Any]) -> str:
    """The kernels' name of a type. Raises PlanError."""
    if dtype.name == "bfloat16":
        return "bf16"
    if dtype.kind not in "bfiu" or not dtype.isnative:
        raise PlanError(f"elements of type {dtype} have no native kernels")
    return "bool" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"


def copy_kernel(source: np.dtype[Any], target: np.dtype[Any]) -> str:
    """The kernel that copies elements of a type into those of another. Raises PlanError."""
    if source == target:
        return f"copy_{target.itemsize}"
    return f"from_{type_suffix(source)}_to_{type_suffix(target)}"


# What several families share ----------------------------------------------------------------------

NONE, CLIP, LEAKY, SIGMOID, SWISH, HARD_SIGMOID, HARD_SWISH = constants(
    "NONE", "CLIP", "LEAKY", "SIGMOID", "SWISH", "HARD_SIGMOID", "HARD_SWISH"
)
TANH, ERF, GELU, GELU_TANH, MISH = constants("TANH", "ERF", "GELU", "GELU_TANH", "MISH")
PANEL = constant("CSDF_PANEL")

Activation = structure("csdf_activation").record
ByteSource = structure("csdf_byte_source").record
Dim = structure("csdf_dim").record
Source = structure("csdf_source").record
