"""How do C files become a library on this machine, once?

The compiler is the first of CC, gcc, clang, cc, and the PyPI package ziglang, which contains one. The
library is cached in the user's cache folder (`csdfgen.cache`). Its name contains a digest of what it was made from (the
sources, the flags, and all macros that the compiler defines for this machine: its version and the
instruction set) and a checksum of the library itself: a damaged file is built again. A file appears
there complete or not at all. Generated headers are written to the folder of the build.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from csdfgen.backends.native.structures import SOURCES
from csdfgen.backends.native.template import TEXT
from csdfgen.cache import get_folder, lock_folder, prune, release, use
from csdfgen.errors import ToolError
from csdfgen.files import file_digest, write_bytes
from csdfgen.stopping import interrupt_waits

STANDARD = ("-std=c99", "-ffp-contract=fast", "-fno-trapping-math", "-fno-math-errno")
"""What the sources need. With -std=c99 alone, compilers do not fuse products and sums, which doubles the time, and do
not vectorize loops that choose between two values, since a program could read the exception flags.
"""

_WAITS = logging.getLogger("csdfgen.waits")
_FEW, _CORE_SECONDS = 8, 80
"""C files that compile in a second; the time of all kernels on one core."""

NATIVE = "-march=native"
FLAGS = (*STANDARD, "-O3", NATIVE)
"""What a library for this machine is built with."""

NO_HALVES = "-DCSDF_NO_HALVES"
"""Without the processor's products of pairs of two bytes (c/simd_halves.h)."""

LEVELS = ("-march=x86-64-v3", "-march=x86-64-v2", "-march=x86-64")
"""Instruction sets smaller than the compiler's own, from large to small."""

WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-pedantic")
"""Warnings that the sources compile without."""

