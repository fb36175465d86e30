"""What is the text of a kernel? Definitions, the structures of native code, and the files that it consists of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from csdfgen.backends.device.elements import definitions
from csdfgen.backends.device.shapes import FILES, Blocks
from csdfgen.backends.native.structures import Structure, declared_constants, structure, structures

__all__ = ["digest", "kernels", "text_of"]

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


def text_of(kernel: str, blocks: Blocks) -> str:
    """The whole text of a kernel: definitions, and the files that it consists of. Its name in it is `csdf_KERNEL`."""
    found = definitions(kernel)
    if found is None:
        sizes = f"#define LANES {blocks.lanes}", f"#define PIXELS {blocks.pixels}"
        heads = ["maps.h", "bytes.h"] if "bytes" in kernel else ["maps.h"]
        texts = map(_read, (*heads, FILES[kernel]))
        return "\n".join((*sizes, _read("dialect.h"), _declarations(), *texts))
    # a name with parameters is one that is called
    defined = [f"#define {name} {value}" for name, value in found.items()]
    defined.append(f"#define SPAN {blocks.span}")
    files = ["strided.cl"] + (["index.cl"] if int(found["FORM"]) > 5 else [])
    return "\n".join((*defined, f"#define NAME {kernel}", _read("dialect.h"), *map(_read, files)))


@cache
def digest() -> str:
    """16 hexadecimal digits of the text of all kernels."""
    found = hashlib.sha256()
    for path in sorted(TEXT.iterdir()):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]
