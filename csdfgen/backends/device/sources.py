"""What is the text of a kernel? Definitions, the structures of native code, and the files that it consists of.

A series is a kernel whose one group computes stages of instructions one after the other; its name lists their kernels.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from csdfgen.backends.device.elements import definitions
from csdfgen.backends.device.shapes import FILES, Blocks, parse_kernel_name
from csdfgen.backends.native.structures import Structure, declared_constants, structure, structures

TEXT = Path(__file__).parent / "text"

_TYPES = {"ptrdiff_t": "int64_t", "size_t": "uint64_t", "double": "double"}


def kernels(kernel: str) -> bool:
    """Whether there is text for a kernel."""
    return kernel in FILES or definitions(kernel) is not None


@cache
def _read(name: str) -> str:
    return (TEXT / name).read_text()


@cache
def _declarations() -> str:
    """Structures and constants of the headers of native code; pointers are places."""
    lines = [f"#define {name} {value}" for name, value in declared_constants().items()]
    for name in structures():
        found = structure(name)
        if not any(field.type == "function" or field.type == "double" for field in found.fields):
            lines.append(f"typedef struct {name} {{ {' '.join(_fields(found))} }} {name};")
    return "\n".join(lines)


def _fields(of: Structure) -> Iterator[str]:
    for field in of.fields:
        type_ = "place" if field.pointer else _TYPES.get(field.type, field.type)
        yield f"{type_} {field.name}{f'[{field.count}]' if field.count else ''};"


def can_join_series(kernel: str) -> bool:
    """Whether a kernel can be one of a series: it has a body, and none that others have, too."""
    found = definitions(kernel)
    return int(found["FORM"]) < 6 if found is not None else kernel in FILES


def series(some: Collection[str], ports: int) -> str:
    """The name of a kernel for instructions of some kernels, and rows of so many ports."""
    return " ".join(("series", str(ports), *sorted(some)))


def members(name: str) -> list[str]:
    """The kernels of a series in the order of their numbers; none of any other kernel."""
    return name.split()[2:]


def function_name(kernel: str) -> str:
    """The name of a kernel in its text."""
    return f"csdf_{kernel.partition(' ')[0]}"


def assemble_source(kernel: str, blocks: Blocks) -> str:
    """The whole text of a kernel: definitions, and the files that it consists of. Its name in it is that of `function_name`."""
    (kernel, blocks), some = parse_kernel_name(kernel, blocks), members(kernel)
    each = some or [kernel]
    given = [found for one in each if (found := definitions(one)) is not None]
    families = [one for one in each if definitions(one) is None]
    lines = [] if not some else ["#define CHAIN"]
    lines += ["#define NEEDS_DOUBLE 1"] if any("NEEDS_DOUBLE" in found for found in given) else []
    sizes = {
        "LANES": blocks.lanes, "PIXELS": blocks.pixels, "VECTORS": blocks.vectors, "IN_ROW": int(blocks.in_row),
        "SPAN": blocks.span,
    }  # fmt: skip
    texts = [*lines, *_defined(sizes), _read("dialect.h")]
    if families:
        texts += [_declarations(), _read("maps.h")]
    texts += map(_read, dict.fromkeys(FILES[one] for one in families if "byte" not in one))
    for one in each:
        texts += _strided(one)
    if any("byte" in one for one in families):  # without contractions from here on
        texts.append(_read("bytes.h"))
        texts += map(_read, dict.fromkeys(FILES[one] for one in families if "byte" in one))
    if some:
        texts += _series(some, int(kernel.split()[1]))
    return "\n".join(texts)


def _defined(given: Mapping[str, object]) -> list[str]:
    return [f"#define {name} {value}" for name, value in given.items()]


def _strided(kernel: str) -> list[str]:
    """The text of a kernel on strided arrays, behind which nothing that it needs is defined; none for another kernel."""
    found = definitions(kernel)
    if found is None:
        return []
    # a name with parameters is one that is called
    mine = {name: value for name, value in found.items() if name != "NEEDS_DOUBLE"} | {
        "NAME": kernel
    }
    files = ["strided.cl"] + (["index.cl"] if int(found["FORM"]) > 5 else [])
    ends = [f"#undef {name.partition('(')[0]}" for name in mine]
    return [*_defined(mine), *map(_read, files), *ends]


_BODY = re.compile(r"^BODY\((\w+), (\w+)\)", re.MULTILINE)


def _record(kernel: str) -> str:
    """The type of a kernel's records."""
    if definitions(kernel) is not None:
        return "loop"
    return dict(_BODY.findall(_read(FILES[kernel])))[kernel]


def _series(some: Sequence[str], ports: int) -> Iterator[str]:
    """The kernel of a series, see series.h."""
    numbers = range(1, ports + 1)
    yield "".join(f"GLOBAL char *window{k}_, GLOBAL const char *port{k}_, " for k in numbers).join(
        ("#define PORTS ", "")
    )
    yield "#define ENTER " + " ".join(
        f"if (entry->port == {k}) {{ own.weights = window{k}_; own.tables = port{k}_; }}"
        for k in numbers
    )
    yield "#define CALL " + " ".join(
        f"case {k}: {one}(&own, (GLOBAL const {_record(one)} *)record, across, down); break;"
        for k, one in enumerate(some)
    )
    yield _read("series.cl")


@cache
def digest() -> str:
    """16 hexadecimal digits of the text of all kernels."""
    found = hashlib.sha256()
    for path in sorted(TEXT.iterdir()):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]
