"""Which test finds a fault first? Tests run in a process that has loaded all libraries but ours, forked for each fault."""

from __future__ import annotations

import gc
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from tests.planted import ROOT, Fault, probed
from tests.tiers import DEAR, in_sample

SAMPLE_SECONDS, REST_SECONDS = 30.0, 30.0
"""Processor time of the tests of a tier that are tried on a fault at most."""

_DEAR = 2.0
"""Seconds of a function's cases from which on they must reach something of their own."""

_CHEAP = 0.05
"""Seconds of a case below which a function is cheap."""

_ANEW = 60
"""Tests that are tried at most where the product must be imported anew: for faults of C, and outside of functions."""

_OTHER = 1.0
"""Seconds by which a test is tried later whose file does not name the module."""

_STUCK = 60
"""Seconds without work after which a process is stuck; ten times as many where it waits for compilers."""

_DRIVEN = re.compile("opencl|cuda|backends/device|doctor")
"""Tests and files that start threads of a driver, which a fork does not have."""

_CC = """#!/bin/sh
# gcc that keeps objects by the text of the file, of all headers, and the options
case " $* " in *" -c "*) ;; *) exec {gcc} "$@";; esac
key= out= before=
for one in "$@"; do
  case "$before" in -o) out=$one;; *) case "$one" in -o|*.o) ;; -I*) key="$key $(cat "${{one#-I}}"/*.h | sha256sum)";;
    *.c) key="$key $(sha256sum < "$one")";; *) key="$key $one";; esac;; esac
  before=$one
done
kept={kept}/$(echo "$key" | sha256sum | cut -c1-40).o
[ -n "$out" ] && [ -f "$kept" ] && exec cp "$kept" "$out"
{gcc} "$@" || exit $?
[ -z "$out" ] || [ ! -f "$out" ] || cp "$out" "$kept"
"""


@dataclass(frozen=True, slots=True)
class Reached:
    """A test of the sample: its processor time, the faults and kernels that it reaches, and whether it failed before."""

    test: str
    seconds: float
    hits: frozenset[str]
    failed: bool

    @property
    def function(self) -> str:
        return self.test.partition("[")[0]


def reached(path: Path) -> list[Reached]:
    """What was recorded."""
    ends: dict[str, tuple[float, bool]] = {}
    hits: dict[str, set[str]] = defaultdict(set)
    for part in sorted(path.parent.glob(f"{path.name}.*")):
        for line in part.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            hits[one["test"]].update(one["hits"])
            if "seconds" in one:
                ends[one["test"]] = one["seconds"], bool(one["failed"])
    return [Reached(test, s, frozenset(hits[test]), failed) for test, (s, failed) in ends.items()]


def dear(tests: Sequence[Reached]) -> list[str]:
    """Functions of the sample that take `_DEAR` seconds, and reach nothing that others do not reach; those that are left to
    the rest stay there.
    """
    seconds: dict[str, float] = defaultdict(float)
    hits: dict[str, set[str]] = defaultdict(set)
    for one in tests:
        seconds[one.function] += one.seconds
        hits[one.function] |= one.hits
    kept = set().union(*(hits[name] for name, own in seconds.items() if own < _DEAR))
    found = []
    for name in sorted(seconds, key=lambda name: (seconds[name], name)):
        if seconds[name] >= _DEAR and hits[name] and hits[name] <= kept:
            found.append(name)
        else:
            kept |= hits[name]
    return sorted({*found, *DEAR})


def cheap(tests: Sequence[Reached]) -> list[str]:
    """Functions of the sample that have several cases, which take less than `_CHEAP` seconds each, and these seconds."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for one in tests:
        seconds[one.function].append(one.seconds)
    means = {  # without the first to import something, or to compile
        name: (sum(own) - max(own)) / (len(own) - 1)
        for name, own in seconds.items()
        if len(own) > 1
    }
    return [f"{name} {mean:.4f}" for name, mean in sorted(means.items()) if mean < _CHEAP]


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the checkout, with a cache of its own that has its kernels."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        whole = Path(folder) / "csdfgen"
        left_out = shutil.ignore_patterns(".git", ".venv", "out", ".*_cache")
        shutil.copytree(ROOT, whole, ignore=left_out)
        home, cache = Path(folder) / "cache" / "csdfgen", Path.home() / ".cache" / "csdfgen"
        for kind in ("native", "opencl"):
            if (cache / kind).is_dir():
                shutil.copytree(cache / kind, home / kind)
        home.chmod(0o700)
        bin_, kept = Path(folder) / "bin", Path(folder) / "objects"
        bin_.mkdir()
        kept.mkdir()
        (bin_ / "gcc").write_text(_CC.format(gcc=shutil.which("gcc"), kept=kept))
        (bin_ / "gcc").chmod(0o700)
        yield whole


def environment(copy: Path, **more: str) -> None:
    """Set this process up for tests of a copy."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    os.environ.update(
        one_thread, PYTHONPATH=str(copy), XDG_CACHE_HOME=str(copy.parent / "cache"), **more
    )
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.chdir(copy)


