"""Measuring a machine: the facts that it tells about itself, on recorded trees; the profile; what
changed between two.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import pytest
from threadpoolctl import threadpool_limits

import csdfgen
import runtime
from benchmarks import bench_profile
from csdfgen.cli import main
from csdfgen.devices import facts, measure
from csdfgen.devices.catalogue import device
from csdfgen.devices.difference import difference
from csdfgen.devices.files import profile_to_toml, read_profile, write_profile
from csdfgen.devices.measure import Sampler, make_profile, sample_network
from csdfgen.devices.model import estimate
from csdfgen.devices.profile import DeviceProfile
from csdfgen.devices.samples import sample_models
from csdfgen.emission.account import account_memory
from tests.builder import Graph
from tests.small_models import residual_classifier

JETSON = {
    "proc/device-tree/model": "NVIDIA Jetson TX2 Developer Kit\0",
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: ARMv8 Processor rev 3 (v8l)\nCPU part\t: 0xd07\n\nprocessor\t: 1\n",
    "proc/meminfo": "MemTotal:        8048404 kB\nMemFree:          100000 kB\nMemAvailable:    6000000 kB\n",
    "proc/loadavg": "0.52 0.58 0.59 2/512 4321\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "schedutil\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "345600\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq": "2035200\n",
    "sys/devices/system/cpu/cpu0/cache/index0/level": "1\n",
    "sys/devices/system/cpu/cpu0/cache/index0/type": "Data\n",
    "sys/devices/system/cpu/cpu0/cache/index0/size": "32K\n",
    "sys/devices/system/cpu/cpu0/cache/index2/level": "2\n",
    "sys/devices/system/cpu/cpu0/cache/index2/type": "Unified\n",
    "sys/devices/system/cpu/cpu0/cache/index2/size": "2M\n",
    "sys/devices/system/cpu/cpu1/online": "0\n",
    "sys/devices/system/cpu/cpu3/cpufreq/scaling_governor": "schedutil\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "schedutil\n",
    "sys/class/thermal/thermal_zone0/type": "BCPU-therm\n",
    "sys/class/thermal/thermal_zone0/temp": "38500\n",
    "sys/class/thermal/thermal_zone10/type": "GPU-therm\n",
    "sys/class/thermal/thermal_zone10/temp": "-1250\n",
    "sys/class/thermal/thermal_zone2/type": "PMIC-Die\n",
    "sys/class/thermal/thermal_zone2/temp": "broken\n",
    "etc/nvpmodel.status": "pmode:0000 MAXN\n",
}
"""A tree in the form of a Jetson's, written for this test: no such board was at hand."""

