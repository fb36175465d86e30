"""Times of stored formats: keys, costs and peaks of their own; formats chosen by predicted time."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from itertools import chain, combinations
from pathlib import Path

import numpy as np
import onnx
import pytest

import csdfgen
from csdfgen.devices.catalogue import device
from csdfgen.devices.files import profile_from_toml, profile_to_toml
from csdfgen.devices.model import estimate, find_rule
from csdfgen.devices.profile import DeviceProfile
from csdfgen.devices.work import float_operator, format_key, layer_key
from csdfgen.errors import InputError
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Network
from csdfgen.model.options import PlanOptions
from csdfgen.precision.choice import Arenas
from csdfgen.precision.noise import Sensitivity
from csdfgen.precision.prepare import prepare_model
from csdfgen.precision.ranges import choose_format
from csdfgen.precision.timing import Times, choose_fastest, choose_least_noise_in_time
from csdfgen.precision.variants import variants
from csdfgen.precision.wish import FORMATS
from csdfgen.precision.writer import convert_to_int8, replace_formats, skeleton
from csdfgen.reading.loader import load
from tests.builder import Graph
from tests.command import Call, refused
from tests.native_steps import compiler_missing

SHAPE = (1, 3, 16, 20)

HEAD = """
format = "csdfgen-device"
version = 1
name = "board"
title = "A board"
[sources]
here = "made up"
[memory]
total = {memory}
usable = {memory}
[processor]
cores = {{ value = 1, unit = "cores", origin = "modelled", source = "here" }}
"""


def number(value: float, unit: str) -> str:
    return f'{{ value = {value}, unit = "{unit}", origin = "modelled", source = "here" }}'


def board(*operators: tuple[str, str, float, float], processor: str = "") -> DeviceProfile:
    """A profile. operators: (operator, formats, ns a MAC or an input, ns a byte moved)."""
    text = HEAD.format(memory=number(1, "MiB")) + processor
    for types, formats, time, access in operators:
        unit = "MAC" if types == "Conv" else "input"
        text += f'\n[[operator]]\ntypes = ["{types}"]\ntime = {number(time, f"ns/{unit}")}\n'
        text += f'formats = "{formats}"\n' if formats else ""
        text += f"access = {number(access, 'ns/B')}\n" if access else ""
    return profile_from_toml(text.encode(), "board.toml")


BOARD = board(
    ("Conv", "", 1.0, 0), ("Conv", "int8", 0.3, 0), ("Conv", "int16", 1.0, 4.0),
    ("Conv", "int8->int16", 1.0, 4.0), ("*", "", 1.0, 0), ("*", "int16", 2.0, 0),
)  # fmt: skip
"""int8 is fast, and each layer that touches int16 is not."""


def a_chain() -> onnx.ModelProto:
    """Convolutions of different widths, and one Add around some."""
    g = Graph()
    a = g.node("Relu", g.conv(g.input("x", SHAPE), 4))
    b = g.conv(g.node("Relu", g.conv(a, 12)), 4)
    return g.model(g.conv(g.node("Relu", g.node("Add", a, b)), 6))


def in_formats(kind: str) -> list[Network]:
    return [load(model) for model in variants(a_chain(), kind)]


def products(network: Network) -> list[Layer]:
    return [layer for layer in network.layers if float_operator(layer.op_type) == "Conv"]


# What a layer is known by ------------------------------------------------------------------------


def test_keys_and_formats_of_layers() -> None:
    """The same Conv is known as another in each format, and by what it reads and makes."""
    networks = [load(a_chain()), *in_formats("float16"), *in_formats("mixed")]
    kinds = {format_key(layer) for network in networks for layer in products(network)}
    assert kinds == {"", "float16", "int8", "int16", "int8->int16", "int16->int8"}
    keys = {layer_key(layer) for network in networks for layer in products(network)}
    found = {
        (layer.output.name.split("_")[0], format_key(layer))
        for network in networks
        for layer in products(network)
    }
    assert len(keys) == len(found)


def test_weights_that_are_wider_than_data_are_told_apart() -> None:
    (narrow,), (wide,) = in_formats("int8"), in_formats("int16")
    for network, apart in ((narrow, True), (wide, False)):
        layer = products(network)[0]
        weights = layer.constants[1].astype(np.int16)
        other = replace(layer, constants={**layer.constants, 1: weights})
        assert (layer_key(other) != layer_key(layer)) == apart
        assert format_key(other).startswith("int16")


def test_every_layer_of_a_chain_is_seen_in_all_formats() -> None:
    g = Graph()
    a = g.conv(g.conv(g.conv(g.input("x", SHAPE), 4), 6), 5)
    seen: dict[tuple[int, ...], set[str]] = {}
    for model in variants(g.model(a), "mixed"):
        for layer in products(load(model)):
            seen.setdefault(layer.output.shape, set()).add(format_key(layer))
    assert len(seen) == 3
    assert all(kinds == {"int8", "int16", "int8->int16", "int16->int8"} for kinds in seen.values())


def test_scales_and_ends_of_integers_change_no_key() -> None:
    """A layer keeps its key when it is calibrated otherwise: a Relu's integers then end elsewhere."""
    model = prepare_model(a_chain())
    found = skeleton(model, convert_to_int8(model, {}))
    keys = []
    for low, high in ((-1.0, 1.0), (-0.1, 7.0)):
        forms = {name: choose_format((low, high), "uint8") for name in found.leaders}
        keys.append([layer_key(one) for one in load(convert_to_int8(model, forms)).layers])
    assert keys[0] == keys[1]


