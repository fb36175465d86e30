"""How can two networks be in one program? Kernels that are equal have equal names, of which the linker takes one; others differ.

Kernels of two networks differ where the networks were written by different versions, or take other values of fields (`used`).
A name ends in a digest of the file that defines it, its headers, and all files that it calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from csdfgen.emission.kernels import list_functions, list_headers

NAMES = "names.h"
"""The header that gives kernels their names, and is the first of every file."""

_LETTERS = 8


def name_kernels(files: Mapping[str, str], scalar: bool) -> dict[str, str]:
    """The files of kernels, whose functions have names of their own and are weak, and the header of names. scalar: they have
    no vectors, whatever the flags.
    """
    functions = list_functions(files)
    home = {name: file for file, (defined, _) in functions.items() for name in defined}
    needed = {
        file: {*list_headers(text), *(home[one] for one in functions[file][1] if one in home)}
        if file in functions
        else set(list_headers(text))
        for file, text in files.items()
    }
    names = {name: f"{name}_{_digest(file, files, needed)}" for name, file in home.items()}
    found = {NAMES: "\n".join(_header(names, scalar))}
    for file, text in files.items():
        own = [names[name] for name in sorted(functions.get(file, ((), ()))[0])]
        found[file] = "\n".join((*_weak(own), text)) if own else text
    return found


def _digest(file: str, files: Mapping[str, str], needed: Mapping[str, set[str]]) -> str:
    """A digest of a file and all that it needs."""
    reached, waiting = set(), [file]
    while waiting:
        one = waiting.pop()
        if one in files and one not in reached:
            reached.add(one)
            waiting += needed[one]
    text = "\0".join(files[one] for one in sorted(reached))
    return hashlib.sha256(text.encode()).hexdigest()[:_LETTERS]


def _header(names: Mapping[str, str], scalar: bool) -> Iterator[str]:
    yield "/* Names of kernels by their content: in a program of several networks, equal ones are there once. */"
    yield "#ifndef CSDF_NAMES_H\n#define CSDF_NAMES_H\n"
    if scalar:
        yield "#ifndef CSDF_SCALAR\n#define CSDF_SCALAR\n#endif\n"
    yield from (f"#define {name} {names[name]}" for name in sorted(names))
    yield "\n#endif"


def _weak(names: list[str]) -> Iterator[str]:
    """The first lines of a file that defines these functions."""
    yield f'#include "{NAMES}"'
    yield "#if defined(__ELF__) || defined(__APPLE__)"
    yield from (f"#pragma weak {name}" for name in names)
    yield "#endif"