_SHARED = ("-shared", "-fPIC")
_OBJECT = ("-c", "-fPIC")
_CANDIDATES = ("gcc", "clang", "cc")
_SUFFIX = ".so"
_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler. command: the program and its first arguments."""

    command: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its name in messages."""
        return shlex.join(self.command)

    def run(self, arguments: Iterable[str | Path]) -> tuple[int, str, str]:
        """Exit code, output and messages. Raises ToolError if it cannot be started or does not end."""
        (found,) = self.run_all([arguments])
        return found

    def run_all(self, commands: Iterable[Iterable[str | Path]]) -> list[tuple[int, str, str]]:
        """The same for several calls, as many at a time as there are processors.

        Each runs in its own session, which ends with this call, so that no process remains after
        Ctrl-C.
        """
        running: set[subprocess.Popen[str]] = set()
        ended = threading.Event()
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            try:
                return [*pool.map(partial(self._run, running, ended), commands)]
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                ended.set()
                for process in tuple(running):
                    _end(process)

    def _run(
        self,
        running: set[subprocess.Popen[str]],
        ended: threading.Event,
        arguments: Iterable[str | Path],
    ) -> tuple[int, str, str]:
        try:
            process = subprocess.Popen(
                [*self.command, *(str(one) for one in arguments)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "LC_ALL": "C"},
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise ToolError(f"cannot be started: {error.strerror}", where=self.name) from None
        running.add(process)
        if ended.is_set():  # while this one started, and nobody looks for it any more
            _end(process)
        try:
            out, err = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            raise ToolError(f"has not ended within {_SECONDS} s", where=self.name) from None
        running.discard(process)
        return process.returncode, out, err


def _end(process: subprocess.Popen[str]) -> None:
    """Kill a process and every process that it has started."""
    if process.poll() is None:
        with suppress(ProcessLookupError):  # ended by another thread meanwhile
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
    process.wait()


def find_compiler(environment: Mapping[str, str] = os.environ) -> Compiler:
    """The compiler that CC names, else the first that is installed. Raises ToolError."""
    named = shlex.split(environment.get("CC", ""))
    path = environment.get("PATH")
    if named:
        if shutil.which(named[0], path=path) is None:
            raise ToolError(f"CC={shlex.join(named)}: no such program; set CC to a C compiler")
        return Compiler(tuple(named))
    for name in _CANDIDATES:
        if shutil.which(name, path=path) is not None:
            return Compiler((name,))
    if importlib.util.find_spec("ziglang") is not None:
        return Compiler((sys.executable, "-m", "ziglang", "cc"))
    raise ToolError(
        f"no C compiler: neither CC is set nor {', '.join(_CANDIDATES)} installed; "
        "pip install ziglang is one"
    )


def sources() -> tuple[Path, ...]:
    """The C files of the kernel library; headers are in the same folder or generated."""
    return tuple(sorted(SOURCES.glob("*.c")))


def sources_digest() -> str:
    """16 hexadecimal digits of the sources of the kernel library."""
    digest = hashlib.sha256()
    _add_files(digest, sources())
    return digest.hexdigest()[:16]


def build(
    files: Sequence[Path] | None = None,
    flags: Sequence[str] = FLAGS,
    compiler: Compiler | None = None,
    folder: Path | None = None,
) -> Path:
    """The shared library of C files (by default those of the kernels), from the cache or built now.

    Raises ToolError: no compiler, one that fails (with its first message; all messages are in a log
    next to the library), a cache folder that cannot be written.
    """
    files = sources() if files is None else tuple(files)
    compiler = compiler or find_compiler()
    folder = folder or get_folder("native")
    with _in(folder):
        folder.mkdir(parents=True, exist_ok=True)
        key = _key(files, flags, compiler)
        known = _kept(folder, key)
        if known is not None:
            return known
        if len(files) > _FEW:
            seconds = -(-_CORE_SECONDS // (os.cpu_count() or 1))
            _WAITS.info("compiling kernels once, about %d s", seconds)
        with interrupt_waits(), lock_folder(folder):
            known = _kept(folder, key)  # built by another process meanwhile
            if known is not None:
                return known
            from csdfgen.backends.native.generate import write as write_generated

            scratch = Path(tempfile.mkdtemp(prefix="build-", dir=folder))
            try:
                made = scratch / f"{key}{_SUFFIX}"
                write_generated(scratch)
                included = (f"-I{SOURCES}", f"-I{scratch}")
                _compile(compiler, (*flags, *included), files, made, folder / f"{key}.log")
                whole = _named(folder, key, made)
                made.chmod(0o600)
                made.replace(whole)
                use(whole)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    prune()
    return whole


def _kept(folder: Path, key: str) -> Path | None:
    """The library that was built before. A damaged one, and one that others can have written, is removed."""
    for found in sorted(folder.glob(f"{key}-*{_SUFFIX}")):
        if use(found) and found == _named(folder, key, found):
            return found
        release(found)
        found.unlink(missing_ok=True)
    return None


@contextmanager
def _in(folder: Path) -> Iterator[None]:
    """Errors of the file system become a ToolError."""
    try:
        yield
    except OSError as error:
        where = str(error.filename or folder)
        raise ToolError(
            f"{error.strerror or error}; XDG_CACHE_HOME names another place", where=where
        ) from None


def _named(folder: Path, key: str, library: Path) -> Path:
    """The path of a library with this content."""
    return folder / f"{key}-{file_digest(library)[:16]}{_SUFFIX}"


def _key(files: Iterable[Path], flags: Iterable[str], compiler: Compiler) -> str:
    """A digest of everything that a library depends on."""
    # the macros that a compiler defines contain its version, its target and the instruction set
    code, macros, said = compiler.run([*flags, "-dM", "-E", "-x", "c", os.devnull])
    if code:
        raise ToolError(f"fails: {_complaint(said)}", where=compiler.name)
    digest = hashlib.sha256()
    for part in (compiler.name, *flags, macros):
        digest.update(part.encode() + b"\0")
    _add_files(digest, files)
    return f"csdf-{digest.hexdigest()[:24]}"


def _add_files(digest: hashlib._Hash, files: Iterable[Path]) -> None:
    """The names and contents of C files, and of the headers that they may read or what generates these."""
    modules = ("generate", "byte_blocks", "structures", "template")
    makers = [Path(__file__).with_name(f"{one}.py") for one in modules] + sorted(TEXT.glob("*.h"))
    for path in (*files, *sorted(SOURCES.glob("*.h")), *makers):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")


def _compile(
    compiler: Compiler, flags: Sequence[str], files: Sequence[Path], made: Path, log: Path
) -> None:
    """Compile every file, the largest first, and link them into the library `made`."""
    made_headers = {one.name: one.stat().st_size for one in made.parent.glob("*.h")}

    def size(path: Path) -> int:
        """Characters of a file, with the generated headers that it includes."""
        text = path.read_text(encoding="ascii", errors="replace")
        return len(text) + sum(n for one, n in made_headers.items() if f'"{one}"' in text)

    ordered = sorted(files, key=size, reverse=True)
    objects = [made.with_name(f"{number}.o") for number in range(len(ordered))]
    commands: list[list[str | Path]] = [
        [*flags, *_OBJECT, path, "-o", out] for path, out in zip(ordered, objects, strict=True)
    ]
    _succeed(compiler, commands, log)
    _succeed(compiler, [[*flags, *_SHARED, *objects, "-lm", "-pthread", "-o", made]], log)


def _succeed(compiler: Compiler, commands: Sequence[Sequence[str | Path]], log: Path) -> None:
    """Run a compiler. Raises ToolError with its first message."""
    for arguments, (code, out, err) in zip(commands, compiler.run_all(commands), strict=True):
        if code:
            said = f"$ {shlex.join([*compiler.command, *map(str, arguments)])}\n{out}{err}"
            write_bytes(log, said.encode(), private=True)
            raise ToolError(f"fails: {_complaint(err or out)}; see {log}", where=compiler.name)
    log.unlink(missing_ok=True)


def _complaint(said: str) -> str:
    """The first line that contains an error, or else the first line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    wrong = (line for line in lines if "error" in line.lower())
    return next(wrong, lines[0] if lines else "without a word")
