"""Device profiles: what may be written down, how it is refused, and what a frame takes by each kind
of cost.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import csdfgen
from csdfgen.devices.catalogue import device, device_names
from csdfgen.devices.files import profile_from_toml, profile_to_toml
from csdfgen.devices.fitting import fit_line
from csdfgen.devices.measure import sample_network
from csdfgen.devices.memory import account_device_memory, demands, tallest_height
from csdfgen.devices.model import Estimate, estimate, stages
from csdfgen.devices.profile import ORIGINS, DeviceProfile, LayerCost, Quantity, Series
from csdfgen.devices.work import kernel_class, layer_key
from csdfgen.errors import InputError
from csdfgen.model.options import PlanOptions
from tests.planning import plan_of
from tests.small_models import residual_classifier

SHIPPED = (
    "cortex-m7",
    "jetson-nano",
    "jetson-orin-nano",
    "jetson-tx2",
    "jetson-tx2-sweep",
    "jetson-xavier-nx",
    "native-core",
    "numpy-core",
    "raspberry-pi-4",
    "tesla-k80",
)

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "devices.md"


def example() -> str:
    """The profile that docs/devices.md shows."""
    (text,) = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    return text


def read(text: str) -> DeviceProfile:
    return profile_from_toml(text.encode(), "board.toml")


def number(value: str, unit: str, origin: str = "published") -> str:
    return f'{{ value = {value}, unit = "{unit}", origin = "{origin}", source = "sheet" }}'


def frame(profile: DeviceProfile, rows: int | str = 1, fuse: str = "none") -> Estimate:
    return estimate(
        csdfgen.plan(csdfgen.load(residual_classifier()), rows=rows, fuse=fuse), profile
    )


# What is shipped --------------------------------------------------------------------------------


def test_all_profiles_are_shipped() -> None:
    assert device_names() == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_writing_and_reading_a_profile_gives_it_again(name: str) -> None:
    profile = device(name)
    assert profile.name == name
    again = read(profile_to_toml(profile))
    assert profile_to_toml(again) == profile_to_toml(profile)


@pytest.mark.parametrize("name", SHIPPED)
def test_no_board_is_claimed_as_measured(name: str) -> None:
    assert "measured" in ORIGINS
    assert '"measured"' not in profile_to_toml(device(name))


def test_the_published_model_counts_as_the_base_paper_does() -> None:
    """As Table III was counted (docs/paper.md): ms = perf * 1e-10 * operations, and 5 us a phase of
    what is not free.
    """
    found = {layer.name: layer for layer in frame(device("jetson-tx2"), rows=1).layers}
    macs = 16 * 12 * 8 * 3 * 9
    assert found["conv1"].phases == 16
    assert found["conv1"].seconds == pytest.approx(122e-13 * macs + 16 * 5e-6)
    assert found["pool"].seconds == pytest.approx(33e-13 * 8 * 8 * 6 + 8 * 5e-6)
    assert found["relu1"].seconds == found["add"].seconds == 0
    assert found["conv3"].how == "Conv 1x1" and found["conv3"].origin == "published"


def test_small_products_leave_a_gpu_idle() -> None:
    """conv1 of 16x12 pixels and 8 channels: three blocks of 64 pixels, of which each is an eighth full."""
    k80 = device("tesla-k80")
    (conv1,) = [one for one in frame(k80, rows="whole").layers if one.name == "conv1"]
    assert conv1.seconds == pytest.approx(5e-6 + 2 * 64 * 64 * 27 * 13 / 2795.52e9)
    assert k80.processor.busy(192, 8) == pytest.approx(192 * 8 / (13 * 64 * 64))
    assert device("jetson-nano").processor.busy(192, 8) == 1
    assert k80.processor.busy(64 * 13, 128, groups=2) == 1  # 26 blocks of 64x64


# What is refused --------------------------------------------------------------------------------

MEMORY = "usable = " + '{ value = 4, unit = "MiB", origin = "modelled", source = "guess" }'


def usable(*given: str) -> tuple[str, str]:
    """A line of the example, and the same with another number."""
    return MEMORY, f"usable = {number(*given)}"


REFUSED = [
    (MEMORY, "", "'memory.usable' is missing"),
    (*usable("-4", "MiB"), "'memory.usable.value' is -4 MiB; a number above 0 is needed"),
    (
        "[processor]",
        f"[processor]\ntile = {number('64', 'pixels')}",
        "'processor.tile' and 'multiprocessors' describe waves together; one is missing",
    ),
    (*usable("0", "MiB"), "'memory.usable.value' is 0 MiB"),
    (*usable("inf", "MiB"), "'memory.usable.value' is inf"),
    (*usable("nan", "MiB"), "'memory.usable.value' is nan; a number above 0 is needed"),
    (
        *usable(chr(34) + "4" + chr(34), "MiB"),
        "'memory.usable.value' is '4'; a number above 0 is needed",
    ),
    (*usable("1e307", "KiB"), "is 1e+307 KiB; a number from 9.77e-28 to 9.77e+20"),
    (*usable("9" * 400, "MiB"), "is an integer of 1329 bits MiB; a number from"),
    (*usable("9" * 5000, "MiB"), "is not TOML: "),
    (
        MEMORY,
        f"usable = 0x{'f' * 5000}",
        "'memory.usable' is an integer of 20000 bits without unit",
    ),
    (
        "value = 1.6",
        "value = 1e-320",
        "'processor.bandwidth.value' is 1e-320 GB/s; a number from 1e-33 to",
    ),
    (*usable("true", "MiB"), "'memory.usable.value' is True"),
    (MEMORY, "usable = 4", "'memory.usable' is 4 without unit and origin"),
    (
        MEMORY,
        'usable = { value = 4, origin = "modelled", source = "guess" }',
        "'memory.usable.unit' is missing",
    ),
    (*usable("4", "s"), "'memory.usable.unit' is 's'; one of B, kB"),
    (
        MEMORY,
        'usable = { value = 4, unit = "MiB", source = "guess" }',
        "'memory.usable.origin' is missing",
    ),
    (*usable("4", "MiB", "heard"), "'memory.usable.origin' is 'heard'; one of measured"),
    (MEMORY, MEMORY.replace('"guess"', '"memory"'), "'memory.usable.source' is 'memory'"),
    (*usable("9", "MiB"), "'memory.usable' is 9 MiB, more than the total of 8 MiB"),
    ("peak = ", "paek = ", "'processor.paek' is"),
    ("value = 1, unit", "value = 1.5, unit", "'processor.cores' is 1.5 cores; a whole number"),
    ('"csdfgen-device"', '"csdfgen-graph"', "'format' is 'csdfgen-graph'"),
    ("version = 1", "version = 2", "'version' is 2; this program reads up to 1"),
    ("peak = ", "power = ", "'processor.power.unit' is 'GFLOP/s'; one of W"),
    ("[memory]", "[memory", "is not TOML"),
]


@pytest.mark.parametrize(("old", "new", "said"), REFUSED)
def test_a_wrong_profile_is_refused_with_file_key_and_value(old: str, new: str, said: str) -> None:
    text = example()
    assert text.count(old) == 1
    with pytest.raises(InputError) as refused:
        read(text.replace(old, new))
    assert str(refused.value).startswith("board.toml: ") and said in str(refused.value)
    assert "\n" not in str(refused.value)


HEAD = b'format = "csdfgen-device"\nversion = 1\nname = "x"\ntitle = "y"\n'


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "'format' is missing; a string is needed"),
        (b"\xff\xfe", "is not TOML: 'utf-8' codec can't decode"),
        (b"a = " + b"[" * 100_000, "is not TOML: "),
        (HEAD, "'sources' is missing; a table is needed"),
        (HEAD + b"memory = 3\n[sources]\n", "'memory' is 3; a table is needed"),
    ],
    ids=["empty", "not UTF-8", "nested deeply", "no sources", "a number for a table"],
)
def test_what_is_no_profile_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(InputError) as refused:
        profile_from_toml(data, "board.toml")
    assert str(refused.value).startswith(f"board.toml: {said}") and "\n" not in str(refused.value)


def test_a_fitted_slope_of_next_to_nothing_is_read() -> None:
    cost = f'\n[[operator]]\ntypes = ["Relu"]\ntime = {number("1e-30", "ns/input")}\n'
    assert read(example() + cost).operators[0].time.value > 0


def test_costs_of_operators_are_read_as_strictly() -> None:
    cost = f'\n[[operator]]\ntypes = ["Conv"]\ntime = {number("-1", "ns/MAC")}\n'
    with pytest.raises(
        InputError, match=r"'operator\[1\].time.value' is -1 ns/MAC; a number from 0 on is needed"
    ):
        read(example() + cost)


def test_a_profile_without_a_cost_for_an_operator_names_it() -> None:
    lines = [line for line in example().splitlines() if not line.startswith(("peak", "bandwidth"))]
    cost = f'\n[[operator]]\ntypes = ["Conv"]\ntime = {number("1", "ns/MAC")}\n'
    with pytest.raises(InputError, match="has no cost for Add, GlobalAveragePool, MaxPool, Relu"):
        frame(read("\n".join(lines) + cost))


def test_an_unknown_device_suggests_names() -> None:
    with pytest.raises(InputError, match="did you mean jetson-"):
        device("jetson-tx")
    with pytest.raises(InputError, match="known devices: cortex-m7"):
        device("zzz")


# The model --------------------------------------------------------------------------------------


def test_a_roofline_is_bound_by_arithmetic_or_memory() -> None:
    profile = read(example())
    assert profile.processor.peak is not None and profile.processor.bandwidth is not None
    found = {layer.name: layer for layer in frame(profile, rows="whole").layers}
    macs = 16 * 12 * 8 * 3 * 9
    assert found["conv1"].seconds == pytest.approx(2 * macs / 2.4e9)
    assert found["conv1"].how == "roofline, bound by arithmetic"
    moved = 3 * 4 * 16 * 12 * 8  # two operands and the sum
    assert found["add"].seconds == pytest.approx(moved / 1.6e9)
    assert found["add"].how == "roofline, bound by memory"


def test_launches_are_counted_a_phase() -> None:
    text = example().replace("[processor]", f"[processor]\nlaunch = {number('7', 'us')}")
    one, all_rows = (frame(read(text), rows=rows) for rows in (1, "whole"))
    phases = [sum(layer.phases for layer in found.layers) for found in (one, all_rows)]
    assert sum(layer.launch for layer in one.layers) == pytest.approx(7e-6 * phases[0])
    assert phases[0] > phases[1] and one.seconds > all_rows.seconds


def test_layers_are_dealt_out_to_cores_in_order() -> None:
    times = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]
    assert stages(times, 1) == (31.0,)
    assert max(stages(times, 3)) == 14.0
    assert sum(stages(times, 3)) == 31.0
    assert stages(times, 100)[0] <= 9.0 and stages([], 2) == ()


def test_more_cores_give_more_frames_until_memory_is_the_limit() -> None:
    text = example()
    found = [
        frame(read(text.replace("value = 1, unit", f"value = {cores}, unit"))) for cores in (1, 2)
    ]
    assert found[0].pipelined == pytest.approx(found[0].seconds)
    assert found[1].pipelined < found[0].pipelined
    slow = read(
        text.replace("value = 1, unit", "value = 4, unit").replace("value = 1.6", "value = 0.001")
    )
    assert frame(slow).limit == "the memory that the cores share"


def test_energy_only_where_a_source_gives_a_power() -> None:
    text = example()
    assert frame(read(text)).energy is None
    found = frame(read(text.replace("[processor]", f"[processor]\npower = {number('2', 'W')}")))
    assert found.energy == pytest.approx(2 * found.seconds)


def test_a_network_that_does_not_fit_is_told_the_height_that_does() -> None:
    network = csdfgen.load(residual_classifier(height=64))
    options = PlanOptions(backend="native")
    heights = ("whole", "32", "16", "8", "4", "2", "1")
    plans = {rows: plan_of(network, replace(options, rows=rows)) for rows in heights}
    sizes = {rows: account_device_memory(plan, None).total for rows, plan in plans.items()}
    whole, least = plans["whole"], min(sizes, key=sizes.__getitem__)
    assert sizes[least] < sizes["whole"]

    def with_room(size: int) -> DeviceProfile:
        return read(example().replace(MEMORY, f"usable = {number(str(size), 'B')}"))

    tight = with_room(sizes[least])
    (need,) = demands(account_device_memory(whole, tight), tight)
    assert (need.needed, need.there, need.fits) == (sizes["whole"], sizes[least], False)
    assert tallest_height(network, tight, options).rows == least
    assert tallest_height(network, with_room(sizes["whole"]), options).rows == "whole"
    none = tallest_height(network, with_room(16), options)
    assert none.rows is None and none.least_needed == sizes[least]


def test_parameters_may_have_a_memory_of_their_own() -> None:
    text = example().replace("[memory]", f"[memory]\nparameters = {number('100', 'B')}")
    plan, profile = csdfgen.plan(csdfgen.load(residual_classifier())), read(text)
    working, read_only = demands(account_device_memory(plan, profile), profile)
    assert working.fits and not read_only.fits and read_only.there == 100


def test_layers_of_equal_shape_have_equal_keys_and_names_do_not_matter() -> None:
    network = csdfgen.load(residual_classifier())
    keys = [layer_key(layer) for layer in network.layers]
    assert len(set(keys)) == len(keys)
    assert keys[0].startswith("Conv 1x3x16x12 [8x3x3x3,8] -> 1x8x16x12 ")
    assert [kernel_class(layer) for layer in network.layers][:3] == ["3x3", "", "3x3"]
    assert not any("conv1" in key for key in keys)


def test_lower_phases_at_an_end_count_for_no_height() -> None:
    """16 rows in phases of 12: the four that are left are no phase of 12, nor of 8."""
    found = sample_network(csdfgen.load(residual_classifier()), (12,), 1, backend="numpy")
    ((point,),) = (points for key, points in found.points.items() if "1x3x16x12 [" in key)
    assert (point.height, point.phases, point.rows) == (12, 1, 12)
    assert point.amount == 12 * 12 * 8 * 27


def test_heights_that_were_measured_twice_count_once() -> None:
    times = Series((2.0, 6.0, 4.0), "us", (2e-6, 6e-6, 4e-6), "measured", "frames")
    none = Quantity(0.0, "us", 0.0, "measured", "fit")
    cost = LayerCost("key", none, none, none, (2, 4, 4), times, times, (1,), times)
    assert cost.seconds(3) == pytest.approx((2e-6 + 5e-6) / 2)
    assert cost.seconds(4) == pytest.approx(5e-6) and cost.seconds(8) == pytest.approx(10e-6)


def test_a_line_is_found_again_and_never_goes_below_zero() -> None:
    fit = fit_line([1, 2, 5, 9], [3e-6 + 2e-6 * n for n in (1, 2, 5, 9)])
    assert (
        fit.launch == pytest.approx(3e-6)
        and fit.slope == pytest.approx(2e-6)
        and fit.largest < 1e-9
    )
    assert fit_line([1, 2, 4], [1.0, 3.0, 7.0]).launch == 0
    assert fit_line([1, 2, 4], [3.0, 2.0, 1.0]).slope == 0


def test_a_quantity_prints_as_it_was_written() -> None:
    assert str(Quantity(8, "GiB", 8 * 2**30, "published", "sheet")) == "8 GiB"
