"""Sweeps: which points, what their rows say, and that a sweep that was broken off ends as one that was not."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from csdfgen.errors import InputError, ToolError
from csdfgen.sweeps import engines
from csdfgen.sweeps.cache import Cache
from csdfgen.sweeps.engines import Finished, local_processes
from csdfgen.sweeps.point import FIGURES, Task, plan_point
from csdfgen.sweeps.run import make_tasks, sweep
from csdfgen.sweeps.spec import read_spec
from csdfgen.sweeps.table import COLUMNS, PLAN_SECONDS, SUFFIXES
from tests.command import ROOT, Call, Result, refused, start
from tests.small_models import residual_classifier

NO_DASK = importlib.util.find_spec("distributed") is None
NO_PYARROW = importlib.util.find_spec("pyarrow") is None

SPEC = """
model = "net.onnx"
backend = "numpy"

[[grid]]
memory = ["1KiB", "7KiB", "1MiB"]
goal = ["", "speed"]

[[grid]]
requests = 3
batching = ["fbs", "joint"]
"""
"""Eight points, two of which have no plan."""


def in_this_process(tasks: Sequence[Task], jobs: int) -> Finished:
    """An engine that starts no process, and ends with the last point first."""
    for place in reversed(range(len(tasks))):
        yield place, plan_point(tasks[place])


@pytest.fixture
def call(call: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command, in a folder with a small model and a spec; points are planned in this process."""
    onnx.save(residual_classifier(), "net.onnx")
    Path("spec.toml").write_text(SPEC)
    monkeypatch.setattr(engines, "local_processes", in_this_process)
    return call


def swept(call: Call, spec: str, *more: str) -> list[dict[str, Any]]:
    """The rows of a spec."""
    Path("one.toml").write_text(spec)
    done = call("sweep", "one.toml", "-o", "one.json", *more)
    assert done.code == 0, done.err
    return json.loads(Path("one.json").read_text())


def there() -> list[str]:
    """What lies in the folder."""
    return sorted(one.name for one in Path.cwd().iterdir())


# Which points -----------------------------------------------------------------------------------


def test_rows_are_in_the_order_of_the_spec(call: Call) -> None:
    """The first key changes slowest, a grid comes after a grid, and "" leaves an option out."""
    rows = swept(call, SPEC)
    told = [(row["memory_bytes"], row["goal"], row["requests"], row["batching"]) for row in rows]
    budgets = [(size, goal, None, None) for size in (1024, 7168, 2**20) for goal in (None, "speed")]
    assert told == [*budgets, (None, None, 3, "fbs"), (None, None, 3, "joint")]


@pytest.mark.networks
def test_every_option_is_read_as_the_command_reads_it(call: Call) -> None:
    """A row says what `csdfgen schedule` says of the same options."""
    cases: list[tuple[str, tuple[str, ...]]] = [
        ('memory = "1MiB"', ("--memory", "1MiB")),
        ("rows = 2\nfuse = 'none'\nimage = 'resident'", ("--rows", "2", "--fuse", "none", "--image", "resident")),
        ("latency = '1s'\ndevice = 'cortex-m7'", ("--latency", "1s", "--device", "cortex-m7")),
        ("policy = 'eager'\npack = 'fast'\nresult = 'streamed'", ("--policy", "eager", "--result", "streamed")),
        ("goal = 'memory'\neffort = 'normal'", ("--goal", "memory", "--effort", "normal")),
        ("recompute = 1.5\nexact = true\nfallback = true", ("--recompute", "1.5", "--exact", "--fallback")),
        ("fast = '2KiB'\nslow = '1MiB'", ("--fast", "2KiB", "--slow", "1MiB")),
        ("shape = { x = '1x3x24x12' }", ("--shape", "x=1x3x24x12")),
        ("frames = 3", ("--frames", "3")),
        ("frames = 3\nbatches = 3", ("--frames", "3", "--batches", "3")),
        ("requests = 4\nmemory = '40KiB'", ("--requests", "4", "--memory", "40KiB")),
    ]  # fmt: skip
    for spec, flags in cases:
        (row,) = swept(call, f'model = "net.onnx"\nbackend = "numpy"\n{spec}')
        told = call("schedule", "net.onnx", "--backend", "numpy", *flags, "--json")
        assert row["ok"] and told.code == 0, (row["error"], told.err)
        found = told.json
        for name in ("planned_bytes", "firings"):
            assert row[name] == found[name], flags
        assert row["outputs_bytes"] == (found["outputs"] or 0), flags
        assert row["peak_live_bytes"] == found["peak_live"], flags
        assert row["whole_layer_live_bytes"] == found["whole_layer_live"], flags
        assert row["predicted_on"] == found["device"]
        covered = row["requests"] or row["frames"] or 1
        assert row["images"] == covered
        assert row["predicted_frame_ms"] == pytest.approx(found["predicted_ms"] / covered), flags
        assert row["predicted_request_ms"] == pytest.approx(found["predicted_ms"]), flags


