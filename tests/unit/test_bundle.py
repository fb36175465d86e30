"""A bundle, built and run as a board without Python would, and what becomes of its result."""

from __future__ import annotations

import copy
import errno
import gzip
import json
import os
import subprocess
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import pytest

import csdfgen
from csdfgen.cli import options
from csdfgen.cli.bundle import Bundle
from csdfgen.cli.options import Planned
from csdfgen.devices.boards import FORMAT, describe_actors, describe_network, import_profile
from csdfgen.devices.files import read_profile
from csdfgen.devices.work import layer_key
from csdfgen.emission.targets import TARGETS
from csdfgen.emission.times import make_inputs
from csdfgen.errors import InputError
from csdfgen.planning.plan import Plan
from tests.board_networks import absent, plan_of
from tests.builder import Graph
from tests.command import Call, execute, refused
from tests.native_steps import compiler_missing
from tests.small_models import residual_classifier, two_inputs

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

FLAGS = (
    "CFLAGS=-std=c99 -O0 -ffp-contract=fast -fno-lto -ffunction-sections -fdata-sections "
    "-Wall -Wextra -Wconversion -pedantic -Werror"
)


@pytest.fixture
def command(call: Call) -> Call:
    onnx.save(residual_classifier(), "net.onnx")
    return call


def left(folder: Path = Path()) -> list[str]:
    return sorted(str(path) for path in folder.iterdir())


def unpacked(file: str) -> Path:
    """The folder of an archive whose names are all below it."""
    with tarfile.open(file) as archive:
        names = archive.getnames()
        top = names[0]
        assert all(name == top or name.startswith(f"{top}/") for name in names)
        assert not any(".." in name.split("/") for name in names)
        for one in archive:
            assert one.isdir() or one.isfile()
            assert (one.mtime, one.uid, one.gid, one.uname, one.gname) == (0, 0, 0, "", "")
    assert subprocess.run(["tar", "xmzf", file], check=True).returncode == 0
    return Path(top)


