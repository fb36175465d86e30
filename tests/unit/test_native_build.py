"""The kernel library is built once, anew where it is damaged, and a compiler that is missing or fails is
told in one line; its generated sources are those of the generator.
"""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from csdfgen.backends.native import generate
from csdfgen.backends.native import library as native_library
from csdfgen.backends.native.build import (
    LEVELS,
    NATIVE,
    SOURCES,
    STANDARD,
    WARNINGS,
    build,
    find_compiler,
    sources,
)
from csdfgen.backends.native.library import Library
from csdfgen.errors import ToolError
from csdfgen.files import cache_folder
from schedules.peak.flow import scipy_cut
from tests import sanitized
from tests.command import heed_interrupts
from tests.native_steps import compiler_missing, script

ROOT = Path(__file__).resolve().parents[2]
SMALL = "int answer(void);\nint answer(void) { return 42; }\n"

needs_compiler = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A C file that is compiled in no time."""
    path = tmp_path / "small.c"
    path.write_text(SMALL)
    return path


DIGESTS = {
    "blocks_16.h": "479b621b30789ac6",
    "blocks_8.h": "5ad2e6695357a2de",
    "blocks_4.h": "be2d318538522393",
    "blocks_1.h": "47c3c23fa1cec98f",
    "lines_16.h": "e0aa65d74d950d09",
    "lines_8.h": "f829bd755f7384dc",
    "lines_4.h": "ca05fbfceaba2515",
    "lines_1.h": "d146543db8f5eb1a",
    "strips.h": "8024b6dadb7ddf6a",
    "dots.h": "f4950c9c5d29e172",
    "pairs.h": "ac34549dbc5a6ce6",
}
"""Of the generated headers that compute, as they were when they were last measured."""


def test_generated_headers_are_those_that_were_measured(tmp_path: Path) -> None:
    generate.write(tmp_path)
    found = {path.name: sha256(path.read_bytes()).hexdigest()[:16] for path in tmp_path.iterdir()}
    assert found.pop("sizes.h") and found == DIGESTS


def test_no_generated_header_is_in_the_folder_of_the_sources() -> None:
    assert not {path.name for path in SOURCES.iterdir()} & generate.GENERATED.keys()


FILES = sorted({path.name for path in SOURCES.iterdir()} | generate.GENERATED.keys())


def test_few_files_know_instruction_sets() -> None:
    """What simd.h, its like for bytes, pairs and halves, and their parts for boards are for: nothing else speaks of vectors
    of some machine; strided.h of how it converts a single float16, and processor.c of what it knows.
    """
    for name in FILES:
        text = generate.read_source(name)
        words = ("immintrin", "arm_neon", "_mm", "__AVX", "__ARM", "vector_size", "__asm__")
        known = name.startswith("simd") or name in ("strided.h", "processor.c")
        assert known or not [w for w in words if w in text], name


def test_sources_need_nothing_of_the_system() -> None:
    """No allocation, no files: headers are the library's own, the compiler's four, and of C's functions
    of numbers and of bytes. Threads need a system, and what opens compiled programs.
    """
    for name in FILES:
        lines = [line.split() for line in generate.read_source(name).splitlines()]
        wanted = {words[1] for words in lines if words[:1] == ["#include"]}
        system = {header for header in wanted if header.startswith("<")}
        if name == "processor.c":
            system -= {"<cpuid.h>"}
        if name == "program.c":
            continue
        if name == "team.c":
            system -= {"<pthread.h>", "<sched.h>", "<stdlib.h>", "<time.h>"}
        vectors = {"<immintrin.h>", "<arm_neon.h>", "<arm_acle.h>", "<arm_mve.h>"}
        assert system <= {"<stddef.h>", "<stdint.h>", "<math.h>", "<string.h>"} | vectors, name


@needs_compiler
@pytest.mark.skipif(platform.machine() != "x86_64", reason="asks processors with CPUID")
@pytest.mark.parametrize("march", ["native", "x86-64", "x86-64-v4", "sapphirerapids"])
def test_a_library_tells_what_the_processor_lacks(march: str, tmp_path: Path) -> None:
    """What the compiler assumes, beside what the system says that there is."""
    path = build([SOURCES / "processor.c"], (*STANDARD, f"-march={march}"), folder=tmp_path)
    library = ctypes.CDLL(str(path))
    library.csdf_lacking.restype = ctypes.c_char_p
    told = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").exists() else []
    if march in ("native", "x86-64"):
        assert library.csdf_lacking() is None
    elif told:
        assert (library.csdf_lacking() is None) == (
            "avx512f" in told and (march == "x86-64-v4" or "avx_vnni" in told)
        )


@pytest.mark.parametrize(("able", "wanted"), [(0, NATIVE), (1, LEVELS[0]), (3, LEVELS[2]), (9, "")])
def test_another_processor_in_it(able: int, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an emulator. able: how many libraries are for processors with more."""
    asked: list[str] = []

    def built(flags: tuple[str, ...]) -> Path:
        asked.append(flags[-1])
        return Path(flags[-1])

    def opened(path: Path) -> SimpleNamespace:
        return SimpleNamespace(
            path=path, least_cut=scipy_cut, lacking="AVX512F" if len(asked) <= able else ""
        )

    monkeypatch.setattr(native_library, "build", built)
    monkeypatch.setattr(native_library, "Library", opened)
    if wanted:
        assert native_library._built(("-O1", NATIVE)).path == Path(wanted)
    else:
        with pytest.raises(ToolError, match="is for processors with AVX512F, which this"):
            native_library._built(("-O1", NATIVE))
    assert asked == [NATIVE, *LEVELS][: able + 1]