# What it costs -----------------------------------------------------------------------------------


def test_the_nearest_formats_count() -> None:
    """Those that it reads and makes, those that it reads, float32: which is said."""
    (narrow,), (wide,) = in_formats("int8"), in_formats("int16")
    alternating = in_formats("mixed")[2]
    by_formats = {format_key(layer): layer for layer in products(alternating)}
    few = board(("Conv", "", 1.0, 0), ("Conv", "int8", 0.3, 0), ("*", "", 1.0, 0))

    def found(profile: DeviceProfile, layer: Layer) -> str:
        rule = find_rule(profile, layer)
        assert rule is not None
        return rule.formats

    assert found(few, products(narrow)[0]) == "int8"
    assert found(few, by_formats["int8->int16"]) == "int8"
    assert found(few, by_formats["int16->int8"]) == "" == found(few, products(wide)[0])
    assert found(BOARD, by_formats["int8->int16"]) == "int8->int16"
    assert found(BOARD, by_formats["int16->int8"]) == "int16"
    told = {one.how for one in estimate(csdfgen.plan(wide), few).layers}
    assert any(how.startswith("Conv") and how.endswith("int16 as float32") for how in told)


def test_a_peak_of_integers() -> None:
    """A roofline takes it for them alone; without one it says that float32's was taken."""
    rates = f"peak = {number(1, 'MFLOP/s')}\nbandwidth = {number(100, 'GB/s')}\n"
    plain = board(processor=rates)
    fast = board(processor=f"{rates}peak_int8 = {number(0.004, 'GOP/s')}\n")
    for kind, times in (("int8", 4.0), ("int16", 1.0)):
        (network,) = in_formats(kind)
        plan = csdfgen.plan(network)
        before, after = (estimate(plan, one) for one in (plain, fast))
        convs = [
            (a.seconds / b.seconds, b.how)
            for a, b in zip(before.layers, after.layers, strict=True)
            if a.function.startswith(("Conv", "QLinearConv"))
        ]
        assert [ratio for ratio, _ in convs] == pytest.approx([times] * len(convs), rel=1e-6)
        assert all(("as float32" in how) == (kind == "int16") for _, how in convs)


def test_profiles_with_formats_are_read_again() -> None:
    peak = f"peak_int8 = {number(2, 'GOP/s')}\npeak_float16 = {number(2, 'GFLOP/s')}\n"
    for profile in (BOARD, board(("*", "", 1.0, 0), processor=peak)):
        again = profile_from_toml(profile_to_toml(profile).encode(), "board.toml")
        assert (again.operators, again.processor) == (profile.operators, profile.processor)


@pytest.mark.parametrize("word", ["int4", "int8->", "int8->int8", "->int8", "float32->bfloat16"])
def test_formats_that_are_none(word: str) -> None:
    with pytest.raises(InputError, match=r"board.toml: 'operator\[1\]\.formats' is '.*int8->int16"):
        board(("*", word, 1.0, 0))


# Choices -----------------------------------------------------------------------------------------

NOISES = (5.0, 1.0, 3.0, 0.5, 2.0, 8.0, 1.5)


def choices() -> tuple[Arenas, Times, Sensitivity]:
    """Of the chain: each tensor has a noise of its own."""
    model = prepare_model(a_chain())
    found = skeleton(model, convert_to_int8(model, {}))
    narrow, wide = (
        {name: choose_format((-1.0, 1.0), dtype) for name in found.leaders}
        for dtype in ("uint8", "int16")
    )
    noises = {name: 1e-3 * NOISES[k % len(NOISES)] for k, name in enumerate(found.leaders)}
    options = csdfgen.plan(load(a_chain()), backend="numpy").options
    written = convert_to_int8(model, narrow)

    def formats(chosen: frozenset[str]) -> dict[str, Format]:
        return {name: wide[name] if name in chosen else form for name, form in narrow.items()}

    arenas = Arenas(
        lambda chosen: replace_formats(written, formats(chosen)),
        formats,
        lambda _: (),
        tuple(narrow),
        load,
        lambda _: None,
        options,
        BOARD,
    )
    tried = Sensitivity(noises, {}, sum(noises.values()), narrow, 1)
    return arenas, Times(arenas), tried


