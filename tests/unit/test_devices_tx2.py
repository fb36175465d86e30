"""The TX2 profile and tables that are shipped follow from the published files; skipped where these
are not at hand.
"""

from __future__ import annotations

import statistics

import pytest

from benchmarks.fit_tx2 import (
    LAYERS_PLOT,
    PAGE,
    PROFILE,
    compared,
    fit_table,
    fits,
    layers_picture,
    swept_profile,
)
from benchmarks.tx2_layers import DATA, NETWORKS, sweep
from benchmarks.tx2_plot import HIGH, LOW, PANELS
from csdfgen.devices.catalogue import device
from csdfgen.devices.files import profile_to_toml

pytestmark = pytest.mark.skipif(
    not DATA.exists(), reason="the TX2 figures of others are not at hand"
)


def test_the_shipped_sweep_profile_is_the_fit() -> None:
    found = fits()
    assert {kernel: len(points) for kernel, points in sweep().items()} == {
        "1x1": 100,
        "3x3": 246,
        "5x5": 200,
        "7x7": 100,
    }
    assert PROFILE.read_text() == profile_to_toml(swept_profile(found)), (
        "python -m benchmarks.fit_tx2 writes it"
    )
    assert "\n".join(fit_table(found)) in PAGE.read_text()


@pytest.mark.networks
def test_what_the_page_says_of_the_layers_holds() -> None:
    found = compared((device("jetson-tx2"), device("jetson-tx2-sweep")))
    assert len(NETWORKS) == 9 and len(found) == 401

    def ratio(kind: str, profile: str = "published") -> float:
        members = [one for one in found if one.row.kind == kind]
        return sum(getattr(one, profile) for one in members) / sum(one.row.ms for one in members)

    assert ratio("FC") == pytest.approx(1, abs=0.05)
    assert 4 < ratio("3x3") < 5
    assert max(ratio("pool"), ratio("BN"), ratio("LRN")) < 1 / 6
    for kind in ("1x1", "5x5"):
        distances = [abs(one.published / one.row.ms - 1) for one in found if one.row.kind == kind]
        assert statistics.median(distances) < 0.2
    shorter = sum(one.row.ms < 0.5 for one in found)
    assert shorter > len(found) / 2
    rates = {one.row.network: 0.0 for one in found}
    for one in found:
        if one.row.kind == "3x3":
            rates[one.row.network] = max(
                rates[one.row.network], one.row.works[0].operations / one.row.ms * 1e3
            )
    assert rates["vgg19caffe9"] == pytest.approx(0.41e12, rel=0.02) and rates[
        "yolov2"
    ] == pytest.approx(1.5e12, rel=0.02)


@pytest.mark.networks
def test_the_picture_of_the_layers_is_the_one_that_is_drawn() -> None:
    found = compared((device("jetson-tx2"), device("jetson-tx2-sweep")))
    assert LAYERS_PLOT.read_bytes() == layers_picture(found), (
        "python -m benchmarks.fit_tx2 draws it anew"
    )


@pytest.mark.networks
def test_every_layer_is_a_dot_inside_its_panel() -> None:
    """Layers of a kind without a panel, or off the scale, would be lost without a word."""
    found = compared((device("jetson-tx2"), device("jetson-tx2-sweep")))
    kinds = [kind for _, members in PANELS for kind in members]
    assert sorted({one.row.kind for one in found}) == sorted(kinds)
    for one in found:
        assert min(one.row.ms, one.published, one.swept) > LOW
        assert max(one.row.ms, one.published, one.swept) < HIGH
