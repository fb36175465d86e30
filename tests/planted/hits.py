"""Which faults do tests reach? In the copy with probes every test notes them, with its seconds of processor time.

A plugin of pytest (`-p tests.planted.hits`); processes that tests start write what they reach under the name of the test.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator

import pytest

_FILE = os.environ.get("PLANTED_RECORD", "")
_SEEN: set[str] = set()
_STATE = {"worker": 0, "failed": 0}


def hit(what: str) -> None:
    """A fault, or a kernel, is reached."""
    if what in _SEEN:
        return
    _SEEN.add(what)
    if _FILE and _STATE["worker"] != os.getpid():
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
        _write({"test": test, "hits": [what]})


def _write(line: dict[str, object]) -> None:
    with open(f"{_FILE}.{_STATE['worker']}", "a", encoding="utf-8") as file:  # noqa: PTH123
        file.write(json.dumps(line) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _STATE.update(worker=os.getpid(), failed=0)
    _SEEN.clear()
    before = sum(os.times()[:4])
    done = yield
    seconds = round(sum(os.times()[:4]) - before, 3)
    line = {"test": item.nodeid, "seconds": seconds, "failed": _STATE["failed"]}
    _write({**line, "hits": sorted(_SEEN)})
    return done


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _STATE["failed"] |= report.failed