def all_of(names: tuple[str, ...]) -> list[frozenset[str]]:
    subsets = chain.from_iterable(combinations(names, n) for n in range(len(names) + 1))
    return [frozenset(one) for one in subsets]


def test_times_of_layers_add_up() -> None:
    """What sums of known layers say is what a prediction of the whole network says, nearly; of what was
    predicted exactly.
    """
    arenas, times, _ = choices()
    times.look_around()
    whole = frozenset(arenas.names)
    for wide in (frozenset[str](), whole):
        assert times.about(wide) == pytest.approx(times.of(wide), rel=1e-9)
        assert arenas.seconds(wide) == pytest.approx(times.of(wide), rel=0.02)
    assert times.of(whole) > 2 * times.of(frozenset())
    for wide in all_of(arenas.names)[::7]:
        about = times.about(wide)
        assert about == pytest.approx(times.of(wide), rel=0.1)
        assert times.about(wide) == pytest.approx(times.of(wide), rel=1e-9)


@pytest.mark.networks
def test_no_choice_is_much_better() -> None:
    """Against all that there are: within the time, noise within a tenth of the least, mostly the least; of a
    quality, time within a fiftieth of the shortest.
    """
    arenas, times, tried = choices()
    every = [
        (times.of(wide), tried.noise(arenas.formats(wide)), wide) for wide in all_of(arenas.names)
    ]
    arenas, _, tried = choices()
    low, high = min(every)[0], max(every)[0]
    best = 0
    for part in (0.1, 0.3, 0.5, 0.7, 0.9):
        allowed = low + part * (high - low)
        found = choose_least_noise_in_time(arenas, Times(arenas), tried, allowed, None)
        least = min(noise for seconds, noise, _ in every if seconds <= allowed)
        assert arenas.seconds(found.wide) <= allowed
        assert found.noise <= 1.5 * least
        best += found.noise <= 1.001 * least
        quick = choose_fastest(arenas, Times(arenas), tried, found.sqnr_db)
        shortest = min(seconds for seconds, noise, _ in every if noise <= found.noise)
        assert quick.noise <= found.noise * (1 + 1e-9)
        assert Times(arenas).of(quick.wide) <= 1.05 * shortest
    assert best >= 3


def test_both_limits_are_kept() -> None:
    arenas, times, tried = choices()
    none = frozenset[str]()
    limit = int(1.3 * arenas.settled(none))
    allowed = (times.of(none) + times.of(frozenset(arenas.names))) / 2
    both = choose_least_noise_in_time(arenas, times, tried, allowed, limit)
    assert both.arena <= limit and arenas.seconds(both.wide) <= allowed
    for one in (
        choose_least_noise_in_time(arenas, times, tried, allowed, None),
        choose_least_noise_in_time(arenas, times, tried, 1.0, limit),
    ):
        assert one.noise <= both.noise
    with pytest.raises(InputError, match=r"an arena of .* bytes, 10 are allowed"):
        choose_least_noise_in_time(arenas, times, tried, allowed, 10)


def test_an_operator_without_a_cost_is_named() -> None:
    arenas, _, tried = choices()
    alone = replace(arenas, profile=replace(BOARD, operators=BOARD.operators[:1]))
    with pytest.raises(InputError, match=r"board.toml: has no cost for .*QLinearAdd"):
        choose_least_noise_in_time(alone, Times(alone), tried, 1.0, None)


@pytest.mark.networks
@pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")
def test_limits_of_time_and_of_memory_know_of_each_other() -> None:
    """A choice that a budget of memory finds is one that the limit of its time may have, and the other way round."""
    rng = np.random.default_rng(0)
    images = [{"image": rng.standard_normal((1, 3, 32, 32)).astype(np.float32)} for _ in range(2)]
    made = partial(
        csdfgen.quantize, "zoo:resnet8", images, format="mixed", device="native-core",
        planning=PlanOptions(backend="native"),
    )  # fmt: skip
    small = made(memory="25KiB")
    quick = made(latency=1.01 * small.predicted_seconds)
    assert small.predicted_sqnr_db is not None and quick.predicted_sqnr_db is not None
    assert quick.predicted_sqnr_db >= small.predicted_sqnr_db
    if quick.plan.figures["arena"] <= 25 * 1024:
        assert quick.predicted_sqnr_db == small.predicted_sqnr_db


# As typed ----------------------------------------------------------------------------------------