@needs_compiler
def test_a_library_is_built_once(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    made = build([small], ("-O1",), folder=folder)
    stamp = made.stat().st_mtime_ns
    assert build([small], ("-O1",), folder=folder) == made and made.stat().st_mtime_ns == stamp
    assert [path.name for path in folder.iterdir()] == [made.name]
    other = build([small], ("-O2",), folder=folder)
    assert other != made and made.exists()
    small.write_text(SMALL.replace("42", "43"))
    assert build([small], ("-O1",), folder=folder) not in (made, other)


@needs_compiler
def test_long_waits_are_told(small: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    build([small], folder=tmp_path / "kept")
    assert not caplog.records
    empty = [tmp_path / f"empty{number}.c" for number in range(8)]
    for number, path in enumerate(empty):
        path.write_text(f"int f{number};")
    for _ in range(2):  # the second time it is there
        build([small, *empty], folder=tmp_path / "kept")
    (record,) = caplog.records
    assert re.fullmatch(r"compiling kernels once, about \d+ s", record.getMessage())


@needs_compiler
def test_processes_that_build_at_once_make_one_library(tmp_path: Path) -> None:
    """Of a source that reads a generated header, which each writes for itself."""
    folder, linked = tmp_path / "cache", tmp_path / "linked"
    counting = script(
        tmp_path / "cc",
        f'case "$*" in *-shared*) echo once >>{linked};; esac\nexec {find_compiler().name} "$@"',
    )
    lines = (
        "from pathlib import Path; from csdfgen.backends.native.build import SOURCES, STANDARD, build; import sys; "
        "print(build([SOURCES / 'products.c'], (*STANDARD, '-DCSDF_SCALAR'), folder=Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", lines, str(folder)]
    environment = {**os.environ, "CC": counting.name}
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(4)
    ]
    made = {process.communicate(timeout=60)[0].strip() for process in running}
    assert made == {str(path) for path in folder.iterdir()} and len(made) == 1
    if os.name == "posix":
        assert linked.read_text() == "once\n"  # the others wait


@needs_compiler
@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_library_is_built_anew(small: Path, tmp_path: Path, damage: bytes | None) -> None:
    folder = tmp_path / "cache"
    made = build([small], folder=folder)
    whole = made.read_bytes()
    made.write_bytes(whole[:-1] + b"x" if damage is None else damage)
    again = build([small], folder=folder)
    assert again.read_bytes() == whole and [*folder.iterdir()] == [again]


@needs_compiler
def test_a_library_of_something_else_is_refused(small: Path, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="is not a library of kernels"):
        Library(build([small], folder=tmp_path / "cache"))


@needs_compiler
def test_a_compiler_that_fails_is_quoted_and_its_log_kept(small: Path, tmp_path: Path) -> None:
    small.write_text("int f(void) { return nonsense; }\n")
    folder = tmp_path / "cache"
    with pytest.raises(ToolError, match=r"^[^\n]*error: .*nonsense[^\n]*; see [^\n]*\.log$"):
        build([small], folder=folder)
    (log,) = folder.iterdir()
    assert log.suffix == ".log" and "nonsense" in log.read_text()


def test_a_compiler_that_is_no_compiler(small: Path, tmp_path: Path) -> None:
    broken = script(tmp_path / "broken", "echo 'licence expired' >&2; exit 3")
    with pytest.raises(ToolError, match="broken: fails: licence expired"):
        build([small], compiler=broken, folder=tmp_path / "cache")


def test_no_compiler_has_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = {"PATH": str(tmp_path)}
    with pytest.raises(ToolError, match="CC=nocc -m32: no such program"):
        find_compiler({**empty, "CC": "nocc -m32"})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match="pip install ziglang is one"):
        find_compiler(empty)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert find_compiler(empty).command == (sys.executable, "-m", "ziglang", "cc")