def made(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return execute("make", "-s", FLAGS, "TIMES=-n 2", *words, "result.json", cwd=folder)


def bundled(command: Call, target: str, *words: str) -> Path:
    """The folder in which a bundle's result was made."""
    absent("make", "tar")
    result = command("bundle", "net.onnx", "--target", target, "--heights", "1,4")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("net.tar.gz: net, ")
    folder = unpacked("net.tar.gz")
    done = made(folder, *words)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return folder


def usable(command: Call, folder: Path) -> None:
    """The result becomes a profile with every layer's own times, by which a plan is made."""
    result = command("profile", "--import", str(folder / "result.json"), "-o", "board.toml")
    assert (result.code, result.err) == (0, "")
    profile = read_profile("board.toml")
    plan = csdfgen.plan(csdfgen.load("net.onnx"), rows=1)
    names = {work.name: work for work in plan.conversion.actors if work.layer is not None}
    keys = {layer_key(work.layer) for work in names.values() if work.layer is not None}
    assert keys <= profile.layers.keys()
    assert all(cost.rows[0] == 1 for cost in profile.layers.values())
    assert all(time > 0 for cost in profile.layers.values() for time in cost.times.written)
    found = command("schedule", "net.onnx", "--device", "board.toml", "--latency", "10s")
    assert found.code == 0, found.err


@pytest.mark.networks
def test_a_bundle_for_this_machine(command: Call) -> None:
    folder = bundled(command, "generic")
    usable(command, folder)
    result = json.loads((folder / "result.json").read_text())
    assert result["difference"] < 100
    assert [one["rows"] for one in result["heights"]] == ["1", "4"]
    assert [frame[0] for frame in result["frames"]] == [0, 1, 0, 1]
    for _, _, timed, ticks in result["frames"]:
        assert 0 < sum(ticks) <= timed
    # the network itself is there too
    assert (folder / "net").exists() or made(folder, "all").returncode == 0
    assert (folder / "net").exists()


@pytest.mark.networks
def test_a_board_that_computes_something_else(command: Call) -> None:
    """The program says so, and its result is refused."""
    absent("make", "tar")
    assert command("bundle", "net.onnx", "--target", "generic", "--heights", "2").code == 0
    folder = unpacked("net.tar.gz")
    text = (folder / "net_times.c").read_text()
    first = text.partition("wanted[7] = {")[2].split(",")[0].strip()
    (folder / "net_times.c").write_text(text.replace(first, "3.5f"))
    done = made(folder)
    assert done.returncode != 0 and "not those that csdfgen computed" in done.stderr
    assert not (folder / "result.json").exists()
    subprocess.run(["./net_times", "-o", "result.json", "-n", "1"], cwd=folder, check=False)
    line = refused(command("profile", "--import", str(folder / "result.json"), "-o", "b.toml"))
    assert "outputs on the board differ by " in line
    assert not Path("b.toml").exists()


@pytest.mark.networks
def test_a_bundle_for_aarch64(command: Call) -> None:
    absent(TARGETS["aarch64"].compiler, "qemu-aarch64")
    usable(
        command,
        bundled(command, "aarch64", "RUN=qemu-aarch64", "LDFLAGS=-static -Wl,--gc-sections"),
    )


def test_a_bundle_for_a_bare_machine(command: Call) -> None:
    absent(TARGETS["cortex-m7"].compiler, "qemu-system-arm")
    folder = bundled(command, "cortex-m7", "CLOCK=100000000")
    usable(command, folder)
    profile = read_profile("board.toml")
    board = TARGETS["cortex-m7"].board
    assert board is not None
    assert profile.memory.total.value == board.memory[-1][2]
    assert profile.processor.cores.value == 1
    assert json.loads((folder / "result.json").read_text())["ticks a second"] == 10**8


def test_the_archive_is_the_same_every_time(command: Call) -> None:
    for name in ("a.tar.gz", "b.tar.gz"):
        assert command("bundle", "net.onnx", "-o", name, "--heights", "1,2").code == 0
    assert Path("a.tar.gz").read_bytes() == Path("b.tar.gz").read_bytes()
    assert left() == ["a.tar.gz", "b.tar.gz", "net.onnx"]
    with tarfile.open("a.tar.gz") as archive:
        names = archive.getnames()
    assert names == sorted(names, key=lambda name: name.split("/"))
    assert {"net/net.h", "net/net_plan1.c", "net/times.c", "net/README.txt"} <= set(names)


def test_odd_names_are_safe(command: Call) -> None:
    """Names of files, of the network and of tensors reach no shell and no path."""
    model = two_inputs()
    Path('.." $(rm).onnx').write_bytes(model.SerializeToString())
    assert command("bundle", '.." $(rm).onnx', "--heights", "1", "--target", "generic").code == 0
    folder = unpacked("rm.tar.gz")
    assert folder == Path("rm")
    assert made(folder).returncode == 0
    assert json.loads((folder / "result.json").read_text())["network"] == '.." $(rm)'


@pytest.mark.networks
def test_a_plan_that_computes_twice(command: Call) -> None:
    """Its network is not the model's, that of the timed plans is."""
    g = Graph()
    x = g.input("x", (1, 3, 32, 64))
    for _ in range(3):
        x = g.node("Relu", g.conv(x, 8))
    onnx.save(g.model(g.node("GlobalAveragePool", g.conv(x, 4, strides=[2, 2]))), "net.onnx")
    words = ("--recompute", "1.5", "--heights", "3", "--target", "generic")
    assert command("bundle", "net.onnx", *words).code == 0
    assert made(unpacked("net.tar.gz")).returncode == 0


def test_constants_are_there_once(command: Call) -> None:
    """Plans at several heights share the packed weights."""
    sizes = []
    for heights in ("1", "1,2,3"):
        result = command(
            "bundle", "net.onnx", "--heights", heights, "--rows", "1", "--target", "generic"
        )
        assert result.code == 0
        with tarfile.open("net.tar.gz") as archive:
            sizes.append(archive.getmember("net/net_weights.c").size)
    assert sizes[1] < 1.5 * sizes[0]


# What is read -------------------------------------------------------------------------------------


@cache
def a_plan() -> Plan:
    return plan_of("residual")


def a_result(seconds_a_row: float = 2e-6, launch: float = 5e-6) -> dict[str, Any]:
    """A result as a board would write it whose phases take launch + rows * slope, by a clock of 1 MHz
    that costs 3 ticks to read.
    """
    network = a_plan().network
    heights, frames = [], []
    for number, rows in enumerate((1, 2, 4)):
        plan = csdfgen.plan(network, rows=rows, backend="native")
        actors = list(describe_actors(plan).values())
        phases = sum(one["phases"] for one in actors)
        heights.append({"rows": str(rows), "firings": phases, "actors": [*actors, None]})
        ticks = [
            round(1e6 * (launch * one["phases"] + seconds_a_row * one["rows"])) + 3 * one["phases"]
            for one in actors
        ]
        for more in (0, 7):
            plain = sum(ticks) + 11 - 3 * phases
            frames.append([number, plain, sum(ticks) + 11, [*ticks, more]])
    return {
        **describe_network("net", "aarch64", "native", "1.0"),
        "compiler": "gcc",
        "heights": heights,
        "difference": 12,
        "ticks a second": 10**6,
        "reading": 3,
        "frames": frames,
        "machine": {
            "memory": 2**30,
            "usable": 2**29,
            "constants": 0,
            "cores": 4,
            "clock": "time of day",
            "board": "A board",
        },
    }


def test_times_are_those_of_the_result(tmp_path: Path) -> None:
    """Readings of the clock are taken off, ticks become seconds."""
    path = tmp_path / "result.json"
    path.write_text(json.dumps(a_result()))
    profile = import_profile(path, "board", "2026-01-01")
    assert profile.title == "A board, native code, imported 2026-01-01"
    assert profile.memory.usable.value == 2**29
    assert profile.processor.cores.value == 4
    assert profile.processor.frame is not None
    assert profile.processor.frame.value == pytest.approx((11 + 11 - 7) / 2 * 1e-6, rel=0.1)
    assert len(profile.layers) > 4
    for cost in profile.layers.values():
        if len(set(cost.rows)) > 1:
            assert cost.launch.value == pytest.approx(5e-6, rel=0.02)
            assert cost.slope.value == pytest.approx(2e-6, rel=0.02)


Damage = Callable[[dict[str, Any]], Any]


def of(*path: Any, value: Any) -> Damage:
    """Another value in a result."""

    def damaged(result: dict[str, Any]) -> None:
        at: Any = result
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value

    return damaged


DAMAGED: list[tuple[Damage, str]] = [
    (of("format", value="csdfgen-plan"), f"'{FORMAT}' is needed"),
    (of("version", value=2), "reads up to 1"),
    (of("difference", value=123456), "differ by 12.3456 %"),
    (of("heights", value=[]), "'heights' is empty"),
    (of("frames", value=[]), "has no frame of plan 0"),
    (of("frames", 1, value=[0, 1]), "[plan, plain, timed, [ticks]]"),
    (of("frames", 0, 0, value=9), "is of plan 9; there are 3"),
    (of("frames", 0, 3, 0, value=-1), "whole numbers below 2**63"),
    (of("frames", 0, 3, 0, value="1"), "whole numbers below 2**63"),
    (of("frames", 0, 3, value=[1]), "has ticks of 1 actors; there are "),
    (of("ticks a second", value=0), "'ticks a second' is 0"),
    (of("heights", 0, "actors", 0, value={}), "has no 'amount'"),
    (of("heights", 0, "actors", 0, "amount", value=10**400), "'amount' is an integer of 1329 bits"),
    (
        of("heights", 0, "actors", 1, "kinds", value=[["Conv", "", "joule"]]),
        "lists of operator, window and unit",
    ),
    (of("heights", 0, "actors", 0, "phases", value=0), "'phases' is 0"),
    (of("machine", "usable", value=2**40), "'usable' is 1099511627776"),
    (of("machine", value=3), "an object is needed"),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGED)
def test_a_damaged_result(damage: Damage, said: str, command: Call) -> None:
    result = a_result()
    damage(result)
    Path("result.json").write_text(json.dumps(result))
    line = refused(command("profile", "--import", "result.json", "-o", "board.toml"))
    assert line.startswith("result.json: ") and said in line
    assert left() == ["net.onnx", "result.json"]


def test_a_device_that_cannot_be(command: Call) -> None:
    """Times that the reader of profiles would refuse are refused at once."""
    result = a_result()
    for height in result["heights"]:
        for actor in filter(None, height["actors"]):
            actor["amount"] = 1e-20 * actor["rows"]
    for number, _, _, ticks in result["frames"]:
        for at, actor in enumerate(result["heights"][number]["actors"][:-1]):
            ticks[at] = actor["rows"] << 40
    Path("result.json").write_text(json.dumps({**result, "ticks a second": 1}))
    line = refused(command("profile", "--import", "result.json", "-o", "board.toml"))
    assert line.startswith("result.json: 'operator[")
    assert left() == ["net.onnx", "result.json"]


def test_a_result_that_breaks_off(command: Call) -> None:
    text = json.dumps(a_result())
    for size in (0, 1, len(text) // 3, len(text) - 1):
        Path("result.json").write_text(text[:size])
        line = refused(command("profile", "--import", "result.json", "-o", "board.toml"))
        assert line.startswith("result.json") and "is not JSON" in line
    Path("result.json").write_bytes(gzip.compress(text.encode()))
    assert "is not JSON" in refused(command("profile", "--import", "result.json"))
    assert left() == ["net.onnx", "result.json"]


def test_every_value_may_be_missing(command: Call) -> None:
    """Nothing but one line, whichever member is not there."""
    whole = a_result()
    for key in whole.keys() - {"backend"}:  # which results of 0.3 lack
        broken = copy.deepcopy(whole)
        del broken[key]
        Path("result.json").write_text(json.dumps(broken))
        assert key in refused(command("profile", "--import", "result.json", "-o", "board.toml"))


# Refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("net.onnx", "-o", "out.zip"), "out.zip: an archive is written as .tar.gz"),
        (("net.onnx", "--target", "z80"), "--target z80 is not one of host, aarch64"),
        (("net.onnx", "--heights", "0"), "--heights 0: whole numbers of rows above 0"),
        (("none.onnx",), "none.onnx: "),
        (("net.onnx", "-o", "net.onnx/a.tgz"), "net.onnx/a.tgz: cannot be written: "),
        (("net.onnx", "-o", "no/where.tar.gz"), "no/where.tar.gz: cannot be written: "),
    ],
)
def test_refusals_leave_nothing(command: Call, arguments: tuple[str, ...], said: str) -> None:
    line = refused(command("bundle", *arguments))
    assert line.startswith(said), line
    assert left() == ["net.onnx"]