def test_a_batch_is_as_many_frames(call: Call) -> None:
    one, four = swept(call, 'model = "net.onnx"\nbackend = "numpy"\nbatch = [1, 4]')
    assert (one["images"], four["images"]) == (1, 4)
    assert one["predicted_request_ms"] == one["predicted_frame_ms"] == four["predicted_frame_ms"]
    assert four["predicted_request_ms"] == pytest.approx(4 * four["predicted_frame_ms"])


def test_formats_are_calibrated_on_files_beside_the_spec(call: Call, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.save("x.npy", rng.uniform(-1, 1, (2, 3, 16, 12)).astype(np.float32))
    spec = 'model = "net.onnx"\nbackend = "numpy"\nformats = ["", "int8"]\ncalibration = { files = ["x.npy"] }'
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    Path("one.toml").write_text(spec)
    os.chdir(elsewhere)
    assert call("sweep", "../one.toml", "-o", "one.json").code == 0
    plain, byte = json.loads(Path("one.json").read_text())
    assert plain["planned_bytes"] > byte["planned_bytes"] > 0
    assert plain["sqnr_db"] is None and byte["sqnr_db"] > 20
    os.chdir(tmp_path)
    flags = ("--backend", "numpy", "--formats", "int8", "--calibrate", "x.npy", "--json")
    found = call("schedule", "net.onnx", *flags).json
    assert (found["planned_bytes"], found["sqnr_db"]) == (byte["planned_bytes"], byte["sqnr_db"])


def test_what_makes_no_sense_is_refused(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(tasks: Sequence[Task], jobs: int) -> Iterator[Any]:
        raise AssertionError("planned")

    monkeypatch.setattr(engines, "local_processes", nobody)
    Path("net.txt").write_text("no model")
    for spec, said in (
        ("modle = 'net.onnx'", "'modle' is 'net.onnx', a key that is not known here"),
        ("[[grid]]\nmodel = 'net.onnx'\nbudget = 1", "'grid[1].budget' is 1, a key"),
        ("memory = '1MiB'", "'model' is missing"),
        ("model = []", "'model' is an empty list"),
        ("model = ['net.onnx', 'net.onnx']", "'model' has 'net.onnx' twice"),
        ("model = 'none.onnx'", "none.onnx: does not exist"),
        ("model = 'net.txt'", "net.txt: "),
        ("model = 'zoo:lenet6'", "lenet5"),
        ("model = 'net.onnx'\nmemory = '3 parsecs'", "'memory' memory='3 parsecs'"),
        ("model = 'net.onnx'\nrequests = 0", "'requests' is 0"),
        ("model = 'net.onnx'\nbatching = 'vbs'", "'batching' needs images"),
        ("model = 'net.onnx'\nbatching = 'best'\nrequests = 2", "one of fbs, greedy, vbs-paper"),
        ("model = 'net.onnx'\nrequests = 2\nframes = 2", "chooses what frames gives"),
        ("model = 'net.onnx'\nbatches = 2", "say how many with frames"),
        ("model = 'net.onnx'\nformats = 'int8'", "is chosen by what inputs show"),
        ("model = 'net.onnx'\nformats = 'float16'\nrequests = 2", "one image at a time"),
        ("model = 'net.onnx'\ndevice = 'cortex-m8'", "did you mean"),
        ("model = 'net.onnx'\ndevice = 'host'", "host.toml"),
        ("model = 'net.onnx'\ntuning = 'none.json'", "none.json: cannot be read"),
        ("model = 'net.onnx'\nexact = 1", "'exact' is 1; true or false is needed"),
        ("model = 'net.onnx'\nshape = 'x=1x3'", "a table is needed"),
        ("model = 'net.onnx'\nshape = { x = '1*3' }", "sizes such as"),
        ("model = 'net.onnx'\ncalibration = { file = 'a' }", "calibration.file"),
        ("model = 'net.onnx'\ncalibration = { std = [0.0] }", "by which nothing can be divided"),
        ("model = 'net.onnx'\nrows = " + str([*range(1, 400)]) + "\nframes = " + str([*range(1, 400)]), "159,201 points more"),
        ("model = 'net.onnx'\n" + 2 * f"[[grid]]\nrows = {[*range(1, 301)]}\nframes = {[*range(1, 201)]}\n",
            "60,000 points more, where 40,000"),
        ("model = ", "is not TOML"),
    ):  # fmt: skip
        Path("wrong.toml").write_text(spec)
        line = refused(call("sweep", "wrong.toml", "-o", "wrong.csv"))
        assert line.startswith("wrong.toml") and said in line, line
    assert "cannot be read" in refused(call("sweep", "none.toml", "-o", "wrong.csv"))
    assert "a sweep is written as" in refused(call("sweep", "spec.toml", "-o", "wrong.xlsx"))
    assert "no/such" in refused(call("sweep", "spec.toml", "-o", "no/such/folder.csv"))
    assert "HOST:PORT" in refused(call("sweep", "spec.toml", "-o", "a.csv", "--on", "tcp://a:1"))
    both = ("sweep", "spec.toml", "-o", "a.csv", "--on", "dask://a:1", "--jobs", "2")
    assert call(*both).code == 2
    assert there() == ["net.onnx", "net.txt", "spec.toml", "wrong.toml"]


# What rows say ----------------------------------------------------------------------------------


def test_a_point_without_a_plan_is_a_row_with_its_error(call: Call) -> None:
    rows = swept(call, SPEC)
    failed = [row for row in rows if not row["ok"]]
    assert [row["memory_bytes"] for row in failed] == [1024, 1024]
    for row in failed:
        assert row["error"].startswith("net.onnx: memory of 1,024 bytes is below")
        assert "\n" not in row["error"] and str(Path.cwd()) not in row["error"]
        assert all(row[name] is None for name in FIGURES if name not in ("ok", "error"))
    assert all(row["error"] is None and row["planned_bytes"] > 0 for row in rows if row["ok"])
    done = call("sweep", "spec.toml", "-o", "all.csv")
    assert "all.csv: 8 points, 2 without a plan; 8 planned in" in done.out and not done.err


@pytest.mark.skipif(NO_PYARROW, reason="pyarrow: csdfgen[sweep]")
def test_tables_say_the_same_in_every_form(call: Call) -> None:
    from pyarrow import parquet

    for suffix in SUFFIXES:
        assert call("sweep", "spec.toml", "-o", f"all{suffix}").code == 0
    rows = json.loads(Path("all.json").read_text())
    columns = [name for name in COLUMNS if name != PLAN_SECONDS]
    assert [list(row) for row in rows] == [columns] * 8
    table = parquet.read_table("all.parquet")
    assert table.column_names == columns and table.to_pylist() == rows
    types = {name: str(table.schema.field(name).type) for name in columns}
    assert {types[name] for name in columns if name.endswith("_ms")} == {"double"}
    assert {types[name] for name in columns if name.endswith("_bytes")} == {"int64"}
    assert (types["ok"], types["model"], types["exact"]) == ("bool", "string", "bool")
    with Path("all.csv").open() as file:
        texts = list(csv.DictReader(file))
    for text, row in zip(texts, rows, strict=True):
        shown = {name: "" if value is None else str(value) for name, value in row.items()}
        assert text == shown | {"ok": str(row["ok"]).lower()}


def test_seconds_of_planning_are_a_column_on_demand(call: Call) -> None:
    (row,) = swept(call, 'model = "net.onnx"\nbackend = "numpy"', "--timings")
    assert list(row) == list(COLUMNS) and 0 < row[PLAN_SECONDS] < 60
    (again,) = swept(call, 'model = "net.onnx"\nbackend = "numpy"', "--timings")
    assert again == row, "they are kept with the point"


def test_parquet_without_its_extra(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    line = refused(call("sweep", "spec.toml", "-o", "all.parquet"))
    assert "needs pyarrow" in line and "csdfgen[sweep]" in line
    assert there() == ["net.onnx", "spec.toml"]
    assert call("sweep", "spec.toml", "-o", "all.csv").code == 0


def test_the_picture_has_a_panel_a_model_and_a_line_a_way(call: Call) -> None:
    spec = """
    title = "Two networks"
    model = ["net.onnx", "zoo:lenet5"]
    backend = "numpy"
    memory = ["1KiB", "64KiB", "1MiB"]
    requests = 3
    batching = ["fbs", "joint"]
    """
    rows = swept(call, spec)
    texts = [e.text or "" for e in ET.parse("one.svg").iter("{http://www.w3.org/2000/svg}text")]
    assert {"Two networks", "net.onnx", "lenet5", "fbs", "joint"} <= set(texts)
    failed = sum(not row["ok"] for row in rows)
    assert (
        failed
        and f"12 points, {failed} of them without a plan; times predicted on numpy-core" in texts
    )
    dots = re.findall(r'd="((?:M[\d.]+ [\d.]+h0)+)"', Path("one.svg").read_text())
    ways = {(row["model"], row["batching"]) for row in rows if row["ok"]}
    assert len(dots) == len(ways) + 2, "the legend has a dot for each of its two lines"


# Going on ---------------------------------------------------------------------------------------


def files(folder: str) -> dict[str, int]:
    """What is kept, and when it was written; not what is being written, which may be gone by then."""
    kept = [one for one in Path(folder).iterdir() if not one.name.startswith(".")]
    return {one.name: one.stat().st_mtime_ns for one in kept}


@pytest.mark.networks
def test_what_is_known_is_not_planned_again(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Task] = []

    def counting(tasks: Sequence[Task], jobs: int) -> Iterator[Any]:
        planned.extend(tasks)
        yield from in_this_process(tasks, jobs)

    monkeypatch.setattr(engines, "local_processes", counting)

    def again(*changed: str) -> int:
        """Points that were planned."""
        planned.clear()
        assert call("sweep", "spec.toml", "-o", "all.csv").code == 0
        return len(planned)

    assert again() == 8
    before = Path("all.csv").read_bytes(), Path("all.svg").read_bytes(), files("all.points")
    assert again() == 0
    assert before == (
        Path("all.csv").read_bytes(),
        Path("all.svg").read_bytes(),
        files("all.points"),
    )
    Path("spec.toml").write_text(SPEC.replace('"1MiB"', '"1MiB", "2MiB"'))
    assert again() == 2, "only what is new"
    some = sorted(Path("all.points").iterdir())
    some[0].write_bytes(some[0].read_bytes()[:-20])
    some[1].write_text('{"format": "csdfgen-sweep-point", "version": 1, "outcome": {"ok": true}}')
    some[2].unlink()
    assert again() == 3, "damaged is as good as absent"
    onnx.save(residual_classifier(height=18), "net.onnx")
    assert again() == 10, "another model"
    assert again() == 0
    monkeypatch.setattr("csdfgen.sweeps.point.program_digest", lambda: "another")
    assert again() == 10, "another csdfgen"


def test_equal_points_are_planned_once(call: Call) -> None:
    grid = '[[grid]]\nmodel = "net.onnx"\nbackend = "numpy"\n'
    first, second = swept(call, 2 * grid)
    assert first == second and len(files("one.points")) == 1


SLOW = """
backend = "numpy"
model = "net.onnx"
requests = [2, 3, 4]
batching = ["fbs", "joint"]
memory = ["4KiB", "64KiB"]
"""
"""12 points, for long enough that a sweep can be broken off among them."""


def finished(seconds: float = 240) -> Result:
    """The sweep of `SLOW` on two processes."""
    process = start("sweep", "slow.toml", "-o", "slow.csv", "--jobs", "2")
    out, err = process.communicate(timeout=seconds)
    return Result(process.returncode, out, err)


def broken_off(by: signal.Signals, points: int) -> tuple[subprocess.Popen[str], str]:
    """The same, ended by a signal when so many points are kept; what it said."""
    process = start("sweep", "slow.toml", "-o", "slow.csv", "--jobs", "2")
    until = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < until:
        if Path("slow.points").is_dir() and len(files("slow.points")) >= points:
            break
        time.sleep(0.02)
    process.send_signal(by)
    _, err = process.communicate(timeout=60)
    return process, err


def children_of(pid: int) -> list[int]:
    """Processes that a process has started, and that still run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == pid and state != "Z":
            found.append(int(folder.name))
    return found


@pytest.mark.networks
def test_a_sweep_that_is_broken_off_goes_on_to_the_same_table(call: Call) -> None:
    """By SIGKILL and by Ctrl-C, at moments of chance; held against the table of one process."""
    Path("slow.toml").write_text(SLOW)
    assert call("sweep", "slow.toml", "-o", "whole.csv").code == 0
    moments = np.random.default_rng().integers(1, 6, 2)
    print("broken off at", moments)
    process, _ = broken_off(signal.SIGKILL, int(moments[0]))
    assert process.returncode == -signal.SIGKILL
    kept = files("slow.points")
    assert not Path("slow.csv").exists() and not Path("slow.svg").exists()
    process, err = broken_off(signal.SIGINT, int(moments.sum()))
    assert process.returncode == 130, err
    more = files("slow.points")
    said = f"interrupted: {len(more)} of 12 points are done, kept in slow.points"
    assert err.startswith(said) and len(err.splitlines()) == 1, err
    assert not Path("slow.csv").exists()
    done = finished()
    assert done.code == 0, done.err
    assert f"; {len(more)} were known; {12 - len(more)} planned" in done.out
    assert kept.items() <= files("slow.points").items(), "nothing was planned twice"
    assert Path("slow.csv").read_bytes() == Path("whole.csv").read_bytes()


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="no /proc to look for processes in"
)
def test_nobody_goes_on_planning_for_a_sweep_that_was_killed(call: Call) -> None:
    Path("slow.toml").write_text(SLOW)
    process = start("sweep", "slow.toml", "-o", "slow.csv", "--jobs", "2")
    until = time.monotonic() + 120
    while not Path("slow.points").is_dir() and time.monotonic() < until:
        time.sleep(0.02)
    workers = children_of(process.pid)
    assert len(workers) >= 2
    process.kill()
    process.communicate(timeout=60)
    until = time.monotonic() + 20
    while any(is_running(one) for one in workers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [one for one in workers if is_running(one)]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_process_is_gone(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(tasks: Sequence[Task], jobs: int) -> Iterator[Any]:
        yield 0, plan_point(tasks[0])
        yield from local_processes([_Deadly(tasks[1])], jobs)  # type: ignore[list-item]

    monkeypatch.setattr(engines, "local_processes", gone)
    line = refused(call("sweep", "spec.toml", "-o", "all.csv", "--jobs", "1"))
    assert "was ended from outside" in line
    assert "1 of 8 points are done, kept in all.points" in line and not Path("all.csv").exists()


class _Deadly:
    """Ends the process that unpacks it."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (1,)


def test_a_worker_of_another_kind_refuses(call: Call) -> None:
    (task, *_) = make_tasks(read_spec("spec.toml"), "spec.toml")
    for other, said in (
        (replace(task, program="0"), "another csdfgen"),
        (replace(task, code="avx1024"), "native code"),
        (replace(task, digests={"net.onnx": "0"}), "another file where a worker runs"),
    ):
        with pytest.raises(InputError, match=said):
            plan_point(other)
        assert other.key != task.key
    assert plan_point(task)["error"]


def test_a_missing_compiler_is_no_row(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = make_tasks(read_spec("spec.toml"), "spec.toml")

    def none(*given: object, **more: object) -> None:
        raise ToolError("no C compiler")

    monkeypatch.setattr("csdfgen.sweeps.point.choose_plan", none)
    with pytest.raises(ToolError, match="no C compiler"):
        sweep(
            tasks[:1], Cache(Path("points")), lambda some: in_this_process(some, 1), lambda *_: None
        )
    assert not Path("points").exists()


# On a cluster -----------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Iterator[str]:
    """Two Dask workers of this machine: their scheduler's address."""
    distributed = pytest.importorskip("distributed", reason="Dask: csdfgen[dask]")
    environment = {"PYTHONPATH": str(ROOT)}
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", env=environment
    ) as made:
        yield str(made.scheduler_address).replace("tcp://", "dask://")


@pytest.mark.networks
def test_a_cluster_gives_the_same_table(call: Call, cluster: str) -> None:
    for name, more in (("here", ()), ("there", ("--on", cluster))):
        done = call("sweep", "spec.toml", "-o", f"{name}.csv", *more)
        assert done.code == 0 and not done.err, done.err
    assert Path("here.csv").read_bytes() == Path("there.csv").read_bytes()
    assert Path("here.svg").read_bytes() == Path("there.svg").read_bytes()
    assert files("here.points").keys() == files("there.points").keys()


def test_a_worker_refuses(call: Call, cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("csdfgen.sweeps.point.program_digest", lambda: "another")
    line = refused(call("sweep", "spec.toml", "-o", "all.csv", "--on", cluster))
    assert "a worker has another csdfgen" in line and there() == ["net.onnx", "spec.toml"]


@pytest.mark.skipif(NO_DASK, reason="Dask: csdfgen[dask]")
def test_a_scheduler_that_does_not_answer(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_REACHED_WITHIN", 1)
    line = refused(call("sweep", "spec.toml", "-o", "all.csv", "--on", "dask://127.0.0.1:9"))
    assert line.startswith("tcp://127.0.0.1:9: no Dask scheduler answers within 1 s")
    assert there() == ["net.onnx", "spec.toml"]


def test_a_scheduler_without_workers(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask: csdfgen[dask]")
    monkeypatch.setattr(engines, "_REACHED_WITHIN", 2)
    with distributed.LocalCluster(
        n_workers=0, processes=False, dashboard_address=":0", protocol="tcp"
    ) as made:
        address = str(made.scheduler_address)
        there = address.replace("tcp://", "dask://")
        line = refused(call("sweep", "spec.toml", "-o", "all.csv", "--on", there))
    assert line == f"{address}: has no workers; start some with dask worker"


def test_a_cluster_without_its_extra(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    line = refused(call("sweep", "spec.toml", "-o", "all.csv", "--on", "dask://127.0.0.1:9"))
    assert "needs Dask" in line and "csdfgen[dask]" in line