def test_cc_comes_first(tmp_path: Path) -> None:
    script(tmp_path / "mine", "true")
    script(tmp_path / "gcc", "true")
    assert find_compiler({"PATH": str(tmp_path), "CC": "mine -g"}).command == ("mine", "-g")
    assert find_compiler({"PATH": str(tmp_path)}).command == ("gcc",)


def test_the_cache_is_where_the_system_has_caches(tmp_path: Path) -> None:
    assert (
        cache_folder("native", {"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "csdfgen" / "native"
    )
    assert cache_folder("native", {}).parts[-2:] == ("csdfgen", "native")


@needs_compiler
def test_a_cache_that_cannot_be_written(small: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ToolError, match="XDG_CACHE_HOME names another place"):
        build([small], folder=blocked / "cache")


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be counted does not."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return done.stdout.strip()[:1] not in ("", "Z")


@pytest.mark.skipif(os.name != "posix" or not shutil.which("ps"), reason="no ps")
def test_ctrl_c_leaves_nothing(small: Path, tmp_path: Path) -> None:
    """Neither a file nor a process: the compiler's own children end, too."""
    folder, pid = tmp_path / "cache", tmp_path / "pid"
    slow = script(
        tmp_path / "slow",
        f'case "$*" in *-dM*) echo; exit;; esac\nsleep 600 & echo $! > {pid}; wait',
    )
    code = (
        "from csdfgen.backends.native.build import Compiler, build; from pathlib import Path\n"
        f"build([Path({str(small)!r})], compiler=Compiler({slow.command!r}), folder=Path({str(folder)!r}))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE, preexec_fn=heed_interrupts
    )
    until = time.monotonic() + 300
    while not (pid.exists() and pid.read_text().strip()):
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode != 0 and b"KeyboardInterrupt" in said
    assert [*folder.iterdir()] == []
    while alive(int(pid.read_text())):
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.skipif(os.name != "posix", reason="no process groups")
def test_ctrl_c_while_a_compiler_starts_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = subprocess.Popen

    def late(*given: Any, **named: Any) -> subprocess.Popen[str]:
        process = started(*given, **named)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(0.5)
        return process

    monkeypatch.setattr(subprocess, "Popen", late)
    before, begun = signal.signal(signal.SIGINT, signal.default_int_handler), time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            script(tmp_path / "slow", "sleep 600").run_all([["x"]])
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - begun < 300


@pytest.mark.networks
@needs_compiler
@pytest.mark.parametrize("form", ["host", "scalar"])
def test_sources_give_no_warning(form: str, tmp_path: Path) -> None:
    flags = ("-O1", "-march=native") if form == "host" else ("-O0", "-DCSDF_SCALAR")
    generate.write(tmp_path)
    strict = [*STANDARD, *WARNINGS, "-Werror", *flags, f"-I{tmp_path}"]
    made = ([*strict, "-c", path, "-o", tmp_path / f"{path.stem}.o"] for path in sources())
    for code, out, err in find_compiler().run_all(made):
        assert code == 0 and not out + err, err


@pytest.mark.networks
@needs_compiler
@pytest.mark.parametrize("form", ["host", "scalar"])
def test_sanitizers_find_nothing(form: str, tmp_path: Path) -> None:
    """Rows that lie alone in memory: nothing beside them is read or written."""
    flags = sanitized.FLAGS if form == "host" else (*sanitized.FLAGS, "-DCSDF_SCALAR")
    compiler, driver = find_compiler(), tmp_path / "driver"
    trial = tmp_path / "trial.c"
    trial.write_text("int main(void) { return 0; }\n")
    if compiler.run([*flags, trial, "-o", driver])[0] or subprocess.run([driver]).returncode:
        pytest.skip(f"{compiler.name} has no sanitizers")
    generate.write(tmp_path)
    files = [
        f"-I{tmp_path}",
        f"-I{SOURCES}",
        ROOT / "tests" / "native_driver.c",
        build(flags=flags),
    ]
    code, _, said = compiler.run([*WARNINGS, *flags, *files, "-lm", "-o", driver])
    assert code == 0, said
    done = subprocess.run([driver], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("600 layers")