def record(all_faults: Sequence[Fault], path: Path, arguments: Sequence[str]) -> int:
    """Run the sample with probes at all faults."""
    by_file: dict[str, list[Fault]] = defaultdict(list)
    for fault in all_faults:
        by_file[fault.file].append(fault)
    with copied() as copy:
        for file, some in by_file.items():
            if file.endswith(".py"):
                (copy / file).write_text(probed((ROOT / file).read_text(), some))
        made = copy / "csdfgen/backends/native/structures.py"
        text, head = (
            made.read_text(),
            "    found = kernel_structure(kernel)\n    flat = found.flat(record)\n",
        )
        assert text.count(head) == 1
        probe = '    __import__("tests.planted.hits", fromlist=["hit"]).hit(kernel)\n'
        made.write_text(text.replace(head, probe + head))
        environment(copy, CSDFGEN_TESTS="sample", PLANTED_RECORD=str(path.absolute()))
        command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal"]
        done = os.spawnv(
            os.P_WAIT, sys.executable, [*command, "-p", "tests.planted.hits", *arguments]
        )
        os.chdir(ROOT)
    return done


def replanted(old: str, new: str, path: str) -> dict[CodeType, CodeType] | None:
    """The code of each function of a module -> that with the fault; None where more than functions differ."""
    found: dict[CodeType, CodeType] = {}

    def compare(a: CodeType, b: CodeType, runs_once: bool) -> bool:
        inner = [[one for one in code.co_consts if isinstance(one, CodeType)] for code in (a, b)]
        if len(inner[0]) != len(inner[1]) or a.co_freevars != b.co_freevars:
            return False
        own = [
            (c.co_code, [k for k in c.co_consts if not isinstance(k, CodeType)], c.co_names)
            for c in (a, b)
        ]
        if runs_once and own[0] != own[1]:
            return False
        found[a] = b
        return all(
            compare(x, y, runs_once and x.co_flags & 2 == 0) for x, y in zip(*inner, strict=True)
        )

    same = compare(compile(old, path, "exec"), compile(new, path, "exec"), True)
    return found if same else None


class Planter:
    """A plugin that forks for each fault where tests would run, once they are collected. results: what takes a result."""

    def __init__(
        self,
        copy: Path,
        wanted: Sequence[Fault],
        tests: Sequence[Reached],
        results: Callable[[dict[str, Any]], None],
        tiers: Sequence[str] = ("sample", "rest"),
    ) -> None:
        self._tiers = tiers
        self._copy, self._wanted, self._tests, self._results = copy, wanted, tests, results
        self._tell = -1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._tell >= 0:
            os.write(self._tell, report.nodeid.encode())
            os._exit(1)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        chosen = _in_sample(session.items) if "rest" in self._tiers else [True] * len(session.items)
        os.environ["CSDFGEN_TESTS"] = ""  # for processes that children start
        of_function: dict[str, list[tuple[pytest.Item, bool]]] = defaultdict(list)
        for item, sampled in zip(session.items, chosen, strict=True):
            of_function[item.nodeid.partition("[")[0]].append((item, sampled))
        unknown = of_function.keys() - {one.function for one in self._tests}
        tests = {one.test for one in self._tests if not one.failed}
        known = [
            item
            for item, sampled in zip(session.items, chosen, strict=True)
            if sampled and item.nodeid in tests
        ]
        files = {item.nodeid.partition("::")[0] for item in session.items}
        gc.collect()
        self._functions = [one for one in gc.get_objects() if type(one) is FunctionType]
        gc.freeze()
        for fault in self._wanted:
            mine = {one.test: one for one in self._tests if _reaches(one, fault)}
            direct = {f: _names(self._copy / f, fault.file) for f in files}
            first = [item for item in known if item.nodeid in mine]
            first.sort(key=lambda i: _rank(mine[i.nodeid], direct[i.nodeid.partition("::")[0]]))
            # those that are not recorded may have been written for it, if their file names the module
            new = [name for name in unknown if direct[name.partition("::")[0]]]
            first = [item for name in new for item, sampled in of_function[name] if sampled] + first
            ranked = list(dict.fromkeys([*(i.nodeid.partition("[")[0] for i in first), *new]))
            if not ranked:
                continue
            result = {"name": fault.name, "tier": "none", "test": "", "reached": len(mine)}
            for tier, seconds in (("sample", SAMPLE_SECONDS), ("rest", REST_SECONDS)):
                if tier not in self._tiers:
                    continue
                items = [
                    [item for item, sampled in of_function[name] if sampled == (tier == "sample")]
                    for name in ranked
                ]
                turns = [x for turn in zip_longest(*items) for x in turn if x is not None]
                turns = list(dict.fromkeys([*first, *turns] if tier == "sample" else turns))
                if not _DRIVEN.search(fault.file):
                    turns = [item for item in turns if not _DRIVEN.search(item.nodeid)]
                test = self._failing(fault, turns, seconds)
                if test:
                    result.update(tier=tier, test=test)
                    break
            self._results(result)
        return True

    def _failing(self, fault: Fault, items: Sequence[pytest.Item], seconds: float) -> str:
        """The first test that fails with a fault, "" for none."""
        if not items:
            return ""
        home = self._copy.parent / "cache" / "csdfgen"
        for kind in ("programs", "weights"):
            shutil.rmtree(home / kind, ignore_errors=True)
        target = self._copy / fault.file
        times, text = target.stat(), target.read_text()
        new = fault.planted(text)
        codes = replanted(text, new, str(target)) if fault.file.endswith(".py") else None
        target.write_text(new)
        try:
            hear, tell = os.pipe()
            child = os.fork()
            if not child:
                self._tell = tell
                self._child(codes, fault, items, seconds)
            os.close(tell)
            return _outcome(child, hear, 10 * _STUCK if codes is None else _STUCK)
        finally:
            target.write_text(text)
            os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))

    def _child(
        self,
        codes: dict[CodeType, CodeType] | None,
        fault: Fault,
        items: Sequence[pytest.Item],
        seconds: float,
    ) -> None:
        os.setsid()
        try:
            if codes is None or _DRIVEN.search(fault.file):
                self._afresh(items, seconds, compiles=not fault.file.endswith(".py"))
                return
            for one in self._functions:
                if one.__code__ in codes:
                    one.__code__ = codes[one.__code__]
            until = sum(os.times()[:4]) + seconds
            resource.setrlimit(
                resource.RLIMIT_CPU, (int(4 * seconds) + 20,) * 2
            )  # for endless loops
            for item, after in zip_longest(items, items[1:]):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                if sum(os.times()[:4]) > until:
                    break
        finally:
            os._exit(0)

    def _afresh(self, items: Sequence[pytest.Item], seconds: float, *, compiles: bool) -> None:
        """Run tests in a process that imports the product anew."""
        if compiles:
            os.environ["PATH"] = f"{self._copy.parent / 'bin'}:{os.environ['PATH']}"
        names, left = [item.nodeid for item in items[:_ANEW]], seconds + 60
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            *names,
        ]
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=6 * left, check=False
            )
            if done.returncode:
                found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
                os.write(self._tell, (found[1] if found else f"exit {done.returncode}").encode())


