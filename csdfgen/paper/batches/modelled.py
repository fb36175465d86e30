"""How much do batches of different layers gain on a modelled K80? Figures 7 to 9, Tables II and III.

Modelled throughout: the paper prints no times. What is compared with print is who wins, and where more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from csdfgen.paper.batches.memory import BATCHES, MB, make_chain
from csdfgen.paper.batches.networks import c3d
from csdfgen.paper.batches.printed import (
    C3D_WEIGHTS,
    FIGURE_6,
    FIGURE_7,
    FIGURE_9,
    K80_MB,
    MEMORIES,
    REQUESTS,
    TABLE_2,
    TABLE_3,
    VIDEO_UNIT_MB,
)
from csdfgen.paper.batches.times import model_times
from csdfgen.paper.cells import Cell
from schedules.batches.baselines import plan_fixed, plan_greedy
from schedules.batches.planning import PRINTED_UNIT, plan_cheapest
from schedules.batches.plans import ChainPlan
from schedules.batches.replay import Replay, replay
from schedules.batches.tables import Rule, Tables

NETWORKS = tuple(TABLE_2)

_TIMES = "modelled: the paper prints no layer times"


@dataclass(frozen=True, slots=True)
class Point:
    """A network with a request in some memory. Times are ms an image; None: no plan.

    fixed: of the largest uniform batch, which is `batch`; algorithm_1: as printed, at multiples of 2 MB
    and for the request as a whole; ours: in rounds of `rounds` images.
    """

    network: str
    images: int
    memory_mb: int
    batch: int
    fixed: float | None
    greedy: float | None
    algorithm_1: float | None
    ours: float | None
    rounds: tuple[int, ...]

    @property
    def gain(self) -> float:
        """Percent of the baseline's time per image that ours saves."""
        assert self.fixed is not None and self.ours is not None
        return 100 * (1 - self.ours / self.fixed)


@cache
def model_tables(network: str, rule: Rule, unit: int = 1) -> Tables:
    """For up to 12 images and 40 MB."""
    return Tables(make_chain(network, model_times()), BATCHES, MEMORIES[-1] * MB, rule, unit=unit)


@cache
def plan_request(network: str, images: int, memory_mb: int) -> ChainPlan | None:
    """Our plan of a request; too large a network to be searched."""
    tables = model_tables(network, "gathering")
    return plan_cheapest(tables.chain, images, memory_mb * MB, searched=0, tables=tables)


@cache
def _point(network: str, images: int, memory_mb: int) -> Point:
    memory = memory_mb * MB
    as_printed = model_tables(network, "printed", PRINTED_UNIT)
    chain = as_printed.chain
    base, ours = plan_fixed(chain, images, memory), plan_request(network, images, memory_mb)
    found = as_printed.cost(images, memory)
    return Point(
        network,
        images,
        memory_mb,
        0 if base is None else base.rounds[0],
        _ms(base),
        _ms(plan_greedy(chain, images, memory)),
        None if found == float("inf") else 1e3 * found / images,
        _ms(ours),
        () if ours is None else ours.rounds,
    )


def _ms(plan: ChainPlan | None) -> float | None:
    return None if plan is None else 1e3 * plan.cost_per_image


def figure_7_points() -> tuple[Point, ...]:
    """Four networks, requests of 12."""
    return tuple(_point(name, BATCHES, memory) for name in NETWORKS for memory in MEMORIES)


def figure_8_points() -> tuple[Point, ...]:
    """GoogleNet, requests of other sizes."""
    return tuple(_point("GoogleNet", images, memory) for images in REQUESTS for memory in MEMORIES)


def point_json(figure: str, point: Point) -> dict[str, Any]:
    """A point as JSON values."""
    return {"table": figure, "verdict": "modelled", **asdict(point), "gain": point.gain}


def modelled_tables() -> Iterator[Cell]:
    """Gains compared with Table II, what holds of them, and batches compared with Figures 7 and 9 and Table III."""
    yield from _gains()
    yield from _trends()
    yield from _figure_6()
    yield from _caption()
    yield from _figure_9()
    yield from _left_over()


def _gains() -> Iterator[Cell]:
    for name, printed in TABLE_2.items():
        for column, value, ours in zip(
            ("below 30 MB", "above 35 MB"), printed, _largest(name), strict=True
        ):
            yield Cell("Table II", name, column, "%", value, ours, 2, _TIMES)


def _largest(network: str) -> tuple[float, float]:
    """Largest gains below 30 MB and above 35 MB."""
    points = [point for point in figure_7_points() if point.network == network]
    return (
        max(point.gain for point in points if point.memory_mb < 30),
        max(point.gain for point in points if point.memory_mb > 35),
    )