def test_a_batch_is_not_timed(call: Call) -> None:
    onnx.save(residual_classifier(batch="N"), "net.onnx")
    line = refused(call("bundle", "net.onnx", "--batch", "2"))
    assert line == (
        "net.onnx: is for 2 images a call; times are of one image, leave --batch and --frames out"
    )
    assert left() == ["net.onnx"]


@pytest.mark.parametrize("place", ["csdf.h", "net_plan0.c", "net_times.c", ".part"])
def test_a_full_disk(place: str, command: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive that was there stays; nothing else is left."""
    Path("net.tar.gz").write_bytes(b"old")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    open_path = Path.open

    def fails(path: Path, *args: Any, **options: Any) -> Any:
        if str(path).endswith(place) and "w" in "".join(map(str, args)):
            raise full
        return open_path(path, *args, **options)

    monkeypatch.setattr(options, "check_writable", lambda path: None)
    monkeypatch.setattr(Path, "open", fails)
    line = refused(command("bundle", "net.onnx", "--heights", "1"))
    assert line == "net.tar.gz: cannot be written: No space left on device"
    assert left() == ["net.onnx", "net.tar.gz"]
    assert open_path(Path("net.tar.gz"), "rb").read() == b"old"


def test_interrupted_while_packing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(residual_classifier(), "net.onnx")
    added = tarfile.TarFile.add

    def interrupted(archive: tarfile.TarFile, name: Any, *args: Any, **options: Any) -> None:
        if str(name).endswith("net_times.c"):
            raise KeyboardInterrupt
        added(archive, name, *args, **options)

    monkeypatch.setattr(tarfile.TarFile, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Bundle(model="net.onnx", heights="1", planning=Planned()).run()
    assert left() == ["net.onnx"]


def test_import_takes_no_model(command: Call) -> None:
    result = command("profile", "net.onnx", "--import", "result.json")
    assert result.code == 2 and "takes no MODEL" in result.err


def test_inputs_are_spread() -> None:
    """The values that board and host compute alike are no constant."""
    (tensor,) = a_plan().network.inputs
    values = make_inputs(tensor)
    assert values.shape == tensor.shape and values.dtype == tensor.dtype
    assert -1 <= values.min() < -0.9 and 0.9 < values.max() < 1
    with pytest.raises(InputError):
        import_profile("none.json", "board", "")
