"""Names of a network, its inputs and outputs in C."""

from __future__ import annotations

import re
from collections.abc import Iterable

TYPES = {
    "bfloat16": "uint16_t",
    "float16": "uint16_t",
    "float32": "float",
    "float64": "double",
    "bool": "uint8_t",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""Stored type -> type of an element in C; a float16 or bfloat16 is stored as its 16 bits."""

PARAMETERS = ("arena", "net")
"""Names in functions that have the arrays of a network as parameters."""

_LONGEST = 40

_WORDS = """
auto break case char const continue default do double else enum extern float for goto if
inline int long register restrict return short signed sizeof static struct switch typedef
union unsigned void volatile while asm typeof main errno stdin stdout stderr bool true false
NULL EOF INFINITY NAN class delete new private protected public template this throw try
catch namespace operator using virtual friend explicit export mutable getc putc user row
rows form number image now tasks order records sides arrays arena move k at
ends ticks last at_end times_now
"""
"""Keywords of C and C++, and names that the emitted files use for themselves."""

_TAKEN = frozenset(_WORDS.split())

_FILES = """
aio alloca assert complex cpio ctype dirent dlfcn endian errno fcntl features fenv float
fmtmsg fnmatch ftw glob grp iconv inttypes iso646 langinfo libgen limits locale malloc math
memory monetary mqueue ndbm netdb nl_types poll pthread pwd regex sched search semaphore
setjmp signal spawn stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn
string strings stropts syslog tar termios tgmath threads time trace uchar ulimit unistd utime
utmpx values wchar wctype wordexp board kernels main times makefile gnumakefile cmakefiles all
clean depend edit_cache help install m package rebuild_cache run test
"""
"""Headers of C and of operating systems, files of an emitted folder, targets of make and CMake."""

_NAMES = frozenset(_FILES.split())


def identifier(name: str, prefix: str = "net") -> str:
    """An identifier of C for a name.

    >>> identifier("squeezenet1_1"), identifier("2-net.v1"), identifier("float"), identifier("é")
    ('squeezenet1_1', 'net_2_net_v1', 'net_float', 'net')
    """
    found = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[:_LONGEST].rstrip("_")
    if not found:
        return prefix
    ours = found in _TAKEN or found.lower().startswith("csdf")
    return f"{prefix}_{found}" if ours or found[0].isdigit() else found


def network_name(title: str) -> str:
    """The identifier that names the files, functions and program of a network.

    >>> network_name("squeezenet1_1"), network_name("Makefile"), network_name("stdint")
    ('squeezenet1_1', 'net_Makefile', 'net_stdint')
    """
    found = identifier(title)
    return f"net_{found}" if found.lower() in _NAMES else found


def identifiers(names: Iterable[str], without: Iterable[str] = ()) -> list[str]:
    """An identifier for each name; no two are equal, regardless of case.

    >>> identifiers(["x:0", "x 0", "X_0"])
    ['x_0', 'x_0_2', 'X_0_3']
    """
    found: list[str] = []
    known = {one.upper() for one in without}
    for name in names:
        plain = one = identifier(name, "t")
        number = 1
        while one.upper() in known:
            number += 1
            one = f"{plain}_{number}"
        known.add(one.upper())
        found.append(one)
    return found


def comment(text: str) -> str:
    """A text from a model, made safe for a comment of C: it has one line and does not end the comment.

    >>> comment("a*/b"), comment("what??/")
    ('a* /b', 'what? ?/')
    """
    plain = "".join(c if c.isascii() and c.isprintable() else "_" for c in text)
    for pair in ("*/", "/*", "??"):
        while pair in plain:
            plain = plain.replace(pair, " ".join(pair))
    return plain.replace("\\", "/")