def _trends() -> Iterator[Cell]:
    """How often what the paper says of its curves does not hold of ours."""
    points = (*figure_7_points(), *figure_8_points())
    gains = {name: _largest(name) for name in NETWORKS}
    others = [gains[name] for name in NETWORKS if name != "MobileNet-v1"]
    behind = {
        f"of {len(points)} points, slower than {said}": sum(
            _slower(point, rule) for point in points
        )
        for rule, said in (
            ("fixed", "the largest uniform batch"),
            ("greedy", "the greedy rule"),
            ("algorithm_1", "Algorithm 1"),
        )
    }
    not_falling = sum(low <= high for low, high in gains.values())
    above = sum(gains["MobileNet-v1"][part] >= one[part] for one in others for part in range(2))
    found = {
        **behind,
        "networks that do not gain more below 30 MB than above 35 MB": not_falling,
        "networks that gain less than MobileNet": above,
    }
    for row, count in found.items():
        yield Cell("section IV", row, "", "", 0, count, 0)
    note = "it would then not gain least"
    row = "MobileNet's gain below 30 MB if depthwise layers read each value once"
    yield Cell("section IV", row, "", "%", None, _gain_without_windows(), 1, note)


def _gain_without_windows() -> float:
    """Of MobileNet, the largest below 30 MB."""
    chain = make_chain("MobileNet-v1", model_times(windows=False))
    sizes = [memory * MB for memory in MEMORIES if memory < 30]
    tables = Tables(chain, BATCHES, max(sizes))
    gains = []
    for memory in sizes:
        base = plan_fixed(chain, BATCHES, memory)
        ours = plan_cheapest(chain, BATCHES, memory, searched=0, tables=tables)
        assert base is not None and ours is not None
        gains.append(100 * (1 - ours.cost / base.cost))
    return max(gains)


def _slower(point: Point, rule: str) -> bool:
    theirs = getattr(point, rule)
    return theirs is not None and (point.ours is None or point.ours > theirs * (1 + 1e-9))


CLIPS = (
    (16, 224, 224), (20, 224, 224), (24, 224, 224), (28, 224, 224), (32, 224, 224),
    (16, 240, 256), (16, 240, 320),
)  # fmt: skip
"""Frames, rows and columns, between the ends of Figure 6."""


def _figure_6() -> Iterator[Cell]:
    """C3D in the memory of a K80: requests of 12 clips, compared with the largest uniform batch, and with single clips."""
    memory, gains = K80_MB * MB, []
    weights = sum(layer.weights for layer in c3d(16, 112, 112)) / 1e6
    note = "of clips of 112x112; the first classifier grows with them"
    yield Cell("Figure 6", "C3D", "weights, millions", "", C3D_WEIGHTS, weights, 0, note)
    for clip in CLIPS:
        chain = make_chain(c3d(*clip), model_times())
        base = plan_fixed(chain, BATCHES, memory)
        tables = Tables(chain, BATCHES, memory, unit=VIDEO_UNIT_MB * MB)
        ours = plan_cheapest(chain, BATCHES, memory, searched=0, tables=tables)
        assert base is not None and ours is not None
        alone = BATCHES * sum(layer.costs[0] for layer in chain.layers)
        gains.append([100 * (1 - ours.cost / cost) for cost in (base.cost, alone)])
        note = f"largest uniform batch {base.rounds[0]}"
        sizes = "x".join(map(str, clip))
        yield Cell("Figure 6", f"C3D, {sizes}", "gain", "%", None, gains[-1][0], 1, note)
    whole, single = map(max, zip(*gains, strict=True))
    note = (
        f"not reproduced: clips fill a K80 at any batch (compared with single clips {single:.1f} %); that cuDNN "
        "changes "
        "algorithms if workspaces do not fit is not modelled"
    )
    yield Cell("Figure 6", "C3D", "largest gain", "%", FIGURE_6, whole, 0, note)


def _caption() -> Iterator[Cell]:
    for memory, (largest, _) in FIGURE_7.items():
        calls = _replayed("ResNet50", BATCHES, memory).calls
        ours = max(call.images for call in calls)
        yield Cell("Figure 7", f"ResNet50, {memory} MB", "largest batch of a layer", "", largest, ours, 0, _TIMES)  # fmt: skip


def _figure_9() -> Iterator[Cell]:
    calls = _replayed("GoogleNet", BATCHES, 20).calls
    for name, printed in FIGURE_9.items():
        sizes = [call.images for call in calls if call.layer == name]
        note = f"ours: {'+'.join(map(str, sizes))}"
        yield Cell("Figure 9", name, "largest batch", "", printed, max(sizes), 0, note)


def _left_over() -> Iterator[Cell]:
    """Ours compared with the VBS column of Table III: of the calls of a layer, the one that holds most."""
    calls = _replayed("GoogleNet", BATCHES, 20).calls
    for name, (_, printed) in TABLE_3.items():
        held = max(call.held for call in calls if call.layer == name)
        note = "another plan: the authors' times are not printed"
        yield Cell("Table III", name, "VBS", "MB", printed, 20 - held / MB, 2, note)


@cache
def _replayed(network: str, images: int, memory_mb: int) -> Replay:
    plan = plan_request(network, images, memory_mb)
    assert plan is not None
    return replay(model_tables(network, "gathering").chain, plan)
