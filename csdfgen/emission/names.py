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


def _split(text: str) -> frozenset[str]:
    return frozenset(text.split())


_KEYWORDS = _split("""
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await co_return
co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do double dynamic_cast
else enum explicit export extern false float for friend goto i386 if inline int linux long main mutable namespace new noexcept
not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict return short signed
sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename typeof
typeof_unqual union unix unsigned using virtual void volatile wchar_t while xor xor_eq
""")
"""Keywords of C23 and C++20, and macros that compilers define."""

_OWN = _split("""
arrays at at_end base calls data done ends errno fire firings form frame getc I image int32_t k last left_out memcpy move now
number order part passes place putc ptrdiff_t records row rows side sides single sink size_t stderr stdin stdout task task_at
tasks ticks times_now uint64_t user
""")
"""Names of the functions and structures that have the arrays of a network as parameters and members."""

_MACRO = re.compile("(?=.*[A-Z].*[A-Z])[A-Z0-9_]+")
"""Names as macros have them, those of the headers of a firmware too."""

_NAMES = _split("""
aio alloca assert complex cpio ctype dirent dlfcn endian errno fcntl features fenv float
fmtmsg fnmatch ftw glob grp iconv inttypes iso646 langinfo libgen limits locale malloc math
memory monetary mqueue ndbm netdb nl_types poll pthread pwd regex sched search semaphore
setjmp signal spawn stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn
string strings stropts syslog tar termios tgmath threads time trace uchar ulimit unistd utime
utmpx values wchar wctype wordexp board kernels main times makefile gnumakefile cmakefiles all
clean depend edit_cache help install m package rebuild_cache run sizes test aux con nul prn
""")
"""Headers of C and of operating systems, files of an emitted folder, targets of make and CMake, devices of Windows."""

_STEMS = _split("""
atomic blkcnt blksize caddr clock clockid cnd comparison_fn cookie_io_functions cpu_set daddr dev div double fd femode fexcept
fpos fpregset fsblkcnt fsfilcnt fsid gid greg id imaxdiv in_addr in_port ino intmax intptr key ldiv lldiv loff max_align mbstate
mcontext mode mtx nlink off once pid ptrdiff quad register rsize sbintime sig sig_atomic sigevent sighandler siginfo sigset
sigval size socklen ssize stack suseconds thrd timer tss u_quad u_register ucontext uid uintmax uintptr useconds wctrans wint
""")
"""Names that with _t are types of C, POSIX or Zephyr; some also with 64 behind them."""

_SIZED = re.compile(
    r"(u_?|b)?(int|float|poly|q|char)(_least|_fast)?\d+(x\d+)*|[su](8|16|32|64)|pthread_.*"
)
"""The same of numbers, those of Arm too, and of threads."""


def identifier(name: str, prefix: str = "net") -> str:
    """An identifier of C for a name.

    >>> identifier("squeezenet1_1"), identifier("2-net.v1"), identifier("float"), identifier("é")
    ('squeezenet1_1', 'net_2_net_v1', 'net_float', 'net')
    """
    found = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[:_LONGEST].rstrip("_")
    if not found:
        return prefix
    ours = found in _KEYWORDS or found.lower().startswith("csdf")
    return f"{prefix}_{found}" if ours or found[0].isdigit() else found


def network_name(title: str) -> str:
    """The identifier that names the files, functions and program of a network.

    >>> network_name("squeezenet1_1"), network_name("Makefile"), network_name("stdint"), network_name("int8")
    ('squeezenet1_1', 'net_Makefile', 'net_stdint', 'net_int8')
    >>> network_name("kws_stream")  # the functions of a network `kws` begin so
    'kws_stream_net'
    """
    found = identifier(title)
    plain = found.lower()
    if plain.endswith("_stream"):
        return f"{found}_net"
    taken = plain in _NAMES or plain.removesuffix("64") in _STEMS or _SIZED.fullmatch(plain)
    return f"net_{found}" if taken else found


def identifiers(names: Iterable[str], without: Iterable[str] = ()) -> list[str]:
    """An identifier for each name; no two are equal, regardless of case.

    >>> identifiers(["x:0", "x 0", "X_0", "INPUT"])
    ['x_0', 'x_0_2', 'X_0_3', 't_INPUT']
    """
    found: list[str] = []
    known = {one.upper() for one in without}
    for name in names:
        plain = identifier(name, "t")
        plain = one = f"t_{plain}" if plain in _OWN or _MACRO.fullmatch(plain) else plain
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