@pytest.fixture
def at_work(call: Call) -> Call:
    onnx.save(a_chain(), "model.onnx")
    Path("board.toml").write_text(profile_to_toml(BOARD))
    rng = np.random.default_rng(0)
    np.savez("x.npz", x=rng.uniform(-1, 1, (5, *SHAPE[1:])).astype(np.float32))
    return call


MIXED = (
    "quantize",
    "model.onnx",
    "--calibrate",
    "x.npz",
    "--format",
    "mixed",
    "--device",
    "board.toml",
)


@pytest.mark.networks
def test_latency_and_the_fastest(at_work: Call) -> None:
    """Noise falls with the time that is allowed; what is least is said."""
    last = None
    for wishes in (
        ("--min-sqnr", "5", "--goal", "speed"),
        ("--latency", "0.3ms"),
        ("--latency", "1s"),
    ):
        found = at_work(*MIXED, *wishes, "-o", "out.onnx", "--json").json
        told = at_work("analyze", "out.onnx", "--device", "board.toml", "--json").json
        assert found["device"] == "board"
        milliseconds = told["device"]["sequential"]["latency_ms"]
        assert 1e3 * found["predicted_seconds"] == pytest.approx(milliseconds, rel=1e-6)
        if last is not None:
            assert found["predicted_seconds"] >= last["predicted_seconds"]
            assert found["predicted_sqnr_db"] > last["predicted_sqnr_db"]
        last = found
    assert last is not None and last["formats"].get("uint8", 0) < 3
    line = refused(at_work(*MIXED, "--latency", "1us", "-o", "none.onnx"))
    least = line.partition("ask for --latency ")[2].partition(" ")[0]
    assert "predicted to take" in line and not Path("none.onnx").exists()
    assert at_work(*MIXED, "--latency", least, "-o", "out.onnx").code == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--format", "int8", "--latency", "1s", "--device", "board.toml"),
            "--latency is for --format mixed",
        ),
        (
            ("--format", "mixed", "--latency", "1s"),
            "name it with --device (csdfgen devices lists them)",
        ),
        (
            ("--format", "mixed", "--latency", "1", "--min-sqnr", "9", "--device", "board.toml"),
            "--goal speed",
        ),
        (("--format", "mixed", "--goal", "speed"), "--goal speed is for --min-sqnr"),
        (("--format", "mixed", "--latency", "fast", "--device", "board.toml"), "fast"),
        (
            ("--format", "mixed", "--latency", "1s", "--device", "bord"),
            "bord: is not a known device",
        ),
    ],
)
def test_refused_in_a_line(at_work: Call, options: tuple[str, ...], said: str) -> None:
    line = refused(at_work("quantize", "model.onnx", "--calibrate", "x.npz", *options))
    assert said in line and "--tuning" not in line  # which quantize does not take


@pytest.mark.networks
def test_a_profile_of_formats_predicts_them(at_work: Call) -> None:
    """Layers of every choice are then predicted by their own shape."""
    measure = ("profile", "model.onnx", "--backend", "numpy", "--heights", "1,4", "--repeats", "2")
    assert at_work(*measure, "--formats", "mixed", "-o", "host.toml").code == 0
    for kind in FORMATS:
        made = at_work(
            "quantize", "model.onnx", "--calibrate", "x.npz", "--format", kind, "-o", "o.onnx"
        )
        assert made.code == 0
        told = at_work("analyze", "o.onnx", "--device", "host", "--json").json
        origins = [one["how"] for one in told["device"]["layers"] if "Conv" in one["operator"]]
        own = [how == "its own shape" for how in origins]
        if kind == "mixed":  # weights of 16 bits beside int8 are told by the kind of layer
            assert any(own)
        else:
            assert own and all(one == (kind not in ("float16", "bfloat16")) for one in own)
    assert "name one" in refused(at_work("profile", "--formats", "int8", "-o", "n.toml"))
    line = refused(at_work("profile", "o.onnx", "--formats", "int8", "-o", "n.toml"))
    assert json.dumps("o.onnx")[1:-1] in line


def test_times_of_formats_are_sane_on_shipped_cores() -> None:
    """int8 takes less than float32 there, int16 more; float16 has no kernels of its own."""
    seconds = {}
    for kind in ("int8", "int16", "float16"):
        (network,) = in_formats(kind)
        seconds[kind] = estimate(csdfgen.plan(network), device("native-core")).seconds
    assert seconds["int8"] < seconds["int16"] < seconds["float16"]


def test_formats_that_a_network_has_none_of() -> None:
    g = Graph()
    with pytest.raises(InputError, match="no operator whose tensors could be integers"):
        list(variants(g.model(g.node("Neg", g.input("x", SHAPE))), "int8"))