STATS = "RAM 2448/7860MB (lfb 2x4MB) CPU [10%@345,off,off,9%@345] GR3D_FREQ 0% BCPU@38.5C VDD_IN 2095/2095"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def executable(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


# Facts ------------------------------------------------------------------------------------------


def test_a_boards_facts_are_read(tmp_path: Path) -> None:
    stats = executable(
        tmp_path / "tegrastats", f"#!/bin/sh\nwhile :; do echo '{STATS}'; sleep 0.1; done\n"
    )
    assert facts.board_facts(tree(tmp_path / "root", JETSON), stats) == {
        "board": "NVIDIA Jetson TX2 Developer Kit",
        "cpu": "ARMv8 Processor rev 3 (v8l)",
        "cores": "2",
        "governor": "schedutil",
        "clock": "cpu0 346 of 2035 MHz",
        "caches": "L1 Data 32K, L2 Unified 2M",
        "memory": "7,860 MiB",
        "temperature": "BCPU-therm 38.5 C, GPU-therm -1.2 C",
        "load": "0.52 0.58 0.59",
        "power mode": "pmode:0000 MAXN",
        "tegrastats": STATS,
    }


def test_what_a_system_does_not_tell_is_said_so(tmp_path: Path) -> None:
    found = facts.board_facts(tmp_path, "no-such-tegrastats")
    assert set(found.values()) == {facts.NOT_TOLD}


def test_a_pc_is_named_by_its_maker(tmp_path: Path) -> None:
    files = {
        "sys/class/dmi/id/product_name": "ThinkPad X1\n",
        "sys/class/dmi/id/sys_vendor": "LENOVO\n",
    }
    assert (
        facts.board_facts(tree(tmp_path, files), "no-such-tegrastats")["board"]
        == "LENOVO ThinkPad X1"
    )


def test_memory_and_cores_come_from_the_tree(tmp_path: Path) -> None:
    memory, processor = facts.machine(tree(tmp_path, JETSON))
    assert memory.total.value == 8048404 * 1024 and memory.usable.value == 6000000 * 1024
    assert memory.cache is not None and memory.cache.value == 2 * 2**20
    assert processor.cores.value == 2
    assert {memory.total.origin, processor.cores.origin} == {"measured"}


def test_a_tegrastats_that_hangs_or_fails_stops_nothing(tmp_path: Path) -> None:
    assert facts.tegrastats(executable(tmp_path / "silent", "#!/bin/sh\nexec sleep 60\n")) == ""
    assert facts.tegrastats(executable(tmp_path / "failing", "#!/bin/sh\nexit 3\n")) == ""


# Measurements -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def profile() -> DeviceProfile:
    network = csdfgen.load(residual_classifier(height=48, width=40))
    with threadpool_limits(1):
        found = sample_network(network, (1, 2, 6), repeats=7)
    return make_profile([found], "host", "this machine", *facts.machine(), {"cpu": "a processor"})


def test_every_layer_shape_is_measured_at_every_height(profile: DeviceProfile) -> None:
    assert any(key.startswith("Conv+Relu 1x3x48x40") for key in profile.layers)
    assert "input 1x3x48x40" in profile.layers
    for layer in profile.layers.values():
        assert layer.rows == (1, 2, 6)
        assert all(time > 0 for time in layer.times.values)
        assert layer.launch.origin == layer.slope.origin == "measured"
    assert profile.processor.frame is not None and profile.processor.frame.value > 0


def test_a_measured_profile_predicts_with_its_own_shapes(profile: DeviceProfile) -> None:
    network = csdfgen.load(residual_classifier(height=48, width=40))
    found = estimate(csdfgen.plan(network, rows=3), profile)
    assert {layer.how for layer in found.layers} == {"its own shape"}
    assert {layer.origin for layer in found.layers} == {"measured"}
    other = estimate(
        csdfgen.plan(csdfgen.load(residual_classifier(height=32, width=24)), rows=3), profile
    )
    assert "Conv direct" in {layer.how for layer in other.layers}
    assert 0 < other.seconds < found.seconds


def test_a_profile_is_read_as_written(profile: DeviceProfile, tmp_path: Path) -> None:
    path = tmp_path / "host.toml"
    write_profile(path, profile)
    again = read_profile(path)
    assert profile_to_toml(again) == path.read_text()
    assert again.conditions == {"cpu": "a processor"}
    for key, layer in profile.layers.items():
        assert again.layers[key].slope.value == pytest.approx(layer.slope.value, rel=1e-6)


def test_firings_are_timed_in_order_and_the_frame_is_the_same() -> None:
    network = csdfgen.load(residual_classifier())
    program = runtime.compile(csdfgen.plan(network, rows=2))
    x = np.ones((1, 3, 16, 12), np.float32)
    ticks = iter(range(10_000))
    ended = program.time_firings(x, lambda: next(ticks))
    assert ended == tuple(range(program.firings + 1))


def test_inputs_of_every_type_are_random() -> None:
    """Integers and booleans too, which a uniform draw from -1 to 1 would make all 0, or all 1."""
    graph = Graph()
    count = graph.input("count", (1, 2, 8, 8), "int64")
    flag = graph.input("flag", (1, 2, 8, 8), "bool")
    floats = [graph.node("Cast", name, to=1) for name in (count, flag)]
    feeds = Sampler.of(csdfgen.load(graph.model(*floats)), (1,)).feeds
    assert (feeds["count"].dtype, feeds["flag"].dtype) == (np.int64, np.bool_)
    assert set(feeds["count"].flat) == set(range(10)) and set(feeds["flag"].flat) == {False, True}


def test_plain_frames_tell_what_the_clock_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = Sampler.of(csdfgen.load(residual_classifier()), (1, 4))
    monkeypatch.setattr(measure, "_reading", lambda clock: 500)
    assert sampler.reading() == 500  # no plain frame: what it costs behind another reading
    for excess, wanted in ((800, 800), (-90, 500), (99_000, 2000)):
        sampler._excess = {
            height: [excess * program.firings] * 3 for height, program in sampler.programs.items()
        }
        assert sampler.reading() == pytest.approx(wanted)


def test_short_frames_are_measured_for_a_second_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(measure.count_rounds(3)) == [0, 1, 2]
    now = iter(range(100))
    monkeypatch.setattr(time, "perf_counter", lambda: next(now))
    assert list(measure.count_rounds(2, 5.0)) == [0, 1, 2, 3, 4, 5]


def test_the_built_in_layers_hold_each_common_kind() -> None:
    kinds = {layer.op_type for one in sample_models() for layer in one.network.layers}
    assert {
        "Conv", "QLinearConv", "MaxPool", "AveragePool", "GlobalAveragePool", "LRN", "Gemm", "MatMul", "Softmax", "Concat",
        "Add", "Mul", "Relu", "Sigmoid", "LayerNormalization", "BatchNormalization", "LSTM", "GRU", "Resize", "Transpose",
    } <= kinds  # fmt: skip


def test_a_difference_tells_what_changed(profile: DeviceProfile) -> None:
    slower = {
        key: replace(
            layer,
            launch=replace(layer.launch, value=2 * layer.launch.value),
            slope=replace(layer.slope, value=2 * layer.slope.value),
        )
        for key, layer in profile.layers.items()
    }
    dropped = next(iter(slower))
    del slower[dropped]
    after = replace(
        profile, layers=MappingProxyType(slower), conditions=MappingProxyType({"cpu": "another"})
    )
    found = difference(profile, after)
    assert found.ratio == pytest.approx(2)
    assert found.only_before == (dropped,) and found.only_after == ()
    assert found.conditions == {"cpu": ("a processor", "another")}


# Commands ---------------------------------------------------------------------------------------


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command, in a folder with a small model: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    onnx.save(residual_classifier(), "net.onnx")

    def run(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(arguments)
        return code, *capfd.readouterr()

    return run


def test_profile_then_analyze_then_compare(call: Any) -> None:
    code, out, _ = call("profile", "net.onnx", "--heights", "1,4")
    assert code == 0 and int(read_profile("host.toml").conditions["repeats"]) > 11
    code, out, _ = call("profile", "net.onnx", "--repeats", "2", "--heights", "1,4")
    assert (
        code == 0
        and read_profile("host.toml").conditions["repeats"] == "2"
        and "host.toml: " in out
        and "cache state" in out
        and "governor" in out
    )
    code, out, _ = call("analyze", "net.onnx", "--device", "host", "--json", "--csv", "layers.csv")
    found = json.loads(out)["device"]
    assert code == 0 and found["fits"] and found["origins"] == {"measured": pytest.approx(1)}
    assert found["sequential"]["fps"] == pytest.approx(1e3 / found["sequential"]["latency_ms"])
    lines = Path("layers.csv").read_text().splitlines()
    assert lines[0].startswith("layer,operator,phases,rows,time_ms") and len(lines) == 1 + len(
        found["layers"]
    )
    code, out, _ = call("profile", "--diff", "host.toml", "host.toml", "--json")
    assert code == 0 and json.loads(out)["ratio"] == pytest.approx(1)
    assert call("profile", "--diff", "host.toml", "host.toml")[0] == 0
    assert "measured, by layer shape" in call("devices")[1]


def test_an_interrupted_profile_leaves_nothing(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the third frame."""
    frames = iter(range(3))

    def sample(self: Sampler) -> None:
        if next(frames) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Sampler, "sample", sample)
    assert call("profile", "net.onnx", "-o", "new.toml") == (130, "", "interrupted\n")
    assert [path.name for path in Path().iterdir()] == ["net.onnx"]


def test_what_is_not_written_is_not_measured(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sampler, "sample", lambda self: pytest.fail("measured"))
    Path("folder.toml").mkdir()
    assert call("profile", "net.onnx", "-o", "folder.toml") == (
        1,
        "",
        "folder.toml: cannot be written: Is a directory\n",
    )


def test_devices_are_listed_and_shown(call: Any) -> None:
    code, out, _ = call("devices")
    assert code == 0 and "jetson-tx2-sweep" in out and "not measured yet" in out
    code, out, _ = call("devices", "cortex-m7")
    assert code == 0 and "512 KiB" in out and "datasheet" in out
    assert {entry["name"] for entry in json.loads(call("devices", "--json")[1])} >= {
        "jetson-nano",
        "cortex-m7",
    }
    assert (
        json.loads(call("devices", "cortex-m7", "--json")[1])["memory"]["usable"]["unit"] == "KiB"
    )


def test_analyze_prints_memory_times_and_notes(call: Any) -> None:
    code, out, _ = call("analyze", "net.onnx", "--device", "jetson-tx2")
    assert code == 0
    for said in (
        "memory     fits",
        "sequential ",
        "pipelined  ",
        "energy     at most",
        "note       ",
    ):
        assert said in out
    assert "peak_live" in call("analyze", "net.onnx")[1]
    out = call("analyze", "zoo:ds_cnn", "--device", "cortex-m7")[1]
    assert "\nand 1 layer that computes nothing (views)\n" in out


def test_analyze_says_what_would_fit(call: Any) -> None:
    network, heights = csdfgen.load("net.onnx"), ("whole", 8, 4, 2, 1)
    sizes = {rows: account_memory(csdfgen.plan(network, rows=rows)).total for rows in heights}
    low, whole = min(sizes, key=sizes.__getitem__), sizes["whole"]
    room = sizes[low]
    text = profile_to_toml(device("jetson-nano")).replace(
        'value = 3, unit = "GiB"', f'value = {room}, unit = "B"'
    )
    Path("tiny.toml").write_text(text)
    code, out, _ = call("analyze", "net.onnx", "--device", "tiny.toml", "--rows", "whole")
    assert (
        code == 0
        and f"memory     does not fit: arena, outputs, constants and program take {whole:,} bytes"
        in out
    )
    assert (
        f"usable are {room:,} " in out
        and f"--rows {low} would fit, the tallest of 1, 2, 4, ..., whole" in out
    )
    assert json.loads(
        call("analyze", "net.onnx", "--device", "tiny.toml", "--rows", "whole", "--json")[1]
    )["device"]["rows_that_fit"] == str(low)


REFUSED = [
    (("analyze", "net.onnx", "--device", "jetson-tx3"), "jetson-tx3: is not a known device"),
    (("devices", "mine.toml"), "mine.toml: cannot be read"),
    (("analyze", "net.onnx", "--csv", "x.csv"), "--csv writes the layers' times"),
    (("profile", "net.onnx", "--heights", "1,x"), "--heights 1,x: whole numbers of rows above 0"),
    (("profile", "net.onnx", "-o", "host.json"), "host.json: a profile is written as .toml"),
    (
        ("profile", "net.onnx", "-o", "none/host.toml"),
        "none/host.toml: cannot be written: No such file",
    ),
    (("profile", "other.onnx"), "other.onnx: does not exist"),
    (("profile", "zoo:nope"), "zoo:nope: the zoo has no network of that name; the nearest is unet"),
    (("profile", "a.toml"), "a.toml: is damaged or not a valid ONNX file"),
    (
        ("analyze", "net.onnx", "--device", "a.toml", "--csv", "none/x.csv"),
        "none/x.csv: cannot be written",
    ),
    (("profile", "graph.xml"), "graph.xml: is a graph"),
    (("profile", "--diff", "a.toml", "a.toml"), "a.toml: has no measured layers"),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED)
def test_wrong_use_is_told_in_one_line(call: Any, arguments: tuple[str, ...], said: str) -> None:
    write_profile("a.toml", device("jetson-nano"))
    code, out, err = call(*arguments)
    assert code == 1 and out == "" and err.count("\n") == 1
    assert said in err


# The benchmark ----------------------------------------------------------------------------------


@pytest.mark.networks
def test_the_benchmark_splits_the_error_of_a_frame_by_layer_shape() -> None:
    with threadpool_limits(1):
        results = list(bench_profile.measure("resnet8", repeats=3))
    assert [one.height for one in results] == [1, 4, "auto"]
    for one in results:
        assert any(share.key.startswith("Conv+Relu 1x3x32x32") for share in one.shares)
        assert sum(share.firings for share in one.shares) < 2 * one.processor
        assert [abs(share.off) for share in one.shares] == sorted(
            (abs(share.off) for share in one.shares), reverse=True
        )


def test_the_benchmark_explains_what_is_not_within_the_bound() -> None:
    near, far = (
        bench_profile.Share("Relu 1x8 -> 1x8", 3e-3, 3.1e-3),
        bench_profile.Share("Conv 1x3 [8x3] -> 1x8", 9e-3, 5e-3),
    )
    within = bench_profile.Result("fine", 1, 10, 12e-3, 11e-3, 11e-3, (near,))
    off = bench_profile.Result("slow", "auto", 10, 12e-3, 10e-3, 10e-3, (far, near))
    lines = bench_profile.table((within, off))
    assert (
        "- slow at auto: +20.0%, of which +39.0% are the lines: Conv 1x3 [8x3]: 9.00 for 5.00 ms; Relu 1x8: "
        in "\n".join(lines)
    )
    assert not any(line.startswith("- fine") for line in lines)
    assert lines[-1].startswith("1 of 2 within 15%, largest 20.0%")