def _reaches(one: Reached, fault: Fault) -> bool:
    if not fault.reached:
        return fault.name in one.hits
    by_name = re.compile(fault.reached)
    return bool(by_name.search(one.test)) or any(map(by_name.match, one.hits))


@cache
def _names(test: Path, file: str) -> bool:
    """Whether a file of tests names a module, or takes something from its package."""
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    package, _, name = module.rpartition(".")
    text = test.read_text(encoding="utf-8")
    return module in text or re.search(rf"from {package} import [^)]*?\b{name}\b", text) is not None


def _rank(one: Reached, direct: bool) -> float:
    """Cheap tests come first, those of the module, and those that reach little else."""
    return one.seconds + len(one.hits) / 100 + _OTHER * (not direct)


def _in_sample(items: Sequence[pytest.Item]) -> list[bool]:
    marks = ("networks", "every")
    return in_sample(
        [
            (
                item.location[0],
                item.nodeid.partition("[")[0],
                next((mark for mark in marks if item.get_closest_marker(mark)), ""),
            )
            for item in items
        ]
    )


def _outcome(child: int, hear: int, patience: float) -> str:
    """The test that a child names, or how it ended otherwise: "stuck" if it has done nothing for so many seconds."""
    code, spent, since = None, "", time.monotonic()
    while code is None and time.monotonic() - since < patience:
        done, status = os.waitpid(child, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if done else None
        now = "" if done else Path(f"/proc/{child}/schedstat").read_text().split()[0]
        if now != spent:
            spent, since = now, time.monotonic()
        time.sleep(0.01)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if code is None:
        os.waitpid(child, 0)
    with os.fdopen(hear, "rb") as said:
        found = said.read(2000).decode(errors="replace")
    return found or ("stuck" if code is None else f"exit {code}" if code else "")


def try_faults(
    wanted: Sequence[Fault],
    tests: Sequence[Reached],
    results: Callable[[dict[str, Any]], None],
    tiers: Sequence[str],
    places: Sequence[str],
) -> None:
    """Plant faults one after the other into a copy, and tell what finds each."""
    with copied() as copy:
        environment(copy, CSDFGEN_TESTS="" if "rest" in tiers else "sample")
        for name in [n for n in sys.modules if n.partition(".")[0] == "tests"]:
            del sys.modules[name]
        sys.path[:] = [str(copy), *(one for one in sys.path if one not in ("", str(ROOT)))]
        planter = Planter(copy, wanted, tests, results, tiers)
        pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *places], plugins=[planter])
        os.chdir(ROOT)
