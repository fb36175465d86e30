"""How is a program kept in a file? Its instructions and tables as JSON, its arrays as they are, in one archive.

What is written is all that a backend needs to execute frames: another process reads it and has neither the model nor the
plan. A program is code: whoever runs one trusts who wrote it, as with any executable. What is read is checked only so far
that a damaged file is refused with a sentence.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from csdfgen.errors import InputError
from csdfgen.lowering.program import Program
from csdfgen.program.instructions import (
    Array,
    Constants,
    Instruction,
    Ref,
    allocate_aligned,
    type_name,
)
from csdfgen.program.steps import Port

__all__ = ["StoredProgram", "read_program", "write_program"]

_HEADER, _FORMAT = "program.json", 1
_KINDS: dict[str, Any] = {"ref": Ref, "array": Array}
"""Values that are no numbers and words, by how they are marked in the file."""


@dataclass(frozen=True, eq=False)
class StoredProgram:
    """A program without its plan, see `Code`. order: numbers of the instructions of a frame whose outputs are stored."""

    pools: Mapping[str, int]
    instructions: Sequence[Instruction]
    constants: Constants
    ports: Sequence[Port]
    order: Sequence[int]

    @classmethod
    def of(cls, program: Program) -> StoredProgram:
        """That of a program."""
        order = [
            k for some in zip(program.code, program.stores, strict=True) for k in sum(some, ())
        ]
        made = program.instructions
        return cls(program.pools, made, program.constants, program.ports, order)


def write_program(file: str | Path | IO[bytes], program: StoredProgram) -> None:
    """Write a program as an archive."""
    constants = program.constants
    header = {
        "format": _FORMAT,
        "pools": dict(program.pools),
        "ports": [_plain(astuple(port)) for port in program.ports],
        "instructions": [_plain(tuple(one)) for one in program.instructions],
        "order": list(program.order),
        "tables": {name: [_plain(row) for row in rows] for name, rows in constants.tables.items()},
        "blocks": [block.start for block in constants.blocks],
    }
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(_HEADER, json.dumps(header, separators=(",", ":")))
        for number, block in enumerate(constants.blocks):
            archive.writestr(str(number), block.values.tobytes())


def read_program(file: str | Path | IO[bytes]) -> StoredProgram:
    """Read what `write_program` wrote. Raises InputError for anything else."""
    where = str(file) if isinstance(file, (str, Path)) else ""
    try:
        with zipfile.ZipFile(file) as archive:
            header = json.loads(archive.read(_HEADER))
            if header["format"] != _FORMAT:
                found = header["format"]
                raise InputError(
                    f"has format {found}, {_FORMAT} is read; write it again", where=where
                )
            blocks = [
                (start, _aligned(archive.read(str(number))))
                for number, start in enumerate(header["blocks"])
            ]
        return StoredProgram(
            header["pools"],
            tuple(Instruction(*_value(one)) for one in header["instructions"]),
            Constants.complete(
                blocks, {name: list(map(_value, rows)) for name, rows in header["tables"].items()}
            ),
            tuple(Port(*_value(one)) for one in header["ports"]),
            header["order"],
        )
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=where) from None
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, UnicodeDecodeError):
        raise InputError("is no program of csdfgen, or a damaged one", where=where) from None


def _aligned(values: bytes) -> np.ndarray:
    """Bytes where kernels like them best."""
    found = allocate_aligned(len(values))
    found[:] = np.frombuffer(values, np.uint8)
    return found


def _plain(value: Any) -> Any:
    """A value of JSON: tuples are lists, and what is no number or word is a list whose first word tells what it is."""
    for kind, made in _KINDS.items():
        if type(value) is made:
            return ["", kind, *map(_plain, value)]
    if isinstance(value, np.generic):
        return ["", "number", type_name(value.dtype), value.item()]
    if isinstance(value, np.dtype):
        return ["", "dtype", type_name(value)]
    if isinstance(value, (tuple, list)):
        return list(map(_plain, value))
    return value


def _value(plain: Any) -> Any:
    """The other way round."""
    if not isinstance(plain, list):
        return plain
    if plain[:1] != [""]:
        return tuple(map(_value, plain))
    _, kind, *rest = plain
    if kind == "number":
        return np.dtype(rest[0]).type(rest[1])
    if kind == "dtype":
        return np.dtype(rest[0])
    return _KINDS[kind](*map(_value, rest))
